"""Definition 6 and its ladders, against the definition restated sample by sample."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from multiform.loyalty import level_names, loyalty_levels
from multiform.loyalty._alterations import Alterations


def definition_6(held_back, pushed):
    """The type of one sample from the answers of the m held-back and the m pushed classifiers."""
    keeps = {i for i, answer in enumerate(held_back) if answer == i}
    wins = {i for i, answer in enumerate(pushed) if answer == i}
    if len(keeps) == 1:
        return "strong"
    return "weak" if len(wins) >= 3 else "normal"


@given(m=st.integers(2, 5), data=st.data())
def test_one_beta_and_one_gamma_are_definition_6(m, data):
    answers = data.draw(hnp.arrays(np.int64, (2, m, 30), elements=st.integers(0, m - 1)))
    claims = (answers == np.arange(m)[:, None]).sum(axis=1)
    names = level_names([0.05], [20.0])
    found = [names[level] for level in loyalty_levels(claims[:1], claims[1:])]
    assert found == [definition_6(answers[0, :, x], answers[1, :, x]) for x in range(30)]


@given(
    beta_claims=hnp.arrays(np.int64, (3, 40), elements=st.integers(0, 3)),
    gamma_claims=hnp.arrays(np.int64, (2, 40), elements=st.integers(0, 5)),
)
def test_ladders_take_the_first_step_that_holds(beta_claims, gamma_claims):
    beta, gamma = [0.01, 0.05, 0.2], [5.0, 20.0]
    names = level_names(beta, gamma)
    for x, level in enumerate(loyalty_levels(beta_claims, gamma_claims)):
        strong = [f"strong {b:g}" for b, claims in zip(beta, beta_claims[:, x], strict=True) if claims == 1]
        weak = [f"weak {g:g}" for g, claims in zip(gamma, gamma_claims[:, x], strict=True) if claims >= 3]
        assert names[level] == (strong + weak + ["normal"])[0]


def test_a_ladder_only_refines_the_ends():
    """Strong under some beta of the ladder is strong; merged, the weak levels are those of the largest gamma, if claims
    grow with gamma."""
    names = level_names([0.05, 0.2], [5.0, 20.0])
    assert names == ("strong 0.05", "strong 0.2", "normal", "weak 20", "weak 5")
    assert list(loyalty_levels([[1, 0, 0, 0, 0], [2, 1, 0, 0, 2]], [[0, 0, 0, 2, 3], [0, 0, 0, 3, 3]])) == [
        0,
        1,
        2,
        3,
        4,
    ]


def test_members_alter_one_class_each():
    alterations = Alterations.of([0.2, 0.05], 20, n_classes=3)
    assert alterations.beta == (0.05, 0.2)
    assert len(alterations) == 9
    weights = (0.05, 0.2, 20.0)
    expected = [np.where(np.arange(3) == altered, weights[step], 1) for step in range(3) for altered in range(3)]
    np.testing.assert_array_equal(alterations.factors, expected)


def test_two_classes_need_no_gamma():
    alterations = Alterations.of(0.05, 20, n_classes=2)
    assert alterations.levels == ("strong", "normal")
    np.testing.assert_array_equal(alterations.factors, [[0.05, 1], [1, 0.05]])


@pytest.mark.parametrize("beta", [0.0, 1.0, -0.1, 2, [0.05, 1.0]])
def test_beta_holds_back(beta):
    with pytest.raises(
        ValueError, match="beta of LoyaltyClassifier holds a class back, so it must be greater than 0 and"
    ):
        Alterations.of(beta, 20.0, 3)


@pytest.mark.parametrize("gamma", [1.0, 0.5, -3, [1, 20]])
def test_gamma_pushes(gamma):
    with pytest.raises(
        ValueError, match="gamma of LoyaltyClassifier pushes a class, so it must be greater than 1; got"
    ):
        Alterations.of(0.05, gamma, 3)


@pytest.mark.parametrize("value", [[], "0.05", [0.1, 0.1], [0.1, np.nan], ["a"], None])
def test_ladders_hold_distinct_numbers(value):
    with pytest.raises(ValueError, match="must be a number, or a sequence of distinct numbers; got"):
        Alterations.of(value, 20.0, 3)


def test_neighbours_on_a_ladder_have_names_of_their_own():
    assert level_names([0.05, 0.05000001], [20]) == ("strong 0.05", "strong 0.05000001", "normal", "weak")
