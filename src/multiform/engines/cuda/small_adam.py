"""Adam for small problems in bulk: one thread block a member, a whole fit in one launch."""

from __future__ import annotations

import numpy as np

from multiform.engines.cuda.device import Program
from multiform.engines.cuda.states import DeviceAdamState
from multiform.engines.cuda.storage import DeviceRows
from multiform.solvers import AdamSolver, ModelBatch, TrainingProblem

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


class CudaSmallAdamState(DeviceAdamState):
    """A batch of small members on its way by Adam; see `TrainingState`."""

    side_by_side = False

    def _work_bytes(self) -> int:
        return self._members.n_members * (self._members.n_samples + 16 * self._solver.n_passes + 40)

    def _prepare(self) -> None:
        device, members, solver = self._device, self._members, self._solver
        B, m, q, _ = members.shape
        self._program = Program(device, "small_adam.cu", "Small", self._rows.stored_bytes, q)
        self._shared = shared_bytes(solver, members.n_samples, m, q, members.n_features)
        self._fields |= {
            "sums": device.zeros((B, solver.n_passes, 2), np.float64),
            "visits": device.zeros((B,), np.int64),
        }
        self._arguments = self._program.arguments(self._fields)

    @property
    def losses(self) -> list[list[float]]:
        """Mean loss of each pass, per member."""
        sums = self._device.download(self._fields["sums"])[:, : self.passes]
        means = sums[:, :, 0] / np.where(sums[:, :, 1] > 0, sums[:, :, 1], 1)
        return [list(map(float, member)) for member in means]

    @property
    def counts(self) -> dict[str, int]:
        """Samples visited so far, over all members."""
        return {"visits": int(self._device.download(self._fields["visits"]).sum())}

    def _make_passes(self, until: int) -> None:
        end = min(until, self.passes + PASSES_OF_LAUNCH)
        grid = (self._members.n_members, 1, 1)
        self._program("small_adam", self._arguments, self.passes, end, grid=grid, threads=THREADS, shared=self._shared)
        self._device.wait()
        self.passes = end
