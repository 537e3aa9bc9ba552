"""Separators as values: stacked as alone, in the user's units as scaled, and back from plain values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform.separators import Scaling, Separators, noise_energy
from tests.named_engines import cpu

seeds = st.integers(0, 2**31)


def definition(separators, X):
    """f_k(x) = ||A_k z - b_k||^2 + noise, z the columns of (x - center) / scale that are read; in double precision."""
    z = (np.asarray(X, np.float64) - separators.scaling.center) / separators.scaling.scale
    z = z if separators.columns is None else z[:, separators.columns]
    f = np.empty((len(z), len(separators.coefficients)))
    for i, x in enumerate(z):
        for k, separator in enumerate(separators.coefficients.astype(np.float64)):
            f[i, k] = np.sum((separator[:, :-1] @ x - separator[:, -1]) ** 2)
    return f if separators.noise is None else f + separators.noise


def drawn(random, scaling, m=3, q=2, columns=None, noise=0.3):
    width = len(scaling.center) if columns is None else len(columns)
    coefficients = random.normal(size=(m, q, width + 1)).astype(np.float32)
    return Separators(coefficients, scaling, m, columns=columns, noise=noise_energy(coefficients, noise))


def drawn_scaling(random, p=5):
    return Scaling(random.normal(size=p), random.uniform(0.5, 2, size=p))


@given(seed=seeds)
def test_a_stack_says_what_its_members_say(seed):
    """Also where members read other columns, have other numbers of rows, or no noise."""
    random = np.random.default_rng(seed)
    scaling = drawn_scaling(random)
    parts = [
        drawn(random, scaling, q=2),
        drawn(random, scaling, q=4, noise=0.0),
        drawn(random, scaling, q=1, columns=np.array([1, 4], np.int32)),
        drawn(random, scaling, q=3, columns=np.array([0, 2, 3], np.int32), noise=0.0),
    ]
    X = random.normal(size=(7, 5))
    for chosen in (parts[:2], parts[2:], parts):
        stack = Separators.stack(chosen)
        for rows, rtol in ((X, 1e-9), (X.astype(np.float32), 1e-3)):
            f = stack.values(rows, cpu())
            assert f.shape == (7, len(chosen), 3)
            for member, part in enumerate(chosen):
                np.testing.assert_allclose(f[:, member], definition(part, X), rtol=rtol, atol=1e-3 * (rtol > 1e-6))


def test_a_stack_of_some_columns_reads_no_others():
    """What no member reads may be anything."""
    random = np.random.default_rng(0)
    scaling = drawn_scaling(random)
    stack = Separators.stack([drawn(random, scaling, columns=np.array(c, np.int32)) for c in ([1, 4], [2, 4])])
    np.testing.assert_array_equal(stack.columns, [1, 2, 4])
    X = random.normal(size=(6, 5)).astype(np.float32)
    other = X.copy()
    other[:, [0, 3]] = 1e9
    np.testing.assert_array_equal(stack.values(X, cpu()), stack.values(other, cpu()))


@given(seed=seeds)
def test_user_units_are_the_same_functions(seed):
    random = np.random.default_rng(seed)
    separators = drawn(random, drawn_scaling(random))
    components, offsets = separators.in_user_units()
    x = random.normal(size=5)
    f = ((components @ x - offsets) ** 2).sum(axis=1)
    np.testing.assert_allclose(f, definition(separators, x[None, :])[0], rtol=1e-9)
    again = Separators.of_components(components, offsets, separators.scaling)
    np.testing.assert_allclose(again.values(x[None, :], cpu())[0], f, rtol=1e-9)
    single = again.values(x[None, :].astype(np.float32), cpu())[0]
    np.testing.assert_allclose(single, f, rtol=1e-3, atol=1e-4)


@given(seed=seeds)
def test_member_functions_times_a_number_are_member_functions(seed):
    random = np.random.default_rng(seed)
    scaling, X, factors = drawn_scaling(random), random.normal(size=(4, 5)), random.uniform(0.1, 9, size=3)
    given_by_user = drawn(random, scaling).in_user_units()
    for one in (
        drawn(random, scaling),
        drawn(random, scaling, noise=0.0, columns=np.array([1, 4], np.int32)),
        Separators.stack([drawn(random, scaling), drawn(random, scaling, q=4)]),
        Separators.of_components(*given_by_user, scaling),
    ):
        times, expected = one.times(factors), one.values(X, cpu()) * factors
        np.testing.assert_allclose(times.values(X, cpu()), expected, rtol=1e-5, atol=1e-6)
        single = times.values(X.astype(np.float32), cpu())
        np.testing.assert_allclose(single, expected, rtol=1e-3, atol=1e-3)


def test_single_precision_where_it_is_enough():
    """X in double precision by the engine: the same rows, scaled in double precision and rounded once."""
    random = np.random.default_rng(0)
    separators = drawn(random, Scaling(np.full(5, 1e6), np.ones(5)))  # float32 itself could not tell these apart
    X = 1e6 + random.normal(size=(9, 5))
    np.testing.assert_allclose(separators.values(X, cpu(), single=True), separators.values(X, cpu()), rtol=1e-3)


def test_plain_values_and_back():
    random = np.random.default_rng(0)
    scaling = drawn_scaling(random)
    separators = drawn(random, scaling, columns=np.array([0, 3], np.int32))
    again = Separators.from_plain(separators.as_plain(), Scaling.from_plain(scaling.as_plain(), 5), 3)
    X = random.normal(size=(4, 5)).astype(np.float32)
    np.testing.assert_array_equal(again.values(X, cpu()), separators.values(X, cpu()))


WRONG = {
    "there is not a separator for each class": {"coefficients": np.ones((4, 2, 3), np.float32)},
    "separators has the wrong shape": {"coefficients": np.ones((3, 2, 9), np.float32)},
    "separators has the wrong type": {"coefficients": np.ones((3, 2, 3))},
    "a separator is not finite": {"coefficients": np.full((3, 2, 3), np.nan, np.float32)},
    "reads columns that there are not": {"columns": np.array([0, 5], np.int32)},
    "columns are not ascending": {"columns": np.array([3, 0], np.int32)},
    "noise is wrong": {"noise": np.full(3, -1.0)},
    "has no attribute 'more'": {"more": 1},
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_plain_values_are_refused(what):
    random = np.random.default_rng(0)
    scaling = drawn_scaling(random)
    state = drawn(random, scaling, columns=np.array([0, 3], np.int32)).as_plain() | WRONG[what]
    with pytest.raises(ValueError, match=what):
        Separators.from_plain(state, scaling, 3)


@pytest.mark.parametrize(("center", "scale"), [(np.nan, 1.0), (0.0, 0.0), (0.0, -1.0), (0.0, np.nan)])
def test_a_wrong_scaling_is_refused(center, scale):
    with pytest.raises(ValueError, match="the scaling is wrong"):
        Scaling.from_plain({"center": np.full(2, center), "scale": np.full(2, scale)})
