"""The engine on a GPU: the same problems, batches and states, other kernels.

Nothing here is imported before a problem asks for a device; CuPy is imported in `device.py` alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from multiform.solvers.cuda.adam import CudaAdamState
from multiform.solvers.cuda.cpm import CudaCpmState
from multiform.solvers.cuda.device import cuda_is_there, open_device, small_wanted
from multiform.solvers.cuda.small_adam import CudaSmallAdamState, fits_in_a_block
from multiform.solvers.cuda.states import freeing
from multiform.solvers.cuda.storage import place
from multiform.solvers.cuda.values import device_member_values

if TYPE_CHECKING:
    from multiform.solvers.adam import AdamSolver, Moments
    from multiform.solvers.cpm import CpmSolver
    from multiform.solvers.problem import ModelBatch, TrainingProblem, TrainingState

__all__ = ["begin_adam", "begin_cpm", "cuda_is_there", "device_member_values", "open_device", "place"]


def begin_adam(
    solver: AdamSolver, problem: TrainingProblem, batch: ModelBatch, moments: Sequence[Moments] | None
) -> TrainingState:
    with freeing(problem):
        return _adam_state(solver, problem, batch, moments)


def _adam_state(
    solver: AdamSolver, problem: TrainingProblem, batch: ModelBatch, moments: Sequence[Moments] | None
) -> TrainingState:
    rows = problem.device_rows
    small = fits_in_a_block(solver, problem, batch, rows) and small_wanted()
    state = CudaSmallAdamState if small else CudaAdamState
    return state(solver, problem, batch, rows, moments)


def begin_cpm(solver: CpmSolver, problem: TrainingProblem, batch: ModelBatch) -> TrainingState:
    with freeing(problem):
        return CudaCpmState(solver, problem, batch, problem.device_rows)
