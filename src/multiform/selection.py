"""Which settings and partners make an ensemble, and how much of each: chosen on samples that no model of them saw.

A candidate k says log p_k(x), at a temperature of its own. The ensemble says, with shares s_k and an offset b of each
class, log p(x) = sum_k s_k log p_k(x) + b + const. All three are estimated, and an estimate believes in itself: what is
told of the ensemble is of scores for which each fold was judged by what the other folds choose.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax

from multiform._typing import Array, Doubles, Indices
from multiform.prediction import MOST_OFFSET, class_offsets, fit_temperatures

__all__ = ["Choice", "choose"]

CHOICE_MATTERS_BELOW = 5_000  # samples: from so many on a choice among a few settings flatters no more
ENOUGH_TO_CHOOSE = 10_000  # samples: more say nothing new of a few settings
TRUSTS = (1.0, 0.5)  # how much of a choice among kinds is believed; few samples choose too much


class Choice(NamedTuple):
    """What was chosen among candidates, of which the first are our own settings and the others partners.

    Parameters
    ----------
    temperatures, shares, log_losses, accuracies : arrays of shape (n_candidates,)
    own_scale : float
        Sum of share / temperature over our own settings: of -log f in the scores of the ensemble.
    offsets : array of shape (m,)
        What the scores of each class lack.
    judged : array of shape (n, m)
        Scores of the samples by an ensemble that they did not choose.
    """

    temperatures: Doubles
    shares: Doubles
    log_losses: Doubles
    accuracies: Doubles
    own_scale: float
    offsets: Doubles
    judged: Doubles


def choose(
    unseen: Doubles,
    target: Array,
    weight: Doubles,
    counted: Array | None,
    folds: Indices,
    n_own: int,
    n_steps: int,
    random: np.random.Generator,
) -> Choice:
    """Temperatures, shares and offsets.

    Parameters
    ----------
    unseen : array of shape (n_candidates, n, m)
        Scores of each sample by the models that have not seen it.
    target : array of shape (n,)
    weight : array of shape (n,)
    counted : array of shape (n,), or None
        How often each sample counts where answers are given, for the offsets; None: there are none.
    folds : array of shape (n,)
        Of which fold each sample is.
    n_own : int
        How many candidates are our own settings; they come first.
    n_steps : int
        Of the greedy selection.
    random : Generator
        Draws the samples that choose, where there are more than enough.
    """
    n, n_folds = len(target), int(folds.max()) + 1
    some = slice(None) if n <= ENOUGH_TO_CHOOSE else np.sort(random.choice(n, ENOUGH_TO_CHOOSE, replace=False))
    matters = n < CHOICE_MATTERS_BELOW
    temperatures, greedy = _greedy(unseen[:, some], target[some], weight[some], n_own, n_steps)
    log_chances = log_softmax(unseen / temperatures[:, None, None], axis=2)
    trusts = TRUSTS if len(unseen) > n_own and matters else TRUSTS[:1]
    judged = np.stack([np.tensordot(mixed(greedy, n_own, trust), log_chances, axes=1) for trust in trusts])
    for fold in range(n_folds if matters else 0):
        held = folds == fold
        at, chosen = _greedy(unseen[:, ~held], target[~held], weight[~held], n_own, n_steps)
        others_say = log_softmax(unseen[:, held] / at[:, None, None], axis=2)
        judged[:, held] = [np.tensordot(mixed(chosen, n_own, trust), others_say, axes=1) for trust in trusts]
    losses = -log_softmax(judged, axis=2)[:, np.arange(n), target] * weight
    shares = mixed(greedy, n_own, trusts[int(losses.sum(axis=1).argmin())])
    believed = np.array([losses[:, folds != fold].sum(axis=1).argmin() for fold in range(n_folds)])
    judged = judged[believed[folds], np.arange(n)]

    own_scale = float((shares / temperatures)[:n_own].sum())
    offsets = np.zeros(unseen.shape[2])
    if counted is not None:

        def lacking(seen: slice | Array) -> Doubles:
            return class_offsets(judged[seen], target[seen], counted[seen], MOST_OFFSET * own_scale)

        offsets = lacking(some)
        by_others = [lacking(folds != fold) if matters else offsets for fold in range(n_folds)]
        judged = judged + np.stack(by_others)[folds]
    log_losses = np.array([-np.average(one[np.arange(n), target], weights=weight) for one in log_chances])
    accuracies = np.array([np.average(one.argmax(axis=1) == target, weights=weight) for one in log_chances])
    return Choice(temperatures, shares, log_losses, accuracies, own_scale, offsets, judged)


def mixed(shares: Doubles, n_own: int, trust: float) -> Doubles:
    """Shares, and for what they are not trusted the plain mean of all kinds: our settings together, and each partner.

    >>> mixed(np.array([0.6, 0.2, 0.2, 0.0]), 2, 0.5).round(3).tolist()
    [0.425, 0.142, 0.267, 0.167]
    """
    own = shares[:n_own] / shares[:n_own].sum()
    plain = np.concatenate([own, np.ones(len(shares) - n_own)]) / (len(shares) - n_own + 1)
    return np.asarray(trust * shares + (1 - trust) * plain)


def _greedy(unseen: Doubles, target: Array, weight: Doubles, n_own: int, n_steps: int) -> tuple[Doubles, Doubles]:
    """The temperature of each candidate, and its share: one more at each step, so that the log loss falls most.

    (Caruana et al. 2004.) The first is one of our own, so that none is an ensemble of partners alone.
    """
    temperatures = fit_temperatures(unseen, target, weight)
    log_chances = log_softmax(unseen / temperatures[:, None, None], axis=2)
    counts = np.zeros(len(log_chances))
    total = np.zeros(log_chances.shape[1:])
    samples, tiny = np.arange(len(target)), np.finfo(np.float64).tiny
    for step in range(1, n_steps + 1):
        candidates = log_chances[:n_own] if step == 1 else log_chances
        losses = []
        for one in candidates:
            means = (total + one) / step
            own = means[samples, target]
            sums = np.exp(means, out=means).sum(axis=1)  # of means of logarithms of chances: at most 1
            losses.append(weight @ (np.log(np.maximum(sums, tiny)) - own))
        chosen = int(np.argmin(losses))
        counts[chosen] += 1
        total += log_chances[chosen]
    return temperatures, np.asarray(counts / n_steps)
