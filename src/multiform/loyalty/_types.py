"""Definition 6 of the paper: the loyalty type of a sample, from what the altered classifiers answer.

``mu(i, w, .)`` is the classifier whose loss counts class i with the weight w and every other class with 1. The claims

    B(x) = {i : mu(i, beta, x) = i},    beta < 1:  the classes that keep x although they are held back,
    G(x) = {i : mu(i, gamma, x) = i},   gamma > 1: the classes that win x when they are pushed,

decide: x is *strong* if B(x) has exactly one element, *weak* if it is not strong and G(x) has at least three, else
*normal*.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def loyalty_levels(beta_claims: NDArray[Any], gamma_claims: NDArray[Any]) -> NDArray[np.intp]:
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
