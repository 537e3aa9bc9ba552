"""Time and memory, measured the same way for everybody."""

import gc
import importlib
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

Result = TypeVar("Result")


def seconds(function: Callable[[], Any]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def timed(function: Callable[[], Result]) -> tuple[Result, float]:
    """One call's result and wall time."""
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


def interleaved(
    functions: Mapping[str, Callable[[], Any]],
    repeats: int,
    warmup: int = 1,
    settled: bool = False,
    summary: Callable[[Iterable[float]], float] = statistics.median,
) -> dict[str, float]:
    """Median wall time of each function (or another summary), in rounds over all of them.

    A machine that slows down for a while then slows every function, so their ratios stay honest. With ``settled`` a
    function first runs unmeasured for half a second: BLAS threads that the one before left spinning sleep by then.
    """
    for _ in range(warmup):
        for function in functions.values():
            function()

    def once(function: Callable[[], Any]) -> float:
        began = time.perf_counter()
        while settled and time.perf_counter() - began < 0.5:
            function()
        return seconds(function)

    rounds = [{name: once(function) for name, function in functions.items()} for _ in range(repeats)]
    return {name: summary(one[name] for one in rounds) for name in functions}


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Hold BLAS and OpenMP to ``count`` threads, those of the peers, too: what is loaded later hears of no limit."""
    importlib.import_module("sklearn.linear_model")  # with OpenMP, and the BLAS of SciPy
    with threadpool_limits(limits=count):
        yield


@dataclass
class PeakMemory:
    """The most memory held above the start's, in MB (1e6 bytes); None where it cannot be measured."""

    megabytes: float | None = None


@contextmanager
def peak_memory() -> Iterator[PeakMemory]:
    """Measure the peak of resident memory above what was resident at the start (Linux only).

    The kernel keeps the high-water mark and lets a process reset its own, so no peak is missed. Use it in a
    fresh process: memory that an earlier step freed, but that the allocator kept, would be reused unseen.
    """
    peak = PeakMemory()
    if sys.platform != "linux":
        yield peak
        return
    before = start_of_a_peak()
    yield peak
    peak.megabytes = max(0.0, resident_megabytes("VmHWM") - before)


def start_of_a_peak() -> float:
    """Forget this process's high-water mark; how many megabytes are resident now."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # "5" resets the high-water mark (proc(5))
    return resident_megabytes("VmRSS")


def resident_megabytes(name: str) -> float:
    """Resident memory of this process: "VmRSS" is now, "VmHWM" the high-water mark."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError(f"/proc/self/status has no line {name!r}: peak memory cannot be measured on this kernel.")


def in_fresh_process(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a module-level function in a new interpreter, free of earlier fits' memory and threads."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as executor:
        return executor.submit(function, *arguments).result()
