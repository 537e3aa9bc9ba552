"""The machine around any classifier that can weigh classes or samples: one fit a model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter

from multiform.labels import class_weights_of
from multiform.loyalty._alterations import Alterations
from multiform.loyalty._committee import Committee

__all__ = ["WeightedTrainer", "refuse_weightless"]

Array = npt.NDArray[Any]
Rows = npt.NDArray[np.intp]


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


@dataclass(frozen=True)
class WeightedTrainer:
    """Trains committees around a classifier through its public methods alone.

    Parameters
    ----------
    estimator : classifier
        Unfitted; cloned for every model.
    X, y : the training data, as the user has them
    target : array of int, shape (n,)
        Index of each sample's class.
    classes : array of shape (m,)
    weight : array of float, shape (n,), or None
    alterations : Alterations
    n_jobs : int or None
        Models to fit at the same time.
    """

    estimator: Any
    X: Any
    y: Array
    target: Array
    classes: Array
    weight: Array | None
    alterations: Alterations
    n_jobs: int | None

    def committees(self, parts: list[Rows | None]) -> Iterator[Committee]:
        """One committee for each part of the rows; None is all of them."""
        # (class factors of the nominal, then of each altered one) x parts
        factors = np.vstack([np.ones(len(self.classes)), self.alterations.factors])
        for rows in parts:
            models = Parallel(n_jobs=self.n_jobs)(delayed(self._fit)(one, rows) for one in factors)
            yield Committee(self.classes, self.alterations, models[0], models[1:])

    def _fit(self, factors: Array, rows: Rows | None) -> Any:
        X = self.X if rows is None else _safe_indexing(self.X, rows)
        y, target, weight = self.y, self.target, self.weight
        if rows is not None:
            y, target, weight = y[rows], target[rows], None if weight is None else weight[rows]
        model = clone(self.estimator)
        if (factors == 1).all():
            return model.fit(X, y) if weight is None else model.fit(X, y, sample_weight=weight)
        if has_fit_parameter(model, "sample_weight"):
            if model.get_params(deep=False).get("class_weight") == "balanced":
                # Classes that are balanced by the weight of their samples would level out the very alteration.
                factors = factors * class_weights_of("balanced", self.classes, target, weight)
                model.set_params(class_weight=None)
            return model.fit(X, y, sample_weight=factors[target] * (1 if weight is None else weight))
        present = np.unique(target)
        own = class_weights_of(model.class_weight, self.classes[present], np.searchsorted(present, target), None)
        altered = dict(zip(self.classes[present].tolist(), (own * factors[present]).tolist(), strict=True))
        return model.set_params(class_weight=altered).fit(X, y)
