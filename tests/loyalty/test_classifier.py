"""LoyaltyClassifier: Definition 6 from the raw predictions of its models, estimates, weights, refusals."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_blobs
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import ShuffleSplit, StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.class_weight import compute_sample_weight

from multiform import QMSClassifier, QMSClassifierCV
from multiform.loyalty import LoyaltyClassifier
from multiform.metrics import loyalty_table, neg_aurc_scorer, trust_score
from multiform.training import Trainer


def lightgbm(**parameters):
    module = pytest.importorskip("lightgbm")
    return module.LGBMClassifier(n_estimators=10, verbose=-1, n_jobs=1, **parameters)


class ClassWeightOnly(ClassifierMixin, BaseEstimator):
    """Logistic regression that takes class_weight, and no sample_weight."""

    def __init__(self, class_weight=None):
        self.class_weight = class_weight

    def fit(self, X, y):
        self.inner_ = LogisticRegression(class_weight=self.class_weight).fit(X, y)
        self.classes_ = self.inner_.classes_
        return self

    def predict(self, X):
        return self.inner_.predict(X)


@pytest.fixture(scope="module")
def four_classes():
    """Four classes that overlap, and as many new samples of the same kind."""
    X, y = make_blobs(800, n_features=4, centers=4, cluster_std=3.5, random_state=1)
    X, y = X / 10, np.array(["ant", "bee", "cat", "dog"])[y]
    return X[:400], y[:400], X[400:], y[400:]


def definition_6(model, X):
    """Section 3.1 restated: mu(i, w, x) are the altered classifiers, class by class for beta and then for gamma."""
    m = len(model.classes_)
    answers = [altered.predict(X) for altered in model.altered_estimators_]
    keeps = np.array([answers[i] == model.classes_[i] for i in range(m)]).sum(axis=0)
    wins = np.array([answers[m + i] == model.classes_[i] for i in range(m)]).sum(axis=0)
    return np.where(keeps == 1, "strong", np.where(wins >= 3, "weak", "normal"))


@pytest.mark.parametrize(
    "estimator",
    [
        None,
        QMSClassifier(n_components=3, solver="cpm", random_state=0),
        QMSClassifier(n_components=3, early_stopping=True, random_state=0),
        QMSClassifier(n_components=3, n_models=2, max_iter=20, random_state=0),
        LogisticRegression(),
        RandomForestClassifier(10, max_depth=4, random_state=0),
        lightgbm,
        SVC(decision_function_shape="ovo"),
        RidgeClassifier(),
        ClassWeightOnly(),
    ],
    ids=lambda e: "lightgbm" if e is lightgbm else str(e),
)
def test_types_are_definition_6(estimator, four_classes):
    X, y, X_new, y_new = four_classes
    estimator = estimator() if estimator is lightgbm else estimator
    model = LoyaltyClassifier(estimator, beta=0.2, gamma=10.0, cv=2, random_state=0).fit(X, y)
    assert len(model.altered_estimators_) == 8
    expected = definition_6(model, X_new)
    loyalty = model.predict_loyalty(X_new)
    np.testing.assert_array_equal(loyalty, expected)
    assert {"strong", "normal"} <= set(loyalty)  # the machine does divide
    np.testing.assert_array_equal(model.predict(X_new), model.estimator_.predict(X_new))

    score, right = model.loyalty_score(X_new), model.predict(X_new) == y_new
    assert ((score >= 0) & (score <= 1)).all()
    surest = score >= np.median(score)
    assert right[surest].mean() > right[~surest].mean()
    assert abs(score.mean() - right.mean()) < 0.1

    label, types, chance = model.assess(X_new)
    np.testing.assert_array_equal(label, model.predict(X_new))
    np.testing.assert_array_equal(types, loyalty)
    np.testing.assert_array_equal(chance, score)


def test_altered_models_are_weighted_fits(four_classes):
    X, y, X_new, _ = four_classes
    model = LoyaltyClassifier(LogisticRegression(C=0.5), beta=0.1, gamma=7, cv=2).fit(X, y)
    for member, (name, weight) in enumerate([(c, w) for w in (0.1, 7) for c in ("ant", "bee", "cat", "dog")]):
        alone = LogisticRegression(C=0.5).fit(X, y, sample_weight=np.where(y == name, weight, 1))
        np.testing.assert_allclose(model.altered_estimators_[member].coef_, alone.coef_, rtol=1e-6)
        assert model.class_factors_[member].tolist() == [weight if c == name else 1 for c in model.classes_]
    nominal = LogisticRegression(C=0.5).fit(X, y)
    np.testing.assert_allclose(model.estimator_.predict_proba(X_new), nominal.predict_proba(X_new))


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(class_weight="balanced"),
        RandomForestClassifier(30, min_samples_leaf=20, class_weight="balanced", random_state=0),  # mixed leaves
        QMSClassifier(class_weight="balanced", early_stopping=True, random_state=0),
    ],
    ids=["logistic regression", "forest", "QMS"],
)
def test_balanced_classes_are_altered_all_the_same(four_classes, estimator):
    """Where samples are counted by their weight, "balanced" would undo beta and gamma, and all would be strong."""
    X, y, X_new, _ = four_classes
    model = LoyaltyClassifier(estimator, cv=2, random_state=0).fit(X[:300], y[:300])
    answers = model.estimator_.predict(X_new)
    for altered, factors in zip(model.altered_estimators_, model.class_factors_, strict=True):
        (k,) = np.flatnonzero(factors != 1)
        share, before = ((said == model.classes_[k]).mean() for said in (altered.predict(X_new), answers))
        assert share < before if factors[k] < 1 else share > before
    if isinstance(estimator, LogisticRegression):
        weight = compute_sample_weight("balanced", y[:300]) * np.where(y[:300] == model.classes_[0], 0.05, 1)
        expected = LogisticRegression().fit(X[:300], y[:300], sample_weight=weight)
        np.testing.assert_allclose(model.altered_estimators_[0].coef_, expected.coef_, rtol=1e-3)


def test_class_weights_of_the_estimator_are_multiplied(four_classes):
    X, y = four_classes[:2]
    own = {"ant": 3.0, "bee": 1.0, "cat": 0.5, "dog": 1.0}
    for class_weight in (own, "balanced"):
        model = LoyaltyClassifier(ClassWeightOnly(class_weight), beta=0.1, cv=2).fit(X[:300], y[:300])
        weight = compute_sample_weight(class_weight, y[:300]) * np.where(y[:300] == "bee", 0.1, 1)
        alone = LogisticRegression().fit(X[:300], y[:300], sample_weight=weight)
        np.testing.assert_allclose(model.altered_estimators_[1].inner_.coef_, alone.coef_, rtol=1e-3, atol=1e-4)


def test_held_back_classes_lose_samples_and_pushed_ones_win_them(four_classes):
    X, y, X_new, _ = four_classes
    model = LoyaltyClassifier(cv=2, random_state=0).fit(X, y)
    nominal = model.estimator_.predict(X_new)
    for i, name in enumerate(model.classes_):
        usual = (nominal == name).sum()
        assert (model.altered_estimators_[i].predict(X_new) == name).sum() < usual
        assert (model.altered_estimators_[4 + i].predict(X_new) == name).sum() > usual


@pytest.mark.parametrize("estimator", [None, LogisticRegression()])
def test_two_classes_three_models(estimator, four_classes):
    X, y, X_new, _ = four_classes
    two = np.isin(y, ["ant", "cat"])
    model = LoyaltyClassifier(estimator, random_state=0).fit(X[two], y[two])
    assert len(model.altered_estimators_) == 2
    assert model.levels_ == model.loyalty_table_.levels == ("strong", "normal")
    answers = [altered.predict(X_new) for altered in model.altered_estimators_]
    keeps = (answers[0] == "ant").astype(int) + (answers[1] == "cat")
    np.testing.assert_array_equal(model.predict_loyalty(X_new), np.where(keeps == 1, "strong", "normal"))


def test_ladders(four_classes):
    X, y, X_new, y_new = four_classes
    model = LoyaltyClassifier(LogisticRegression(), beta=[0.3, 0.05], gamma=(3, 30), cv=2).fit(X, y)
    assert model.levels_ == ("strong 0.05", "strong 0.3", "normal", "weak 30", "weak 3")
    assert len(model.altered_estimators_) == 16
    answers = np.array([altered.predict(X_new) for altered in model.altered_estimators_]).reshape(4, 4, -1)
    claims = (answers == model.classes_[:, None]).sum(axis=1)
    expected = np.select(
        [claims[0] == 1, claims[1] == 1, claims[2] >= 3, claims[3] >= 3],
        ["strong 0.05", "strong 0.3", "weak 3", "weak 30"],
        "normal",
    )
    loyalty = model.predict_loyalty(X_new)
    np.testing.assert_array_equal(loyalty, expected)
    assert len(set(loyalty)) == 5
    accuracy = loyalty_table(y_new, model.predict(X_new), loyalty, levels=model.levels_).accuracy
    assert accuracy[0] > accuracy[1] > accuracy[2] > accuracy[3:].min()


def test_estimates_are_of_unseen_samples(four_classes):
    """A forest knows its training samples by heart; the estimates do not."""
    X, y, X_new, y_new = four_classes
    splits = list(StratifiedKFold(3).split(X, y))
    forest = RandomForestClassifier(15, random_state=0)
    model = LoyaltyClassifier(forest, cv=splits).fit(X, y)
    assert model.training_table_.overall_accuracy > 0.97
    unseen = np.concatenate(
        [clone(forest).fit(X[train], y[train]).predict(X[test]) == y[test] for train, test in splits]
    )
    assert model.loyalty_table_.overall_accuracy == pytest.approx(unseen.mean())
    assert model.loyalty_table_.count.sum() == model.training_table_.count.sum() == 400
    actual = loyalty_table(y_new, model.predict(X_new), model.predict_loyalty(X_new))
    assert abs(model.loyalty_table_.overall_accuracy - actual.overall_accuracy) < 0.06


def test_a_held_out_part_is_enough(four_classes):
    X, y = four_classes[:2]
    model = LoyaltyClassifier(LogisticRegression(), cv=ShuffleSplit(1, test_size=0.25, random_state=0)).fit(X, y)
    assert model.loyalty_table_.count.sum() == model.training_table_.count.sum() == 100


def test_many_samples_are_judged_by_one_part():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 2))
    y = (X[:, 0] + rng.normal(size=20_000) > 0).astype(int)
    model = LoyaltyClassifier(LogisticRegression(), random_state=0).fit(X, y)
    assert model.loyalty_table_.count.sum() == 2_000
    alone = clone(model.estimator_).fit(X, y)
    assert not np.array_equal(
        model.estimator_.coef_, alone.coef_
    )  # the part is held out of the models that answer, too
    assert model.loyalty_table_.overall_accuracy == pytest.approx((model.predict(X) == y).mean(), abs=0.02)


def test_copies_that_are_a_group_are_never_parted():
    """Copies in another fold would make the estimate a memory test: with noise labels it must stay near a half."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 3)), rng.integers(0, 2, 100)
    model = LoyaltyClassifier(RandomForestClassifier(20, random_state=0), random_state=0)
    model.fit(np.repeat(X, 4, axis=0), np.repeat(y, 4), groups=np.repeat(np.arange(100), 4))
    assert model.training_table_.overall_accuracy > 0.95
    assert model.loyalty_table_.overall_accuracy < 0.7


@pytest.mark.parametrize("estimator", [QMSClassifier(solver="cpm-literal", n_components=2), LogisticRegression()])
@pytest.mark.parametrize("cv", [2, StratifiedKFold(2)])
def test_weight_0_means_removed(estimator, cv, four_classes):
    X, y, X_new, _ = four_classes
    X, y = X[:120], y[:120]
    weight = np.ones(120)
    weight[::5] = 0
    if cv != 2:  # the same parts of what remains
        kept = np.cumsum(weight > 0) - 1
        cv_weighted = [(train, test) for train, test in cv.split(X, y)]
        cv = [(kept[a[weight[a] > 0]], kept[b[weight[b] > 0]]) for a, b in cv_weighted]
    else:
        cv_weighted = cv
    weighted = LoyaltyClassifier(clone(estimator).set_params(random_state=0), cv=cv_weighted, random_state=0)
    removed = clone(weighted).set_params(cv=cv)
    weighted.fit(X, y, sample_weight=weight)
    removed.fit(X[weight > 0], y[weight > 0])
    np.testing.assert_array_equal(weighted.predict_loyalty(X_new), removed.predict_loyalty(X_new))
    np.testing.assert_allclose(weighted.loyalty_score(X_new), removed.loyalty_score(X_new), atol=1e-3)
    assert weighted.loyalty_table_.count.sum() == 96
    np.testing.assert_array_equal(weighted.loyalty_table_.count, removed.loyalty_table_.count)


def test_tables_count_by_weight(four_classes):
    X, y = four_classes[:2]
    weight = np.where(y == "ant", 3.0, 0.5)
    model = LoyaltyClassifier(LogisticRegression(), cv=2).fit(X, y, weight, groups=np.arange(len(y)))
    assert model.loyalty_table_.count.sum() == pytest.approx(weight.sum())
    nominal = LogisticRegression().fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(model.predict(X), nominal.predict(X))


def test_qms_nominal_does_not_depend_on_what_is_beside_it(four_classes):
    X, y, X_new, _ = four_classes
    qms = QMSClassifier(n_components=3, noise=0.35, random_state=3)
    one = LoyaltyClassifier(qms, cv=2, random_state=0).fit(X, y)
    other = LoyaltyClassifier(qms, beta=0.5, gamma=2.0, cv=4, random_state=1).fit(X, y)
    np.testing.assert_array_equal(one.estimator_.components_, other.estimator_.components_)
    assert isinstance(one.estimator_, QMSClassifier)
    assert one.estimator_.n_iter_ > 1
    assert np.log(one.predict_proba(X_new)[np.arange(400), 0]).max() < 0  # calibrated, not certain


def test_altered_iter(four_classes):
    X, y = four_classes[:2]
    model = LoyaltyClassifier(cv=2, altered_iter=3, random_state=0).fit(X, y)
    assert {altered.n_iter_ for altered in model.altered_estimators_} == {3}


def test_threads_change_nothing(four_classes):
    X, y, X_new, _ = four_classes
    scores = [LoyaltyClassifier(cv=2, n_jobs=k, random_state=0).fit(X, y).loyalty_score(X_new) for k in (1, 2)]
    np.testing.assert_allclose(*scores, rtol=1e-5)


@pytest.mark.slow  # starts worker processes
def test_models_fitted_at_the_same_time(four_classes):
    X, y, X_new, _ = four_classes
    one, two = (LoyaltyClassifier(LogisticRegression(), cv=2, n_jobs=k, random_state=0).fit(X, y) for k in (1, 2))
    np.testing.assert_array_equal(one.loyalty_score(X_new), two.loyalty_score(X_new))


@pytest.mark.parametrize("estimator", [None, LogisticRegression()])
def test_native(estimator, four_classes):
    X, y, X_new, y_new = four_classes
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = LoyaltyClassifier(estimator, cv=2, random_state=0).fit(frame, y)
    assert model.feature_names_in_.tolist() == list("abcd")
    new = pd.DataFrame(X_new, columns=list("abcd"))
    score = model.loyalty_score(new)
    np.testing.assert_array_equal(trust_score(model, new), score)
    with pytest.raises(ValueError, match="feature names should match"):
        model.loyalty_score(new[list("dcba")])
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.loyalty_score(new), score)
    assert restored.altered_estimators_[0] is restored._committee.altered[0]  # no model is stored twice
    copy = clone(LoyaltyClassifier(LogisticRegression(), beta=[0.1, 0.2])).set_params(estimator__C=3.0)
    assert (copy.estimator.C, copy.beta) == (3.0, [0.1, 0.2])
    model.fit(X, y)
    assert not hasattr(model, "feature_names_in_")
    assert cross_val_score(clone(model), X_new, y_new, scoring=neg_aurc_scorer, cv=2).max() < 0


def test_sparse(four_classes):
    X, y, X_new, _ = four_classes
    X, X_new = np.where(np.abs(X) < 0.3, 0, X), np.where(np.abs(X_new) < 0.3, 0, X_new)
    for estimator in (QMSClassifier(n_components=3, random_state=0, scaling="common"), LogisticRegression()):
        model = LoyaltyClassifier(estimator, cv=2, random_state=0)
        dense = clone(model).fit(X.astype(np.float32), y).predict_loyalty(X_new.astype(np.float32))
        sparse = clone(model).fit(scipy.sparse.csr_matrix(X.astype(np.float32)), y)
        assert (sparse.predict_loyalty(scipy.sparse.csr_matrix(X_new.astype(np.float32))) == dense).mean() > 0.97


@pytest.mark.parametrize("estimator", [None, LinearSVC(), RandomForestClassifier(20, random_state=0)])
@pytest.mark.parametrize("two", [False, True])
def test_the_chance_of_the_answer_is_one_number(four_classes, estimator, two):
    X, y, X_new, _ = four_classes
    y = np.where(np.isin(y, ["ant", "bee"]), "ant", "dog") if two else y
    model = LoyaltyClassifier(estimator, cv=2, random_state=0).fit(X[:200], y[:200])
    label, _, score = model.assess(X_new)
    chances = model.predict_proba(X_new)
    np.testing.assert_array_equal(label, model.predict(X_new))
    np.testing.assert_array_equal(label, model.classes_[chances.argmax(axis=1)])
    np.testing.assert_array_equal(score, chances.max(axis=1))
    np.testing.assert_array_equal(score, model.loyalty_score(X_new))
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict_log_proba(X_new), np.log(chances))
    scores = model.decision_function(X_new)
    best = (scores > 0).astype(int) if two else scores.argmax(axis=1)
    np.testing.assert_array_equal(model.classes_[best], label)
    if two:
        assert score.min() >= 0.5


def test_no_type_of_two_classes_is_worth_less_than_a_coin():
    """Labels of noise: counts below a half happen, and are no estimate of what a likelier answer is worth."""
    rng = np.random.default_rng(0)
    for seed in range(5):
        X, y = rng.normal(size=(60, 2)), rng.integers(0, 2, 60)
        table = LoyaltyClassifier(LogisticRegression(), random_state=seed).fit(X, y).loyalty_table_
        assert (table.accuracy[table.count > 0] >= 0.5).all()


def test_a_class_that_a_fold_never_saw(four_classes):
    """One sample of a class: the fold that judges it has not learnt it, and says so by being wrong."""
    X, y, X_new, _ = four_classes
    rare = y.copy()
    rare[rare == "dog"] = "cat"
    rare[7] = "dog"
    for estimator in (None, LogisticRegression(), RandomForestClassifier(10, random_state=0), ClassWeightOnly()):
        model = LoyaltyClassifier(estimator, cv=3, random_state=0).fit(X, rare)
        assert model.classes_.tolist() == ["ant", "bee", "cat", "dog"]
        assert model.loyalty_score(X_new).shape == (400,)
        assert model.loyalty_table_.correct.sum() < 400


def test_a_perfect_record_is_no_certainty():
    X, y = make_blobs(60, centers=3, cluster_std=0.1, random_state=0)
    model = LoyaltyClassifier(LogisticRegression(), random_state=0).fit(X, y)
    assert model.loyalty_table_.overall_accuracy == 1
    assert (model.loyalty_score(X) < 1).all()
    assert model.loyalty_score(X).mean() > 0.9


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"beta": 1.0}, "beta of LoyaltyClassifier holds a class back"),
        ({"gamma": 1}, "gamma of LoyaltyClassifier pushes a class"),
        ({"estimator": KNeighborsClassifier()}, "KNeighborsClassifier takes neither sample_weight in fit nor the"),
        ({"estimator": make_pipeline(StandardScaler(), LogisticRegression())}, "around the last step of a pipeline"),
        (
            {"estimator": LinearRegression()},
            "estimator of LoyaltyClassifier must be a classifier; got LinearRegression",
        ),
        ({"estimator": QMSClassifier(noise=-1)}, "'noise' parameter of QMSClassifier must be"),
        ({"cv": 1}, "'cv' parameter of LoyaltyClassifier must be"),
        ({"altered_iter": 0}, "'altered_iter' parameter of LoyaltyClassifier must be"),
        ({"cv": [(np.arange(3), np.arange(3, 9))]}, "must train on at least 2 classes"),
    ],
)
def test_refusals_leave_the_last_fit_alone(parameters, message, four_classes):
    X, y, X_new, _ = four_classes
    y = np.where(np.arange(400) < 3, "ant", y)
    model = LoyaltyClassifier(LogisticRegression(), cv=2).fit(X, y)
    before = model.loyalty_score(X_new)
    unfitted = LoyaltyClassifier(LogisticRegression(), cv=2)
    for one in (model, unfitted):
        one.set_params(**parameters)
        with pytest.raises(ValueError, match=message):
            one.fit(X, y)
    assert not [name for name in vars(unfitted) if name.endswith("_")]
    np.testing.assert_array_equal(model.loyalty_score(X_new), before)


def test_refused_data(four_classes):
    X, y = four_classes[:2]
    with pytest.raises(ValueError, match="needs samples of at least 2 classes in y, of positive weight; got 1 class"):
        LoyaltyClassifier(LogisticRegression()).fit(X, y, sample_weight=y == "ant")
    with pytest.raises(
        ValueError, match="needs an estimator whose fit takes sample_weight, and ClassWeightOnly does not"
    ):
        LoyaltyClassifier(ClassWeightOnly()).fit(X, y, sample_weight=np.ones(400))
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        LoyaltyClassifier(LogisticRegression()).fit(X, y, sample_weight=-np.ones(400))
    with pytest.raises(ValueError, match="requires y to be passed"):
        LoyaltyClassifier(LogisticRegression()).fit(X, None)


def test_altered_models_of_ours_have_as_many_samples_as_the_nominal(monkeypatch):
    """A class of weight 20 is no table of counts: its samples are not cut into twenty."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 40)
    X = rng.normal(size=(120, 2)) + y[:, None]
    seen = []
    trained = Trainer.train

    def watched(trainer, *arguments, **named):
        seen.append(len(trainer.target))
        return trained(trainer, *arguments, **named)

    monkeypatch.setattr(Trainer, "train", watched)
    for model in (QMSClassifier(early_stopping=True, max_iter=2), QMSClassifierCV(noise=[1.0], cv=2, max_iter=2)):
        seen.clear()
        LoyaltyClassifier(model.set_params(random_state=0), cv=2, random_state=0).fit(X, y)
        assert max(seen) == 120
