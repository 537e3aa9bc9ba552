"""Two ways to diagnose compared at equal accuracy and at equal cost, on the same patients.

A curve has a point for each value of a method's parameter: mean bill, share of right answers. Between two neighbours
one can mix (toss a coin for each patient), and a point that costs more and is right less often is no use:

    accuracy(c) = the most that the points up to c give, linear between the costs where it grows.

Differences are of means over all repeats. They have two standard errors: over repeats (the jackknife, one repeat left
out: how much folds and seeds matter), and over patients (the bootstrap, whole patients with all their repeats: how much
it matters who they were).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.contest import CHOSEN, Points

Doubles = npt.NDArray[np.float64]

DRAWS = 200
NEVER = 1.0  # the share that counts for an accuracy which a curve does not reach: the whole panel


@dataclass(frozen=True)
class Curve:
    """Shares of the panel and right answers, shape (n_repeats, n_points, n_patients), of the points of every repeat."""

    names: tuple[str, ...]
    cost: Doubles
    right: Doubles

    @classmethod
    def of(cls, repeats: Sequence[Points]) -> "Curve":
        names = tuple(name for name in repeats[0] if all(name in points for points in repeats))
        cost, right = (np.array([[points[name][k] for name in names] for points in repeats]) for k in (0, 1))
        return cls(names, cost.astype(np.float64), right.astype(np.float64))

    @property
    def n_repeats(self) -> int:
        return len(self.cost)

    def first(self, n_repeats: int) -> "Curve":
        """Of the first repeats alone."""
        return replace(self, cost=self.cost[:n_repeats], right=self.right[:n_repeats])

    def means(self, repeats: Any = slice(None), weights: Doubles | None = None) -> "Means":
        """Of some repeats, and of patients that count by their weights."""
        both = self.cost[repeats].mean(axis=0), self.right[repeats].mean(axis=0)
        cost, right = (np.average(part, axis=1, weights=weights).tolist() for part in both)
        return Means(dict(zip(self.names, zip(cost, right, strict=True), strict=True)))


@dataclass(frozen=True)
class Means:
    """Mean cost and accuracy of each point of a curve."""

    points: dict[str, tuple[float, float]]

    @property
    def envelope(self) -> tuple[Doubles, Doubles]:
        costs, accuracies = np.array(sorted(point for name, point in self.points.items() if name != CHOSEN)).T
        best = np.maximum.accumulate(accuracies)
        grows = np.append(True, best[1:] > best[:-1])
        return costs[grows], best[grows]

    def accuracy_at(self, cost: float) -> float:
        return float(np.interp(cost, *self.envelope))

    def cost_at(self, accuracy: float) -> float:
        """NaN where no point is so accurate."""
        costs, accuracies = self.envelope
        return float(np.interp(accuracy, accuracies, costs, right=np.nan))


@dataclass(frozen=True)
class Estimate:
    """A figure and its standard errors over repeats and over patients."""

    value: float
    over_repeats: float  # NaN of a single one
    over_patients: float

    def __str__(self) -> str:
        errors = "/".join(
            "-" if np.isnan(one) else f"{100 * one:.1f}" for one in (self.over_repeats, self.over_patients)
        )
        return f"{100 * self.value:+.1f} +- {errors}"


def estimate(figure: Callable[..., float], *curves: Curve, seed: int = 0) -> Estimate:
    """A figure of the means of some curves, on the same patients and repeats."""
    n_repeats, _, n = curves[0].cost.shape
    without = [
        figure(*(curve.means(np.arange(n_repeats) != left) for curve in curves))
        for left in range(n_repeats if n_repeats > 1 else 0)
    ]
    spread = np.sqrt((n_repeats - 1) * np.var(without)) if without else np.nan
    rng = np.random.default_rng(seed)
    drawn = (np.bincount(rng.integers(0, n, n), minlength=n).astype(np.float64) for _ in range(DRAWS))
    again = [figure(*(curve.means(weights=weights) for curve in curves)) for weights in drawn]
    return Estimate(figure(*(curve.means() for curve in curves)), float(spread), float(np.std(again, ddof=1)))


def cheaper_by(plan: Means, rival: Means) -> float:
    """What the plan costs less what the rival costs for the plan's accuracy; a rival that never gets there pays all."""
    cost, accuracy = plan.points[CHOSEN]
    paid = rival.cost_at(accuracy)
    return cost - (NEVER if np.isnan(paid) else paid)


def cheaper_by_curve(plan: Means, rival: Means) -> float:
    """The same of both curves, at the accuracy of the plan."""
    _, accuracy = plan.points[CHOSEN]
    own, paid = plan.cost_at(accuracy), rival.cost_at(accuracy)
    return (NEVER if np.isnan(own) else own) - (NEVER if np.isnan(paid) else paid)


def better_by(plan: Means, rival: Means) -> float:
    """The rival's accuracy for the plan's cost, less the plan's."""
    cost, accuracy = plan.points[CHOSEN]
    return rival.accuracy_at(cost) - accuracy
