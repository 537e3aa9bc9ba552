"""How well, as numbers: accuracies with their intervals, and simple classifiers to stand beside the model.

These are the majority class, logistic regression and a random forest, on the columns of X, whatever X is.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler
from sklearn.utils import _safe_indexing

from multiform import progress
from multiform._typing import Array, Doubles, Indices
from multiform.columns import columns_of, typed
from multiform.metrics import Interval, aurc, proportion

MOST_ROWS = 3_000  # enough to know a baseline's accuracy to a point or two, and quick
MOST_TRAINING_ROWS = 10_000
MOST_TRAINING_CELLS = 2_000_000  # half a minute for a forest and a logistic regression
LEAST_ROWS = 20
BASELINE_FOLDS = 5


def difference(right: Array, other: Array) -> Interval:
    """The mean difference of two accuracies on the same samples, with the normal interval of paired differences."""
    gains = right.astype(float) - other.astype(float)
    spread = 1.96 * gains.std() / np.sqrt(len(gains))
    return Interval(float(gains.mean()), float(gains.mean() - spread), float(gains.mean() + spread))


class Told(NamedTuple):
    """The answers of the model or of a baseline, with its own classes in the order of the chances."""

    name: str
    labels: Array
    chances: Array | None
    classes: Array


def scores(told: Told, truth: Array, trust: Array | None) -> dict[str, Any]:
    """One row of the table of results; labels are whole numbers."""
    right = told.labels == truth
    recalls = [right[truth == label].mean() for label in np.unique(truth)]
    log_loss = None
    if told.chances is not None and np.isin(truth, told.classes).all():
        # The mean of minus the logarithm of the true class's chance; no chance is below 1e-6.
        own = told.chances[np.arange(len(truth)), np.searchsorted(told.classes, truth)]
        log_loss = float(-np.log(np.maximum(own, 1e-6)).mean())
    return {
        "name": told.name,
        "accuracy": proportion(int(right.sum()), len(truth)),
        "balanced_accuracy": float(np.mean(recalls)),
        "macro_f1": float(f1_score(truth, told.labels, average="macro", zero_division=0.0)),
        "log_loss": log_loss,
        "aurc": None if trust is None or np.isnan(trust).any() else aurc(truth, told.labels, trust),
    }


def read_columns(X: Any) -> dict[str, Array] | None:
    """Numbers with NaN, dates with NaT, text with None, by name; None of a sparse matrix, whose cells are mostly 0."""
    return None if scipy.sparse.issparse(X) else {name: typed(column) for name, column in columns_of(X).items()}


def kind_of(column: Array) -> str:
    """ "number", "date" or "text"."""
    return {"f": "number", "M": "date"}.get(column.dtype.kind, "text")


def as_number(column: Array) -> Doubles:
    """A number or a date as a number, of days since 1970."""
    if column.dtype.kind == "f":
        return column
    days = column.astype("datetime64[s]").astype(np.float64) / 86_400
    return np.where(np.isnat(column), np.nan, days)


def compare(X: Any, y: Array, X_train: Any, y_train: Any, seed: int) -> tuple[list[Told], Indices, str, str]:
    """Train the baselines on the training data where they are given, else by cross-validation on X, y itself.

    Returns their answers, the samples that they answered, and how they were trained: in words, and in a few.
    """
    rng = np.random.default_rng(seed)
    if X_train is not None:
        rows, train = _some(len(y), MOST_ROWS, rng), _some(len(y_train), _most_training_rows(X), rng)
        all_seen = len(train) == len(y_train)
        seen = "the training data" if all_seen else f"{len(train):,} rows of the training data"
        how = f"Baselines were trained on {seen} and judged on{_which(rows, y)} the rows of this report."
        matrix, n_numbers = _numbers_and_words(_safe_indexing(X_train, train))
        asked, _ = _numbers_and_words(_safe_indexing(X, rows))
        known = np.asarray(y_train)[train]
        models = _models(matrix, n_numbers, seed)
        found = []
        for name, model in models.items():
            found.append(_answered(name, model, matrix, asked, known))
            progress.tell(len(found) / len(models), f"{len(found)} of {len(models)} baselines")
        return found, rows, how, "" if all_seen else f"trained on {len(train):,} rows"
    if len(y) < LEAST_ROWS:
        nothing = np.zeros((len(y), 1))
        majority = _answered("majority class", DummyClassifier(strategy="prior"), nothing, nothing, y)
        how = f"With fewer than {LEAST_ROWS} rows, only the majority class is a fair baseline."
        return [majority], np.arange(len(y)), how, ""
    rows = _some(len(y), min(MOST_ROWS, _most_training_rows(X)), rng)
    how = (
        f"Baselines were trained and judged by {BASELINE_FOLDS}-fold cross-validation within{_which(rows, y)} the "
        "rows of this report, as no training data were given. The model was trained elsewhere, perhaps on more data."
    )
    matrix, n_numbers = _numbers_and_words(_safe_indexing(X, rows))
    models = _models(matrix, n_numbers, seed)
    found = []
    for name, model in models.items():
        found.append(_cross_fitted(name, model, matrix, y[rows]))
        progress.tell(len(found) / len(models), f"{len(found)} of {len(models)} baselines")
    return found, rows, how, "cross-validated on these rows"


def _most_training_rows(X: Any) -> int:
    width = X.shape[1] if hasattr(X, "shape") else len(X)
    return max(500, min(MOST_TRAINING_ROWS, MOST_TRAINING_CELLS // max(1, width)))


def _which(rows: Array, y: Array) -> str:
    return " all of" if len(rows) == len(y) else f" {len(rows):,} rows drawn at random from"


def _some(n: int, most: int, rng: np.random.Generator) -> Indices:
    return np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))


def _numbers_and_words(X: Any) -> tuple[Any, int]:
    """A matrix of the numbers and then, as objects, the texts, and how many are numbers; a sparse one as it is."""
    columns = read_columns(X)
    if columns is None:
        return scipy.sparse.csr_matrix(X), X.shape[1]
    numbers = [as_number(column) for column in columns.values() if kind_of(column) != "text"]
    texts = [column for column in columns.values() if kind_of(column) == "text"]
    words = [np.where(column == None, "", column) for column in texts]  # noqa: E711 - cell by cell
    return np.column_stack([*numbers, *words]), len(numbers)


def _models(matrix: Any, n_numbers: int, seed: int) -> dict[str, Any]:
    """Name -> classifier, each with the preparation of columns that it needs."""
    prepared: Any = MaxAbsScaler()
    if not scipy.sparse.issparse(matrix):
        numbers = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
        categories = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=20)
        words = np.arange(n_numbers, matrix.shape[1])
        prepared = ColumnTransformer([("numbers", numbers, np.arange(n_numbers)), ("texts", categories, words)])
    return {
        "majority class": DummyClassifier(strategy="prior"),
        "logistic regression": make_pipeline(prepared, LogisticRegression(max_iter=200)),
        "random forest": make_pipeline(prepared, RandomForestClassifier(random_state=seed)),
    }


def _answered(name: str, model: Any, train: Any, test: Any, known: Array) -> Told:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a baseline that stops early is still a baseline
        model.fit(train, known)
    return Told(name, model.predict(test), model.predict_proba(test), model.classes_)


def _cross_fitted(name: str, model: Any, matrix: Any, y: Array) -> Told:
    classes, counts = np.unique(y, return_counts=True)
    # A class with fewer samples cannot be in every fold.
    fair = StratifiedKFold if counts.min() >= BASELINE_FOLDS else KFold
    labels, chances = np.empty_like(y), np.zeros((len(y), len(classes)))
    for train, test in fair(BASELINE_FOLDS, shuffle=True, random_state=0).split(y, y):
        part = model if len(np.unique(y[train])) > 1 else DummyClassifier(strategy="prior")
        found = _answered(name, part, matrix[train], matrix[test], y[train])
        labels[test] = found.labels
        chances[np.ix_(test, np.searchsorted(classes, found.classes))] = found.chances
    return Told(name, labels, chances, classes)
