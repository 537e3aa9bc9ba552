"""Frames of pandas or polars as a classifier's X: a column of numbers for each of theirs, NaN where a cell is missing.

Numbers and truth values are themselves; a category, or text of few values, is the place of its value, which is a number
where the values have an order (pandas' ordered categories). A frame of numbers alone is left as it is: scikit-learn
reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from multiform._typing import Array
from multiform.columns._cells import columns_of, typed
from multiform.columns._kinds import Label, Measure, Rank

ODD = (complex, list, tuple, dict, set, np.ndarray)  # what a cell may not be
MOST_LABELS = 1_000  # values of a category that are kept by name: the commonest
ALMOST_ALL, ENOUGH_ROWS = 0.95, 20  # share of distinct texts in so many cells, from which on they are names


def holds_words(X: Any) -> bool:
    """Whether X is a frame with a column that is neither numbers nor truth values."""
    frame = _frame(X)
    return frame is not None and not all(kind.is_numeric() or kind == nw.Boolean for kind in frame.schema.values())


def learn_frame(X: Any, owner: str) -> list[Measure | Label]:
    """What each column of a training frame is; `owner` is the classifier that a sentence is about."""
    frame = _frame(X)
    assert frame is not None
    return [_learnt(series, owner) for series in frame.iter_columns()]


def frame_numbers(columns: Sequence[Measure | Label], X: Any, owner: str) -> tuple[Any, dict[str, int]]:
    """The numbers that the cells of a frame become, and how many categories of each column are none that training had.

    The numbers are a frame of the same library and names; those of a matrix are a matrix.
    """
    frame, unknown = _frame(X), {}
    known = {column.name: column for column in columns}
    matrix = np.asarray(X, dtype=object) if frame is None else None
    if matrix is not None and (matrix.ndim != 2 or matrix.shape[1] != len(columns)):
        return X, {}  # scikit-learn says what is wrong
    found = columns_of(X if matrix is None else matrix, None if matrix is None else list(known))
    numbers: dict[str, Any] = {}
    for name, cells in found.items():
        if name not in known:  # stays in, so that scikit-learn names it
            numbers[name] = np.full(len(cells), np.nan)
            continue
        numbers[name], n_unknown = _numbers(known[name], cells, owner)
        if n_unknown:
            unknown[name] = n_unknown
    if frame is None:
        return np.column_stack(list(numbers.values())), unknown
    return nw.from_dict(numbers, backend=nw.get_native_namespace(frame)).to_native(), unknown


def places_of(asked: Any, X: Any, owner: str) -> list[int]:
    """The columns that `categorical_features` names, by places, by names of a frame, or by a mask."""
    named = np.asarray(asked)
    if named.dtype.kind == "b":
        named = np.flatnonzero(named)
    if named.dtype.kind in "UO" and _frame(X) is not None:
        names = [str(name) for name in X.columns]
        lost = [name for name in named.tolist() if name not in names]
        if not lost:
            return sorted({names.index(name) for name in named.tolist()})
        raise ValueError(f"categorical_features of {owner} names {lost[0]!r}, and X has no such column.")
    n_columns = np.shape(X)[1] if np.ndim(X) == 2 else 0
    if named.size and (named.dtype.kind not in "iu" or named.ndim != 1 or named.min() < 0 or named.max() >= n_columns):
        raise ValueError(
            f"categorical_features of {owner} must be 'from_dtype', None, or places, names (of a frame) or a mask of "
            f"the {n_columns} columns of X; got {asked!r}."
        )
    return sorted(set(named.tolist()))


def _frame(X: Any) -> Any:
    if not hasattr(X, "columns") or not hasattr(X, "shape"):  # the cheapest look, for arrays
        return None
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def _learnt(series: Any, owner: str) -> Measure | Label:
    name, native = str(series.name), series.to_native()
    cells, is_category = np.asarray(native), series.dtype in (nw.Categorical, nw.Enum)
    if getattr(native.dtype, "ordered", False):
        order = tuple(typed(np.asarray(native.dtype.categories), words=True).tolist())
        if None not in order and len(set(order)) == len(order) <= MOST_LABELS:
            return Rank(name, f"{len(order)} values that have an order", order, False, False)
    nested = cells.ndim > 1 or cells.dtype.kind == "V"  # polars' arrays and records
    odd = [cell for cell in cells if nested or isinstance(cell, ODD)] if nested or cells.dtype.kind in "Oc" else []
    if odd:
        raise ValueError(
            f"Column {name!r} of X holds {odd[0]!r}, and {owner} reads numbers, truth values, categories and text of "
            "few values. Give what is inside as columns of their own."
        )
    values = typed(cells, words=is_category)
    if values.dtype.kind == "M":
        raise ValueError(
            f"Column {name!r} of X holds dates, and {owner} reads numbers, truth values, categories and text of few "
            "values. Give the table to multiform.tables.TableClassifier, which reads dates, too."
        )
    if values.dtype.kind == "f":
        present = values[~np.isnan(values)]
        median = 2 * float(np.median(present / 2)) if len(present) and np.isfinite(present).all() else 0.0
        return Measure(name, "every cell is a number", median, False)
    values = typed(cells, words=True)
    distinct = {text for text in values if text is not None}
    n_present = sum(text is not None for text in values)
    if not is_category and n_present >= ENOUGH_ROWS and len(distinct) >= ALMOST_ALL * n_present:
        raise ValueError(
            f"Column {name!r} of X has {len(distinct)} distinct texts in {n_present} cells, and {owner} reads text of "
            "few values. Leave out what only names a row; multiform.tables.TableClassifier reads words of free text."
        )
    label = Label.learn(name, f"{len(distinct)} distinct values", values, most=MOST_LABELS)
    assert isinstance(label, Label)
    return label


def _numbers(column: Measure | Label, cells: Array, owner: str) -> tuple[Array, int]:
    """The numbers of some cells, and how many of them are categories that training did not have."""
    if isinstance(column, Label):
        texts = typed(cells, words=True)
        places = column.columns(texts)[:, 0]
        return places, int(np.isnan(places).sum()) - sum(text is None for text in texts)
    values = typed(cells)
    if values.dtype.kind != "f":
        raise ValueError(
            f"Column {column.name!r} of X was a number in every row that {owner} was trained on; got "
            f"{[value for value in values[:100].tolist() if value is not None][:3]}."
        )
    return values, 0
