"""Which samples are held out: one rule for every estimate.

Folds are drawn at random within the classes, as scikit-learn's StratifiedKFold with shuffling draws them. Rows that
happen to be equal are separate samples, and so are the units of a sample whose weight is a whole number: a weight of 2
is the row twice. What belongs together (the rows of one patient) is said by `groups`, and then stays on one side.
Groups are drawn at random, too, but not within the classes: where groups are few, folds that all have the same
shares of the classes hide how much groups differ, and estimates are points too good. Plans draw their patients so, too,
each a group of one.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import column_or_1d

from multiform._typing import Array, Bools, Indices

Split = tuple[Indices, Indices]  # the rows that train, the rows that are judged

MANY_COPIES = 0.1  # share of the rows
FEW_COPIES = 10
MANY_VALUES = 20  # distinct ones in a column
SAME = 0.99  # correlation of the ranks of columns that say the same
SOME_COLUMNS = 32
MOST_COUNTED, COMPARED_ROWS = 128, 2_000  # columns, and rows in which they are compared
MANY_UNITS = 20_000
DRAWS = 100
NOT_BY_CHANCE = 20  # times as many pairs of equal rows as chance would have it
CHUNK_CELLS = 16_384  # of rows whose keys are computed at once: a starved machine has room for them


class RepeatedRowsWarning(UserWarning):
    """Many rows are copies of others, so estimates on held-out rows may be too good."""


def drawn_folds(target: Array, n_folds: int, random: np.random.Generator, groups: Array | None = None) -> Indices:
    """The fold of each sample, from 0 on without a gap: `n_folds` of them, or fewer where there are fewer groups.

    Every class is spread over the folds as evenly as whole samples allow, and so is the whole. Of groups, each fold has
    as many; a class that is in two groups or more is in two folds at least, where a hundred draws can do it.

    >>> folds = drawn_folds(np.array([0, 0, 1, 1, 1, 1]), 2, np.random.default_rng(0))
    >>> np.bincount(folds[:2]), np.bincount(folds[2:])
    (array([1, 1]), array([2, 2]))
    """
    n = len(target)
    folds = np.empty(n, dtype=np.intp)
    if groups is None:
        # Sorted by class and at random within it, the samples are dealt like cards.
        at_random = random.random(n).argsort()
        small = target.astype(np.uint16) if target.max() < 2**16 else target  # sorts faster
        folds[at_random[small[at_random].argsort(kind="stable")]] = np.arange(n) % n_folds
        return folds
    codes = np.unique(groups, return_inverse=True)[1].ravel()
    n_groups = int(codes.max()) + 1
    n_folds = min(n_folds, n_groups)
    in_group = np.zeros((n_groups, int(target.max()) + 1), dtype=bool)
    in_group[codes, target] = True
    wanted = np.minimum(in_group.sum(axis=0), 2)
    fewest = np.inf
    for _ in range(DRAWS):
        drawn = random.permutation(np.arange(n_groups) % n_folds)
        in_fold = np.array([in_group[drawn == fold].any(axis=0) for fold in range(n_folds)])
        bare = int(np.sum(in_fold.sum(axis=0) < wanted))  # classes that one fold takes away as a whole
        if bare < fewest:
            fewest, folds = bare, drawn[codes]
        if not bare:
            break
    return folds


def unit_samples(X: Any, target: Array, weight: Array | None) -> tuple[Any, Array, Array | None]:
    """Samples whose weights are numbers of samples (`inputs.in_own_unit` says so), as so many samples.

    So a weight of 2 and a repeated row are the same, when samples are held out, too: else a table of counts, a row for
    each of its few distinct ones, would be judged on rows that training knows with the other label only. Where it would
    cost much, beyond `MANY_UNITS`, a sample is cut into fewer parts, one at least.

    >>> X, target, weight = unit_samples(np.array([[0.0], [1.0]]), np.array([0, 1]), np.array([1.0, 3.0]))
    >>> X.ravel(), target, weight
    (array([0., 1., 1., 1.]), array([0, 1, 1, 1]), array([1., 1., 1., 1.]))
    """
    if weight is None or (whole := np.rint(weight)).max() == 1 or (weight != whole).any():
        return X, target, weight
    most = max(1, MANY_UNITS // len(target))  # parts of a sample
    parts = np.minimum(whole, most).astype(np.intp)
    rows = np.repeat(np.arange(len(target)), parts)
    return _safe_indexing(X, rows), target[rows], (weight / parts)[rows]


def held_out_part(target: Array, size: int, random: np.random.Generator, groups: Array | None = None) -> Indices:
    """About `size` samples drawn at random, whole groups where there are groups; every class keeps at least half."""
    if groups is None:
        held_out = random.choice(len(target), size, replace=False)
    else:
        counts = np.bincount(groups)
        drawn = random.permutation(len(counts))
        taken = drawn[: max(1, int(np.searchsorted(np.cumsum(counts[drawn]), size, side="right")))]
        held_out = np.flatnonzero(np.isin(groups, taken))
    counts = np.bincount(target)
    kept = 2 * np.bincount(target[held_out], minlength=len(counts)) <= counts
    return np.asarray(held_out[kept[target[held_out]]])


def given_splits(cv: Any, X: Any, y: Any, groups: Any = None, used: Bools | None = None) -> list[Split]:
    """The splits of a splitter or an iterable, counted as if the samples that are not `used` were not there."""
    labels = column_or_1d(y)
    from sklearn.model_selection import check_cv  # it takes a while to load

    splits = list(check_cv(cv, labels, classifier=True).split(X, labels, groups))
    if used is None or used.all():
        return splits
    position = np.cumsum(used) - 1
    return [(position[train[used[train]]], position[test[used[test]]]) for train, test in splits]


def splits_of(folds: Indices) -> list[Split]:
    """Each fold judged by what is trained on all others."""
    return [(np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)) for fold in np.unique(folds)]


def group_codes(groups: Any, n: int, name: str, used: Bools | None = None) -> Indices | None:
    """`groups` of a fit of the estimator called `name`, checked, as numbers from 0.

    There is one for each of the n samples, or for each entry of `used`, of which the used ones are returned.
    """
    if groups is None:
        return None
    labels = column_or_1d(groups, dtype=None)
    n_given = n if used is None else len(used)
    if len(labels) != n_given:
        raise ValueError(f"groups of {name} must have an entry for each of the {n_given} samples; got {len(labels)}.")
    if used is not None:
        labels = labels[used]
    missing = labels != labels
    if labels.dtype == object:
        missing = np.array([label is None or label != label for label in labels])
        labels = labels.astype(str)
    if np.any(missing):
        raise ValueError(
            f"groups of {name} must name the group of every sample; {int(np.sum(missing))} of {len(labels)} are "
            "missing. Give samples that belong to nobody else a group of their own."
        )
    codes = np.unique(labels, return_inverse=True)[1].ravel()
    if codes.max() < 1:
        raise ValueError(
            f"groups of {name} must hold at least 2 groups, as whole groups are held out; got 1, {labels[0]}."
        )
    return np.asarray(codes, dtype=np.intp)


# ------------------------------------------------------------------------------------------------- repeated rows


def warn_of_copies(X: Any, name: str, n_given: int | None = None, stacklevel: int = 5) -> None:
    """A warning where far more rows of X are copies of others than chance would have it.

    `n_given` of them were given, the others are whole weights, counted. The `stacklevel` is of the caller of fit, past
    scikit-learn's wrapper and ours.
    """
    n, p = X.shape
    # Copies agree in any choice of columns; most wide tables are done after a few of them, side by side in memory.
    middle = max(0, (p - SOME_COLUMNS) // 2)
    for columns in (slice(middle, middle + SOME_COLUMNS), slice(None, None, max(1, p // SOME_COLUMNS)), slice(None)):
        keys = np.sort(row_keys(X[:, columns]))
        n_copies = int(np.count_nonzero(keys[1:] == keys[:-1]))
        if n_copies < max(MANY_COPIES * n, FEW_COPIES):
            return
    repeats = np.unique(keys, return_counts=True)[1]
    chances = accumulate(chances_of_agreement(_fullest_first(X)), operator.mul)
    if not any(beyond_chance(repeats, n, chance) for chance in chances):
        return
    weights = ""
    if n_given not in (None, n):
        weights = (
            " A weight of 2 counts as the row twice; if weights say how much a sample matters, give each sample a "
            "group of its own."
        )
    warnings.warn(
        f"{n_copies} of the {n} rows given to {name} are copies of others. If a file was pasted twice, remove the "
        f"copies; if rows belong together, as those of one patient do, say so by groups.{weights} Else a model is "
        "judged on rows that it has seen, and its estimates are too good.",
        RepeatedRowsWarning,
        stacklevel=stacklevel,
    )


def _fullest_first(X: Any) -> Iterator[Array]:
    """The columns of X; those of the most entries that are not 0, which tell rows apart, come first."""
    if scipy.sparse.issparse(X):
        X = X.tocsc()
        return (X[:, [j]].toarray().ravel() for j in np.argsort(-np.diff(X.indptr), kind="stable"))
    return (X[:, j] for j in np.argsort(-np.count_nonzero(X, axis=0), kind="stable"))


def chances_of_agreement(columns: Iterable[Array]) -> Iterator[float]:
    """Of each column, the chance that two rows agree in it; the product is that of equal rows, by independence.

    It is sum_v c_v (c_v - 1) / (n (n - 1)), where c_v rows have the value v. Columns of few values, which often depend
    on each other so that whole tables of them repeat rows all the time, and columns that say the same as one before
    have a chance of 1. The first MOST_COUNTED of the others are enough.
    """
    counted: list[Array] = []  # ranks in some of the rows, of mean 0 and norm 1
    for column in columns:
        values, index, counts = np.unique(column, return_inverse=True, return_counts=True)
        if len(values) < MANY_VALUES:
            yield 1.0
            continue
        ranks = index[:: max(1, len(index) // COMPARED_ROWS)].astype(np.float64)
        ranks -= ranks.mean()
        ranks /= max(float(np.linalg.norm(ranks)), 1.0)
        if any(abs(float(ranks @ other)) > SAME for other in counted):
            yield 1.0
            continue
        counted.append(ranks)
        yield float(counts @ (counts - 1)) / (len(index) * (len(index) - 1))
        if len(counted) == MOST_COUNTED:
            return


def beyond_chance(repeats: Array, n: int, chance: float) -> bool:
    """Whether n rows, of which so many are equal each, have far more equal pairs than this chance of one gives."""
    return float(repeats @ (repeats - 1)) > NOT_BY_CHANCE * chance * n * (n - 1)


@lru_cache(maxsize=8)
def _odd_factors(n: int) -> npt.NDArray[np.uint64]:
    """The same random odd numbers every time."""
    return np.random.default_rng(0).integers(0, 2**63, size=n, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


def row_keys(X: Any) -> npt.NDArray[np.uint64]:
    """A number per row that depends on its content only: equal rows have equal keys, others hardly ever."""
    factors = _odd_factors(X.shape[1])
    if scipy.sparse.issparse(X):
        X = X.tocsr().copy()
        X.eliminate_zeros()
        bits = X.data.astype(np.float64).view(np.uint64) * factors[X.indices]
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(bits, dtype=np.uint64)])
        return np.asarray(sums[X.indptr[1:]] - sums[X.indptr[:-1]])
    step = max(1, CHUNK_CELLS // max(1, X.shape[1]))
    chunks = (X[i : i + step].astype(np.float64) for i in range(0, X.shape[0], step))
    # -0.0 + 0.0 = 0.0, so the two zeros have the same bits
    return np.concatenate([(chunk + 0.0).view(np.uint64) @ factors for chunk in chunks])
