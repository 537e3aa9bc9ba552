"""The kernels' own sources, run by an emulator: the same moves and models as the NumPy twin."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiform.engines import solve
from multiform.engines.cuda import CudaEngine
from multiform.engines.cuda.states import DeviceMembers
from multiform.engines.cuda.storage import place
from multiform.solvers import AdamSolver, CpmSolver, ModelBatch
from multiform.testing import (
    SOLVERS,
    STORAGES,
    check_batch_equals_singles,
    check_literal_cpm_descends,
    check_parity,
    check_same_bits,
    check_values,
    sample_batch,
    sample_problem,
    values_of,
)
from tests.gpu.emulated import EmulatedDevice
from tests.named_engines import cpu

QUICK = ["adam", "cpm, literal", "cpm, all departures"]


@pytest.mark.parametrize("solver", QUICK)
def test_same_moves_as_the_twin(emulated, solver):
    check_parity(CudaEngine(emulated), "uint8", solver)


@pytest.mark.slow
@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_all_moves_as_the_twin(emulated, solver, storage, capability):
    engine = CudaEngine(EmulatedDevice(capability=capability))
    check_parity(engine, storage, solver)
    check_parity(engine, storage, solver, some_columns=True, given_start=True)


@pytest.mark.parametrize("solver", QUICK)
def test_columns_and_starts(emulated, solver):
    check_parity(CudaEngine(emulated), "uint8", solver, some_columns=True, given_start=True)


def test_one_kernel_at_a_time_as_the_twin(emulated):
    """Small members too can be trained by the kernels of large ones."""
    check_parity(CudaEngine(emulated, small=False), "uint8", "adam")
    assert {"adam_forward", "adam_slopes", "adam_update"} <= set(emulated.launches)
    assert "small_adam" not in emulated.launches


def test_small_members_are_one_launch(emulated):
    problem = sample_problem("uint8")
    solve(problem, sample_batch(problem), AdamSolver(20, 16), CudaEngine(emulated))
    assert emulated.launches.count("small_adam") == 1


@pytest.mark.parametrize("storage", STORAGES)
def test_member_values(emulated, storage):
    check_values(CudaEngine(emulated), storage)


@pytest.mark.parametrize("n_components", [3, 35])
def test_member_values_of_some_columns(emulated, n_components):
    """||A_k x - b_k||^2 with x restricted, also for more rows than one piece of a block."""
    problem = sample_problem("uint8")
    columns = np.array([1, 3, 4], dtype=np.int32)
    weights = np.random.default_rng(0).normal(size=(3, n_components, 4)).astype(np.float32)
    f = values_of(problem, weights, CudaEngine(emulated), columns)
    x = problem.rows.scaled(np.arange(60))[:, columns].astype(np.float64)
    residual = np.einsum("kqp,np->nkq", weights[:, :, :-1], x) - weights[:, :, -1]
    np.testing.assert_allclose(f, (residual**2).sum(axis=2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("literal", [False, True])
@pytest.mark.parametrize("processors", [4, 1_000])  # with the second, coordinates are tried in pairs
def test_groups_of_blocks_move_as_the_cpu_does(emulated, in_many_blocks, monkeypatch, literal, processors):
    monkeypatch.setattr(emulated, "processors", processors)
    problem = sample_problem("uint8", n_samples=700, n_features=3, n_classes=3)
    batch = sample_batch(problem, n_components=2)
    solver = CpmSolver(1, max_entries=0, ramp=1)
    solver = solver.literal() if literal else solver
    ours, theirs = (solve(problem, batch, solver, engine) for engine in (CudaEngine(emulated), cpu()))
    assert "cpm_row_in_clusters_of_8" in emulated.launches
    assert (ours.counts["tried"], ours.counts["accepted"]) == (theirs.counts["tried"], theirs.counts["accepted"])
    for mine, its in zip(ours.coefficients, theirs.coefficients, strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-5, atol=1e-6)


def test_coordinates_tried_in_pairs_move_as_one_by_one(emulated, in_many_blocks, monkeypatch):
    """Where there are few blocks, the next coordinate is tried along with each, as if that had moved up."""
    problem = sample_problem("uint8", n_samples=700, n_features=7, n_classes=3)
    batch = sample_batch(problem, n_components=2)
    found = []
    for processors in (1_000, 4):
        monkeypatch.setattr(emulated, "processors", processors)
        found.append(solve(problem, batch, CpmSolver(3, max_entries=0, ramp=1), CudaEngine(emulated)))
    in_pairs, singly = found
    assert in_pairs.counts == singly.counts
    for mine, its in zip(in_pairs.coefficients, singly.coefficients, strict=True):
        np.testing.assert_array_equal(mine, its)


@pytest.mark.slow
@pytest.mark.parametrize("literal", [False, True])
def test_sets_too_large_for_registers_stand_in_memory(emulated, monkeypatch, literal):
    monkeypatch.setattr("multiform.engines.cuda.cpm.SHAPES", [(4, 64)])
    plain = EmulatedDevice(clusters=False)
    problem = sample_problem("uint8", n_samples=400, n_features=3, n_classes=2)
    batch = sample_batch(problem, n_components=2)
    solver = CpmSolver(1, max_entries=0, ramp=1)
    solver = solver.literal() if literal else solver
    ours, theirs = (solve(problem, batch, solver, engine) for engine in (CudaEngine(plain), cpu()))
    assert "cpm_row" in plain.launches
    assert (ours.counts["tried"], ours.counts["accepted"]) == (theirs.counts["tried"], theirs.counts["accepted"])


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["adam", "cpm, all departures"])
def test_a_batch_is_its_singles(emulated, solver):
    check_batch_equals_singles(CudaEngine(emulated), solver)


@pytest.mark.slow
def test_literal_cpm_descends(emulated):
    check_literal_cpm_descends(CudaEngine(emulated), "uint8", n_sweeps=2)


@pytest.mark.parametrize("solver", ["adam", "cpm, all departures"])
@pytest.mark.parametrize("storage", ["uint8", pytest.param("csr", marks=pytest.mark.slow)])
def test_streamed_rows_give_the_same_bits(emulated, monkeypatch, solver, storage):
    """X that has no room is brought in parts; nothing else changes."""
    problem = sample_problem(storage, n_samples=120)
    batch = sample_batch(problem)
    whole = solve(problem, batch, SOLVERS[solver], CudaEngine(emulated, small=False))
    assert not place(problem.rows, emulated).streamed
    monkeypatch.setattr("multiform.engines.cuda.storage.ROOM_FOR_X", 0.0)
    streamed = solve(problem, batch, SOLVERS[solver], CudaEngine(emulated, small=False))
    assert place(problem.rows, emulated).streamed
    for mine, its in zip(streamed.coefficients, whole.coefficients, strict=True):
        np.testing.assert_array_equal(mine, its)
    assert streamed.losses == whole.losses


@pytest.mark.parametrize("n_samples", [60, 5_000])  # all of them are looked at for the class means, or a part
@pytest.mark.parametrize("own", ["samples and columns", "seeds"])
def test_starts_are_those_of_the_cpu(emulated, own, n_samples):
    problem = sample_problem("uint8", n_samples=n_samples, n_features=7)
    batch = sample_batch(problem, some_columns=True)
    if own == "seeds":
        batch = replace(batch, sample_weight=None, columns=None, seed=np.array([4, 5, 4], np.uint64))
    members = DeviceMembers(problem, batch, place(problem.rows, emulated))
    for member, start in enumerate(members.unstacked(members.start(problem, batch))):
        np.testing.assert_array_equal(start, batch.initial_coefficients(problem, member))


@pytest.mark.slow
@settings(max_examples=6)
@given(
    n_samples=st.integers(1, 40),
    n_features=st.integers(1, 40),
    n_classes=st.sampled_from([2, 3, 11]),
    n_components=st.sampled_from([1, 3, 9]),
    solver=st.sampled_from(["adam", "cpm"]),
)
def test_odd_shapes(n_samples, n_features, n_classes, n_components, solver):
    """One sample, one column, one row of A, classes that nobody has, a column that never varies."""
    problem = sample_problem("float32", n_samples=n_samples, n_features=n_features, n_classes=n_classes)
    problem.rows.scaling.scale[-1] = np.inf
    batch = ModelBatch(
        n_components,
        0.5,
        np.ones((1, n_classes), np.float32),
        np.array([0.2], np.float32),
        np.array([3], np.uint64),
    )
    # A large epsilon: else Adam's first step is the sign of a gradient, also of one that is rounding alone.
    method = AdamSolver(2, 16, epsilon=1.0) if solver == "adam" else CpmSolver(1).literal()
    ours, theirs = (solve(problem, batch, method, engine) for engine in (CudaEngine(EmulatedDevice()), cpu()))
    np.testing.assert_allclose(ours.losses[0], theirs.losses[0], rtol=1e-3)
    np.testing.assert_allclose(ours.coefficients[0], theirs.coefficients[0], rtol=5e-3, atol=5e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_samples", "n_features", "n_classes", "n_components"),
    [(1, 3, 2, 2), (40, 1, 2, 1), (300, 5, 100, 2), (50, 5_000, 3, 2), (200, 20, 3, 40)],
)
@pytest.mark.parametrize("solver", ["adam", "cpm"])
def test_extreme_shapes(emulated, n_samples, n_features, n_classes, n_components, solver):
    problem = sample_problem("float32", n_samples=n_samples, n_features=n_features, n_classes=n_classes)
    weight, noise = np.ones((1, n_classes), np.float32), np.array([0.2], np.float32)
    batch = ModelBatch(n_components, 0.5, weight, noise, np.array([3], np.uint64))
    method = AdamSolver(2, 64, epsilon=1.0) if solver == "adam" else CpmSolver(1).literal()
    ours, theirs = (solve(problem, batch, method, engine) for engine in (CudaEngine(emulated), cpu()))
    np.testing.assert_allclose(ours.losses[0], theirs.losses[0], rtol=1e-3)
    same = np.isclose(ours.coefficients[0], theirs.coefficients[0], rtol=5e-3, atol=5e-4)
    assert same.mean() > 0.95  # where nothing is left to gain a move hangs on rounding


@pytest.mark.parametrize("solver", ["adam", "cpm, all departures"])
def test_a_part_without_a_class(emulated, solver):
    """A fold is a mask of zeros; here one that leaves a class out, beside one that leaves out a single sample."""
    problem = sample_problem("uint8")
    weight = np.ones((2, 60), np.float32)
    weight[0, problem.target == 1] = 0
    weight[1, 7] = 0
    seeds, noise = np.array([3, 3], np.uint64), np.full(2, 0.2, np.float32)
    batch = ModelBatch(3, 0.5, np.ones((2, 3), np.float32), noise, seeds, sample_weight=weight)
    ours, theirs = (solve(problem, batch, SOLVERS[solver], engine) for engine in (CudaEngine(emulated), cpu()))
    np.testing.assert_allclose(ours.losses, theirs.losses, rtol=1e-3)
    for mine, its in zip(ours.coefficients, theirs.coefficients, strict=True):
        np.testing.assert_allclose(mine, its, rtol=5e-3, atol=5e-4)


def test_the_same_bits_every_time(emulated):
    check_same_bits([CudaEngine(EmulatedDevice()), CudaEngine(emulated)], "uint8", "adam", n_samples=90, n_features=7)


def test_the_shuffle_is_the_sequential_one(emulated):
    """Fisher and Yates, one step after the other, against the rounds of independent steps."""
    problem = sample_problem("uint8", n_samples=500, n_features=2, n_classes=2)
    batch = replace(sample_batch(problem), sample_weight=None)
    state = CudaEngine(emulated, small=False).begin(problem, batch, AdamSolver(1, 64))
    state.advance(1, 1.0)
    for member, seed in enumerate(batch.seed):
        items = list(range(500))
        for drawn, i in enumerate(range(500, 1, -1), start=1):
            z = (int(seed) + drawn * 0x9E3779B97F4A7C15) % 2**64
            z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
            z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
            j = (((z ^ (z >> 31)) >> 32) * i) >> 32
            items[i - 1], items[j] = items[j], items[i - 1]
        np.testing.assert_array_equal(emulated.download(state._fields["order"])[member], items)


class Interrupted(EmulatedDevice):
    """A device whose user presses Ctrl-C when a kernel is launched."""

    def __init__(self, kernel):
        super().__init__()
        self.kernel = kernel

    def launch(self, compiled, kernel, *arguments):
        super().launch(compiled, kernel, *arguments)
        if kernel == self.kernel:
            raise KeyboardInterrupt


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("solver", "kernel"),
    [
        ("adam", "adam_norms"),
        ("adam", "adam_slopes"),
        ("cpm, all departures", "cpm_select"),
        ("cpm, all departures", "cpm_row_in_clusters_of_8"),
    ],
)
def test_an_interrupt_leaves_nothing_on_the_device(emulated, monkeypatch, solver, kernel, streamed):
    """Even while the exception, with all frames of its traceback, is kept, as an interactive session does."""
    if streamed:
        monkeypatch.setattr("multiform.engines.cuda.storage.ROOM_FOR_X", 0.0)
    device = Interrupted(kernel)
    problem = sample_problem("uint8")
    with pytest.raises(KeyboardInterrupt) as kept:
        solve(problem, sample_batch(problem), SOLVERS[solver], CudaEngine(device, small=False))
    assert kept.tb is not None
    assert device.used_bytes() == 0


def test_an_interrupted_problem_can_be_trained_again(emulated):
    device = Interrupted("small_adam")
    problem, engine = sample_problem("uint8"), CudaEngine(device)
    batch = sample_batch(problem)
    with pytest.raises(KeyboardInterrupt) as kept:
        solve(problem, batch, SOLVERS["adam"], engine)
    assert kept.tb is not None
    assert device.used_bytes() == 0
    device.kernel = None
    again, fresh = (solve(problem, batch, SOLVERS["adam"], one) for one in (engine, CudaEngine(emulated)))
    np.testing.assert_array_equal(again.coefficients[0], fresh.coefficients[0])


@pytest.mark.parametrize("streamed", [False, True])
def test_an_interrupted_prediction_leaves_nothing_on_the_device(emulated, monkeypatch, streamed):
    if streamed:
        monkeypatch.setattr("multiform.engines.cuda.storage.ROOM_FOR_X", 0.0)
    problem, device = sample_problem("uint8"), Interrupted("member_values")
    weights = np.ones((3, 2, 6), np.float32)
    with pytest.raises(KeyboardInterrupt) as kept:
        values_of(problem, weights, CudaEngine(device))
    assert kept.tb is not None
    assert device.used_bytes() == 0


@pytest.mark.parametrize("solver", ["adam", "cpm, all departures"])
def test_what_has_no_room_leaves_nothing_on_the_device(emulated, solver):
    emulated.memory = 9_000
    problem = sample_problem("uint8")
    with pytest.raises(MemoryError, match="need about") as kept:
        solve(problem, sample_batch(problem), SOLVERS[solver], CudaEngine(emulated, small=False))
    assert kept.tb is not None
    assert emulated.used_bytes() == 0
