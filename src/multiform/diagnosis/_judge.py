"""Who stops: the answer on an evidence set, the chance that it is right, and a doubt to compare with the level.

Each rule is a number, the *doubt*, that falls as the evidence suffices; a patient stops when it is at most the level:

- ``"regret"``: the accuracy that one expects to forgo by not going on to full evidence;
- ``"calibrated"``: one minus the chance that the answer on the evidence so far is right;
- ``"loyalty"``: the smallest beta under which the patient is of strong loyalty type (Definition 6), infinite if none.

On full evidence there is nothing left to buy: the doubt is minus infinity.

A regret is an estimate, and of a patient on its way there are many: the first that happens to be small is too small. So
a walk compares with the level a mean, on a logarithmic scale, of the regret on the evidence so far and of what it made
of those before (`carried`); where it has been small for a while, it is believed.

The *trust* of an evidence set S is a row of numbers, all estimated on unseen scores:

- the sharpness a_S. With the scores s the chances of the classes are ``softmax(a_S s)``. Each set has its own, drawn
  towards what all sets have in common, so that a few hundred patients are enough.
- slope b_S, spread c_S and narrowing d_S. Let k be the answer on S, ``L = logit P_S(k)`` how sure it is, and
  ``L' = logit P_full(k)`` how sure of the same answer one would be with all evidence. Then
  ``L' ~ Normal(b_S L, (c_S exp(-d_S L))^2)``: little spread is left where S says nearly all that there is to say.
- stretch v_S and, for every answer k, shift u_Sk: they correct what the normal law gets wrong.

The *regret* of stopping on S is the accuracy that one expects to forgo. Full evidence would answer otherwise if
L' < 0, and be right more often by ``1 - 2 P_full(k) = tanh(-L' / 2)``; under the normal law

    r(L, S) = E max(0, tanh(-L' / 2)).

What was in fact forgone, ``max_j P_full(j) - P_full(k)``, is known of every training patient, and its logarithm is
regressed on that of r (Poisson's quasi-likelihood, so that the means agree), drawn to v = 1 and u = 0:

    regret = r0 (r / r0)^v exp(u_k),    r0 = 0.01.

An unsure answer that no further evidence would change has a small regret, and going on would be money for nothing.

Where errors cost differently (`losses`), an answer is the one of the least expected loss, what is forgone is loss, and
all the above holds with the *worth* of answers in the place of chances (`_losses.py`).

The same tests can tell one kind of patients everything and others nothing: the classifier, which reads the results, is
sure of the first alone. The spread of what is to come must know that, and so it narrows as L grows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import scipy
from scipy.special import softmax
from sklearn.base import is_classifier

from multiform._typing import Array, Bools, Doubles, Floats, Indices, Ints
from multiform.classifier import QMSClassifier
from multiform.columns import FARTHEST
from multiform.diagnosis._losses import Losses, excess, expected, worths
from multiform.diagnosis._masked import MaskedClassifier, MaskedModels
from multiform.diagnosis._models import EvidenceModels
from multiform.diagnosis._results import Results
from multiform.diagnosis._search import Sets, Words, pack
from multiform.diagnosis._tariff import plain_set, set_of
from multiform.prediction import probabilities
from multiform.separators import Scaling, Separators
from multiform.state import (
    MOST_TEMPERATURE,
    require,
    require_array,
    require_names,
    require_numbers,
    require_whole,
    spend,
)

Models: TypeAlias = MaskedModels | EvidenceModels  # with the patients
Way: TypeAlias = tuple[int, float, float]  # a column of the encoded results, and its range: above, and at most
Opinion: TypeAlias = tuple[Array, Doubles, Doubles]  # answers (n,), calibrated chances (n, m) and doubts (n,)

NOBODY_STOPS = 0.0  # every doubt is positive, but for that on full evidence
EVERYBODY_STOPS = 1.0  # and none is larger
LEAST_DOUBT = 1e-12
RULES = ("regret", "calibrated", "loyalty")
TRUSTED_AT_ONCE = 60_000  # patients x sets whose trust is estimated together
SAME_IN_MODELS = ("rows", "target", "fold", "estimator", "betas", "seed")  # that a model file holds as they are
SAME_IN_JUDGE = ("rule", "common")
NEWER = ("losses", "memory")  # what older files do not have
PULL_SHARPNESS = 10.0  # how strongly a set's log sharpness is drawn to the common one
MOST_SHARPNESS = 5.0  # the log sharpness stays within -5 and 5
MOST_KEPT = 600  # sets whose trust is kept
MOST_DECIDED = 10_000  # components, passes and samples of a batch, in a model file
LOG_SOFTENING = -0.7, 5.0  # between these stays the log temperature of chances along a plan
SUREST = 12.0  # the largest log odds
PULL_STRETCH, PULL_SHIFT = 10.0, 4.0  # how strongly v is drawn to 1 and u to 0, as so many corrected answers would
PULL_NARROWING, MOST_NARROWING, SCORING_STEPS = 20.0, 1.0, 6  # d is drawn to 0, and at most 1
LEAST_SPREAD, MOST_SPREAD = 1e-3, 1e4
MEMORY = 0.5  # the weight of what was thought before, in the doubt of patients on their way
SETTLED = 0.005  # a step of Newton's method that ends it
PIVOT, LEAST_REGRET = 0.01, 1e-6  # r0: a level that plans choose; smaller regrets than the second are not told apart
# Nodes of the quadrature on [0, 6]; beyond six standard deviations there is nothing to regret.
NODES, NODE_WEIGHTS = (part * 3 for part in np.polynomial.legendre.leggauss(16))
NODES = NODES + 3


def calibrated(sharpness: float, scores: Floats) -> Doubles:
    """Calibrated chances of the classes: shape (n, m)."""
    return np.asarray(softmax(sharpness * scores.astype(np.float64), axis=1))


def softened(chances: Doubles, temperature: float) -> Doubles:
    """Chances to the power 1 / T, normalised: shape (n, m); the likeliest class stays so."""
    return probabilities(np.log(np.maximum(chances, np.finfo(np.float64).tiny)), temperature)


def softening(chances: Doubles, answer: Array, accuracy: float) -> float:
    """The temperature at which the mean chance of unseen patients' answers is the accuracy of the plan.

    A plan stops with those whom it is surest of, so that their chances flatter by as much as they were lucky.
    """

    def too_sure(log_temperature: float) -> float:
        warm = softened(chances, np.exp(log_temperature))
        return float(warm[np.arange(len(answer)), answer].mean() - accuracy)

    least, most = LOG_SOFTENING
    if too_sure(least) <= 0:
        return float(np.exp(least))
    if too_sure(most) >= 0:
        return float(np.exp(most))
    return float(np.exp(scipy.optimize.brentq(too_sure, least, most)))


def regret(trust: Doubles, chances: Doubles) -> Doubles:
    """The accuracy that one expects to forgo by stopping on a set with this trust: shape (n,).

    ``log(r0 (r / r0)^v exp(u))``, at most 0, is its logarithm. For several sets, both have an axis more.
    """
    slope, spread, stretch = (trust[..., k, None] for k in (1, 2, 3))
    narrowing = trust[..., 4 + chances.shape[-1] :, None].sum(axis=-2)  # older trusts have none
    sure = log_odds(chances.max(axis=-1))
    log_r = _log_regret(expected_regret(sure, slope, spread * np.exp(-narrowing * sure)))
    shift = np.take_along_axis(trust[..., 4 : 4 + chances.shape[-1]], chances.argmax(axis=-1), axis=-1)
    return np.asarray(np.exp(np.minimum(np.log(PIVOT) + stretch * (log_r - np.log(PIVOT)) + shift, 0.0)))


def log_odds(chance: Doubles) -> Doubles:
    with np.errstate(divide="ignore"):
        return np.asarray(np.clip(np.log(chance) - np.log1p(-chance), -SUREST, SUREST))


def expected_regret(sureness: Doubles, slope: Doubles | float, spread: Doubles | float) -> Doubles:
    """``E max(0, tanh(-L' / 2))`` for ``L' ~ Normal(slope L, spread^2)``, by Gauss-Legendre quadrature.

    With u = slope L / spread and the standard normal density phi it is the integral over z > 0 of
    ``tanh(spread z / 2) phi(z + u)``. Slope and spread are of all, or of each row: shape (n_sets, 1).

    >>> import numpy as np
    >>> expected_regret(np.array([0.0, 1.0, 3.0]), slope=1.0, spread=1.0).round(3)
    array([0.175, 0.039, 0.   ])
    """
    spread = np.maximum(np.asarray(spread, dtype=np.float64), 1e-9)
    # Single precision, which is enough for a doubt, and several times faster.
    nodes, least = NODES.astype(np.float32), np.asarray(slope * sureness / spread, dtype=np.float32)
    gain = np.tanh(spread.astype(np.float32)[..., None] * (nodes / 2)) * (NODE_WEIGHTS / np.sqrt(2 * np.pi)).astype(
        np.float32
    )
    density = np.exp(np.float32(-0.5) * (nodes + least[..., None]) ** 2)
    return np.asarray(np.einsum("...k,...k->...", density, gain), dtype=np.float64)


def fit_sharpness(scores: Array, target: Ints, common: float, pull: float) -> Doubles:
    """The log sharpness of several sets at once, by Newton's method on the penalised log loss.

    The scores have the shape (n_sets, n, m); ``pull / 2 (log a - common)^2`` is added to the log loss, summed over
    patients.
    """
    values = scores.astype(np.float64)
    values -= values.max(axis=2, keepdims=True)  # so that no exponential overflows
    own = np.take_along_axis(values, target[None, :, None], axis=2)[:, :, 0]
    log_a = np.full(len(values), common)
    for _ in range(25):
        a = np.exp(log_a)[:, None]
        chances = np.exp(a[..., None] * values)
        chances /= chances.sum(axis=2, keepdims=True)
        chances *= values
        mean = chances.sum(axis=2)
        variance = np.einsum("snk,snk->s", chances, values) - (mean**2).sum(axis=1)
        slope = a[:, 0] * (mean - own).sum(axis=1)
        # The loss is convex in a, not in log a: the absolute value keeps the step a descent.
        second = a[:, 0] ** 2 * variance + pull + np.abs(slope)
        step = np.clip((slope + pull * (log_a - common)) / np.maximum(second, 1e-12), -1, 1)
        log_a = np.clip(log_a - step, -MOST_SHARPNESS, MOST_SHARPNESS)
        if np.abs(step).max() < SETTLED:
            break
    return log_a


def fit_correction(normal: Doubles, answer: Indices, forgone: Doubles, n_classes: int) -> Doubles:
    """Stretch and shifts of several sets at once, by Newton's method: of shape (n_sets, n), to (n_sets, 1 + m)."""
    log_r = _log_regret(normal)
    design = np.concatenate([(log_r - np.log(PIVOT))[..., None], np.eye(n_classes)[answer]], axis=2)
    pull = np.array([PULL_STRETCH] + [PULL_SHIFT] * n_classes)
    rest = np.array([1.0] + [0.0] * n_classes)
    found = np.tile(rest, (len(normal), 1))
    for _ in range(25):
        expected = np.exp(np.minimum(np.log(PIVOT) + (design @ found[..., None])[..., 0], 0.0))
        slope = np.einsum("snj,sn->sj", design, expected - forgone) + pull * (found - rest)
        curvature = np.swapaxes(design * expected[..., None], 1, 2) @ design + np.diag(pull)
        step = np.clip(np.linalg.solve(curvature, slope[..., None])[..., 0], -0.5, 0.5)
        found = found - step
        found[:, 0] = np.maximum(found[:, 0], 0.0)  # surer answers are never regretted more
        if np.abs(step).max() < SETTLED:
            break
    return found


def _log_regret(normal: Doubles) -> Doubles:
    return np.asarray(np.log(np.maximum(normal, LEAST_REGRET)))


def fit_law(sure: Doubles, later: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    """Slope, spread and narrowing of ``L' ~ Normal(b L, (c exp(-d L))^2)``, of several sets at once.

    The slope is that of weighted least squares, the logarithm of the variance by Fisher's scoring; d is drawn to 0.
    """
    center = sure.mean(axis=1, keepdims=True)
    z = sure - center
    reach = (z**2).sum(axis=1) + PULL_NARROWING
    log_variance, tilt = np.zeros(len(sure)), np.zeros(len(sure))
    for _ in range(SCORING_STEPS):
        weight = np.exp(-tilt[:, None] * z)
        slope = (weight * sure * later).sum(axis=1) / np.maximum((weight * sure**2).sum(axis=1), 1e-12)
        slope = np.clip(slope, 0, 10)
        squares = (later - slope[:, None] * sure) ** 2 + LEAST_SPREAD**2
        log_variance = np.log((squares * weight).mean(axis=1))
        excess = squares * weight / np.exp(log_variance)[:, None] - 1
        step = ((z * excess).sum(axis=1) - PULL_NARROWING * tilt) / reach
        tilt = np.clip(tilt + np.clip(step, -0.4, 0.4), -2 * MOST_NARROWING, 0)
    spread = np.exp((log_variance - tilt * center[:, 0]) / 2)
    return slope, np.minimum(spread, MOST_SPREAD), -tilt / 2


def fit_trust(scores: Floats, full: Doubles, target: Ints, common: float, losses: Losses | None = None) -> Doubles:
    """The trust of several sets: sharpness, slope, spread, stretch and the shifts, shape (n_sets, 4 + m).

    It is learnt from unseen scores, shape (n_sets, n, m), and calibrated chances from all evidence, unseen too, (n, m).
    """
    sharpness = np.exp(fit_sharpness(scores, target, common, PULL_SHARPNESS))
    chances = softmax(sharpness[:, None, None] * scores.astype(np.float64), axis=2)
    worth, full_worth = worths(chances, losses), worths(full, losses)
    answer = worth.argmax(axis=2)
    sure = log_odds(worth.max(axis=2))
    later = log_odds(full_worth[np.arange(len(target)), answer])  # what full evidence says of the same answer
    slope, spread, narrowing = fit_law(sure, later)
    normal = expected_regret(sure, slope[:, None], spread[:, None] * np.exp(-narrowing[:, None] * sure))
    correction = fit_correction(normal, answer, excess(full, answer, losses), full.shape[1])
    return np.column_stack([sharpness, slope, spread, correction, narrowing])


def carried(before: Doubles, doubt: Doubles, memory: float) -> Doubles:
    """The doubts of patients on their way: a mean, on a logarithmic scale, with those before; NaN where there are none.

    >>> import numpy as np
    >>> carried(np.array([0.04, np.nan, 0.04]), np.array([0.01, 0.01, -np.inf]), memory=0.5).round(3)
    array([0.02, 0.01, -inf])
    """
    both = np.isfinite(before) & np.isfinite(doubt)
    found = doubt.copy()
    found[both] = before[both] ** memory * doubt[both] ** (1 - memory)
    return found.astype(np.float32).astype(np.float64)  # as `Judge.opinion`: who stops must not depend on who asks


def suffices(doubt: Array, level: float | Array) -> Bools:
    """Whether the evidence suffices. Doubts are single precision numbers, so that is what the level is read as."""
    return np.asarray(doubt <= np.asarray(level, dtype=np.float32))


class Judge:
    """The stopping rule on every evidence set, learnt on unseen scores.

    `common` is the log sharpness that all sets are drawn to, `full` the calibrated chances of the training patients
    from all evidence, unseen, shape (n, m); `taught` are the training patients whose labels the trust is learnt from,
    by default all; `trusts` is what was learnt of the sets that were asked for so far; `memory` is the weight of doubts
    before, on a patient's way.

    A judge that is kept has no patients (`full` is None), and of a set that nothing was learnt of it takes the trust of
    the one most like it.
    """

    def __init__(
        self,
        models: Any,  # `Models`; or what is kept of them, a MaskedClassifier
        rule: str,
        everything: int,
        common: float,
        full: Doubles | None,
        taught: Indices | None = None,
        trusts: dict[int, Doubles] | None = None,
        losses: Losses | None = None,
        memory: float | None = None,
    ) -> None:
        self.models, self.rule, self.everything = models, rule, everything
        self.common, self.losses = common, losses
        self.memory = memory if memory is not None else MEMORY if rule == "regret" else 0.0
        if full is not None:
            self.full = full
            self.taught = np.arange(len(full)) if taught is None else taught
        self.trusts = {} if trusts is None else trusts
        self._blind: dict[int, Judge] = {}
        self._log_losses: dict[int, float] = {}
        # Of each set: what the training patients are answered, their doubts, and what they forgo.
        self._remembered: dict[int, tuple[Array, Floats, Floats]] = {}

    @classmethod
    def learnt(
        cls, models: Models, rule: str, everything: int, some_sets: Sequence[int], losses: Losses | None = None
    ) -> Judge:
        """The common sharpness is that of `some_sets` pooled; then full evidence is calibrated."""
        models.fit([*some_sets, everything])
        pooled = np.concatenate([models.unseen(one) for one in some_sets])[None, ...]
        common = float(fit_sharpness(pooled, np.tile(models.target, len(some_sets)), 0.0, 1.0)[0])
        unseen = models.unseen(everything)
        sharpness = float(np.exp(fit_sharpness(unseen[None, ...], models.target, common, 1.0)[0]))
        return cls(models, rule, everything, common, calibrated(sharpness, unseen), losses=losses)

    def without(self, fold: int) -> Judge:
        """One that knows the labels of all patients but those of a fold, for plans that these are to follow.

        What a plan would lose is judged by it: among many sets, the search prefers those that seem to say much.
        """
        if fold not in self._blind:
            taught = np.flatnonzero(self.models.fold != fold)
            about = self.models, self.rule, self.everything, self.common, self.full, taught
            self._blind[fold] = Judge(*about, losses=self.losses)
        return self._blind[fold]

    def kept(self, sets: Sequence[int]) -> Judge:
        """A copy that holds what is known of these sets; no patient, but for other classifiers."""
        self.learn(sets)
        if isinstance(self.models, MaskedModels):
            n_tests = self.everything.bit_length()
            # Of the sets without a test that cannot be done, too.
            fewer = [one & ~(1 << t) for one in sets for t in range(n_tests) if one >> t & 1][:MOST_KEPT]
            self.learn(fewer)
            trusts = {one: self.trusts[one] for one in [*sets, *fewer]}
            answering = self.models.kept(self.rule == "loyalty")
            return Judge(answering, self.rule, self.everything, self.common, None, trusts=trusts, losses=self.losses)
        assert isinstance(self.models, EvidenceModels)
        models = self.models.kept(sets)
        if self.rule == "loyalty":
            models.fit(sets, "held back")
        trusts = {one: self.trusts[one] for one in sets}
        return Judge(models, self.rule, self.everything, self.common, self.full, trusts=trusts, losses=self.losses)

    @property
    def dearest(self) -> float:
        """What the dearest error costs; a loss is counted in the user's unit, and a doubt in this one."""
        return 1.0 if self.losses is None else self.losses.dearest

    def forgone(self, answer: Array) -> tuple[Doubles, Doubles]:
        """What full evidence gives these answers to the training patients less than its own: of loss, and of chance."""
        n = np.arange(len(answer))
        own = worths(self.full, self.losses).argmax(axis=1)
        missed = self.full[n, own] - self.full[n, answer]
        if self.losses is None:
            return missed, missed
        return self.dearest * excess(self.full, answer, self.losses), missed

    def learn(self, sets: Sequence[int]) -> None:
        """Train and calibrate the sets that are new."""
        if isinstance(self.models, MaskedClassifier):
            return
        new = [one for one in dict.fromkeys(int(s) for s in sets) if one not in self.trusts]
        self.models.fit(new)
        target, full = self.models.target[self.taught], self.full[self.taught]
        at_once = max(1, TRUSTED_AT_ONCE // len(target))
        for begin in range(0, len(new), at_once):
            part = new[begin : begin + at_once]
            scores = np.stack([self.models.unseen(one)[self.taught] for one in part])
            found = fit_trust(scores, full, target, self.common, self.losses)
            self.trusts.update(zip(part, found, strict=True))

    def opinion(self, tests: int, rows: Floats | None = None) -> Opinion:
        """Of new patients; or of the training patients, by models that have not seen them."""
        self.learn([tests])
        scores = self.models.unseen(tests) if rows is None else self.models.scores(tests, rows)
        trust = self.trust(tests)
        # The scores of no evidence are the logarithm of the shares: calibrated as they are.
        chances = calibrated(trust[0] if tests else 1.0, scores)
        worth = worths(chances, self.losses)
        answer = (scores if self.losses is None else worth).argmax(axis=1).astype(np.int64)
        if tests == self.everything:
            doubt = np.full(len(scores), -np.inf)
        elif self.rule == "loyalty":
            strong = self.models.claims(tests, rows) == 1  # ascending betas: the first strong one is the smallest
            doubt = np.where(strong.any(axis=0), np.array(self.models.betas)[strong.argmax(axis=0)], np.inf)
        elif self.rule == "calibrated":
            doubt = np.maximum(expected(chances, answer, self.losses), LEAST_DOUBT)
        else:
            doubt = np.maximum(regret(trust, worth), LEAST_DOUBT)
        # Single precision, as it is remembered: who stops must not depend on who asks.
        return answer, chances, doubt.astype(np.float32).astype(np.float64)

    def _opinions(self, sets: Sequence[int]) -> tuple[Array, Floats, Floats]:
        """Answers, doubts and regrets of the training patients on several sets, which were learnt: (n_sets, n) each."""
        scores = np.stack([self.models.unseen(one) for one in sets])
        trusts = np.stack([self.trusts[one] for one in sets])
        sharpness = np.where(np.array(sets) == 0, 1.0, trusts[:, 0])
        chances = softmax(sharpness[:, None, None] * scores.astype(np.float64), axis=2)
        worth = worths(chances, self.losses)
        answer = (scores if self.losses is None else worth).argmax(axis=2)
        forgone = regret(trusts, worth)
        if self.rule == "regret":
            doubt = np.maximum(forgone, LEAST_DOUBT)
        elif self.rule == "calibrated":
            doubt = np.maximum(expected(chances, answer, self.losses), LEAST_DOUBT)
        else:
            doubt = np.stack([self.opinion(one)[2] for one in sets])
        final = np.array([one == self.everything for one in sets])
        doubt[final], forgone[final] = -np.inf, 0.0
        return answer, doubt.astype(np.float32), forgone.astype(np.float32)

    def trust(self, tests: int) -> Doubles:
        """That of the set, or of the one that differs by the fewest tests, and has fewest more."""
        if tests in self.trusts:
            return self.trusts[tests]
        return self.trusts[min(self.trusts, key=lambda one: ((one ^ tests).bit_count(), (one & ~tests).bit_count()))]

    def walk(self, opinion: Callable[[int, Array], Opinion], n: int) -> Callable[[int, Array], Opinion]:
        """The same of `n` patients on their way, who are asked step by step: what was thought before is remembered."""
        before = np.full(n, np.nan)

        def remembered(tests: int, patients: Array) -> Opinion:
            answer, chances, doubt = opinion(tests, patients)
            before[patients] = carried(before[patients], doubt, self.memory)
            return answer, chances, before[patients]

        return remembered

    def of(self, results: Results) -> Callable[[int, Array], Opinion]:
        """Opinions of new patients, by their places: each on what can be used of the evidence set."""

        def opinion(tests: int, patients: Array) -> Opinion:
            told = tests & ~results.lost[patients]
            answer, doubt = np.zeros(len(told), dtype=np.int64), np.zeros(len(told))
            chances = np.zeros((len(told), self.models.n_classes))
            for one in np.unique(told):
                part = told == one
                found = self.opinion(int(one), results.rows[patients[part]])
                answer[part], chances[part], doubt[part] = found
            return answer, chances, doubt

        return opinion

    def unseen(self, tests: int, patients: Array) -> Opinion:
        """Of some training patients, by models that have not seen them."""
        answer, chances, doubt = self.opinion(tests)
        return answer[patients], chances[patients], doubt[patients]

    def log_loss(self, tests: int) -> float:
        """Of the calibrated chances on a set, over unseen patients."""
        if tests not in self._log_losses:
            _, chances, _ = self.unseen(tests, self.taught)
            target = self.models.target[self.taught]
            own = chances[np.arange(len(target)), target]
            self._log_losses[tests] = float(-np.log(np.maximum(own, 1e-12)).mean())
        return self._log_losses[tests]

    def unseen_answer(self, tests: int) -> Array:
        """The answers to the training patients."""
        return self._told([tests])[0][0]

    def regrets(self, sets: Sets) -> Floats:
        """What the training patients are expected to forgo by stopping on each set, whatever the rule: (n_sets, n)."""
        return np.stack(self._told(sets.tolist())[2])

    def doubts(self, tests: int) -> Doubles:
        """Of the training patients on a set, each for itself."""
        return np.asarray(self._told([tests])[1][0], dtype=np.float64)

    def stopped(self, level: float, sets: Sets) -> Words:
        """Who of the training patients stops on each set, packed: shape (n_sets, n_words)."""
        return pack(suffices(np.stack(self._told(sets.tolist())[1]), level))

    def _told(self, sets: list[int]) -> list[tuple[Array, ...]]:
        """Answers, doubts and regrets of the training patients on each set; what is new is learnt all together."""
        new = [one for one in dict.fromkeys(sets) if one not in self._remembered]
        if new:
            self.learn(new)
            if self.rule == "loyalty":
                self.models.fit([one for one in new if one != self.everything], "held back")
        at_once = max(1, TRUSTED_AT_ONCE // len(self.models.target))
        for begin in range(0, len(new), at_once):
            part = new[begin : begin + at_once]
            told = zip(*self._opinions(part), strict=True)
            self._remembered.update(zip(part, told, strict=True))
        return list(zip(*(self._remembered[one] for one in sets), strict=True))

    def __getstate__(self) -> dict[str, Any]:
        """Without what is only remembered, and with no keys but words, which is all that skops can hold."""
        kept = {name: value for name, value in vars(self).items() if name not in ("trusts", "_blind", "_remembered")}
        return {"plain": kept, "keys": list(self.trusts), "trusts": list(self.trusts.values())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state["plain"])
        self.trusts = dict(zip(state["keys"], state["trusts"], strict=True))
        self._blind, self._remembered = {}, {}

    # -------------------------------------------------------------------------------------------- model files

    def state(self) -> dict[str, Any]:
        """As plain values; with classifiers of others, what they were learnt from, so that a plan can leave its way."""
        trusted = {"rule": self.rule, "common": self.common, "sets": [plain_set(tests) for tests in self.trusts]}
        trusted["trusts"], trusted["memory"] = np.stack(list(self.trusts.values())), self.memory
        if self.losses is not None:
            trusted["losses"] = self.losses.matrix
        if isinstance(self.models, MaskedClassifier):
            return {**trusted, "classifier": self.models.state()}
        assert isinstance(self.models, EvidenceModels)
        plain = {name: getattr(self.models, name) for name in SAME_IN_MODELS}
        plain |= {**trusted, "full": self.full}
        plain["models"] = {"nominal": [], "held back": []}
        for kind, found in plain["models"].items():
            for tests, made in self.models.fitted[kind].items():
                found.append([tests, [one.as_plain() if isinstance(one, Separators) else one for one in made]])
        return plain

    @classmethod
    def from_state(
        cls, state: dict[str, Any], m: int, everything: int, column_owner: Array, n_jobs: int | None
    ) -> Judge:
        """The inverse of `state`, checked."""
        if "classifier" in state:
            require_names(state, "judge_", [*SAME_IN_JUDGE, "sets", "trusts", "classifier"], NEWER)
            models: Any = MaskedClassifier.from_state(state["classifier"], m, everything.bit_length(), column_owner)
            full = None
            altered = state["rule"] != "loyalty" or "held back" in models.altered
            require(altered, "an altered model is missing")
        else:
            names = [*SAME_IN_MODELS, *SAME_IN_JUDGE, "full", "sets", "trusts", "models"]
            require_names(state, "judge_", names, NEWER)
            models = _evidence_models(state, m, everything, column_owner, n_jobs)
            full = require_array(state["full"], (len(models.rows), m), "f", "full")
            require(((full >= 0) & (full <= 1)).all(), "full does not hold chances")
            modelled = {*models.fitted["nominal"], 0}
            require(modelled >= {*state["sets"], everything}, "a trusted set has no model")
            if state["rule"] == "loyalty":
                require(models.fitted["held back"].keys() | {0, everything} >= modelled, "an altered model is missing")
        require(state["rule"] in RULES, "there is no such stopping rule")
        require(state["rule"] != "loyalty" or len(models.betas) > 0, "there are no betas")
        memory = state.get("memory", 0.0)
        require_numbers([state["common"], memory], "a figure of the judge")
        require(0 <= memory < 1, "the memory of the judge is out of range")
        require(abs(state["common"]) <= MOST_SHARPNESS, "the common sharpness is out of range")
        trusts = require_array(state["trusts"], (len(state["sets"]), None), "f", "trusts")
        require(trusts.shape[1] in (4 + m, 5 + m), "trusts have the wrong shape")  # 0.1.0 knew no narrowing
        require((trusts[:, 0] > 0).all() and (np.abs(trusts) <= MOST_TEMPERATURE).all(), "a trust is out of range")
        sets = [set_of(tests) for tests in state["sets"]]
        whole = all(type(tests) is int and 0 <= tests <= everything for tests in sets)
        require(whole and len(trusts) > 0, "a trusted set has a test that there is not")
        trusted = dict(zip(sets, trusts, strict=True))
        losses = Losses.from_state(state["losses"], m) if "losses" in state else None
        about = models, state["rule"], everything, state["common"], full
        return cls(*about, trusts=trusted, losses=losses, memory=float(memory))


def _evidence_models(
    state: dict[str, Any], m: int, everything: int, column_owner: Array, n_jobs: int | None
) -> EvidenceModels:
    """The records, and the models of every evidence set."""
    rows = require_array(state["rows"], (None, len(column_owner)), "f", "rows")
    n, how = len(rows), state["estimator"]
    require(n > 0 and rows.dtype == np.float32 and rows.flags.c_contiguous, "rows have the wrong type")
    require((np.abs(rows) <= FARTHEST).all(), "rows are not finite, or too far off")
    for name, most in (("target", m), ("fold", n)):
        whole = require_array(state[name], (n,), "i", name)
        require(whole.min() >= 0 and whole.max() < most, f"{name} is out of range")
    require(state["target"].dtype == np.int32, "target has the wrong type")
    require_numbers(state["betas"], "a figure of the evidence models")
    require(all(0 < beta < 1 for beta in state["betas"]), "a beta of the evidence models is out of range")
    require_whole(state["seed"], 0, "the seed of the evidence models")
    n_folds = int(state["fold"].max()) + 1
    spend(4 * n_folds * n, "the folds of the patients")
    if type(how) is QMSClassifier:
        how._validate_params()
        settings = (how.n_components, how.max_iter, how.batch_size)
        decided = all(isinstance(value, int) and value <= MOST_DECIDED for value in settings)
        require(decided, "a parameter of the evidence models is not decided")
        spend(4 * n_folds * m * int(how.n_components) * (len(column_owner) + 1), "the evidence models")
    else:
        require(is_classifier(how), "the evidence models are no classifiers")
    about = rows, state["target"], state["fold"], column_owner, m
    models = EvidenceModels(*about, how, tuple(state["betas"]), state["seed"], n_jobs)
    scaling = Scaling.identity(len(column_owner))
    for kind, per_set in (("nominal", 1), ("held back", len(models.betas) * m)):
        for tests, made in require_names(state["models"], "models", ["nominal", "held back"])[kind]:
            require(type(tests) is int and 0 < tests <= everything, "an evidence set has a test that there is not")
            require(len(made) == per_set, "an evidence set has no model")
            spend(8 * len(column_owner), "the evidence sets")
            models.fitted[kind][tests] = [_model(one, models, tests, scaling) for one in made]
    require(models.fitted["held back"].keys() <= models.fitted["nominal"].keys(), "a nominal model is missing")
    return models


def _model(state: Any, models: EvidenceModels, tests: int, scaling: Scaling) -> Any:
    """The separators of all folds on the columns of the set, or a fitted classifier per fold."""
    if type(models.estimator) is not QMSClassifier:
        require(isinstance(state, list) and len(state) == models.n_folds, "there is not a classifier for each fold")
        for one in state:
            require(
                is_classifier(one) and one.n_features_in_ == len(models.columns(tests)), "a model reads other columns"
            )
            require(np.isin(one.classes_, np.arange(models.n_classes)).all(), "a model has other classes")
        return state
    found = Separators.from_plain(state, scaling, models.n_classes)
    own = found.columns is not None and np.array_equal(found.columns, models.columns(tests))
    require(own, "separators read the columns of another set")
    require(found.n_members == models.n_folds, "there is not a model for each fold")
    return found
