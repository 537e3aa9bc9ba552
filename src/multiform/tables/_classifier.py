"""TableClassifier: a classifier of ours behind a table's columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from multiform.loyalty import LoyaltyClassifier
from multiform.state import fitted_state, require, require_array, require_names
from multiform.tables._columns import Category, Code, Column, Date, Dropped, Encoded, Number, Text
from multiform.tables._errors import TableError, polars
from multiform.tables._frames import as_frame
from multiform.tables._roles import MOST_CATEGORIES, MOST_WORDS, decide
from multiform.tables._target import labels_of, refuse_measurement, whole_numbers

__all__ = ["Surprise", "TableClassifier"]

Array = npt.NDArray[Any]
WIDE = 200  # from so many columns on, a whole number of few values is no code but a pixel, or the like
RARE = 5  # a class of fewer rows cannot be in every fold of an estimate


COLUMNS: dict[str, Any] = {
    "dropped": Dropped,
    "number": Number,
    "code": Code,
    "category": Category,
    "date": Date,
    "text": Text,
}
FITTED = ("columns_", "target_", "classes_", "estimator_", "training_", "n_features_in_", "feature_names_in_")


class Surprise(NamedTuple):
    """Cells of a column that are not as the training data were."""

    column: str
    kind: str  # "missing", "unseen" or "unreadable"
    cells: int


def _inner_has(method: str) -> Any:
    """The method exists where the classifier behind the columns has it."""

    def check(self: TableClassifier) -> bool:
        return hasattr(getattr(self, "estimator_", None) or self._inner(), method)

    return available_if(check)


class TableClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier for tables as they come: text, categories, dates, gaps, identifiers.

    What becomes of each column is decided on the training table (`multiform.tables.decide` says how) and kept in
    `columns_`. A value that the training table does not have, a gap or a cell that cannot be read never stops a
    prediction; `surprises` counts them.

    Parameters
    ----------
    estimator : classifier, default=None
        What learns from the numbers that the columns become. None means :class:`~multiform.LoyaltyClassifier`.
    drop, numbers, categories, dates, texts, identifiers : sequence of str, default=()
        Columns of which you know better what they are. Identifiers are left out.
    most_categories, most_words : int, default=50, 200
        Columns of numbers that a category and a text become at most.

    Attributes
    ----------
    columns_ : list of Column
        What becomes of each column of the table.
    classes_ : ndarray of shape (m,)
    target_ : str or None
        The name of the target column.
    estimator_ : classifier
    training_ : dict
        Rows of the training table, rows without a label, rows of each class, rare classes.
    n_features_in_ : int
        Columns of the table.
    feature_names_in_ : ndarray of str
        Their names.

    Examples
    --------
    >>> import polars as pl
    >>> from multiform import QMSClassifier
    >>> from multiform.tables import TableClassifier
    >>> table = pl.DataFrame({"id": range(40), "height": [1.5, 1.9] * 20, "kind": ["a", None, None, "a"] * 10,
    ...                       "tall": ["no", "yes"] * 20})
    >>> model = TableClassifier(QMSClassifier(random_state=0)).fit(table, "tall")
    >>> [(column.name, column.role) for column in model.columns_]
    [('id', 'identifier'), ('height', 'number'), ('kind', 'category')]
    >>> model.predict(pl.DataFrame({"kind": ["new"], "height": ["1.8"], "id": [99]}))
    array(['yes'], dtype='<U3')
    >>> model.surprises(pl.DataFrame({"kind": ["new"], "height": ["1.8"], "id": [99]}))
    [Surprise(column='kind', kind='unseen', cells=1)]
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        drop: Sequence[str] = (),
        numbers: Sequence[str] = (),
        categories: Sequence[str] = (),
        dates: Sequence[str] = (),
        texts: Sequence[str] = (),
        identifiers: Sequence[str] = (),
        most_categories: int = MOST_CATEGORIES,
        most_words: int = MOST_WORDS,
    ) -> None:
        self.estimator = estimator
        self.drop = drop
        self.numbers = numbers
        self.categories = categories
        self.dates = dates
        self.texts = texts
        self.identifiers = identifiers
        self.most_categories = most_categories
        self.most_words = most_words

    # ------------------------------------------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any) -> TableClassifier:
        """Decide what the columns are, and train.

        Parameters
        ----------
        X : polars or pandas frame, or mapping of columns
        y : str or array-like
            The name of the target column of X, or the labels. Rows without a label are left out.
        """
        frame = as_frame(X)
        target = y if isinstance(y, str) else None
        if target is not None and target not in frame.columns:
            raise TableError(f"There is no column {target!r} to predict; the columns are {_listed(frame.columns)}.")
        pl = polars()
        label_series = frame[target] if target is not None else pl.Series("y", np.asarray(y).tolist(), strict=False)
        if len(label_series) != len(frame):
            raise TableError(f"The table has {len(frame)} rows, and there are {len(label_series)} labels.")
        whole = whole_numbers(label_series)
        labels, present = labels_of(label_series, whole)
        refuse_measurement(label_series, labels)
        features = frame.drop(target) if target is not None else frame
        features = features.filter(pl.Series(present))
        try:
            columns = self._decide(features)
        except TableError as error:
            if error.row is None:
                raise
            row = int(np.flatnonzero(present)[error.row])  # counted with the rows that have no label
            raise TableError(error.sentence, column=error.column, row=row) from error
        matrix = _matrix(self._encoded(columns, features))
        if not matrix.shape[1]:
            left_out = "; ".join(f"{column.name!r} is taken as {column.role} ({column.why})" for column in columns[:5])
            raise TableError(
                f"No column of the table can be learnt from: {left_out or 'it has no other than the target'}. Say what "
                "a column is (--as-number, --as-category, --as-text), or give others."
            )
        estimator = self._inner().fit(matrix, labels)
        counts = dict(zip(*(part.tolist() for part in np.unique(labels, return_counts=True)), strict=True))
        self.columns_ = columns
        self.target_ = target
        self.classes_ = np.asarray(estimator.classes_)
        self.estimator_ = estimator
        self.training_ = {
            "rows": len(labels),
            "rows_without_label": int((~present).sum()),
            "class_counts": {str(label): count for label, count in counts.items()},
            "rare_classes": [str(label) for label, count in counts.items() if count < RARE],
        }
        self.n_features_in_ = len(columns)
        self.feature_names_in_ = np.array([column.name for column in columns], dtype=object)
        self._whole_labels = whole
        return self

    def _inner(self) -> Any:
        return LoyaltyClassifier() if self.estimator is None else clone(self.estimator)

    def _decide(self, features: Any) -> list[Column]:
        asked: dict[str, str] = {}
        roles = {
            "drop": self.drop,
            "number": self.numbers,
            "category": self.categories,
            "date": self.dates,
            "text": self.texts,
            "identifier": self.identifiers,
        }
        for role, names in roles.items():
            for name in names:
                if name not in features.columns:
                    raise TableError(
                        f"There is no column {name!r} to {'drop' if role == 'drop' else f'take as {role}'}; the "
                        f"columns are {_listed(features.columns)}."
                    )
                if name in asked:
                    raise TableError(f"Column {name!r} is named twice, as {asked[name]} and as {role}; name it once.")
                asked[name] = role
        limits = {"most_categories": self.most_categories, "most_words": self.most_words}
        codes = features.width <= WIDE
        return [decide(series, asked.get(series.name), **limits, codes=codes) for series in features.get_columns()]

    # --------------------------------------------------------------------------------------------- predicting

    def transform(self, X: Any) -> npt.NDArray[np.float64]:
        """The numbers that the columns become: shape (n, number of `encoded_names`)."""
        return _matrix(self._checked(X))

    def typed(self, X: Any) -> Any:
        """The table as the model reads it, a polars frame: numbers and dates as such, all other columns as text."""
        check_is_fitted(self, "columns_")
        frame = as_frame(X)
        known = [column for column in self.columns_ if column.name in frame.columns]
        return polars().DataFrame([column.typed(frame[column.name]) for column in known])

    def encoded_names(self) -> list[str]:
        """The names of the columns of `transform`."""
        check_is_fitted(self, "columns_")
        return [name for column in self.columns_ for name in column.feature_names()]

    def surprises(self, X: Any) -> list[Surprise]:
        """What in a table is not as in the training table: gaps, values never seen, cells that cannot be read."""
        return self._surprises(self._checked(X))

    def labels(self, y: Any) -> tuple[Array, npt.NDArray[np.bool_]]:
        """The labels of a target column as the training table had them, and which rows have one."""
        check_is_fitted(self, "columns_")
        return labels_of(y, self._whole_labels)

    def predict(self, X: Any) -> Array:
        """The classifier's answers."""
        matrix = self.transform(X)
        return np.asarray(self.estimator_.predict(matrix))

    @_inner_has("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """The classifier's chances: shape (n, m)."""
        matrix = self.transform(X)
        return np.asarray(self.estimator_.predict_proba(matrix))

    @_inner_has("predict_loyalty")  # type: ignore[untyped-decorator]
    def predict_loyalty(self, X: Any) -> Array:
        """The loyalty type of each answer."""
        matrix = self.transform(X)
        return np.asarray(self.estimator_.predict_loyalty(matrix))

    @_inner_has("loyalty_score")  # type: ignore[untyped-decorator]
    def loyalty_score(self, X: Any) -> Array:
        """The estimated chance that the answer is right."""
        matrix = self.transform(X)
        return np.asarray(self.estimator_.loyalty_score(matrix))

    @_inner_has("defer")  # type: ignore[untyped-decorator]
    def defer(self, X: Any) -> Array:
        """Which answers the promise does not cover."""
        matrix = self.transform(X)
        return np.asarray(self.estimator_.defer(matrix))

    def answers(self, X: Any, *, chances: bool = False) -> tuple[Any, list[Surprise]]:
        """Everything that can be said of each row, and what was odd about the table.

        Parameters
        ----------
        X : table
        chances : bool, default=False
            Whether to give the chance of every class, too.

        Returns
        -------
        answers : polars DataFrame
            ``label``; ``chance``, the estimated chance that it is right; ``loyalty``, where the classifier knows it;
            ``accepted``, where a promise is made; ``chance of LABEL`` for each class, with `chances`.
        surprises : list of Surprise
        """
        encoded = self._checked(X)
        matrix = _matrix(encoded)
        columns = _answers(self.estimator_, matrix)
        if chances:
            each = self.estimator_.predict_proba(matrix)
            columns |= {f"chance of {label}": each[:, k] for k, label in enumerate(self.estimator_.classes_)}
        return polars().DataFrame(columns), self._surprises(encoded)

    def _checked(self, X: Any) -> list[Encoded]:
        check_is_fitted(self, "columns_")
        return self._encoded(self.columns_, as_frame(X))

    @staticmethod
    def _encoded(columns: list[Column], frame: Any) -> list[Encoded]:
        lacking = [column.name for column in columns if column.feature_names() and column.name not in frame.columns]
        if lacking:
            raise TableError(
                f"The table has no column {lacking[0]!r}, which the model needs; it has {_listed(frame.columns)}."
            )
        return [
            column.encode(frame[column.name]) if column.feature_names() else Encoded(np.empty((len(frame), 0)), 0, 0, 0)
            for column in columns
        ]

    def _surprises(self, encoded: list[Encoded]) -> list[Surprise]:
        found = []
        for column, part in zip(self.columns_, encoded, strict=True):
            had_gaps = getattr(getattr(column, "number", column), "has_missing", True)
            counts = {"missing": 0 if had_gaps else part.n_missing, "unseen": part.n_unseen}
            counts["unreadable"] = part.n_unreadable
            if getattr(column, "has_other", False):
                counts["unseen"] = 0  # rare values of the training table are "other" as well
            found += [Surprise(column.name, kind, count) for kind, count in counts.items() if count]
        return found

    # -------------------------------------------------------------------------------------------- model files

    def _get_state(self) -> dict[str, Any]:
        state = fitted_state(self, FITTED)
        if "columns_" not in state:
            return {}
        columns = [_column_state(column) for column in self.columns_]
        return state | {"columns_": columns, "whole_labels": self._whole_labels}

    def _set_state(self, state: dict[str, Any]) -> None:
        """The columns become what the estimator reads."""
        require_names(state, type(self).__name__, [*FITTED, "whole_labels"])
        columns, estimator = [_column(one) for one in state["columns_"]], state["estimator_"]
        require(np.array_equal(state["classes_"], estimator.classes_), "the estimator has other classes")
        names = [column.name for column in columns]
        require(
            len(set(names)) == len(names) == state["n_features_in_"] and list(state["feature_names_in_"]) == names,
            "the columns' names are wrong",
        )
        n_features = sum(len(column.feature_names()) for column in columns)
        require(n_features == estimator.n_features_in_, "the columns do not become what the estimator reads")
        require(isinstance(state["training_"], dict), "training_ is wrong")
        require(state["target_"] is None or isinstance(state["target_"], str), "target_ is not a name")
        require(isinstance(state["whole_labels"], bool), "whole_labels is neither true nor false")
        self.__dict__.update({name: state[name] for name in FITTED} | {"columns_": columns})
        self._whole_labels = state["whole_labels"]


def _matrix(encoded: list[Encoded]) -> npt.NDArray[np.float64]:
    return np.ascontiguousarray(np.hstack([part.values for part in encoded]))


def _answers(estimator: Any, matrix: Array) -> dict[str, Any]:
    """Label, chance, loyalty and accepted, as far as the classifier knows them."""
    if hasattr(estimator, "assess"):
        label, loyalty, score = estimator.assess(matrix)
        return {"label": label, "chance": score, "loyalty": loyalty}
    if hasattr(estimator, "defer"):
        inner = _answers(estimator.estimator_, matrix)
        return {**inner, "label": estimator.predict(matrix), "accepted": ~estimator.defer(matrix)}
    label = estimator.predict(matrix)
    return {"label": label, "chance": estimator.predict_proba(matrix).max(axis=1)}


def _listed(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(map(repr, names[:most]))
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _column_state(column: Any) -> dict[str, Any]:
    state = {"is": next(name for name, cls in COLUMNS.items() if type(column) is cls)}
    state |= {field.name: getattr(column, field.name) for field in fields(column)}
    return state | ({"number": _column_state(column.number)} if isinstance(column, Code) else {})


def _column(state: dict[str, Any]) -> Any:
    """A column can say what it becomes."""
    parts = {name: value for name, value in state.items() if name != "is"}
    if state["is"] == "code":
        require(parts["number"]["is"] == "number", "a code is not a number")
        parts["number"] = _column(parts["number"])
    part = COLUMNS[state["is"]](**parts)
    require(isinstance(part.name, str) and isinstance(part.why, str), "a column has no name")
    if isinstance(part, Text):
        require_array(part.weights, (len(part.words),), "f", "the weights of words")
    values = getattr(part, "values", ())
    require(isinstance(values, tuple) and len(set(values)) == len(values), "values are not distinct")
    for name in ("has_missing", "has_other", "has_time", "decimal_comma"):
        require(isinstance(getattr(part, name, False), bool), f"{name} is neither true nor false")
    median = getattr(part, "median", 0.0)
    require(isinstance(median, float) and np.isfinite(median), "a median is not a number")
    require(all(isinstance(name, str) for name in part.feature_names()), "a column does not say what it becomes")
    return part
