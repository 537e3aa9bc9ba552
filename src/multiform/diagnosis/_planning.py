"""From a stopping level to a plan: one order for everybody, or a tree where what was found chooses the next test.

The adaptive plan grows from an order. After each test those who go on are parted by the range of a result; a part gets
an order of its own where that is cheaper than going on together, by more than its standard error. Which ranges are
worth a search is seen one test ahead, as a tree would: by how much more is learnt, for its price, if both parts choose
their next test by themselves. And as a test can be worth nothing but for saying which others matter, trees are also
begun with the tests whose result is worth most for the choice of the second; the tree of the least cost is taken.

An order is judged by what it costs and by the regret of those who stop on it, `error_price` full panels for each answer
that full evidence would have corrected. Doubts are estimates, and at a given level the order of least cost alone is the
one that stops people just below it, on sets that happen to look convincing; the price makes the search prefer sets that
leave less to regret. No error is counted: the regret is a forecast, from the same trust as the stopping rule. The
search takes each set for itself; that a doubt remembers those before is for whoever walks (`Judge.walk`).

The information of a test, given an evidence set, is by how much it lowers the log loss of unseen patients. It is not
the same everywhere: whether somebody had surgery says little alone, and much once the hormone was found raised. So
each test is asked alone and again after every step of the greedy order, and what counts is the most it ever said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.special import log_softmax

from multiform import progress
from multiform._typing import Array, Bools, Doubles, Floats, Indices
from multiform.columns import FARTHEST
from multiform.diagnosis._eases import Walked
from multiform.diagnosis._judge import EVERYBODY_STOPS, NOBODY_STOPS, Judge, Way
from multiform.diagnosis._level import (
    ANCHORS,
    GUARD,
    LADDERS,
    LEAST_LEVEL,
    FrontierPoint,
    Trace,
    chosen_level,
    considered,
    least_total,
    loss_error,
)
from multiform.diagnosis._masked import MaskedModels
from multiform.diagnosis._plan import Plan, follow
from multiform.diagnosis._promise import Aside
from multiform.diagnosis._results import Results
from multiform.diagnosis._rounds import InRounds
from multiform.diagnosis._search import SearchProof, Sets, Words, beam_order, exact_order, pack, unpack
from multiform.diagnosis._tariff import Tariff, as_sets, members

LEAST_PART = 12  # patients that may get an order of their own
LEAST_PART_SHARE, PART_BEAM = 0.05, 4  # of all patients, and the width of its search
STANDARD_ERRORS = 1.5  # by which it must be cheaper
MOST_WAYS = 4  # of a node
MOST_CUTS, CUTS_TRIED = 7, 3  # of a column, to look at; and of all, that are worth a search
MOST_AHEAD = 24  # next tests that are looked at one step ahead
GREEDY_STEPS = 8  # of an order that is found step by step
OPENERS, OPENERS_UP_TO, OPENS = 2, 64, 1.2  # trees that begin with what tells most in two steps; and of how many tests
MOST_WORTH, MOST_TELLING = 6, 3  # next tests that a search considers when it is not thorough
FEW_SHARE = 0.01  # of the patients, who are not worth a search
ASKED_AT_ONCE = 24  # tests whose information a step asks, those that said most so far: each one costs a model
FREE_UP_TO = 16  # tests: with more, each fold's own search takes its time, and looks where the whole has looked
ASKED_STEPS = 40  # of the greedy order; after so many, what a test said last stands for what it would say next
MANY_PATIENTS = 2_000  # from which on a plan need not be made again for every fold

WHOLE_SHARE = 0.2  # of the time of a level, that the plan of all patients takes
LIMITS = ("budget", "max_hours", "loss_price")

Stopped = Callable[[Sets], Words]  # who stops on some sets


class Planning:
    """How plans are made.

    `width` is of the beam, `time_limit` the seconds of the exact search, and `error_price` what an answer that full
    evidence would have corrected is worth to the search, in full panels. `thorough` says whether a model for every set
    is affordable; if not, an order is searched among the most promising next tests only, and down to the last few
    patients. With `only_known` no further model may be trained for the search. `groups` says whose each row is, where a
    patient has several; `flattery` is by how much a choice before the plan makes counted accuracies too good. `undone`
    are the tests that each training patient did not have, `ranged` the encoded columns whose ranges may part patients.
    `budget` is the most that a patient may cost, `max_hours` the longest one may wait, `loss_price` what a loss of 1 is
    worth to the search, if not `error_price`.
    """

    def __init__(
        self,
        tariff: Tariff,
        judge: Judge,
        *,
        policy: str,
        width: int,
        time_limit: float,
        error_price: float,
        thorough: bool,
        only_known: bool = False,
        groups: Indices | None = None,
        flattery: float = 0.0,
        undone: Array | None = None,
        ranged: Indices | None = None,
        budget: float | None = None,
        max_hours: float | None = None,
        loss_price: float | None = None,
    ) -> None:
        self.tariff, self.judge, self.undone = tariff, judge, undone
        self.budget, self.max_hours, self.loss_price = budget, max_hours, loss_price
        self.ranged = np.arange(len(judge.models.column_owner)) if ranged is None else ranged
        self.policy, self.width, self.time_limit, self.error_price = policy, width, time_limit, error_price
        self.thorough, self.only_known, self.groups = thorough, only_known, groups
        self.flattery = flattery
        self.aside: Aside | None = None  # patients that no decision has seen, where something is promised
        self.n, self.n_classes = judge.full.shape
        # At each level (of an order): the bills of the training patients, and the loss and accuracy that they forgo.
        self._outcomes: dict[Any, tuple[Doubles, Doubles, Doubles]] = {}
        self._blind: dict[int, Planning] = {}
        self._anchors = ANCHORS.get(judge.rule, ())
        self._wholes: dict[float, Plan] = {}
        self._traces: dict[Any, Trace] = {}
        self._walks: dict[Plan, Walked] = {}
        self._doubted: dict[int, Doubles] = {}  # of each set: how far the training patients are in doubt

    def changed(self, **changes: Any) -> Planning:
        """The same with other arguments in some places."""
        names = ("tariff", "judge", "policy", "width", "time_limit", "error_price", "thorough", "only_known")
        return Planning(
            **{name: getattr(self, name) for name in (*names, "groups", "flattery", "undone", "ranged", *LIMITS)}
            | changes
        )

    def blind_to(self, fold: int) -> Planning:
        """The same without the labels of a fold; where sets cost much, among those that were looked at already."""
        if fold not in self._blind:
            free = isinstance(self.judge.models, MaskedModels) and len(self.tariff) <= FREE_UP_TO
            costly = not self.thorough and not free
            self._blind[fold] = self.changed(judge=self.judge.without(fold), only_known=costly)
        return self._blind[fold]

    @cached_property
    def full_accuracy(self) -> float:
        """On all evidence, cross-fitted."""
        right = self.judge.unseen_answer(self.tariff.everything) == self.judge.models.target
        return float(right.mean()) - self.flattery

    @cached_property
    def values(self) -> Floats:
        """The encoded results of the training patients, NaN where there is none."""
        return np.asarray(self.judge.models.values)

    @property
    def ladder(self) -> tuple[float, ...]:
        """The levels to choose from, the most careful first."""
        return self.judge.models.betas if self.judge.rule == "loyalty" else LADDERS[self.judge.rule]

    def choose_level(
        self, most_loss: float | None, order: tuple[int, ...] | None = None
    ) -> tuple[list[FrontierPoint], FrontierPoint | None]:
        """What was considered, and the cheapest level whose guarded loss is allowed, if any; maybe of a given order.

        Where `most_loss` is None the loss is money, and cost and guarded loss together are to be least.
        """
        between = self.judge.rule != "loyalty"  # between two betas there is no model
        if self.policy == "adaptive" and order is None:  # trees take long: they are grown at a likely level alone
            fixed = self.changed(policy="fixed")
            _, likely = fixed.choose_level(most_loss)
            self._anchors = (fixed._anchor(self.ladder[0] if likely is None else likely.level),)
        if most_loss is None:
            ladder = (*self.ladder, EVERYBODY_STOPS) if between else self.ladder  # errors may be cheaper than any test
            frontier = least_total(ladder, partial(self.frontier_point, order=order), between)
            return frontier, min(frontier, key=lambda point: point.cost + point.guarded_loss)
        frontier = considered(self.ladder, most_loss, partial(self.frontier_point, order=order), between)
        if self.budget is not None:  # all are within it
            return frontier, min(frontier, key=lambda point: (point.loss, point.cost))
        return frontier, chosen_level(frontier, most_loss)

    def frontier_point(self, level: float, order: tuple[int, ...] | None = None) -> FrontierPoint:
        """Cross-fitted figures of the plans that are made at a level, or of an order that needs no search."""
        whole = self.structure(level, order)
        progress.tell(WHOLE_SHARE, "searching an order of tests")
        with progress.part(WHOLE_SHARE, 1.0):
            cost, answer = self._outcome(level, order)
            forgone, missed = self.judge.forgone(answer)
        self._outcomes[level, order] = cost, forgone, missed
        panel = self.tariff.panel_cost
        return FrontierPoint(
            level,
            float(cost.mean()),
            float(cost.mean() / panel) if panel else 0.0,
            float(forgone.mean()),
            loss_error(forgone, self.judge.dearest, self.groups),
            self.full_accuracy - float(missed.mean()),
            tuple(self.tariff.tests[t] for t in whole.order),
        )

    def _anchor(self, level: float) -> float:
        """The level that stands for this one where a structure is searched."""
        if not self._anchors:
            return level
        return min(self._anchors, key=lambda one: abs(np.log(one / max(level, LEAST_LEVEL))))

    def _candidates(self, level: float) -> tuple[float, ...]:
        """The levels whose plans this one chooses among: where each one's way is eased, the best may be any of them."""
        if self.judge.rule == "regret" and not self.thorough and NOBODY_STOPS < level < EVERYBODY_STOPS:
            return self._anchors or (level,)
        return (self._anchor(level),)

    def structure(self, level: float, order: tuple[int, ...] | None = None) -> Plan:
        """The plan of all patients that the level is judged with while one is chosen; maybe of a given order."""
        if order is not None:
            found = [Plan.of_order(order, self.tariff.known)]
        else:
            found = [self._whole(anchor) for anchor in self._candidates(level)]
        return self._eased(found, level)

    def keep_to_its_level(self) -> None:
        """No plans are made at other levels than those that are asked for."""
        self._anchors = ()

    def _whole(self, anchor: float) -> Plan:
        if anchor not in self._wholes:
            self._wholes[anchor] = self.plan(anchor)[0]
        return self._wholes[anchor]

    def _eased(self, plans: Sequence[Plan], level: float) -> Plan:
        """The plan that costs the training patients least, with what they forgo, when its level is eased."""
        walked = [self._walked(plan) for plan in plans]
        best = min(walked, key=lambda one: one.total(level))
        return replace(best.plan, eases=best.eases(level))

    def _walked(self, plan: Plan) -> Walked:
        """All training patients along a plan."""
        if plan not in self._walks:
            self._walks[plan] = Walked(self, plan, np.ones(self.n, dtype=bool))
        return self._walks[plan]

    def made(self, level: float) -> tuple[Plan, SearchProof]:
        """The plan of all patients at a level, as it is followed; and what is known of its (first) order."""
        own, proof = self.plan(level, exact=self.thorough)
        others = () if self.thorough else self._candidates(level)  # of an exact search there is a proof to keep
        return self._eased([own, *(self._wholes[one] for one in others if one in self._wholes)], level), proof

    def _outcome(self, level: float, order: tuple[int, ...] | None) -> tuple[Doubles, Array]:
        """Bills and answers of all patients, each under a plan that was made, eased and chosen without it."""
        if order is not None:
            return self._traced(order, level, Plan.of_order(order, self.tariff.known)).at(level)
        candidates = self._candidates(level)
        traces = []
        for k, anchor in enumerate(candidates):
            with progress.part(k / len(candidates), (k + 1) / len(candidates)):
                traces.append(self._traced(None, anchor, self._whole(anchor)))
        found = [trace.at(level) for trace in traces]
        cost, answer = (part.copy() for part in found[0])
        for parts in zip(*(trace.parts for trace in traces), strict=True):
            own = parts[0][0]
            best = int(np.argmin([walked.total(level) for _, walked in parts]))
            cost[own], answer[own] = found[best][0][own], found[best][1][own]
        return cost, answer

    def _traced(self, order: tuple[int, ...] | None, anchor: float, whole: Plan) -> Trace:
        """Every patient along the plan that was made without it, to the end of it; all together would get `whole`."""
        key = order if order is not None else anchor
        if key not in self._traces:
            fold = self.judge.models.fold
            folds = range(self.judge.models.n_folds)
            if order is not None or (not self.thorough and self.n >= MANY_PATIENTS):
                # No error enters the choice of the order, which hardly depends on a third of so many.
                plans = [whole for _ in folds]
            else:
                # On few patients an order is cheap partly because they happen to stop early on it, sometimes too early:
                # neither they nor their labels may have a part in the plan that they follow.
                plans = []
                for one in folds:
                    plans.append(self.blind_to(one).plan(anchor, fold != one)[0])
                    progress.tell(len(plans) / len(folds), f"searching an order of tests, {len(plans)} of {len(folds)}")
            trace = Trace(self.n)
            for one, plan in zip(folds, plans, strict=True):
                own = np.flatnonzero(fold == one)
                walked = Walked(self.blind_to(one), plan, fold != one)
                clock, place = np.zeros(self.n), np.full(self.n, -1)
                judge = self.judge.without(one)
                opinion = trace.listening(judge.walk(judge.unseen, self.n), self.tariff.hour_price, clock, place)
                way = self.values, self.undone, own, clock, place
                paid = follow(plan, self.tariff, opinion, NOBODY_STOPS, *way).prices
                trace.settle(own, paid, walked)
            self._traces[key] = trace
        return self._traces[key]

    def loss_at_chosen_levels(self, frontier: Sequence[FrontierPoint], most_loss: float | None) -> float:
        """Of accuracy, under the plan: each fold's patients forgo what they do at the level that the others choose.

        The level that all choose together is partly the one at which they happened to be lucky.
        """
        fold, lost = self.judge.models.fold, np.zeros(self.n)  # nothing is lost where nobody stops
        outcomes = [self._outcomes[point.level, None] for point in frontier]
        for one in range(self.judge.models.n_folds):
            others = fold != one
            groups = None if self.groups is None else self.groups[others]
            found: list[tuple[tuple[float, ...], Doubles]] = []
            for cost, forgone, missed in outcomes:
                mean, loss = float(cost[others].mean()), float(forgone[others].mean())
                guarded = loss + GUARD * loss_error(forgone[others], self.judge.dearest, groups)
                if most_loss is None:
                    found.append(((mean + guarded,), missed))
                elif self.budget is not None:
                    found.append(((loss, mean), missed))
                elif guarded <= most_loss:
                    found.append(((mean,), missed))
            if found:
                lost[~others] = min(found, key=lambda level: level[0])[1][~others]
            elif self.max_hours is not None:  # there may be no time for everything
                self.frontier_point(NOBODY_STOPS)
                lost[~others] = self._outcomes[NOBODY_STOPS, None][2][~others]
        return float(lost.mean())

    def followed(self, plan: Plan, level: float, results: Results) -> tuple[Doubles, Array]:
        """Bills and answers (class indices) of new patients under a plan."""
        values = results.values(self.judge.models.column_owner)
        opinion = self.judge.walk(self.judge.of(results), len(values))
        found = follow(plan, self.tariff, opinion, level, values, results.undone)
        return found.cost, found.answer

    def plan(self, level: float, patients: Bools | None = None, exact: bool = False) -> tuple[Plan, SearchProof]:
        """The plan at this level for these training patients, or all; and what is known of its (first) order."""
        patients = np.ones(self.n, dtype=bool) if patients is None else patients
        if self.tariff.waits or (self.max_hours is not None and any(self.tariff.durations)):
            return self.in_rounds.plan(level, patients, exact)
        stopped = partial(self.judge.stopped, level)
        known = self.tariff.known
        order, proof = self._order(stopped, patients, known, self.width)
        if exact:
            sets = np.arange(1 << len(self.tariff), dtype=np.int64)
            reached = sets[sets & known == known]
            everywhere = np.zeros((len(sets), len(pack(patients))), dtype=np.uint64)
            everywhere[reached] = stopped(reached)
            forgone = np.zeros((len(sets), self.n), dtype=np.float32)
            forgone[reached] = self._forgone(reached)
            best = order, proof.cost
            order, proof = exact_order(self.tariff, everywhere, forgone, pack(patients), known, best, self.time_limit)
        order = self._completed(order, known)
        if self.policy == "fixed" or not order:
            return self._affordable(Plan.of_order(order, known)), proof
        orders = [order] + [self._begun_with(t, stopped, patients) for t in self._openers(patients) if t != order[0]]
        trees = [self._tree(stopped, patients, one) for one in orders]
        return self._affordable(min(trees, key=lambda tree: tree[1])[0]), proof

    def _affordable(self, plan: Plan) -> Plan:
        return plan if self.budget is None else plan.within(self.tariff, self.budget)

    @cached_property
    def in_rounds(self) -> InRounds:
        """How plans are made where results take their time."""
        return InRounds(self)

    def _forgone(self, sets: Sets) -> Floats:
        """What stopping on each set gives up, in money: shape (n_sets, n)."""
        worth = np.float32(self.error_price * self.tariff.panel_cost if self.loss_price is None else self.loss_price)
        return np.asarray(worth * self.judge.regrets(sets), dtype=np.float32)

    def _order(self, stopped: Stopped, patients: Bools, start: int, width: int) -> tuple[tuple[int, ...], SearchProof]:
        """The best order that the beam finds, or one that needs no search where that is better."""
        promising = None if self.thorough else self._promising
        few = 0 if self.thorough else int(FEW_SHARE * patients.sum())
        found, proof = beam_order(self.tariff, stopped, self._forgone, pack(patients), start, width, promising, few)
        orders = [self._completed(found, start), self._completed((), start), self.cheapest_first(start)]
        totals = [float(self._costs(stopped, order, start, patients).sum()) for order in orders]
        best = int(np.argmin(totals))
        if best == 0:
            return found, proof
        return orders[best], SearchProof(False, totals[best] / max(1, int(patients.sum())), 0.0, proof.n_labels)

    def _completed(self, order: tuple[int, ...], start: int) -> tuple[int, ...]:
        """The order and then all other tests, the most telling for their price first: a new patient may need them."""
        rank = {t: place for place, t in enumerate(self.information[0])}
        held = start | sum(1 << t for t in order)
        return (*order, *self.tariff.remaining_order(held, lambda tests, _: min(tests, key=rank.__getitem__)))

    def cheapest_first(self, start: int) -> tuple[int, ...]:
        """Always the cheapest test that is left."""
        price = self.tariff.price
        return self.tariff.remaining_order(start, lambda tests, held: min(tests, key=partial(price, held=held)))

    @cached_property
    def information(self) -> tuple[tuple[int, ...], Doubles]:
        """The greedy order by information per price, and the most that each test has said, alone or in that order."""
        judge, tariff = self.judge, self.tariff
        known_sets = set(judge.models.sets)
        most, latest = np.full(len(tariff), -np.inf), np.full(len(tariff), -np.inf)
        held, now, order = tariff.known, judge.log_loss(tariff.known), []  # type: int, float, list[int]

        def ask(tests: list[int]) -> None:
            """Where no model may be trained, what a test said last stands for what it would say next."""
            asked = [t for t in tests if not self.only_known or held | 1 << t in known_sets]
            judge.learn([held | 1 << t for t in asked])
            for t in asked:
                latest[t] = now - judge.log_loss(held | 1 << t)
                most[t] = max(most[t], latest[t])

        def worth(t: int) -> float:
            return float(latest[t]) / max(tariff.price(t, held), 1e-9)

        ask([t for t in range(len(tariff)) if not held >> t & 1])
        while held != tariff.everything:
            tests = sorted(tariff.next_tests(held), key=worth, reverse=True)[:ASKED_AT_ONCE]
            if len(order) < ASKED_STEPS:
                ask(tests)
            order.append(max(tests, key=worth))
            now -= latest[order[-1]]
            held |= 1 << order[-1]
        return tuple(order), most

    def _promising(self, sets: Sets) -> Bools:
        """The next tests that say most for their price, and those that say most at any price."""
        prices = self.tariff.price_table(sets)
        allowed = np.isfinite(prices)
        _, telling = self.information
        worth = np.full(prices.shape, -np.inf)
        np.divide(telling, np.maximum(prices, 1e-9), out=worth, where=allowed)
        most = np.where(allowed, telling, -np.inf)
        chosen = np.zeros(prices.shape, dtype=bool)
        for judged, count in ((worth, MOST_WORTH), (most, MOST_TELLING)):
            best = np.argsort(-judged, axis=1, kind="stable")[:, :count]
            np.put_along_axis(chosen, best, True, axis=1)
        if self.only_known:
            modelled = {*self.judge.models.sets}
            after = [[one | 1 << t in modelled for t in range(len(self.tariff))] for one in sets.tolist()]
            allowed &= np.array(after, dtype=bool)
        return chosen & allowed

    # ------------------------------------------------------------------------------------------------- branching

    def _tree(self, stopped: Stopped, patients: Bools, order: tuple[int, ...]) -> tuple[Plan, float]:
        """The order, parted by results wherever a part goes better its own way; and what its patients pay and forgo."""
        nodes: list[tuple[int, int, tuple[int, ...], tuple[Way, ...]]] = []  # test, set before it, following, ways

        def grow(held: int, alive: Bools, order: tuple[int, ...], may_part: bool) -> tuple[int, float]:
            """The node that buys the first test of the order, and all that come after it; and what they cost."""
            t, rest, node, after = order[0], order[1:], len(nodes), held | 1 << order[0]
            nodes.append((t, held, (-1,), ()))
            total = self.tariff.price(t, held) * float(alive.sum())
            leaving = alive & self._leaving(stopped, after)
            total += float(self._forgone(as_sets([after], len(self.tariff)))[0, leaving].sum())
            alive = alive & ~leaving
            if not rest:
                return node, total
            may_part = may_part and alive.sum() >= 2 * self._least_part
            parts = self._ways(stopped, after, alive, rest) if may_part else []
            following = []
            for _, part, own in parts:
                child, cost = grow(after, part, own, True)
                following.append(child)
                total += cost
                alive = alive & ~part
            if parts and alive.any():  # those who are left may go better another way, too
                found = self._own_order(stopped, after, alive, rest)
                rest = rest if found is None else found[0]
            child, cost = grow(after, alive, rest, may_part)
            nodes[node] = (t, held, (*following, child), tuple(way for way, _, _ in parts))
            return node, total + cost

        leaving = patients & self._leaving(stopped, self.tariff.known)
        _, total = grow(self.tariff.known, patients & ~leaving, order, True)
        return Plan(*zip(*nodes, strict=True)), total

    @property
    def _least_part(self) -> int:
        return max(LEAST_PART, int(LEAST_PART_SHARE * self.n))

    def _leaving(self, stopped: Stopped, held: int) -> Bools:
        """Who stops on a set."""
        return unpack(stopped(as_sets([held], len(self.tariff)))[0], self.n)

    def _ways(
        self, stopped: Stopped, held: int, alive: Bools, rest: tuple[int, ...]
    ) -> list[tuple[Way, Bools, tuple[int, ...]]]:
        """Ranges of results with an order of their own: the range, who has it, and the order."""
        found: list[tuple[Way, Bools, tuple[int, ...]]] = []
        while len(found) < MOST_WAYS and alive.sum() >= 2 * self._least_part:
            tried = []
            for way in self._cuts(held, alive, rest):
                column, above, at_most = way
                part = alive & (self.values[:, column] > above) & (self.values[:, column] <= at_most)
                own = self._own_order(stopped, held, part, rest)
                if own is not None:
                    tried.append((own[1], way, part, own[0]))
            if not tried:
                break
            _, way, part, own_order = max(tried, key=lambda one: one[0])
            found.append((way, part, own_order))
            alive = alive & ~part
        return found

    def _cuts(self, held: int, alive: Bools, rest: tuple[int, ...]) -> list[Way]:
        """The ranges for which it pays most, one test ahead, that both parts choose their next test by themselves."""
        tests = self._next(held, rest)
        told = (
            self._told_ahead(held, tests)[:, alive]
            / np.maximum([self.tariff.price(t, held) for t in tests], 1e-9)[:, None]
        )
        together = told.sum(axis=1).max()
        gains: list[tuple[float, Way]] = []
        owner = self.judge.models.column_owner[self.ranged]
        for column in self.ranged[members([held], len(self.tariff))[0][owner]].tolist():
            value = self.values[alive, column]
            present = np.sort(value[~np.isnan(value)])
            if not len(present) or present[0] == present[-1]:
                continue
            places = np.unique(present[(np.arange(1, MOST_CUTS + 1) * len(present)) // (MOST_CUTS + 1)])
            best: tuple[float, Way, Way] | None = None
            for cut in places[places < present[-1]].tolist():
                above = present[np.searchsorted(present, cut, side="right")]
                cut = float(np.float32((cut + above) / 2))
                low = value <= cut
                if min(low.sum(), (value > cut).sum()) < self._least_part:
                    continue
                gain = told[:, low].sum(axis=1).max() + told[:, ~low].sum(axis=1).max() - together
                if best is None or gain > best[0]:
                    best = gain, (column, -FARTHEST, cut), (column, cut, FARTHEST)
            if best is not None and best[0] > 0:
                gains += [(best[0], best[1]), (best[0], best[2])]
        gains.sort(key=lambda one: -one[0])
        return [way for _, way in gains[: 2 * CUTS_TRIED]]

    def _next(self, held: int, rest: Sequence[int] | None = None) -> list[int]:
        """The next tests that are worth a look: of many, those that said most for their price."""
        tests = self.tariff.next_tests(held)
        if len(tests) > MOST_AHEAD:
            _, telling = self.information
            tests = sorted(tests, key=lambda t: -telling[t] / max(self.tariff.price(t, held), 1e-9))[:MOST_AHEAD]
        return tests

    def _told_ahead(self, held: int, tests: Sequence[int]) -> Doubles:
        """By how much each test lowers each training patient's doubt on a set: shape (n_tests, n)."""
        self.judge.models.fit([held, *(held | 1 << t for t in tests)])
        now = self._doubts(held)
        return np.stack([now - self._doubts(held | 1 << t) for t in tests])

    def _doubts(self, tests: int) -> Doubles:
        """Half the entropy of the answers to the training patients, half their log loss.

        The labels alone overfit, and what the model thinks of itself is too bold.
        """
        if tests not in self._doubted:
            sharpness = 1.0 if tests in (0, self.tariff.everything) else float(np.exp(self.judge.common))
            log_chances = log_softmax(sharpness * self.judge.models.unseen(tests).astype(np.float64), axis=1)
            entropy = -(np.exp(log_chances) * log_chances).sum(axis=1)
            self._doubted[tests] = (entropy - log_chances[np.arange(self.n), self.judge.models.target]) / 2
        return self._doubted[tests]

    def _openers(self, patients: Bools) -> list[int]:
        """First tests worth a tree of their own: what is learnt for the price in two steps is far more if the result of
        the first chooses the second."""
        known, tariff = self.tariff.known, self.tariff
        first = tariff.next_tests(known)
        if not isinstance(self.judge.models, MaskedModels) or not 1 < len(tariff) <= OPENERS_UP_TO:
            return []
        # The most per price when all take the same second test; and by the first one, when its result chooses.
        together = 0.0
        parted: dict[int, float] = {}
        for t, told in zip(first, self._told_ahead(known, first)[:, patients].sum(axis=1), strict=True):
            second = tariff.next_tests(known | 1 << t)
            if not second:
                continue
            price = tariff.price(t, known) + np.array([tariff.price(u, known | 1 << t) for u in second])
            price = np.maximum(price, 1e-9)
            ahead = self._told_ahead(known | 1 << t, second)[:, patients]
            together = max(together, float(((told + ahead.sum(axis=1)) / price).max()))
            for column in self.ranged[self.judge.models.column_owner[self.ranged] == t].tolist():
                value = self.values[patients, column]
                for cut in np.unique(np.nanquantile(value, (0.25, 0.5, 0.75))) if not np.isnan(value).all() else []:
                    sides = [side for side in (value <= cut, ~(value <= cut)) if side.any()]
                    own = [
                        int(((told / len(value) * side.sum() + ahead[:, side].sum(axis=1)) / price).argmax())
                        for side in sides
                    ]
                    paid = sum(price[k] * side.mean() for k, side in zip(own, sides, strict=True))
                    gained = told + sum(ahead[k, side].sum() for k, side in zip(own, sides, strict=True))
                    parted[t] = max(parted.get(t, 0.0), float(gained / paid))
        worth = [t for t in sorted(parted, key=lambda t: -parted[t]) if parted[t] > OPENS * together]
        return worth[:OPENERS]

    def _begun_with(self, test: int, stopped: Stopped, patients: Bools) -> tuple[int, ...]:
        """The best order of those that begin with a test."""
        held = self.tariff.known | 1 << test
        return (test, *self._completed(self._order(stopped, patients, held, PART_BEAM)[0], held))

    def _own_order(
        self, stopped: Stopped, held: int, part: Bools, rest: tuple[int, ...]
    ) -> tuple[tuple[int, ...], float] | None:
        """An order for this part alone and what it saves, if it is surely cheaper than `rest`."""
        if part.sum() < self._least_part:
            return None
        found = self._greedy(stopped, held, part)
        if found[:1] == rest[:1]:  # the same next test: whether to part can be asked after it
            return None
        own = self._completed(found, held)
        saved = self._costs(stopped, rest, held, part) - self._costs(stopped, own, held, part)
        sure = saved.sum() > STANDARD_ERRORS * np.sqrt((saved**2).sum())
        return (own, float(saved.sum())) if sure else None

    def _greedy(self, stopped: Stopped, held: int, part: Bools) -> tuple[int, ...]:
        """Step by step, what tells those of this part most for its price."""
        order: list[int] = []
        while len(order) < GREEDY_STEPS and part.any():
            tests = self._next(held)
            if not tests:
                break
            told = self._told_ahead(held, tests)[:, part].sum(axis=1)
            order.append(tests[int(np.argmax(told / np.maximum([self.tariff.price(t, held) for t in tests], 1e-9)))])
            held |= 1 << order[-1]
            part = part & ~self._leaving(stopped, held)
        return tuple(order)

    def _costs(self, stopped: Stopped, order: tuple[int, ...], held: int, patients: Bools) -> Doubles:
        """What these patients pay who go on from `held` in this order, and forgo in the end; nothing for all others."""
        cost, alive = np.zeros(self.n), patients
        for t in (None, *order):  # some need no test
            if not alive.any():
                break
            if t is not None:
                cost[alive] += self.tariff.price(t, held)
                held |= 1 << t
            leaving = alive & self._leaving(stopped, held)
            cost[leaving] += self._forgone(as_sets([held], len(self.tariff)))[0, leaving]
            alive = alive & ~leaving
        return cost
