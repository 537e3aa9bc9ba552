"""Choose a threshold on a trust score so that a promise about the accepted answers holds.

The promise, for a fixed classifier with trust score s, target accuracy a and confidence 1 - delta:

    P( P(right | s >= t) >= a ) >= 1 - delta,

the inner probability over future samples, the outer over the n calibration samples from which t is chosen.
Nothing is assumed of the distribution, the classifier or the score, but that calibration and future samples
are drawn independently from the same source.

How (Learn then Test with split fixed-sequence testing, Angelopoulos, Bates, Candes, Jordan and Lei, 2021):

1. **One threshold.** For a t that does not depend on the samples, N of them are accepted, and given N the
errors
   K among those are Binomial(N, r(t)). So the exact p-value of "r(t) > 1 - a" is P(Binomial(N, 1 - a) <= K),
   the test behind the Clopper-Pearson bound.
2. **Many thresholds.** Taking the most generous threshold among all that pass is *not* valid: with many tries
one
   passes by luck. Instead the thresholds get an order in advance, each is tested at the full level delta, and
   the first that fails ends the walk. If any accepted threshold breaks the target, then the first such one in
   the order has passed its test, which happens with probability delta at most, whatever the dependence.
3. **The order.** It must not depend on the samples that test it. A fifth of the calibration samples, the
design
   part, is spent on it: its scores are the thresholds, and its errors say where to start, namely where the
   predictive probability of passing is largest (errors ~ beta-binomial by Laplace's rule of succession). From
   there the walk goes down, towards larger coverage. A bad design costs coverage, never the promise.

Several groups (one a predicted class) share delta: each starts with delta / m. A group that has walked to the
end, so that everything in it is accepted, leaves its share to the others, as in Holm's procedure (a graphical
procedure in the sense of Bretz et al., 2009); the promise then holds for all groups at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, betabinom, binom

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

DESIGN_SHARE = 0.2
MAX_STEPS = 100  # a walk in steps of at least 1 % of coverage


@dataclass(frozen=True)
class Certificate:
    """A threshold and the evidence that it was chosen on.

    Attributes
    ----------
    threshold : float
        Answers with at least this trust are accepted; ``inf`` if none is.
    n_tested : int
        Calibration samples that the threshold was tested on (all calibration samples but the design part).
    n_accepted : int
        How many of them the threshold accepts.
    n_correct : int
        How many of those are right.
    level : float
        The chance of a broken promise that the test allowed (delta, or this group's part of it).
    """

    threshold: float
    n_tested: int
    n_accepted: int
    n_correct: int
    level: float

    @property
    def attained(self) -> bool:
        """Whether any answer is accepted."""
        return self.threshold < np.inf

    @property
    def coverage(self) -> float:
        """The share of the tested samples that is accepted."""
        return self.n_accepted / self.n_tested if self.n_tested else 0.0

    @property
    def accuracy(self) -> float:
        """The accuracy among the accepted; NaN if there are none."""
        return self.n_correct / self.n_accepted if self.n_accepted else float("nan")

    @property
    def accuracy_bound(self) -> float:
        """The Clopper-Pearson lower bound of the accuracy among the accepted, at ``level``."""
        if not self.n_correct:
            return 0.0
        return float(beta.ppf(self.level, self.n_correct, self.n_accepted - self.n_correct + 1))


def samples_needed(target_accuracy: float, level: float) -> int:
    """The least number of accepted calibration samples that can prove the target, if all of them are right.

    A flawless N is convincing when ``target^N <= level``, so ``N >= log(level) / log(target)``.

    Examples
    --------
    >>> from multiform.triage import samples_needed
    >>> samples_needed(0.99, 0.05)
    299
    """
    return max(1, ceil(log(level) / log(target_accuracy)))


def certify(
    trust: Floats,
    right: Bools,
    groups: NDArray[np.intp],
    n_groups: int,
    *,
    target_accuracy: float,
    confidence: float,
    rng: np.random.RandomState,
) -> list[Certificate]:
    """A threshold for each group of calibration samples, valid for all groups at once.

    Parameters
    ----------
    trust : ndarray of shape (n_samples,)
        The trust scores; NaN is never accepted.
    right : ndarray of shape (n_samples,)
        Whether the prediction is right.
    groups : ndarray of shape (n_samples,)
        The group of each sample, ``0`` to ``n_groups - 1``, a function of the prediction alone.
    n_groups : int
        The number of groups, fixed before the samples were seen.
    target_accuracy, confidence : float
        The promise.
    rng : RandomState
        Draws the design part.

    Returns
    -------
    certificates : list of Certificate
        One a group.
    """
    level = (1 - confidence) / n_groups
    # What the design takes must leave enough to prove anything at all.
    spare = len(trust) - samples_needed(target_accuracy, level)
    n_design = max(0, min(ceil(DESIGN_SHARE * len(trust)), spare))
    design = np.zeros(len(trust), dtype=bool)
    design[rng.permutation(len(trust))[:n_design]] = True

    walks: list[_Walk] = []
    for group in range(n_groups):
        drafted, tested = design & (groups == group), ~design & (groups == group)
        # The group's share of the design tells how many tested samples to expect; their true number belongs
        # to the test and may not shape the order.
        expected = (len(trust) - n_design) * (drafted.sum() / n_design if n_design else 1.0)
        order = _plan(trust[drafted], right[drafted], expected, target_accuracy, level)
        walks.append(_Walk(order, trust[tested], right[tested], target_accuracy))

    # The finished groups' shares of delta pass to the others, until nothing moves any more.
    finished: set[int] = set()
    while True:
        level = (1 - confidence) / max(1, n_groups - len(finished))
        newly = {g for g in range(n_groups) if g not in finished and walks[g].advance(level)}
        finished |= newly
        if not newly or len(finished) == n_groups:
            return [walk.certificate() for walk in walks]


def _plan(trust: Floats, right: Bools, n_expected: float, target_accuracy: float, level: float) -> Floats:
    """The thresholds to test, in order, from the design part of a group alone."""
    scores = np.sort(trust[~np.isnan(trust)])
    if not len(scores):
        return np.array([-np.inf])  # nothing known: everything or nothing

    # Candidates: the design's own scores at evenly spaced ranks, and at last no threshold at all.
    ranks = np.linspace(0, len(scores) - 1, min(len(scores), MAX_STEPS)).astype(int)
    thresholds = np.append(np.unique(scores[ranks])[::-1], -np.inf)
    accepted, errors = _accepted_and_errors(trust, right, thresholds)

    # P(pass) when n tested samples fall above the threshold and at most `allowed` errors pass the test:
    # the errors of the design, under a uniform prior of the risk, make the coming ones beta-binomial.
    n_above = np.floor(n_expected * accepted / len(trust))
    allowed = _allowed_errors(n_above, target_accuracy, level)
    chance = betabinom.cdf(allowed, n_above, 1 + errors, 1 + accepted - errors)
    start = int(np.argmax(chance)) if chance.max() > 0 else len(thresholds) - 1
    return np.asarray(thresholds[start:])


def _allowed_errors(n: Floats, target_accuracy: float, level: float) -> Floats:
    """The largest number of errors among n with a p-value of at most ``level``; -1 if even 0 is too many."""
    k = binom.ppf(level, n, 1 - target_accuracy)
    return np.asarray(np.where(binom.cdf(k, n, 1 - target_accuracy) <= level, k, k - 1))


def _accepted_and_errors(
    trust: Floats, right: Bools, thresholds: Floats
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """How many samples each threshold accepts, and how many of those are wrong; NaN is never accepted."""
    seen = ~np.isnan(trust)
    surest_first = np.argsort(-trust[seen], kind="stable")
    accepted = np.searchsorted(-trust[seen][surest_first], -thresholds, side="right")
    errors = np.append(0, np.cumsum(~right[seen][surest_first]))[accepted]
    return accepted, errors


class _Walk:
    """A group's tests, in the order of the plan; a step is taken when its p-value is at most the level."""

    def __init__(self, thresholds: Floats, trust: Floats, right: Bools, target_accuracy: float) -> None:
        self.thresholds = thresholds
        self.n_tested = len(trust)
        self.accepted, errors = _accepted_and_errors(trust, right, thresholds)
        self.correct = self.accepted - errors
        self.p_values = binom.cdf(errors, self.accepted, 1 - target_accuracy)
        self.level = 0.0
        self.position = -1  # the last threshold that passed

    def advance(self, level: float) -> bool:
        """Walk on at this level; returns whether the end is reached."""
        self.level = level
        while self.position + 1 < len(self.thresholds) and self.p_values[self.position + 1] <= level:
            self.position += 1
        return self.position + 1 == len(self.thresholds)

    def certificate(self) -> Certificate:
        if self.position < 0:
            return Certificate(np.inf, self.n_tested, 0, 0, self.level)
        at = self.position
        return Certificate(
            float(self.thresholds[at]),
            self.n_tested,
            int(self.accepted[at]),
            int(self.correct[at]),
            self.level,
        )
