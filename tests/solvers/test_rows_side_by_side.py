"""Rows that the kernels take several at a time, and those that they leave out, count as if each stood alone."""

import numpy as np
import pytest

from multiform.engines import CpuEngine, ReferenceEngine, solve
from multiform.engines.cpu import _core, own_threads_alone
from multiform.separators import Rows, Scaling
from multiform.solvers import AdamSolver, ModelBatch, TrainingProblem

KERNELS = _core.available_kernels()


def trained(engine, n_components, batch_size, n_classes, n_samples=37, n_features=6):
    """Some steps over samples of which many are separated soon, so that slopes of theirs are 0."""
    random = np.random.default_rng(n_components)
    target = np.arange(n_samples, dtype=np.int32) % n_classes
    X = (random.normal(size=(n_samples, n_features)) + 2 * random.normal(size=(n_classes, n_features))[target]).astype(
        np.float32
    )
    problem = TrainingProblem(Rows(X, Scaling(X.mean(axis=0), X.std(axis=0))), target, n_classes)
    weight = (1 + np.arange(n_samples) % 3).astype(np.float32)
    one = np.ones((1, n_classes), np.float32), np.array([0.2], np.float32), np.zeros(1, np.uint64)
    batch = ModelBatch(n_components, 0.5, *one, sample_weight=weight)
    return solve(problem, batch, AdamSolver(3, batch_size, revisit=1.0), engine)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n_components", [1, 3, 4, 7, 11, 16, 18, 23])
@pytest.mark.parametrize(("batch_size", "n_classes"), [(1, 2), (7, 3), (37, 12)])
def test_any_number_of_rows_and_components_is_trained_as_the_twin_does(kernel, n_components, batch_size, n_classes):
    found = trained(CpuEngine(kernel), n_components, batch_size, n_classes)
    expected = trained(ReferenceEngine(), n_components, batch_size, n_classes)
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-4)
    np.testing.assert_allclose(found.coefficients[0], expected.coefficients[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kernel", KERNELS)
def test_blas_is_held_back_where_the_core_calls_it(kernel, monkeypatch):
    held = []
    monkeypatch.setattr("multiform.engines.cpu.single_threaded_blas", lambda: held.append(kernel))
    own_threads_alone(_core.dense_rows(np.zeros((2, 2), np.float32), kernel))
    assert held == ["portable"] * (kernel == "portable")
