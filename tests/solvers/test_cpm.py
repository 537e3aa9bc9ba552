"""What the departures from the literal CPM buy, and what they may not cost."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_classification

from multiform.engines import ReferenceEngine, solve
from multiform.separators import Rows, Scaling
from multiform.solvers import CpmSolver, ModelBatch, TrainingProblem
from multiform.testing import exact_loss, loss_at_equal_work, sample_batch, sample_problem
from tests.named_engines import cpu


def standardised(X, y):
    X = ((X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-6)).astype(np.float32)
    p = X.shape[1]
    return TrainingProblem(Rows(X, Scaling.identity(p)), y.astype(np.int32), int(y.max()) + 1)


def plain_batch(problem, seed=0, q=8):
    ones = np.ones((1, problem.n_classes), np.float32)
    return ModelBatch(q, 0.5, ones, np.zeros(1, np.float32), np.array([seed], np.uint64))


def far_batch(problem, seed=0, q=8):
    """Started at random: from the discriminant start there is so little left to win that all ends are alike."""
    m, p = problem.n_classes, problem.n_features
    start = np.random.default_rng(seed).normal(size=(m, q, p + 1)).astype(np.float32) / np.float32(np.sqrt(p))
    return replace(plain_batch(problem, seed, q), start=[start])


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_fast_cpm_ends_below_the_literal_one_at_equal_work(seed):
    """Many samples that overlap: the capped, active, row-synchronous sweeps are worth more than what they leave out."""
    X, y = make_classification(20_000, 20, n_informative=10, n_classes=5, flip_y=0.1, random_state=seed)
    problem = standardised(X, y)
    batch = far_batch(problem, seed)
    for n_sweeps in (1, 4):
        literal = solve(problem, batch, CpmSolver(n_sweeps).literal(), cpu())
        fast = loss_at_equal_work(problem, batch, CpmSolver(1), literal.counts["looked"])
        assert fast < exact_loss(problem, batch, literal.coefficients[0])


def test_fast_cpm_starts_faster_on_small_data():
    """At the work of one literal sweep, less than two thirds of its excess over the floor (m - 1) alpha is left."""
    problem = standardised(*load_breast_cancer(return_X_y=True))
    batch, n = far_batch(problem), len(problem.target)
    solver = CpmSolver(1, step=0.3, largest=2.0, slack=0.8, max_entries=n // 4, ramp=1)
    literal = solve(problem, batch, solver.literal(), cpu())
    fast = loss_at_equal_work(problem, batch, solver, literal.counts["looked"])
    floor = n * (problem.n_classes - 1) * 0.5
    assert fast - floor < 0.67 * (exact_loss(problem, batch, literal.coefficients[0]) - floor)


@pytest.mark.parametrize("load", [load_iris, load_breast_cancer])
@pytest.mark.parametrize("n_sweeps", [3, 10])
def test_row_synchronous_cpm_over_active_samples_ends_below_the_literal_one(load, n_sweeps):
    """At equal work, on real sets. `python -m benchmarks cpm` has many more."""
    problem = standardised(*load(return_X_y=True))
    batch = far_batch(problem)
    literal = solve(problem, batch, CpmSolver(n_sweeps).literal(), cpu())
    synchronous = replace(CpmSolver(1).literal(), synchronous=True, slack=0.8)
    after = loss_at_equal_work(problem, batch, synchronous, literal.counts["looked"])
    assert after < exact_loss(problem, batch, literal.coefficients[0])


def test_work_counts_every_sample_of_every_point():
    """All columns are dense here, so a literal point looks at all samples (padded to whole vectors) of its class."""
    problem = standardised(*load_wine(return_X_y=True))
    state = solve(problem, plain_batch(problem), CpmSolver(2).literal(), cpu())
    n = len(problem.target)
    assert n * state.counts["tried"] <= state.counts["looked"] <= (n + 2 * 16) * state.counts["tried"]


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
def test_row_synchronous_sweeps_alone_cost_nothing(load):
    """As many sweeps over all samples, classes side by side or one after the other: the same loss within 1 %."""
    problem = standardised(*load(return_X_y=True))
    batch = plain_batch(problem)
    for n_sweeps in (1, 2, 4):
        literal = solve(problem, batch, CpmSolver(n_sweeps).literal(), cpu())
        synchronous = solve(problem, batch, replace(CpmSolver(n_sweeps).literal(), synchronous=True), cpu())
        before = exact_loss(problem, batch, literal.coefficients[0])
        assert exact_loss(problem, batch, synchronous.coefficients[0]) < 1.01 * before


def test_at_most_two_points_a_coordinate():
    problem = sample_problem()
    batch = sample_batch(problem)
    coordinates = sum(weights.size for weights in solve(problem, batch, CpmSolver(1), cpu()).coefficients)
    for n_sweeps in (1, 3):
        state = solve(problem, batch, CpmSolver(n_sweeps).literal(), cpu())
        assert n_sweeps * coordinates <= state.counts["tried"] <= 2 * n_sweeps * coordinates
        assert state.counts["accepted"] <= n_sweeps * coordinates


def test_literal_turns_every_departure_off():
    literal = CpmSolver(3, step=0.1, grow=1.2).literal()
    assert literal == CpmSolver(
        3, step=0.1, grow=1.2, synchronous=False, frozen_own=False, slack=0, revisit=1, max_entries=0, ramp=1
    )


@pytest.mark.parametrize("kernel", ["reference", "portable"])
def test_perturbations_keep_their_limits(kernel):
    """One sweep moves a coordinate by at most one perturbation, which never passes `largest`."""
    problem = sample_problem()
    batch = sample_batch(problem, given_start=True)
    solver = CpmSolver(1, step=0.3, grow=10.0, largest=0.35).literal()
    before = solve(problem, batch, solver, cpu(kernel)).coefficients[0]
    for n_sweeps in (2, 3, 4):
        after = solve(problem, batch, replace(solver, n_passes=n_sweeps), cpu(kernel)).coefficients[0]
        moves = np.abs(after - before)
        assert moves[:, :, :-1].max() <= 0.35 / np.sqrt(problem.n_features) * (1 + 1e-4)
        assert moves[:, :, -1].max() <= 0.35 * (1 + 1e-4)
        before = after


@pytest.mark.parametrize("storage", ["float32", "uint8"])
def test_a_class_without_an_active_sample_of_its_own(storage):
    """One sample fills the sweep: the other classes have nothing of their own to look at."""
    problem = sample_problem(storage)
    solver = CpmSolver(5, max_entries=1)
    state = solve(problem, sample_batch(problem), solver, cpu("portable", 2))
    twin = solve(problem, sample_batch(problem), solver, ReferenceEngine())
    for mine, its in zip(state.coefficients, twin.coefficients, strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-3, atol=1e-4)
