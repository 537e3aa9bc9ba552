"""Partners in `QMSClassifierCV`: the same folds, honest chances, shares; and what has no meaning with them."""

from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification, make_moons
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import multiform
from multiform import QMSClassifierCV
from multiform.geometry import separators_from_estimator
from multiform.partners import Partner
from multiform.partners._cross_fitted import relative, weighted
from multiform.selection import mixed

POOR = {"noise": (3.0,), "encodings": ["plain"], "max_iter": 1, "random_state": 0}  # so that partners have a share


def stripes(n, seed=0):
    """Axis-parallel stripes, which trees find and a quadratic does not."""
    X = np.random.default_rng(seed).uniform(size=(n, 4))
    return X, (np.floor(6 * X[:, 0]) + np.floor(4 * X[:, 1])).astype(int) % 2


class Seen(ClassifierMixin, BaseEstimator):
    """Remembers what it was fitted on, and knows those rows alone."""

    log: ClassVar[list[tuple[Any, Any, Any]]] = []

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        self.rows_ = {row.tobytes(): label for row, label in zip(X, y, strict=True)}
        Seen.log.append((X.copy(), y.copy(), sample_weight))
        return self

    def predict_proba(self, X):
        known = [self.rows_.get(row.tobytes()) for row in np.ascontiguousarray(X)]
        even = np.full(len(self.classes_), 1 / len(self.classes_))
        return np.array([even if label is None else np.eye(len(even))[label] for label in known])


@pytest.fixture(autouse=True)
def _fresh_log():
    Seen.log = []


class Odd(ClassifierMixin, BaseEstimator):
    """Says the same of every row, be it chances or not."""

    def __init__(self, said=None):
        self.said = said

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.array([self.said] * len(X))


@pytest.mark.parametrize(
    ("said", "got"),
    [
        ([0.3, 0.3, 0.4], r"an array of shape \(\d+, 3\) and type float64"),
        ([np.nan, 1.0], "nan"),
        ([2.0, -1.0], "2"),
        (["a", "b"], r"an array of shape \(\d+, 2\) and type <U1"),
    ],
)
def test_what_are_no_chances_is_said(said, got):
    X, y = stripes(60)
    with pytest.raises(ValueError, match=rf"predict_proba that gives chances from 0 to 1, .* of Odd gave {got}\. "):
        QMSClassifierCV(**POOR, partners=[Odd(said)]).fit(X, y)


def test_trees_help_where_we_are_weak():
    X, y = stripes(600)
    X_new, y_new = stripes(2000, seed=1)
    alone = QMSClassifierCV(partners=None, random_state=0).fit(X, y)
    mixed = QMSClassifierCV(partners="trees", random_state=0).fit(X, y)
    assert mixed.score(X_new, y_new) > alone.score(X_new, y_new) + 0.1
    assert sum(mixed.shares_.values()) == pytest.approx(1)
    assert mixed.shares_["QMS"] >= 0.1
    assert set(mixed.cv_results_["model"]) == {
        "QMS",
        "ExtraTreesClassifier",
        "RandomForestClassifier",
        "HistGradientBoostingClassifier",
    }


def test_estimates_with_trees_are_true_on_fresh_samples():
    """In the mean over draws: one of 600 samples strays by several points."""
    X_new, y_new = stripes(2000, seed=1)
    gaps = []
    for draw in range(3):
        model = QMSClassifierCV(partners="trees", random_state=draw).fit(*stripes(600, seed=10 + draw))
        actual = model.score(X_new, y_new)
        gaps.append([model.oof_accuracy_ - actual, model.predict_proba(X_new).max(axis=1).mean() - actual])
    assert (abs(np.mean(gaps, axis=0)) < 0.05).all()


def test_partners_see_what_the_folds_let_them():
    """Each is fitted without the fold that it is judged on: one that knows rows by heart has nothing to say."""
    X, y = stripes(100)
    folds = list(StratifiedKFold(4, shuffle=True, random_state=0).split(X, y))
    model = QMSClassifierCV(cv=folds, partners=[Seen()], **POOR).fit(X, y)
    assert len(Seen.log) == 4
    assert sorted(len(rows) for rows, _, _ in Seen.log) == sorted(len(train) for train, _ in folds)
    place = model.cv_results_["model"].index("Seen")
    assert model.cv_results_["log_loss"][place] == pytest.approx(np.log(2))


def test_groups_are_held_out_as_a_whole():
    X, y = stripes(120)
    groups = np.repeat(np.arange(30), 4)
    QMSClassifierCV(cv=GroupKFold(3), partners=[Seen()], **POOR).fit(X, y, groups=groups)
    QMSClassifierCV(cv=3, partners=[Seen()], **POOR).fit(X, y, groups=groups)
    assert len(Seen.log) == 6
    assert all(len(rows) % 4 == 0 for rows, _, _ in Seen.log)


def test_weights_of_samples_reach_partners():
    X, y = stripes(100)
    weight = np.random.default_rng(0).uniform(0.5, 1.5, 100)
    QMSClassifierCV(cv=2, partners=[Seen()], **POOR).fit(X, y, sample_weight=weight)
    for rows, _, told in Seen.log:
        assert len(told) == len(rows)
    total = sum(told.sum() for _, _, told in Seen.log)  # each sample is in one of two folds
    assert total == pytest.approx(weight.sum() / weight.max())
    Seen.log = []
    QMSClassifierCV(cv=2, partners=[Seen()], class_weight={0: 1, 1: 3}, **POOR).fit(X, y)
    assert all(told is None for _, _, told in Seen.log)
    with pytest.raises(ValueError, match="which KNeighborsClassifier does not take; leave it out, or give no weights"):
        QMSClassifierCV(partners=[KNeighborsClassifier()], **POOR).fit(X, y, sample_weight=weight)


def test_class_weights_are_how_much_more_frequent_a_class_is(tmp_path):
    """Of a fully grown tree, too: it is asked of a world in which the class is so many times as frequent."""
    X, y = stripes(300)
    chances = np.array([[0.5, 0.5], [0.9, 0.1], [1.0, 0.0]])
    found = weighted(chances, relative(np.array([2.0, 6.0])))
    np.testing.assert_allclose(found, [[0.25, 0.75], [0.75, 0.25], [1, 0]])
    assert weighted(chances, relative(np.array([3.0, 3.0]))) is chances
    assert np.isfinite(weighted(chances, relative(np.array([0.0, 1.0])))).all()
    shares = []
    for weight in (0.1, 1, 10):
        model = QMSClassifierCV(partners=[ExtraTreesClassifier(9)], class_weight={0: 1, 1: weight}, **POOR).fit(X, y)
        assert model.shares_["ExtraTreesClassifier"] > 0
        shares.append(model.predict(stripes(300, seed=1)[0]).mean())
    assert shares[0] < shares[1] - 0.1
    assert shares[1] < shares[2] - 0.1
    multiform.save(model, tmp_path / "weighted.mfm")
    loaded = multiform.load(tmp_path / "weighted.mfm")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    whole = model.partners_[0].as_plain()
    for wrong in ([1.0], [1.0, 0.0], [0.5, 0.5], [1.0, np.nan], "1"):
        with pytest.raises(ValueError, match="class weight"):
            Partner.from_plain(whole | {"class_weights": np.array(wrong)}, 4, 2)


def test_the_ensemble_is_what_it_says():
    """Shares over temperatures of logarithms, ours and partners'; `predict_proba` is the softmax of the sum."""
    X, y = stripes(300)
    model = QMSClassifierCV(partners=[ExtraTreesClassifier(20), LogisticRegression()], **POOR).fit(X, y)
    assert model.partners_[0].name == "ExtraTreesClassifier"
    places = [model.cv_results_["model"].index(partner.name) for partner in model.partners_]
    results = {name: np.array(column, dtype=object)[places] for name, column in model.cv_results_.items()}
    np.testing.assert_allclose(model.partner_factors_, (results["share"] / results["temperature"]).astype(float))
    scores = model.decision_function(X)
    both = np.column_stack([np.zeros(len(scores)), scores])
    np.testing.assert_allclose(model.predict_proba(X), softmax(both / model.temperature_, axis=1))
    np.testing.assert_array_equal(model.predict(X), (scores > 0).astype(int))


def test_the_same_seed_gives_the_same_model_whatever_the_threads():
    X, y = stripes(150)
    partners = [RandomForestClassifier(8), ExtraTreesClassifier(8), RandomForestClassifier(4)]
    first, second = (QMSClassifierCV(partners=partners, n_jobs=n_jobs, **POOR).fit(X, y) for n_jobs in (1, 3))
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    assert first.cv_results_["model"] == [
        "QMS",
        "RandomForestClassifier",
        "ExtraTreesClassifier",
        "RandomForestClassifier 2",
    ]
    assert all(not hasattr(partner, "classes_") for partner in partners)  # clones are fitted


def test_who_stands_beside_ours_by_default():
    def asked(X, y):
        model = QMSClassifierCV(max_iter=1, noise=[1.0], encodings=["plain"], cv=2, random_state=0).fit(X, y)
        return set(model.cv_results_["model"])

    forests = {"QMS", "ExtraTreesClassifier", "RandomForestClassifier"}
    X, y = stripes(1000)
    assert asked(X[:999], y[:999]) == forests
    assert asked(X, y) == forests | {"HistGradientBoostingClassifier"}
    assert asked(scipy.sparse.csr_array(X), y) == {"QMS"}
    assert asked(np.tile(X[:20], 11), y[:20]) == {"QMS"}  # wider than long


def test_without_partners_nothing_changes():
    X, y = make_moons(200, noise=0.3, random_state=0)
    model = QMSClassifierCV(partners=None, random_state=0).fit(X, y)
    assert model.partners_ == []
    assert model.shares_ == {"QMS": pytest.approx(1)}
    again = QMSClassifierCV(partners=[DecisionTreeClassifier(max_depth=1)], random_state=0).fit(X, y)
    own = [place for place, name in enumerate(again.cv_results_["model"]) if name == "QMS"]
    assert [again.cv_results_["log_loss"][place] for place in own] == model.cv_results_["log_loss"]


def test_few_samples_that_choose_too_much_are_half_believed():
    """Labels are noise that no kind knows: of 60 samples the choice is chance, and the mean of all kinds is better."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 4))
    y = (X[:, 0] + 2 * rng.normal(size=60) > 0).astype(int)
    kept = [QMSClassifierCV(random_state=seed).fit(X, y).shares_ for seed in range(6)]
    assert any(len(shares) == 3 and min(shares.values()) >= 1 / 6 for shares in kept)
    # Where ours knows and forests do not, the choice stands.
    X, y = make_classification(400, 6, n_informative=6, n_redundant=0, class_sep=3, random_state=0)
    sharp = QMSClassifierCV(partners=[DecisionTreeClassifier(max_depth=1)], random_state=0).fit(X, y)
    assert sharp.shares_["QMS"] == pytest.approx(1)
    assert np.isclose(sum(mixed(np.array([0.7, 0.1, 0.2]), 2, 0.5)), 1)


def test_a_class_that_one_fold_alone_has():
    X, y = stripes(60)
    y[0] = 5
    trees = [RandomForestClassifier(9), HistGradientBoostingClassifier(max_iter=5)]
    model = QMSClassifierCV(partners=trees, cv=3, **POOR).fit(X, y)
    chances = model.predict_proba(X)
    assert np.isfinite(chances).all()
    assert chances.shape == (60, 3)
    two = QMSClassifierCV(partners=trees, cv=2, **POOR).fit([[0.0], [1.0]], [0, 1])
    assert np.isfinite(two.predict_proba([[0.5]])).all()


def test_far_rows_and_large_units():
    X, y = stripes(200)
    plain = QMSClassifierCV(partners=[ExtraTreesClassifier(20)], **POOR).fit(X, y)
    large = QMSClassifierCV(partners=[ExtraTreesClassifier(20)], **POOR).fit(X * 1e200, y)
    np.testing.assert_allclose(large.predict_proba(X * 1e200), plain.predict_proba(X), atol=0.02)
    assert np.isfinite(large.predict_proba(np.full((2, 4), 1e308))).all()


def test_what_is_asked_for_is_checked():
    X, y = stripes(50)
    with pytest.raises(ValueError, match='must be "auto", "forests", "trees", None or a list of classifiers with'):
        QMSClassifierCV(partners=[LinearSVC()]).fit(X, y)
    with pytest.raises(ValueError, match="a list of classifiers with predict_proba; got <object"):
        QMSClassifierCV(partners=[object()]).fit(X, y)
    with pytest.raises(ValueError, match="The 'partners' parameter of QMSClassifierCV must be"):
        QMSClassifierCV(partners="bees").fit(X, y)
    with pytest.raises(ValueError, match=r"need dense X; use X.toarray\(\), or partners=None"):
        QMSClassifierCV(partners="trees", encodings=["plain"]).fit(scipy.sparse.csr_array(X), y)


def test_geometry_says_that_it_knows_none():
    X, y = stripes(60)
    model = QMSClassifierCV(partners=[ExtraTreesClassifier(4)], **POOR).fit(X, y)
    with pytest.raises(TypeError, match=r"separators can be made from .* got QMSClassifierCV"):
        separators_from_estimator(model)


def test_loyalty_and_triage_judge_the_whole_mean():
    X, y = make_classification(300, 5, random_state=0)
    inner = QMSClassifierCV(partners=[ExtraTreesClassifier(4)], **POOR)
    loyalty = multiform.LoyaltyClassifier(inner, cv=3, random_state=0).fit(X, y)
    assert loyalty.estimator_.shares_["ExtraTreesClassifier"] > 0
    assert set(loyalty.predict_loyalty(X)) <= {"strong", "normal", "weak"}
    triage = multiform.TriageClassifier(inner, target_accuracy=0.7, random_state=0).fit(X, y)
    assert len(triage.defer(X)) == 300


class TestFiles:
    def test_answers_stay(self, tmp_path):
        X, y = stripes(200)
        partners = [ExtraTreesClassifier(5), RandomForestClassifier(5)]
        model = QMSClassifierCV(partners=partners, **POOR).fit(X, y)
        assert len(model.partners_) > 0
        multiform.save(model, tmp_path / "model.mfm")
        again = multiform.load(tmp_path / "model.mfm")
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        assert again.shares_ == model.shares_
        assert multiform.files.describe(tmp_path / "model.mfm")["training"]["shares"] == model.shares_
        again.fit(X, y)  # its partners are still there

    def test_other_kinds_are_refused_by_a_sentence(self, tmp_path):
        X, y = stripes(200)
        model = QMSClassifierCV(partners=[DecisionTreeClassifier()], **POOR).fit(X, y)
        with pytest.raises(TypeError, match=r"DecisionTreeClassifier, which a model file cannot hold"):
            multiform.save(model, tmp_path / "model.mfm")
        logistic = QMSClassifierCV(partners=[LogisticRegression()], **POOR).fit(X, X @ [1, 5, -9, 2] > 0)
        assert len(logistic.partners_) == 1
        with pytest.raises(TypeError, match="partners of QMSClassifierCV has a LogisticRegression, which a model file"):
            multiform.save(logistic, tmp_path / "model.mfm")

    def test_a_fitted_forest_elsewhere_is_refused(self, tmp_path):
        X, y = stripes(60)
        model = multiform.LoyaltyClassifier(RandomForestClassifier(3, random_state=0), cv=3).fit(X, y)
        with pytest.raises(TypeError, match="RandomForestClassifier, which a model file cannot hold"):
            multiform.save(model, tmp_path / "model.mfm")
