"""Prepared data and members in, separators out: the only place that assembles a problem and a batch.

A member is one model to train: its own weights of samples and classes, columns, noise, seed and start. All members of a
call are trained over one matrix. Estimators, cross-validation, loyalty and diagnosis differ in their members only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from multiform._typing import Array, Floats, Ints
from multiform.engines import CpuEngine, Engine, TrainingState, engine_for, solve
from multiform.gaps import Filled
from multiform.inputs import choose_scaling
from multiform.separators import Scaling, Separators, as_stored, noise_energy
from multiform.solvers import AdamSolver, CpmSolver, ModelBatch, Moments, Solver, TrainingProblem
from multiform.starts import ClassScatter, drawn_start

__all__ = ["Member", "Trained", "Trainer"]

ENOUGH_FOR_A_LEVEL = 1000  # samples
MOST_CELLS_OF_CPM = 500_000_000  # of sparse data, to the letter


@dataclass(frozen=True, eq=False)
class Member:
    """One model to train.

    Parameters
    ----------
    seed, noise, class_weight, sample_weight, columns, start
        What a `ModelBatch` has for each of its members, for this one: class_weight of shape (m,), sample_weight of
        shape (n,). None means all samples alike, all columns, and a start that is drawn from the seed.
    """

    seed: int
    noise: float
    class_weight: Array
    sample_weight: Array | None = None
    columns: Ints | None = None
    start: Floats | None = None


class Trainer:
    """Data that are checked and prepared once, and the engine that trains members over them.

    A context manager: at its end the engine lets go of what it keeps on a device.

    Parameters
    ----------
    X : array or CSR matrix, checked; or rows that had gaps, filled
    target : array of int32, shape (n,)
    n_classes : int
    weight : array of shape (n,) or None
        Of the samples.
    scaling : str or Scaling
        A rule of `QMSClassifier`, or what is known already.
    alpha : float
        The floor of the ratio loss.
    n_jobs : int or None
    device : str
    keep_zeros : bool
        Data with many zeros are not centred, so that a solver can skip them.
    """

    def __init__(
        self,
        X: Any,
        target: Ints,
        n_classes: int,
        weight: Array | None = None,
        *,
        scaling: str | Scaling,
        alpha: float,
        n_jobs: int | None,
        device: str = "cpu",
        keep_zeros: bool = False,
    ) -> None:
        self._filled = X if isinstance(X, Filled) else None
        X = X.rows if isinstance(X, Filled) else X
        stored = as_stored(X)
        if isinstance(scaling, str):
            scaling = choose_scaling(X, scaling, weight, n_jobs, keep_zeros, stored)
        self.rows, self.scaling = scaling.read(X if stored is None else stored), scaling
        self.target, self.n_classes, self.weight, self.alpha = target, n_classes, weight, float(alpha)
        self._device, self._n_jobs = device, n_jobs
        self._engine: Engine | None = None

    @classmethod
    def of(cls, model: Any, X: Any, target: Any, classes: Array, weight: Array | None, **options: Any) -> Trainer:
        """With the alpha, the threads and the device of an estimator; options are `scaling` and `keep_zeros`."""
        shared = {"alpha": model.alpha, "n_jobs": model.n_jobs, "device": model.device}
        return cls(X, target, len(classes), weight, **shared, **options)

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *error: object) -> None:
        if self._engine is not None:
            self._engine.release()

    def train(
        self,
        members: Sequence[Member],
        solver: Solver,
        n_components: int,
        *,
        moments: Sequence[Moments] | None = None,
        after_pass: Callable[[Trained], bool] | None = None,
    ) -> Trained:
        """Train all members, side by side.

        Parameters
        ----------
        members : sequence of Member
        n_components : int
            q, the rows of every A_k.
        solver, moments, after_pass
            As in `multiform.engines.solve`; `after_pass` is called with what has come out so far.
        """
        columns = [member.columns for member in members]
        starts = [member.start for member in members]
        batch = ModelBatch(
            n_components,
            self.alpha,
            class_weight=np.stack([member.class_weight for member in members]).astype(np.float32),
            noise=np.array([member.noise for member in members], dtype=np.float32),
            seed=np.array([member.seed for member in members], dtype=np.uint64),
            sample_weight=_one_array([member.sample_weight for member in members], len(self.target)),
            columns=None if columns[0] is None else [one for one in columns if one is not None],
            start=None if starts[0] is None else [one for one in starts if one is not None],
        )
        problem = TrainingProblem(self.rows, self.target, self.n_classes)
        work = float(len(batch)) * self.rows.stored.shape[0] * self.rows.n_features * self.n_classes
        engine = self._engine_for(work * n_components * solver.n_passes)
        if isinstance(solver, CpmSolver) and not solver.frozen_own and self.rows.sparse:
            _refuse_dense_layout(*self.rows.stored.shape)
        if isinstance(solver, AdamSolver):
            by_row = self.rows.sparse and engine.reads_sparse
            solver = replace(solver, by_row=by_row)
            if moments is not None and (moments[0][1].ndim == 2) != by_row:
                moments = None  # of rows that were stored otherwise
        watch = None if after_pass is None else lambda state: after_pass(Trained(self, members, state))
        state = solve(problem, batch, solver, engine, moments=moments, after_pass=watch)
        if not all(np.isfinite(coefficients).all() for coefficients in state.coefficients):
            raise ValueError(
                "Training has left the range of single precision: noise and learning_rate must be smaller, "
                f"noise is at most {max(member.noise for member in members):.3g}."
            )
        return Trained(self, members, state)

    def starts(self, seeds: Sequence[int], n_components: int, noise: float) -> list[Floats]:
        """Where members of these seeds start that train on all samples."""
        scatter = ClassScatter(TrainingProblem(self.rows, self.target, self.n_classes), None, None, seeds[0])
        return [drawn_start(scatter, n_components, noise, seed) for seed in seeds]

    def values(self, separators: Separators, samples: Any) -> Array:
        """f of some of the samples; of one that had gaps, the expectation."""
        f = separators.values(self.rows.part(samples), self.engine)
        return f if self._filled is None else self._filled[samples].added(f, separators)

    def separators(self, coefficients: Floats, member: Member) -> Separators:
        """The member functions of a member with these coefficients."""
        energy = noise_energy(coefficients, member.noise)
        return Separators(coefficients, self.scaling, self.n_classes, columns=member.columns, noise=energy)

    def merged(self, coefficients: Sequence[Floats], members: Sequence[Member]) -> Separators:
        """One model with the rows of all these, which differ in nothing but their rows and samples.

        f_k = mean over members of f_k / level, times the mean level.

        A sum of member functions is a member function. The loss does not see the scale of a model's f, so each is
        divided by its own level first, the geometric mean of its values on some of the samples; their mean level is the
        scale that training is used to.
        """
        return self.separators(self.merged_rows(coefficients, members), members[0])

    def merged_rows(self, coefficients: Sequence[Floats], members: Sequence[Member]) -> Floats:
        """The rows of `merged`."""
        if len(members) == 1:
            return coefficients[0]
        some = slice(None, None, max(1, len(self.target) // ENOUGH_FOR_A_LEVEL))
        f = self.values(self.separators(np.concatenate(coefficients), members[0]), some)
        logarithms = np.log(np.maximum(f, np.finfo(np.float32).tiny)).sum(axis=0, dtype=np.float64)
        levels = logarithms.sum(axis=1) / (len(f) * self.n_classes)
        factors = np.exp((levels.sum() / len(levels) - levels) / 2) / np.sqrt(len(members))
        rows = [one * np.float32(factor) for one, factor in zip(coefficients, factors, strict=True)]
        return np.concatenate(rows, axis=1)

    @property
    def engine(self) -> Engine:
        """What trained the last members, or will; `Separators.values` asks for one."""
        return self._engine_for(0.0)

    def _engine_for(self, work: float) -> Engine:
        undecided = self._device == "auto" and isinstance(self._engine, CpuEngine)
        if self._engine is None or undecided:
            self._engine = engine_for(self._device, self._n_jobs, training=work)
        return self._engine


class Trained:
    """What came out of a batch, or what it looks like after a pass: coefficients of every member, passes, losses."""

    def __init__(self, trainer: Trainer, members: Sequence[Member], state: TrainingState) -> None:
        self._trainer, self._members, self._state = trainer, members, state
        self.passes, self.losses = state.passes, state.losses

    @property
    def coefficients(self) -> list[Floats]:
        """Per member; fetched from a device when they are asked for."""
        return self._state.coefficients

    @property
    def moments(self) -> list[Moments] | None:
        return self._state.moments

    def separators(self, member: int = 0) -> Separators:
        """The member functions of one member."""
        return self._trainer.separators(self.coefficients[member], self._members[member])

    def merged(self, members: Sequence[int]) -> Separators:
        """One model with the rows of all these (`Trainer.merged`)."""
        coefficients, described = self._some(members)
        return self._trainer.merged(coefficients, described)

    def in_one(self, members: Sequence[int]) -> Separators:
        """The same f_k with no more rows than Lemma 1 needs, p + 1 for p features.

        With M = (A_k b_k), f_k(x) = ||M (x, -1)||^2 = ||R (x, -1)||^2 for the R of M = QR.
        """
        coefficients, described = self._some(members)
        rows = self._trainer.merged_rows(coefficients, described).astype(np.float64)
        reduced = np.asarray(np.linalg.qr(rows, mode="r"), dtype=np.float32)
        return self._trainer.separators(reduced, described[0])

    def _some(self, members: Sequence[int]) -> tuple[list[Floats], list[Member]]:
        coefficients = self.coefficients
        return [coefficients[member] for member in members], [self._members[member] for member in members]


def _refuse_dense_layout(n: int, p: int) -> None:
    """The literal CPM has its samples by columns, zeros and all: a coordinate changes the noise energy of every one."""
    if n * p > MOST_CELLS_OF_CPM:
        raise ValueError(
            f"solver='cpm-literal' lays sparse data out dense, and takes up to {MOST_CELLS_OF_CPM:,} cells; got "
            f"{n:,} x {p:,} = {n * p:,}. Use solver='cpm' or 'adam', which cost what is stored, or fewer columns."
        )


def _one_array(weights: list[Array | None], n: int) -> Floats | None:
    """Weights of samples for a batch: None, shape (n,) where all members share them, else (B, n)."""
    first = weights[0]
    if all(one is first for one in weights):
        return None if first is None else np.ascontiguousarray(first, dtype=np.float32)
    return np.stack([np.ones(n) if one is None else one for one in weights]).astype(np.float32)
