"""Choose a threshold on a trust score so that promises about the accepted answers hold.

A claim says of a fixed classifier with trust score s: of the accepted samples in a scope (all samples, or those of one
true class) at least the share a is answered right. What is promised, for one claim or several:

    P( P(right | s >= t, scope) >= a  for every claim ) >= 1 - delta,

the inner probability over future samples, the outer over the n calibration samples from which t is chosen.
Nothing is assumed of the distribution, the classifier or the score, but that calibration and future samples
are drawn independently from the same source.

How (Learn then Test, Angelopoulos, Bates, Candes, Jordan and Lei, 2021):

1. **One number.** The samples stand from the surest down, equally sure ones in random order. If K of the first N are
   wrong (in the claim's scope), p_N = P(Binomial(N, 1 - a) <= K) is the p-value of "the first N are too often wrong".
2. **Many numbers.** Taking the largest N that passes is *not* valid: with many tries one passes by luck. Instead N
   walks upwards, one sample at a time, and a test that passes hands its level on to the next. A walk could begin
   at one N with all of delta; if that first test fails by bad luck, nothing is accepted. So delta is split over a few
   starts, which depend on n alone: the fallback procedure (Wiens, 2003). A walk that passes another start
   takes its level along, so that in the end it has all of delta.
3. **The threshold** lies below the last N that passed and at which a value of the trust ends. Within equal values only
   the starts are tested: a walk goes on from one end of a value to the next.

**Why this is exact**, though the samples that are tested are also the thresholds. Let u be the place of a sample in the
population, the share that is surer (ties broken by an independent uniform number, so that u is uniform), N(u) the
number of calibration samples before u, and D(u) = P(wrong, place <= u) - (1 - a) u, so that a threshold at u breaks
the claim if D(u) > 0. Call N *false* if that is so anywhere between samples N and N + 1. D is continuous, so {D > 0} is
made of open intervals (l, r) with D(l) = D(r) = 0 (or r = 1); take finitely many, and all in the limit. Between
neighbouring ends of intervals a sample is wrong with a chance of exactly 1 - a. Hence, given how many samples lie
between the ends:

- it is settled which N are false: those from N(l) to N(r);
- at N = N(l), K is Binomial(N, 1 - a), for every one of these samples is wrong with the chance 1 - a;
- at N(l) < N <= N(r), given the place v of sample N + 1 (or v = r), the samples between l and v are wrong with a
  chance of at least 1 - a, for D(v) >= 0 = D(l), so K is stochastically larger than Binomial(N, 1 - a).

So the false N are a fixed set with valid p-values, and what controls the family-wise error of fixed hypotheses does so
here: the fallback procedure, and any graphical one (Bretz et al., 2009). Where l lies within a value that many samples
share, from a to b, the first false N that is tested is N(b), or a start before it: which of them is settled given
N(b), too, and K is stochastically larger than Binomial(N, 1 - a) there, for D(b) >= 0 = D(l).

**Several claims** are tested together: N is false if any claim is broken there, and p_N is the largest p-value of the
claims. Let an interval begin at l with claim q, D_q(l) = 0, let r be the end of the one before and V = N(r). The walk
brings to l the level delta W, W being the weights of the starts between r and l: given N(l), W falls with V. As
D_q(r) <= 0 = D_q(l), a wrong sample before l lies before r less often than a right one, so V falls stochastically
with K, and P(V <= m | p) rises with p. Then P(x < p <= x', V <= m) <= P(x < p <= x') P(V <= m) / (1 - x'): below x'
the chance is at most its mean above x', where p lies with probability 1 - x' at least. Summed by parts over the
starts, P(p <= delta W) <= delta E[W] / (1 - delta). A start inside an interval is valid given the place of the next
sample. Every start is counted once, so the whole is at most delta / (1 - delta), and the walk uses delta / (1 + delta).

**Parts** (of predicted classes, or of what is known from x) have walks of their own, given which samples lie in which.
They begin with delta / m each. A part that has walked to the end, so that everything in it is accepted, leaves the
level of its last test to the others, as in Holm's procedure (all this is one graphical procedure; with several claims,
what others leave is independent of a part's own samples). The promise then holds in all parts at once.

**Whole procedures** (the plans of a diagnosis at several levels) that answer everybody are fixed hypotheses: they are
tested in an order that was settled before, each with all of delta, until one fails (fixed-sequence testing). A
procedure is false if any claim is, and its p-value, the largest of the claims', is valid as it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from math import ceil, log
from typing import Any

import numpy as np
import scipy

from multiform._typing import Array, Bools, Doubles, Indices
from multiform.state import require, require_names, require_whole

# Where walks begin, on a scale of logarithms from the first number that proves the target in spite of an error to all
# samples, and with how much of the level. Several claims begin later, as the scope of one may be a rare class.
STARTS = ((0.0, 1 / 2), (0.25, 1 / 6), (0.5, 1 / 6), (0.75, 1 / 6))
STARTS_OF_SEVERAL = ((0.0, 1 / 6), (0.33, 1 / 6), (0.67, 1 / 3), (0.9, 1 / 3))


@dataclass(frozen=True)
class Claim:
    """Of the accepted samples in the scope, at least the target's share is answered right."""

    scope: Bools
    target: float


@dataclass(frozen=True)
class Certificate:
    """A threshold and the evidence that it was chosen on.

    Attributes
    ----------
    threshold : float
        Answers with at least this trust are accepted; ``inf`` if none is.
    n_tested : int
        Calibration samples that the threshold was tested on.
    n_accepted : int
        How many of them the threshold accepts.
    n_correct : int
        How many of those are right.
    level : float
        The level of the last test that passed: delta or a part of it; 0 if none passed.
    recalls : list of (int, int)
        For each promised recall, how many samples of the class the threshold accepts, and how many of those are right.
    """

    threshold: float
    n_tested: int
    n_accepted: int
    n_correct: int
    level: float
    recalls: tuple[tuple[int, int], ...] = ()

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Certificate:
        """From its fields, as a model file has them; files of version 0.1.0 know no recalls."""
        names = [field.name for field in fields(cls)]
        require_names(state, "a certificate", [name for name in names if name != "recalls"], ["recalls"])
        threshold, level = state["threshold"], state["level"]
        require(isinstance(threshold, float) and not np.isnan(threshold), "the threshold of a certificate is wrong")
        require(isinstance(level, float) and 0 <= level <= 1, "the level of a certificate is wrong")
        for name in ("n_tested", "n_accepted", "n_correct"):
            require_whole(state[name], 0, f"{name} of a certificate")
        require(state["n_correct"] <= state["n_accepted"] <= state["n_tested"], "the counts of a certificate are wrong")
        recalls = state.get("recalls", ())
        require(isinstance(recalls, tuple | list), "the recalls of a certificate are wrong")
        for pair in recalls:
            require(isinstance(pair, tuple | list) and len(pair) == 2, "a recall of a certificate is wrong")
            for count in pair:
                require_whole(count, 0, "a recall of a certificate")
        return cls(**state | {"recalls": tuple((int(accepted), int(right)) for accepted, right in recalls)})

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
        return float(scipy.stats.beta.ppf(self.level, self.n_correct, self.n_accepted - self.n_correct + 1))


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
    parts: Indices,
    n_parts: int,
    claims: Sequence[Claim],
    *,
    confidence: float,
    rng: np.random.RandomState,
) -> list[Certificate]:
    """A threshold for each part of the calibration samples, valid for all claims in all parts at once.

    The first claim is of all samples. A trust of NaN is never accepted. The part of a sample, ``0`` to ``n_parts - 1``,
    is a function of x alone (so of the prediction, too); -1 is no part. `rng` orders what is equally sure.
    """
    level = total_level(confidence, len(claims)) / n_parts
    surest_first = np.lexsort((rng.random_sample(len(trust)), -trust))
    walks = []
    for part in range(n_parts):
        inside = surest_first[parts[surest_first] == part]
        within = [Claim(claim.scope[inside], claim.target) for claim in claims]
        walks.append(_Walk(trust[inside], right[inside], within, level))

    # What finished parts leave passes to the others in equal shares, until nothing moves any more.
    walking = walks
    while True:
        finished = [walk for walk in walking if walk.reaches_the_end(level)]
        walking = [walk for walk in walking if walk not in finished]
        if not finished or not walking:
            return [walk.certificate() for walk in walks]
        level += sum(walk.level for walk in finished) / len(walking)


def certify_in_turn(
    procedures: Iterable[Bools], claims: Sequence[Claim], *, confidence: float
) -> tuple[int, Certificate | None]:
    """How many procedures pass before the first that fails, and the evidence of the last that did, or failed at once.

    Of each procedure it is said which of the same calibration samples it answers right; one after the first that fails
    is not asked for.
    """
    delta, passed, found = 1 - confidence, 0, None
    for right in procedures:
        errors = [int((claim.scope & ~right).sum()) for claim in claims]
        counts = [int(claim.scope.sum()) for claim in claims]
        proven = max(_p_values(np.array(errors), np.array(counts), [claim.target for claim in claims])) <= delta
        if proven or not passed:
            recalls = tuple((n, n - wrong) for n, wrong in zip(counts, errors, strict=True))
            threshold, level = (-np.inf, delta) if proven else (np.inf, 0.0)
            found = Certificate(threshold, len(right), len(right), int(right.sum()), level, recalls)
        if not proven:
            break
        passed += 1
    return passed, found


def _p_values(errors: Array, counts: Array, targets: Sequence[float]) -> Doubles:
    """P(Binomial(n, 1 - target) <= errors), of each claim (a row, where there are several numbers n of each)."""
    shape = (-1, *[1] * (np.ndim(errors) - 1))
    return np.asarray(scipy.stats.binom.cdf(errors, counts, 1 - np.reshape(targets, shape)))


def total_level(confidence: float, n_claims: int) -> float:
    """What all tests may use up together; see "Several claims" above."""
    delta = 1 - confidence
    return delta if n_claims == 1 else delta / (1 + delta)


class _Walk:
    """The tests of a part, whose samples stand from the surest down."""

    def __init__(self, trust: Doubles, right: Bools, claims: Sequence[Claim], level: float) -> None:
        self.n_tested = len(trust)
        n = int(np.sum(~np.isnan(trust)))  # NaN stands last
        self.trust = trust[:n]
        # How many of the first 0, 1, 2, ... are in a claim's scope, and how many of those are wrong.
        self.counts = [np.append(0, np.cumsum(claim.scope[:n])) for claim in claims]
        self.errors = [np.append(0, np.cumsum((claim.scope & ~right)[:n])) for claim in claims]
        targets = [claim.target for claim in claims]
        self.p_values = _p_values(np.array(self.errors), np.array(self.counts), targets).max(axis=0)
        self.starts = _starts(n, claims, level)
        within = np.append(False, np.append(self.trust[1:] == self.trust[:-1], np.zeros(min(n, 1), dtype=bool)))
        within[[start for start, _ in self.starts]] = False
        self.p_values[within] = 0.0  # no threshold can lie there, so there is nothing to test
        self.last_passed = 0
        self.level = 0.0  # of the last test that passed

    def reaches_the_end(self, level: float) -> bool:
        """Walk with this level for the whole part; says whether everything is accepted."""
        carried = 0.0
        n = len(self.trust)
        ends = [start for start, _ in self.starts[1:]] + [n + 1]
        for (start, weight), end in zip(self.starts, ends, strict=True):
            carried += weight * level
            failed = np.flatnonzero(self.p_values[start:end] > carried)
            stop = start + int(failed[0]) if len(failed) else end
            # A threshold can lie only where a value of the trust ends.
            after = self.trust[max(start, 1) : min(stop, n)]
            possible = np.flatnonzero(self.trust[max(start, 1) - 1 : min(stop, n) - 1] != after) + max(start, 1)
            if stop > n:
                possible = np.append(possible, n)
            if len(possible) and stop > start:
                self.last_passed, self.level = int(possible[-1]), carried
            if len(failed):
                carried = 0.0
        return carried > 0

    def certificate(self) -> Certificate:
        n = self.last_passed
        if not n:
            return Certificate(np.inf, self.n_tested, 0, 0, 0.0, tuple((0, 0) for _ in self.counts[1:]))
        found = [
            (int(counts[n]), int(counts[n] - errors[n]))
            for counts, errors in zip(self.counts, self.errors, strict=True)
        ]
        return Certificate(self._threshold(n), self.n_tested, *found[0], float(self.level), tuple(found[1:]))

    def _threshold(self, n: int) -> float:
        """Halfway between the last that is accepted and the first that is not."""
        if n == len(self.trust):
            return -np.inf
        last, following = float(self.trust[n - 1]), float(self.trust[n])
        middle = following + (last - following) / 2
        if following < middle < np.inf:
            return middle
        return float(np.nextafter(following, np.inf))  # one of them is infinite, or nothing lies between them


def _starts(n: int, claims: Sequence[Claim], level: float) -> list[tuple[int, float]]:
    """At which numbers of samples walks begin, and with which share of the level: a function of n alone."""
    starts = STARTS if len(claims) == 1 else STARTS_OF_SEVERAL
    target, first_level = max(claim.target for claim in claims), level * starts[0][1]
    flawless = samples_needed(target, first_level)
    numbers = np.arange(flawless, 4 * flawless + 10)
    with_error = int(numbers[np.argmax(scipy.stats.binom.cdf(1, numbers, 1 - target) <= first_level)])
    for least in (with_error, flawless):
        if least < n:
            return [(ceil(least * (n / least) ** place), share) for place, share in starts]
    return [(min(n, samples_needed(target, level)), 1.0)]
