"""Threads that cannot be had, and those of BLAS that must come back."""

import os
import threading
from contextlib import ExitStack

import numpy as np
import pytest
from threadpoolctl import OpenBLASController, threadpool_info, threadpool_limits

from multiform import QMSClassifier, runtime
from multiform.engines import cpu
from multiform.images import ImagePatches
from multiform.runtime import effective_threads, in_threads, jobs_for, single_threaded_blas
from tests.faults.children import child, linux

# All but so many MB of address space are taken, which a thread's stack (8 MB) counts against.
STARVED = """
import resource, sys
import numpy as np
from multiform import LoyaltyClassifier, QMSClassifier

random = np.random.default_rng(0)
X, y = random.normal(size=(3000, 40)).astype("float32"), random.integers(0, 4, size=3000)

def leave(megabytes):
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + int(megabytes * 2**20), resource.RLIM_INFINITY))
"""


@linux
@pytest.mark.parametrize("megabytes", [2, 12])
@pytest.mark.parametrize(("solver", "n_components"), [("adam", 40), ("cpm", 4)])
def test_a_fit_goes_on_with_the_threads_there_are(solver, n_components, megabytes):
    """`n_jobs=8` with room for one more stack, or for none: the model of one thread."""
    program = f"""
    def fit(n_jobs):
        how = dict(solver={solver!r}, max_iter=2, noise=0.3, random_state=0)
        return QMSClassifier({n_components}, n_jobs=n_jobs, **how).fit(X, y)

    want = fit(1)
    chances = want.predict_proba(X)
    leave({megabytes})
    got = fit(8)
    print((got.components_ == want.components_).all(), (got.predict_proba(X) == chances).all())
    """
    assert child(STARVED, program).stdout == "True True\n"


def test_any_number_of_jobs_may_be_asked_for(monkeypatch):
    """More threads than anybody needs are not started: `n_jobs` comes from files, too."""
    assert effective_threads(200_000) == max(runtime.MOST_THREADS, os.cpu_count() or 1)
    monkeypatch.setattr(runtime, "_cores", lambda affinity, most: 500)
    assert effective_threads(200_000) == 500
    assert effective_threads(200) == 200
    assert [jobs_for(n_jobs, 3) for n_jobs in (None, -1, 2, 10**12)] == [None, -1, 2, 3]


@pytest.mark.parametrize("solver", ["adam", "cpm", "cpm-literal"])
def test_a_fit_with_jobs_without_end(solver):
    program = f"""
    few, many = (
        QMSClassifier(3, solver={solver!r}, max_iter=2, n_jobs=n_jobs, random_state=0).fit(X[:300], y[:300])
        for n_jobs in (1, 200_000)
    )
    print((few.components_ == many.components_).all(), (few.predict(X) == many.predict(X)).all())
    """
    assert child(STARVED, program, timeout=60).stdout == "True True\n"


def no_more_than(monkeypatch, most):
    """Python's own threads: so many can be started."""
    start, started = threading.Thread.start, []

    def refuse(thread):
        if len(started) >= most:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    return started


@pytest.mark.parametrize("most", [0, 2])
def test_pythons_threads_are_those_there_are(monkeypatch, most):
    started = no_more_than(monkeypatch, most)
    assert in_threads(lambda number: number**2, range(100), 8) == [number**2 for number in range(100)]
    assert len(started) == most
    X = np.random.default_rng(0).integers(0, 255, size=(600, 64), dtype=np.uint8)
    patches = [ImagePatches(image_shape=(8, 8), patch_size=3, n_filters=4, n_jobs=n, random_state=0) for n in (1, 8)]
    np.testing.assert_array_equal(*(one.fit_transform(X) for one in patches))


@pytest.mark.parametrize("n_threads", [1, 3])
def test_an_error_in_a_thread_is_raised(n_threads):
    tried = []

    def fail(number):
        tried.append(number)
        raise ValueError("no such number")

    with pytest.raises(ValueError, match="no such number"):
        in_threads(fail, range(1000), n_threads)
    assert len(tried) <= n_threads


# --------------------------------------------------------------------------------------------------------------- BLAS


def blas_threads():
    return sorted({library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"})


@pytest.fixture
def two_threads():
    """BLAS has two threads, whatever the machine has; and nobody but multiform sets a limit."""
    limits = threadpool_limits(2, user_api="blas")
    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)
    yield
    limits.restore_original_limits()


@pytest.mark.usefixtures("two_threads")
def test_blas_has_its_threads_back_after_calls_that_overlap():
    """The one that began first ends first."""
    first, second = ExitStack(), ExitStack()
    first.enter_context(single_threaded_blas())
    second.enter_context(single_threaded_blas())
    first.close()
    assert blas_threads() == [1]
    second.close()
    assert blas_threads() == [2]


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("first_ends_first", [True, False])
def test_blas_has_its_threads_back_after_fits_at_the_same_time(blobs, monkeypatch, first_ends_first):
    """Two fits in threads, made to overlap: the second begins within the first; either may be the last to end."""
    X, y = blobs
    original = cpu._CpuState.advance
    inside = {name: threading.Event() for name in ("first", "second")}
    over = {name: threading.Event() for name in ("first", "second")}
    seen = []

    def advance(state, until, seconds):
        name = threading.current_thread().name
        if name == "second":
            inside["first"].wait(60)
        with single_threaded_blas():
            inside[name].set()
            inside["second"].wait(60)
            seen.append(blas_threads())
            if (name == "second") == first_ends_first:
                over["first" if first_ends_first else "second"].wait(60)
            original(state, until, seconds)

    monkeypatch.setattr(cpu._CpuState, "advance", advance)

    def fit():
        QMSClassifier(3, max_iter=1, noise=0.1, n_jobs=1, random_state=0).fit(X, y)
        over[threading.current_thread().name].set()
        over["first"].wait(60)  # whoever is over first lives on, as the threads of a pool do
        over["second"].wait(60)

    threads = [threading.Thread(target=fit, name=name) for name in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen
    assert all(numbers == [1] for numbers in seen)
    assert blas_threads() == [2]


@pytest.mark.usefixtures("two_threads")
def test_a_signal_while_blas_gets_its_threads_back(monkeypatch):
    """Ctrl-C in the middle of it: they come back all the same."""
    kind = type(runtime._threadpools()[1][0])
    original, calls = kind.set_num_threads, []

    def interrupted(self, n_threads):
        calls.append(n_threads)
        if calls.count(2) == 1:
            raise KeyboardInterrupt("just here")
        original(self, n_threads)

    monkeypatch.setattr(kind, "set_num_threads", interrupted)
    with pytest.raises(KeyboardInterrupt, match="just here"), single_threaded_blas():
        pass
    assert blas_threads() == [2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_while_others_fit_has_all_threads_of_blas():
    program = """
    import os, threading, warnings
    from threadpoolctl import threadpool_info, threadpool_limits
    from multiform.runtime import single_threaded_blas

    warnings.simplefilter("ignore")  # Python 3.12 warns of any fork with threads about
    def blas_threads():
        return sorted({library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"})

    inside, over = threading.Event(), threading.Event()
    def fit():
        with single_threaded_blas():
            inside.set()
            over.wait()

    threadpool_limits(2, user_api="blas")
    other = threading.Thread(target=fit)
    other.start()
    inside.wait()
    if os.fork() == 0:
        print("child", blas_threads(), flush=True)
        with single_threaded_blas():
            print("child", blas_threads(), flush=True)
        print("child", blas_threads(), flush=True)
        os._exit(0)
    os.wait()
    print("parent", blas_threads())
    over.set()
    other.join()
    print("parent", blas_threads())
    """
    wanted = "child [2]\nchild [1]\nchild [2]\nparent [1]\nparent [2]\n"
    assert child(program).stdout == wanted
