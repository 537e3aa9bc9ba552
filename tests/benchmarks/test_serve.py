"""The benchmark of the page runs, and says what it measured."""

import pytest

from benchmarks import serve


@pytest.mark.slow
def test_tables_are_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(serve, "N_BLOCK", 300)
    assert serve.main(["--repeats", "1", "--cases", "1", "--requests", "3", "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    for title in ("To the first question", "An answer after a result", "one row", "300 x 784", "Arrow IPC", "JSON"):
        assert title in out
