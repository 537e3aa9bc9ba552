"""Who stops: the answer on an evidence set, the chance that it is right, and a doubt to compare with the level.

Each rule is a number, the *doubt*, that falls as the evidence suffices; a patient stops when it is at most the level:

- ``"regret"``: the accuracy that one expects to forgo by not going on to full evidence;
- ``"calibrated"``: one minus the chance that the answer on the evidence so far is right;
- ``"loyalty"``: the smallest beta under which the patient is of strong loyalty type (Definition 6), infinite if none.

On full evidence there is nothing left to buy: the doubt is minus infinity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from scipy.special import softmax

from multiform._typing import Array, Bools, Doubles, Floats, Indices
from multiform.diagnosis._models import EvidenceModels
from multiform.diagnosis._search import Sets, Words, pack
from multiform.diagnosis._trust import calibrated, fit_sharpness, fit_trust, regret

__all__ = ["NOBODY_STOPS", "RULES", "Judge", "Opinion", "suffices"]

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
        # What is thought of the training patients, a row per set, and who stops at the levels that were asked for.
        self._place: dict[int, int] = {}
        self._doubt: Floats = np.empty((0, len(full)), dtype=np.float32)
        self._regret: Floats = np.empty((0, len(full)), dtype=np.float32)
        self._answer: Array = np.empty((0, len(full)), dtype=np.int16)
        self._stopped: dict[float, Words] = {}

    @classmethod
    def learnt(cls, models: EvidenceModels, rule: str, everything: int, some_sets: Sequence[int]) -> Judge:
        """The common sharpness is that of `some_sets` pooled; then full evidence is calibrated."""
        models.fit([*some_sets, everything])
        pooled = np.concatenate([models.unseen(one) for one in some_sets])[None, ...]
        common = float(fit_sharpness(pooled, np.tile(models.target, len(some_sets)), 0.0, 1.0)[0])
        unseen = models.unseen(everything)
        sharpness = float(np.exp(fit_sharpness(unseen[None, ...], models.target, common, 1.0)[0]))
        return cls(models, rule, everything, common, np.asarray(softmax(sharpness * unseen.astype(np.float64), axis=1)))

    def under(self, rule: str) -> Judge:
        """Another stopping rule on the same models and the same trust."""
        return Judge(self.models, rule, self.everything, self.common, self.full, trusts=dict(self.trusts))

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
            models.fit_altered(sets)
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

    # ------------------------------------------------------------------------------------------------ opinions

    def opinion(self, tests: int, rows: Floats) -> Opinion:
        """Of new patients."""
        self.learn([tests])
        claims = self.models.claims(tests, rows) if self._needs_claims(tests) else None
        return self._opinion(tests, self.models.scores(tests, rows), claims)

    def unseen(self, tests: int, patients: Any = slice(None)) -> Opinion:
        """Of training patients, by models that have not seen them."""
        self.learn([tests])
        claims = self.models.unseen_claims(tests) if self._needs_claims(tests) else None
        answer, chances, doubt = self._opinion(tests, self.models.unseen(tests), claims)
        return answer[patients], chances[patients], doubt[patients]

    def _needs_claims(self, tests: int) -> bool:
        return self.rule == "loyalty" and tests != self.everything

    def _opinion(self, tests: int, scores: Floats, claims: Array | None) -> Opinion:
        trust = self.trusts[tests]
        # The scores of no evidence are the logarithm of the shares: calibrated as they are.
        chances = calibrated(trust[0] if tests else 1.0, scores)
        if tests == self.everything:
            doubt = np.full(len(scores), -np.inf)
        elif claims is not None:
            strong = claims == 1  # ascending betas: the first strong one is the smallest
            doubt = np.where(strong.any(axis=0), np.array(self.models.betas)[strong.argmax(axis=0)], np.inf)
        elif self.rule == "calibrated":
            doubt = np.maximum(1 - chances.max(axis=1), LEAST_DOUBT)
        else:
            doubt = np.maximum(regret(trust, chances), LEAST_DOUBT)
        # Single precision, here and in the table: who stops must not depend on who asks.
        return scores.argmax(axis=1).astype(np.int64), chances, doubt.astype(np.float32).astype(np.float64)

    # -------------------------------------------------------------------- of the training patients, remembered

    def unseen_answer(self, tests: int) -> Array:
        """The answers to the training patients."""
        [place] = self._remembered([tests])  # first, as it may make the table grow
        return np.asarray(self._answer[place], dtype=np.int64)

    def log_loss(self, tests: int) -> float:
        """Of the calibrated chances on a set, over unseen patients."""
        if tests not in self._log_losses:
            chances, target = self.unseen(tests, self.taught)[1], self.models.target[self.taught]
            own = chances[np.arange(len(target)), target]
            self._log_losses[tests] = float(-np.log(np.maximum(own, 1e-12)).mean())
        return self._log_losses[tests]

    def regrets(self, sets: Sets) -> Floats:
        """What the training patients are expected to forgo by stopping on each set, whatever the rule: (n_sets, n)."""
        places = self._remembered(sets.tolist())  # first, as it may make the table grow
        return np.asarray(self._regret[places])

    def stopped(self, level: float, sets: Sets) -> Words:
        """Who of the training patients stops on each set, packed: shape (n_sets, n_words)."""
        places = self._remembered(sets.tolist())
        done = self._stopped.get(level)
        begin = 0 if done is None else len(done)
        if done is None or begin < len(self._place):
            new = pack(suffices(self._doubt[begin : len(self._place)], level))
            done = self._stopped[level] = new if done is None else np.concatenate([done, new])
        return done[places]

    def _remembered(self, sets: Sequence[int]) -> Array:
        """Where the table holds each set; what is new is learnt, all of it together."""
        new = [one for one in dict.fromkeys(sets) if one not in self._place]
        if new:
            self.learn(new)
            if self.rule == "loyalty":
                self.models.fit_altered([one for one in new if self._needs_claims(one)])
            self._make_room(len(self._place) + len(new))
        for one in new:
            row = len(self._place)
            self._answer[row], chances, self._doubt[row] = self.unseen(one)
            self._regret[row] = 0.0 if one == self.everything else regret(self.trusts[one], chances)
            self._place[one] = row
        return np.fromiter((self._place[one] for one in sets), dtype=np.int64, count=len(sets))

    def _make_room(self, n_sets: int) -> None:
        """Let the table hold so many sets, and twice as many as it held."""
        held = len(self._doubt)
        if n_sets > held:
            room = ((0, max(256, n_sets, 2 * held) - held), (0, 0))
            self._doubt, self._regret = np.pad(self._doubt, room), np.pad(self._regret, room)
            self._answer = np.pad(self._answer, room)
