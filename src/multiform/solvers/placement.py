"""Which device a batch is trained on."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiform.solvers.problem import Floats, ModelBatch, Solver, TrainingProblem

__all__ = ["EVALUATION_GAINS_FROM", "GAINS_FROM", "evaluates_on_gpu", "on_gpu", "works_on_gpu"]

# Coefficients times samples (times passes, over all members), from which on the GPU wins against a CPU of 16 cores
# (measured, docs/gpu.md); for member functions alone X has to be uploaded for little work.
GAINS_FROM = 5e8
EVALUATION_GAINS_FROM = 2e9


def works_on_gpu(problem: TrainingProblem, batch: ModelBatch, solver: Solver) -> bool:
    """Whether the GPU does it: it was asked for, or "auto" expects a gain from it."""
    device: Any = problem.device
    if not isinstance(device, str):
        return True
    if device != "auto":
        return device != "cpu"
    return _work(problem, batch, solver) >= GAINS_FROM and _gpu_is_there()


def evaluates_on_gpu(X: Any, weights: Floats, device: Any) -> bool:
    """The same question for member functions of the rows of X."""
    if not isinstance(device, str):
        return True
    if device != "auto":
        return device != "cpu"
    return float(X.shape[0]) * weights.size >= EVALUATION_GAINS_FROM and _gpu_is_there()


def on_gpu(X: Any) -> bool:
    """Whether an array lives on a GPU already (CuPy's, torch's, any that speaks DLPack).

    >>> import numpy as np
    >>> on_gpu(np.zeros(3))
    False
    """
    if isinstance(X, np.ndarray):
        return False
    if hasattr(X, "__cuda_array_interface__"):
        return True
    cuda = 2  # DLPack's number for it
    return hasattr(X, "__dlpack_device__") and int(X.__dlpack_device__()[0]) == cuda


def _work(problem: TrainingProblem, batch: ModelBatch, solver: Solver) -> float:
    outputs = problem.n_classes * batch.n_components
    return float(len(batch)) * len(problem.target) * problem.n_features * outputs * solver.n_passes


def _gpu_is_there() -> bool:
    from multiform.solvers.cuda.device import cuda_is_there

    return cuda_is_there()
