"""How far a long call is: whoever does the work tells it, whoever has asked hears it, and nobody in between knows.

`heard` is asked by a command; `tell` is said by the loop of the engines after every slice of work, and by other loops.
Who calls several of them says which `part` of the whole each is. Without a listener all of it costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

Listener = Callable[[float, str], None]


class _Part(NamedTuple):
    listener: Listener
    begin: float
    end: float

    def tell(self, share: float, words: str) -> None:
        self.listener(self.begin + min(1.0, share) * (self.end - self.begin), words)


_HEARD: ContextVar[_Part | None] = ContextVar("multiform progress", default=None)


@contextmanager
def heard(listener: Listener) -> Iterator[None]:
    """Whatever is done inside tells the listener how much of it is done, from 0 to 1, and what was done last.

    Parameters
    ----------
    listener : callable
        Called with a share and words, in the thread that does the work.

    Examples
    --------
    >>> from multiform import QMSClassifier, progress
    >>> shares = []
    >>> with progress.heard(lambda share, words: shares.append(share)):
    ...     model = QMSClassifier(random_state=0).fit([[0.0], [1.0]] * 20, [0, 1] * 20)
    >>> shares[-1]
    1.0
    """
    token = _HEARD.set(_Part(listener, 0.0, 1.0))
    try:
        yield
    finally:
        _HEARD.reset(token)


@contextmanager
def part(begin: float, end: float) -> Iterator[None]:
    """What is told inside is of this part of the whole, from `begin` to `end`."""
    whole = _HEARD.get()
    if whole is None:
        yield
        return
    size = whole.end - whole.begin
    token = _HEARD.set(whole._replace(begin=whole.begin + begin * size, end=whole.begin + end * size))
    try:
        yield
        tell(1.0, "")
    finally:
        _HEARD.reset(token)


def tell(share: float, words: str) -> None:
    """This much of the part is done."""
    if (now := _HEARD.get()) is not None:
        now.tell(share, words)


def teller() -> Callable[[float, str], None]:
    """`tell` of the part as it is now, for threads that are started from here."""
    now = _HEARD.get()
    return (lambda share, words: None) if now is None else now.tell
