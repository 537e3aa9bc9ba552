"""The member functions of a fitted model at samples in the user's own units."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from multiform.gpu_arrays import on_gpu, on_gpu_like
from multiform.inputs import as_rows
from multiform.solvers import from_user_units, member_values

__all__ = ["member_values_in_user_units"]

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]


def member_values_in_user_units(
    X: Any,
    components: Doubles,
    offsets: Doubles,
    center: Doubles,
    scale: Doubles,
    n_jobs: int | None,
    device: str = "cpu",
) -> Array:
    """``||A_k x - b_k||^2``: float64 input in float64, what the engine reads as it is (float32, uint8, CSR) in float32.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, p)
    components : array of shape (m, q, p)
    offsets : array of shape (m, q)
    center, scale : arrays of shape (p,)
        The scaling under which float32 arithmetic is accurate.
    n_jobs : int or None
    device : {"cpu", "cuda", "auto"}
        Where float32 is evaluated; with X on a GPU it is that GPU, and the result stays there.
    """
    # Rows that are 0 for every class add a constant; no need to multiply by them.
    used = np.asarray(components.any(axis=(0, 2)))
    used[0] = True  # one row stays, also when no column varies
    constant = (offsets[:, ~used] ** 2).sum(axis=1)
    components, offsets = components[:, used], offsets[:, used]
    rows = X if on_gpu(X) else as_rows(X)
    if rows is None:
        m, q, p = components.shape
        stacked = np.ascontiguousarray(components.reshape(m * q, p).T)
        values = np.empty((len(X), m))
        chunk = max(1, 4_000_000 // max(m * q, 1))
        for begin in range(0, len(X), chunk):
            residual = X[begin : begin + chunk] @ stacked - offsets.reshape(-1)
            residual = residual.reshape(-1, m, q)
            values[begin : begin + chunk] = np.einsum("nkq,nkq->nk", residual, residual)
        return np.asarray(values + constant)
    weights = from_user_units(components, offsets, center, scale)
    f = member_values(rows, weights, center.astype(np.float32), scale.astype(np.float32), None, n_jobs, device)
    added = constant.astype(np.float32)
    return f + on_gpu_like(added, f) if on_gpu(f) else np.asarray(f + added)
