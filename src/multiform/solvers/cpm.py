"""The coordinate perturbation method of the paper (2.3), literal or row-synchronous."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from multiform._typing import Floats

__all__ = ["CpmSolver"]


@dataclass(frozen=True)
class CpmSolver:
    """One coordinate at a time, at most two nearby points, one each way; move if the loss falls, else stay.

    The paper leaves the size of a perturbation open. Here every coordinate has its own: it grows by `grow` after a move
    and shrinks by `shrink` when neither point was lower; the direction of the last move is tried first.

    The other settings are the departures from the literal algorithm; `literal` turns all of them off.

    Parameters
    ----------
    n_passes : int
        Sweeps over all coordinates.
    step : float
        The first perturbation, relative to the size of the initial weights, 1 / sqrt(p).
    grow, shrink : float
    smallest, largest : float
        Limits of a perturbation, in the same unit.
    synchronous : bool
        Row r of every class moves against the other separators frozen, then the new f are exchanged, then the next row
        follows. This is what runs in parallel. Otherwise one class after the other.
    frozen_own : bool
        For the length of a row, which terms of an own-class sample are active stays frozen, so that its m - 1 terms are
        one multiplication; so does the slope of the loss by the noise energy.
    slack : float in [0, 1]
        A pair with ``f_y / f_j <= slack * alpha`` sits out the sweep; 0 keeps all.
    revisit : float in [0, 1]
        Chance that a sample without an active pair is looked at when a sweep begins; 1 looks at all.
    max_entries : int
        A sweep uses a fresh random part of the samples, at most so many (sample, class) entries a class; 0 uses all.
    ramp : int
        The first sweeps use 1/ramp, 2/ramp, ... of `max_entries`; 1 uses all of them at once.
    """

    n_passes: int
    step: float = 0.5
    grow: float = 1.3
    shrink: float = 0.5
    smallest: float = 1e-6
    largest: float = 0.7
    synchronous: bool = True
    frozen_own: bool = True
    slack: float = 1.0
    revisit: float = 0.3
    max_entries: int = 4096
    ramp: int = 4

    def literal(self) -> CpmSolver:
        """The paper's algorithm to the letter."""
        return replace(self, synchronous=False, frozen_own=False, slack=0.0, revisit=1.0, max_entries=0, ramp=1)

    def initial_steps(self, coefficients: Floats) -> Floats:
        """Perturbations in proportion to the initial size of A; those of b are larger by sqrt(p), as b is."""
        steps = np.full_like(coefficients, self.step / np.sqrt(coefficients.shape[2] - 1))
        steps[:, :, -1] = self.step
        return steps

    def limits(self, n_features: int) -> dict[str, float]:
        unit = 1 / float(np.sqrt(n_features))
        return {
            "smallest": self.smallest * unit,
            "largest": self.largest * unit,
            "largest_offset": self.largest,
        }
