"""What became of labelled samples under triage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Kept:
    """A promise, and what became of it: `share` of the `count` accepted samples in its scope is right, NaN of none."""

    what: str
    target: float
    count: int
    share: float


@dataclass(frozen=True)
class TriageReport:
    """What became of labelled samples under triage.

    Attributes
    ----------
    rows : dict
        By who answered, ``"estimator"`` and ``"fallback"`` or ``"nobody"``: ``count``, ``share``, ``accuracy``.
    accuracy : float
        Of all answers that were given, by the estimator or the fallback; NaN if there were none.
    target_accuracy, confidence : float
        The promise.
    guarantee : {"exact", "approximate"}
        How the promise is meant; see :class:`TriageClassifier`.
    per_class : bool
        Whether it holds for each predicted class.
    promises : list
        Every promise that was made, with ``what`` it is of, its ``target``, the ``count`` of accepted samples in
        its scope and the ``share`` of those that is right.
    """

    rows: dict[str, dict[str, Any]]
    accuracy: float
    target_accuracy: float
    confidence: float
    guarantee: str
    per_class: bool
    promises: list[Kept]

    @property
    def coverage(self) -> float:
        """The share of the samples that the estimator answered under the promise."""
        return float(self.rows["estimator"]["share"])

    @property
    def accepted_accuracy(self) -> float:
        """The accuracy of those answers; NaN if there were none."""
        return float(self.rows["estimator"]["accuracy"])

    def __str__(self) -> str:
        lines = [f"{'answered by':>12} {'count':>9} {'share':>8} {'accuracy':>9}"]
        for name, row in self.rows.items():
            accuracy = "-" if np.isnan(row["accuracy"]) else f"{row['accuracy']:.2%}"
            lines.append(f"{name:>12} {row['count']:>9d} {row['share']:>8.2%} {accuracy:>9}")
        overall = "-" if np.isnan(self.accuracy) else f"{self.accuracy:.2%}"
        whom = "in each predicted class" if self.per_class else "of accepted answers"
        lines.append(f"{'all answers':>12} {'':>9} {'':>8} {overall:>9}")
        lines.append(
            f"promised ({self.guarantee}): accuracy {whom} at least {self.target_accuracy:.2%}, "
            f"with confidence {self.confidence:.2%}"
        )
        if len(self.promises) > 1:
            width = max(len(promise.what) for promise in self.promises)
            lines.append(f"{'of accepted answers':>{width}} {'count':>9} {'right':>8} {'promised':>9}")
            for promise in self.promises:
                share = "-" if np.isnan(promise.share) else f"{promise.share:.2%}"
                lines.append(f"{promise.what:>{width}} {promise.count:>9d} {share:>8} {promise.target:>9.2%}")
        return "\n".join(lines)
