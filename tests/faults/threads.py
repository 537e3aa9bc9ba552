"""Threads that do not start: every estimator finds the model that one thread finds, with those there are."""

import json
import sys

import numpy as np
from sklearn.base import clone

from tests.faults.children import add_counts
from tests.faults.starve import counted, run, starved
from tests.faults.subjects import ESTIMATORS, answers


def check(library, firsts=(1, 2, 4, 8), names=tuple(ESTIMATORS)):
    """In a child for each estimator, no thread starts from the first on, from the second on, ..."""
    counts, wrong = {"fits": 0, "threads refused": 0, "other models": 0}, []
    for name in names:
        done = run(library, __name__, name, *firsts)
        add_counts(done, name, counts, wrong)
    return counts, wrong


def main(name, *firsts):
    alone, given = ESTIMATORS[name](1)
    estimator, _ = ESTIMATORS[name](8)
    want = answers(alone.fit(*given), given)
    counts = {"fits": 0, "threads refused": 0, "other models": 0}
    for first in map(int, firsts):
        with counted("threads") as calls, starved("threads", first):
            got = answers(clone(estimator).fit(*given), given)
            counts["threads refused"] += max(0, calls() - first + 1)
        counts["fits"] += 1
        counts["other models"] += not np.array_equal(got, want)
    assert counts["other models"] == 0, counts
    print(json.dumps(counts))


if __name__ == "__main__":
    main(*sys.argv[1:])
