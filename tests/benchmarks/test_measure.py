"""Time and memory: the measuring itself."""

import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from benchmarks.measure import in_fresh_process, interleaved, peak_memory, threads, timed


def test_functions_take_turns():
    calls = []
    functions = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    medians = interleaved(functions, repeats=3, warmup=1)
    assert calls == ["a", "b"] * 4
    assert set(medians) == {"a", "b"}
    assert min(medians.values()) >= 0.0


def test_the_median_is_told(monkeypatch):
    durations = iter([5.0, 1.0, 2.0])
    monkeypatch.setattr("benchmarks.measure.seconds", lambda function: next(durations))
    assert interleaved({"a": int}, repeats=3, warmup=0) == {"a": 2.0}


def test_timed_gives_the_result():
    result, duration = timed(lambda: 42)
    assert result == 42
    assert duration >= 0.0


def allocate_and_free(megabytes):
    """The peak that is seen when that much is written and freed again, after an equal peak before it."""
    np.ones(int(megabytes * 1e6), np.uint8)
    with peak_memory() as peak:
        np.ones(int(megabytes * 1e6), np.uint8)
    return peak.megabytes


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's high-water mark is Linux's")
def test_a_peak_is_seen_although_it_is_gone():
    assert in_fresh_process(allocate_and_free, 200) == pytest.approx(200, rel=0.05)


def threads_of_a_peer():
    """What libraries go by when a peer is imported under the limit only."""
    with threads(1):
        from sklearn.linear_model import LogisticRegression

        LogisticRegression().fit(np.arange(20.0)[:, None], np.arange(20) > 10)
        return {library["num_threads"] for library in threadpool_info()}


def test_peers_that_are_imported_later_have_the_same_cores():
    assert in_fresh_process(threads_of_a_peer) == {1}
