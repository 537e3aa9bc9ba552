"""The nominal classifier and the altered ones, and what they say together of a sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from multiform._typing import Array, Indices
from multiform.classifier import QMSClassifier
from multiform.engines import evaluate
from multiform.loyalty._alterations import Alterations, loyalty_levels
from multiform.prediction import log_scores, separators_of
from multiform.separators import Separators

LEAST_CHANCE = 1e-6  # a classifier that rules a class out has seen too little to be that sure
ROWS_AT_ONCE = 16_384


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

    nominal: Indices
    level: Indices
    agreement: Array
    nominal_scores: Array
    mean_scores: Array

    @classmethod
    def pooled(cls, parts: Sequence[Verdict]) -> Verdict:
        """The samples of all parts, one part after the other."""
        return cls(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(cls)))


class Committee:
    """The nominal classifier and the altered ones, in the order of `Alterations`.

    Those of a `QMSClassifier` are stacked, so that one product answers for all of them.
    """

    def __init__(self, classes: Array, alterations: Alterations, nominal: Any, altered: list[Any]) -> None:
        self.classes, self.alterations, self.nominal, self.altered = classes, alterations, nominal, altered
        self._separators = None
        if all(isinstance(model, QMSClassifier) and len(model.classes_) == len(classes) for model in self.models):
            self._separators = Separators.stack([separators_of(model, nominal) for model in self.models])

    def checked(self) -> Committee:
        """That of a model file: its models, each fine by itself, are so in the scaling that they share."""
        if self._separators is not None:
            self._separators.checked()
        return self

    @property
    def models(self) -> list[Any]:
        return [self.nominal, *self.altered]

    def verdict(self, X: Any) -> Verdict:
        """Ask every model about every sample; X has been checked."""
        if self._separators is None:
            answers = [answers_of(model, X, self.classes) for model in self.models]
            return self._judged(*(np.stack(part, axis=1) for part in zip(*answers, strict=True)))
        verdicts = []
        for begin in range(0, X.shape[0], ROWS_AT_ONCE):
            part = X[begin : begin + ROWS_AT_ONCE]
            f = evaluate(self._separators, part, self.nominal.device, self.nominal.n_jobs)
            verdicts.append(self._judged(f.argmin(axis=2), log_scores(f)))
        return Verdict.pooled(verdicts)

    def _judged(self, predicted: Indices, scores: Array) -> Verdict:
        """From each model's predicted class (n, n_models) and scores (n, n_models, m)."""
        n, m, n_betas = len(predicted), len(self.classes), len(self.alterations.beta)
        claims = (predicted[:, 1:].reshape(n, -1, m) == np.arange(m)).sum(axis=2).T
        return Verdict(
            nominal=predicted[:, 0],
            level=loyalty_levels(claims[:n_betas], claims[n_betas:]),
            agreement=(predicted == predicted[:, :1]).mean(axis=1),
            nominal_scores=scores[:, 0],
            mean_scores=scores.mean(axis=1, dtype=np.float64),
        )


def answers_of(model: Any, X: Any, classes: Array) -> tuple[Indices, Array]:
    """Predicted class indices, and a score for each class that is higher for a likelier one: shapes (n,), (n, m)."""
    known = np.searchsorted(classes, model.classes_)
    labels = np.asarray(model.predict(X))
    predicted = np.searchsorted(classes, labels)
    scores = np.asarray(model.decision_function(X)) if hasattr(model, "decision_function") else np.empty((0, 0, 0))
    if scores.ndim == 1:
        scores = np.column_stack([-scores / 2, scores / 2])
    if scores.ndim != 2 or scores.shape[1] != len(known):  # none, or one per pair of classes
        if hasattr(model, "predict_proba"):
            scores = np.log(np.maximum(model.predict_proba(X), LEAST_CHANCE))
        else:  # nothing but a vote
            scores = (labels[:, None] == model.classes_).astype(np.float64)
    # A class that no training sample of this fold had is as unlikely as the least likely one.
    whole = np.repeat(scores.min(axis=1, keepdims=True), len(classes), axis=1).astype(np.float64)
    whole[:, known] = scores
    return predicted, whole
