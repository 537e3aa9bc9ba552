"""TriageClassifier: what it accepts, whom it asks, what it refuses and what it says."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_blobs, make_classification
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from multiform.triage import Certificate, TargetNotReachedWarning, TriageClassifier, samples_needed
from multiform.triage._certify import Claim, certify


@pytest.fixture(scope="module")
def data():
    """3000 samples of 3 overlapping classes, and 1500 more."""
    X, y = make_blobs(4500, centers=3, cluster_std=2.2, random_state=3)
    return X[:3000], y[:3000], X[3000:], y[3000:]


@pytest.fixture(scope="module")
def fitted(data):
    X, y, *_ = data
    return TriageClassifier(LogisticRegression(), target_accuracy=0.97, random_state=0).fit(X, y)


def test_accepted_answers_meet_the_target(data, fitted):
    _, _, X_new, y_new = data
    deferred = fitted.defer(X_new)
    assert deferred.dtype == bool
    assert 0 < deferred.mean() < 1
    right = fitted.predict(X_new) == y_new
    assert right[~deferred].mean() >= 0.97
    assert right.mean() < 0.97  # the target is not met by accident
    assert fitted.guarantee_ == "exact"
    assert fitted.attained_
    assert fitted.n_calibration_ == 750


def test_acceptance_is_a_threshold_on_the_trust(data, fitted):
    _, _, X_new, _ = data
    trust = fitted.estimator_.predict_proba(X_new).max(axis=1)
    np.testing.assert_array_equal(fitted.trust_score(X_new), trust)
    assert fitted.thresholds_.shape == (3,)
    assert len(set(fitted.thresholds_)) == 1
    np.testing.assert_array_equal(fitted.defer(X_new), trust < fitted.thresholds_[0])


def test_certificate_is_the_evidence(fitted):
    [certificate] = fitted.certificates_
    assert certificate.n_tested == fitted.n_calibration_  # nothing is spent on anything else
    assert certificate.accuracy == certificate.n_correct / certificate.n_accepted
    errors = certificate.n_accepted - certificate.n_correct
    assert binom.cdf(errors, certificate.n_accepted, 0.03) <= certificate.level <= 0.05 + 1e-12
    assert certificate.accuracy_bound >= 0.97
    expected = beta.ppf(certificate.level, certificate.n_correct, errors + 1)
    assert certificate.accuracy_bound == pytest.approx(expected)


def test_same_seed_same_thresholds(data, fitted):
    X, y, *_ = data
    again = clone(fitted).fit(X, y)
    np.testing.assert_array_equal(again.thresholds_, fitted.thresholds_)


def test_per_class_thresholds(data):
    X, y, X_new, y_new = data
    triage = TriageClassifier(
        LogisticRegression(), target_accuracy=0.95, per_class=True, calibration_fraction=0.5, random_state=0
    ).fit(X, y)
    assert len(triage.certificates_) == 3
    answers, accepted = triage.predict(X_new), ~triage.defer(X_new)
    trust = triage.trust_score(X_new)
    np.testing.assert_array_equal(accepted, trust >= triage.thresholds_[answers])
    for c in np.unique(answers[accepted]):
        assert (y_new == c)[accepted & (answers == c)].mean() >= 0.95


def test_frozen_estimator_calibrates_on_everything(data):
    X, y, X_new, _ = data
    model = SVC().fit(X[:1000], y[:1000])
    triage = TriageClassifier(FrozenEstimator(model), target_accuracy=0.95, random_state=0)
    triage.fit(X[1000:], y[1000:])
    assert triage.n_calibration_ == 2000
    np.testing.assert_array_equal(triage.predict(X_new), model.predict(X_new))
    # SVC has no probabilities: the margin of its decision function decides.
    ordered = np.sort(model.decision_function(X_new), axis=1)
    np.testing.assert_allclose(triage.trust_score(X_new), ordered[:, -1] - ordered[:, -2])
    assert not hasattr(triage, "predict_proba")


def test_own_calibration_set(data):
    X, y, X_new, y_new = data
    triage = TriageClassifier(LogisticRegression(), target_accuracy=0.95, random_state=0)
    triage.fit(X, y, X_cal=X_new, y_cal=y_new)
    np.testing.assert_array_equal(triage.estimator_.coef_, LogisticRegression().fit(X, y).coef_)
    assert triage.n_calibration_ == 1500
    assert triage.guarantee_ == "exact"


def test_cross_fitting_uses_all_samples_and_says_so(data):
    X, y, *_ = data
    triage = TriageClassifier(LogisticRegression(), target_accuracy=0.95, cv=4, random_state=0).fit(X, y)
    assert triage.guarantee_ == "approximate"
    assert triage.n_calibration_ == len(y)
    np.testing.assert_array_equal(triage.estimator_.coef_, LogisticRegression().fit(X, y).coef_)
    assert "promised (approximate)" in str(triage.report(X, y))


def test_cross_fitting_judges_each_sample_by_a_model_that_has_not_seen_it(data):
    """A nearest neighbour knows its own training samples by heart: in-sample, it would never err."""
    X, y, X_new, _ = data
    scrambled = np.random.default_rng(0).permutation(y)
    model = KNeighborsClassifier(1)
    assert model.fit(X, scrambled).score(X, scrambled) == 1
    with pytest.warns(TargetNotReachedWarning, match="everything is deferred"):
        triage = TriageClassifier(model, target_accuracy=0.9, cv=3, random_state=0).fit(X, scrambled)
    assert triage.defer(X_new).all()


def test_fallback_answers_what_is_deferred(data):
    X, y, X_new, _ = data
    triage = TriageClassifier(
        LogisticRegression(), target_accuracy=0.97, fallback=KNeighborsClassifier(), random_state=0
    ).fit(X, y)
    deferred = triage.defer(X_new)
    second = KNeighborsClassifier().fit(X, y)
    np.testing.assert_array_equal(triage.predict(X_new)[deferred], second.predict(X_new[deferred]))
    np.testing.assert_array_equal(triage.predict(X_new)[~deferred], triage.estimator_.predict(X_new[~deferred]))
    np.testing.assert_array_equal(triage.answered_by(X_new) == "fallback", deferred)
    np.testing.assert_allclose(triage.predict_proba(X_new).sum(axis=1), 1)
    np.testing.assert_allclose(triage.predict_proba(X_new)[deferred], second.predict_proba(X_new[deferred]))


def test_report_counts_who_answered(data):
    X, y, X_new, y_new = data
    triage = TriageClassifier(
        LogisticRegression(), target_accuracy=0.97, fallback=KNeighborsClassifier(), random_state=0
    ).fit(X, y)
    report = triage.report(X_new, y_new)
    deferred, right = triage.defer(X_new), triage.predict(X_new) == y_new
    assert report.coverage == pytest.approx((~deferred).mean())
    assert report.accepted_accuracy == pytest.approx(right[~deferred].mean())
    assert report.accuracy == pytest.approx(right.mean())
    assert report.rows["fallback"] == {
        "count": deferred.sum(),
        "share": pytest.approx(deferred.mean()),
        "accuracy": pytest.approx(right[deferred].mean()),
    }
    lines = str(report).splitlines()
    assert lines[1].split() == [
        "estimator",
        str((~deferred).sum()),
        f"{report.coverage:.2%}",
        f"{report.accepted_accuracy:.2%}",
    ]
    assert lines[-1] == ("promised (exact): accuracy of accepted answers at least 97.00%, with confidence 95.00%")


def test_report_without_fallback_has_no_accuracy_for_nobody(data, fitted):
    _, _, X_new, y_new = data
    report = fitted.report(X_new, y_new)
    assert list(report.rows) == ["estimator", "nobody"]
    assert np.isnan(report.rows["nobody"]["accuracy"])
    assert report.accuracy == report.accepted_accuracy
    assert set(fitted.answered_by(X_new)) == {"estimator", "nobody"}


@pytest.mark.parametrize(
    ("names", "label", "kind"), [([0, 1, 2], -1, "i"), ([0, 1, 2], "ask", "O"), (["a", "b", "c"], "ask", "U")]
)
def test_defer_label(data, names, label, kind):
    X, y, X_new, _ = data
    y = np.array(names)[y]
    triage = TriageClassifier(LogisticRegression(), target_accuracy=0.97, defer_label=label, random_state=0).fit(X, y)
    answers, deferred = triage.predict(X_new), triage.defer(X_new)
    assert answers.dtype.kind == kind
    assert all(answer == label for answer in answers[deferred])
    assert all(answer in names for answer in answers[~deferred])


def test_unattainable_target_defers_everything_and_says_so(data):
    X, y, X_new, y_new = data
    y = np.random.default_rng(0).permutation(y)
    with pytest.warns(TargetNotReachedWarning, match=r"everything is deferred.*at least 299 accepted samples"):
        triage = TriageClassifier(LogisticRegression(), random_state=0).fit(X, y)
    assert not triage.attained_
    assert np.isinf(triage.thresholds_).all()
    assert triage.defer(X_new).all()
    report = triage.report(X_new, y_new)
    assert report.coverage == 0
    assert np.isnan(report.accepted_accuracy)
    assert np.isnan(report.accuracy)
    assert "-" in str(report)


def test_infinite_trust_is_not_accepted_when_nothing_is(data):
    X, y, X_new, _ = data
    y = np.random.default_rng(0).permutation(y)
    triage = TriageClassifier(LogisticRegression(), score_method=lambda m, Z: np.full(len(Z), np.inf))
    with pytest.warns(TargetNotReachedWarning, match="everything is deferred"):
        triage.fit(X, y)
    assert triage.defer(X_new).all()


def test_missing_trust_is_never_accepted():
    easy = make_blobs(4000, centers=[[-20, 0], [20, 0]], random_state=0)
    triage = TriageClassifier(
        LogisticRegression(), score_method=lambda m, Z: np.where(Z[:, 1] > 0, np.nan, 1.0), random_state=0
    ).fit(*easy)
    Z = np.array([[20.0, 1.0], [20.0, -1.0]])
    np.testing.assert_array_equal(triage.defer(Z), [True, False])


def test_too_little_calibration_data_is_said_before_fitting(data):
    X, y, *_ = data

    class Expensive(LogisticRegression):
        def fit(self, X, y):
            raise AssertionError("fitted in vain")

    triage = TriageClassifier(Expensive())
    message = r"needs at least 299 calibration samples .* it has 100 \(n_samples=400\)"
    with pytest.raises(ValueError, match=message):
        triage.fit(X[:400], y[:400])
    assert not hasattr(triage, "estimator_")


@pytest.mark.parametrize(("target", "level"), [(0.99, 0.05), (0.9, 0.1), (0.5, 0.5), (0.999, 0.01)])
def test_samples_needed_is_the_least_number(target, level):
    n = samples_needed(target, level)
    assert binom.cdf(0, n, 1 - target) <= level * (1 + 1e-9)
    assert n == 1 or binom.cdf(0, n - 1, 1 - target) > level


def test_rare_classes_are_named_in_the_warning():
    X, y = make_blobs([1500, 1500, 12], centers=[[-9, 0], [9, 0], [0, 30]], random_state=0)
    with pytest.warns(TargetNotReachedWarning, match=r"for 1 of 3 predicted classes \(2\)"):
        triage = TriageClassifier(LogisticRegression(), target_accuracy=0.95, per_class=True, random_state=0).fit(X, y)
    assert triage.attained_
    assert list(np.isinf(triage.thresholds_) & (triage.thresholds_ > 0)) == [False, False, True]
    assert triage.defer([[0.0, 30.0]]).all()


def test_class_that_the_model_never_saw_counts_as_error(data):
    X, y, *_ = data
    known = y < 2
    model = FrozenEstimator(LogisticRegression().fit(X[known], y[known]))
    with pytest.warns(TargetNotReachedWarning, match="accuracy of 0.6"):  # a third of the labels is unknown
        triage = TriageClassifier(model, score_method=lambda m, Z: np.ones(len(Z))).fit(X, y)
    assert list(triage.classes_) == [0, 1]


def test_fallback_may_know_more_classes(data):
    X, y, X_new, _ = data
    known = y < 2
    model = FrozenEstimator(LogisticRegression().fit(X[known], y[known]))
    with pytest.warns(TargetNotReachedWarning, match="everything is deferred"):
        triage = TriageClassifier(model, fallback=LogisticRegression(), score_method=lambda m, Z: np.ones(len(Z))).fit(
            X, y
        )
    assert list(triage.classes_) == [0, 1, 2]
    np.testing.assert_array_equal(triage.classes_[triage.predict_proba(X_new).argmax(axis=1)], triage.predict(X_new))


def test_single_class_calibration_set(data):
    X, y, *_ = data
    model = LogisticRegression().fit(X[:1000], y[:1000])
    lone = np.flatnonzero(y == 1)
    triage = TriageClassifier(FrozenEstimator(model), target_accuracy=0.9, random_state=0)
    triage.fit(X[lone], y[lone])
    assert triage.attained_
    assert list(triage.classes_) == [0, 1, 2]


def test_labels_of_another_kind_are_refused(data):
    X, y, *_ = data
    model = FrozenEstimator(LogisticRegression().fit(X, y))
    with pytest.raises(ValueError, match=r"None of the calibration labels .* is a class of its estimator"):
        TriageClassifier(model).fit(X, np.array(["red", "green", "blue"])[y])
    with pytest.raises(ValueError, match=r"the labels are \['0', '1', '2'\], the classes \[0, 1, 2\]"):
        TriageClassifier(model).fit(X, y.astype(str))


def test_classes_in_any_order_and_a_triage_inside(data):
    """Thresholds belong to their classes; the "I defer" of a triage inside is no class, and never accepted."""
    X, y, X_new, _ = data

    class Backwards(KNeighborsClassifier):
        def fit(self, X, y):
            super().fit(X, y)
            self.classes_ = self.classes_[::-1].copy()
            return self

        def predict(self, X):
            return self.classes_[::-1][super().predict_proba(X).argmax(axis=1)]

        def predict_proba(self, X):
            return super().predict_proba(X)[:, ::-1]

    settings = {"target_accuracy": 0.85, "per_class": True, "random_state": 0}
    forwards = TriageClassifier(KNeighborsClassifier(), **settings).fit(X, y)
    backwards = TriageClassifier(Backwards(), **settings).fit(X, y)
    np.testing.assert_array_equal(backwards.thresholds_, forwards.thresholds_[::-1])
    np.testing.assert_array_equal(backwards.defer(X_new), forwards.defer(X_new))

    inner = TriageClassifier(LogisticRegression(), target_accuracy=0.97, defer_label=-1, random_state=0)
    outer = TriageClassifier(inner, target_accuracy=0.9, score_method=_of_the_inner, random_state=0).fit(X, y)
    refused = outer.estimator_.defer(X_new)
    assert refused.any()
    assert outer.defer(X_new)[refused].all()


def _of_the_inner(triage, X):
    return triage.trust_score(X)


@pytest.mark.parametrize("name", ["target_accuracy", "confidence", "calibration_fraction"])
@pytest.mark.parametrize("value", [0, 1, -0.5, 99, "high", None, True])
def test_impossible_numbers_are_refused(data, name, value):
    X, y, *_ = data
    with pytest.raises(
        ValueError, match=rf"'{name}' parameter of TriageClassifier must be a float in the range \(0.0, 1.0\)"
    ):
        TriageClassifier(LogisticRegression(), **{name: value}).fit(X, y)


def test_only_classifiers(data):
    X, y, *_ = data
    with pytest.raises(ValueError, match=r"'estimator' .* must be a classifier; got LinearRegression\(\)"):
        TriageClassifier(LinearRegression()).fit(X, y)
    with pytest.raises(ValueError, match=r"'fallback' .* must be a classifier; got 'a human'"):
        TriageClassifier(LogisticRegression(), fallback="a human").fit(X, y)


def test_calibration_samples_come_with_labels_and_without_cv(data):
    X, y, *_ = data
    with pytest.raises(ValueError, match="'X_cal' and their labels 'y_cal' together; got only 'X_cal'"):
        TriageClassifier(LogisticRegression()).fit(X, y, X_cal=X)
    with pytest.raises(ValueError, match="either on 'X_cal' or by cross-fitting with 'cv', not both"):
        TriageClassifier(LogisticRegression(), cv=5).fit(X, y, X_cal=X, y_cal=y)


def test_classifier_without_any_score_is_refused(data):
    X, y, *_ = data

    class Silent(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            return self

        def predict(self, X):
            return np.full(len(X), self.classes_[0])

    with pytest.raises(ValueError, match="Silent cannot say how sure it is"):
        TriageClassifier(Silent()).fit(X, y)


def test_a_failed_refit_leaves_the_old_fit_alone(data):
    X, y, X_new, _ = data
    triage = TriageClassifier(LogisticRegression(), target_accuracy=0.97, random_state=0).fit(X, y)
    before = triage.defer(X_new)
    with pytest.raises(ValueError, match="needs at least"):
        triage.fit(X[:20], y[:20])
    np.testing.assert_array_equal(triage.defer(X_new), before)


def test_weights_reach_estimator_and_fallback(data):
    X, y, *_ = data
    weight = np.random.default_rng(0).random(len(y))
    triage = TriageClassifier(
        LogisticRegression(), target_accuracy=0.95, fallback=RidgeClassifier(), cv=3, random_state=0
    ).fit(X, y, sample_weight=weight)
    expected = LogisticRegression().fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(triage.estimator_.coef_, expected.coef_)
    expected = RidgeClassifier().fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(triage.fallback_.coef_, expected.coef_)


def test_weights_are_cut_to_the_training_part(data):
    """Weight 0 on one class: the model must not know it, whichever rows were held out."""
    X, y, X_new, _ = data
    triage = TriageClassifier(DummyClassifier(), target_accuracy=0.2, confidence=0.5, random_state=0)
    triage.fit(X, y, sample_weight=(y == 2).astype(float))
    np.testing.assert_allclose(triage.predict_proba(X_new[:1]), [[0, 0, 1]])


def test_metadata_routing(data):
    X, y, *_ = data
    groups, weight = np.arange(len(y)) // 5, np.random.default_rng(0).random(len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        triage = TriageClassifier(
            LogisticRegression().set_fit_request(sample_weight=True),
            target_accuracy=0.95,
            fallback=RidgeClassifier().set_fit_request(sample_weight=False),
            cv=GroupKFold(3),
            random_state=0,
        ).fit(X, y, sample_weight=weight, groups=groups)
    expected = LogisticRegression().fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(triage.estimator_.coef_, expected.coef_)
    np.testing.assert_array_equal(triage.fallback_.coef_, RidgeClassifier().fit(X, y).coef_)


def test_data_frames_pipelines_and_search(data):
    X, y, X_new, _ = data
    frame = pd.DataFrame(X, columns=["width", "height"])
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    triage = TriageClassifier(
        pipeline, target_accuracy=0.9, fallback=RandomForestClassifier(5, random_state=0), random_state=0
    ).fit(frame, y)
    assert list(triage.feature_names_in_) == ["width", "height"]
    assert len(triage.predict(pd.DataFrame(X_new, columns=frame.columns))) == len(X_new)
    search = GridSearchCV(triage, {"estimator__logisticregression__C": [1e-3, 1.0]}, cv=KFold(2))
    assert search.fit(frame, y).best_estimator_.attained_


def test_feature_names_do_not_outlive_their_fit(data):
    X, y, *_ = data
    triage = TriageClassifier(LogisticRegression(), target_accuracy=0.9, random_state=0)
    triage.fit(pd.DataFrame(X, columns=["width", "height"]), y)
    assert list(triage.feature_names_in_) == ["width", "height"]
    assert not hasattr(triage.fit(X, y), "feature_names_in_")


def test_pickle_keeps_the_answers(data, fitted):
    _, _, X_new, _ = data
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.defer(X_new), fitted.defer(X_new))


def test_finished_parts_leave_their_level_to_the_others():
    """Two parts; once the flawless one is accepted whole, the other is tested at all of delta."""
    n = 4000
    rng = np.random.default_rng(0)
    parts, trust = np.arange(n) % 2, rng.random(n)
    right = (parts == 0) | (trust > 0.4) | (rng.random(n) < 0.5)
    claim = Claim(np.ones(n, dtype=bool), 0.95)
    both = certify(trust, right, parts, 2, [claim], confidence=0.9, rng=np.random.RandomState(0))
    assert both[0].threshold == -np.inf
    assert both[0].level == pytest.approx(0.05)
    assert 0.3 < both[1].threshold < 0.4
    assert both[1].level == pytest.approx(0.1)


@given(st.integers(1, 200), st.integers(0, 200), st.floats(0.01, 0.5))
def test_bound_and_test_agree(accepted, errors, level):
    """The Clopper-Pearson bound reaches a target exactly when its test passes."""
    errors = min(errors, accepted)
    certificate = Certificate(0.5, 2 * accepted, accepted, accepted - errors, level)
    for target in (0.6, 0.9, 0.99):
        p_value = binom.cdf(errors, accepted, 1 - target)
        if abs(p_value - level) > 1e-9:
            assert (certificate.accuracy_bound >= target) == (p_value <= level)


def test_empty_certificate():
    nothing = Certificate(np.inf, 0, 0, 0, 0.0)
    assert not nothing.attained
    assert nothing.coverage == 0
    assert nothing.accuracy_bound == 0
    assert np.isnan(nothing.accuracy)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_tiny_calibration_sets(n):
    X, y = make_classification(60, random_state=0)
    model = FrozenEstimator(LogisticRegression().fit(X, y))
    triage = TriageClassifier(model, target_accuracy=0.1, confidence=0.5, random_state=0)
    triage.fit(X[:n], y[:n])
    assert triage.n_calibration_ == n
    assert triage.attained_  # flawless answers prove a modest target at once
    np.testing.assert_array_equal(triage.predict(X), model.predict(X))
