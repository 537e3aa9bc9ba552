"""The columns of X, whatever X is: their names, kinds and values, as a reader wants to see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

__all__ = ["Column", "columns_of"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    name : str
    kind : {"number", "date", "text"}
    values : array of shape (n,)
        Numbers with NaN where one is missing (dates as days), or text with None.
    """

    name: str
    kind: str
    values: Array

    @property
    def n_missing(self) -> int:
        """Cells without a value."""
        if self.kind == "text":
            return sum(value is None for value in self.values)
        return int(np.isnan(self.values).sum())

    @property
    def n_distinct(self) -> int:
        """Different values."""
        if self.kind == "text":
            return len({value for value in self.values if value is not None})
        return len(np.unique(self.values[~np.isnan(self.values)]))

    def described(self) -> str:
        """The values in a few words."""
        if not self.n_distinct:
            return "empty"
        if self.kind == "text":
            present = np.array([value for value in self.values if value is not None])
            names, counts = np.unique(present, return_counts=True)
            frequent = np.argsort(-counts, kind="stable")[:3]
            shown = ", ".join(f"{_shortened(str(names[i]))} ({counts[i] / len(present):.0%})" for i in frequent)
            return shown + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")
        least, middle, most = np.quantile(self.values[~np.isnan(self.values)], [0, 0.5, 1])
        if self.kind == "date":
            days = np.array([least, middle, most]).astype("datetime64[D]")
            return f"{days[0]} to {days[2]}, median {days[1]}"
        if least == most:
            return f"always {least:.4g}"
        return f"{least:.4g} to {most:.4g}, median {middle:.4g}"


def columns_of(X: Any) -> list[Column] | None:
    """The columns of a frame, a mapping of columns or a matrix; None of a sparse matrix, whose cells are mostly 0."""
    if scipy.sparse.issparse(X):
        return None
    if isinstance(X, Mapping):
        return [_column(str(name), np.asarray(values)) for name, values in X.items()]
    if hasattr(X, "columns"):  # pandas and polars
        return [_column(str(name), _values(X[name])) for name in X.columns]
    matrix = np.asarray(X)
    return [_column(f"column {i}", matrix[:, i]) for i in range(matrix.shape[1])]


def _values(series: Any) -> Array:
    return np.asarray(series.to_numpy())


def _column(name: str, values: Array) -> Column:
    if values.dtype.kind in "biuf":
        return Column(name, "number", values.astype(np.float64))
    if values.dtype.kind == "M":
        days = values.astype("datetime64[s]").astype(np.float64) / 86_400
        return Column(name, "date", np.where(np.isnat(values), np.nan, days))
    cells = [None if _is_missing(value) else value for value in values.tolist()]
    if all(value is None or isinstance(value, Real) for value in cells):
        return Column(name, "number", np.array([np.nan if value is None else float(value) for value in cells]))
    texts = np.empty(len(cells), dtype=object)
    texts[:] = [None if value is None else str(value) for value in cells]
    return Column(name, "text", texts)


def _is_missing(value: Any) -> bool:
    """None, NaN, and what pandas has for them."""
    return (
        value is None or (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType")
    )


def _shortened(text: str, most: int = 24) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
