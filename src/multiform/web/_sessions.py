"""Cases at the bedside: in memory, by a random name, and no more of them than fit there."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Any

from multiform.diagnosis import DiagnosisSession
from multiform.web._problems import Problem

FORGOTTEN = 12 * 3600.0  # seconds after which a case that nobody asks for may make room for another


@dataclass
class Case:
    """A case, and who may work on it now.

    Attributes
    ----------
    id : str
        Random; it says nothing of the patient.
    session : DiagnosisSession
    version : int
        Grows with every change, so that a second tab is told that it is behind.
    begun : datetime
    """

    id: str
    session: DiagnosisSession
    version: int = 0
    begun: datetime = field(default_factory=datetime.now)
    asked: float = field(default_factory=time.monotonic)
    lock: Lock = field(default_factory=Lock)

    def as_dict(self) -> dict[str, Any]:
        """Where it stands, for programs: as ``multiform diagnose --json``, and which case it is."""
        told = self.session.as_dict() | {"notes": self.session.notes, "observed": self.session.observed}
        return {"id": self.id, "version": self.version, **told}


class Sessions:
    """The cases of a plan.

    Parameters
    ----------
    planner : DiagnosisPlanner
    most : int
        Cases at once.
    """

    def __init__(self, planner: Any, most: int = 1_000) -> None:
        self.planner, self.most = planner, most
        self._cases: dict[str, Case] = {}
        self._lock = Lock()
        # A plan that is asked about tests that its file has no model of trains one, once for all cases.
        self._working = Lock()

    def __len__(self) -> int:
        return len(self._cases)

    def __contains__(self, id: str) -> bool:
        return id in self._cases

    def open(self) -> list[Case]:
        """The cases, the last begun first."""
        with self._lock:
            return sorted(self._cases.values(), key=lambda case: case.begun, reverse=True)

    @contextmanager
    def blank(self) -> Iterator[Case]:
        """A case of which nothing is known, and which nobody keeps."""
        with self._working:
            yield Case("", self.planner.start())

    def new(self, text: str | None = None) -> Case:
        """A case, at its start or where `DiagnosisSession.to_json` left it."""
        with self._working:
            session = DiagnosisSession.from_json(self.planner, text) if text else self.planner.start()
        with self._lock:
            if len(self._cases) >= self.most:
                self._forget()
            case = Case(secrets.token_urlsafe(18), session)
            self._cases[case.id] = case
        return case

    def _forget(self) -> None:
        """Drop what nobody has asked for; a case that somebody may be at is never dropped."""
        oldest = min(self._cases.values(), key=lambda case: case.asked)
        if time.monotonic() - oldest.asked < FORGOTTEN:
            raise Problem(503, f"{self.most} cases are open, which is all that are kept; finish some of them.")
        del self._cases[oldest.id]

    def drop(self, id: str) -> None:
        """Forget a case."""
        with self._lock:
            if self._cases.pop(id, None) is None:
                raise unknown_case()

    @contextmanager
    def at(self, id: str, version: int | None = None) -> Iterator[Case]:
        """The case of this name, for this thread alone.

        Parameters
        ----------
        id : str
        version : int, default=None
            What the asker has last seen, to change the case; a case that has gone on since is not changed.
        """
        case = self._cases.get(id)
        if case is None:
            raise unknown_case()
        with case.lock, self._working:
            case.asked = time.monotonic()
            if version is not None and version != case.version:
                raise Problem(409, "the case has changed since; look at where it stands now.", "changed")
            yield case


def unknown_case() -> Problem:
    return Problem(404, "there is no such case: it was finished, or the server was started anew.", "no-such-case")
