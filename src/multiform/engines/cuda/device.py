"""What a GPU does for us: memory, kernels compiled from our sources, graphs. CuPy is imported here and nowhere else."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from multiform.engines.cuda.sources import argument_layout, source_text

__all__ = [
    "CudaDevice",
    "Device",
    "Program",
    "Staging",
    "cuda_is_there",
    "cupy_module",
    "open_device",
    "small_wanted",
]

Array = npt.NDArray[Any]
Grid = tuple[int, int, int]

BUDGET = "MULTIFORM_GPU_MEMORY"
PRECISION = "MULTIFORM_GPU_PRECISION"
CLUSTERS = "MULTIFORM_GPU_CLUSTERS"
SMALL = "MULTIFORM_GPU_SMALL"
PART_BYTES = 256 * 2**20  # of X, where it is brought to the device in parts
MEMORY_SHARE = 0.9  # of what is free; the driver and the compiler's own modules want the rest


class Staging(Protocol):
    """Two buffers on the device that take turns: one is filled while earlier work reads the other."""

    arrays: list[Any]

    def put(self, fill: Callable[[Array], None]) -> int:
        """Have the host memory of the next buffer filled and copied; work launched from now on finds it there."""


class Device(Protocol):
    """A stream of work on one GPU. Arrays on it are opaque; they are freed when nobody holds them."""

    capability: int  # 90 is 9.0
    processors: int
    shared_bytes: int  # of one block, at most

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any: ...
    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any: ...
    def upload(self, array: Array) -> Any: ...
    def download(self, array: Any) -> Array: ...

    def padded(self, X: Any, pitch: int) -> Any:
        """X, of the host or of the device, in rows of `pitch` values, zeros behind."""

    def write(self, array: Any, rows: Array) -> None:
        """Copy into the front of an array."""

    def staging(self, shape: tuple[int, ...], dtype: Any) -> Staging: ...

    def pointer(self, array: Any) -> int: ...
    def compiled(self, source: str, defines: Mapping[str, int]) -> Any: ...

    def launch(
        self, compiled: Any, kernel: str, grid: Grid, threads: int, arguments: list[Any], shared: int
    ) -> None: ...

    def graph(self, work: Callable[[], None]) -> Callable[[], None]:
        """The launches that `work` makes, as one that can be repeated."""

    def free_bytes(self) -> int:
        """What may still be allocated: of the budget of the environment, else of what the GPU has free."""

    def wait(self) -> None:
        """Until all that was launched is done."""

    def release(self) -> None:
        """Give memory that nobody holds back to the GPU."""


class Program:
    """One of our sources, compiled for one storage and tiling; its kernels take a structure by the fields' names.

    Parameters
    ----------
    device : Device
    source, structure : str
        The file, and the structure in it that its kernels take.
    stored_bytes : {1, 2, 4}
    n_components : int
    **defines : int
        What else the source is compiled for.
    """

    def __init__(
        self, device: Device, source: str, structure: str, stored_bytes: int, n_components: int, **defines: int
    ) -> None:
        self.piece = 8 * min(4, -(-n_components // 8))
        self.pieces = -(-n_components // self.piece)
        self._device, self._structure, self._layout = device, structure, argument_layout(source, structure)
        defines |= {"STORED": stored_bytes, "TILES": self.piece // 8, "SPLIT": int(split_products())}
        self._compiled = device.compiled(source, defines)

    def arguments(self, fields: Mapping[str, Any], **more: Any) -> Array:
        """The structure, filled with arrays on the device (None is a null pointer) and numbers; none is left out.

        `fields` may have more than the structure, so that several structures are filled from the same ones.
        """
        given, filled = {**fields, **more}, self._layout.copy()
        missing = set(filled.dtype.names or ()) - set(given)
        if missing:
            raise TypeError(f"{self._structure} also needs {sorted(missing)}")
        for name in filled.dtype.names or ():
            value = given[name]
            if filled.dtype[name] == np.uint64:
                filled[name] = 0 if value is None else self._device.pointer(value)
            else:
                filled[name] = value
        return filled.view(f"V{filled.itemsize}")  # bare bytes are handed over faster than named fields

    def __call__(self, kernel: str, arguments: Array, *numbers: int, grid: Grid, threads: int, shared: int = 0) -> None:
        values = [arguments, *(np.int64(number) for number in numbers)]
        self._device.launch(self._compiled, kernel, grid, threads, values, shared)


def split_products() -> bool:
    """Whether products have float32's accuracy: the environment variable ``MULTIFORM_GPU_PRECISION``."""
    name = os.environ.get(PRECISION, "float32")
    if name not in ("float32", "tf32"):
        raise ValueError(f"{PRECISION} must be float32 or tf32; got {name!r}.")
    return name == "float32"


def clusters_wanted() -> bool:
    """Whether CPM may use thread-block clusters where the GPU has them: ``MULTIFORM_GPU_CLUSTERS``, 1 or 0."""
    return _switch(CLUSTERS)


def small_wanted() -> bool:
    """Whether small members may be trained by one thread block each: ``MULTIFORM_GPU_SMALL``, 1 or 0."""
    return _switch(SMALL)


def _switch(variable: str) -> bool:
    name = os.environ.get(variable, "1")
    if name not in ("0", "1"):
        raise ValueError(f"{variable} must be 0 or 1; got {name!r}.")
    return name == "1"


def memory_budget() -> int | None:
    """Bytes of GPU memory that may be used, from ``MULTIFORM_GPU_MEMORY``; None: all that is free."""
    text = os.environ.get(BUDGET)
    if text is None:
        return None
    if not text.isdigit() or int(text) == 0:
        raise ValueError(f"{BUDGET} must be a positive number of bytes; got {text!r}.")
    return int(text)


def cupy_module() -> Any:
    try:
        import cupy
    except ImportError as error:
        raise ImportError(
            "device='cuda' needs CuPy, which is not installed: pip install \"multiform[gpu]\" (CUDA 12; for CUDA 13 "
            "install cupy-cuda13x), or use device='cpu'."
        ) from error
    return cupy


@functools.cache
def cuda_is_there() -> bool:
    """Whether CuPy is installed and a GPU answers."""
    try:
        import cupy

        return bool(cupy.cuda.runtime.getDeviceCount() > 0)
    except Exception:  # no CuPy, no driver, no GPU: each says so in its own way, and here it is no error
        return False


def open_device(device: Any) -> Device:
    """The device by its name, "cuda" or "cuda:1"; one that is open already is handed back."""
    if not isinstance(device, str):
        opened: Device = device
        return opened
    cupy = cupy_module()
    number = int(device.partition(":")[2] or 0)
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise RuntimeError(
            f"device={device!r} needs an NVIDIA GPU with its driver, and CUDA answers: {error}; use device='cpu'."
        ) from error
    if number >= count:
        raise RuntimeError(f"device={device!r} needs GPU number {number}, and there are {count}; use device='cpu'.")
    return CudaDevice(number)


class CudaDevice:
    """A GPU through CuPy, with a stream of its own: work of two threads does not mix.

    Parameters
    ----------
    number : int
    """

    def __init__(self, number: int = 0) -> None:
        self.cupy = cupy_module()
        self._number = number
        with self.cupy.cuda.Device(number) as device:
            properties = self.cupy.cuda.runtime.getDeviceProperties(number)
            self.capability = int(device.compute_capability)
            self.processors = int(properties["multiProcessorCount"])
            self.shared_bytes = int(properties["sharedMemPerBlockOptin"])
            self.stream = self.cupy.cuda.Stream(non_blocking=True)
        if self.capability < 80:
            raise RuntimeError(
                f"device='cuda' needs a GPU of compute capability 8.0 or more; GPU {number} has "
                f"{self.capability / 10}; use device='cpu'."
            )
        self._kernels: dict[tuple[Any, str, int], Any] = {}

    @contextmanager
    def current(self) -> Iterator[None]:
        with self.cupy.cuda.Device(self._number), self.stream:
            try:
                yield
            except self.cupy.cuda.memory.OutOfMemoryError as error:
                raise MemoryError(
                    f"The GPU has no room for a part of this fit: {error}. Train fewer members at a time, lower "
                    "n_components or batch_size, or use device='cpu'."
                ) from error

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        with self.current():
            return self.cupy.empty(shape, dtype)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        with self.current():
            return self.cupy.zeros(shape, dtype)

    def upload(self, array: Array) -> Any:
        with self.current():
            return self.cupy.asarray(array)

    def download(self, array: Any) -> Array:
        with self.current():
            host: Array = self.cupy.asnumpy(array)
            return host

    def padded(self, X: Any, pitch: int) -> Any:
        with self.cupy.cuda.Device(self._number):  # X of the device may still be in the making, on the caller's stream
            self.stream.wait_event(self.cupy.cuda.get_current_stream().record())
        n, p = X.shape
        per_part = max(1, PART_BYTES // (pitch * X.dtype.itemsize))
        with self.current():
            rows = self.cupy.zeros((n, pitch), X.dtype)
            for start in range(0, n, per_part):  # a second copy of all of X might have no room
                rows[start : start + per_part, :p] = self.cupy.asarray(X[start : start + per_part])
            return rows

    def write(self, array: Any, rows: Array) -> None:
        with self.current():
            array.reshape(-1)[: rows.size].set(rows.reshape(-1))

    def staging(self, shape: tuple[int, ...], dtype: Any) -> _CudaStaging:
        return _CudaStaging(self, shape, np.dtype(dtype))

    def pointer(self, array: Any) -> int:
        return int(array.data.ptr)

    def compiled(self, source: str, defines: Mapping[str, int]) -> Any:
        return _module(self._number, source, tuple(sorted(defines.items())))

    def launch(self, compiled: Any, kernel: str, grid: Grid, threads: int, arguments: list[Any], shared: int) -> None:
        key = (compiled, kernel, shared)
        with self.current():
            if key not in self._kernels:
                function = compiled.get_function(kernel)
                if shared > 48 * 1024:
                    function.max_dynamic_shared_size_bytes = max(shared, function.max_dynamic_shared_size_bytes)
                self._kernels[key] = function
            self._kernels[key](grid, (threads,), tuple(arguments), shared_mem=shared)

    def graph(self, work: Callable[[], None]) -> Callable[[], None]:
        with self.current():
            self.stream.begin_capture()
            try:
                work()
            finally:
                captured = self.stream.end_capture()

        def replay() -> None:
            with self.current():
                captured.launch(self.stream)

        return replay

    def seconds(self, work: Callable[[], object]) -> float:
        """How long the device takes for some work, by its own events."""
        cupy = self.cupy
        with self.current():
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record(self.stream)
            work()
            end.record(self.stream)
            end.synchronize()
            return float(cupy.cuda.get_elapsed_time(begin, end)) / 1e3

    def free_bytes(self) -> int:
        budget = memory_budget()
        with self.current():
            pool = self.cupy.get_default_memory_pool()
            if budget is not None:
                return max(0, budget - int(pool.used_bytes()))
            return int(MEMORY_SHARE * (self.cupy.cuda.runtime.memGetInfo()[0] + pool.free_bytes()))

    def wait(self) -> None:
        with self.current():
            self.stream.synchronize()

    def release(self) -> None:
        self.wait()
        with self.current():
            self.cupy.get_default_memory_pool().free_all_blocks()


class _CudaStaging:
    """Pinned memory of the host, two buffers of the device, and a stream for the copies."""

    def __init__(self, device: CudaDevice, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        cupy = device.cupy
        self._device = device
        self.arrays = [device.empty(shape, dtype) for _ in range(2)]
        size = int(np.prod(shape))
        with device.current():
            self._pinned = [cupy.cuda.alloc_pinned_memory(size * dtype.itemsize) for _ in range(2)]
            self._copies = cupy.cuda.Stream(non_blocking=True)
        self._host = [np.frombuffer(memory, dtype, size).reshape(shape) for memory in self._pinned]
        self._copied: list[Any] = [None, None]
        self._marks: list[Any] = []

    def put(self, fill: Callable[[Array], None]) -> int:
        turn = len(self._marks)
        at = turn % 2
        with self._device.current():
            # Work on this buffer was launched before the last call; the first two calls wait for all earlier work.
            self._marks.append(self._device.stream.record())
            if self._copied[at] is not None:
                self._copied[at].synchronize()
            fill(self._host[at])
            self._copies.wait_event(self._marks[turn - 1 if turn > 1 else turn])
            nbytes = self._host[at].nbytes
            self.arrays[at].data.copy_from_host_async(self._host[at].ctypes.data, nbytes, self._copies)
            self._copied[at] = self._copies.record()
            self._device.stream.wait_event(self._copied[at])
        return at


@functools.lru_cache(maxsize=256)
def _module(number: int, source: str, defines: tuple[tuple[str, int], ...]) -> Any:
    """The compiled source; CuPy keeps the machine code on disk, so that it is made once for all processes."""
    cupy = cupy_module()
    options = ("-std=c++17", *(f"-D{name}={value}" for name, value in defines))
    with cupy.cuda.Device(number):
        module = cupy.RawModule(code=source_text(source), options=options)
        module.compile()
        return module
