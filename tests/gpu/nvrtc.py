"""NVIDIA's run-time compiler needs no GPU: machine code of every kernel, and what the assembler says of it.

``python -m tests.gpu.nvrtc`` compiles every variant that the engine can ask for and prints a line a kernel.
"""

import ctypes
import functools
import itertools
import re
from importlib import metadata

from multiform.engines.cuda.device import source_text

# The compilers of CUDA 12 and 13 are packages of their own; whichever is installed is used.
PACKAGES = {"nvidia-cuda-nvrtc-cu12": "libnvrtc.so.12", "nvidia-cuda-nvrtc": "libnvrtc.so.13"}
ARCHITECTURES = ["sm_80", "sm_89", "sm_90"]  # Ampere and Ada have no clusters, Hopper has
STRUCTURES = {
    "adam.cu": "Adam",
    "small_adam.cu": "Small",
    "cpm_sets.cu": "Sets",
    "cpm_row.cu": "Row",
    "values.cu": "Values",
    "storage.cu": "Narrowing",
}
_KERNEL = re.compile(
    r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers", re.S
)


@functools.cache
def compilers():
    """The installed ones, as {package: library}."""
    found = {}
    for package, library in PACKAGES.items():
        try:
            files = metadata.files(package) or []
        except metadata.PackageNotFoundError:
            continue
        for file in files:
            if file.name == library:
                found[package] = ctypes.CDLL(str(file.locate()))
    return found


def variants(source):
    """All that a source can be compiled for, the default first; settings that it does not read stay there."""
    read = {
        "adam.cu": {"TILES": (3, 1, 2, 4), "SPLIT": (1, 0)},
        "values.cu": {"TILES": (3, 1, 2, 4), "SPLIT": (1, 0)},
        "cpm_row.cu": {"SLOTS": (4, 8, 0), "FROZEN": (1, 0), "PAIRS": (0, 1)},
        "storage.cu": {"STORED": (2,)},
    }
    settings = {"STORED": (1, 2, 4), "TILES": (3,), "SPLIT": (1,)} | read.get(source, {})
    return [dict(zip(settings, values, strict=True)) for values in itertools.product(*settings.values())]


def near_the_default(source):
    """The variants that differ from the default in one setting at the most."""
    default, *others = variants(source)
    return [default, *(variant for variant in others if len(variant.items() - default.items()) == 1)]


def assembled(package, source, architecture, variant):
    """What the assembler says: {kernel: (registers of a thread, bytes spilled)}; an error is an AssertionError."""
    nvrtc = compilers()[package]
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    options = [f"--gpu-architecture={architecture}", "-std=c++17", "-diag-suppress=177", "--ptxas-options=-v"]
    options += [f"-D{name}={value}" for name, value in variant.items()]
    given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    made = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source_text(source).encode(), source.encode(), 0, None, None)
    assert made == 0, f"NVRTC answers {made}"
    try:
        failed = nvrtc.nvrtcCompileProgram(program, len(options), given)
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    said = log.value.decode()
    assert failed == 0, f"{source} for {architecture} as {variant}: {said}"
    return {kernel: (int(used), int(stored) + int(read)) for kernel, stored, read, used in _KERNEL.findall(said)}


def main():
    for package, source, architecture in itertools.product(compilers(), STRUCTURES, ARCHITECTURES):
        for variant in variants(source):
            for kernel, (registers, spilled) in assembled(package, source, architecture, variant).items():
                settings = " ".join(f"{name}={value}" for name, value in variant.items())
                print(f"{package} {architecture} {kernel} {settings}: {registers} registers, {spilled} bytes spilled")


if __name__ == "__main__":
    main()
