"""Who stops: the answer on an evidence set, the chance that it is right, and a doubt to compare with the level.

Each rule is a number, the *doubt*, that falls as the evidence suffices; a patient stops when it is at most the level:

- ``"regret"``: the accuracy that one expects to forgo by not going on to full evidence;
- ``"calibrated"``: one minus the chance that the answer on the evidence so far is right;
- ``"loyalty"``: the smallest beta under which the patient is of strong loyalty type (Definition 6), infinite if none.

On full evidence there is nothing left to buy: the doubt is minus infinity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from multiform.diagnosis._models import EvidenceModels, OnlyFields
from multiform.diagnosis._search import Sets, Stopped, Words, pack
from multiform.diagnosis._trust import SetTrust, fit_sharpness, fit_trust

__all__ = ["NOBODY_STOPS", "RULES", "Judge", "Opinion", "suffices"]

Doubles = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]

NOBODY_STOPS = 0.0  # every doubt is positive, but for that on full evidence
LEAST_DOUBT = 1e-12
RULES = ("regret", "calibrated", "loyalty")
AT_ONCE = 60_000  # patients x sets whose trust is estimated together


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


def suffices(doubt: npt.NDArray[Any], level: float) -> npt.NDArray[np.bool_]:
    """Whether the evidence suffices. Doubts are single precision numbers, so that is what the level is read as."""
    return np.asarray(doubt <= np.float32(level))


@dataclass(frozen=True)
class Judge(OnlyFields):
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
        return cls(models, rule, everything, common, np.asarray(softmax(sharpness * unseen.astype(np.float64), axis=1)))

    @cached_property
    def _place(self) -> dict[int, int]:
        return {one: place for place, one in enumerate(self.sets)}

    @cached_property
    def _unseen(self) -> _UnseenTable:
        """What is thought of the training patients on every set learnt in this process; not a part of the plan."""
        return _UnseenTable(len(self.full))

    @cached_property
    def _blind(self) -> dict[int, BlindJudge]:
        return {}

    @cached_property
    def _taught(self) -> npt.NDArray[np.intp]:
        """The training patients whose labels the trust is learnt from."""
        return np.arange(len(self.full))

    def without(self, fold: int) -> BlindJudge:
        """One whose trust is learnt without the patients of a fold, on the same models."""
        if fold not in self._blind:
            self._blind[fold] = BlindJudge(self.models, self.rule, self.everything, self.common, self.full, fold=fold)
        return self._blind[fold]

    @cached_property
    def _log_losses(self) -> dict[int, float]:
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
        taught = self._taught
        target, full = self.models.records.target[taught], self.full[taught]
        at_once = max(1, AT_ONCE // len(target))
        for begin in range(0, len(new), at_once):
            part = new[begin : begin + at_once]
            scores = np.stack([self.models.unseen(one)[taught] for one in part])
            trusts, _ = fit_trust(scores, full, target, self.common)
            for one, trust in zip(part, trusts, strict=True):
                self._place[one] = len(self.sets)
                self.sets.append(one)
                self.trusts.append(trust)

    def opinion(self, tests: int, rows: Floats) -> Opinion:
        """Of new patients."""
        self.learn([tests])
        claims = self.models.claims(tests, rows) if self._needs_claims(tests) else None
        return self._opinion(tests, self._trust(tests), self.models.scores(tests, rows), claims)

    def unseen(self, tests: int) -> Opinion:
        """Of the training patients, by models that have not seen them."""
        self.learn([tests])
        claims = self.models.unseen_claims(tests) if self._needs_claims(tests) else None
        return self._opinion(tests, self._trust(tests), self.models.unseen(tests), claims)

    def held_out(self, tests: int, fold: int) -> Opinion:
        """Of the patients of a fold, by models that have not seen them and a trust that was learnt without them.

        What a plan would lose is judged by this: among many sets, the search prefers those that seem to say much.
        """
        known, own = self.without(fold).unseen(tests), self.models.records.fold == fold
        return Opinion(known.answer[own], known.chances[own], known.doubt[own])

    def unseen_answer(self, tests: int) -> npt.NDArray[np.int64]:
        """The answers to the training patients, remembered."""
        [place] = self._remembered([tests])  # first, as it may make the table grow
        return np.asarray(self._unseen.answer[place], dtype=np.int64)

    def log_loss(self, tests: int) -> float:
        """Of the calibrated chances on a set, over unseen patients; remembered."""
        if tests not in self._log_losses:
            chances, target = self.unseen(tests).chances[self._taught], self.models.records.target[self._taught]
            own = chances[np.arange(len(target)), target]
            self._log_losses[tests] = float(-np.log(np.maximum(own, 1e-12)).mean())
        return self._log_losses[tests]

    def _remembered(self, sets: Sequence[int]) -> npt.NDArray[np.int64]:
        """Where the table holds each set; what is new is learnt, all of it together."""
        place = self._unseen.place
        new = [one for one in dict.fromkeys(sets) if one not in place]
        if new:
            self.learn(new)
            if self.rule == "loyalty":
                self.models.fit_altered([one for one in new if self._needs_claims(one)])
            for one in new:
                opinion = self.unseen(one)
                self._unseen.append(one, opinion, self._regret(one, opinion.chances))
        return np.fromiter((place[one] for one in sets), dtype=np.int64, count=len(sets))

    def _needs_claims(self, tests: int) -> bool:
        return self.rule == "loyalty" and tests != self.everything

    def _trust(self, tests: int) -> SetTrust:
        return self.trusts[self._place[tests]]

    def _opinion(self, tests: int, trust: SetTrust, scores: Floats, claims: npt.NDArray[np.int64] | None) -> Opinion:
        if not tests:  # the scores are the logarithm of the shares: calibrated as they are
            trust = replace(trust, sharpness=1.0)
        chances = trust.chances(scores)
        answer = scores.argmax(axis=1).astype(np.int64)
        if tests == self.everything:
            doubt = np.full(len(scores), -np.inf)
        elif claims is not None:
            betas = np.array(self.models.settings.betas)
            strong = claims == 1  # ascending betas: the first strong one is the smallest
            doubt = np.where(strong.any(axis=0), betas[strong.argmax(axis=0)], np.inf)
        elif self.rule == "calibrated":
            doubt = np.maximum(1 - chances.max(axis=1), LEAST_DOUBT)
        else:
            doubt = np.maximum(trust.regret(chances), LEAST_DOUBT)
        # Single precision, here and in the table: who stops must not depend on who asks.
        return Opinion(answer, chances, doubt.astype(np.float32).astype(np.float64))

    def _regret(self, tests: int, chances: Doubles) -> Doubles:
        return np.zeros(len(chances)) if tests == self.everything else self._trust(tests).regret(chances)

    def regrets(self, sets: Sets) -> Floats:
        """What the training patients are expected to forgo by stopping on each set, whatever the rule: (n_sets, n)."""
        places = self._remembered(sets.tolist())  # first, as it may make the table grow
        return np.asarray(self._unseen.regret[places])

    def stopped(self, level: float) -> Stopped:
        """Who of the training patients stops on each set, as the search asks."""

        def stopped(sets: Sets) -> Words:
            places = self._remembered(sets.tolist())
            return self._unseen.stopped(level)[places]

        return stopped


@dataclass(frozen=True)
class BlindJudge(Judge):
    """A judge that knows the labels of all patients but those of one fold, for plans that these are to follow.

    Attributes
    ----------
    fold : int
    """

    fold: int = -1

    @cached_property
    def _taught(self) -> npt.NDArray[np.intp]:
        return np.flatnonzero(self.models.records.fold != self.fold)


class _UnseenTable:
    """Doubts, regrets and answers, a row a set, and who stops at the levels that were asked for."""

    def __init__(self, n: int) -> None:
        self.place: dict[int, int] = {}
        self.doubt = np.empty((256, n), dtype=np.float32)
        self.regret = np.empty((256, n), dtype=np.float32)
        self.answer = np.empty((256, n), dtype=np.int16)
        self._stopped: dict[float, Words] = {}

    def append(self, tests: int, opinion: Opinion, regret: Doubles) -> None:
        row = len(self.place)
        if row == len(self.doubt):
            self.doubt = np.concatenate([self.doubt, np.empty_like(self.doubt)])
            self.regret = np.concatenate([self.regret, np.empty_like(self.regret)])
            self.answer = np.concatenate([self.answer, np.empty_like(self.answer)])
        self.doubt[row], self.regret[row], self.answer[row] = opinion.doubt, regret, opinion.answer
        self.place[tests] = row

    def stopped(self, level: float) -> Words:
        """Packed, a row a set."""
        done = self._stopped.get(level)
        begin = 0 if done is None else len(done)
        if done is None or begin < len(self.place):
            new = pack(suffices(self.doubt[begin : len(self.place)], level))
            done = self._stopped[level] = new if done is None else np.concatenate([done, new])
        return done
