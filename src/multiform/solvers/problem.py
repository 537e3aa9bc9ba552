"""What every solver is given: one matrix with its labels, and how the members of a batch differ. All of it is constant.

X is never copied per member. An engine turns a problem, a batch and a solver's settings into a `TrainingState`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from multiform._typing import Floats, Indices, Ints
from multiform.separators import Rows

__all__ = ["ModelBatch", "Solver", "TrainingProblem"]


@dataclass(frozen=True)
class TrainingProblem:
    """One matrix and its labels.

    Parameters
    ----------
    rows : Rows
        X as an engine reads it.
    target : array of int32, shape (n,)
        Class indices, 0 to n_classes - 1.
    n_classes : int
    """

    rows: Rows
    target: Ints
    n_classes: int

    @property
    def n_features(self) -> int:
        return self.rows.n_features


@dataclass(frozen=True)
class ModelBatch:
    """How the members of a batch differ.

    Parameters
    ----------
    n_components : int
        q, the rows of every A_k.
    alpha : float
        The floor of the ratio loss.
    class_weight : array of float32, shape (B, m)
        The weight of each class's part of the loss.
    noise : array of float32, shape (B,)
        Standard deviation of the input noise, in scaled units, that the loss is averaged over (closed form).
    seed : array of uint64, shape (B,)
    sample_weight : array of float32, shape (n,) or (B, n), or None
        0 leaves a sample out, so a fold is a mask of zeros.
    columns : sequence of arrays of int32, or None
        The features that each member sees, ascending.
    start : sequence of arrays of float32, shape (m, q, p_b + 1), or None
        A_k and b_k side by side, in scaled units, to start from; drawn from the seed when None.
    """

    n_components: int
    alpha: float
    class_weight: Floats
    noise: Floats
    seed: npt.NDArray[np.uint64]
    sample_weight: Floats | None = None
    columns: Sequence[Ints] | None = None
    start: Sequence[Floats] | None = None

    def __len__(self) -> int:
        return len(self.seed)

    def member_weight(self, member: int) -> Floats | None:
        if self.sample_weight is None or self.sample_weight.ndim == 1:
            return self.sample_weight
        weight: Floats = self.sample_weight[member]
        return weight

    def member_columns(self, member: int) -> Ints | None:
        return None if self.columns is None else self.columns[member]

    def starts(self, problem: TrainingProblem) -> Iterator[Floats]:
        """The start of every member in turn; members that differ in nothing that it depends on share one draw."""
        own_samples = self.sample_weight is not None and self.sample_weight.ndim == 2
        if self.start is not None or self.columns is not None or own_samples:
            yield from (self.initial_coefficients(problem, member) for member in range(len(self)))
            return
        drawn: dict[int, Floats] = {}
        for member, seed in enumerate(self.seed.tolist()):
            if seed not in drawn:
                drawn[seed] = self.initial_coefficients(problem, member)
            yield drawn[seed].copy()

    def initial_coefficients(self, problem: TrainingProblem, member: int) -> Floats:
        """The start of a member: given, or random rows that each vanish at the mean of their class.

        ``A_k`` is standard normal over sqrt(p) and ``b_k = A_k mean_k``, so that at first f_k is a random projection of
        the distance to the mean of class k.
        """
        if self.start is not None:
            return np.array(self.start[member], dtype=np.float32, order="C")
        columns = self.member_columns(member)
        n_features = problem.n_features if columns is None else len(columns)
        random = np.random.default_rng(int(self.seed[member]))
        means = class_means(problem, self.member_weight(member), random)
        if columns is not None:
            means = means[:, columns]
        coefficients = np.empty((problem.n_classes, self.n_components, n_features + 1), dtype=np.float32)
        coefficients[:, :, :-1] = random.standard_normal(
            (problem.n_classes, self.n_components, n_features), dtype=np.float32
        ) / np.float32(np.sqrt(n_features))
        coefficients[:, :, -1] = np.einsum("kqp,kp->kq", coefficients[:, :, :-1], means)
        return coefficients


MOST_FOR_MEANS = 2048


def class_means(problem: TrainingProblem, weight: Floats | None, random: np.random.Generator) -> Floats:
    """Weighted class means in scaled units, from about MOST_FOR_MEANS samples (a start needs no more).

    Every class gets the same quota, so that a class of two samples among thousands has its mean too.
    """
    samples = samples_for_means(problem, weight, random)
    rows = problem.rows.scaled(samples)
    target = problem.target[samples]
    share = np.ones(len(samples)) if weight is None else weight[samples]
    membership = np.zeros((problem.n_classes, len(samples)))  # float64: repeating is weighting, to the last bit
    membership[target, np.arange(len(samples))] = share
    total = membership.sum(axis=1, keepdims=True)
    return np.asarray(membership @ rows / np.where(total > 0, total, 1), dtype=np.float32)


def samples_for_means(problem: TrainingProblem, weight: Floats | None, random: np.random.Generator) -> Indices:
    """The samples that `class_means` looks at, ascending."""
    samples = np.arange(len(problem.target)) if weight is None else np.flatnonzero(weight > 0)
    if len(samples) > MOST_FOR_MEANS:
        samples = random.permutation(samples)
        small = problem.target[samples].astype(np.uint16 if problem.n_classes < 2**16 else np.int32)  # sorts faster
        by_class = samples[np.argsort(small, kind="stable")]
        counts = np.bincount(problem.target[samples], minlength=problem.n_classes)
        rank = np.arange(len(samples)) - np.repeat(np.cumsum(counts) - counts, counts)
        samples = np.sort(by_class[rank < max(8, MOST_FOR_MEANS // problem.n_classes)])
    return samples


class Solver(Protocol):
    """Settings that say how separators are found; an engine does it."""

    @property
    def n_passes(self) -> int: ...
