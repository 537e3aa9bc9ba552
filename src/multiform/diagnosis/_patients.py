"""What a plan is made of: the columns that it reads, and whether there are patients enough to learn from."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from multiform._typing import Array, Bools, Indices
from multiform.columns import Encoding, Number, columns_of, moment_among
from multiform.diagnosis._plan import column_names

TOO_FEW_PATIENTS, TOO_FEW_OF_A_CLASS = 50, 5  # below, a warning


class FewPatientsWarning(UserWarning):
    """There are too few patients, or too few of a class, for a level that can be relied on."""


class WeakEvidenceWarning(UserWarning):
    """All evidence together does no better than to name the commonest class."""


def columns_in(X: Any, names: list[str], if_missing: str, if_misshapen: str) -> dict[str, Array]:
    """The columns of X, found by name in a data frame and by place in an array; what is said where they are not."""
    if hasattr(X, "columns"):
        found = [str(name) for name in X.columns]
        missing = [name for name in names if name not in found]
        if missing:
            raise ValueError(if_missing.format(missing=missing, found=found))
    elif np.ndim(X) != 2 or np.shape(X)[1] != len(names):
        raise ValueError(if_misshapen.format(n_columns=len(names), shape=np.shape(X)))
    columns = columns_of(X, names)
    for name, column in columns.items():
        if moment_among(column) is not None:
            raise ValueError(
                f"Feature {name!r} of DiagnosisPlanner holds dates, and a plan takes numbers and categories; give days "
                "instead, for example since the first visit."
            )
    return columns


def warn_of_weakness(target: Array, classes: Array, full_accuracy: float) -> None:
    """Where a plan is made of too little to be relied on."""
    counts = np.bincount(target)
    rarest = int(counts.argmin())
    if len(target) < TOO_FEW_PATIENTS or counts[rarest] < TOO_FEW_OF_A_CLASS:
        warnings.warn(
            f"DiagnosisPlanner has {len(target)} patients, {counts[rarest]} of them {classes[rarest]}: when it stops, "
            "what it costs and how accurate it is are rough guesses. Give more patients before it is followed.",
            FewPatientsWarning,
            stacklevel=5,
        )
    commonest = int(counts.argmax())
    share = counts[commonest] / len(target)
    if full_accuracy < share - np.sqrt(share * (1 - share) / len(target)):
        warnings.warn(
            f"All evidence of DiagnosisPlanner is right for {full_accuracy:.1%} of unseen patients, and to say "
            f"{classes[commonest]} of everybody for {share:.1%}: these tests tell nothing "
            "about the diagnosis, or there are too few patients.",
            WeakEvidenceWarning,
            stacklevel=5,
        )


def learnable(folds: Indices, target: Array) -> bool:
    """Whether every fold learns from two classes or more, and judges somebody."""
    every = range(int(folds.max()) + 1)
    return all(len(np.unique(target[folds != one])) > 1 and bool((folds == one).any()) for one in every)


def columns_of_ranges(encoding: Encoding) -> Indices:
    """The columns whose ranges may part patients: numbers, values of codes and categories; no steps, no gaps."""
    values = {
        f"{code.name} = {value:g}" for code in encoding.codes if isinstance(code, Number) for value in code.values
    }
    numbers = {code.name for code in encoding.codes if isinstance(code, Number)}
    words = {name for code in encoding.codes if not isinstance(code, Number) for name in code.feature_names()}
    found = [column for column, name in enumerate(column_names(encoding)) if name in values | numbers | words]
    return np.array(found, dtype=np.intp)


def columns_of_steps(encoding: Encoding) -> Bools:
    """The columns that are steps of numbers."""
    steps = {f"{code.name} > {step:g}" for code in encoding.codes if isinstance(code, Number) for step in code.steps}
    return np.array([name in steps for name in column_names(encoding)])
