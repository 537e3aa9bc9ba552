"""Which level: the cheapest plan that keeps the promised accuracy, judged on patients it was not made from.

At every level of a ladder the plan is made on the patients of all folds but one and followed by those of that one,
whose scores no model had seen. Two figures are kept of each patient: the bill, and what was forgone, the chance that
full evidence gives its own answer less the chance that it gives the plan's. The mean of the latter, one standard error
added, is the loss that a level is charged with. Orders are searched for cost alone and never against a count of errors:
such a search finds orders that are lucky on the patients at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from multiform.diagnosis._judge import Opinion
from multiform.diagnosis._plan import Course, Plan, follow
from multiform.diagnosis._policy import Planning

__all__ = ["FrontierPoint", "chosen_level", "frontier_point", "level_ladder", "unseen_course"]

Doubles = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

LADDERS = {
    "regret": (
        *(1e-05, 5e-05, 0.0002, 0.0005, 0.001, 0.002, 0.003, 0.005),
        *(0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.08, 0.12),
    ),
    "calibrated": (0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.15, 0.18, 0.22, 0.3),
}


@dataclass(frozen=True)
class FrontierPoint:
    """Cross-fitted figures of one level.

    Attributes
    ----------
    level : float
    cost, cost_share : float
        Mean bill, and as a share of the full panel.
    loss, loss_error : float
        Mean chance forgone against full evidence, and its standard error.
    accuracy : float
        Of the answers, counted.
    order : tuple of str
        The order at this level, made from all patients.
    """

    level: float
    cost: float
    cost_share: float
    loss: float
    loss_error: float
    accuracy: float
    order: tuple[str, ...]

    @property
    def guarded_loss(self) -> float:
        """The loss that the level is charged with."""
        return self.loss + self.loss_error


def level_ladder(rule: str, betas: Sequence[float]) -> tuple[float, ...]:
    """The levels to choose from, the most careful first."""
    return tuple(betas) if rule == "loyalty" else LADDERS[rule]


def unseen_course(planning: Planning, plan: Plan, level: float, patients: Rows) -> Course:
    """Some training patients along a plan, judged by models that have not seen them."""

    def opinion(held: int, rows: Rows) -> Opinion:
        known = planning.judge.unseen(held)
        chosen = patients[rows]
        return Opinion(known.answer[chosen], known.chances[chosen], known.doubt[chosen])

    n_classes = planning.judge.models.records.n_classes
    return follow(plan, planning.tariff, opinion, level, len(patients), n_classes)


def frontier_point(planning: Planning, level: float) -> FrontierPoint:
    """Cross-fitted figures of a level."""
    records = planning.judge.models.records
    n = len(records.target)
    cost, answer, held = np.zeros(n), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    everybody = np.ones(n, dtype=bool)
    whole, _ = planning.plan(level, everybody, exact=False)
    for fold in range(records.n_folds):
        # An order is chosen for its cost alone, so that it can flatter the cost a little, but not the loss.
        plan = planning.plan(level, records.fold != fold, exact=False)[0] if planning.thorough else whole
        patients = np.flatnonzero(records.fold == fold)
        course = unseen_course(planning, plan, level, patients)
        cost[patients], answer[patients], held[patients] = course.cost, course.answer, course.held
    full = planning.judge.full
    forgone = full.max(axis=1) - full[np.arange(n), answer]
    panel = planning.tariff.panel_cost
    return FrontierPoint(
        level,
        float(cost.mean()),
        float(cost.mean() / panel) if panel else 0.0,
        float(forgone.mean()),
        float(forgone.std(ddof=1) / np.sqrt(n)),
        float((answer == records.target).mean()),
        tuple(planning.tariff.tests[t] for t in whole.order),
    )


def chosen_level(frontier: Sequence[FrontierPoint], most_loss: float) -> FrontierPoint | None:
    """The cheapest level whose guarded loss is allowed; None where there is none."""
    allowed = [point for point in frontier if point.guarded_loss <= most_loss]
    return min(allowed, key=lambda point: point.cost) if allowed else None
