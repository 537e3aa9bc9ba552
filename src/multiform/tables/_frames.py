"""What callers have as a table, as a polars frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from multiform.tables._errors import TableError, polars

__all__ = ["as_frame"]


def as_frame(table: Any) -> Any:
    """A polars frame from a polars or pandas frame, a mapping of columns, or a matrix (columns ``x0``, ``x1``, ...)."""
    pl = polars()
    if isinstance(table, pl.DataFrame):
        return table
    if isinstance(table, pl.LazyFrame):
        return table.collect()
    if hasattr(table, "columns") and hasattr(table, "iloc"):  # pandas, without importing it
        return pl.DataFrame([_pandas_series(str(name), table[name]) for name in table.columns])
    if isinstance(table, Mapping):
        return pl.DataFrame({str(name): values for name, values in table.items()}, strict=False)
    if isinstance(table, np.ndarray) and table.ndim == 2:
        return pl.DataFrame({f"x{column}": table[:, column] for column in range(table.shape[1])})
    raise TableError(
        "A table must be a polars or pandas frame, a mapping of columns or a matrix; "
        f"got {type(table).__name__}{f' of shape {table.shape}' if hasattr(table, 'shape') else ''}."
    )


def _pandas_series(name: str, column: Any) -> Any:
    """By way of NumPy, which needs no further library; what is missing in pandas is None here."""
    pl = polars()
    if column.dtype.kind in "biuf" and not hasattr(column.dtype, "categories") and not column.isna().any():
        return pl.Series(name, column.to_numpy())
    if column.dtype.kind == "f":
        return pl.Series(name, column.to_numpy(dtype=np.float64, na_value=np.nan))
    values: list[Any] = [
        None if missing else value for value, missing in zip(column.tolist(), column.isna(), strict=True)
    ]
    values = [value.to_pydatetime() if hasattr(value, "to_pydatetime") else value for value in values]
    return pl.Series(name, values, strict=False)
