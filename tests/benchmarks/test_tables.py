"""The result tables: what a person reads, and what is written."""

import csv

import pytest

from benchmarks.tables import Table, publish, run_description, version_of


@pytest.fixture
def table():
    table = Table("Speed", ["model", "fit s", "note"], {"fit s": ".2f"}, notes=["median of three"])
    table.append({"model": "ours", "fit s": 1.0 / 3.0, "note": "a|b"})
    table.append({"model": "a long name", "fit s": None})
    table.append({"model": "third", "fit s": float("nan"), "note": "x"})
    return table


def test_text_is_aligned(table):
    title, header, rule, *body, note = table.as_text().splitlines()
    assert title == "Speed"
    assert set(rule) == {"-"}
    assert len(rule) == max(len(header), *map(len, body))
    assert note == "* median of three"
    # The first column starts, and the numbers end, at the same place in every line.
    end = header.index("fit s") + len("fit s")
    assert body[0].startswith("ours ")
    assert body[0][:end].endswith(" 0.33")
    assert body[1][:end].endswith(" -")
    assert body[2][:end].endswith(" -")


def test_markdown(table):
    lines = table.as_markdown().splitlines()
    assert lines[0] == "## Speed"
    assert lines[2:5] == ["| model | fit s | note |", "| --- | ---: | --- |", r"| ours | 0.33 | a\|b |"]
    assert "* median of three" in lines


def test_unknown_column(table):
    with pytest.raises(ValueError, match=r"'Speed' has no column \['seconds'\]; its columns are \['model'"):
        table.append({"model": "x", "seconds": 1.0})


def test_publish(table, tmp_path, capsys):
    description = run_description("fashion", ["--only", "a, b"], seed=7)
    publish([table], "speed", tmp_path / "new", description)
    printed = capsys.readouterr().out
    assert "command: python -m benchmarks fashion --only 'a, b'" in printed
    assert "seed: 7" in printed
    assert table.as_text() in printed
    assert table.as_markdown() in (tmp_path / "new" / "speed.md").read_text()
    lines = (tmp_path / "new" / "speed.csv").read_text().splitlines()
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    assert float(rows[0]["fit s"]) == 1.0 / 3.0
    assert rows[1]["fit s"] == ""
    assert any(line.startswith("# versions: Python ") for line in lines)


def test_two_tables_two_files(table, tmp_path, capsys):
    publish([table, table], "speed", tmp_path, {})
    assert {path.name for path in tmp_path.iterdir()} == {"speed.md", "speed-1.csv", "speed-2.csv"}


def test_versions():
    import numpy

    assert version_of("numpy") == f"numpy {numpy.__version__}"
    assert version_of("multiform").startswith("multiform ")
    assert version_of("no-such-library") == "no-such-library not installed"
