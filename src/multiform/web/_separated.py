"""The least change that alters a decision of separators: exactly, where a model reads numbers alone.

A classifier that was saved without a table around it knows nothing of its columns but how it scales them. If it decides
by separators, as QMS does, also inside a loyalty or a triage, their geometry has the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from multiform._typing import Doubles

FEW = (1, 2, 3)  # columns that are tried before all may change
FARTHEST = 4.0  # scales that one of few columns may move: beyond, it is no case that one meets
BEHIND = 1e-3  # how far behind the boundary, as a part of the way to it


class Separated:
    """The separators of a fitted classifier, and how it scales its columns."""

    def __init__(self, model: Any) -> None:
        from multiform.geometry import Separators

        scaling = model._get_state()["scaling"]
        self.separators = Separators(model.components_, model.offsets_, model.classes_)
        self.center, self.scale = (np.asarray(scaling[name], dtype=np.float64) for name in ("center", "scale"))
        self.varies = np.isfinite(self.scale) & (self.scale > 0)

    @classmethod
    def of(cls, estimator: Any) -> Separated | None:
        """Of the classifier that decides; None where that has no separators."""
        while estimator is not None:
            if hasattr(estimator, "components_") and hasattr(estimator, "offsets_"):
                return cls(estimator)
            estimator = getattr(estimator, "estimator_", None)
        return None

    @np.errstate(over="ignore", invalid="ignore")  # of numbers beyond everything there is no nearest
    def nearest_change(self, row: Doubles, locked: Sequence[int]) -> Doubles | None:
        """The nearest row with another decision, in scales, by few columns if that can be; None if there is none."""
        from multiform.geometry import counterfactuals

        free = np.setdiff1d(np.flatnonzero(self.varies), np.asarray(locked, dtype=np.intp))
        if not len(free):
            return None
        scale = np.where(self.varies, self.scale, 1.0)

        def nearest(columns: Any) -> tuple[Doubles, float]:
            found = counterfactuals(self.separators, row[None], scale=scale, features=columns.tolist())
            return found.pushed(BEHIND)[0], float(found.distances[0])

        moved, distance = nearest(free)
        if not np.isfinite(distance):
            return None
        ranked = free[np.argsort(-np.abs((moved - row) / scale)[free], kind="stable")]
        for few in FEW:
            if few >= len(free):
                break
            tried, distance = nearest(ranked[:few])
            if np.isfinite(distance) and (np.abs(tried - row) <= FARTHEST * scale).all():
                return tried
        return moved
