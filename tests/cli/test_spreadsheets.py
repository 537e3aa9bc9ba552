"""Answers that somebody opens with a spreadsheet program: text from a stranger's table must not run there."""

import csv
import io

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform.cli import main
from multiform.tables import without_formulas

EVIL = "=cmd|' /C calc'!A0"


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    """A table whose labels, cells and names are formulas, and a model that learnt them."""
    path = tmp_path_factory.mktemp("evil")
    pl.DataFrame(
        {
            "size": [float(n % 2) * 3 + n / 100 for n in range(60)],
            "=name": [f"@{n % 3}" for n in range(60)],
            "change": ["-1.5", "+2", "-1e-3", "+49 30 1", "-x", "\tx"] * 10,
            "level": [EVIL, "+ok;=B1"] * 30,
        }
    ).write_csv(path / "table.csv")
    words = [
        "fit",
        "table.csv",
        "-t",
        "level",
        "-o",
        "m.mfm",
        "--model",
        "qms",
        "--noise",
        "1",
        "--max-iter",
        "20",
        "-q",
    ]
    words = [str(path / word) if word.endswith((".csv", ".mfm")) else word for word in words]
    assert main(words) == 0
    return path


def predicted(evil, call, *words, suffix="csv"):
    out = evil / f"answers.{suffix}"
    keep = ["--keep", "=name", "--keep", "change"]
    code, _, err = call("predict", evil / "m.mfm", evil / "table.csv", "-o", out, *keep, *words)
    assert code == 0, err
    return out, err


def test_formulas_are_written_as_they_are_and_it_is_said(evil, call):
    out, err = predicted(evil, call)
    assert pl.read_csv(out)["label"][0] == EVIL
    n = 60 + 60 + 30  # labels, names, and half of the changes
    assert f"note: {n} cells begin with =, +, -, @, a tab or a carriage return" in err
    assert "--excel-safe writes ' before" in err


@pytest.mark.parametrize(("suffix", "mark"), [("csv", ","), ("tsv", "\t")])
def test_excel_safe(suffix, mark, evil, call):
    out, err = predicted(evil, call, "--excel-safe", suffix=suffix)
    assert "formula" not in err
    records = list(csv.reader(io.StringIO(out.read_text(), newline=""), delimiter=mark))
    assert records[0][:3] == ["'=name", "change", "label"]
    assert {record[2] for record in records[1:]} == {f"'{EVIL}", "'+ok;=B1"}
    assert [record[1] for record in records[1:7]] == ["-1.5", "+2", "-1e-3", "'+49 30 1", "'-x", "'\tx"]
    assert '"\'+ok;=B1"' in out.read_text()  # in quotation marks, where a semicolon ends a cell, too


def test_where_there_are_no_formulas_nothing_is_said(folder, tmp_path, call):
    code, _, err = call("predict", folder / "model.mfm", folder / "test.csv", "-o", tmp_path / "a.csv", "--keep", "age")
    assert code == 0
    assert "formula" not in err


def test_other_formats_have_no_formulas(evil, call):
    for suffix in ("parquet", "jsonl"):
        _, err = predicted(evil, call, suffix=suffix)
        assert "formula" not in err
        words = ["predict", evil / "m.mfm", evil / "table.csv", "-o", evil / f"a.{suffix}", "--excel-safe"]
        code, _, err = call(*words)
        assert code == 2
        assert f"--excel-safe is for csv and tsv; {suffix} has no formulas" in err


@given(st.lists(st.text(max_size=8) | st.floats().map(str) | st.none(), min_size=1, max_size=10))
def test_nothing_that_begins_like_a_formula_is_left(cells):
    found = without_formulas(pl.DataFrame({"x": pl.Series(cells, dtype=pl.String)}))["x"].to_list()
    for before, after in zip(cells, found, strict=True):
        assert after in (before, f"'{before}")
        if after and after[0] in "=+-@\t\r":
            assert float(after.replace(",", ".")) is not None
