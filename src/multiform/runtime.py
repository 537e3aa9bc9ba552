"""What of the machine one call may use: threads, the BLAS product, the kernels.

Threads live as long as the call that needs them. While they work, BLAS itself runs on one thread each, so the two
never multiply. Where a machine has fewer threads to give than were asked for, work goes on with those.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

import joblib
import numpy as np

KERNELS = ("auto", "reference", "portable", "avx2", "avx512")
WORTH_A_THREAD = 1_000_000
LEAST_SHARED_CELLS, LEAST_SHARED_PRODUCT = 9_000, 200_000  # of a matrix by a vector or a matrix: OpenBLAS's, and less
MOST_THREADS = 64  # of a call, unless the machine has more cores


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
    Any number may be asked for; nobody gets more than `MOST_THREADS`, or the cores if there are more.
    """
    if n_jobs == 0:
        raise ValueError("n_jobs must be None or an integer that is not 0; got 0.")
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    cores = _cores(affinity, os.environ.get("LOKY_MAX_CPU_COUNT"))
    if n_jobs is not None:
        return int(joblib.effective_n_jobs(n_jobs)) if n_jobs < 0 else min(int(n_jobs), max(MOST_THREADS, cores))
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return max(1, min(cores, int(limit))) if limit.isdigit() else cores


@functools.cache
def _cores(affinity: int, most: str | None) -> int:
    """The cores that this process may use, as joblib reads them from files, which takes longer than one row does."""
    return int(joblib.cpu_count())


def memory_to_use() -> int:
    """Bytes that this process may use: half of the machine's memory, or of what its container may have."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")] if hasattr(os, "sysconf") else []
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError), open(path) as file:
            limits.append(int(file.read()))  # "max" is no number, and no limit
    return min(limits, default=1 << 32) // 2


def jobs_for(n_jobs: int | None, n_tasks: int) -> int | None:
    """``n_jobs`` for joblib, which starts as many workers as it is told to: no more than there are tasks.

    >>> jobs_for(None, 3), jobs_for(-1, 3), jobs_for(2, 3), jobs_for(200_000, 3)
    (None, -1, 2, 3)
    """
    return n_jobs if n_jobs is None or n_jobs <= 0 else min(effective_threads(n_jobs), max(1, n_tasks))


def in_threads(function: Callable[[Any], Any], items: Sequence[Any], n_threads: int) -> list[Any]:
    """``function`` of every item, by this thread and as many others as were asked for, or as can be started.

    >>> in_threads(abs, [-1, 2, -3], 2)
    [1, 2, 3]
    """
    results: list[Any] = [None] * len(items)
    errors: list[BaseException] = []
    left = iter(list(enumerate(items)))

    def work() -> None:
        try:
            for index, item in left:
                results[index] = function(item)
        except BaseException as error:
            errors.append(error)
            list(left)  # nobody begins another

    helpers = [threading.Thread(target=work) for _ in range(min(n_threads, len(items)) - 1)]
    started = 0
    with suppress(RuntimeError):  # "can't start new thread"
        for helper in helpers:
            helper.start()
            started += 1
    work()
    for helper in helpers[:started]:
        helper.join()
    if errors:
        raise errors[0]
    return results


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


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array or data frame, which is computed by whoever asks for it.

    >>> is_dask([1, 2])
    False
    """
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


@functools.cache
def sgemm() -> Any:
    """SciPy's single-precision matrix product, as a capsule that the core can call from its own threads."""
    from scipy.linalg import cython_blas

    return cython_blas.__pyx_capi__["sgemm"]


@functools.cache
def _threadpools() -> tuple[Any, list[Any]]:
    """threadpoolctl's handles of every BLAS that is loaded: with threads for each caller, and with threads for all."""
    from threadpoolctl import ThreadpoolController

    sgemm()  # its library must be loaded to be found
    blas = ThreadpoolController().select(user_api="blas")
    own = blas.select(threading_layer="openmp")
    return own, [library for library in blas.lib_controllers if library not in own.lib_controllers]


class _SharedLimit:
    """One thread for a BLAS whose threads belong to the process, as long as anybody works under this limit.

    The first who comes notes how many threads each library has, and whoever leaves last gives them back. A limit for
    each call would not do: of two that overlap, the second would note the one thread of the first, and leave it so.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # again by the same thread: a signal's handler may fork, or fit
        self._users: dict[object, int] = {}  # who works under the limit, and in which thread
        self._before: list[int] = []  # the threads of each library, while somebody does
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._lock.acquire, after_in_parent=self._after_a_fork, after_in_child=self._in_child
            )

    def enter(self, user: object) -> None:
        libraries = _threadpools()[1]
        with self._lock:
            self._users[user] = threading.get_ident()
            if not self._before:
                self._before = [library.num_threads for library in libraries]
                self._set([1] * len(libraries))

    def leave(self, user: object) -> None:
        """May be said twice, as after a signal in the middle of it."""
        with self._lock:
            self._users.pop(user, None)
            if not self._users and self._before:
                self._set(self._before)
                self._before = []

    def _set(self, numbers: list[int]) -> None:
        for library, n_threads in zip(_threadpools()[1], numbers, strict=True):
            # From threadpoolctl 3.7 on only the thread that was the first to set a number is heard.
            heard = getattr(library, "clear_controlling_thread", lambda force: None)
            heard(force=True)
            library.set_num_threads(n_threads)
            heard(force=True)

    def _in_child(self) -> None:
        """Of the threads of a process that forks only the one that forked goes on."""
        for user, thread in list(self._users.items()):
            if thread != threading.get_ident():
                self.leave(user)
        self._after_a_fork()

    def _after_a_fork(self) -> None:
        """OpenBLAS has forgotten the limit, in the parent too."""
        if self._before:
            self._set([1] * len(self._before))
        self._lock.release()


_shared_limit = _SharedLimit()  # of the process, as the threads are


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """BLAS runs on one thread within, whoever else is within at the same time."""
    user = object()
    with _threadpools()[0].limit(limits=1):
        try:
            _shared_limit.enter(user)
            yield
        finally:
            try:
                _shared_limit.leave(user)
            except BaseException:  # Ctrl-C just here: the threads must come back all the same
                _shared_limit.leave(user)
                raise


def blas_held_back(n_rows: int, n_columns: int) -> AbstractContextManager[None]:
    """`single_threaded_blas` for products of such a matrix, unless it is so small that no BLAS shares them out.

    Threads of a BLAS that have shared out a product wait for the next one, wide awake, for tens of milliseconds. On the
    cores of our own threads that takes longer than any product before training saves.
    """
    cells = n_rows * n_columns
    small = cells <= LEAST_SHARED_CELLS and cells * n_columns <= LEAST_SHARED_PRODUCT
    return nullcontext() if small else single_threaded_blas()
