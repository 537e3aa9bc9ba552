"""Which level: the cheapest plan that keeps the promised accuracy, judged on patients it was not made from.

The mean chance that patients forgo at a level, a standard error added, is the loss that the level is charged with.
Orders are never searched against a count of errors: such a search finds orders that are lucky on the patients at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["FrontierPoint", "chosen_level", "considered", "level_ladder"]

LADDERS = {
    # A law learnt from few patients promises far too little regret: there the right level may be the first.
    "regret": (1e-5, 3e-5, 1e-4, 3e-4, 0.001, 0.002, 0.004, 0.008, 0.015, 0.03, 0.045, 0.06, 0.09, 0.12, 0.2, 0.3),
    "calibrated": (0.001, 0.003, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.15, 0.18, 0.22, 0.3, 0.4),
}
BETWEEN = (1 / 3, 2 / 3)  # where levels between two rungs are tried, on a logarithmic scale
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
    ladder: Sequence[float], most_loss: float, point: Callable[[float], FrontierPoint], between: bool = True
) -> list[FrontierPoint]:
    """The ladder climbed until a level loses hopelessly much, then a closer look above the cheapest that is allowed.

    `most_loss` is the guarded loss that is allowed, `point(level)` has the figures of a level, and `between` says
    whether there are levels between two rungs.
    """
    points: list[FrontierPoint] = []
    for level in ladder:
        points.append(point(level))
        if points[-1].guarded_loss > HOPELESS * max(most_loss, 0.0) and len(points) > 1:
            break
    best = chosen_level(points, most_loss)
    if best is not None and between:
        above = ladder[ladder.index(best.level) + 1 :][:1]
        points += [point(best.level * (level / best.level) ** share) for level in above for share in BETWEEN]
    return sorted(points, key=lambda one: one.level)


def chosen_level(frontier: Sequence[FrontierPoint], most_loss: float) -> FrontierPoint | None:
    """The cheapest level whose guarded loss is allowed; None where there is none."""
    allowed = [point for point in frontier if point.guarded_loss <= most_loss]
    return min(allowed, key=lambda point: point.cost) if allowed else None
