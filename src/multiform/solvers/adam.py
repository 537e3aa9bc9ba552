"""Minibatch Adam on the ratio loss (Chang 2021), visiting mostly the samples that still have an active pair."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multiform._typing import Floats

__all__ = ["AdamSolver", "Moments"]

# Adam's running means of the gradient and of its square, and how many steps they have seen.
Moments = tuple[Floats, Floats, int]


@dataclass(frozen=True)
class AdamSolver:
    """Adam (Kingma and Ba 2015) with a cosine schedule.

    Parameters
    ----------
    n_passes : int
        The length of the schedule.
    batch_size : int
    learning_rate : float
        Of the first step, relative to the size of the initial weights, 1 / sqrt(p).
    beta1, beta2, epsilon : float
        Adam's own.
    revisit : float in [0, 1]
        A sample without an active pair (every ``f_y / f_j`` at most alpha) has no gradient. It is visited in a pass
        only with this chance, to see whether that is still so; 1 visits every sample in every pass.
    final_rate : float in [0, 1]
        The learning rate at the end of the schedule, as a share of the first; 1 keeps it constant.
    """

    n_passes: int
    batch_size: int = 256
    learning_rate: float = 0.07
    beta1: float = 0.8
    beta2: float = 0.99
    epsilon: float = 1e-8
    revisit: float = 0.2
    final_rate: float = 0.0

    def rate(self, n_features: int) -> float:
        return self.learning_rate / float(np.sqrt(n_features))
