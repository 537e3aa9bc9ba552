"""A device that runs the kernels' own sources on the CPU (emulator.hpp), for tests where there is no GPU."""

import ctypes
import functools
import gc
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import weakref
from pathlib import Path

import numpy as np
import scipy.sparse

from multiform.engines.cuda.device import argument_layout, source_text

COMPILER = os.environ.get("CXX") or shutil.which("g++")
EXTRA = os.environ.get("MULTIFORM_EMULATOR_FLAGS", "").split()  # e.g. -fsanitize=address: see docs/gpu.md
HEADER = Path(__file__).with_name("emulator.hpp")
_KERNEL = re.compile(r"^GLOBAL(?: (?:THREADS|RESIDENT)\([\w, ]+\))?(?: CLUSTER\(\w+\))? (\w+)\((\w+) ", re.MULTILINE)


def layout_checks(source, structure):
    """Python fills a structure exactly where the compiler has its fields."""
    layout = argument_layout(source, structure).dtype
    yield f"static_assert(sizeof({structure}) == {layout.itemsize});"
    for name, (_, offset) in layout.fields.items():
        yield f"static_assert(offsetof({structure}, {name}) == {offset});"


@functools.cache
def library(source, defines):
    """The emulated kernels of one source as a shared library; kept for later runs, as its text decides its name."""
    kernels = dict(_KERNEL.findall(source_text(source)))  # with the structure that each takes
    lines = [
        f'#include "{HEADER}"',
        *(f"#define {name} {value}" for name, value in defines),
        "#define MULTIFORM_EMULATED",
        source_text(source).replace("#pragma once", ""),
        *(line for structure in sorted(set(kernels.values())) for line in layout_checks(source, structure)),
        'extern "C" int emulate(const char* name, unsigned* grid, unsigned threads, unsigned blocks, size_t shared,',
        "                       void** arguments) {",
        "    emulator::arguments = arguments;",
        *(
            f'    if (!std::strcmp(name, "{kernel}")) {{ emulator::body = [](void** values) '
            f"{{ emulator::call({kernel}, values); }}; return emulator::run(grid, threads, blocks, shared); }}"
            for kernel in kernels
        ),
        "    return 1;",
        "}",
    ]
    text = "\n".join(lines)
    key = hashlib.sha256((text + HEADER.read_text() + str(EXTRA)).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"multiform-emulated-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    built = folder / f"{key}.so"
    if not built.exists():
        code = folder / f"{key}-{os.getpid()}.cpp"
        code.write_text(text)
        made = code.with_suffix(".so")
        options = ["-std=c++20", "-O1", "-shared", "-fPIC", "-ffp-contract=off", "-w", *EXTRA]
        subprocess.run([COMPILER, *options, "-o", made, code], check=True)
        made.replace(built)
        code.unlink()
    return ctypes.CDLL(str(built))


def run_kernel(built, kernel, grid, threads, arguments, shared):
    """One launch, to its end."""
    blocks = re.search(r"_in_clusters_of_(\d+)$", kernel)
    pointers = (ctypes.c_void_p * len(arguments))(*(argument.ctypes.data for argument in arguments))
    sizes = (ctypes.c_uint * 3)(*grid)
    size, n_blocks = -(-threads // 32) * 32, int(blocks[1]) if blocks else 1
    failed = built.emulate(kernel.encode(), sizes, size, n_blocks, ctypes.c_size_t(shared), pointers)
    assert failed == 0, f"no kernel is named {kernel}"


class EmulatedStaging:
    def __init__(self, device, shape, dtype):
        self.arrays = [device.zeros(shape, dtype) for _ in range(2)]
        self._turn = 0

    def put(self, fill):
        self._turn += 1
        fill(self.arrays[self._turn % 2])
        return self.arrays[self._turn % 2]


class EmulatedDevice:
    """As `multiform.engines.cuda.device.Device`; arrays are NumPy's."""

    def __init__(self, capability=90, *, clusters=True, precision="float32", memory=None):
        self.has_clusters, self.precision, self.memory = clusters and capability >= 90, precision, memory
        self.processors, self.shared_bytes = 4, 232_448
        self.launches = []
        self._held = []

    def _hold(self, array):
        self._held.append(weakref.ref(array))
        return array

    def used_bytes(self):
        """Of the arrays that somebody still holds."""
        gc.collect()
        return sum(array.nbytes for held in self._held if (array := held()) is not None)

    def empty(self, shape, dtype):
        array = np.empty(shape, dtype)
        array.view(np.uint8).fill(0xAB)  # poison: what a kernel has not written must not be read
        return self._hold(array)

    def zeros(self, shape, dtype):
        return self._hold(np.zeros(shape, dtype))

    def upload(self, array):
        return self._hold(np.array(array, order="C"))

    def download(self, array):
        return np.array(array)

    def padded(self, X, pitch):
        rows = self.zeros((X.shape[0], pitch), X.dtype)
        rows[:, : X.shape[1]] = X.toarray() if scipy.sparse.issparse(X) else X
        return rows

    def staging(self, shape, dtype):
        return EmulatedStaging(self, shape, dtype)

    def pointer(self, array):
        return array.ctypes.data

    def compiled(self, source, defines):
        return library(source, tuple(sorted(defines.items())))

    def launch(self, compiled, kernel, grid, threads, arguments, shared):
        self.launches.append(kernel)
        assert shared <= self.shared_bytes, f"{kernel} asks for {shared} bytes of shared memory"
        run_kernel(compiled, kernel, grid, threads, [np.array(argument) for argument in arguments], shared)

    def graph(self, work):
        return work

    def free_bytes(self):
        return 2**40 if self.memory is None else max(0, self.memory - self.used_bytes())

    def wait(self):
        pass

    def release(self):
        pass
