"""A classifier that was saved without a table around it, made ready for tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import get_tags

from multiform._typing import Array, Bools
from multiform.columns import TableError, as_numbers, as_text, polars
from multiform.tables._classifier import answers_of
from multiform.tables._familiarity import Familiarity
from multiform.tables._labels import labels_of


class MatrixModel:
    """A classifier that was saved without a table around it: it reads columns of numbers."""

    target_: str | None = None

    def __init__(self, estimator: Any) -> None:
        self.estimator_ = estimator
        self.classes_ = estimator.classes_

    def transform(self, frame: Any) -> Array:
        """The columns that the model reads; without names, all columns in their order. An array is taken as it is."""
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
        columns = []
        for name in wanted:
            values, _ = as_numbers(frame[name])
            wrong = np.isnan(values)
            if wrong.any() and self.takes_gaps:
                wrong &= ~_gaps(frame[name])
            if wrong.any():
                row = int(np.flatnonzero(wrong)[0])
                raise TableError(f"the model needs a number; got {frame[name][row]!r}.", column=name, row=row)
            columns.append(values)
        return np.column_stack(columns)

    @property
    def takes_gaps(self) -> bool:
        """Whether a number may be missing."""
        return bool(get_tags(self.estimator_).input_tags.allow_nan)

    def named(self, frame: Any) -> Any:
        """The same as a table, if the estimator knows its columns by names, which it else would miss."""
        matrix = self.transform(frame)
        has_names = hasattr(self.estimator_, "feature_names_in_")
        return polars().DataFrame(matrix, schema=self.encoded_names()) if has_names else matrix

    def encoded_names(self) -> list[str]:
        """Names of the columns of `transform`."""
        names = getattr(self.estimator_, "feature_names_in_", None)
        return [f"x{k}" for k in range(int(self.estimator_.n_features_in_))] if names is None else list(map(str, names))

    def answers(self, frame: Any, *, chances: bool = False) -> tuple[Any, Familiarity]:
        """As `TableClassifier.answers`; what training looked like is not known."""
        return answers_of(self.estimator_, self.named(frame), chances=chances), self.familiarity(frame)

    def familiarity(self, frame: Any) -> Familiarity:
        """Nothing that could be called unfamiliar."""
        return Familiarity(len(frame))

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
