"""How well, as numbers: accuracies with their intervals, and the difference from a baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest
from sklearn.metrics import f1_score

from multiform.metrics import aurc

__all__ = ["Interval", "ModelScores", "difference", "proportion", "scores"]

Array = npt.NDArray[Any]
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A figure, and the 95 % interval around it."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ModelScores:
    """One row of the table of results."""

    name: str
    accuracy: Interval
    balanced_accuracy: float
    macro_f1: float
    log_loss: float | None
    aurc: float | None
    is_model: bool


def proportion(n_right: int, n: int) -> Interval:
    """A share and its Wilson interval.

    >>> proportion(8, 10)
    Interval(value=0.8, low=0.490..., high=0.943...)
    """
    found = binomtest(n_right, n).proportion_ci(CONFIDENCE, method="wilson")
    return Interval(n_right / n, float(found.low), float(found.high))


def difference(right: Array, other: Array) -> Interval:
    """The mean difference of two accuracies on the same samples, with the normal interval of paired differences."""
    gains = right.astype(float) - other.astype(float)
    spread = 1.96 * gains.std() / np.sqrt(len(gains))
    return Interval(float(gains.mean()), float(gains.mean() - spread), float(gains.mean() + spread))


def scores(
    name: str, truth: Array, labels: Array, chances: Array | None, classes: Array, trust: Array | None, is_model: bool
) -> ModelScores:
    """All figures of one model on labelled samples; labels are whole numbers."""
    right = labels == truth
    present = np.unique(truth)
    recalls = [float(right[truth == label].mean()) for label in present]
    macro = f1_score(truth, labels, average="macro", zero_division=0.0)
    return ModelScores(
        name,
        proportion(int(right.sum()), len(truth)),
        float(np.mean(recalls)),
        float(macro),
        _log_loss(truth, chances, classes),
        None if trust is None or np.isnan(trust).any() else aurc(truth, labels, trust),
        is_model,
    )


def _log_loss(truth: Array, chances: Array | None, classes: Array) -> float | None:
    """The mean of minus the logarithm of the true class's chance; no chance is below 1e-6."""
    if chances is None or not np.isin(truth, classes).all():
        return None
    own = chances[np.arange(len(truth)), np.searchsorted(classes, truth)]
    return float(-np.log(np.maximum(own, 1e-6)).mean())
