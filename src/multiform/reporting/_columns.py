"""The columns of X, whatever X is, as a reader wants to see them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from multiform._typing import Array, Doubles
from multiform.columns import columns_of, typed
from multiform.reporting._pictures import plain


def read_columns(X: Any) -> dict[str, Array] | None:
    """Numbers with NaN, dates with NaT, text with None, by name; None of a sparse matrix, whose cells are mostly 0."""
    return None if scipy.sparse.issparse(X) else {name: typed(column) for name, column in columns_of(X).items()}


def kind_of(column: Array) -> str:
    """ "number", "date" or "text"."""
    return {"f": "number", "M": "date"}.get(column.dtype.kind, "text")


def as_number(column: Array) -> Doubles:
    """A number or a date as a number, of days since 1970."""
    if column.dtype.kind == "f":
        return column
    days = column.astype("datetime64[s]").astype(np.float64) / 86_400
    return np.where(np.isnat(column), np.nan, days)


def described(column: Array) -> dict[str, Any]:
    """What kind of column it is, how many cells are missing, how many values are distinct, and they in a few words."""
    kind = kind_of(column)
    if kind == "text":
        present = np.array([value for value in column if value is not None])
    else:
        numbers = as_number(column)
        present = numbers[~np.isnan(numbers)]
    names, counts = np.unique(present, return_counts=True)
    told = {"kind": kind, "n_missing": len(column) - len(present), "distinct": len(names)}
    if not len(names):
        return told | {"values": "empty"}
    if kind == "text":
        frequent = np.argsort(-counts, kind="stable")[:3]
        shown = ", ".join(f"{plain(names[i], most=24)} ({counts[i] / len(present):.0%})" for i in frequent)
        return told | {"values": shown + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")}
    least, middle, most = np.quantile(present, [0, 0.5, 1])
    if kind == "date":
        days = np.array([least, middle, most]).astype("datetime64[D]")
        return told | {"values": f"{days[0]} to {days[2]}, median {days[1]}"}
    if least == most:
        return told | {"values": f"always {least:.4g}"}
    return told | {"values": f"{least:.4g} to {most:.4g}, median {middle:.4g}"}
