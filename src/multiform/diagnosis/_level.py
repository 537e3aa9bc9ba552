"""Which level: the cheapest plan that keeps the promised accuracy, judged on patients it was not made from.

At every level that is considered, the plan is made on the patients of all folds but one and followed by those of that
one, whose scores no model had seen and whose doubts come from a trust learnt without them. Two figures are kept of each
patient: the bill, and what was forgone, the chance that full evidence gives its own answer less the chance that it
gives the plan's. The mean of the latter, a standard error added, is the loss that a level is charged with. Orders
are never searched against a count of errors: such a search finds orders that are lucky on the patients at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from multiform.diagnosis._judge import Opinion
from multiform.diagnosis._plan import Course, Plan, follow
from multiform.diagnosis._policy import Planning

__all__ = ["FrontierPoint", "chosen_level", "considered", "frontier_point", "level_ladder", "order_point"]

Doubles = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

LADDERS = {
    # A law learnt from few patients promises far too little regret: there the right level may be the first.
    "regret": (1e-5, 3e-5, 1e-4, 3e-4, 0.001, 0.002, 0.004, 0.008, 0.015, 0.03, 0.045, 0.06, 0.09, 0.12, 0.2, 0.3),
    "calibrated": (0.001, 0.003, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.15, 0.18, 0.22, 0.3, 0.4),
}
BETWEEN = (1 / 3, 2 / 3)  # where levels between two rungs are tried, on a logarithmic scale
MANY_PATIENTS = 2_000  # from which on a plan need not be made again for every fold
HOPELESS = 4.0  # a level that loses so many times what is allowed ends the climb


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
        """The loss that the level is charged with: a standard error is added, against optimism."""
        return self.loss + self.loss_error


def level_ladder(rule: str, betas: Sequence[float]) -> tuple[float, ...]:
    """The levels to choose from, the most careful first."""
    return tuple(betas) if rule == "loyalty" else LADDERS[rule]


def considered(
    planning: Planning, most_loss: float, point: Callable[[float], FrontierPoint] | None = None
) -> list[FrontierPoint]:
    """The ladder climbed until a level loses hopelessly much, then a closer look above the cheapest that is allowed.

    Parameters
    ----------
    most_loss : float
        The guarded loss that is allowed.
    point : callable, optional
        The figures of a level; by default those of the plan that is made at it.
    """
    find = point or (lambda level: frontier_point(planning, level))
    judge = planning.judge
    ladder = level_ladder(judge.rule, judge.models.settings.betas)
    points: list[FrontierPoint] = []
    for level in ladder:
        points.append(find(level))
        if points[-1].guarded_loss > HOPELESS * max(most_loss, 0.0) and len(points) > 1:
            break
    best = chosen_level(points, most_loss)
    if best is not None and judge.rule != "loyalty":  # between two betas there is no model
        above = ladder[ladder.index(best.level) + 1 :][:1]
        points += [find(best.level * (level / best.level) ** share) for level in above for share in BETWEEN]
    return sorted(points, key=lambda one: one.level)


def chosen_level(frontier: Sequence[FrontierPoint], most_loss: float) -> FrontierPoint | None:
    """The cheapest level whose guarded loss is allowed; None where there is none."""
    allowed = [point for point in frontier if point.guarded_loss <= most_loss]
    return min(allowed, key=lambda point: point.cost) if allowed else None


def frontier_point(planning: Planning, level: float) -> FrontierPoint:
    """Cross-fitted figures of the plans that are made at a level."""
    records = planning.judge.models.records
    whole, _ = planning.plan(level, np.ones(planning.n, dtype=bool), exact=False)
    if not planning.thorough and planning.n >= MANY_PATIENTS:
        # No error enters the choice of the order, which hardly depends on a third of so many.
        return _point(planning, level, whole, [whole] * records.n_folds)
    # On few patients an order is cheap partly because they happen to stop early on it, sometimes too early: neither
    # they nor their labels may have a part in the plan that they follow.
    plans = [
        planning.blind_to(fold).plan(level, records.fold != fold, exact=False)[0] for fold in range(records.n_folds)
    ]
    return _point(planning, level, whole, plans)


def order_point(planning: Planning, level: float, order: tuple[int, ...]) -> FrontierPoint:
    """Cross-fitted figures of an order that needs no search."""
    records = planning.judge.models.records
    plan = Plan.of_order(order, planning.tariff.known, records.n_classes)
    return _point(planning, level, plan, [plan] * records.n_folds)


def _point(planning: Planning, level: float, whole: Plan, plans: Sequence[Plan]) -> FrontierPoint:
    """The patients of each fold follow that fold's plan."""
    records = planning.judge.models.records
    n = len(records.target)
    cost, answer = np.zeros(n), np.zeros(n, dtype=np.int64)
    for fold, plan in enumerate(plans):
        patients = np.flatnonzero(records.fold == fold)
        course = _held_out_course(planning, plan, level, fold)
        cost[patients], answer[patients] = course.cost, course.answer
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


def _held_out_course(planning: Planning, plan: Plan, level: float, fold: int) -> Course:
    """The patients of a fold along a plan, judged by models and a trust that have not seen them."""

    def opinion(held: int, rows: Rows) -> Opinion:
        known = planning.judge.held_out(held, fold)
        return Opinion(known.answer[rows], known.chances[rows], known.doubt[rows])

    records = planning.judge.models.records
    return follow(plan, planning.tariff, opinion, level, int((records.fold == fold).sum()), records.n_classes)
