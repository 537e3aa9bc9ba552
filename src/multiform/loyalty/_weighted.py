"""The machine around any classifier that can weigh classes or samples: one fit a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter

from multiform._typing import Array, Indices
from multiform.inputs import class_weights_of
from multiform.loyalty._alterations import Alterations
from multiform.loyalty._committee import Committee


def refuse_weightless(estimator: Any, has_sample_weight: bool) -> None:
    """A sentence for a classifier that cannot be altered."""
    name = type(estimator).__name__
    if has_fit_parameter(estimator, "sample_weight"):
        return
    if "class_weight" not in estimator.get_params(deep=False):
        raise ValueError(
            f"LoyaltyClassifier alters the weights of classes, and {name} takes neither sample_weight in fit nor the "
            "parameter class_weight: give a classifier that does, or put LoyaltyClassifier around the last step of a "
            "pipeline instead of the whole."
        )
    if has_sample_weight:
        raise ValueError(
            f"sample_weight of LoyaltyClassifier.fit needs an estimator whose fit takes sample_weight, and {name} does "
            "not: leave sample_weight out, or give another classifier."
        )


def weighted_committees(
    estimator: Any,
    X: Any,
    target: Array,
    classes: Array,
    weight: Array | None,
    alterations: Alterations,
    n_jobs: int | None,
    parts: list[Indices | None],
) -> Iterator[Committee]:
    """One committee for each part of the rows (None is all of them), through the estimator's public methods alone.

    Parameters
    ----------
    estimator : classifier
        Unfitted; cloned for every model.
    X : the training data, as the user has them
    target : array of int, shape (n,)
        Index of each sample's class.
    classes, weight, alterations
    n_jobs : int or None
        Models to fit at the same time.
    parts : list of arrays of indices, or None
    """
    factors = np.vstack([np.ones(len(classes)), alterations.factors])  # of the nominal, then of each altered one
    for rows in parts:
        part, of_part, weight_of_part = X, target, weight
        if rows is not None:
            part, of_part = _safe_indexing(X, rows), target[rows]
            weight_of_part = None if weight is None else weight[rows]
        models = Parallel(n_jobs=n_jobs)(
            delayed(_fit)(estimator, one, part, of_part, classes, weight_of_part) for one in factors
        )
        yield Committee(classes, alterations, models[0], models[1:])


def _fit(estimator: Any, factors: Array, X: Any, target: Array, classes: Array, weight: Array | None) -> Any:
    """One model, with the classes' weights multiplied by these factors."""
    model, y = clone(estimator), classes[target]
    if (factors == 1).all():
        return model.fit(X, y) if weight is None else model.fit(X, y, sample_weight=weight)
    if has_fit_parameter(model, "sample_weight"):
        if model.get_params(deep=False).get("class_weight") == "balanced":
            # Classes that are balanced by the weight of their samples would level out the very alteration.
            factors = factors * class_weights_of("balanced", classes, target, weight)
            model.set_params(class_weight=None)
        return model.fit(X, y, sample_weight=factors[target] * (1 if weight is None else weight))
    present = np.unique(target)
    own = class_weights_of(model.class_weight, classes[present], np.searchsorted(present, target), None)
    altered = dict(zip(classes[present].tolist(), (own * factors[present]).tolist(), strict=True))
    return model.set_params(class_weight=altered).fit(X, y)
