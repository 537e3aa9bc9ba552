"""A file is written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to, which takes the place of `path` when the block ends well.

    It stands in the same folder, so that the last step is one rename; an error, or Ctrl-C, removes it, and what was at
    `path` before stays. A file that is replaced keeps its permissions; a symbolic link goes on pointing at the file
    that it names. What cannot be renamed over, as ``/dev/stdout`` or a pipe, is written directly.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from multiform.files import atomic_path
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "answer.txt"
    >>> with atomic_path(target) as path:
    ...     _ = path.write_text("42")
    >>> target.read_text(), [entry.name for entry in target.parent.iterdir()]
    ('42', ['answer.txt'])
    """
    check_writable(path)
    if _is_special(path):
        yield Path(path)
        return
    target = Path(os.path.realpath(path))
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".part", dir=target.parent)
    except OSError as error:
        raise type(error)(f"{path} cannot be written: {error.strerror}.") from error
    os.close(handle)
    part = Path(name)
    try:
        os.chmod(part, _permissions(target))
        yield part
        with open(part, "rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a path that cannot become a file, before the work of hours that is to be written there."""
    target = Path(os.path.realpath(path))
    if _is_special(path):
        return
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {target.parent}.")
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(f"{path} cannot be written: the folder {target.parent} may not be written to.")


def _is_special(path: str | os.PathLike[str]) -> bool:
    """Whether it is there and neither a file nor a folder: a terminal, a pipe, a device."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _permissions(target: Path) -> int:
    """Those of the file that is replaced, else what any new file would get; a temporary file has fewer."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    """So that the rename outlives a power cut; not every system can open a folder."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
