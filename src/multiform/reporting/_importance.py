"""Which columns matter: what is lost without one, and what each contributes to the decisions.

*Permutation importance* (Breiman, 2001; scikit-learn computes it) asks any model: the cells of one column are shuffled
among the rows, and what the answers lose by that is what the column is worth. It is counted in accuracy, and in the
chance that the true class is given, which falls before an answer changes. Rows are parted into up to 20 blocks; the
interval is Student's over the blocks, so it heeds both which rows there were and how they were shuffled.

*Exact contributions* are of separators alone: ``f_i - f_j`` of the two nearest classes is a sum over columns, from an
average row to this one (`multiform.geometry.feature_contributions`). A column's share is that of the mean size of its
contributions. It says what the model looks at, permutation what it would lose; of two columns that say the same, the
model looks at both and loses neither.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.stats import ttest_1samp
from sklearn.inspection import permutation_importance

from multiform import progress
from multiform._typing import Array, Doubles, Indices
from multiform.geometry import feature_contributions, separators_behind
from multiform.metrics import Interval
from multiform.metrics.labels import positions
from multiform.reporting._answers import layers

N_REPEATS = 5
N_BLOCKS = 20
LEAST_ROWS = 40
MOST_ROWS = 2_000
MOST_ANSWERS = 100_000  # rows that the model answers in all, a few seconds
MOST_COLUMNS = 100


class Importance(NamedTuple):
    """Of one column: what the accuracy and the chance of the true class lose without it, as shares; the share of the
    exact contributions. None is what the model does not give.
    """

    column: str
    accuracy: Interval
    chance: Interval | None
    contribution: float | None


class Importances(NamedTuple):
    """Of all columns that the model reads, the most important first; by how many rows, of how many."""

    columns: list[Importance]
    n_rows: int
    n_of: int
    n_left_out: int

    @property
    def how(self) -> str:
        """In words."""
        drawn = "all" if self.n_rows == self.n_of else f"{self.n_rows:,} rows drawn at random of the"
        left_out = f" {self.n_left_out} further columns were not shuffled." if self.n_left_out else ""
        return f"Each column was shuffled {N_REPEATS} times among {drawn} {self.n_of:,} rows.{left_out}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""

        def plain(found: Interval | None) -> dict[str, float] | None:
            return None if found is None else found._asdict()

        told = [
            {
                "column": one.column,
                "accuracy_lost": plain(one.accuracy),
                "chance_lost": plain(one.chance),
                "exact_contribution": one.contribution,
            }
            for one in self.columns
        ]
        return {"columns": told, "rows": self.n_rows, "of": self.n_of, "columns_left_out": self.n_left_out}


def importances(model: Any, X: Any, y: Any, *, random_state: int = 0) -> Importances | None:
    """What each column is worth to a fitted model; None of fewer than 40 rows, or of a sparse matrix.

    Parameters
    ----------
    model : fitted classifier
        Any; exact contributions are given where it decides by one set of separators.
    X : frame or array of shape (n_samples, n_features)
        Samples that it was not trained on. Of many, up to 2,000 are drawn, fewer where there are many columns.
    y : array-like of shape (n_samples,)
        Their labels.
    random_state : int, default=0
        Seed of what is drawn and shuffled.

    Examples
    --------
    >>> import numpy as np
    >>> from multiform import QMSClassifier
    >>> from multiform.reporting import importances
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> model = QMSClassifier(random_state=0).fit(X[:200], X[:200, 0] > 0)
    >>> found = importances(model, X[200:], X[200:, 0] > 0)
    >>> [(one.column, one.accuracy.low > 0.3) for one in found.columns]
    [('x0', True), ('x1', False)]
    """
    labels, n = np.asarray(y), len(y)
    if scipy.sparse.issparse(X) or n < LEAST_ROWS:
        return None
    X = model.typed(X) if hasattr(model, "typed") else X if hasattr(X, "columns") else np.asarray(X)
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else [f"x{k}" for k in range(X.shape[1])]
    used = {column.name for column in getattr(model, "columns_", []) if column.width}
    asked = [k for k, name in enumerate(names) if not used or name in used]
    random = np.random.default_rng(random_state)
    n_rows = max(LEAST_ROWS, min(n, MOST_ROWS, MOST_ANSWERS // (N_REPEATS * max(1, min(len(asked), MOST_COLUMNS)))))
    drawn = np.sort(random.choice(n, n_rows, replace=False)) if n_rows < n else np.arange(n)
    X, labels = _rows(X, drawn), labels[drawn]
    shares = _contributions(model, X, names)
    if len(asked) > MOST_COLUMNS:  # those that the model looks at most, or the first
        asked = sorted(asked, key=lambda k: -(shares or {}).get(names[k], 0.0))[:MOST_COLUMNS]
    n_left_out = sum(1 for name in names if not used or name in used) - len(asked)
    answered = _Answered(model, X, [names[k] for k in asked], asked, labels, random)
    places = np.tile(np.arange(n_rows)[:, None], len(asked))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of cells unlike training, which a shuffled row does not have
        found = permutation_importance(
            answered, places, labels, scoring=answered.score, n_repeats=N_REPEATS, random_state=random_state
        )
    columns = []
    for k, place in enumerate(asked):
        lost = {
            what: np.array([found[f"{what} {block}"].importances[k].mean() for block in range(answered.n_blocks)])
            for what in answered.told
        }
        chance = _interval(lost["chance"]) if "chance" in lost else None
        contribution = None if shares is None else shares.get(names[place], 0.0)
        columns.append(Importance(names[place], _interval(lost["right"]), chance, contribution))
    columns.sort(key=lambda one: -(one.accuracy if one.chance is None else one.chance).value)
    return Importances(columns, n_rows, n, n_left_out)


class _Answered:
    """The model, asked about rows whose cells are named by the rows that they come from, which are shuffled."""

    def __init__(self, model: Any, X: Any, names: list[str], at: list[int], labels: Array, random: Any) -> None:
        self.model, self.X, self.names, self.at, self.labels = model, X, names, at, labels
        self.own = positions(labels, np.asarray(model.classes_))
        self.told = ("right", "chance") if hasattr(model, "predict_proba") else ("right",)
        self.n_blocks = min(N_BLOCKS, len(labels) // 2)
        self.block = random.permutation(len(labels)) % self.n_blocks
        self.n_asked = 0

    def fit(self, X: Any, y: Any) -> None:
        """Nothing: scikit-learn asks that there is one."""

    def score(self, estimator: Any, places: Indices, y: Any) -> dict[str, float]:
        """In each block the share of right answers, and the mean chance of the true class."""
        moved = np.flatnonzero((places != np.arange(len(places))[:, None]).any(axis=0))
        X = _with_columns(self.X, {self.names[k]: (self.at[k], places[:, k]) for k in moved})
        values = {"right": np.asarray(self.model.predict(X)) == self.labels}
        self.n_asked += 1
        every = 1 + N_REPEATS * len(self.names)
        progress.tell(self.n_asked / every, f"which columns matter, {self.n_asked} of {every} answers")
        if "chance" in self.told:
            chances = np.asarray(self.model.predict_proba(X))
            values["chance"] = np.where(self.own >= 0, chances[np.arange(len(X)), self.own], 0.0)
        counts = np.bincount(self.block)
        return {
            f"{what} {block}": mean
            for what, value in values.items()
            for block, mean in enumerate(np.bincount(self.block, value) / counts)
        }


def _contributions(model: Any, X: Any, names: list[str]) -> dict[str, float] | None:
    """Each column's share of the exact contributions, where the model decides by one set of separators."""
    inner, seen = layers(model, X)[-1]
    found = separators_behind(inner)
    if found is None:
        return None
    separators, center = found
    matrix = np.asarray(seen, dtype=np.float64)
    values = feature_contributions(separators, np.where(np.isnan(matrix), center, matrix), baseline=center).values
    columns = [column for column in getattr(model, "columns_", []) if column.width]
    owners = [column.name for column in columns for _ in range(column.width)] or names
    sizes: dict[str, float] = {}
    for name in dict.fromkeys(owners):
        own = [k for k, owner in enumerate(owners) if owner == name]
        sizes[name] = float(np.abs(values[:, own].sum(axis=1)).mean())
    total = sum(sizes.values())
    return {name: size / total if total else 0.0 for name, size in sizes.items()}


def _interval(blocks: Doubles) -> Interval:
    value = float(blocks.mean())
    if np.ptp(blocks) == 0:
        return Interval(value, value, value)
    low, high = ttest_1samp(blocks, 0.0).confidence_interval(0.95)
    return Interval(value, float(low), float(high))


def _rows(X: Any, places: Indices) -> Any:
    return X.iloc[places] if hasattr(X, "iloc") else X[places]


def _with_columns(X: Any, moved: dict[str, tuple[int, Indices]]) -> Any:
    """A table with the cells of some columns taken from other rows."""
    if hasattr(X, "iloc"):
        return X.assign(**{name: X.iloc[:, at].array.take(rows) for name, (at, rows) in moved.items()})
    if hasattr(X, "with_columns"):
        return X.with_columns([X[name].gather(rows) for name, (_, rows) in moved.items()])
    found = X.copy()
    for at, rows in moved.values():
        found[:, at] = X[rows, at]
    return found
