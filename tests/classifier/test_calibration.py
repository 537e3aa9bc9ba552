"""Chances that mean what they say, fitted on samples the model did not see."""

from unittest import mock

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from multiform import QMSClassifier, QMSClassifierCV
from multiform.engines import CpuEngine
from multiform.fitting import best_calibrated
from multiform.prediction import class_offsets, fit_temperature, log_scores, probabilities
from multiform.training import Trained


def overlapping(n, seed=0):
    X, y = make_blobs(n + 5000, n_features=6, centers=3, cluster_std=6.0, random_state=seed)
    return train_test_split(X, y, train_size=n, random_state=seed)


def calibration_error(chances, y, n_bins=10):
    """Expected calibration error: |accuracy - confidence| in bins of confidence, weighted by their share."""
    confidence, right = chances.max(axis=1), chances.argmax(axis=1) == y
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    return sum(
        (bins == b).mean() * abs(right[bins == b].mean() - confidence[bins == b].mean()) for b in np.unique(bins)
    )


@pytest.mark.parametrize("solver", ["adam", "cpm"])
@pytest.mark.parametrize("n", [300, 3000, 21_000])
def test_chances_on_unseen_samples(n, solver):
    """Four models below 400 samples, one from there on, a held-out part from 20,000: calibrated in each way."""
    X, X_test, y, y_test = overlapping(n)
    model = QMSClassifier(solver=solver, random_state=0).fit(X, y)
    chances = model.predict_proba(X_test)
    np.testing.assert_allclose(chances.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(chances.argmax(axis=1), model.predict(X_test))
    plain = probabilities(log_scores(model.member_values(X_test)), 1.0)
    assert log_loss(y_test, chances) < log_loss(y_test, plain)
    assert calibration_error(chances, y_test) < (0.08 if n == 300 else 0.04)


@pytest.mark.parametrize("early_stopping", [False, True])
def test_without_calibration(blobs, early_stopping):
    X, y = blobs
    model = QMSClassifier(calibrate=False, early_stopping=early_stopping, random_state=0).fit(X, y)
    assert model.temperature_ == 1.0
    f = model.member_values(X)
    np.testing.assert_allclose(model.predict_proba(X), (1 / f) / (1 / f).sum(axis=1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))


def test_calibration_does_not_change_the_model_of_a_small_set(blobs):
    X, y = blobs
    model = QMSClassifier(X.shape[1], noise=0.35, random_state=0).fit(X, y)
    plain = clone(model).set_params(calibrate=False).fit(X, y)
    np.testing.assert_array_equal(model.components_, plain.components_)
    assert model.temperature_ != 1.0


def test_models_of_p_and_one_rows_are_the_model_together(blobs):
    """f_k of the model is the mean of f_k of those that have left an eighth out, each over its level; in p + 1 rows."""
    X, y = blobs
    in_one = Trained.in_one
    with (
        mock.patch.object(Trained, "in_one", autospec=True, side_effect=in_one) as together,
        mock.patch("multiform.fitting.class_offsets", return_value=np.zeros(3)),
    ):
        model = QMSClassifier(noise=0.35, random_state=0).fit(X, y)
    trained, members = together.call_args.args
    assert len(members) == 8
    values = [trained.separators(member).values(X, CpuEngine()) for member in members]
    parts = [f / np.exp(np.log(f).mean()) for f in values]
    f, expected = model.member_values(X), np.mean(parts, axis=0)
    assert model.components_.shape[1] == X.shape[1] + 2  # and a row for the noise
    np.testing.assert_allclose(f / f.mean(), expected / expected.mean(), rtol=1e-3)


def test_temperature_on_a_validation_part():
    X, X_test, y, y_test = overlapping(2000)
    model = QMSClassifier(early_stopping=True, random_state=0).fit(X, y)
    plain = probabilities(log_scores(model.member_values(X_test)), 1.0)
    assert log_loss(y_test, model.predict_proba(X_test)) < log_loss(y_test, plain)


@pytest.mark.parametrize("temperature", [0.2, 1.0, 5.0])
def test_the_temperature_is_found(temperature):
    random = np.random.default_rng(0)
    scores = random.normal(size=(20_000, 4))
    chances = probabilities(scores, temperature)
    target = (random.random((20_000, 1)) > chances.cumsum(axis=1)).sum(axis=1)
    assert fit_temperature(scores, target) == pytest.approx(temperature, rel=0.1)
    weight = random.integers(0, 3, 20_000)
    repeated = fit_temperature(np.repeat(scores, weight, axis=0), np.repeat(target, weight))
    assert fit_temperature(scores, target, weight) == pytest.approx(repeated, rel=1e-6)


def test_perfect_separation_is_not_certainty():
    """Ten samples, all right: the chance of an error is not 0."""
    scores = np.repeat(np.array([[1.0, -1.0], [-1.0, 1.0]]), 5, axis=0)
    temperature = fit_temperature(scores, np.repeat([0, 1], 5))
    assert 0.8 < probabilities(scores, temperature).max() < 0.99


def test_scores_that_are_all_wrong_or_all_equal():
    scores = np.repeat(np.array([[1.0, -1.0], [-1.0, 1.0]]), 50, axis=0)
    assert probabilities(scores, fit_temperature(scores, np.repeat([1, 0], 50))).max() < 0.52
    np.testing.assert_allclose(
        probabilities(np.zeros((4, 2)), fit_temperature(np.zeros((4, 2)), np.zeros(4, int))), 0.5
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_the_best_of_several_models_has_the_least_log_loss_at_its_own_temperature(weighted):
    random = np.random.default_rng(3)
    scores, target = random.normal(size=(4, 60, 3)), random.integers(0, 3, 60)
    scores[2, np.arange(60), target] += 1.5
    weight = random.random(60) + 0.1 if weighted else None
    losses = []
    for one in scores:
        chances = np.exp(one / fit_temperature(one, target, weight))
        own = chances[np.arange(60), target] / chances.sum(axis=1)
        losses.append(-np.average(np.log(own), weights=weight))
    best, temperature = best_calibrated(scores, target, weight)
    assert best == np.argmin(losses) == 2
    assert temperature == pytest.approx(fit_temperature(scores[2], target, weight))


def test_many_samples_choose_by_some_and_are_judged_by_all(monkeypatch):
    X, _, y, _ = overlapping(900)
    whole = QMSClassifierCV(encodings="plain", partners=None, random_state=0).fit(X, y)
    monkeypatch.setattr("multiform.selection.ENOUGH_TO_CHOOSE", 300)
    some = QMSClassifierCV(encodings="plain", partners=None, random_state=0).fit(X, y)
    # Which class a setting finds likeliest does not depend on the choice, so its accuracy over all samples is the same.
    assert some.cv_results_["accuracy"] == whole.cv_results_["accuracy"]
    assert some.cv_results_["temperature"] != whole.cv_results_["temperature"]
    np.testing.assert_allclose(some.cv_results_["temperature"], whole.cv_results_["temperature"], rtol=0.3)
    np.testing.assert_allclose(some.cv_results_["log_loss"], whole.cv_results_["log_loss"], rtol=0.02)
    assert sum(some.cv_results_["share"]) == pytest.approx(1)


def test_what_scores_of_each_class_lack():
    """A restatement: b minimises log loss + |b|^2 / (2 / 4) at the temperature of the least log loss; it is T b."""
    random = np.random.default_rng(0)
    scores = 2 * random.normal(size=(300, 3)) + [0.7, 0.0, -0.4]
    target, weight = random.integers(0, 3, 300), random.uniform(0.2, 1.8, 300)
    T = fit_temperature(scores, target, weight)

    def loss(b):
        return -weight @ log_softmax(scores / T + b, axis=1)[np.arange(300), target] + 2 * b @ b

    found = class_offsets(scores, target, weight, 100)
    expected = T * minimize(loss, np.zeros(3), tol=1e-12).x
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.abs(found).max() > 0.3
    # Few samples move little, bounds are kept, and a class that nobody has is no infinity.
    assert np.abs(class_offsets(scores, target, weight / 1000, 100)).max() < 0.05 * T
    np.testing.assert_array_equal(class_offsets(scores, target, weight, 0.1), np.clip(found, -0.1, 0.1))
    np.testing.assert_allclose(class_offsets(scores / T, target, weight, 100, 1.0), found / T, atol=1e-9)
    alone = class_offsets(scores, np.zeros(300, int), weight, 100)
    assert np.isfinite(alone).all()
    assert alone[0] == alone.max()


def named_too_often(n, seed=0):
    """Classes 1:4 that one column hardly tells apart."""
    random = np.random.default_rng(seed)
    y = (random.random(n) < 0.2).astype(int)
    return random.normal(size=(n, 3)) + 0.5 * y[:, None], y


def test_no_class_is_named_too_often():
    X, y = named_too_often(500)
    X_new, y_new = named_too_often(20_000, seed=1)
    settings = {"partners": None, "encodings": "plain", "random_state": 0}
    with mock.patch("multiform.selection.class_offsets", return_value=np.zeros(2)):
        without = QMSClassifierCV(**settings).fit(X, y)
    model = QMSClassifierCV(**settings).fit(X, y)
    chances = model.predict_proba(X_new)
    assert chances[:, 1].mean() == pytest.approx(y.mean(), abs=0.02)
    assert log_loss(y_new, chances) < log_loss(y_new, without.predict_proba(X_new))
    np.testing.assert_array_equal(chances.argmax(axis=1), model.predict(X_new))
    # Class weights are not undone: classes that weigh alike are named alike often.
    balanced = QMSClassifierCV(class_weight="balanced", **settings).fit(X, y).predict_proba(X_new)
    assert np.mean([balanced[y_new == k, 1].mean() for k in (0, 1)]) == pytest.approx(0.5, abs=0.04)
    # A fold of whole groups has classes as its groups have them: nothing is learnt from that.
    groups = np.arange(500)
    with mock.patch("multiform.selection.class_offsets", side_effect=AssertionError):
        QMSClassifierCV(**settings).fit(X, y, groups=groups)


@pytest.mark.parametrize("n", [300, 1500])
def test_no_class_is_named_too_often_by_one_model(n):
    """Its member functions are those of the models together, each of a class times what unseen samples say."""
    settings = {"noise": 0.35, "random_state": 0}
    seeds = range(6)
    drawn = [named_too_often(n, seed) for seed in seeds]
    X_new, y_new = named_too_often(20_000, seed=100)
    with mock.patch("multiform.fitting.class_offsets", return_value=np.zeros(2)):
        without = [QMSClassifier(**settings).fit(*one) for one in drawn]
    models = [QMSClassifier(**settings).fit(*one) for one in drawn]
    times = models[0].member_values(X_new) / without[0].member_values(X_new)
    np.testing.assert_allclose(times, np.broadcast_to(times[0], times.shape), rtol=1e-3)
    assert abs(np.log(times[0] / times[0, ::-1])).max() > 0.01
    losses = [np.mean([log_loss(y_new, model.predict_proba(X_new)) for model in some]) for some in (models, without)]
    assert losses[0] < losses[1]
    named = np.mean([model.predict_proba(X_new)[:, 1].mean() for model in models])
    assert named == pytest.approx(0.2, abs=0.02)
    gap = np.mean([model.oof_accuracy_ - model.score(X_new, y_new) for model in models])
    assert abs(gap) < 3 * np.sqrt(0.16 / (len(models) * models[0].oof_samples_)) + 0.005
    # A model that trained on all samples is as the loss has it, and so is one of whole groups.
    with mock.patch("multiform.fitting.class_offsets", side_effect=AssertionError):
        QMSClassifier(2, **settings).fit(*drawn[0])
        QMSClassifier(**settings).fit(*drawn[0], groups=np.arange(n))
