"""Cost-sensitive decision trees to compare with: EG2 (Nunez 1991) and STreeD's optimal one (van der Linden 2023).

Both split on the same yes-or-no questions, several from each test. A patient pays for every test that a question on the
way asks about, once, with the discounts.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from multiform.diagnosis import Tariff

__all__ = ["Node", "eg2_tree", "questions", "streed_tree", "walk"]

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

N_THRESHOLDS = 4  # of each number
EG2_WEIGHT = 1.0  # how strongly EG2 minds the price
EG2_DEPTH, EG2_LEAST = 6, 5
STREED_DEPTH, STREED_SECONDS = 3, 30
ERROR_PANELS = 20.0  # what a wrong answer costs in STreeD's sum, in full panels


@dataclass(frozen=True)
class Node:
    """A question, or with question -1 an answer."""

    question: int
    answer: int
    no: Node | None = None
    yes: Node | None = None


def questions(encoding: Any, columns: Mapping[str, Array], train: Mapping[str, Array]) -> tuple[Bools, Ints]:
    """Yes-or-no questions: one for each value of a code or word, thresholds at quantiles of the training patients.

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
            share = np.arange(1, N_THRESHOLDS + 1) / (N_THRESHOLDS + 1)
            found = [asked > one for one in np.unique(np.quantile(known.astype(np.float64), share))]
        parts += [np.asarray(one, dtype=bool) for one in found]
        owner += [test] * len(found)
    return np.column_stack(parts), np.array(owner, dtype=np.int64)


def walk(tree: Node, asked: Bools, owner: Ints, tariff: Tariff) -> tuple[Doubles, Ints]:
    """Bill and answer of each patient."""
    cost, answer = np.zeros(len(asked)), np.zeros(len(asked), dtype=np.int64)

    def go(node: Node, rows: npt.NDArray[np.intp], held: int) -> None:
        if node.yes is None or node.no is None:
            answer[rows] = node.answer
            return
        t = int(owner[node.question])
        if not held >> t & 1:
            cost[rows] += tariff.price(t, held)
            held |= 1 << t
        yes = asked[rows, node.question]
        go(node.yes, rows[yes], held)
        go(node.no, rows[~yes], held)

    go(tree, np.arange(len(asked)), tariff.known)
    return cost, answer


def eg2_tree(asked: Bools, target: npt.NDArray[np.int32], owner: Ints, tariff: Tariff) -> Node:
    """Greedy: the question with the largest ``(2^gain - 1) / (price + 1)^w``, what was bought being free."""
    n_classes = int(target.max()) + 1

    def entropy(counts: Doubles) -> Doubles:
        share = counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1)
        return np.asarray(-(share * np.log2(np.where(share > 0, share, 1))).sum(axis=-1))

    def grow(rows: npt.NDArray[np.intp], held: int, depth: int) -> Node:
        one_hot = np.eye(n_classes)[target[rows]]
        counts = one_hot.sum(axis=0)
        leaf = Node(-1, int(counts.argmax()))
        if depth == 0 or counts.max() == len(rows) or len(rows) < 2 * EG2_LEAST:
            return leaf
        yes = asked[rows].T.astype(np.float64) @ one_hot
        no = counts - yes
        n_yes, n_no = yes.sum(axis=1), no.sum(axis=1)
        gain = entropy(counts) - (n_yes * entropy(yes) + n_no * entropy(no)) / len(rows)
        price = np.array([0 if held >> int(t) & 1 else tariff.price(int(t), held) for t in owner])
        worth = (2**gain - 1) / (price + 1) ** EG2_WEIGHT
        worth[(n_yes < EG2_LEAST) | (n_no < EG2_LEAST)] = -np.inf
        best = int(worth.argmax())
        if not worth[best] > 1e-6:
            return leaf
        held |= 1 << int(owner[best])
        chosen = asked[rows, best]
        return Node(best, leaf.answer, grow(rows[~chosen], held, depth - 1), grow(rows[chosen], held, depth - 1))

    return grow(np.arange(len(target)), tariff.known, EG2_DEPTH)


def streed_tree(asked: Bools, target: npt.NDArray[np.int32], owner: Ints, tariff: Tariff) -> Node:
    """The tree of depth 3 with the least sum of tests and errors on the training patients, by the package pystreed."""
    try:
        streed, data = (importlib.import_module(name) for name in ("pystreed", "pystreed.data"))
    except ImportError as error:
        raise ImportError(
            'The baseline "pystreed" needs the package of that name: run `pip install pystreed`, or leave it out.'
        ) from error
    n_classes = int(target.max()) + 1
    error_cost = ERROR_PANELS * max(tariff.panel_cost, 1e-9)
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
