"""A few hundred cases of ``make fuzz`` with every run of the tests, and everything that it ever found."""

import pytest

from tests.fuzz import runner
from tests.fuzz.__main__ import BATCH, FINDS, batch
from tests.fuzz.subjects import SUBJECTS, opened


@pytest.fixture(scope="module", autouse=True)
def subjects(tmp_path_factory):
    return opened(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("first", range(0, 400, BATCH))
def test_some_cases(first):
    bad = [found for found in batch(7, None, range(first, first + BATCH)) if found[2].what in runner.BAD]
    assert not bad, bad


@pytest.mark.parametrize("path", sorted(FINDS.glob("*")) if FINDS.exists() else [], ids=lambda path: path.name)
def test_what_was_found_stays_mended(path):
    name, _, how = (*path.name.split("_", 2), "")[:3]
    subject = next(one for one in SUBJECTS if one.name == name)
    outcome = runner.one(subject, path.read_bytes(), how)
    assert outcome.what in runner.FINE, outcome


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
