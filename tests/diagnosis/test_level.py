"""Which levels are considered, and which one is chosen."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform import DiagnosisPlanner
from multiform.diagnosis import FrontierPoint
from multiform.diagnosis._plan import follow
from multiform.diagnosis._planning import LADDERS, chosen_level, considered
from tests.diagnosis.worlds import COSTS, gated, patients


def point(level, cost, loss):
    return FrontierPoint(level, cost, cost / 100, loss, 0.0, 0.9, ())


LADDER = LADDERS["regret"]


def world(level):
    """Cost falls and loss rises with the level: the cheapest level allowed is the largest."""
    return point(level, 1 / level, level / 2)


@given(st.floats(1e-3, 0.12))
def test_the_largest_level_allowed_is_nearly_found(most_loss):
    points = considered(LADDER, most_loss, world)
    chosen = chosen_level(points, most_loss)
    below = max(level for level in LADDER if level / 2 <= most_loss)
    above = next((level for level in LADDER if level > below), below)
    assert below <= chosen.level <= 2 * most_loss
    assert chosen.level >= min(2 * most_loss, above) * (below / above) ** 0.34 - 1e-9  # a third of a rung below at most
    assert [one.level for one in points] == sorted(one.level for one in points)


def test_the_climb_ends_where_it_is_hopeless():
    levels = [one.level for one in considered(LADDER, 0.004, world)]
    assert max(levels) == 0.045  # the first that loses four times too much, and more
    assert len(considered(LADDER, 10.0, world)) == len(LADDER)


def test_between_two_betas_there_is_nothing():
    assert [one.level for one in considered((0.1, 0.2), 0.06, world, between=False)] == [0.1, 0.2]


def test_a_standard_error_is_charged():
    sure, unsure = point(0.1, 10.0, 0.004), FrontierPoint(0.2, 5.0, 0.05, 0.004, 0.004, 0.9, ())
    assert unsure.guarded_loss == pytest.approx(0.008)
    assert chosen_level([sure, unsure], 0.005) is sure
    assert chosen_level([unsure], 0.005) is None


@pytest.mark.parametrize("policy", ["fixed", "adaptive"])
def test_one_walk_tells_of_every_level(policy):
    """Who stops at a level pays and is told what the trace says, also where tests were not done."""
    X, y = gated(200) if policy == "adaptive" else patients(150)
    X[::7, 1] = np.nan
    costs = dict(zip(COSTS, (1.0, 20.0, 25.0, 60.0)[: X.shape[1]], strict=False))
    *_, planning = DiagnosisPlanner(costs, policy=policy, level=0.01, cv=2, random_state=0)._prepare(X, y)
    trace = planning._traced(None, 0.015, planning.structure(0.015))
    for fold in (0, 1):
        own = np.flatnonzero(planning.judge.models.fold == fold)
        plan, _ = planning.blind_to(fold).plan(0.015, planning.judge.models.fold != fold)
        for level in (0.0, 0.004, 0.05, 0.3, 1.0):
            judge = planning.judge.without(fold)
            opinion = judge.walk(judge.unseen, planning.n)
            found = follow(plan, planning.tariff, opinion, level, planning.values, planning.undone, own)
            cost, answer = trace.at(level)
            np.testing.assert_allclose(cost[own], found.cost)
            np.testing.assert_array_equal(answer[own], found.answer)
