"""Rivals of a plan: their orders, their trees, and networks that select."""

import numpy as np
import pytest

from benchmarks import gdfs, masked_network
from benchmarks.aaco import aaco, set_costs
from benchmarks.contest import fold_of, folds_of
from benchmarks.cost_trees import by_budget, cart, eg2
from benchmarks.priced_sets import Problem, cube, uniform
from benchmarks.sets_of_tests import at_random, cheapest_first, joint_order
from benchmarks.trees import Node, greedy_tree, streed_tree, walk
from multiform.diagnosis import Tariff
from tests.diagnosis.worlds import COSTS, patients


def fold(problem, seed=0):
    _, splits = folds_of(problem, 0, seed)
    return fold_of(problem, *splits[0], seed)[0]


@pytest.fixture(scope="module")
def priced():
    return fold(Problem("patients", *patients(200), COSTS, {}))


def gated(n=400):
    """The first test says which of two others tells the class; three say nothing."""
    rng = np.random.default_rng(0)
    y, which = rng.integers(0, 2, (2, n))
    X = rng.normal(size=(n, 6))
    X[:, 0] = which
    X[np.arange(n), 1 + which] = 2 * y - 1 + rng.normal(0, 0.1, n)
    return uniform("gated", X, y)


def test_joint_information_prefers_what_tells_most_for_its_price():
    X, y = patients(300)
    order = joint_order(X, y, np.arange(4), Tariff.of(COSTS))
    assert order[:2] == (0, 1)  # talk is cheap and tells much; blood costs a fifth of a scan
    assert joint_order(X, y, np.arange(4), Tariff.of({**COSTS, "talk": 1e6}))[0] == 1


def test_orders_without_a_look_at_the_answers(priced):
    assert [priced.tariff.tests[t] for t in cheapest_first(priced)] == ["talk", "blood", "noise", "scan"]
    assert sorted(at_random(priced)) == [0, 1, 2, 3]


def test_a_tree_asks_for_a_test_once():
    owner = np.array([0, 0, 1])
    tree = Node(0, 0, Node(1, 0, Node(-1, 0), Node(-1, 1)), Node(2, 0, Node(-1, 1), Node(-1, 0)))
    asked = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 0, 1]], dtype=bool)
    orders, answer = walk(tree, asked, owner)
    assert orders.tolist() == [[0, -1], [0, -1], [0, 1], [0, 1]]
    assert answer.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("name", ["EG2", "pystreed"])
def test_trees_prefer_the_cheaper_of_two_good_tests(name):
    if name == "pystreed":
        pytest.importorskip("pystreed")
    rng = np.random.default_rng(0)
    target = rng.integers(0, 2, 200).astype(np.int32)
    nearly = target == 1
    nearly[0] = ~nearly[0]  # STreeD drops a question that equals another one
    data = np.column_stack([target == 1, nearly, rng.random(200) < 0.5]), target, np.arange(3)
    tariff = Tariff.of({"dear": 50, "cheap": 5, "noise": 1})
    grow, setting = (greedy_tree, {"weight": 1.0}) if name == "EG2" else (streed_tree, {"error_panels": 20.0})
    tree = grow(*data, tariff, **setting)
    assert tree.question == 1
    orders, answer = walk(tree, data[0], data[2])
    assert (answer == target).sum() == 199
    assert not (orders == 0).any()


def test_a_greedy_tree_stays_within_its_budget(priced):
    budgets = dict(by_budget(priced))
    bought = {name: set(orders[orders >= 0].tolist()) for name, (orders, _) in budgets.items()}
    assert bought["budget 0.01"] == {0}  # 1.81: talk alone
    assert bought["budget 1"] >= {0, 1, 2}
    for name, (orders, _) in budgets.items():
        paid = [sum(priced.tariff.bill([t for t in way if t >= 0])) for way in orders.tolist()]
        assert max(paid) <= float(name.split()[1]) * priced.tariff.panel_cost + 1e-9


def test_trees_ask_where_results_fall_apart():
    problem = uniform("cube", *cube(300, context=False))
    truth = problem.y[folds_of(problem, 0, 0)[1][0][1]]
    orders, answer = dict(by_budget(fold(problem)))["budget 0.15"]
    assert (answer == truth).mean() > 0.95  # each bit is one question
    assert set(orders.ravel().tolist()) <= {-1, 1, 2, 3}


def test_trees_by_depth(priced):
    for curve in (cart, eg2):
        points = dict(curve(priced))
        assert len(points) == 8
        assert (points["depth 1"][0] >= 0).sum(axis=1).max() == 1
        orders, answer = points["depth 3"]
        assert len(orders) == len(answer) == len(priced.asked)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pystreed", None)
    data = np.ones((2, 1), dtype=bool), np.array([0, 1], dtype=np.int32), np.zeros(1, int), Tariff.of({"a": 1})
    with pytest.raises(ImportError, match="pip install pystreed"):
        streed_tree(*data, error_panels=1.0)
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(ImportError, match="GDFS and AACO need torch"):
        masked_network.imported_torch()


def test_sets_cost_what_their_cheapest_order_does():
    tariff = Tariff.of({"a": 10, "b": 20, "c": 7}, discounts={"g": {"a": 4, "b": 5}})
    sets = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 1], [1, 1, 0], [1, 1, 1]], dtype=bool)
    assert set_costs(tariff, sets).tolist() == [0, 10, 27, 15, 22]


@pytest.mark.slow
def test_networks_find_the_context_and_what_it_points_to(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(masked_network, "EPOCHS", 25)
    monkeypatch.setattr(gdfs, "EPOCHS", 12)
    problem = gated()
    given = fold(problem)
    truth = problem.y[folds_of(problem, 0, 0)[1][0][1]]
    orders, answer = dict(gdfs.gdfs(given))["3 tests"]  # greedy: the context alone says nothing
    assert set(orders.ravel().tolist()) <= {0, 1, 2}
    assert (answer == truth).mean() > 0.9
    found = dict(aaco(given))
    orders, answer = found["price 0.4"]
    n_tests = (orders >= 0).sum(axis=1)
    assert (answer == truth).mean() > 0.9
    assert n_tests.mean() < 3
    assert (found["price 0.05"][0] >= 0).sum() >= n_tests.sum() >= (found["price 6"][0] >= 0).sum()
