"""What the user asked for, checked: tests and their features, the columns of X that they are, the betas."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from multiform.diagnosis._tariff import Tariff, names_of, read_costs

__all__ = ["checked_betas", "feature_names", "tariff_and_features"]


def tariff_and_features(
    costs: Any, groups: Any, known: Any, requires: Any, features: Mapping[str, Any] | None
) -> tuple[Tariff, list[list[str]]]:
    """The tariff, and the features that each of its tests yields."""
    prices, groups = read_costs(costs, groups)
    tariff = Tariff.of(prices, groups, known, requires)
    given = features or {}
    for test in given:
        if test not in tariff.tests:
            raise ValueError(
                f"features of DiagnosisPlanner: no test is named {test!r}; the tests are {list(tariff.tests)}."
            )
    yields = []
    for test in tariff.tests:
        own = names_of(given.get(test, test), f"features[{test!r}]")
        yields.append([str(name) for name in own])
        if not yields[-1]:
            raise ValueError(f"features[{test!r}] of DiagnosisPlanner is empty; name the columns of the test.")
    named = [name for own in yields for name in own]
    twice = sorted({name for name in named if named.count(name) > 1})
    if twice:
        raise ValueError(f"features of DiagnosisPlanner: {twice} belong to two tests; each to one only.")
    return tariff, yields


def feature_names(X: Any, features: list[list[str]]) -> list[str]:
    """The columns of X that the plan reads, found by name in a data frame and by place in an array."""
    named = [name for own in features for name in own]
    if hasattr(X, "columns"):
        columns = [str(name) for name in X.columns]
        unknown = [name for name in named if name not in columns]
        if unknown:
            raise ValueError(
                f"costs of DiagnosisPlanner names {unknown}, which X has no column for; X has {columns}. "
                "Name the columns of a test in `features`."
            )
        return named
    shape = np.shape(X)
    if len(shape) != 2 or shape[1] != len(named):
        raise ValueError(
            f"X of DiagnosisPlanner, as an array, must have a column for each of the {len(named)} features that "
            f"costs and features name, in this order; got the shape {shape}. A data frame may have more columns."
        )
    return named


def checked_betas(beta: Any) -> tuple[float, ...]:
    """The ladder of betas, ascending."""
    betas = [beta] if isinstance(beta, Real) else list(beta)
    if not betas or not all(isinstance(one, Real) and 0 < float(one) < 1 for one in betas):
        raise ValueError(f"beta of DiagnosisPlanner must hold numbers greater than 0 and less than 1; got {beta!r}.")
    return tuple(sorted({float(one) for one in betas}))
