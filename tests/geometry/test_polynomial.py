"""QuadraticPolynomial: the algebra, checked against sums of monomials written out in the test."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform.geometry import QuadraticPolynomial

from .strategies import make_polynomial, members, polynomials, quick, seeds


def by_monomials(f: QuadraticPolynomial, x: np.ndarray) -> float:
    p = len(x)
    quadratic = sum(f.matrix[i, j] * x[i] * x[j] for i in range(p) for j in range(p))
    return float(quadratic + sum(f.vector[i] * x[i] for i in range(p)) + f.constant)


def size_at(f: QuadraticPolynomial, X: np.ndarray) -> np.ndarray:
    """Sum of the absolute values of all terms: what rounding errors scale with."""
    size = np.abs(X)
    return np.einsum("ni,ij,nj->n", size, np.abs(f.matrix), size) + size @ np.abs(f.vector) + abs(f.constant)


def samples(p: int, seed: int, n: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, p))


@quick
@given(polynomials, seeds)
def test_evaluates_the_sum_of_its_monomials(f, seed):
    X = samples(f.n_features, seed)
    expected = [by_monomials(f, x) for x in X]
    assert np.all(np.abs(f(X) - expected) <= 1e-13 * size_at(f, X))


@quick
@given(polynomials, seeds)
def test_homogeneous_form_gives_the_same_values_and_comes_back(f, seed):
    X = samples(f.n_features, seed)
    lifted = np.column_stack([X, np.ones(len(X))])
    values = np.einsum("ni,ij,nj->n", lifted, f.homogeneous(), lifted)
    assert np.all(np.abs(values - f(X)) <= 1e-13 * size_at(f, X))
    assert QuadraticPolynomial.from_homogeneous(f.homogeneous()) == f


@quick
@given(st.integers(1, 5), seeds, st.floats(-10, 10))
def test_sums_differences_and_multiples_are_those_of_the_values(p, seed, factor):
    f, g = make_polynomial("indefinite", p, seed), make_polynomial("diagonal", p, seed + 1)
    X = samples(p, seed)
    np.testing.assert_allclose((f + g)(X), f(X) + g(X), atol=1e-10)
    np.testing.assert_allclose((f - g)(X), f(X) - g(X), atol=1e-10)
    np.testing.assert_allclose((factor * f)(X), factor * f(X), atol=1e-10)
    np.testing.assert_allclose((f * factor)(X), factor * f(X), atol=1e-10)
    np.testing.assert_allclose((f / 4)(X), f(X) / 4, atol=1e-10)
    np.testing.assert_allclose((f + 2)(X), f(X) + 2, atol=1e-10)
    np.testing.assert_allclose((3 - f)(X), 3 - f(X), atol=1e-10)
    np.testing.assert_allclose((np.float64(2) * f)(X), 2 * f(X), atol=1e-10)
    assert (f - f).isclose(0 * f)


@quick
@given(st.integers(1, 5), st.integers(1, 5), seeds)
def test_substitution_is_composition(p, r, seed):
    f = make_polynomial("indefinite", p, seed)
    rng = np.random.default_rng(seed)
    linear, shift, U = rng.normal(size=(p, r)), rng.normal(size=p), rng.normal(size=(6, r))
    np.testing.assert_allclose(f.substitute(linear, shift)(U), f(U @ linear.T + shift), atol=1e-9)
    np.testing.assert_allclose(f.substitute(linear)(U), f(U @ linear.T), atol=1e-9)


@quick
@given(polynomials, seeds)
def test_gradient_is_the_derivative(f, seed):
    X = samples(f.n_features, seed, n=2)
    direction = samples(f.n_features, seed + 1, n=1)[0]
    # The central difference of a quadratic is exact.
    numeric = (f(X + direction) - f(X - direction)) / 2
    error = np.abs(f.gradient(X) @ direction - numeric)
    assert np.all(error <= 1e-12 * (size_at(f, X + direction) + size_at(f, X - direction)))


@quick
@given(members, seeds)
def test_sums_of_squares_are_nonnegative_in_any_units(f, seed):
    polynomial = f.to_polynomial()
    unit = 10.0 ** np.random.default_rng(seed).uniform(-8, 8, size=f.n_features)
    assert polynomial.is_nonnegative()
    assert polynomial.substitute(np.diag(unit)).is_nonnegative()


@quick
@given(polynomials)
def test_what_is_not_nonnegative_has_a_negative_point(f):
    point = f.negative_point()
    assert f.is_nonnegative() == (point is None)
    if point is not None:
        assert by_monomials(f, point) < 0


@quick
@given(polynomials, seeds)
def test_a_negative_value_anywhere_is_noticed(f, seed):
    X = 3 * samples(f.n_features, seed, n=200)
    if np.any(f(X) < -1e-9 * size_at(f, X)):
        assert not f.is_nonnegative()


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (QuadraticPolynomial([[1.0]], [-2e6], 1e12), True),  # (x - 10^6)^2
        (QuadraticPolynomial([[1.0]], [-2e6], 1e12 - 1e3), False),  # dips to -1000 at x = 10^6
        (QuadraticPolynomial([[-1e-16]], constant=1.0), False),  # 1 - (x / 10^8)^2
        (QuadraticPolynomial([[1e-16]], constant=1.0), True),
        (QuadraticPolynomial([[1e-16]], [2e-8], 1.0), True),  # (x / 10^8 + 1)^2
        (QuadraticPolynomial([[0.0, 1.0], [1.0, 0.0]]), False),  # a saddle with zero diagonal
        (QuadraticPolynomial([[0.0]], [1.0]), False),
        (QuadraticPolynomial([[0.0]], constant=-1e-300), False),
        (QuadraticPolynomial([[0.0]]), True),
    ],
)
def test_nonnegativity_of_known_cases(f, expected):
    assert f.is_nonnegative() is expected


def test_tolerance_forgives_as_much_as_it_says():
    f = QuadraticPolynomial(np.eye(2), constant=-1e-8) + QuadraticPolynomial(np.zeros((2, 2)), [2.0, 0.0], 1.0)
    assert not f.is_nonnegative()
    assert f.is_nonnegative(tol=1e-7)


def test_two_hundred_variables():
    f = make_polynomial("definite", 200, 3)
    nonnegative = f if f.matrix[0, 0] > 0 else -f
    assert (nonnegative + 1e6).is_nonnegative()
    point = (nonnegative - 1e6).negative_point()
    assert point is not None
    assert (nonnegative - 1e6)([point])[0] < 0


def test_isclose_judges_each_variable_on_its_scale():
    f = QuadraticPolynomial([[1e12, 0.0], [0.0, 1e-12]])
    assert f.isclose(f * (1 + 1e-12))
    assert not f.isclose(QuadraticPolynomial([[1e12, 0.0], [0.0, 2e-12]]))
    assert f.isclose(QuadraticPolynomial([[1e12, 0.0], [0.0, 2e-12]]), atol=1e-11)


def test_equality_is_exact_and_agrees_with_the_hash():
    f, g = QuadraticPolynomial([[1.0]], [0.0], 2.0), QuadraticPolynomial([[1.0]], [-0.0], 2.0)
    assert f == g
    assert hash(f) == hash(g)
    assert f != f + 1e-15 * 4
    assert f != "f"


def test_only_the_symmetric_part_is_kept_and_nothing_can_be_changed():
    f = QuadraticPolynomial([[0.0, 2.0], [0.0, 0.0]])
    np.testing.assert_array_equal(f.matrix, [[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match="read-only"):
        f.matrix[0, 0] = 1.0


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (QuadraticPolynomial([[0.0]]), "<QuadraticPolynomial in 1 variable: 0>"),
        (QuadraticPolynomial([[-1.0]], [1.0], -0.5), "<QuadraticPolynomial in 1 variable: -x0^2 + x0 - 0.5>"),
        (
            QuadraticPolynomial([[0, 1], [1, 0]], constant=1),
            "<QuadraticPolynomial in 2 variables: 2 x0 x1 + 1>",
        ),
        (
            QuadraticPolynomial(np.diag([1.0, 1, 0, 0, 0])),
            "<QuadraticPolynomial in 5 variables, quadratic part of rank 2>",
        ),
    ],
)
def test_repr_reads_as_written_by_hand(f, text):
    assert repr(f) == text


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: QuadraticPolynomial([[1, 2]]), "matrix of QuadraticPolynomial must be square"),
        (lambda: QuadraticPolynomial([1.0]), "matrix of QuadraticPolynomial must have 2 dimensions"),
        (lambda: QuadraticPolynomial([[np.nan]]), "matrix of QuadraticPolynomial must be finite"),
        (lambda: QuadraticPolynomial([[1]], [1, 2]), "vector of QuadraticPolynomial must have 1 entries"),
        (lambda: QuadraticPolynomial([[1]])([[1, 2]]), "must have 1 columns"),
        (lambda: QuadraticPolynomial([[1]])([1.0]), "X of QuadraticPolynomial must have 2 dimensions"),
        (lambda: QuadraticPolynomial([[1]]) + QuadraticPolynomial(np.eye(2)), "same number of variables"),
        (lambda: QuadraticPolynomial([[1]]).substitute([[1], [2]]), "must land in 1 variables"),
        (lambda: QuadraticPolynomial([[1]]).is_nonnegative(tol=-1), "tol of QuadraticPolynomial must be"),
        (lambda: QuadraticPolynomial.from_homogeneous([[1.0]]), "must be square of size p"),
    ],
)
def test_errors_say_what_is_wrong(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_operations_with_other_things_are_refused():
    f = QuadraticPolynomial([[1.0]])
    with pytest.raises(TypeError, match="unsupported operand"):
        f + "1"
    with pytest.raises(TypeError, match=r"unsupported operand|can't multiply"):
        f * f
    with pytest.raises(TypeError, match="unsupported operand"):
        f / f
