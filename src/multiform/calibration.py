"""From member values to probabilities: one temperature, fitted on samples the model did not see.

p_k(x) = f_k(x)^(-1/T) / sum_j f_j(x)^(-1/T), the softmax of -log f / T.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import log_softmax, softmax

from multiform.gpu_arrays import on_gpu

__all__ = ["fit_temperature", "log_scores", "probabilities"]

Doubles = npt.NDArray[np.float64]
MOST = 5.0  # the temperature stays within exp(-5) and exp(5)


def log_scores(f: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """-log f; a sample that a separator meets exactly (f = 0) gets the largest finite score of its type."""
    if not on_gpu(f):
        f = np.asarray(f)
    scores: npt.NDArray[Any] = -np.log(np.maximum(f, np.finfo(f.dtype).tiny))
    return scores


def probabilities(scores: npt.NDArray[Any], temperature: float) -> npt.NDArray[Any]:
    scaled = scores / scores.dtype.type(temperature)
    if on_gpu(scaled):
        chances = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        return chances / chances.sum(axis=1, keepdims=True)  # type: ignore[no-any-return]
    return np.asarray(np.exp(log_softmax(scaled, axis=1)))


def fit_temperature(
    scores: npt.NDArray[Any], target: npt.NDArray[Any], weight: npt.NDArray[Any] | None = None
) -> float:
    """The temperature with the least log loss on (scores, target).

    Each label is softened by 1 / (n + 2) towards the uniform one, as Platt (1999) did, so that a small set that is
    separated perfectly does not ask for certainty.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(size=(20000, 3))
    >>> chance = probabilities(scores, 0.5)
    >>> target = (rng.random((20000, 1)) > chance.cumsum(axis=1)).sum(axis=1)
    >>> round(fit_temperature(scores, target), 1)
    0.5
    """
    weight = np.ones(len(target)) if weight is None else np.asarray(weight, dtype=np.float64)
    scores = scores.astype(np.float64)
    softened = 1 / (weight.sum() + 2)
    own = scores[np.arange(len(target)), target]
    # sum over k of the softened label times the score
    labelled = (1 - softened) * own + softened * scores.mean(axis=1)

    # The log loss is convex in the sharpness 1 / T; its slope is sum w (E_p[score] - labelled).
    def slope(log_sharpness: float) -> float:
        expected = (softmax(np.exp(log_sharpness) * scores, axis=1) * scores).sum(axis=1)
        return float(weight @ (expected - labelled))

    if slope(-MOST) >= 0:
        return float(np.exp(MOST))
    if slope(MOST) <= 0:
        return float(np.exp(-MOST))
    return float(np.exp(-brentq(slope, -MOST, MOST, xtol=1e-10)))
