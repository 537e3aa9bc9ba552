"""Certified radii and counterfactuals: never a nearer change, and the point found changes the decision."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from multiform.geometry import MemberFunction, Separators, certified_radius, counterfactuals

from .strategies import quick, seeds

SHAPES = ("random", "shared components", "one row", "absent features", "multiples", "linear")


def make_separators(shape: str, m: int, p: int, seed: int) -> Separators:
    rng = np.random.default_rng(seed)
    q = 1 if shape == "one row" else int(rng.integers(1, 5))
    components, offsets = rng.normal(size=(m, q, p)), rng.normal(size=(m, q))
    if shape in ("shared components", "linear"):
        components = np.repeat(components[:1], m, axis=0)
    if shape == "absent features":
        components[:, :, rng.random(p) < 0.5] = 0.0
    if shape == "multiples":
        # f_k = c_k f_0 with c_k >= 1: the decision is class 0 everywhere and never changes.
        factor = np.concatenate([[1.0], rng.uniform(1.5, 3.0, m - 1)])
        components = components[:1] * factor[:, None, None]
        offsets = offsets[:1] * factor[:, None]
    return Separators(components, offsets, [f"class {k}" for k in range(m)])


def decide(separators: Separators, X: np.ndarray) -> np.ndarray:
    """The classifier of the paper's (1.1), restated."""
    values = [
        [np.sum((A @ x - b) ** 2) for A, b in zip(separators.components, separators.offsets, strict=True)] for x in X
    ]
    return separators.classes[np.argmin(values, axis=1)]


@quick
@given(st.sampled_from(SHAPES), st.integers(2, 4), st.integers(1, 4), seeds)
def test_no_change_within_the_radius_and_a_change_just_behind_it(shape, m, p, seed):
    separators = make_separators(shape, m, p, seed)
    rng = np.random.default_rng(seed)
    X = 2 * rng.normal(size=(6, p))
    change = counterfactuals(separators, X)
    radii = certified_radius(separators, X)
    np.testing.assert_array_equal(radii, change.distances)
    assert np.array_equal(change.from_classes, decide(separators, X))
    finite = np.isfinite(radii)
    np.testing.assert_allclose(
        np.linalg.norm(change.points[finite] - X[finite], axis=1), radii[finite], rtol=1e-10, atol=1e-12
    )
    # Dense sampling of the open ball never finds another decision.
    rays = rng.normal(size=(300, p))
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    lengths = rng.uniform(0, 1, size=(300, 1)) ** (1 / 6)
    for x, radius, own in zip(X, radii, change.from_classes, strict=True):
        ball = x + (1 - 1e-9) * min(radius, 50.0) * lengths * rays
        assert np.all(separators.predict(ball) == own)
    # Pushed by a relative 1e-6, the counterfactual has another decision.
    pushed = change.pushed(1e-6)[finite]
    values = separators.member_values(pushed)
    own_index = np.array([separators.index(label) for label in change.from_classes[finite]], dtype=int)
    own_values = values[np.arange(len(values)), own_index]
    # Behind the boundary a rival is smaller, by more than rounding unless the push itself is below rounding.
    assert np.all((values.min(axis=1) < own_values) | (radii[finite] < 1e-8))
    assert np.isnan(change.points[~finite]).all()
    assert np.array_equal(change.to_classes[~finite], change.from_classes[~finite])
    assert np.all(change.to_classes[finite] != change.from_classes[finite])


@quick
@given(st.sampled_from(SHAPES[:4]), st.integers(2, 3), st.integers(2, 4), seeds)
def test_units_are_a_change_of_variables(shape, m, p, seed):
    separators = make_separators(shape, m, p, seed)
    rng = np.random.default_rng(seed)
    X, unit = rng.normal(size=(5, p)), 10.0 ** rng.uniform(-3, 3, size=p)
    in_units = Separators(separators.components * unit, separators.offsets)
    np.testing.assert_allclose(
        certified_radius(separators, X, scale=unit), certified_radius(in_units, X / unit), rtol=1e-6
    )
    change = counterfactuals(separators, X, scale=unit)
    finite = np.isfinite(change.distances)
    moved = ((change.points - X) / unit)[finite]
    np.testing.assert_allclose(np.linalg.norm(moved, axis=1), change.distances[finite], rtol=1e-9)


@quick
@given(st.sampled_from(SHAPES), st.integers(2, 3), st.integers(2, 5), seeds)
def test_restricted_features_are_a_substitution(shape, m, p, seed):
    """With the other features fixed, each f_k is a member function of the free ones: solve that instead."""
    separators = make_separators(shape, m, p, seed)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(4, p))
    free = np.sort(rng.choice(p, size=int(rng.integers(1, p)), replace=False))
    fixed = np.setdiff1d(np.arange(p), free)
    change = counterfactuals(separators, X, features=free)
    for k, x in enumerate(X):
        section = [
            MemberFunction(A[:, free], b - A[:, fixed] @ x[fixed])
            for A, b in zip(separators.components, separators.offsets, strict=True)
        ]
        (expected,) = certified_radius(section, [x[free]])
        assert change.distances[k] == pytest.approx(expected, rel=1e-8)
        if np.isfinite(expected):
            np.testing.assert_array_equal(change.points[k, fixed], x[fixed])


@pytest.mark.parametrize("seed", range(8))
def test_agrees_with_an_independent_solver(seed):
    """SLSQP over the region of each rival, from many starts: never nearer, and as near at best."""
    separators = make_separators("random", 3, 3, seed)
    rng = np.random.default_rng(seed + 50)
    x = rng.normal(size=3)
    (radius,) = certified_radius(separators, [x])
    own = separators.predict([x])[0]
    best = np.inf
    for rival in (label for label in separators.classes if label != own):
        h = separators[rival] - separators[own]
        for start in x + rng.normal(size=(8, 3)) * rng.choice([0.3, 1.0, 3.0], size=(8, 1)):
            found = minimize(
                lambda z: float((z - x) @ (z - x)),
                start,
                method="SLSQP",
                constraints=[{"type": "ineq", "fun": lambda z, h=h: -h([z])[0]}],
                options={"maxiter": 300, "ftol": 1e-14},
            )
            if h([found.x])[0] <= 1e-8:
                best = min(best, float(np.sqrt(found.fun)))
    assert radius <= best * (1 + 1e-6)
    assert radius == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("width", [1e-3, 1e-6, 1e-9, 1e-12])
def test_thin_regions_are_found_and_not_overshot(width):
    """The rival wins only within `width` of x = 3; a push of 1e-6 could go through and out again."""
    thin = Separators.from_members(
        [MemberFunction([[0.0]], [width]), MemberFunction([[1.0]], [3.0])], ["outside", "inside"]
    )
    change = counterfactuals(thin, [[0.0], [3.5]])
    np.testing.assert_allclose(change.distances, [3.0 - width, 0.5 - width], rtol=1e-14)
    assert thin.predict(change.pushed(1e-6)).tolist() == ["inside", "inside"]


def test_linear_boundaries_have_the_textbook_distance():
    """Nearest centroid in two classes: the distance to the bisecting plane."""
    rng = np.random.default_rng(0)
    a, b, X = rng.normal(size=5), rng.normal(size=5), rng.normal(size=(50, 5))
    separators = Separators(np.stack([np.eye(5)] * 2), [a, b])
    normal = (b - a) / np.linalg.norm(b - a)
    expected = np.abs((X - (a + b) / 2) @ normal)
    np.testing.assert_allclose(certified_radius(separators, X), expected, rtol=1e-12)


def test_many_features_few_rows():
    """p = 500, q = 3: the work happens in the row space, and the answer is the one in the full space."""
    separators = make_separators("random", 3, 500, 1)
    X = np.random.default_rng(1).normal(size=(30, 500))
    change = counterfactuals(separators, X)
    h_values = separators.member_values(change.points)
    ordered = np.sort(h_values, axis=1)
    np.testing.assert_allclose(ordered[:, 0], ordered[:, 1], rtol=1e-9)
    assert np.all(separators.predict(change.pushed()) != change.from_classes)


def test_batches_do_not_matter():
    separators = make_separators("random", 3, 2, 5)
    X = np.random.default_rng(2).normal(size=(9000, 2))
    radii = certified_radius(separators, X)
    np.testing.assert_allclose(radii[8990:], certified_radius(separators, X[8990:]), rtol=1e-12)
    assert certified_radius(separators, np.empty((0, 2))).shape == (0,)
    assert counterfactuals(separators, np.empty((0, 2))).points.shape == (0, 2)


def test_features_by_name_mask_and_index_are_the_same():
    base = make_separators("random", 2, 3, 3)
    separators = Separators(base.components, base.offsets, None, ["age", "chol", "bp"])
    X = np.random.default_rng(3).normal(size=(4, 3))
    expected = certified_radius(separators, X, features=[0, 2])
    for features in (["bp", "age"], [True, False, True], np.array([0, -1]), ("age", 2, 2)):
        np.testing.assert_array_equal(certified_radius(separators, X, features=features), expected)
    assert np.all(expected >= certified_radius(separators, X))


def test_a_tie_has_radius_zero():
    separators = Separators(np.stack([np.eye(1)] * 2), [[0.0], [2.0]])
    assert certified_radius(separators, [[1.0]]).tolist() == [0.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": [1.0]}, "scale of certified_radius must be 2 numbers > 0"),
        ({"scale": [1.0, 0.0]}, "is left out of `features` instead"),
        ({"scale": [1.0, np.nan]}, "scale of certified_radius must be finite"),
        ({"features": []}, "must hold at least one feature"),
        ({"features": ["age"]}, "the model has no feature names"),
    ],
)
def test_errors_say_what_is_wrong(options, message):
    separators = make_separators("random", 2, 2, 0)
    with pytest.raises(ValueError, match=message):
        certified_radius(separators, [[0.0, 1.0]], **options)


def test_push_must_be_positive():
    change = counterfactuals(make_separators("random", 2, 2, 0), [[0.0, 1.0]])
    with pytest.raises(ValueError, match=r"relative of Counterfactuals\.pushed must be a number > 0"):
        change.pushed(0.0)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_thousands_of_decisions(shape):
    """A sweep over shapes and sizes: a change behind every finite radius, none on the sphere just within."""
    rng = np.random.default_rng(12)
    for seed in range(60):
        m, p = int(rng.integers(2, 7)), int(rng.integers(1, 12))
        separators = make_separators(shape, m, p, seed)
        X = 3 * rng.normal(size=(100, p))
        change = counterfactuals(separators, X)
        finite = np.isfinite(change.distances) & (change.distances > 1e-7)
        assert np.all(separators.predict(change.pushed()[finite]) != change.from_classes[finite])
        rays = rng.normal(size=(100, 50, p))
        rays /= np.linalg.norm(rays, axis=2, keepdims=True)
        sphere = X[:, None] + (1 - 1e-9) * np.minimum(change.distances, 100.0)[:, None, None] * rays
        same = separators.predict(sphere.reshape(-1, p)).reshape(100, 50) == change.from_classes[:, None]
        assert same.all()
