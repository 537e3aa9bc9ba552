"""What an import and a fit leave behind: no threads, no optional packages, nothing that a fork trips over."""

import os
import subprocess
import sys
import textwrap

import pytest

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads in /proc")


def run(program, **environment):
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | environment,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


FIT = """
import numpy as np
from multiform import QMSClassifier
random = np.random.default_rng(0)
X, y = random.normal(size=(3000, 40)).astype("float32"), random.integers(0, 4, size=3000)
def fit(solver="adam", n_jobs=3):
    return QMSClassifier(4, solver=solver, max_iter=2, n_jobs=n_jobs, random_state=0).fit(X, y)
"""


def test_import_brings_no_optional_package():
    loaded = run("import sys, multiform; print(*{name.split('.')[0] for name in sys.modules})").split()
    assert "multiform" in loaded
    optional = {
        "matplotlib",
        "pandas",
        "polars",
        "pyarrow",
        "lightgbm",
        "xgboost",
        "mapie",
        "rich",
        "hypothesis",
        "pytest",
    }
    # scikit-learn itself may look for pandas; it is ours only where scikit-learn alone does not have it.
    without_us = run(
        "import sys, sklearn.base, sklearn.model_selection; print(*{name.split('.')[0] for name in sys.modules})"
    )
    assert not (optional & set(loaded)) - set(without_us.split())


@linux
def test_import_starts_no_thread():
    program = "import os, numpy, scipy.linalg, sklearn.model_selection; before = len(os.listdir('/proc/self/task'))"
    program += "; import multiform; from multiform import _core; print(len(os.listdir('/proc/self/task')) - before)"
    assert run(program) == "0\n"


@linux
@pytest.mark.parametrize("solver", ["adam", "cpm", "cpm-literal"])
def test_no_thread_outlives_a_fit(solver):
    program = (
        FIT
        + f"""
import os
from scipy.linalg import cython_blas
before = len(os.listdir("/proc/self/task"))
fit({solver!r}).predict_proba(X)
print(len(os.listdir("/proc/self/task")) - before)
"""
    )
    assert run(program) == "0\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("solver", ["adam", "cpm"])
def test_a_fork_after_a_fit_does_not_hang(solver):
    """Parent and child fit at the same time after a fit in the parent, and find the same model."""
    program = (
        FIT
        + f"""
import os, warnings
warnings.simplefilter("ignore")  # Python 3.12 warns of any fork with threads about, BLAS's included
first = fit({solver!r})
reader, writer = os.pipe()
child = os.fork()
again = fit({solver!r})
same = bool((again.components_ == first.components_).all() and (again.predict(X) == first.predict(X)).all())
if child == 0:
    os.write(writer, str(same).encode())
    os._exit(0)
os.close(writer)
print(same, os.read(reader, 100).decode(), os.waitpid(child, 0)[1])
"""
    )
    assert run(program) == "True True 0\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_multiprocessing_by_fork_after_a_fit():
    program = (
        FIT
        + """
import multiprocessing, warnings
warnings.simplefilter("ignore")
first = fit()
with multiprocessing.get_context("fork").Pool(2) as pool:
    losses = pool.map(fit, ["adam", "cpm"])
print(losses[0].loss_curve_ == first.loss_curve_, len(losses[1].loss_curve_))
"""
    )
    assert run(program) == "True 2\n"


def test_threads_of_a_worker_stay_within_its_share():
    """joblib tells its workers how many threads they may have by OMP_NUM_THREADS; so may a user."""
    program = "from multiform.runtime import effective_threads; print(effective_threads(None))"
    assert run(program, OMP_NUM_THREADS="1") == "1\n"


def test_nothing_is_printed_by_the_library():
    assert run(FIT + "fit(); fit('cpm')") == ""
