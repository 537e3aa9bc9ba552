"""How far a decision is from changing, where it would change, and which features hold it.

The decision `argmin_k f_k` of a sample in class i changes when some `h = f_j - f_i` turns negative: one quadric per
other class. The nearest point of each is found exactly (see `quadric`), and the nearest of those is the answer: no
other separator can interfere, as the decision cannot have changed before the first of them is reached.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from multiform._typing import Array, Doubles, Indices

from ._arrays import EPS, check_points, finite_array
from .quadric import nearest_negative
from .separators import Separators

__all__ = ["Counterfactuals", "certified_radius", "counterfactuals"]

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

    It is exact, not a bound: at that distance there is a point where the decision changes.

    Parameters
    ----------
    model : fitted QMSClassifier, Separators, or member functions
        Anything `Separators.of` takes.
    X : array-like of shape (n_samples, p)
        Samples, in the units of the model.
    scale : array-like of shape (p,), default=None
        The unit in which each feature is measured: distances are `||(x - x') / scale||`. Pass a scaler's
        `scale_` for standardised units; its centre does not matter to a distance. None is the user's units.
    features : iterable of int or str, or boolean mask, default=None
        The features that may change; the others keep the sample's values. None is all.

    Returns
    -------
    ndarray of shape (n_samples,)
        Infinite where no change of those features changes the decision.

    See Also
    --------
    counterfactuals : the points as well.

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

    Returns
    -------
    Counterfactuals

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


@dataclass(frozen=True)
class _PairFrame:
    """Eigenvectors of one boundary `h = f_j - f_i` within the free features, measured in their units.

    With C = [A_i; A_j] restricted to the free columns, times their units, and J = diag(-1, ..., +1, ...), the quadratic
    part of h is C'JC and its gradient 2 C'J r of the residuals r = [A_i x - b_i; A_j x - b_j]. Both live in the row
    space of C, so `C' = U T` leaves an eigenproblem of size min(p, 2q): T J T' = W diag(lambda) W'.
    """

    curvature: Doubles  # lambda, shape (r,)
    gradient_map: Doubles  # 2 J T' W, shape (2q, r): residuals to gradient
    residual_map: Doubles  # W' T, shape (r, 2q): displacement to change of residuals
    basis: Doubles  # U W in the user's units, shape (n_free, r)
    norm: float  # of C

    @classmethod
    def between(cls, separators: Separators, i: int, j: int, free: Indices, unit: Doubles) -> _PairFrame:
        rows = np.vstack([separators.components[i], separators.components[j]])[:, free] * unit
        sign = np.repeat([-1.0, 1.0], separators.n_components)
        orthonormal, triangle = linalg.qr(rows.T, mode="economic", check_finite=False)
        curvature, vectors = np.linalg.eigh((triangle * sign) @ triangle.T)
        residual_map = vectors.T @ triangle
        gradient_map = 2.0 * sign[:, None] * residual_map.T
        basis = (orthonormal @ vectors) * unit[:, None]
        return cls(curvature, gradient_map, residual_map, basis, float(np.linalg.norm(rows)))


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

    frames: dict[tuple[int, int], _PairFrame] = {}
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
                if (i, j) not in frames:
                    frames[i, j] = _PairFrame.between(separators, i, j, free, unit[free])
                found, step, reach, lowest = _nearer_steps(
                    frames[i, j],
                    values[rows, j] - values[rows, i],
                    residuals[rows[:, None], [i, j]].reshape(len(rows), -1),
                    np.linalg.norm(errors[rows[:, None], [i, j]], axis=1),
                    distances[start + rows],
                )
                where = start + rows[found]
                other[where], distances[where], deepest[where] = j, reach, lowest
                moved[where[:, None], free] = points[where[:, None], free] + step @ frames[i, j].basis.T
    moved[np.isinf(distances)] = np.nan
    return Counterfactuals(points, moved, distances, classes[decision], classes[other], deepest)


def _nearer_steps(
    frame: _PairFrame, gap: Doubles, residuals: Doubles, residual_error: Doubles, best: Doubles
) -> tuple[Indices, Doubles, Doubles, Doubles]:
    """The rows whose boundary in this frame is nearer than `best`, the steps to it, their lengths, and how far
    along the way h is lowest, in parts of the way to the boundary."""
    gradient = residuals @ frame.gradient_map
    # h >= h0 - ||g|| d - l d^2 at distance d: only where this lets h vanish nearer than the best so far is
    # the exact answer needed.
    slope, bend = np.linalg.norm(gradient, axis=1), max(0.0, -float(frame.curvature.min()))
    with np.errstate(invalid="ignore"):
        possible = np.isinf(best) | (gap < best * (slope + bend * best) * (1.0 + 1e-12))
    gradient, residuals, residual_error = gradient[possible], residuals[possible], residual_error[possible]

    # Sums of 2q products: what their rounding can amount to.
    unit = 8.0 * EPS * len(frame.gradient_map)
    gradient_error = frame.norm * (unit * np.linalg.norm(residuals, axis=1) + residual_error)

    def value_at(chosen: Indices, displacement: Doubles) -> tuple[Doubles, Doubles]:
        there = residuals[chosen] + displacement @ frame.residual_map
        own, rival = np.split(there**2, 2, axis=1)
        error = residual_error[chosen] + unit * frame.norm * np.linalg.norm(displacement, axis=1)
        return rival.sum(axis=1) - own.sum(axis=1), error**2 + 2.0 * error * np.linalg.norm(there, axis=1)

    step = nearest_negative(gap[possible], gradient, frame.curvature, gradient_error, unit * frame.norm**2, value_at)
    reach = np.linalg.norm(step, axis=1)
    nearer = reach < best[possible]  # never where reach is NaN: no change in that direction
    step = step[nearer]
    lowest = _deepest_factor(step, gradient[nearer], frame.curvature)
    return np.flatnonzero(possible)[nearer], step, reach[nearer], lowest


def _deepest_factor(step: Doubles, gradient: Doubles, curvature: Doubles) -> Doubles:
    """Where `t -> h(x + t d)` is lowest: at `t = -g'd / (2 d'Md)` if it curves up, else without end."""
    bend = 2.0 * (step**2 @ curvature)
    with np.errstate(divide="ignore", invalid="ignore"):
        lowest = -np.einsum("nr,nr->n", gradient, step) / bend
    return np.asarray(np.where(bend > 0, np.maximum(lowest, 1.0), np.inf), dtype=np.float64)
