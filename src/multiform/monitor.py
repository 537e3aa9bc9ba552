"""What happens after each pass of a fit: validation, convergence, callbacks, the line that `verbose` shows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from multiform._typing import Array, Bools
from multiform.compat import PassCallbacks
from multiform.separators import Separators
from multiform.training import Trained

__all__ = ["Monitor", "Validation"]


class Validation(NamedTuple):
    """Held-out samples, weighted as the loss weights them."""

    X: Any
    target: Array
    weight: Array


class Monitor:
    """Called with the state after each pass; True ends the fit.

    Parameters
    ----------
    model : the estimator being fitted
    n_passes : int
    validation : Validation or None
    correct : callable
        Which validation samples a state gets right.
    separators : callable
        The separators of a state, to keep the best.
    fitted : callable
        The fitted attributes of a state, for callbacks.
    """

    def __init__(
        self,
        model: Any,
        n_passes: int,
        validation: Validation | None,
        correct: Callable[[Trained], Bools],
        separators: Callable[[Trained], Separators],
        fitted: Callable[[Trained], dict[str, Any]],
    ) -> None:
        self._model, self._n_passes, self._validation = model, n_passes, validation
        self._correct, self._separators, self._fitted = correct, separators, fitted
        self._callbacks = PassCallbacks(model, n_passes)
        self._since_best = 0
        self.scores: list[float] = []
        self.best: Separators | None = None

    @property
    def needed(self) -> bool:
        watched = self._validation is not None or bool(self._callbacks) or self._model.verbose > 0
        return watched or self._model.solver != "adam"

    def __call__(self, state: Trained) -> bool:
        stop = False
        if self._validation is not None:
            stop = self._validate(state, self._validation)
        elif self._model.solver != "adam":
            stop = self._converged(state.losses[0])
        if self._callbacks:
            stop |= self._callbacks.pass_over(lambda: self._fitted(state))
        if self._model.verbose:
            self._show(state)
        return bool(stop)

    def _converged(self, losses: list[float]) -> bool:
        """CPM: whether none of the last sweeps lowered the loss by more than a share `tol` of it."""
        recent = losses[-1 - self._model.n_iter_no_change :]
        if len(recent) <= self._model.n_iter_no_change:
            return False
        return recent[0] - min(recent) <= float(self._model.tol) * abs(recent[0])

    def _validate(self, state: Trained, validation: Validation) -> bool:
        share = validation.weight if validation.weight.any() else None
        score = float(np.average(self._correct(state), weights=share))
        if self.best is None or score > max(self.scores):
            self.best = self._separators(state).copied()
        improved = not self.scores or score > max(self.scores) + self._model.tol
        self._since_best = 0 if improved else self._since_best + 1
        self.scores.append(score)
        return self._since_best >= int(self._model.n_iter_no_change)

    def _show(self, state: Trained) -> None:
        text = f"QMSClassifier: pass {state.passes}/{self._n_passes}, loss {state.losses[0][-1]:.4f}"
        if self.scores:
            text += f", validation accuracy {self.scores[-1]:.4f}"
        sys.stderr.write(f"\r{text}")
        sys.stderr.flush()

    def close(self, fitted: dict[str, Any]) -> None:
        if self._model.verbose:
            sys.stderr.write("\n")
        self._callbacks.close(lambda: fitted)
