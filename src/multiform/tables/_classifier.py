"""TableClassifier: a classifier of ours behind a table's columns, and the labels of the column that it predicts."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context, clone
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from multiform._typing import Array, Bools, Doubles, Indices
from multiform.columns import (
    COUNTS,
    MOST_CATEGORIES,
    MOST_CODED,
    MOST_LABELS,
    MOST_WORDS,
    Category,
    Column,
    Dropped,
    Label,
    Measure,
    Number,
    Seen,
    TableError,
    as_frame,
    as_text,
    column_from,
    counts_rows,
    decide,
    has_decimal_commas,
    polars,
    with_numbers,
    without,
)
from multiform.folds import group_codes
from multiform.loyalty import LoyaltyClassifier
from multiform.prediction import MemberFunctionMixin, labels_and_chances
from multiform.state import all_or_nothing, fitted_state, require, require_names
from multiform.tables._familiarity import Familiarity, Unknown, learn, nearest, read
from multiform.tables._labels import RARE, alike, labels_of, learn_labels, merged
from multiform.tables._leaks import deciding
from multiform.tables._overlap import Overlap, RowSketch, row_keys

ASKED = ("drop", "numbers", "categories", "dates", "texts", "identifiers")  # parameters that say what a column is
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
        What learns from the numbers that the columns become. None means :class:`~multiform.LoyaltyClassifier`. One
        that reads categories and gaps itself, as :class:`~multiform.QMSClassifierCV` does, gets them as they are: a
        column for each number and for each category.
    drop, numbers, categories, dates, texts, identifiers : sequence of str, default=()
        Columns of which you know better what they are. Identifiers are left out.
    missing : sequence of str, default=()
        What stands for a missing value in this table, as ``"999"`` or ``"lost"``, beside what everybody knows.
    most_categories, most_words : int, default=50, 200
        Columns of numbers that a category and a text become at most.
    as_classes : bool, default=False
        Whether a target of many values is classes, though it seems a measure, and is refused as a regression problem.
    merge_classes : bool, default=False
        Whether classes that differ in nothing but case and blanks are one class, in its commonest spelling.

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
        Rows of the training table, rows without a label, rows of each class, rare classes; classes that differ in
        nothing but case and blanks (`classes_alike`); columns that decide the target alone, with the share of held-out
        rows that each gets right (`deciding_columns`: is it known before the answer?); identifiers of which values
        repeat, so that they may be `groups` (`repeated_identifiers`); `group_column` and the number of `groups`.
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
        "missing": ["array-like"],
        "most_categories": [Interval(Integral, 1, None, closed="left")],
        "most_words": [Interval(Integral, 1, None, closed="left")],
        "as_classes": ["boolean"],
        "merge_classes": ["boolean"],
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
        missing: Sequence[str] = (),
        most_categories: int = MOST_CATEGORIES,
        most_words: int = MOST_WORDS,
        as_classes: bool = False,
        merge_classes: bool = False,
    ) -> None:
        self.estimator = estimator
        self.drop = drop
        self.numbers = numbers
        self.categories = categories
        self.dates = dates
        self.texts = texts
        self.identifiers = identifiers
        self.missing = missing
        self.most_categories = most_categories
        self.most_words = most_words
        self.as_classes = as_classes
        self.merge_classes = merge_classes

    # ------------------------------------------------------------------------------------------------ fitting

    @_fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
    @all_or_nothing
    def fit(self, X: Any, y: Any, groups: Any = None) -> TableClassifier:
        """Decide what the columns are, and train.

        Parameters
        ----------
        X : polars or pandas frame, or mapping of columns
        y : str or array-like
            The name of the target column of X, or the labels. Rows without a label are left out.
        groups : str or array-like, default=None
            Which rows belong together, as those of one patient do: the name of a column of X, which is no feature then,
            or a label for each row. Whole groups are held out for estimates. The estimator's `fit` must take them.
        """
        pl, features, target = polars(), self._frame(X), None
        if isinstance(y, str):
            target = y
            if target not in features.columns:
                raise TableError(f"There is no column {target!r} to predict; {nearest(target, features.columns)}")
            target_series, features = features[target], features.drop(target)
        else:
            target_series = pl.Series("y", np.asarray(y).tolist(), strict=False)
            if len(target_series) != len(features):
                raise TableError(f"The table has {len(features)} rows, and there are {len(target_series)} labels.")
        labels, present, whole = learn_labels(target_series, self.as_classes)
        same = alike(np.unique(labels))
        one_spelling = merged(labels, *np.unique(labels, return_counts=True)) if same else labels
        if self.merge_classes:
            labels = one_spelling
        features, group_column, codes = _grouped(features, groups, present)
        asked = self._roles(features.columns, group_column, target)
        # Read once, and not anew by all that follows; what a column was asked to be may depend on how it is written.
        commas = has_decimal_commas(features)
        features = with_numbers(features, [name for name in features.columns if name not in asked], commas)
        estimator = self._inner()
        reads_codes = _reads_codes(estimator)
        limits = {"most_categories": MOST_LABELS if reads_codes else self.most_categories, "commas": commas}
        wide = self._decide(features, present, asked, limits)
        columns = list(map(_in_one_column, wide)) if reads_codes else wide
        features = features.filter(pl.Series(present))
        if not any(column.width for column in columns):
            left_out = "; ".join(f"{column.name!r} is taken as {column.role} ({column.why})" for column in columns[:5])
            raise TableError(
                f"No column of the table can be learnt from: {left_out or 'it has no other than the target'}. Say what "
                "a column is (--as-number, --as-category, --as-text), or give others."
            )
        n_groups = None if codes is None else len(np.unique(codes))
        matrix, seen = learn(columns, features, n_groups)
        if reads_codes:
            # every other kind of column may become several
            starts = np.cumsum([0, *(column.width for column in columns)])
            labels_at = [int(at) for at, column in zip(starts, columns, strict=False) if isinstance(column, Label)]
            estimator.set_params(categorical_features=labels_at)
        if codes is None:
            estimator.fit(matrix, labels)
        elif has_fit_parameter(estimator, "groups"):
            estimator.fit(matrix, labels, groups=codes)
        else:
            raise ValueError(
                f"groups of TableClassifier are held out by its estimator, and the fit of {type(estimator).__name__} "
                "does not take them; give another estimator, for example LoyaltyClassifier, or no groups."
            )
        counts = dict(zip(*(part.tolist() for part in np.unique(labels, return_counts=True)), strict=True))
        identifiers = [one.typed(features[one.name]).drop_nulls() for one in columns if one.role == "identifier"]
        training = {
            "rows": len(labels),
            "rows_without_label": int((~present).sum()),
            "class_counts": {str(label): count for label, count in counts.items()},
            "rare_classes": [str(label) for label, count in counts.items() if count < RARE],
            "classes_alike": same,
            "deciding_columns": deciding(
                blocks_of(wide, learn(wide, features)[0] if reads_codes else matrix), one_spelling, codes
            ),
            "repeated_identifiers": [one.name for one in identifiers if one.n_unique() < len(one)],
            "group_column": group_column,
            "groups": n_groups,
        }
        rows = RowSketch.learn(row_keys(columns, features, labels))
        self._set_fitted(columns, seen, target, estimator, training, whole, rows)
        return self

    def _set_fitted(
        self,
        columns: list[Column],
        seen: dict[str, Seen],
        target: str | None,
        estimator: Any,
        training: dict[str, Any],
        whole: bool,
        rows: RowSketch | None,
    ) -> None:
        self.seen_ = seen
        self.columns_, self.target_, self.estimator_, self.training_ = columns, target, estimator, training
        self._whole_labels = whole
        self._training_rows = rows
        self.classes_ = np.asarray(estimator.classes_)
        self.n_features_in_ = len(columns)
        self.feature_names_in_ = np.array([column.name for column in columns], dtype=object)

    def _inner(self) -> Any:
        return LoyaltyClassifier() if self.estimator is None else clone(self.estimator)

    def _roles(self, names: list[str], group_column: str | None, target: str | None) -> dict[str, str]:
        """What the user says of columns."""
        asked: dict[str, str] = {}
        known = set(names)
        for parameter, role in zip(ASKED, ("drop", "number", "category", "date", "text", "identifier"), strict=True):
            for name in getattr(self, parameter):
                if name == group_column:  # which is left out in any case
                    continue
                if name not in known:
                    if name == target:
                        raise TableError(f"Column {name!r} is the target, which is left out in any case; name others.")
                    raise TableError(
                        f"There is no column {name!r} to {'drop' if role == 'drop' else f'take as {role}'}; "
                        f"{nearest(name, names)}"
                    )
                if name in asked:
                    raise TableError(f"Column {name!r} is named twice, as {asked[name]} and as {role}; name it once.")
                asked[name] = role
        return asked

    def _decided(self, features: Any, present: Bools) -> tuple[list[Column], Any]:
        """What each column would be taken for, and the table with numbers where every cell is one."""
        commas = has_decimal_commas(features)
        features = with_numbers(features, features.columns, commas)
        return self._decide(
            features, present, {}, {"most_categories": self.most_categories, "commas": commas}
        ), features

    def _decide(self, features: Any, present: Bools, asked: dict[str, str], limits: dict[str, Any]) -> list[Column]:
        """What each column is, by the rows that have a label; but one that counts the rows counts the others, too."""
        limits = limits | {"most_words": self.most_words, "codes": features.width <= MOST_CODED}
        labelled = polars().Series(present)
        columns: list[Column] = []
        for series in features.get_columns():
            if series.name not in asked and not present.all() and counts_rows(series):
                columns.append(Dropped(series.name, COUNTS, "identifier"))
                continue
            try:
                columns.append(decide(series.filter(labelled), asked.get(series.name), **limits))
            except TableError as error:
                if error.row is None:
                    raise
                row = int(np.flatnonzero(present)[error.row])  # counted with the rows that have no label
                raise TableError(error.sentence, column=error.column, row=row) from error
        return columns

    # --------------------------------------------------------------------------------------------- predicting

    def transform(self, X: Any) -> Doubles:
        """The numbers that the columns become, unfamiliar cells as missing: shape (n, number of `encoded_names`)."""
        return self._read(X)[0]

    def typed(self, X: Any) -> Any:
        """The table as the model reads it, a polars frame: numbers and dates as such, all other columns as text."""
        check_is_fitted(self, "columns_")
        frame = self._frame(X)
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
        >>> print(found.shifts[0].sentence)
        mean 53.5 in training (29 to 78), 582 here (348 to 816); 100 % of the values were at most 78 there, 0 % are
        here
        """
        return self._read(X)[1]

    @property
    def looks(self) -> dict[str, Seen]:
        """What each column looked like in training; empty if the model was made before that was kept."""
        return self.seen_

    def labels(self, y: Any) -> tuple[Array, Bools]:
        """The labels of a target column as the training table had them, and which rows have one."""
        check_is_fitted(self, "columns_")
        y = without(y.to_frame(), list(self.missing)).to_series() if hasattr(y, "to_frame") else y
        labels, present = labels_of(y, self._whole_labels)
        if self.merge_classes and not self._whole_labels:
            labels = merged(labels, self.classes_, np.ones(len(self.classes_)))
        return labels, present

    def overlap(self, X: Any, y: Any) -> Overlap | None:
        """How many of the rows were training rows: on those a model seems better than it is.

        Parameters
        ----------
        X : table
        y : array-like
            The labels of all rows, as `labels` gives them.

        Returns
        -------
        overlap : Overlap or None
            ``compared``, ``found`` and ``by_chance``; ``share``, the estimated share of training rows among them; and
            ``evident``, whether more than 5 % are, surely. None of a model that was saved by version 0.1.0.
        """
        check_is_fitted(self, "columns_")
        if self._training_rows is None:
            return None
        return self._training_rows.compared(row_keys(self.columns_, self._frame(X), np.asarray(y)))

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
        return (answers.hstack([found.notes().alias("unfamiliar")]) if self.seen_ else answers), found

    def _read(self, X: Any) -> tuple[Doubles, Familiarity]:
        check_is_fitted(self, "columns_")
        return read(self.columns_, self.seen_, self._frame(X))

    def _frame(self, X: Any) -> Any:
        return without(as_frame(X), list(self.missing))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    # -------------------------------------------------------------------------------------------- model files

    def _get_state(self) -> dict[str, Any]:
        state = fitted_state(self, [*FITTED, *FOLLOWING])
        if "columns_" not in state:
            return {}
        columns = [column.state() for column in self.columns_]
        known = {name: state[name] for name in FITTED} | {"columns_": columns, "whole_labels": self._whole_labels}
        if self.seen_:
            known["seen_"] = {name: found.as_plain() for name, found in self.seen_.items()}
        if self._training_rows is not None:
            known["training_rows"] = self._training_rows.as_plain()
        return known

    def _set_state(self, state: dict[str, Any]) -> None:
        """The columns become what the estimator reads; the rest follows from these."""
        optional = ["seen_", "training_rows"]  # files of 0.1 do not have them
        require_names(state, type(self).__name__, [*FITTED, "whole_labels"], optional)
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
        kept = state.get("seen_", {})
        require(isinstance(kept, dict), "what was seen is none")
        seen = {name: Seen.from_plain(found) for name, found in kept.items()}
        used = {column.name: column.role for column in columns if column.width}
        known = not seen or {name: found.kind for name, found in seen.items()} == used
        require(known, "what was seen is not of the columns that are used")
        rows = RowSketch.from_plain(state["training_rows"]) if "training_rows" in state else None
        self._set_fitted(columns, seen, target, estimator, state["training_"], state["whole_labels"], rows)


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
    elif isinstance(estimator, MemberFunctionMixin):
        label, each = labels_and_chances(estimator, matrix)
        columns = {"label": asked("predict", label), "chance": asked("loyalty_score", each.max(axis=1))}
    else:
        score = estimator.predict_proba(matrix).max(axis=1)
        columns = {"label": asked("predict"), "chance": asked("loyalty_score", score)}
    if chances:
        each = asked("predict_proba")
        columns |= {f"chance of {label}": each[:, k] for k, label in enumerate(estimator.classes_)}
    return polars().DataFrame(columns)


def _reads_codes(estimator: Any) -> bool:
    """Whether a classifier is told which columns hold categories, and reads gaps."""
    inputs = get_tags(estimator).input_tags
    return bool(inputs.categorical and inputs.allow_nan and hasattr(estimator, "categorical_features"))


def _in_one_column(column: Column) -> Column:
    """A number or a category in a column of its own, for a classifier that reads codes and gaps; others as they are."""
    if isinstance(column, Number):
        return Measure.of(column)
    return Label.of(column) if isinstance(column, Category) else column


def blocks_of(columns: list[Column], matrix: Doubles) -> dict[str, Doubles]:
    """The numbers that each used column has become."""
    ends = np.cumsum([column.width for column in columns])
    return {one.name: matrix[:, end - one.width : end] for one, end in zip(columns, ends, strict=True) if one.width}


def _grouped(features: Any, groups: Any, present: Bools) -> tuple[Any, str | None, Indices | None]:
    """The table without the column that names the groups; its name; and the groups of the rows that have a label."""
    name = groups if isinstance(groups, str) else None
    if name is not None:
        if name not in features.columns:
            raise TableError(f"There is no column {name!r} of groups; {nearest(name, features.columns)}")
        groups, features = as_text(features[name]), features.drop(name)
        empty = np.flatnonzero(groups.is_null().to_numpy() & present)
        if len(empty):
            sentence = "the row has no group; give rows that belong to nobody else a group of their own."
            raise TableError(sentence, column=name, row=int(empty[0]))
    return features, name, group_codes(groups, len(features), "TableClassifier", present)
