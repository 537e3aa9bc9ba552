"""Learning in parts: partial_fit, warm_start, early_stopping."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from multiform import QMSClassifier
from tests.classifier.test_errors import assert_same_state, fitted_state


@pytest.fixture(scope="module")
def stream():
    X, y = make_blobs(3000, n_features=8, centers=4, cluster_std=5.0, random_state=0)
    return train_test_split(X.astype(np.float32), y, test_size=1000, random_state=0)


# ----------------------------------------------------------------------------------------------------- partial_fit


def test_a_stream_learns_about_as_well_as_a_fit(stream):
    X, X_test, y, y_test = stream
    model = QMSClassifier(random_state=0)
    for part in np.split(np.arange(2000), 20):
        model.partial_fit(X[part], y[part], classes=np.arange(4))
    whole = QMSClassifier(random_state=0).fit(X, y)
    assert model.score(X_test, y_test) > whole.score(X_test, y_test) - 0.04
    assert model.n_iter_ == 20
    assert len(model.loss_curve_) == 20
    assert log_loss(y_test, model.predict_proba(X_test)) < log_loss(y_test, whole.predict_proba(X_test)) + 0.1
    uncalibrated = clone(model).set_params(calibrate=False)
    for part in np.split(np.arange(2000), 20):
        uncalibrated.partial_fit(X[part], y[part], classes=np.arange(4))
    assert uncalibrated.temperature_ == 1.0
    assert log_loss(y_test, model.predict_proba(X_test)) < log_loss(y_test, uncalibrated.predict_proba(X_test))


def test_more_data_are_better(stream):
    X, X_test, y, y_test = stream
    model, scores = QMSClassifier(random_state=0), []
    for part in np.split(np.arange(2000), 50):
        model.partial_fit(X[part], y[part], classes=np.arange(4))
        scores.append(model.score(X_test, y_test))
    assert np.mean(scores[-10:]) > np.mean(scores[:5]) + 0.02


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_stream_after_a_fit_goes_on_from_it(stream, dtype):
    X, X_test, y, y_test = stream
    model = QMSClassifier(random_state=0).fit(X[:1000].astype(dtype), y[:1000])
    before = model.score(X_test, y_test)
    model.partial_fit(X[1000:].astype(dtype), y[1000:])
    assert model.score(X_test, y_test) > before - 0.05


def test_classes_of_a_stream(stream):
    X, _, y, _ = stream
    with pytest.raises(ValueError, match="classes must be given on the first call of partial_fit"):
        QMSClassifier().partial_fit(X, y)
    model = QMSClassifier(random_state=0).partial_fit(X[:50], np.minimum(y[:50], 2), classes=[3, 1, 2, 0])
    np.testing.assert_array_equal(model.classes_, [0, 1, 2, 3])
    before = fitted_state(model)
    with pytest.raises(ValueError, match="classes must be those of the first call"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="holds a label that is not in classes"):
        model.partial_fit(X, y + 1)
    with pytest.raises(ValueError, match="X has 2 features"):
        model.partial_fit(X[:, :2], y)
    assert_same_state(before, fitted_state(model))
    model.partial_fit(X[50:300], y[50:300], classes=[0, 1, 2, 3])
    assert 3 in model.predict(X)


def test_one_class_at_a_time():
    """A chunk may hold one class only."""
    X, y = make_blobs(200, centers=2, cluster_std=1.0, random_state=3)
    model = QMSClassifier(random_state=0)
    for _ in range(5):
        for k in (0, 1):
            model.partial_fit(X[y == k], y[y == k], classes=[0, 1])
    assert np.isfinite(model.member_values(X)).all()
    assert model.score(X, y) > 0.75


def test_one_sample_at_a_time():
    X, y = make_blobs(60, centers=2, cluster_std=1.0, random_state=3)
    model = QMSClassifier(scaling="none", random_state=0)
    for i in range(60):
        model.partial_fit(X[i : i + 1], y[i : i + 1], classes=[0, 1])
    assert model.score(X, y) > 0.9


def test_weights_of_a_stream(stream):
    """Weight 0 is removed in a stream as well."""
    X, _, y, _ = stream
    mask = np.arange(400) % 2 == 0
    junk = np.where(mask[:, None], X[:400], 1e5).astype(np.float32)
    zero = QMSClassifier(random_state=0).partial_fit(junk, y[:400], np.arange(4), sample_weight=mask * 1.0)
    removed = QMSClassifier(random_state=0).partial_fit(X[:400][mask], y[:400][mask], np.arange(4), np.ones(200))
    np.testing.assert_array_equal(zero.components_, removed.components_)


def test_partial_fit_needs_adam():
    assert hasattr(QMSClassifier(), "partial_fit")
    for solver in ("cpm", "cpm-literal"):
        assert not hasattr(QMSClassifier(solver=solver), "partial_fit")


# ------------------------------------------------------------------------------------------------------ warm_start


@pytest.mark.parametrize("solver", ["adam", "cpm", "cpm-literal"])
def test_warm_start_goes_on(stream, solver):
    """The second fit begins where the first ended: its first loss is lower than that of a cold fit."""
    X, _, y, _ = stream
    model = QMSClassifier(noise=0.35, solver=solver, max_iter=3, warm_start=True, random_state=0).fit(X, y)
    first = model.loss_curve_
    second = model.fit(X, y).loss_curve_
    assert second[0] < first[0]
    assert second[-1] < first[-1] * 1.02
    cold = clone(model).set_params(warm_start=False).fit(X, y)
    np.testing.assert_allclose(cold.loss_curve_, first)


def test_a_warm_literal_cpm_never_raises_its_loss(blobs):
    X, y = blobs
    model = QMSClassifier(solver="cpm-literal", max_iter=2, warm_start=True, calibrate=False, random_state=0)
    losses = np.concatenate([model.fit(X, y).loss_curve_ for _ in range(4)])
    assert (np.diff(losses) <= 1e-5 * losses[:-1]).all()


def test_warm_start_without_a_fit_is_a_cold_one(blobs):
    X, y = blobs
    warm = QMSClassifier(warm_start=True, random_state=0).fit(X, y)
    np.testing.assert_array_equal(warm.components_, QMSClassifier(random_state=0).fit(X, y).components_)


def test_warm_start_that_does_not_fit(blobs):
    X, y = blobs
    model = QMSClassifier(warm_start=True, max_iter=2, random_state=0).fit(X, y)
    before = fitted_state(model)
    with pytest.raises(ValueError, match="warm_start of QMSClassifier needs the classes of the last fit"):
        model.fit(X, y + 1)
    with pytest.raises(ValueError, match=r"warm_start of QMSClassifier needs .* features of the last fit"):
        model.fit(X[:, :3], y)
    with pytest.raises(ValueError, match=r"warm_start of QMSClassifier needs .* features of the last fit"):
        model.set_params(n_components=4).fit(X, y)
    assert_same_state(before, fitted_state(model))


# -------------------------------------------------------------------------------------------------- early stopping


@pytest.mark.parametrize("solver", ["adam", "cpm"])
def test_early_stopping_on_a_part_of_the_data(stream, solver):
    X, X_test, y, y_test = stream
    model = QMSClassifier(solver=solver, early_stopping=True, max_iter=200, random_state=0).fit(X, y)
    assert model.n_iter_ < 200
    assert len(model.validation_scores_) == model.n_iter_
    assert model.best_validation_score_ == max(model.validation_scores_)
    # stopped because the last n_iter_no_change passes brought nothing
    assert max(model.validation_scores_[-3:]) <= max(model.validation_scores_[:-3]) + 1e-4
    assert (
        model.score(X_test, y_test)
        > QMSClassifier(solver=solver, random_state=0).fit(X, y).score(X_test, y_test) - 0.04
    )


def test_early_stopping_on_given_data(stream):
    X, X_val, y, y_val = stream
    model = QMSClassifier(early_stopping=True, max_iter=100, random_state=0).fit(X, y, X_val=X_val, y_val=y_val)
    assert model.n_iter_ < 100
    assert model.score(X_val, y_val) == pytest.approx(model.best_validation_score_)


def test_given_validation_data_are_not_trained_on(stream):
    """Labels of the validation data turned round: the training is the same, only the stop differs."""
    X, X_val, y, y_val = stream
    settings = {"early_stopping": True, "max_iter": 4, "n_iter_no_change": 9, "calibrate": False, "random_state": 0}
    right = QMSClassifier(**settings).fit(X, y, X_val=X_val, y_val=y_val)
    wrong = QMSClassifier(**settings).fit(X, y, X_val=X_val, y_val=(y_val + 1) % 4)
    assert right.loss_curve_ == wrong.loss_curve_


def test_early_stopping_in_text(stream):
    X, X_val, y, y_val = stream
    names = np.array(["ant", "bee", "cat", "dog"])
    model = QMSClassifier(early_stopping=True, max_iter=20, random_state=0)
    model.fit(X, names[y], X_val=X_val, y_val=names[y_val])
    assert model.score(X_val, names[y_val]) == pytest.approx(model.best_validation_score_)


def test_patience(stream):
    X, X_val, y, y_val = stream
    passes = [
        QMSClassifier(early_stopping=True, n_iter_no_change=patience, max_iter=60, random_state=0)
        .fit(X, y, X_val=X_val, y_val=y_val)
        .n_iter_
        for patience in (1, 10)
    ]
    assert passes[0] < passes[1]
    assert passes[1] > 10


def test_cpm_ends_when_its_loss_no_longer_falls(blobs):
    X, y = blobs
    model = QMSClassifier(solver="cpm", max_iter=500, tol=1e-3, random_state=0).fit(X, y)
    assert model.n_iter_ < 500
    longer = QMSClassifier(solver="cpm", max_iter=500, tol=1e-5, random_state=0).fit(X, y)
    assert longer.n_iter_ > model.n_iter_


def test_the_best_model_is_kept(stream):
    """The model that is returned is the one of the best pass, not of the last."""
    X, X_val, y, y_val = stream
    model = QMSClassifier(early_stopping=True, noise=0.0, learning_rate=0.5, max_iter=30, random_state=0)
    model.fit(X, y, X_val=X_val, y_val=y_val)
    assert model.score(X_val, y_val) == pytest.approx(max(model.validation_scores_))
    assert model.validation_scores_[-1] < max(model.validation_scores_)
