"""From the caller's X, y and weights to what training needs: checked, as class indices, with a scaling.

Arrays that live on a GPU already (CuPy's, torch's, any that speaks DLPack) are fetched for a fit, and answered there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from multiform._typing import Array, Bools, Doubles, Floats, Ints
from multiform.engines import column_moments
from multiform.runtime import effective_threads, on_gpu
from multiform.separators import Scaling, as_stored, entries_of

ACCEPTED = [np.float64, np.float32, np.uint8]  # what X may be; anything else becomes the first
CHUNK_ROWS = 4096
MANY_ZEROS = 0.25


def as_host(array: Any) -> Any:
    """An array on a GPU as a NumPy array; anything else as it is.

    >>> as_host([1, 2])
    [1, 2]
    """
    return cupy_array(array).get() if on_gpu(array) else array


def cupy_array(array: Any) -> Any:
    """An array that CuPy, torch or anybody who speaks DLPack has on a GPU, or one of the host, as CuPy's."""
    from multiform.engines.cuda.device import cupy_module

    cupy = cupy_module()
    if isinstance(array, (np.ndarray, cupy.ndarray)) or not hasattr(array, "__dlpack__"):
        return cupy.asarray(array)
    return cupy.from_dlpack(array)  # waits for the stream that makes the array


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


def check_gpu_rows(estimator: Any, X: Any) -> Any:
    """X as the kernels read it (uint8 or float32, C order), after the checks that scikit-learn makes of others."""
    name = type(estimator).__name__
    rows = cupy_array(X)
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


def check_training_data(
    estimator: Any, X: Any, y: Any, sample_weight: Any, classes: Array | None = None, reset: bool = True
) -> tuple[Any, Ints, Array, Array | None]:
    """Checked X, class indices, classes and weights, without the samples of weight 0."""
    name = type(estimator).__name__
    X, y = check_input(estimator, X, y, reset=reset)
    check_classification_targets(y)
    weight = None
    if sample_weight is not None:
        weight = _check_sample_weight(as_host(sample_weight), X, dtype=np.float64, ensure_non_negative=True)
        used = weight > 0
        if not used.any():
            raise ValueError(f"sample_weight of {name} is 0 for every sample; at least one must be positive.")
        if not used.all():
            X, y, weight = X[used], y[used], weight[used]
    if classes is None:
        classes, target = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"{name} needs samples of at least 2 classes in y; got 1 class, {classes[0]}"
                + (" (with a positive weight)." if weight is not None else ".")
            )
    else:
        target = np.searchsorted(classes, y)
        unknown = (target == len(classes)) | (classes[np.minimum(target, len(classes) - 1)] != y)
        if unknown.any():
            raise ValueError(
                f"y of {name} holds a label that is not in classes, {y[unknown][0]}; the classes are {classes}."
            )
    return X, target.astype(np.int32).ravel(), classes, weight


def used_samples(sample_weight: Any) -> Bools | None:
    """Which samples have a weight that is not 0; None where all have."""
    used = np.asarray(as_host(1 if sample_weight is None else sample_weight)) > 0
    return None if used.all() else used


def class_weights_of(
    class_weight: dict[Any, float] | str | None, classes: Array, target: Array, weight: Array | None
) -> Floats:
    """The weight of each class; "balanced" counts samples by their weight."""
    if class_weight == "balanced":
        total = np.bincount(target, weights=weight, minlength=len(classes))
        present = total > 0
        balanced = np.ones(len(classes))
        balanced[present] = total.sum() / (present.sum() * total[present])
        return balanced.astype(np.float32)
    weights = compute_class_weight(class_weight, classes=classes, y=classes[target])
    if not (np.isfinite(weights).all() and (weights >= 0).all() and (weights > 0).any()):
        raise ValueError(f"class_weight must hold finite numbers, not negative, not all 0; got {class_weight!r}.")
    return np.asarray(weights, dtype=np.float32)


def of_mean_one(class_weights: Array, weight: Array | None) -> Floats:
    """Class weights that bring the mean of the sample weights to 1, whatever their unit: the loss is a mean."""
    return np.asarray(class_weights if weight is None else class_weights / weight.mean(), dtype=np.float32)


def choose_scaling(X: Any, scaling: str, weight: Array | None, n_jobs: int | None, keep_zeros: bool) -> Scaling:
    """Center and scale of every column, by the rule that `scaling` of `QMSClassifier` names.

    With `keep_zeros`, data with many zeros are not centred, so that a solver can skip them.
    """
    stored = as_stored(X)
    mean, variance, least, most = _moments(X if stored is None else stored, weight, n_jobs)
    precision = 1e-14 if stored is None else 1e-6
    constant = (least == most) | (np.sqrt(variance) <= precision * np.abs(mean))
    common = scaling == "common" or (
        scaling == "auto" and (scipy.sparse.issparse(stored) or _share_one_range(least, most, constant))
    )
    if scaling == "none":
        center, scale = np.zeros_like(mean), np.ones_like(mean)
    else:
        deviation = np.sqrt(variance)
        if common:
            deviation = np.full_like(mean, np.sqrt(variance[~constant].mean()) if (~constant).any() else 1.0)
        center, scale = mean, np.where(constant, np.inf, deviation)
    if stored is None:
        return Scaling(center, scale)
    if entries_of(stored) is not None:
        # Zeros stay zeros, or nothing would be sparse; a column that is stored nearly everywhere is centred still.
        center = np.where(np.bincount(stored.indices, minlength=len(mean)) < stored.shape[0] / 2, 0.0, center)
    elif keep_zeros and _share_of_zeros(stored) >= MANY_ZEROS:
        center = np.zeros_like(mean)
    # the engine applies the scaling in single precision; so do the user's units
    return Scaling(center.astype(np.float32).astype(np.float64), scale.astype(np.float32).astype(np.float64))


def _share_of_zeros(rows: Any) -> float:
    if scipy.sparse.issparse(rows):
        return 1 - float(rows.nnz) / float(np.prod(rows.shape))
    some = rows[:: max(1, len(rows) // 1000)]
    return float(1 - np.count_nonzero(some) / some.size)


def _share_one_range(least: Doubles, most: Doubles, constant: Bools) -> bool:
    """Pixels, percentages, one-hot: one unit for all columns, so a column that varies less is not blown up.

    True when every varying column has the same least value and at least half of them reach the same greatest one.
    """
    least, most = least[~constant], most[~constant]
    return len(least) > 1 and bool((least == least[0]).all() and (most == most.max()).mean() >= 0.5)


def _moments(X: Any, weight: Array | None, n_jobs: int | None) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    """Mean, variance, least and greatest value of each column, weighted where weights are given."""
    width = X.shape[1]
    if scipy.sparse.issparse(X):
        from sklearn.utils.sparsefuncs import mean_variance_axis, min_max_axis

        mean, variance = mean_variance_axis(X.astype(np.float64), axis=0, weights=weight)
        least, most = min_max_axis(X, axis=0)
        return tuple(np.asarray(part, dtype=np.float64) for part in (mean, variance, least, most))  # type: ignore[return-value]
    if weight is None and X.dtype in (np.float32, np.uint8):
        return column_moments(X, 1 if X.size < 1_000_000 else effective_threads(n_jobs))
    share = np.ones(len(X)) if weight is None else weight.astype(np.float64)
    share = share / share.sum()
    chunks = [slice(start, start + CHUNK_ROWS) for start in range(0, len(X), CHUNK_ROWS)]
    mean = sum((share[chunk] @ X[chunk].astype(np.float64) for chunk in chunks), np.zeros(width))
    variance = sum((share[chunk] @ (X[chunk] - mean) ** 2 for chunk in chunks), np.zeros(width))
    return mean, variance, X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
