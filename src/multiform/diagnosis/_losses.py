"""What errors cost: which answer is best, and what it costs to stop with it, where a missed case is dearer.

With ``L[j, k]`` the loss of the answer k to a patient of class j, the expected loss of an answer is ``R(k) = sum_j P(j)
L[j, k]``, and the best answer has the least. The same order of answers have their *worths*,

    W(k)  =  sum_j P(j) (max_i L[j, i] - L[j, k]),    scaled to a sum of 1:

what the answer saves against the worst one. If all errors cost the same, worths are chances; if the loss depends on the
class alone, they are the chances of a population in which each class is as common as it is dear. So whatever is done
with chances (the likeliest answer, how sure it is, what full evidence would make of it) is done with worths.

Inside, losses are in units of the dearest error, so that a doubt is at most 1 and levels mean the same everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from multiform._typing import Array, Doubles
from multiform.state import require, require_array


@dataclass(frozen=True, eq=False)
class Losses:
    """Of each true class (row) and answer (column), what that costs, in the user's unit; nothing on the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from multiform.diagnosis._losses import Losses, worths
    >>> losses = Losses.of({"ill": {"well": 9}, "well": {"ill": 1}}, np.array(["ill", "well"]))
    >>> worths(np.array([[0.2, 0.8]]), losses).round(2)  # rather a false alarm than a missed case
    array([[0.69, 0.31]])
    """

    matrix: Doubles

    @classmethod
    def of(cls, given: Any, classes: Array) -> Losses:
        """From what a user writes down: a dict of dicts by true class and answer, or a matrix in their order."""
        m, labels = len(classes), classes.tolist()
        matrix = np.zeros((m, m))
        if isinstance(given, Mapping):
            for truth in given:
                if truth not in labels or not isinstance(given[truth], Mapping) or not {*given[truth]} <= {*labels}:
                    raise ValueError(
                        "losses of DiagnosisPlanner must map each true class to what each wrong answer costs, as "
                        f"{{{labels[-1]!r}: {{{labels[0]!r}: 5000}}}}; the classes are "
                        f"{', '.join(map(repr, labels))}, and got {truth!r}: {given[truth]!r}."
                    )
            lacking = [(j, k) for j in labels for k in labels if j != k and k not in given.get(j, {})]
            if lacking:
                raise ValueError(
                    f"losses of DiagnosisPlanner must have a loss for every error; there is none for the answer "
                    f"{lacking[0][1]!r} to a patient of class {lacking[0][0]!r}."
                )
            for j, truth in enumerate(labels):
                for k, answer in enumerate(labels):
                    matrix[j, k] = _number(given[truth].get(answer, 0.0))
        else:
            if np.shape(given) != (m, m):
                raise ValueError(
                    "losses of DiagnosisPlanner must be a dict of dicts, or a matrix with a row for each true class "
                    f"and a column for each answer, in the order {labels}; got {given!r}."
                )
            matrix = np.array([[_number(one) for one in row] for row in np.asarray(given, dtype=object)])
        if not (np.isfinite(matrix).all() and (matrix >= 0).all() and (np.diag(matrix) == 0).all() and matrix.any()):
            raise ValueError(
                "losses of DiagnosisPlanner must be finite and not negative, 0 for the right answer and more for some "
                f"wrong one; got {given!r}."
            )
        return cls(matrix)

    @classmethod
    def from_state(cls, state: Any, m: int) -> Losses:
        """From the matrix, as a model file has it."""
        matrix = require_array(state, (m, m), "f", "losses")
        sound = np.isfinite(matrix).all() and (matrix >= 0).all() and matrix.any() and not np.diag(matrix).any()
        require(sound, "losses are out of range")
        return cls(matrix)

    @cached_property
    def dearest(self) -> float:
        """The largest loss."""
        return float(self.matrix.max())

    @cached_property
    def scaled(self) -> Doubles:
        """The losses in units of the dearest error."""
        return np.asarray(self.matrix / self.dearest)

    @cached_property
    def saved(self) -> Doubles:
        """What each answer saves against the worst one."""
        return np.asarray(self.scaled.max(axis=1, keepdims=True) - self.scaled)


def worths(chances: Doubles, losses: Losses | None) -> Doubles:
    """The worths of all answers, along the last axis."""
    if losses is None:
        return chances
    found = np.asarray(chances) @ losses.saved
    return np.asarray(found / np.maximum(found.sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny))


def expected(chances: Doubles, answer: Array, losses: Losses | None) -> Doubles:
    """The expected loss of an answer, in units of the dearest error: the chance that it is wrong, if all are alike."""
    if losses is None:
        return np.asarray(1 - chances.max(axis=-1))
    return np.asarray((chances * losses.scaled.T[answer]).sum(axis=-1))


def excess(full: Doubles, answer: Array, losses: Losses | None) -> Doubles:
    """By how much answers are expected to lose more than the best ones, by these chances: of the shape of `answer`."""
    if losses is None:
        return np.asarray(full.max(axis=1) - full[np.arange(len(full)), answer])
    expected_losses = full @ losses.scaled
    return np.asarray(expected_losses[np.arange(len(full)), answer] - expected_losses.min(axis=1))


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")
