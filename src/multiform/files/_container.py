r"""The bytes of a model file: a header of fixed length, then JSON, then arrays.

    offset  length  what
         0       8  ``\x89MFM\r\n\x1a\n``: no text file begins so, and a transfer that changes line ends is noticed
         8       4  format version, little-endian
        12      32  SHA-256 of everything else: the 12 bytes before it and all bytes after it
        44       8  length of the JSON text, little-endian
        52       n  JSON, UTF-8
    52 + n          arrays in the safetensors format, to the end of the file

The first 44 bytes are the same in every version, so that a newer file is told from a damaged one.
"""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import numpy as np

from multiform._typing import Array

FORMAT_VERSION = 2
FIRST_VERSION = 2  # nothing that was released wrote format 1

MAGIC = b"\x89MFM\r\n\x1a\n"
VERSION = struct.Struct("<I")
LENGTH = struct.Struct("<Q")
DIGEST_AT = len(MAGIC) + VERSION.size
BODY_AT = DIGEST_AT + hashlib.sha256().digest_size
JSON_AT = BODY_AT + LENGTH.size

Arrays = dict[str, Array]


class ModelFileError(ValueError):
    """A file that is no model file, or is damaged, or newer than this version of multiform; one sentence says which."""


def damaged(name: str, what: str) -> ModelFileError:
    """The error; `name` is what errors call the file."""
    return ModelFileError(f"{name} is damaged: {what}.")


def pack(header: dict[str, Any], arrays: Arrays) -> bytes:
    """The bytes of a file.

    Examples
    --------
    >>> import numpy as np
    >>> from multiform.files._container import pack, unpack
    >>> header, arrays = unpack(pack({"kind": "none"}, {"a": np.arange(3)}), "here")
    >>> header, arrays["a"]
    ({'kind': 'none'}, array([0, 1, 2]))
    """
    text = json.dumps(header, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    start = MAGIC + VERSION.pack(FORMAT_VERSION)
    body: bytes = LENGTH.pack(len(text)) + text + _safetensors().save(arrays)
    return start + hashlib.sha256(start + body).digest() + body


def unpack(content: bytes, name: str) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays; `name` is what errors call the file."""
    if not content.startswith(MAGIC):
        what = "is empty" if not content else "is not a model file of multiform"
        if 0 < len(content) < len(MAGIC) and MAGIC.startswith(content):
            what = "is truncated"
        raise ModelFileError(f"{name} {what}; `multiform fit` and `multiform.save` write such files.")
    if len(content) < JSON_AT:
        raise ModelFileError(f"{name} is truncated: it ends after {len(content)} bytes. Copy it again from its source.")
    (version,) = VERSION.unpack_from(content, len(MAGIC))
    found = hashlib.sha256(content[:DIGEST_AT])
    found.update(memoryview(content)[BODY_AT:])
    if found.digest() != content[DIGEST_AT:BODY_AT]:
        raise ModelFileError(
            f"{name} is damaged or truncated: its checksum does not agree with its content. "
            "Copy it again from its source."
        )
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{name} has format {version}, and this version of multiform reads formats up to {FORMAT_VERSION}: "
            "install a newer multiform."
        )
    if version < FIRST_VERSION:
        raise ModelFileError(
            f"{name} has format {version}, which no released version of multiform wrote: fit the model again."
        )
    (length,) = LENGTH.unpack_from(content, BODY_AT)
    if length > len(content) - JSON_AT:
        raise damaged(name, f"it says that its description has {length} bytes, which it has not")
    try:
        header = json.loads(content[JSON_AT : JSON_AT + length])
    except (ValueError, RecursionError) as error:
        raise damaged(name, f"its description is not JSON ({error})") from error
    if not isinstance(header, dict):
        raise damaged(name, "its description is not a JSON object")
    library = _safetensors()
    try:
        arrays: Arrays = library.load(content[JSON_AT + length :])
    except Exception as error:  # whatever the library says of bytes that are not its own
        raise damaged(name, f"its arrays cannot be read ({error})") from error
    # Ours to change, as a fitted model's arrays are.
    return header, {key: array if array.flags.writeable else array.copy() for key, array in arrays.items()}


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError as error:
        raise ImportError('Model files need safetensors; install it with pip install "multiform[files]".') from error
    if not np.little_endian:
        raise RuntimeError("Model files are read and written on little-endian machines only.")
    return safetensors.numpy
