"""The engine on a GPU: the same problems, batches and states, other kernels.

Nothing here is imported before somebody asks for a device; CuPy is imported in `device.py` alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from multiform.engines.base import TrainingState
from multiform.engines.cuda.adam import CudaAdamState, CudaSmallAdamState, fits_in_a_block
from multiform.engines.cuda.cpm import CudaCpmState
from multiform.engines.cuda.device import cuda_is_there, open_device
from multiform.engines.cuda.states import freeing
from multiform.engines.cuda.storage import DeviceRows, place
from multiform.engines.cuda.values import device_values
from multiform.runtime import on_gpu
from multiform.separators import Rows, Separators
from multiform.solvers import CpmSolver, ModelBatch, Moments, Solver, TrainingProblem

__all__ = ["CudaEngine", "cuda_is_there"]


class CudaEngine:
    """A GPU. X is uploaded once, and stays for the calls to come on the same rows until `release`.

    Parameters
    ----------
    device : str or Device
        "cuda", "cuda:1", ..., or a device that is open already.
    small : bool
        Whether small members may be trained by one thread block each.
    **settings : clusters, precision, memory
        Of a device that is named here: whether CPM may use thread-block clusters where the GPU has them (True), the
        accuracy of products ("float32", or "tf32"), and how many bytes CuPy may hold (None: all that is free).
    """

    reads_sparse = False

    def __init__(self, device: Any = "cuda", *, small: bool = True, **settings: Any) -> None:
        self._device, self._small = open_device(device, **settings), small
        self._placed: tuple[Rows, DeviceRows] | None = None

    def begin(
        self, problem: TrainingProblem, batch: ModelBatch, solver: Solver, moments: Sequence[Moments] | None = None
    ) -> TrainingState:
        with freeing(self.release):  # it frees the frames below this one, which therefore holds no rows
            if isinstance(solver, CpmSolver):
                return CudaCpmState(solver, problem, batch, self._place(problem.rows), self.release)
            small = self._small and fits_in_a_block(solver, problem, batch, self._place(problem.rows))
            state = CudaSmallAdamState if small else CudaAdamState
            return state(solver, problem, batch, self._place(problem.rows), self.release, moments)

    def values(self, rows: Rows, separators: Separators) -> Any:
        with freeing(self.release):
            found = device_values(self._place(rows), separators)
        return found if on_gpu(rows.stored) else self._device.download(found)

    def release(self) -> None:
        """Let go of X on the device."""
        self._placed = None

    def _place(self, rows: Rows) -> DeviceRows:
        if self._placed is None or not (
            self._placed[0].stored is rows.stored and self._placed[0].scaling is rows.scaling
        ):
            self._placed = None  # its memory first
            self._placed = rows, place(rows, self._device)
        assert self._placed is not None
        return self._placed[1]
