"""What must not matter: the unit of f, the order of samples, features and classes."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from multiform.engines import solve
from multiform.separators import Rows, Scaling, Separators
from multiform.solvers import AdamSolver, CpmSolver, ModelBatch, TrainingProblem
from tests.named_engines import cpu

LITERAL = CpmSolver(3).literal()
seeds = st.integers(0, 2**31)


def random_problem(seed, m=3, n=40, p=4, q=2):
    """Continuous data, so that no two points tie."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, p)).astype(np.float32)
    target = (np.arange(n) % m).astype(np.int32)
    X += random.normal(size=(m, p)).astype(np.float32)[target]
    problem = TrainingProblem(Rows(X, Scaling.identity(p)), target, m)
    start = random.normal(size=(m, q, p + 1)).astype(np.float32)
    class_weight = random.uniform(0.5, 2, size=(1, m)).astype(np.float32)
    batch = ModelBatch(q, 0.5, class_weight, np.array([0.2], np.float32), np.array([seed], np.uint64), start=[start])
    return problem, batch, random


def train(problem, batch, solver):
    return solve(problem, batch, solver, cpu("auto", 2))


@given(seed=seeds, power=st.integers(-6, 6))
def test_the_unit_of_f_does_not_matter_to_cpm(seed, power):
    """Every f times c^2, every perturbation times c: the same decisions. c is a power of two, so to the last bit."""
    problem, batch, _ = random_problem(seed)
    c = np.float32(2.0**power)
    plain = train(problem, batch, LITERAL)
    scaled_solver = replace(LITERAL, step=LITERAL.step * c, smallest=LITERAL.smallest * c, largest=LITERAL.largest * c)
    scaled = train(problem, replace(batch, start=[batch.start[0] * c]), scaled_solver)
    assert (plain.counts["tried"], plain.counts["accepted"]) == (scaled.counts["tried"], scaled.counts["accepted"])
    np.testing.assert_array_equal(scaled.coefficients[0], plain.coefficients[0] * c)
    assert scaled.losses == plain.losses


@given(seed=seeds, power=st.integers(-6, 6))
def test_the_unit_of_f_does_not_matter_to_adam(seed, power):
    problem, batch, _ = random_problem(seed)
    c = 2.0**power
    solver = AdamSolver(3, batch_size=8)
    plain = train(problem, batch, solver)
    scaled = train(
        problem,
        replace(batch, start=[batch.start[0] * np.float32(c)]),
        replace(solver, learning_rate=solver.learning_rate * c, epsilon=solver.epsilon / c),
    )
    np.testing.assert_array_equal(scaled.coefficients[0], plain.coefficients[0] * np.float32(c))


@given(seed=seeds)
def test_the_order_of_samples_does_not_matter_to_literal_cpm(seed):
    """The literal CPM sums float32 losses in float64, which no order of 40 of them can round apart."""
    problem, batch, random = random_problem(seed)
    batch = replace(batch, sample_weight=random.uniform(0.5, 2, size=(1, 40)).astype(np.float32))
    order = random.permutation(40)
    shuffled = replace(problem, rows=problem.rows.part(order), target=problem.target[order])
    state = train(problem, batch, LITERAL)
    other = train(shuffled, replace(batch, sample_weight=batch.sample_weight[:, order]), LITERAL)
    np.testing.assert_array_equal(state.coefficients[0], other.coefficients[0])


@given(seed=seeds)
def test_permuting_classes_permutes_the_model(seed):
    """Row-synchronous CPM and Adam treat classes alike, up to rounding; the literal CPM takes one after the other."""
    problem, batch, random = random_problem(seed)
    order = random.permutation(3)
    renamed = replace(problem, target=np.argsort(order)[problem.target].astype(np.int32))
    permuted = replace(batch, start=[batch.start[0][order]], class_weight=batch.class_weight[:, order])
    for solver in (replace(LITERAL, synchronous=True), AdamSolver(2, batch_size=8, revisit=1.0)):
        state, other = train(problem, batch, solver), train(renamed, permuted, solver)
        np.testing.assert_allclose(state.coefficients[0][order], other.coefficients[0], rtol=1e-3, atol=1e-3)


@given(seed=seeds)
def test_permuting_features_permutes_the_model(seed):
    """Adam moves all coordinates together. CPM takes them in turn, so only its first loss must stay the same."""
    problem, batch, random = random_problem(seed)
    order = random.permutation(problem.n_features)
    columns = np.append(order, problem.n_features)
    shuffled = replace(problem, rows=Rows(np.ascontiguousarray(problem.rows.stored[:, order]), problem.rows.scaling))
    permuted = replace(batch, start=[np.ascontiguousarray(batch.start[0][:, :, columns])])
    solver = AdamSolver(2, batch_size=8, revisit=1.0)
    state, other = train(problem, batch, solver), train(shuffled, permuted, solver)
    np.testing.assert_allclose(state.coefficients[0][:, :, columns], other.coefficients[0], rtol=1e-3, atol=1e-3)
    first = train(problem, batch, LITERAL).losses[0][0]
    np.testing.assert_allclose(train(shuffled, permuted, LITERAL).losses[0][0], first, rtol=1e-6)


@given(seed=seeds, a=st.floats(1e-3, 1e3), c=st.floats(-10, 10))
def test_center_and_scale_fold_into_the_rows(seed, a, c):
    """f of a x + c, read with center c and scale a, is f of x."""
    problem, batch, _ = random_problem(seed)
    coefficients, p, X = batch.start[0], problem.n_features, problem.rows.stored
    moved = (X.astype(np.float64) * a + c * a).astype(np.float32)
    f = Separators(coefficients, Scaling(np.full(p, c * a), np.full(p, a)), 3).values(moved, cpu())
    plain = Separators(coefficients, Scaling.identity(p), 3).values(X, cpu())
    np.testing.assert_allclose(f, plain, rtol=1e-3, atol=1e-4)
