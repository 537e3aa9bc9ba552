"""Every kernel and number of threads against the NumPy twin, and against each other; the checks are installed ones."""

import numpy as np
import pytest

from multiform.engines import CpuEngine
from multiform.testing import (
    SOLVERS,
    STORAGES,
    available_kernels,
    check_batch_equals_singles,
    check_literal_cpm_descends,
    check_parity,
    check_same_bits,
    check_values,
    sample_batch,
    sample_problem,
)
from tests.named_engines import cpu

KERNELS = available_kernels()
COMPILED = [cpu(kernel, n_threads) for kernel in KERNELS for n_threads in (1, 2, 3)]
BLAS = [engine for engine in COMPILED if engine.kernel == "portable"]
OWN = [engine for engine in COMPILED if engine.kernel != "portable"]


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_same_moves_as_the_twin(solver, storage):
    check_parity(cpu("portable", n_threads=2), storage, solver)


@pytest.mark.parametrize("solver", ["adam", "cpm, literal", "cpm, frozen_own", "cpm, all departures"])
@pytest.mark.parametrize("storage", STORAGES)
def test_same_moves_on_some_columns_from_a_given_start(solver, storage):
    check_parity(cpu("auto"), storage, solver, some_columns=True, given_start=True)


@pytest.mark.slow
@pytest.mark.parametrize("engine", COMPILED, ids=str)
def test_every_engine_against_the_twin(engine):
    for storage in STORAGES:
        for solver in SOLVERS:
            check_parity(engine, storage, solver)
            check_parity(engine, storage, solver, some_columns=True, given_start=True)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_kernels_and_threads_agree_to_the_bit(solver, storage):
    """The portable kernels leave the matrix products to BLAS, which may round in another order."""
    for alike in [COMPILED] if solver == "cpm, literal" else [BLAS, OWN]:
        if alike:
            check_same_bits(alike, storage, solver)


@pytest.mark.parametrize(("n_features", "n_classes"), [(3, 200), (401, 3), (1000, 40)])
def test_bits_where_adam_cuts_the_weights(n_features, n_classes):
    """Many outputs, and several groups of features: every cut that Adam makes in the weights."""
    for alike in filter(None, [BLAS, OWN]):
        check_same_bits(alike, solver="adam", n_samples=300, n_features=n_features, n_classes=n_classes)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("storage", STORAGES)
def test_wide_data_against_the_twin(kernel, storage):
    check_parity(cpu(kernel, n_threads=2), storage, "adam", n_samples=150, n_features=850)


def test_very_wide_data_against_the_twin():
    """Groups of features that do not share out evenly."""
    check_parity(cpu(n_threads=2), solver="adam", n_samples=40, n_features=20_000)


@pytest.mark.parametrize("kernel", ["reference", *KERNELS])
@pytest.mark.parametrize("storage", STORAGES)
def test_member_values(kernel, storage):
    check_values(cpu(kernel, n_threads=2), storage)


@pytest.mark.parametrize("kernel", ["reference", *KERNELS])
def test_literal_cpm_never_raises_the_loss(kernel):
    check_literal_cpm_descends(cpu(kernel), n_sweeps=3 if kernel == "reference" else 12)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("solver", ["adam", "cpm, literal", "cpm, frozen_own", "cpm, all departures"])
def test_a_member_is_what_it_is_alone(solver, n_threads):
    check_batch_equals_singles(cpu("auto", n_threads), solver)


def test_the_checks_can_fail():
    """An engine that is wrong in its last member only is found out."""

    class Wrong(CpuEngine):
        def begin(self, problem, batch, solver, moments=None):
            return WrongInTheEnd(super().begin(problem, batch, solver, moments), solver.n_passes)

        def values(self, rows, separators):
            return super().values(rows, separators) * 1.01

    class WrongInTheEnd:
        def __init__(self, state, n_passes):
            self._state, self._n_passes = state, n_passes

        def __getattr__(self, name):
            return getattr(self._state, name)

        def advance(self, until, seconds):
            self._state.advance(until, seconds)
            if self.passes == self._n_passes:
                self.coefficients[-1][0, 0, 0] += 1

    with pytest.raises(AssertionError, match="member 2: coefficients"):
        check_parity(Wrong())
    with pytest.raises(AssertionError, match="member values of float32"):
        check_values(Wrong())
    with pytest.raises(AssertionError, match="adam"):
        check_same_bits([cpu(), Wrong()])
    with pytest.raises(AssertionError, match="member 0"):
        check_batch_equals_singles(Wrong())
    with pytest.raises(AssertionError, match="raised the loss"):
        check_literal_cpm_descends(Wrong(), n_sweeps=12)


def test_unknown_storage():
    with pytest.raises(ValueError, match="storage must be one of float32, uint8, csr; got 'csc'"):
        sample_problem("csc")


def test_storages_hold_the_same_numbers():
    dense = sample_problem("float32")
    samples = np.arange(len(dense.target))
    for storage in STORAGES:
        np.testing.assert_array_equal(dense.rows.scaled(samples), sample_problem(storage).rows.scaled(samples))
    assert (dense.rows.stored == 0).mean() > 0.1
    assert len(sample_batch(dense)) == 3
