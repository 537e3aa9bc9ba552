"""Plans whose results take their time: which tests to order together.

A round costs the prices of its tests and the hours of its slowest one; and nobody can stop within it. So it pays to
order together what most would need anyway, and to wait where many may stop.

An order is searched as if there were no rounds, twice: once each test is charged its own waiting, and once waiting is
free. Then each of the two plans is cut into rounds. A chain is a run of nodes without ways between them, ``t_1 ..
t_L``; a label at k is a way to have cut off the first k of them, with what it has cost, the hours, and who is alive:

    label at j  =  label at k,  everybody alive pays for t_{k+1} .. t_j and waits for the slowest of them,
                   and those who stop on the set after t_j are charged what they forgo.

Labels at the same place are judged by what they have cost and what those alive would still pay one by one. The cheaper
of the two plans is taken, so it never costs more on the estimate than either of them one by one. With a limit to the
hours a plan may also end before all tests are bought, and those alive are charged what they forgo there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from multiform._typing import Bools, Doubles
from multiform.diagnosis._plan import EXACTLY, Plan
from multiform.diagnosis._search import SearchProof
from multiform.diagnosis._tariff import as_sets

if TYPE_CHECKING:
    from multiform.diagnosis._planning import Planning, Stopped

MOST_TOGETHER = 40  # tests of a round
MOST_LABELS = 12  # at a place, of different hours


@dataclass(frozen=True)
class _Label:
    cost: float
    hours: float
    alive: Bools
    cuts: tuple[int, ...]


class InRounds:
    """How the plans of a `Planning` are made where results take their time."""

    def __init__(self, planning: Planning) -> None:
        self.planning, self.tariff = planning, planning.tariff
        # What an error is worth does not depend on how a search reads the price of waiting.
        worth = planning.loss_price
        worth = planning.error_price * planning.tariff.panel_cost if worth is None else worth
        self.searches = [
            planning.changed(tariff=tariff, budget=None, max_hours=None, loss_price=worth)
            for tariff in dict.fromkeys(self.tariff.without_waiting(one_by_one) for one_by_one in (True, False))
        ]

    def plan(self, level: float, patients: Bools, exact: bool) -> tuple[Plan, SearchProof]:
        """The plan at a level for these training patients, and what is known of it."""
        stopped = partial(self.planning.judge.stopped, level)
        tried = []
        for search in self.searches:
            found, proof = search.plan(level, patients, exact)
            tried.append((*self.cut(found, stopped, patients), proof))
        plan, cost, proof = min(tried, key=lambda one: one[1])
        whole = plan.within(self.tariff, self.planning.budget, self.planning.max_hours)
        if whole.joined or len(self.searches) > 1:  # the proof is of an order whose tests come one by one
            proof = SearchProof(False, cost / max(1, int(patients.sum())), 0.0, proof.n_labels)
        return whole, proof

    def cut(self, plan: Plan, stopped: Stopped, patients: Bools) -> tuple[Plan, float]:
        """The plan with its tests in rounds, and what that costs these patients, with what they forgo."""
        planning, joined, ends = self.planning, [False] * len(plan), set()
        known = self.tariff.known
        at_once = patients & planning._leaving(stopped, known)
        total = float(self._forgone(known)[at_once].sum())
        if not len(plan):
            return plan, total
        leaves, given_up, ahead = self._one_by_one(plan, stopped)
        waiting = [(0, patients & ~at_once, 0.0)]
        while waiting:
            node, alive, hours = waiting.pop()
            chain = [node]
            while len({*plan.following[chain[-1]]}) == 1 and plan.following[chain[-1]][0] >= 0:
                chain.append(plan.following[chain[-1]][0])
            after = [one for one in plan.following[chain[-1]] if one >= 0]
            label = self._best(plan, chain, alive, hours, leaves, given_up, ahead)
            for begin, end in zip((0, *label.cuts), label.cuts, strict=False):
                for k in range(begin, end - 1):
                    joined[chain[k]] = True
            total += label.cost
            if label.cuts[-1] < len(chain):
                ends.add(chain[label.cuts[-1] - 1])
            elif after:
                answers = np.zeros(planning.n, dtype=np.int64)
                gone = plan.after(chain[-1], answers, planning.values)
                waiting += [(k, label.alive & (gone == k), label.hours) for k in dict.fromkeys(after)]
        following = tuple((-1,) if node in ends else after for node, after in enumerate(plan.following))
        return replace(plan, following=following, joined=tuple(joined) if any(joined) else ()), total

    def _one_by_one(self, plan: Plan, stopped: Stopped) -> tuple[list[Bools], list[Doubles], list[Doubles]]:
        """Of each node: who stops after its test, what they forgo, and what everybody would pay from it on."""
        planning, tariff = self.planning, self.tariff
        after = [held | 1 << t for held, t in zip(plan.held, plan.tests, strict=True)]
        leaves = [planning._leaving(stopped, one) for one in after]
        given_up = [self._forgone(one) for one in after]
        ahead = [np.zeros(planning.n) for _ in plan.tests]
        answers = np.zeros(planning.n, dtype=np.int64)
        for node in reversed(range(len(plan))):
            t = plan.tests[node]
            price = tariff.price(t, plan.held[node]) + tariff.hour_price * tariff.duration(t)
            gone = plan.after(node, answers, planning.values)
            later = np.zeros(planning.n)
            for one in {*plan.following[node]} - {-1}:
                later = np.where(gone == one, ahead[one], later)
            ahead[node] = price + np.where(leaves[node], given_up[node], later)
        return leaves, given_up, ahead

    def _rounded(self, label: _Label, later: Doubles) -> float:
        """What a label costs in the end if those alive go on one by one; sums that differ by rounding are the same."""
        return round(label.cost + float(later[label.alive].sum()), 6)

    def _forgone(self, tests: int) -> Doubles:
        found = self.searches[0]._forgone(as_sets([tests], len(self.tariff)))[0]
        return np.asarray(found, dtype=np.float64)

    def _best(
        self,
        plan: Plan,
        chain: list[int],
        alive: Bools,
        hours: float,
        leaves: list[Bools],
        given_up: list[Doubles],
        ahead: list[Doubles],
    ) -> _Label:
        """The best cut of a chain into rounds."""
        tariff, longest = self.tariff, self.planning.max_hours
        prices = [tariff.price(plan.tests[node], plan.held[node]) for node in chain]
        answers = np.zeros(len(alive), dtype=np.int64)
        gone = plan.after(chain[-1], answers, self.planning.values)
        last = np.zeros(len(alive))
        for one in {*plan.following[chain[-1]]} - {-1}:
            last = np.where(gone == one, ahead[one], last)
        labels: list[list[_Label]] = [[_Label(0.0, hours, alive, ())], *([] for _ in chain)]
        for k in range(len(chain)):
            for label in labels[k]:
                paid, slowest, within, n_alive = 0.0, 0.0, 0, float(label.alive.sum())
                for j in range(k, min(len(chain), k + MOST_TOGETHER)):
                    node = chain[j]
                    if tariff.required[plan.tests[node]] & within:
                        break  # its result is needed first
                    within |= 1 << plan.tests[node]
                    paid, slowest = paid + prices[j], max(slowest, tariff.duration(plan.tests[node]))
                    ends = tariff.duration(plan.tests[chain[k]]), tariff.duration(plan.tests[node])
                    if j > k and not all(ends):
                        continue  # what is there at once is looked at before one orders, and before one waits
                    leaving = label.alive & leaves[node]
                    cost = label.cost + n_alive * (paid + tariff.hour_price * slowest)
                    cost += float(given_up[node][leaving].sum())
                    made = _Label(cost, label.hours + slowest, label.alive & ~leaving, (*label.cuts, j + 1))
                    labels[j + 1].append(made)
            later = ahead[chain[k + 1]] if k + 1 < len(chain) else last
            # Longer than allowed is better than nothing: such tests are gone past in the end.
            judged = [(one.hours > (np.inf if longest is None else longest + EXACTLY), one) for one in labels[k + 1]]
            # Of cuts that cost the same the finest is the best: what is there at once may make somebody think.
            judged.sort(key=lambda made: (made[0], self._rounded(made[1], later), made[1].hours, -len(made[1].cuts)))
            kept: list[_Label] = []
            for _, label in judged:
                if len(kept) < MOST_LABELS and all(label.hours < other.hours for other in kept):
                    kept.append(label)
            labels[k + 1] = kept
        if longest is None:
            return labels[-1][0]
        whole = (labels[-1][0].hours > longest + EXACTLY, self._rounded(labels[-1][0], last), labels[-1][0])
        early = [
            (False, self._rounded(label, given_up[chain[k]]), label)
            for k, found in enumerate(labels[1:-1])
            for label in found
            if label.hours <= longest + EXACTLY
        ]
        return min([whole, *early], key=lambda one: one[:2])[2]
