"""The benchmark of costs, on a folder small enough to check."""

import numpy as np
import pytest

from benchmarks import diagnosis
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
    costs, groups, unverified = diagnosis.prices(folder, "pima")
    assert costs == {"a": 1, "b": 9, "c": 8, "d": 2}
    assert groups == {"G": {"b": 5, "c": 4}}
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


def test_unknown_sets_are_refused():
    with pytest.raises(SystemExit, match="no set is named"):
        diagnosis.main(["--only", "liver"])
