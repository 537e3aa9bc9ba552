"""Simple rivals of a plan: the same tests for everybody, and a usual classifier that is trained on just these.

An order of all tests gives the curve, a point for each number of tests. The orders are

- *joint information* (Yang and Moody 1999): greedily the most for its price of the sum over the tests s taken so far of
  I(x_t, x_s; y), at first I(x_t; y), with numbers cut at quartiles;
- *cheapest first*, and at random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from benchmarks.contest import Answers, Fold, Method, rival
from multiform.diagnosis import Tariff

__all__ = ["SETS_OF_TESTS", "joint_order"]

Array = npt.NDArray[Any]

QUARTILES = (0.25, 0.5, 0.75)
SIZES = (*range(1, 11), 12, 15, 19, 24, 30, 38, 48, 60)  # of the sets, and all tests


def coded(rows: Array, owner: Array, test: int) -> Array:
    """A test's results as one whole number, its columns cut at their quartiles."""
    own = rows[:, owner == test]
    cut = np.column_stack([np.searchsorted(np.unique(np.quantile(column, QUARTILES)), column) for column in own.T])
    return np.unique(cut, axis=0, return_inverse=True)[1].ravel()


def information(codes: Array, target: Array) -> float:
    """Mutual information of codes and classes, in nats."""
    joint = np.zeros((int(codes.max()) + 1, int(target.max()) + 1))
    np.add.at(joint, (codes, target), 1.0)
    joint /= joint.sum()
    outer = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    there = joint > 0
    return float((joint[there] * np.log(joint[there] / outer[there])).sum())


def joint_order(rows: Array, target: Array, owner: Array, tariff: Tariff) -> tuple[int, ...]:
    """All tests, each time the one of the most joint information for its price."""
    codes = [coded(rows, owner, t) for t in range(len(tariff))]
    alone = [information(one, target) for one in codes]
    joint = np.zeros(len(tariff))
    order: list[int] = []

    def best(tests: list[int], held: int) -> int:
        if order:
            last = codes[order[-1]]
            for t in tests:
                joint[t] += information(codes[t] * (int(last.max()) + 1) + last, target)
        worth = joint if order else alone
        order.append(max(tests, key=lambda t: worth[t] / max(tariff.price(t, held), 1e-9)))
        return order[-1]

    return tariff.remaining_order(tariff.known, best)


def by_information(fold: Fold) -> tuple[int, ...]:
    return joint_order(fold.rows, fold.target, fold.owner, fold.tariff)


def cheapest_first(fold: Fold) -> tuple[int, ...]:
    """At each step what is cheapest then; of equals, the first in the file."""
    tariff = fold.tariff
    return tariff.remaining_order(0, lambda tests, held: min(tests, key=lambda t: tariff.price(t, held)))


def at_random(fold: Fold) -> tuple[int, ...]:
    """Another order in each repeat."""
    return tuple(int(t) for t in np.random.default_rng(fold.seed).permutation(len(fold.tariff)))


def sets_with(estimator: Any, order_of: Callable[[Fold], tuple[int, ...]]) -> Method:
    """A classifier on the sets that an order begins with."""

    def points(fold: Fold) -> Iterator[tuple[str, Answers]]:
        order = order_of(fold)
        for size in sorted({*(size for size in SIZES if size < len(order)), len(order)}):
            own = np.isin(fold.owner, order[:size])
            answers = clone(estimator).fit(fold.rows[:, own], fold.target).predict(fold.asked[:, own])
            yield f"{size} tests", (np.tile(order[:size], (len(answers), 1)), answers)

    return rival(points, "benchmarks/sets_of_tests.py", "scikit-learn", simple=True)


LOGISTIC = LogisticRegression(max_iter=1000)
FOREST = RandomForestClassifier(100, min_samples_leaf=2, random_state=0)
SETS_OF_TESTS = {
    "logistic on joint information": sets_with(LOGISTIC, by_information),
    "forest on joint information": sets_with(FOREST, by_information),
    "logistic on the cheapest": sets_with(LOGISTIC, cheapest_first),
    "logistic on random tests": sets_with(LOGISTIC, at_random),
}
