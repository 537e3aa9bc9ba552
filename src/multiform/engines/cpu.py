"""The compiled core: threads owned by the call, kernels chosen by name, arrays moved in place."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse

import multiform._core as compiled
from multiform._typing import Array, Doubles, Floats
from multiform.engines.base import TrainingState
from multiform.runtime import WORTH_A_THREAD, sgemm, single_threaded_blas, threads_worth_waiting_for
from multiform.separators import Rows, Separators
from multiform.solvers import AdamSolver, CpmSolver, ModelBatch, Moments, Solver, TrainingProblem

_core: Any = compiled  # its border checks what it is given


@dataclass(frozen=True)
class CpuEngine:
    """The compiled core on the CPU.

    Parameters
    ----------
    kernel : {"auto", "portable", "avx2", "avx512"}
        "auto" is the best of this machine.
    n_threads : int
        At most so many; the result does not depend on it.
    worth_a_thread : int
        Multiplications between two waits from which on one thread more pays.
    """

    kernel: str = "auto"
    n_threads: int = 1
    worth_a_thread: int = WORTH_A_THREAD
    reads_sparse: ClassVar[bool] = True

    def begin(
        self, problem: TrainingProblem, batch: ModelBatch, solver: Solver, moments: Sequence[Moments] | None = None
    ) -> TrainingState:
        with single_threaded_blas():
            if isinstance(solver, AdamSolver):
                return _AdamState(self, problem, batch, solver, moments)
            return _CpmState(self, problem, batch, solver)

    def values(self, rows: Rows, separators: Separators) -> Floats:
        coefficients = np.ascontiguousarray(separators.coefficients)
        n = int(rows.stored.shape[0])
        values = np.empty((n, len(coefficients)), dtype=np.float32)
        n_threads = threads_worth_waiting_for(self.n_threads, n * coefficients.size, self.worth_a_thread)
        view = self.core_rows(rows)
        with own_threads_alone(view):
            if rows.sparse:
                _core.sparse_member_values(view, coefficients, separators.columns, n_threads, values)
            else:
                _core.member_values(view, coefficients, separators.columns, sgemm(), n_threads, values)
        if separators.noise is not None:
            values += separators.noise.astype(np.float32)
        return values

    def core_rows(self, rows: Rows) -> Any:
        """The rows in the core's own terms."""
        stored = rows.stored
        if scipy.sparse.issparse(stored):
            indptr, indices = stored.indptr.astype(np.int64), stored.indices.astype(np.int32, copy=False)
            view = _core.sparse_rows(stored.data, indptr, indices, stored.shape[1], self.kernel)
        else:
            view = _core.dense_rows(stored, self.kernel)
        center, scale = rows.scaling.single
        view.set_scaling(center, np.float32(1) / scale)
        return view

    def release(self) -> None:
        """Nothing is kept."""


def own_threads_alone(rows: Any) -> AbstractContextManager[None]:
    """While the core works on these rows no threads of BLAS do: the portable kernels call it, the others never."""
    return single_threaded_blas() if rows.kernel == "portable" else nullcontext()


def column_moments(X: Any, n_threads: int) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    """Mean, variance, least and greatest value of each column of a dense float32 or uint8 matrix."""
    width = X.shape[1]
    mean, variance = np.empty(width), np.empty(width)
    least, greatest = np.empty(width, np.float32), np.empty(width, np.float32)
    _core.column_moments(_core.dense_rows(X), n_threads, mean, variance, least, greatest)
    return mean, variance, least.astype(np.float64), greatest.astype(np.float64)


def log_sharpness(scores: Array, target: Array, weight: Array | None = None) -> tuple[Doubles, Doubles]:
    """log 1/T of the temperature T with the least log loss, of each of several models, and that loss as a sum."""
    found, losses = np.empty(len(scores)), np.empty(len(scores))
    _core.log_sharpness(*_unseen(scores, target, weight), found, losses)
    return found, losses


def log_sharpness_in_the_mean(scores: Array, target: Array, weight: Array | None = None) -> float:
    """log 1/T of the temperature T at which the mean chance of the answers is the share of right ones."""
    return float(_core.log_sharpness_in_the_mean(*_unseen(scores, target, weight)))


def least_offsets(scores: Array, target: Array, weight: Array | None, deviation: float) -> Doubles:
    """What is to be added to the scores of each class for the least log loss, offsets of that deviation expected."""
    found = np.empty(scores.shape[1])
    _core.class_offsets(*_unseen(scores, target, weight), deviation, found)
    return found


def _unseen(scores: Array, target: Array, weight: Array | None) -> tuple[Array, Array, Array]:
    """As the core reads them."""
    given = np.ones(len(target)) if weight is None else weight
    kinds = (scores, np.float64), (target, np.int32), (given, np.float64)
    return tuple(np.ascontiguousarray(array, kind) for array, kind in kinds)  # type: ignore[return-value]


class _CpuState:
    """What the states of both solvers share: coefficients are NumPy arrays that the core moves in place.

    `_loop` names the core's loop over the members, `_counted` what it counts of each.
    """

    _loop: str
    _counted: tuple[str, ...]

    def __init__(self, engine: CpuEngine, problem: TrainingProblem, batch: ModelBatch) -> None:
        self._n_threads, self._shared = engine.n_threads, True
        self._rows = engine.core_rows(problem.rows)
        self._problem = _core.problem(self._rows, problem.target, problem.n_classes, sgemm())
        self.coefficients: list[Floats] = []
        self._members: list[Any] = []

    def _described(self, batch: ModelBatch, member: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the core asks of every member, whatever the solver."""
        arrays = (batch.member_columns(member), batch.member_weight(member), batch.class_weight[member])
        numbers = {"alpha": batch.alpha, "noise": float(batch.noise[member]), "seed": int(batch.seed[member])}
        return arrays, numbers

    @property
    def passes(self) -> int:
        return int(min(member.passes for member in self._members))

    @property
    def losses(self) -> list[list[float]]:
        return [list(member.losses) for member in self._members]

    @property
    def counts(self) -> dict[str, int]:
        return {name: int(sum(getattr(member, name) for member in self._members)) for name in self._counted}

    def advance(self, until: int, seconds: float) -> None:
        with own_threads_alone(self._rows):
            getattr(_core, self._loop)(self._members, self._n_threads, self._shared, until, seconds)

    def release(self) -> None:
        """Nothing is held of a device."""


class _AdamState(_CpuState):
    _loop, _counted = "train_adam", ("visits",)

    def __init__(
        self,
        engine: CpuEngine,
        problem: TrainingProblem,
        batch: ModelBatch,
        solver: AdamSolver,
        moments: Sequence[Moments] | None,
    ) -> None:
        super().__init__(engine, problem, batch)
        settings: dict[str, Any] = dict(vars(solver))
        self._moments: list[tuple[Floats, Floats]] = []
        by_row = settings.pop("by_row")
        if by_row:
            del settings["beta1"]
        for member, start in enumerate(batch.starts(problem)):
            first, second, steps = *solver.no_moments(start), 0
            if moments is not None:
                first, second, steps = moments[member][0].copy(), moments[member][1].copy(), moments[member][2]
            settings["learning_rate"] = solver.rate(start.shape[2] - 1)
            arrays, numbers = self._described(batch, member)
            numbers |= {"steps": steps}
            if by_row:
                made = _core.sparse_adam_member(self._problem, start, second, *arrays, **numbers, **settings)
            else:
                made = _core.adam_member(self._problem, start, first, second, *arrays, **numbers, **settings)
            self.coefficients.append(start)
            self._moments.append((first, second))
            self._members.append(made)
        # The threads wait for each other twice per step; members side by side do not.
        a_step = 2 * min(solver.batch_size, len(problem.target)) * max(one.size for one in self.coefficients)
        worth = threads_worth_waiting_for(engine.n_threads, a_step, engine.worth_a_thread)
        self._n_threads, self._shared = min(engine.n_threads, max(len(batch), worth)), worth > 1

    @property
    def moments(self) -> list[Moments]:
        return [
            (first, second, int(member.steps))
            for (first, second), member in zip(self._moments, self._members, strict=True)
        ]


class _CpmState(_CpuState):
    _loop, _counted = "sweep_cpm", ("tried", "accepted", "looked")
    moments = None

    def __init__(self, engine: CpuEngine, problem: TrainingProblem, batch: ModelBatch, solver: CpmSolver) -> None:
        super().__init__(engine, problem, batch)
        # Members are side by side, else the classes of a row, or the tiles that are looked at together.
        self._n_threads = min(engine.n_threads, max(len(batch), problem.n_classes, 16))
        settings: dict[str, Any] = dict(vars(solver))
        del settings["n_passes"], settings["step"]
        settings["max_entries"] = solver.max_entries * problem.n_classes
        for member, start in enumerate(batch.starts(problem)):
            settings |= solver.limits(start.shape[2] - 1)
            arrays, numbers = self._described(batch, member)
            steps = solver.initial_steps(start)
            made = _core.cpm_member(self._problem, start, steps, *arrays, **numbers, **settings)
            self.coefficients.append(start)
            self._members.append(made)
