"""A file is written whole or not at all, and nothing else is left, however the writer ends.

What is being written has no name yet, where the system can do that (Linux): if the process is killed, it is gone. Else,
and for folders of pieces, it is a part beside the target, ``.NAME.xxxxxxxx.part``, which the writer holds locked; a
part that nobody holds is of a writer that was killed, and the next one to the same target removes it.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, where parts of killed writers stay
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to, whose content takes the place of `path` when the block ends well.

    The last step is one rename; an error, Ctrl-C or a kill leaves what was at `path` before, and nothing else. A file
    that is replaced keeps its permissions; a symbolic link goes on pointing at the file that it names. What cannot be
    renamed over, as ``/dev/stdout`` or a pipe, is written directly.

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
    _remove_dead_parts(target)
    try:
        handle, part = _unnamed(target) or _named(target)
    except OSError as error:
        raise type(error)(f"{path} cannot be written: {error.strerror}.") from error
    try:
        yield part
        with open(part, "rb+") as stream:
            os.fsync(stream.fileno())
        os.chmod(part, _permissions(target))
        if part.parent != target.parent:  # it has no name yet
            part = _linked(handle, target)
        os.replace(part, target)
    except BaseException as error:
        if part.parent == target.parent:
            part.unlink(missing_ok=True)
        elif isinstance(error, OSError) and error.filename == str(part):
            error.filename = os.fspath(path)
        raise
    finally:
        os.close(handle)
    _sync_folder(target.parent)


@contextlib.contextmanager
def folder_beside(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder for pieces of what is to be written to `path`; gone in the end, or at the next `atomic_path` to it."""
    target = Path(os.path.realpath(path))
    folder = Path(tempfile.mkdtemp(prefix=_prefix(target), suffix=".part", dir=target.parent))
    handle = os.open(folder, os.O_RDONLY) if fcntl is not None else None
    try:
        _lock(handle)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def _unnamed(target: Path) -> tuple[int, Path] | None:
    """A file in the target's folder that has no name, and the path by which it can be opened; None if there can't be
    one here.
    """
    if not hasattr(os, "O_TMPFILE"):
        return None
    try:
        handle = os.open(target.parent, os.O_TMPFILE | os.O_RDWR, 0o600)
    except OSError:  # not every file system can; any other reason comes again
        return None
    path = Path(f"/proc/self/fd/{handle}")
    if path.exists():
        return handle, path
    os.close(handle)
    return None


def _linked(handle: int, target: Path) -> Path:
    """Give an unnamed file a name, for the moment before it is renamed: a link cannot replace a file."""
    part = target.parent / f"{_prefix(target)}{secrets.token_hex(4)}.part"
    # With a folder given, even if it is not used, Python asks for the file and not for the link in /proc.
    os.link(f"/proc/self/fd/{handle}", part, src_dir_fd=handle, follow_symlinks=True)
    return part


def _named(target: Path) -> tuple[int, Path]:
    while True:
        handle, name = tempfile.mkstemp(prefix=_prefix(target), suffix=".part", dir=target.parent)
        _lock(handle)
        if os.path.exists(name):  # else another writer was here before the lock
            return handle, Path(name)
        os.close(handle)


def _prefix(target: Path) -> str:
    return f".{target.name[:100]}."


def _lock(handle: int | None) -> None:
    if fcntl is not None and handle is not None:
        with contextlib.suppress(OSError):  # not every file system can
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _remove_dead_parts(target: Path) -> None:
    """Parts that nobody holds."""
    if fcntl is None:
        return
    ours = re.compile(re.escape(_prefix(target)) + r"[a-z0-9_]{8}\.part")
    with contextlib.suppress(OSError):
        for part in [entry for entry in target.parent.iterdir() if ours.fullmatch(entry.name)]:
            with contextlib.suppress(OSError):
                handle = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(part) if part.is_dir() else part.unlink()
                finally:
                    os.close(handle)


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
