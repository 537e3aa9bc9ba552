"""The altered classifiers that the machine needs, and the loyalty type that follows from their answers.

Definition 6 of the paper: ``mu(i, w, .)`` is the classifier whose loss counts class i with the weight w and every other
class with 1. The claims

    B(x) = {i : mu(i, beta, x) = i},    beta < 1:  the classes that keep x although they are held back,
    G(x) = {i : mu(i, gamma, x) = i},   gamma > 1: the classes that win x when they are pushed,

decide: x is *strong* if B(x) has exactly one element, *weak* if it is not strong and G(x) has at least three, else
*normal*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from multiform._typing import Array, Doubles, Indices


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
    def factors(self) -> Doubles:
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


def loyalty_levels(beta_claims: Array, gamma_claims: Array) -> Indices:
    """The loyalty type of each sample, 0 the surest.

    One beta and one gamma give Definition 6: 0 strong, 1 normal, 2 weak. Ladders refine both ends. The smaller beta,
    the harder it is for a class to keep a sample: the level is that of the smallest beta under which the sample is
    strong. The smaller gamma, the less it takes to make three classes claim a sample: a sample that is strong under
    no beta has the level of the smallest gamma under which it is weak, and the smallest gamma is the last level.

    Parameters
    ----------
    beta_claims : array of int, shape (n_betas, n)
        How many classes claim each sample, ``|B(x)|``, under each beta, ascending.
    gamma_claims : array of int, shape (n_gammas, n)
        The same under each gamma, ``|G(x)|``, ascending.

    Returns
    -------
    level : ndarray of shape (n,)
        Index into `level_names`.

    Examples
    --------
    >>> from multiform.loyalty import level_names, loyalty_levels
    >>> levels = loyalty_levels([[1, 2, 0]], [[3, 2, 3]])
    >>> [level_names([0.05], [20])[level] for level in levels]
    ['strong', 'normal', 'weak']
    """
    strong, weak = np.asarray(beta_claims) == 1, np.asarray(gamma_claims) >= 3
    normal = len(strong)
    level = np.full(strong.shape[1], normal)
    # Later assignments win: the smallest gamma among the weak, then the smallest beta among the strong.
    for step in reversed(range(len(weak))):
        level[weak[step]] = normal + len(weak) - step
    for step in reversed(range(len(strong))):
        level[strong[step]] = step
    return level


def level_names(beta: Sequence[float], gamma: Sequence[float]) -> tuple[str, ...]:
    """The names of the levels, the surest first; a ladder's names carry its values.

    Examples
    --------
    >>> from multiform.loyalty import level_names
    >>> level_names([0.05], [20.0])
    ('strong', 'normal', 'weak')
    >>> level_names([0.01, 0.05, 0.2], [5.0, 20.0])
    ('strong 0.01', 'strong 0.05', 'strong 0.2', 'normal', 'weak 20', 'weak 5')
    >>> level_names([0.05], [])
    ('strong', 'normal')
    """

    def named(name: str, ladder: Sequence[float]) -> list[str]:
        short = [f"{value:g}" for value in ladder]
        told = short if len(set(short)) == len(ladder) else [repr(float(value)) for value in ladder]
        return [name] if len(ladder) == 1 else [f"{name} {value}" for value in told]

    return (*named("strong", beta), "normal", *reversed(named("weak", gamma)))
