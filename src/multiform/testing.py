"""Checks that every engine must pass, whatever it runs on; installed, so that a new engine brings no tests of its own.

An engine trains a batch and evaluates member functions. `CpuEngine` is ours, with the kernels and the number of threads
as its only choices; another device implements the same two methods and is handed to the same checks. A check returns
nothing and raises AssertionError, saying what differs.

>>> from multiform.testing import CpuEngine, check_parity
>>> check_parity(CpuEngine("portable", n_threads=2), storage="uint8", solver="cpm, literal")
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse

from multiform import runtime
from multiform.solvers import (
    AdamSolver,
    CpmSolver,
    ModelBatch,
    Solver,
    TrainingProblem,
    TrainingState,
    member_values,
    solve,
    with_noise_row,
)

__all__ = [
    "SOLVERS",
    "STORAGES",
    "CpuEngine",
    "Engine",
    "GpuEngine",
    "available_kernels",
    "check_batch_equals_singles",
    "check_engine",
    "check_literal_cpm_descends",
    "check_member_values",
    "check_parity",
    "check_same_bits",
    "exact_loss",
    "loss_at_equal_work",
    "sample_batch",
    "sample_problem",
]

Doubles = npt.NDArray[np.float64]

STORAGES = ("float32", "uint8", "csr")

_LITERAL = CpmSolver(3).literal()
SOLVERS: Mapping[str, Solver] = {
    "adam": AdamSolver(3, batch_size=16, revisit=0.2),
    "adam, every sample": AdamSolver(3, batch_size=16, revisit=1.0, final_rate=1.0),
    "cpm, literal": _LITERAL,
    "cpm, synchronous": replace(_LITERAL, synchronous=True),
    "cpm, frozen_own": replace(_LITERAL, frozen_own=True),
    "cpm, slack": replace(_LITERAL, slack=0.8),
    "cpm, revisit": replace(_LITERAL, slack=0.8, revisit=0.3),  # without slack every sample stays active
    "cpm, max_entries": replace(_LITERAL, max_entries=25, ramp=1),
    "cpm, ramp": replace(_LITERAL, max_entries=25, ramp=3),
    "cpm, all departures": CpmSolver(3, max_entries=25, ramp=2),
}


class Engine(Protocol):
    """What trains and evaluates."""

    def train(self, problem: TrainingProblem, batch: ModelBatch, solver: Solver) -> TrainingState: ...

    def member_values(self, problem: TrainingProblem, weights: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
        """f of every row of the problem: shape (n, m)."""


@dataclass(frozen=True)
class CpuEngine:
    """The compiled core with the given kernels, or the NumPy twin ("reference").

    Parameters
    ----------
    kernel : {"auto", "reference", "portable", "avx2", "avx512"}
    n_threads : int
    """

    kernel: str = "auto"
    n_threads: int = 1

    def train(self, problem: TrainingProblem, batch: ModelBatch, solver: Solver) -> TrainingState:
        with _forced(self.kernel):
            # The problem remembers the kernels it was first read with; a new one reads it again.
            return solve(replace(problem), batch, solver, n_jobs=self.n_threads)

    def member_values(self, problem: TrainingProblem, weights: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
        with _forced(self.kernel):
            return member_values(problem.X, weights, problem.center, problem.scale, n_jobs=self.n_threads)


@dataclass(frozen=True)
class GpuEngine:
    """The same engine on a GPU.

    Parameters
    ----------
    device : str or Device
        "cuda", "cuda:1", ...; or what implements `multiform.solvers.cuda.device.Device`.
    """

    device: Any = "cuda"

    def train(self, problem: TrainingProblem, batch: ModelBatch, solver: Solver) -> TrainingState:
        return solve(replace(problem, device=self.device), batch, solver)

    def member_values(self, problem: TrainingProblem, weights: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
        return member_values(problem.X, weights, problem.center, problem.scale, device=self.device)


def available_kernels() -> list[str]:
    """The compiled kernels that this machine can run.

    >>> "portable" in available_kernels()
    True
    """
    from multiform import _core

    return list(_core.available_kernels())


# ------------------------------------------------------------------------------------------------- small problems


def sample_problem(
    storage: str = "float32", *, n_samples: int = 60, n_features: int = 5, n_classes: int = 3, seed: int = 0
) -> TrainingProblem:
    """Overlapping classes of whole numbers with many zeros, the same numbers in every storage.

    >>> sample_problem("csr").X.dtype, sample_problem("uint8").X.dtype
    (dtype('float32'), dtype('uint8'))
    """
    random = np.random.default_rng(seed)
    target = (np.arange(n_samples) % n_classes).astype(np.int32)
    means = random.integers(0, 8, size=(n_classes, n_features))
    X = np.maximum(random.poisson(means[target]) - 2, 0).astype(np.uint8)
    center = X.mean(axis=0).astype(np.float32)
    center[0] = 0  # a column whose zeros stay zeros can be skipped
    scale = np.maximum(X.std(axis=0), 0.5).astype(np.float32)
    stored: dict[str, Callable[[], Any]] = {
        "uint8": lambda: X,
        "float32": lambda: X.astype(np.float32),
        "csr": lambda: scipy.sparse.csr_array(X.astype(np.float32)),
    }
    if storage not in stored:
        raise ValueError(f"storage must be one of {', '.join(STORAGES)}; got {storage!r}.")
    return TrainingProblem(stored[storage](), target, n_classes, center, scale)


def sample_batch(
    problem: TrainingProblem, *, n_components: int = 3, some_columns: bool = False, given_start: bool = False
) -> ModelBatch:
    """Three members that differ in everything a member may have of its own."""
    random = np.random.default_rng(7)
    n, m, p = len(problem.target), problem.n_classes, problem.n_features
    class_weight = np.ones((3, m), dtype=np.float32)
    class_weight[1, 0], class_weight[2, -1] = 0.05, 20.0  # the LEM's beta and gamma
    sample_weight = np.ones((3, n), dtype=np.float32)
    sample_weight[1, ::4] = 0  # a fold
    sample_weight[2] = random.uniform(0.5, 2, size=n)
    columns = [np.arange(start, p, start + 1, dtype=np.int32) for start in range(3)] if some_columns else None
    widths = [p] * 3 if columns is None else [len(part) for part in columns]
    starts = [
        random.normal(size=(m, n_components, width + 1)).astype(np.float32) / np.float32(np.sqrt(width))
        for width in widths
    ]
    return ModelBatch(
        n_components=n_components,
        alpha=0.5,
        class_weight=class_weight,
        noise=np.array([0.0, 0.3, 0.1], dtype=np.float32),
        seed=np.array([1, 2, 2**40], dtype=np.uint64),
        sample_weight=sample_weight,
        columns=columns,
        start=starts if given_start else None,
    )


def exact_loss(problem: TrainingProblem, batch: ModelBatch, weights: npt.NDArray[np.float32], member: int = 0) -> float:
    """The loss of one member, in float64 straight from the formula.

    phi = sum_x w(x) sum_{j != y} max(alpha, f_y(x) / f_j(x)),   f_k(x) = ||A_k x - b_k||^2 + sigma^2 ||A_k||^2   (2.2)
    """
    columns, share = batch.member_columns(member), batch.member_weight(member)
    rows = problem.scaled(np.arange(len(problem.target))).astype(np.float64)
    rows = rows if columns is None else rows[:, columns]
    separators = with_noise_row(weights, float(batch.noise[member])).astype(np.float64)
    f = ((rows @ separators[:, :, :-1].transpose(0, 2, 1) - separators[:, None, :, -1]) ** 2).sum(axis=2).T
    weight = batch.class_weight[member][problem.target].astype(np.float64) * (1.0 if share is None else share)
    ratio = np.maximum(batch.alpha, np.take_along_axis(f, problem.target[:, None], axis=1) / f)
    ratio[np.arange(len(f)), problem.target] = 0
    return float(weight @ ratio.sum(axis=1))


def loss_at_equal_work(problem: TrainingProblem, batch: ModelBatch, solver: CpmSolver, work: int) -> float:
    """The exact loss after the last sweep of CPM that stays within the work, in samples looked at.

    There must be room for one sweep.
    """
    losses: list[float] = []

    def record(state: Any) -> bool:
        within = bool(state.looked <= work)
        if within:
            losses.append(exact_loss(problem, batch, state.weights[0]))
        return not within

    solve(problem, batch, replace(solver, n_passes=10_000), n_jobs=1, after_pass=record)
    return losses[-1]


# --------------------------------------------------------------------------------------------------------- checks


def check_engine(engine: Engine) -> None:
    """Every check below, on every storage and solver."""
    for storage in STORAGES:
        check_member_values(engine, storage)
        for solver in SOLVERS:
            check_parity(engine, storage, solver)
        check_literal_cpm_descends(engine, storage)
    for solver in ("adam", "cpm, all departures"):
        check_batch_equals_singles(engine, solver)


def check_member_values(engine: Engine, storage: str = "float32") -> None:
    """f against ||A_k x - b_k||^2 in float64."""
    problem = sample_problem(storage)
    weights = sample_batch(problem, given_start=True).initial_weights(problem, 0)
    rows = problem.scaled(np.arange(len(problem.target))).astype(np.float64)
    residual = np.einsum("kqp,np->nkq", weights[:, :, :-1].astype(np.float64), rows) - weights[:, :, -1]
    np.testing.assert_allclose(
        engine.member_values(problem, weights),
        (residual**2).sum(axis=2),
        rtol=1e-4,
        atol=1e-5,
        err_msg=f"member values of {storage} rows",
    )


def check_parity(
    engine: Engine,
    storage: str = "float32",
    solver: str = "cpm, literal",
    *,
    some_columns: bool = False,
    given_start: bool = False,
    n_samples: int = 60,
    n_features: int = 5,
    judge: Engine | None = None,
) -> None:
    """The same moves and the same model as the NumPy twin (or another judge), up to single precision."""
    problem = sample_problem(storage, n_samples=n_samples, n_features=n_features)
    batch = sample_batch(problem, some_columns=some_columns, given_start=given_start)
    ours = engine.train(problem, batch, SOLVERS[solver])
    twin = (judge or CpuEngine("reference")).train(problem, batch, SOLVERS[solver])
    what = f"{solver} on {storage} rows"
    assert ours.passes == twin.passes, f"{what}: {ours.passes} passes, the twin made {twin.passes}"
    for count in ("tried", "accepted", "visits"):
        if hasattr(ours, count) and hasattr(twin, count):
            mine, its = getattr(ours, count), getattr(twin, count)
            assert mine == its, f"{what}: {count} {mine}, the twin's {its}"
    for member, (mine, its) in enumerate(zip(ours.weights, twin.weights, strict=True)):
        where = f"{what}, member {member}"
        np.testing.assert_allclose(mine, its, rtol=2e-3, atol=2e-4, err_msg=f"{where}: weights")
        np.testing.assert_allclose(ours.losses[member], twin.losses[member], rtol=1e-3, err_msg=f"{where}: losses")


def check_same_bits(
    engines: Sequence[Engine],
    storage: str = "float32",
    solver: str = "adam",
    *,
    n_samples: int = 700,
    n_features: int = 37,
    n_classes: int = 4,
) -> None:
    """The same model and the same member values, bit for bit, from all of the engines."""
    problem = sample_problem(storage, n_samples=n_samples, n_features=n_features, n_classes=n_classes)
    batch = sample_batch(problem)
    first, *others = (engine.train(problem, batch, SOLVERS[solver]) for engine in engines)
    f = engines[0].member_values(problem, first.weights[0])
    for engine, other in zip(engines[1:], others, strict=True):
        for mine, its in zip(first.weights, other.weights, strict=True):
            np.testing.assert_array_equal(mine, its, err_msg=f"{solver}: {engine} against {engines[0]}")
        assert first.losses == other.losses, f"{solver}: losses of {engine} against {engines[0]}"
        np.testing.assert_array_equal(f, engine.member_values(problem, first.weights[0]))


def check_literal_cpm_descends(engine: Engine, storage: str = "float32", *, n_sweeps: int = 6) -> None:
    """The literal CPM never raises the exact loss (2.3), for any member, beyond the rounding of float32."""
    problem = sample_problem(storage)
    batch = sample_batch(problem)
    members = range(len(batch))
    first = [exact_loss(problem, batch, batch.initial_weights(problem, member), member) for member in members]
    before = first
    for sweeps in range(1, n_sweeps + 1):
        state = engine.train(problem, batch, replace(_LITERAL, n_passes=sweeps))
        after = [exact_loss(problem, batch, state.weights[member], member) for member in members]
        for member in members:
            assert after[member] <= before[member] * (1 + 1e-6), (
                f"sweep {sweeps} of member {member} raised the loss: {before[member]} to {after[member]}"
            )
        before = after
    for member in members:
        assert before[member] < 0.9 * first[member], (
            f"member {member}: the loss only went from {first[member]} to {before[member]}"
        )


def check_batch_equals_singles(engine: Engine, solver: str = "adam") -> None:
    """A member of a batch is the model that it would be alone, bit for bit."""
    problem = sample_problem()
    batch = sample_batch(problem)
    together = engine.train(problem, batch, SOLVERS[solver])
    for member in range(len(batch)):
        alone = engine.train(problem, _single(batch, member), SOLVERS[solver])
        np.testing.assert_array_equal(alone.weights[0], together.weights[member], err_msg=f"{solver}, member {member}")
        assert alone.losses[0] == together.losses[member]


def _single(batch: ModelBatch, member: int) -> ModelBatch:
    one = slice(member, member + 1)
    return replace(
        batch,
        class_weight=batch.class_weight[one],
        noise=batch.noise[one],
        seed=batch.seed[one],
        sample_weight=None if batch.sample_weight is None else batch.sample_weight[one],
        columns=None if batch.columns is None else batch.columns[one],
        start=None if batch.start is None else batch.start[one],
    )


@contextmanager
def _forced(kernel: str) -> Iterator[None]:
    """These kernels, and all threads however small the problem is."""
    before, worth = os.environ.get("MULTIFORM_KERNEL"), runtime.WORTH_A_THREAD
    os.environ["MULTIFORM_KERNEL"], runtime.WORTH_A_THREAD = kernel, 1
    try:
        yield
    finally:
        runtime.WORTH_A_THREAD = worth
        if before is None:
            del os.environ["MULTIFORM_KERNEL"]
        else:
            os.environ["MULTIFORM_KERNEL"] = before
