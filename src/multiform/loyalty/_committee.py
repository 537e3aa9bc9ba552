"""The nominal classifier and the altered ones, and what they say together of a sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from multiform.calibration import log_scores
from multiform.classifier import QMSClassifier
from multiform.evaluation import member_values_in_user_units
from multiform.loyalty._alterations import Alterations
from multiform.loyalty._types import loyalty_levels

__all__ = ["Committee", "Verdict", "answers_of"]

Array = npt.NDArray[Any]
LEAST_CHANCE = 1e-6  # a classifier that rules a class out has seen too little to be that sure


@dataclass(frozen=True)
class Verdict:
    """What all models together say of each sample.

    Attributes
    ----------
    nominal : array of int, shape (n,)
        Index of the class that the nominal classifier predicts.
    level : array of int, shape (n,)
        The loyalty type, 0 the surest.
    agreement : array of float, shape (n,)
        The share of all models that predict the nominal's class.
    nominal_scores : array of float, shape (n, m)
        The nominal classifier's score of each class, higher is better: -log f of QMS.
    mean_scores : array of float, shape (n, m)
        The scores averaged over all models. Every class is held back and pushed equally often, so what the weights do
        to the scores cancels.
    """

    nominal: npt.NDArray[np.intp]
    level: npt.NDArray[np.intp]
    agreement: Array
    nominal_scores: Array
    mean_scores: Array

    @classmethod
    def pooled(cls, parts: Sequence[Verdict]) -> Verdict:
        """The samples of all parts, one part after the other."""
        return cls(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(cls)))


@dataclass(frozen=True)
class Committee:
    """The nominal classifier and the altered ones, in the order of `Alterations`."""

    classes: Array
    alterations: Alterations
    nominal: Any
    altered: list[Any]

    def verdict(self, X: Any) -> Verdict:
        """Ask every model about every sample."""
        nominal, nominal_scores = answers_of(self.nominal, X, self.classes)
        n_betas = len(self.alterations.beta)
        claims = np.zeros((n_betas + len(self.alterations.gamma), len(nominal)), dtype=np.intp)
        agreement, total = np.ones(len(nominal)), nominal_scores.astype(np.float64)
        for (step, altered), model in zip(self.alterations, self.altered, strict=True):
            predicted, scores = answers_of(model, X, self.classes)
            claims[step] += predicted == altered
            agreement += predicted == nominal
            total += scores
        n_models = 1 + len(self.altered)
        level = loyalty_levels(claims[:n_betas], claims[n_betas:])
        return Verdict(nominal, level, agreement / n_models, nominal_scores, total / n_models)


def answers_of(model: Any, X: Any, classes: Array) -> tuple[npt.NDArray[np.intp], Array]:
    """Predicted class indices, and a score for each class that is higher for a likelier one: shapes (n,), (n, m)."""
    if isinstance(model, QMSClassifier):  # X has been checked: once is enough for 2m + 1 models
        f = member_values_in_user_units(
            X, model.components_, model.offsets_, model._center, model._scale, model.n_jobs, model.device
        )
        return f.argmin(axis=1), log_scores(f)
    known = np.searchsorted(classes, model.classes_)
    labels = np.asarray(model.predict(X))
    predicted = np.searchsorted(classes, labels)
    scores = np.asarray(model.decision_function(X)) if hasattr(model, "decision_function") else np.empty((0, 0, 0))
    if scores.ndim == 1:
        scores = np.column_stack([-scores / 2, scores / 2])
    if scores.ndim != 2 or scores.shape[1] != len(known):  # none, or one a pair of classes
        if hasattr(model, "predict_proba"):
            scores = np.log(np.maximum(model.predict_proba(X), LEAST_CHANCE))
        else:  # nothing but a vote
            scores = (labels[:, None] == model.classes_).astype(np.float64)
    # A class that no training sample of this fold had is as unlikely as the least likely one.
    whole = np.repeat(scores.min(axis=1, keepdims=True), len(classes), axis=1).astype(np.float64)
    whole[:, known] = scores
    return predicted, whole
