"""Contributions of features: they add up, and they are the Shapley values of the quadratic."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform.geometry import Separators, counterfactuals, feature_contributions

from .strategies import quick, seeds


def make_separators(m: int, p: int, seed: int) -> Separators:
    rng = np.random.default_rng(seed)
    return Separators(rng.normal(size=(m, 3, p)), rng.normal(size=(m, 3)), list("abcde")[:m])


@quick
@given(st.integers(2, 5), st.integers(1, 6), seeds)
def test_contributions_add_up_to_the_difference(m, p, seed):
    separators = make_separators(m, p, seed)
    rng = np.random.default_rng(seed)
    X, baseline = rng.normal(size=(7, p)), rng.normal(size=p)
    account = feature_contributions(separators, X, baseline=baseline)
    values, at_baseline = separators.member_values(X), separators.member_values([baseline])[0]
    order = np.argsort(values, axis=1)
    rows = np.arange(7)
    expected = values[rows, order[:, 0]] - values[rows, order[:, 1]]
    np.testing.assert_allclose(account.total, expected, atol=1e-10)
    np.testing.assert_allclose(account.base, at_baseline[order[:, 0]] - at_baseline[order[:, 1]], atol=1e-10)
    assert np.array_equal(account.for_classes, separators.classes[order[:, 0]])
    assert np.array_equal(account.against_classes, separators.classes[order[:, 1]])


@quick
@given(st.integers(1, 4), seeds)
def test_contributions_are_shapley_values(p, seed):
    """The average, over all orders of switching features to the sample's, of what each switch changes."""
    separators = make_separators(2, p, seed)
    rng = np.random.default_rng(seed)
    x, baseline = rng.normal(size=p), rng.normal(size=p)
    h = separators["a"] - separators["b"]
    shapley = np.zeros(p)
    orders = list(permutations(range(p)))
    for order in orders:
        current = baseline.copy()
        for feature in order:
            before = h([current])[0]
            current[feature] = x[feature]
            shapley[feature] += (h([current])[0] - before) / len(orders)
    account = feature_contributions(separators, [x], baseline=baseline, for_class="a", against_class="b")
    np.testing.assert_allclose(account.values[0], shapley, atol=1e-9)


def test_against_the_counterfactual_they_add_up_to_h_itself():
    separators = make_separators(3, 4, 1)
    X = np.random.default_rng(1).normal(size=(5, 4))
    change = counterfactuals(separators, X)
    for x, point, own, other in zip(X, change.points, change.from_classes, change.to_classes, strict=True):
        account = feature_contributions(separators, [x], baseline=[point], for_class=own, against_class=other)
        assert account.base[0] == pytest.approx(0.0, abs=1e-9)
        assert account.values.sum() == pytest.approx((separators[own] - separators[other])([x])[0])


def test_features_that_do_not_differ_contribute_nothing():
    separators = make_separators(2, 3, 2)
    account = feature_contributions(separators, [[1.0, 2.0, 3.0]], baseline=[1.0, 0.0, 3.0])
    assert account.values[0, [0, 2]].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"baseline": [1.0]}, ValueError, "baseline of feature_contributions must have shape"),
        ({"baseline": [np.nan, 0.0]}, ValueError, "baseline of feature_contributions must be finite"),
        ({"for_class": "z"}, KeyError, "is not a class"),
        ({"for_class": "a", "against_class": "a"}, ValueError, "must differ from for_class"),
    ],
)
def test_errors_say_what_is_wrong(options, error, message):
    with pytest.raises(error, match=message):
        feature_contributions(make_separators(2, 2, 0), [[0.0, 1.0]], **options)
