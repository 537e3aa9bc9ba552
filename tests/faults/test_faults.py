"""The quick part of `make faults`, each in children."""

import pytest

from tests.faults import disk, forks, memory, signals, starve, threads
from tests.faults.children import linux

pytestmark = linux


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if starve.compiler is None:
        pytest.skip("needs a C++ compiler")
    return starve.built(tmp_path_factory.mktemp("starve"))


@pytest.mark.parametrize("solver", ["adam", "cpm"])
def test_no_allocation_that_fails_ends_the_process(library, solver):
    """MemoryError with a sentence, or the same answer; afterwards the next fit is as good as any."""
    counts, wrong = memory.check(library, every=17, cases=[(solver, "floats")])
    assert wrong == []
    assert counts["MemoryError"] > 10


def test_threads_that_do_not_start(library):
    counts, wrong = threads.check(library, firsts=(1, 2), names=("QMSClassifier, cpm",))
    assert wrong == []
    assert counts["threads refused"] >= 2
    assert counts["other models"] == 0


def test_a_full_disk(library):
    counts, wrong = disk.check(library, ("save", "predict, parquet", "diagnose"))
    assert wrong == []
    assert counts["writes failed"] >= 10


@pytest.mark.parametrize("name", ["QMSClassifier, cpm", "QMSClassifierCV"])
def test_signals_at_random_moments_of_a_fit(name):
    counts, _ = signals.check_fits(5, (name,))  # how long it took is for `make faults`
    assert counts["KeyboardInterrupt"] + counts["too early or too late"] == counts["signals"] == 5
    assert counts["estimators changed"] == 0


def test_forks_during_a_fit():
    assert forks.check(2, ("QMSClassifier, adam",)) == ({"forks during a fit": 2, "other models": 0}, [])
