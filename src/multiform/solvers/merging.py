"""Several models as one: a sum of member functions is a member function."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from multiform.solvers.problem import Floats, TrainingProblem, with_noise_row

__all__ = ["merge"]

ENOUGH_SAMPLES = 1000


def merge(problem: TrainingProblem, models: Sequence[Floats], noise: float) -> Floats:
    """One set of separators with the rows of all: f_k = mean over models of f_k / level.

    The loss does not see the scale of a model's f, so each is divided by its own level first, the geometric mean of its
    values on some of the samples.
    """
    if len(models) == 1:
        return models[0]
    from multiform.solvers import member_values

    n = problem.X.shape[0]
    samples = np.arange(0, n, max(1, n // ENOUGH_SAMPLES))
    scaled = []
    for weights in models:
        f = member_values(problem.X[samples], with_noise_row(weights, noise), problem.center, problem.scale, n_jobs=1)
        level = np.exp(np.log(np.maximum(f, np.finfo(np.float32).tiny)).mean(dtype=np.float64))
        scaled.append(weights / np.float32(np.sqrt(level * len(models))))
    return np.concatenate(scaled, axis=1)
