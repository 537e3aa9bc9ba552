"""Calibration samples: what a model that has not seen them says of them, as the tests of a promise need it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import _num_samples

from multiform import progress
from multiform._typing import Array, Bools, Doubles, Indices
from multiform.metrics import ScoreMethod, trust_score
from multiform.metrics.labels import positions


@dataclass(frozen=True)
class Examined:
    """Calibration samples as the tests need them: what they are, what they were called, and how surely."""

    true: Array
    predicted: Array
    trust: Doubles
    part: Array | None = None  # what `by` says of them
    chance: Doubles | None = None  # of the true class; -inf if the model does not know it

    def at(self, index: Any) -> Examined:
        """Some of them."""
        columns: list[Any] = [None if values is None else values[index] for values in vars(self).values()]
        return Examined(*columns)

    @classmethod
    def together(cls, pieces: list[Examined]) -> Examined:
        columns = zip(*(vars(piece).values() for piece in pieces), strict=True)
        joined: list[Any] = [None if column[0] is None else np.concatenate(column) for column in columns]
        return cls(*joined)


@dataclass(frozen=True)
class Examiner:
    """How a fitted classifier's answers to labelled samples are judged."""

    score_method: ScoreMethod
    by: Any
    with_chances: bool

    def __call__(self, estimator: Any, X: Any, y: Array) -> Examined:
        predicted, trust = np.asarray(estimator.predict(X)), trust_score(estimator, X, self.score_method)
        part = None if self.by is None else known_from(X, self.by)
        chance = None
        if self.with_chances:
            place = positions(y, np.asarray(estimator.classes_))
            chances = np.asarray(estimator.predict_proba(X), dtype=np.float64)
            chance = np.where(place < 0, -np.inf, chances[np.arange(len(y)), place])
        return Examined(y, predicted, trust, part, chance)


def fit_and_examine(
    estimator: Any,
    X: Any,
    y: Array,
    train: Indices,
    test: Indices,
    judge: Examiner,
    params: Mapping[str, Any],
    share: tuple[float, float] = (0.0, 1.0),
) -> Examined:
    """Fit on the samples at ``train``, which is this share of all work, and judge those at ``test``."""
    with progress.part(*share):
        estimator.fit(_safe_indexing(X, train), y[train], **cut_metadata(params, train, len(y)))
    return judge(estimator, _safe_indexing(X, test), y[test])


def known_from(X: Any, by: Any) -> Array:
    """The label of each row that a column or a callable gives."""
    if callable(by):
        labels = np.asarray(by(X))
    else:
        X = indexable(np.array(X, dtype=object) if isinstance(X, list) else X)[0]
        if isinstance(by, Integral) and not -X.shape[1] <= by < X.shape[1]:
            raise ValueError(f"by={by!r} of TriageClassifier is no column of X, which has {X.shape[1]}; count from 0.")
        if isinstance(by, str) and not hasattr(X, "columns"):
            raise ValueError(
                f"by={by!r} of TriageClassifier names a column, but X is a {type(X).__name__} without names."
            )
        sparse = scipy.sparse.issparse(X)
        labels = np.asarray(X.tocsr()[:, [by]].toarray() if sparse else _safe_indexing(X, by, axis=1)).ravel()
    if labels.shape != (_num_samples(X),):
        raise ValueError(
            f"'by' of TriageClassifier must give one label for each of the {_num_samples(X)} rows of X; got the shape "
            f"{labels.shape}."
        )
    return labels


def is_known(labels: Array) -> Bools:
    """Where a label is neither None nor NaN."""
    return np.array([label is not None and label == label for label in labels.tolist()], dtype=bool)


def as_objects(labels: list[Any]) -> Array:
    """An array of labels of any kind, none of them changed."""
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


def one_of_each(codes: Indices, rng: Any) -> Indices:
    """One sample of each group, at random."""
    order = rng.permutation(len(codes))
    return np.sort(order[np.unique(codes[order], return_index=True)[1]])


def conformal_threshold(chances: Doubles, coverage: float) -> float:
    """The least chance of a label in a set.

    Of n + 1 exchangeable chances of the truth, the last is below the k-th smallest of the others with a probability of
    at most k / (n + 1), so k = floor((n + 1) (1 - coverage)); 0 means that every label is in every set.
    """
    n = len(chances)
    k = n + 1 - ceil((n + 1) * coverage)
    return float(np.sort(chances)[k - 1]) if k > 0 else -np.inf


def cut_metadata(params: Mapping[str, Any], index: Indices, n_samples: int) -> dict[str, Any]:
    """Metadata for the samples at ``index``: what has one entry per sample is cut, the rest passes as it is."""

    def per_sample(value: Any) -> bool:
        return hasattr(value, "__len__") and not isinstance(value, str) and _num_samples(value) == n_samples

    return {k: _safe_indexing(v, index) if per_sample(v) else v for k, v in params.items()}
