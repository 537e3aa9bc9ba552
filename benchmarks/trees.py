"""Cost-sensitive decision trees to compare with: greedy ones, as CART and EG2 (Nunez 1991), and STreeD's optimal one.

All split on the same yes-or-no questions, several from each test. STreeD is van der Linden et al. 2023.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from multiform.diagnosis import Tariff

__all__ = ["Node", "greedy_tree", "questions", "streed_tree", "walk"]

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

N_THRESHOLDS = 5  # of each number
MOST_DEPTH, LEAST_PATIENTS = 8, 5  # of a greedy tree, and of a leaf of it
STREED_DEPTH, STREED_SECONDS = 3, 10


@dataclass(frozen=True)
class Node:
    """A question, or with question -1 an answer."""

    question: int
    answer: int
    no: Node | None = None
    yes: Node | None = None


def questions(encoding: Any, columns: Mapping[str, Array], train: Mapping[str, Array]) -> tuple[Bools, Ints]:
    """Yes-or-no questions: one for each value of a code or word, thresholds amid quantiles of the training ones.

    Returns
    -------
    answers : array of bool, shape (n, n_questions)
    owner : array of int, shape (n_questions,)
        The test that each one asks about.
    """
    parts: list[Bools] = []
    owner: list[int] = []
    filled_train, filled = encoding.filled(train), encoding.filled(columns)
    for code, test in zip(encoding.codes, encoding.owner, strict=True):
        known, asked = filled_train[code.name], filled[code.name]
        if code.values:
            found = [asked == value for value in code.values]
        elif code.steps:
            found = [asked > one for one in code.steps]
        else:
            cuts = np.quantile(known.astype(np.float64), np.linspace(0, 1, N_THRESHOLDS + 1))
            found = [asked > one for one in np.unique((cuts[1:] + cuts[:-1]) / 2)]
        parts += [np.asarray(one, dtype=bool) for one in found]
        owner += [test] * len(found)
    return np.column_stack(parts), np.array(owner, dtype=np.int64)


def walk(tree: Node, asked: Bools, owner: Ints) -> tuple[Ints, Ints]:
    """The tests of each patient in the order of the questions, filled up with -1; and the answers."""
    ways: list[list[int]] = [[] for _ in asked]
    answer = np.zeros(len(asked), dtype=np.int64)

    def go(node: Node, rows: npt.NDArray[np.intp], way: list[int]) -> None:
        if node.yes is None or node.no is None:
            answer[rows] = node.answer
            for row in rows:
                ways[row] = way
            return
        t = int(owner[node.question])
        way = way if t in way else [*way, t]
        yes = asked[rows, node.question]
        go(node.yes, rows[yes], way)
        go(node.no, rows[~yes], way)

    go(tree, np.arange(len(asked)), [])
    orders = np.full((len(asked), max(map(len, ways), default=0)), -1, dtype=np.int64)
    for row, way in enumerate(ways):
        orders[row, : len(way)] = way
    return orders, answer


def greedy_tree(
    asked: Bools,
    target: Ints,
    owner: Ints,
    tariff: Tariff,
    *,
    weight: float,
    depth: int = MOST_DEPTH,
    budget: float = np.inf,
) -> Node:
    """Each time the question with the largest ``(2^gain - 1) / (price + 1)^weight``, what was bought being free.

    A weight of 1 is EG2's, of 0 that of a tree which minds no price; no way costs more than the budget.
    """
    n_classes = int(target.max()) + 1

    def entropy(counts: Doubles) -> Doubles:
        share = counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1)
        return np.asarray(-(share * np.log2(np.where(share > 0, share, 1))).sum(axis=-1))

    def grow(rows: npt.NDArray[np.intp], held: int, depth: int, left: float) -> Node:
        one_hot = np.eye(n_classes)[target[rows]]
        counts = one_hot.sum(axis=0)
        leaf = Node(-1, int(counts.argmax()))
        if depth == 0 or counts.max() == len(rows) or len(rows) < 2 * LEAST_PATIENTS:
            return leaf
        yes = asked[rows].T.astype(np.float64) @ one_hot
        no = counts - yes
        n_yes, n_no = yes.sum(axis=1), no.sum(axis=1)
        gain = entropy(counts) - (n_yes * entropy(yes) + n_no * entropy(no)) / len(rows)
        price = np.array([0 if held >> int(t) & 1 else tariff.price(int(t), held) for t in owner])
        worth = (2**gain - 1) / (price + 1) ** weight
        worth[(n_yes < LEAST_PATIENTS) | (n_no < LEAST_PATIENTS) | (price > left + 1e-9)] = -np.inf
        best = int(worth.argmax())
        if not worth[best] > 1e-6:
            return leaf
        chosen = asked[rows, best]
        then = held | 1 << int(owner[best]), depth - 1, left - float(price[best])
        return Node(best, leaf.answer, grow(rows[~chosen], *then), grow(rows[chosen], *then))

    return grow(np.arange(len(target)), tariff.known, depth, budget)


def streed_tree(
    asked: Bools, target: npt.NDArray[np.int32], owner: Ints, tariff: Tariff, *, error_panels: float
) -> Node:
    """The tree of depth 3 with the least sum of tests and errors on the training patients, by the package pystreed.

    An error costs so many full panels.
    """
    try:
        streed, data = (importlib.import_module(name) for name in ("pystreed", "pystreed.data"))
    except ImportError as error:
        raise ImportError(
            'The baseline "pystreed" needs the package of that name: run `pip install pystreed`, or leave it out.'
        ) from error
    n_classes = int(target.max()) + 1
    error_cost = error_panels * max(tariff.panel_cost, 1e-9)
    errors = (error_cost * (1 - np.eye(n_classes))).tolist()
    prices = []
    for t in range(len(tariff)):
        own = np.flatnonzero(owner == t)
        if len(own):  # questions of one test stand side by side, from the first to the last
            free = bool(tariff.known >> t & 1)
            full, less = (0.0, 0.0) if free else (tariff.prices[t], tariff.discounted[t])
            discount = tariff.discounts[t] or f"alone {t}"
            prices.append(data.FeatureCostSpecifier(full, less, discount, int(own[0]), int(own[-1])))
    model = streed.STreeDCostSensitiveClassifier(max_depth=STREED_DEPTH, time_limit=STREED_SECONDS)
    model.fit(asked.astype(np.int32), target, data.CostSpecifier(errors, prices))

    def copied(node: Any) -> Node:
        if node.is_leaf_node():
            return Node(-1, int(node.label))
        return Node(int(node.feature), -1, copied(node.left_child), copied(node.right_child))

    return copied(model.tree_)
