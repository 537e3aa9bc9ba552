"""The benchmark of costs, on a folder small enough to check."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import diagnosis
from benchmarks.rivals import Comparison
from multiform.diagnosis import Evaluation, EvaluationRow
from tests.diagnosis.worlds import patients


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


def test_prices(folder):
    costs, discounts, unverified = diagnosis.prices(folder, "pima")
    assert costs == {"a": 1, "b": 9, "c": 8, "d": 2}
    assert discounts == {"G": {"b": 5, "c": 4}}
    assert unverified == 1


def test_only_heart_disease_without_a_folder():
    assert [problem.name for problem in diagnosis.problems(None, list(diagnosis.SETS))] == ["heart"]


def test_command_writes_the_tables(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(diagnosis.SETTINGS, "pima", {"search": "beam", "beam_width": 2, "cv": 2})
    baselines = "full panel,cheapest first,EG2 tree"
    options = ["--data", str(folder), "--only", "pima", "--repeats", "1", "--baselines", baselines]
    assert diagnosis.main([*options, "--n-jobs", "1", "--output", str(tmp_path / "out")]) == 0
    assert "1 of its prices are recalled, not verified" in capsys.readouterr().out
    written = (tmp_path / "out" / "diagnosis-pima.md").read_text()
    assert "full panel" in written
    assert "At a tree's cost" in written
    assert "At an order's accuracy" in written


def test_accuracy_at_a_tree_s_cost_lies_between_two_levels():
    def row(name, cost, accuracy):
        return EvaluationRow(name, accuracy, 0.0, 0.0, cost, 0.0, cost / 10)

    levels = (row("level 0.1", 4.0, 0.9), row("level 0.2", 2.0, 0.8), row("level 0.3", 3.0, 0.7))
    told = Comparison(Evaluation(levels[0], levels, 0.9, 0.9, 10.0, 5, 5, 1, ()), (row("EG2 tree", 3.5, 0.6),), {})
    assert diagnosis.at_their_cost(told, "EG2 tree")["plan"] == pytest.approx(0.85)  # 0.3 is no use to anybody
    assert diagnosis.at_their_cost(told, "pystreed") is None
    bare = replace(told, baselines=(row("EG2 tree", 1.0, 0.6),))
    assert np.isnan(diagnosis.at_their_cost(bare, "EG2 tree")["plan"])


def test_unknown_sets_are_refused():
    with pytest.raises(SystemExit, match="no set is named"):
        diagnosis.main(["--only", "liver"])
