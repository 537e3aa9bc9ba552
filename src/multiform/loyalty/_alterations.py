"""Which altered classifiers the machine needs, and how each of them weighs the classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from multiform.loyalty._types import level_names


@dataclass(frozen=True)
class Alterations:
    """The altered losses (s31-1) to (s31-6): class i's part of the loss weighted by beta < 1, and by gamma > 1.

    The members are ordered by weight, all betas ascending and then all gammas ascending, and within a weight by class.

    Parameters
    ----------
    beta, gamma : tuple of float
        Ascending. With two classes no three can claim a sample, so gamma decides nothing and is empty.
    n_classes : int
    """

    beta: tuple[float, ...]
    gamma: tuple[float, ...]
    n_classes: int

    @classmethod
    def of(cls, beta: Any, gamma: Any, n_classes: int) -> Alterations:
        """From the parameters of `LoyaltyClassifier`: a number or a ladder of numbers each."""
        betas, gammas = _ladder("beta", beta), _ladder("gamma", gamma)
        if betas[0] <= 0 or betas[-1] >= 1:
            raise ValueError(
                "beta of LoyaltyClassifier holds a class back, so it must be greater than 0 and less than 1; "
                f"got {beta!r}."
            )
        if gammas[0] <= 1:
            raise ValueError(f"gamma of LoyaltyClassifier pushes a class, so it must be greater than 1; got {gamma!r}.")
        return cls(betas, gammas if n_classes > 2 else (), n_classes)

    @property
    def levels(self) -> tuple[str, ...]:
        """The loyalty types that can occur, the surest first."""
        return level_names(self.beta, self.gamma)

    @property
    def factors(self) -> npt.NDArray[np.float64]:
        """What each member multiplies the weight of each class by: shape (len(self), n_classes)."""
        factors = np.ones((len(self), self.n_classes))
        for member, (step, altered) in enumerate(self):
            factors[member, altered] = (*self.beta, *self.gamma)[step]
        return factors

    def __len__(self) -> int:
        return (len(self.beta) + len(self.gamma)) * self.n_classes

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Of each member: which of the weights, and which class it alters."""
        steps = range(len(self.beta) + len(self.gamma))
        return ((step, altered) for step in steps for altered in range(self.n_classes))


def _ladder(name: str, value: Any) -> tuple[float, ...]:
    steps = [value] if isinstance(value, Real) else list(value) if np.iterable(value) else []
    numbers = all(isinstance(step, Real) and np.isfinite(float(step)) for step in steps)
    if isinstance(value, str) or not steps or not numbers or len(set(steps)) != len(steps):
        raise ValueError(
            f"{name} of LoyaltyClassifier must be a number, or a sequence of distinct numbers; got {value!r}."
        )
    return tuple(sorted(float(step) for step in steps))
