"""A plan: which test next, after what was seen so far; and what becomes of patients who follow it.

A plan is a tree of nodes. A node buys one test; whoever does not stop on the evidence so far goes on to the node that
belongs to the diagnosis as it now stands. In a fixed order all diagnoses go on to the same node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from multiform.diagnosis._judge import Opinion, suffices
from multiform.diagnosis._tariff import Tariff

__all__ = ["Course", "Plan", "follow"]

Doubles = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]


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

    def paid_before(self, tariff: Tariff) -> list[float]:
        """What everybody who comes to a node has paid by then."""
        paid = [0.0] * len(self)
        for node, (t, held) in enumerate(zip(self.tests, self.held, strict=True)):
            for after in set(self.following[node]) - {-1}:
                paid[after] = paid[node] + tariff.price(t, held)
        return paid

    @property
    def sets(self) -> list[int]:
        """All evidence sets on which somebody may stop."""
        after = (held | 1 << t for held, t in zip(self.held, self.tests, strict=True))
        return list(dict.fromkeys([*self.held, *after]))


@dataclass(frozen=True)
class Course:
    """What became of each patient.

    Attributes
    ----------
    cost : array, shape (n,)
    prices : array, shape (n, n_tests)
        What was paid for each test; NaN for those that were not bought.
    tests : list of tuple of int
        What was bought, in this order.
    answer : array of int, shape (n,)
    chances : array, shape (n, m)
    visited : array of bool, shape (n, n_nodes)
        The nodes that each one came to.
    node : array of int, shape (n,)
        The last of them; -1 for those who needed no test.
    held : array of int, shape (n,)
        The evidence set of the answer.
    """

    cost: Doubles
    prices: Doubles
    tests: list[tuple[int, ...]]
    answer: npt.NDArray[np.int64]
    chances: Doubles
    visited: npt.NDArray[np.bool_]
    node: npt.NDArray[np.int64]
    held: npt.NDArray[np.int64]


def follow(
    plan: Plan,
    tariff: Tariff,
    opinion: Callable[[int, Rows], Opinion],
    level: float,
    n: int,
    n_classes: int,
) -> Course:
    """Send n patients along the plan; `opinion(set, rows)` is what is thought of those rows on the set."""
    prices = np.full((n, len(tariff)), np.nan)
    answer, node_of = np.zeros(n, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    held_of, chances = np.full(n, tariff.known, dtype=np.int64), np.zeros((n, n_classes))
    tests: list[tuple[int, ...]] = [()] * n
    visited = np.zeros((n, len(plan)), dtype=bool)

    def look(rows: Rows, held: int, node: int, path: tuple[int, ...]) -> tuple[Rows, npt.NDArray[np.int64]]:
        """Note the answers on this set; those who go on, and their diagnoses."""
        found = opinion(held, rows)
        answer[rows], chances[rows], node_of[rows], held_of[rows] = found.answer, found.chances, node, held
        for row in rows:
            tests[row] = path
        on = ~suffices(found.doubt, level)
        return rows[on], found.answer[on]

    rows, diagnosis = look(np.arange(n), tariff.known, -1, ())
    waiting = [(0, rows, ())] if len(plan) and len(rows) else []  # type: list[tuple[int, Rows, tuple[int, ...]]]
    while waiting:
        node, rows, path = waiting.pop()
        t, held = plan.tests[node], plan.held[node]
        prices[rows, t] = tariff.price(t, held)
        visited[rows, node] = True
        path = (*path, t)
        rows, diagnosis = look(rows, held | 1 << t, node, path)
        for after in sorted(set(plan.following[node])):
            if after < 0:
                continue
            going = rows[np.array(plan.following[node])[diagnosis] == after]
            if len(going):
                waiting.append((after, going, path))
    return Course(np.nansum(prices, axis=1), prices, tests, answer, chances, visited, node_of, held_of)
