"""Frames of pandas or polars as a classifier's X: a column of numbers for each of theirs, NaN where a cell is missing.

Numbers and truth values are themselves; a category, or text of few values, is the place of its value, which is a number
where the values have an order (pandas' ordered categories). A frame of numbers alone is left as it is: scikit-learn
reads it.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import DuplicateError

from multiform._typing import Array
from multiform.columns._cells import MISSING, cells_of, columns_of, moment_among, typed
from multiform.columns._kinds import MOST_VALUES, Label, Measure, Rank

ODD = (complex, list, tuple, dict, set, np.ndarray)  # what a cell may not be
READS = "reads numbers, truth values, categories and text of few values"
MOST_LABELS = 1_000  # values of a category that are kept by name: the commonest
ALMOST_ALL, ENOUGH_ROWS = 0.95, 20  # share of distinct texts in so many cells, from which on they are names


class NumbersAsTextWarning(UserWarning):
    """A column holds many numbers as text, which are read as categories, without their order."""


def holds_words(X: Any, owner: str) -> bool:
    """Whether X is a frame with a column that is neither numbers nor truth values."""
    frame = _frame(X, owner)
    return frame is not None and not all(kind.is_numeric() or kind == nw.Boolean for kind in frame.schema.values())


def learn_frame(X: Any, owner: str) -> list[Measure | Label]:
    """What each column of a training frame is; `owner` is the classifier that a sentence is about."""
    frame = _frame(X, owner)
    assert frame is not None
    learnt = []
    for series in frame.iter_columns():  # no comprehension, which is a level of the stack of its own in Python 3.11
        learnt.append(_learnt(series, owner))
    return learnt


def frame_numbers(columns: Sequence[Measure | Label], X: Any, owner: str) -> tuple[Any, dict[str, int]]:
    """The numbers that the cells of a frame become, and how many categories of each column are none that training had.

    The numbers are a frame of the same library and names; those of a matrix are a matrix.
    """
    frame, unknown = _frame(X, owner), {}
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
    if named.dtype.kind in "UO" and _frame(X, owner) is not None:
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


def _frame(X: Any, owner: str) -> Any:
    if not hasattr(X, "shape") or not hasattr(X, "columns"):  # the cheapest look, for arrays
        return None
    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
    except DuplicateError:  # of which `check_input` speaks
        return None
    return frame if isinstance(frame, nw.DataFrame) else None


def _learnt(series: Any, owner: str) -> Measure | Label:
    name, native = str(series.name), series.to_native()
    cells, is_category = cells_of(native), series.dtype in (nw.Categorical, nw.Enum)
    if getattr(getattr(native, "dtype", None), "ordered", False):  # pandas'; Arrow's columns have none
        order = tuple(_texts(np.asarray(native.dtype.categories)).tolist())
        if None not in order and len(set(order)) == len(order) <= MOST_LABELS:
            return Rank(name, f"{len(order)} values that have an order", order, False, False)
    nested = cells.ndim > 1 or cells.dtype.kind == "V"  # polars' arrays and records
    odd = [cell for cell in cells if nested or isinstance(cell, ODD)] if nested or cells.dtype.kind in "Oc" else []
    if odd:
        raise ValueError(
            f"Column {name!r} of X holds {odd[0]!r}, and {owner} {READS}. Give what is inside as columns of their own."
        )
    if not is_category and (moment := moment_among(cells)) is not None:
        raise ValueError(
            f"Column {name!r} of X holds dates or times, as {moment}, and {owner} {READS}. Give the table to "
            "multiform.tables.TableClassifier, which reads dates, times and durations, too, or numbers."
        )
    values = _texts(cells) if is_category else typed(cells)
    if values.dtype.kind == "f":
        present = values[~np.isnan(values)]
        median = 2 * float(np.median(present / 2)) if len(present) and np.isfinite(present).all() else 0.0
        return Measure(name, "every cell is a number", median, False)
    values = _texts(cells)
    distinct = {text for text in values if text is not None}
    n_present = sum(text is not None for text in values)
    if not is_category and n_present >= ENOUGH_ROWS and len(distinct) >= ALMOST_ALL * n_present:
        raise ValueError(
            f"Column {name!r} of X has {len(distinct)} distinct texts in {n_present} cells, and {owner} {READS}. Give "
            "numbers if it holds some as text, and leave out what only names a row; multiform.tables.TableClassifier "
            "reads numbers in any notation, and words of free text."
        )
    if not is_category and len(distinct) > MOST_VALUES and _are_numbers(distinct):
        warnings.warn(
            f"Column {name!r} of X holds {len(distinct)} different numbers as text, which {owner} reads as categories, "
            "without their order. Give numbers, as pandas.to_numeric makes them, or the table to "
            "multiform.tables.TableClassifier; if they are codes, give the column the type of categories.",
            NumbersAsTextWarning,
            stacklevel=7,
        )
    label = Label.learn(name, f"{len(distinct)} distinct values", values, most=MOST_LABELS)
    assert isinstance(label, Label)
    return label


def _texts(cells: Array) -> Array:
    """Cells as text, None where one is missing; True and False alike as truth values and as objects."""
    return typed(cells.astype(object) if cells.dtype.kind == "b" else cells, words=True)


def _are_numbers(texts: Collection[str]) -> bool:
    """Whether all texts but what stands for a missing value are numbers, and no codes that begin with a 0."""
    rest = [text for text in texts if text not in MISSING]
    if any(text.lstrip("+-").startswith("0") and text.lstrip("+-")[1:2].isdigit() for text in rest):
        return False
    try:
        return all(np.isfinite(float(text)) for text in rest)
    except ValueError:
        return False


def _numbers(column: Measure | Label, cells: Array, owner: str) -> tuple[Array, int]:
    """The numbers of some cells, and how many of them are categories that training did not have."""
    if isinstance(column, Label):
        texts = _texts(cells)
        places = column.columns(texts)[:, 0]
        return places, int(np.isnan(places).sum()) - sum(text is None for text in texts)
    values = typed(cells)
    if values.dtype.kind != "f":
        raise ValueError(
            f"Column {column.name!r} of X was a number in every row that {owner} was trained on; got "
            f"{[value for value in values[:100].tolist() if value is not None][:3]}. Give numbers, and None or NaN "
            "where there is none."
        )
    return values, 0
