"""MemberFunction: values, polynomial, reduction to the fewest rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from multiform.geometry import MemberFunction

from .strategies import make_member, members, quick, seeds


@quick
@given(members, seeds)
def test_value_is_the_squared_norm(f, seed):
    X = np.random.default_rng(seed).normal(size=(5, f.n_features))
    expected = [np.linalg.norm(f.components @ x - f.offsets) ** 2 for x in X]
    np.testing.assert_allclose(f(X), expected, rtol=1e-10, atol=1e-12)
    assert np.all(f(X) >= 0)


@quick
@given(members)
def test_reduce_keeps_the_function_with_at_most_p_plus_one_rows(f):
    reduced = f.reduce()
    assert reduced.n_components <= min(f.n_components, f.n_features + 1)
    assert reduced.to_polynomial().isclose(f.to_polynomial(), 1e-12)


@quick
@given(members)
def test_reduce_finds_the_rank(f):
    rows = np.column_stack([f.components, f.offsets])
    length = np.linalg.norm(rows, axis=0)
    rank = np.linalg.matrix_rank(rows / np.where(length > 0, length, 1))
    assert f.reduce().n_components == max(1, rank)


@quick
@given(members, members, seeds)
def test_sum_multiple_and_difference(f, g, seed):
    if f.n_features != g.n_features:
        with pytest.raises(ValueError, match="same number of variables"):
            f + g
        return
    X = np.random.default_rng(seed).normal(size=(4, f.n_features))
    np.testing.assert_allclose((f + g)(X), f(X) + g(X), rtol=1e-10)
    np.testing.assert_allclose((2.5 * f)(X), 2.5 * f(X), rtol=1e-10)
    np.testing.assert_allclose((f - g)(X), f(X) - g(X), rtol=1e-6, atol=1e-6 * (1 + (f(X) + g(X)).max()))


def test_reduce_with_a_tolerance_drops_what_is_small():
    f = MemberFunction([[1.0, 0.0], [0.0, 1.0], [1e-3, 1.0]], [0.0, 0.0, 0.0])
    assert f.reduce().n_components == 2
    nearly = MemberFunction([[1.0, 1.0], [1.0, 1.0 + 1e-9]], [0.0, 0.0])
    assert nearly.reduce().n_components == 2
    assert nearly.reduce(tol=1e-6).n_components == 1


def test_large_problems_reduce():
    f = make_member("random", 200, 500, 1)
    assert f.reduce().n_components == 201
    assert f.reduce().to_polynomial().isclose(f.to_polynomial(), 1e-11)


def test_equality_and_hash():
    f, g = MemberFunction([[0.0]], [1.0]), MemberFunction([[-0.0]], [1.0])
    assert f == g
    assert hash(f) == hash(g)
    assert f != MemberFunction([[1.0]], [1.0])
    assert f != 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MemberFunction([[1.0]], [1.0, 2.0]), "MemberFunction needs components of shape"),
        (lambda: MemberFunction(np.empty((0, 2)), []), "with p, q >= 1"),
        (lambda: MemberFunction([[np.inf]], [1.0]), "components of MemberFunction must be finite"),
        (lambda: -1.0 * MemberFunction([[1.0]], [1.0]), "only by a finite number >= 0"),
        (lambda: MemberFunction([[1.0]], [1.0]).reduce(tol=-1), "tol of MemberFunction.reduce"),
    ],
)
def test_errors_say_what_is_wrong(make, message):
    with pytest.raises(ValueError, match=message):
        make()
