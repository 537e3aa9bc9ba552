"""Who stops: the answer on an evidence set, the chance that it is right, and a doubt to compare with the level.

Each rule is a number, the *doubt*, that falls as the evidence suffices; a patient stops when it is at most the level:

- ``"regret"``: the accuracy that one expects to forgo by not going on to full evidence;
- ``"calibrated"``: one minus the chance that the answer on the evidence so far is right;
- ``"loyalty"``: the smallest beta under which the patient is of strong loyalty type (Definition 6), infinite if none.

On full evidence there is nothing left to buy: the doubt is minus infinity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from multiform._typing import Array, Bools, Doubles, Floats, Indices
from multiform.diagnosis._models import EvidenceModels
from multiform.diagnosis._search import Sets, Words, pack
from multiform.diagnosis._trust import calibrated, fit_sharpness, fit_trust, regret

Opinion: TypeAlias = tuple[Array, Doubles, Doubles]  # answers (n,), calibrated chances (n, m) and doubts (n,)

NOBODY_STOPS = 0.0  # every doubt is positive, but for that on full evidence
LEAST_DOUBT = 1e-12
RULES = ("regret", "calibrated", "loyalty")
TRUSTED_AT_ONCE = 60_000  # patients x sets whose trust is estimated together


def suffices(doubt: Array, level: float) -> Bools:
    """Whether the evidence suffices. Doubts are single precision numbers, so that is what the level is read as."""
    return np.asarray(doubt <= np.float32(level))


class Judge:
    """The stopping rule on every evidence set, learnt on unseen scores.

    `common` is the log sharpness that all sets are drawn to, `full` the calibrated chances of the training patients
    from all evidence, unseen, shape (n, m); `taught` are the training patients whose labels the trust is learnt from,
    by default all; `trusts` is what was learnt of the sets that were asked for so far.
    """

    def __init__(
        self,
        models: EvidenceModels,
        rule: str,
        everything: int,
        common: float,
        full: Doubles,
        taught: Indices | None = None,
        trusts: dict[int, Doubles] | None = None,
    ) -> None:
        self.models, self.rule, self.everything = models, rule, everything
        self.common, self.full = common, full
        self.taught = np.arange(len(full)) if taught is None else taught
        self.trusts = {} if trusts is None else trusts
        self._blind: dict[int, Judge] = {}
        self._log_losses: dict[int, float] = {}
        # Of each set: what the training patients are answered, how far they doubt it, and what they forgo.
        self._remembered: dict[int, tuple[Array, Floats, Floats]] = {}

    @classmethod
    def learnt(cls, models: EvidenceModels, rule: str, everything: int, some_sets: Sequence[int]) -> Judge:
        """The common sharpness is that of `some_sets` pooled; then full evidence is calibrated."""
        models.fit([*some_sets, everything])
        pooled = np.concatenate([models.unseen(one) for one in some_sets])[None, ...]
        common = float(fit_sharpness(pooled, np.tile(models.target, len(some_sets)), 0.0, 1.0)[0])
        unseen = models.unseen(everything)
        sharpness = float(np.exp(fit_sharpness(unseen[None, ...], models.target, common, 1.0)[0]))
        return cls(models, rule, everything, common, calibrated(sharpness, unseen))

    def without(self, fold: int) -> Judge:
        """One that knows the labels of all patients but those of a fold, for plans that these are to follow.

        What a plan would lose is judged by it: among many sets, the search prefers those that seem to say much.
        """
        if fold not in self._blind:
            taught = np.flatnonzero(self.models.fold != fold)
            self._blind[fold] = Judge(self.models, self.rule, self.everything, self.common, self.full, taught)
        return self._blind[fold]

    def kept(self, sets: Sequence[int]) -> Judge:
        """A copy that holds what is known of these sets only."""
        self.learn(sets)
        models = self.models.kept(sets)
        if self.rule == "loyalty":
            models.fit(sets, "held back")
        trusts = {one: self.trusts[one] for one in sets}
        return Judge(models, self.rule, self.everything, self.common, self.full, trusts=trusts)

    def learn(self, sets: Sequence[int]) -> None:
        """Train and calibrate the sets that are new."""
        new = [one for one in dict.fromkeys(int(s) for s in sets) if one not in self.trusts]
        self.models.fit(new)
        target, full = self.models.target[self.taught], self.full[self.taught]
        at_once = max(1, TRUSTED_AT_ONCE // len(target))
        for begin in range(0, len(new), at_once):
            part = new[begin : begin + at_once]
            scores = np.stack([self.models.unseen(one)[self.taught] for one in part])
            self.trusts.update(zip(part, fit_trust(scores, full, target, self.common), strict=True))

    def opinion(self, tests: int, rows: Floats | None = None) -> Opinion:
        """Of new patients; or of the training patients, by models that have not seen them."""
        self.learn([tests])
        scores = self.models.unseen(tests) if rows is None else self.models.scores(tests, rows)
        trust = self.trusts[tests]
        # The scores of no evidence are the logarithm of the shares: calibrated as they are.
        chances = calibrated(trust[0] if tests else 1.0, scores)
        if tests == self.everything:
            doubt = np.full(len(scores), -np.inf)
        elif self.rule == "loyalty":
            strong = self.models.claims(tests, rows) == 1  # ascending betas: the first strong one is the smallest
            doubt = np.where(strong.any(axis=0), np.array(self.models.betas)[strong.argmax(axis=0)], np.inf)
        elif self.rule == "calibrated":
            doubt = np.maximum(1 - chances.max(axis=1), LEAST_DOUBT)
        else:
            doubt = np.maximum(regret(trust, chances), LEAST_DOUBT)
        # Single precision, as it is remembered: who stops must not depend on who asks.
        return scores.argmax(axis=1).astype(np.int64), chances, doubt.astype(np.float32).astype(np.float64)

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
        for one in new:
            answer, chances, doubt = self.opinion(one)
            forgone = np.zeros(len(answer)) if one == self.everything else regret(self.trusts[one], chances)
            self._remembered[one] = answer, doubt.astype(np.float32), forgone.astype(np.float32)
        return list(zip(*(self._remembered[one] for one in sets), strict=True))
