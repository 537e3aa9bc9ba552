"""Lemma 1 and Lemma 2 as the paper states them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform.geometry import (
    NotNonnegativeError,
    QuadraticPolynomial,
    difference_of_members,
    member_from_polynomial,
)

from .strategies import make_member, make_polynomial, members, polynomials, quick

lemma_1_methods = st.sampled_from(["spectral", "elimination"])
lemma_2_methods = st.sampled_from(["spectral", "monomial"])


@quick
@given(members, lemma_1_methods)
def test_lemma_1_nonnegative_means_member_function_with_at_most_p_plus_one_rows(f, method):
    """A quadratic is nonnegative if and only if it is a q-dimensional member function for some q <= p + 1."""
    polynomial = f.to_polynomial()
    member = member_from_polynomial(polynomial, method=method)
    assert member.n_components <= f.n_features + 1
    assert member.to_polynomial().isclose(polynomial, 1e-8)


@quick
@given(polynomials, lemma_1_methods)
def test_lemma_1_what_is_not_nonnegative_is_refused_with_a_point(f, method):
    if f.is_nonnegative():
        assert member_from_polynomial(f, method=method).to_polynomial().isclose(f, 1e-8)
        return
    with pytest.raises(NotNonnegativeError, match="only a nonnegative quadratic is a member function") as error:
        member_from_polynomial(f, method=method)
    assert error.value.value < 0
    assert f([error.value.point])[0] == error.value.value


@pytest.mark.parametrize("method", ["spectral", "elimination"])
def test_lemma_1_spectral_has_the_fewest_rows(method):
    f = make_member("rank one", 5, 7, 2).to_polynomial()
    assert member_from_polynomial(f, method=method).n_components == 2


def test_lemma_1_elimination_is_the_papers():
    """f = L_1^2 + L_2^2 + a_0 of 4 x0^2 + 4 x0 x1 + 2 x1^2 + 2, by hand: (2 x0 + x1)^2 + x1^2 + 2."""
    f = QuadraticPolynomial([[4, 2], [2, 2]], constant=2)
    member = member_from_polynomial(f, method="elimination")
    np.testing.assert_allclose(member.components, [[2, 1], [0, 1], [0, 0]], atol=1e-12)
    np.testing.assert_allclose(member.offsets, [0, 0, -np.sqrt(2)], atol=1e-12)


@pytest.mark.parametrize("method", ["spectral", "elimination"])
@pytest.mark.parametrize("kind", ["rank one", "absent features", "touches zero", "units"])
def test_lemma_1_in_two_hundred_variables(method, kind):
    f = make_member(kind, 200, 150, 4).to_polynomial()
    member = member_from_polynomial(f, method=method)
    assert member.n_components <= 201
    assert member.to_polynomial().isclose(f, 1e-9)


@quick
@given(polynomials, lemma_2_methods)
def test_lemma_2_every_quadratic_is_a_difference_of_two_member_functions(h, method):
    u, v = difference_of_members(h, method=method)
    assert (u - v).isclose(h, 1e-12)
    if method == "spectral":
        # Ranks add up to that of the homogeneous form; a zero function still takes one row.
        assert u.n_components + v.n_components <= max(h.n_features + 1, 1) + 1


@pytest.mark.parametrize("method", ["spectral", "monomial"])
def test_lemma_2_in_two_hundred_variables(method):
    h = make_polynomial("indefinite", 200, 5)
    u, v = difference_of_members(h, method=method)
    assert (u - v).isclose(h, 1e-11)


def test_lemma_2_monomials_of_the_proof():
    """x_i = ((x_i + 1)^2 - (x_i - 1)^2) / 4."""
    u, v = difference_of_members(QuadraticPolynomial.affine([1.0]), method="monomial")
    X = np.linspace(-3, 3, 7)[:, None]
    np.testing.assert_allclose(u(X), (X[:, 0] + 1) ** 2 / 4)
    np.testing.assert_allclose(v(X), (X[:, 0] - 1) ** 2 / 4)


def test_unknown_methods_are_refused():
    f = QuadraticPolynomial([[1.0]])
    with pytest.raises(ValueError, match='method of member_from_polynomial must be "spectral" or "elimination"'):
        member_from_polynomial(f, method="magic")
    with pytest.raises(ValueError, match='method of difference_of_members must be "spectral" or "monomial"'):
        difference_of_members(f, method="magic")
