"""Where training starts: the nearest centroid in the discriminant plane, and a little at random beside it.

Let mu_k be the means of the classes, S the covariance within them, and sigma the noise that a model is trained with,
which adds sigma^2 to every variance. The directions that part the means best (Fisher 1936) are the rows of D,

    D (S + sigma^2 I) D^T = I,   with D mu_k uncorrelated over the classes;   there are at most m - 1.

Every A_k begins with these same rows, scaled to a mean square norm of 1. The other ones of its q rows are its own,
drawn at random and smaller; and b_k = A_k mu_k. In f_k(x) = ||D (x - mu_k)||^2 the classes share the quadratic part, so
it cancels: the boundaries begin as the hyperplanes of linear discriminant analysis, and quadratics grow where they pay.
Where features outnumber samples, large random rows instead would be noise that no training removes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from multiform._typing import Doubles, Floats, Indices, Ints

if TYPE_CHECKING:
    from multiform.solvers import TrainingProblem

__all__ = ["ClassScatter", "drawn_start"]

ENOUGH_SAMPLES = 2048  # to know means and covariance well enough for a start
RANDOM_NORM = 0.5  # of a random row
LEAST_NOISE = 0.1  # sigma above, for a model that is trained with less
REACH = 2.0  # how far beyond a class the plane of its own row stands, in its mean score
FEW_COLUMNS = 100
FEW_CELLS = 100_000
STEPS = 5  # of conjugate gradients (Hestenes and Stiefel 1952): the strongest come first, and a start needs no more


class ClassScatter:
    """Some samples as a start sees them: the means of their classes, and the covariance within these.

    Parameters
    ----------
    problem : TrainingProblem
    weight : array of float32, shape (n,), or None
        Of the samples; those of weight 0 are not looked at.
    columns : array of int32, or None
        The features that are looked at.
    seed : int
        Decides which samples are looked at, where there are many.
    """

    def __init__(self, problem: TrainingProblem, weight: Floats | None, columns: Ints | None, seed: int) -> None:
        self.sparse = problem.rows.sparse  # then all samples are looked at: rare columns need them, at little cost
        samples = some_of_every_class(problem, weight, seed, None if self.sparse else ENOUGH_SAMPLES)
        self._target = problem.target[samples]
        share = np.ones(len(samples)) if weight is None else weight[samples].astype(np.float64)
        # A row a sample, its share in the column of its class; float64: repeating is weighting, to the last bit.
        membership = _membership(share, self._target, problem.n_classes)
        total = membership.sum(axis=0)[:, None]
        # Sparse rows stay so: they are scaled but not centred, which covariances do not see.
        rows, center = problem.rows.uncentred(samples)
        if columns is not None:
            rows, center = rows[:, columns], center[columns]
        means = (membership.T @ rows) / np.where(total > 0, total, 1)
        self.means: Floats = np.where(total > 0, means - center, 0).astype(np.float32)
        self._middle: Floats = self.means.mean(axis=0)
        self._apart: Floats = self.means - self._middle
        self._rows, self._row_means = rows, means.astype(np.float32)
        self._share = (share / share.sum()).astype(np.float32)[:, None]
        self._classes = membership.astype(bool).astype(np.float32)
        self._covariance: Floats | None = None  # S, of few columns
        self._drawn: tuple[int, int, Floats] | None = None  # how many random rows of which seed, and they

    def times(self, directions: Floats) -> Floats:
        """S = R^T R / n times these columns; a row of R is a sample less the mean of its class."""
        residuals = self._share * (self._rows @ directions - (self._row_means @ directions)[self._target])
        product: Floats = self._rows.T @ residuals - self._row_means.T @ (self._classes.T @ residuals)
        return product

    def discriminant_rows(self, noise: float, most: int) -> Floats:
        """D above, the strongest directions first: shape (at most `most`, p)."""
        apart, solved = self._apart, self._solved(noise)
        # With G = (S + sigma^2 I)^-1 (mu_k - mu)^T and (mu_k - mu) G = U L U^T, D = L^-1/2 U^T G^T.
        between = (apart @ solved).astype(np.float64)
        strength, mixture = np.linalg.eigh((between + between.T) / 2)
        kept = np.flatnonzero(strength > 1e-6 * max(strength[-1], 1e-6))[::-1][: min(most, len(apart) - 1)]
        rows = (solved @ (mixture[:, kept] / np.sqrt(strength[kept]))).T
        norm = np.sqrt((rows**2).sum())
        return np.asarray(rows * (np.sqrt(len(rows)) / norm if norm > 0 else 0), dtype=np.float32)

    def random_rows(self, n_rows: int, seed: int) -> Floats:
        """Small rows of each class, the same for every noise: shape (m, n_rows, p)."""
        if self._drawn is None or self._drawn[:2] != (n_rows, seed):
            shape = len(self.means), n_rows, self.means.shape[1]
            random = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
            self._drawn = n_rows, seed, random * np.float32(RANDOM_NORM / np.sqrt(shape[2]))
        return self._drawn[2]

    def class_rows(self, noise: float) -> Floats:
        """A row and an offset for each class that make it the linear discriminant: shape (m, p + 1).

        With ``G_k = (S + sigma^2 I)^-1 (mu_k - mu)`` the score of a class is ``s_k = G_k (x - (mu_k + mu) / 2)``, and
        the residual of its row is ``REACH |s| - s_k``: the distance from a plane across G_k, beyond the class.
        """
        solved = self._solved(noise).T
        threshold = ((self.means + self._middle) * solved).sum(axis=1) / 2
        reach = REACH * (self._apart * solved).sum(axis=1).mean() / 2
        norm = np.sqrt((solved**2).sum(axis=1).mean())
        rows = np.column_stack([-solved, -(reach + threshold)]) / (norm if norm > 0 else 1)
        return np.asarray(rows, dtype=np.float32)

    def _solved(self, noise: float) -> Floats:
        """G above, (S + sigma^2 I)^-1 (mu_k - mu)^T; of many columns nearly, by conjugate gradients."""
        right, ridge = np.ascontiguousarray(self._apart.T), np.float32(max(noise, LEAST_NOISE) ** 2)
        if len(right) <= FEW_COLUMNS:
            identity = np.eye(len(right), dtype=np.float32)
            if self._covariance is None:
                self._covariance = self.times(identity)
            return np.linalg.solve(self._covariance + ridge * identity, right)
        tiny = np.finfo(np.float32).tiny
        solution, residual, direction = np.zeros_like(right), right, right
        square = (residual**2).sum(axis=0)
        enough = 1e-8 * square.max()
        for _ in range(STEPS):
            if square.max() <= enough:
                break
            product = self.times(direction) + ridge * direction
            length = square / np.maximum((direction * product).sum(axis=0), tiny)
            solution = solution + length * direction
            residual = residual - length * product
            before, square = square, (residual**2).sum(axis=0)
            direction = residual + square / np.maximum(before, tiny) * direction
        return solution


def _membership(share: Doubles, target: Ints, n_classes: int) -> Any:
    """The share of each sample in the column of its class: shape (n, m); a few cells are quicker dense."""
    n = len(target)
    if n * n_classes > FEW_CELLS:
        return scipy.sparse.csr_array((share, target, np.arange(n + 1)), shape=(n, n_classes))
    membership = np.zeros((n, n_classes))
    membership[np.arange(n), target] = share
    return membership


def drawn_start(scatter: ClassScatter, n_components: int, noise: float, seed: int) -> Floats:
    """A_k and b_k side by side: discriminant rows that the classes share, then random rows of each; b_k = A_k mu_k."""
    n_classes, n_features = scatter.means.shape
    coefficients = np.empty((n_classes, n_components, n_features + 1), dtype=np.float32)
    if scatter.sparse:
        coefficients[:, :, :-1] = scatter.random_rows(n_components, seed)
        coefficients[:, :, -1] = np.einsum("kqp,kp->kq", coefficients[:, :, :-1], scatter.means)
        coefficients[:, 0] = scatter.class_rows(noise)
        return coefficients
    shared = scatter.discriminant_rows(noise, min(n_components, n_features))
    coefficients[:, : len(shared), :-1] = shared
    coefficients[:, len(shared) :, :-1] = scatter.random_rows(n_components - len(shared), seed)
    coefficients[:, :, -1] = np.einsum("kqp,kp->kq", coefficients[:, :, :-1], scatter.means)
    return coefficients


def some_of_every_class(problem: TrainingProblem, weight: Floats | None, seed: int, enough: int | None) -> Indices:
    """About `enough` samples of positive weight, ascending; all of them where it is None.

    Every class gets the same quota, so that a class of two samples among thousands has its mean too.
    """
    samples = np.arange(len(problem.target)) if weight is None else np.flatnonzero(weight > 0)
    if enough is not None and len(samples) > enough:
        samples = np.random.default_rng(seed).permutation(samples)
        small = problem.target[samples].astype(np.uint16 if problem.n_classes < 2**16 else np.int32)  # sorts faster
        by_class = samples[np.argsort(small, kind="stable")]
        counts = np.bincount(problem.target[samples], minlength=problem.n_classes)
        rank = np.arange(len(samples)) - np.repeat(np.cumsum(counts) - counts, counts)
        samples = np.sort(by_class[rank < max(8, enough // problem.n_classes)])
    return samples
