"""Units, sizes and offsets that nobody expects: the same answers, or a sentence; never NaN, never silence."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.naive_bayes import GaussianNB

from multiform import LoyaltyClassifier, QMSClassifier, QMSClassifierCV, TriageClassifier
from multiform.inputs import OffsetWarning, in_own_unit
from multiform.triage import TargetNotReachedWarning

N = 160
RANDOM = np.random.default_rng(0)
Y = RANDOM.integers(0, 3, N)
X = RANDOM.normal(size=(N, 3)) + 2.5 * np.eye(3)[Y]
COPIES, REAL = RANDOM.integers(1, 5, N).astype(float), RANDOM.random(N) + 0.1

ESTIMATORS = {
    "adam": lambda: QMSClassifier(random_state=0),
    "cpm": lambda: QMSClassifier(solver="cpm", random_state=0),
    "early stopping": lambda: QMSClassifier(early_stopping=True, random_state=0),
    "cv": lambda: QMSClassifierCV(noise=[0.3, 1.0], cv=2, max_iter=30, random_state=0),
    "loyalty": lambda: LoyaltyClassifier(QMSClassifier(random_state=0), cv=2, random_state=0),
    "around naive Bayes": lambda: LoyaltyClassifier(GaussianNB(), cv=2, random_state=0),
    "triage": lambda: TriageClassifier(QMSClassifier(random_state=0), target_accuracy=0.5, random_state=0),
}
OURS = [name for name in ESTIMATORS if name != "around naive Bayes"]
KINDS = {
    "float64": np.float64,
    "float32": np.float32,
    "csr of float64": lambda X: scipy.sparse.csr_matrix(X),
    "csr of float32": lambda X: scipy.sparse.csr_matrix(X.astype(np.float32)),
}


def of_kind(X, kind):
    return X.astype(KINDS[kind]) if isinstance(KINDS[kind], type) else KINDS[kind](X)


def sound(chances, least_accuracy=0.8):
    assert np.isfinite(chances).all()
    np.testing.assert_allclose(chances.sum(axis=1), 1, atol=1e-5)
    assert (chances.argmax(axis=1) == Y[: len(chances)]).mean() > least_accuracy


# ------------------------------------------------------------------------------------------------------- weights


@pytest.mark.filterwarnings("ignore::multiform.folds.RepeatedRowsWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("weight", [np.ones(N), COPIES, REAL], ids=["constant", "copies", "real"])
def test_the_unit_of_weights_does_not_matter(name, weight):
    expected = ESTIMATORS[name]().fit(X, Y, sample_weight=weight).predict_proba(X)
    ours = name in OURS  # scikit-learn's own rounds, and does not learn from weights of 1e-8
    for unit in (1 / N, 2.0**-90, 2.0**90, 1e-40, 1e39) if ours else (1 / N, 1e6):
        found = ESTIMATORS[name]().fit(X, Y, sample_weight=unit * weight).predict_proba(X)
        if ours and (np.log2(unit).is_integer() or weight is not REAL):
            np.testing.assert_array_equal(found, expected)
        else:
            np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_constant_weight_is_no_weight(name):
    """Of 1 / n, the temperature was .79 and not .21."""
    expected = ESTIMATORS[name]().fit(X, Y).predict_proba(X)
    found = ESTIMATORS[name]().fit(X, Y, sample_weight=np.full(N, 1 / N)).predict_proba(X)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_partial_fit_does_not_see_the_unit_either():
    models = [QMSClassifier(random_state=0) for _ in range(2)]
    for begin in (0, 80):
        part = slice(begin, begin + 80)
        for model, unit in zip(models, (1.0, 2.0**70), strict=True):
            model.partial_fit(X[part], Y[part], classes=np.unique(Y), sample_weight=unit * REAL[part])
    np.testing.assert_array_equal(models[0].predict_proba(X), models[1].predict_proba(X))


@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=50),
    st.floats(1e-30, 1e30),
    st.integers(-100, 100),
)
def test_whole_multiples_are_copies_in_any_unit(copies, unit, exponent):
    copies = np.array(copies, dtype=float)
    found = in_own_unit(unit * copies, "a model")
    if (copies % copies.min() == 0).all():
        np.testing.assert_array_equal(found, copies / copies.min())
    elif not (unit * copies == np.rint(unit * copies)).all():
        assert found.mean() == pytest.approx(1)
        np.testing.assert_allclose(found / found[0], copies / copies[0])
    real = copies + np.pi
    np.testing.assert_array_equal(in_own_unit(2.0**exponent * real, "a model"), in_own_unit(real, "a model"))


def test_whole_numbers_are_numbers_of_samples():
    """A table of counts says how many there were, up to a common factor."""
    np.testing.assert_array_equal(in_own_unit(np.array([49.0, 50.0]), "a model"), [49, 50])
    np.testing.assert_array_equal(in_own_unit(np.array([98.0, 100.0]), "a model"), [49, 50])
    np.testing.assert_allclose(in_own_unit(np.array([0.49, 0.50]), "a model"), [49 / 49.5, 50 / 49.5])


def test_weights_that_are_denormal_or_near_the_largest_double():
    for unit in (5e-324, 1e-310, 1.7e308 / COPIES.max()):
        np.testing.assert_array_equal(in_own_unit(unit * COPIES, "a model"), COPIES)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_weights_that_single_precision_cannot_hold_together(name):
    weight = np.where(Y == 0, 1e39, 1e-40)
    with pytest.raises(
        ValueError, match=r"sample_weight of \w+ must be 0 or within a factor of 1e\+30.* 1e-40 to 1e\+39"
    ):
        ESTIMATORS[name]().fit(X, Y, sample_weight=weight)


@pytest.mark.parametrize("solver", ["adam", "cpm"])
def test_class_weights_of_any_size(solver):
    expected = QMSClassifier(solver=solver, class_weight={0: 2.0, 1: 1.0, 2: 1.0}, random_state=0).fit(X, Y)
    for unit in (2.0**-144, 2.0**144):
        weights = {0: 2 * unit, 1: unit, 2: unit}
        model = QMSClassifier(solver=solver, class_weight=weights, random_state=0).fit(X, Y)
        np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))
    with pytest.raises(ValueError, match=r"class_weight must be 0 or within a factor of 1e\+30"):
        QMSClassifier(solver=solver, class_weight={0: 1e39, 1: 1e-40}).fit(X, Y)


# ------------------------------------------------------------------------------------------------------ features


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OURS)
def test_features_of_any_size(name, kind):
    sizes = [3.4e38 / np.abs(X).max(), 1e-42] if "32" in kind else [1e155, 1e-165, 1e250, 1e-250, 3e38]
    for size in sizes:
        given = of_kind(size * X, kind)
        model = ESTIMATORS[name]().fit(given, Y)
        sound(model.predict_proba(given))
        assert model.score(given, Y) > 0.8


@pytest.mark.parametrize("kind", ["float64", "csr of float64"])
@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("size", [1e-310, 1e300])
def test_features_whose_unit_no_double_can_tell(name, kind, size):
    with pytest.raises(
        ValueError, match=r"standard deviations between 1e-280 and 1e\+280, .*; got .* in column 0, as .* other"
    ):
        ESTIMATORS[name]().fit(of_kind(size * X, kind), Y)


def test_one_odd_column_among_others():
    mixed = X * [1.0, 1e155, 1e-165]
    model = QMSClassifier(random_state=0).fit(mixed, Y)
    expected = QMSClassifier(random_state=0).fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(mixed), expected.predict_proba(X), atol=0.02)
    assert np.isfinite(model.components_).all()
    assert np.isfinite(model.offsets_).all()


@pytest.mark.parametrize("name", ["adam", "cpm", "loyalty", "triage"])
@pytest.mark.filterwarnings("ignore", category=TargetNotReachedWarning)
@pytest.mark.parametrize(("kind", "offset"), [("float64", 1e16), ("float32", 1e7), ("csr of float64", 1e9)])
def test_an_offset_that_drowns_a_column_is_named(name, kind, offset):
    drowned = X.copy()
    drowned[:, 1] = 3 * drowned[:, 1] + offset
    with pytest.warns(OffsetWarning, match="Column 1 of X varies from .* too little .* read as constant. .* an offset"):
        model = ESTIMATORS[name]().fit(of_kind(drowned, kind), Y)
    assert np.isfinite(model.predict_proba(of_kind(drowned, kind))).all()


def test_the_rounding_of_one_number_is_no_column_and_no_news():
    rounded = np.column_stack([X, 0.3 + (np.arange(N) % 2) * 5.551115123125783e-17])
    assert len(np.unique(rounded[:, 3])) == 2
    model = QMSClassifier(random_state=0).fit(rounded, Y)
    assert (model.components_[:, :, 3] == 0).all()


@pytest.mark.parametrize("solver", ["adam", "cpm"])
def test_without_scaling_large_and_tiny_values_are_refused(solver):
    model = QMSClassifier(solver=solver, scaling="none")
    with pytest.raises(ValueError, match=r"scaling='none' .* not be larger than 1e\+15, .*; got .*e\+155 in column 0"):
        model.fit(1e155 * X, Y)
    with pytest.raises(ValueError, match=r"scaling='none' some value of X must be larger than 1e-15"):
        model.fit(1e-165 * X, Y)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OURS)
def test_values_far_outside_at_predict(name, kind):
    """Far off, chances depend on the direction alone; a row that overflows float32 or float64 has them, too."""
    model = ESTIMATORS[name]().fit(of_kind(X, kind), Y)
    directions = np.vstack([np.eye(3), -np.eye(3), [[1, -1, 1]]])
    expected = model.predict_proba(of_kind(1e9 * directions, kind))
    for size in [1e19, 1e25, 3e38] if "32" in kind else [1e19, 1e39, 1e155, 1.7e308]:
        far = of_kind(size * directions, kind)
        found = model.predict_proba(far)
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, expected, atol=1e-3)
        np.testing.assert_array_equal(model.predict(far), model.predict(of_kind(1e9 * directions, kind)))
        beside = of_kind(np.vstack([size * directions, X]), kind)  # other rows do not suffer
        np.testing.assert_allclose(model.predict_proba(beside)[7:], model.predict_proba(of_kind(X, kind)), atol=1e-5)


@pytest.mark.parametrize("solver", ["adam", "cpm"])
@pytest.mark.parametrize("noise", [1e39, 1e200])
def test_a_noise_that_nobody_means(solver, noise):
    with pytest.raises(ValueError, match="'noise' parameter of QMSClassifier must be a float in the range"):
        QMSClassifier(solver=solver, noise=noise).fit(X, Y)
    with pytest.raises(ValueError, match="noise of QMSClassifierCV must hold numbers from 0 to"):
        QMSClassifierCV(noise=[noise]).fit(X, Y)


def test_a_learning_rate_that_leaves_single_precision():
    with pytest.raises(ValueError, match=r"Training has left the range of single precision: .*learning_rate"):
        QMSClassifier(learning_rate=1e39).fit(X, Y)


# ----------------------------------------------------------------------------------------------------- properties

FEW, OF_FEW = X[:60], Y[:60]


def chances_of(X, y=OF_FEW, **named):
    model = QMSClassifier(max_iter=4, random_state=0).fit(X, y, **named)
    return model.predict_proba(X)


EXPECTED = chances_of(FEW)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0.01, 100), min_size=60, max_size=60), st.integers(-900, 900))
def test_property_weight_units(weight, exponent):
    weight = np.array(weight)
    found = chances_of(FEW, sample_weight=np.ldexp(weight, exponent))
    np.testing.assert_array_equal(found, chances_of(FEW, sample_weight=weight))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(-900, 900), min_size=3, max_size=3))
def test_property_feature_units_of_powers_of_two(exponents):
    np.testing.assert_array_equal(chances_of(np.ldexp(FEW, exponents)), EXPECTED)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(-270, 270), min_size=3, max_size=3), st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3))
def test_property_feature_units_and_offsets(exponents, offsets):
    np.testing.assert_allclose(chances_of((FEW + offsets) * 10.0 ** np.array(exponents)), EXPECTED, atol=0.01)


@settings(max_examples=25, deadline=None)
@given(
    st.one_of(
        st.sets(st.integers(-(2**60), 2**60), min_size=3, max_size=3),
        st.sets(st.text(st.characters(exclude_characters="\0"), max_size=8), min_size=3, max_size=3),
    )
)
def test_property_class_names(names):
    np.testing.assert_array_equal(chances_of(FEW, np.array(sorted(names))[OF_FEW]), EXPECTED)
