"""How the level is eased at each place of a plan: what the next tests cost, and what they are worth, say when to stop.

One level for all places of a plan is blind to prices. Before a dear test that tells little, patients should stop who
have more to regret; before a cheap one that tells much, those who have less should go on. With the level L, an answer
that full evidence would have corrected is taken to be worth so much that ``PANELS L`` of them are one full panel, and
each place gets a threshold tau of its own, as in backward induction: from the last place to the first, tau is the one
for which the training patients pay least, those at or below it what they forgo if they stop, the others what they pay
for the next test and lose from there on under the thresholds that are there already,

    least over tau of   sum_{doubt <= tau} forgone_i / (PANELS L)  +  sum_{doubt > tau} (price_i + later_i)
                        + PULL mean(price + later) (log tau - log L)^2.

All patients who come to a place if nobody stops have a say in it, so that there is no end of the way where few are
left. The last term draws tau to the level as a few patients would. What is forgone is the mean of what the rule expects
and of what full evidence said in fact (`Judge.forgone`): the first alone prefers places that look convincing, the
second alone those where few patients happened to lose nothing. The *ease* of a place is tau / L.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multiform._typing import Array, Bools, Doubles
from multiform.diagnosis._judge import EVERYBODY_STOPS, LEAST_DOUBT, NOBODY_STOPS, carried
from multiform.diagnosis._plan import Plan
from multiform.diagnosis._tariff import as_sets, members

if TYPE_CHECKING:
    from multiform.diagnosis._planning import Planning

PANELS = 3.0  # full panels that are worth L answers
PULL = 3.0  # patients that draw a threshold to the level
MOST_EASE = 30.0  # an ease is between this and one in so many


class Walked:
    """Some training patients along the whole of a plan: how much doubt there is at each place, and what is forgone.

    A place is the start (0), or after the test of a node (its number and one). Within a round nobody may stop.
    """

    def __init__(self, planning: Planning, plan: Plan, patients: Bools) -> None:
        self.plan, self.n, self.patients = plan, planning.n, patients
        self.priced = planning.judge.rule == "regret" and planning.tariff.panel_cost > 0
        if not self.priced:
            return
        tariff, judge, panel = planning.tariff, planning.judge, planning.tariff.panel_cost
        judge.regrets(as_sets(list({tariff.known: 0} | dict.fromkeys(plan.sets)), len(tariff)))  # learnt all at once
        before = np.full(planning.n, np.nan)
        done = np.ones((planning.n, len(tariff)), dtype=bool)
        if planning.undone is not None:
            done = ~members(planning.undone, len(tariff))
        no_answer = np.zeros(planning.n, dtype=np.int64)
        # Of each place: who comes to it, their log doubts in ascending order, and what each one forgoes by stopping.
        self._come: list[Array] = []
        self._log_doubt: list[Doubles] = []
        self._rank: list[Array] = []
        self._forgone: list[Doubles] = []
        # Of each node: what its test costs each patient, waiting for its round included, and the node after it.
        self._price: list[Doubles] = []
        self._after: list[Array] = []
        come: list[Array] = [np.flatnonzero(patients), *(np.empty(0, dtype=np.intp) for _ in plan.tests)]
        slowest = 0.0
        for place in range(len(plan) + 1):
            node, own = place - 1, come[place]
            held = tariff.known if not place else plan.held[node] | 1 << plan.tests[node]
            if place:
                t = plan.tests[node]
                price = np.where(done[:, t], tariff.price(t, plan.held[node]), 0.0)
                slowest = max(slowest, tariff.duration(t))
                if not plan.joins(node):
                    price, slowest = price + tariff.hour_price * slowest, 0.0
                self._price.append(price / panel)
                self._after.append(plan.after(node, no_answer, planning.values))
            log_doubt, forgone = np.empty(0), np.zeros(planning.n)
            if len(own) and not (place and plan.joins(node)):
                before[own] = carried(before[own], judge.doubts(held)[own], judge.memory)
                log_doubt = np.log(np.maximum(before[own], LEAST_DOUBT))
                fact = judge.forgone(judge.unseen_answer(held))[0] / judge.dearest
                forgone = (fact + judge.regrets(as_sets([held], len(tariff)))[0]) / 2
            self._come.append(own)
            self._log_doubt.append(log_doubt)
            self._rank.append(np.argsort(log_doubt, kind="stable"))
            self._forgone.append(forgone)
            after = np.zeros(planning.n, dtype=np.int64) if not place else self._after[node]
            for child in {*(plan.following[node] if place else (0,) if len(plan) else ())} - {-1}:
                come[child + 1] = own[after[own] == child]
        self._found: dict[float, tuple[tuple[float, ...], float]] = {}

    def eases(self, level: float) -> tuple[float, ...]:
        """Of each place; none where the level is that of all."""
        return self._at(level)[0]

    def total(self, level: float) -> float:
        """What these patients pay and forgo on average, in panels; by it plans are chosen among."""
        return self._at(level)[1]

    def _at(self, level: float) -> tuple[tuple[float, ...], float]:
        if not self.priced or not NOBODY_STOPS < level < EVERYBODY_STOPS:
            return (), 0.0
        if level not in self._found:
            self._found[level] = self._induced(level)
        return self._found[level]

    def _induced(self, level: float) -> tuple[tuple[float, ...], float]:
        """From the last place to the first."""
        plan, worth = self.plan, 1 / (PANELS * level)
        eases = [1.0] * (len(plan) + 1)
        lost = [np.zeros(0)] * (len(plan) + 1)  # of each place: what each patient loses from there on
        for place in reversed(range(len(plan) + 1)):
            node, own = place - 1, self._come[place]
            later = np.zeros(self.n)
            following = {*plan.following[node]} - {-1} if place else {0} if len(plan) else set()
            for child in following:
                part = self._come[child + 1]
                later[part] = self._price[child][part] + lost[child + 1][part]
            stopping = worth * self._forgone[place]
            lost[place] = later
            if not len(own) or (place and plan.joins(node)):
                continue
            ends = self._after[node][own] < 0 if place else np.full(len(own), not len(plan))
            going_on = np.where(ends, stopping[own], later[own])
            ease, stops = self._ease(place, level, stopping[own], going_on)
            eases[place] = ease
            lost[place][own] = np.where(stops | ends, stopping[own], later[own])
        return tuple(eases), float(lost[0][self.patients].mean())

    def _ease(self, place: int, level: float, stopping: Doubles, going_on: Doubles) -> tuple[float, Bools]:
        """The ease of a place, and who stops there."""
        log_doubt, rank = self._log_doubt[place], self._rank[place]
        ascending, log_level, reach = log_doubt[rank], np.log(level), np.log(MOST_EASE)
        saved = np.append(0.0, np.cumsum((going_on - stopping)[rank]))  # by the first so many stopping
        between = (ascending[1:] + ascending[:-1]) / 2
        tried = np.concatenate([[log_level], ascending[:1] - 0.01, between, ascending[-1:] + 0.01])
        tried = np.clip(tried, log_level - reach, log_level + reach)
        pull = PULL * going_on.mean() * (tried - log_level) ** 2
        best = tried[int(np.argmax(saved[np.searchsorted(ascending, tried, side="right")] - pull))]
        return float(np.exp(best - log_level)), np.asarray(log_doubt <= best)
