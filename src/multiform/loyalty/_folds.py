"""Who judges whom: the splits that the estimates are made on."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.model_selection import check_cv

from multiform._typing import Array, Bools, Indices
from multiform.inputs import content_folds

Split = tuple[Indices, Indices]  # the rows that train, the rows that are judged

FEW_FOLDS_FROM = 20_000  # samples


def balanced_splits(cv: int | str, X: Any, target: Array, seed: int) -> list[Split]:
    """Folds that balance the classes and never part equal rows, which only a numeric X can be searched for."""
    n = len(target)
    n_folds = int(cv) if isinstance(cv, Integral) else 3 if n >= FEW_FOLDS_FROM else 5
    numeric = scipy.sparse.issparse(X) or (isinstance(X, np.ndarray) and X.dtype.kind in "biuf" and X.ndim == 2)
    content = X if numeric and X.shape[1] else np.arange(n, dtype=np.float64)[:, None]
    folds = content_folds(content, target, n_folds, np.random.default_rng(seed))
    return [(np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)) for fold in np.unique(folds)]


def given_splits(cv: Any, X: Any, y: Array, used: Bools) -> list[Split]:
    """The splits of a splitter or an iterable, counted as if the samples of weight 0 were not there."""
    position = np.cumsum(used) - 1
    return [
        (position[train[used[train]]], position[test[used[test]]])
        for train, test in check_cv(cv, y, classifier=True).split(X, y)
    ]


def refuse_bare_folds(splits: list[Split], target: Array) -> None:
    """A fold must train on two classes at least, and judge something."""
    for train, test in splits:
        if len(np.unique(target[train])) < 2 or not len(test):
            raise ValueError(
                "Every fold of cv of LoyaltyClassifier must train on at least 2 classes and judge at least one sample; "
                f"got a fold that trains on {len(train)} and judges {len(test)}, n_samples={len(target)}. "
                "Give more samples, or fewer folds."
            )
