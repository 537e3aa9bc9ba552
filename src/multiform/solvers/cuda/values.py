"""Member functions on the device."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from multiform.solvers.cuda.device import Program
from multiform.solvers.cuda.members import stacked_weights
from multiform.solvers.cuda.storage import DeviceRows
from multiform.solvers.problem import Floats, Ints

__all__ = ["FORWARD_THREADS", "device_member_values", "forward_shared"]

FORWARD_THREADS = 256
WORK_BYTES = 2**30  # of one part's squares and values


def forward_shared(piece: int) -> int:
    """Shared memory of a tile product: 32 samples by `piece` rows, for each warp."""
    return FORWARD_THREADS // 32 * 32 * piece * 4


def device_member_values(rows: DeviceRows, weights: Floats, columns: Ints | None = None) -> Any:
    """``||A_k x - b_k||^2`` of every row: an array on the device of shape (n, m)."""
    device = rows.device
    m, q, n_features = weights.shape[0], weights.shape[1], weights.shape[2] - 1
    width = -(-(n_features + 1) // 32) * 32
    selected = None
    if columns is not None:
        whole = np.full(width, rows.n_features + 1, dtype=np.int32)
        whole[:n_features], whole[n_features] = columns, rows.n_features
        selected = device.upload(whole)
    program = Program(device, "values.cu", "Values", rows.stored_bytes, q)
    stacked = device.upload(stacked_weights([weights], n_features, width))
    n = rows.n_rows
    row_bytes = 4 * m * (program.pieces + 1) + (rows.pitch * rows.stored_bytes if rows.streamed else 0)
    per_part = max(1, min(n, WORK_BYTES // row_bytes))
    squares, values = device.empty((program.pieces, per_part, m), np.float32), device.empty((n, m), np.float32)
    staging = device.staging((per_part, rows.pitch), rows.host.dtype) if rows.streamed else None
    for first in range(0, n, per_part):
        count = min(per_part, n - first)
        source = rows.values
        if staging is not None:
            samples = np.arange(first, first + count)
            source = staging.arrays[staging.put(partial(rows.gather, samples))]
        arguments = program.arguments(
            rows=source,
            pitch=rows.pitch,
            center=rows.center,
            unit=rows.unit,
            columns=selected,
            weights=stacked,
            n_classes=m,
            n_components=q,
            width=width,
            order=None,
            order_stride=0,
            count=None,
            first=first,
            n=count,
            ready=per_part if rows.streamed else 0,
            residual=None,
            squares=squares,
            values=values[first:],
            energy=None,
        )
        tiles = (-(-count // 32), m * program.pieces, 1)
        program("member_squares", arguments, grid=tiles, threads=FORWARD_THREADS, shared=forward_shared(program.piece))
        program("member_values", arguments, grid=(-(-count * m // 256), 1, 1), threads=256)
    return values
