"""From the caller's X to what the engine reads: no copy of float32, uint8 or CSR, one float32 copy of the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
from sklearn.utils.validation import validate_data

from multiform.gpu_arrays import as_host
from multiform.runtime import effective_threads
from multiform.solvers.problem import Floats, core_rows

__all__ = ["TrainingInput", "as_rows", "check_input", "content_folds", "prepare", "read_with", "row_keys"]

Doubles = npt.NDArray[np.float64]
ACCEPTED = [np.float64, np.float32, np.uint8]  # what X may be; anything else becomes the first
CHUNK_ROWS = 4096
MANY_ZEROS = 0.25


@dataclass(frozen=True)
class TrainingInput:
    """Rows for the engine, how it reads them, and how that relates to the user's units.

    A column that never varies has an infinite scale: it is read as 0 and its components are 0.
    """

    rows: Any
    read_center: Floats  # what the engine applies to `rows`
    read_scale: Floats
    center: Doubles  # the same in the user's units
    scale: Doubles


def check_input(estimator: Any, X: Any, y: Any = "no_validation", *, reset: bool = False, finite: bool = True) -> Any:
    """X, or X and y, as `validate_data` returns them; text in X gets a sentence that says what to do.

    Without `finite` NaN and infinity are let through, for a caller that sees them by their consequences.
    """
    X, y = as_host(X), as_host(y)
    try:
        return validate_data(
            estimator, X, y, accept_sparse="csr", dtype=ACCEPTED, reset=reset, ensure_all_finite=finite
        )
    except ValueError as error:
        if "could not convert string to float" not in str(error):
            raise
        text = str(error).partition("float: ")[2].removeprefix("np.str_(").removesuffix(")")
        raise ValueError(
            f"X of {type(estimator).__name__} must hold numbers, but has the text {text}. Turn text columns into "
            "numbers first, e.g. with scikit-learn's OneHotEncoder in a ColumnTransformer, or give the table as it is "
            "to multiform.tables.TableClassifier."
        ) from error


def as_rows(X: Any) -> Any | None:
    """X itself where the engine can read it (float32 or uint8 in C order, CSR of float32), else None."""
    if scipy.sparse.issparse(X):
        X = X.tocsr()
        if X.dtype != np.float32:
            X = X.astype(np.float32)
        if not X.has_sorted_indices or not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        return X
    if X.dtype == np.uint8 or X.dtype == np.float32:
        return X if X.strides[1] == X.itemsize or X.shape[1] == 1 else np.ascontiguousarray(X)
    return None


def prepare(X: Any, scaling: str, weight: Floats | None, n_jobs: int | None, keep_zeros: bool = False) -> TrainingInput:
    """Choose center and scale, and make X readable.

    With `keep_zeros`, data with many zeros are not centred, so that a solver can skip them.
    """
    rows = as_rows(X)
    mean, variance, least, most = _moments(X if rows is None else rows, weight, n_jobs)
    precision = 1e-14 if rows is None else 1e-6
    constant = (least == most) | (np.sqrt(variance) <= precision * np.abs(mean))
    common = scaling == "common" or (
        scaling == "auto" and (scipy.sparse.issparse(rows) or _share_one_range(least, most, constant))
    )
    if scaling == "none":
        center, scale = np.zeros_like(mean), np.ones_like(mean)
    else:
        deviation = np.sqrt(variance)
        if common:
            deviation = np.full_like(mean, np.sqrt(variance[~constant].mean()) if (~constant).any() else 1.0)
        center, scale = mean, np.where(constant, np.inf, deviation)
    if keep_zeros and rows is not None and _share_of_zeros(rows) >= MANY_ZEROS:
        center = np.zeros_like(mean)
    if rows is not None:  # the engine applies the scaling in single precision; so do the user's units
        center, scale = center.astype(np.float32).astype(np.float64), scale.astype(np.float32).astype(np.float64)
    return read_with(X if rows is None else rows, center, scale)


def read_with(X: Any, center: Doubles, scale: Doubles) -> TrainingInput:
    """X under a scaling that is given."""
    rows = as_rows(X)
    if rows is not None:
        return TrainingInput(rows, center.astype(np.float32), scale.astype(np.float32), center, scale)
    scaled = np.empty(X.shape, dtype=np.float32)
    for start in range(0, len(X), CHUNK_ROWS):
        chunk = slice(start, start + CHUNK_ROWS)
        scaled[chunk] = (X[chunk] - center) / scale
    width = X.shape[1]
    return TrainingInput(scaled, np.zeros(width, np.float32), np.ones(width, np.float32), center, scale)


def _share_of_zeros(rows: Any) -> float:
    if scipy.sparse.issparse(rows):
        return 1 - float(rows.nnz) / float(np.prod(rows.shape))
    some = rows[:: max(1, len(rows) // 1000)]
    return float(1 - np.count_nonzero(some) / some.size)


def _share_one_range(least: Doubles, most: Doubles, constant: npt.NDArray[np.bool_]) -> bool:
    """Pixels, percentages, one-hot: one unit for all columns, so a column that varies less is not blown up.

    True when every varying column has the same least value and at least half of them reach the same greatest one.
    """
    least, most = least[~constant], most[~constant]
    return len(least) > 1 and bool((least == least[0]).all() and (most == most.max()).mean() >= 0.5)


def _moments(X: Any, weight: Floats | None, n_jobs: int | None) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    """Mean, variance, least and greatest value of each column, weighted where weights are given."""
    width = X.shape[1]
    if scipy.sparse.issparse(X):
        from sklearn.utils.sparsefuncs import mean_variance_axis, min_max_axis

        mean, variance = mean_variance_axis(X.astype(np.float64), axis=0, weights=weight)
        least, most = min_max_axis(X, axis=0)
        return tuple(np.asarray(part, dtype=np.float64) for part in (mean, variance, least, most))  # type: ignore[return-value]
    if weight is None and X.dtype in (np.float32, np.uint8):
        from multiform import _core

        means, variances = np.empty(width), np.empty(width)
        low, high = np.empty(width, np.float32), np.empty(width, np.float32)
        n_threads = 1 if X.size < 1_000_000 else effective_threads(n_jobs)
        _core.column_moments(core_rows(X), n_threads, means, variances, low, high)
        return means, variances, low.astype(np.float64), high.astype(np.float64)
    share = np.ones(len(X)) if weight is None else weight.astype(np.float64)
    share = share / share.sum()
    chunks = [slice(start, start + CHUNK_ROWS) for start in range(0, len(X), CHUNK_ROWS)]
    mean = sum((share[chunk] @ X[chunk].astype(np.float64) for chunk in chunks), np.zeros(width))
    variance = sum((share[chunk] @ (X[chunk] - mean) ** 2 for chunk in chunks), np.zeros(width))
    return mean, variance, X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)


def row_keys(X: Any, random: np.random.Generator) -> npt.NDArray[np.uint64]:
    """A random number per row that depends on its content only: equal rows get equal keys.

    Folds drawn from these never part duplicates, and do not depend on the order of the rows, nor on whether a row is
    repeated or weighted.
    """
    factors = random.integers(0, 2**63, size=X.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    if scipy.sparse.issparse(X):
        X = X.tocsr().copy()
        X.eliminate_zeros()
        bits = X.data.astype(np.float64).view(np.uint64) * factors[X.indices]
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(bits, dtype=np.uint64)])
        keys = sums[X.indptr[1:]] - sums[X.indptr[:-1]]
    else:
        # -0.0 + 0.0 = 0.0, so the two zeros have the same bits
        keys = np.concatenate(
            [
                ((X[i : i + CHUNK_ROWS].astype(np.float64) + 0.0).view(np.uint64) * factors).sum(
                    axis=1, dtype=np.uint64
                )
                for i in range(0, X.shape[0], CHUNK_ROWS)
            ]
        )
    # Small whole numbers differ in few high bits only; mix them down.
    keys ^= keys >> np.uint64(32)
    keys = keys * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray(keys ^ (keys >> np.uint64(29)), dtype=np.uint64)


def content_folds(X: Any, target: npt.NDArray[Any], n_folds: int, random: np.random.Generator) -> npt.NDArray[np.intp]:
    """Folds of nearly equal size within each class, decided by the rows' content alone (see `row_keys`)."""
    keys = row_keys(X, random)
    folds = np.empty(len(keys), dtype=np.intp)
    for k in np.unique(target):
        members = target == k
        # Small classes start at different folds, so that none of the folds collects all their first members.
        folds[members] = (np.unique(keys[members], return_inverse=True)[1] + k) % n_folds
    return folds
