"""How well, as numbers: accuracies with their intervals, and the difference from a baseline."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binomtest
from sklearn.metrics import f1_score

from multiform._typing import Array
from multiform.metrics import aurc

CONFIDENCE = 0.95


class Interval(NamedTuple):
    """A figure, and the 95 % interval around it."""

    value: float
    low: float
    high: float


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
) -> dict[str, Any]:
    """One row of the table of results; labels are whole numbers."""
    right = labels == truth
    recalls = [right[truth == label].mean() for label in np.unique(truth)]
    log_loss = None
    if chances is not None and np.isin(truth, classes).all():
        # The mean of minus the logarithm of the true class's chance; no chance is below 1e-6.
        own = chances[np.arange(len(truth)), np.searchsorted(classes, truth)]
        log_loss = float(-np.log(np.maximum(own, 1e-6)).mean())
    return {
        "name": name,
        "accuracy": proportion(int(right.sum()), len(truth)),
        "balanced_accuracy": float(np.mean(recalls)),
        "macro_f1": float(f1_score(truth, labels, average="macro", zero_division=0.0)),
        "log_loss": log_loss,
        "aurc": None if trust is None or np.isnan(trust).any() else aurc(truth, labels, trust),
        "is_model": is_model,
    }
