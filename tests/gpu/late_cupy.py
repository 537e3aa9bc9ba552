"""CuPy, as far as `CudaDevice` needs it, on the CPU, and as lazy as CUDA may be: the work of a stream is done when
somebody waits for it, and not before; memory that nobody holds goes to the next who asks, whatever still reads it."""

import ctypes
import types
import weakref

import numpy as np

from multiform.engines.cuda.device import source_text
from tests.gpu.emulated import library, run_kernel
from tests.gpu.nvrtc import STRUCTURES


class Pool:
    """Memory by its size: the last to be given back is the first to be given out."""

    def __init__(self):
        self._free, self._all, self.used = {}, [], 0

    def take(self, nbytes):
        free = self._free.setdefault(nbytes, [])
        memory = free.pop() if free else np.full(nbytes, 0xAB, np.uint8)
        self._all.append(memory)  # work in a queue may read it when nobody holds it
        self.used += nbytes
        holder = memory.view(Held)
        weakref.finalize(holder, self._give_back, memory)
        return holder

    def _give_back(self, memory):
        self.used -= memory.nbytes
        self._free[memory.nbytes].append(memory)

    def used_bytes(self):
        return self.used

    def free_bytes(self):
        return 0

    def free_all_blocks(self):
        pass


class Held(np.ndarray):
    """Memory of a pool: a class of its own, so that its end can be seen."""


def loose(values):
    """The same memory, held by nobody: how work in a queue knows it."""
    if values.size == 0:
        return values
    last = sum((length - 1) * stride for length, stride in zip(values.shape, values.strides, strict=True))
    memory = (ctypes.c_char * (last + values.itemsize)).from_address(values.ctypes.data)
    return np.ndarray(values.shape, values.dtype, memory, strides=values.strides)


class Event:
    def __init__(self, stream, position):
        self._stream, self._position = stream, position

    def synchronize(self):
        self._stream.work_until(self._position)


class Stream:
    current: list = []  # noqa: RUF012, as CuPy's: whoever is entered last

    def __init__(self, non_blocking=False):
        self._todo, self._done, self._captured = [], 0, None

    def __enter__(self):
        Stream.current.append(self)
        return self

    def __exit__(self, *_):
        Stream.current.pop()

    def add(self, work):
        (self._todo if self._captured is None else self._captured).append(work)

    def work_until(self, position):
        while self._done < position:
            self._done += 1
            self._todo.pop(0)()

    def synchronize(self):
        self.work_until(self._done + len(self._todo))

    def record(self):
        return Event(self, self._done + len(self._todo))

    def wait_event(self, event):
        self.add(event.synchronize)

    def begin_capture(self):
        self._captured = []

    def end_capture(self):
        captured, self._captured = self._captured, None
        return types.SimpleNamespace(launch=lambda stream: [stream.add(work) for work in captured])


NULL = Stream()


def current_stream():
    return Stream.current[-1] if Stream.current else NULL


class Array:
    """An array on the device: its memory is touched in the streams' turns alone."""

    __cuda_array_interface__ = None

    def __init__(self, values):
        self.values = values
        self.shape, self.dtype, self.nbytes = values.shape, values.dtype, values.nbytes

    @property
    def data(self):
        pointer = self.values.ctypes.data

        def copy_from_host_async(source, nbytes, stream):
            stream.add(lambda: ctypes.memmove(pointer, source, nbytes))

        return types.SimpleNamespace(ptr=pointer, copy_from_host_async=copy_from_host_async)

    def __getitem__(self, where):
        return Array(self.values[where])

    def __setitem__(self, where, other):
        target, source = loose(self.values[where]), loose(other.values)
        current_stream().add(lambda: np.copyto(target, source))

    def reshape(self, *shape):
        return Array(self.values.reshape(*shape))

    def set(self, host):
        target, source = loose(self.values), host.copy()
        current_stream().add(lambda: np.copyto(target, source))


class Kernel:
    max_dynamic_shared_size_bytes = 0

    def __init__(self, built, name):
        self._built, self._name = built, name

    def __call__(self, grid, block, arguments, shared_mem):
        held = [np.array(argument) for argument in arguments]
        assert shared_mem <= max(48 * 1024, self.max_dynamic_shared_size_bytes)
        current_stream().add(lambda: run_kernel(self._built, self._name, grid, block[0], held, shared_mem))


class RawModule:
    def __init__(self, code, options):
        source = next(name for name in STRUCTURES if source_text(name) == code)
        defines = (option[2:].split("=") for option in options if option.startswith("-D"))
        self._built = library(source, tuple((name, int(value)) for name, value in defines))

    def compile(self):
        pass

    def get_function(self, name):
        return Kernel(self._built, name)


class Device:
    compute_capability = "90"

    def __init__(self, number=0):
        assert number == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def late_cupy():
    """A module of its own, with nothing allocated."""
    pool, pinned = Pool(), Pool()

    def empty(shape, dtype):
        dtype, size = np.dtype(dtype), int(np.prod(shape))
        return Array(pool.take(max(1, size * dtype.itemsize))[: size * dtype.itemsize].view(dtype).reshape(shape))

    def zeros(shape, dtype):
        array = empty(shape, dtype)
        target = loose(array.values)
        current_stream().add(lambda: target.fill(0))
        return array

    def asarray(host):
        if isinstance(host, Array):
            return host
        array = empty(host.shape, host.dtype)
        array.set(host)
        return array

    def asnumpy(array):
        current_stream().synchronize()
        return np.array(array.values)

    properties = {"multiProcessorCount": 4, "sharedMemPerBlockOptin": 232_448}
    memory = types.SimpleNamespace(OutOfMemoryError=type("OutOfMemoryError", (MemoryError,), {}))
    runtime = types.SimpleNamespace(
        getDeviceCount=lambda: 1,
        getDeviceProperties=lambda number: properties,
        memGetInfo=lambda: (2**40, 2**40),
        CUDARuntimeError=RuntimeError,
    )
    cuda = types.SimpleNamespace(
        Device=Device,
        Stream=Stream,
        get_current_stream=current_stream,
        alloc_pinned_memory=pinned.take,
        memory=memory,
        runtime=runtime,
    )
    return types.SimpleNamespace(
        cuda=cuda,
        ndarray=Array,
        RawModule=RawModule,
        empty=empty,
        zeros=zeros,
        asarray=asarray,
        asnumpy=asnumpy,
        get_default_memory_pool=lambda: pool,
    )
