"""What of the machine one call may use: threads, the BLAS product, the kernels.

Threads live as long as the call that needs them. While they work, BLAS itself runs on one thread each, so the two
never multiply.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import joblib
import numpy as np

KERNELS = ("auto", "reference", "portable", "avx2", "avx512")
WORTH_A_THREAD = 1_000_000


def kernel_name() -> str:
    """The kernels to use: the environment variable ``MULTIFORM_KERNEL``, or "auto" for the best of this machine."""
    name = os.environ.get("MULTIFORM_KERNEL", "auto")
    if name not in KERNELS:
        raise ValueError(f"MULTIFORM_KERNEL must be one of {', '.join(KERNELS)}; got {name!r}.")
    return name


def effective_threads(n_jobs: int | None) -> int:
    """The number of threads for ``n_jobs``, as scikit-learn counts it.

    Our threads are of the kind that OpenMP gives to scikit-learn's own estimators, so None means every core that
    this process may use: container limits count, and so does ``OMP_NUM_THREADS``, which joblib sets in its workers.
    """
    if n_jobs == 0:
        raise ValueError("n_jobs must be None or an integer that is not 0; got 0.")
    if n_jobs is not None:
        return int(joblib.effective_n_jobs(n_jobs)) if n_jobs < 0 else int(n_jobs)
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    cores = int(joblib.cpu_count())
    return max(1, min(cores, int(limit))) if limit.isdigit() else cores


def threads_worth_waiting_for(n_threads: int, multiplications: float, worth_a_thread: int = WORTH_A_THREAD) -> int:
    """At most one thread more than `worth_a_thread` goes into the multiplications until they wait for each other.

    To wake a thread and to wait for it takes some microseconds; on two cores, a second one gains from about half a
    million multiplications on.

    >>> threads_worth_waiting_for(16, 300_000), threads_worth_waiting_for(16, 3e6), threads_worth_waiting_for(16, 1e9)
    (1, 4, 16)
    """
    return min(n_threads, 1 + round(multiplications / worth_a_thread))


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


@functools.cache
def sgemm() -> Any:
    """SciPy's single-precision matrix product, as a capsule that the core can call from its own threads."""
    from scipy.linalg import cython_blas

    return cython_blas.__pyx_capi__["sgemm"]


@functools.cache
def _threadpools() -> Any:
    from threadpoolctl import ThreadpoolController

    sgemm()  # its library must be loaded to be found
    return ThreadpoolController()


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    with _threadpools().limit(limits=1, user_api="blas"):
        yield
