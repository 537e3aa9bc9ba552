"""Which levels are considered, which one is chosen, and how it is eased along a plan."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform import DiagnosisPlanner
from multiform.diagnosis import FrontierPoint
from multiform.diagnosis._eases import MOST_EASE, PANELS, Walked
from multiform.diagnosis._judge import NOBODY_STOPS
from multiform.diagnosis._level import LADDERS, chosen_level, considered
from multiform.diagnosis._plan import Plan, follow
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
            walked = Walked(planning.blind_to(fold), plan, planning.judge.models.fold != fold)
            eased = replace(plan, eases=walked.eases(level))
            found = follow(eased, planning.tariff, opinion, level, planning.values, planning.undone, own)
            cost, answer = trace.at(level)
            np.testing.assert_allclose(cost[own], found.cost)
            np.testing.assert_array_equal(answer[own], found.answer)


def walked_along(order, costs, level):
    X, y = patients(300)
    *_, planning = DiagnosisPlanner(costs, level=level, cv=2, random_state=0)._prepare(X, y)
    plan = Plan.of_order(tuple(planning.tariff.position(test) for test in order), 0)
    return planning, Walked(planning, plan, np.ones(300, dtype=bool))


def test_less_doubt_is_asked_for_before_a_cheap_test_than_before_a_dear_one():
    """The test that is last is free in the one tariff, and nearly the whole panel in the other."""
    order = list(COSTS)
    last = {}
    for price in (0.01, 1000.0):
        _, walked = walked_along(order, {**COSTS, order[-1]: price}, 0.02)
        last[price] = walked.eases(0.02)[len(order) - 1]
    assert last[0.01] < 1 < last[1000.0]


def test_eased_levels_cost_the_patients_they_were_learnt_from_no_more():
    """Of these patients nobody pays and forgoes less at any level that is one for all places."""
    planning, walked = walked_along(list(COSTS), COSTS, 0.02)
    plan, level = walked.plan, 0.02
    eases = walked.eases(level)
    assert len(eases) == len(plan) + 1
    assert all(1 / MOST_EASE - 1e-9 <= ease <= MOST_EASE + 1e-9 for ease in eases)

    def total(eases):
        judge = planning.judge
        found = follow(
            replace(plan, eases=eases), planning.tariff, judge.walk(judge.unseen, planning.n), level, planning.values
        )
        forgone = np.zeros(planning.n)
        for node in np.unique(found.node):
            held = 0 if node < 0 else plan.held[node] | 1 << plan.tests[node]
            fact = judge.forgone(judge.unseen_answer(held))[0]
            here = found.node == node
            forgone[here] = ((fact + judge.regrets(np.array([held]))[0]) / 2)[here]
        return float(np.mean(found.cost / planning.tariff.panel_cost + forgone / (PANELS * level)))

    assert total(eases) == pytest.approx(walked.total(level))
    assert total(eases) <= min(total((ease,) * len(eases)) for ease in (0.2, 0.5, 1.0, 2.0, 5.0))


def test_where_nobody_or_everybody_stops_nothing_is_eased():
    _, walked = walked_along(list(COSTS), COSTS, 0.02)
    assert walked.eases(NOBODY_STOPS) == walked.eases(1.0) == ()
