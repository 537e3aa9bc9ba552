"""A plan: which test next, after what was seen so far; what becomes of patients who follow it; and how it is told.

A plan is a tree of nodes. A node buys one test; whoever does not stop on the evidence so far goes on by the first of
the node's *ways* whose range holds the result, or by the last way, which is open to all. In a fixed order there is no
other way. (In adaptive plans of version 0.1.0 the diagnosis as it stands says which way.)

Tests that are ordered together, a *round*, are nodes one after the other, each *joined* to the next but the last:
nobody stops or chooses a way before the results of all of them are there. Where no node is joined, each is a round.

A test that was not done is not in the evidence set, and not on the bill; who has no result to choose a way by takes the
last one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np

from multiform._typing import Array, Doubles, Floats
from multiform.columns import FARTHEST, Encoding
from multiform.diagnosis._judge import Opinion, Way, suffices
from multiform.diagnosis._tariff import Tariff
from multiform.state import require, require_numbers

if TYPE_CHECKING:
    from multiform.diagnosis._planner import DiagnosisPlanner


EXACTLY = 1e-9  # a bill of exactly the budget is within it


@dataclass(frozen=True)
class Plan:
    """Nodes in the order of a walk from the root, which is the first.

    Attributes
    ----------
    tests : tuple of int
        The test that each node buys.
    held : tuple of int
        The evidence set before each node's test.
    following : tuple of tuple of int
        The node after each node by each of its ways, and at last for all others; -1 where no test is left.
    ways : tuple of tuple of (column, above, at most), or None
        The ranges of encoded results that lead each way. None in adaptive plans of version 0.1.0, where `following` has
        an entry for each diagnosis.
    joined : tuple of bool
        Whether each node's test is ordered together with that of the next; empty where none is.
    eases : tuple of float
        What the level is multiplied by where patients may stop: at the start, then after each node's test; empty where
        it is the level everywhere.
    """

    tests: tuple[int, ...]
    held: tuple[int, ...]
    following: tuple[tuple[int, ...], ...]
    ways: tuple[tuple[Way, ...], ...] | None = None
    joined: tuple[bool, ...] = ()
    eases: tuple[float, ...] = ()

    @classmethod
    def of_order(cls, order: tuple[int, ...], known: int) -> Plan:
        """One order for everybody."""
        held = accumulate((1 << t for t in order[:-1]), or_, initial=known)
        following = [*range(1, len(order)), -1][: len(order)]
        return cls(order, tuple(held)[: len(order)], tuple((k,) for k in following), ((),) * len(order))

    def checked(self, n_classes: int, tariff: Tariff, column_owner: Array) -> Plan:
        """Nodes lead to later nodes only, each with one test more, so that a walk ends soon."""
        lengths = {len(self.tests), len(self.held), len(self.following)} | (
            {len(self.ways)} if self.ways is not None else set()
        )
        require(len(lengths) == 1, "the plan has parts of several lengths")
        whole = all(type(held) is int and 0 <= held <= tariff.everything for held in self.held)
        require(whole and all(type(test) is int for test in self.tests), "the plan holds a test that there is not")
        for node, (test, held, after) in enumerate(zip(self.tests, self.held, self.following, strict=True)):
            require(0 <= test < len(tariff), "the plan buys a test that there is not")
            require(not held >> test & 1, "the plan buys a test that it has")
            require(len(after) == (n_classes if self.ways is None else len(self.ways[node]) + 1), "a way leads nowhere")
            inside = all(type(one) is int and (one == -1 or node < one < len(self)) for one in after)
            require(inside, "the plan goes in circles")
            require(all(one == -1 or self.held[one] == held | 1 << test for one in after), "the plan forgets a test")
            for way in () if self.ways is None else self.ways[node]:
                require(
                    len(way) == 3 and type(way[0]) is int and 0 <= way[0] < len(column_owner), "a way has no column"
                )
                require(
                    (held | 1 << test) >> int(column_owner[way[0]]) & 1, "a way asks for a result that is not there"
                )
                require_numbers(way[1:], "a range of the plan")
                require(way[1] <= -FARTHEST or way[2] >= FARTHEST, "a range of the plan is open at no end")
        require(len(self.joined) in (0, len(self)), "the plan has parts of several lengths")
        for node, together in enumerate(self.joined):
            require(type(together) is bool, "the plan does not say what is ordered together")
            after = self.following[node]
            require(not together or (len({*after}) == 1 and after[0] >= 0), "a test is ordered together with none")
        require(len(self.eases) in (0, len(self) + 1), "the plan has parts of several lengths")
        require_numbers(self.eases, "an ease of the plan")
        require(all(ease >= 0 for ease in self.eases), "an ease of the plan is negative")
        return self

    def ease(self, node: int) -> float:
        """What the level is multiplied by after this node's test; of -1, at the start."""
        return self.eases[node + 1] if self.eases else 1.0

    def joins(self, node: int) -> bool:
        """Whether this node's test is ordered together with that of the next."""
        return bool(self.joined) and self.joined[node]

    def round_of(self, node: int) -> list[int]:
        """This node, and those after it whose tests are ordered together with its own."""
        found = [node]
        while self.joins(found[-1]):
            found.append(self.following[found[-1]][0])
        return found

    @property
    def begins(self) -> list[bool]:
        """Of each node, whether a round begins with it."""
        inside = {self.following[node][0] for node in range(len(self)) if self.joins(node)}
        return [node not in inside for node in range(len(self))]

    def __len__(self) -> int:
        return len(self.tests)

    @property
    def is_fixed(self) -> bool:
        """Whether the next test never depends on what was found."""
        return all(len(set(one)) == 1 for one in self.following)

    @property
    def order(self) -> tuple[int, ...]:
        """The tests along the last ways, which are open to all (of 0.1.0, with the first diagnosis)."""
        order, node = [], 0 if self.tests else -1
        while node >= 0:
            order.append(self.tests[node])
            node = self.main(node)
        return tuple(order)

    def main(self, node: int) -> int:
        """The node after this one by the way that is open to all."""
        return self.following[node][0 if self.ways is None else -1]

    def after(self, node: int, answer: Array, values: Floats) -> Array:
        """The node to which patients go on from this one: their diagnoses so far, and encoded results, NaN for none."""
        if self.ways is None:
            return np.array(self.following[node])[answer]
        found = np.full(len(answer), self.following[node][-1])
        for (column, above, at_most), following in reversed(
            list(zip(self.ways[node], self.following[node], strict=False))
        ):
            found[(values[:, column] > above) & (values[:, column] <= at_most)] = following
        return found

    def within(self, tariff: Tariff, budget: float | None = None, max_hours: float | None = None) -> Plan:
        """The same plan for those who may pay and wait no more: a test that asks too much is gone past."""
        most = np.inf if budget is None else budget + EXACTLY
        longest = np.inf if max_hours is None else max_hours + EXACTLY
        nodes: list[tuple[int, int, tuple[int, ...], tuple[Way, ...], bool]] = []

        def copied(node: int, held: int, paid: float, hours: float, slowest: float) -> tuple[int, bool]:
            """The copy of the first node from this one on that can be afforded; and whether the round goes on to it.

            `paid` and `hours` are those of all before, without this round's waiting: so far it takes `slowest` hours.
            """
            same_round = True
            while node >= 0:
                t = self.tests[node]
                wait = max(slowest, tariff.duration(t))
                asks = paid + tariff.price(t, held) + tariff.hour_price * wait
                if asks <= most and hours + wait <= longest and not tariff.required[t] & ~held:
                    break
                if not self.joins(node):
                    same_round, paid = False, paid + tariff.hour_price * slowest
                    hours, slowest = hours + slowest, 0.0
                node = self.main(node)
            if node < 0:
                return -1, False
            place, after = len(nodes), held | 1 << t
            nodes.append((t, held, (-1,), (), False))
            paid += tariff.price(t, held)
            if not self.joins(node):
                paid, hours, wait = paid + tariff.hour_price * wait, hours + wait, 0.0
            ways = () if self.ways is None else self.ways[node]
            found = [copied(one, after, paid, hours, wait) for one in self.following[node]]
            together = self.joins(node) and found[0][1]
            nodes[place] = (t, held, tuple(child for child, _ in found), ways, together)
            return place, same_round

        if not len(self) or copied(0, self.held[0], 0.0, 0.0, 0.0)[0] < 0:
            return Plan((), (), (), ())
        *parts, joined = zip(*nodes, strict=True)
        return replace(Plan(*parts), joined=joined if any(joined) else ())

    @property
    def sets(self) -> list[int]:
        """All evidence sets on which somebody may stop, and what is known within a round."""
        after = [held | 1 << t for held, t in zip(self.held, self.tests, strict=True)]
        return list(dict.fromkeys([*self.held[:1], *after]))

    @property
    def paths(self) -> list[tuple[int, ...]]:
        """The nodes on the way to each node, itself the last; and at the end no node, for those who need no test."""
        paths: list[tuple[int, ...]] = [(0,), *[()] * (len(self) - 1), ()] if len(self) else [()]
        for node, following in enumerate(self.following):
            for after in set(following) - {-1}:
                paths[after] = (*paths[node], after)
        return paths

    def prices(self, tariff: Tariff) -> list[float]:
        """What each node's test costs there."""
        return [tariff.price(t, held) for t, held in zip(self.tests, self.held, strict=True)]

    def paid_before(self, tariff: Tariff) -> list[float]:
        """What everybody who comes to a node has paid by then, waiting too, all tests being done."""
        prices = self.prices(tariff)
        paid = [float(sum(prices[k] for k in path[:-1])) for path in self.paths[: len(self)]]
        if not tariff.waits:
            return paid
        rounds = [self.round_of(node) if begins else [] for node, begins in enumerate(self.begins)]
        hours = [tariff.hours(self.tests[k] for k in one) for one in rounds]
        over = [[k for k in path if rounds[k] and node not in rounds[k]] for node, path in enumerate(self.paths[:-1])]
        return [money + tariff.hour_price * sum(hours[k] for k in one) for money, one in zip(paid, over, strict=True)]


@dataclass(frozen=True)
class Followed:
    """What became of patients who followed a plan.

    Attributes
    ----------
    node : array, shape (n,)
        The last node that each one came to, -1 for those who need no test.
    prices : array, shape (n, n_tests)
        What was paid for each test, NaN where it was not bought.
    answer, chances : arrays, shapes (n,) and (n, m)
        Where they stopped.
    hours : array, shape (n,)
        How long they waited for results.
    waiting : array, shape (n,)
        What that cost.
    """

    node: Array
    prices: Doubles
    answer: Array
    chances: Doubles
    hours: Doubles
    waiting: Doubles

    @property
    def cost(self) -> Doubles:
        """The bill of each patient, with what waiting cost."""
        return np.asarray(np.nansum(self.prices, axis=1) + self.waiting)


def follow(
    plan: Plan,
    tariff: Tariff,
    opinion: Callable[[int, Any], Opinion],
    level: float,
    values: Floats,
    undone: Array | None = None,
    patients: Array | None = None,
    clock: Doubles | None = None,
    place: Array | None = None,
) -> Followed:
    """Send patients along the plan; `opinion(set, patients)` is what is thought of some of them, by their places.

    `values` are the encoded results of all, NaN for none, and `undone` the set of tests that were not done of each one:
    these are not bought. With `patients` only those, by their places, are followed. A `clock` is kept for all: how long
    each one has waited when something is thought of it; so is its `place`, the node whose test it had last (-1: none).
    """
    patients = np.arange(len(values)) if patients is None else patients
    barred = None if undone is None else [tariff.barred(int(one)) for one in undone[patients]]
    answer, chances, doubt = (part.copy() for part in opinion(tariff.known, patients))
    node_of = np.full(len(patients), -1)
    prices = np.full((len(patients), len(tariff)), np.nan)
    hours, slowest = np.zeros(len(patients)), np.zeros(len(patients))  # of the rounds done, and of this one so far
    waiting = [(0, np.flatnonzero(~suffices(doubt, level * plan.ease(-1))))] if len(plan) else []
    while waiting:
        node, going = waiting.pop()
        if not len(going):
            continue
        t, held = plan.tests[node], plan.held[node]
        if barred is None:
            prices[going, t] = tariff.price(t, held)
        else:
            prices[going, t] = [
                np.nan if barred[one] >> t & 1 else tariff.price(t, held & ~barred[one]) for one in going.tolist()
            ]
        bought = going[~np.isnan(prices[going, t])]
        slowest[bought] = np.maximum(slowest[bought], tariff.duration(t))
        if plan.joins(node):
            waiting.append((plan.following[node][0], going))
            continue
        hours[going] += slowest[going]
        slowest[going] = 0.0
        if clock is not None:
            clock[patients[going]] = hours[going]
        if place is not None:
            place[patients[going]] = node
        answer[going], chances[going], doubt = opinion(held | 1 << t, patients[going])
        node_of[going] = node
        going = going[~suffices(doubt, level * plan.ease(node))]
        after = plan.after(node, answer[going], values[patients[going]])
        waiting += [(k, going[after == k]) for k in sorted({*plan.following[node]} - {-1})]
    return Followed(node_of, prices, answer, chances, hours, tariff.hour_price * hours)


@dataclass(frozen=True)
class Acquisitions:
    """What was bought for whom, one row per patient: what `DiagnosisPlanner.acquire` returns.

    Attributes
    ----------
    cost : array, shape (n,)
        The bill, with what waiting cost.
    tests : list of tuple of str
        What was bought, in this order.
    answer : array, shape (n,)
        The diagnosis.
    chance : array, shape (n,)
        Calibrated chance that it is right.
    prices : array, shape (n, n_tests)
        What was paid for each test, NaN where it was not bought.
    test_names : tuple of str
    panel_cost : float
        What all evidence costs.
    hours : array, shape (n,), or None
        How long each one waited for results; None where all are immediate.
    """

    cost: Doubles
    tests: list[tuple[str, ...]]
    answer: Array
    chance: Doubles
    prices: Doubles
    test_names: tuple[str, ...]
    panel_cost: float
    hours: Doubles | None = None

    def __len__(self) -> int:
        return len(self.cost)

    @property
    def cost_share(self) -> float:
        """Mean cost as a share of the full panel."""
        return float(self.cost.mean() / self.panel_cost) if self.panel_cost else 0.0

    def bill(self, patient: int) -> str:
        """The bill of one patient, line by line."""
        bought = self.tests[patient]
        paid = {name: self.prices[patient, self.test_names.index(name)] for name in bought}
        if self.hours is not None:
            paid[f"waiting, {self.hours[patient]:g} h"] = self.cost[patient] - sum(paid.values())
        width = max([len(name) for name in (*paid, "sum", "full panel")])
        lines = [f"{name:<{width}}  {price:>10.2f}" for name, price in paid.items()]
        lines.append(f"{'sum':<{width}}  {self.cost[patient]:>10.2f}")
        lines.append(f"{'full panel':<{width}}  {self.panel_cost:>10.2f}")
        lines.append(f"diagnosis: {self.answer[patient]}, right with a chance of {self.chance[patient]:.0%}")
        return "\n".join(lines)

    def to_frame(self) -> Any:
        """A pandas DataFrame: cost, hours where there are any, n_tests, tests, answer, chance."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("Acquisitions.to_frame needs pandas: run `pip install pandas`.") from error
        return pd.DataFrame(
            {
                "cost": self.cost,
                **({} if self.hours is None else {"hours": self.hours}),
                "n_tests": [len(bought) for bought in self.tests],
                "tests": [", ".join(bought) for bought in self.tests],
                "answer": self.answer,
                "chance": self.chance,
            }
        )

    def __str__(self) -> str:
        lines = [f"{'patient':>7} {'cost':>10} {'answer':>10} {'chance':>7}  bought"]
        for i, bought in enumerate(self.tests):
            lines.append(
                f"{i:>7} {self.cost[i]:>10.2f} {self.answer[i]!s:>10} {self.chance[i]:>7.0%}  {', '.join(bought)}"
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class FlowStep:
    """One box of the flow chart.

    Attributes
    ----------
    node, parent : int
        The node of the plan, and the box before it; -1 for the first.
    diagnoses : tuple of str
        The diagnoses with which one comes from there; all of them where it makes no difference.
    test : str
    price : float
    came : float
        Share of the training patients who come here.
    stopped : tuple of float
        Shares of the training patients who stop here, by diagnosis.
    condition : str
        The result with which one comes here, in words; empty where it makes no difference.
    with_next : bool
        Whether the test is ordered together with that of the next box.
    """

    node: int
    parent: int
    diagnoses: tuple[str, ...]
    test: str
    price: float
    came: float
    stopped: tuple[float, ...]
    condition: str = ""
    with_next: bool = False


def flow_steps(
    planner: DiagnosisPlanner, least_share: float = 0.0, *, start: int = 0, held: int = 0, barred: int = 0
) -> list[FlowStep]:
    """The boxes that more than `least_share` of the training patients came to, each after the one before it.

    `start` is the node of the first; the tests of the sets `held`, which was bought, and `barred`, which cannot be
    done, are gone past.
    """
    plan, tariff = planner.plan_, planner.tariff_
    names = [str(one) for one in planner.classes_]
    steps: list[FlowStep] = []

    def visit(node: int, parent: int, diagnoses: tuple[str, ...], condition: str = "") -> None:
        came, *stopped = planner.traffic_[node]
        if came <= least_share:
            return
        t = plan.tests[node]
        if not (held | barred) >> t & 1:
            price = tariff.price(t, plan.held[node] & ~barred | held)
            own = FlowStep(node, parent, diagnoses, tariff.tests[t], price, came, tuple(stopped), condition)
            steps.append(replace(own, with_next=plan.joins(node)))
            parent = node
        following = plan.following[node]
        if plan.ways is None:
            for after in dict.fromkeys(following):
                if after >= 0:
                    visit(after, parent, tuple(name for name, k in zip(names, following, strict=True) if k == after))
            return
        told = [way_text(planner.encoding_, way) for way in plan.ways[node]] + ["otherwise" if plan.ways[node] else ""]
        for after, condition in zip(following, told, strict=True):
            if after >= 0:
                visit(after, parent, tuple(names), condition)

    if len(plan):
        visit(start, -1, tuple(names))
    return steps


def column_names(encoding: Encoding) -> list[str]:
    """What each encoded column says."""
    return [name for code in encoding.codes for name in code.feature_names()]


def way_text(encoding: Encoding, way: Way) -> str:
    """A way in words: the range of a result, or the value that it is or is not."""
    column, above, at_most = way
    name = column_names(encoding)[column]
    if name not in encoding.names:
        return name if at_most >= FARTHEST else f"not {name}"
    low, high = (f"{encoding.center[column] + encoding.scale[column] * bound:.4g}" for bound in (above, at_most))
    if above <= -FARTHEST:
        return f"{name} is at most {high}"
    return f"{name} is above {low}" if at_most >= FARTHEST else f"{name} is above {low} and at most {high}"


def flow_text(planner: DiagnosisPlanner, least_share: float = 0.0) -> str:
    """The flow chart in words, a line per test; `multiform.displays.PlanDisplay` draws the same."""
    names = [str(one) for one in planner.classes_]
    steps = flow_steps(planner, least_share)
    depth: dict[int, int] = {-1: 0}
    lines = [f"{'buy':<28} {'price':>9} {'come here':>10}  stop here, as"]
    for step in steps:
        parted = len(step.diagnoses) < len(names) or step.condition != ""
        depth[step.node] = depth[step.parent] + parted
        indent = "  " * depth[step.parent]
        if parted:
            so_far = f"if {' or '.join(step.diagnoses)} so far"
            by_result = step.condition if step.condition == "otherwise" else f"if {step.condition}"
            lines.append(f"{indent}{by_result if step.condition else so_far}:")
            indent += "  "
        stops = ", ".join(f"{name} {share:.0%}" for name, share in zip(names, step.stopped, strict=True) if share > 0)
        stops = "and at the same time" if step.with_next else stops
        lines.append(f"{indent + step.test:<28} {step.price:>9.2f} {step.came:>10.0%}  {stops or '-'}")
    left = 1 - sum(sum(step.stopped) for step in steps) - planner.stopped_at_once_
    if left > 0.005:
        lines.append(f"{left:.0%} of the patients go on to further tests")
    lines.append(
        f"expected cost {planner.expected_cost_:.2f}, "
        f"{planner.expected_cost_ / planner.panel_cost_ if planner.panel_cost_ else 0:.0%} of the full panel"
    )
    if planner.expected_hours_:
        at_once = f"all tests ordered at once take {planner.tariff_.panel_hours:g} h"
        lines.append(f"expected waiting {planner.expected_hours_:.1f} h; {at_once}")
    return "\n".join(lines)
