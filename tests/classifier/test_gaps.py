"""Missing values: the expectation of a member function over a Gaussian, restated here in a few lines."""

import copy

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.impute import SimpleImputer
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.utils import get_tags

from multiform import LoyaltyClassifier, QMSClassifier, QMSClassifierCV, TriageClassifier
from multiform.gaps import MOST_COLUMNS, Gaussian
from multiform.separators import Scaling, Separators

MODELS = {
    "adam": lambda **more: QMSClassifier(random_state=0, **more),
    "cpm": lambda **more: QMSClassifier(solver="cpm", n_models=2, max_iter=4, random_state=0, **more),
    "early stopping": lambda **more: QMSClassifier(early_stopping=True, random_state=0, **more),
    "cv": lambda **more: QMSClassifierCV((0.3, 1.0), cv=3, max_iter=30, random_state=0, **more),
}


def with_gaps(X, share, seed=0):
    gap = np.random.default_rng(seed).random(X.shape) < share
    return np.where(gap, np.nan, X)


def given_the_known(x, mean, covariance):
    """The textbook's conditional mean and covariance of a Gaussian row, NaN where an entry is missing."""
    M, O = np.isnan(x), ~np.isnan(x)  # noqa: E741
    K = covariance[np.ix_(M, O)] @ np.linalg.inv(covariance[np.ix_(O, O)])
    mu, S = x.copy(), np.zeros_like(covariance)
    mu[M] = mean[M] + K @ (x[O] - mean[O])
    S[np.ix_(M, M)] = covariance[np.ix_(M, M)] - K @ covariance[np.ix_(O, M)]
    return mu, S


def covariance_of(gaussian):
    correlation = np.eye(len(gaussian.mean)) if gaussian.correlation is None else gaussian.correlation
    return correlation * np.outer(gaussian.deviation, gaussian.deviation)


# ----------------------------------------------------------------------------------------------------- the formula


@pytest.mark.parametrize("n_models", [1, 2])
def test_member_values_are_the_expectation(n_models):
    X, y = load_wine(return_X_y=True)
    X = with_gaps(X, 0.3)
    model = QMSClassifier(n_models=n_models, random_state=0).fit(X, y)
    mean, covariance = model._gaussian.mean, covariance_of(model._gaussian)
    for x, found in zip(X[:20], model.member_values(X[:20]), strict=True):
        mu, S = given_the_known(x, mean, covariance)
        expected = [
            ((A @ mu - b) ** 2).sum() + np.trace(A @ S @ A.T)
            for A, b in zip(model.components_, model.offsets_, strict=True)
        ]
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_it_is_the_mean_over_drawn_values():
    """Monte Carlo, which knows nothing of traces."""
    X, y = load_wine(return_X_y=True)
    model = QMSClassifier(random_state=0).fit(X, y)
    x = with_gaps(X[:1], 0.5, seed=1)[0]
    mu, S = given_the_known(x, model._gaussian.mean, covariance_of(model._gaussian))
    drawn = np.random.default_rng(0).multivariate_normal(mu, S, 20_000, method="eigh")
    np.testing.assert_allclose(model.member_values(x[None])[0], model.member_values(drawn).mean(axis=0), rtol=0.03)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_any_pattern_of_gaps(seed):
    """From no entry known to all known, columns that never vary, separators that read some of the columns."""
    random = np.random.default_rng(seed)
    n, p = 40, int(random.integers(2, 9))
    X = random.normal(size=(n, p)) @ random.normal(size=(p, p)) * 10.0 ** random.integers(-3, 4, p)
    X[:, 0] = 7.0
    X = np.where(random.random((n, p)) < random.random(n)[:, None], np.nan, X)
    X[0] = np.nan
    gaussian = Gaussian.learnt(X)
    filled = gaussian.filled(X)
    columns = np.flatnonzero(random.random(p) < 0.7).astype(np.int32)
    columns = columns if len(columns) else np.arange(p, dtype=np.int32)
    scaling = Scaling(random.normal(size=p), 10.0 ** random.integers(-3, 4, p))
    coefficients = random.normal(size=(6, 3, len(columns) + 1)).astype(np.float32)
    separators = Separators(coefficients, scaling, 3, columns=columns)
    found = filled.added(np.zeros((n, 2, 3)), separators).reshape(n, 6)
    deviation = np.where(gaussian.deviation > 0, gaussian.deviation, 1)
    for row in range(n):
        scaled = (X[row] - gaussian.mean) / deviation
        mu, S = given_the_known(scaled, np.zeros(p), gaussian.correlation)
        np.testing.assert_allclose(filled.rows[row], gaussian.mean + mu * gaussian.deviation, rtol=1e-6, atol=1e-9)
        S = S * np.outer(gaussian.deviation, gaussian.deviation) / np.outer(scaling.scale, scaling.scale)
        S = S[np.ix_(columns, columns)]
        expected = [np.trace(A @ S @ A.T) for A in coefficients[:, :, :-1].astype(np.float64)]
        np.testing.assert_allclose(found[row], expected, rtol=1e-3, atol=1e-6 * max(1.0, np.abs(expected).max()))


def test_correlations_are_found_in_spite_of_gaps():
    random = np.random.default_rng(0)
    truth = np.array([[1.0, 0.8, 0.5], [0.8, 1.0, 0.3], [0.5, 0.3, 1.0]])
    X = random.multivariate_normal([1.0, -2.0, 30.0], truth, 2_000) * [1.0, 10.0, 0.1]
    gaussian = Gaussian.learnt(with_gaps(X, 0.3))
    np.testing.assert_allclose(gaussian.correlation, truth, atol=0.06)
    np.testing.assert_allclose(gaussian.mean, [1.0, -20.0, 3.0], atol=0.4)
    whole = Gaussian.learnt(X, complete=True)
    np.testing.assert_allclose(whole.correlation, np.corrcoef(X[::4].T), atol=0.05)


def test_weights_count_as_copies():
    random = np.random.default_rng(0)
    X, copies = with_gaps(random.normal(size=(60, 4)) @ random.normal(size=(4, 4)), 0.3), random.integers(1, 4, 60)
    weighted, repeated = Gaussian.learnt(X, copies.astype(float)), Gaussian.learnt(np.repeat(X, copies, axis=0))
    np.testing.assert_allclose(weighted.mean, repeated.mean, atol=0.1)
    np.testing.assert_allclose(weighted.deviation, repeated.deviation)


def test_in_wide_data_columns_are_on_their_own():
    random = np.random.default_rng(0)
    X = with_gaps(random.normal(3, 2, size=(100, MOST_COLUMNS + 1)), 0.2)
    y = np.arange(100) % 2
    model = QMSClassifier(calibrate=False, random_state=0).fit(X, y)
    assert model._gaussian.correlation is None
    gap = np.isnan(X[0])
    filled = np.where(gap, np.nanmean(X, axis=0), X[0])
    variance = np.nanvar(X, axis=0) * gap
    expected = [
        ((A @ filled - b) ** 2).sum() + (A**2 @ variance).sum()
        for A, b in zip(model.components_, model.offsets_, strict=True)
    ]
    np.testing.assert_allclose(model.member_values(X[:1])[0], expected, rtol=1e-4)


# ------------------------------------------------------------------------------------------------------ classifiers


@pytest.mark.parametrize("name", MODELS)
def test_rows_with_gaps_are_answered(name):
    """Whatever training had; complete rows as ever, and all chances are chances."""
    X, y = load_wine(return_X_y=True)
    gaps = with_gaps(X, 0.2)
    for rows in (X, gaps, gaps.astype(np.float32)):
        model = MODELS[name]().fit(rows, y)
        for asked, least in ((X, 0.93), (gaps, 0.9), (gaps.astype(np.float32), 0.9)):
            chances = model.predict_proba(asked)
            np.testing.assert_allclose(chances.sum(axis=1), 1, atol=1e-6)
            assert (chances.argmax(axis=1) == y).mean() > least
        nothing = model.predict_proba(np.full((1, X.shape[1]), np.nan))
        assert np.isfinite(nothing).all()
        assert nothing.max() < 0.9  # nothing is known, so nothing is sure


@pytest.mark.parametrize("name", MODELS)
def test_complete_data_do_not_see_it(name):
    X, y = load_wine(return_X_y=True)
    found, before = (MODELS[name](missing=missing).fit(X, y) for missing in ("expectation", "refuse"))
    np.testing.assert_array_equal(found.predict_proba(X), before.predict_proba(X))
    # a row that has gaps changes the answer to no other
    both = found.predict_proba(np.vstack([X[:5], np.full((1, X.shape[1]), np.nan)]))
    np.testing.assert_allclose(both[:5], found.predict_proba(X[:5]), rtol=1e-5)


def test_validation_samples_may_have_gaps():
    X, y = load_wine(return_X_y=True)
    X = with_gaps(X, 0.2)
    model = QMSClassifier(early_stopping=True, random_state=0).fit(X[::2], y[::2], X_val=X[1::2], y_val=y[1::2])
    assert model.best_validation_score_ > 0.85


def test_better_than_median_plus_indicator():
    """Two sets of scikit-learn; `python -m benchmarks missing` has the table."""
    ratios = []
    for load in (load_wine, load_breast_cancer):
        X, y = load(return_X_y=True)
        X = with_gaps(X[::2], 0.3)
        y = y[::2]
        losses = {}
        ours = QMSClassifierCV((0.3, 1.0), random_state=0)
        filled = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), ours)
        for model in (ours, filled):
            for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(X, y):
                chances = copy.deepcopy(model).fit(X[train], y[train]).predict_proba(X[test])
                losses.setdefault(model is ours, []).append(log_loss(y[test], chances))
        ratios.append(np.mean(losses[True]) / np.mean(losses[False]))
    assert np.exp(np.mean(np.log(ratios))) < 0.95


def test_gaps_that_tell_the_class_are_told():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(300, 3)), np.arange(300) % 2
    X[(y == 1) & (random.random(300) < 0.8), 1] = np.nan
    model = QMSClassifierCV((0.3, 1.0), cv=3, random_state=0).fit(X, y)
    assert model.oof_accuracy_ > 0.85
    assert model.best_encoding_ in ("plain + gaps", "enriched + gaps")
    assert set(model.cv_results_["encoding"]) == {"plain", "enriched", "plain + gaps", "enriched + gaps"}


@pytest.mark.parametrize("missing", ["first", "last"])
def test_a_column_of_nothing_but_gaps(missing):
    X, y = load_wine(return_X_y=True)
    X[:, 0 if missing == "first" else -1] = np.nan
    for make in MODELS.values():
        assert make().fit(X, y).score(X, y) > 0.9


# ----------------------------------------------------------------------------------------------------- what is refused


def test_who_takes_gaps_is_said_by_who_does_not():
    X, y = load_wine(return_X_y=True)
    gaps, match = with_gaps(X, 0.1), "which LoyaltyClassifier does not take; impute .* or use QMSClassifierCV"
    with pytest.raises(ValueError, match=match):
        LoyaltyClassifier().fit(gaps, y)
    model = LoyaltyClassifier(QMSClassifier(max_iter=2, noise=1.0), cv=2, random_state=0).fit(X, y)
    for ask in (model.predict, model.predict_proba, model.predict_loyalty, model.loyalty_score):
        with pytest.raises(ValueError, match=match):
            ask(gaps)


def test_a_transformer_of_others_reads_no_gaps():
    X, y = load_wine(return_X_y=True)
    model = QMSClassifierCV((1.0,), encodings=[PolynomialFeatures(1)], cv=2, max_iter=2, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="PolynomialFeatures cannot be used with missing values in X"):
        model.predict(with_gaps(X, 0.1))


def test_what_is_refused():
    X, y = load_wine(return_X_y=True)
    gaps = with_gaps(X, 0.1)
    sparse = scipy.sparse.csr_matrix(gaps)
    for make in (QMSClassifier, QMSClassifierCV):
        with pytest.raises(ValueError, match=f"X contains NaN, .*, which {make.__name__} does not .* set missing="):
            make(missing="refuse").fit(gaps, y)
        with pytest.raises(ValueError, match=f"Sparse X of {make.__name__} must not hold NaN"):
            make().fit(sparse, y)
        with pytest.raises(ValueError, match="Input X contains infinity"):
            make().fit(np.where(np.isnan(gaps), np.inf, X), y)
        with pytest.raises(ValueError, match="Input X contains infinity"):
            make(max_iter=2).fit(gaps, y).predict([[np.inf] + [np.nan] * 12])
        with pytest.raises(ValueError, match="Sparse X of"):
            make(max_iter=2).fit(X, y).predict(sparse)
        assert get_tags(make()).input_tags.allow_nan
        assert not get_tags(make(missing="refuse")).input_tags.allow_nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        QMSClassifier().partial_fit(gaps, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="StandardScaler cannot be used with missing values in X"):
        QMSClassifierCV(encodings=[StandardScaler()]).fit(gaps, y)


@pytest.mark.parametrize("why", ["wide", "stream", "separators"])
def test_a_model_that_has_learnt_nothing_of_gaps_says_so(why):
    X, y = load_wine(return_X_y=True)
    if why == "wide":
        X = np.hstack([X] * 16)
        model = QMSClassifier(max_iter=2, random_state=0).fit(X, y)
    elif why == "stream":
        model = QMSClassifier(random_state=0).partial_fit(X, y, classes=[0, 1, 2])
    else:
        model = QMSClassifier.from_separators(np.ones((2, 1, 13)), np.ones((2, 1)), [0, 1])
    with pytest.raises(ValueError, match="missing values of which this QMSClassifier has learnt nothing"):
        model.predict(with_gaps(X, 0.5))


@pytest.mark.filterwarnings("ignore::multiform.folds.RepeatedRowsWarning")
def test_others_around_it():
    """A loyalty classifier's models share one matrix without gaps, and it says so; triage hands rows on."""
    X, y = load_breast_cancer(return_X_y=True)
    gaps = with_gaps(X, 0.1)
    assert not get_tags(LoyaltyClassifier()).input_tags.allow_nan
    assert not get_tags(LoyaltyClassifier(QMSClassifier())).input_tags.allow_nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        LoyaltyClassifier(random_state=0).fit(gaps, y)
    fitted = LoyaltyClassifier(QMSClassifier(noise=0.3), cv=2, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        fitted.predict(gaps)
    triage = TriageClassifier(QMSClassifier(random_state=0), target_accuracy=0.9, random_state=0)
    assert get_tags(triage).input_tags.allow_nan
    triage.fit(gaps[::2], y[::2])
    accepted = ~triage.defer(gaps[1::2])
    assert (triage.predict(gaps[1::2])[accepted] == y[1::2][accepted]).mean() > 0.88
