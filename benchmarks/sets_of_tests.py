"""Simple rivals of a plan: a fixed set of tests for everybody and a usual classifier, and a tree of limited depth.

The tests are taken greedily by joint mutual information (Yang and Moody 1999) for their price,

    sum over the tests s taken so far of I(x_t, x_s; y)   (at first I(x_t; y)),

with numbers cut at quartiles, and logistic regression or a random forest answers on each set of them. CART pays for the
tests on the way to a leaf, and has a depth for a budget. Each has a curve, a point for each set or depth; the one that
it chooses itself is the cheapest that is within half a point of its best in five folds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.tree import DecisionTreeClassifier

from multiform.diagnosis import Tariff

__all__ = ["CURVES", "curve", "joint_order"]

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Point = tuple[float, Callable[[], tuple[Doubles, Array]]]  # accuracy in five folds; bills and answers of the patients

QUARTILES = (0.25, 0.5, 0.75)
MOST_TESTS = 24  # in a set
DEPTHS = range(1, 9)
TREES = 200
WITHIN = 0.005


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


def sets_with(estimator: Any) -> Callable[..., Iterator[Point]]:
    """A classifier on each set that the greedy order begins with."""

    def points(rows: Array, target: Array, asked: Array, owner: Array, tariff: Tariff) -> Iterator[Point]:
        order = joint_order(rows, target, owner, tariff)
        for size in range(1, min(len(order), MOST_TESTS) + 1):
            own = np.isin(owner, order[:size])
            cost = np.full(len(asked), sum(tariff.bill(order[:size])))
            accuracy = float(cross_val_score(estimator, rows[:, own], target, cv=5).mean())

            def answered(own: Array = own, cost: Doubles = cost) -> tuple[Doubles, Array]:
                return cost, estimator.fit(rows[:, own], target).predict(asked[:, own])

            yield accuracy, answered

    return points


def trees(rows: Array, target: Array, asked: Array, owner: Array, tariff: Tariff) -> Iterator[Point]:
    """CART of each depth; a patient pays for the tests on the way, once, with the discounts."""
    for depth in DEPTHS:
        tree = DecisionTreeClassifier(max_depth=depth, min_samples_leaf=5, random_state=0)
        accuracy = float(cross_val_score(tree, rows, target, cv=5).mean())

        def answered(tree: Any = tree) -> tuple[Doubles, Array]:
            tree.fit(rows, target)
            cost = np.zeros(len(asked))
            for i, row in enumerate(np.asarray(asked, dtype=np.float32)):
                node, held = 0, tariff.known
                while tree.tree_.children_left[node] >= 0:
                    column = int(tree.tree_.feature[node])
                    t = int(owner[column])
                    if not held >> t & 1:
                        cost[i] += tariff.price(t, held)
                        held |= 1 << t
                    left = row[column] <= tree.tree_.threshold[node]
                    node = int((tree.tree_.children_left if left else tree.tree_.children_right)[node])
            return cost, tree.predict(asked)

        yield accuracy, answered


CURVES: dict[str, Callable[..., Iterator[Point]]] = {
    "joint information, logistic regression": sets_with(LogisticRegression(max_iter=1000)),
    "joint information, forest": sets_with(RandomForestClassifier(TREES, min_samples_leaf=2, random_state=0)),
    "CART by depth": trees,
}


def curve(name: str, *data: Any) -> tuple[list[tuple[Doubles, Array]], tuple[Doubles, Array]]:
    """Bills and answers at each point of a rival's curve, and at the one that it chooses."""
    points = list(CURVES[name](*data))
    found = [answered() for _, answered in points]
    most = max(accuracy for accuracy, _ in points)
    good = [place for place, (accuracy, _) in enumerate(points) if accuracy >= most - WITHIN]
    return found, found[min(good, key=lambda place: found[place][0].mean())]
