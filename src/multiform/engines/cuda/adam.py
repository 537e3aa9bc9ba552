"""Adam on the device, in two ways.

Three kernels per step, a graph of steps, the passes' orders drawn on the device too; or, for small problems in bulk,
one thread block per member and a whole fit in one launch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from multiform.engines.cuda.device import Program, source_number
from multiform.engines.cuda.states import DeviceState
from multiform.engines.cuda.storage import DeviceRows
from multiform.engines.cuda.values import FORWARD_THREADS, forward_shared
from multiform.solvers import AdamSolver, ModelBatch, Moments, TrainingProblem

STEPS_OF_GRAPH = 16
COLUMNS_TILE = source_number("adam.cu", "kUpdateThreads")  # a column for each thread of an update
THREADS = 256  # of a block of slopes, and of a small member's
PASSES_OF_LAUNCH = 100  # Ctrl-C is heard between launches
MOST_OPERATIONS = 4e6  # of a small member's step; above it the steps fill the device better one kernel at a time


class _AdamState(DeviceState):
    """What the two ways to make Adam's steps have in common: its moments and settings."""

    def __init__(
        self,
        solver: AdamSolver,
        problem: TrainingProblem,
        batch: ModelBatch,
        rows: DeviceRows,
        forget: Callable[[], None],
        moments: Sequence[Moments] | None,
    ) -> None:
        super().__init__(problem, batch, rows, forget)
        self._solver = solver
        self._capacity = min(solver.batch_size, self._members.n_samples)
        weights_and_moments = 3 * 4 * int(np.prod(self._members.shape))
        self._require_room(weights_and_moments + self._work_bytes(), "lower n_components or batch_size")
        device, members = self._device, self._members
        if moments is None:
            first, second = (device.zeros(members.shape, np.float32) for _ in range(2))
            steps = np.zeros(members.n_members, dtype=np.int64)
        else:
            first = device.upload(members.stacked([part[0] for part in moments]))
            second = device.upload(members.stacked([part[1] for part in moments]))
            steps = np.array([part[2] for part in moments], dtype=np.int64)
        rate = np.array([solver.rate(width) for width in members.features], dtype=np.float32)
        self._fields |= asdict(solver) | {
            "weights": device.upload(members.start(problem, batch)),
            "first": first,
            "second": second,
            "steps": device.upload(steps),
            "drawn": device.zeros((members.n_members,), np.uint64),
            "active": device.upload(np.ones((members.n_members, members.n_samples), dtype=np.uint8)),
            "capacity": self._capacity,
            "learning_rate": device.upload(rate),
        }
        self._prepare()

    @abstractmethod
    def _work_bytes(self) -> int:
        """What `_prepare` allocates, about."""

    @abstractmethod
    def _prepare(self) -> None:
        """The rest of the fields, and the program that is given them."""

    @property
    def moments(self) -> list[Moments]:
        first, second = (
            self._members.unstacked(self._device.download(self._fields[name])) for name in ("first", "second")
        )
        return [(a, b, int(count)) for a, b, count in zip(first, second, self._steps_made(), strict=True)]

    def _steps_made(self) -> Any:
        return self._device.download(self._fields["steps"])


class CudaAdamState(_AdamState):
    """A batch on its way by Adam; see `TrainingState`."""

    def _work_bytes(self) -> int:
        rows, members, capacity = self._rows, self._members, self._capacity
        B, m, q, _ = members.shape
        needed = B * members.n_samples * 17 + 4 * B * capacity * m * (2 * q + 12)
        if rows.streamed:
            needed += 2 * B * capacity * STEPS_OF_GRAPH * rows.pitch * rows.stored_bytes
        return needed

    def _prepare(self) -> None:
        device, members, capacity = self._device, self._members, self._capacity
        (B, m, q, width), n = members.shape, members.n_samples
        program = self._program = Program(device, "adam.cu", "Adam", self._rows.stored_bytes, q)
        self._column_tiles = -(-width // COLUMNS_TILE)
        most_batches = -(-n // self._solver.batch_size)
        self._fields |= {
            "order": device.empty((B, n), np.int32),
            "visited": device.zeros((B,), np.int32),
            "pass_sums": device.zeros((B, 2), np.float64),
            "holder": device.empty((B, n), np.uint64),
            "pending": device.empty((B, n), np.int32),
            "clock": device.zeros((2,), np.int64),
            "residual": device.empty((B, capacity, m, q), np.float32),
            "squares": device.empty((B, program.pieces, capacity, m), np.float32),
            "listed": device.empty((B, m, capacity), np.int32),
            "listed_row": device.empty((B, m, capacity), np.int32),
            "listed_slope": device.empty((B, m, capacity), np.float32),
            "scaled": device.empty((B, m, capacity, program.pieces * program.piece), np.float32),
            "n_listed": device.zeros((B, m), np.int32),
            "slope_sum": device.empty((B, m), np.float64),
            "norms": device.empty((B, m, program.pieces * self._column_tiles), np.float64),
            "rate": device.empty((B, most_batches), np.float32),
            "most_batches": most_batches,
        }
        self._arguments = program.arguments(self._fields, streamed=0)
        program("adam_norms", self._arguments, grid=(1, m, B), threads=256, shared=32 * 8)
        self._steps: Callable[[], None] | None = None
        self._visits = 0

    @property
    def counts(self) -> dict[str, int]:
        return {"visits": self._visits}

    def _steps_made(self) -> Any:
        """The device counts them when a pass begins."""
        last = -(-self._device.download(self._fields["visited"]).astype(np.int64) // self._solver.batch_size)
        return super()._steps_made() + last

    def _make_passes(self, until: int) -> None:
        device, program, B = self._device, self._program, self._members.n_members
        begin = self._members.n_samples
        threads = min(1024, max(64, -(-begin // 32) * 32))
        program("adam_begin_pass", self._arguments, self.passes, grid=(B, 1, 1), threads=threads, shared=32 * 4)
        visited = device.download(self._fields["visited"]).astype(np.int64)
        n_batches = -(-visited // self._solver.batch_size)
        if self._rows.streamed:
            self._streamed_steps(visited, n_batches)
        else:
            if self._steps is None:
                self._steps = device.graph(lambda: self._launch_steps(self._arguments))
            for _ in range(0, int(n_batches.max()), STEPS_OF_GRAPH):
                self._steps()
        self._note_losses(device.download(self._fields["pass_sums"]))
        self._visits += int(visited.sum())
        self.passes += 1

    def _launch_steps(self, arguments: Any) -> None:
        members, program = self._members, self._program
        outputs = members.n_classes * program.pieces
        rows_grid = (-(-self._capacity // 32), outputs, members.n_members)
        slopes_grid = (members.n_classes, 1, members.n_members)
        columns_grid = (self._column_tiles, outputs, members.n_members)
        for step in range(STEPS_OF_GRAPH):
            shared = forward_shared(program.piece)
            program("adam_forward", arguments, step, grid=rows_grid, threads=FORWARD_THREADS, shared=shared)
            slopes_shared = 32 * 12 + 4 * members.n_classes
            program("adam_slopes", arguments, step, grid=slopes_grid, threads=THREADS, shared=slopes_shared)
            program("adam_update", arguments, step, grid=columns_grid, threads=COLUMNS_TILE, shared=32 * 8)
        program("adam_tick", arguments, STEPS_OF_GRAPH, grid=(1, 1, 1), threads=1)

    def _streamed_steps(self, visited: Any, n_batches: Any) -> None:
        """The rows of the next graph's batches are gathered on the host while the device works on the last ones."""
        capacity = self._capacity * STEPS_OF_GRAPH
        order = self._device.download(self._fields["order"])
        for first in range(0, int(n_batches.max()), STEPS_OF_GRAPH):
            batches = np.minimum(np.array([[first], [first + STEPS_OF_GRAPH]]), n_batches)
            begin, end = batches * visited // np.maximum(n_batches, 1)
            rows = self._gathered(order, begin, end, capacity)
            self._launch_steps(self._program.arguments(self._fields, rows=rows, streamed=capacity))


def _shared_bytes(solver: AdamSolver, n: int, m: int, q: int, n_features: int) -> int:
    """What small_adam.cu keeps in shared memory for one member."""
    stride, outputs, rows = (n_features + 1) | 1, m * q, min(solver.batch_size, n)
    floats = n * stride + 3 * outputs * stride + rows * (outputs + 2 * m + 1) + -(-n // solver.batch_size) + m
    return 32 * 8 + 8 * n + 4 * floats + 4 * (32 + 2 * n + rows) + n


def fits_in_a_block(solver: AdamSolver, problem: TrainingProblem, batch: ModelBatch, rows: DeviceRows) -> bool:
    """Whether members are small enough to be trained by one thread block each."""
    widest = problem.n_features if batch.columns is None else max(map(len, batch.columns))
    n, m, q = len(problem.target), problem.n_classes, batch.n_components
    operations = min(solver.batch_size, n) * m * q * (widest + 1)
    needed = _shared_bytes(solver, n, m, q, widest)
    return not rows.streamed and needed <= rows.device.shared_bytes and operations <= MOST_OPERATIONS


class CudaSmallAdamState(_AdamState):
    """A batch of small members on its way by Adam; see `TrainingState`."""

    side_by_side = False

    def _work_bytes(self) -> int:
        return self._members.n_members * (self._members.n_samples + 16 * self._solver.n_passes + 40)

    def _prepare(self) -> None:
        device, members, solver = self._device, self._members, self._solver
        B, m, q, _ = members.shape
        self._program = Program(device, "small_adam.cu", "Small", self._rows.stored_bytes, q)
        self._shared = _shared_bytes(solver, members.n_samples, m, q, members.n_features)
        self._fields |= {
            "sums": device.zeros((B, solver.n_passes, 2), np.float64),
            "visits": device.zeros((B,), np.int64),
        }
        self._arguments = self._program.arguments(self._fields)

    @property
    def losses(self) -> list[list[float]]:
        sums = self._device.download(self._fields["sums"])[:, : self.passes]
        means = sums[:, :, 0] / np.where(sums[:, :, 1] > 0, sums[:, :, 1], 1)
        return [list(map(float, member)) for member in means]

    @property
    def counts(self) -> dict[str, int]:
        return {"visits": int(self._device.download(self._fields["visits"]).sum())}

    def _make_passes(self, until: int) -> None:
        end = min(until, self.passes + PASSES_OF_LAUNCH)
        grid = (self._members.n_members, 1, 1)
        self._program("small_adam", self._arguments, self.passes, end, grid=grid, threads=THREADS, shared=self._shared)
        self._device.wait()
        self.passes = end
