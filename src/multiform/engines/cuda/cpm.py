"""The coordinate perturbation method on the device: a cluster of thread blocks for each separator of each member."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from multiform._typing import Array, Ints
from multiform.engines.cuda.device import Device, Program, source_number
from multiform.engines.cuda.states import DeviceState
from multiform.engines.cuda.storage import DeviceRows
from multiform.engines.cuda.values import launch_squares, launch_values
from multiform.solvers import CpmSolver, ModelBatch, TrainingProblem

LOOK = 16_384  # samples whose member functions are looked at together
BLOCKS_OF_CLUSTER = source_number("cpm_row.cu", "kBlocksOfCluster")
MOST_WARPS = source_number("cpm_row.cu", "kMostWarps")
COORDINATES = source_number("cpm_row.cu", "kCoordinates")
AHEAD = source_number("cpm_row.cu", "kAhead")
REGISTERS = 65_536  # of a multiprocessor
REGISTERS_OF_THREAD = {4: 104, 8: 128}  # where blocks share a multiprocessor
SHAPES = [(slots, threads) for slots in (4, 8) for threads in (64, 128, 192, 256, 320, 384, 448, 512)]


def spread(sets: Array, lanes: Array, device: Device) -> tuple[int, int, Ints]:
    """How the samples of separators, so many `lanes` of each, spread over threads and blocks.

    The slots of a thread, samples in its registers (0: they stand in memory, however many they are); the threads of a
    block; and of each block, in three columns, which separator it has (-1: none), its rank in that separator's group,
    and how many blocks the group has. Groups lie within clusters of BLOCKS_OF_CLUSTER blocks; where there are no
    clusters, every group is one block. Of all shapes it is the one with the least estimated time per coordinate.

    >>> class Large:
    ...     has_clusters, processors = True, 132
    >>> slots, threads, blocks = spread(np.arange(3), np.array([9_000, 500, 1_700]), Large())
    >>> slots * threads * 8 >= 9_000, len(blocks) % 8
    (True, 0)
    """
    most = BLOCKS_OF_CLUSTER if device.has_clusters else 1
    fitting = [(slots, threads) for slots, threads in SHAPES if lanes.max() <= slots * threads * most]
    if not fitting:
        return 0, SHAPES[-1][1], _packed(sets, np.full(len(sets), most), device.has_clusters)
    slots, threads = min(fitting, key=lambda shape: _cycles(shape, lanes, device.processors))
    return slots, threads, _packed(sets, -(-lanes // (slots * threads)), device.has_clusters)


def _cycles(shape: tuple[int, int], lanes: Array, processors: int) -> float:
    """Of a coordinate: waves of blocks, each a wait for the sums, a thread's samples, and what the warps issue."""
    slots, threads = shape
    n_blocks = int((-(-lanes // (slots * threads))).sum())
    resident = max(1, REGISTERS // (REGISTERS_OF_THREAD[slots] * threads))
    waves = -(-n_blocks // (processors * resident))
    warps = min(resident, -(-n_blocks // processors)) * threads / 32
    return waves * (600 + 25 * slots + (120 + 20 * slots) * warps / 4)


def _packed(sets: Array, sizes: Array, clustered: bool) -> Ints:
    """Groups of blocks side by side, none across the border of a cluster: largest first, where there is room."""
    if not clustered:
        return np.stack([sets, np.zeros(len(sets)), np.ones(len(sets))], axis=1).astype(np.int32)
    rows: list[list[tuple[int, int, int]]] = []
    with_room: dict[int, list[int]] = {room: [] for room in range(BLOCKS_OF_CLUSTER + 1)}
    for at in np.argsort(-sizes, kind="stable"):
        size = int(sizes[at])
        room = next((room for room in range(size, BLOCKS_OF_CLUSTER + 1) if with_room[room]), None)
        if room is None:
            cluster, room = len(rows), BLOCKS_OF_CLUSTER
            rows.append([])
        else:
            cluster = with_room[room].pop()
        rows[cluster] += [(int(sets[at]), rank, size) for rank in range(size)]
        with_room[room - size].append(cluster)
    none = (-1, 0, 1)
    return np.array([[*row, *[none] * (BLOCKS_OF_CLUSTER - len(row))] for row in rows], dtype=np.int32).reshape(-1, 3)


class CudaCpmState(DeviceState):
    """A batch on its way by CPM; see `TrainingState`."""

    moments = None

    def __init__(
        self,
        solver: CpmSolver,
        problem: TrainingProblem,
        batch: ModelBatch,
        rows: DeviceRows,
        forget: Callable[[], None],
    ) -> None:
        super().__init__(problem, batch, rows, forget)
        device, members, self._solver = rows.device, self._members, solver
        B, m, q, n = members.n_members, members.n_classes, members.n_components, members.n_samples
        most = solver.max_entries * m
        look = self._look = min(n, LOOK) if most > 0 else n
        capacity = self._capacity = min(n, most // 2 + 1) if most > 0 else n
        self._sets = Program(device, "cpm_sets.cu", "Sets", rows.stored_bytes, q)
        self._values = Program(device, "values.cu", "Values", rows.stored_bytes, q)
        self._require_room(self._needed_bytes(), "lower n_components, use solver='adam'")
        weights = members.start(problem, batch)
        self._fields |= asdict(solver) | solver.limits(1)
        self._fields |= {
            "weights": device.upload(weights),
            "steps": device.upload(members.stacked([solver.initial_steps(one) for one in members.unstacked(weights)])),
            "threshold": solver.slack * batch.alpha,
            # the samples of a sweep
            "drawn": device.zeros((B,), np.uint64),
            "active": device.upload(np.ones((B, n), dtype=np.uint8)),
            "order": device.empty((B, n), np.int32),
            "holder": device.empty((B, n), np.uint64),
            "pending": device.empty((B, n), np.int32),
            "ordered": device.zeros((B,), np.int32),
            "energy": device.zeros((B, m), np.float32),
            "values": device.empty((B, look, m), np.float32),
            "squares": device.empty((B, self._values.pieces, max(look, capacity), m), np.float32),
            "look": look,
            "entries": device.zeros((B,), np.int64),
            "sums": device.zeros((B, 2), np.float64),
            "streamed": int(rows.streamed),
            # those that it keeps
            "capacity": capacity,
            "n_kept": device.zeros((B,), np.int32),
            "kept": device.empty((B, capacity), np.int32),
            "f": device.empty((B, capacity, m), np.float32),
            "f_next": device.empty((B, capacity, m), np.float32),
            "residual": device.empty((B, capacity, m, q), np.float32),
            "places": device.empty((B, m, capacity), np.int32),
            "n_own": device.zeros((B, m), np.int32),
            "n_set": device.zeros((B, m), np.int32),
            "tried": device.zeros((B * m,), np.int64),
            "accepted": device.zeros((B * m,), np.int64),
        }

    def _needed_bytes(self) -> int:
        rows, members, capacity, look = self._rows, self._members, self._capacity, self._look
        m, q, n = members.n_classes, members.n_components, members.n_samples
        lanes = (self._solver.max_entries or capacity) * m
        staged = 2 * (look + capacity) * rows.pitch * rows.stored_bytes if rows.streamed else 0
        return members.n_members * (
            8 * m * q * members.width
            + 21 * n
            + capacity * (4 + 12 * m + 4 * m * q)
            + 4 * (1 + self._values.pieces) * max(look, capacity) * m
            + lanes * (members.n_features + 1) * rows.stored_bytes
            + staged
        )

    @property
    def counts(self) -> dict[str, int]:
        return {name: int(self._device.download(self._fields[name]).sum()) for name in ("tried", "accepted")}

    def _make_passes(self, until: int) -> None:
        self._choose_samples()
        sums = self._device.download(self._fields["sums"])
        n_set = self._device.download(self._fields["n_set"]).astype(np.int64)
        if n_set.any():
            self._move_rows(n_set)
        self._note_losses(sums)
        self.passes += 1

    # -------------------------------------------------------------------------------------- the samples of a sweep

    def _set_arguments(self, **fields: Any) -> Any:
        not_yet = {"first": 0, "lane_start": None, "lanes": None, "lanes_at": None}
        return self._sets.arguments(self._fields | {"most": self._most()} | not_yet | fields)

    def _most(self) -> int:
        """Entries of this sweep, over all classes; -1: all."""
        solver, m = self._solver, self._members.n_classes
        if solver.max_entries == 0:
            return -1
        return solver.max_entries * m * min(self.passes + 1, solver.ramp) // solver.ramp

    def _choose_samples(self) -> None:
        device, members, sets = self._device, self._members, self._sets
        B, m = members.n_members, members.n_classes
        threads = min(1024, max(64, -(-members.n_samples // 32) * 32))
        arguments = self._set_arguments()
        sets("cpm_energy", arguments, grid=(m, 1, B), threads=256, shared=32 * 8)
        sets("cpm_order", arguments, grid=(B, 1, 1), threads=threads, shared=32 * 4)
        ordered = device.download(self._fields["ordered"]).astype(np.int64)
        order = device.download(self._fields["order"]) if self._rows.streamed else None
        for first in range(0, int(ordered.max()), self._look):
            left = np.clip(ordered - first, 0, self._look)
            ready = None if order is None else self._gathered(order, first, first + left, self._look)
            self._evaluate("order", "ordered", first, left, self._look, ready)
            sets("cpm_select", self._set_arguments(first=first), grid=(B, 1, 1), threads=threads, shared=32 * 12)
            if self._solver.max_entries > 0 and (device.download(self._fields["entries"]) >= self._most()).all():
                break
        sets("cpm_sets", arguments, grid=(m, 1, B), threads=threads, shared=32 * 4)

    def _evaluate(
        self, order: str, count: str, first: int, left: Array, n: int, ready: Any, residual: Any = None
    ) -> None:
        """f, or else R, of the samples at positions first, ..., first + n - 1 of an order; `left`: those there are."""
        members, program, there = self._members, self._values, self._fields[order]
        arguments = program.arguments(
            self._fields,
            rows=self._rows.values if ready is None else ready,
            order=there,
            order_stride=there.shape[1],
            count=self._fields[count],
            first=first,
            n=n,
            ready=0 if ready is None else n,
            residual=residual,
        )
        most, exact = int(left.max()), not self._solver.frozen_own
        launch_squares(program, arguments, most, members.n_classes, members.n_members, exact=exact)
        if residual is None:
            launch_values(program, arguments, most, members.n_classes, members.n_members)

    # ----------------------------------------------------------------------------------------------- the moves

    def _move_rows(self, n_set: Array) -> None:
        device, members, rows = self._device, self._members, self._rows
        B, m = members.n_members, members.n_classes
        n_kept = device.download(self._fields["n_kept"]).astype(np.int64)
        ready = None
        if rows.streamed:
            ready = self._gathered(device.download(self._fields["kept"]), 0, n_kept, self._capacity)
        self._evaluate("kept", "n_kept", 0, n_kept, self._capacity, ready, self._fields["residual"])
        lanes = -(-n_set.reshape(-1) // 16) * 16
        lane_start = np.concatenate([[0], np.cumsum(lanes)])
        self._n_lanes = int(lane_start[-1])
        sizes = lanes * np.repeat(np.array(members.features) + 1, m)
        lanes_at = np.concatenate([[0], np.cumsum(sizes)])
        laid_out = {
            "lane_start": device.upload(lane_start[:-1]),
            "lanes_at": device.upload(lanes_at[:-1]),
            "lanes": device.empty((int(lanes_at[-1]),), rows.values.dtype),
        }
        tiles = (int(min(64, -(-lanes.max() // 32))), B * m, -(-(members.n_features + 1) // 32))
        arguments = self._set_arguments(rows=rows.values if ready is None else ready, **laid_out)
        self._sets("cpm_lay_out", arguments, grid=tiles, threads=256, shared=32 * 33 * rows.stored_bytes)

        if self._solver.synchronous:
            self._move_sets(np.arange(B * m), lanes, laid_out)
            return
        for k in range(m):
            sets = np.arange(k, B * m, m)
            self._move_sets(sets, lanes[sets], laid_out)

    def _move_sets(self, sets: Array, lanes: Array, laid_out: dict[str, Any]) -> None:
        """Every row of these separators, one after the other; those that no sample judges stay as they are."""
        device, stored, solver = self._device, self._rows.stored_bytes, self._solver
        sets, lanes = sets[lanes > 0], lanes[lanes > 0]
        if len(sets) == 0:
            return
        slots, threads, blocks = spread(sets, lanes, device)
        columns = [device.upload(np.ascontiguousarray(column)) for column in blocks.T]
        variant = {"SLOTS": slots, "FROZEN": int(solver.frozen_own), "PAIRS": int(len(blocks) <= device.processors)}
        program = Program(device, "cpm_row.cu", "Row", stored, 1, **variant)
        fields: dict[str, Any] = self._fields | laid_out
        fields |= {"memory": device.empty((self._n_lanes, 6), np.float32) if slots == 0 else None}
        fields |= dict(zip(("block_set", "block_rank", "block_group"), columns, strict=True))
        arguments = program.arguments(fields)
        kernel = f"cpm_row_in_clusters_of_{BLOCKS_OF_CLUSTER}" if device.has_clusters else "cpm_row"
        sums = 2 * (MOST_WARPS + BLOCKS_OF_CLUSTER) * 4 * (4 if solver.frozen_own else 8)
        ring = AHEAD * threads * max(1, slots) * stored
        grid, shared = (len(blocks), 1, 1), 16 + sums + 32 * 8 + 36 * COORDINATES + ring
        for r in range(self._members.n_components):
            alone, flip = (0, r % 2) if solver.synchronous else (1, 0)
            program(kernel, arguments, r, alone, flip, grid=grid, threads=threads, shared=shared)
