"""The one protocol of all engines: train a batch, evaluate separators, release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from multiform import progress
from multiform._typing import Array, Floats
from multiform.separators import Rows, Separators
from multiform.solvers import ModelBatch, Moments, Solver, TrainingProblem

# An engine comes back to Python this often, so that Ctrl-C is heard.
SLICE_SECONDS = 0.2


class TrainingState(Protocol):
    """A batch on its way: advances in place, can be looked at between two passes."""

    @property
    def coefficients(self) -> list[Floats]:
        """A_k and b_k side by side, for scaled rows, per member: shape (m, q, p + 1)."""

    @property
    def passes(self) -> int:
        """Passes that every member has finished."""

    @property
    def losses(self) -> list[list[float]]:
        """Mean loss of each pass, per member."""

    @property
    def counts(self) -> dict[str, int]:
        """The work done so far, over all members: "visits" of Adam; "tried", "accepted" and "looked" of CPM."""

    @property
    def moments(self) -> list[Moments] | None:
        """What a later state goes on from, per member; None for CPM, which keeps nothing."""

    def advance(self, until: int, seconds: float) -> None:
        """Go on to the end of pass ``until``, or return early once ``seconds`` are over."""

    def release(self) -> None:
        """Give back what the state holds of a device; it is of no use afterwards."""


class Engine(Protocol):
    """What trains and evaluates: the compiled core, its NumPy twin, a GPU, a cluster."""

    @property
    def reads_sparse(self) -> bool:
        """Whether sparse rows are trained as they are stored, by rows; a GPU has them dense."""

    def begin(
        self, problem: TrainingProblem, batch: ModelBatch, solver: Solver, moments: Sequence[Moments] | None = None
    ) -> TrainingState:
        """A state before its first pass, or going on from moments of Adam."""

    def values(self, rows: Rows, separators: Separators) -> Array:
        """f of every row by every separator, the noise energy included: shape (n, n_members * m).

        Rows that live on a GPU are answered there.
        """

    def release(self) -> None:
        """Give back what the engine keeps between calls, as X on a device."""


def solve(
    problem: TrainingProblem,
    batch: ModelBatch,
    solver: Solver,
    engine: Engine,
    *,
    moments: Sequence[Moments] | None = None,
    after_pass: Callable[[TrainingState], bool] | None = None,
) -> TrainingState:
    """Train every member of the batch and return the final state.

    Parameters
    ----------
    problem : TrainingProblem
    batch : ModelBatch
    solver : AdamSolver or CpmSolver
    engine : Engine
    moments : sequence of Moments or None
        Of an earlier state of Adam, to go on from.
    after_pass : callable or None
        Called with the state after each pass; returning True ends the training.
    """
    state = engine.begin(problem, batch, solver, moments)
    try:
        while state.passes < solver.n_passes:
            passes = state.passes
            state.advance(solver.n_passes if after_pass is None else passes + 1, SLICE_SECONDS)
            models = f"{len(batch)} model{'s' * (len(batch) != 1)}"
            progress.tell(state.passes / solver.n_passes, f"{models}, pass {state.passes}/{solver.n_passes}")
            if after_pass is not None and state.passes > passes and after_pass(state):
                break
    except BaseException:
        state.release()  # a traceback must not hold memory of a device
        engine.release()
        raise
    return state
