"""Every case by its name: a function without arguments that returns arrays by name."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Arrays = dict[str, Any]


class Case(NamedTuple):
    """What to call, and the optional packages that it needs."""

    make: Callable[[], Arrays]
    needs: tuple[str, ...]

    def __call__(self) -> dict[str, np.ndarray]:
        return {name: plain(value) for name, value in self.make().items()}


CASES: dict[str, Case] = {}


def add(name: str, make: Callable[[], Arrays], needs: tuple[str, ...] = ()) -> None:
    """A case named FILE.CASE, after the file that stores it."""
    assert name not in CASES, name
    CASES[name] = Case(make, needs)


def case(make: Callable[[], Arrays]) -> Callable[[], Arrays]:
    """The decorator for a case of its own, named after its file and function."""
    add(f"{make.__module__.rpartition('.')[2]}.{make.__name__}", make)
    return make


def needing(*packages: str) -> Callable[[Callable[[], Arrays]], Callable[[], Arrays]]:
    """The same for a case that needs optional packages."""

    def decorate(make: Callable[[], Arrays]) -> Callable[[], Arrays]:
        add(f"{make.__module__.rpartition('.')[2]}.{make.__name__}", make, packages)
        return make

    return decorate


def plain(value: Any) -> np.ndarray:
    """An array that a file can hold without pickle: objects become words."""
    array = np.asarray(value)
    return array.astype(np.str_) if array.dtype.kind in "OT" else array
