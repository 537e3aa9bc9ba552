"""X on the device: once, in its narrowest exact type, or streamed where it has no room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from multiform._typing import Array
from multiform.engines.cuda.device import Device, Program
from multiform.runtime import on_gpu
from multiform.separators import Rows

ROOM_FOR_X = 0.6  # of the free memory; the rest is for the members


@dataclass(frozen=True)
class DeviceRows:
    """X as the kernels read it: ``(stored - center) * unit``, with a column of -1 and one of 0 behind the features.

    `center` and `unit` are on the device, of shape (pitch,).
    """

    device: Device
    host: Any  # where the rows come from when X is streamed; None: `values` holds all of them
    values: Any  # on the device, of shape (n, pitch); one row when X is streamed
    n_rows: int
    n_features: int
    center: Any
    unit: Any

    @property
    def streamed(self) -> bool:
        return self.host is not None

    @property
    def pitch(self) -> int:
        return int(self.values.shape[1])

    @property
    def stored_bytes(self) -> int:
        """Of a number: 1, 2 or 4."""
        return int(self.values.dtype.itemsize)

    def fields(self) -> dict[str, Any]:
        """How the kernels' structures name X and its scaling."""
        return {"rows": self.values, "pitch": self.pitch, "center": self.center, "unit": self.unit}

    def gather(self, samples: Array, out: Array) -> None:
        """Rows of the host's X, dense and padded, into `out` of shape (at least len(samples), pitch)."""
        rows = self.host[samples]
        out[: len(samples), : self.n_features] = rows.toarray() if scipy.sparse.issparse(rows) else rows
        out[: len(samples), self.n_features :] = 0


def place(rows: Rows, device: Device) -> DeviceRows:
    """X on the device, or on the host ready to be streamed."""
    X, (center, scale) = rows.stored, rows.scaling.single
    n, p = X.shape
    pitch = -(-(p + 2) // 32) * 32
    whole_center, unit = np.zeros(pitch, dtype=np.float32), np.zeros(pitch, dtype=np.float32)
    whole_center[:p], unit[:p] = center, np.float32(1) / scale
    whole_center[p] = unit[p] = 1
    described = (n, p, device.upload(whole_center), device.upload(unit))
    needed, free = n * pitch * X.dtype.itemsize, device.free_bytes()
    if needed <= ROOM_FOR_X * free:
        values = device.padded(X, pitch)
        if X.dtype == np.float32 and needed // 2 <= device.free_bytes():
            values = _as_half(values, device)
        return DeviceRows(device, None, values, *described)
    if on_gpu(X):
        raise MemoryError(
            f"X, on the GPU already, needs a copy of {needed / 1e9:.1f} GB there; {free / 1e9:.1f} GB are free: "
            "give it in parts, or as a NumPy array, which is streamed."
        )
    return DeviceRows(device, X, device.zeros((1, pitch), X.dtype), *described)


def _as_half(values: Any, device: Device) -> Any:
    """The same numbers in half precision, where that is exact; else as they are."""
    narrow, inexact = device.empty(values.shape, np.uint16), device.zeros((1,), np.int64)
    length = int(np.prod(values.shape))
    program = Program(device, "storage.cu", "Narrowing", 2, 1)
    arguments = program.arguments({"wide": values, "narrow": narrow, "length": length, "inexact": inexact})
    blocks = max(1, min(8 * device.processors, length // 256))
    program("to_half", arguments, grid=(blocks, 1, 1), threads=256)
    return values if device.download(inexact)[0] else narrow
