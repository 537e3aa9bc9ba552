"""Member functions on the device."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from multiform.engines.cuda.device import Program
from multiform.engines.cuda.states import stacked_columns, stacked_weights
from multiform.engines.cuda.storage import DeviceRows
from multiform.separators import Separators

FORWARD_THREADS = 256
WORK_BYTES = 2**30  # of one part's squares and rows


def forward_shared(piece: int) -> int:
    """Shared memory of a tile product: 32 samples by `piece` rows, for each warp."""
    return FORWARD_THREADS // 32 * 32 * piece * 4


def launch_squares(program: Program, arguments: Any, n: int, m: int, n_members: int, *, exact: bool = False) -> None:
    """||R||^2 of n samples, piece by piece of A_k's rows, and R where the arguments ask for it."""
    if exact:
        program("member_squares_exact", arguments, grid=(-(-n * m // 256), 1, n_members), threads=256)
        return
    tiles, shared = (-(-n // 32), m * program.pieces, n_members), forward_shared(program.piece)
    program("member_squares", arguments, grid=tiles, threads=FORWARD_THREADS, shared=shared)


def launch_values(program: Program, arguments: Any, n: int, m: int, n_members: int) -> None:
    """f of those samples: their pieces and the noise energy."""
    program("member_values", arguments, grid=(-(-n * m // 256), 1, n_members), threads=256)


def device_values(rows: DeviceRows, separators: Separators) -> Any:
    """``||A_k x - b_k||^2`` of every row: an array on the device of shape (n, n_members * m)."""
    device, weights, columns = rows.device, separators.coefficients, separators.columns
    m, q, n_features = weights.shape[0], weights.shape[1], weights.shape[2] - 1
    width = -(-(n_features + 1) // 32) * 32
    read = None if columns is None else stacked_columns([columns], n_features, width, rows.n_features)
    program = Program(device, "values.cu", "Values", rows.stored_bytes, q)
    n = rows.n_rows
    row_bytes = 4 * m * program.pieces + (2 * rows.pitch * rows.stored_bytes if rows.streamed else 0)
    per_part = max(1, min(n, min(WORK_BYTES, device.free_bytes() // 2) // row_bytes))
    values = device.empty((n, m), np.float32)
    staging = device.staging((per_part, rows.pitch), rows.host.dtype) if rows.streamed else None
    fields: dict[str, Any] = rows.fields() | {
        "columns": None if read is None else device.upload(read),
        "weights": device.upload(stacked_weights([weights], n_features, width)),
        "n_classes": m,
        "n_components": q,
        "width": width,
        "order": None,
        "order_stride": 0,
        "count": None,
        "ready": per_part if rows.streamed else 0,
        "residual": None,
        "squares": device.empty((program.pieces, per_part, m), np.float32),
        "energy": None if separators.noise is None else device.upload(separators.noise.astype(np.float32)),
    }
    for first in range(0, n, per_part):
        count = min(per_part, n - first)
        if staging is not None:
            samples = np.arange(first, first + count)
            fields["rows"] = staging.put(partial(rows.gather, samples))
        arguments = program.arguments(fields, first=first, n=count, values=values[first:])
        launch_squares(program, arguments, count, m, 1)
        launch_values(program, arguments, count, m, 1)
    device.wait()  # who reads the values, frees X or has the staging's memory next may do so on another stream
    return values
