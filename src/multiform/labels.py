"""From y and the weights to what the engine needs: class indices, and the weight of each class and sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from multiform.gpu_arrays import as_host
from multiform.inputs import check_input

__all__ = ["check_training_data", "class_weights_of", "of_mean_one"]

Array = npt.NDArray[Any]


def check_training_data(
    estimator: Any, X: Any, y: Any, sample_weight: Any, classes: Array | None = None, reset: bool = True
) -> tuple[Any, npt.NDArray[np.int32], Array, Array | None]:
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


def class_weights_of(
    class_weight: dict[Any, float] | str | None, classes: Array, target: Array, weight: Array | None
) -> npt.NDArray[np.float32]:
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


def of_mean_one(class_weights: Array, weight: Array | None) -> npt.NDArray[np.float32]:
    """Class weights that bring the mean of the sample weights to 1, whatever their unit: the loss is a mean."""
    return np.asarray(class_weights if weight is None else class_weights / weight.mean(), dtype=np.float32)
