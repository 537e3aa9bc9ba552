"""Forks while other threads fit: the child fits, too, finds the same model, and BLAS has its threads."""

import json
import os
import random
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
from sklearn.base import clone

from tests.faults.children import add_counts
from tests.faults.subjects import ESTIMATORS, answers

# Not those that multiply by NumPy outside the core while they fit: OpenBLAS itself can hang in such a fork.
NAMES = ("QMSClassifier, adam", "QMSClassifier, cpm", "QMSClassifier, cpm-literal", "LoyaltyClassifier")


def check(times=15, names=NAMES):
    counts, wrong = {"forks during a fit": 0, "other models": 0}, []
    for name in names:
        words = [sys.executable, "-m", __name__, name, str(times)]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
        except subprocess.TimeoutExpired:
            wrong.append(f"{name}: hangs")
            continue
        add_counts(done, name, counts, wrong)
    return counts, wrong


def main(name, times):
    warnings.simplefilter("ignore")  # Python 3.12 warns of any fork with threads about
    estimator, given = ESTIMATORS[name](2)
    want = answers(estimator.fit(*given), given)
    over, rng, status = threading.Event(), random.Random(name), []

    def fit_on():
        while not over.is_set():
            clone(estimator).fit(*given)

    threads = [threading.Thread(target=fit_on) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(int(times)):
        time.sleep(rng.uniform(0, 0.3))
        child = os.fork()
        if child == 0:
            got = answers(clone(estimator).fit(*given), given)
            os._exit(0 if np.array_equal(got, want) else 3)
        status.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    over.set()
    for thread in threads:
        thread.join()
    assert set(status) <= {0, 3}, status
    assert 3 not in status, status
    print(json.dumps({"forks during a fit": len(status), "other models": status.count(3)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
