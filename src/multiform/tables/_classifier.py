"""TableClassifier: a classifier of ours behind a table's columns, and the labels of the column that it predicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context, clone
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from multiform._typing import Array, Bools, Doubles
from multiform.columns import (
    MOST_CATEGORIES,
    MOST_CODED,
    MOST_WORDS,
    Column,
    Seen,
    TableError,
    as_frame,
    as_numbers,
    as_text,
    column_from,
    decide,
    polars,
)
from multiform.loyalty import LoyaltyClassifier
from multiform.state import all_or_nothing, fitted_state, require, require_names
from multiform.tables._familiarity import Familiarity, Unknown, learn, listed, read

ASKED = ("drop", "numbers", "categories", "dates", "texts", "identifiers")  # parameters that say what a column is
MOST_LABELS = 1000  # distinct ones that are classes and not measurements
FEW_LABELS = 50  # fewer distinct values than this are classes, however few the rows
RARE = 5  # a class of fewer rows cannot be in every fold of an estimate
FITTED = ("columns_", "target_", "estimator_", "training_")  # what a model file holds
FOLLOWING = ("seen_", "classes_", "n_features_in_", "feature_names_in_")  # and what follows from it


def _asked(method: str, what: str) -> Any:
    """A method that asks the classifier behind the columns, and exists where that has it."""

    def known(self: TableClassifier) -> bool:
        return hasattr(getattr(self, "estimator_", None) or self._inner(), method)

    def ask(self: TableClassifier, X: Any) -> Array:
        matrix, found = self._read(X)
        found.warn(stacklevel=2)
        answers = np.asarray(getattr(self.estimator_, method)(matrix))
        return Unknown(self.estimator_, matrix, found, self.columns_).correct(method, answers)

    ask.__name__, ask.__doc__ = method, what
    return available_if(known)(ask)


class TableClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier for tables as they come: text, categories, dates, gaps, identifiers.

    What becomes of each column is decided on the training table (`multiform.tables.decide` says how) and kept in
    `columns_`. What each column looked like is kept, too: a number far outside it, a category that it did not have, a
    gap where there was none or a cell that cannot be read never stops a prediction, but is not used. The row is
    answered as if the cell were unknown: it is never strong, and no promise covers it. An `UnfamiliarWarning` says so,
    and `familiarity` lists the cells, and the columns that have shifted as a whole.

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
    seen_ : dict
        What each column that is used looked like in training, a :class:`~multiform.columns.Seen`.
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
    >>> model.predict(pl.DataFrame({"kind": ["a"], "height": ["1.9"], "id": [99]}))
    array(['yes'], dtype='<U3')
    >>> model.familiarity(pl.DataFrame({"kind": ["new"], "height": ["1.9"], "id": [99]})).notes().to_list()
    ['kind new (training: a or missing)']
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        **{parameter: ["array-like"] for parameter in ASKED},
        "most_categories": [Interval(Integral, 1, None, closed="left")],
        "most_words": [Interval(Integral, 1, None, closed="left")],
    }

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

    @_fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
    @all_or_nothing
    def fit(self, X: Any, y: Any) -> TableClassifier:
        """Decide what the columns are, and train.

        Parameters
        ----------
        X : polars or pandas frame, or mapping of columns
        y : str or array-like
            The name of the target column of X, or the labels. Rows without a label are left out.
        """
        return self._fit(X, y)

    def _fit(self, X: Any, y: Any, choose: Callable[[Doubles, Array], Any] | None = None) -> TableClassifier:
        pl, features, target = polars(), as_frame(X), None
        if isinstance(y, str):
            target = y
            if target not in features.columns:
                known = listed(features.columns)
                raise TableError(f"There is no column {target!r} to predict; the columns are {known}.")
            target_series, features = features[target], features.drop(target)
        else:
            target_series = pl.Series("y", np.asarray(y).tolist(), strict=False)
            if len(target_series) != len(features):
                raise TableError(f"The table has {len(features)} rows, and there are {len(target_series)} labels.")
        labels, present, whole = learn_labels(target_series)
        features = features.filter(pl.Series(present))
        try:
            columns = self._decide(features)
        except TableError as error:
            if error.row is None:
                raise
            row = int(np.flatnonzero(present)[error.row])  # counted with the rows that have no label
            raise TableError(error.sentence, column=error.column, row=row) from error
        if not any(column.width for column in columns):
            left_out = "; ".join(f"{column.name!r} is taken as {column.role} ({column.why})" for column in columns[:5])
            raise TableError(
                f"No column of the table can be learnt from: {left_out or 'it has no other than the target'}. Say what "
                "a column is (--as-number, --as-category, --as-text), or give others."
            )
        matrix, seen = learn(columns, features)
        if choose is not None:
            self.estimator = choose(matrix, labels)
        estimator = self._inner().fit(matrix, labels)
        counts = dict(zip(*(part.tolist() for part in np.unique(labels, return_counts=True)), strict=True))
        training = {
            "rows": len(labels),
            "rows_without_label": int((~present).sum()),
            "class_counts": {str(label): count for label, count in counts.items()},
            "rare_classes": [str(label) for label, count in counts.items() if count < RARE],
        }
        self._set_fitted(columns, seen, target, estimator, training, whole)
        return self

    def _set_fitted(
        self,
        columns: list[Column],
        seen: dict[str, Seen],
        target: str | None,
        estimator: Any,
        training: dict[str, Any],
        whole: bool,
    ) -> None:
        self.seen_ = seen
        self.columns_, self.target_, self.estimator_, self.training_ = columns, target, estimator, training
        self._whole_labels = whole
        self.classes_ = np.asarray(estimator.classes_)
        self.n_features_in_ = len(columns)
        self.feature_names_in_ = np.array([column.name for column in columns], dtype=object)

    def _inner(self) -> Any:
        return LoyaltyClassifier() if self.estimator is None else clone(self.estimator)

    def _decide(self, features: Any) -> list[Column]:
        asked: dict[str, str] = {}
        for parameter, role in zip(ASKED, ("drop", "number", "category", "date", "text", "identifier"), strict=True):
            for name in getattr(self, parameter):
                if name not in features.columns:
                    raise TableError(
                        f"There is no column {name!r} to {'drop' if role == 'drop' else f'take as {role}'}; the "
                        f"columns are {listed(features.columns)}."
                    )
                if name in asked:
                    raise TableError(f"Column {name!r} is named twice, as {asked[name]} and as {role}; name it once.")
                asked[name] = role
        limits = {"most_categories": self.most_categories, "most_words": self.most_words}
        codes = features.width <= MOST_CODED
        return [decide(series, asked.get(series.name), **limits, codes=codes) for series in features.get_columns()]

    # --------------------------------------------------------------------------------------------- predicting

    def transform(self, X: Any) -> Doubles:
        """The numbers that the columns become, unfamiliar cells as missing: shape (n, number of `encoded_names`)."""
        return self._read(X)[0]

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

    def familiarity(self, X: Any) -> Familiarity:
        """What in a table is not as in the training table: which cells, and which columns as a whole.

        Parameters
        ----------
        X : table

        Returns
        -------
        found : Familiarity
            ``cells``, a frame of the cells that are unlike training (row, column, value, what was seen), ``notes()``,
            the same in words for each row, and ``shifts``, the columns that have shifted, with the numbers.

        Examples
        --------
        >>> import numpy as np
        >>> import polars as pl
        >>> from multiform import QMSClassifier
        >>> from multiform.tables import TableClassifier
        >>> age = np.arange(200) % 50 + 29
        >>> model = TableClassifier(QMSClassifier(random_state=0)).fit(pl.DataFrame({"age": age}), age > 50)
        >>> found = model.familiarity(pl.DataFrame({"age": 12 * age[:40]}))
        >>> found.notes()[0]
        'age 348 (training: 29 to 78)'
        >>> found.shifts[0].sentence
        'mean 53.5 in training, 582 here (29 to 78, 348 to 816); 100 % of the values were at most 78, 0 % are'
        """
        return self._read(X)[1]

    def labels(self, y: Any) -> tuple[Array, Bools]:
        """The labels of a target column as the training table had them, and which rows have one."""
        check_is_fitted(self, "columns_")
        return labels_of(y, self._whole_labels)

    predict = _asked("predict", "The classifier's answers.")
    predict_proba = _asked("predict_proba", "The classifier's chances: shape (n, m).")
    predict_loyalty = _asked("predict_loyalty", "The loyalty type of each answer.")
    loyalty_score = _asked("loyalty_score", "The estimated chance that the answer is right.")
    defer = _asked("defer", "Which answers the promise does not cover.")

    def answers(self, X: Any, *, chances: bool = False) -> tuple[Any, Familiarity]:
        """Everything that can be said of each row, and what is unlike the training table.

        Parameters
        ----------
        X : table
        chances : bool, default=False
            Whether to give the chance of every class, too.

        Returns
        -------
        answers : polars DataFrame
            ``label``; ``chance``, the estimated chance that it is right; ``loyalty``, where the classifier knows it;
            ``accepted``, where a promise is made; ``chance of LABEL`` for each class, with `chances`; ``unfamiliar``,
            what is unlike training, in words.
        found : Familiarity
        """
        matrix, found = self._read(X)
        unknown = Unknown(self.estimator_, matrix, found, self.columns_)
        answers = answers_of(self.estimator_, matrix, chances=chances, unknown=unknown)
        return (answers.with_columns(found.notes().alias("unfamiliar")) if self.seen_ else answers), found

    def _read(self, X: Any) -> tuple[Doubles, Familiarity]:
        check_is_fitted(self, "columns_")
        return read(self.columns_, self.seen_, as_frame(X))

    # -------------------------------------------------------------------------------------------- model files

    def _get_state(self) -> dict[str, Any]:
        state = fitted_state(self, [*FITTED, *FOLLOWING])
        if "columns_" not in state:
            return {}
        columns = [column.state() for column in self.columns_]
        seen = {name: found.as_plain() for name, found in self.seen_.items()}
        known = {name: state[name] for name in FITTED} | {"columns_": columns, "whole_labels": self._whole_labels}
        return known | ({"seen_": seen} if seen else {})

    def _set_state(self, state: dict[str, Any]) -> None:
        """The columns become what the estimator reads; the rest follows from these."""
        require_names(state, type(self).__name__, [*FITTED, "whole_labels"], ["seen_"])
        estimator, target = state["estimator_"], state["target_"]
        require(isinstance(state["columns_"], list), "the columns are none")
        columns = [column_from(column) for column in state["columns_"]]
        require(len({column.name for column in columns}) == len(columns), "two columns have one name")
        require(hasattr(estimator, "predict") and hasattr(estimator, "classes_"), "the estimator is not fitted")
        read = getattr(estimator, "n_features_in_", None)
        require(read == sum(column.width for column in columns), "the columns do not become what the estimator reads")
        require(target is None or isinstance(target, str), "the target is no name")
        require(isinstance(state["training_"], dict), "the figures of the training are none")
        require(isinstance(state["whole_labels"], bool), "whole_labels is neither true nor false")
        kept = state.get("seen_", {})  # files of 0.1 do not have it
        require(isinstance(kept, dict), "what was seen is none")
        seen = {name: Seen.from_plain(found) for name, found in kept.items()}
        used = {column.name: column.role for column in columns if column.width}
        known = not seen or {name: found.kind for name, found in seen.items()} == used
        require(known, "what was seen is not of the columns that are used")
        self._set_fitted(columns, seen, target, estimator, state["training_"], state["whole_labels"])


def fit_chosen(model: TableClassifier, X: Any, y: Any, choose: Callable[[Doubles, Array], Any]) -> TableClassifier:
    """Fit a table classifier whose estimator depends on the data: the one that `choose` returns for the table's numbers
    and labels. The table is encoded once; the estimator becomes the model's parameter.
    """
    model._validate_params()
    return model._fit(X, y, choose)


def answers_of(estimator: Any, matrix: Array, *, chances: bool = False, unknown: Unknown | None = None) -> Any:
    """All that a classifier knows of each row of numbers, as `TableClassifier.answers` has it."""

    def asked(method: str, answers: Any = None) -> Array:
        answers = getattr(estimator, method)(matrix) if answers is None else answers
        return np.asarray(answers) if unknown is None else unknown.correct(method, np.asarray(answers))

    columns: dict[str, Any]
    if hasattr(estimator, "assess"):
        label, loyalty, score = estimator.assess(matrix)
        columns = {"label": asked("predict", label), "chance": asked("loyalty_score", score)}
        columns["loyalty"] = asked("predict_loyalty", loyalty)
    elif hasattr(estimator, "defer"):
        inner = answers_of(estimator.estimator_, matrix).to_dict()
        columns = {"label": asked("predict"), "chance": asked("loyalty_score", inner["chance"])}
        if "loyalty" in inner:
            columns["loyalty"] = asked("predict_loyalty", inner["loyalty"])
        columns["accepted"] = ~asked("defer")
    else:
        score = estimator.predict_proba(matrix).max(axis=1)
        columns = {"label": asked("predict"), "chance": asked("loyalty_score", score)}
    if chances:
        each = asked("predict_proba")
        columns |= {f"chance of {label}": each[:, k] for k, label in enumerate(estimator.classes_)}
    return polars().DataFrame(columns)


# --------------------------------------------------------------------------------------------------------------- labels


def learn_labels(series: Any) -> tuple[Array, Bools, bool]:
    """The labels of a training table, which rows have one, and whether they are whole numbers.

    They are if every label is written as one. A target of very many values, which is to be estimated and not
    classified, is refused.
    """
    text = as_text(series).drop_nulls()
    whole = bool(len(text)) and bool(text.str.contains(r"^(0|-?[1-9][0-9]{0,17})$").all())
    labels, present = labels_of(series, whole)
    n_distinct = len(np.unique(labels))
    if n_distinct < 2:
        found = f"only {labels.tolist()[0]!r}" if n_distinct else "no label"
        raise TableError(f"The target column {series.name!r} holds {found}; there must be at least two classes.")
    numeric = not as_numbers(series)[1]
    if n_distinct > MOST_LABELS or (n_distinct > FEW_LABELS and n_distinct > (0.2 if numeric else 0.5) * len(labels)):
        raise TableError(
            f"The target column {series.name!r} holds {n_distinct} distinct values in {len(labels)} rows, too many "
            f"for classes{', as a measurement has' if numeric else ''}; put them into groups first."
        )
    return labels, present, whole


def labels_of(series: Any, whole: bool) -> tuple[Array, Bools]:
    """Labels, whole numbers or text, of the rows that have one; and which rows these are."""
    text = as_text(series)
    present = np.array(text.is_not_null().to_numpy(), dtype=bool)
    if not whole:
        labels = text.drop_nulls().to_list()
        # NumPy's own text would lose a NUL at the end, and with it the difference from the label without one.
        return np.array(labels, dtype=object if any(label.endswith("\0") for label in labels) else str), present
    pl = polars()
    numbers = text.drop_nulls().cast(pl.Int64, strict=False)
    if numbers.null_count():
        row = int(np.flatnonzero(present)[int(numbers.is_null().arg_true()[0])])
        raise TableError(
            f"the label {text[row]!r} is no whole number, as those of the training table are.",
            column=str(series.name),
            row=row,
        )
    return np.array(numbers.to_numpy(), dtype=np.int64), present
