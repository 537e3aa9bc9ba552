"""From a patient's findings to the columns that the classifiers read.

Each feature has columns of its own, so that a feature that was not measured is a set of columns left out:

- a number: itself, standardised; with few distinct values (a code: 1 typical, 2 atypical, ...) an indicator for each
  value beside it; with many patients, an indicator for each of several thresholds, so that a quadratic can have a cut;
- words: an indicator for each value.

A result that is missing although the test was done is read as the median (the commonest value), and where training data
have enough of them to learn from, an indicator says so: that nobody could read a result is a finding, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Encoding", "FeatureCode", "columns_of"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]

FEW_VALUES = 6  # a number with 3 to so many distinct values gets indicators
LEAST_COUNT = 5  # patients that an indicator must be 1 for
LEAST_MISSING = 10  # missing results from which on they have an indicator
STEPS_FROM = 1_000  # patients
# Quantiles at which a number is cut, close to each other in the tails: that is where the ill are.
STEPS = (0.01, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 0.75, 0.85, 0.9, 0.92, 0.94, 0.96, 0.97, 0.98, 0.99)
FARTHEST = 1e6  # deviations from the mean: beyond, a slip of the pen is as good as another, and nothing overflows
INDICATOR_SCALE = 0.6  # an indicator says less than a measurement: it is read at this share of its deviation


@dataclass(frozen=True)
class FeatureCode:
    """How one feature is read.

    Attributes
    ----------
    name : str
    fill : float or str
        What stands for a missing value.
    values : tuple
        The values that have an indicator.
    steps : tuple of float
        The thresholds that have an indicator.
    numeric, tells_missing : bool
        Whether it has a column of its own, and an indicator of missing values.
    center, scale : tuple of float
        Of each column.
    """

    name: str
    fill: float | str
    values: tuple[Any, ...]
    steps: tuple[float, ...]
    numeric: bool
    tells_missing: bool
    center: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()

    @classmethod
    def learnt(cls, name: str, column: Array) -> FeatureCode:
        """From training patients."""
        column, missing = _read(name, column)
        present = column[~missing]
        if not len(present):
            raise ValueError(
                f"Feature {name!r} of DiagnosisPlanner.fit is missing for every patient; leave the test out of costs."
            )
        distinct, counts = np.unique(present, return_counts=True)
        numeric = column.dtype.kind == "f"
        coded = not numeric or 3 <= len(distinct) <= FEW_VALUES
        cut = numeric and len(distinct) > FEW_VALUES and len(column) >= STEPS_FROM
        code = cls(
            name,
            float(np.median(present)) if numeric else str(distinct[counts.argmax()]),
            tuple(distinct[counts >= min(LEAST_COUNT, counts.max())].tolist()) if coded else (),
            tuple(np.unique(np.quantile(present, STEPS)).tolist()) if cut else (),
            numeric,
            int(missing.sum()) >= LEAST_MISSING and not missing.all(),
        )
        raw = code._raw(column, missing)
        deviation = raw.std(axis=0)
        stretch = np.where(np.arange(raw.shape[1]) < int(numeric), 1.0, 1 / INDICATOR_SCALE)
        scale = np.where(deviation > 1e-12, deviation * stretch, np.inf)  # what never varies is read as 0
        return cls(
            **{**vars(code), "center": tuple(raw.mean(axis=0).tolist()), "scale": tuple(scale.tolist())},
        )

    @property
    def width(self) -> int:
        return int(self.numeric) + len(self.steps) + len(self.values) + int(self.tells_missing)

    def columns(self, column: Array) -> npt.NDArray[np.float64]:
        """The columns of some patients: shape (n, width)."""
        column, missing = _read(self.name, column, numeric=self.numeric)
        return np.asarray(np.clip((self._raw(column, missing) - self.center) / self.scale, -FARTHEST, FARTHEST))

    def filled(self, column: Array) -> Array:
        """The feature itself, missing values filled in."""
        column, missing = _read(self.name, column, numeric=self.numeric)
        return np.where(missing, self.fill, column)

    def _raw(self, column: Array, missing: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        filled = np.where(missing, self.fill, column)
        parts: list[Array] = [filled.astype(np.float64)] if self.numeric else []
        parts += [(filled > step).astype(np.float64) for step in self.steps]
        parts += [(filled == value).astype(np.float64) for value in self.values]
        if self.tells_missing:
            parts.append(missing.astype(np.float64))
        return np.column_stack(parts) if parts else np.zeros((len(column), 0))


@dataclass(frozen=True)
class Encoding:
    """How the features of each test are read.

    Attributes
    ----------
    codes : tuple of FeatureCode
    owner : tuple of int
        The test that each feature belongs to.
    """

    codes: tuple[FeatureCode, ...]
    owner: tuple[int, ...]

    @classmethod
    def learnt(cls, columns: Mapping[str, Array], features: Sequence[Sequence[str]]) -> Encoding:
        """From the training patients' columns, and the features of each test."""
        named = [(name, t) for t, names in enumerate(features) for name in names]
        return cls(tuple(FeatureCode.learnt(name, columns[name]) for name, _ in named), tuple(t for _, t in named))

    @property
    def column_owner(self) -> npt.NDArray[np.int64]:
        """The test that each column belongs to."""
        return np.repeat(np.array(self.owner, dtype=np.int64), [code.width for code in self.codes])

    def features(self, test: int) -> list[str]:
        """The names of a test's features."""
        return [code.name for code, owner in zip(self.codes, self.owner, strict=True) if owner == test]

    def encode(self, columns: Mapping[str, Array]) -> Floats:
        """The columns of some patients, side by side; a feature that is not given is missing."""
        n = len(next(iter(columns.values())))
        parts = [code.columns(columns.get(code.name, np.full(n, np.nan))) for code in self.codes]
        return np.ascontiguousarray(np.hstack(parts), dtype=np.float32)


def columns_of(X: Any, names: Sequence[str]) -> dict[str, Array]:
    """The columns of a data frame or an array by name."""
    if hasattr(X, "columns"):
        column = {str(one): one for one in X.columns}  # a frame may count its columns
        return {name: np.asarray(X[column[name]]) for name in names}
    X = np.asarray(X)
    return {name: X[:, j] for j, name in enumerate(names)}


def _read(name: str, column: Array, numeric: bool | None = None) -> tuple[Array, npt.NDArray[np.bool_]]:
    """A column as numbers, or as words where it holds a word; and where it is missing (NaN, None, empty)."""
    column = np.asarray(column)
    if column.dtype.kind in "biuf":
        values = column.astype(np.float64)
        missing = np.isnan(values)
        if numeric is not False:
            return _finite(name, values), missing
        return np.array([f"{value:g}" for value in values], dtype=object), missing
    cells = column.astype(object)
    missing = np.array([_is_missing(cell) for cell in cells], dtype=bool)
    if numeric is not False:
        numbers = _as_numbers(cells, missing)
        if numbers is not None:
            return _finite(name, numbers), missing | np.isnan(numbers)
        if numeric:
            raise ValueError(
                f"Feature {name!r} of DiagnosisPlanner was a number for every training patient; "
                f"got {[str(c) for c, m in zip(cells, missing, strict=True) if not m][:3]}."
            )
    return np.array(["" if m else str(c).strip() for c, m in zip(cells, missing, strict=True)], dtype=object), missing


def _is_missing(cell: Any) -> bool:
    if cell is None or str(cell).strip() == "":
        return True
    try:
        return bool(cell != cell)  # NaN
    except TypeError:  # pandas' NA, which is neither equal nor unequal
        return True


def _as_numbers(cells: Array, missing: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64] | None:
    """None where a cell is a word."""
    try:
        return np.array([np.nan if m else float(c) for c, m in zip(cells, missing, strict=True)])
    except OverflowError:  # a whole number that is larger than any other
        return np.full(len(cells), np.inf)
    except (TypeError, ValueError):
        return None


def _finite(name: str, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    if np.isinf(values).any():
        raise ValueError(f"Feature {name!r} of DiagnosisPlanner is infinite for some patient; missing is NaN.")
    return values
