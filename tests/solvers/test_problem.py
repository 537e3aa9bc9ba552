"""Problems, batches, units, and what the core refuses."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

from multiform import _core
from multiform.engines import CpuEngine, column_moments, solve
from multiform.runtime import effective_threads, kernel_name, sgemm, threads_worth_waiting_for
from multiform.separators import Rows, Scaling, Separators, as_stored, noise_energy
from multiform.solvers import (
    AdamSolver,
    CpmSolver,
    ModelBatch,
)
from multiform.testing import STORAGES, available_kernels, sample_batch, sample_problem
from tests.named_engines import cpu


def core_rows(X):
    return cpu().core_rows(Rows(X, Scaling.identity(X.shape[1])))


def test_user_units_and_back():
    random = np.random.default_rng(0)
    weights = random.normal(size=(3, 2, 5)).astype(np.float32)
    center, scale = random.normal(size=4), random.uniform(0.1, 10, size=4)
    scaling = Scaling(center, scale)
    components, offsets = scaling.in_user_units(weights)
    np.testing.assert_allclose(scaling.from_user_units(components, offsets), weights, rtol=1e-5, atol=1e-6)
    x = random.normal(size=4)
    f = (((weights[:, :, :-1] @ ((x - center) / scale)) - weights[:, :, -1]) ** 2).sum(axis=1)
    np.testing.assert_allclose(((components @ x - offsets) ** 2).sum(axis=1), f, rtol=1e-5)


def test_user_units_of_some_columns():
    weights = np.ones((2, 1, 3), np.float32)
    scaling, columns = Scaling(np.zeros(4), np.full(4, 2.0)), np.array([1, 3], np.int32)
    components, _ = Separators(weights, scaling, 2, columns=columns).in_user_units()
    np.testing.assert_array_equal(components, np.tile([0, 0.5, 0, 0.5], (2, 1, 1)))


def test_a_column_of_infinite_scale_is_left_out():
    scaling = Scaling(np.array([5.0, 1.0]), np.array([np.inf, 1.0]))
    components, offsets = scaling.in_user_units(np.ones((2, 1, 3), np.float32))
    np.testing.assert_array_equal(components, np.tile([0, 1], (2, 1, 1)))
    np.testing.assert_array_equal(offsets, [[2], [2]])


def test_the_noise_energy_is_the_expected_value_over_noise():
    """E f(x + e) = f(x) + sigma^2 ||A||^2, here by a mean over many draws."""
    random = np.random.default_rng(1)
    weights = random.normal(size=(2, 3, 4)).astype(np.float32)
    x = random.normal(size=3)
    draws = x + 0.7 * random.normal(size=(200_000, 3))
    means = (((draws @ weights[:, :, :-1].transpose(0, 2, 1)) - weights[:, None, :, -1]) ** 2).sum(axis=2).mean(axis=1)
    separators = Separators(weights, Scaling.identity(3), 2, noise=noise_energy(weights, 0.7))
    np.testing.assert_allclose(separators.values(x[None, :], cpu())[0], means, rtol=0.02)
    np.testing.assert_allclose(separators.values(x[None, :].astype(np.float32), cpu())[0], means, rtol=0.02)
    components, offsets = separators.in_user_units()  # the energy is one constant row more
    assert components.shape == (2, 4, 3)
    np.testing.assert_allclose(((components @ x - offsets) ** 2).sum(axis=1), means, rtol=0.02)
    assert noise_energy(weights, 0.0) is None


@pytest.mark.parametrize("storage", STORAGES)
def test_the_start_vanishes_at_the_means(storage):
    """b_k = A_k mean_k: the mean of a class, weighted, has f_k = 0."""
    problem = sample_problem(storage)
    batch = sample_batch(problem)
    for member in range(3):
        weights = batch.initial_coefficients(problem, member)
        rows, share = problem.rows.scaled(np.arange(len(problem.target))), batch.sample_weight[member]
        for k in range(problem.n_classes):
            chosen = problem.target == k
            mean = np.average(rows[chosen], axis=0, weights=share[chosen])
            np.testing.assert_allclose(weights[k, :, :-1] @ mean, weights[k, :, -1], atol=1e-5)
        np.testing.assert_array_equal(weights, batch.initial_coefficients(problem, member))


@pytest.mark.parametrize("own", ["samples", "columns", "start", "nothing"])
def test_the_starts_of_a_batch_are_those_of_its_members(own):
    """Also where members share a seed, and so a draw; what one of them does to its own is not seen by another."""
    problem = sample_problem()
    batch = sample_batch(problem, some_columns=own == "columns", given_start=own == "start")
    batch = replace(batch, seed=np.array([3, 3, 5], dtype=np.uint64))
    if own == "nothing":
        batch = replace(batch, sample_weight=None)
    for member, weights in enumerate(batch.starts(problem)):
        np.testing.assert_array_equal(weights, batch.initial_coefficients(problem, member))
        weights[:] = np.nan


def test_the_core_reads_rows_of_a_wider_array():
    """A slice of columns has rows that are contiguous but apart."""
    wide = np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32)
    part = wide[::2, 2:6]
    weights = np.random.default_rng(1).normal(size=(2, 3, 5)).astype(np.float32)
    separators = Separators(weights, Scaling.identity(4), 2)
    apart, together = separators.values(part, cpu()), separators.values(np.ascontiguousarray(part), cpu())
    np.testing.assert_array_equal(apart, together)


@pytest.mark.parametrize("kernel", available_kernels())
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (40, 1), (15, 17), (33, 16), (300, 50)])
def test_the_core_reads_columns_as_they_lie(shape, dtype, kernel):
    """To the bit as rows: all of them, some, in another order, of some columns, and of columns with room in between."""
    random = np.random.default_rng(0)
    n, p = shape
    apart = random.uniform(0, 255, size=(p, n + 5)).astype(dtype)[:, 2 : n + 2].T
    rows = np.ascontiguousarray(apart)
    scaling = Scaling(random.normal(size=p), random.uniform(0.5, 2, size=p))
    for samples in (np.arange(n), random.permutation(n), random.integers(0, n, size=40)):
        found = [np.empty((len(samples), p + 1), np.float32) for _ in range(2)]
        for X, out in zip((apart, rows), found, strict=True):
            _core.gather_rows(cpu(kernel).core_rows(Rows(X, scaling)), samples.astype(np.int32), out)
        np.testing.assert_array_equal(*found)
    for columns in (None, np.arange(0, p, 3, dtype=np.int32)):
        weights = random.normal(size=(2, 3, (p if columns is None else len(columns)) + 1)).astype(np.float32)
        separators = Separators(weights, scaling, 2, columns=columns)
        assert as_stored(apart, by_column=True) is apart
        by_column, by_row = separators.values(apart, cpu(kernel, 2)), separators.values(rows, cpu(kernel, 2))
        np.testing.assert_array_equal(by_column, by_row)


@pytest.mark.parametrize("storage", STORAGES)
def test_gathered_rows(storage):
    problem = sample_problem(storage)
    samples = np.array([3, 0, 3, 59], np.int32)
    out = np.empty((4, problem.n_features + 1), np.float32)
    _core.gather_rows(cpu().core_rows(problem.rows), samples, out)
    np.testing.assert_allclose(out[:, :-1], problem.rows.scaled(samples), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(out[:, -1], -1)


def test_column_moments():
    X = np.random.default_rng(0).normal(3, 2, size=(9000, 5)).astype(np.float32)
    mean, variance, least, most = np.empty(5), np.empty(5), np.empty(5, np.float32), np.empty(5, np.float32)
    _core.column_moments(core_rows(X), 2, mean, variance, least, most)
    np.testing.assert_allclose(mean, X.mean(axis=0, dtype=np.float64))
    np.testing.assert_allclose(variance, X.var(axis=0, dtype=np.float64))
    np.testing.assert_array_equal(least, X.min(axis=0))
    np.testing.assert_array_equal(most, X.max(axis=0))


def test_rows_without_columns_in_order_are_summed_by_place():
    """An empty sparse row is a row of zeros."""
    X = scipy.sparse.csr_matrix(np.array([[0, 0], [0, 2], [1, 0]], np.float32))
    weights = np.array([[[1, 1, 1]]], np.float32)
    f = Separators(weights, Scaling.identity(2), 1).values(X, cpu())
    np.testing.assert_array_equal(f, [[1], [1], [0]])


def plain(problem, **changes):
    m = problem.n_classes
    fields = {
        "n_components": 2,
        "alpha": 0.5,
        "class_weight": np.ones((1, m), np.float32),
        "noise": np.zeros(1, np.float32),
        "seed": np.zeros(1, np.uint64),
    }
    return ModelBatch(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"class_weight": np.ones((1, 7), np.float32)}, "one class weight per class"),
        ({"sample_weight": np.ones((1, 5), np.float32), "start": [np.ones((3, 2, 6), np.float32)]}, "weight per row"),
        ({"start": [np.ones((3, 2, 9), np.float32)]}, r"\(classes, components, features \+ 1\)"),
        (
            {"columns": [np.array([0, 77], np.int32)], "start": [np.ones((3, 2, 3), np.float32)]},
            "a selected column is out of range",
        ),
    ],
)
@pytest.mark.parametrize("solver", [AdamSolver(1), CpmSolver(1)], ids=["adam", "cpm"])
def test_the_core_refuses_what_does_not_fit(solver, changes, message):
    problem = sample_problem()
    with pytest.raises(ValueError, match=message):
        solve(problem, plain(problem, **changes), solver, cpu("portable"))


def test_the_core_refuses_bad_rows():
    X = np.zeros((4, 3), np.float32)
    with pytest.raises(ValueError, match="a target is out of range"):
        _core.problem(core_rows(X), np.full(4, 9, np.int32), 2, sgemm())
    with pytest.raises(ValueError, match="one target per row"):
        _core.problem(core_rows(X), np.zeros(9, np.int32), 2, sgemm())
    with pytest.raises(ValueError, match="one value per column"):
        cpu().core_rows(Rows(X, Scaling.identity(2)))
    with pytest.raises(ValueError, match="no scaling yet"):
        _core.problem(_core.dense_rows(X), np.zeros(4, np.int32), 2, sgemm())
    with pytest.raises(TypeError, match="float32 or uint8"):
        core_rows(X.astype(np.float64))
    with pytest.raises(ValueError, match="rows, or columns, must be contiguous"):
        core_rows(np.zeros((8, 6), np.float32)[::2, ::2])
    with pytest.raises(ValueError, match="rows must be contiguous"):
        _core.problem(core_rows(np.asfortranarray(X)), np.zeros(4, np.int32), 2, sgemm())
    with pytest.raises(ValueError, match="rows must be contiguous"):
        column_moments(np.asfortranarray(X), 1)
    with pytest.raises(ValueError, match="no kernels named 'sse'"):
        _core.dense_rows(X, "sse")
    with pytest.raises(ValueError, match="a sample is out of range"):
        _core.gather_rows(core_rows(X), np.array([4], np.int32), np.empty((1, 4), np.float32))


def test_unknown_kernel(monkeypatch):
    monkeypatch.setenv("MULTIFORM_KERNEL", "mmx")
    with pytest.raises(ValueError, match=r"MULTIFORM_KERNEL must be one of auto, reference.*got 'mmx'"):
        kernel_name()


def test_threads(monkeypatch):
    monkeypatch.setattr("multiform.runtime._cores", lambda *limits: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert effective_threads(None) == 8
    assert effective_threads(3) == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "2,1")
    assert effective_threads(None) == 2
    assert effective_threads(5) == 5
    with pytest.raises(ValueError, match="n_jobs must be None or an integer that is not 0; got 0"):
        effective_threads(0)


def test_after_pass_ends_the_training():
    problem = sample_problem()
    for solver in (AdamSolver(50), CpmSolver(50)):
        seen = []
        state = solve(
            problem, plain(problem), solver, cpu(), after_pass=lambda s, seen=seen: len(seen) > 2 or seen.append(1)
        )
        assert state.passes == 4
        assert len(state.losses[0]) == 4


def test_a_slice_of_time_changes_nothing():
    """The core may be called back after any time; the model is the same as in one go."""
    problem = sample_problem(n_samples=400, n_features=20)
    batch = plain(problem, n_components=3, noise=np.full(1, 0.2, np.float32))
    for solver in (AdamSolver(3, batch_size=16), CpmSolver(3).literal(), CpmSolver(3)):
        whole = solve(problem, batch, solver, cpu("portable", 2))
        sliced = cpu("portable", 2).begin(problem, batch, solver)
        calls = 0
        while sliced.passes < 3:
            sliced.advance(3, 0.0)
            calls += 1
        assert calls > 3
        np.testing.assert_array_equal(whole.coefficients[0], sliced.coefficients[0])


def test_a_small_problem_wakes_few_threads(monkeypatch):
    assert [threads_worth_waiting_for(16, work) for work in (0, 4e5, 6e5, 2e6, 1e12)] == [1, 1, 2, 3, 16]
    used, train = [], _core.train_adam
    monkeypatch.setattr(_core, "train_adam", lambda members, n, *rest: (used.append(n), train(members, n, *rest)))
    problem = sample_problem()
    solve(problem, sample_batch(problem), AdamSolver(2), CpuEngine(n_threads=16))
    assert set(used) == {3}  # its three members stand side by side
