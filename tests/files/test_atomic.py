"""A file is written whole or not at all."""

import os
import stat
import subprocess
import sys
import tempfile

import pytest

from multiform.files import _atomic, atomic_path, check_writable, folder_beside


@pytest.fixture(params=["unnamed", "named"])
def either_way(request, monkeypatch):
    """Where a file can be written before it has a name, and where it cannot."""
    if request.param == "named":
        monkeypatch.setattr(_atomic, "_unnamed", lambda target: None)


def test_an_error_leaves_the_old_file(tmp_path, either_way):
    target = tmp_path / "file"
    target.write_text("old")

    def write_half():
        with atomic_path(target) as part:
            part.write_text("half")
            assert target.read_text() == "old"
            raise KeyboardInterrupt("stop")

    with pytest.raises(KeyboardInterrupt, match="stop"):
        write_half()
    assert target.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_permissions_are_those_of_any_new_file_or_of_the_old_one(tmp_path, either_way):
    plain, target = tmp_path / "plain", tmp_path / "file"
    plain.write_text("")
    with atomic_path(target) as part:
        part.write_text("new")
    assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    target.chmod(0o640)
    with atomic_path(target) as part:
        part.write_text("newer")
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert target.read_text() == "newer"


def test_a_link_goes_on_pointing(tmp_path, either_way):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    with atomic_path(tmp_path / "link") as part:
        part.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_folder_that_may_not_be_written_to(tmp_path, monkeypatch):
    def refuse(**settings):
        raise PermissionError(13, "Permission denied", str(tmp_path / "something.part"))

    monkeypatch.setattr(_atomic, "_unnamed", lambda target: None)
    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    with (
        pytest.raises(PermissionError, match=r"file cannot be written: Permission denied\."),
        atomic_path(tmp_path / "file"),
    ):
        pass


def test_what_cannot_be_renamed_over(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file"), atomic_path(tmp_path):
        pass
    with pytest.raises(FileNotFoundError, match="there is no folder"), atomic_path(tmp_path / "no" / "file"):
        pass
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        check_writable(tmp_path / "no" / "file")
    check_writable(tmp_path / "new")
    check_writable(os.devnull)
    with atomic_path(os.devnull) as part:
        part.write_text("gone")
    assert not os.path.isfile(os.devnull)


def test_a_pipe_is_written_directly(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with atomic_path(pipe) as part:
        part.write_text("through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert [entry.name for entry in tmp_path.iterdir()] == ["pipe"]


# ------------------------------------------------------------------------------------------------- killed writers

WRITER = """
import sys, time
from pathlib import Path
from multiform.files import _atomic
how, target = sys.argv[1:]
if how == "named":
    _atomic._unnamed = lambda target: None
writer = _atomic.folder_beside if how == "folder" else _atomic.atomic_path
with writer(target) as part:
    (part / "piece" if how == "folder" else part).write_text("half")
    print("half", flush=True)
    time.sleep(600)
"""


def half_written(how, target):
    """A process that is in the midst of writing."""
    words = [sys.executable, "-c", WRITER, how, str(target)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "half\n"
    return process


def killed(process):
    process.kill()
    process.communicate()


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has files without a name")
def test_a_killed_writer_leaves_nothing(tmp_path):
    (tmp_path / "answers.csv").write_text("old")
    killed(half_written("unnamed", tmp_path / "answers.csv"))
    assert names(tmp_path) == ["answers.csv"]
    assert (tmp_path / "answers.csv").read_text() == "old"


@pytest.mark.parametrize("how", ["named", "folder"])
def test_the_next_writer_removes_what_a_killed_one_has_left(how, tmp_path):
    target, others = tmp_path / "answers.csv", [".answers.csv.part", ".answers.csv.old.part", ".answers.csv.mine.part"]
    for name in others:
        (tmp_path / name).write_text("no part of ours")
    living, dead = half_written(how, target), half_written(how, target)
    try:
        assert len(names(tmp_path)) == 5
        killed(dead)
        with atomic_path(target) as part:
            part.write_text("new")
        assert len(names(tmp_path)) == 5  # the living writer's part, and the answers
        assert target.read_text() == "new"
    finally:
        killed(living)
    with atomic_path(target) as part:
        part.write_text("newer")
    assert names(tmp_path) == sorted([*others, "answers.csv"])


def test_pieces_are_gone_in_the_end(tmp_path):
    with folder_beside(tmp_path / "answers.parquet") as folder:
        (folder / "piece").write_text("1")
        assert names(tmp_path) == [folder.name]
    assert names(tmp_path) == []


def test_an_error_names_the_target_and_not_what_stands_in_for_it(tmp_path):
    target = tmp_path / "file"
    with pytest.raises(OSError, match="No space left") as caught, atomic_path(target) as part:
        raise OSError(28, "No space left on device", str(part))
    assert caught.value.filename in (str(target), str(part))
    assert not caught.value.filename.startswith("/proc")
    assert names(tmp_path) == []
