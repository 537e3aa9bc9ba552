"""The IDX format of MNIST and Fashion-MNIST: a header, then the bytes of one array."""

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_UNSIGNED_BYTE = 0x08


def read_idx(path: Path, n_dimensions: int) -> NDArray[np.uint8]:
    """Read an array of unsigned bytes with ``n_dimensions`` axes from an IDX file, plain or ``.gz``.

    The header is two zero bytes, the type (8 for unsigned bytes), the number of axes, and one big-endian
    32-bit length an axis; the array follows in C order and ends the file.
    """
    content = _file_content(path)
    header = struct.Struct(f">BBBB{n_dimensions}I")
    expected = (0, 0, _UNSIGNED_BYTE, n_dimensions)
    if tuple(content[:4]) != expected:
        raise ValueError(
            f"{path} is not an IDX file of unsigned bytes with {n_dimensions} axes: it must start with the "
            f"bytes {bytes(expected).hex(' ')} and starts with {content[:4].hex(' ') or 'nothing'}; "
            "replace the file."
        )
    if len(content) < header.size:
        raise ValueError(f"{path} ends within its header, after {len(content)} bytes; get the file again.")
    shape = header.unpack_from(content)[4:]
    n_expected, n_present = int(np.prod(shape, dtype=object)), len(content) - header.size
    if n_present != n_expected:
        raise ValueError(
            f"{path} is truncated or damaged: its header announces {' x '.join(map(str, shape))} = "
            f"{n_expected} bytes, and {n_present} follow; get the file again."
        )
    return np.frombuffer(content, dtype=np.uint8, offset=header.size).reshape(shape).copy()


def _file_content(path: Path) -> bytes:
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        with gzip.open(path) as stream:
            return stream.read()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is not a complete gzip file ({error}); get the file again.") from error
