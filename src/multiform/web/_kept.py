"""What the server keeps for the pages of a classifier: in memory, under random names, and no more than fits there."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from multiform.web._problems import Problem

T = TypeVar("T")


class Kept(Generic[T]):
    """Things under random names; those that nobody has asked for the longest make room.

    Parameters
    ----------
    most : int
    forgotten : callable, default=None
        Called with what is kept no longer.
    """

    def __init__(self, most: int, forgotten: Callable[[T], None] = lambda thing: None) -> None:
        self._most, self._forgotten = most, forgotten
        self._things: OrderedDict[str, T] = OrderedDict()
        self._lock = Lock()

    def add(self, thing: T) -> str:
        """The name under which it is kept from now on."""
        id = secrets.token_urlsafe(18)
        with self._lock:
            self._things[id] = thing
            over = [self._things.popitem(last=False)[1] for _ in range(len(self._things) - self._most)]
        for old in over:
            self._forgotten(old)
        return id

    def __getitem__(self, id: str) -> T:
        with self._lock:
            if id not in self._things:
                raise Problem(
                    404, "there is nothing of this name: it was deleted, or the server began anew.", "no-such-case"
                )
            self._things.move_to_end(id)
            return self._things[id]

    def drop(self, id: str) -> None:
        """Keep it no longer."""
        self[id]
        with self._lock:
            thing = self._things.pop(id)
        self._forgotten(thing)
