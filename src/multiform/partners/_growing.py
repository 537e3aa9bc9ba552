"""Forests grown by scikit-learn's own compiled trees, without the Python that its classifiers do for every tree.

A tree of a few hundred samples takes a tenth of a millisecond to build, and a millisecond of checks around it.
The trees are those of `DecisionTreeClassifier(splitter=..., max_features="sqrt")`; a test compares them. The compiled
trees are no public interface: where a version of scikit-learn has other ones, its classifiers grow them (`forests`).
"""

from __future__ import annotations

from functools import cache
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from multiform._typing import Array, Doubles, Floats

NO_LIMIT = np.iinfo(np.int32).max  # of a tree's depth


class GrownTrees(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A forest as `ExtraTreesClassifier` or `RandomForestClassifier` grow it by default.

    Parameters
    ----------
    splitter : "random" or "best"
        Extra trees draw the threshold of every column that they try, and see all samples. A random forest searches for
        it, on a bootstrap sample of its own for each tree.
    n_trees : int
    random_state : int, default=None
    """

    def __init__(self, splitter: str, n_trees: int, random_state: int | None = None) -> None:
        self.splitter = splitter
        self.n_trees = n_trees
        self.random_state = random_state

    def fit(self, X: Floats, y: Array, sample_weight: Array | None = None) -> Self:
        """X has no missing values: rows as `read_rows` gives them."""
        from sklearn.tree._classes import CRITERIA_CLF, DENSE_SPLITTERS
        from sklearn.tree._tree import DepthFirstTreeBuilder, Tree

        n, p = X.shape
        random = np.random.RandomState(self.random_state)
        self.classes_, codes = np.unique(y, return_inverse=True)
        target = codes.astype(np.float64).reshape(-1, 1)
        n_classes = np.array([len(self.classes_)], dtype=np.intp)
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        self.trees_ = []
        for _ in range(self.n_trees):
            counts = weight
            if self.splitter == "best":
                drawn = np.bincount(random.randint(0, n, n), minlength=n).astype(np.float64)
                counts = drawn if weight is None else drawn * weight
            criterion = CRITERIA_CLF["gini"](1, n_classes)
            tried = max(1, int(np.sqrt(p)))
            splitter = DENSE_SPLITTERS[self.splitter](criterion, tried, 1, 0.0, random, None)
            tree = Tree(p, n_classes, 1)
            DepthFirstTreeBuilder(splitter, 2, 1, 0.0, NO_LIMIT, 0.0).build(tree, X, target, counts, None)
            self.trees_.append(tree)
        return self

    def predict_proba(self, X: Floats) -> Doubles:
        """The mean over trees of the shares of the classes at the leaf where a sample ends."""
        total = np.zeros((len(X), len(self.classes_)))
        for tree in self.trees_:
            total += tree.predict(X)
        return total / self.n_trees


@cache
def compiled_trees_are_known() -> bool:
    """Whether the compiled trees of this scikit-learn can be grown: two samples that are told apart show it."""
    try:
        X = np.array([[0.0], [1.0]], dtype=np.float32)
        return bool(np.array_equal(GrownTrees("random", 1, 0).fit(X, np.arange(2)).predict_proba(X), np.eye(2)))
    except (ImportError, AttributeError, KeyError, TypeError, ValueError):
        return False


def forests(n_trees: int) -> dict[str, Any]:
    """Extra trees and a random forest, unfitted, by the names of scikit-learn's."""
    if compiled_trees_are_known():
        return {
            "ExtraTreesClassifier": GrownTrees("random", n_trees),
            "RandomForestClassifier": GrownTrees("best", n_trees),
        }
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

    return {
        "ExtraTreesClassifier": ExtraTreesClassifier(n_trees),
        "RandomForestClassifier": RandomForestClassifier(n_trees),
    }


def trees_of(model: Any) -> list[Any]:
    """The compiled trees of a fitted forest, scikit-learn's or ours."""
    return model.trees_ if isinstance(model, GrownTrees) else [one.tree_ for one in model.estimators_]
