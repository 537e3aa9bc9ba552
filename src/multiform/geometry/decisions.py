"""What holds a decision: how far it is from changing, where it would change, and which features speak for it.

The decision `argmin_k f_k` of a sample in class i changes when some `h = f_j - f_i` turns negative: one quadric per
other class. The nearest point of each is found exactly (see `quadric`), and the nearest of those is the answer: no
other separator can interfere, as the decision cannot have changed before the first of them is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from multiform._typing import Array, Doubles, Indices

from ._arrays import EPS, check_points, finite_array
from .quadric import nearest_negative
from .separators import Separators

# Samples handled at once: bounds the memory (a few arrays of this many rows), not the speed.
_BATCH = 8192


@dataclass(frozen=True, eq=False)
class Counterfactuals:
    """For each sample, the nearest point where the decision changes.

    Attributes
    ----------
    samples : ndarray of shape (n_samples, p)
        The samples, in the user's units.
    points : ndarray of shape (n_samples, p)
        The nearest points, on the boundary itself, in the user's units; NaN where the decision never changes.
    distances : ndarray of shape (n_samples,)
        From sample to point in the units asked for; infinite where the decision never changes.
    from_classes, to_classes : ndarray of shape (n_samples,)
        The decision, and what it changes to; the same label where it never changes.
    """

    samples: Doubles
    points: Doubles
    distances: Doubles
    from_classes: Array
    to_classes: Array
    _deepest: Doubles

    def pushed(self, relative: float = 1e-6) -> Doubles:
        """Points just behind the boundary, where the decision has changed, shape (n_samples, p).

        Parameters
        ----------
        relative : float, default=1e-6
            How much farther than the boundary to go, as a part of the way to it; less where the region
            behind is so thin that this would leave it again.
        """
        if not relative > 0:
            raise ValueError(f"relative of Counterfactuals.pushed must be a number > 0; got {relative!r}.")
        factor = np.minimum(1.0 + relative, self._deepest)[:, None]
        return self.samples + factor * (self.points - self.samples)


def certified_radius(
    model: object,
    X: ArrayLike,
    *,
    scale: ArrayLike | None = None,
    features: Iterable[Any] | None = None,
) -> Doubles:
    """The radius around each sample within which the decision provably stays the same.

    It is exact, not a bound: at that distance there is a point where the decision changes (`counterfactuals` gives it);
    it is infinite where no change of the features that may change does that.

    Parameters
    ----------
    model : anything that `Separators.of` takes
    X : array-like of shape (n_samples, p)
        Samples, in the units of the model.
    scale : array-like of shape (p,), default=None
        The unit in which each feature is measured: distances are `||(x - x') / scale||`. Pass a scaler's
        `scale_` for standardised units; its centre does not matter to a distance. None is the user's units.
    features : iterable of int or str, or boolean mask, default=None
        The features that may change; the others keep the sample's values. None is all.

    Examples
    --------
    >>> import numpy as np
    >>> from multiform.geometry import Separators, certified_radius
    >>> nearest = Separators(np.stack([np.eye(2)] * 2), [[0, 0], [4, 0]])
    >>> certified_radius(nearest, [[1.0, 0.0], [1.5, 9.0]])
    array([1. , 0.5])
    >>> certified_radius(nearest, [[1.0, 0.0]], scale=[2.0, 1.0])
    array([0.5])
    >>> certified_radius(nearest, [[1.0, 0.0]], features=[1])
    array([inf])
    """
    return _nearest_changes(model, X, scale, features, "certified_radius").distances


def counterfactuals(
    model: object,
    X: ArrayLike,
    *,
    scale: ArrayLike | None = None,
    features: Iterable[Any] | None = None,
) -> Counterfactuals:
    """The nearest point to each sample where the decision changes: the least change that would matter.

    Parameters
    ----------
    model, X, scale, features
        As in `certified_radius`.

    Examples
    --------
    >>> import numpy as np
    >>> from multiform.geometry import Separators, counterfactuals
    >>> nearest = Separators(np.stack([np.eye(2)] * 2), [[0, 0], [4, 0]], ["left", "right"])
    >>> change = counterfactuals(nearest, [[1.0, 0.0]])
    >>> change.points, change.distances, change.to_classes
    (array([[2., 0.]]), array([1.]), array(['right'], dtype='<U5'))
    >>> nearest.predict(change.pushed())
    array(['right'], dtype='<U5')
    """
    return _nearest_changes(model, X, scale, features, "counterfactuals")


def _nearest_changes(
    model: object, X: ArrayLike, scale: ArrayLike | None, features: Iterable[Any] | None, owner: str
) -> Counterfactuals:
    """The nearest change of each sample, batch by batch; eigenvectors are found once per pair of classes."""
    separators = Separators.of(model)
    p, classes = separators.n_features, separators.classes
    points = check_points(X, p, owner)
    unit = np.ones(p) if scale is None else finite_array(scale, "scale", owner, ndim=1)
    if unit.shape != (p,) or not (unit > 0).all():
        raise ValueError(
            f"scale of {owner} must be {p} numbers > 0, one unit per feature; got shape {unit.shape} with "
            f"smallest {unit.min(initial=np.inf):.6g}. A feature that must not change is left out of "
            "`features` instead."
        )
    free = np.arange(p) if features is None else np.unique(separators.columns(features, owner))

    boundaries: dict[tuple[int, int], NearerChanges] = {}
    moved = points.copy()
    distances, deepest = np.full(len(points), np.inf), np.full(len(points), np.inf)
    decision = np.empty(len(points), dtype=np.intp)
    other = np.empty(len(points), dtype=np.intp)
    for start in range(0, len(points), _BATCH):
        batch = slice(start, start + _BATCH)
        residuals = separators.residuals(points[batch])
        values = np.einsum("nmq,nmq->nm", residuals, residuals)
        errors = separators.rounding_errors(points[batch])
        decision[batch] = other[batch] = values.argmin(axis=1)
        for i in np.unique(decision[batch]).tolist():
            rows = np.flatnonzero(decision[batch] == i)
            # The likeliest rivals first, so that most of the others can be ruled out without solving.
            for j in values[rows].mean(axis=0).argsort().tolist():
                if j == i:
                    continue
                if (i, j) not in boundaries:
                    boundaries[i, j] = _boundary(separators, i, j, free, unit[free])
                found, step, reach, lowest = boundaries[i, j](
                    values[rows, j] - values[rows, i],
                    residuals[rows[:, None], [i, j]].reshape(len(rows), -1),
                    np.linalg.norm(errors[rows[:, None], [i, j]], axis=1),
                    distances[start + rows],
                )
                where = start + rows[found]
                other[where], distances[where], deepest[where] = j, reach, lowest
                moved[where[:, None], free] = points[where[:, None], free] + step
    moved[np.isinf(distances)] = np.nan
    return Counterfactuals(points, moved, distances, classes[decision], classes[other], deepest)


# From gaps h, residuals (n, 2q), the rounding errors of those, and the distances to beat, to the rows whose boundary is
# nearer, the displacements there in the free features, their lengths, and how far along the way h is lowest, in parts
# of the way to the boundary.
NearerChanges = Callable[[Doubles, Doubles, Doubles, Doubles], tuple[Indices, Doubles, Doubles, Doubles]]


def _boundary(separators: Separators, i: int, j: int, free: Indices, unit: Doubles) -> NearerChanges:
    """What finds the nearest changes across one boundary `h = f_j - f_i`, in its eigenvectors, which are found once.

    With C = [A_i; A_j] restricted to the free columns, times their units, and J = diag(-1, ..., +1, ...), the quadratic
    part of h is C'JC and its gradient 2 C'J r of the residuals r = [A_i x - b_i; A_j x - b_j]. Both live in the row
    space of C, so `C' = U T` leaves an eigenproblem of size min(p, 2q): T J T' = W diag(lambda) W'.
    """
    rows = np.vstack([separators.components[i], separators.components[j]])[:, free] * unit
    sign = np.repeat([-1.0, 1.0], separators.n_components)
    orthonormal, triangle = linalg.qr(rows.T, mode="economic", check_finite=False)
    curvature, vectors = np.linalg.eigh((triangle * sign) @ triangle.T)
    residual_map = vectors.T @ triangle  # W' T, shape (r, 2q): displacement to change of residuals
    gradient_map = 2.0 * sign[:, None] * residual_map.T  # 2 J T' W, shape (2q, r): residuals to gradient
    basis = (orthonormal @ vectors) * unit[:, None]  # U W in the user's units, shape (n_free, r)
    norm, steepest = float(np.linalg.norm(rows)), max(0.0, -float(curvature.min()))
    # Sums of 2q products: what their rounding can amount to.
    rounding = 8.0 * EPS * len(gradient_map)

    def nearer_changes(
        gap: Doubles, residuals: Doubles, residual_error: Doubles, best: Doubles
    ) -> tuple[Indices, Doubles, Doubles, Doubles]:
        gradient = residuals @ gradient_map
        # h >= h0 - ||g|| d - l d^2 at distance d: only where this lets h vanish nearer than the best so far is
        # the exact answer needed.
        slope = np.linalg.norm(gradient, axis=1)
        with np.errstate(invalid="ignore"):
            possible = np.isinf(best) | (gap < best * (slope + steepest * best) * (1.0 + 1e-12))
        gradient, residuals, residual_error = gradient[possible], residuals[possible], residual_error[possible]
        gradient_error = norm * (rounding * np.linalg.norm(residuals, axis=1) + residual_error)

        def value_at(chosen: Indices, displacement: Doubles) -> tuple[Doubles, Doubles]:
            there = residuals[chosen] + displacement @ residual_map
            own, rival = np.split(there**2, 2, axis=1)
            error = residual_error[chosen] + rounding * norm * np.linalg.norm(displacement, axis=1)
            return rival.sum(axis=1) - own.sum(axis=1), error**2 + 2.0 * error * np.linalg.norm(there, axis=1)

        step = nearest_negative(gap[possible], gradient, curvature, gradient_error, rounding * norm**2, value_at)
        reach = np.linalg.norm(step, axis=1)
        nearer = reach < best[possible]  # never where reach is NaN: no change in that direction
        step = step[nearer]
        # t -> h(x + t d) is lowest at t = -g'd / (2 d'Md) if it curves up, else without end.
        bend = 2.0 * (step**2 @ curvature)
        with np.errstate(divide="ignore", invalid="ignore"):
            lowest = -np.einsum("nr,nr->n", gradient[nearer], step) / bend
        lowest = np.where(bend > 0, np.maximum(lowest, 1.0), np.inf)
        return np.flatnonzero(possible)[nearer], step @ basis.T, reach[nearer], lowest

    return nearer_changes


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
    model, X
        As in `certified_radius`.
    baseline : array-like of shape (p,) or (n_samples, p), default=None
        What the samples are compared with: the mean of the training data, say, or the `points` of
        `counterfactuals` (there h is zero, so the contributions add up to h itself). None is the origin.
    for_class : label, default=None
        Class i; None is each sample's decision.
    against_class : label, default=None
        Class j; None is, for each sample, the class with the smallest f among those other than i.

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
    given = np.zeros(separators.n_features) if baseline is None else np.asarray(baseline, dtype=np.float64)
    origin = finite_array(given, "baseline", "feature_contributions", ndim=1 if given.ndim < 2 else 2)
    if origin.shape not in (points.shape, points.shape[1:]):
        raise ValueError(
            f"baseline of feature_contributions must have shape {points.shape[1:]} or {points.shape}; "
            f"got {origin.shape}."
        )
    origin = np.array(np.broadcast_to(origin, points.shape))
    values = separators.member_values(points)
    first = values.argmin(axis=1) if for_class is None else np.full(len(points), separators.index(for_class))
    rivals, index = values.copy(), np.arange(len(points))
    rivals[index, first] = np.inf
    second = rivals.argmin(axis=1) if against_class is None else np.full(len(points), separators.index(against_class))
    if (first == second).any():
        raise ValueError(
            "against_class of feature_contributions must differ from for_class (or from the decision, "
            f"when for_class is None) for every sample; it is {against_class!r} for both in "
            f"{int((first == second).sum())} samples."
        )
    middle = separators.residuals(0.5 * (points + origin))
    base_values = separators.member_values(origin)
    # grad h = 2 A_i' (A_i x - b_i) - 2 A_j' (A_j x - b_j), class by class so that no (n, q, p) array is made.
    gradient = np.zeros_like(points)
    for k, components in enumerate(separators.components):
        sign = 2.0 * ((first == k).astype(np.float64) - (second == k))
        gradient += (sign[:, None] * middle[:, k]) @ components
    base = base_values[index, first] - base_values[index, second]
    return Contributions((points - origin) * gradient, base, separators.classes[first], separators.classes[second])
