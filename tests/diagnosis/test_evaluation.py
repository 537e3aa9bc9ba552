"""Nested figures against a loop by hand; rivals and trees; the pictures."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from multiform import DiagnosisPlanner
from multiform.diagnosis import BASELINES, Tariff
from multiform.diagnosis._trees import Node, eg2_tree, streed_tree, walk
from tests.diagnosis.worlds import COSTS, patients


@pytest.fixture(scope="module")
def data():
    return patients(120)


@pytest.fixture(scope="module")
def planner():
    return DiagnosisPlanner(COSTS, cv=2, tolerance=0.02, random_state=0)


@pytest.fixture(scope="module")
def evaluation(data, planner):
    return planner.evaluate(*data, cv=2, baselines=[name for name in BASELINES if name != "pystreed"])


def test_the_plan_is_evaluated_as_a_user_would(data, planner, evaluation):
    X, y = data
    [seed] = np.random.SeedSequence(0).generate_state(1).tolist()
    right, full, cost = np.zeros(len(y)), np.zeros(len(y)), np.zeros(len(y))
    for train, test in StratifiedKFold(2, shuffle=True, random_state=seed).split(X, y):
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


def test_rivals(evaluation):
    rows = {row.name: row for row in evaluation.baselines}
    assert set(rows) == set(BASELINES) - {"pystreed", "regret stop"}  # the latter is the plan
    assert rows["full panel"].change == 0
    assert rows["full panel"].cost_share == pytest.approx(1)
    assert rows["EG2 tree"].accuracy > 0.6
    for row in rows.values():
        assert 0 <= row.cost <= evaluation.panel_cost + 1e-9
    assert rows["fixed order"].cost == pytest.approx(evaluation.plan.cost, rel=0.25)
    assert len(evaluation.orders) == 2
    assert "full evidence costs 181.00" in str(evaluation)


def test_the_frontier_goes_from_careful_to_careless(evaluation):
    costs = [row.cost for row in evaluation.frontier]
    assert costs[0] > costs[-1]
    assert evaluation.frontier[0].name == "level 1e-05"


def test_orders_without_a_search_have_frontiers_too(evaluation):
    assert set(evaluation.rival_frontiers) == {"cheapest first", "information per cost"}
    for name, rows in evaluation.rival_frontiers.items():
        assert [row.name for row in rows] == [f"{name}, {own.name}" for own in evaluation.frontier]
        assert evaluation.cost_at(-1.0, name) == min(row.cost_share for row in rows)


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
    once = fast.evaluate(X, y, cv=2, baselines=[], frontier=False)
    twice = fast.evaluate(X, y, cv=2, repeats=2, baselines=[], frontier=False)
    assert (twice.n_repeats, twice.n_patients) == (2, len(y))
    assert twice.plan.cost_error < 2 * once.plan.cost_error
    assert twice.frontier == twice.baselines == ()


def test_unknown_baselines_are_refused(data, planner):
    with pytest.raises(ValueError, match=r"no baseline is named \['magic'\]; there are"):
        planner.evaluate(*data, baselines=["magic"])
    with pytest.raises(ValueError, match="must be 'auto' or a sequence of"):
        planner.evaluate(*data, baselines="magic")


def test_a_tree_pays_for_a_test_once():
    tariff = Tariff.of({"a": 10, "b": 20}, groups={"g": {"a": 4, "b": 5}})
    owner = np.array([0, 0, 1])
    tree = Node(0, 0, Node(1, 0, Node(-1, 0), Node(-1, 1)), Node(2, 0, Node(-1, 1), Node(-1, 0)))
    asked = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 0, 1]], dtype=bool)
    cost, answer = walk(tree, asked, owner, tariff)
    assert cost.tolist() == [10, 10, 15, 15]
    assert answer.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("grow", [eg2_tree, streed_tree])
def test_trees_prefer_the_cheaper_of_two_good_tests(grow):
    if grow is streed_tree:
        pytest.importorskip("pystreed")
    rng = np.random.default_rng(0)
    target = rng.integers(0, 2, 200).astype(np.int32)
    nearly = target == 1
    nearly[0] = ~nearly[0]  # STreeD drops a question that equals another one
    asked = np.column_stack([target == 1, nearly, rng.random(200) < 0.5])
    tree = grow(asked, target, np.arange(3), Tariff.of({"dear": 50, "cheap": 5, "noise": 1}))
    assert tree.question == 1
    cost, answer = walk(tree, asked, np.arange(3), Tariff.of({"dear": 50, "cheap": 5, "noise": 1}))
    assert (answer == target).sum() == 199
    assert cost.mean() < 7  # noise is asked about at most


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pystreed", None)
    with pytest.raises(ImportError, match="pip install pystreed"):
        streed_tree(
            np.ones((2, 1), dtype=bool), np.array([0, 1], dtype=np.int32), np.zeros(1, int), Tariff.of({"a": 1})
        )


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
