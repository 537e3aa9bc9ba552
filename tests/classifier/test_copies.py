"""The same seed is the same model, at any number of threads; copies of a model are that model."""

import copy
import pickle

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from multiform import QMSClassifier
from multiform.testing import available_kernels

SOLVERS = ["adam", "cpm", "cpm-literal"]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
@pytest.mark.parametrize("solver", SOLVERS)
def test_same_seed_same_model_at_any_number_of_threads(digits, solver, dtype):
    X, y = digits
    X = X.astype(dtype)
    fits = [QMSClassifier(4, solver=solver, max_iter=2, n_jobs=n, random_state=3).fit(X, y) for n in (1, 2, 3)]
    for model in fits[1:]:
        np.testing.assert_array_equal(model.components_, fits[0].components_)
        np.testing.assert_array_equal(model.offsets_, fits[0].offsets_)
        np.testing.assert_array_equal(model.member_values(X), fits[0].member_values(X))
        assert model.temperature_ == fits[0].temperature_
        assert model.loss_curve_ == fits[0].loss_curve_


@pytest.mark.parametrize("solver", SOLVERS)
def test_same_seed_same_model_with_any_kernels(digits, solver, monkeypatch):
    """To the bit; but BLAS multiplies for Adam's portable kernels, and may round in another order than ours."""
    X, y = digits
    fits = {}
    for kernel in available_kernels():
        monkeypatch.setenv("MULTIFORM_KERNEL", kernel)
        fits[kernel] = QMSClassifier(4, solver=solver, max_iter=2, random_state=3).fit(X, y).components_
    portable, *own = fits.pop("portable"), *fits.values()
    for components in own:
        np.testing.assert_array_equal(components, own[0])
        np.testing.assert_allclose(components, portable, rtol=1e-3, atol=1e-6)
        if solver != "adam":
            np.testing.assert_array_equal(components, portable)


def test_the_reference_kernels_fit_too(blobs, monkeypatch):
    X, y = blobs
    compiled = QMSClassifier(2, max_iter=2, random_state=3).fit(X, y)
    monkeypatch.setenv("MULTIFORM_KERNEL", "reference")
    reference = QMSClassifier(2, max_iter=2, random_state=3).fit(X, y)
    np.testing.assert_allclose(reference.components_, compiled.components_, rtol=1e-2, atol=1e-3)


def test_another_seed_is_another_model(blobs):
    X, y = blobs
    one, other, one_again = (QMSClassifier(random_state=seed).fit(X, y) for seed in (0, 1, 0))
    assert not np.array_equal(one.components_, other.components_)
    np.testing.assert_array_equal(one.components_, one_again.components_)
    shared = np.random.RandomState(0)
    first, second = (QMSClassifier(random_state=shared).fit(X, y) for _ in range(2))
    assert not np.array_equal(first.components_, second.components_)


def by_joblib(model, tmp_path):
    joblib.dump(model, tmp_path / "model")
    return joblib.load(tmp_path / "model")


COPIES = {
    "pickle": lambda model, tmp_path: pickle.loads(pickle.dumps(model)),
    "joblib": by_joblib,
    "deepcopy": lambda model, tmp_path: copy.deepcopy(model),
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_copies_are_the_model(blobs, how, solver, tmp_path):
    X, y = blobs
    model = QMSClassifier(solver=solver, max_iter=2, random_state=0).fit(X, y)
    copied = COPIES[how](model, tmp_path)
    for held in (X, X.astype(np.float32)):
        np.testing.assert_array_equal(copied.predict_proba(held), model.predict_proba(held))
    assert copied.get_params() == model.get_params()


@pytest.mark.parametrize("how", COPIES)
def test_a_copied_stream_goes_on_alike(blobs, how, tmp_path):
    X, y = blobs
    model = QMSClassifier(random_state=0).partial_fit(X[:100], y[:100], classes=[0, 1, 2])
    copied = COPIES[how](model, tmp_path)
    for part in (slice(100, 200), slice(200, 300)):
        model.partial_fit(X[part], y[part])
        copied.partial_fit(X[part], y[part])
    np.testing.assert_array_equal(model.components_, copied.components_)


def test_clone_is_unfitted_with_the_same_parameters(blobs):
    X, y = blobs
    model = QMSClassifier(3, solver="cpm", noise=0.2, max_iter=2, random_state=0).fit(X, y)
    cloned = clone(model)
    assert not hasattr(cloned, "components_")
    np.testing.assert_array_equal(cloned.fit(X, y).components_, model.components_)


def test_parameters_are_not_touched_by_a_fit(blobs):
    X, y = blobs
    model = QMSClassifier(class_weight={0: 2.0}, random_state=np.random.RandomState(0))
    before = model.get_params()
    model.fit(X, y)
    assert all(model.get_params()[name] is value for name, value in before.items())


@pytest.mark.filterwarnings("ignore::multiform.folds.RepeatedRowsWarning")
def test_inside_scikit_learns_own_machinery(blobs):
    X, y = blobs
    assert cross_val_score(make_pipeline(StandardScaler(), QMSClassifier(random_state=0)), X, y, cv=3).mean() > 0.5
    search = GridSearchCV(QMSClassifier(random_state=0), {"noise": [0.1, 1.0]}, cv=2, n_jobs=2).fit(X, y)
    assert search.best_params_["noise"] in (0.1, 1.0)
    bagging = BaggingClassifier(QMSClassifier(max_iter=3), n_estimators=3, random_state=0).fit(X, y)
    assert bagging.score(X, y) > 0.5
