"""Columns of codes that stand for categories: one-hot where they are few, target statistics where they are many.

A statistic is the share of a class among the training rows of a category, drawn towards the share among all of them by
scikit-learn's TargetEncoder. That of a training row is of the rows of all other folds (cross-fitted): its own label is
not in it, and what a model learns from it holds for new rows. A category that training did not have is a missing value:
it stands for the average.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from multiform._typing import Array, Doubles, Indices
from multiform.columns._seen import UnfamiliarWarning
from multiform.state import require, require_array, require_names, require_whole, spend

MOST_ONE_HOT = 50  # values
STATISTICS_FROM = 13  # values
MOST_KNOWN = 1_000_000  # values of a column: of more, a model file would not be read


@dataclass(frozen=True, eq=False)
class Coded:
    """One column of codes.

    Attributes
    ----------
    place : int
        Its column.
    values : array of float
        The codes that training had, ascending.
    means : array of shape (n_values, n_statistics) or None
    """

    place: int
    values: Doubles
    means: Doubles | None = None

    @property
    def n_one_hot(self) -> int:
        """Columns of the values: two need one only."""
        n = len(self.values)
        return 0 if n > MOST_ONE_HOT else n if n > 2 else n - 1 if n else 0

    def n_statistics(self, n_classes: int) -> int:
        """Columns of the statistics."""
        return 0 if len(self.values) < STATISTICS_FROM else n_classes if n_classes > 2 else 1

    @property
    def width(self) -> int:
        return self.n_one_hot + (0 if self.means is None else self.means.shape[1])

    def known(self, codes: Array) -> tuple[Indices, Array]:
        """The place of each code among the values, and which have one."""
        index = np.minimum(np.searchsorted(self.values, codes), max(0, len(self.values) - 1))
        return index, (self.values[index] == codes) if len(self.values) else np.zeros(len(codes), dtype=bool)

    def block(self, codes: Array, statistics: Doubles | None = None) -> Doubles:
        """The columns of codes, NaN where one is missing or unknown: shape (n, width)."""
        index, known = self.known(codes)
        one_hot = np.equal(index[:, None], np.arange(len(self.values) - self.n_one_hot, len(self.values)))
        parts = [one_hot.astype(np.float64)] if self.n_one_hot else []
        if self.means is not None:
            parts.append(self.means[index] if statistics is None else statistics)
        block = np.hstack([np.empty((len(codes), 0)), *parts])
        block[~known] = np.nan
        return block

    def crossed(self, codes: Array, target: Array, folds: Indices, n_classes: int) -> tuple[Coded, Doubles]:
        """With the statistics of all rows; and the columns of these rows, each with those of the other folds."""
        if not self.n_statistics(n_classes):
            return self, self.block(codes)
        index, known = self.known(codes)
        whole = replace(self, means=_means(index[known], target[known], len(self.values), n_classes))
        statistics = np.empty((len(codes), whole.means.shape[1]))  # type: ignore[union-attr]
        for fold in np.unique(folds):
            others = known & (folds != fold)
            means = _means(index[others], target[others], len(self.values), n_classes)
            statistics[folds == fold] = means[index[folds == fold]]
        return whole, whole.block(codes, statistics)


class Categories:
    """The columns of a matrix of which some are codes.

    Parameters
    ----------
    n_features : int
        Columns of the matrix.
    coded : sequence of Coded
    """

    def __init__(self, n_features: int, coded: Sequence[Coded]) -> None:
        self.n_features, self.coded = n_features, tuple(coded)
        places = [one.place for one in self.coded]
        self.others = np.setdiff1d(np.arange(n_features), places)

    @classmethod
    def learnt(cls, X: Array, places: Sequence[int]) -> Categories:
        """From a training matrix, NaN where a value is missing."""
        coded = [Coded(place, np.unique(X[~np.isnan(X[:, place]), place])) for place in places]
        for one in coded:
            if len(one.values) > MOST_KNOWN:
                raise ValueError(
                    f"Column {one.place} of X has {len(one.values)} different codes, and a category may have "
                    f"{MOST_KNOWN} at most; leave out what only names a row."
                )
        return cls(X.shape[1], coded)

    def crossed(self, X: Array, target: Array, folds: Indices, n_classes: int) -> tuple[Categories, Doubles]:
        """With statistics of the target, and the columns of the training matrix, cross-fitted."""
        pairs = [one.crossed(X[:, one.place], target, folds, n_classes) for one in self.coded]
        known = Categories(self.n_features, [coded for coded, _ in pairs])
        return known, np.hstack([X[:, self.others], *(block for _, block in pairs)])

    def width(self, n_classes: int) -> int:
        """Columns that the matrix becomes."""
        return len(self.others) + sum(one.n_one_hot + one.n_statistics(n_classes) for one in self.coded)

    def columns(self, X: Array) -> Doubles:
        """The columns of a matrix: numbers first, then those of each category; one that is unknown is missing."""
        return np.hstack([X[:, self.others], *(one.block(X[:, one.place]) for one in self.coded)])

    def count_unknown(self, X: Array) -> dict[int, int]:
        """How many codes of each column training did not have; columns that have none are left out."""
        counts = {
            one.place: int(np.sum(~one.known(X[:, one.place])[1] & ~np.isnan(X[:, one.place]))) for one in self.coded
        }
        return {place: count for place, count in counts.items() if count}

    # -------------------------------------------------------------------------------------------- model files

    def as_plain(self) -> dict[str, Any]:
        """For a model file."""
        parts = [{"place": one.place, "values": one.values, "means": one.means} for one in self.coded]
        return {"n_features": self.n_features, "coded": parts}

    @classmethod
    def from_plain(cls, state: Any, n_features: int, n_classes: int) -> Categories:
        """The inverse; what is none is refused."""
        require_names(state, "the categories", ["n_features", "coded"])
        require(
            state["n_features"] == n_features and isinstance(state["coded"], list), "the categories are of no columns"
        )
        coded = []
        for part in state["coded"]:
            require_names(part, "a category", ["place", "values", "means"])
            require_whole(part["place"], 0, "the place of a category")
            values = require_array(part["values"], (None,), "f", "the values of a category")
            ascending = np.isfinite(values).all() and (np.diff(values) > 0).all()
            require(
                values.dtype == np.float64 and len(values) <= MOST_KNOWN and ascending, "a category has no such values"
            )
            one = Coded(int(part["place"]), values, part["means"])
            n_statistics = one.n_statistics(n_classes)
            require((one.means is None) == (n_statistics == 0), "a category lacks its statistics, or has too many")
            if one.means is not None:
                require_array(one.means, (len(values), n_statistics), "f", "the statistics of a category")
                shares = one.means.dtype == np.float64 and ((one.means >= 0) & (one.means <= 1)).all()
                require(shares, "the statistics of a category are no shares")
            spend(64 * max(1, one.width), "the columns of a category")
            coded.append(one)
        places = [one.place for one in coded]
        require(len(places) > 0 and len(set(places)) == len(places), "two categories have one column, or there is none")
        require(max(places) < n_features, "a category has no column")
        spend(16 * n_features, "the columns that are no categories")
        return cls(n_features, coded)


def warn_of_unknown(counts: dict[str, int], owner: str, stacklevel: int) -> None:
    """One warning of categories that training did not have, if there are any."""
    if counts:
        listed = ", ".join(f"{count} in column {name!r}" for name, count in counts.items())
        warnings.warn(
            f"Categories that {owner} was not trained on are taken as missing: {listed}.",
            UnfamiliarWarning,
            stacklevel=stacklevel + 1,
        )


def _means(index: Array, target: Array, n_values: int, n_classes: int) -> Doubles:
    """The share of each class (of two, of the second) among the rows of each value: shape (n_values, n_statistics)."""
    n_columns = n_classes if n_classes > 2 else 1
    means = np.zeros((n_values, n_classes))
    present = np.unique(target)
    if len(present) < 2:  # scikit-learn needs two
        means[:, present] = 1
    else:
        kind = "multiclass" if len(present) > 2 else "binary"
        from sklearn.preprocessing import TargetEncoder  # it takes a while to load

        encoder = TargetEncoder(categories=[np.arange(n_values)], target_type=kind).fit(index[:, None], target)
        found = np.column_stack(encoder.encodings_)
        means[:, present] = found if kind == "multiclass" else np.column_stack([1 - found, found])
    return np.ascontiguousarray(np.clip(means[:, n_classes - n_columns :], 0, 1))
