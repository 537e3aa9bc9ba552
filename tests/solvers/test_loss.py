"""The loss (2.2), its slope and its coordinate differences, against the paper's formula restated here."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from multiform.engines import solve
from multiform.engines.reference import ratio_loss
from multiform.separators import Rows, Scaling
from multiform.solvers import AdamSolver, CpmSolver, ModelBatch, TrainingProblem
from multiform.testing import available_kernels, exact_loss, sample_batch, sample_problem
from tests.named_engines import cpu

ENGINES = ["reference", *available_kernels()]


def member_function(A, b, x, noise=0.0):
    return np.sum((A @ x - b) ** 2) + noise**2 * np.sum(A**2)


def paper_loss(weights, X, target, alpha, weight, noise=0.0):
    """phi = sum_x sum_{j != i} max(alpha, f_i(x) / f_j(x)), one term after the other."""
    loss = 0.0
    for x, i, w in zip(X, target, weight, strict=True):
        f = [member_function(separator[:, :-1], separator[:, -1], x, noise) for separator in weights]
        loss += w * sum(max(alpha, f[i] / f[j]) for j in range(len(f)) if j != i)
    return loss


def rows_of(problem):
    X, scaling = problem.rows
    X = X.toarray() if hasattr(X, "toarray") else X
    return (X.astype(np.float64) - scaling.center) / scaling.scale


@pytest.fixture
def one_member():
    problem = sample_problem(n_samples=30)
    batch = sample_batch(problem, given_start=True)
    weight = batch.class_weight[2][problem.target].astype(np.float64) * batch.sample_weight[2]
    single = replace(
        batch,
        class_weight=batch.class_weight[2:],
        noise=np.array([0.3], np.float32),
        seed=batch.seed[2:],
        sample_weight=batch.sample_weight[2:],
        start=batch.start[2:],
    )
    return problem, single, weight


def test_restatements_agree(one_member):
    problem, batch, weight = one_member
    separators = batch.start[0].astype(np.float64)
    ours = paper_loss(separators, rows_of(problem), problem.target, batch.alpha, weight, noise=0.3)
    assert exact_loss(problem, batch, batch.start[0]) == pytest.approx(ours, rel=1e-5)


@given(seed=st.integers(0, 2**31), alpha=st.sampled_from([0.0, 0.3, 0.5, 0.9]), m=st.integers(2, 5))
def test_slope_of_the_ratio_loss(seed, alpha, m):
    random = np.random.default_rng(seed)
    f, target, weight = random.uniform(0.2, 3, (4, m)), random.integers(0, m, 4), random.uniform(0, 2, 4)
    ratio = f[np.arange(4), target][:, None] / f
    f[np.abs(ratio - alpha).min(axis=1) < 1e-4] = 1.0  # away from the kink
    loss, slope = ratio_loss(f, target, weight, alpha)
    terms = [
        w * max(alpha, values[i] / values[j])
        for values, i, w in zip(f, target, weight, strict=True)
        for j in range(m)
        if j != i
    ]
    assert loss == pytest.approx(sum(terms))

    def of(flat):
        return ratio_loss(flat.reshape(4, m), target, weight, alpha)[0]

    np.testing.assert_allclose(slope.ravel(), approx_fprime(f.ravel(), of, 1e-7), rtol=1e-4, atol=1e-5)


@given(
    x=st.lists(st.floats(-3, 3), min_size=3, max_size=3), d=st.floats(-2, 2), r=st.integers(0, 1), c=st.integers(0, 2)
)
def test_a_coordinate_changes_its_own_member_function_only(x, d, r, c):
    """Moving A_k[r, c] by d adds 2 d x_c R_r + d^2 x_c^2 to f_k, and 2 d sigma^2 A_k[r, c] + d^2 sigma^2 of noise."""
    random = np.random.default_rng(0)
    A, b, x, sigma = random.normal(size=(2, 3)), random.normal(size=2), np.array(x), 0.4
    moved = A.copy()
    moved[r, c] += d
    residual = (A @ x - b)[r]
    change = 2 * d * x[c] * residual + d**2 * x[c] ** 2 + sigma**2 * (2 * d * A[r, c] + d**2)
    assert member_function(moved, b, x, sigma) - member_function(A, b, x, sigma) == pytest.approx(change, abs=1e-9)


@pytest.mark.parametrize("kernel", ENGINES)
def test_first_loss_of_both_solvers_is_the_papers(one_member, kernel):
    problem, batch, weight = one_member
    loss = paper_loss(batch.start[0], rows_of(problem), problem.target, batch.alpha, weight, noise=0.3)
    for solver in (CpmSolver(1).literal(), AdamSolver(1, batch_size=30, revisit=1.0)):
        state = solve(problem, batch, solver, cpu(kernel))
        assert state.losses[0][0] == pytest.approx(loss / weight.sum(), rel=1e-5)


@pytest.mark.parametrize("kernel", ENGINES)
def test_first_moment_of_adam_is_the_gradient(one_member, kernel):
    """After one step over all samples Adam's first moment is (1 - beta1) times the gradient of the mean loss."""
    problem, batch, weight = one_member
    state = solve(problem, batch, AdamSolver(1, batch_size=30, beta1=0.9, revisit=1.0), cpu(kernel))
    start, rows = batch.start[0].astype(np.float64), rows_of(problem)

    def mean_loss(flat):
        return paper_loss(flat.reshape(start.shape), rows, problem.target, batch.alpha, weight, noise=0.3) / 30

    numeric = approx_fprime(start.ravel(), mean_loss, 1e-7).reshape(start.shape)
    np.testing.assert_allclose(state.moments[0][0] / 0.1, numeric, rtol=1e-3, atol=1e-3 * np.abs(numeric).max())


@pytest.mark.parametrize("kernel", ENGINES)
def test_a_literal_sweep_is_the_papers(kernel):
    """Coordinate after coordinate, two points, full losses compared: the same moves as by differences."""
    problem = sample_problem(n_samples=30)
    m, q, width = 3, 3, problem.n_features + 1
    start = np.random.default_rng(3).normal(size=(m, q, width)).astype(np.float32)
    ones = np.ones((1, m), np.float32)
    batch = ModelBatch(q, 0.5, ones, np.zeros(1, np.float32), np.zeros(1, np.uint64), start=[start])
    rows, share = rows_of(problem), np.ones(30)
    solver = CpmSolver(1, step=0.2).literal()
    moved = solve(problem, batch, solver, cpu(kernel)).coefficients[0]

    # The literal sweep, restated: class after class, row after row, column after column.
    weights, steps = start.astype(np.float64), solver.initial_steps(start).astype(np.float64)
    loss = paper_loss(weights, rows, problem.target, 0.5, share)
    for at in np.ndindex(m, q, width):
        for d in (steps[at], -steps[at]):
            weights[at] += d
            trial = paper_loss(weights, rows, problem.target, 0.5, share)
            if trial < loss:
                loss = trial
                break
            weights[at] -= d
    np.testing.assert_allclose(moved, weights, atol=1e-5)


def test_samples_that_a_separator_meets_exactly():
    """f = 0 on a sample of its own class: a ratio of 0, no division by zero, nothing to gain."""
    X = np.array([[0.0], [1.0]], np.float32)
    problem = TrainingProblem(Rows(X, Scaling.identity(1)), np.array([0, 1], np.int32), 2)
    start = np.array([[[1, 0]], [[1, 1]]], np.float32)
    batch = ModelBatch(
        1, 0.5, np.ones((1, 2), np.float32), np.zeros(1, np.float32), np.zeros(1, np.uint64), start=[start]
    )
    for kernel in ENGINES:
        for solver in (AdamSolver(2), CpmSolver(2).literal(), CpmSolver(2)):
            state = solve(problem, batch, solver, cpu(kernel))
            np.testing.assert_array_equal(state.coefficients[0], start)
            assert state.losses[0] == [0.5, 0.5]
