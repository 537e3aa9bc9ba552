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

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

import multiform._core as compiled
from multiform._typing import Doubles, Floats, Indices, Ints

if TYPE_CHECKING:
    from multiform.solvers import TrainingProblem

__all__ = ["ClassScatter", "discriminants", "drawn_start", "drawn_starts"]

_core: Any = compiled  # its border checks what it is given

ENOUGH_SAMPLES = 2048  # to know means and covariance well enough for a start
RANDOM_NORM = 0.5  # of a random row
LEAST_NOISE = 0.1  # sigma above, for a model that is trained with less
REACH = 2.0  # how far beyond a class the plane of its own row stands, in its mean score
FEW_COLUMNS = 100
FEW_CELLS = 100_000
MOST_CELLS = 4_000_000  # of rows times columns at a time
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
        # Kept by hand: cached_property holds one lock for all instances in Python 3.11, and a child that another thread
        # forks meanwhile would wait for it for ever.
        self._classes: Any = None
        self._covariance: Doubles | None = None
        p = problem.n_features if columns is None else len(columns)
        if p <= FEW_COLUMNS and not scipy.sparse.issparse(problem.rows.stored):
            self._look_at_few_columns(problem, weight, columns, seed)
        else:
            self._look(problem, weight, columns, seed)
        self._middle: Floats = self.means.sum(axis=0) / np.float32(len(self.means))
        self.apart: Floats = self.means - self._middle

    def _look_at_few_columns(
        self, problem: TrainingProblem, weight: Floats | None, columns: Ints | None, seed: int
    ) -> None:
        """The core sums in double precision: in single, the order of a library's sums would be seen in models."""
        samples = None
        if len(problem.target) > ENOUGH_SAMPLES:
            samples = some_of_every_class(problem, weight, seed, ENOUGH_SAMPLES).astype(np.int32)
        p = problem.n_features if columns is None else len(columns)
        means, self._covariance = np.empty((problem.n_classes, p)), np.empty((p, p))
        center, scale = problem.rows.scaling.single
        rows = _core.dense_rows(problem.rows.stored)
        rows.set_scaling(center, np.float32(1) / scale)
        _core.class_scatter(rows, problem.target, samples, weight, columns, means, self._covariance)
        self.means: Floats = means.astype(np.float32)

    def _look(self, problem: TrainingProblem, weight: Floats | None, columns: Ints | None, seed: int) -> None:
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
        self.means = np.where(total > 0, means - center, 0).astype(np.float32)
        self._rows, self._row_means = rows, means.astype(np.float32)
        self._share = (share / share.sum()).astype(np.float32)[:, None]
        self._membership = membership

    def times(self, directions: Any) -> Any:
        """S = R^T R / n times these columns, in their precision; a row of R is a sample less the mean of its class."""
        if self._classes is None:
            self._classes = self._membership.astype(bool).astype(np.float32)
        residuals = self._share * (self._rows @ directions - (self._row_means @ directions)[self._target])
        return self._rows.T @ residuals - self._row_means.T @ (self._classes.T @ residuals)

    def class_rows(self, noise: float) -> Floats:
        """A row and an offset for each class that make it the linear discriminant: shape (m, p + 1).

        With ``G_k = (S + sigma^2 I)^-1 (mu_k - mu)`` the score of a class is ``s_k = G_k (x - (mu_k + mu) / 2)``, and
        the residual of its row is ``REACH |s| - s_k``: the distance from a plane across G_k, beyond the class.
        """
        solved = self.solved(noise).T
        threshold = ((self.means + self._middle) * solved).sum(axis=1) / 2
        reach = REACH * (self.apart * solved).sum(axis=1).mean() / 2
        norm = np.sqrt((solved**2).sum(axis=1).mean())
        rows = np.column_stack([-solved, -(reach + threshold)]) / (norm if norm > 0 else 1)
        return np.asarray(rows, dtype=np.float32)

    def covariance(self) -> Doubles:
        """S, of few columns."""
        if self._covariance is None:
            p = self.means.shape[1]
            n_parts = min(p, 1 + len(self._target) * p // MOST_CELLS)
            # In double precision, too: in single, rounding would be seen in models.
            parts = [self.times(columns) for columns in np.array_split(np.eye(p), n_parts, axis=1)]
            self._covariance = np.concatenate(parts, axis=1)
        return self._covariance

    def solved(self, noise: float) -> Floats | Doubles:
        """G = (S + sigma^2 I)^-1 (mu_k - mu)^T: shape (p, m)."""
        ridge = max(noise, LEAST_NOISE) ** 2
        if self.means.shape[1] > FEW_COLUMNS:
            return self.nearly_solved(np.float32(ridge))
        columns = np.array(self.apart.T, dtype=np.float64, order="C")
        _core.whiten(self.covariance(), ridge, columns)
        return columns

    def nearly_solved(self, ridge: np.float32) -> Floats:
        """(S + sigma^2 I)^-1 (mu_k - mu)^T of many columns, nearly, by conjugate gradients."""
        right, tiny = np.ascontiguousarray(self.apart.T), np.finfo(np.float32).tiny
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


def discriminants(scatters: Sequence[ClassScatter], noise: Sequence[float], most: int) -> list[Floats]:
    """D above of every scatter with its noise, the strongest directions first: shapes (at most `most`, p)."""
    solved = [scatter.solved(level) for scatter, level in zip(scatters, noise, strict=True)]
    # With G as above and (mu_k - mu) G = U L U^T, D = L^-1/2 U^T G^T.
    between = np.stack([scatter.apart.astype(np.float64) @ one for scatter, one in zip(scatters, solved, strict=True)])
    strengths, mixtures = np.linalg.eigh((between + between.swapaxes(1, 2)) / 2)
    found = []
    for one, strength, mixture in zip(solved, strengths, mixtures, strict=True):
        n_kept = int(np.count_nonzero(strength > 1e-6 * max(strength[-1], 1e-6)))
        kept = slice(None, -1 - min(n_kept, most, len(strength) - 1), -1)
        rows = (one @ (mixture[:, kept] / np.sqrt(strength[kept]))).T
        norm = np.sqrt((rows**2).sum())
        found.append(np.asarray(rows * (np.sqrt(len(rows)) / norm if norm > 0 else 0), dtype=np.float32))
    return found


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
    return drawn_starts([scatter], n_components, [noise], [seed])[0]


def drawn_starts(
    scatters: Sequence[ClassScatter], n_components: int, noise: Sequence[float], seeds: Sequence[int]
) -> list[Floats]:
    """`drawn_start` of each of these scatters, which have the same number of columns, with its noise and seed."""
    n_classes, n_features = scatters[0].means.shape
    sparse = scatters[0].sparse
    random: dict[tuple[int, int], Floats] = {}  # members of other noise and samples share them
    shared = [] if sparse else discriminants(scatters, noise, min(n_components, n_features))
    starts = []
    for number, (scatter, seed) in enumerate(zip(scatters, seeds, strict=True)):
        start = np.empty((n_classes, n_components, n_features + 1), dtype=np.float32)
        n_shared = 0 if sparse else len(shared[number])
        if n_shared:
            start[:, :n_shared, :-1] = shared[number]
        drawn = n_components - n_shared, seed
        if drawn not in random:
            random[drawn] = _random_rows(n_classes, n_features, *drawn)
        start[:, n_shared:, :-1] = random[drawn]
        start[:, :, -1] = np.matmul(start[:, :, :-1], scatter.means[:, :, None])[:, :, 0]
        if sparse:
            start[:, 0] = scatter.class_rows(noise[number])
        starts.append(start)
    return starts


def _random_rows(n_classes: int, n_features: int, n_rows: int, seed: int) -> Floats:
    """Small rows of each class: shape (m, n_rows, p)."""
    random = np.random.default_rng(seed).standard_normal((n_classes, n_rows, n_features), dtype=np.float32)
    return random * np.float32(RANDOM_NORM / np.sqrt(n_features))


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
