"""As a person runs it: real processes, a terminal, a pipe, Ctrl-C and worse."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import termios
import time
import tomllib
from pathlib import Path

import polars as pl
import pytest

COMMAND = [sys.executable, "-m", "multiform"]
ESCAPE = "\x1b["


def started(*words, **settings):
    """A process with pipes; in a group of its own, so that a signal meets it alone."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [*COMMAND, *map(str, words)]
    return subprocess.Popen(
        command,
        **{**pipes, **settings},
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
    )


@contextlib.contextmanager
def killed_in_the_end(process):
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(condition, process, seconds=60):
    """Until the condition holds; a process that ends before is a failure."""
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


def test_the_command_of_an_installation_is_this_one():
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert declared["project"]["scripts"] == {"multiform": "multiform.cli:main"}


def test_from_a_table_to_answers_through_pipes(folder, tmp_path):
    words = ["fit", "-", "--target", "level", "-o", tmp_path / "m.mfm", "--model", "qms", "--noise", "0.3"]
    table = (folder / "train.csv").read_bytes()
    done = subprocess.run([*COMMAND, *words], input=table, capture_output=True, check=True)
    assert b"300 rows" in done.stdout
    assert ESCAPE.encode() not in done.stdout + done.stderr  # quiet when piped: no bar, no colours
    assert b"training" not in done.stderr
    first = subprocess.Popen([*COMMAND, "predict", tmp_path / "m.mfm", folder / "test.csv"], stdout=subprocess.PIPE)
    head = subprocess.run(["head", "-n", "3"], stdin=first.stdout, capture_output=True, check=True, text=True)
    first.stdout.close()
    assert first.wait() == 0
    assert head.stdout.splitlines()[0] == "label,chance,unfamiliar"
    assert len(head.stdout.splitlines()) == 3


def test_a_reader_that_has_had_enough_is_no_error(folder, tmp_path):
    big = pl.concat([pl.read_csv(folder / "test.csv", infer_schema_length=0)] * 200)
    big.write_csv(tmp_path / "big.csv")
    with started("predict", folder / "model.mfm", tmp_path / "big.csv", stdin=subprocess.DEVNULL) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=300) == 0
        assert process.stderr.read() == b""


@pytest.mark.parametrize("words", [["info"], ["--help"], ["fit", "--help"], ["info", "--json"]])
def test_a_reader_that_never_was_is_no_error(words):
    with started(*words) as process:
        process.stdout.close()
        assert process.wait(timeout=300) == 0
        assert process.stderr.read() == b""


def half_a_predict(folder, tmp_path, output):
    """A predict that has written a part of its output and waits for more input."""
    content = (folder / "test.csv").read_bytes()
    process = started("predict", folder / "model.mfm", "-", "-o", output)
    header, rows = content.split(b"\n", 1)
    process.stdin.write(header + b"\n" + rows * 500)  # more than a block
    process.stdin.flush()
    return process, lambda: any(size > 0 for size in open_sizes(process.pid, tmp_path))


def open_sizes(pid, folder):
    """The sizes of the files in a folder, with a name or without, that a process has open."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            if os.readlink(link).startswith(f"{folder}{os.sep}"):
                yield link.stat().st_size


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_predict_leaves_the_old_output(number, code, folder, tmp_path):
    output = tmp_path / "answers.csv"
    output.write_text("the old one")
    process, half_written = half_a_predict(folder, tmp_path, output)
    with killed_in_the_end(process):
        wait_for(half_written, process)
        process.send_signal(number)
        assert process.wait(timeout=300) == code
        assert b"no file was changed" in process.stderr.read()
    assert output.read_text() == "the old one"
    assert [entry.name for entry in tmp_path.iterdir()] == ["answers.csv"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_wait_for_standard_input(number, code, folder, tmp_path):
    """Polars must not hide it: a read that waits may not begin again."""
    process = started("predict", folder / "model.mfm", "-", "-o", tmp_path / "answers.csv")
    with killed_in_the_end(process):
        process.stdin.write(b"age,city\n")
        process.stdin.flush()
        wait_for(lambda: not unread(process.stdin), process)
        time.sleep(0.3)  # it has taken all there was, and waits for more
        process.send_signal(number)
        assert process.wait(timeout=300) == code
        assert b"no file was changed" in process.stderr.read()
    assert list(tmp_path.iterdir()) == []


def unread(pipe):
    """How many bytes nobody has read yet."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_a_killed_predict_leaves_the_old_output(folder, tmp_path):
    output = tmp_path / "answers.csv"
    output.write_text("the old one")
    process, half_written = half_a_predict(folder, tmp_path, output)
    with killed_in_the_end(process):
        wait_for(half_written, process)
        process.kill()
        assert process.wait(timeout=300) == -signal.SIGKILL
    assert output.read_text() == "the old one"
    assert [entry.name for entry in tmp_path.iterdir()] == ["answers.csv"]


pexpect = pytest.importorskip("pexpect")


def terminal(*words):
    """A command on a terminal of its own."""
    return pexpect.spawn(
        COMMAND[0], [*COMMAND[1:], *map(str, words)], encoding="utf-8", timeout=300, dimensions=(40, 100),
        env={**os.environ, "TERM": "xterm"},
    )  # fmt: skip


ENDLESS = ["--model", "qms", "--noise", "0", "--solver", "cpm-literal", "--max-iter", "100000000", "--components", "30"]


@pytest.mark.parametrize("how", ["Ctrl-C", "kill"])
def test_a_fit_in_the_middle_leaves_the_old_model(how, folder, tmp_path):
    output = tmp_path / "m.mfm"
    output.write_text("the old one")
    # A tolerance of convergence cannot be given here; a large table takes long enough.
    pl.concat([pl.read_csv(folder / "train.csv", infer_schema_length=0)] * 60).write_csv(tmp_path / "large.csv")
    child = terminal("fit", tmp_path / "large.csv", "-t", "level", "-o", output, *ENDLESS)
    child.expect("training")
    if how == "Ctrl-C":
        child.sendintr()
        child.expect("interrupted; no file was changed")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 130
    else:
        child.kill(signal.SIGKILL)
        child.close()
        assert child.signalstatus == signal.SIGKILL
    assert output.read_text() == "the old one"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["large.csv", "m.mfm"]


def test_a_terminal_shows_progress_and_no_remains(folder, tmp_path):
    child = terminal("fit", folder / "train.csv", "-t", "level", "-o", tmp_path / "m.mfm", "--max-iter", "30")
    child.expect("training")
    child.expect("300 rows, target 'level'")
    child.expect("written to")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_a_diagnosis_at_the_terminal(clinic):
    """Prompts, a mistake, one step back, and the end that the plan decides."""
    child = terminal("diagnose", clinic / "plan.mfm")
    child.expect("next: question for 1.00")
    child.expect(r"question \(-[0-9.]+ to [0-9.]+\): ")
    child.sendline("a lot")
    child.expect("question is a number; got 'a lot'")
    child.expect(r"question \(-[0-9.]+ to [0-9.]+\): ")
    child.sendline("0.45")  # undecided
    child.expect("spent 1.00")
    child.expect("next: ")
    child.expect(": ")
    child.sendline("undo")
    child.expect("spent 0.00")
    child.expect(r"question \(-[0-9.]+ to [0-9.]+\): ")
    child.sendline("3.0")  # clear
    child.expect("diagnosis: yes")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
