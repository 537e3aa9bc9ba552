"""Which features make f_i smaller than f_j: an exact account of one decision against another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from multiform._typing import Array, Doubles, Indices

from ._arrays import check_points, finite_array
from .separators import Separators

__all__ = ["Contributions", "feature_contributions"]


@dataclass(frozen=True, eq=False)
class Contributions:
    """An account of `h = f_i - f_j` for each sample: `base + values.sum(axis=1) == h(x)`.

    Attributes
    ----------
    values : ndarray of shape (n_samples, p)
        The contribution of each feature to h; a negative one speaks for class i.
    base : ndarray of shape (n_samples,)
        h at the baseline.
    for_classes, against_classes : ndarray of shape (n_samples,)
        The labels i and j.
    """

    values: Doubles
    base: Doubles
    for_classes: Array
    against_classes: Array

    @property
    def total(self) -> Doubles:
        """`f_i(x) - f_j(x)`, shape (n_samples,)."""
        return np.asarray(self.base + self.values.sum(axis=1), dtype=np.float64)


def feature_contributions(
    model: object,
    X: ArrayLike,
    *,
    baseline: ArrayLike | None = None,
    for_class: Any = None,
    against_class: Any = None,
) -> Contributions:
    """The contribution of each feature to `f_i - f_j`, from a baseline to the sample.

    The gradient of a quadratic is linear, so its average over the straight way from baseline z to sample x is its value
    half way, and `(x - z)_k * grad_k h((x + z) / 2)` adds up over the features to `h(x) - h(z)` exactly. These are the
    integrated gradients of h, and for a quadratic they are also its Shapley values.

    Parameters
    ----------
    model : fitted QMSClassifier, Separators, or member functions
        Anything `Separators.of` takes.
    X : array-like of shape (n_samples, p)
        Samples.
    baseline : array-like of shape (p,) or (n_samples, p), default=None
        What the samples are compared with: the mean of the training data, say, or the `points` of
        `counterfactuals` (there h is zero, so the contributions add up to h itself). None is the origin.
    for_class : label, default=None
        Class i; None is each sample's decision.
    against_class : label, default=None
        Class j; None is, for each sample, the class with the smallest f among those other than i.

    Returns
    -------
    Contributions

    Examples
    --------
    >>> import numpy as np
    >>> from multiform.geometry import Separators, feature_contributions
    >>> nearest = Separators(np.stack([np.eye(2)] * 2), [[0, 0], [4, 2]], ["near", "far"])
    >>> account = feature_contributions(nearest, [[1.0, 3.0]])
    >>> account.values, account.base, account.total
    (array([[ 8., 12.]]), array([-20.]), array([0.]))
    """
    separators = Separators.of(model)
    points = check_points(X, separators.n_features, "feature_contributions")
    origin = _check_baseline(baseline, points)
    values = separators.member_values(points)
    first = _class_indices(for_class, values, separators)
    rivals = values.copy()
    rivals[np.arange(len(points)), first] = np.inf
    second = _class_indices(against_class, rivals, separators)
    if (first == second).any():
        raise ValueError(
            "against_class of feature_contributions must differ from for_class (or from the decision, "
            f"when for_class is None) for every sample; it is {against_class!r} for both in "
            f"{int((first == second).sum())} samples."
        )
    middle = separators.residuals(0.5 * (points + origin))
    base_values = separators.member_values(origin)
    index = np.arange(len(points))
    # grad h = 2 A_i' (A_i x - b_i) - 2 A_j' (A_j x - b_j), class by class so that no (n, q, p) array is made.
    gradient = np.zeros_like(points)
    for k, components in enumerate(separators.components):
        sign = 2.0 * ((first == k).astype(np.float64) - (second == k))
        gradient += (sign[:, None] * middle[:, k]) @ components
    classes = separators.classes
    return Contributions(
        (points - origin) * gradient,
        base_values[index, first] - base_values[index, second],
        classes[first],
        classes[second],
    )


def _check_baseline(baseline: ArrayLike | None, points: Doubles) -> Doubles:
    if baseline is None:
        return np.zeros_like(points)
    given = np.asarray(baseline, dtype=np.float64)
    origin = finite_array(given, "baseline", "feature_contributions", ndim=1 if given.ndim < 2 else 2)
    if origin.shape not in (points.shape, points.shape[1:]):
        raise ValueError(
            f"baseline of feature_contributions must have shape {points.shape[1:]} or {points.shape}; "
            f"got {origin.shape}."
        )
    return np.array(np.broadcast_to(origin, points.shape))


def _class_indices(label: Any, values: Doubles, separators: Separators) -> Indices:
    """The class asked for, or the one with the smallest value in each row."""
    if label is None:
        return np.asarray(values.argmin(axis=1), dtype=np.intp)
    return np.full(len(values), separators.index(label), dtype=np.intp)
