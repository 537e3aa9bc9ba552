"""The fitted state of an estimator: whole or not at all, and checked when it comes from a file, which may be anybody's.

Every estimator that a model file can hold has two methods of its own::

    _get_state() -> dict        # its fitted state as plain values; {} before fit
    _set_state(state) -> None   # the inverse: checks that the parts fit each other, then sets the attributes

Plain values are None, bool, int, float, str, lists, tuples and dicts of them, NumPy numbers and arrays, and other
estimators that a model file can hold. A public attribute stands in the state under its own name. `_set_state` raises
ValueError with what is wrong, and lets nothing pass that it does not know.

What reading a file may cost is bounded by its size: an `Allowance`. An array takes what it takes in the file. Where a
state *says* how large something will be (a number of columns, a shape, the same part once more), whoever makes that
calls `spend` first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

import numpy as np

FEATURES = ("n_features_in_", "feature_names_in_")  # scikit-learn's names
Fit = TypeVar("Fit", bound=Callable[..., Any])
MOST_TEMPERATURE = 1e6  # and its inverse the least: no fit finds one beyond exp(5)
MOST_JOBS = 1024


def all_or_nothing(fit: Fit) -> Fit:
    """A fit that fails or is interrupted leaves the estimator exactly as it was."""

    @wraps(fit)
    def fit_or_restore(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(estimator))
        streams = [(value, value.get_state()) for value in before.values() if isinstance(value, np.random.RandomState)]
        try:
            return fit(estimator, *args, **kwargs)
        except BaseException:
            for stream, state in streams:
                stream.set_state(state)
            estimator.__dict__ = before  # one step, which a second Ctrl-C cannot cut in two
            raise

    return fit_or_restore  # type: ignore[return-value]


def fitted_state(model: Any, names: Sequence[str]) -> dict[str, Any]:
    """Those of the named attributes that the model has; another public one, which would be lost, is refused."""
    found = vars(model)
    known = {*names, *model.get_params(deep=False)}
    lost = [name for name in found if not name.startswith("_") and name not in known]
    if lost:
        raise TypeError(
            f"This {type(model).__name__} has an attribute {lost[0]!r} that model files do not know; "
            "delete it, and save again."
        )
    return {name: found[name] for name in names if name in found}


class Allowance:
    """The bytes of memory that a file of `n_bytes` may take, counted before they are allocated."""

    FREE, TIMES = 1 << 26, 16

    def __init__(self, n_bytes: int) -> None:
        self._n_bytes, self.left = n_bytes, self.FREE + self.TIMES * n_bytes

    def spend(self, n_bytes: int, what: str) -> None:
        """Refuse what would take more than is left."""
        self.left -= n_bytes
        fits = self.left >= 0
        require(fits, f"{what} would take more memory than a file of {self._n_bytes:,} bytes may ask for")

    @contextmanager
    def granted(self) -> Iterator[None]:
        """Within the block, `spend` draws on it."""
        token = _granted.set(self)
        try:
            yield
        finally:
            _granted.reset(token)


_granted: ContextVar[Allowance | None] = ContextVar("granted", default=None)


def spend(n_bytes: int, what: str) -> None:
    """Ask for memory whose size a state says, before it is allocated; a state that is of no file may have any."""
    allowance = _granted.get()
    if allowance is not None:
        allowance.spend(n_bytes, what)


def require(condition: Any, what: str) -> None:
    if not condition:
        raise ValueError(what)


def require_names(
    state: dict[str, Any], owner: str, required: Collection[str], optional: Collection[str] = ()
) -> dict[str, Any]:
    """The state itself, which has all required names and none that is not known."""
    require(isinstance(state, dict), f"{owner} is not a dict")
    for name in state:
        require(name in required or name in optional, f"{owner} has no attribute {name!r}")
    for name in required:
        require(name in state, f"{owner} lacks {name!r}")
    return state


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
    require_labels(classes, "classes_")
    require(len(classes) >= 2 and bool((classes[1:] > classes[:-1]).all()), "classes_ are not sorted and distinct")
    return len(classes)


def require_labels(labels: Any, what: str) -> None:
    """Finite numbers, or texts, or plain values of one kind."""
    require_array(labels, (None,), "biufUO", what)
    require(labels.dtype.kind != "f" or np.isfinite(labels).all(), f"{what} are not finite")
    if labels.dtype.kind == "O":
        kinds = {str if isinstance(one, str) else float for one in labels if isinstance(one, str | int | float)}
        plain = all(isinstance(one, str | int | float) and one == one for one in labels)
        require(plain and len(kinds) <= 1, f"{what} are neither all texts nor all numbers")


def require_positive(value: Any, what: str) -> None:
    require(isinstance(value, int | float | np.number) and 0 < value < np.inf, f"{what} is not a positive number")


def require_temperature(value: Any, what: str) -> None:
    require_positive(value, what)
    require(1 / MOST_TEMPERATURE <= value <= MOST_TEMPERATURE, f"{what} is out of range")


def require_whole(value: Any, least: int, what: str) -> None:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    require(whole and value >= least, f"{what} is not a whole number of at least {least}")


def require_jobs(value: Any) -> None:
    """None, or a number of threads that a machine could have."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    sane = value is None or (whole and 1 <= abs(value) <= MOST_JOBS)
    require(sane, f"n_jobs must be None or a whole number from -{MOST_JOBS} to {MOST_JOBS} that is not 0")


def require_numbers(values: Any, what: str) -> None:
    """A list or a tuple of numbers, which may be infinite or NaN."""
    numbers = isinstance(values, list | tuple) and all(isinstance(one, int | float | np.number) for one in values)
    require(numbers, f"{what} does not hold numbers")


def require_features(state: dict[str, Any]) -> int:
    """`n_features_in_`, and names for them where there are any; how many there are."""
    n = state.get("n_features_in_")
    require_whole(n, 1, "n_features_in_")
    if "feature_names_in_" in state:
        names = require_array(state["feature_names_in_"], (int(n),), "UO", "feature_names_in_")  # type: ignore[arg-type]
        require(all(isinstance(name, str) for name in names.tolist()), "feature_names_in_ are not all text")
    return int(n)  # type: ignore[arg-type]
