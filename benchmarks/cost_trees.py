"""Trees in a contest: a patient pays for every test that a question on the way asks about.

CART and EG2 have their curve by depth, CART also by the most that a way may cost, STreeD's optimal tree by the price of
an error.
"""

from collections.abc import Iterator

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from benchmarks.contest import Answers, Fold, rival
from benchmarks.trees import Node, greedy_tree, streed_tree, walk

DEPTHS = range(1, 9)
BUDGETS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 1.0)  # shares of the panel
ERROR_PANELS = (0.5, 2.0, 5.0, 20.0, 50.0)


def cart(fold: Fold) -> Iterator[tuple[str, Answers]]:
    """scikit-learn's, by depth."""
    for depth in DEPTHS:
        model = DecisionTreeClassifier(max_depth=depth, min_samples_leaf=5, random_state=0).fit(fold.rows, fold.target)
        ways = model.decision_path(fold.asked)
        inner = np.where(model.tree_.feature >= 0, fold.owner[np.maximum(model.tree_.feature, 0)], -1)
        orders = np.full((len(fold.asked), depth + 1), -1)
        for patient in range(len(fold.asked)):
            nodes = ways.indices[ways.indptr[patient] : ways.indptr[patient + 1]]  # from the root on, so numbered
            asked = list(dict.fromkeys(t for t in inner[np.sort(nodes)].tolist() if t >= 0))
            orders[patient, : len(asked)] = asked
        yield f"depth {depth}", (orders, model.predict(fold.asked))


def grown(fold: Fold, trees: Iterator[tuple[str, Node]]) -> Iterator[tuple[str, Answers]]:
    for name, tree in trees:
        yield name, walk(tree, fold.asked_yes, fold.question_owner)


def by_budget(fold: Fold) -> Iterator[tuple[str, Answers]]:
    """CART that asks about no test which would take its way past a budget."""
    data = fold.yes, fold.target, fold.question_owner, fold.tariff
    panel = fold.tariff.panel_cost
    return grown(fold, ((f"budget {b:g}", greedy_tree(*data, weight=0.0, budget=b * panel)) for b in BUDGETS))


def eg2(fold: Fold) -> Iterator[tuple[str, Answers]]:
    data = fold.yes, fold.target, fold.question_owner, fold.tariff
    return grown(fold, ((f"depth {depth}", greedy_tree(*data, weight=1.0, depth=depth)) for depth in DEPTHS))


def streed(fold: Fold) -> Iterator[tuple[str, Answers]]:
    data = fold.yes, fold.target.astype(np.int32), fold.question_owner, fold.tariff
    return grown(fold, ((f"error {price:g}", streed_tree(*data, error_panels=price)) for price in ERROR_PANELS))


SOURCES = "benchmarks/trees.py", "benchmarks/cost_trees.py"
COST_TREES = {
    "CART by depth": rival(cart, "benchmarks/cost_trees.py", "scikit-learn", simple=True),
    "CART by budget": rival(by_budget, *SOURCES, simple=True),
    "EG2 by depth": rival(eg2, *SOURCES, simple=True),
    "pystreed": rival(streed, *SOURCES, "pystreed", simple=True),
}
