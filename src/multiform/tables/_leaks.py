"""Which columns decide the target alone, as one does that is only known once the answer is.

Of each column a small tree is asked for the classes of rows that it was not trained on. A column decides the target if
that makes at most 2 % of the errors that always answering the commonest class makes, or one. An identifier does not: it
says nothing of rows that were held out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from multiform._typing import Array, Doubles, Indices
from multiform.folds import drawn_folds, splits_of

MOST_ROWS = 5000  # drawn at random
MOST_COLUMNS = 20  # asked of a tree: those along which neighbouring rows are most often of one class
MOST_LEAVES = 64
N_FOLDS = 3
LEFT_OVER = 0.02  # of the errors
ENOUGH = 30  # rows outside the commonest class


def deciding(blocks: dict[str, Doubles], labels: Array, groups: Indices | None = None) -> dict[str, float]:
    """Those of the columns, given as the numbers that each becomes, that decide the labels; and their accuracy on
    held-out rows.
    """
    random = np.random.default_rng(0)
    target = np.unique(labels, return_inverse=True)[1].ravel()
    rows = random.permutation(len(target))[:MOST_ROWS]
    target, groups = target[rows], None if groups is None else groups[rows]
    n_others = len(target) - int(np.bincount(target).max())
    folds = drawn_folds(target, N_FOLDS, random, groups)
    if n_others < ENOUGH or not folds.any():
        return {}
    changes = {name: _changes(block[rows], target) for name, block in blocks.items()}
    found = {}
    for name in sorted(blocks, key=changes.__getitem__)[:MOST_COLUMNS]:
        n_wrong = _n_wrong(blocks[name][rows], target, folds)
        if n_wrong <= max(1, LEFT_OVER * n_others):
            found[name] = 1 - n_wrong / len(target)
    return {name: found[name] for name in blocks if name in found}


def _changes(block: Doubles, target: Indices) -> int:
    """How often the class changes from one row to the next, sorted by the column."""
    order = np.argsort(block[:, 0], kind="stable") if block.shape[1] == 1 else np.lexsort(block.T[::-1])
    return int(np.count_nonzero(np.diff(target[order])))


def _n_wrong(block: Doubles, target: Indices, folds: Indices) -> int:
    from sklearn.tree import DecisionTreeClassifier  # a fit alone needs it, and it takes a while to load

    tree: Any = DecisionTreeClassifier(max_leaf_nodes=MOST_LEAVES, random_state=0)
    from sklearn.model_selection import cross_val_predict  # it takes a while to load

    return int(np.count_nonzero(cross_val_predict(tree, block, target, cv=splits_of(folds)) != target))
