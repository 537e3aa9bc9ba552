"""A plan: which test next, after what was seen so far; what becomes of patients who follow it; and how it is told.

A plan is a tree of nodes. A node buys one test; whoever does not stop on the evidence so far goes on to the node that
belongs to the diagnosis as it now stands. In a fixed order all diagnoses go on to the same node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np

from multiform._typing import Array, Doubles
from multiform.diagnosis._judge import Opinion, suffices
from multiform.diagnosis._tariff import Tariff
from multiform.state import require

if TYPE_CHECKING:
    from multiform.diagnosis._planner import DiagnosisPlanner


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
        The node after each node, for each diagnosis; -1 where no test is left.
    """

    tests: tuple[int, ...]
    held: tuple[int, ...]
    following: tuple[tuple[int, ...], ...]

    @classmethod
    def of_order(cls, order: tuple[int, ...], known: int, n_classes: int) -> Plan:
        """One order for everybody."""
        held = accumulate((1 << t for t in order[:-1]), or_, initial=known)
        following = [*range(1, len(order)), -1]
        return cls(order, tuple(held)[: len(order)], tuple((k,) * n_classes for k in following[: len(order)]))

    def checked(self, n_classes: int, tariff: Tariff) -> Plan:
        """Nodes lead to later nodes only, each with one test more, so that a walk ends soon."""
        require(len(self.tests) == len(self.held) == len(self.following), "the plan has parts of several lengths")
        whole = all(type(held) is int and 0 <= held <= tariff.everything for held in self.held)
        require(whole and all(type(test) is int for test in self.tests), "the plan holds a test that there is not")
        for node, (test, held, after) in enumerate(zip(self.tests, self.held, self.following, strict=True)):
            require(0 <= test < len(tariff) and len(after) == n_classes, "the plan buys a test that there is not")
            require(not held >> test & 1, "the plan buys a test that it has")
            inside = all(type(one) is int and (one == -1 or node < one < len(self)) for one in after)
            require(inside, "the plan goes in circles")
            require(all(one == -1 or self.held[one] == held | 1 << test for one in after), "the plan forgets a test")
        return self

    def __len__(self) -> int:
        return len(self.tests)

    @property
    def is_fixed(self) -> bool:
        """Whether the next test never depends on the diagnosis."""
        return all(len(set(one)) == 1 for one in self.following)

    @property
    def order(self) -> tuple[int, ...]:
        """The tests along the first branch: the order itself when it is fixed."""
        order, node = [], 0 if self.tests else -1
        while node >= 0:
            order.append(self.tests[node])
            node = self.following[node][0]
        return tuple(order)

    @property
    def sets(self) -> list[int]:
        """All evidence sets on which somebody may stop."""
        after = (held | 1 << t for held, t in zip(self.held, self.tests, strict=True))
        return list(dict.fromkeys([*self.held, *after]))

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
        """What everybody who comes to a node has paid by then."""
        prices = self.prices(tariff)
        return [float(sum(prices[k] for k in path[:-1])) for path in self.paths[: len(self)]]

    def bills(self, tariff: Tariff) -> Doubles:
        """What those who stop after each node, and at last those who need no test, have paid for each test.

        The shape is (n_nodes + 1, n_tests), with NaN for a test that was not bought.
        """
        prices, bills = self.prices(tariff), np.full((len(self) + 1, len(tariff)), np.nan)
        for node, path in enumerate(self.paths):
            for bought in path:
                bills[node, self.tests[bought]] = prices[bought]
        return bills


def follow(
    plan: Plan, tariff: Tariff, opinion: Callable[[int, Any], Opinion], level: float, patients: Array
) -> tuple[Array, Doubles, Array, Doubles]:
    """Send patients (by their places) along the plan; `opinion(set, patients)` is what is thought of some of them.

    Returns the last node that each one came to (-1 for those who need no test), the bill, and answer and chances there.
    """
    answer, chances, doubt = (part.copy() for part in opinion(tariff.known, patients))
    node_of = np.full(len(patients), -1)
    waiting = [(0, np.flatnonzero(~suffices(doubt, level)))] if len(plan) else []
    while waiting:
        node, going = waiting.pop()
        if not len(going):
            continue
        held = plan.held[node] | 1 << plan.tests[node]
        answer[going], chances[going], doubt = opinion(held, patients[going])
        node_of[going] = node
        going = going[~suffices(doubt, level)]
        after = np.array(plan.following[node])[answer[going]]
        waiting += [(k, going[after == k]) for k in sorted({*plan.following[node]} - {-1})]
    return node_of, np.nansum(plan.bills(tariff), axis=1)[node_of], answer, chances


@dataclass(frozen=True)
class Acquisitions:
    """What was bought for whom, one row per patient: what `DiagnosisPlanner.acquire` returns.

    Attributes
    ----------
    cost : array, shape (n,)
        The bill.
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
    """

    cost: Doubles
    tests: list[tuple[str, ...]]
    answer: Array
    chance: Doubles
    prices: Doubles
    test_names: tuple[str, ...]
    panel_cost: float

    def __len__(self) -> int:
        return len(self.cost)

    @property
    def cost_share(self) -> float:
        """Mean cost as a share of the full panel."""
        return float(self.cost.mean() / self.panel_cost) if self.panel_cost else 0.0

    def bill(self, patient: int) -> str:
        """The bill of one patient, line by line."""
        bought = self.tests[patient]
        width = max([len(name) for name in (*bought, "sum", "full panel")])
        lines = [f"{name:<{width}}  {self.prices[patient, self.test_names.index(name)]:>10.2f}" for name in bought]
        lines.append(f"{'sum':<{width}}  {self.cost[patient]:>10.2f}")
        lines.append(f"{'full panel':<{width}}  {self.panel_cost:>10.2f}")
        lines.append(f"diagnosis: {self.answer[patient]}, right with a chance of {self.chance[patient]:.0%}")
        return "\n".join(lines)

    def to_frame(self) -> Any:
        """A pandas DataFrame: cost, n_tests, tests, answer, chance."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("Acquisitions.to_frame needs pandas: run `pip install pandas`.") from error
        return pd.DataFrame(
            {
                "cost": self.cost,
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
    """

    node: int
    parent: int
    diagnoses: tuple[str, ...]
    test: str
    price: float
    came: float
    stopped: tuple[float, ...]


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

    def visit(node: int, parent: int, diagnoses: tuple[str, ...]) -> None:
        came, *stopped = planner.traffic_[node]
        if came <= least_share:
            return
        t = plan.tests[node]
        if not (held | barred) >> t & 1:
            price = tariff.price(t, plan.held[node] & ~barred | held)
            steps.append(FlowStep(node, parent, diagnoses, tariff.tests[t], price, came, tuple(stopped)))
            parent = node
        following = plan.following[node]
        for after in dict.fromkeys(following):
            if after >= 0:
                visit(after, parent, tuple(name for name, k in zip(names, following, strict=True) if k == after))

    if len(plan):
        visit(start, -1, tuple(names))
    return steps


def flow_text(planner: DiagnosisPlanner, least_share: float = 0.0) -> str:
    """The flow chart in words, a line per test; `multiform.displays.PlanDisplay` draws the same."""
    names = [str(one) for one in planner.classes_]
    steps = flow_steps(planner, least_share)
    depth: dict[int, int] = {-1: 0}
    lines = [f"{'buy':<28} {'price':>9} {'come here':>10}  stop here, as"]
    for step in steps:
        parted = len(step.diagnoses) < len(names)
        depth[step.node] = depth[step.parent] + parted
        indent = "  " * depth[step.parent]
        if parted:
            lines.append(f"{indent}if {' or '.join(step.diagnoses)} so far:")
            indent += "  "
        stops = ", ".join(f"{name} {share:.0%}" for name, share in zip(names, step.stopped, strict=True) if share > 0)
        lines.append(f"{indent + step.test:<28} {step.price:>9.2f} {step.came:>10.0%}  {stops or '-'}")
    left = 1 - sum(sum(step.stopped) for step in steps) - planner.stopped_at_once_
    if left > 0.005:
        lines.append(f"{left:.0%} of the patients go on to further tests")
    lines.append(
        f"expected cost {planner.expected_cost_:.2f}, "
        f"{planner.expected_cost_ / planner.panel_cost_ if planner.panel_cost_ else 0:.0%} of the full panel"
    )
    return "\n".join(lines)
