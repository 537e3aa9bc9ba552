"""Choose a threshold on a trust score so that a promise about the accepted answers holds.

The promise, for a fixed classifier with trust score s, target accuracy a and confidence 1 - delta:

    P( P(right | s >= t) >= a ) >= 1 - delta,

the inner probability over future samples, the outer over the n calibration samples from which t is chosen.
Nothing is assumed of the distribution, the classifier or the score, but that calibration and future samples
are drawn independently from the same source.

How (Learn then Test, Angelopoulos, Bates, Candes, Jordan and Lei, 2021):

1. **One threshold.** For a t that does not depend on the samples, N of them are accepted, and given N the
   errors K among those are Binomial(N, r(t)). So the exact p-value of "r(t) > 1 - a" is
   P(Binomial(N, 1 - a) <= K), the test behind the Clopper-Pearson bound.
2. **Many thresholds.** Taking the most generous threshold among all that pass is *not* valid: with many tries one
   passes by luck. Instead the thresholds are tested from high to low in an order fixed in advance, and a test that
   passes hands its level on to the next one. A walk could begin at one threshold with all of delta; if that first test
   fails by bad luck, nothing is accepted. So delta is split over a few starts: the fallback procedure (Wiens, 2003),
   which keeps the chance of any false acceptance below delta, whatever the dependence between the tests.
3. **The order.** Thresholds and starts must not depend on the samples that test them. A tenth of the
   calibration samples, the design part, is spent on them: its scores are the thresholds, the starts lie
   where the expected number of accepted samples grows by equal factors, from barely enough upwards, and each
   gets a part of delta in proportion to its predictive chance of passing (the design's errors, by Laplace's
   rule of succession, make the coming ones beta-binomial). A bad design costs coverage, never the promise.

Several groups (one a predicted class) begin with delta / m each. A group that has walked to the end, so that everything
in it is accepted, leaves the level of its last test to the others, as in Holm's procedure (all this is one graphical
procedure in the sense of Bretz et al., 2009); the promise then holds for all groups at once.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import ceil, log
from typing import Any

import numpy as np
from scipy.stats import beta, betabinom, binom

from multiform._typing import Bools, Doubles, Indices
from multiform.state import require, require_names, require_whole

DESIGN_SHARE = 0.1
MAX_STEPS = 100  # a walk in steps of at least 1 % of coverage
MAX_STARTS = 3


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
        The level of the last test that passed: delta or a part of it; 0 if none passed.
    """

    threshold: float
    n_tested: int
    n_accepted: int
    n_correct: int
    level: float

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Certificate:
        """From its fields, as a model file has them."""
        require_names(state, "a certificate", [field.name for field in fields(cls)])
        threshold, level = state["threshold"], state["level"]
        require(isinstance(threshold, float) and not np.isnan(threshold), "the threshold of a certificate is wrong")
        require(isinstance(level, float) and 0 <= level <= 1, "the level of a certificate is wrong")
        for name in ("n_tested", "n_accepted", "n_correct"):
            require_whole(state[name], 0, f"{name} of a certificate")
        require(state["n_correct"] <= state["n_accepted"] <= state["n_tested"], "the counts of a certificate are wrong")
        return cls(**state)

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
    trust: Doubles,
    right: Bools,
    groups: Indices,
    n_groups: int,
    *,
    target_accuracy: float,
    confidence: float,
    rng: np.random.RandomState,
) -> list[Certificate]:
    """A threshold for each group of calibration samples, valid for all groups at once.

    A trust of NaN is never accepted. The group of a sample, ``0`` to ``n_groups - 1``, is a function of the prediction
    alone, and the number of groups is fixed before the samples are seen. `rng` draws the design part.
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
        thresholds, weights = _plan(trust[drafted], right[drafted], expected, target_accuracy, level)
        walks.append(_Walk(thresholds, weights, trust[tested], right[tested], target_accuracy))

    # What finished groups leave passes to the others in equal parts, until nothing moves any more.
    walking = walks
    while True:
        finished = [walk for walk in walking if walk.reaches_the_end(level)]
        walking = [walk for walk in walking if walk not in finished]
        if not finished or not walking:
            return [walk.certificate() for walk in walks]
        level += sum(walk.level for walk in finished) / len(walking)


def _plan(
    trust: Doubles, right: Bools, n_expected: float, target_accuracy: float, level: float
) -> tuple[Doubles, Doubles]:
    """The plan of a group, from its design part alone: thresholds from high to low, and how much of its level each has.

    A threshold begins with that part of the group's level.
    """
    scores = np.sort(trust[~np.isnan(trust)])
    if not len(scores):
        return np.array([-np.inf]), np.ones(1)  # nothing known: everything or nothing

    # Candidates: the design's own scores at evenly spaced ranks, and at last no threshold at all.
    ranks = np.linspace(0, len(scores) - 1, min(len(scores), MAX_STEPS)).astype(int)
    thresholds = np.append(np.unique(scores[ranks])[::-1], -np.inf)
    accepted, errors = _accepted_and_errors(trust, right, thresholds)
    # A new score exceeds the k-th largest of n with probability k / (n + 1), and no threshold at all surely.
    share_above = np.append(accepted[:-1] / (len(trust) + 1), 1.0)
    n_above = np.floor(n_expected * share_above)

    # Starts: as many as there are samples for; 15 % above the least number that proves anything, for the
    # number that falls above a threshold varies.
    for n_starts in range(MAX_STARTS, 0, -1):
        least = 1.15 * samples_needed(target_accuracy, level / n_starts)
        if n_starts * least <= n_expected:
            break
    counts = np.geomspace(least, max(least, 0.95 * n_expected), n_starts + 1)[:n_starts]
    starts = np.unique(np.searchsorted(n_above, counts).clip(max=len(thresholds) - 1))

    # P(pass) of a start, if at most `allowed` errors among its n samples pass; never quite 0.
    n = n_above[starts]
    allowed = _allowed_errors(n, target_accuracy, level / n_starts)
    chance = betabinom.cdf(allowed, n, 1 + errors[starts], 1 + (accepted - errors)[starts]) + 1e-3
    weights = np.zeros(len(thresholds))
    weights[starts] = chance / chance.sum()
    return thresholds, weights


def _allowed_errors(n: Doubles, target_accuracy: float, level: float) -> Doubles:
    """The largest number of errors among n with a p-value of at most ``level``; -1 if even 0 is too many."""
    k = binom.ppf(level, n, 1 - target_accuracy)
    return np.asarray(np.where(binom.cdf(k, n, 1 - target_accuracy) <= level, k, k - 1))


def _accepted_and_errors(trust: Doubles, right: Bools, thresholds: Doubles) -> tuple[Indices, Indices]:
    """How many samples each threshold accepts, and how many of those are wrong; NaN is never accepted."""
    seen = ~np.isnan(trust)
    surest_first = np.argsort(-trust[seen], kind="stable")
    accepted = np.searchsorted(-trust[seen][surest_first], -thresholds, side="right")
    errors = np.append(0, np.cumsum(~right[seen][surest_first]))[accepted]
    return accepted, errors


class _Walk:
    """A group's tests, in the order of its plan."""

    def __init__(
        self, thresholds: Doubles, weights: Doubles, trust: Doubles, right: Bools, target_accuracy: float
    ) -> None:
        self.thresholds, self.weights = thresholds, weights
        self.n_tested = len(trust)
        self.accepted, errors = _accepted_and_errors(trust, right, thresholds)
        self.correct = self.accepted - errors
        self.p_values = binom.cdf(errors, self.accepted, 1 - target_accuracy)
        self.last_passed = -1
        self.level = 0.0  # of the last test that passed

    def reaches_the_end(self, level: float) -> bool:
        """Walk with this level for the whole group; says whether everything is accepted."""
        carried = 0.0
        for step, (weight, p_value) in enumerate(zip(self.weights, self.p_values, strict=True)):
            own = weight * level + carried
            passed = own > 0 and p_value <= own
            carried = own if passed else 0.0
            if passed:
                self.last_passed, self.level = step, own
        return carried > 0

    def certificate(self) -> Certificate:
        at = self.last_passed
        if at < 0:
            return Certificate(np.inf, self.n_tested, 0, 0, 0.0)
        accepted, correct = int(self.accepted[at]), int(self.correct[at])
        return Certificate(float(self.thresholds[at]), self.n_tested, accepted, correct, float(self.level))
