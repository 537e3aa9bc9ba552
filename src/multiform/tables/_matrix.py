"""A classifier that was saved without a table around it, made ready for tables."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.utils import get_tags

from multiform._typing import Array, Bools, Doubles
from multiform.columns import Label, Measure, Seen, TableError, as_numbers, as_text, polars
from multiform.tables._classifier import answers_of
from multiform.tables._familiarity import Familiarity, read
from multiform.tables._labels import labels_of

MOST_VALUES, MOST_TRIED = 101, 5_000  # of a column that stand for all it may be, and of all columns together


class MatrixModel:
    """A classifier that was saved without a table around it: it reads columns of numbers, or of words and numbers.

    Attributes
    ----------
    columns_ : list of Measure and Label
        What its columns are, by the names of `encoded_names`.
    looks : dict of Seen
        What a column may have looked like in training, of which little is known: numbers as a normal distribution of
        their mean and deviation, categories each as often. Empty where not even that is known.
    seen_ : dict of Seen
        Those of categories, all of which are known.
    """

    target_: str | None = None

    def __init__(self, estimator: Any) -> None:
        self.estimator_ = estimator
        self.classes_ = estimator.classes_

    def _parts(self) -> Iterator[Any]:
        """The classifier, the one inside it, and so on."""
        part = self.estimator_
        while part is not None:
            yield part
            part = getattr(part, "estimator_", None)

    @cached_property
    def _words(self) -> list[Measure | Label]:
        """The columns, where some of them hold words."""
        return next((part.frame_columns_ for part in self._parts() if getattr(part, "frame_columns_", None)), [])

    @property
    def reads_words(self) -> bool:
        """Whether some of the columns hold words."""
        return bool(self._words)

    @cached_property
    def columns_(self) -> list[Measure | Label]:
        return self._words or [Measure(name, "", 0.0, self.takes_gaps) for name in self.encoded_names()]

    @cached_property
    def looks(self) -> dict[str, Seen]:
        states = ((part, part._get_state()) for part in self._parts() if hasattr(part, "_get_state"))
        known = next(((part, state["scaling"]) for part, state in states if "scaling" in state), None)
        if known is None:
            return {}
        part, scaling = known
        categories = getattr(part, "categories_", None)
        coded = {} if categories is None else {one.place: one.values for one in categories.coded}
        n_values = max(3, min(MOST_VALUES, MOST_TRIED // len(self.columns_)))
        steps = ndtri((np.arange(n_values) + 0.5) / n_values)
        numbers = iter(zip(scaling["center"], scaling["scale"], strict=True))  # of plain columns, which come first
        found = {}
        for place, column in enumerate(self.columns_):
            if isinstance(column, Label):
                found[column.name] = Seen.of_texts([*column.values, None])  # a missing one is no surprise
            elif place in coded:
                found[column.name] = Seen.of_numbers(np.append(coded[place], np.nan), "code")
            else:
                center, scale = map(float, next(numbers))
                varies = np.isfinite(scale) and scale > 0
                found[column.name] = Seen.of_numbers(center + scale * steps if varies else np.array([center]))
        return found

    @cached_property
    def seen_(self) -> dict[str, Seen]:
        return {name: seen for name, seen in self.looks.items() if seen.kind in ("category", "code")}

    def transform(self, frame: Any) -> Any:
        """The columns that the model reads; without names, all columns in their order. An array is taken as it is.

        Numbers are a matrix; of a model that reads words, too, all columns are a frame.
        """
        if self._words:
            return self._worded(frame)
        n_features = int(self.estimator_.n_features_in_)
        if isinstance(frame, np.ndarray):
            if frame.shape[1] != n_features:
                raise TableError(f"The model reads {n_features} columns of numbers, and there are {frame.shape[1]}.")
            return frame
        wanted = [str(name) for name in getattr(self.estimator_, "feature_names_in_", frame.columns)]
        lacking = [name for name in wanted if name not in frame.columns]
        if lacking:
            raise TableError(f"The table has no column {lacking[0]!r}, which the model needs.")
        if len(wanted) != n_features:
            raise TableError(f"The model reads {n_features} columns of numbers, and the table has {len(wanted)}.")
        given = frame.select(wanted)
        if all(kind.is_numeric() for kind in given.dtypes) and not any(given.null_count().row(0)):
            matrix: Array = given.to_numpy()
            if np.isfinite(matrix.sum()):  # else what follows says where
                return matrix
        return np.column_stack([self._numbers(frame[name]) for name in wanted])

    def _numbers(self, series: Any) -> Doubles:
        """Numbers, NaN where one is missing, if that may be."""
        values, _ = as_numbers(series)
        wrong = np.isnan(values)
        if wrong.any() and self.takes_gaps:
            wrong &= ~_gaps(series)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise TableError(f"the model needs a number; got {series[row]!r}.", column=series.name, row=row)
        return values

    def _worded(self, frame: Any) -> Any:
        """The columns of words and of numbers."""
        for column in self._words:
            if column.name not in frame.columns:
                raise TableError(f"The table has no column {column.name!r}, which the model needs.")
        pl, found = polars(), {}
        for column in self._words:
            if isinstance(column, Label):
                text = as_text(frame[column.name])
                found[column.name] = text.set(
                    ~text.is_in(column.values), None
                )  # `familiarity` says which are not known
            else:
                found[column.name] = pl.Series(self._numbers(frame[column.name])).fill_nan(None)
        return pl.DataFrame(found)

    @property
    def takes_gaps(self) -> bool:
        """Whether a number may be missing."""
        return bool(get_tags(self.estimator_).input_tags.allow_nan)

    def named(self, frame: Any) -> Any:
        """The same as a table, if the estimator knows its columns by names, which it else would miss."""
        found = self.transform(frame)
        has_names = hasattr(self.estimator_, "feature_names_in_") and isinstance(found, np.ndarray)
        return polars().DataFrame(found, schema=self.encoded_names()) if has_names else found

    def decoded(self, matrix: Doubles) -> Any:
        """Rows of the numbers that `columns_` become, as the estimator reads them."""
        if not self._words:
            return self.named(matrix)
        columns: dict[str, Any] = {}
        for column, numbers in zip(self._words, matrix.T, strict=True):
            columns[column.name] = numbers
            if isinstance(column, Label):
                columns[column.name] = [None if one != one else column.values[int(one)] for one in numbers]
        return polars().DataFrame(columns).fill_nan(None)

    def encoded_names(self) -> list[str]:
        """Names of the columns of `transform`."""
        names = getattr(self.estimator_, "feature_names_in_", None)
        return [f"x{k}" for k in range(int(self.estimator_.n_features_in_))] if names is None else list(map(str, names))

    def answers(self, frame: Any, *, chances: bool = False) -> tuple[Any, Familiarity]:
        """As `TableClassifier.answers`; what training looked like is not known."""
        return answers_of(self.estimator_, self.named(frame), chances=chances), self.familiarity(frame)

    def familiarity(self, frame: Any) -> Familiarity:
        """Categories that training did not have, which are taken as missing; of numbers it is not known what it had."""
        columns = [column for column in self.columns_ if column.name in self.seen_] if hasattr(frame, "columns") else []
        if not columns or not {column.name for column in columns} <= set(frame.columns):
            return Familiarity(len(frame))
        return read(columns, self.seen_, frame)[1]

    def overlap(self, frame: Any, labels: Any) -> None:
        """As `TableClassifier.overlap`: it does not know its training rows."""

    def labels(self, series: Any) -> tuple[Array, Bools]:
        """Labels of the kind that the model has; what cannot be read so stays text, and is no class of its."""
        kind = np.asarray(self.classes_).dtype.kind
        labels, present = labels_of(series, whole=kind in "iu")
        if kind == "f":
            return np.array([_number(label) for label in labels.tolist()], dtype=object), present
        if kind == "b":
            truths = {"true": True, "false": False, "1": True, "0": False}
            return np.array([truths.get(label.lower(), label) for label in labels.tolist()], dtype=object), present
        return labels, present


def _gaps(series: Any) -> Bools:
    """Which cells are empty, or no number by their own account."""
    if series.dtype.is_float():
        return np.asarray((series.is_null() | series.is_nan().fill_null(True)).to_numpy(), dtype=bool)
    return np.asarray(as_text(series).is_null().to_numpy(), dtype=bool)


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
