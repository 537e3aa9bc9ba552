"""Missing entries in closed form: their expectation, as a Gaussian for them has it given the known ones.

For ``f(x) = ||A x - b||^2`` and any x of mean mu and covariance S,

    E f = ||A mu - b||^2 + tr(A S A^T),

a member function again, with a constant for what is not known, as input noise adds one. Let x be Gaussian with mean m
and precision P, the inverse of its covariance, M its missing entries and O the known ones. Given the known ones

    S = (P_MM)^-1,    mu_M = m_M - S P_MO (x_O - m_O).

m and P are found by expectation maximisation (Dempster, Laird and Rubin 1977), with a few samples of independent
columns beside the true ones. Everything is in units of a column's deviation, so that matrices are well conditioned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from multiform._typing import Array, Bools, Doubles, Floats, Indices
from multiform.runtime import blas_held_back, single_threaded_blas
from multiform.separators import Separators
from multiform.state import require, require_array, require_names, spend

MOST_COLUMNS = 200  # of a matrix; in a wider one every column is a Gaussian of its own
MOST_SAMPLES, ENOUGH = 2_000, 500  # that correlations are learnt from, and enough where none has gaps
PRIOR = 20.0  # samples of independent columns
MOST_STEPS, CLOSE = 3, 0.01  # of expectation maximisation: it ends when no correlation moves by more
LEAST = 0.005  # of an eigenvalue of the first guess
CHUNK = 2_000_000  # numbers that are held at a time
MOST_DEVIATION = 1e290  # in a model file
LEAST_EXPONENT = -1000  # of the power of two that is a column's unit: its inverse is a number, too
FARTHEST = 1e6  # deviations from the mean: a known entry is taken to be no farther when others are told from it


@dataclass(frozen=True, eq=False)
class Gaussian:
    """A Gaussian for the rows of a matrix.

    Parameters
    ----------
    mean, deviation : arrays of shape (p,)
    correlation : array of shape (p, p), or None
        Positive definite; None where columns tell nothing of each other.
    """

    mean: Doubles
    deviation: Doubles
    correlation: Doubles | None

    @classmethod
    def learnt(
        cls,
        X: Array,
        weight: Array | None = None,
        *,
        complete: bool = False,
        moments: tuple[Doubles, Doubles] | None = None,
    ) -> Gaussian:
        """From rows, NaN where an entry is missing, unless they are known to be `complete`.

        Mean and deviation are those of the rows, or `moments`, of more rows than these.
        """
        with blas_held_back(*X.shape):
            return cls._learnt(X, weight, complete, moments)

    @classmethod
    def _learnt(
        cls, X: Array, weight: Array | None, complete: bool, moments: tuple[Doubles, Doubles] | None
    ) -> Gaussian:
        some = slice(None, None, -(-len(X) // (ENOUGH if complete else MOST_SAMPLES)))
        of_all = np.asarray(X[some] if complete else X, dtype=np.float64)
        share = np.ones(len(of_all)) if weight is None else np.asarray(weight[some] if complete else weight)
        # over a power of two, which rounds nothing, no square overflows
        largest = np.fmax.reduce(np.abs(of_all.T, order="C"), axis=1, initial=0)
        exponent = np.maximum(np.frexp(largest)[1], LEAST_EXPONENT)
        unit = np.ldexp(1.0, -exponent)
        scaled = of_all * unit
        known: Any = True
        total = share.sum()
        if not complete:
            known = ~np.isnan(scaled)
            total = np.maximum(share @ known, np.finfo(np.float64).tiny)
            scaled = np.where(known, scaled, 0)
        mean = share @ scaled / total if moments is None else moments[0] * unit
        centred = scaled - mean if complete else np.where(known, scaled - mean, 0)
        deviation = np.sqrt(share @ centred**2 / total) if moments is None else moments[1] * unit
        deviation = np.where(deviation > 1e-12 * np.abs(mean), deviation, 0.0)  # of a column that never varies
        found = cls(np.ldexp(mean, exponent), np.ldexp(deviation, exponent), None)
        if X.shape[1] > MOST_COLUMNS:
            return found
        if complete:
            standard = centred / _or_infinite(deviation)
            shared = standard if weight is None else share[:, None] * standard
            products = shared.T @ standard * (len(share) / total)
            return replace(found, correlation=_shrunk(products, len(share)))
        centred, share, known = centred[some], share[some], known[some]
        return found._correlated(centred / _or_infinite(deviation), ~known, share * len(share) / share.sum())

    @single_threaded_blas()
    def _correlated(self, standard: Doubles, gap: Bools, share: Doubles) -> Gaussian:
        """With correlations, by expectation maximisation over standardised rows, 0 where an entry is missing."""
        p = standard.shape[1]
        mean, uncertain = np.zeros(p), gap.any(axis=1)
        # first of the pairs of entries that are known, where there are as many as the prior is worth
        pairs = (share[:, None] * ~gap).T @ ~gap
        correlation = ((share[:, None] * standard).T @ standard + PRIOR * np.eye(p)) / (pairs + PRIOR)
        for _ in range(MOST_STEPS):
            filled, spread, correlation = np.array(standard), np.zeros((p, p)), _positive(correlation)
            precision = np.asarray(np.linalg.inv(correlation), dtype=np.float64)
            for rows, at, covariance in _conditional(precision, gap[uncertain]):
                rows = np.flatnonzero(uncertain)[rows]
                filled[rows] = _with_means(filled[rows], gap[rows], at, covariance, mean, precision)
                places = (p * at[:, :, None] + at[:, None, :]).ravel()
                spread += np.bincount(places, (share[rows, None, None] * covariance).ravel(), p * p).reshape(p, p)
            mean = share @ filled / len(share)
            centred = filled - mean
            before, moments = correlation, (share[:, None] * centred).T @ centred + spread
            correlation = _shrunk(moments, len(share))
            if np.abs(correlation - before).max() < CLOSE:
                break
        return Gaussian(self.mean + mean * self.deviation, self.deviation, correlation)

    @cached_property
    def precision(self) -> Doubles:
        """The inverse of the correlations."""
        return np.asarray(np.eye(len(self.mean)) if self.correlation is None else np.linalg.inv(self.correlation))

    @single_threaded_blas()  # many small matrices
    def filled(self, X: Array) -> Filled:
        """Rows with the expected values of their missing entries in them."""
        rows, gap = np.array(X, dtype=np.float64), np.isnan(X)
        if self.correlation is None:
            rows[gap] = np.broadcast_to(self.mean, rows.shape)[gap]
            return Filled(rows, gap, self)
        samples = np.flatnonzero(gap.any(axis=1))
        standard = (np.where(gap, self.mean, rows)[samples] - self.mean) / _or_infinite(self.deviation)
        standard = np.clip(standard, -FARTHEST, FARTHEST)
        no_mean = np.zeros_like(self.mean)
        for chunk, at, covariance in _conditional(self.precision, gap[samples]):
            which, here = samples[chunk], gap[samples[chunk]]
            expected = _with_means(standard[chunk], here, at, covariance, no_mean, self.precision)
            rows[which] = np.where(here, self.mean + self.deviation * expected, rows[which])
        return Filled(rows, gap, self)

    # -------------------------------------------------------------------------------------------- model files

    def as_plain(self) -> dict[str, Any]:
        """For a model file."""
        return {"mean": self.mean, "deviation": self.deviation, "correlation": self.correlation}

    @classmethod
    def from_plain(cls, state: Any, separators: Separators) -> Gaussian:
        """The inverse; what is no Gaussian of the columns that these separators read is refused."""
        n_columns = len(separators.scaling.center)
        require_names(state, "the Gaussian of the gaps", ["mean", "deviation", "correlation"])
        mean = require_array(state["mean"], (n_columns,), "f", "mean of the gaps")
        deviation = require_array(state["deviation"], (n_columns,), "f", "deviation of the gaps")
        correlation = state["correlation"]
        doubles = mean.dtype == deviation.dtype == np.float64
        require(doubles and np.isfinite(mean).all(), "the mean of the gaps is wrong")
        require(((deviation >= 0) & (deviation <= MOST_DEVIATION)).all(), "the deviation of the gaps is wrong")
        if correlation is not None:
            require(n_columns <= MOST_COLUMNS, "the gaps have more correlations than are learnt")
            require_array(correlation, (n_columns, n_columns), "f", "correlation of the gaps")
            spend(32 * n_columns**2, "the precision of the gaps")
            bounded = correlation.dtype == np.float64 and (np.abs(correlation) <= FARTHEST).all()
            require(bounded and (correlation == correlation.T).all(), "the correlation of the gaps is wrong")
            least = np.linalg.eigvalsh(correlation)[0]
            require(least >= 1 / FARTHEST, "the correlation of the gaps is not positive definite")
        with np.errstate(over="ignore", invalid="ignore"):
            A = _in_deviations(deviation, separators).astype(np.float64)
            largest = (np.abs(A).sum(axis=2) ** 2).sum(axis=1) * (
                1 if correlation is None else np.abs(correlation).max()
            )
        require((largest < np.finfo(np.float32).max).all(), "gaps add too much to a separator")
        return cls(mean, deviation, correlation)


@dataclass(frozen=True, eq=False)
class Filled:
    """Rows with the expected values of their missing entries, which entries these are, and whose expectation it is."""

    rows: Doubles
    gap: Bools
    gaussian: Gaussian

    @property
    def shape(self) -> tuple[int, ...]:
        return self.rows.shape

    def __getitem__(self, samples: Any) -> Filled:
        return Filled(self.rows[samples], self.gap[samples], self.gaussian)

    @single_threaded_blas()
    def added(self, f: Array, separators: Separators) -> Array:
        """f of these rows with what their missing entries add: ``tr(A S A^T)``, of every separator."""
        samples = np.flatnonzero(self.gap.any(axis=1))
        if not len(samples):
            return f
        f = np.array(f)
        whole = f.reshape(len(f), -1)
        p, n_separators = len(self.gaussian.mean), len(separators.coefficients)
        A = _in_deviations(self.gaussian.deviation, separators)
        if self.gaussian.correlation is None:
            whole[samples] += (self.gap[samples] @ (A**2).sum(axis=1).T).astype(f.dtype)
            return f
        step = max(1, CHUNK // p**2)
        for first in range(0, n_separators, step):
            some = slice(first, first + step)
            squares = np.matmul(A[some].swapaxes(1, 2), A[some]).reshape(-1, p * p)  # A^T A
            for rows, at, covariance in _conditional(self.gaussian.precision, self.gap[samples]):
                for begin in range(0, len(rows), step):
                    part = slice(begin, begin + step)
                    spread = np.zeros((len(rows[part]), p, p), dtype=np.float32)
                    place = np.arange(len(spread))[:, None, None]
                    spread[place, at[part, :, None], at[part, None, :]] = covariance[part]
                    which = samples[rows[part]]
                    whole[which, some] += spread.reshape(len(spread), -1) @ squares.T
        return f


def _or_infinite(deviation: Doubles) -> Doubles:
    return np.asarray(np.where(deviation > 0, deviation, np.inf))


def _shrunk(moments: Doubles, n: int) -> Doubles:
    """Correlations of sums of products over n samples, and those of the prior; to the last bit symmetric."""
    sums = (moments + moments.T) / 2
    sums.flat[:: len(sums) + 1] += PRIOR  # the diagonal
    return np.asarray(sums / (n + PRIOR))


def _positive(correlation: Doubles) -> Doubles:
    """The same matrix with no eigenvalue below LEAST: what is of pairs of entries may have such."""
    values, vectors = np.linalg.eigh(correlation)
    return correlation if values[0] >= LEAST else (vectors * np.maximum(values, LEAST)) @ vectors.T


def _in_deviations(deviation: Doubles, separators: Separators) -> Floats:
    """A of every separator, for all columns in units of their deviation: shape (n_separators, q, p)."""
    trained = separators.coefficients
    A: Floats = np.zeros((*trained.shape[:2], len(deviation)), dtype=np.float32)
    A[:, :, slice(None) if separators.columns is None else separators.columns] = trained[:, :, :-1]
    A *= (deviation / separators.scaling.scale).astype(np.float32)
    return A


def _conditional(precision: Doubles, gap: Bools) -> Iterator[tuple[Indices, Indices, Doubles]]:
    """Rows that have gaps, some at a time: which, the columns of their gaps, and S, the covariance of these.

    Rows with about as many gaps come together; those with fewer have other columns, too, where S is 0.
    """
    counts = gap.sum(axis=1)
    order = np.argsort(counts, kind="stable")
    step = max(1, CHUNK // max(1, int(counts.max(initial=0))) ** 2)
    for begin in range(0, len(order), step):
        rows = order[begin : begin + step]
        width = int(counts[rows[-1]])
        at = np.argsort(~gap[rows], axis=1, kind="stable")[:, :width]
        own = np.arange(width) < counts[rows, None]
        both = own[:, :, None] & own[:, None, :]
        inner = np.where(both, precision[at[:, :, None], at[:, None, :]], np.eye(width))
        yield rows, at, np.where(both, np.linalg.inv(inner), 0.0)


def _with_means(
    rows: Doubles, gap: Bools, at: Indices, covariance: Doubles, mean: Doubles, precision: Doubles
) -> Doubles:
    """Rows with mu_M = m_M - S P_MO (x_O - m_O) in their gaps."""
    pull = np.where(gap, 0, rows - mean) @ precision
    step = np.matmul(covariance, np.take_along_axis(pull, at, axis=1)[:, :, None])[:, :, 0]
    moved = np.zeros_like(rows)
    np.put_along_axis(moved, at, step, axis=1)
    return np.asarray(np.where(gap, mean - moved, rows))
