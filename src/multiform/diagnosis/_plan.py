"""A plan: which test next, after what was seen so far; and what becomes of patients who follow it.

A plan is a tree of nodes. A node buys one test; whoever does not stop on the evidence so far goes on to the node that
belongs to the diagnosis as it now stands. In a fixed order all diagnoses go on to the same node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from multiform._typing import Array, Doubles
from multiform.diagnosis._judge import Opinion, suffices
from multiform.diagnosis._tariff import Tariff

__all__ = ["Plan", "follow"]


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
        held = [known]
        for t in order:
            held.append(held[-1] | 1 << t)
        last = len(order) - 1
        following = tuple((k + 1 if k < last else -1,) * n_classes for k in range(len(order)))
        return cls(order, tuple(held[:-1]), following)

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
    plan: Plan, known: int, opinion: Callable[[int, Any], Opinion], level: float, patients: Array
) -> tuple[Array, Array, Doubles]:
    """Send patients (rows, or indices) along the plan; `opinion(set, patients)` is what is thought of some of them.

    Returns the last node that each one came to (-1 for those who need no test), the answer and the chances there.
    """
    answer, chances, doubt = (part.copy() for part in opinion(known, patients))
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
    return node_of, answer, chances
