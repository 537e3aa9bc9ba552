"""The planner in a contest: the plan as a user gets it, its curve over the levels of its ladder, and on all tests.

On all tests it is to be as good as a classifier that was made for nothing else, `QMSClassifierCV`.
"""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.contest import CHOSEN, Method, Points, made_of
from benchmarks.priced_sets import Problem
from multiform import DiagnosisPlanner, QMSClassifierCV
from multiform.diagnosis._evaluation import _one_fold

Indices = npt.NDArray[np.intp]


def planned(settings: dict[str, Any], problem: Problem, train: Indices, test: Indices, seed: int) -> Points:
    """The plan made on some patients and followed by the others, at its own level and at every one of the ladder."""
    planner = DiagnosisPlanner(problem.costs, discounts=problem.discounts, n_jobs=1, random_state=seed, **settings)
    told, *_ = _one_fold(planner, problem.X, problem.y, None, train, test, True)
    return {
        CHOSEN if name == "plan" else name: (cost, answer == problem.y[test]) for name, (cost, answer) in told.items()
    }


def classified(problem: Problem, train: Indices, test: Indices, seed: int) -> Points:
    """All tests, read by the classifier of tables."""
    classifier = QMSClassifierCV(n_jobs=1, random_state=seed).fit(problem.X[train], problem.y[train])
    right = classifier.predict(problem.X[test]) == problem.y[test]
    return {ON_ALL: (np.full(len(test), problem.tariff.panel_cost), right)}


ON_ALL = "full evidence"  # the point that buys everything
SOURCES = made_of("multiform/diagnosis/*.py", "benchmarks/ours.py")
OURS = {
    "plan": Method(partial(planned, {}), SOURCES),
    "plan that branches": Method(partial(planned, {"policy": "adaptive"}), SOURCES),
}
CLASSIFIER = {"QMSClassifierCV on all tests": Method(classified, made_of("multiform/*.py"))}
