"""All subjects, and whose turn a case is."""

from functools import cache
from pathlib import Path

from tests.fuzz import runner
from tests.fuzz.model_files import ModelFiles
from tests.fuzz.requests import Requests
from tests.fuzz.sessions import Sessions
from tests.fuzz.tables import Tables

SUBJECTS = (ModelFiles(), Sessions(), Tables(), Requests())
TURNS = [subject for subject in SUBJECTS for _ in range(subject.weight)]


def subject_of(number, only=None):
    """The subject of a case."""
    if only:
        return next(subject for subject in SUBJECTS if subject.name == only)
    return TURNS[number % len(TURNS)]


@cache
def opened(folder):
    """All subjects, ready: what they need is made in a child, as fitting and tables start threads."""
    for subject in SUBJECTS:
        own = Path(folder) / subject.name
        own.mkdir()
        _, died = runner.in_child(lambda say, subject=subject, own=own: subject.prepare(own), folder)
        if died:
            raise RuntimeError(f"{subject.name} could not be prepared: signal {died}")
        subject.open(own)
    return SUBJECTS
