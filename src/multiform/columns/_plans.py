"""The features of a plan as columns that its classifiers read.

Each feature has columns of its own, so that a feature that was not measured is a set of columns left out:

- a number: itself, standardised; with few distinct values (a code: 1 typical, 2 atypical, ...) an indicator for each
  value beside it; with many patients, an indicator for each of several thresholds, so that a quadratic can have a cut;
- words: an indicator for each value.

A result that is missing although the test was done is read as the median (the commonest value), and where training data
have enough of them to learn from, an indicator says so: that nobody could read a result is a finding, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from multiform._typing import Array, Doubles, Floats
from multiform.columns._cells import typed
from multiform.columns._kinds import FEWEST_VALUES, Category, Code, Number, column_from
from multiform.state import require, require_array, require_names

# As `MOST_VALUES` and `LEAST_CELLS` of tables: a plan is made from few patients and pays for every column.
MOST_VALUES_IN_PLANS = 6
LEAST_CELLS_IN_PLANS = 5, 10

# Patients from which on a number is cut, and the quantiles at which: close to each other in the tails, which is where
# the ill are.
CUT_FROM = 1_000
CUTS = (0.01, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 0.75, 0.85, 0.9, 0.92, 0.94, 0.96, 0.97, 0.98, 0.99)
FARTHEST = 1e6  # deviations from the mean: beyond, a slip of the pen is as good as another, and nothing overflows
INDICATOR_SCALE = 0.6  # an indicator says less than a measurement: it is read at this share of its deviation


class Encoding:
    """How the features of each test are read.

    Attributes
    ----------
    codes : tuple of Number or Category
        What each feature becomes.
    owner : tuple of int
        The test that each feature belongs to.
    center, scale : ndarray of shape (width,)
        Of each column; an infinite scale reads as 0 what never varies.
    """

    def __init__(
        self, codes: Sequence[Number | Category], owner: Sequence[int], center: Doubles, scale: Doubles
    ) -> None:
        self.codes, self.owner, self.center, self.scale = tuple(codes), tuple(owner), center, scale

    @classmethod
    def learnt(cls, columns: Mapping[str, Array], features: Sequence[Sequence[str]]) -> Encoding:
        """From the training patients' columns, and the features of each test."""
        codes, owner, center, scale = [], [], [], []
        for test, names in enumerate(features):
            for name in names:
                code, raw = _learnt(name, columns[name])
                codes.append(code)
                owner.append(test)
                deviation = raw.std(axis=0)
                stretch = np.where(np.arange(code.width) < isinstance(code, Number), 1.0, 1 / INDICATOR_SCALE)
                center.append(raw.mean(axis=0))
                scale.append(np.where(deviation > 1e-12, deviation * stretch, np.inf))
        return cls(codes, owner, np.concatenate(center), np.concatenate(scale))

    @property
    def column_owner(self) -> npt.NDArray[np.int64]:
        """The test that each column belongs to."""
        return np.repeat(np.array(self.owner, dtype=np.int64), [code.width for code in self.codes])

    def features(self, test: int) -> list[str]:
        """The names of a test's features."""
        return [code.name for code, owner in zip(self.codes, self.owner, strict=True) if owner == test]

    def encode(self, columns: Mapping[str, Array]) -> Floats:
        """The columns of some patients, side by side; a feature that is not given is missing."""
        missing = np.full(len(next(iter(columns.values()))), np.nan)
        found: list[Any] = [_read(code.name, columns.get(code.name, missing), type(code)) for code in self.codes]
        raw = np.hstack([code.columns(values) for code, values in zip(self.codes, found, strict=True)])
        standard = np.clip((raw - self.center) / self.scale, -FARTHEST, FARTHEST)
        return np.ascontiguousarray(standard, dtype=np.float32)

    def filled(self, columns: Mapping[str, Array]) -> dict[str, Array]:
        """The features themselves, missing values filled in."""
        return {code.name: code.filled(_read(code.name, columns[code.name], type(code))) for code in self.codes}

    def state(self) -> dict[str, Any]:
        """What it has learnt as plain values, for a model file."""
        codes = [code.state() for code in self.codes]
        return {"codes": codes, "owner": self.owner, "center": self.center, "scale": self.scale}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Encoding:
        """The encoding of a `state`; ValueError where it is none."""
        require_names(state, "the encoding", ["codes", "owner", "center", "scale"])
        require(isinstance(state["codes"], list | tuple) and len(state["codes"]) > 0, "the encoding has no features")
        codes: list[Any] = [column_from(code) for code in state["codes"]]
        require(all(isinstance(code, Number | Category) for code in codes), "a feature is no number and no category")
        owner, width = state["owner"], sum(code.width for code in codes)
        whole = isinstance(owner, list | tuple) and all(type(test) is int and test >= 0 for test in owner)
        require(whole and len(owner) == len(codes), "features belong to no test")
        center = require_array(state["center"], (width,), "f", "center of the encoding")
        scale = require_array(state["scale"], (width,), "f", "scale of the encoding")
        require(np.isfinite(center).all() and (scale > 0).all(), "the scaling of the encoding is wrong")
        return cls(codes, owner, center, scale)


def _learnt(name: str, column: Array) -> tuple[Number | Category, Doubles]:
    """What a feature becomes, from training patients, and their columns."""
    values = _read(name, column)
    if values.dtype.kind != "f":
        words = Category.learn(name, "a cell holds a word", values, LEAST_CELLS_IN_PLANS)
        return words, words.columns(values)
    present = values[~np.isnan(values)]
    if not len(present):
        raise ValueError(
            f"Feature {name!r} of DiagnosisPlanner.fit is missing for every patient; leave the test out of costs."
        )
    n_distinct = len(np.unique(present))
    kind = Code if FEWEST_VALUES <= n_distinct <= MOST_VALUES_IN_PLANS else Number
    cut = n_distinct > MOST_VALUES_IN_PLANS and len(values) >= CUT_FROM
    steps = tuple(np.unique(np.quantile(present, CUTS)).tolist()) if cut else ()
    number = kind.learn(name, "every cell is a number", values, LEAST_CELLS_IN_PLANS, steps=steps, fill_all=True)
    return number, number.columns(values)


def _read(name: str, column: Array, kind: type[Number | Category] | None = None) -> Array:
    """A feature as numbers with NaN, or as words with None where it holds a word; of this kind, if it is known."""
    values = typed(column, parse=True, words=kind is Category)
    if values.dtype.kind == "f":
        if np.isinf(values).any():
            raise ValueError(f"Feature {name!r} of DiagnosisPlanner is infinite for some patient; missing is NaN.")
    elif kind not in (None, Category):
        raise ValueError(
            f"Feature {name!r} of DiagnosisPlanner was a number for every training patient; "
            f"got {[value for value in values if value is not None][:3]}."
        )
    return values
