"""Sparse rows in Adam by rows and in CPM, against their twins, which are dense, on every kernel and storage."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

from multiform import _core
from multiform.engines import ReferenceEngine, solve
from multiform.runtime import sgemm
from multiform.separators import Rows, Scaling
from multiform.solvers import AdamSolver, ModelBatch, TrainingProblem
from multiform.testing import (
    CPU_SOLVERS,
    STORAGES,
    available_kernels,
    check_batch_equals_singles,
    check_parity,
    check_same_bits,
    sample_batch,
    sample_problem,
)
from tests.named_engines import cpu

BY_ROW = [name for name in CPU_SOLVERS if "by row" in name]
COMPILED = [cpu(kernel, n_threads) for kernel in available_kernels() for n_threads in (1, 2, 3)]


def sparse_problem(n=120, p=300, m=3, seed=0):
    """Two values in a hundred, and one column that is stored everywhere and centred."""
    random = np.random.default_rng(seed)
    X = scipy.sparse.random(n, p, density=0.02, format="lil", random_state=random)
    X[:, [7]] = 1000 + random.normal(size=(n, 1))
    X = X.tocsr().astype(np.float32)
    center = np.zeros(p)
    center[7] = 1000
    return TrainingProblem(Rows(X, Scaling(center, np.full(p, 0.2))), (np.arange(n) % m).astype(np.int32), m)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("solver", BY_ROW)
def test_same_steps_as_the_twin(solver, storage):
    check_parity(cpu(n_threads=2), storage, solver)
    check_parity(cpu("portable"), storage, solver, some_columns=True, given_start=True)


@pytest.mark.slow
@pytest.mark.parametrize("engine", COMPILED, ids=str)
def test_every_engine_against_the_twin(engine):
    for storage in STORAGES:
        for solver in BY_ROW:
            check_parity(engine, storage, solver)
            check_parity(engine, storage, solver, n_samples=150, n_features=850)


@pytest.mark.parametrize("storage", STORAGES)
def test_kernels_and_threads_agree_to_the_bit(storage):
    check_same_bits(COMPILED, storage, "adam, by row")
    check_same_bits(COMPILED, storage, "adam, by row", n_samples=60, n_features=9, n_classes=30)


def test_a_member_is_what_it_is_alone():
    check_batch_equals_singles(cpu(n_threads=2), "adam, by row")


@pytest.mark.parametrize("noise", [0.0, 0.3, 10.0])
def test_few_entries_and_a_centred_column(noise):
    """With strong noise the factors of the rows go far, and are multiplied out on the way."""
    problem = sparse_problem()
    assert problem.rows.sparse
    ones = np.ones((1, 3), np.float32)
    batch = ModelBatch(2, 0.5, ones, np.array([noise], np.float32), np.zeros(1, np.uint64))
    solver = AdamSolver(30 if noise else 5, batch_size=20, learning_rate=0.05, by_row=True)
    ours, twin = (solve(problem, batch, solver, engine) for engine in (cpu(n_threads=2), ReferenceEngine()))
    np.testing.assert_allclose(ours.coefficients[0], twin.coefficients[0], rtol=5e-3, atol=5e-4)
    np.testing.assert_allclose(ours.losses[0], twin.losses[0], rtol=1e-3)


@pytest.mark.parametrize("noise", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("solver", ["cpm, frozen_own", "cpm, all departures"])
def test_cpm_looks_at_entries_alone(solver, noise):
    """The same moves as the twin, and in each of them at few samples of many."""
    problem = sparse_problem()
    ones = np.ones((1, 3), np.float32)
    batch = ModelBatch(2, 0.5, ones, np.array([noise], np.float32), np.zeros(1, np.uint64))
    twin = solve(problem, batch, CPU_SOLVERS[solver], ReferenceEngine())
    first, *others = (solve(problem, batch, CPU_SOLVERS[solver], engine) for engine in COMPILED)
    assert first.counts["accepted"] == twin.counts["accepted"]
    assert first.counts["looked"] < 0.4 * twin.counts["looked"]
    np.testing.assert_allclose(first.coefficients[0], twin.coefficients[0], rtol=2e-3, atol=2e-4)
    for other in others:
        np.testing.assert_array_equal(other.coefficients[0], first.coefficients[0])


def test_a_column_nobody_has_only_shrinks():
    """What the noise takes from a row, it takes from the columns that no batch has touched as well, in proportion."""
    problem = sparse_problem()
    X = problem.rows.stored.tolil()
    X[:, [3, 4]] = 0
    problem = replace(problem, rows=Rows(X.tocsr(), problem.rows.scaling))
    start = np.random.default_rng(0).normal(size=(3, 2, 301)).astype(np.float32)
    ones = np.ones((1, 3), np.float32)
    batch = ModelBatch(2, 0.5, ones, np.array([3.0], np.float32), np.zeros(1, np.uint64), start=[start])
    after = solve(problem, batch, AdamSolver(3, batch_size=16, by_row=True), cpu()).coefficients[0]
    kept = after[:, :, 3] / start[:, :, 3]
    assert (kept < 0.999).any()
    np.testing.assert_allclose(after[:, :, 4] / start[:, :, 4], kept, rtol=1e-4)


def test_going_on_from_moments():
    problem = sample_problem("csr")
    batch = sample_batch(problem, given_start=True)
    solver = AdamSolver(2, batch_size=16, by_row=True)
    states = []
    for engine in (cpu(), ReferenceEngine()):
        first = solve(problem, batch, solver, engine)
        assert first.moments[0][0].shape == (3, 3, 0)
        assert first.moments[0][1].shape == (3, 3)
        again = replace(batch, start=first.coefficients)
        states.append(solve(problem, again, solver, engine, moments=first.moments))
    for mine, its in zip(states[0].coefficients, states[1].coefficients, strict=True):
        np.testing.assert_allclose(mine, its, rtol=2e-3, atol=2e-4)
    assert states[0].moments[0][2] == states[1].moments[0][2]


def test_the_core_refuses_moments_of_another_shape():
    problem = sample_problem("csr")
    made = _core.problem(cpu().core_rows(problem.rows), problem.target, 3, sgemm())
    weights, second = np.zeros((3, 2, 6), np.float32), np.zeros((3, 1), np.float32)
    settings = {"alpha": 0.5, "noise": 0.1, "seed": 0, "batch_size": 8, "n_passes": 1, "learning_rate": 0.1}
    settings |= {"beta2": 0.99, "epsilon": 1e-8, "revisit": 1.0, "final_rate": 0.0, "steps": 0}
    with pytest.raises(ValueError, match="second moments must have the shape"):
        _core.sparse_adam_member(made, weights, second, None, None, np.ones(3, np.float32), **settings)
