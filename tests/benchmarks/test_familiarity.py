"""False alarms and detection are counted of the right rows and files."""

import numpy as np

from benchmarks import familiarity


def test_alarms_of_a_changed_file(tmp_path, capsys):
    random = np.random.default_rng(0)
    model = familiarity.fitted(familiarity.clinic(random, 200))
    rows = familiarity.clinic(random, 50)
    for name, change in familiarity.CHANGES.items():
        found = familiarity.alarms(model, change(rows))
        assert found.shifted, name
        assert (found.categories if "categories" in name else found.numbers) > 0.1, name
    assert not familiarity.alarms(model, rows).shifted


def test_tables_are_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(familiarity, "SIZES", (10,))
    monkeypatch.setattr(familiarity, "TRAINING", (60,))
    data = tmp_path / "sets"
    data.mkdir()
    np.savez(data / "one.npz", X=np.random.default_rng(0).normal(size=(80, 3)), y=np.zeros(80))
    assert familiarity.main(["--tables", "1", "--n-jobs", "1", "--output", str(tmp_path), "--data", str(data)]) == 0
    out = capsys.readouterr().out
    assert "1 sets, half of the rows" in out
    assert "dates for numbers" in out
