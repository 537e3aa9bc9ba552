"""Minibatch Adam on the ratio loss (Chang 2021), visiting mostly the samples that still have an active pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from multiform.runtime import kernel_name, threads_worth_waiting_for
from multiform.solvers.placement import works_on_gpu
from multiform.solvers.problem import Floats, ModelBatch, TrainingProblem, TrainingState

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
        A sample without an active pair (every ``f_y / f_j`` at most alpha) has no gradient. It is visited in a
        pass only
        with this chance, to see whether that is still so; 1 visits every sample in every pass.
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

    def begin(
        self,
        problem: TrainingProblem,
        batch: ModelBatch,
        n_threads: int,
        moments: Sequence[Moments] | None = None,
    ) -> TrainingState:
        """Start from the batch, and from the moments of an earlier state where given (`TrainingState.moments`)."""
        if works_on_gpu(problem, batch, self):
            from multiform.solvers.cuda import begin_adam

            return begin_adam(self, problem, batch, moments)
        if kernel_name() == "reference":
            from multiform.solvers.reference import ReferenceAdam

            return ReferenceAdam(self, problem, batch, moments)
        return _AdamState(self, problem, batch, n_threads, moments)

    def rate(self, n_features: int) -> float:
        return self.learning_rate / float(np.sqrt(n_features))


class _AdamState:
    """The compiled solver's state: weights and moments are NumPy arrays that the core moves in place."""

    def __init__(
        self,
        solver: AdamSolver,
        problem: TrainingProblem,
        batch: ModelBatch,
        n_threads: int,
        moments: Sequence[Moments] | None,
    ) -> None:
        from multiform import _core

        self._core = _core
        settings: dict[str, Any] = asdict(solver)
        self.weights: list[Floats] = []
        self._members = []
        self._moments: list[tuple[Floats, Floats]] = []
        for member, weights in enumerate(batch.starts(problem)):
            first, second, steps = np.zeros_like(weights), np.zeros_like(weights), 0
            if moments is not None:
                first, second, steps = moments[member][0].copy(), moments[member][1].copy(), moments[member][2]
            self._moments.append((first, second))
            settings["learning_rate"] = solver.rate(weights.shape[2] - 1)
            self.weights.append(weights)
            self._members.append(
                _core.adam_member(
                    problem.core,
                    weights,
                    first,
                    second,
                    batch.member_columns(member),
                    batch.member_weight(member),
                    batch.class_weight[member],
                    alpha=batch.alpha,
                    noise=float(batch.noise[member]),
                    seed=int(batch.seed[member]),
                    steps=steps,
                    **settings,
                )
            )
        # The threads wait for each other twice a step; members side by side do not.
        a_step = 2 * min(solver.batch_size, len(problem.target)) * max(weights.size for weights in self.weights)
        self._n_threads = min(n_threads, max(len(batch), threads_worth_waiting_for(n_threads, a_step)))

    @property
    def moments(self) -> list[Moments]:
        return [
            (first, second, int(member.steps))
            for (first, second), member in zip(self._moments, self._members, strict=True)
        ]

    @property
    def passes(self) -> int:
        return int(min(member.passes for member in self._members))

    @property
    def losses(self) -> list[list[float]]:
        return [list(member.losses) for member in self._members]

    @property
    def visits(self) -> int:
        """Samples visited so far, over all members."""
        return int(sum(member.visits for member in self._members))

    def advance(self, until: int, seconds: float) -> None:
        self._core.train_adam(self._members, self._n_threads, until, seconds)
