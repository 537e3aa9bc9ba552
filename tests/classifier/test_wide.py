"""Wide data, many classes, small data: the default is sound, or says that it is not."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from benchmarks.shapes import linear, many_classes
from multiform import QMSClassifier, QMSClassifierCV
from multiform.fitting import OverfittedWarning


@pytest.mark.parametrize("solver", ["adam", "cpm"])
def test_wide_data_with_a_linear_target(solver):
    """Where features outnumber samples, close to logistic regression (a start at random: .35 and less)."""
    X, y, X_new, y_new = linear(300, 400, 3, np.random.default_rng(0))
    peer = LogisticRegression().fit(X, y).score(X_new, y_new)
    model = QMSClassifier(solver=solver, random_state=0).fit(X, y)
    assert model.score(X_new, y_new) > peer - 0.04 > 0.45


@pytest.mark.slow
@pytest.mark.parametrize("p", [500, 2_000])
def test_wide_data_as_in_the_benchmark(p):
    ours, theirs = [], []
    for seed in range(3):
        X, y, X_new, y_new = linear(1_000, p, 3, np.random.default_rng(seed))
        ours.append(QMSClassifier(random_state=0).fit(X, y).score(X_new, y_new))
        theirs.append(LogisticRegression().fit(X, y).score(X_new, y_new))
    assert np.mean(ours) > np.mean(theirs) - 0.02


def test_many_classes_of_a_few_samples():
    X, y, X_new, y_new = many_classes(5, 20, 60, np.random.default_rng(0))
    peer = LogisticRegression().fit(X, y).score(X_new, y_new)
    assert QMSClassifier(random_state=0).fit(X, y).score(X_new, y_new) > peer - 0.03


def test_the_ensemble_reaches_the_noise_that_wide_data_want():
    X, y, X_new, y_new = linear(200, 300, 2, np.random.default_rng(0))
    model = QMSClassifierCV(cv=2, encodings="plain", random_state=0).fit(X, y)
    assert model.cv_results_["noise"] == [1.0, 2.0, 3.0]
    assert model.score(X_new, y_new) > LogisticRegression().fit(X, y).score(X_new, y_new) - 0.03
    narrow = QMSClassifierCV(cv=2, encodings="plain", partners=None, random_state=0).fit(X[:, :3], y)
    assert narrow.cv_results_["noise"] == [0.1, 0.3, 1.0, 2.0]


def test_what_was_learnt_by_heart_is_no_answer_and_the_fit_says_so():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(300, 100)), random.integers(0, 2, 300)  # nothing to learn
    with pytest.warns(OverfittedWarning, match=r"right on 100% of its training samples.*Try QMSClassifierCV"):
        QMSClassifier(noise=0.1, random_state=0).fit(X, y)
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        QMSClassifier(noise=0.1, random_state=0).fit(X, y)


def test_noise_is_chosen_by_default():
    """Structure wants little, noisy labels much."""
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 2))
    clean = ((X**2).sum(axis=1) < 1.4).astype(int)
    noisy = np.where(random.random(300) < 0.35, random.integers(0, 2, 300), X[:, 0] > 0).astype(int)
    levels = [QMSClassifier(random_state=0).fit(X, y).noise_ for y in (clean, noisy)]
    assert levels[0] < levels[1]
    assert QMSClassifier(calibrate=False, random_state=0).fit(X, clean).noise_ == 0.35  # nothing to choose by
    assert QMSClassifier(noise=0.7, random_state=0).fit(X, clean).noise_ == 0.7


def test_a_second_fit_does_not_remember_the_first_ones_noise():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(200, 3)), random.integers(0, 2, 200)
    X[:, 0] += y
    model = QMSClassifier(random_state=0).fit(X, y)
    model.set_params(calibrate=False).fit(X, y)
    assert model.noise_ == 0.35
