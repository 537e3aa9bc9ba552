"""Adam for small problems in bulk: one thread block a member, a whole fit in one launch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from multiform.solvers.adam import AdamSolver, Moments
from multiform.solvers.cuda.device import Device, Program
from multiform.solvers.cuda.members import DeviceMembers
from multiform.solvers.cuda.storage import DeviceRows
from multiform.solvers.problem import Floats, ModelBatch, TrainingProblem

__all__ = ["CudaSmallAdamState", "fits_in_a_block"]

THREADS = 256
PASSES_OF_LAUNCH = 100  # Ctrl-C is heard between launches
MOST_OPERATIONS = 4e6  # of a step; above it the members' steps fill the device better one kernel at a time


def shared_bytes(solver: AdamSolver, n: int, m: int, q: int, n_features: int) -> int:
    """What small_adam.cu keeps in shared memory for one member."""
    stride, outputs, rows = (n_features + 1) | 1, m * q, min(solver.batch_size, n)
    floats = n * stride + 3 * outputs * stride + rows * (outputs + 2 * m + 1) + -(-n // solver.batch_size) + m
    return 32 * 8 + 8 * n + 4 * floats + 4 * (32 + 2 * n + rows) + n


def fits_in_a_block(solver: AdamSolver, problem: TrainingProblem, batch: ModelBatch, rows: DeviceRows) -> bool:
    """Whether members are small enough to be trained by one thread block each."""
    widest = problem.n_features if batch.columns is None else max(map(len, batch.columns))
    n, m, q = len(problem.target), problem.n_classes, batch.n_components
    operations = min(solver.batch_size, n) * m * q * (widest + 1)
    needed = shared_bytes(solver, n, m, q, widest)
    return not rows.streamed and needed <= rows.device.shared_bytes and operations <= MOST_OPERATIONS


class CudaSmallAdamState:
    """A batch of small members on its way by Adam; see `TrainingState`."""

    def __init__(
        self,
        solver: AdamSolver,
        problem: TrainingProblem,
        batch: ModelBatch,
        rows: DeviceRows,
        moments: Sequence[Moments] | None,
    ) -> None:
        device: Device = rows.device
        self._device, self._solver = device, solver
        members = self._members = DeviceMembers(problem, batch, rows)
        B, m, q, n = members.n_members, members.n_classes, members.n_components, members.n_samples
        self._program = Program(device, "small_adam.cu", "Small", rows.stored_bytes, q)
        self._shared = shared_bytes(solver, n, m, q, members.n_features)
        shape = (B, m, q, members.width)
        if moments is None:
            first, second, steps = device.zeros(shape, np.float32), device.zeros(shape, np.float32), np.zeros(B)
        else:
            first = device.upload(members.stacked([part[0] for part in moments]))
            second = device.upload(members.stacked([part[1] for part in moments]))
            steps = np.array([part[2] for part in moments])
        rate = np.array([solver.rate(width) for width in members.features], dtype=np.float32)
        self._fields: dict[str, Any] = members.fields(rows) | {
            "weights": device.upload(members.start(problem, batch)),
            "first": first,
            "second": second,
            "selected": device.upload(np.array(members.features, dtype=np.int32)),
            "drawn": device.zeros((B,), np.uint64),
            "active": device.upload(np.ones((B, n), dtype=np.uint8)),
            "steps": device.upload(steps.astype(np.int64)),
            "sums": device.zeros((B, solver.n_passes, 2), np.float64),
            "visits": device.zeros((B,), np.int64),
            "batch_size": solver.batch_size,
            "capacity": min(solver.batch_size, n),
            "learning_rate": device.upload(rate),
            "n_passes": solver.n_passes,
            "alpha": batch.alpha,
            "beta1": solver.beta1,
            "beta2": solver.beta2,
            "epsilon": solver.epsilon,
            "revisit": solver.revisit,
            "final_rate": solver.final_rate,
        }
        self._arguments = self._program.arguments(**self._fields)
        self._read: tuple[int, list[Floats]] | None = None
        self.passes = 0

    @property
    def weights(self) -> list[Floats]:
        """A_k and b_k side by side, in scaled units, per member, as they are now."""
        if self._read is None or self._read[0] != self.passes:
            self._read = self.passes, self._members.unstacked(self._device.download(self._fields["weights"]))
        return self._read[1]

    @property
    def moments(self) -> list[Moments]:
        first, second = (
            self._members.unstacked(self._device.download(self._fields[name])) for name in ("first", "second")
        )
        steps = self._device.download(self._fields["steps"])
        return [(a, b, int(count)) for a, b, count in zip(first, second, steps, strict=True)]

    @property
    def losses(self) -> list[list[float]]:
        sums = self._device.download(self._fields["sums"])[:, : self.passes]
        means = sums[:, :, 0] / np.where(sums[:, :, 1] > 0, sums[:, :, 1], 1)
        return [list(map(float, member)) for member in means]

    @property
    def visits(self) -> int:
        """Samples visited so far, over all members."""
        return int(self._device.download(self._fields["visits"]).sum())

    def release(self) -> None:
        """Give the device's memory back; the state is of no use afterwards."""
        device = self._device
        vars(self).clear()
        device.release()

    def advance(self, until: int, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self.passes < until:
            end = min(until, self.passes + PASSES_OF_LAUNCH)
            self._program(
                "small_adam",
                self._arguments,
                self.passes,
                end,
                grid=(self._members.n_members, 1, 1),
                threads=THREADS,
                shared=self._shared,
            )
            self._device.download(self._fields["visits"])  # waits
            self.passes = end
            if time.monotonic() > deadline:
                return
