"""The nearest sign change of a quadratic, against closed forms, dense sampling and an independent solver."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from multiform.geometry import QuadraticPolynomial, nearest_sign_change

from .strategies import KINDS, make_polynomial, quick, seeds


def size_at(h: QuadraticPolynomial, X: np.ndarray) -> np.ndarray:
    size = np.abs(X)
    return np.einsum("ni,ij,nj->n", size, np.abs(h.matrix), size) + size @ np.abs(h.vector) + abs(h.constant)


def directions(p: int, n: int, seed: int) -> np.ndarray:
    rays = np.random.default_rng(seed).normal(size=(n, p))
    return rays / np.linalg.norm(rays, axis=1, keepdims=True)


@quick
@given(st.sampled_from(KINDS[:-1]), st.integers(1, 5), seeds)
def test_point_lies_on_the_quadric_at_that_distance_and_nothing_is_nearer(kind, p, seed):
    h = make_polynomial(kind, p, seed)
    X = np.random.default_rng(seed).normal(size=(4, p))
    distances, points = nearest_sign_change(h, X)
    for x, distance, point in zip(X, distances, points, strict=True):
        side = np.sign(h([x])[0])
        if np.isinf(distance):
            assert np.isnan(point).all()
            reach = 100.0
        else:
            assert np.linalg.norm(point - x) == pytest.approx(distance, rel=1e-12, abs=1e-300)
            assert abs(h([point])[0]) <= 1e-10 * size_at(h, np.abs([point]) + np.abs([x]))[0]
            reach = distance
        # The sign holds in the open ball: sampled densely, most of it near its surface.
        radii = reach * np.random.default_rng(seed).uniform(0, 1, 400) ** (1 / 8)
        ball = x + radii[:, None] * directions(p, 400, seed)
        assert np.all(side * h(ball) >= -1e-10 * size_at(h, ball))


def nearest_by_slsqp(h: QuadraticPolynomial, x: np.ndarray, starts: np.ndarray) -> float:
    """Independent: a general-purpose solver from many starts."""
    side = np.sign(h([x])[0])
    best = np.inf
    for start in starts:
        found = minimize(
            lambda z: float((z - x) @ (z - x)),
            start,
            jac=lambda z: 2 * (z - x),
            method="SLSQP",
            constraints=[
                {
                    "type": "ineq",
                    "fun": lambda z: -side * h([z])[0],
                    "jac": lambda z: -side * h.gradient([z])[0],
                }
            ],
            options={"maxiter": 300, "ftol": 1e-14},
        )
        if side * h([found.x])[0] <= 1e-8:
            best = min(best, float(np.sqrt(found.fun)))
    return best


@pytest.mark.parametrize("kind", ["indefinite", "definite", "rank one", "diagonal", "linear", "no constant"])
@pytest.mark.parametrize("p", [1, 2, 4])
def test_agrees_with_an_independent_solver(kind, p):
    for seed in range(3):
        h = make_polynomial(kind, p, seed)
        rng = np.random.default_rng(seed + 100)
        x = rng.normal(size=p)
        (distance,), _ = nearest_sign_change(h, [x])
        other = nearest_by_slsqp(h, x, x + rng.normal(size=(5, p)) * rng.choice([0.3, 1, 3], size=(5, 1)))
        if np.isinf(distance):
            side = np.sign(h([x])[0])
            lowest = minimize(lambda z, h=h, side=side: side * h([z])[0], x).fun
            assert lowest > -1e-8
        else:
            assert distance <= other * (1 + 1e-6) + 1e-9
            assert np.isclose(distance, other, rtol=1e-4) or np.isinf(other)


@pytest.mark.parametrize(
    ("h", "x", "distance"),
    [
        # Hard case: the centre of a hyperbola x0^2 - x1^2 = -1 seen from its axis, no gradient along x1.
        (QuadraticPolynomial(np.diag([1.0, -1.0]), constant=1.0), [0.0, 0.0], 1.0),
        (QuadraticPolynomial(np.diag([1.0, -1.0]), constant=1.0), [1.0, 0.0], np.sqrt(1.5)),
        # The same, all eigenvalues negative: the centre of a sphere.
        (QuadraticPolynomial(-np.eye(3), constant=4.0), [0.0, 0.0, 0.0], 2.0),
        # Hard case with a repeated lowest eigenvalue, started off the centre along the other axis.
        (QuadraticPolynomial(np.diag([1.0, -1.0, -1.0]), constant=1.0), [1.0, 0.0, 0.0], np.sqrt(1.5)),
        # Near-hard: a whisper of gradient along the lowest eigenvector must not upset the answer.
        (QuadraticPolynomial(np.diag([1.0, -1.0]), [0.0, 1e-14], 1.0), [1.0, 0.0], np.sqrt(1.5)),
        # A plane, a pair of planes, a parabola, a cone.
        (QuadraticPolynomial.affine([3.0, 4.0], -5.0), [0.0, 0.0], 1.0),
        (QuadraticPolynomial(np.diag([1.0, 0.0]), constant=-1.0), [3.0, 7.0], 2.0),
        (QuadraticPolynomial(np.diag([1.0, 0.0]), [0.0, -1.0]), [0.0, 0.25], 0.25),
        (QuadraticPolynomial(np.diag([1.0, -1.0])), [1.0, 0.0], np.sqrt(0.5)),
        # On the boundary already.
        (QuadraticPolynomial(np.eye(2), constant=-1.0), [1.0, 0.0], 0.0),
        # Never: positive constant, positive definite, touching without crossing, parabolic without gradient.
        (QuadraticPolynomial(np.zeros((2, 2)), constant=1.0), [0.0, 0.0], np.inf),
        (QuadraticPolynomial(np.eye(2), constant=1.0), [0.3, -2.0], np.inf),
        (QuadraticPolynomial(np.outer([0.1, 0.7], [0.1, 0.7])), [1.3, 0.4], np.inf),
        (QuadraticPolynomial(np.diag([1.0, 0.0]), constant=0.5), [1.0, 5.0], np.inf),
    ],
)
def test_known_distances(h, x, distance):
    (found,), (point,) = nearest_sign_change(h, [x])
    assert found == pytest.approx(distance, rel=1e-12, abs=1e-15)
    if np.isfinite(distance):
        assert h([point])[0] == pytest.approx(0.0, abs=1e-12)


@quick
@given(st.integers(1, 4), seeds)
def test_units_of_h_do_not_matter(p, seed):
    h = make_polynomial("indefinite", p, seed)
    X = np.random.default_rng(seed).normal(size=(3, p))
    distances, _ = nearest_sign_change(h, X)
    for factor in (1e-12, 1e12, -1.0):
        np.testing.assert_allclose(nearest_sign_change(factor * h, X)[0], distances, rtol=1e-9)


def test_thin_regions_are_found():
    """h = x^2 - 1e-10 is negative only within 1e-5 of zero: nearly tangent, and far from the sample."""
    h = QuadraticPolynomial([[1.0]], constant=-1e-10)
    (distance,), _ = nearest_sign_change(h, [[2.0]])
    assert distance == pytest.approx(2.0 - 1e-5, rel=1e-9)


def test_two_hundred_variables():
    h = make_polynomial("indefinite", 200, 7)
    X = np.random.default_rng(7).normal(size=(20, 200))
    distances, points = nearest_sign_change(h, X)
    np.testing.assert_allclose(np.linalg.norm(points - X, axis=1), distances, rtol=1e-12)
    assert np.all(np.abs(h(points)) <= 1e-11 * size_at(h, points))


def test_no_samples_give_no_distances():
    distances, points = nearest_sign_change(QuadraticPolynomial(np.eye(2)), np.empty((0, 2)))
    assert distances.shape == (0,)
    assert points.shape == (0, 2)
