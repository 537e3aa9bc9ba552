"""The chances of the classes, learnt on samples that the models did not see.

The chance c of the nominal classifier's answer is what all models together say of it. The rest, 1 - c, is shared among
the other classes as the nominal classifier shares it: in proportion to exp(s_k / T), where s_k is its score of class k
and T one temperature. The answer is the class with the largest chance, so c is at least

    r / (1 + r),    r = the largest of the others' shares of the rest,

which is 1/2 in a problem of two classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from scipy.special import expit, softmax

from multiform._typing import Array, Doubles, Indices
from multiform.loyalty._committee import Verdict
from multiform.prediction import fit_temperature
from multiform.state import require, require_array, require_names, require_temperature

MOST_GAPS = 9
MOST_SHIFT = 5.0  # of the logarithm of the odds
MOST_INPUT, MOST_REACH = 1e4, 1e150  # in a model file: gaps of scores, and what the regression makes of them
LEAD = 1 + 1e-9  # the answer's chance is above the next one's, if only by so much


class Chances:
    """The chance of each class, of which the answer's is the largest.

    The answer's is a logistic regression of "the answer is right" on what the models say together. Its inputs are the
    gaps between the averaged score of the predicted class and those of the other classes, nearest first; the share of
    models that agree; the loyalty type; and the predicted class, with a slope of its own for the nearest gap, since the
    same gap means more for one class than for another. The penalty (C = 0.1) is felt with hundreds of samples and
    vanishes with tens of thousands.
    """

    def __init__(self, n_levels: int, n_classes: int) -> None:
        self.n_levels, self.n_classes = n_levels, n_classes

    def fit(self, verdict: Verdict, true: Indices, weight: Array | None) -> Chances:
        """Learn from unseen samples of the classes `true`.

        Each sample counts as mostly right or mostly wrong (Platt 1999), so that a set without a mistake does not
        promise that there never will be one.
        """
        n, right = len(true), verdict.nominal == true
        self.temperature = fit_temperature(verdict.nominal_scores, true, weight)
        share = np.ones(n) if weight is None else weight
        n_right, n_wrong = share[right].sum(), share[~right].sum()
        chance = np.where(right, (n_right + 1) / (n_right + 2), 1 / (n_wrong + 2))
        inputs = np.tile(self._inputs(verdict), (2, 1))
        outcome = np.repeat([1, 0], n)
        weights = np.concatenate([share * chance, share * (1 - chance)])
        self.mean = np.average(inputs, axis=0, weights=weights)
        deviation = np.sqrt(np.average((inputs - self.mean) ** 2, axis=0, weights=weights))
        self.scale = np.where(deviation > 0, deviation, 1.0)
        from sklearn.linear_model import LogisticRegression  # it takes a while to load

        logistic = LogisticRegression(C=0.1, solver="newton-cholesky", max_iter=1000, tol=1e-13)
        logistic.fit((inputs - self.mean) / self.scale, outcome, sample_weight=weights)
        self.coefficients, self.intercept = logistic.coef_[0], logistic.intercept_
        # An answer's chance has a least value, so the mean is brought back to the share of right answers.
        logits, least = self._logits(verdict), LEAD * _least(self._shares_of_others(verdict))

        def too_high(shift: float) -> float:
            return float(share @ (np.maximum(expit(logits + shift), least) - chance))

        if too_high(-MOST_SHIFT) < 0 < too_high(MOST_SHIFT):
            self.intercept = self.intercept + scipy.optimize.brentq(too_high, -MOST_SHIFT, MOST_SHIFT)
        return self

    def __call__(self, verdict: Verdict) -> Doubles:
        """The chances of the classes: shape (n, m)."""
        shares = self._shares_of_others(verdict)
        right = np.maximum(expit(self._logits(verdict)), LEAD * _least(shares))
        chances = (1 - right)[:, None] * shares
        chances[np.arange(len(right)), verdict.nominal] = right
        return np.asarray(chances)

    def _shares_of_others(self, verdict: Verdict) -> Doubles:
        """How the nominal classifier would share out a chance among the classes that are not its answer."""
        scores = verdict.nominal_scores / self.temperature
        scores[np.arange(len(scores)), verdict.nominal] = -np.inf
        return np.asarray(softmax(scores, axis=1))

    def of_answer(self, verdict: Verdict) -> Doubles:
        """The chance of the nominal classifier's answer, the largest of each sample: shape (n,)."""
        return np.asarray(self(verdict).max(axis=1))

    def _logits(self, verdict: Verdict) -> Doubles:
        standardised = (self._inputs(verdict) - self.mean) / self.scale
        return np.asarray(standardised @ self.coefficients + self.intercept)

    def _inputs(self, verdict: Verdict) -> Doubles:
        n = len(verdict.nominal)
        own = verdict.mean_scores[np.arange(n), verdict.nominal]
        others = np.ones((n, self.n_classes), dtype=bool)
        others[np.arange(n), verdict.nominal] = False
        gaps = np.sort(own[:, None] - verdict.mean_scores[others].reshape(n, -1), axis=1)
        level = np.eye(self.n_levels)[verdict.level]
        predicted = np.eye(self.n_classes)[verdict.nominal]
        return np.column_stack([gaps[:, :MOST_GAPS], verdict.agreement, level, predicted, predicted * gaps[:, :1]])

    # -------------------------------------------------------------------------------------------- model files

    def _get_state(self) -> dict[str, Any]:
        """The logistic regression on standardised inputs."""
        return {
            "mean": self.mean,
            "scale": self.scale,
            "coefficients": self.coefficients,
            "intercept": self.intercept,
            "temperature": self.temperature,
        }

    def _set_state(self, state: dict[str, Any]) -> None:
        require_names(state, "the score", ["mean", "scale", "coefficients", "intercept", "temperature"])
        require_temperature(state["temperature"], "temperature of the score")
        width = min(self.n_classes - 1, MOST_GAPS) + 1 + self.n_levels + 2 * self.n_classes
        shapes = {"mean": width, "scale": width, "coefficients": width, "intercept": 1}
        for name, length in shapes.items():
            found = require_array(state[name], (length,), "f", f"{name} of the score")
            require(np.isfinite(found).all(), f"{name} of the score is not finite")
        require((state["scale"] > 0).all(), "scale of the score is not positive")
        with np.errstate(over="ignore"):  # of the largest logit that there can be
            reach = (MOST_INPUT + np.abs(state["mean"])) / state["scale"] * (1 + np.abs(state["coefficients"]))
        require((reach.sum() + np.abs(state["intercept"]) < MOST_REACH).all(), "the score is too steep")
        self.mean, self.scale, self.temperature = state["mean"], state["scale"], state["temperature"]
        self.coefficients, self.intercept = state["coefficients"], state["intercept"]


def _least(shares: Doubles) -> Doubles:
    """The least chance of the answers, r / (1 + r)."""
    most = shares.max(axis=1)
    return np.asarray(most / (1 + most))
