"""From a stopping level to a plan: one order for everybody, or a tree where the diagnosis so far chooses the next test.

The adaptive plan begins with the best order. After each test, those who go on are parted by their diagnosis as it
stands; a part gets an order of its own where that is cheaper than going on together, by more than its standard error.

An order is judged by what it costs and by the regret of those who stop on it, `error_price` full panels for each answer
that full evidence would have corrected. Doubts are estimates, and at a given level the order of least cost alone is the
one that stops people just below it, on sets that happen to look convincing; the price makes the search prefer sets that
leave less to regret. No error is counted: the regret is a forecast, from the same trust as the stopping rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from multiform.diagnosis._information import Information, gathered_information
from multiform.diagnosis._judge import Judge
from multiform.diagnosis._plan import Plan
from multiform.diagnosis._search import (
    Certificate,
    Floats,
    Forgone,
    SearchResult,
    Sets,
    Stopped,
    beam_order,
    exact_order,
    pack,
    unpack,
)
from multiform.diagnosis._tariff import Tariff

__all__ = ["Planning", "cheapest_first", "completed"]

Bools = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]

LEAST_PART = 12  # patients that may get an order of their own
LEAST_PART_SHARE, PART_BEAM = 0.05, 4  # of all patients, and the width of its search, where a search costs models
STANDARD_ERRORS = 1.0  # by which it must be cheaper
MOST_WORTH, MOST_TELLING = 6, 3  # next tests that a search considers when it is not thorough
FEW_SHARE = 0.01  # of the patients, who are not worth a search


@dataclass(frozen=True)
class Planning:
    """How plans are made.

    Attributes
    ----------
    tariff : Tariff
    judge : Judge
    policy : {"fixed", "adaptive"}
    width : int
        Of the beam.
    time_limit : float
        Seconds for the exact search.
    error_price : float
        What an answer that full evidence would have corrected is worth to the search, in full panels.
    thorough : bool
        Whether a model for every set is affordable. If not, an order is searched among the most promising next tests
        only, and down to the last few patients.
    only_known : bool
        Whether no further model may be trained for the search.
    """

    tariff: Tariff
    judge: Judge
    policy: str
    width: int
    time_limit: float
    error_price: float
    thorough: bool
    only_known: bool = False

    @property
    def n(self) -> int:
        return len(self.judge.full)

    def under(self, rule: str) -> Planning:
        """The same with another stopping rule, on the same models."""
        judge = self.judge
        other = Judge(judge.models, rule, judge.everything, judge.common, judge.full, judge.sets, judge.trusts)
        return replace(self, judge=other)

    def blind_to(self, fold: int) -> Planning:
        """The same without the labels of a fold; orders are searched only among the sets that have a model already."""
        return replace(self, judge=self.judge.without(fold), only_known=not self.thorough)

    def plan(self, level: float, patients: Bools, exact: bool) -> tuple[Plan, Certificate]:
        """The plan at this level for these training patients, and what is known of its (first) order."""
        stopped = self.judge.stopped(level)
        known = self.tariff.known
        found = self._order(stopped, patients, known, self.width)
        if exact:
            sets = np.arange(1 << len(self.tariff), dtype=np.int64)
            reached = sets[sets & known == known]
            everywhere = np.zeros((len(sets), len(pack(patients))), dtype=np.uint64)
            everywhere[reached] = stopped(reached)
            forgone = None
            if self._forgone is not None:
                forgone = np.zeros((len(sets), self.n), dtype=np.float32)
                forgone[reached] = self._forgone(reached)
            found = exact_order(self.tariff, everywhere, pack(patients), known, found, self.time_limit, forgone)
        order = self._completed(found.order, known)
        n_classes = self.judge.models.records.n_classes
        if self.policy == "fixed" or not order:
            return Plan.of_order(order, known, n_classes), found.certificate
        return self._tree(stopped, patients, order, n_classes), found.certificate

    @cached_property
    def _forgone(self) -> Forgone | None:
        """What stopping on a set gives up, in money; None where the search is for cost alone."""
        worth = np.float32(self.error_price * self.tariff.panel_cost)

        def forgone(sets: Sets) -> Floats:
            return np.asarray(worth * self.judge.regrets(sets), dtype=np.float32)

        return forgone if worth > 0 else None

    def _order(self, stopped: Stopped, patients: Bools, start: int, width: int) -> SearchResult:
        """The best order that the beam finds, or one that needs no search where that is better."""
        promising = None if self.thorough else self._promising
        few = 0 if self.thorough else int(FEW_SHARE * patients.sum())
        found = beam_order(self.tariff, stopped, pack(patients), start, width, promising, few, self._forgone)
        tellingly, cheapest = self._completed((), start), cheapest_first(self.tariff, start)
        orders = [self._completed(found.order, start), tellingly, cheapest]
        totals = [float(self._costs(stopped, order, start, patients).sum()) for order in orders]
        best = int(np.argmin(totals))
        if best == 0:
            return found
        cost = totals[best] / max(1, int(patients.sum()))
        return SearchResult(orders[best], Certificate(False, cost, 0.0, found.certificate.n_labels))

    def _completed(self, order: tuple[int, ...], start: int) -> tuple[int, ...]:
        """The order and then all other tests, the most telling for their price first."""
        return completed(self.tariff, order, start, self.information.order)

    @cached_property
    def information(self) -> Information:
        """What the tests say, and the order of most information per price."""
        return gathered_information(self.judge, self.tariff, self.only_known)

    def _promising(self, sets: Sets) -> Bools:
        """The next tests that say most for their price, and those that say most at any price."""
        prices = self.tariff.price_table(sets)
        allowed = np.isfinite(prices)
        telling = self.information.most
        worth = np.where(allowed, telling / np.maximum(prices, 1e-9), -np.inf)
        most = np.where(allowed, telling, -np.inf)
        chosen = np.zeros(prices.shape, dtype=bool)
        for judged, count in ((worth, MOST_WORTH), (most, MOST_TELLING)):
            best = np.argsort(-judged, axis=1, kind="stable")[:, :count]
            np.put_along_axis(chosen, best, True, axis=1)
        if self.only_known:
            after = sets[:, None] | np.left_shift(np.int64(1), np.arange(len(self.tariff), dtype=np.int64))
            allowed &= np.isin(after, self.judge.models.sets)
        return chosen & allowed

    def _tree(self, stopped: Stopped, patients: Bools, order: tuple[int, ...], n_classes: int) -> Plan:
        tests: list[int] = []
        held_before: list[int] = []
        following: list[tuple[int, ...]] = []

        def grow(held: int, alive: Bools, order: tuple[int, ...]) -> int:
            """The node that buys the first test of the order, and all that come after it."""
            node = len(tests)
            t, rest = order[0], order[1:]
            after = held | 1 << t
            tests.append(t)
            held_before.append(held)
            following.append(())
            if not rest:
                following[node] = (-1,) * n_classes
                return node
            alive = alive & ~unpack(stopped(np.array([after]))[0], self.n)
            diagnosis = self.judge.unseen_answer(after)
            parts = [self._own_order(stopped, after, alive & (diagnosis == k), rest) for k in range(n_classes)]
            together = np.array([own is None for own in parts])
            nodes = [-1] * n_classes
            if together.any():
                common = grow(after, alive & together[diagnosis], rest)
                nodes = [common] * n_classes
            for k, own in enumerate(parts):
                if own is not None:
                    nodes[k] = grow(after, alive & (diagnosis == k), own)
            following[node] = tuple(nodes)
            return node

        alive = patients & ~unpack(stopped(np.array([self.tariff.known]))[0], self.n)
        grow(self.tariff.known, alive, order)
        return Plan(tuple(tests), tuple(held_before), tuple(following))

    def _own_order(self, stopped: Stopped, held: int, part: Bools, rest: tuple[int, ...]) -> tuple[int, ...] | None:
        """An order for this part alone, where it is surely cheaper than `rest`."""
        if part.sum() < (LEAST_PART if self.thorough else max(LEAST_PART, LEAST_PART_SHARE * self.n)):
            return None
        width = self.width if self.thorough else min(self.width, PART_BEAM)
        own = self._completed(self._order(stopped, part, held, width).order, held)
        if own[0] == rest[0]:  # the same next test: whether to part can be asked after it
            return None
        saved = self._costs(stopped, rest, held, part) - self._costs(stopped, own, held, part)
        return own if saved.sum() > STANDARD_ERRORS * np.sqrt((saved**2).sum()) else None

    def _costs(self, stopped: Stopped, order: tuple[int, ...], held: int, patients: Bools) -> Doubles:
        """What these patients pay who go on from `held` in this order, and forgo in the end; nothing for all others."""
        cost, alive = np.zeros(self.n), patients
        for t in (None, *order):  # some need no test
            if not alive.any():
                break
            if t is not None:
                cost[alive] += self.tariff.price(t, held)
                held |= 1 << t
            leaving = alive & unpack(stopped(np.array([held]))[0], self.n)
            if self._forgone is not None:
                cost[leaving] += self._forgone(np.array([held]))[0, leaving]
            alive = alive & ~leaving
        return cost


def completed(tariff: Tariff, order: tuple[int, ...], start: int, preferred: Sequence[int]) -> tuple[int, ...]:
    """The order and then all other tests, as preferred: a new patient may need what no training patient did."""
    held, whole = start, list(order)
    for t in order:
        held |= 1 << t
    rank = {t: place for place, t in enumerate(preferred)}
    while held != tariff.everything:
        t = min(tariff.next_tests(held), key=lambda t: rank[t])
        whole.append(t)
        held |= 1 << t
    return tuple(whole)


def cheapest_first(tariff: Tariff, start: int) -> tuple[int, ...]:
    """Always the cheapest test that is left."""
    held, order = start, []  # type: int, list[int]
    while held != tariff.everything:
        order.append(min(tariff.next_tests(held), key=lambda t: tariff.price(t, held)))
        held |= 1 << order[-1]
    return tuple(order)
