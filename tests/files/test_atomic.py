"""A file is written whole or not at all."""

import os
import stat
import tempfile

import pytest

from multiform.files import atomic_path, check_writable


def test_an_error_leaves_the_old_file(tmp_path):
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


def test_permissions_are_those_of_any_new_file_or_of_the_old_one(tmp_path):
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


def test_a_link_goes_on_pointing(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    with atomic_path(tmp_path / "link") as part:
        part.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_folder_that_may_not_be_written_to(tmp_path, monkeypatch):
    def refuse(**settings):
        raise PermissionError(13, "Permission denied", str(tmp_path / "something.part"))

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
