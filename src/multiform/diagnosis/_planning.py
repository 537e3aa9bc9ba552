"""From a stopping level to a plan: one order for everybody, or a tree where the diagnosis so far chooses the next test.

The adaptive plan begins with the best order. After each test, those who go on are parted by their diagnosis as it
stands; a part gets an order of its own where that is cheaper than going on together, by more than its standard error.

An order is judged by what it costs and by the regret of those who stop on it, `error_price` full panels for each answer
that full evidence would have corrected. Doubts are estimates, and at a given level the order of least cost alone is the
one that stops people just below it, on sets that happen to look convincing; the price makes the search prefer sets that
leave less to regret. No error is counted: the regret is a forecast, from the same trust as the stopping rule.

The information of a test, given an evidence set, is by how much it lowers the log loss of unseen patients. It is not
the same everywhere: whether somebody had surgery says little alone, and much once the hormone was found raised. So
each test is asked alone and again after every step of the greedy order, and what counts is the most it ever said.

A level is judged by patients whom its plan was not made from: at every level that is considered, the plan is made on
the patients of all folds but one and followed by those of that one, whose scores no model had seen and whose doubts
come from a trust learnt without them. Two figures are kept of each patient: the bill, and what was forgone, the chance
that full evidence gives its own answer less the chance that it gives the plan's. The mean of the latter, a standard
error added, is the loss that a level is charged with; the cheapest level whose loss is allowed is chosen. Orders are
never searched against a count of errors: such a search finds orders that are lucky on the patients at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from multiform import progress
from multiform._typing import Array, Bools, Doubles, Floats, Indices
from multiform.diagnosis._judge import Judge
from multiform.diagnosis._plan import Plan, follow
from multiform.diagnosis._results import Results
from multiform.diagnosis._search import SearchProof, Sets, Stopped, beam_order, exact_order, pack, unpack
from multiform.diagnosis._tariff import Tariff

LEAST_PART = 12  # patients that may get an order of their own
LEAST_PART_SHARE, PART_BEAM = 0.05, 4  # of all patients, and the width of its search, where a search costs models
STANDARD_ERRORS = 1.0  # by which it must be cheaper
MOST_WORTH, MOST_TELLING = 6, 3  # next tests that a search considers when it is not thorough
FEW_SHARE = 0.01  # of the patients, who are not worth a search
ASKED_AT_ONCE = 24  # tests whose information a step asks, those that said most so far: each one costs a model
MANY_PATIENTS = 2_000  # from which on a plan need not be made again for every fold

LADDERS = {
    # A law learnt from few patients promises far too little regret: there the right level may be the first.
    "regret": (1e-5, 3e-5, 1e-4, 3e-4, 0.001, 0.002, 0.004, 0.008, 0.015, 0.03, 0.045, 0.06, 0.09, 0.12, 0.2, 0.3),
    "calibrated": (0.001, 0.003, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.15, 0.18, 0.22, 0.3, 0.4),
}
BETWEEN = (1 / 3, 2 / 3)  # where levels between two rungs are tried, on a logarithmic scale
HOPELESS = 4.0  # a level that loses so many times what is allowed ends the climb


@dataclass(frozen=True)
class FrontierPoint:
    """Cross-fitted figures of one level.

    Attributes
    ----------
    level : float
    cost, cost_share : float
        Mean bill, and as a share of the full panel.
    loss, loss_error : float
        Mean chance forgone against full evidence, and its standard error.
    accuracy : float
        That of full evidence, cross-fitted, less the loss. It is not counted: who stops has been decided by models that
        agree with those at hand, so that among few patients a count flatters the plan by a point or two.
    order : tuple of str
        The order at this level, made from all patients.
    """

    level: float
    cost: float
    cost_share: float
    loss: float
    loss_error: float
    accuracy: float
    order: tuple[str, ...]

    @property
    def guarded_loss(self) -> float:
        """The loss that the level is charged with: a standard error is added, against optimism."""
        return self.loss + self.loss_error


class Planning:
    """How plans are made.

    `width` is of the beam, `time_limit` the seconds of the exact search, and `error_price` what an answer that full
    evidence would have corrected is worth to the search, in full panels. `thorough` says whether a model for every set
    is affordable; if not, an order is searched among the most promising next tests only, and down to the last few
    patients. With `only_known` no further model may be trained for the search. `groups` says whose each row is, where a
    patient has several; `flattery` is by how much a choice before the plan makes counted accuracies too good.
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
    ) -> None:
        self.tariff, self.judge = tariff, judge
        self.policy, self.width, self.time_limit, self.error_price = policy, width, time_limit, error_price
        self.thorough, self.only_known, self.groups = thorough, only_known, groups
        self.flattery = flattery
        self.n, self.n_classes = judge.full.shape
        # At each level (of an order): the bills of the training patients, and what they forgo.
        self._outcomes: dict[Any, tuple[Doubles, Doubles]] = {}

    def changed(self, **changes: Any) -> Planning:
        """The same with other arguments in some places."""
        names = ("tariff", "judge", "policy", "width", "time_limit", "error_price", "thorough", "only_known")
        return Planning(**{name: getattr(self, name) for name in (*names, "groups", "flattery")} | changes)

    def blind_to(self, fold: int) -> Planning:
        """The same without the labels of a fold; orders are searched only among the sets that have a model already."""
        return self.changed(judge=self.judge.without(fold), only_known=not self.thorough)

    @cached_property
    def full_accuracy(self) -> float:
        """On all evidence, cross-fitted."""
        right = self.judge.unseen_answer(self.tariff.everything) == self.judge.models.target
        return float(right.mean()) - self.flattery

    @property
    def ladder(self) -> tuple[float, ...]:
        """The levels to choose from, the most careful first."""
        return self.judge.models.betas if self.judge.rule == "loyalty" else LADDERS[self.judge.rule]

    def choose_level(
        self, most_loss: float, order: tuple[int, ...] | None = None
    ) -> tuple[list[FrontierPoint], FrontierPoint | None]:
        """What was considered, and the cheapest level whose guarded loss is allowed, if any; maybe of a given order."""
        between = self.judge.rule != "loyalty"  # between two betas there is no model
        frontier = considered(self.ladder, most_loss, partial(self.frontier_point, order=order), between)
        return frontier, chosen_level(frontier, most_loss)

    def frontier_point(self, level: float, order: tuple[int, ...] | None = None) -> FrontierPoint:
        """Cross-fitted figures of the plans that are made at a level, or of an order that needs no search."""
        fold = self.judge.models.fold
        folds = range(self.judge.models.n_folds)
        if order is not None:
            whole = Plan.of_order(order, self.tariff.known, self.n_classes)
        else:
            whole, _ = self.plan(level)
        if order is not None or (not self.thorough and self.n >= MANY_PATIENTS):
            # No error enters the choice of the order, which hardly depends on a third of so many.
            plans = [whole for _ in folds]
        else:
            # On few patients an order is cheap partly because they happen to stop early on it, sometimes too early:
            # neither they nor their labels may have a part in the plan that they follow.
            plans = [self.blind_to(one).plan(level, fold != one)[0] for one in folds]
        cost, answer = np.zeros(self.n), np.zeros(self.n, dtype=np.int64)
        for one, plan in zip(folds, plans, strict=True):
            own = np.flatnonzero(fold == one)
            _, cost[own], answer[own], _ = follow(plan, self.tariff, self.judge.without(one).unseen, level, own)
        forgone = self.judge.full.max(axis=1) - self.judge.full[np.arange(self.n), answer]
        self._outcomes[level, order] = cost, forgone
        panel = self.tariff.panel_cost
        return FrontierPoint(
            level,
            float(cost.mean()),
            float(cost.mean() / panel) if panel else 0.0,
            float(forgone.mean()),
            standard_error(forgone, self.groups),
            self.full_accuracy - float(forgone.mean()),
            tuple(self.tariff.tests[t] for t in whole.order),
        )

    def loss_at_chosen_levels(self, frontier: Sequence[FrontierPoint], most_loss: float) -> float:
        """Of the plan: the patients of each fold forgo what they do at the level that the others choose.

        The level that all choose together is partly the one at which they happened to be lucky.
        """
        fold, lost = self.judge.models.fold, np.zeros(self.n)  # nothing is lost where nobody stops
        outcomes = [self._outcomes[point.level, None] for point in frontier]
        for one in range(self.judge.models.n_folds):
            others = fold != one
            groups = None if self.groups is None else self.groups[others]
            allowed = [
                (cost[others].mean(), forgone)
                for cost, forgone in outcomes
                if forgone[others].mean() + standard_error(forgone[others], groups) <= most_loss
            ]
            if allowed:
                _, forgone = min(allowed, key=lambda found: found[0])
                lost[~others] = forgone[~others]
        return float(lost.mean())

    def followed(self, plan: Plan, level: float, results: Results) -> tuple[Doubles, Array]:
        """Bills and answers (class indices) of new patients under a plan."""
        _, cost, answer, _ = follow(plan, self.tariff, self.judge.of(results), level, np.arange(len(results.rows)))
        return cost, answer

    def plan(self, level: float, patients: Bools | None = None, exact: bool = False) -> tuple[Plan, SearchProof]:
        """The plan at this level for these training patients, or all; and what is known of its (first) order."""
        patients = np.ones(self.n, dtype=bool) if patients is None else patients
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
            return Plan.of_order(order, known, self.n_classes), proof
        return self._tree(stopped, patients, order), proof

    def _forgone(self, sets: Sets) -> Floats:
        """What stopping on each set gives up, in money: shape (n_sets, n)."""
        worth = np.float32(self.error_price * self.tariff.panel_cost)
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
            after = sets[:, None] | np.left_shift(np.int64(1), np.arange(len(self.tariff), dtype=np.int64))
            allowed &= np.isin(after, self.judge.models.sets)
        return chosen & allowed

    def _tree(self, stopped: Stopped, patients: Bools, order: tuple[int, ...]) -> Plan:
        """The order, parted by diagnosis wherever a part goes better its own way."""
        n_classes = self.n_classes
        nodes: list[tuple[int, int, tuple[int, ...]]] = []  # of each: the test, the set before it, what follows

        def grow(held: int, alive: Bools, order: tuple[int, ...]) -> int:
            """The node that buys the first test of the order, and all that come after it."""
            t, rest = order[0], order[1:]
            node, after = len(nodes), held | 1 << t
            nodes.append((t, held, (-1,) * n_classes))
            if not rest:
                return node
            alive = alive & ~unpack(stopped(np.array([after]))[0], self.n)
            diagnosis = self.judge.unseen_answer(after)
            parts = [self._own_order(stopped, after, alive & (diagnosis == k), rest) for k in range(n_classes)]
            together = np.array([own is None for own in parts])
            common = grow(after, alive & together[diagnosis], rest) if together.any() else -1
            following = [
                common if own is None else grow(after, alive & (diagnosis == k), own) for k, own in enumerate(parts)
            ]
            nodes[node] = (t, held, tuple(following))
            return node

        alive = patients & ~unpack(stopped(np.array([self.tariff.known]))[0], self.n)
        grow(self.tariff.known, alive, order)
        return Plan(*zip(*nodes, strict=True))

    def _own_order(self, stopped: Stopped, held: int, part: Bools, rest: tuple[int, ...]) -> tuple[int, ...] | None:
        """An order for this part alone, where it is surely cheaper than `rest`."""
        if part.sum() < (LEAST_PART if self.thorough else max(LEAST_PART, LEAST_PART_SHARE * self.n)):
            return None
        width = self.width if self.thorough else min(self.width, PART_BEAM)
        own = self._completed(self._order(stopped, part, held, width)[0], held)
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
            cost[leaving] += self._forgone(np.array([held]))[0, leaving]
            alive = alive & ~leaving
        return cost


def standard_error(values: Doubles, groups: Indices | None = None) -> float:
    """Of the mean; where rows belong to groups, which are independent and their rows are not, by the groups' sums.

    ``sqrt(G / (G - 1) sum_g (sum_{i in g} (x_i - mean))^2) / n``, which is the usual one if every row is its own group.
    """
    deviations = values - values.mean()
    sums = deviations if groups is None else np.bincount(np.unique(groups, return_inverse=True)[1], deviations)
    return float(np.sqrt((sums**2).sum() * len(sums) / (len(sums) - 1)) / len(values))


def considered(
    ladder: Sequence[float], most_loss: float, point: Callable[[float], FrontierPoint], between: bool = True
) -> list[FrontierPoint]:
    """The ladder climbed until a level loses hopelessly much, then a closer look above the cheapest that is allowed."""
    points: list[FrontierPoint] = []
    for k, level in enumerate(ladder):
        with progress.part(k / len(ladder), (k + 1) / len(ladder)):
            points.append(point(level))
        if points[-1].guarded_loss > HOPELESS * max(most_loss, 0.0) and len(points) > 1:
            break
    best = chosen_level(points, most_loss)
    if best is not None and between:
        above = ladder[ladder.index(best.level) + 1 :][:1]
        points += [point(best.level * (level / best.level) ** share) for level in above for share in BETWEEN]
    return sorted(points, key=lambda one: one.level)


def chosen_level(frontier: Sequence[FrontierPoint], most_loss: float) -> FrontierPoint | None:
    """The cheapest level whose guarded loss is allowed; None where there is none."""
    allowed = [point for point in frontier if point.guarded_loss <= most_loss]
    return min(allowed, key=lambda point: point.cost) if allowed else None
