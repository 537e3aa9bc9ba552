"""Checks that every engine must pass, whatever it runs on; installed, so that a new engine brings no tests of its own.

A check takes an `Engine` (`multiform.engines`), returns nothing, and raises AssertionError, saying what differs.

>>> from multiform.engines import CpuEngine
>>> from multiform.testing import check_parity
>>> check_parity(CpuEngine("portable", n_threads=2, worth_a_thread=1), storage="uint8", solver="cpm, literal")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse

import multiform._core as _core
from multiform._typing import Array, Floats
from multiform.engines import CpuEngine, Engine, ReferenceEngine, TrainingState, solve
from multiform.separators import Rows, Scaling, Separators, noise_energy
from multiform.solvers import AdamSolver, CpmSolver, ModelBatch, Solver, TrainingProblem

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
# What the CPU and its twin know besides.
CPU_SOLVERS: Mapping[str, Solver] = {
    **SOLVERS,
    "adam, by row": AdamSolver(3, batch_size=16, by_row=True),
    "adam, by row, every sample": AdamSolver(3, batch_size=16, revisit=1.0, final_rate=1.0, by_row=True),
}


def available_kernels() -> list[str]:
    """The compiled kernels that this machine can run.

    >>> "portable" in available_kernels()
    True
    """
    return list(_core.available_kernels())


# ------------------------------------------------------------------------------------------------- small problems


def sample_problem(
    storage: str = "float32", *, n_samples: int = 60, n_features: int = 5, n_classes: int = 3, seed: int = 0
) -> TrainingProblem:
    """Overlapping classes of whole numbers with many zeros, the same numbers in every storage.

    >>> sample_problem("csr").rows.stored.dtype, sample_problem("uint8").rows.stored.dtype
    (dtype('float32'), dtype('uint8'))
    """
    random = np.random.default_rng(seed)
    target = (np.arange(n_samples) % n_classes).astype(np.int32)
    means = random.integers(0, 8, size=(n_classes, n_features))
    X = np.maximum(random.poisson(means[target]) - 2, 0).astype(np.uint8)
    center = X.mean(axis=0).astype(np.float32)
    center[0] = 0  # a column whose zeros stay zeros can be skipped
    scale = np.maximum(X.std(axis=0), 0.5).astype(np.float32)
    if storage not in STORAGES:
        raise ValueError(f"storage must be one of {', '.join(STORAGES)}; got {storage!r}.")
    stored: Any = X if storage == "uint8" else X.astype(np.float32)
    if storage == "csr":
        stored = scipy.sparse.csr_array(stored)
    return TrainingProblem(Rows(stored, Scaling(center, scale)), target, n_classes)


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


def values_of(problem: TrainingProblem, coefficients: Floats, engine: Engine, columns: Any = None) -> Array:
    """f of every row of the problem, without noise: shape (n, m)."""
    separators = Separators(coefficients, problem.rows.scaling, problem.n_classes, columns=columns)
    return separators.values(problem.rows, engine)


def exact_loss(problem: TrainingProblem, batch: ModelBatch, coefficients: Floats, member: int = 0) -> float:
    """The loss of one member, in float64 straight from the formula.

    phi = sum_x w(x) sum_{j != y} max(alpha, f_y(x) / f_j(x)),   f_k(x) = ||A_k x - b_k||^2 + sigma^2 ||A_k||^2   (2.2)
    """
    columns, share = batch.member_columns(member), batch.member_weight(member)
    rows = problem.rows.scaled(slice(None)).astype(np.float64)
    rows = rows if columns is None else rows[:, columns]
    A, b = coefficients[:, :, :-1].astype(np.float64), coefficients[:, :, -1].astype(np.float64)
    f = ((rows @ A.transpose(0, 2, 1) - b[:, None, :]) ** 2).sum(axis=2).T
    energy = noise_energy(coefficients, float(batch.noise[member]))
    f = f if energy is None else f + energy
    weight = batch.class_weight[member][problem.target].astype(np.float64) * (1.0 if share is None else share)
    ratio = np.maximum(batch.alpha, np.take_along_axis(f, problem.target[:, None], axis=1) / f)
    ratio[np.arange(len(f)), problem.target] = 0
    return float(weight @ ratio.sum(axis=1))


def loss_at_equal_work(problem: TrainingProblem, batch: ModelBatch, solver: CpmSolver, work: int) -> float:
    """The exact loss after the last sweep of CPM that stays within the work, in samples looked at.

    There must be room for one sweep.
    """
    losses: list[float] = []

    def record(state: TrainingState) -> bool:
        within = state.counts["looked"] <= work
        if within:
            losses.append(exact_loss(problem, batch, state.coefficients[0]))
        return not within

    solve(problem, batch, replace(solver, n_passes=10_000), CpuEngine(), after_pass=record)
    return losses[-1]


# --------------------------------------------------------------------------------------------------------- checks


def check_engine(engine: Engine) -> None:
    """Every check below, on every storage and solver."""
    for storage in STORAGES:
        check_values(engine, storage)
        for solver in SOLVERS:
            check_parity(engine, storage, solver)
        check_literal_cpm_descends(engine, storage)
    for solver in ("adam", "cpm, all departures"):
        check_batch_equals_singles(engine, solver)


def check_values(engine: Engine, storage: str = "float32") -> None:
    """f against ||A_k x - b_k||^2 in float64."""
    problem = sample_problem(storage)
    coefficients = sample_batch(problem, given_start=True).initial_coefficients(problem, 0)
    residual = np.einsum("kqp,np->nkq", coefficients[:, :, :-1].astype(float), problem.rows.scaled(slice(None)))
    expected = ((residual - coefficients[:, :, -1]) ** 2).sum(axis=2)
    found = values_of(problem, coefficients, engine)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=f"member values of {storage} rows")
    if storage != "csr":  # to be evaluated alone, contiguous columns do as well
        turned = replace(problem, rows=problem.rows._replace(stored=np.asfortranarray(problem.rows.stored)))
        by_column = values_of(turned, coefficients, engine)
        np.testing.assert_array_equal(by_column, found, err_msg=f"member values of {storage} columns")


def check_parity(
    engine: Engine,
    storage: str = "float32",
    solver: str = "cpm, literal",
    *,
    some_columns: bool = False,
    given_start: bool = True,
    n_samples: int = 60,
    n_features: int = 5,
    judge: Engine | None = None,
) -> None:
    """The same moves and the same model as the NumPy twin (or another judge), up to single precision.

    From a random start, unless a drawn one is asked for: near the end, where those are, moves hang on rounding.
    """
    problem = sample_problem(storage, n_samples=n_samples, n_features=n_features)
    batch = sample_batch(problem, some_columns=some_columns, given_start=given_start)
    ours = solve(problem, batch, CPU_SOLVERS[solver], engine)
    twin = solve(problem, batch, CPU_SOLVERS[solver], judge or ReferenceEngine())
    what = f"{solver} on {storage} rows"
    assert ours.passes == twin.passes, f"{what}: {ours.passes} passes, the twin made {twin.passes}"
    for count in {"tried", "accepted", "visits"} & ours.counts.keys():
        assert ours.counts[count] == twin.counts[count], f"{what}: {count} {ours.counts}, the twin's {twin.counts}"
    for member, (mine, its) in enumerate(zip(ours.coefficients, twin.coefficients, strict=True)):
        where = f"{what}, member {member}"
        np.testing.assert_allclose(mine, its, rtol=2e-3, atol=2e-4, err_msg=f"{where}: coefficients")
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
    """The same model and the same member values, bit for bit, from all of the engines.

    The portable kernels leave the products of an evaluation to BLAS, which may round in another order than ours: values
    are compared among those that do, and among the others.
    """
    problem = sample_problem(storage, n_samples=n_samples, n_features=n_features, n_classes=n_classes)
    batch = sample_batch(problem)
    first, *others = (solve(problem, batch, CPU_SOLVERS[solver], engine) for engine in engines)
    for engine, other in zip(engines[1:], others, strict=True):
        for mine, its in zip(first.coefficients, other.coefficients, strict=True):
            np.testing.assert_array_equal(mine, its, err_msg=f"{solver}: {engine} against {engines[0]}")
        assert first.losses == other.losses, f"{solver}: losses of {engine} against {engines[0]}"
    values: dict[bool, Array] = {}
    for engine in engines:
        f = values_of(problem, first.coefficients[0], engine)
        by_blas = getattr(engine, "kernel", None) == "portable"
        np.testing.assert_array_equal(values.setdefault(by_blas, f), f, err_msg=f"values of {engine}")


def check_literal_cpm_descends(engine: Engine, storage: str = "float32", *, n_sweeps: int = 6) -> None:
    """The literal CPM never raises the exact loss (2.3), for any member, beyond the rounding of float32."""
    problem = sample_problem(storage)
    batch = sample_batch(problem)
    members = range(len(batch))
    first = [exact_loss(problem, batch, batch.initial_coefficients(problem, member), member) for member in members]
    before = first
    for sweeps in range(1, n_sweeps + 1):
        state = solve(problem, batch, replace(_LITERAL, n_passes=sweeps), engine)
        after = [exact_loss(problem, batch, state.coefficients[member], member) for member in members]
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
    together = solve(problem, batch, CPU_SOLVERS[solver], engine)
    for member in range(len(batch)):
        alone = solve(problem, batch.part([member]), CPU_SOLVERS[solver], engine)
        np.testing.assert_array_equal(
            alone.coefficients[0], together.coefficients[member], err_msg=f"{solver}, member {member}"
        )
        assert alone.losses[0] == together.losses[member]
