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

Three limits complete it. If S stays below h0 and l > 0 (the "hard case": no gradient along the lowest
eigenvectors), w is infinite and the rest of the way goes along a lowest eigenvector, in either direction.
If it does and l = 0, h is never negative, and there is no such point. And if l = 0 and h is negative only
slightly, by `depth = S(inf) - h0`, the equation is solved for what is missing: `sum_i gamma_i^2 / (4
delta_i (1 + w delta_i)^2) = depth`, with the depth measured at the bottom itself, where h is known best.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from multiform._typing import Doubles, Indices

from ._arrays import EPS, check_points
from .quadratics import QuadraticPolynomial

# Of the samples in the given rows, h and its rounding error at displacements in eigenvectors, shape (n_rows, r).
ValueAt = Callable[[Indices, Doubles], tuple[Doubles, Doubles]]


def nearest_sign_change(h: QuadraticPolynomial, X: ArrayLike) -> tuple[Doubles, Doubles]:
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
    # The terms that are added up to h and to its gradient, in absolute value: what their rounding scales with.
    absolute = QuadraticPolynomial(np.abs(h.matrix), np.abs(h.vector), abs(h.constant))
    unit = 8.0 * EPS * h.n_features
    gradient_error = unit * np.linalg.norm(absolute.gradient(np.abs(points)), axis=1)
    curvature_error = unit * float(np.abs(h.matrix).max())

    def value_at(side: float, rows: Indices, chosen: Indices, step: Doubles) -> tuple[Doubles, Doubles]:
        there = points[rows[chosen]] + step @ basis.T
        return side * h(there), unit * absolute(np.abs(there))

    displacement = np.empty_like(points)
    for side in (-1.0, 1.0):
        rows = np.flatnonzero(sign == side)
        displacement[rows] = nearest_negative(
            side * value[rows],
            side * gradient[rows],
            side * eigenvalues,
            gradient_error[rows],
            curvature_error,
            partial(value_at, side, rows),
        )
    distances = np.linalg.norm(displacement, axis=1)
    return np.where(np.isnan(distances), np.inf, distances), points + displacement @ basis.T


def nearest_negative(
    value: Doubles,
    gradient: Doubles,
    curvature: Doubles,
    gradient_error: Doubles,
    curvature_error: float,
    value_at: ValueAt,
) -> Doubles:
    """The shortest displacements that bring `h0 + g'd + sum_i lambda_i d_i^2` down to zero, sample by sample.

    All are in the eigenvectors of the quadratic part: the gradient gamma (n, r) at values h0 >= 0 (n,), the curvature
    lambda (r,), and the result (n, r), which is NaN where the quadratic is never negative. The errors say how far
    rounding may have moved any gamma_i of a sample, and any lambda_i: what lies below is taken for zero.
    """
    curvature = np.where(np.abs(curvature) <= curvature_error, 0.0, curvature)
    lowest = max(0.0, -float(curvature.min()))
    spread = curvature + lowest
    flat = spread == 0.0
    if lowest == 0.0:
        # A slope along a direction without curvature leads below zero sooner or later, unless it is only rounding.
        noise = np.abs(gradient) <= gradient_error[:, None]
        gradient = np.where(flat & noise, 0.0, gradient)
    squares = gradient**2

    # As w grows without bound, d tends to -gamma_i / (2 delta_i) and S to a limit, unless a flat direction
    # carries gradient.
    inverse = np.divide(1.0, spread, out=np.zeros_like(spread), where=~flat)
    limit_step = -0.5 * gradient * inverse
    limit = 0.25 * (squares @ (inverse + lowest * inverse**2))
    bounded = (squares[:, flat] == 0.0).all(axis=1) & (value > 0)

    step = np.full_like(gradient, np.nan)
    step[value <= 0] = 0.0
    if lowest > 0.0:
        special = bounded & (limit <= value)
        step[special] = limit_step[special]
        step[special, int(flat.argmax())] = np.sqrt((value[special] - limit[special]) / lowest)
    else:
        special = bounded & (limit < 2.0 * value)
        rows = np.flatnonzero(special)
        bottom, error = value_at(rows, limit_step[rows])
        crosses = bottom < -error
        rows, depth = rows[crosses], -bottom[crosses]
        w = _shallow_root(depth, limit[rows], squares[rows], spread)[:, None]
        step[rows] = -0.5 * gradient[rows] * (w / (1.0 + w * spread))
    rows = np.flatnonzero((value > 0) & ~special)
    w = _secular_root(value[rows], squares[rows], spread, lowest)[:, None]
    step[rows] = -0.5 * gradient[rows] * (w / (1.0 + w * spread))
    return step


def _secular_root(value: Doubles, squares: Doubles, spread: Doubles, lowest: float) -> Doubles:
    """The root w of the increasing function `S(w) = w/4 [(1 + w l) s_2 + s_1] = h0`."""
    # (1 + w delta) >= 1 makes the lower bound, the flat directions alone the upper one: both solve
    # l w^2 + 2 w = 4 h0 / sum gamma^2 in closed form.
    low = _positive_root(value, squares.sum(axis=1), lowest)
    high = _positive_root(value, squares[:, spread == 0.0].sum(axis=1), lowest)

    def miss_and_slope(rows: Indices, w: Doubles) -> tuple[Doubles, Doubles]:
        factor = 1.0 / (1.0 + w[:, None] * spread)
        first = squares[rows] * factor
        second = first * factor
        tilt = 1.0 + w * lowest
        total = 0.25 * w * (tilt * second.sum(axis=1) + first.sum(axis=1))
        # S' = (1 + w l) s_3 / 2
        slope = 0.5 * w * tilt * np.einsum("nr,nr->n", second, factor) / total
        return np.log(value[rows] / total), slope

    return _newton_in_logarithms(low, high, miss_and_slope)


def _shallow_root(depth: Doubles, limit: Doubles, squares: Doubles, spread: Doubles) -> Doubles:
    """The root w of the decreasing `R(w) = sum_i gamma_i^2 / (4 delta_i (1 + w delta_i)^2) = depth`."""
    curved = spread > 0.0
    squares, spread = squares[:, curved], spread[curved]
    if not len(depth):
        return np.empty(0)
    # R(0) is the limit of S; the largest and the smallest delta bound how fast R falls.
    excess = np.sqrt(np.maximum(limit / depth, 1.0)) - 1.0
    low, high = excess / spread.max(), excess / spread.min()

    def miss_and_slope(rows: Indices, w: Doubles) -> tuple[Doubles, Doubles]:
        factor = 1.0 / (1.0 + w[:, None] * spread)
        second = squares[rows] * factor**2
        left = 0.25 * (second @ (1.0 / spread))
        # R' = -s_3 / 2
        slope = 0.5 * w * np.einsum("nr,nr->n", second, factor) / left
        return np.log(left / depth[rows]), slope

    return _newton_in_logarithms(low, high, miss_and_slope)


def _newton_in_logarithms(
    low: Doubles,
    high: Doubles,
    miss_and_slope: Callable[[Indices, Doubles], tuple[Doubles, Doubles]],
) -> Doubles:
    """Roots w between `low` and `high` (which may be infinite) of increasing functions, all samples at once.

    Newton's method on the logarithm of the function against log w, where both of ours are close to straight lines
    (slope 1 for small w, up to 2 for large), inside a bracket that is bisected whenever Newton leaves it.
    `miss_and_slope` gives, for rows and their w, how far the logarithm is below its target, and its slope.
    """
    low, high = np.log(low), np.log(high)
    position = low.copy()
    active = np.arange(len(low))
    for _ in range(200):
        here = position[active]
        miss, slope = miss_and_slope(active, np.exp(here))
        below = miss > 0
        left = low[active] = np.where(below, here, low[active])
        right = high[active] = np.where(below, high[active], here)
        step = miss / slope
        target = here + step
        # Without an upper bound yet, climb by a factor e^4 at a time; otherwise bisect where Newton would leave.
        fallback = np.where(np.isinf(right), here + 4.0, 0.5 * (left + right))
        good = (target >= left) & (target <= np.minimum(right, here + 8.0))
        position[active] = np.where(good, target, fallback)
        # Newton doubles the digits: a step of 1e-9 leaves an error of the order of 1e-18.
        done = (good & (np.abs(step) <= 1e-9)) | (right - left <= 4.0 * EPS * np.maximum(1.0, np.abs(left)))
        active = active[~done]
        if not len(active):
            break
    return np.asarray(np.exp(position), dtype=np.float64)


def _positive_root(value: Doubles, square: Doubles, lowest: float) -> Doubles:
    """w > 0 with `l w^2 + 2 w = 4 h0 / square`; infinite where square is zero."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        ratio = 4.0 * value / square
        root = ratio / (1.0 + np.sqrt(1.0 + lowest * ratio))
    return np.asarray(np.where(np.isinf(ratio), np.inf, root), dtype=np.float64)
