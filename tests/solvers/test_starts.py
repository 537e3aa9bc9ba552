"""Where training starts: linear discriminant analysis, with a little at random beside it."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from multiform._core import available_kernels, class_scatter, dense_rows, whiten
from multiform.separators import Rows, Scaling
from multiform.solvers import ModelBatch, TrainingProblem
from multiform.starts import (
    ENOUGH_SAMPLES,
    LEAST_NOISE,
    RANDOM_NORM,
    ClassScatter,
    discriminants,
    drawn_start,
    some_of_every_class,
)


def problem_of(X, y):
    X = X.astype(np.float32) if scipy.sparse.issparse(X) else np.ascontiguousarray(X, dtype=np.float32)
    return TrainingProblem(Rows(X, Scaling.identity(X.shape[1])), np.asarray(y, np.int32), int(np.max(y)) + 1)


def standardised(load):
    X, y = load(return_X_y=True)
    return problem_of((X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-3), y)


def answers(coefficients, X):
    f = ((X @ coefficients[:, :, :-1].transpose(0, 2, 1) - coefficients[:, None, :, -1]) ** 2).sum(axis=2)
    return f.argmin(axis=0)


@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_without_random_rows_it_is_linear_discriminant_analysis(load):
    """m - 1 rows are all shared, and the smallest f is the answer of LDA with equal priors."""
    problem = standardised(load)
    m = problem.n_classes
    start = drawn_start(ClassScatter(problem, None, None, 0), m - 1, 0.0, seed=0)
    np.testing.assert_array_equal(start[0, :, :-1], start[1, :, :-1])
    X = problem.rows.stored
    lda = LinearDiscriminantAnalysis(solver="lsqr", priors=np.full(m, 1 / m)).fit(X, problem.target)
    assert np.mean(answers(start, X) == lda.predict(X)) > 0.98


def test_the_shared_rows_are_the_generalised_eigenvectors():
    """Those of (between, within + sigma^2 I), as Fisher has them; they span the same plane."""
    problem, noise = standardised(load_iris), 0.5
    X, y = problem.rows.stored.astype(np.float64), problem.target
    means = np.array([X[y == k].mean(axis=0) for k in range(3)])
    apart, residuals = means - means.mean(axis=0), X - means[y]
    within = residuals.T @ residuals / len(X) + noise**2 * np.eye(4)
    _, vectors = scipy.linalg.eigh(apart.T @ apart, within)  # vectors^T within vectors = I, strongest last
    expected = vectors[:, [3, 2]].T
    expected *= np.sqrt(2) / np.linalg.norm(expected)
    found = discriminants([ClassScatter(problem, None, None, 0)], [noise], 18)[0]
    signs = np.sign((found * expected).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(signs * found, expected, atol=2e-3)


def test_further_rows_are_small_and_each_class_has_its_own():
    problem = standardised(load_digits)
    start = drawn_start(ClassScatter(problem, None, None, 0), 18, 0.35, seed=3)
    shared, own = start[:, :9, :-1], start[:, 9:, :-1]
    assert (shared == shared[0]).all()
    assert np.sqrt((shared[0] ** 2).sum(axis=1).mean()) == pytest.approx(1, rel=1e-4)
    assert np.sqrt((own**2).sum(axis=2).mean()) == pytest.approx(RANDOM_NORM, rel=0.1)
    assert not np.isclose(own[0], own[1]).any()
    other = drawn_start(ClassScatter(problem, None, None, 0), 18, 0.35, seed=4)
    np.testing.assert_array_equal(other[:, :9], start[:, :9])
    assert not np.isclose(other[:, 9:, :-1], own).any()


def test_sparse_rows_start_where_dense_ones_do():
    """Scaled and centred in the same way, without ever being made dense."""
    random = np.random.default_rng(0)
    X = scipy.sparse.random(200, 60, density=0.1, random_state=random, format="csr", dtype=np.float32)
    y = random.integers(0, 4, 200).astype(np.int32)
    scaling = Scaling(random.normal(size=60), random.uniform(0.5, 2, size=60))
    starts = [
        drawn_start(ClassScatter(TrainingProblem(Rows(rows, scaling), y, 4), None, None, 0), 5, 0.3, seed=0)
        for rows in (X, X.toarray())
    ]
    np.testing.assert_allclose(starts[0], starts[1], atol=1e-4)


def test_a_weight_is_a_repetition():
    problem = standardised(load_iris)
    weight = np.random.default_rng(0).integers(0, 3, 150).astype(np.float32)
    X, y = problem.rows.stored, problem.target
    times = weight.astype(int)
    repeated = problem_of(np.repeat(X, times, axis=0), np.repeat(y, times))
    weighted = drawn_start(ClassScatter(problem, weight, None, 0), 5, 0.3, seed=0)
    np.testing.assert_allclose(weighted, drawn_start(ClassScatter(repeated, None, None, 0), 5, 0.3, seed=0), atol=1e-4)


def test_of_many_samples_a_part_is_looked_at_and_every_class_is_in_it():
    random = np.random.default_rng(0)
    y = np.r_[np.zeros(9_000), np.ones(9_000), [2, 2]].astype(np.int32)
    X = random.normal(size=(len(y), 3)) + 5 * np.eye(3)[y]
    problem = problem_of(X, y)
    scatter = ClassScatter(problem, None, None, 1)
    np.testing.assert_allclose(scatter.means[2], X[y == 2].mean(axis=0), rtol=1e-4)
    assert len(some_of_every_class(problem, None, 1, ENOUGH_SAMPLES)) <= ENOUGH_SAMPLES
    assert not np.isclose(scatter.means[0], X[y == 0].mean(axis=0)).any()


def test_the_covariance_of_sparse_rows_is_found_some_columns_at_a_time(monkeypatch):
    random = np.random.default_rng(0)
    X = scipy.sparse.random(300, 20, density=0.1, random_state=random, format="csr", dtype=np.float32)
    problem = problem_of(X, random.integers(0, 3, 300))
    at_once = ClassScatter(problem, None, None, 0).covariance()
    monkeypatch.setattr("multiform.starts.MOST_CELLS", 1_000)
    np.testing.assert_allclose(ClassScatter(problem, None, None, 0).covariance(), at_once, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("columns", [None, [0, 2, 7, 8, 19]])
@pytest.mark.parametrize("kind", [np.float32, np.uint8])
def test_means_and_covariance_are_those_of_numpy(kind, columns, weighted):
    """In double precision, whatever the kernels: the same bits of all of them."""
    random = np.random.default_rng(0)
    n, p, m = 700, 20, 4
    stored, target = random.integers(0, 256, (n, p)).astype(kind), random.integers(0, m - 1, n).astype(np.int32)
    scaling = Scaling(random.normal(100, 20, p), random.uniform(30, 60, p))
    weight = random.integers(0, 3, n).astype(np.float32) if weighted else None
    chosen = None if columns is None else np.array(columns, np.int32)
    scatter = ClassScatter(TrainingProblem(Rows(stored, scaling), target, m), weight, chosen, 0)

    share = np.ones(n) if weight is None else weight.astype(np.float64)
    X = ((stored - scaling.center) / scaling.scale)[:, slice(None) if columns is None else columns]
    means = np.array([np.average(X[target == k], axis=0, weights=share[target == k]) for k in range(m - 1)])
    residuals = X - means[target]
    covariance = (share[:, None] * residuals).T @ residuals / share.sum()
    np.testing.assert_allclose(scatter.means[:-1], means, atol=1e-6)
    assert not scatter.means[-1].any()  # of a class without samples
    np.testing.assert_allclose(scatter.covariance(), covariance, atol=1e-6)
    expected = np.linalg.solve(covariance + 0.25 * np.eye(len(covariance)), scatter.apart.T)
    np.testing.assert_allclose(scatter.solved(0.5), expected, atol=1e-5)

    center, scale = scaling.single
    found = []
    for kernel in available_kernels():
        rows = dense_rows(stored, kernel)
        rows.set_scaling(center, 1 / scale)
        found.append((np.empty((m, len(covariance))), np.empty(covariance.shape)))
        class_scatter(rows, target, None, weight, chosen, *found[-1])
    for part in (0, 1):
        assert len({one[part].tobytes() for one in found}) == 1
    assert scatter.covariance().tobytes() == found[0][1].tobytes()


def test_columns_that_repeat_others_are_whitened_at_any_scale():
    for variance in (1.0, 1e9, 1e18, 1e30):
        found = np.ones((3, 2))
        whiten(np.full((3, 3), variance), 0.01, found)
        np.testing.assert_allclose(found, 1 / (3 * variance), rtol=0.01)


@pytest.mark.parametrize("n_features", [1, 6])
def test_means_that_are_equal_leave_all_rows_random(n_features):
    half = np.random.default_rng(0).normal(size=(40, n_features))
    problem = problem_of(np.r_[half, -half, -half, half], np.repeat([0, 1], 80))
    start = drawn_start(ClassScatter(problem, None, None, 0), 2, LEAST_NOISE, seed=0)
    assert np.isfinite(start).all()
    assert not np.isclose(start[0], start[1])[:, :-1].any()


def test_members_of_other_noise_have_other_starts():
    """Noise whitens, so members that share samples and seed share a start only at equal noise."""
    problem = standardised(load_wine)
    batch = ModelBatch(
        4, 0.5, np.ones((3, 3), np.float32), np.array([0.1, 2.0, 0.1], np.float32), np.zeros(3, np.uint64)
    )
    distinct, which = batch.distinct_starts(problem)
    assert which == [0, 1, 0]
    assert not np.isclose(distinct[0][0, 0], distinct[1][0, 0]).any()
