"""Python's side of `starve.cpp`: calls that fail from the n-th on, in a process that has it preloaded."""

import ctypes
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from functools import cache
from pathlib import Path

FOREVER = 2**62
compiler = shutil.which("c++") or shutil.which("g++")


def built(folder):
    """The library, compiled into this folder."""
    library = Path(folder) / "libstarve.so"
    source = Path(__file__).with_name("starve.cpp")
    flags = ["-std=c++20", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run([compiler, *flags], check=True)
    return library


def run(library, module, *words, timeout=3600):
    """Run ``python -m module words`` with the library preloaded."""
    environment = os.environ | {"LD_PRELOAD": str(library), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONFAULTHANDLER": "1"}
    command = [sys.executable, "-m", module, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment, check=False)


@cache
def _library():
    return ctypes.CDLL(None)


@contextmanager
def starved(what, first, last=FOREVER):
    """Within, the calls from the first to the last of "memory", "threads" or "disk" fail, counted from 1."""
    _library().starve(what.encode(), ctypes.c_long(first), ctypes.c_long(last))
    try:
        yield
    finally:
        _library().starve(what.encode(), ctypes.c_long(1), ctypes.c_long(0))


@contextmanager
def counted(what):
    """Within, nothing fails; a function that says how many calls there were so far."""
    with starved(what, 1, 0):
        _library().starve_calls.restype = ctypes.c_long
        yield lambda: _library().starve_calls(what.encode())
