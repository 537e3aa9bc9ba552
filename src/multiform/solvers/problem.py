"""What every solver is given (constant), and what it moves.

``TrainingProblem`` is one matrix X with its labels; ``ModelBatch`` says how the members of a batch differ. X is never
copied per member. A solver's ``begin`` turns the two into a ``TrainingState``, which advances pass by pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse

from multiform.runtime import kernel_name, sgemm

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
AnyFloats = npt.NDArray[np.floating[Any]]

__all__ = [
    "ModelBatch",
    "Solver",
    "TrainingProblem",
    "TrainingState",
    "from_user_units",
    "to_user_units",
    "with_noise_row",
]


@dataclass(frozen=True)
class TrainingProblem:
    """One matrix, its labels, and how a row is read: ``(x - center) / scale``.

    Parameters
    ----------
    X : array of float32 or uint8 with contiguous rows, or CSR matrix of float32 with sorted columns
        Never copied.
    target : array of int32, shape (n,)
        Class indices, 0 to n_classes - 1.
    n_classes : int
    center, scale : arrays of float32, shape (p,)
    device : "cpu", "cuda", "cuda:1", ... or "auto"
        Where the solvers work; "auto" is the GPU when there is one and the batch is large enough to gain.
    """

    X: Any
    target: Ints
    n_classes: int
    center: Floats
    scale: Floats
    device: Any = "cpu"

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    @cached_property
    def rows(self) -> Any:
        """The matrix as the compiled core reads it."""
        return core_rows(self.X, self.center, self.scale)

    @cached_property
    def core(self) -> Any:
        from multiform import _core

        return _core.problem(self.rows, self.target, self.n_classes, sgemm())

    @cached_property
    def device_rows(self) -> Any:
        """X on the GPU, for every batch that is trained on it."""
        from multiform.solvers.cuda import open_device, place

        device = open_device("cuda" if self.device == "auto" else self.device)
        return place(self.X, self.center, self.scale, device)

    def member_values(self, weights: Floats, n_jobs: int | None = None) -> Floats:
        """f of every row: shape (n, m)."""
        from multiform.solvers import member_values
        from multiform.solvers.placement import evaluates_on_gpu

        if evaluates_on_gpu(self.X, weights, self.device):
            from multiform.solvers.cuda import device_member_values

            rows = self.device_rows
            found: Floats = rows.device.download(device_member_values(rows, weights))
            return found
        return member_values(self.X, weights, self.center, self.scale, n_jobs=n_jobs)

    def scaled(self, samples: npt.NDArray[Any]) -> Floats:
        """The given rows, scaled: shape (len(samples), p)."""
        rows = self.X[samples]
        if scipy.sparse.issparse(rows):
            rows = rows.toarray()
        return np.asarray((rows.astype(np.float32) - self.center) / self.scale, dtype=np.float32)


def core_rows(X: Any, center: Floats | None = None, scale: Floats | None = None) -> Any:
    """X in the core's own terms; without a scaling it can only be measured."""
    from multiform import _core

    kernel = "auto" if kernel_name() == "reference" else kernel_name()
    if scipy.sparse.issparse(X):
        rows = _core.sparse_rows(
            X.data, X.indptr.astype(np.int64), X.indices.astype(np.int32, copy=False), X.shape[1], kernel
        )
    else:
        rows = _core.dense_rows(X, kernel)
    if center is not None and scale is not None:
        rows.set_scaling(np.ascontiguousarray(center), np.ascontiguousarray(np.float32(1) / scale))
    return rows


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
            yield from (self.initial_weights(problem, member) for member in range(len(self)))
            return
        drawn: dict[int, Floats] = {}
        for member, seed in enumerate(self.seed.tolist()):
            if seed not in drawn:
                drawn[seed] = self.initial_weights(problem, member)
            yield drawn[seed].copy()

    def initial_weights(self, problem: TrainingProblem, member: int) -> Floats:
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
        weights = np.empty((problem.n_classes, self.n_components, n_features + 1), dtype=np.float32)
        weights[:, :, :-1] = random.standard_normal(
            (problem.n_classes, self.n_components, n_features), dtype=np.float32
        ) / np.float32(np.sqrt(n_features))
        weights[:, :, -1] = np.einsum("kqp,kp->kq", weights[:, :, :-1], means)
        return weights


MOST_FOR_MEANS = 2048


def class_means(problem: TrainingProblem, weight: Floats | None, random: np.random.Generator) -> Floats:
    """Weighted class means in scaled units, from about MOST_FOR_MEANS samples (a start needs no more).

    Every class gets the same quota, so that a class of two samples among thousands has its mean too.
    """
    samples = samples_for_means(problem, weight, random)
    rows = problem.scaled(samples)
    target = problem.target[samples]
    share = np.ones(len(samples)) if weight is None else weight[samples]
    membership = np.zeros((problem.n_classes, len(samples)))  # float64: repeating is weighting, to the last bit
    membership[target, np.arange(len(samples))] = share
    total = membership.sum(axis=1, keepdims=True)
    return np.asarray(membership @ rows / np.where(total > 0, total, 1), dtype=np.float32)


def samples_for_means(
    problem: TrainingProblem, weight: Floats | None, random: np.random.Generator
) -> npt.NDArray[np.intp]:
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


class TrainingState(Protocol):
    """A batch on its way: advances in place, can be looked at between two passes."""

    @property
    def weights(self) -> list[Floats]:
        """A_k and b_k side by side, in scaled units, per member."""

    @property
    def passes(self) -> int:
        """Passes that every member has finished."""

    @property
    def losses(self) -> list[list[float]]:
        """Mean loss of each pass, per member."""

    def advance(self, until: int, seconds: float) -> None:
        """Go on to the end of pass ``until``, or return early once ``seconds`` are over."""


class Solver(Protocol):
    """How separators are found."""

    @property
    def n_passes(self) -> int: ...

    def begin(self, problem: TrainingProblem, batch: ModelBatch, n_threads: int) -> TrainingState: ...


def with_noise_row(weights: Floats, noise: float) -> Floats:
    """The separators that the loss has seen: input noise adds sigma^2 ||A_k||^2 to f_k, one constant row more.

    Without noise there is nothing to add.
    """
    if noise == 0:
        return weights
    energy = (weights[:, :, :-1].astype(np.float64) ** 2).sum(axis=(1, 2))
    row = np.zeros((len(weights), 1, weights.shape[2]), dtype=np.float32)
    row[:, 0, -1] = noise * np.sqrt(energy)
    return np.concatenate([weights, row], axis=1)


def to_user_units(
    weights: Floats, center: AnyFloats, scale: AnyFloats, columns: Ints | None = None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """A_k and b_k for x as the user has it: A' = A / scale, b' = b + A' center."""
    scaled = weights[:, :, :-1].astype(np.float64)
    if columns is not None:
        whole = np.zeros((*scaled.shape[:2], len(center)))
        whole[:, :, columns] = scaled
        scaled = whole
    components = scaled / scale.astype(np.float64)
    return components, weights[:, :, -1].astype(np.float64) + components @ center.astype(np.float64)


def from_user_units(
    components: npt.NDArray[np.float64], offsets: npt.NDArray[np.float64], center: AnyFloats, scale: AnyFloats
) -> Floats:
    """The inverse of `to_user_units`."""
    weights = np.empty((*components.shape[:2], components.shape[2] + 1), dtype=np.float32)
    weights[:, :, :-1] = components * np.where(np.isfinite(scale), scale, 0).astype(np.float64)
    weights[:, :, -1] = offsets - components @ center.astype(np.float64)
    return weights
