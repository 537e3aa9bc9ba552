"""The nearest point where a quadratic changes sign: one quadratic constraint, solved to its global optimum.

Around a point x0 with `h(x0) = h0 > 0` the problem is

    minimise ||d||^2   subject to   h0 + g'd + d'Md <= 0,

a generalised trust-region problem. It is not convex when M has negative eigenvalues, yet d is its global
optimum if and only if, for some multiplier mu >= 0, `(I + mu M) d = -mu g / 2` with `I + mu M` positive
semidefinite and the constraint holding with equality. Write that in the eigenvectors of M, with eigenvalues
lambda_i and gradient gamma_i, and put `l = max(0, -min lambda)`, `delta_i = lambda_i + l >= 0` and
`mu = w / (1 + w l)`. It becomes one increasing equation in w > 0, free of cancellation whatever the signs:

    S(w) = w/4 [(1 + w l) s_2 + s_1] = h0    with   s_k = sum_i gamma_i^2 / (1 + w delta_i)^k,
    d_i  = -gamma_i w / (2 (1 + w delta_i)).

Two limits complete it. If S stays below h0 and l = 0, h is never negative: there is no such point. If it
does and l > 0 (the "hard case": no gradient along the lowest eigenvectors), w is infinite and the rest of
the way goes along a lowest eigenvector, in either direction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ._arrays import EPS, FloatArray, check_points
from .polynomial import QuadraticPolynomial

__all__ = ["nearest_sign_change"]


@dataclass(frozen=True)
class Rounding:
    """How far rounding may have moved the numbers of a problem; what lies below is taken for zero."""

    value: FloatArray  # of h0, shape (n,)
    gradient: FloatArray  # of any gamma_i, shape (n,)
    curvature: float  # of any lambda_i


def nearest_sign_change(h: QuadraticPolynomial, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """The distance from each sample to the nearest point where h changes sign, and that point.

    Parameters
    ----------
    h : QuadraticPolynomial
        Any quadratic: its zero set may be an ellipsoid, a hyperboloid, a cone, a cylinder, a plane, or empty.
    X : array-like of shape (n_samples, p)
        Samples.

    Returns
    -------
    distances : ndarray of shape (n_samples,)
        Euclidean; infinite where h never takes the other sign, 0 where it is zero already.
    points : ndarray of shape (n_samples, p)
        NaN where the distance is infinite.

    Examples
    --------
    >>> from multiform.geometry import QuadraticPolynomial, nearest_sign_change
    >>> circle = QuadraticPolynomial([[1, 0], [0, 1]], constant=-4)
    >>> distances, points = nearest_sign_change(circle, [[3.0, 0.0], [0.0, 1.0]])
    >>> distances
    array([1., 1.])
    >>> points.round(6)
    array([[2., 0.],
           [0., 2.]])
    """
    points = check_points(X, h.n_features, "nearest_sign_change")
    value = h(points)
    sign = np.where(value < 0, -1.0, 1.0)
    eigenvalues, basis = np.linalg.eigh(h.matrix)
    gradient = h.gradient(points) @ basis
    # The terms that were added up to h and to its gradient, in absolute value: what their rounding scales
    # with.
    size = np.abs(points)
    sums = size @ np.abs(h.matrix)
    unit = 8.0 * EPS * h.n_features
    rounding = Rounding(
        unit * (np.einsum("ni,ni->n", sums, size) + size @ np.abs(h.vector) + abs(h.constant)),
        unit * np.linalg.norm(2.0 * sums + np.abs(h.vector), axis=1),
        unit * float(np.abs(h.matrix).max()),
    )
    displacement = np.empty_like(points)
    for side in (-1.0, 1.0):
        rows = sign == side
        displacement[rows] = nearest_negative(
            side * value[rows],
            side * gradient[rows],
            side * eigenvalues,
            Rounding(rounding.value[rows], rounding.gradient[rows], rounding.curvature),
        )
    distances = np.linalg.norm(displacement, axis=1)
    return np.where(np.isnan(distances), np.inf, distances), points + displacement @ basis.T


def nearest_negative(
    value: FloatArray, gradient: FloatArray, curvature: FloatArray, rounding: Rounding
) -> FloatArray:
    """The shortest displacements that bring `h0 + g'd + sum_i lambda_i d_i^2` down to zero, sample by sample.

    Parameters
    ----------
    value : ndarray of shape (n,)
        h0 >= 0.
    gradient : ndarray of shape (n, r)
        gamma, in the eigenvectors of the quadratic part.
    curvature : ndarray of shape (r,)
        The eigenvalues lambda.
    rounding : Rounding
        What counts as zero.

    Returns
    -------
    ndarray of shape (n, r)
        In the same eigenvectors; NaN where the quadratic is never negative.
    """
    curvature = np.where(np.abs(curvature) <= rounding.curvature, 0.0, curvature)
    lowest = max(0.0, -float(curvature.min()))
    spread = curvature + lowest
    flat = spread == 0.0
    if lowest == 0.0:
        # A slope along a direction without curvature leads below zero sooner or later, unless it is only
        # rounding.
        noise = np.abs(gradient) <= rounding.gradient[:, None]
        gradient = np.where(flat & noise, 0.0, gradient)
    squares = gradient**2

    # As w grows without bound: S reaches a finite limit, at d_i = -gamma_i / (2 delta_i), unless a flat
    # direction carries gradient.
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.where(flat, 0.0, 1.0 / spread)
    limit_step = -0.5 * gradient * inverse
    limit = 0.25 * (squares @ (inverse + lowest * inverse**2))
    length = np.linalg.norm(limit_step, axis=1)
    unbounded = squares[:, flat].sum(axis=1) > 0
    uncertain = rounding.value + rounding.gradient * length + rounding.curvature * length**2
    bounded = ~unbounded & (limit <= value + (uncertain if lowest == 0.0 else 0.0))

    displacement = np.zeros_like(gradient)
    solve = ~bounded & (value > 0)
    w = _secular_root(value[solve], squares[solve], spread, lowest)[:, None]
    displacement[solve] = -0.5 * gradient[solve] * (w / (1.0 + w * spread))
    never = bounded & (value > 0)
    if lowest == 0.0:
        displacement[never] = np.nan
    else:
        displacement[never] = limit_step[never]
        displacement[never, int(flat.argmax())] = np.sqrt((value[never] - limit[never]) / lowest)
    return displacement


def _secular_root(value: FloatArray, squares: FloatArray, spread: FloatArray, lowest: float) -> FloatArray:
    """The root w of the increasing function S(w) = h0, for all samples at once.

    Newton's method on log S against log w, where S is close to a straight line (slope 1 for small w, at
    most 2 for large), inside a bracket that bisects whenever Newton leaves it.
    """
    # (1 + w delta) >= 1 makes the first bound, the flat directions alone the second: both solve
    # l w^2 + 2 w = 4 h0 / sum gamma^2 in closed form.
    low = np.log(_positive_root(value, squares.sum(axis=1), lowest))
    flat_part = squares[:, spread == 0.0].sum(axis=1)
    high = np.log(_positive_root(value, flat_part, lowest))
    position = low.copy()
    active = np.arange(len(value))
    for _ in range(200):
        w = np.exp(position[active])
        factor = 1.0 / (1.0 + w[:, None] * spread)
        first = squares[active] * factor
        second = first * factor
        tilt = 1.0 + w * lowest
        s_1, s_2, s_3 = first.sum(axis=1), second.sum(axis=1), np.einsum("nr,nr->n", second, factor)
        total = 0.25 * w * (tilt * s_2 + s_1)
        miss = np.log(value[active] / total)
        # d log S / d log w = w S' / S with S' = (1 + w l) s_3 / 2.
        step = miss * total / (0.5 * w * tilt * s_3)
        below = miss > 0
        low[active] = np.where(below, position[active], low[active])
        high[active] = np.where(below, high[active], position[active])
        target = position[active] + step
        left, right = low[active], high[active]
        # Without an upper bound yet, climb at most a factor e^4 at a time; otherwise bisect what Newton
        # misses.
        fallback = np.where(np.isinf(right), position[active] + 4.0, 0.5 * (left + right))
        good = (target >= left) & (target <= np.minimum(right, position[active] + 8.0))
        position[active] = np.where(good, target, fallback)
        # Newton doubles the digits: a step of 1e-9 leaves an error of the order of 1e-18.
        done = (good & (np.abs(step) <= 1e-9)) | (right - left <= 4.0 * EPS * np.maximum(1.0, np.abs(left)))
        active = active[~done]
        if not len(active):
            break
    return np.asarray(np.exp(position), dtype=np.float64)


def _positive_root(value: FloatArray, square: FloatArray, lowest: float) -> FloatArray:
    """w > 0 with `l w^2 + 2 w = 4 h0 / square`; infinite where square is zero."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        ratio = 4.0 * value / square
        root = ratio / (1.0 + np.sqrt(1.0 + lowest * ratio))
    return np.asarray(np.where(np.isinf(ratio), np.inf, root), dtype=np.float64)
