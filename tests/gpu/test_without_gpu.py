"""What happens where something is missing: plain sentences, device="auto" on the CPU, sources that compile."""

import builtins
import re
import subprocess
import sys
import types

import numpy as np
import pytest

from multiform import DiagnosisPlanner, QMSClassifier, QMSClassifierCV
from multiform.engines import EVALUATION_GAINS_FROM, TRAINING_GAINS_FROM, engine_for, solve
from multiform.engines.cuda import CudaEngine
from multiform.engines.cuda import device as cuda_device
from multiform.engines.cuda.cpm import REGISTERS_OF_THREAD
from multiform.engines.cuda.device import argument_layout, source_number
from multiform.testing import SOLVERS, sample_batch, sample_problem
from tests.gpu import nvrtc
from tests.gpu.emulated import EmulatedDevice


def test_nothing_of_the_gpu_is_imported_before_it_is_asked_for():
    script = (
        "import sys, numpy as np, multiform;"
        "multiform.QMSClassifier(max_iter=2).fit(np.eye(4), [0, 1, 0, 1]).predict(np.eye(4));"
        "print([name for name in sys.modules if name.startswith(('cupy', 'multiform.engines.cuda'))])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_cupy_says_what_to_install(monkeypatch, digits):
    real = builtins.__import__

    def without_cupy(name, *arguments, **named):
        if name.split(".")[0] == "cupy":
            raise ImportError("No module named 'cupy'")
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without_cupy)
    model = QMSClassifier(device="cuda")
    with pytest.raises(ImportError, match=r'needs CuPy, which is not installed: pip install "multiform\[gpu\]"'):
        model.fit(*digits)
    assert not hasattr(model, "components_")


def test_a_missing_gpu_says_so(monkeypatch, digits):
    cupy = pytest.importorskip("cupy")

    def no_driver():
        raise cupy.cuda.runtime.CUDARuntimeError(35)  # "CUDA driver version is insufficient for CUDA runtime version"

    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", no_driver)
    with pytest.raises(RuntimeError, match=r"device='cuda' needs an NVIDIA GPU with its driver, .*use device='cpu'"):
        QMSClassifier(device="cuda").fit(*digits)
    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", lambda: 0)
    with pytest.raises(RuntimeError, match="needs GPU number 0, and there are 0; use device='cpu'"):
        QMSClassifier(device="cuda").fit(*digits)


@pytest.mark.parametrize("estimator", [QMSClassifier, QMSClassifierCV])
def test_device_is_one_of_three(estimator, digits):
    with pytest.raises(ValueError, match=r"The 'device' parameter of QMSClassifier(CV)? must be"):
        estimator(device="tpu").fit(*digits)


@pytest.mark.parametrize("estimator", [QMSClassifier, QMSClassifierCV])
def test_auto_is_the_cpu_where_there_is_no_gpu(monkeypatch, digits, estimator):
    monkeypatch.setattr("multiform.engines.cuda.cuda_is_there", lambda: False)
    X, y = digits[0][:80], digits[1][:80]
    auto, cpu = (estimator(max_iter=3, random_state=0, device=device).fit(X, y) for device in ("auto", "cpu"))
    np.testing.assert_array_equal(auto.predict_proba(X), cpu.predict_proba(X))


def test_auto_asks_for_work_enough(emulated, monkeypatch):
    monkeypatch.setattr("multiform.engines.cuda.cuda_is_there", lambda: True)
    monkeypatch.setattr("multiform.engines.cuda.open_device", lambda name, **settings: emulated)
    assert not isinstance(engine_for("auto", 1, training=TRAINING_GAINS_FROM - 1), CudaEngine)
    assert isinstance(engine_for("auto", 1, training=TRAINING_GAINS_FROM), CudaEngine)
    assert not isinstance(engine_for("auto", 1, evaluating=EVALUATION_GAINS_FROM - 1), CudaEngine)
    assert isinstance(engine_for("auto", 1, evaluating=EVALUATION_GAINS_FROM), CudaEngine)
    assert isinstance(engine_for("cuda", 1), CudaEngine)
    assert not isinstance(engine_for("cpu", 1, training=1e18), CudaEngine)


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("MULTIFORM_GPU_CLUSTERS", "yes", "0 or 1"),
        ("MULTIFORM_GPU_SMALL", "no", "0 or 1"),
        ("MULTIFORM_GPU_PRECISION", "bf16", "float32 or tf32"),
        ("MULTIFORM_GPU_MEMORY", "1 GB", "a positive number of bytes"),
    ],
)
def test_settings_of_the_environment_are_checked(emulated, monkeypatch, digits, variable, value, allowed):
    monkeypatch.setattr("multiform.engines.cuda.open_device", lambda name, **settings: emulated)
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match=f"{variable} must be {allowed}; got '{re.escape(value)}'"):
        QMSClassifier(device="cuda").fit(*digits)


@pytest.mark.parametrize(
    ("solver", "environment", "kernel", "settings"),
    [
        ("adam", {}, "small_adam", {"clusters": True, "precision": "float32", "memory": None}),
        ("adam", {"SMALL": "0", "PRECISION": "tf32"}, "adam_update", {"precision": "tf32"}),
        ("cpm", {"CLUSTERS": "0", "MEMORY": "1000000000"}, "cpm_row", {"clusters": False, "memory": 10**9}),
    ],
)
def test_settings_of_the_environment_are_honoured(emulated, monkeypatch, digits, solver, environment, kernel, settings):
    """The engine that is made for a user is given them; one that is made by hand is given arguments."""
    opened = []

    def open_emulated(name, **given):
        opened.append((given, EmulatedDevice(**given)))
        return opened[-1][1]

    monkeypatch.setattr("multiform.engines.cuda.open_device", open_emulated)
    for name, value in environment.items():
        monkeypatch.setenv(f"MULTIFORM_GPU_{name}", value)
    model = QMSClassifier(solver=solver, max_iter=1, device="cuda", random_state=0)
    model.fit(digits[0][:60, :6], digits[1][:60] % 3)
    assert all(settings.items() <= given.items() for given, _ in opened)
    assert any(kernel in device.launches for _, device in opened)


def test_settings_are_those_of_the_device(emulated):
    with pytest.raises(TypeError, match="A device that is open already has its settings; got memory beside it"):
        CudaEngine(emulated, memory=9_000)


@pytest.mark.parametrize(("solver", "small"), [("adam", False), ("adam", True), ("cpm, all departures", False)])
def test_too_little_memory_is_said_before_anything_is_allocated(emulated, solver, small):
    emulated.memory = 9_000
    problem = sample_problem()
    with pytest.raises(MemoryError, match=r"3 models of 3 x 3 x 32 coefficients .* need about .* GB .* train fewer"):
        solve(problem, sample_batch(problem), SOLVERS[solver], CudaEngine(emulated, small=small))
    assert not [kernel for kernel in emulated.launches if kernel != "to_half"]


@pytest.mark.parametrize("solver", ["adam", "cpm, all departures"])
def test_too_many_members_at_a_time_are_refused(emulated, monkeypatch, solver):
    """A grid's second and third side are short; small members, one block each, have all of the first."""
    monkeypatch.setattr("multiform.engines.cuda.states.MOST_SEPARATORS", 8)
    problem = sample_problem()
    with pytest.raises(ValueError, match="at most 8 separators at a time; got 3 members of 3 classes: train them in"):
        solve(problem, sample_batch(problem), SOLVERS[solver], CudaEngine(emulated, small=False))
    assert len(solve(problem, sample_batch(problem), SOLVERS["adam"], CudaEngine(emulated)).coefficients) == 3


def test_estimators_reach_the_device(emulated, monkeypatch, digits):
    """`device` of the estimators is that of the problem; all above them goes through the engine."""
    from multiform import LoyaltyClassifier

    monkeypatch.setattr("multiform.engines.cuda.open_device", lambda name, **settings: emulated)
    X, y = digits[0][:60, :6], digits[1][:60] % 3
    for model in (
        QMSClassifier(max_iter=2, device="cuda", random_state=0),
        QMSClassifierCV(noise=[0.3], encodings="plain", cv=2, max_iter=2, device="cuda", random_state=0),
        LoyaltyClassifier(QMSClassifier(max_iter=2, device="cuda", random_state=0), random_state=0),
    ):
        emulated.launches.clear()
        on_gpu = model.fit(X, y).predict_proba(X)
        assert "small_adam" in emulated.launches
        inner = getattr(model, "estimator", model)
        on_cpu = model.set_params(**{"device" if inner is model else "estimator__device": "cpu"}).fit(X, y)
        np.testing.assert_allclose(on_gpu, on_cpu.predict_proba(X), atol=2e-3)


def test_plans_are_trained_on_the_device(emulated, monkeypatch, digits):
    monkeypatch.setattr("multiform.engines.cuda.open_device", lambda name, **settings: emulated)
    X, y = digits[0][:80, [20, 26, 36]], digits[1][:80] % 2
    costs = {f"x{column}": 1.0 + column for column in range(3)}
    answers = {}
    for device in ("cuda", "cpu"):
        emulated.launches.clear()
        qms = QMSClassifier(max_iter=2, device=device)
        planner = DiagnosisPlanner(costs, estimator=qms, cv=2, level=0.2, random_state=0).fit(X, y)
        assert ("small_adam" in emulated.launches) == (device == "cuda")
        answers[device] = planner.predict_full(X)
    assert np.mean(answers["cuda"] == answers["cpu"]) > 0.95


def test_partial_fit_goes_on_from_its_moments(emulated, monkeypatch, digits):
    monkeypatch.setattr("multiform.engines.cuda.open_device", lambda name, **settings: emulated)
    X, y = digits[0][:50, :5], digits[1][:50] % 2
    models = [QMSClassifier(device=device, random_state=0) for device in ("cuda", "cpu")]
    for model in models:
        for _ in range(2):
            model.partial_fit(X, y, classes=[0, 1])
    np.testing.assert_allclose(models[0].components_, models[1].components_, rtol=1e-2, atol=1e-3)


def test_arguments_are_those_of_the_sources():
    for source, structure in nvrtc.STRUCTURES.items():
        assert argument_layout(source, structure).dtype.names
    with pytest.raises(ValueError, match=r"values\.cu declares no structure Nothing"):
        argument_layout("values.cu", "Nothing")
    with pytest.raises(ValueError, match=r"values\.cu declares no constant kNothing"):
        source_number("values.cu", "kNothing")


def test_a_forgotten_argument_is_an_error(emulated):
    program = cuda_device.Program(emulated, "storage.cu", "Narrowing", 2, 1)
    with pytest.raises(TypeError, match=r"Narrowing also needs \['inexact', 'length', 'narrow'\]"):
        program.arguments({}, wide=np.zeros(3, np.float32))


@pytest.mark.slow
@pytest.mark.skipif(not nvrtc.compilers(), reason="no NVRTC: pip install nvidia-cuda-nvrtc-cu12")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("source", nvrtc.STRUCTURES)
def test_sources_compile_without_spills(source, architecture):
    """What a GPU would be given, from the compiler that CuPy calls; the loops that take the time spill nothing.

    Compilers spill a little of small_adam around the double-precision functions that it calls once a pass, and of the
    exact terms of the literal method.
    """
    package = next(iter(nvrtc.compilers()))
    for variant in nvrtc.near_the_default(source):
        said = nvrtc.assembled(package, source, architecture, variant)
        assert said
        clusters = source == "cpm_row.cu" and architecture == "sm_90"
        assert ("cpm_row_in_clusters_of_8" in said) == clusters
        spilled = max(spilled for _, spilled in said.values())
        assert spilled <= (128 if source == "small_adam.cu" or variant.get("FROZEN") == 0 else 0), (variant, said)
        reckoned = source == "cpm_row.cu" and variant["FROZEN"] and variant["SLOTS"] and not variant["PAIRS"]
        if reckoned:  # with by `spread`
            assert max(registers for registers, _ in said.values()) <= REGISTERS_OF_THREAD[variant["SLOTS"]]


class FakeCupyArray:
    """What the checks of X look at, over a NumPy array."""

    __cuda_array_interface__ = None

    def __init__(self, values):
        self.values = values
        self.ndim, self.shape, self.dtype, self.flags = values.ndim, values.shape, values.dtype, values.flags

    def get(self):
        return self.values


class FakeTensor:
    """As torch's, on a GPU: known by DLPack alone."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self):
        raise AssertionError("CuPy asks for it")

    def __dlpack_device__(self):
        return 2, 0


@pytest.fixture
def fake_cupy(monkeypatch):
    cupy = types.SimpleNamespace(
        ndarray=FakeCupyArray,
        asarray=lambda array: array if isinstance(array, FakeCupyArray) else FakeCupyArray(array),
        from_dlpack=lambda tensor: FakeCupyArray(tensor.values),
    )
    monkeypatch.setattr(cuda_device, "cupy_module", lambda: cupy)


@pytest.mark.parametrize("array", [FakeCupyArray, FakeTensor])
def test_arrays_of_the_gpu_are_fetched_for_a_fit(fake_cupy, digits, array):
    X, y = digits[0][:100], digits[1][:100]
    there, here = (QMSClassifier(max_iter=3, random_state=0).fit(*data) for data in ((array(X), array(y)), (X, y)))
    np.testing.assert_array_equal(there.components_, here.components_)


@pytest.mark.parametrize("array", [FakeCupyArray, FakeTensor])
def test_wrong_arrays_of_the_gpu_are_said(fake_cupy, digits, array):
    model = QMSClassifier(max_iter=2, random_state=0).fit(digits[0][:100], digits[1][:100])
    with pytest.raises(
        ValueError, match=r"X of QMSClassifier must have samples in rows, shape \(n, p\); got an array of"
    ):
        model.predict(array(np.zeros(64, np.uint8)))
    with pytest.raises(ValueError, match="X has 63 features, but QMSClassifier is expecting 64 features as input"):
        model.predict(array(np.zeros((3, 63), np.uint8)))


def test_an_old_gpu_has_no_clusters(emulated):
    problem = sample_problem("uint8")
    old = EmulatedDevice(capability=80)
    solve(problem, sample_batch(problem), SOLVERS["cpm, all departures"], CudaEngine(old))
    assert "cpm_row" in old.launches
    solve(problem, sample_batch(problem), SOLVERS["cpm, all departures"], CudaEngine(emulated))
    assert "cpm_row_in_clusters_of_8" in emulated.launches
