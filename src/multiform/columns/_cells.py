"""Tables as callers have them, and their cells as text, as numbers and as dates, whatever types they have.

Tables are polars series, which may come from text files, where a missing value is written in many ways. Everything else
is arrays, where it is None, NaN, or what pandas has for them.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import DuplicateError

from multiform._typing import Array, Doubles
from multiform.columns._notation import PLAIN, Notation, is_certain, notation_of, numbers_in, without_words

# What stands for a missing value in a text table.
MOMENTS = (datetime.date, datetime.time, datetime.timedelta)
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "?", "#N/A")

# In this order; the first that reads every cell of a column is taken. No number is a date in any of them.
ISO_FORMATS = 5  # of the following
DATE_FORMATS = (
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%dT%H:%M",
    "%Y/%m/%d",
    "%Y/%m/%d %H:%M:%S",
    "%d.%m.%Y",
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y %H:%M:%S",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d/%m/%Y %H:%M",
    "%m/%d/%Y %H:%M",
    "%d %b %Y",
    "%b %d, %Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d-%b-%Y",
    "%d.%m.%y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d-%m-%y",
)


CERTAIN_FORMATS = (*DATE_FORMATS[:ISO_FORMATS], "%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S")
FARTHEST_MOMENT = 1e12  # seconds from 1970, in a model file
NEEDLESS_ZERO = r"^[-+]?0[0-9]"
MOST_AT_ONCE = 4_000_000  # cells that are read together: the text of all of them is held twice
EXACT = 2**53  # below it, every whole number is one of its own
HOUR = 3_600_000  # milliseconds


class TableError(ValueError):
    """A table that cannot be read or used; names the file, the line and the column where they are known.

    Parameters
    ----------
    sentence : str
    column : str, default=None
        The column of the cell that is wrong.
    row : int, default=None
        Its row in the table, from 0. Whoever knows where that row stands says the file and the line.
    """

    def __init__(self, sentence: str, *, column: str | None = None, row: int | None = None) -> None:
        self.sentence, self.column, self.row = sentence, column, row
        super().__init__(sentence if row is None else f"column {column!r}, row {row + 1}: {sentence}")


def polars() -> Any:
    """The library, or a sentence that says how to get it."""
    try:
        import polars as library
    except ImportError as error:
        raise ImportError('Tables are read with polars; install it with pip install "multiform[cli]".') from error
    return library


# --------------------------------------------------------------------------------------------------------------- frames


def columns_of(X: Any, names: Sequence[str] | None = None) -> dict[str, Array]:
    """The columns by name, all or those named; those of a matrix are named by their places."""
    if isinstance(X, Mapping):
        found = {str(name): values for name, values in X.items()}
    elif isinstance(frame := nw.from_native(X, eager_only=True, pass_through=True), nw.DataFrame):
        found = {str(series.name): series.to_native() for series in frame.iter_columns()}  # a frame may count them
    else:
        matrix = np.asarray(X)
        named = [f"column {j}" for j in range(matrix.shape[1])] if names is None else names
        found = {name: matrix[:, j] for j, name in enumerate(named)}
    return {name: cells_of(found[name]) for name in (found if names is None else names)}


def cells_of(column: Any) -> Array:
    """The cells of a column of any frame; of Arrow's dictionaries NumPy gets the last value where one is missing."""
    if hasattr(getattr(column, "type", None), "index_type"):
        cells = np.empty(len(column), dtype=object)
        cells[:] = column.to_pylist()
        return cells
    return np.asarray(column)


def moment_among(cells: Array) -> Any:
    """The first date, time of day, duration or period among the cells, if there is one."""
    if cells.dtype.kind in "mM":
        present = cells[~np.isnat(cells)]
        return present[0] if len(present) else cells.dtype
    if cells.dtype.kind != "O":
        return None
    return next(
        (cell for cell in cells if (isinstance(cell, MOMENTS) or hasattr(cell, "to_timestamp")) and cell == cell), None
    )


def repeated_name(X: Any) -> str:
    """The first name that two columns of a frame have."""
    names = Counter(map(str, getattr(X, "column_names", None) or X.columns))
    return names.most_common(1)[0][0]


def as_frame(table: Any) -> Any:
    """A polars frame from a frame, a mapping of columns, or a matrix (columns ``x0``, ``x1``, ...)."""
    pl = polars()
    if isinstance(table, pl.DataFrame):
        return table
    if isinstance(table, Mapping):
        several = {name: one for name, one in table.items() if hasattr(one, "__len__") and not isinstance(one, str)}
        lengths = {str(name): len(values) for name, values in several.items()}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{name!r} {length}" for name, length in list(lengths.items())[:5])
            raise TableError(f"The columns of a table must have a cell for each row; got {told}.")
        return pl.DataFrame({str(name): values for name, values in table.items()}, strict=False)
    if isinstance(table, np.ndarray) and table.ndim == 2:
        columns = [table[:, column] for column in range(table.shape[1])]
        if table.dtype.kind == "O":  # cells of several types
            return pl.DataFrame([_series_of(f"x{place}", column.tolist()) for place, column in enumerate(columns)])
        return pl.DataFrame({f"x{place}": column for place, column in enumerate(columns)})
    try:
        frame = nw.from_native(table, pass_through=True)
    except DuplicateError as error:
        raise TableError(
            f"The table has several columns named {repeated_name(table)!r}, and columns are known by their names; "
            "rename or leave out all but one."
        ) from error
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, nw.DataFrame):
        raise TableError(
            "A table must be a polars or pandas frame, a mapping of columns or a matrix; "
            f"got {type(table).__name__}{f' of shape {table.shape}' if hasattr(table, 'shape') else ''}."
        )
    native = frame.to_native()
    if isinstance(native, pl.DataFrame):  # a lazy one has become it
        return native
    return pl.DataFrame([_polars_series(series) for series in frame.iter_columns()])


def _polars_series(series: Any) -> Any:
    """By way of NumPy and lists, which need no further library and take cells of several types; a gap is None."""
    pl = polars()
    name, missing = str(series.name), series.is_null()
    if (series.dtype.is_numeric() or series.dtype == nw.Boolean) and not missing.any():
        return pl.Series(name, series.to_numpy())
    if series.dtype.is_float():
        return pl.Series(name, np.asarray(series.to_numpy(), dtype=np.float64))
    cells: list[Any] = [None if gap else cell for cell, gap in zip(series.to_list(), missing.to_list(), strict=True)]
    return _series_of(name, cells)


def _series_of(name: str, cells: list[Any]) -> Any:
    """From cells of any types, None where one is missing."""
    read: list[Any] = [
        cell.to_pydatetime() if hasattr(cell, "to_pydatetime") else float(cell) if isinstance(cell, Decimal) else cell
        for cell in cells
    ]
    return polars().Series(name, read, strict=False)


def without(frame: Any, words: Sequence[str]) -> Any:
    """The frame, null where a cell is one of some words, or the number that a word is."""
    if not words:
        return frame
    pl = polars()
    low = [word.strip().lower() for word in words]
    numbers = [float(word) for word in low if re.fullmatch(r"[-+]?[0-9]+([.][0-9]+)?", word)]
    texts, figures = pl.col(pl.String), pl.selectors.numeric()
    found = [pl.when(~texts.str.strip_chars().str.to_lowercase().is_in(low)).then(texts).name.keep()]
    found += [pl.when(~figures.is_in(numbers)).then(figures).name.keep()] if numbers else []
    return frame.with_columns(found)


# ----------------------------------------------------------------------------------------------- polars series


def is_plain(series: Any) -> bool:
    """Whether the cells are numbers, text, dates, times or truth values: no lists, no bytes."""
    pl = polars()
    return not (series.dtype.is_nested() or series.dtype in (pl.Object, pl.Binary))


def is_day(dtype: Any) -> bool:
    """Whether a type is of days, with a time or without; a time or a duration alone is a number of hours."""
    pl = polars()
    return bool(dtype.is_temporal()) and dtype not in (pl.Time, pl.Duration)


def as_text(series: Any) -> Any:
    """Trimmed text; None where a value is missing. A whole number is written without a point, whatever its type."""
    pl = polars()
    if not is_plain(series):
        raise TableError(
            f"Column {series.name!r} holds values of the type {series.dtype}; cells must be numbers, text, dates, "
            "times or truth values."
        )
    if series.dtype == pl.Duration:
        series = series.dt.total_milliseconds() / HOUR
    if series.dtype.is_float():
        whole = series.is_finite() & (series == series.round(0)) & (series.abs() < EXACT)
        as_whole = series.set(~whole.fill_null(False), None).cast(pl.Int64).cast(pl.String)
        text = as_whole.zip_with(whole.fill_null(False), series.cast(pl.String))
    else:
        text = series.cast(pl.String, strict=False)
    return text.to_frame().select(_trimmed(pl.first())).to_series()  # one query: each costs a tenth of a millisecond


def _trimmed(text: Any) -> Any:
    """The expression: trimmed text; null where a value is missing."""
    trimmed = text.str.strip_chars()
    return polars().when(~trimmed.is_in(list(MISSING))).then(trimmed)


def as_numbers(series: Any, notation: Notation = PLAIN) -> tuple[Doubles, int]:
    """Numbers, NaN where one is missing; and how many cells are not missing and yet no number."""
    pl = polars()
    unreadable = 0
    if series.dtype.is_numeric() or series.dtype == pl.Boolean:
        numbers = series if series.dtype == pl.Float64 else series.cast(pl.Float64)
    else:
        text = as_text(series)
        numbers, unreadable = numbers_in(text, notation)
        if unreadable and (other := notation_of(text)) is not None:
            # Training had other marks, as a spreadsheet has points where a text file has commas. Units must agree, if
            # training had one; of a new one, numbers that are unlike training are told.
            same = other._replace(absent=notation.absent, bounds=notation.bounds or other.bounds)
            agrees = not notation.unit or same.unit in ("", notation.unit)
            if agrees and is_certain(text, same) and not (again := numbers_in(text, same))[1]:
                numbers, unreadable = again
    return _finite(numbers, unreadable)


def _finite(numbers: Any, unreadable: int) -> tuple[Doubles, int]:
    """As an array, NaN where there is no number that is finite; and what cannot be read."""
    values = np.array(numbers.to_numpy(), dtype=np.float64)  # null becomes NaN
    finite = np.isfinite(values)
    if np.count_nonzero(finite) < len(finite):
        values[~finite] = np.nan
    return values, unreadable


def with_numbers(frame: Any, names: Sequence[str], commas: bool = False) -> Any:
    """The frame, of which those of the named columns that are text, and read as numbers in every cell, are numbers.

    They are read all at once: column by column, a table of ten thousand takes a minute. A column with a needless 0 (a
    code, as 00123), or with a number that is no exact one (an identifier), stays text; so does one whose points may
    stand between thousands, if the table has decimal `commas`.
    """
    pl, types = polars(), dict(frame.schema)
    names = [name for name in names if types[name] == pl.String]
    step = max(1, MOST_AT_ONCE // max(1, len(frame)))
    parts = (_numbers_of(frame.select(names[at : at + step]), commas) for at in range(0, len(names), step))
    found = [series for part in parts for series in part]
    return frame.with_columns(found) if found else frame


def _numbers_of(frame: Any, commas: bool) -> list[Any]:
    """Those of the text columns of a frame that read as numbers, as such."""
    pl = polars()
    text = frame.select(_trimmed(pl.all()))
    numbers = text.cast(pl.Float64, strict=False)
    gaps, nulls = text.null_count().row(0), numbers.null_count().row(0)
    greatest = numbers.select(pl.all().abs().max()).row(0)
    other = rf"{NEEDLESS_ZERO}|^[-+]?[1-9][0-9]{{0,2}}\.[0-9]{{3}}$" if commas else NEEDLESS_ZERO
    is_padded = text.select(pl.all().str.contains(other).any()).row(0)
    return [
        series
        for series, gap, null, size, padded in zip(numbers, gaps, nulls, greatest, is_padded, strict=True)
        if gap == null and size is not None and size < EXACT and not padded
    ]


def any_numbers(series: Any, commas: bool = False) -> tuple[Doubles, Notation | None]:
    """The numbers of a column, however it writes them, NaN where one is missing; and how, None if they are none.

    `commas`: whether other columns of the table have decimal commas.
    """
    if series.dtype.is_numeric() or series.dtype == polars().Boolean:
        return as_numbers(series)[0], PLAIN
    text = as_text(series)
    if not commas:
        values, unreadable = _finite(*numbers_in(text, PLAIN))
        if not unreadable:
            return values, PLAIN if text.null_count() < len(text) else None
    notation = notation_of(text, commas)
    if notation is None:
        return np.full(len(series), np.nan), None
    values, unreadable = as_numbers(text, notation)
    return values, None if unreadable else notation


def numbers_or_text(series: Any) -> Any:
    """A series of numbers where every cell reads as one, however it is written, else of trimmed text."""
    values, notation = any_numbers(series)
    return as_text(series) if notation is None else polars().Series(series.name, values)


def as_dates(series: Any, format: str | None, others: bool = False) -> tuple[Doubles, int]:
    """Seconds since 1970, NaN where a date is missing; and how many cells are not missing and yet no date.

    With `others`, a cell may be written in another format that is not easily mistaken.
    """
    pl = polars()
    if is_day(series.dtype):
        zone = getattr(series.dtype, "time_zone", None)
        local = series.dt.replace_time_zone(None) if zone is not None else series  # the hour on the clock there
        moments, unreadable = local.cast(pl.Datetime("ms")), 0
    else:
        text = without_words(as_text(series))
        if format is None:  # training had dates that were no text: as text they are of ISO 8601
            tried = [text.str.to_datetime(one, strict=False, time_unit="ms") for one in DATE_FORMATS[1:ISO_FORMATS]]
            moments = text.str.to_date(DATE_FORMATS[0], strict=False).cast(pl.Datetime("ms"))
            for other in tried:
                moments = moments.fill_null(other)
        elif "%H" in format:
            moments = text.str.to_datetime(format, strict=False, time_unit="ms")
        else:
            moments = text.str.to_date(format, strict=False).cast(pl.Datetime("ms"))
        for other in CERTAIN_FORMATS if format is not None and others else ():
            if (
                moments.null_count() > text.null_count()
            ):  # a spreadsheet has days where a text file has dates as written
                read = text.str.to_datetime if "%H" in other else text.str.to_date
                moments = moments.fill_null(read(other, strict=False).cast(pl.Datetime("ms")))
        unreadable = int(moments.null_count() - text.null_count())
    seconds = np.array(moments.dt.epoch("ms").cast(pl.Float64).to_numpy(), dtype=np.float64) / 1000
    too_far = np.abs(seconds) >= FARTHEST_MOMENT
    seconds[too_far] = np.nan
    return seconds, unreadable + int(too_far.sum())


# --------------------------------------------------------------------------------------------------------- arrays


def typed(column: Array, *, parse: bool = False, words: bool = False) -> Array:
    """Numbers with NaN, moments with NaT, or text with None.

    With `parse`, text of which every cell reads as a number is numbers, moments are text, and text is trimmed; blank
    text is missing. With `words`, everything is such text.
    """
    column = np.asarray(column)
    texts = np.empty(len(column), dtype=object)
    if column.dtype.kind in "biuf":
        numbers = column.astype(np.float64)
        if not words:
            return numbers
        texts[:] = [None if value != value else _shortest(value) for value in numbers.tolist()]
        return texts
    if column.dtype.kind == "M" and not (parse or words):
        return column
    cells = column.astype(object)
    missing = np.array([_is_missing(cell, blank=parse or words) for cell in cells], dtype=bool)
    if not words and (parse or all(isinstance(cell, (Real, Decimal)) for cell in cells[~missing])):
        try:
            return np.array([np.nan if gap else float(cell) for cell, gap in zip(cells, missing, strict=True)])
        except OverflowError:  # a whole number that is larger than any other
            return np.full(len(cells), np.inf)
        except (TypeError, ValueError):
            pass
    texts[:] = [None if gap else str(cell) for cell, gap in zip(cells, missing, strict=True)]
    if parse or words:
        texts[~missing] = [text.strip() for text in texts[~missing]]
    return texts


def _shortest(value: float) -> str:
    """A number as text that is of no other number; 5.0 as a whole number is written."""
    short = f"{value:g}"
    return short if float(short) == value else f"{value:.0f}" if value.is_integer() else repr(float(value))


def _is_missing(cell: Any, blank: bool) -> bool:
    """None, NaN, and what pandas has for them; text of nothing but spaces, too, if `blank` is."""
    if cell is None or (blank and str(cell).strip() == ""):
        return True
    try:
        return bool(cell != cell)  # NaN, NaT
    except TypeError:  # pandas' NA, which is neither equal nor unequal
        return True
    except ValueError:  # an array in a cell
        return False
