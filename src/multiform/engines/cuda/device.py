"""What a GPU does for us: memory, kernels compiled from our sources, graphs. CuPy is imported here and nowhere else."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from typing import Any

import numpy as np
import scipy.sparse

from multiform._typing import Array

Grid = tuple[int, int, int]

PART_BYTES = 256 * 2**20  # of X, where it is brought to the device in parts
MEMORY_SHARE = 0.9  # of what is free; the driver and the compiler's own modules want the rest

_INCLUDE = re.compile(r'^#include "(\w+\.cuh)"$', re.MULTILINE)
_FIELD = re.compile(r"^\s*(?:const )?(\w+)(\*?) (\w+);", re.MULTILINE)
_TYPES = {"int64": np.int64, "float": np.float32}


@functools.cache
def source_text(name: str) -> str:
    """One of our files, with what it includes put in place: one text, all of which a cache of compiled code sees."""
    text = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda match: source_text(match[1]), text)


def source_number(name: str, constant: str) -> int:
    """A constant that launches and kernels must agree on, from where the source has it.

    >>> source_number("common.cuh", "kRowsTile")
    32
    """
    found = re.search(rf"^constexpr int {constant} = (\d+);", source_text(name), re.MULTILINE)
    if found is None:
        raise ValueError(f"{name} declares no constant {constant}.")
    return int(found[1])


@functools.cache
def argument_layout(name: str, structure: str) -> Array:
    """An empty argument: the structure as the source declares it, so that the two cannot differ.

    >>> argument_layout("values.cu", "Values").dtype.names[:2]
    ('rows', 'pitch')
    """
    dtype = np.dtype(_fields(source_text(name), name, structure), align=True)
    return np.zeros(1, dtype=dtype)


def _fields(text: str, name: str, structure: str) -> list[tuple[str, Any]]:
    """Those of its base come first, as the compiler has them."""
    found = re.search(rf"^struct {structure}(?: : (\w+))? {{(.*?)\n}};", text, re.DOTALL | re.MULTILINE)
    if found is None:
        raise ValueError(f"{name} declares no structure {structure}.")
    base, body = found.groups()
    inherited = [] if base is None else _fields(text, name, base)
    return inherited + [
        (field, np.uint64 if pointer else _TYPES[kind]) for kind, pointer, field in _FIELD.findall(body)
    ]


class Program:
    """One of our sources, compiled for one storage and tiling; its kernels take a structure by the fields' names.

    `structure` is the one in the file `source` that its kernels take; `defines` is what else it is compiled for.
    """

    def __init__(
        self, device: Device, source: str, structure: str, stored_bytes: int, n_components: int, **defines: int
    ) -> None:
        self.piece = 8 * min(4, -(-n_components // 8))
        self.pieces = -(-n_components // self.piece)
        self._device, self._structure, self._layout = device, structure, argument_layout(source, structure)
        defines |= {"STORED": stored_bytes, "TILES": self.piece // 8, "SPLIT": int(device.precision == "float32")}
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


def open_device(device: Any, **settings: Any) -> Device:
    """The device by its name, "cuda" or "cuda:1", with these settings; one that is open already is handed back."""
    if not isinstance(device, str):
        if settings:
            raise TypeError(f"A device that is open already has its settings; got {', '.join(settings)} beside it.")
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
    return Device(number, **settings)


class Device:
    """A GPU through CuPy, with a stream of its own: work of two threads does not mix.

    Arrays on it are opaque; they are freed when nobody holds them. The settings are those of `CudaEngine`.
    """

    def __init__(
        self, number: int = 0, *, clusters: bool = True, precision: str = "float32", memory: int | None = None
    ) -> None:
        if precision not in ("float32", "tf32"):
            raise ValueError(f"precision must be float32 or tf32; got {precision!r}.")
        self.cupy = cupy_module()
        self._number, self.precision, self._memory = number, precision, memory
        with self.cupy.cuda.Device(number) as device:
            properties = self.cupy.cuda.runtime.getDeviceProperties(number)
            self.capability = int(device.compute_capability)  # 90 is 9.0
            self.processors = int(properties["multiProcessorCount"])
            self.shared_bytes = int(properties["sharedMemPerBlockOptin"])  # of one block, at most
            self.stream = self.cupy.cuda.Stream(non_blocking=True)
        if self.capability < 80:
            raise RuntimeError(
                f"device='cuda' needs a GPU of compute capability 8.0 or more; GPU {number} has "
                f"{self.capability / 10}; use device='cpu'."
            )
        self.has_clusters = clusters and self.capability >= 90
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
        """X, of the host or of the device, dense in rows of `pitch` values, zeros behind."""
        with self.cupy.cuda.Device(self._number):  # X of the device may still be in the making, on the caller's stream
            self.stream.wait_event(self.cupy.cuda.get_current_stream().record())
        n, p = X.shape
        per_part = max(1, PART_BYTES // (pitch * X.dtype.itemsize))
        with self.current():
            rows = self.cupy.zeros((n, pitch), X.dtype)
            for start in range(0, n, per_part):  # a second copy of all of X might have no room
                part = X[start : start + per_part]
                part = part.toarray() if scipy.sparse.issparse(part) else part
                rows[start : start + per_part, :p] = self.cupy.asarray(part)
            return rows

    def staging(self, shape: tuple[int, ...], dtype: Any) -> Staging:
        return Staging(self, shape, np.dtype(dtype))

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
        """The launches that `work` makes, as one that can be repeated."""
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

    def free_bytes(self) -> int:
        """What may still be allocated: of the budget, else of what the GPU has free."""
        with self.current():
            pool = self.cupy.get_default_memory_pool()
            if self._memory is not None:
                return max(0, self._memory - int(pool.used_bytes()))
            return int(MEMORY_SHARE * (self.cupy.cuda.runtime.memGetInfo()[0] + pool.free_bytes()))

    def wait(self) -> None:
        """Until all that was launched is done."""
        with self.current():
            self.stream.synchronize()

    def release(self) -> None:
        """Give memory that nobody holds back to the GPU."""
        self.wait()
        with self.current():
            self.cupy.get_default_memory_pool().free_all_blocks()


class Staging:
    """Two buffers on the device that take turns: one is filled while earlier work reads the other.

    Pinned memory of the host, and a stream for the copies.
    """

    def __init__(self, device: Device, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
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

    def put(self, fill: Callable[[Array], None]) -> Any:
        """Have the host memory of the next buffer filled and copied; work launched from now on finds it there."""
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
        return self.arrays[at]


@functools.lru_cache(maxsize=256)
def _module(number: int, source: str, defines: tuple[tuple[str, int], ...]) -> Any:
    """The compiled source; CuPy keeps the machine code on disk, so that it is made once for all processes."""
    cupy = cupy_module()
    options = ("-std=c++17", *(f"-D{name}={value}" for name, value in defines))
    with cupy.cuda.Device(number):
        module = cupy.RawModule(code=source_text(source), options=options)
        module.compile()
        return module
