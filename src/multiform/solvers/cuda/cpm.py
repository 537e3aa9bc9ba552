"""The coordinate perturbation method on the device: a cluster of thread blocks for each separator of each member."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from multiform.solvers.cpm import CpmSolver
from multiform.solvers.cuda.device import Device, Program, clusters_wanted
from multiform.solvers.cuda.members import DeviceMembers, initial_weights
from multiform.solvers.cuda.storage import DeviceRows
from multiform.solvers.cuda.values import FORWARD_THREADS, forward_shared
from multiform.solvers.problem import Floats, ModelBatch, TrainingProblem

__all__ = ["CudaCpmState", "Geometry"]

LOOK = 16_384  # samples whose member functions are looked at together
CLUSTERS = (8, 4, 2, 1)
MOST_THREADS = 512
COORDINATES = 512
AHEAD = 4


@dataclass(frozen=True)
class Geometry:
    """How the samples of one separator spread: `slots` in a thread's registers, threads of a block, blocks of a cluster.

    No slots means that samples stand in memory, however many they are.
    """

    slots: int
    threads: int
    blocks: int

    @classmethod
    def of(cls, n_lanes: int, n_sets: int, device: Device) -> Geometry:
        """For sets of up to `n_lanes` samples: as many blocks as the device has room for, few samples a thread.

        >>> class Small:
        ...     capability, processors = 90, 132
        >>> Geometry.of(9_000, 10, Small()), Geometry.of(9_000, 210, Small())
        (Geometry(slots=4, threads=288, blocks=8), Geometry(slots=8, threads=288, blocks=4))
        """
        there = CLUSTERS if device.capability >= 90 and clusters_wanted() else (1,)
        for slots, share in ((4, 1), (8, 1), (4, 8), (8, 8)):
            for blocks in there:
                threads = -(-n_lanes // (32 * slots * blocks)) * 32
                if threads <= MOST_THREADS and n_sets * blocks <= share * device.processors:
                    return cls(slots, max(64, threads), blocks)
        return cls(0, MOST_THREADS, there[0])

    def shared(self, stored_bytes: int, exact: bool) -> int:
        sums = 2 * self.blocks * (self.threads // 32) * 4 * (8 if exact else 4)
        ring = AHEAD * self.threads * max(1, self.slots) * stored_bytes
        return sums + 4 * COORDINATES * 4 + ring


class CudaCpmState:
    """A batch on its way by CPM; see `TrainingState`."""

    def __init__(self, solver: CpmSolver, problem: TrainingProblem, batch: ModelBatch, rows: DeviceRows) -> None:
        device = self._device = rows.device
        members = self._members = DeviceMembers(problem, batch, rows)
        self._solver, self._rows = solver, rows
        B, m, q, n = members.n_members, members.n_classes, members.n_components, members.n_samples
        most = solver.max_entries * m
        self._look = min(n, LOOK) if most > 0 else n
        self._capacity = min(n, most // 2 + 1) if most > 0 else n
        stored = rows.stored_bytes
        self._sets = Program(device, "cpm_sets.cu", "Sets", stored, q)
        self._values = Program(device, "values.cu", "Values", stored, q)
        self._require_room(B, m, q, n)
        weights = initial_weights(problem, batch)
        limits = solver.limits(1)
        shared_fields = members.fields(rows) | {
            "weights": device.upload(members.stacked(weights)),
            "selected": device.upload(np.array(members.features, dtype=np.int32)),
            "capacity": self._capacity,
            "kept": device.empty((B, self._capacity), np.int32),
            "f": device.empty((B, self._capacity, m), np.float32),
            "f_next": device.empty((B, self._capacity, m), np.float32),
            "places": device.empty((B, m, self._capacity), np.int32),
            "n_own": device.zeros((B, m), np.int32),
            "n_set": device.zeros((B, m), np.int32),
            "alpha": batch.alpha,
        }
        self._set_fields: dict[str, Any] = shared_fields | {
            "drawn": device.zeros((B,), np.uint64),
            "active": device.upload(np.ones((B, n), dtype=np.uint8)),
            "order": device.empty((B, n), np.int32),
            "holder": device.empty((B, n), np.uint64),
            "pending": device.empty((B, n), np.int32),
            "ordered": device.zeros((B,), np.int32),
            "energy": device.zeros((B, m), np.float32),
            "values": device.empty((B, self._look, m), np.float32),
            "look": self._look,
            "entries": device.zeros((B,), np.int64),
            "sums": device.zeros((B, 2), np.float64),
            "n_kept": device.zeros((B,), np.int32),
            "streamed": int(rows.streamed),
            "threshold": solver.slack * batch.alpha,
            "revisit": solver.revisit,
        }
        self._row_fields: dict[str, Any] = shared_fields | {
            "steps": device.upload(members.stacked([solver.initial_steps(part) for part in weights])),
            "residual": device.empty((B, self._capacity, m, q), np.float32),
            "tried": device.zeros((B * m,), np.int64),
            "accepted": device.zeros((B * m,), np.int64),
            "grow": solver.grow,
            "shrink": solver.shrink,
            "smallest": limits["smallest"],
            "largest": limits["largest"],
            "largest_offset": limits["largest_offset"],
        }
        for name in ("rows", "pitch", "n_samples", "seed"):
            del self._row_fields[name]
        longest = max(self._look, self._capacity)
        self._squares = device.empty((B, self._values.pieces, longest, m), np.float32)
        self._losses: list[list[float]] = [[] for _ in range(B)]
        self._read: tuple[int, list[Floats]] | None = None
        self.passes = 0

    def _require_room(self, B: int, m: int, q: int, n: int) -> None:
        rows, members = self._rows, self._members
        lanes = self._capacity * m if self._solver.max_entries == 0 else self._solver.max_entries * m
        needed = B * (
            8 * m * q * members.width
            + 21 * n
            + self._capacity * (4 + 12 * m + 4 * m * q)
            + 8 * max(self._look, self._capacity) * m
            + lanes * (members.n_features + 1) * rows.stored_bytes
        )
        free = self._device.free_bytes()
        if needed > free:
            raise MemoryError(
                f"{B} models of {m} x {q} x {members.width} coefficients over {n} samples by CPM need about "
                f"{needed / 1e9:.1f} GB on the GPU, which has {free / 1e9:.1f} GB for them: train fewer members at a time, "
                "use solver='adam', or device='cpu'."
            )

    @property
    def weights(self) -> list[Floats]:
        """A_k and b_k side by side, in scaled units, per member, as they are now."""
        if self._read is None or self._read[0] != self.passes:
            self._read = self.passes, self._members.unstacked(self._device.download(self._row_fields["weights"]))
        return self._read[1]

    @property
    def losses(self) -> list[list[float]]:
        return [list(member) for member in self._losses]

    @property
    def tried(self) -> int:
        """Points looked at so far, over all members."""
        return int(self._device.download(self._row_fields["tried"]).sum())

    @property
    def accepted(self) -> int:
        """Moves made so far, over all members."""
        return int(self._device.download(self._row_fields["accepted"]).sum())

    def advance(self, until: int, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self.passes < until:
            self._sweep()
            if time.monotonic() > deadline:
                return

    def _sweep(self) -> None:
        self._choose_samples()
        sums = self._device.download(self._set_fields["sums"])
        n_set = self._device.download(self._set_fields["n_set"]).astype(np.int64)
        if n_set.any():
            self._move_rows(n_set)
        for member, (loss, weight) in enumerate(sums):
            self._losses[member].append(float(loss / weight) if weight > 0 else 0.0)
        self.passes += 1

    # -------------------------------------------------------------------------------------- the samples of a sweep

    def _set_arguments(self, **fields: Any) -> Any:
        missing = {"first": 0, "lane_start": None, "lanes": None, "lanes_at": None}
        return self._sets.arguments(**(self._set_fields | missing | {"most": self._most()} | fields))

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
        ordered = device.download(self._set_fields["ordered"]).astype(np.int64)
        order = device.download(self._set_fields["order"]) if self._rows.streamed else None
        for first in range(0, int(ordered.max()), self._look):
            self._evaluate(order, self._set_fields["order"], members.n_samples, "ordered", ordered, first, self._look)
            sets("cpm_select", self._set_arguments(first=first), grid=(B, 1, 1), threads=threads, shared=32 * 12)
            if self._solver.max_entries > 0 and (device.download(self._set_fields["entries"]) >= self._most()).all():
                break
        sets("cpm_sets", arguments, grid=(m, 1, B), threads=threads, shared=32 * 4)

    def _evaluate(
        self,
        host_order: npt.NDArray[np.int32] | None,
        order: Any,
        order_stride: int,
        count: str,
        counts: npt.NDArray[np.int64],
        first: int,
        n: int,
        residual: Any = None,
    ) -> None:
        """R (where asked for) and f of the samples at positions first, ..., first + n - 1 of an order."""
        members, rows, program = self._members, self._rows, self._values
        source = rows.values
        if host_order is not None:
            source = self._gathered(host_order, np.clip(counts - first, 0, n), first, n)
        arguments = program.arguments(
            rows=source,
            pitch=rows.pitch,
            center=rows.center,
            unit=rows.unit,
            columns=members.columns,
            weights=self._row_fields["weights"],
            n_classes=members.n_classes,
            n_components=members.n_components,
            width=members.width,
            order=order,
            order_stride=order_stride,
            count=self._set_fields[count],
            first=first,
            n=n,
            ready=0 if host_order is None else n,
            residual=residual,
            squares=self._squares,
            values=self._set_fields["values"],
            energy=self._set_fields["energy"],
        )
        m, B = members.n_classes, members.n_members
        most = int(min(n, counts.max() - first))
        if self._solver.frozen_own:
            grid, shared = (-(-most // 32), m * program.pieces, B), forward_shared(program.piece)
            program("member_squares", arguments, grid=grid, threads=FORWARD_THREADS, shared=shared)
        else:
            program("member_squares_exact", arguments, grid=(-(-most * m // 256), 1, B), threads=256)
        if residual is None:
            program("member_values", arguments, grid=(-(-most * m // 256), 1, B), threads=256)

    def _gathered(
        self, order: npt.NDArray[np.int32], counts: npt.NDArray[np.int64], first: int, n: int
    ) -> Any:
        """Rows of a streamed X, each member's own: shape (B, n, pitch)."""
        rows, B = self._rows, self._members.n_members
        staging = self._device.staging((B, n, rows.pitch), rows.host.dtype)

        def fill(host: Any) -> None:
            for member in range(B):
                rows.gather(order[member, first : first + counts[member]], host[member])

        return staging.arrays[staging.put(fill)]

    # ----------------------------------------------------------------------------------------------- the moves

    def _move_rows(self, n_set: npt.NDArray[np.int64]) -> None:
        device, members, rows, solver = self._device, self._members, self._rows, self._solver
        B, m, q = members.n_members, members.n_classes, members.n_components
        n_kept = device.download(self._set_fields["n_kept"]).astype(np.int64)
        kept = device.download(self._set_fields["kept"]) if rows.streamed else None
        self._evaluate(
            kept, self._set_fields["kept"], self._capacity, "n_kept", n_kept, 0, self._capacity,
            residual=self._row_fields["residual"],
        )  # fmt: skip
        lanes = -(-n_set.reshape(-1) // 16) * 16
        lane_start = np.concatenate([[0], np.cumsum(lanes)])
        sizes = lanes * np.repeat(np.array(members.features) + 1, m)
        lanes_at = np.concatenate([[0], np.cumsum(sizes)])
        laid_out = {
            "lane_start": device.upload(lane_start[:-1]),
            "lanes_at": device.upload(lanes_at[:-1]),
            "lanes": device.empty((int(lanes_at[-1]),), rows.values.dtype),
        }
        source = rows.values if kept is None else self._gathered(kept, n_kept, 0, self._capacity)
        tiles = (int(min(64, -(-lanes.max() // 32))), B * m, -(-(members.n_features + 1) // 32))
        arguments = self._set_arguments(rows=source, **laid_out)
        self._sets("cpm_lay_out", arguments, grid=tiles, threads=256, shared=32 * 33 * rows.stored_bytes)

        n_sets = B * m if solver.synchronous else B
        geometry = Geometry.of(int(lanes.max()), n_sets, device)
        memory = None
        if geometry.slots == 0:
            memory = device.empty((int(lane_start[-1]), 6), np.float32)
        program = Program(
            device, "cpm_row.cu", "Row", rows.stored_bytes, 1, SLOTS=geometry.slots, FROZEN=int(solver.frozen_own)
        )
        arguments = program.arguments(**self._row_fields, **laid_out, memory=memory)
        launch = partial(
            program,
            f"cpm_row_in_clusters_of_{geometry.blocks}",
            arguments,
            threads=geometry.threads,
            shared=geometry.shared(rows.stored_bytes, exact=not solver.frozen_own),
        )
        if solver.synchronous:
            for r in range(q):
                launch(r, -1, r % 2, grid=(geometry.blocks, m, B))
        else:
            for k in range(m):
                for r in range(q):
                    launch(r, k, 0, grid=(geometry.blocks, 1, B))
