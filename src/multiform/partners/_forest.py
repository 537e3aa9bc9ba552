"""Trees as plain arrays: what a model file holds of scikit-learn's forests, and how they answer.

The nodes of all trees stand in a row, those of a tree together and children after their parent, so that no way leads
back. At a node a sample goes to the first child where ``x[feature] <= threshold``, else to the second; a missing value
goes where the node sends it. A leaf has a row of `values`, which the tree adds to as many sums, from its place on.

- a mean of trees (ExtraTrees, random forest): a tree adds a chance for every class of its model, divided by the number
  of the model's trees;
- boosting: a tree adds one number to the score of one class of its model, whose chances are the softmax of its scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from scipy.special import softmax

from multiform._typing import Array, Doubles, Floats, Ints
from multiform.state import require, require_array, require_names, spend

CHUNK = 1_000_000  # samples times trees that are on their way at a time
LARGEST = 1e30  # of a value, in size: no sum overflows
PARTS = ("link", "roots", "feature", "threshold", "children", "missing_first", "values", "places", "base")


class Forest:
    """The trees of several fitted models of one kind, and the chances that each model gives.

    Parameters
    ----------
    link : "mean" or "softmax"
        How sums become chances.
    roots : array of int32, shape (n_trees,)
        The first node of each tree.
    feature : array of int32, shape (n_nodes,)
        The column that a node looks at; -1 at a leaf.
    threshold : array of float32, shape (n_nodes,)
        Samples are read in single precision, so that a threshold rounded down to it decides alike.
    children : array of int32, shape (n_nodes, 2)
        Two later nodes of the tree; of a leaf twice its row of `values`.
    missing_first : array of bool, shape (n_nodes,)
        Whether a missing value goes to the first child.
    values : array of float64, shape (n_values, width)
        What leaves add, each row once: most leaves of a forest hold samples of one class alone.
    places : array of int32, shape (n_trees,)
        The first of the sums that a tree adds to, out of `base`.
    base : array of float64, shape (n_models, m)
        What the sums begin with.
    """

    def __init__(
        self,
        link: str,
        roots: Ints,
        feature: Ints,
        threshold: Floats,
        children: Ints,
        missing_first: Array,
        values: Doubles,
        places: Ints,
        base: Doubles,
    ) -> None:
        self.link, self.roots, self.feature, self.threshold = link, roots, feature, threshold
        self.children, self.missing_first, self.values = children, missing_first, values
        self.places, self.base = places, base

    @classmethod
    def of(cls, models: Sequence[Any], n_classes: int) -> Forest | None:
        """The forest that fitted models of one kind make, their classes being numbers; None for other kinds."""
        from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier

        from multiform.partners._growing import GrownTrees, trees_of

        if all(type(model) in (GrownTrees, ExtraTreesClassifier, RandomForestClassifier) for model in models):
            return _mean_of_trees([(model.classes_, trees_of(model)) for model in models], n_classes)
        boosted = all(type(model) is HistGradientBoostingClassifier for model in models)
        if boosted and all(model.is_categorical_ is None or not model.is_categorical_.any() for model in models):
            return _boosting(models, n_classes)
        return None

    def chances(self, rows: Floats) -> Doubles:
        """Of samples in single precision, which may have missing values, by each model: shape (n, n_models, m)."""
        n, (n_models, m), width = len(rows), self.base.shape, self.values.shape[1]
        found = np.empty((n, n_models, m))
        n_trees = np.bincount(self.places // m, minlength=n_models)[:, None]  # of each model
        # Which sums each value goes to: a matrix of a row for each value of each tree, with one entry.
        places = (self.places[:, None] + np.arange(width)).ravel()
        entries = np.ones(len(places)), places, np.arange(len(places) + 1)
        adding = scipy.sparse.csr_array(entries, shape=(len(places), self.base.size))
        chunk = max(1, CHUNK // max(len(places), self.base.size))
        for begin in range(0, n, chunk):
            some = rows[begin : begin + chunk]
            added = self.values[self._leaves(some)].reshape(len(some), len(places))
            sums = (added @ adding).reshape(len(some), n_models, m) + self.base
            found[begin : begin + chunk] = softmax(sums, axis=2) if self.link == "softmax" else sums / n_trees
        return found

    def _leaves(self, rows: Floats) -> Ints:
        """The row of `values` where each sample ends in each tree: shape (n, n_trees)."""
        n, n_trees = len(rows), len(self.roots)
        ends = np.empty(n * n_trees, dtype=np.int32)
        node, way = np.tile(self.roots, n), np.arange(n * n_trees)
        flat, p = np.ascontiguousarray(rows).ravel(), rows.shape[1]
        first = way // max(1, n_trees) * p  # where the sample begins
        while len(node):
            feature = self.feature[node]
            arrived = feature < 0
            if arrived.any():
                ends[way[arrived]] = self.children[node[arrived], 0]
                going = ~arrived
                node, way, first, feature = node[going], way[going], first[going], feature[going]
            x = flat[first + feature]
            goes_first = (x <= self.threshold[node]) | (np.isnan(x) & self.missing_first[node])
            node = np.where(goes_first, self.children[node, 0], self.children[node, 1])
        return ends.reshape(n, n_trees)

    # -------------------------------------------------------------------------------------------- model files

    def as_plain(self) -> dict[str, Any]:
        """For a model file."""
        return {part: getattr(self, part) for part in PARTS}

    @classmethod
    def from_plain(cls, state: Any, n_features: int, n_classes: int) -> Forest:
        """The inverse, for so many columns and classes; what does not fit, or could lead in a circle, is refused."""
        require_names(state, "a forest", PARTS)
        require(state["link"] in ("mean", "softmax"), "the chances of a forest are neither mean nor softmax")
        roots = _require(state["roots"], (None,), np.int32, "roots")
        n_trees = len(roots)
        feature = _require(state["feature"], (None,), np.int32, "feature")
        n_nodes = len(feature)
        threshold = _require(state["threshold"], (n_nodes,), np.float32, "threshold")
        children = _require(state["children"], (n_nodes, 2), np.int32, "children")
        missing_first = _require(state["missing_first"], (n_nodes,), np.bool_, "missing_first")
        values = _require(state["values"], (None, None), np.float64, "values")
        places = _require(state["places"], (n_trees,), np.int32, "places")
        base = _require(state["base"], (None, n_classes), np.float64, "base")
        require(len(base) > 0 and base.size < 2**31, "a forest has no model, or too many")
        width = values.shape[1]
        require(0 < width <= n_classes, "a leaf of a forest has more values than there are classes")
        spend(16 * n_trees * width + 8 * n_nodes, "the trees of a forest")
        if n_trees or n_nodes:
            require(n_trees > 0 and n_nodes > 0 and roots[0] == 0, "the trees of a forest begin nowhere")
            require((np.diff(roots) > 0).all() and roots[-1] < n_nodes, "the trees of a forest are not in order")
            end = np.repeat(np.append(roots[1:], n_nodes), np.diff(np.append(roots, n_nodes)))  # of each node's tree
            leaf = feature < 0
            require((feature >= -1).all() and (feature < n_features).all(), "a tree reads columns that there are not")
            inside = (children > np.arange(n_nodes)[:, None]) & (children < end[:, None])
            require(inside[~leaf].all(), "a child in a forest does not follow its parent in the same tree")
            known = (children[leaf] >= 0) & (children[leaf] < len(values))
            require(known.all(), "a leaf of a forest has no values")
            in_range = (places >= 0).all() and (places.astype(np.int64) + width <= base.size).all()
            require(in_range, "a tree adds to sums that there are not")
        require(np.isfinite(threshold).all(), "a threshold of a forest is not finite")
        for one, what in ((values, "a value"), (base, "the base")):
            require((np.abs(one) <= LARGEST).all(), f"{what} of a forest is not finite, or too large")
        if state["link"] == "mean":
            shares = (values >= 0).all() and np.allclose(values.sum(axis=1), 1) and not base.any()
            every = np.unique(places // n_classes)
            whole = width == n_classes and not (places % n_classes).any() and len(every) == len(base)
            require(shares and whole, "the leaves of a forest hold no chances")
        return cls(state["link"], roots, feature, threshold, children, missing_first, values, places, base)


def _require(value: Any, shape: tuple[int | None, ...], dtype: Any, what: str) -> Any:
    array = require_array(value, shape, np.dtype(dtype).kind, f"{what} of a forest")
    require(array.dtype == dtype, f"{what} of a forest has the wrong type")
    return array


# ------------------------------------------------------------------------------------------- of scikit-learn's models


Tree = tuple[Array, Array, Array, Array, Array, Array]  # is a leaf, feature, threshold, children, where gaps go


def _mean_of_trees(models: Sequence[tuple[Array, list[Any]]], n_classes: int) -> Forest:
    """Of the classes of each model, and its compiled trees."""
    trees: list[Tree] = []
    places: list[int] = []
    found = [np.zeros((0, n_classes))]
    for k, (classes, of_model) in enumerate(models):
        for tree in of_model:
            first, second = tree.children_left, tree.children_right
            trees.append((first < 0, tree.feature, tree.threshold, first, second, tree.missing_go_to_left))
        counts = np.concatenate([tree.value[:, 0, :] for tree in of_model])
        counts = counts[np.concatenate([tree[0] for tree in trees[len(places) :]])]
        places += [k * n_classes] * len(of_model)
        shares = np.zeros((len(counts), n_classes))
        shares[:, classes] = counts / counts.sum(axis=1, keepdims=True)
        found.append(shares)
    shares = np.concatenate(found)
    # Most leaves have one class, and so one of the first rows.
    mixed = shares.max(axis=1) < 1
    ends = np.where(mixed, n_classes + np.cumsum(mixed) - 1, shares.argmax(axis=1))
    values = np.concatenate([np.eye(n_classes), shares[mixed]])
    return _assembled("mean", trees, ends, values, places, np.zeros((len(models), n_classes)))


def _boosting(models: Sequence[Any], n_classes: int) -> Forest:
    trees: list[Tree] = []
    values, places = [np.zeros(0)], []
    base = np.full((len(models), n_classes), -LARGEST)  # which a class keeps that a model has never seen
    for k, model in enumerate(models):
        classes = model.classes_
        base[k, classes] = 0
        # Of two classes, the score is of the second, against 0; of one there is nothing to say.
        scored = classes if len(classes) > 2 else classes[1:]
        if len(scored):
            base[k, scored] = np.ravel(model._baseline_prediction)
        for iteration in model._predictors if len(scored) else []:
            for predictor, label in zip(iteration, scored, strict=True):
                nodes = predictor.nodes
                leaf = nodes["is_leaf"].astype(bool)
                parts = (nodes[part] for part in ("num_threshold", "left", "right", "missing_go_to_left"))
                trees.append((leaf, nodes["feature_idx"], *parts))
                values.append(nodes["value"][leaf])
                places.append(k * n_classes + label)
    column = np.concatenate(values)[:, None]
    return _assembled("softmax", trees, np.arange(len(column)), column, places, base)


def _assembled(
    link: str, trees: Sequence[Tree], ends: Array, values: Doubles, places: Sequence[int], base: Doubles
) -> Forest:
    """One forest of these trees, whose leaves have the rows `ends` of `values`, one after the other."""
    nothing = (np.zeros(0, dtype=bool), *np.zeros((5, 0)))
    leaf, feature, threshold, first, second, missing = (
        np.concatenate(part) for part in zip(*trees, nothing, strict=True)
    )
    sizes = [len(tree[0]) for tree in trees]
    roots = np.cumsum([0, *sizes])[:-1]
    children = np.column_stack([first, second]).astype(np.int64) + np.repeat(roots, sizes)[:, None]
    children[leaf] = ends[:, None]
    return Forest(
        link,
        roots.astype(np.int32),
        np.where(leaf, -1, feature).astype(np.int32),
        _rounded_down(np.where(leaf, 0, threshold)),
        children.astype(np.int32),
        missing.astype(bool),
        values,
        np.array(places, dtype=np.int32),
        base,
    )


def _rounded_down(threshold: Doubles) -> Floats:
    """The largest number of single precision that is not above: for such x, ``x <= threshold`` is as before."""
    with np.errstate(over="ignore"):
        single = threshold.astype(np.float32)
    lower = np.where(single > threshold, np.nextafter(single, np.float32(-np.inf)), single)
    return np.asarray(np.clip(lower, np.finfo(np.float32).min, np.finfo(np.float32).max), dtype=np.float32)
