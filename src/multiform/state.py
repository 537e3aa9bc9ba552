"""Checks of a fitted state that was read from a file: the engine trusts its arrays, a file may be anybody's.

Every estimator that a model file can hold has two methods of its own::

    _get_state() -> dict        # its fitted state as plain values; {} before fit
    _set_state(state) -> None   # the inverse: checks that the parts fit each other, then sets the attributes

Plain values are None, bool, int, float, str, lists, tuples and dicts of them, NumPy numbers and arrays, and other
estimators that a model file can hold. `_set_state` raises ValueError with what is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["require", "require_array", "require_classes", "require_features", "require_positive"]


def require(condition: Any, what: str) -> None:
    if not condition:
        raise ValueError(what)


def require_array(value: Any, shape: tuple[int | None, ...], kinds: str, what: str) -> Any:
    """An array of this shape (None: any length) and of one of these kinds of numbers ("f" floats, "i" whole, ...)."""
    fits = (
        isinstance(value, np.ndarray)
        and value.ndim == len(shape)
        and all(size is None or size == found for size, found in zip(shape, value.shape, strict=True))
        and value.dtype.kind in kinds
    )
    require(fits, f"{what} has the wrong shape or type")
    return value


def require_classes(classes: Any) -> int:
    """At least two, sorted and distinct; how many there are."""
    require_array(classes, (None,), "biufUO", "classes_")
    require(len(classes) >= 2 and bool((classes[1:] > classes[:-1]).all()), "classes_ are not sorted and distinct")
    return len(classes)


def require_positive(value: Any, what: str) -> None:
    require(isinstance(value, int | float | np.number) and 0 < value < np.inf, f"{what} is not a positive number")


def require_features(state: dict[str, Any]) -> int:
    """`n_features_in_`, and names for them where there are any; how many there are."""
    n = state.get("n_features_in_")
    require(isinstance(n, int | np.integer) and n > 0, "n_features_in_ is not a positive number")
    names = state.get("feature_names_in_")
    if names is not None:
        require_array(names, (int(n),), "UO", "feature_names_in_")  # type: ignore[arg-type]
    return int(n)  # type: ignore[arg-type]
