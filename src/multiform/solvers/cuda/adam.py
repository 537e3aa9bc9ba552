"""Adam on the device: three kernels a step, a graph of steps, the passes' orders drawn there too."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from multiform.solvers.adam import AdamSolver, Moments
from multiform.solvers.cuda.device import Program
from multiform.solvers.cuda.members import DeviceMembers
from multiform.solvers.cuda.storage import DeviceRows
from multiform.solvers.cuda.values import FORWARD_THREADS, forward_shared
from multiform.solvers.problem import Floats, ModelBatch, TrainingProblem

__all__ = ["CudaAdamState"]

STEPS_OF_GRAPH = 16
COLUMNS_TILE = 128  # and threads of an update
SLOPES_THREADS = 256


class CudaAdamState:
    """A batch on its way by Adam; see `TrainingState`. Weights and moments stay on the device until asked for."""

    def __init__(
        self,
        solver: AdamSolver,
        problem: TrainingProblem,
        batch: ModelBatch,
        rows: DeviceRows,
        moments: Sequence[Moments] | None,
    ) -> None:
        device = self._device = rows.device
        members = self._members = DeviceMembers(problem, batch, rows)
        members.require_few()
        self._solver, self._rows = solver, rows
        B, m, n = members.n_members, members.n_classes, members.n_samples
        program = self._program = Program(device, "adam.cu", "Adam", rows.stored_bytes, members.n_components)
        capacity = self._capacity = min(solver.batch_size, n)
        most_batches = -(-n // solver.batch_size)
        shape = (B, m, members.n_components, members.width)
        self._column_tiles = -(-members.width // COLUMNS_TILE)
        self._require_room(shape, n, capacity)

        weights = members.start(problem, batch)
        if moments is None:
            first, second, steps = device.zeros(shape, np.float32), device.zeros(shape, np.float32), np.zeros(B)
        else:
            first = device.upload(members.stacked([part[0] for part in moments]))
            second = device.upload(members.stacked([part[1] for part in moments]))
            steps = np.array([part[2] for part in moments])
        rate = np.array([solver.rate(width) for width in members.features], dtype=np.float32)
        self._state: dict[str, Any] = {
            "weights": device.upload(weights),
            "first": first,
            "second": second,
            "steps": device.upload(steps.astype(np.int64)),
            "drawn": device.zeros((B,), np.uint64),
            "active": device.upload(np.ones((B, n), dtype=np.uint8)),
            "order": device.empty((B, n), np.int32),
            "visited": device.zeros((B,), np.int32),
            "pass_sums": device.zeros((B, 2), np.float64),
        }
        work: dict[str, Any] = {
            "holder": device.empty((B, n), np.uint64),
            "pending": device.empty((B, n), np.int32),
            "clock": device.zeros((2,), np.int64),
            "residual": device.empty((B, capacity, m, members.n_components), np.float32),
            "squares": device.empty((B, program.pieces, capacity, m), np.float32),
            "listed": device.empty((B, m, capacity), np.int32),
            "listed_row": device.empty((B, m, capacity), np.int32),
            "listed_slope": device.empty((B, m, capacity), np.float32),
            "scaled": device.empty((B, m, capacity, program.pieces * program.piece), np.float32),
            "n_listed": device.zeros((B, m), np.int32),
            "slope_sum": device.empty((B, m), np.float64),
            "norms": device.empty((B, m, program.pieces * self._column_tiles), np.float64),
            "rate": device.empty((B, most_batches), np.float32),
            "learning_rate": device.upload(rate),
        }
        self._fields: dict[str, Any] = members.fields(rows) | self._state | work
        self._fields |= {
            "batch_size": solver.batch_size,
            "capacity": capacity,
            "most_batches": most_batches,
            "n_passes": solver.n_passes,
            "alpha": batch.alpha,
            "beta1": solver.beta1,
            "beta2": solver.beta2,
            "epsilon": solver.epsilon,
            "revisit": solver.revisit,
            "final_rate": solver.final_rate,
        }
        self._arguments = program.arguments(**self._fields, streamed=0)
        program("adam_norms", self._arguments, grid=(1, m, B), threads=256, shared=32 * 8)
        self._steps: Callable[[], None] | None = None
        self._losses: list[list[float]] = [[] for _ in range(B)]
        self.passes = 0
        self.visits = 0
        self._read: tuple[int, list[Floats]] | None = None

    def _require_room(self, shape: tuple[int, ...], n: int, capacity: int) -> None:
        B, m, q, _ = shape
        needed = 12 * int(np.prod(shape)) + B * n * 17 + 4 * B * capacity * m * (2 * q + 12)
        if self._rows.streamed:
            needed += 2 * B * capacity * STEPS_OF_GRAPH * self._rows.pitch * self._rows.stored_bytes
        free = self._device.free_bytes()
        if needed > free:
            raise MemoryError(
                f"{B} models of {m} x {q} x {shape[3]} coefficients over {n} samples need about {needed / 1e9:.1f} GB "
                f"on the GPU, which has {free / 1e9:.1f} GB for them: train fewer members at a time, lower "
                "n_components or batch_size, or use device='cpu'."
            )

    @property
    def weights(self) -> list[Floats]:
        """A_k and b_k side by side, in scaled units, per member, as they are now."""
        if self._read is None or self._read[0] != self.passes:
            self._read = self.passes, self._members.unstacked(self._device.download(self._state["weights"]))
        return self._read[1]

    @property
    def moments(self) -> list[Moments]:
        first, second = (
            self._members.unstacked(self._device.download(self._state[name])) for name in ("first", "second")
        )
        last = -(-self._device.download(self._state["visited"]).astype(np.int64) // self._solver.batch_size)
        steps = self._device.download(self._state["steps"]) + last
        return [(a, b, int(count)) for a, b, count in zip(first, second, steps, strict=True)]

    @property
    def losses(self) -> list[list[float]]:
        return [list(member) for member in self._losses]

    def release(self) -> None:
        """Give the device's memory back; the state is of no use afterwards."""
        device = self._device
        vars(self).clear()
        device.release()

    def advance(self, until: int, seconds: float) -> None:
        """Whole passes; a pass over streamed rows or many samples is short enough to hear Ctrl-C between its parts."""
        deadline = time.monotonic() + seconds
        while self.passes < until:
            self._one_pass()
            if time.monotonic() > deadline:
                return

    def _one_pass(self) -> None:
        device, program, B = self._device, self._program, self._members.n_members
        begin = self._members.n_samples
        threads = min(1024, max(64, -(-begin // 32) * 32))
        program("adam_begin_pass", self._arguments, self.passes, grid=(B, 1, 1), threads=threads, shared=32 * 4)
        visited = device.download(self._state["visited"]).astype(np.int64)
        n_batches = -(-visited // self._solver.batch_size)
        if self._rows.streamed:
            self._streamed_steps(visited, n_batches)
        else:
            if self._steps is None:
                self._steps = device.graph(lambda: self._launch_steps(self._arguments))
            for _ in range(0, int(n_batches.max()), STEPS_OF_GRAPH):
                self._steps()
        sums = device.download(self._state["pass_sums"])
        for member, (loss, weight) in enumerate(sums):
            self._losses[member].append(float(loss / weight) if weight > 0 else 0.0)
        self.visits += int(visited.sum())
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
            program("adam_slopes", arguments, step, grid=slopes_grid, threads=SLOPES_THREADS, shared=slopes_shared)
            program("adam_update", arguments, step, grid=columns_grid, threads=COLUMNS_TILE, shared=32 * 8)
        program("adam_tick", arguments, STEPS_OF_GRAPH, grid=(1, 1, 1), threads=1)

    def _streamed_steps(self, visited: Any, n_batches: Any) -> None:
        """The rows of the next graph's batches are gathered on the host while the device works on the last ones."""
        device, rows, B = self._device, self._rows, self._members.n_members
        capacity = self._capacity * STEPS_OF_GRAPH
        staging = device.staging((B, capacity, rows.pitch), rows.host.dtype)
        arguments = [
            self._program.arguments(**(self._fields | {"rows": buffer}), streamed=capacity) for buffer in staging.arrays
        ]
        order = device.download(self._state["order"])
        for first in range(0, int(n_batches.max()), STEPS_OF_GRAPH):
            batches = np.minimum(np.array([[first], [first + STEPS_OF_GRAPH]]), n_batches)
            begin, end = batches * visited // np.maximum(n_batches, 1)

            def fill(host: Any, begin: Any = begin, end: Any = end) -> None:
                for member in range(B):
                    rows.gather(order[member, begin[member] : end[member]], host[member])

            self._launch_steps(arguments[staging.put(fill)])
