"""From the caller's X, y and weights to what training needs: checked, as class indices, with a scaling.

Arrays that live on a GPU already (CuPy's, torch's, any that speaks DLPack) are fetched for a fit, and answered there.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils import assert_all_finite
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from multiform._typing import Array, Bools, Doubles, Floats, Indices, Ints
from multiform.engines import column_moments
from multiform.gaps import MOST_COLUMNS, Filled, Gaussian
from multiform.runtime import blas_held_back, effective_threads, on_gpu
from multiform.separators import Scaling, as_stored, entries_of

NOT_GIVEN = "no_validation"  # scikit-learn's word for no y
ACCEPTED = [np.float64, np.float32, np.uint8]  # what X may be; anything else becomes the first
CHUNK_ROWS = 4096
FEW_CELLS = 100_000
MANY_ZEROS = 0.25
WIDEST = 1e30  # between the least and the greatest weight: training is in single precision
MOST_COPIES = 1000  # a weight of more is no number of copies
ROUNDING = 1e-6  # of a weight that was given in single precision, or in another unit
# One noise for all sparse columns is too much for rare words on one scale, and too little on scales of their own. CPM,
# which takes one coordinate after the other, does better if rare words stay quiet.
OWN_SHARE = 0.3
DEVIATIONS = 1e-280, 1e280  # that a column may have, so that `components_` can be told in its unit
MOST_UNSCALED = 1e15  # the squares of which are sums in single precision


class OffsetWarning(UserWarning):
    """A column varies so little around a large offset that it is read as constant."""


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


def check_input(estimator: Any, X: Any, y: Any = NOT_GIVEN, *, reset: bool = False, finite: bool = True) -> Any:
    """X, or X and y, as `validate_data` returns them; text in X gets a sentence that says what to do.

    Without `finite` NaN and infinity are let through, for a caller that sees them by their consequences.
    """
    if not reset and y is NOT_GIVEN and _is_checked(estimator, X, finite):
        return X
    if reset and _are_plain(X, y, finite):
        estimator.__dict__.pop("feature_names_in_", None)
        estimator.n_features_in_ = X.shape[1]
        return X, y
    X, y = as_host(X), as_host(y)
    name = type(estimator).__name__
    if not hasattr(X, "shape") and hasattr(X, "collect_schema"):
        raise ValueError(f"X of {name} is a lazy frame, of which no cell is there yet; give X.collect().")
    if hasattr(X, "columns") and X.shape[1] == 0:
        raise ValueError(f"X of {name} is a frame without columns; give at least one.")
    if y is not NOT_GIVEN:
        _refuse_odd_labels(y, name)
    if hasattr(X, "iloc") and not X.columns.is_unique:  # pandas'; of others the libraries of frames speak themselves
        raise _repeated(name, X)
    try:
        with np.errstate(invalid="ignore"):  # a sum of large numbers, which scikit-learn looks at first
            return validate_data(
                estimator, X, y, accept_sparse="csr", dtype=ACCEPTED, reset=reset, ensure_all_finite=finite
            )
    except ValueError as error:
        if "X contains NaN" in str(error):
            raise _gaps_refused(estimator) from error
        if "unique column names" in str(error):
            raise _repeated(name, X) from error
        if "could not convert string to float" not in str(error):
            raise
        text = str(error).partition("float: ")[2].removeprefix("np.str_(").removesuffix(")")
        raise ValueError(
            f"X of {name} must hold numbers, but has the text {text}. Turn text columns into "
            "numbers first, e.g. with scikit-learn's OneHotEncoder in a ColumnTransformer, or give the table as it is "
            "to multiform.tables.TableClassifier."
        ) from error


def _refuse_odd_labels(y: Any, name: str) -> None:
    """Labels that are missing or of several types, which an array of objects may hold, by a sentence."""
    labels = y if isinstance(y, list) else np.asarray(y) if getattr(y, "dtype", None) == np.dtype(object) else ()
    if not any(isinstance(label, str) or label is None for label in labels):
        return
    missing = sum(label is None for label in labels)
    if missing:
        raise ValueError(f"y of {name} has {missing} labels that are None, of {len(labels)}; leave these rows out.")
    other = next((label for label in labels if not isinstance(label, str)), None)
    if other is not None:
        raise ValueError(
            f"y of {name} must hold labels of one type; got text and {other!r}, of type {type(other).__name__}. Give "
            "all of them as text, or all as numbers."
        )


def _is_checked(estimator: Any, X: Any, finite: bool) -> bool:
    """Whether it can be seen at once that scikit-learn would return X as it is: of one row, to ask it takes longer than
    to answer.
    """
    return (
        type(X) is np.ndarray
        and X.dtype in ACCEPTED
        and X.ndim == 2
        and X.shape[0] > 0
        and X.shape[1] == getattr(estimator, "n_features_in_", None)
        and not hasattr(estimator, "feature_names_in_")
        and (not finite or surely_finite(X))
    )


def _are_plain(X: Any, y: Any, finite: bool) -> bool:
    """Whether scikit-learn would surely return X and y as they are, which takes it a tenth as long as a small fit."""
    return (
        type(X) is type(y) is np.ndarray
        and X.dtype in ACCEPTED
        and y.dtype.kind in "biu"
        and (X.ndim, y.ndim) == (2, 1)
        and len(X) == len(y)
        and X.size > 0
        and (not finite or surely_finite(X))
    )


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


def surely_finite(X: Array) -> bool:
    """Whether the sum of X, which is quick to see, is finite; if it is not, one has to look."""
    with np.errstate(over="ignore", invalid="ignore"):
        return X.dtype.kind != "f" or bool(np.isfinite(X.sum()))


def has_gaps(estimator: Any, X: Any) -> bool:
    """Whether NaN stands in X, which `check_input` has let through unseen.

    Infinity is refused, and so is NaN where the estimator's `missing` does not say what it means, and in sparse X. It
    looks at a sum first, as scikit-learn does, and so costs no more than that does.
    """
    entries = X.data if scipy.sparse.issparse(X) else X
    if surely_finite(entries):
        return False
    name = type(estimator).__name__
    allowed = getattr(estimator, "missing", "refuse") == "expectation"
    with np.errstate(over="ignore", invalid="ignore"):
        assert_all_finite(entries, allow_nan=True, estimator_name=name, input_name="X")
    found = bool(np.isnan(entries).any())
    if found and not allowed:
        raise _gaps_refused(estimator)
    if found and scipy.sparse.issparse(X):
        raise ValueError(
            f"Sparse X of {name} must not hold NaN: what is not stored is 0, and missing values are read in dense X "
            "only. Give X.toarray(), or impute."
        )
    return found


def _repeated(name: str, X: Any) -> ValueError:
    from multiform.columns import repeated_name  # which arrays do without

    return ValueError(
        f"X of {name} has several columns named {repeated_name(X)!r}, and columns of a frame are known by their names; "
        "rename or leave out all but one."
    )


def _gaps_refused(estimator: Any) -> ValueError:
    """Of an estimator that takes no NaN: which ones of ours do, instead of which ones of scikit-learn."""
    other = (
        'set missing="expectation"'
        if hasattr(estimator, "missing")
        else "use QMSClassifierCV or QMSClassifier, which take the mean over what they may be"
    )
    return ValueError(
        f"Input X contains NaN, missing values, which {type(estimator).__name__} does not take; impute them in a "
        f"Pipeline before it, e.g. by scikit-learn's SimpleImputer(add_indicator=True), or {other}."
    )


def without_gaps(
    estimator: Any, X: Any, weight: Array | None, gaps: bool, always: bool = False
) -> tuple[Any, Gaussian | None]:
    """Training rows with their gaps filled, where they have any, and the Gaussian that new ones are filled by."""
    gaussian = gaussian_of(estimator, X, weight, gaps, always)
    return (gaussian.filled(X) if gaps and gaussian is not None else X), gaussian


def gaussian_of(
    estimator: Any,
    X: Any,
    weight: Array | None,
    gaps: bool,
    always: bool = False,
    moments: tuple[Doubles, Doubles] | None = None,
) -> Gaussian | None:
    """The Gaussian of rows that have gaps; of complete rows, too, if they are not wide, or `always`.

    A row to be predicted may have gaps. `moments` are mean and deviation, where they are known of more rows.
    """
    refused = getattr(estimator, "missing", "refuse") != "expectation"
    if not (gaps or always) and (refused or scipy.sparse.issparse(X) or X.shape[1] > MOST_COLUMNS):
        return None
    return Gaussian.learnt(X, weight, complete=not gaps, moments=moments)


def filled(estimator: Any, X: Any, gaussian: Gaussian | None) -> Filled:
    """Rows to be predicted, which have gaps, by what `without_gaps` has learnt."""
    if gaussian is None:
        raise ValueError(
            f"Input X contains NaN, missing values of which this {type(estimator).__name__} has learnt nothing: its "
            f"training data had none and more than {MOST_COLUMNS} columns or were sparse, or it was not made by fit "
            "or by an older version. Train it on data with missing values, or impute."
        )
    return gaussian.filled(X)


def check_training_data(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    classes: Array | None = None,
    reset: bool = True,
    finite: bool = True,
) -> tuple[Any, Ints, Array, Array | None]:
    """Checked X, class indices, classes and weights (`in_own_unit`), without the samples of weight 0.

    Without `finite` X is for `has_gaps` to look at.
    """
    name = type(estimator).__name__
    X, y = check_input(estimator, X, y, reset=reset, finite=finite)
    surely_labels = classes is None and y.dtype.kind in "biuU"  # whole numbers and text, which cannot be refused
    if not surely_labels:
        check_classification_targets(y)
    weight = None
    if sample_weight is not None:
        weight = _check_sample_weight(as_host(sample_weight), X, dtype=np.float64, ensure_non_negative=True)
        used = weight > 0
        if not used.any():
            raise ValueError(f"sample_weight of {name} is 0 for every sample; at least one must be positive.")
        if not used.all():
            X, y, weight = X[used], y[used], weight[used]
        weight = in_own_unit(weight, name)
    if classes is None:
        classes, target = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"{name} needs samples of at least 2 classes in y; got 1 class, {classes[0]}"
                + (" (with a positive weight)." if weight is not None else ".")
            )
        if surely_labels and 2 * len(classes) >= len(y):
            check_classification_targets(y)  # which warns of so many classes
    else:
        target = np.searchsorted(classes, y)
        unknown = (target == len(classes)) | (classes[np.minimum(target, len(classes) - 1)] != y)
        if unknown.any():
            raise ValueError(
                f"y of {name} holds a label that is not in classes, {y[unknown][0]}; the classes are {classes}."
            )
    return X, target.astype(np.int32).ravel(), classes, weight


def in_own_unit(weight: Array, name: str) -> Doubles:
    """Positive weights of the samples of an estimator called `name`, in a unit that is their own: only ratios matter.

    If all are whole numbers, or whole multiples of the least, they are numbers of samples, up to a common factor; else
    their mean is 1. What depends on the number of samples, as the strength of a prior does, takes their sum for it.

    >>> in_own_unit(np.array([0.1, 0.3, 0.2]), "a model"), in_own_unit(np.array([1e300, 1.5e300]), "a model")
    (array([1., 3., 2.]), array([0.8, 1.2]))
    """
    least, most = float(weight.min()), float(weight.max())
    share = weight / most  # at most 1, so that no sum overflows
    if share.min() * WIDEST < 1:
        raise ValueError(
            f"sample_weight of {name} must be 0 or within a factor of {WIDEST:.0e}, as training is in single "
            f"precision; got {least:.3g} to {most:.3g}. Give 0 to samples that are not to count."
        )
    if most < 2**53 and (weight == np.rint(weight)).all():
        return np.asarray(weight / np.gcd.reduce(weight.astype(np.int64)))
    if most <= MOST_COPIES * least:
        copies = np.rint(share / share.min())
        if (np.abs(share - copies * share.min()) <= ROUNDING * share).all():
            return np.asarray(copies)
    return np.asarray(share / share.mean())


def used_samples(sample_weight: Any) -> Bools | None:
    """Which samples have a weight that is not 0; None where all have."""
    used = np.asarray(as_host(1 if sample_weight is None else sample_weight)) > 0
    return None if used.all() else used


def class_weights_of(
    class_weight: dict[Any, float] | str | None, classes: Array, target: Array, weight: Array | None
) -> Array:
    """The weight of each class; "balanced" counts samples by their weight."""
    if class_weight is None:
        return np.ones(len(classes))
    if class_weight == "balanced":
        total = np.bincount(target, weights=weight, minlength=len(classes))
        present = total > 0
        balanced = np.ones(len(classes))
        balanced[present] = total.sum() / (present.sum() * total[present])
        return balanced.astype(np.float32)
    weights = compute_class_weight(class_weight, classes=classes, y=classes[target])
    if not (np.isfinite(weights).all() and (weights >= 0).all() and (weights > 0).any()):
        raise ValueError(f"class_weight must hold finite numbers, not negative, not all 0; got {class_weight!r}.")
    return np.asarray(weights, dtype=np.float64)


def of_mean_one(class_weights: Array, weight: Array | None) -> Floats:
    """Class weights that bring the mean of the sample weights to 1, whatever their unit: the loss is a mean."""
    # Their own unit does not matter: a power of two, which rounds nothing, keeps the loss within single precision.
    given = np.asarray(class_weights, dtype=np.float64)
    if weight is None and (given == 1).all():
        return np.ones(len(given), dtype=np.float32)
    near_one = np.ldexp(given, -16 * round(float(np.log2(given[given > 0]).mean()) / 16))
    with np.errstate(over="ignore"):
        single = np.asarray(near_one if weight is None else near_one / weight.mean(), dtype=np.float32)
    lost = ~np.isfinite(single) | ((single == 0) & (given > 0))
    if lost.any():
        raise ValueError(
            f"class_weight must be 0 or within a factor of {WIDEST:.0e}, as training is in single precision; "
            f"got {given[given > 0].min():.3g} to {given.max():.3g}."
        )
    return single


def counted_samples(target: Array, weight: Array | None, class_weights: Array) -> Doubles:
    """How often each sample counts in a world in which classes are as frequent as class weights say; n in all.

    >>> counted_samples(np.array([0, 0, 1]), None, np.array([1.0, 2.0]))
    array([0.75, 0.75, 1.5 ])
    """
    counted = np.asarray(class_weights, dtype=np.float64)[target] * (1 if weight is None else weight)
    return np.asarray(counted * (len(target) / max(counted.sum(), np.finfo(np.float64).tiny)))


def choose_scaling(
    X: Any, scaling: str, weight: Array | None, n_jobs: int | None, keep_zeros: bool, stored: Any = None
) -> Scaling:
    """Center and scale of every column, by the rule that `scaling` of `QMSClassifier` names.

    With `keep_zeros`, data with many zeros are not centred, so that a solver can skip them. `stored` is `as_stored(X)`,
    where that is known already.
    """
    stored = as_stored(X) if stored is None else stored
    read = X if stored is None else stored
    moments = column_figures(read, weight, n_jobs)
    given = moments[2:] if read.dtype == X.dtype else _extremes(X)
    own = None if not scipy.sparse.issparse(read) else 0.0 if keep_zeros else OWN_SHARE
    found = scaling_by(scaling, moments, read.dtype, X.dtype, given, own_share=own)
    center, scale = found.center, found.scale
    if stored is not None and entries_of(stored) is not None:
        # Zeros stay zeros, or nothing would be sparse; a column that is stored nearly everywhere is centred still.
        center = np.where(np.bincount(stored.indices, minlength=len(center)) < stored.shape[0] / 2, 0.0, center)
    elif stored is not None and keep_zeros and _share_of_zeros(stored) >= MANY_ZEROS:
        center = np.zeros_like(center)
    return as_applied(Scaling(center, scale), stored is not None)


def scaling_by(
    rule: str,
    moments: tuple[Doubles, Doubles, Doubles, Doubles],
    kind: Any,
    given_kind: Any,
    given: tuple[Array, Array],
    *,
    own_share: float | None = None,
) -> Scaling:
    """Center and scale by a rule, from mean, deviation, least and greatest value of the columns as they are read.

    `kind` is their type; `given_kind` and `given` are the type and the extremes that the user's columns have. Of sparse
    columns `own_share` says how far each has, by "auto", a scale of its own: ``common^(1 - share) own^share``.
    """
    mean, deviation, least, most = moments
    if rule == "none":
        _refuse_unscaled(least, most)
        return Scaling(np.zeros_like(mean), np.ones_like(mean))
    precision = 1e-6 if kind == np.float32 else 1e-14
    constant = _constant(given_kind, deviation <= precision * np.abs(mean), *given)
    own_share = own_share if rule == "auto" else None
    if rule == "common" or own_share is not None or (rule == "auto" and _share_one_range(least, most, constant)):
        common = np.full_like(mean, _root_mean_square(deviation[~constant]))
        deviation = common * (deviation / common) ** (own_share or 0.0)
    _refuse_extreme(deviation, constant)
    return Scaling(mean, np.where(constant, np.inf, deviation))


def as_applied(scaling: Scaling, by_engine: bool) -> Scaling:
    """The scaling as it is applied: by an engine in single precision, and so do the user's units."""
    if not by_engine or not scaling.fits_single:
        return scaling
    return Scaling(*(part.astype(np.float64) for part in scaling.single))


def _constant(kind: Any, seems_so: Bools, least: Array, most: Array) -> Bools:
    """Which columns never vary, as they are read; one that only seems to, with a large offset, is warned of.

    `kind`, `least` and `most` are of X as the user has it. What differs by four units in the last place at most is the
    rounding of one number, and not worth a word.
    """
    epsilon = float(np.finfo(kind).eps) if kind.kind == "f" else 0.0
    rounded = most / 2 - least / 2 <= 2 * epsilon * np.maximum(np.abs(least), np.abs(most))
    lost = ~rounded & seems_so
    if lost.any():
        first = int(np.flatnonzero(lost)[0])
        warnings.warn(
            f"Column {first} of X varies from {least[first]:.17g} to {most[first]:.17g}, too little for its size to be "
            f"told from rounding, and is read as constant{_and_others(lost)}. If it matters, subtract an offset first.",
            OffsetWarning,
            stacklevel=10,  # of the caller of fit, past scikit-learn's wrapper and ours
        )
    return np.asarray(rounded | lost)


def _refuse_extreme(deviation: Doubles, constant: Bools) -> None:
    least, most = DEVIATIONS
    bad = ~constant & ~((deviation >= least) & (deviation <= most))
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"The columns of X must have standard deviations between {least:.0e} and {most:.0e}, or never vary; got "
            f"{deviation[first]:.3g} in column {first}{_and_others(bad)}. Give it in another unit."
        )


def _refuse_unscaled(least: Doubles, most: Doubles) -> None:
    size = np.maximum(np.abs(least), np.abs(most))
    bad = size > MOST_UNSCALED
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"With scaling='none' the values of X must not be larger than {MOST_UNSCALED:.0e}, as training is in "
            f"single precision; got {size[first]:.3g} in column {first}{_and_others(bad)}. Use scaling='auto'."
        )
    if (most > least).any() and size.max() < 1 / MOST_UNSCALED:
        raise ValueError(
            f"With scaling='none' some value of X must be larger than {1 / MOST_UNSCALED:.0e}, or nothing can be "
            f"learnt in single precision; got {size.max():.3g} at most. Use scaling='auto'."
        )


def _and_others(which: Bools) -> str:
    n = int(which.sum()) - 1
    return f", as {n} other{'s' if n > 1 else ''}" if n else ""


def _root_mean_square(deviation: Doubles) -> float:
    """1 where there are none; in units of a power of two, so that no square overflows."""
    if not len(deviation):
        return 1.0
    exponent = int(np.frexp(deviation.max())[1])
    return float(np.ldexp(np.sqrt((np.ldexp(deviation, -exponent) ** 2).mean()), exponent))


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


def column_figures(X: Any, weight: Array | None, n_jobs: int | None) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    """Mean, standard deviation, least and greatest value of each column, weighted where weights are given."""
    if not scipy.sparse.issparse(X) and weight is None and X.dtype in (np.float32, np.uint8):
        mean, variance, least, most = column_moments(X, 1 if X.size < 1_000_000 else effective_threads(n_jobs))
        return mean, np.sqrt(variance), least, most
    least, most = (np.asarray(part, dtype=np.float64) for part in _extremes(X))
    # Columns whose squares would overflow or vanish are taken in units of a power of two, which rounds nothing.
    size = np.maximum(np.abs(least), np.abs(most))
    exponent = np.where((size > 1e-100) & (size < 1e100), 0, np.frexp(size)[1])
    if scipy.sparse.issparse(X):
        from sklearn.utils.sparsefuncs import mean_variance_axis

        X = X.astype(np.float64)
        X.data = np.ldexp(X.data, -exponent[X.indices])
        mean, variance = mean_variance_axis(X, axis=0, weights=weight)
    else:
        share = np.ones(len(X)) if weight is None else weight.astype(np.float64)
        share = share / share.sum()
        mean, variance = np.zeros(X.shape[1]), np.zeros(X.shape[1])
        with blas_held_back(*X.shape):
            for chunk, rows in _chunks_of(X, exponent):
                mean += share[chunk] @ rows
            for chunk, rows in _chunks_of(X, exponent):
                variance += share[chunk] @ (rows - mean) ** 2
    return np.ldexp(mean, exponent), np.ldexp(np.sqrt(variance), exponent), least, most


def _extremes(X: Any) -> tuple[Array, Array]:
    if scipy.sparse.issparse(X):
        from sklearn.utils.sparsefuncs import min_max_axis

        return min_max_axis(X, axis=0)  # type: ignore[no-any-return]
    columns = X.T.copy() if X.size <= FEW_CELLS else X.T  # short rows are slow to go through
    return columns.min(axis=1), columns.max(axis=1)


def _chunks_of(X: Array, exponent: Indices) -> Iterator[tuple[slice, Doubles]]:
    """Rows in double precision, over 2^exponent."""
    for start in range(0, len(X), CHUNK_ROWS):
        chunk = slice(start, start + CHUNK_ROWS)
        rows = X[chunk].astype(np.float64)
        yield chunk, np.ldexp(rows, -exponent) if exponent.any() else rows
