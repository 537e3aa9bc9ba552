"""The benchmark of wide tables runs, and says what it measured."""

from benchmarks import wide


def test_tables_are_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(wide, "N_COLUMNS", (20,))
    monkeypatch.setattr(wide, "MEGABYTES", (1,))
    assert wide.main(["--repeats", "1", "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "line 3848: a quotation mark is never closed" in out
    assert "multiform fit --help" in out
