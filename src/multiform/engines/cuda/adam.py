"""Adam on the device: three kernels a step, a graph of steps, the passes' orders drawn there too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from multiform.engines.cuda.device import Program, Staging
from multiform.engines.cuda.states import DeviceAdamState
from multiform.engines.cuda.values import FORWARD_THREADS, forward_shared

__all__ = ["CudaAdamState"]

STEPS_OF_GRAPH = 16
COLUMNS_TILE = 128  # and threads of an update
SLOPES_THREADS = 256


class CudaAdamState(DeviceAdamState):
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
        self._staging: Staging | None = None
        self._visits = 0

    @property
    def counts(self) -> dict[str, int]:
        """Samples visited so far, over all members."""
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
            program("adam_slopes", arguments, step, grid=slopes_grid, threads=SLOPES_THREADS, shared=slopes_shared)
            program("adam_update", arguments, step, grid=columns_grid, threads=COLUMNS_TILE, shared=32 * 8)
        program("adam_tick", arguments, STEPS_OF_GRAPH, grid=(1, 1, 1), threads=1)

    def _streamed_steps(self, visited: Any, n_batches: Any) -> None:
        """The rows of the next graph's batches are gathered on the host while the device works on the last ones."""
        device, rows, B = self._device, self._rows, self._members.n_members
        capacity = self._capacity * STEPS_OF_GRAPH
        if self._staging is None:
            self._staging = device.staging((B, capacity, rows.pitch), rows.host.dtype)
        staging = self._staging
        arguments = [self._program.arguments(self._fields, rows=buffer, streamed=capacity) for buffer in staging.arrays]
        order = device.download(self._fields["order"])
        for first in range(0, int(n_batches.max()), STEPS_OF_GRAPH):
            batches = np.minimum(np.array([[first], [first + STEPS_OF_GRAPH]]), n_batches)
            begin, end = batches * visited // np.maximum(n_batches, 1)

            def fill(host: Any, begin: Any = begin, end: Any = end) -> None:
                for member in range(B):
                    rows.gather(order[member, begin[member] : end[member]], host[member])

            self._launch_steps(arguments[staging.put(fill)])
