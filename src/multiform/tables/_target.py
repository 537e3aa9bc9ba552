"""The column to predict, as labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiform._typing import Array, Bools
from multiform.columns import TableError, as_numbers, as_text, polars

__all__ = ["labels_of", "learn_labels"]

MOST_CLASSES = 1000
FEW_CLASSES = 50  # fewer distinct values than this are classes, however few the rows


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
    if n_distinct > MOST_CLASSES or (n_distinct > FEW_CLASSES and n_distinct > (0.2 if numeric else 0.5) * len(labels)):
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
