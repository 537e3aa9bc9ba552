"""CPM: members that begin alike share their first sweep, and all members memory. Neither may show."""

from dataclasses import replace

import numpy as np
import pytest

from multiform.engines import solve
from multiform.separators import Rows, Scaling
from multiform.solvers import CpmSolver, ModelBatch, TrainingProblem
from multiform.testing import STORAGES, exact_loss, sample_problem
from tests.named_engines import cpu

FAST = CpmSolver(4, max_entries=120, ramp=2)  # few enough to be full before every sample was looked at
SOLVERS = {"departures": FAST, "all samples": replace(FAST, max_entries=0), "literal": CpmSolver(3).literal()}


def weighted(n_classes, n_members, **changes):
    """The loyalty machine's kind of batch: one seed, other class weights."""
    class_weight = np.ones((n_members, n_classes), np.float32)
    for member in range(1, n_members):
        class_weight[member, member % n_classes] = 20.0 if member % 2 else 0.05
    batch = ModelBatch(3, 0.5, class_weight, np.full(n_members, 0.1, np.float32), np.full(n_members, 5, np.uint64))
    return replace(batch, **changes)


def alone(batch, member):
    own = slice(member, member + 1)
    share = batch.sample_weight
    return replace(
        batch,
        class_weight=batch.class_weight[own],
        noise=batch.noise[own],
        seed=batch.seed[own],
        sample_weight=share if share is None or share.ndim == 1 else share[own],
        columns=None if batch.columns is None else batch.columns[own],
        start=None if batch.start is None else batch.start[own],
    )


def outcome(state):
    return state.coefficients, state.losses, state.counts


def assert_as_alone(problem, batch, solver, engine):
    together = solve(problem, batch, solver, engine)
    counts = dict.fromkeys(("tried", "accepted", "looked"), 0)
    for member in range(len(batch)):
        weights, losses, its_counts = outcome(solve(problem, alone(batch, member), solver, engine))
        np.testing.assert_array_equal(together.coefficients[member], weights[0], err_msg=f"member {member}")
        assert together.losses[member] == losses[0]
        counts = {name: counts[name] + its_counts[name] for name in counts}
    assert together.counts == counts


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_members_that_begin_alike_are_as_alone(storage, solver, n_threads):
    problem = sample_problem(storage, n_samples=1500, n_features=21, n_classes=4)
    assert_as_alone(problem, weighted(4, 5), SOLVERS[solver], cpu("auto", n_threads))


def different(problem):
    """Batches with one thing, besides class weights, in which members differ that otherwise begin alike."""
    n, m, p = len(problem.target), problem.n_classes, problem.n_features
    random = np.random.default_rng(0)
    start = random.normal(size=(m, 3, p + 1)).astype(np.float32)
    other_start = start.copy()
    other_start[-1, -1, -1] += 1
    left_out = weighted(m, 4).class_weight
    left_out[1, 0] = left_out[3, 2] = 0
    folds = np.ones((4, n), np.float32)
    folds[1, ::3] = folds[2, 1::3] = 0
    most, fewer = np.arange(p, dtype=np.int32), np.arange(0, p, 2, dtype=np.int32)
    return {
        "a seed": {"seed": np.array([5, 5, 6, 6], np.uint64)},
        "noise": {"noise": np.array([0.1, 0.3, 0.1, 0.3], np.float32)},
        "a start": {"start": [start, other_start, start, other_start]},
        "a class left out": {"class_weight": left_out},
        "samples left out": {"sample_weight": folds},
        "weights of samples": {"sample_weight": random.uniform(0.5, 2, size=(4, n)).astype(np.float32)},
        "columns": {"columns": [most, fewer, most, fewer]},
        "columns, as many": {"columns": [fewer, fewer + 1, fewer, fewer + 1]},
    }


@pytest.mark.parametrize("what", different(sample_problem()))
def test_members_that_differ_in_one_thing_are_as_alone(what):
    problem = sample_problem(n_samples=900, n_features=10, n_classes=3)
    assert_as_alone(problem, weighted(3, 4, **different(problem)[what]), FAST, cpu("auto", 2))


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_the_first_loss_has_each_members_own_weights(n_threads):
    """Mean of w(x) sum_j max(alpha, f_y / f_j) at the start, from the formula (2.2): a shared sweep has no weights."""
    problem = sample_problem(n_samples=300)
    random = np.random.default_rng(1)
    batch = weighted(3, 4, sample_weight=random.uniform(0.5, 2, size=300).astype(np.float32))
    state = solve(problem, batch, CpmSolver(1, max_entries=0, slack=0.0), cpu("auto", n_threads))
    for member in range(4):
        weight = batch.class_weight[member][problem.target].astype(np.float64) * batch.sample_weight
        expected = exact_loss(problem, batch, batch.initial_coefficients(problem, member), member) / weight.sum()
        np.testing.assert_allclose(state.losses[member], [expected], rtol=1e-4)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_sweep_that_is_interrupted_goes_on_as_if_it_were_not(n_threads):
    """With hardly any time the core comes back after a row or two, and sweeps of several members are under way."""
    problem = sample_problem(n_samples=1500, n_features=21, n_classes=4)
    batch = weighted(4, 5)
    expected = solve(problem, batch, FAST, cpu("auto", n_threads))
    state = cpu("auto", n_threads).begin(problem, batch, FAST)
    calls = 0
    while state.passes < FAST.n_passes:
        state.advance(FAST.n_passes, 1e-4 * 1.05**calls)  # longer in the end, for the slowest machine
        calls += 1
    assert calls > FAST.n_passes
    for mine, its in zip(state.coefficients, expected.coefficients, strict=True):
        np.testing.assert_array_equal(mine, its)
    assert outcome(state)[1:] == outcome(expected)[1:]


def test_members_may_also_go_on_one_by_one():
    """A batch whose members are advanced sweep by sweep, as with `after_pass`: every sweep takes over the memory."""
    problem = sample_problem("uint8", n_samples=1500, n_features=21, n_classes=4)
    batch = weighted(4, 5)
    expected = solve(problem, batch, FAST, cpu("auto", 2))
    state = cpu("auto", 2).begin(problem, batch, FAST)
    for until in range(1, FAST.n_passes + 1):
        while state.passes < until:
            state.advance(until, 60.0)
    for mine, its in zip(state.coefficients, expected.coefficients, strict=True):
        np.testing.assert_array_equal(mine, its)


def test_members_that_share_memory_alone_are_as_alone():
    """Other seeds, so nothing but the memory of sweeps that are over is shared; theirs were of other sizes."""
    random = np.random.default_rng(0)
    target = (np.arange(3000) % 3).astype(np.int32)
    X = random.normal(size=(3000, 40)).astype(np.float32)
    problem = TrainingProblem(Rows(X, Scaling(X.mean(axis=0), X.std(axis=0))), target, 3)
    batch = weighted(3, 7, seed=np.arange(7, dtype=np.uint64))
    assert_as_alone(problem, batch, CpmSolver(3, max_entries=1000, ramp=2), cpu("auto", 2))
