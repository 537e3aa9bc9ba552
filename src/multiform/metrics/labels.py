"""Labels as positions among the classes, so that all else compares whole numbers.

NumPy takes text with a NUL at its end for the text without it wherever it makes an array of it (``objects == "a\\0"``
asks for ``"a"``), and numbers and texts in one array all become text. Python's own equality does neither.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from multiform._typing import Array, Indices

__all__ = ["distinct", "positions"]


def positions(values: Array, classes: Array) -> Indices:
    """Where each value stands among the classes, which may be in any order; -1 if it is none of them.

    >>> import numpy as np
    >>> positions(np.array(["a", "a\\0", 1, "1"], dtype=object), np.array(["a\\0", "a", 1.0], dtype=object))
    array([ 1,  0,  2, -1])
    """
    place: dict[Any, int] = {}
    for position, label in enumerate(classes.tolist()):
        place.setdefault(label, position)
    return np.fromiter((place.get(label, -1) for label in values.tolist()), dtype=np.intp, count=len(values))


def distinct(*parts: Array) -> Array:
    """Every label of the arrays once, in order; where there are numbers and texts, the numbers stand first.

    >>> import numpy as np
    >>> distinct(np.array(["b", "a"]), np.array(["c", "a"]))
    array(['a', 'b', 'c'], dtype='<U1')
    >>> distinct(np.array([2, 1]), np.array(["1"]))
    array([1, 2, '1'], dtype=object)
    """
    kinds = {part.dtype.kind for part in parts}
    if kinds <= set("biuf") or kinds == {"U"}:
        return np.unique(np.concatenate(parts))
    found = sorted({label for part in parts for label in part.tolist()}, key=_rank)
    together = np.empty(len(found), dtype=object)
    together[:] = found
    return together


def _rank(label: Any) -> tuple[str, Any]:
    """Numbers are compared with numbers, texts with texts."""
    return ("number" if isinstance(label, Real) else "text" if isinstance(label, str) else type(label).__name__, label)
