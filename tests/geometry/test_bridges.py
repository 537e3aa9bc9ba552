"""Bridges: a scikit-learn classifier and its separators decide alike; a QMSClassifier can start there."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.linear_model import (
    LogisticRegression,
    Perceptron,
    RidgeClassifier,
    RidgeClassifierCV,
    SGDClassifier,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, PolynomialFeatures, RobustScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC

from multiform.geometry import (
    certified_radius,
    pairwise_from_separators,
    qms_from_estimator,
    qms_from_separators,
    separators_from_estimator,
    separators_from_pairwise,
)

# Whether scikit-learn's solvers converged is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

ESTIMATORS = {
    "qda": QuadraticDiscriminantAnalysis(),
    "qda, regularised": QuadraticDiscriminantAnalysis(reg_param=0.3),
    "lda": LinearDiscriminantAnalysis(),
    "lda, shrunk": LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
    "naive bayes": GaussianNB(),
    "logistic regression": LogisticRegression(max_iter=1000),
    "logistic regression, no intercept": LogisticRegression(fit_intercept=False, max_iter=1000),
    "nearest centroid": NearestCentroid(),
    "nearest centroid, shrunk": NearestCentroid(shrink_threshold=0.5),
    "nearest centroid, priors": NearestCentroid(priors="empirical"),
    "ridge": RidgeClassifier(),
    "ridge, cross-validated": RidgeClassifierCV(),
    "sgd": SGDClassifier(random_state=0),
    "perceptron": Perceptron(random_state=0),
    "linear svc": LinearSVC(random_state=0),
    "scaled logistic": make_pipeline(StandardScaler(), LogisticRegression()),
    "not centred": make_pipeline(StandardScaler(with_mean=False), "passthrough", LogisticRegression(max_iter=1000)),
    "not scaled": make_pipeline(StandardScaler(with_std=False), LogisticRegression(max_iter=1000)),
    "min-max qda": make_pipeline(MinMaxScaler(), QuadraticDiscriminantAnalysis()),
    "robust bayes": make_pipeline(RobustScaler(), GaussianNB()),
    "max-abs centroid": make_pipeline(MaxAbsScaler(), NearestCentroid()),
    "pca qda": make_pipeline(StandardScaler(), PCA(2, whiten=True), QuadraticDiscriminantAnalysis()),
    "pca logistic": make_pipeline(PCA(2), LogisticRegression()),
}


def make_data(m: int, p: int, seed: int, n: int = 240) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping classes of unequal size and shape, in mixed units."""
    rng = np.random.default_rng(seed)
    X, y = make_blobs(n_samples=n, n_features=p, centers=m, cluster_std=rng.uniform(2, 6, m), random_state=seed)
    keep = rng.random(n) < np.linspace(0.4, 1.0, m)[y]
    X = (X @ rng.normal(size=(p, p)) + rng.normal(size=p)) * 10.0 ** rng.uniform(-1, 1, p)
    return X[keep], np.array([f"class {k}" for k in range(m)])[y[keep]]


def scores_nearly_equal(estimator, X: np.ndarray) -> np.ndarray:
    """Where the two best scores of the estimator agree up to rounding, either decision is right."""
    if not hasattr(estimator, "decision_function") and not hasattr(estimator, "predict_joint_log_proba"):
        return np.zeros(len(X), dtype=bool)
    score = getattr(estimator, "decision_function", None) or estimator.predict_joint_log_proba
    scores = score(X)
    if scores.ndim == 1:
        return np.abs(scores) < 1e-9
    best = np.sort(scores, axis=1)
    return best[:, -1] - best[:, -2] < 1e-9 * (1 + np.abs(best[:, -1]))


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize(("m", "p"), [(2, 3), (4, 3), (3, 6)])
def test_same_decisions_on_random_data(name, m, p):
    X, y = make_data(m, p, seed=m + p)
    estimator = ESTIMATORS[name].fit(X, y)
    rng = np.random.default_rng(0)
    # Training data, their surroundings, and far away.
    everywhere = np.vstack(
        [X, X + X.std(axis=0) * rng.normal(size=X.shape), X.mean(axis=0) + 20 * (X - X.mean(axis=0))]
    )
    separators = separators_from_estimator(estimator)
    model = qms_from_estimator(estimator)
    tied = scores_nearly_equal(estimator, everywhere)
    expected = estimator.predict(everywhere)
    assert np.array_equal(separators.predict(everywhere)[~tied], expected[~tied])
    assert np.array_equal(model.predict(everywhere)[~tied], expected[~tied])
    assert model.n_components == model.components_.shape[1]


def test_linear_scores_take_one_row_less_than_classes():
    X, y = make_data(4, 6, seed=1)
    separators = separators_from_estimator(LogisticRegression(max_iter=1000).fit(X, y))
    assert separators.n_components == 3
    assert separators_from_estimator(NearestCentroid().fit(X, y)).n_components == 3


def test_member_values_of_qda_are_its_scores():
    """f_k is -2 log posterior up to a constant common to all classes."""
    X, y = make_data(3, 4, seed=2)
    qda = QuadraticDiscriminantAnalysis().fit(X, y)
    gap = separators_from_estimator(qda).member_values(X) + 2 * qda.decision_function(X)
    np.testing.assert_allclose(gap, np.broadcast_to(gap[:, :1], gap.shape), rtol=1e-9, atol=1e-9)


def test_radius_of_logistic_regression_is_its_margin():
    X, y = make_data(2, 5, seed=3)
    estimator = LogisticRegression(max_iter=1000).fit(X, y)
    margin = np.abs(estimator.decision_function(X)) / np.linalg.norm(estimator.coef_)
    np.testing.assert_allclose(certified_radius(qms_from_estimator(estimator), X), margin, rtol=1e-6, atol=1e-9)


def test_bridge_is_a_warm_start():
    """A fit that hardly moves keeps the decisions it started from; the same fit from scratch does not."""
    X, y = make_data(3, 4, seed=4, n=600)
    qda = QuadraticDiscriminantAnalysis().fit(X, y)
    hardly = {"max_iter": 1, "learning_rate": 1e-6, "noise": 0.0, "random_state": 0}
    warm = qms_from_estimator(qda).set_params(warm_start=True, **hardly).fit(X, y)
    cold = qms_from_estimator(qda).set_params(warm_start=False, **hardly).fit(X, y)
    assert np.mean(warm.predict(X) == qda.predict(X)) > 0.99
    assert np.mean(cold.predict(X) == qda.predict(X)) < 0.9


def test_classifier_to_boundaries_and_back():
    """QMSClassifier -> pairwise boundaries -> separators -> QMSClassifier with the same decisions."""
    X, y = make_data(3, 4, seed=5)
    model = qms_from_estimator(GaussianNB().fit(X, y))
    h = pairwise_from_separators(model)
    for (i, j), boundary in h.items():
        rows = np.isin(model.predict(X), [i, j])
        assert np.array_equal(boundary(X[rows]) < 0, model.predict(X[rows]) == i)
    again = qms_from_separators(separators_from_pairwise(h))
    assert np.array_equal(again.predict(X), model.predict(X))


def test_feature_names_travel():
    pandas = pytest.importorskip("pandas")
    X, y = make_data(2, 3, seed=6)
    table = pandas.DataFrame(X, columns=["age", "chol", "bp"])
    model = qms_from_estimator(make_pipeline(StandardScaler(), LogisticRegression()).fit(table, y))
    assert list(model.feature_names_in_) == ["age", "chol", "bp"]
    assert np.isinf(certified_radius(model, X, features=["age"])).sum() < len(X)
    assert np.all(certified_radius(model, table, features=["age"]) >= certified_radius(model, table))


def test_classes_are_sorted_for_the_classifier():
    X, y = make_data(3, 2, seed=7)
    separators = separators_from_estimator(NearestCentroid().fit(X, y))
    backwards = {label: separators[label] for label in reversed(separators.classes.tolist())}
    model = qms_from_separators(backwards)
    assert model.classes_.tolist() == sorted(backwards)
    assert np.array_equal(model.predict(X), separators.predict(X))
    with pytest.raises(ValueError, match="labels must be comparable"):
        qms_from_separators({1: separators["class 0"], "b": separators["class 1"]})


@pytest.mark.parametrize(
    ("estimator", "error", "message"),
    [
        (KNeighborsClassifier(), TypeError, "separators can be made from .*; got KNeighborsClassifier"),
        (SVC(kernel="linear"), TypeError, "got SVC"),
        (NearestCentroid(metric="manhattan"), ValueError, 'only with metric="euclidean"'),
        (GaussianNB(priors=[1.0, 0.0]), ValueError, "class priors must all be > 0"),
        (make_pipeline(PolynomialFeatures(), LogisticRegression(max_iter=5000)), TypeError, "are affine"),
        (make_pipeline(MinMaxScaler(clip=True), GaussianNB()), TypeError, "without clipping"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_what_cannot_cross_is_refused(estimator, error, message):
    X, y = make_data(2, 3, seed=8)
    estimator.fit(X, y)
    with pytest.raises(error, match=message):
        separators_from_estimator(estimator)


def test_unfitted_estimators_are_refused():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError, match="not fitted yet"):
        separators_from_estimator(GaussianNB())
