"""Who stops: the answer on an evidence set, the chance that it is right, and a doubt to compare with the level.

Each rule is a number, the *doubt*, that falls as the evidence suffices; a patient stops when it is at most the level:

- ``"regret"``: the accuracy that one expects to forgo by not going on to full evidence;
- ``"calibrated"``: one minus the chance that the answer on the evidence so far is right;
- ``"loyalty"``: the smallest beta under which the patient is of strong loyalty type (Definition 6), infinite if none.

On full evidence there is nothing left to buy: the doubt is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from multiform.diagnosis._models import EvidenceModels
from multiform.diagnosis._search import Sets, Stopped, Words, pack
from multiform.diagnosis._trust import SetTrust, fit_sharpness, fit_trust

__all__ = ["RULES", "Judge", "Opinion"]

Doubles = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]

RULES = ("regret", "calibrated", "loyalty")
AT_ONCE = 256  # sets whose trust is estimated together


@dataclass(frozen=True)
class Opinion:
    """What is thought of some patients on an evidence set.

    Attributes
    ----------
    answer : array of int, shape (n,)
    chances : array, shape (n, m)
        Calibrated.
    doubt : array, shape (n,)
    """

    answer: npt.NDArray[np.int64]
    chances: Doubles
    doubt: Doubles

    @property
    def chance(self) -> Doubles:
        """That the answer is right."""
        return np.asarray(self.chances.max(axis=1))


@dataclass(frozen=True)
class Judge:
    """The stopping rule on every evidence set, learnt on unseen scores.

    Attributes
    ----------
    models : EvidenceModels
    rule : {"regret", "calibrated", "loyalty"}
    everything : int
        The set of all tests.
    common : float
        The log sharpness that all sets are drawn to.
    full : array, shape (n, m)
        Calibrated chances of the training patients from all evidence, unseen.
    sets, trusts : lists
        The trust of the sets that were asked for so far.
    """

    models: EvidenceModels
    rule: str
    everything: int
    common: float
    full: Doubles
    sets: list[int] = field(default_factory=list)
    trusts: list[SetTrust] = field(default_factory=list)

    @classmethod
    def learnt(cls, models: EvidenceModels, rule: str, everything: int, some_sets: Sequence[int]) -> Judge:
        """The common sharpness is that of `some_sets` pooled; then full evidence is calibrated."""
        target = models.records.target
        models.fit([*some_sets, everything])
        pooled = np.concatenate([models.unseen(one) for one in some_sets])[None, ...]
        common = float(fit_sharpness(pooled, np.tile(target, len(some_sets)), 0.0, 1.0)[0])
        unseen = models.unseen(everything)
        sharpness = float(np.exp(fit_sharpness(unseen[None, ...], target, common, 1.0)[0]))
        return cls(models, rule, everything, common, SetTrust(sharpness, 1.0, 0.0).chances(unseen))

    @cached_property
    def _place(self) -> dict[int, int]:
        return {one: place for place, one in enumerate(self.sets)}

    @cached_property
    def _opinions(self) -> dict[int, Opinion]:
        return {}

    def kept(self, sets: Sequence[int]) -> Judge:
        """A copy that holds what is known of these sets only."""
        self.learn(sets)
        models = self.models.kept(sets)
        if self.rule == "loyalty":
            models.fit_altered([one for one in sets if one])
        trusts = [self.trusts[self._place[one]] for one in sets]
        return Judge(models, self.rule, self.everything, self.common, self.full, list(sets), trusts)

    def learn(self, sets: Sequence[int]) -> None:
        """Train and calibrate the sets that are new."""
        new = [one for one in dict.fromkeys(int(s) for s in sets) if one not in self._place]
        self.models.fit(new)
        target = self.models.records.target
        for begin in range(0, len(new), AT_ONCE):
            part = new[begin : begin + AT_ONCE]
            scores = np.stack([self.models.unseen(one) for one in part])
            for one, trust in zip(part, fit_trust(scores, self.full, target, self.common), strict=True):
                if one == 0:  # the scores are the logarithm of the shares: calibrated as they are
                    trust = SetTrust(1.0, trust.slope, trust.spread)
                self._place[one] = len(self.sets)
                self.sets.append(one)
                self.trusts.append(trust)

    def opinion(self, tests: int, rows: Floats) -> Opinion:
        """Of new patients."""
        self.learn([tests])
        claims = self.models.claims(tests, rows) if self._needs_claims(tests) else None
        return self._opinion(tests, self.models.scores(tests, rows), claims)

    def unseen(self, tests: int) -> Opinion:
        """Of the training patients, by models that have not seen them."""
        if tests not in self._opinions:
            self.learn([tests])
            claims = self.models.unseen_claims(tests) if self._needs_claims(tests) else None
            self._opinions[tests] = self._opinion(tests, self.models.unseen(tests), claims)
        return self._opinions[tests]

    def _needs_claims(self, tests: int) -> bool:
        return self.rule == "loyalty" and tests != self.everything

    def _opinion(self, tests: int, scores: Floats, claims: npt.NDArray[np.int64] | None) -> Opinion:
        trust = self.trusts[self._place[tests]]
        chances = trust.chances(scores)
        answer = scores.argmax(axis=1).astype(np.int64)
        if tests == self.everything:
            doubt = np.zeros(len(scores))
        elif claims is not None:
            betas = np.array(self.models.settings.betas)
            strong = claims == 1  # ascending betas: the first strong one is the smallest
            doubt = np.where(strong.any(axis=0), betas[strong.argmax(axis=0)], np.inf)
        elif self.rule == "calibrated":
            doubt = 1 - chances.max(axis=1)
        else:
            doubt = trust.regret(chances)
        return Opinion(answer, chances, doubt)

    def forgone(self, tests: int) -> Doubles:
        """What full evidence gives the answers on this set less of a chance, patient by patient: shape (n,).

        ``max_k P_full(k) - P_full(answer)``: 0 where full evidence agrees. It counts changes against the plan and
        never for it, and scatters far less than a count of errors.
        """
        answer = self.unseen(tests).answer
        return np.asarray(self.full.max(axis=1) - self.full[np.arange(len(answer)), answer])

    def stopped(self, level: float) -> Stopped:
        """Who of the training patients stops on each set, as the search asks."""
        memory: dict[int, Words] = {}

        def stopped(sets: Sets) -> Words:
            new = [int(one) for one in sets if int(one) not in memory]
            if new:
                self.learn(new)
                if self.rule == "loyalty":
                    self.models.fit_altered([one for one in new if one and one != self.everything])
                for one in new:
                    memory[one] = pack(self.unseen(one).doubt <= level)
            return np.stack([memory[int(one)] for one in sets])

        return stopped
