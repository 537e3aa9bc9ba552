"""The column to predict, as labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from multiform.tables._errors import TableError, polars
from multiform.tables._values import as_numbers, as_text

__all__ = ["labels_of", "whole_numbers"]

MOST_CLASSES = 1000
FEW_CLASSES = 50  # fewer distinct values than this are classes, however few the rows


def whole_numbers(series: Any) -> bool:
    """Whether every label is written as a whole number, so that labels can be numbers, too."""
    text = as_text(series).drop_nulls()
    return bool(len(text)) and bool(text.str.contains(r"^(0|-?[1-9][0-9]{0,17})$").all())


def labels_of(series: Any, whole: bool) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
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


def refuse_measurement(series: Any, labels: npt.NDArray[Any]) -> None:
    """A target of very many values is to be estimated, not classified."""
    n_distinct = len(np.unique(labels))
    if n_distinct < 2:
        found = f"only {labels.tolist()[0]!r}" if n_distinct else "no label"
        raise TableError(f"The target column {series.name!r} holds {found}; there must be at least two classes.")
    _, unreadable = as_numbers(series)
    numeric = not unreadable
    if n_distinct > MOST_CLASSES or (n_distinct > FEW_CLASSES and n_distinct > (0.2 if numeric else 0.5) * len(labels)):
        raise TableError(
            f"The target column {series.name!r} holds {n_distinct} distinct values in {len(labels)} rows, which are "
            f"no classes{', but look like a measurement' if numeric else ''}; put them into groups first."
        )
