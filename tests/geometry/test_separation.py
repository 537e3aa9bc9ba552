"""Property A, the cyclic condition, Lemma 3 and Theorem 1, restated from the paper."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform.geometry import (
    CyclicConditionError,
    MemberFunction,
    QuadraticPolynomial,
    Separators,
    cyclic_violation,
    has_property_a,
    pairwise_from_separators,
    project_to_cyclic,
    property_a_report,
    separators_from_pairwise,
)

from .strategies import KINDS, make_polynomial, quick, seeds

methods = st.sampled_from(["compact", "paper"])


def cyclic_quadratics(m: int, p: int, seed: int) -> dict[tuple[int, int], QuadraticPolynomial]:
    """h_ij = e_i - e_j of arbitrary quadratics e: satisfies h_ij + h_jk + h_ki = 0."""
    rng = np.random.default_rng(seed)
    potentials = [make_polynomial(rng.choice(KINDS[:-1]), p, seed + k) for k in range(m)]
    return {(i, j): potentials[i] - potentials[j] for i in range(m) for j in range(m) if i != j}


def assert_same_quadratics(found, expected):
    """Equal up to rounding of the largest coefficient of all."""
    assert set(found) == set(expected)
    largest = max(np.abs(g.homogeneous()).max() for g in expected.values())
    for pair, polynomial in expected.items():
        assert np.abs((found[pair] - polynomial).homogeneous()).max() <= 1e-12 * largest


@quick
@given(st.integers(0, 6), st.integers(0, 6), seeds)
def test_property_a_is_definition_5(n_first, n_second, seed):
    rng = np.random.default_rng(seed)
    h = make_polynomial("indefinite", 2, seed)
    first, second = rng.normal(size=(n_first, 2)), rng.normal(size=(n_second, 2))
    holds = all(h([x])[0] < 0 for x in first) and all(h([x])[0] > 0 for x in second)
    report = property_a_report(first, second, h)
    assert report.holds == holds == has_property_a(first, second, h)
    assert sorted(report.offending_first) == [k for k, x in enumerate(first) if h([x])[0] >= 0]
    assert sorted(report.offending_second) == [k for k, x in enumerate(second) if h([x])[0] <= 0]
    slacks = [-h([x])[0] for x in first] + [h([x])[0] for x in second]
    assert report.margin == pytest.approx(min(slacks, default=np.inf))


def test_worst_offender_comes_first():
    h = QuadraticPolynomial.affine([1.0])
    report = property_a_report([[1.0], [-1.0], [5.0]], [[2.0], [-3.0], [0.0]], h)
    assert report.offending_first.tolist() == [2, 0]
    assert report.offending_second.tolist() == [1, 2]
    assert report.margin == -5.0


@quick
@given(st.integers(2, 5), st.integers(1, 4), seeds, methods)
def test_theorem_1_pairwise_quadratics_are_differences_of_member_functions(m, p, seed, method):
    h = cyclic_quadratics(m, p, seed)
    f = separators_from_pairwise(h, method=method)
    assert all(member.n_components <= p + 1 for member in f)
    assert_same_quadratics(pairwise_from_separators(f), h)


@quick
@given(st.integers(2, 4), seeds, methods)
def test_theorem_1_property_a_of_all_pairs_makes_a_perfect_classifier(m, seed, method):
    """If {S_i, S_j, h_ij} has Property A for all i != j, then f_i < f_j on all of S_i."""
    h = cyclic_quadratics(m, 2, seed)
    X = 2 * np.random.default_rng(seed).normal(size=(40, 2))
    # The sets: points where the class beats all others by more than rounding.
    classes = [
        X[[all(h[i, j]([x])[0] < -1e-6 for j in range(m) if j != i) for x in X]].reshape(-1, 2) for i in range(m)
    ]
    for i, j in product(range(m), repeat=2):
        if i != j:
            assert has_property_a(classes[i], classes[j], h[i, j])
    f = separators_from_pairwise(h, method=method)
    for i, members in enumerate(classes):
        values = f.member_values(members)
        others = np.delete(values, i, axis=1)
        assert np.all(values[:, [i]] < others)


def test_lemma_3_with_one_order_of_each_pair():
    h12, h23 = make_polynomial("indefinite", 3, 1), make_polynomial("rank one", 3, 2)
    f = separators_from_pairwise({("a", "b"): h12, ("b", "c"): h23, ("c", "a"): -h12 - h23})
    assert f.classes.tolist() == ["a", "b", "c"]
    assert (f["a"] - f["b"]).isclose(h12)
    assert (f["b"] - f["c"]).isclose(h23)
    assert (f["c"] - f["a"]).isclose(-h12 - h23)


@pytest.mark.parametrize("method", ["compact", "paper"])
def test_theorem_1_in_two_hundred_variables(method):
    h = cyclic_quadratics(3, 200, 5)
    assert_same_quadratics(pairwise_from_separators(separators_from_pairwise(h, method=method)), h)


def test_theorem_1_in_mixed_units():
    unit = np.diag([1e-5, 1.0, 1e5])
    h = cyclic_quadratics(4, 3, 6)
    back = pairwise_from_separators(separators_from_pairwise({k: g.substitute(unit) for k, g in h.items()}))
    assert_same_quadratics({k: g.substitute(np.linalg.inv(unit)) for k, g in back.items()}, h)


def test_compact_values_are_no_larger_than_the_papers():
    h = cyclic_quadratics(6, 3, 8)
    X = np.random.default_rng(0).normal(size=(100, 3))
    compact, paper = (separators_from_pairwise(h, method=m).member_values(X) for m in ("compact", "paper"))
    assert compact.mean() < paper.mean()


def test_violations_of_the_cyclic_condition_are_reported():
    h = cyclic_quadratics(4, 2, 3)
    h[1, 3] = h[1, 3] + 0.5
    h[3, 1] = -h[1, 3]
    triple, violation = cyclic_violation(h)
    assert {1, 3} <= set(triple)
    assert violation > 0.01
    with pytest.raises(CyclicConditionError, match="must satisfy h_ij") as error:
        separators_from_pairwise(h)
    assert error.value.triple == triple
    assert error.value.violation == violation


def test_both_orders_must_be_opposite_and_the_diagonal_zero():
    x = QuadraticPolynomial.affine([1.0])
    assert cyclic_violation({(0, 1): x, (1, 0): -x}) == ((0, 0, 0), 0.0)
    with pytest.raises(CyclicConditionError, match="Theorem 1"):
        separators_from_pairwise({(0, 1): x, (1, 0): x})
    with pytest.raises(CyclicConditionError, match="Theorem 1"):
        separators_from_pairwise({(0, 0): x, (0, 1): x})


@quick
@given(st.integers(2, 5), st.integers(1, 3), seeds)
def test_projection_leaves_cyclic_quadratics_alone(m, p, seed):
    h = cyclic_quadratics(m, p, seed)
    assert_same_quadratics(project_to_cyclic(h), h)


@quick
@given(st.integers(3, 5), seeds, st.booleans())
def test_projection_is_the_least_squares_one(m, seed, weighted):
    """Its error is orthogonal to every cyclic direction, which characterises the minimiser."""
    rng = np.random.default_rng(seed)
    pairs = [(i, j) for i in range(m) for j in range(i + 1, m)]
    h = {pair: make_polynomial("indefinite", 2, seed + k) for k, pair in enumerate(pairs)}
    weights = {pair: float(w) for pair, w in zip(pairs, rng.uniform(0.1, 3, len(pairs)), strict=True)}
    projected = project_to_cyclic(h, weights=weights if weighted else None)
    assert cyclic_violation(projected)[1] < 1e-12
    direction = cyclic_quadratics(m, 2, seed + 99)
    inner = sum(
        (weights[pair] if weighted else 1.0)
        * np.vdot((h[pair] - projected[pair]).homogeneous(), direction[pair].homogeneous())
        for pair in pairs
    )
    assert abs(inner) < 1e-8
    separators_from_pairwise(projected)


def test_projection_fills_in_missing_pairs():
    h = cyclic_quadratics(4, 2, 11)
    tree = {pair: h[pair] for pair in [(0, 1), (1, 2), (2, 3)]}
    full = project_to_cyclic(tree)
    assert_same_quadratics(full, h)


def test_one_vs_one_models_can_be_merged():
    """Pairwise quadratics fitted on their own, with their own scales, become one classifier."""
    rng = np.random.default_rng(0)
    means = np.array([[0, 0], [4, 0], [0, 4]])
    y = rng.integers(0, 3, 300)
    X = means[y] + rng.normal(size=(300, 2))
    h = {}
    for i, j in [(0, 1), (0, 2), (1, 2)]:
        gap = means[j] - means[i]
        h[i, j] = QuadraticPolynomial.affine(gap, -float(gap @ (means[i] + means[j])) / 2) * rng.uniform(0.8, 1.2)
    merged = separators_from_pairwise(project_to_cyclic(h))
    assert np.mean(merged.predict(X) == y) > 0.93


def test_pairwise_from_members_uses_their_labels():
    f = [MemberFunction([[1.0]], [0.0]), MemberFunction([[2.0]], [1.0])]
    assert set(pairwise_from_separators(f)) == {(0, 1), (1, 0)}
    assert pairwise_from_separators({"u": f[0], "v": f[1]})["u", "v"] == f[0] - f[1]
    assert pairwise_from_separators(Separators.from_members(f))[1, 0] == f[1] - f[0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda h: separators_from_pairwise(h, method="magic"), 'must be "compact" or "paper"'),
        (lambda h: separators_from_pairwise({(0, 1): h, (1, 2): h}), r"\(0, 2\) is missing"),
        (lambda h: separators_from_pairwise({}), "between at least two classes"),
        (lambda h: cyclic_violation({(0, 1): h, (0, 2): h.substitute([[1, 0]])}), "same number of variables"),
        (lambda h: project_to_cyclic({(0, 1): h, (2, 3): h}), "must connect all classes"),
        (lambda h: project_to_cyclic({(0, 1): h}, weights={(0, 1): 0.0}), "weights of project_to_cyclic"),
        (lambda h: has_property_a([[1.0, 2.0]], [[1.0]], h), "X of property_a_report must have 1 columns"),
    ],
)
def test_errors_say_what_is_wrong(make, message):
    with pytest.raises(ValueError, match=message):
        make(QuadraticPolynomial([[1.0]]))
