"""How far an answer on an evidence set can be trusted, and what going on could still correct.

Three numbers belong to an evidence set S, all estimated on unseen scores:

- the sharpness a_S. With the scores s the chances of the classes are ``softmax(a_S s)``. Each set has its own, drawn
  towards what all sets have in common, so that a few hundred patients are enough.
- slope b_S and spread c_S. Let k be the answer on S, ``L = logit P_S(k)`` how sure it is, and ``L' = logit P_full(k)``
  how sure of the same answer one would be with all evidence. Then ``L' ~ Normal(b_S L, c_S^2)``: little spread is left
  when S says nearly all that the full panel will say.

The *regret* of stopping on S is the accuracy that one expects to forgo. Full evidence would answer otherwise if
L' < 0, and be right more often by ``1 - 2 P_full(k) = tanh(-L' / 2)``:

    regret(L, S) = E max(0, tanh(-L' / 2)).

An unsure answer that no further evidence would change has a small regret, and going on would be money for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax, softmax

__all__ = ["SetTrust", "answers", "expected_regret", "fit_sharpness", "fit_trust"]

Doubles = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]

PULL = 10.0  # how strongly a set's log sharpness is drawn to the common one
MOST = 5.0  # the log sharpness stays within -5 and 5
SUREST = 12.0  # the largest log odds
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()


@dataclass(frozen=True)
class SetTrust:
    """Sharpness, slope and spread of one evidence set."""

    sharpness: float
    slope: float
    spread: float

    def chances(self, scores: Floats) -> Doubles:
        """Calibrated chances of the classes: shape (n, m)."""
        return np.asarray(softmax(self.sharpness * scores.astype(np.float64), axis=1))

    def regret(self, chances: Doubles) -> Doubles:
        """The accuracy that one expects to forgo by stopping here: shape (n,)."""
        return expected_regret(log_odds(chances.max(axis=1)), self.slope, self.spread)


def log_odds(chance: Doubles) -> Doubles:
    with np.errstate(divide="ignore"):
        return np.asarray(np.clip(np.log(chance) - np.log1p(-chance), -SUREST, SUREST))


def expected_regret(sureness: Doubles, slope: float, spread: float) -> Doubles:
    """``E max(0, tanh(-L' / 2))`` for ``L' ~ Normal(slope L, spread^2)``, by Gauss-Hermite quadrature.

    >>> import numpy as np
    >>> expected_regret(np.array([0.0, 1.0, 3.0]), slope=1.0, spread=1.0).round(3)
    array([0.182, 0.032, 0.   ])
    """
    later = slope * sureness[..., None] + spread * NODES
    return np.asarray(np.tanh(np.maximum(-later, 0) / 2) @ NODE_WEIGHTS)


def fit_sharpness(scores: Floats, target: npt.NDArray[np.int32], common: float, pull: float) -> Doubles:
    """The log sharpness of several sets at once, by Newton's method on the penalised log loss.

    Parameters
    ----------
    scores : array, shape (n_sets, n, m)
    target : array of int, shape (n,)
    common : float
        The log sharpness that all are drawn to.
    pull : float
        ``pull / 2 (log a - common)^2`` is added to the log loss, summed over patients.
    """
    values = scores.astype(np.float64)
    own = np.take_along_axis(values, target[None, :, None], axis=2)[:, :, 0]
    log_a = np.full(len(values), common)
    for _ in range(25):
        a = np.exp(log_a)[:, None]
        chances = np.exp(log_softmax(a[..., None] * values, axis=2))
        mean = (chances * values).sum(axis=2)
        variance = (chances * values**2).sum(axis=2) - mean**2
        first = (a * (mean - own)).sum(axis=1) + pull * (log_a - common)
        # The loss is convex in a, not in log a: the absolute value keeps the step a descent.
        second = (a**2 * variance).sum(axis=1) + pull + np.abs((a * (mean - own)).sum(axis=1))
        step = np.clip(first / np.maximum(second, 1e-12), -1, 1)
        log_a = np.clip(log_a - step, -MOST, MOST)
        if np.abs(step).max() < 1e-3:
            break
    return log_a


def fit_trust(scores: Floats, full: Doubles, target: npt.NDArray[np.int32], common: float) -> list[SetTrust]:
    """Sharpness, slope and spread of several sets.

    Parameters
    ----------
    scores : array, shape (n_sets, n, m)
        Unseen scores on each set.
    full : array, shape (n, m)
        Calibrated chances from all evidence, of the same patients, unseen too.
    """
    trusts = []
    rows = np.arange(len(target))
    for log_a, one in zip(fit_sharpness(scores, target, common, PULL), scores, strict=True):
        chances = softmax(np.exp(log_a) * one.astype(np.float64), axis=1)
        answer = chances.argmax(axis=1)
        sure, later = log_odds(chances[rows, answer]), log_odds(full[rows, answer])
        slope = float(np.clip((sure @ later) / max(float(sure @ sure), 1e-12), 0, 10))
        spread = float(np.sqrt(np.mean((later - slope * sure) ** 2)))
        trusts.append(SetTrust(float(np.exp(log_a)), slope, spread))
    return trusts


def answers(chances: Doubles) -> npt.NDArray[np.int64]:
    """The index of the likeliest class."""
    return np.asarray(chances.argmax(axis=1), dtype=np.int64)
