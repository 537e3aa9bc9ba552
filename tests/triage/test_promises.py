"""What more can be promised: parts known from x, recalls, new people; and sets of labels for what is deferred."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_blobs
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_validate
from sklearn.svm import LinearSVC

import multiform
from multiform import LoyaltyClassifier, QMSClassifier
from multiform.triage import TargetNotReachedWarning, TriageClassifier


@pytest.fixture(scope="module")
def data():
    """6000 samples of 2 overlapping classes with a third column that says where they were taken, and 3000 more."""
    X, y = make_blobs(9000, centers=[[-1.8, 0], [1.8, 0]], cluster_std=1.2, random_state=3)
    site = np.random.default_rng(0).integers(3, size=9000)
    X = np.column_stack([X, site])
    y = np.where((site == 2) & (np.random.default_rng(1).random(9000) < 0.06), 1 - y, y)  # harder there
    names = np.array(["well", "ill"])
    return X[:6000], names[y[:6000]], X[6000:], names[y[6000:]]


# ---------------------------------------------------------------------------------------------------------- parts


def test_every_part_has_a_threshold_of_its_own(data):
    X, y, X_new, y_new = data
    triage = TriageClassifier(LogisticRegression(), target_accuracy=0.87, by=2, random_state=0).fit(X, y)
    np.testing.assert_array_equal(triage.parts_, [0, 1, 2])
    assert triage.thresholds_.shape == (3, 2)
    assert len(triage.certificates_) == 3
    limit = triage.thresholds_[X_new[:, 2].astype(int), 0]
    np.testing.assert_array_equal(triage.defer(X_new), triage.trust_score(X_new) < limit)
    accepted, right = ~triage.defer(X_new), triage.predict(X_new) == y_new
    assert accepted[X_new[:, 2] == 0].mean() > accepted[X_new[:, 2] == 2].mean()
    report = triage.report(X_new, y_new)
    assert [promise.what for promise in report.promises] == [f"accuracy, by {float(k)}" for k in range(3)]
    assert report.promises[1].share == pytest.approx(right[accepted & (X_new[:, 2] == 1)].mean())
    assert "accuracy, by 1.0" in str(report)


def test_parts_by_name_callable_and_per_class(data):
    X, y, X_new, y_new = data
    settings = {"target_accuracy": 0.85, "random_state": 0}
    by_number = TriageClassifier(LogisticRegression(), by=2, **settings).fit(X, y)
    frame, frame_new = (pd.DataFrame(Z, columns=["a", "b", "site"]) for Z in (X, X_new))
    by_name = TriageClassifier(LogisticRegression(), by="site", **settings).fit(frame, y)
    np.testing.assert_array_equal(by_name.defer(frame_new), by_number.defer(X_new))
    told = TriageClassifier(
        LogisticRegression(), by=lambda Z: np.array(["x", "y", "z"])[Z[:, 2].astype(int)], **settings
    )
    np.testing.assert_array_equal(told.fit(X, y).parts_, ["x", "y", "z"])
    np.testing.assert_array_equal(told.defer(X_new), by_number.defer(X_new))
    sparse = TriageClassifier(LogisticRegression(), by=2, **settings).fit(scipy.sparse.csr_array(X), y)
    np.testing.assert_array_equal(sparse.parts_, [0, 1, 2])
    both = TriageClassifier(LogisticRegression(), by=2, per_class=True, **settings).fit(X, y)
    assert len(both.certificates_) == 6
    assert len(set(both.thresholds_[2])) == 2
    assert both.report(X_new, y_new).promises[0].what == "accuracy, by 0.0, answer ill"


def test_an_unknown_part_is_deferred(data):
    X, y, X_new, _ = data
    with_gaps = X.copy()
    with_gaps[:50, 2] = -1
    model = FrozenEstimator(LogisticRegression().fit(X, y))
    triage = TriageClassifier(model, target_accuracy=0.85, by=_site, random_state=0).fit(with_gaps, y)
    np.testing.assert_array_equal(triage.parts_, [0, 1, 2])
    assert sum(certificate.n_tested for certificate in triage.certificates_) == len(y) - 50
    unknown = X_new[:5].copy()
    unknown[:, 2] = [-1, 7, 8, 9, -1]
    assert triage.defer(unknown).all()


def _site(X):
    return np.where(X[:, 2] < 0, np.nan, X[:, 2])


def test_parts_that_cannot_be_told_are_refused(data):
    X, y, *_ = data
    with pytest.raises(ValueError, match="by=3 of TriageClassifier is no column of X, which has 3; count from 0"):
        TriageClassifier(LogisticRegression(), by=3, target_accuracy=0.9).fit(X, y)
    with pytest.raises(ValueError, match="by='site' of TriageClassifier names a column, but X is a ndarray"):
        TriageClassifier(LogisticRegression(), by="site", target_accuracy=0.9).fit(X, y)
    with pytest.raises(ValueError, match=r"must give one label for each of the 1500 rows of X; got the shape \(3,\)"):
        TriageClassifier(LogisticRegression(), by=lambda Z: np.arange(3), target_accuracy=0.9).fit(X, y)


def test_parts_that_are_not_proved_are_named(data):
    X, y, *_ = data
    rare = X.copy()
    rare[:, 2] = np.arange(len(y)) % 100 == 0
    with pytest.warns(TargetNotReachedWarning, match=r"not reached for 1 of 2 parts \(1.0\), so all answers of these"):
        TriageClassifier(LogisticRegression(), target_accuracy=0.85, by=2, random_state=0).fit(rare, y)


# ---------------------------------------------------------------------------------------------------------- recall


def test_recall_is_promised_beside_the_accuracy(data):
    X, y, X_new, y_new = data
    settings = {"target_accuracy": 0.85, "random_state": 0, "calibration_fraction": 0.5}
    plain = TriageClassifier(LogisticRegression(), **settings).fit(X, y)
    triage = TriageClassifier(LogisticRegression(), target_recall={"ill": 0.95}, **settings).fit(X, y)
    assert triage.defer(X_new).mean() > plain.defer(X_new).mean()
    accepted, right = ~triage.defer(X_new), triage.predict(X_new) == y_new
    assert right[accepted & (y_new == "ill")].mean() >= 0.95
    assert right[y_new == "ill"].mean() < 0.95  # the recall is not met by accident
    report = triage.report(X_new, y_new)
    assert [(p.what, p.target) for p in report.promises] == [("accuracy", 0.85), ("recall of ill", 0.95)]
    assert report.promises[1].count == (accepted & (y_new == "ill")).sum()
    assert "recall of ill" in str(report)
    [certificate] = triage.certificates_
    [(n_ill, n_found)] = certificate.recalls
    assert 0.95 < n_found / n_ill <= 1
    assert n_ill < certificate.n_accepted


def test_recalls_that_make_no_sense_are_refused(data):
    X, y, *_ = data
    with pytest.raises(
        ValueError, match=r"'target_recall' .* names 'sick', which is not among the classes \['ill', 'w"
    ):
        TriageClassifier(LogisticRegression(), target_recall={"sick": 0.9}).fit(X, y)
    with pytest.raises(ValueError, match=r"must hold shares between 0 and 1; got 98 for 'ill'"):
        TriageClassifier(LogisticRegression(), target_recall={"ill": 98}).fit(X, y)
    with pytest.raises(ValueError, match="'target_recall' and 'per_class' of TriageClassifier exclude each other"):
        TriageClassifier(LogisticRegression(), target_recall={"ill": 0.9}, per_class=True).fit(X, y)
    rare = np.where((y == "ill") & (np.arange(len(y)) % 50 > 0), "well", y)
    with pytest.warns(
        TargetNotReachedWarning, match=r"and target_recall={'ill': 0.9}, so .* of class ill \(there are 1"
    ):
        TriageClassifier(LogisticRegression(), target_accuracy=0.5, target_recall={"ill": 0.9}, random_state=0).fit(
            X, rare
        )


# ------------------------------------------------------------------------------------------------------------ sets


def test_sets_of_accepted_samples_are_the_answer(data):
    X, y, X_new, y_new = data
    triage = TriageClassifier(LogisticRegression(), target_accuracy=0.9, set_coverage=0.95, random_state=0).fit(X, y)
    sets, deferred = triage.prediction_sets(X_new), triage.defer(X_new)
    answers = triage.predict(X_new)
    np.testing.assert_array_equal(sets[~deferred], answers[~deferred, None] == triage.classes_)
    expected = triage.estimator_.predict_proba(X_new) >= triage.set_threshold_
    np.testing.assert_array_equal(sets[deferred], expected[deferred])
    assert (sets[deferred] & (y_new[deferred, None] == triage.classes_)).any(axis=1).mean() > 0.92
    assert triage.certificates_[0].n_tested == 1125  # three quarters of the calibration samples
    assert triage.n_calibration_ == 1500


def test_no_set_is_empty_and_the_fallback_may_know_more(data):
    X, y, X_new, _ = data
    known = FrozenEstimator(LogisticRegression().fit(X, y))
    more = FrozenEstimator(LogisticRegression().fit(X, np.where(X[:, 2] == 2, "away", y)))
    triage = TriageClassifier(known, target_accuracy=0.9, set_coverage=0.2, fallback=more, random_state=0).fit(X, y)
    sets = triage.prediction_sets(X_new)
    assert sets.shape == (3000, 3)
    assert (sets.sum(axis=1) == 1).all()
    assert not sets[:, 0].any()  # only the fallback knows "away"


def test_sets_need_chances_and_a_coverage(data):
    X, y, X_new, _ = data
    with pytest.raises(ValueError, match=r"'set_coverage' .* needs an estimator with predict_proba"):
        TriageClassifier(LinearSVC(), set_coverage=0.9).fit(X, y)
    with pytest.raises(
        ValueError, match="prediction_sets needs a TriageClassifier that was fitted with a set_coverage"
    ):
        TriageClassifier(LogisticRegression(), target_accuracy=0.9, random_state=0).fit(X, y).prediction_sets(X_new)
    with pytest.raises(ValueError, match=r"needs at least 39 calibration samples .* it has 38"):
        TriageClassifier(FrozenEstimator(LogisticRegression().fit(X, y)), target_accuracy=0.9, set_coverage=0.9).fit(
            X[:38], y[:38]
        )


def test_few_samples_give_all_labels(data):
    X, y, X_new, _ = data
    with pytest.warns(TargetNotReachedWarning, match="everything is deferred"):
        triage = TriageClassifier(
            FrozenEstimator(LogisticRegression().fit(X, y)), target_accuracy=0.95, set_coverage=0.99, random_state=0
        ).fit(X[:100], y[:100])
    assert triage.set_threshold_ == -np.inf  # of 25 samples nothing can be said with 99 %
    assert triage.prediction_sets(X_new).all()


# ---------------------------------------------------------------------------------------------------------- groups


class Watchful(ClassifierMixin, BaseEstimator):
    """Remembers whose samples it has seen, and says so when asked about them again."""

    def fit(self, X, y, groups=None):
        self.classes_, self.seen_, self.n_groups_ = np.unique(y), set(X[:, 0]), len(np.unique(groups))
        return self

    def predict(self, X):
        assert not self.seen_ & set(X[:, 0]), "asked about somebody it was trained on"
        return np.full(len(X), self.classes_[0])

    def loyalty_score(self, X):
        return np.ones(len(X))


@pytest.fixture
def people():
    """400 people with 1 to 5 visits each."""
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(400), rng.integers(1, 6, size=400))
    return who[:, None].astype(float), (rng.random(len(who)) < 0.01).astype(int), who


def test_whole_groups_are_held_out(people):
    X, y, who = people
    triage = TriageClassifier(Watchful(), target_accuracy=0.9, random_state=0).fit(X, y, groups=who)
    assert triage.n_calibration_ == 100  # one visit of each of a quarter of the people
    assert len(triage.estimator_.seen_) == triage.estimator_.n_groups_ == 300  # the estimator is told, too
    assert triage.certificates_[0].n_tested == 100


class Careless(Watchful):
    def predict(self, X):
        if len(X) < 1300:  # a fold; the model that serves has seen everybody
            return super().predict(X)
        return np.full(len(X), self.classes_[0])


@pytest.mark.parametrize("cv", [4, GroupKFold(4)])
def test_cross_fitting_keeps_groups_together(people, cv):
    X, y, who = people
    triage = TriageClassifier(Careless(), target_accuracy=0.9, cv=cv, random_state=0).fit(X, y, groups=who)
    assert triage.n_calibration_ == 400
    assert triage.estimator_.n_groups_ == 400
    with pytest.raises(AssertionError, match="asked about somebody"):
        TriageClassifier(Careless(), target_accuracy=0.9, cv=4, random_state=0).fit(X, y)


def test_too_few_groups_are_said(people):
    X, y, who = people
    message = r"needs at least 299 calibration groups .* it has 100 \(a promise of new groups takes one sample of each"
    with pytest.raises(ValueError, match=message):
        TriageClassifier(Watchful()).fit(X, y, groups=who)
    with pytest.raises(ValueError, match="groups of TriageClassifier must have an entry for each of the"):
        TriageClassifier(Watchful(), target_accuracy=0.9).fit(X, y, groups=who[:-1])


def test_groups_of_calibration_samples(people):
    X, y, who = people
    X_cal = X + 1000
    triage = TriageClassifier(Watchful(), target_accuracy=0.9, random_state=0)
    assert triage.fit(X, y, groups=who, X_cal=X_cal, y_cal=y, groups_cal=who).n_calibration_ == 400
    assert triage.fit(X, y, X_cal=X_cal, y_cal=y).n_calibration_ == len(y)
    with pytest.raises(
        ValueError, match=r"'groups_cal' of TriageClassifier.fit are the groups of 'X_cal', which is not"
    ):
        triage.fit(X, y, groups=who, groups_cal=who)
    frozen = TriageClassifier(FrozenEstimator(Watchful().fit(X_cal, y)), target_accuracy=0.9, random_state=0)
    assert frozen.fit(X, y, groups=who).n_calibration_ == 400


def test_groups_are_routed(people):
    X, y, who = people
    with sklearn.config_context(enable_metadata_routing=True):
        asks, declines = Watchful().set_fit_request(groups=True), Watchful().set_fit_request(groups=False)
        triage = TriageClassifier(asks, fallback=declines, target_accuracy=0.7, random_state=0)
        triage.fit(X, y, groups=who)
        assert triage.n_calibration_ == 100
        assert triage.estimator_.n_groups_ == 300
        assert triage.fallback_.n_groups_ == 1  # it was not told
        with pytest.raises(ValueError, match=r"\[groups\] are passed but are not explicitly set as requested or not"):
            TriageClassifier(Watchful(), target_accuracy=0.7, random_state=0).fit(X, y, groups=who)
        told = clone(triage).set_fit_request(groups=True)
        settings = {"target_accuracy": [0.6, 0.7]}
        search = GridSearchCV(told, settings, cv=GroupKFold(2), scoring=lambda model, X, y: model.n_calibration_)
        assert search.fit(X, y, groups=who).best_estimator_.n_calibration_ == 100
        found = cross_validate(told, X, y, cv=GroupKFold(2), params={"groups": who}, return_estimator=True)
        assert [model.n_calibration_ for model in found["estimator"]] == [50, 50]


def test_groups_reach_loyalty(data):
    X, y, *_ = data
    loyalty = LoyaltyClassifier(QMSClassifier(n_components=2, max_iter=3, noise=0.3, random_state=0), random_state=0)
    triage = TriageClassifier(loyalty, target_accuracy=0.8, random_state=0)
    triage.fit(X[:1200], y[:1200], groups=np.arange(1200) // 3)
    # One number: the trust of an answer is the chance that is shown.
    shown = triage.predict_proba(X[:50]).max(axis=1)
    np.testing.assert_allclose(triage.trust_score(X[:50]), shown, rtol=1e-6)


# ---------------------------------------------------------------------------------------------------- parameters, files


def test_parameters_and_files(data, tmp_path):
    X, y, X_new, y_new = data
    qms = QMSClassifier(n_components=2, max_iter=3, noise=0.3, random_state=0)
    triage = TriageClassifier(
        qms, target_accuracy=0.8, target_recall={"ill": 0.8}, by=2, set_coverage=0.9, random_state=0
    )
    assert clone(triage).get_params()["target_recall"] == {"ill": 0.8}
    triage.fit(X, y)
    multiform.save(triage, tmp_path / "model.mfm")
    again = multiform.load(tmp_path / "model.mfm")
    assert again.get_params()["by"] == 2
    assert again.certificates_ == triage.certificates_
    np.testing.assert_array_equal(again.parts_, triage.parts_)
    np.testing.assert_array_equal(again.defer(X_new), triage.defer(X_new))
    np.testing.assert_array_equal(again.prediction_sets(X_new), triage.prediction_sets(X_new))
    assert str(again.report(X_new, y_new)) == str(triage.report(X_new, y_new))


def test_cross_fitting_by_number_draws_its_folds(data):
    """An int is as many folds drawn at random within the classes; a splitter is asked."""
    X, y, *_ = data
    ordered = np.argsort(y, kind="stable")  # without drawing, whole folds would lack a class
    settings = {"target_accuracy": 0.85, "random_state": 0}
    drawn = TriageClassifier(LogisticRegression(), cv=4, **settings).fit(X[ordered], y[ordered])
    asked = TriageClassifier(LogisticRegression(), cv=KFold(4, shuffle=True, random_state=0), **settings).fit(X, y)
    assert abs(drawn.certificates_[0].coverage - asked.certificates_[0].coverage) < 0.05
