"""Tables as callers have them: frames of any library that narwhals knows, mappings of columns, matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from multiform._typing import Array
from multiform.columns._cells import TableError, polars

__all__ = ["as_frame", "columns_of"]


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
    return {name: np.asarray(found[name]) for name in (found if names is None else names)}


def as_frame(table: Any) -> Any:
    """A polars frame from a frame, a mapping of columns, or a matrix (columns ``x0``, ``x1``, ...)."""
    pl = polars()
    if isinstance(table, Mapping):
        return pl.DataFrame({str(name): values for name, values in table.items()}, strict=False)
    if isinstance(table, np.ndarray) and table.ndim == 2:
        return pl.DataFrame({f"x{column}": table[:, column] for column in range(table.shape[1])})
    frame = nw.from_native(table, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, nw.DataFrame):
        raise TableError(
            "A table must be a polars or pandas frame, a mapping of columns or a matrix; "
            f"got {type(table).__name__}{f' of shape {table.shape}' if hasattr(table, 'shape') else ''}."
        )
    native = frame.to_native()
    if isinstance(native, pl.DataFrame):
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
    cells = [cell.to_pydatetime() if hasattr(cell, "to_pydatetime") else cell for cell in cells]
    return pl.Series(name, cells, strict=False)
