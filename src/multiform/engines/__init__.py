"""Engines train batches and evaluate separators: the compiled core, the NumPy twin that judges it, a GPU, a cluster.

All of them speak one protocol, `Engine`; `engine_for` is the one place that chooses.

>>> import numpy as np
>>> from multiform.engines import CpuEngine, solve
>>> from multiform.separators import Rows, Scaling
>>> from multiform.solvers import AdamSolver, ModelBatch, TrainingProblem
>>> rng = np.random.default_rng(0)
>>> target = rng.integers(0, 2, 200).astype(np.int32)
>>> X = (rng.normal(size=(200, 3)) + 2 * target[:, None]).astype(np.float32)
>>> problem = TrainingProblem(Rows(X, Scaling(X.mean(axis=0), X.std(axis=0))), target, 2)
>>> noise, seed = np.array([0.1, 0.3], np.float32), np.arange(2, dtype=np.uint64)
>>> batch = ModelBatch(2, 0.5, np.ones((2, 2), np.float32), noise, seed)
>>> state = solve(problem, batch, AdamSolver(n_passes=30), CpuEngine())
>>> [coefficients.shape for coefficients in state.coefficients]
[(2, 2, 4), (2, 2, 4)]
"""

from __future__ import annotations

import os
from typing import Any

from multiform._typing import Array
from multiform.engines.base import Engine, TrainingState, solve
from multiform.engines.cpu import CpuEngine, column_moments, least_offsets, log_sharpness, log_sharpness_in_the_mean
from multiform.engines.reference import ReferenceEngine
from multiform.runtime import effective_threads, kernel_name, on_gpu
from multiform.separators import Separators

__all__ = [
    "CpuEngine",
    "Engine",
    "ReferenceEngine",
    "TrainingState",
    "column_moments",
    "engine_for",
    "evaluate",
    "least_offsets",
    "log_sharpness",
    "log_sharpness_in_the_mean",
    "solve",
]

# Coefficients times samples (times passes, over all members), from which on the GPU wins against a CPU of 16 cores
# (measured, docs/gpu.md); for evaluation alone X has to be uploaded for little work.
TRAINING_GAINS_FROM = 5e8
EVALUATION_GAINS_FROM = 2e9


def engine_for(device: Any, n_jobs: int | None, *, training: float = 0.0, evaluating: float = 0.0) -> Engine:
    """The engine for a device's name.

    Parameters
    ----------
    device : "cpu", "cuda", "cuda:1", ..., "dask", "auto", or an engine, which is handed back
        "auto" is the GPU where there is one and the work is large enough to gain.
    n_jobs : int or None
        Threads on the CPU.
    training, evaluating : float
        Multiplications to come, for "auto".
    """
    if not isinstance(device, str):
        given: Engine = device
        return given
    gains = training >= TRAINING_GAINS_FROM or evaluating >= EVALUATION_GAINS_FROM
    if device.startswith("cuda") or (device == "auto" and gains):
        from multiform.engines.cuda import CudaEngine, cuda_is_there

        if device != "auto" or cuda_is_there():
            return CudaEngine("cuda" if device == "auto" else device, **_settings_of_the_environment())
    if device == "dask":
        from multiform.engines.dask import DaskEngine

        return DaskEngine(n_jobs)
    kernel = kernel_name()
    return ReferenceEngine() if kernel == "reference" else CpuEngine(kernel, effective_threads(n_jobs))


def evaluate(separators: Separators, X: Any, device: Any, n_jobs: int | None, *, single: bool = False) -> Array:
    """f of every row of X (`Separators.values`), on the device of that name; X on a GPU is answered there."""
    work = float(X.shape[0]) * separators.coefficients.size
    if on_gpu(X) and isinstance(device, str) and not device.startswith("cuda"):
        device = "cuda"
    engine = engine_for(device, n_jobs, evaluating=work)
    try:
        return separators.values(X, engine, single=single)
    finally:
        engine.release()


def _settings_of_the_environment() -> dict[str, Any]:
    """What a user may choose of `CudaEngine` by variables of the environment, which are read here and nowhere else."""
    chosen: dict[str, Any] = {}
    for setting in ("small", "clusters"):
        name = f"MULTIFORM_GPU_{setting.upper()}"
        if os.environ.get(name, "1") not in ("0", "1"):
            raise ValueError(f"{name} must be 0 or 1; got {os.environ[name]!r}.")
        chosen[setting] = os.environ.get(name, "1") == "1"
    precision = os.environ.get("MULTIFORM_GPU_PRECISION", "float32")
    if precision not in ("float32", "tf32"):
        raise ValueError(f"MULTIFORM_GPU_PRECISION must be float32 or tf32; got {precision!r}.")
    memory = os.environ.get("MULTIFORM_GPU_MEMORY")
    if memory is not None and (not memory.isdigit() or int(memory) == 0):
        raise ValueError(f"MULTIFORM_GPU_MEMORY must be a positive number of bytes; got {memory!r}.")
    return chosen | {"precision": precision, "memory": None if memory is None else int(memory)}
