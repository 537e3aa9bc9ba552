"""sample_weight and class_weight: 0 is removed, 2 is repeated."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import make_blobs
from sklearn.utils.class_weight import compute_sample_weight

from multiform import QMSClassifier


@pytest.fixture(scope="module")
def weighted(blobs):
    X, y = blobs
    return X[:120], y[:120], np.random.default_rng(0).integers(0, 4, size=120)


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(300, n_features=4, centers=3, cluster_std=4.0, random_state=0)


KINDS = {"float64": np.float64, "float32": np.float32, "csr": lambda X: scipy.sparse.csr_matrix(X)}


@pytest.mark.filterwarnings("ignore::multiform.folds.RepeatedRowsWarning")  # which is what is asked for
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", ["cpm", "cpm-literal"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0}])
def test_weights_are_repetitions_exactly_for_cpm(weighted, solver, class_weight, kind):
    X, y, weight = weighted
    X = np.asarray(X, np.float32) if kind == "float32" else X
    settings = {"solver": solver, "class_weight": class_weight, "max_iter": 5, "random_state": 0}
    by_weight = QMSClassifier(**settings).fit(_of_kind(X, kind), y, sample_weight=weight)
    repeated = QMSClassifier(**settings).fit(_of_kind(np.repeat(X, weight, axis=0), kind), np.repeat(y, weight))
    np.testing.assert_allclose(by_weight.components_, repeated.components_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(by_weight.offsets_, repeated.offsets_, rtol=1e-6, atol=1e-9)


def _of_kind(X, kind):
    return scipy.sparse.csr_matrix(X) if kind == "csr" else np.asarray(X, np.float32 if kind == "float32" else None)


@pytest.mark.parametrize("solver", ["adam", "cpm", "cpm-literal"])
def test_weight_zero_is_removed_exactly(weighted, solver):
    X, y, _ = weighted
    mask = np.arange(120) % 3 > 0
    junk = X.copy()
    junk[~mask] = 1e6
    settings = {"solver": solver, "max_iter": 4, "random_state": 0}
    zero = QMSClassifier(**settings).fit(junk, y, sample_weight=mask * 1.0)
    removed = QMSClassifier(**settings).fit(X[mask], y[mask], sample_weight=np.ones(mask.sum()))
    np.testing.assert_array_equal(zero.components_, removed.components_)
    assert zero.temperature_ == removed.temperature_


@pytest.mark.filterwarnings("ignore::multiform.folds.RepeatedRowsWarning")
@pytest.mark.parametrize("solver", ["adam", "cpm"])
def test_the_unit_of_weights_does_not_matter(weighted, solver):
    X, y, weight = weighted
    settings = {"solver": solver, "max_iter": 4, "random_state": 0}
    one, many = (QMSClassifier(**settings).fit(X, y, sample_weight=weight * unit) for unit in (1.0, 1024.0))
    np.testing.assert_allclose(one.components_, many.components_, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("ignore::multiform.folds.RepeatedRowsWarning")
def test_weights_are_repetitions_in_distribution_for_adam(blobs):
    """Over seeds, weighted and repeated fits differ from each other no more than two repeated fits do."""
    X, y = blobs
    weight = np.random.default_rng(0).integers(0, 4, size=len(y))
    repeated_X, repeated_y = np.repeat(X, weight, axis=0), np.repeat(y, weight)
    fits = [
        (
            QMSClassifier(random_state=seed, calibrate=False).fit(X, y, sample_weight=weight),
            QMSClassifier(random_state=seed, calibrate=False).fit(repeated_X, repeated_y),
        )
        for seed in range(8)
    ]
    weighted, repeated = (
        np.array([model.decision_function(X) for model in models]) for models in zip(*fits, strict=True)
    )
    spread = repeated.std(axis=0).mean()
    assert np.abs(weighted.mean(axis=0) - repeated.mean(axis=0)).mean() < 1.5 * spread
    assert (weighted.mean(axis=0).argmax(axis=1) == repeated.mean(axis=0).argmax(axis=1)).mean() > 0.95
    unweighted = np.array(
        [QMSClassifier(random_state=seed, calibrate=False).fit(X, y).score(X, y, weight) for seed in range(8)]
    )
    scores = np.array([model.score(X, y, weight) for model, _ in fits])
    assert scores.mean() > unweighted.mean() - 0.01


@pytest.mark.parametrize("solver", ["adam", "cpm", "cpm-literal"])
def test_class_weight_is_sample_weight(blobs, solver):
    X, y = blobs
    keep = (y > 0) | (np.arange(300) % 5 == 0)
    X, y = X[keep], y[keep]
    settings = {"solver": solver, "max_iter": 4, "calibrate": False, "scaling": "none", "random_state": 0}
    for class_weight in ("balanced", {0: 5.0, 2: 0.5}):
        by_class = QMSClassifier(class_weight=class_weight, **settings).fit(X, y)
        by_sample = QMSClassifier(**settings).fit(X, y, sample_weight=compute_sample_weight(class_weight, y))
        agree = by_class.predict(X) == by_sample.predict(X)
        assert agree.mean() > 0.9


@pytest.mark.parametrize("solver", ["adam", "cpm"])
def test_class_weight_moves_the_border(blobs, solver):
    X, y = blobs
    shares = [
        (QMSClassifier(class_weight={0: w}, solver=solver, random_state=0).fit(X, y).predict(X) == 0).mean()
        for w in (0.05, 1.0, 20.0)
    ]
    assert shares[0] < shares[1] < shares[2]


def test_a_class_of_weight_zero_is_never_predicted_by_its_own_samples(blobs):
    """The paper's beta going to 0: the class keeps its separator but nobody asks for it."""
    X, y = blobs
    model = QMSClassifier(class_weight={1: 0.0}, random_state=0).fit(X, y)
    assert list(model.classes_) == [0, 1, 2]
    assert (model.predict(X) == 1).mean() < 0.2
