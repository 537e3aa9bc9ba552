"""The contest of ways to diagnose, on sets small enough to check."""

import numpy as np
import pytest

from benchmarks import contest, curves, diagnosis, priced_sets
from benchmarks.contest import CHOSEN, Method, bills
from benchmarks.curves import Curve, Means, better_by, cheaper_by, cheaper_by_curve, estimate
from benchmarks.priced_sets import Problem
from multiform.diagnosis import Tariff
from tests.diagnosis.worlds import COSTS, patients


@pytest.fixture
def folder(tmp_path):
    """Pima's columns, invented patients."""
    X, y = patients(120)
    (tmp_path / "raw").mkdir()
    (tmp_path / "costs").mkdir()
    np.savetxt(tmp_path / "raw" / "pima-indians-diabetes.data", np.column_stack([X, y]))
    rows = ["# prices", "pima,a,1,1,,immediate,exact", "pima,b,9,5,G,delayed,memory", "pima,c,8,4,G,delayed,exact"]
    rows += ["pima,d,2,2,,immediate,exact", "heart,age,1,1,,immediate,exact"]
    (tmp_path / "costs" / "turney_costs.csv").write_text("\n".join(rows))
    return tmp_path


def curve(**points):
    """Of one repeat and two patients: each point is two costs and two right answers."""
    return Curve.of([{name: (np.array(cost), np.array(right)) for name, (cost, right) in points.items()}])


def test_prices(folder):
    costs, discounts, unverified = priced_sets.prices(folder, "pima")
    assert costs == {"a": 1, "b": 9, "c": 8, "d": 2}
    assert discounts == {"G": {"b": 5, "c": 4}}
    assert unverified == 1


def test_the_first_test_of_a_cube_says_which_three_matter():
    X, y = priced_sets.cube(400, context=True)
    for context in (0, 1):
        own = X[:, 0] == context
        bits = X[own][:, 1 + 3 * context : 4 + 3 * context] > 0.5
        assert (bits @ [1, 2, 4] == y[own]).all()


def test_a_bill_has_what_was_done_once_with_discounts():
    tariff = Tariff.of({"a": 10, "b": 20, "c": 7}, discounts={"g": {"a": 4, "b": 5}})
    orders = np.array([[0, 1], [1, 0], [2, -1], [0, 1]])
    undone = np.zeros((4, 3), dtype=bool)
    undone[3, 0] = True
    assert bills(tariff, orders, undone).tolist() == [15, 24, 7, 20]


def test_between_two_points_one_can_mix():
    means = Means({"free": (0.0, 0.5), "a": (0.2, 0.9), "b": (0.3, 0.8), "c": (0.6, 1.0), CHOSEN: (0.1, 0.99)})
    assert means.accuracy_at(0.1) == pytest.approx(0.7)
    assert means.accuracy_at(0.3) == pytest.approx(0.925)  # b is no use to anybody
    assert means.accuracy_at(1.0) == 1.0
    assert means.cost_at(0.95) == pytest.approx(0.4)
    assert means.cost_at(0.4) == 0
    assert np.isnan(means.cost_at(1.01))


def test_differences_at_the_plan_s_accuracy_and_cost():
    plan = Means({"free": (0.0, 0.5), "careful": (0.5, 0.9), CHOSEN: (0.4, 0.8)})
    rival = Means({"free": (0.0, 0.5), "a": (0.3, 0.8)})
    assert cheaper_by(plan, rival) == pytest.approx(0.1)
    assert cheaper_by_curve(plan, rival) == pytest.approx(0.375 - 0.3)
    assert better_by(plan, rival) == pytest.approx(0.0)
    assert cheaper_by(plan, Means({"free": (0.0, 0.5)})) == pytest.approx(0.4 - 1.0)  # it never gets there


def test_standard_errors_are_those_of_a_mean(monkeypatch):
    monkeypatch.setattr(curves, "DRAWS", 2000)
    rng = np.random.default_rng(0)
    right = rng.random((6, 1, 50)) < 0.7
    found = estimate(lambda means: means.points["a"][1], Curve(("a",), np.zeros(right.shape), right.astype(float)))
    assert found.value == pytest.approx(right.mean())
    assert found.over_repeats == pytest.approx(right.mean(axis=(1, 2)).std(ddof=1) / np.sqrt(6))
    assert found.over_patients == pytest.approx(right.mean(axis=(0, 1)).std() / np.sqrt(50), rel=0.1)
    assert np.isnan(estimate(lambda means: means.points["a"][1], curve(a=([0, 0], [1, 0]))).over_repeats)


def test_results_are_kept_by_their_recipe(tmp_path):
    problem, calls = Problem("few", *patients(40), COSTS, {}), []

    def run(problem, train, test, seed):
        calls.append(len(test))
        return {"all": (np.full(len(test), 181.0), np.ones(len(test), dtype=bool))}

    def kept(problem, seed=0, run_it=True):
        return contest.kept_repeat(tmp_path, "all of it", Method(run, b""), problem, 0, seed, run_it)

    first = kept(problem)
    assert sum(calls) == 40
    assert first["all"][0].tolist() == [1.0] * 40
    assert set(first) == {"free", "all"}
    again = kept(problem)
    assert len(calls) == contest.N_FOLDS  # not run again
    assert all((again[name][1] == first[name][1]).all() for name in first)
    assert kept(problem, seed=1, run_it=False) is None  # of another seed
    assert contest.kept_repeat(tmp_path, "all of it", Method(run, b"newer"), problem, 0, 0, False) is None
    assert kept(Problem("few", problem.X + 1, problem.y, COSTS, {}), run_it=False) is None


def test_command_runs_what_is_missing_and_tells_who_pays_less(folder, tmp_path, capsys, monkeypatch):
    def plan(problem, train, test, seed):
        """Buys everything, and is right for those whom talk alone answers."""
        right = (problem.X[test, 0] > 0.5) == problem.y[test]
        everything = np.full(len(test), problem.tariff.panel_cost), right
        return {CHOSEN: everything, "full evidence": everything}

    def classifier(problem, train, test, seed):
        return {"full evidence": (np.full(len(test), problem.tariff.panel_cost), np.ones(len(test), dtype=bool))}

    monkeypatch.setitem(diagnosis.METHODS, "plan", Method(plan, b""))
    monkeypatch.setitem(diagnosis.METHODS, "QMSClassifierCV on all tests", Method(classifier, b""))
    options = [
        "--data",
        str(folder),
        "--sets",
        "pima",
        "--repeats",
        "2",
        "--n-jobs",
        "1",
        "--output",
        str(tmp_path / "o"),
    ]
    rivals = "plan,logistic on the cheapest,CART by depth"
    assert diagnosis.main([*options, "--peers", "--methods", rivals]) == 0
    assert "on 0 of 0 sets" in capsys.readouterr().out
    assert diagnosis.main([*options, "--ours", "--methods", rivals]) == 0
    told = capsys.readouterr().out
    assert "repeat 0" in told
    assert "CART by depth, repeat" not in told  # kept from before
    assert "s.e. over repeats: on 1 of 1 sets some simple rival is cheaper" in told
    assert "pima: 1 of its prices are recalled, not verified" in told
    assert diagnosis.main([*options, "--kept", "--methods", rivals, "--repeats", "1"]) == 0
    single = capsys.readouterr().out
    assert "s.e. over patients: on 1 of 1 sets" in single
    assert "s.e. over repeats: on" not in single  # one repeat does not tell
    assert diagnosis.main([*options, "--kept", "--methods", rivals]) == 0
    written = (tmp_path / "o" / "diagnosis.md").read_text()
    assert "| pima | logistic on the cheapest | 2 |" in written
    assert "Curves: % right for a share of the panel" in written
    assert "Full evidence" not in written
    assert diagnosis.main([*options, "--methods", "plan,QMSClassifierCV on all tests"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "100.0%" in line and "+-" in line)
    assert row.split()[0] == "pima"


def test_unknown_sets_and_methods_are_refused():
    with pytest.raises(SystemExit, match="no set is named 'liver'"):
        diagnosis.main(["--sets", "liver"])
    with pytest.raises(SystemExit, match=r"no method is named \['magic'\]"):
        diagnosis.main(["--methods", "magic"])


def test_the_plan_is_told_right_where_it_names_the_diagnosis():
    """Also where labels are no 0 and 1: the points of the planner hold right answers, not the answers."""
    rng = np.random.default_rng(0)
    y = np.repeat([3, 7], 60)
    X = np.column_stack([y + rng.normal(0, 0.1, 120), rng.normal(size=120)])
    problem = Problem("clear", X, y, {"tells": 1.0, "noise": 5.0}, {})
    train, test = np.arange(120)[::2], np.arange(120)[1::2]
    for method in (diagnosis.METHODS["plan"], diagnosis.METHODS["QMSClassifierCV on all tests"]):
        points = method.run(problem, train, test, 0)
        assert points["full evidence"][1].dtype == bool
        assert points["full evidence"][1].mean() > 0.9
        turned = Problem("clear", X, np.where(np.isin(np.arange(120), test), 10 - y, y), problem.costs, {})
        assert method.run(turned, train, test, 0)["full evidence"][1].mean() < 0.1
