"""The engine: many models over one matrix, by Adam or by the coordinate perturbation method.

>>> import numpy as np
>>> from multiform.solvers import AdamSolver, ModelBatch, TrainingProblem, solve
>>> rng = np.random.default_rng(0)
>>> target = rng.integers(0, 2, 200).astype(np.int32)
>>> X = (rng.normal(size=(200, 3)) + 2 * target[:, None]).astype(np.float32)
>>> problem = TrainingProblem(X, target, 2, X.mean(axis=0), X.std(axis=0))
>>> noise, seed = np.array([0.1, 0.3], np.float32), np.arange(2, dtype=np.uint64)
>>> batch = ModelBatch(2, 0.5, np.ones((2, 2), np.float32), noise, seed)
>>> state = solve(problem, batch, AdamSolver(n_passes=30))
>>> [weights.shape for weights in state.weights]
[(2, 2, 4), (2, 2, 4)]
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt

from multiform.runtime import (
    effective_threads,
    kernel_name,
    sgemm,
    single_threaded_blas,
    threads_worth_waiting_for,
)
from multiform.solvers.adam import AdamSolver
from multiform.solvers.cpm import CpmSolver
from multiform.solvers.merging import merge
from multiform.solvers.placement import evaluates_on_gpu, on_gpu
from multiform.solvers.problem import (
    Floats,
    Ints,
    ModelBatch,
    Solver,
    TrainingProblem,
    TrainingState,
    core_rows,
    from_user_units,
    to_user_units,
    with_noise_row,
)

__all__ = [
    "AdamSolver",
    "CpmSolver",
    "ModelBatch",
    "Solver",
    "TrainingProblem",
    "TrainingState",
    "core_rows",
    "from_user_units",
    "member_values",
    "merge",
    "solve",
    "to_user_units",
    "with_noise_row",
]

# The core comes back to Python this often, so that Ctrl-C is heard.
SLICE_SECONDS = 0.2


def solve(
    problem: TrainingProblem,
    batch: ModelBatch,
    solver: Solver,
    *,
    n_jobs: int | None = None,
    after_pass: Callable[[TrainingState], bool] | None = None,
) -> TrainingState:
    """Train every member of the batch and return the final state.

    Parameters
    ----------
    problem : TrainingProblem
    batch : ModelBatch
    solver : AdamSolver or CpmSolver
    n_jobs : int or None
        Threads; the result does not depend on it.
    after_pass : callable or None
        Called with the state after each pass; returning True ends the training.
    """
    n_threads = effective_threads(n_jobs)
    guard: AbstractContextManager[None] = single_threaded_blas()
    with guard:
        state = solver.begin(problem, batch, n_threads)
        try:
            while state.passes < solver.n_passes:
                passes = state.passes
                state.advance(solver.n_passes if after_pass is None else passes + 1, SLICE_SECONDS)
                if after_pass is not None and state.passes > passes and after_pass(state):
                    break
        except BaseException:
            if hasattr(state, "release"):  # memory of a GPU, which a traceback must not hold
                state.release()
            raise
    return state


def member_values(
    X: Any,
    weights: Floats,
    center: Floats,
    scale: Floats,
    columns: Ints | None = None,
    n_jobs: int | None = None,
    device: Any = "cpu",
) -> npt.NDArray[np.float32]:
    """f_k(x) = ||A_k x - b_k||^2 for every row of X (float32, uint8 or CSR): shape (n, m).

    With X on a GPU the result stays there.
    """
    stays = on_gpu(X)
    if stays or evaluates_on_gpu(X, weights, device):
        from multiform.solvers.cuda import device_member_values, open_device, place

        opened = open_device("cuda" if device in ("auto", "cpu") else device)
        values = device_member_values(place(X, center, scale, opened), weights, columns)
        return values if stays else opened.download(values)
    if kernel_name() == "reference":
        from multiform.solvers.reference import reference_member_values

        return reference_member_values(X, weights, center, scale, columns)
    from multiform import _core

    rows = core_rows(X, center, scale)
    values = np.empty((rows.shape[0], weights.shape[0]), dtype=np.float32)
    n_threads = threads_worth_waiting_for(effective_threads(n_jobs), rows.shape[0] * weights.size)
    with single_threaded_blas():
        _core.member_values(rows, np.ascontiguousarray(weights), columns, sgemm(), n_threads, values)
    return values
