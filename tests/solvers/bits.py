"""``python -m tests.solvers.bits``: a line for every model of the portable kernels, with a hash of all its bits.

Two processors must print the same (`make test-aarch64`). BLAS rounds as it likes, so a product in one fixed order takes
its place; the literal CPM needs none, and is printed with BLAS too. The start is given: NumPy sums a random one.
"""

import ctypes
import hashlib
import sys

import numpy as np
from scipy.linalg import cython_blas

from multiform import runtime
from multiform.engines import CpuEngine, solve
from multiform.testing import SOLVERS, STORAGES, sample_batch, sample_problem, values_of

ENGINE = CpuEngine("portable", n_threads=2, worth_a_thread=1)
SIGNATURE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)
NEW_CAPSULE = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
failures = []


def matrix(address, n_rows, n_columns, stride):
    flat = (ctypes.c_float * ((n_rows - 1) * stride + n_columns)).from_address(address)
    return np.lib.stride_tricks.as_strided(np.frombuffer(flat, np.float32), (n_rows, n_columns), (4 * stride, 4))


@SIGNATURE
def ordered_sgemm(_, transposed, m, n, k, _alpha, a, lda, b, ldb, _beta, c, ldc):
    """One product after the other is added, each rounded: no fused multiply-add, no other order."""
    m, n, k, lda, ldb, ldc = (ctypes.c_int.from_address(at).value for at in (m, n, k, lda, ldb, ldc))
    left = matrix(a, k, m, lda)
    right = matrix(b, k, n, ldb) if ctypes.c_char.from_address(transposed).value == b"T" else matrix(b, n, k, ldb).T
    out = matrix(c, n, m, ldc)
    out[:] = 0
    for one, other in zip(left, right, strict=True):
        out += np.multiply.outer(other, one)


def replace_blas():
    address = ctypes.cast(ordered_sgemm, ctypes.c_void_p)
    new = NEW_CAPSULE(("PyCapsule_New", ctypes.pythonapi))
    cython_blas.__pyx_capi__["sgemm"] = new(address, None, None)
    runtime.sgemm.cache_clear()


def fingerprint(*arrays):
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()[:16]


def show(solver, storage, product):
    problem = sample_problem(storage, n_samples=300, n_features=37, n_classes=4)
    state = solve(problem, sample_batch(problem, given_start=True), SOLVERS[solver], ENGINE)
    parts = [fingerprint(*state.coefficients), fingerprint(*map(np.asarray, state.losses))]
    if product == "ordered":
        parts.append(fingerprint(values_of(problem, state.coefficients[0], ENGINE)))
    print(f"{solver}, {storage}, {product}:", *parts)


def main():
    sys.unraisablehook = failures.append  # of the product, which the core cannot hear of
    problem = sample_problem(n_samples=300, n_features=37, n_classes=4)
    start = sample_batch(problem, given_start=True).initial_coefficients(problem, 0)
    print("data:", fingerprint(problem.rows.stored, *problem.rows.scaling.single, start))
    for storage in STORAGES:
        show("cpm, literal", storage, "BLAS")
    replace_blas()
    for solver in SOLVERS:
        for storage in STORAGES:
            show(solver, storage, "ordered")
    if failures:
        sys.exit(f"The ordered product failed: {failures[0].exc_value!r}")


if __name__ == "__main__":
    main()
