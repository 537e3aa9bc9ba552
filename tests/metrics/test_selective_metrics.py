"""Risk-coverage figures by hand, by brute force, and through their identities."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.neighbors import NearestCentroid
from sklearn.svm import SVC

from multiform.metrics import (
    accuracy_at_coverage,
    augrc,
    aurc,
    coverage_at_accuracy,
    make_selective_scorer,
    neg_augrc_scorer,
    neg_aurc_scorer,
    risk_coverage_curve,
    trust_score,
)

# Five samples by falling trust: right, wrong, (right, wrong tied), right.
TRUE, PRED = [0, 0, 1, 1, 0], [0, 1, 1, 0, 0]
TRUST = [0.9, 0.8, 0.5, 0.5, 0.1]


@st.composite
def judged_samples(draw, max_size=40):
    """Right or wrong, and a trust score with many ties."""
    n = draw(st.integers(1, max_size))
    wrong = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    trust = np.array(draw(st.lists(st.integers(0, 8), min_size=n, max_size=n)), dtype=float)
    return wrong.astype(int), np.zeros(n, dtype=int), trust


def test_curve_by_hand():
    coverage, risk, thresholds = risk_coverage_curve(TRUE, PRED, TRUST)
    np.testing.assert_allclose(coverage, [1 / 5, 2 / 5, 4 / 5, 1])
    np.testing.assert_allclose(risk, [0, 1 / 2, 2 / 4, 2 / 5])
    np.testing.assert_array_equal(thresholds, [0.9, 0.8, 0.5, 0.1])


def test_areas_by_hand():
    # Every sample contributes the risk at its own threshold; the tied two contribute 2/4 each.
    assert aurc(TRUE, PRED, TRUST) == pytest.approx((0 + 1 / 2 + 2 / 4 + 2 / 4 + 2 / 5) / 5)
    # P(wrong and accepted) is 0, 0, .2, .4, .4 at the coverages 0, .2, .4, .8, 1; trapezoids between.
    assert augrc(TRUE, PRED, TRUST) == pytest.approx(0.2 * 0.1 + 0.4 * 0.3 + 0.2 * 0.4)


def test_accuracy_at_coverage_by_hand():
    assert accuracy_at_coverage(TRUE, PRED, TRUST, coverage=0.2) == pytest.approx(1)
    assert accuracy_at_coverage(TRUE, PRED, TRUST, coverage=0.4) == pytest.approx(1 / 2)
    assert accuracy_at_coverage(TRUE, PRED, TRUST, coverage=1) == pytest.approx(3 / 5)
    # Three of five: one of the tied two, at random, so half an error is expected beside the sure one.
    assert accuracy_at_coverage(TRUE, PRED, TRUST, coverage=0.6) == pytest.approx(1.5 / 3)


def test_coverage_at_accuracy_by_hand():
    assert coverage_at_accuracy(TRUE, PRED, TRUST, accuracy=0.6) == pytest.approx(1)
    assert coverage_at_accuracy(TRUE, PRED, TRUST, accuracy=0.61) == pytest.approx(0.2)
    assert coverage_at_accuracy([1], [0], [0.5], accuracy=0.5) == 0
    # 9 right of 10 is exactly 0.9, whatever binary fractions make of it.
    assert coverage_at_accuracy([1] + [0] * 9, [0] * 10, np.arange(10), accuracy=0.9) == 1


@given(judged_samples())
def test_curve_by_brute_force(samples):
    true, pred, trust = samples
    coverage, risk, thresholds = risk_coverage_curve(*samples)
    assert (np.diff(thresholds) < 0).all()
    for c, r, t in zip(coverage, risk, thresholds, strict=True):
        accepted = trust >= t
        assert c == pytest.approx(accepted.mean())
        assert r == pytest.approx((true != pred)[accepted].mean())
    assert coverage[-1] == 1


@given(judged_samples())
def test_aurc_is_the_mean_risk_at_every_sample(samples):
    true, pred, trust = samples
    risks = [(true != pred)[trust >= t].mean() for t in trust]
    assert aurc(*samples) == pytest.approx(np.mean(risks))


@given(judged_samples())
def test_augrc_identity_with_the_roc_curve(samples):
    true, pred, trust = samples
    right = true == pred
    a = right.mean()
    area = roc_auc_score(right, trust) if 0 < a < 1 else 0.5  # multiplied by 0
    assert augrc(*samples) == pytest.approx(a * (1 - a) * (1 - area) + (1 - a) ** 2 / 2)


@given(judged_samples(max_size=5))
def test_augrc_is_the_expectation_over_random_tie_breaking(samples):
    true, pred, trust = samples
    n, areas = len(trust), []
    for order in itertools.permutations(range(n)):
        broken = trust + np.array(order) / (10 * n)  # distinct, the given order kept otherwise
        areas.append(augrc(true, pred, broken))
    assert augrc(*samples) == pytest.approx(np.mean(areas))


@given(judged_samples(), st.randoms(use_true_random=False))
def test_order_of_samples_and_monotone_maps_do_not_matter(samples, random):
    order = list(range(len(samples[0])))
    random.shuffle(order)
    true, pred, trust = (v[order] for v in samples)
    for metric in (aurc, augrc):
        assert metric(*samples) == pytest.approx(metric(true, pred, np.exp(trust)))


@given(judged_samples(), st.data())
def test_weights_count_as_repetition(samples, data):
    n = len(samples[0])
    weight = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n).filter(any))
    repeated = [np.repeat(v, weight) for v in samples]
    for metric, options in [
        (aurc, {}),
        (augrc, {}),
        (accuracy_at_coverage, {"coverage": 0.37}),
        (coverage_at_accuracy, {"accuracy": 0.75}),
    ]:
        weighted = metric(*samples, sample_weight=weight, **options)
        assert weighted == pytest.approx(metric(*repeated, **options))
    for left, right in zip(
        risk_coverage_curve(*samples, sample_weight=weight), risk_coverage_curve(*repeated), strict=True
    ):
        np.testing.assert_allclose(left, right)


def test_constant_trust_is_the_error_rate():
    assert aurc(TRUE, PRED, [1] * 5) == pytest.approx(2 / 5)
    assert augrc(TRUE, PRED, [1] * 5) == pytest.approx(2 / 5 / 2)


def test_infinite_trust_is_a_score_like_any_other():
    assert aurc([0, 1], [0, 0], [np.inf, -np.inf]) == pytest.approx((0 + 1 / 2) / 2)


def test_nan_trust_is_refused():
    with pytest.raises(ValueError, match="'trust' must hold one number per sample; got NaN for 1 of 2"):
        aurc([0, 1], [0, 1], [0.5, np.nan])


@pytest.mark.parametrize("weight", [[0, 0], [-1, 2], [np.inf, 1]])
def test_bad_weights_are_refused(weight):
    with pytest.raises(ValueError, match=r"weights \('sample_weight'\) that are finite, not negative"):
        augrc([0, 1], [0, 1], [0.5, 0.6], sample_weight=weight)


def test_no_samples_are_refused():
    with pytest.raises(ValueError, match="needs at least one sample"):
        aurc([], [], [])


@pytest.mark.parametrize("coverage", [0, -0.1, 1.1])
def test_impossible_coverage_is_refused(coverage):
    with pytest.raises(ValueError, match=r"'coverage' of accuracy_at_coverage .* must be in \(0, 1\]; got"):
        accuracy_at_coverage(TRUE, PRED, TRUST, coverage=coverage)


def test_impossible_accuracy_is_refused():
    with pytest.raises(ValueError, match=r"'accuracy' of coverage_at_accuracy must be in \[0, 1\]; got 99"):
        coverage_at_accuracy(TRUE, PRED, TRUST, accuracy=99)


@pytest.fixture(scope="module")
def data():
    return make_classification(300, n_informative=6, n_classes=3, flip_y=0.1, random_state=0)


def test_trust_from_probabilities_and_margins(data):
    X, y = data
    model = LogisticRegression(max_iter=1000).fit(X, y)
    np.testing.assert_allclose(trust_score(model, X), model.predict_proba(X).max(axis=1))
    ordered = np.sort(model.decision_function(X), axis=1)
    np.testing.assert_allclose(trust_score(model, X, "decision_function"), ordered[:, -1] - ordered[:, -2])
    np.testing.assert_allclose(trust_score(model, X, lambda m, Z: Z[:, 0]), X[:, 0])
    binary = SVC().fit(X, y > 0)
    np.testing.assert_allclose(trust_score(binary, X), np.abs(binary.decision_function(X)))


def test_loyalty_score_is_preferred(data):
    class Loyal(LogisticRegression):
        def loyalty_score(self, X):
            return np.linspace(0, 1, len(X))

    X, y = data
    np.testing.assert_allclose(trust_score(Loyal(max_iter=1000).fit(X, y), X), np.linspace(0, 1, len(X)))


def test_trust_says_what_is_missing(data):
    X, y = data

    class Silent(NearestCentroid):
        predict_proba = decision_function = property()  # neither can be read

    with pytest.raises(ValueError, match="Silent cannot say how sure it is: it has none of the methods"):
        trust_score(Silent().fit(X, y), X)
    with pytest.raises(ValueError, match=r"it has none of the methods \['predict_proba'\]"):
        trust_score(RidgeClassifier().fit(X, y), X, "predict_proba")
    with pytest.raises(ValueError, match=r"score method must be 'auto', one of .* got 'entropy'"):
        trust_score(RidgeClassifier().fit(X, y), X, "entropy")
    with pytest.raises(ValueError, match=r"must give one number per sample, .* got the shape \(300, 20\)"):
        trust_score(RidgeClassifier().fit(X, y), X, lambda m, Z: Z)


def test_scorers_in_cross_validate(data):
    X, y = data
    scoring = {
        "aurc": neg_aurc_scorer,
        "augrc": neg_augrc_scorer,
        "half": make_selective_scorer(accuracy_at_coverage, coverage=0.5),
    }
    model = LogisticRegression(max_iter=1000)
    result = cross_validate(model, X, y, scoring=scoring, cv=3, return_indices=True, return_estimator=True)
    for k, (fitted, test) in enumerate(zip(result["estimator"], result["indices"]["test"], strict=True)):
        trust = fitted.predict_proba(X[test]).max(axis=1)
        assert result["test_aurc"][k] == pytest.approx(-aurc(y[test], fitted.predict(X[test]), trust))
        assert result["test_augrc"][k] == pytest.approx(-augrc(y[test], fitted.predict(X[test]), trust))
    assert (result["test_half"] > 0.5).all()


def test_scorers_choose_in_a_grid_search_and_pickle(data):
    X, y = data
    scorer = pickle.loads(pickle.dumps(neg_aurc_scorer))
    search = GridSearchCV(LogisticRegression(max_iter=1000), {"C": [1e-6, 1.0]}, scoring=scorer, cv=3)
    assert search.fit(X, y).best_params_ == {"C": 1.0}
