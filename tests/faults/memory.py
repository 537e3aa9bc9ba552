"""Allocations of the core that fail, once or from then on: a fit or a prediction ends by MemoryError and no worse."""

import json
import sys

import numpy as np
import scipy.sparse

from multiform import QMSClassifier
from tests.faults.children import add_counts
from tests.faults.starve import FOREVER, counted, run, starved
from tests.faults.subjects import data


def _case(solver, kind, n_samples=200):
    X, y = data(n_samples, 12)
    if kind == "bytes":
        X = np.clip(X * 40 + 128, 0, 255).astype(np.uint8)
    elif kind == "sparse":
        X = scipy.sparse.csr_array(np.maximum(X, 0))
    elif kind == "long":  # from a million numbers on, moments are found in threads
        X = np.tile(X, (90_000 // n_samples, 1))
        y = np.tile(y, 90_000 // n_samples)
    settings = {"max_iter": 1 if kind == "long" else 2, "noise": 0.3, "n_jobs": 3, "random_state": 0}
    return lambda: QMSClassifier(3, solver=solver, **settings).fit(X, y).predict_proba(X[:50])


CASES = [
    *((solver, kind) for solver in ("adam", "cpm", "cpm-literal") for kind in ("floats", "bytes", "sparse")),
    ("adam", "long"),
]


def check(library, every=1, cases=CASES):
    """Run all cases in children; what was counted, and what went wrong."""
    counts, wrong = {"allocations failed": 0, "MemoryError": 0, "the same answer": 0}, []
    for solver, kind in cases:
        done = run(library, __name__, solver, kind, every)
        add_counts(done, f"{solver}, {kind}", counts, wrong)
    return counts, wrong


def main(solver, kind, every):
    every = int(every) * (100 if kind == "long" else 1)
    answer = _case(solver, kind)
    want = answer()
    with counted("memory") as calls:
        answer()
        n_calls = calls()
    counts = {"allocations failed": 0, "MemoryError": 0, "the same answer": 0}
    for call in range(1, n_calls + 1, every):
        for last in (call, FOREVER):
            try:
                with starved("memory", call, last):
                    got = answer()
            except MemoryError as error:
                counts["MemoryError"] += "not enough memory" in str(error)
            else:  # a thread less, or a buffer that was not needed
                np.testing.assert_array_equal(got, want)
                counts["the same answer"] += 1
            counts["allocations failed"] += 1
    np.testing.assert_array_equal(answer(), want)
    assert counts["MemoryError"] + counts["the same answer"] == counts["allocations failed"], counts
    print(json.dumps(counts))


if __name__ == "__main__":
    main(*sys.argv[1:])
