"""Rivals of a plan in the same outer folds, and the trees among them."""

import numpy as np
import pytest

from benchmarks.rivals import BASELINES, compare
from benchmarks.sets_of_tests import CURVES, joint_order
from benchmarks.trees import Node, eg2_tree, streed_tree, walk
from multiform import DiagnosisPlanner
from multiform.diagnosis import Tariff
from tests.diagnosis.worlds import COSTS, patients


@pytest.fixture(scope="module")
def data():
    return patients(120)


@pytest.fixture(scope="module")
def planner():
    return DiagnosisPlanner(COSTS, cv=2, tolerance=0.02, random_state=0)


@pytest.fixture(scope="module")
def comparison(data, planner):
    return compare(planner, *data, cv=2, baselines=[name for name in BASELINES if name != "pystreed"])


def test_the_plan_is_the_one_that_is_evaluated_alone(data, planner, comparison):
    alone = planner.evaluate(*data, cv=2)
    assert comparison.evaluation.plan == alone.plan
    assert comparison.evaluation.orders == alone.orders


def test_rivals(comparison):
    rows = {row.name: row for row in comparison.baselines}
    assert set(rows) == set(BASELINES) - {"pystreed", "regret stop"}  # the latter is the plan
    assert rows["full panel"].change == 0
    assert rows["full panel"].cost_share == pytest.approx(1)
    assert rows["EG2 tree"].accuracy > 0.6
    evaluation = comparison.evaluation
    for row in rows.values():
        assert 0 <= row.cost <= evaluation.panel_cost + 1e-9
    assert rows["fixed order"].cost == pytest.approx(evaluation.plan.cost, rel=0.25)
    told = str(comparison).splitlines()
    assert "full evidence costs 181.00" in told[0]
    names = [evaluation.plan.name, *rows, *(row.name for row in evaluation.frontier)]
    assert [line[:24].strip() for line in told[2:]] == [name[:24].strip() for name in names]


def test_orders_without_a_search_have_frontiers_too(comparison):
    assert set(comparison.rival_frontiers) == {"cheapest first", "information per cost", *CURVES}
    for name, rows in comparison.rival_frontiers.items():
        if name in CURVES:  # a point for each set, or depth
            assert len(rows) in (len(COSTS), 8)
            continue
        assert [row.name for row in rows] == [f"{name}, {own.name}" for own in comparison.evaluation.frontier]
        assert comparison.cost_at(-1.0, name) == min(row.cost_share for row in rows)
    assert comparison.cost_at(-0.01) == comparison.evaluation.cost_at(-0.01)


def test_joint_information_prefers_what_tells_most_for_its_price():
    X, y = patients(300)
    tariff = Tariff.of(COSTS)
    order = joint_order(X, y, np.arange(4), tariff)
    assert order[:2] == (0, 1)  # talk is cheap and tells much; blood costs a fifth of a scan
    cheap = Tariff.of({**COSTS, "talk": 1e6})
    assert joint_order(X, y, np.arange(4), cheap)[0] == 1


def test_unknown_baselines_are_refused(data, planner):
    with pytest.raises(ValueError, match=r"no baseline is named \['magic'\]; there are"):
        compare(planner, *data, baselines=["magic"])


def test_a_tree_pays_for_a_test_once():
    tariff = Tariff.of({"a": 10, "b": 20}, discounts={"g": {"a": 4, "b": 5}})
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
