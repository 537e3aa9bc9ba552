"""False alarms and detection are counted of the right rows and files."""

import numpy as np
import pytest

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


@pytest.mark.slow
@pytest.mark.parametrize("source", familiarity.SOURCES)
@pytest.mark.parametrize("n", [60, 300])
def test_at_most_one_file_in_a_hundred_is_warned_of(source, n):
    """20 training tables, 40 fresh files each: more than 16 warnings of 800 are beyond chance at 1 %."""
    parts = [familiarity.unchanged(source, n, number, seed=7) for number in range(20)]
    assert sum(one.shifted for part in parts for files in part.values() for one in files) <= 16
