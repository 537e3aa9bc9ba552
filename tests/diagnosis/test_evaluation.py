"""Nested figures against a loop by hand; the pictures."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from multiform import DiagnosisPlanner
from multiform.folds import drawn_folds, splits_of
from tests.diagnosis.worlds import COSTS, patients

# Of many fresh patients, one or the other has a result beyond what so few training patients had.
pytestmark = pytest.mark.filterwarnings("ignore::multiform.columns.UnfamiliarWarning")


@pytest.fixture(scope="module")
def data():
    return patients(120)


@pytest.fixture(scope="module")
def planner():
    return DiagnosisPlanner(COSTS, cv=2, tolerance=0.02, random_state=0)


@pytest.fixture(scope="module")
def evaluation(data, planner):
    return planner.evaluate(*data, cv=2)


def test_the_plan_is_evaluated_as_a_user_would(data, planner, evaluation):
    X, y = data
    [seed] = np.random.SeedSequence(0).generate_state(1).tolist()
    right, full, cost = np.zeros(len(y)), np.zeros(len(y)), np.zeros(len(y))
    for train, test in splits_of(drawn_folds(y, 2, np.random.default_rng(seed))):
        fitted = clone(planner).fit(X[train], y[train])
        bought = fitted.acquire(X[test])
        right[test], full[test] = bought.answer == y[test], fitted.predict_full(X[test]) == y[test]
        cost[test] = bought.cost
    assert evaluation.plan.accuracy == pytest.approx(right.mean())
    assert evaluation.full_accuracy == pytest.approx(full.mean())
    assert evaluation.plan.change == pytest.approx((right - full).mean())
    assert evaluation.plan.change_error == pytest.approx((right - full).std(ddof=1) / np.sqrt(len(y)))
    assert evaluation.plan.cost == pytest.approx(cost.mean())
    assert evaluation.plan.cost_share == pytest.approx(cost.mean() / sum(COSTS.values()))


def test_a_table_of_figures(evaluation):
    assert len(evaluation.orders) == 2
    told = str(evaluation).splitlines()
    assert "full evidence costs 181.00" in told[0]
    assert [line[:24].strip() for line in told[2:]] == ["plan", *(row.name for row in evaluation.frontier)]


def test_the_frontier_goes_from_careful_to_careless(evaluation):
    costs = [row.cost for row in evaluation.frontier]
    assert costs[0] > costs[-1]
    assert evaluation.frontier[0].name == "level 1e-05"


def test_the_cost_at_an_accuracy_is_read_between_two_levels(evaluation):
    def row(share, change):
        return replace(evaluation.plan, cost_share=share, change=change)

    found = replace(evaluation, frontier=(row(0.6, -0.01), row(0.2, -0.05), row(0.4, -0.06)))
    assert found.cost_at(-0.07) == 0.2
    assert found.cost_at(-0.05) == 0.2
    assert found.cost_at(-0.03) == pytest.approx(0.5)  # between 40 % and 60 %: who pays more keeps no less
    assert found.cost_at(-0.01) == pytest.approx(0.6)
    assert found.cost_at(-0.0025) == pytest.approx(0.9)  # a mixture with the full panel
    assert found.cost_at(0.0) == 1
    assert np.isnan(found.cost_at(0.01))  # nothing is better than full evidence here


def test_repeats_count_a_patient_once(data, planner):
    X, y = data
    fast = clone(planner).set_params(level=0.01)
    once = fast.evaluate(X, y, cv=2, frontier=False)
    twice = fast.evaluate(X, y, cv=2, repeats=2, frontier=False)
    assert (twice.n_repeats, twice.n_patients) == (2, len(y))
    assert twice.plan.cost_error < 2 * once.plan.cost_error
    assert twice.frontier == ()


def test_pictures(data, planner, evaluation):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    from multiform.displays import CostAccuracyDisplay, PlanDisplay

    fitted = clone(planner).set_params(policy="adaptive", level=0.01).fit(*data)
    plan = PlanDisplay.from_estimator(fitted, least_share=0.0)
    texts = [text.get_text() for text in plan.ax_.texts]
    for step in plan.steps:
        assert any(text.startswith(f"{step.test}  {step.price:.2f}") for text in texts)
    for frontier in (CostAccuracyDisplay.from_evaluation(evaluation), CostAccuracyDisplay.from_estimator(fitted)):
        assert frontier.ax_.get_xlabel() == "Cost, % of the full panel"
    _, ax = pyplot.subplots()
    assert plan.plot(ax=ax).ax_ is ax
    pyplot.close("all")
