"""A few hundred cases of ``make fuzz`` with every run of the tests, and everything that it ever found."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import runner

FINDS = Path(__file__).parent / "finds"


def command(*words):
    """Run in a process of its own, which nobody else's threads can trouble when it forks."""
    return subprocess.run([sys.executable, "-m", "tests.fuzz", *words], capture_output=True, text=True, check=False)


def test_some_cases():
    told = command("--cases", "400", "--seed", "7", "--jobs", "1")
    assert told.returncode == 0, told.stdout + told.stderr
    assert "400 cases" in told.stdout


def test_what_was_found_stays_mended():
    told = command("--replay", str(FINDS))
    assert told.returncode == 0, told.stdout + told.stderr
    assert len(json.loads(told.stdout)) == len(list(FINDS.iterdir()))


class Hostile:
    """A subject that does what nobody may, to see that the runner notices."""

    def judge(self, case, folder):
        match case.content:
            case b"memory":
                return f"{len(bytearray(3 << 30))}"
            case b"time":
                while True:
                    pass
            case b"wrong":
                raise AssertionError("two and two are five")
            case b"error":
                raise KeyError("nobody")
            case b"death":
                import ctypes

                ctypes.string_at(0)
            case b"network":
                import socket

                socket.create_connection(("127.0.0.1", 9))
            case b"program":
                import subprocess

                subprocess.run(["true"], check=True)
        return "answered"


@pytest.mark.parametrize(
    ("content", "what", "place"),
    [
        (b"nothing", "answered", ""),
        (b"memory", "over limit", "MemoryError"),
        (b"time", "over limit", "SIGPROF"),
        (b"wrong", "wrong", "AssertionError"),
        (b"error", "crash", "KeyError"),
        (b"death", "crash", "SIGSEGV"),
        (b"network", "crash", "Forbidden"),
        (b"program", "crash", "Forbidden"),
    ],
)
def test_the_runner_notices(content, what, place, monkeypatch):
    monkeypatch.setattr(runner, "SECONDS", 0.5)
    outcome = runner.one(Hostile(), content)
    assert outcome.what == what
    assert outcome.place.startswith(place)


def test_a_bad_case_does_not_hide_the_others():
    contents = [b"a", b"death", b"b", b"wrong", b"c"]
    outcomes = runner.run([(Hostile(), lambda content=content: runner.Case(content)) for content in contents])
    assert [one.what for one in outcomes] == ["answered", "crash", "answered", "wrong", "answered"]
