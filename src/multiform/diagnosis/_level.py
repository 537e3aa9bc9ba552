"""Which stopping level: what plans cost and forgo at each, of patients whom they were not made from.

A level is judged by patients whom its plan was not made from: a plan is made on the patients of all folds but one and
followed by those of that one, whose scores no model had seen and whose doubts come from a trust learnt without them.
Where they go does not depend on the level, only where they stop: one walk to the end of a plan tells of all levels
(`Trace`), and plans, which change slowly with the level, are made at a few of them (`ANCHORS`). Two figures are kept of
each patient: the bill, and what was forgone, the chance that full evidence gives its own answer less the chance that it
gives the plan's. The mean of the latter, with its standard error added, is the loss that a level is charged with,
smoothed so that it grows with the level. The error counts one patient more, who forgoes a quarter, so that it is never
nothing. The cheapest level whose loss is allowed is chosen; with a budget, the one of the least loss among plans that
never cost more. Orders are never searched against a count of errors: such a search finds orders that are lucky on the
patients at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from multiform import progress
from multiform._typing import Array, Doubles, Indices
from multiform.diagnosis._eases import Walked
from multiform.diagnosis._judge import Opinion, suffices
from multiform.diagnosis._tariff import members

LADDERS = {
    # A law learnt from few patients promises far too little regret: there the right level may be the first.
    "regret": (1e-5, 3e-5, 1e-4, 3e-4, 0.001, 0.002, 0.004, 0.008, 0.015, 0.03, 0.045, 0.06, 0.09, 0.12, 0.2, 0.3, 0.5),
    "calibrated": (0.001, 0.003, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.15, 0.18, 0.22, 0.3, 0.4),
}
# Levels that orders and trees are searched at while the level is chosen: they change slowly with it.
ANCHORS = {"regret": (0.001, 0.004, 0.015, 0.06, 0.2), "calibrated": (0.01, 0.06, 0.12, 0.22)}
GUARD = 1.0  # standard errors that a level is charged with
ONE_MORE = 0.25  # what a patient forgoes who is counted beside those at hand
BETWEEN = (1 / 3, 2 / 3)  # where levels between two rungs are tried, on a logarithmic scale
LEAST_LEVEL = 1e-12
HOPELESS = 4.0  # a level that loses so many times what is allowed ends the climb
FIRST_RUNG = 0.4  # of the time of the search, that the first level takes


@dataclass(frozen=True)
class FrontierPoint:
    """Cross-fitted figures of one level.

    Attributes
    ----------
    level : float
    cost, cost_share : float
        Mean bill, and as a share of the full panel.
    loss, loss_error : float
        Mean chance forgone against full evidence, and its standard error; with `losses`, the mean loss.
    accuracy : float
        That of full evidence, cross-fitted, less the loss. It is not counted: who stops has been decided by models that
        agree with those at hand, so that among few patients a count flatters the plan by a point or two.
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
        """The loss that the level is charged with: its standard error is added, against optimism."""
        return self.loss + GUARD * self.loss_error


class Trace:
    """What `n` patients have paid and are told at every step of their way if nobody stops before its end.

    Where they go depends on results, not on the level, so that one walk says what comes of every level. `parts` are the
    patients of each fold, and who of the others says how the level is eased along the plan that these follow.
    """

    def __init__(self, n: int) -> None:
        self._n, self._steps = n, []  # type: int, list[tuple[int, Array, Array, Doubles, Doubles, Array]]
        self._said: list[tuple[Array, Array, Doubles, Doubles, Array]] = []
        self.parts: list[tuple[Array, Walked]] = []

    def listening(
        self, opinion: Callable[[int, Array], Opinion], hour_price: float, clock: Doubles, place: Array
    ) -> Callable[[int, Array], Opinion]:
        """The same opinion, written down; the clock says how long each patient has waited by then, and where it is."""

        def heard(tests: int, patients: Array) -> Opinion:
            answer, chances, doubt = opinion(tests, patients)
            self._steps.append((tests, patients, answer, doubt, hour_price * clock[patients], place[patients]))
            return answer, chances, doubt

        return heard

    def settle(self, patients: Array, prices: Doubles, walked: Walked) -> None:
        """What was heard since the last time is of these patients, who paid so much for each test in the end."""
        own = np.full(self._n, -1)
        own[patients] = np.arange(len(patients))
        paid = np.nan_to_num(prices)
        for tests, who, answer, doubt, waiting, place in self._steps:
            bills = paid[own[who]] @ members([tests], paid.shape[1])[0] + waiting
            self._said.append((who, answer, doubt, bills, place))
        self._steps = []
        self.parts.append((patients, walked))

    @cached_property
    def _table(self) -> tuple[Array, Doubles, Doubles, Array]:
        """Answers, doubts, costs and places of patients, step by step: (n, n_steps); the last step ends all doubt."""
        steps = np.zeros(self._n, dtype=np.int64)
        for who, *_ in self._said:
            steps[who] += 1
        shape = self._n, int(steps.max())
        answers, doubts, costs = np.zeros(shape, dtype=np.int64), np.full(shape, np.inf), np.zeros(shape)
        places, step = np.full(shape, -1), np.zeros(self._n, dtype=np.int64)
        for who, answer, doubt, cost, place in self._said:
            answers[who, step[who]], doubts[who, step[who]], costs[who, step[who]] = answer, doubt, cost
            places[who, step[who]] = place
            step[who] += 1
        doubts[np.arange(self._n), steps - 1] = -np.inf
        return answers, doubts, costs, places

    def at(self, level: float) -> tuple[Doubles, Array]:
        """Bills and answers of patients who stop at this level."""
        answers, doubts, costs, places = self._table
        levels = np.full(doubts.shape, level)
        for patients, walked in self.parts:
            eases = walked.eases(level)
            if eases:
                levels[patients] *= np.array(eases)[places[patients] + 1]
        first = np.arange(self._n), suffices(doubts, levels).argmax(axis=1)
        return costs[first], answers[first]


def standard_error(values: Doubles, groups: Indices | None = None) -> float:
    """Of the mean; where rows belong to groups, which are independent and their rows are not, by the groups' sums.

    ``sqrt(G / (G - 1) sum_g (sum_{i in g} (x_i - mean))^2) / n``, which is the usual one if every row is its own group.
    """
    deviations = values - values.mean()
    sums = deviations if groups is None else np.bincount(np.unique(groups, return_inverse=True)[1], deviations)
    return float(np.sqrt((sums**2).sum() * len(sums) / (len(sums) - 1)) / len(values))


def loss_error(forgone: Doubles, dearest: float, groups: Indices | None) -> float:
    """The standard error of a mean loss, one patient more counted, of the dearest error."""
    return float(np.hypot(standard_error(forgone, groups), ONE_MORE * dearest / len(forgone)))


def _rung(k: int, n: int) -> tuple[float, float]:
    """The part of the time that a level takes: the first learns most of what the others ask, too."""
    begin, end = (0.0 if at == 0 else FIRST_RUNG + (1 - FIRST_RUNG) * (at - 1) / max(1, n - 1) for at in (k, k + 1))
    return begin, end


def considered(
    ladder: Sequence[float],
    most_loss: float,
    point: Callable[[float], FrontierPoint],
    between: bool = True,
) -> list[FrontierPoint]:
    """The ladder climbed until a level loses hopelessly much, then a closer look above the cheapest that is allowed."""
    points: list[FrontierPoint] = []
    for k, level in enumerate(ladder):
        with progress.part(*_rung(k, len(ladder))):
            points.append(point(level))
        if points[-1].guarded_loss > HOPELESS * max(most_loss, 0.0) and len(points) > 1:
            break
    best = chosen_level(points, most_loss)
    if best is not None and between:
        above = ladder[ladder.index(best.level) + 1 :][:1]
        points += [point(best.level * (level / best.level) ** share) for level in above for share in BETWEEN]
    return sorted(points, key=lambda one: one.level)


def least_total(
    ladder: Sequence[float], point: Callable[[float], FrontierPoint], between: bool = True
) -> list[FrontierPoint]:
    """All of the ladder, and a closer look on both sides of the level of the least cost and guarded loss together."""
    points = []
    for k, level in enumerate(ladder):
        with progress.part(*_rung(k, len(ladder))):
            points.append(point(level))
    best = min(range(len(points)), key=lambda k: points[k].cost + points[k].guarded_loss)
    near = [ladder[k] for k in (best - 1, best + 1) if between and 0 <= k < len(ladder)]
    points += [point(float(np.sqrt(level * ladder[best]))) for level in near]
    return sorted(points, key=lambda one: one.level)


def chosen_level(frontier: Sequence[FrontierPoint], most_loss: float) -> FrontierPoint | None:
    """The cheapest level whose guarded loss is allowed, smoothed to grow with the level; None where there is none."""
    careful = sorted(frontier, key=lambda point: point.level)
    from sklearn.isotonic import IsotonicRegression  # it takes a while to load

    charged = IsotonicRegression().fit_transform(range(len(careful)), [point.guarded_loss for point in careful])
    allowed = [point for point, loss in zip(careful, charged, strict=True) if loss <= most_loss]
    return min(allowed, key=lambda point: point.cost) if allowed else None
