"""Arrays that live on a GPU already (CuPy's, torch's, any that speaks DLPack): fetched for a fit, answered there."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from multiform.runtime import on_gpu

__all__ = ["as_host", "check_gpu_rows", "named_classes", "on_gpu", "on_gpu_like"]


def as_host(array: Any) -> Any:
    """An array on a GPU as a NumPy array; anything else as it is.

    >>> as_host([1, 2])
    [1, 2]
    """
    return _cupy_array(array).get() if on_gpu(array) else array


def check_gpu_rows(estimator: Any, X: Any) -> Any:
    """X as the kernels read it (uint8 or float32, C order), after the checks that scikit-learn makes of others."""
    name = type(estimator).__name__
    rows = _cupy_array(X)
    if rows.ndim != 2 or rows.shape[0] == 0:
        raise ValueError(f"X of {name} must have samples in rows, shape (n, p); got an array of shape {rows.shape}.")
    if rows.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {rows.shape[1]} features, but {name} is expecting {estimator.n_features_in_} features as input."
        )
    if rows.dtype != np.uint8:
        rows = rows.astype(np.float32, copy=False)
        if not bool(np.isfinite(rows).all()):
            raise ValueError(f"Input X of {name} contains NaN, infinity or a value too large for float32.")
    return rows if rows.flags.c_contiguous else rows.copy()


def named_classes(classes: npt.NDArray[Any], index: Any) -> Any:
    """The classes at these indices, where the indices are; classes that are no numbers can only be on the host."""
    if not on_gpu(index):
        return np.asarray(classes[index])
    if classes.dtype.kind in "biuf":
        return _cupy_array(classes)[index]
    return classes[index.get()]


def on_gpu_like(array: npt.NDArray[Any], other: Any) -> Any:
    """A NumPy array on the GPU where the other one is."""
    with other.device:
        return _cupy_array(array)


def _cupy_array(array: Any) -> Any:
    from multiform.engines.cuda.device import cupy_module

    cupy = cupy_module()
    if isinstance(array, (np.ndarray, cupy.ndarray)) or not hasattr(array, "__dlpack__"):
        return cupy.asarray(array)
    return cupy.from_dlpack(array)  # waits for the stream that makes the array
