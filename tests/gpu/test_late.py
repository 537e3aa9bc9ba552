"""`Device` itself, over a CuPy that does everything as late as it may: what is read too early, or given away while
somebody still reads it, comes out wrong."""

import numpy as np
import pytest

from multiform.engines import evaluate, solve
from multiform.engines.cuda import CudaEngine
from multiform.engines.cuda import device as cuda_device
from multiform.engines.cuda.device import Device
from multiform.engines.cuda.storage import place
from multiform.separators import Separators
from multiform.testing import (
    SOLVERS,
    STORAGES,
    check_parity,
    check_values,
    sample_batch,
    sample_problem,
    values_of,
)
from tests.gpu.late_cupy import Array, current_stream, late_cupy

SETTINGS = ["adam", "cpm, all departures"]


@pytest.fixture
def late(emulated, monkeypatch):
    cupy = late_cupy()
    monkeypatch.setattr(cuda_device, "cupy_module", lambda: cupy)
    cuda_device._module.cache_clear()
    yield cupy
    cuda_device._module.cache_clear()


@pytest.mark.parametrize("solver", SETTINGS)
def test_same_moves_as_the_twin(late, solver):
    check_parity(CudaEngine("cuda"), "uint8", solver)


@pytest.mark.parametrize("storage", STORAGES)
def test_member_values(late, storage):
    check_values(CudaEngine("cuda"), storage)


@pytest.mark.parametrize("solver", SETTINGS)
@pytest.mark.parametrize("storage", ["uint8", pytest.param("csr", marks=pytest.mark.slow)])
def test_streamed_rows_give_the_same_bits(late, monkeypatch, solver, storage):
    monkeypatch.setattr("multiform.engines.cuda.cpm.LOOK", 20)  # several parts a sweep
    problem = sample_problem(storage, n_samples=120)
    batch = sample_batch(problem)
    whole = solve(problem, batch, SOLVERS[solver], CudaEngine("cuda", small=False))
    f = values_of(problem, whole.coefficients[0], CudaEngine("cuda"))
    monkeypatch.setattr("multiform.engines.cuda.storage.ROOM_FOR_X", 0.0)
    monkeypatch.setattr("multiform.engines.cuda.values.WORK_BYTES", 2_000)
    streamed = solve(problem, batch, SOLVERS[solver], CudaEngine("cuda", small=False))
    assert place(problem.rows, Device()).streamed
    for mine, its in zip(streamed.coefficients, whole.coefficients, strict=True):
        np.testing.assert_array_equal(mine, its)
    np.testing.assert_array_equal(values_of(problem, whole.coefficients[0], CudaEngine("cuda")), f)


def test_an_array_of_the_device_may_still_be_in_the_making(late):
    """X is written on the caller's stream after the call; the answer is complete when it is given."""
    problem = sample_problem("uint8")
    weights = np.random.default_rng(0).normal(size=(3, 2, 6)).astype(np.float32)
    X = late.zeros(problem.rows.stored.shape, np.uint8)
    current_stream().add(lambda: np.copyto(X.values, problem.rows.stored))
    separators = Separators(weights, problem.rows.scaling, 3)
    found = evaluate(separators, X, "cpu", None)
    assert isinstance(found, Array)
    expected = evaluate(separators, problem.rows.stored, "cpu", None)
    np.testing.assert_allclose(found.values, expected, rtol=1e-4, atol=1e-5)


def test_a_large_array_is_brought_in_parts(late, monkeypatch):
    monkeypatch.setattr(cuda_device, "PART_BYTES", 100)
    X = np.arange(60, dtype=np.uint8).reshape(12, 5)
    device = Device()
    np.testing.assert_array_equal(device.download(device.padded(X, 32))[:, :6], np.pad(X, ((0, 0), (0, 1))))


def test_a_budget_is_for_all_that_is_held(late):
    device = Device(memory=10_000)
    held = device.zeros((1_000,), np.float32)
    assert device.free_bytes() == 10_000 - held.nbytes
    del held
    assert device.free_bytes() == 10_000


def test_too_large_an_array_of_the_device_is_said(late):
    problem = sample_problem("uint8")
    X, separators = (
        late.asarray(problem.rows.stored),
        Separators(np.ones((3, 2, 6), np.float32), problem.rows.scaling, 3),
    )
    with pytest.raises(MemoryError, match=r"X, on the GPU already, needs a copy of .* GB there; .* give it in parts"):
        evaluate(separators, X, CudaEngine("cuda", memory=3_000), None)
