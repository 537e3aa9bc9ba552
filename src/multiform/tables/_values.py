"""Cells as text, as numbers and as dates, whatever the file's own types are."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from multiform.tables._errors import TableError, polars

__all__ = ["DATE_FORMATS", "MISSING", "as_dates", "as_numbers", "as_text", "is_plain"]

# What stands for a missing value in a text table.
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "?", "#N/A")

# In this order; the first that reads every cell of a column is taken.
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
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d/%m/%Y %H:%M",
    "%m/%d/%Y %H:%M",
    "%d %b %Y",
    "%b %d, %Y",
)


def is_plain(series: Any) -> bool:
    """Whether the cells are numbers, text, dates or truth values: no lists, no bytes."""
    pl = polars()
    return not (series.dtype.is_nested() or series.dtype in (pl.Object, pl.Binary, pl.Duration, pl.Time))


def as_text(series: Any) -> Any:
    """Trimmed text; None where a value is missing. A whole number is written without a point, whatever its type."""
    pl = polars()
    if not is_plain(series):
        raise TableError(
            f"Column {series.name!r} holds values of the type {series.dtype}; cells must be numbers, text, dates or "
            "truth values."
        )
    if series.dtype.is_float():
        whole = series.is_finite() & (series == series.round(0)) & (series.abs() < 2**53)
        as_whole = series.set(~whole.fill_null(False), None).cast(pl.Int64).cast(pl.String)
        text = as_whole.zip_with(whole.fill_null(False), series.cast(pl.String))
    elif series.dtype == pl.Null:
        text = series.cast(pl.String)
    else:
        text = series.cast(pl.String, strict=False)
    text = text.str.strip_chars()
    return text.set(text.is_in(list(MISSING)).fill_null(False), None)


def as_numbers(series: Any, decimal_comma: bool = False) -> tuple[npt.NDArray[np.float64], int]:
    """Numbers, NaN where one is missing; and how many cells are not missing and yet no number."""
    pl = polars()
    if series.dtype.is_numeric() or series.dtype == pl.Boolean:
        numbers = series.cast(pl.Float64)
        unreadable = 0
    else:
        text = as_text(series)
        numbers = (text.str.replace(",", ".", literal=True) if decimal_comma else text).cast(pl.Float64, strict=False)
        unreadable = int((numbers.is_null() & text.is_not_null()).sum())
    values = np.array(numbers.fill_null(float("nan")).to_numpy(), dtype=np.float64)
    values[~np.isfinite(values)] = np.nan
    return values, unreadable


def as_dates(series: Any, format: str | None) -> tuple[npt.NDArray[np.float64], int]:
    """Seconds since 1970, NaN where a date is missing; and how many cells are not missing and yet no date."""
    pl = polars()
    if series.dtype.is_temporal() and series.dtype not in (pl.Time, pl.Duration):
        zone = getattr(series.dtype, "time_zone", None)
        local = series.dt.replace_time_zone(None) if zone is not None else series  # the hour on the clock there
        moments, unreadable = local.cast(pl.Datetime("ms")), 0
    else:
        text = as_text(series)
        moments = _parsed(text, format)
        unreadable = int((moments.is_null() & text.is_not_null()).sum())
    seconds = moments.dt.epoch("ms").cast(pl.Float64) / 1000
    return np.array(seconds.fill_null(float("nan")).to_numpy(), dtype=np.float64), unreadable


def _parsed(text: Any, format: str | None) -> Any:
    pl = polars()
    if format is None:
        return pl.Series([None] * len(text), dtype=pl.Datetime("ms"))
    if "%H" in format:
        return text.str.to_datetime(format, strict=False, time_unit="ms")
    return text.str.to_date(format, strict=False).cast(pl.Datetime("ms"))
