"""On a real GPU: `make test-gpu`. The installed checks, the estimators, arrays that live there, threads, interrupts."""

import threading

import numpy as np
import pytest
from sklearn.base import clone

from multiform import DiagnosisPlanner, LoyaltyClassifier, QMSClassifier, QMSClassifierCV
from multiform.engines import solve
from multiform.engines.cuda import CudaEngine
from multiform.solvers import AdamSolver, CpmSolver, ModelBatch
from multiform.testing import (
    SOLVERS,
    STORAGES,
    check_engine,
    check_parity,
    check_same_bits,
    exact_loss,
    sample_batch,
    sample_problem,
    values_of,
)
from tests.named_engines import cpu

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif("not __import__('multiform.engines.cuda', fromlist=['']).cuda_is_there()", reason="no GPU"),
]

every_setting = pytest.mark.parametrize("setting", [{}, {"small": False}, {"clusters": False}], ids=str)


@every_setting
def test_every_installed_check(setting):
    check_engine(CudaEngine("cuda", **setting))


@every_setting
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_columns_and_starts(setting, storage, solver):
    check_parity(CudaEngine("cuda", **setting), storage, solver, some_columns=True, given_start=True)


@pytest.mark.parametrize(
    ("n_samples", "n_features", "n_classes", "n_components"),
    [(1, 3, 2, 2), (40, 1, 2, 1), (300, 5, 100, 2), (50, 5_000, 3, 2), (500, 33, 4, 1), (200, 20, 3, 40)],
)
@pytest.mark.parametrize("solver", ["adam", "cpm"])
def test_odd_shapes(n_samples, n_features, n_classes, n_components, solver):
    problem = sample_problem("float32", n_samples=n_samples, n_features=n_features, n_classes=n_classes)
    problem.rows.scaling.scale[-1] = np.inf  # a column that never varies
    weight, noise = np.ones((1, n_classes), np.float32), np.array([0.2], np.float32)
    batch = ModelBatch(n_components, 0.5, weight, noise, np.array([3], np.uint64))
    method = AdamSolver(2, 64) if solver == "adam" else CpmSolver(1).literal()
    ours, theirs = (solve(problem, batch, method, engine) for engine in (CudaEngine("cuda"), cpu()))
    np.testing.assert_allclose(ours.losses[0], theirs.losses[0], rtol=2e-3)
    # Where nothing is left to gain a move hangs on rounding; those few coordinates may differ.
    same = np.isclose(ours.coefficients[0], theirs.coefficients[0], rtol=2e-2, atol=2e-3)
    assert same.mean() > 0.95
    losses = [exact_loss(problem, batch, state.coefficients[0]) for state in (ours, theirs)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=5e-3)


@every_setting
@pytest.mark.parametrize("solver", ["adam", "cpm, all departures"])
def test_the_same_bits_every_time(setting, solver):
    check_same_bits([CudaEngine("cuda", **setting) for _ in range(3)], "uint8", solver)


@pytest.mark.parametrize("solver", ["adam", "cpm, all departures"])
def test_streamed_rows_give_the_same_bits(monkeypatch, solver):
    problem = sample_problem("uint8", n_samples=3_000, n_features=500)
    batch = sample_batch(problem)
    whole = solve(problem, batch, SOLVERS[solver], CudaEngine("cuda", small=False))
    monkeypatch.setattr("multiform.engines.cuda.storage.ROOM_FOR_X", 0.0)
    streamed = solve(problem, batch, SOLVERS[solver], CudaEngine("cuda", small=False))
    for mine, its in zip(streamed.coefficients, whole.coefficients, strict=True):
        np.testing.assert_array_equal(mine, its)
    f = values_of(problem, whole.coefficients[0], CudaEngine("cuda"))
    monkeypatch.setattr("multiform.engines.cuda.storage.ROOM_FOR_X", 0.6)
    np.testing.assert_array_equal(f, values_of(problem, whole.coefficients[0], CudaEngine("cuda")))


@pytest.mark.parametrize("solver", ["adam", "cpm", "cpm-literal"])
def test_classifier(digits, solver):
    model = QMSClassifier(solver=solver, random_state=0, max_iter=5)
    gpu, cpu = (clone(model).set_params(device=device).fit(*digits) for device in ("cuda", "cpu"))
    assert abs(gpu.score(*digits) - cpu.score(*digits)) < 0.02
    sure, as_sure = (model.predict_proba(digits[0]).max(axis=1).mean() for model in (gpu, cpu))
    assert abs(sure - as_sure) < 0.02


def test_estimators_above(digits):
    X, y = digits
    cv = QMSClassifierCV(device="cuda", random_state=0, max_iter=10).fit(X, y)
    assert cv.oof_accuracy_ > 0.9
    loyal = LoyaltyClassifier(QMSClassifier(device="cuda", random_state=0), random_state=0).fit(X, y)
    assert loyal.score(X, y) > 0.95


def test_plan():
    """The evidence sets of a plan are a batch like any other."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    X = rng.normal(size=(400, 5)) + y[:, None] * np.array([0.3, 0.6, 1.0, 1.5, 2.5])
    costs = {f"x{i}": float(i + 1) for i in range(5)}
    gpu, cpu = (
        DiagnosisPlanner(costs, estimator=QMSClassifier(device=device), random_state=0).fit(X, y)
        for device in ("cuda", "cpu")
    )
    assert abs(gpu.theta_ - cpu.theta_) < 0.02
    assert gpu.certificate_.optimal
    assert abs(gpu.acquire(X).cost.mean() / cpu.acquire(X).cost.mean() - 1) < 0.1


@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_arrays_of_the_gpu_are_answered_there(digits, library):
    arrays = pytest.importorskip(library)
    X, y = digits
    there = arrays.asarray(X) if library == "cupy" else arrays.as_tensor(X, device="cuda")
    model = QMSClassifier(device="cuda", random_state=0).fit(there, y)
    same = QMSClassifier(device="cuda", random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.components_, same.components_)
    for method in ("member_values", "predict", "decision_function", "predict_proba"):
        answer = getattr(model, method)(there)
        assert hasattr(answer, "__cuda_array_interface__"), method
        np.testing.assert_allclose(answer.get(), getattr(model, method)(X), rtol=1e-4, atol=1e-5)
    labels = arrays.asarray(y) if library == "cupy" else arrays.as_tensor(y, device="cuda")
    assert model.score(there, labels) == model.score(X, y)
    again = QMSClassifier(device="cuda", random_state=0).fit(there, labels)
    np.testing.assert_array_equal(again.components_, same.components_)
    with pytest.raises(ValueError, match="X has 63 features, but QMSClassifier is expecting 64"):
        model.predict(there[:, 1:])


def test_two_threads_do_not_mix():
    problem = sample_problem("uint8", n_samples=2_000, n_features=40)
    batch = sample_batch(problem)
    names = ("adam", "cpm, all departures")
    alone = {name: solve(problem, batch, SOLVERS[name], CudaEngine("cuda")).coefficients for name in names}
    found, threads = {}, []
    for name in alone:
        for turn in range(2):

            def work(name=name, turn=turn):
                found[name, turn] = solve(problem, batch, SOLVERS[name], CudaEngine("cuda")).coefficients

            threads.append(threading.Thread(target=work))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for (name, _), weights in found.items():
        for mine, its in zip(weights, alone[name], strict=True):
            np.testing.assert_array_equal(mine, its)
    assert len(found) == 4


@pytest.mark.parametrize("solver", [AdamSolver(50, 64), CpmSolver(50)], ids=["adam", "cpm"])
def test_an_interrupt_frees_the_device(solver):
    import cupy

    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.used_bytes()

    def interrupt(state):
        raise KeyboardInterrupt

    source = sample_problem("uint8", n_samples=20_000, n_features=300)
    with pytest.raises(KeyboardInterrupt):
        solve(source, sample_batch(source), solver, CudaEngine("cuda"), after_pass=interrupt)
    assert pool.used_bytes() == before


def test_too_large_a_batch_is_said():
    problem = sample_problem("uint8")
    with pytest.raises(MemoryError, match=r"need about .* GB on the GPU, which has .* GB for them: train fewer"):
        solve(problem, sample_batch(problem), SOLVERS["adam"], CudaEngine("cuda", small=False, memory=9_000))


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["adam", "cpm"])
def test_fashion_mnist_is_as_accurate_as_on_the_cpu(solver):
    """Mean accuracy of five seeds within 0.15 points of the CPU's."""
    from multiform.datasets import load_fashion_mnist

    try:
        X, y, X_test, y_test = load_fashion_mnist()
    except OSError:
        pytest.skip("Fashion-MNIST is not on this machine (set MULTIFORM_FASHION_MNIST)")
    means = [
        np.mean(
            [
                QMSClassifier(solver=solver, device=device, random_state=seed, calibrate=False)
                .fit(X, y)
                .score(X_test, y_test)
                for seed in range(5)
            ]
        )
        for device in ("cuda", "cpu")
    ]
    assert abs(means[0] - means[1]) < 0.0015
