"""Fashion-MNIST, from a folder, from Debian's package, or from OpenML; and the IDX format of its files."""

import gzip
import importlib.util
import os
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ENVIRONMENT_VARIABLE = "MULTIFORM_FASHION_MNIST"
DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")

_SIDE = 28
_N_CLASSES = 10
_N_TRAIN = 60_000
_UNSIGNED_BYTE = 0x08
_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]


def load_fashion_mnist(data_dir: str | os.PathLike[str] | None = None) -> tuple[Images, Labels, Images, Labels]:
    """Load Fashion-MNIST: 60,000 training and 10,000 test images of clothes in 10 classes.

    The first of these that is there is taken, and then must be right: the folder ``data_dir``; the folder that the
    environment variable ``MULTIFORM_FASHION_MNIST`` names; the folder of Debian's package ``dataset-fashion-mnist``;
    :func:`sklearn.datasets.fetch_openml`, which downloads once and keeps a copy.

    Parameters
    ----------
    data_dir : path, default=None
        Folder with the four IDX files ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte``,
        ``t10k-images-idx3-ubyte`` and ``t10k-labels-idx1-ubyte``, plain or as ``.gz``.

    Returns
    -------
    X_train, y_train, X_test, y_test : arrays of shape (60000, 784), (60000,), (10000, 784) and (10000,)
        Grey values, uint8, one row per image; classes 0 to 9, int64.

    Raises
    ------
    FileNotFoundError
        When a named folder lacks a file, or when no source could be reached; the message says what to do.
    ValueError
        When a file is truncated or is something else.

    Notes
    -----
    Fashion-MNIST is by Zalando SE, under the MIT licence.

    Examples
    --------
    >>> from multiform.datasets import load_fashion_mnist
    >>> X_train, y_train, X_test, y_test = load_fashion_mnist()  # doctest: +SKIP
    >>> X_train.shape, X_train.dtype  # doctest: +SKIP
    ((60000, 784), dtype('uint8'))
    """
    if data_dir is not None:
        return _load_folder(Path(data_dir), "data_dir")
    if folder := os.environ.get(ENVIRONMENT_VARIABLE):
        return _load_folder(Path(folder), f"environment variable {ENVIRONMENT_VARIABLE}")
    if DEBIAN_FOLDER.is_dir():
        return _load_folder(DEBIAN_FOLDER, "package dataset-fashion-mnist")
    return _load_openml()


def _load_folder(folder: Path, named_by: str) -> tuple[Images, Labels, Images, Labels]:
    paths = []
    for name in _FILES:
        present = [path for path in (folder / f"{name}.gz", folder / name) if path.is_file()]
        if not present:
            raise FileNotFoundError(
                f"The folder {folder} ({named_by}) has neither {name}.gz nor {name}; it must hold the four IDX files "
                f"of Fashion-MNIST: {', '.join(_FILES)} (each plain or .gz)."
            )
        paths.append(present[0])
    return *_read_part(paths[0], paths[1]), *_read_part(paths[2], paths[3])


def _read_part(images_path: Path, labels_path: Path) -> tuple[Images, Labels]:
    images, labels = read_idx(images_path, n_dimensions=3), read_idx(labels_path, n_dimensions=1)
    if images.shape[1:] != (_SIDE, _SIDE):
        raise ValueError(
            f"{images_path} holds images of {images.shape[1]} x {images.shape[2]} pixels, and those of "
            f"Fashion-MNIST are {_SIDE} x {_SIDE}; replace the file."
        )
    if len(images) != len(labels):
        raise ValueError(
            f"{images_path} holds {len(images)} images and {labels_path} holds {len(labels)} labels; the two files "
            "must be of the same part of the data."
        )
    if len(labels) and labels.max() >= _N_CLASSES:
        raise ValueError(
            f"{labels_path} has the label {labels.max()}, and Fashion-MNIST's are 0 to {_N_CLASSES - 1}; "
            "replace the file."
        )
    return images.reshape(len(images), -1), labels.astype(np.int64)


def read_idx(path: Path, n_dimensions: int) -> NDArray[np.uint8]:
    """Read an array of unsigned bytes with ``n_dimensions`` axes from an IDX file, plain or ``.gz``.

    The header is two zero bytes, the type (8 for unsigned bytes), the number of axes, and one big-endian 32-bit length
    per axis; the array follows in C order and ends the file.
    """
    content = path.read_bytes()
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{path} is not a complete gzip file ({error}); get the file again.") from error
    header = struct.Struct(f">BBBB{n_dimensions}I")
    expected = (0, 0, _UNSIGNED_BYTE, n_dimensions)
    if tuple(content[:4]) != expected:
        raise ValueError(
            f"{path} is not an IDX file of unsigned bytes with {n_dimensions} axes: it must start with the bytes "
            f"{bytes(expected).hex(' ')} and starts with {content[:4].hex(' ') or 'nothing'}; replace the file."
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


def _load_openml() -> tuple[Images, Labels, Images, Labels]:
    from sklearn.datasets import fetch_openml

    # pandas parses the file in seconds; without it scikit-learn's own reader does, in minutes.
    parser = "pandas" if importlib.util.find_spec("pandas") is not None else "liac-arff"
    try:
        X, y = fetch_openml("Fashion-MNIST", version=1, return_X_y=True, as_frame=False, parser=parser)
    except (OSError, ValueError) as error:  # no connection, or OpenML's answer was no data
        raise FileNotFoundError(
            f"Fashion-MNIST was not found: data_dir is not given, the environment variable {ENVIRONMENT_VARIABLE} is "
            f"not set, there is no folder {DEBIAN_FOLDER}, and OpenML gave nothing ({error}). Do one of these: run "
            "`apt install dataset-fashion-mnist` (Debian, Ubuntu); or put the four files of "
            "https://github.com/zalandoresearch/fashion-mnist (folder data/fashion) into a folder and give it as "
            f"data_dir or in {ENVIRONMENT_VARIABLE}; or call again with an internet connection."
        ) from error
    X, y = X.astype(np.uint8), y.astype(np.int64)
    # OpenML has one table, the training images first; they have as many of each class.
    if len(X) <= _N_TRAIN or not np.all(np.bincount(y[:_N_TRAIN]) == _N_TRAIN // _N_CLASSES):
        raise ValueError(
            f"OpenML's Fashion-MNIST does not start with the {_N_TRAIN} training images; give the original "
            "files as data_dir instead."
        )
    return X[:_N_TRAIN], y[:_N_TRAIN], X[_N_TRAIN:], y[_N_TRAIN:]
