"""Answers are written as the input is: separator, decimal mark, encoding; unless told otherwise."""

import json
from dataclasses import replace

import polars as pl
import pytest

from multiform.cli import main
from multiform.tables import TableError, read, sources
from tests.tables.awkward import TABLES

QUICK = ("--model", "qms", "--noise", "1", "--max-iter", "2", "--components", "2", "--jobs", "1", "-q")
BY_NAME = {table.name: table for table in TABLES}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A model of a German table, and its folder."""
    folder = tmp_path_factory.mktemp("dialects")
    table = BY_NAME["01-windows"]
    path = table.write(folder)
    assert main(["fit", str(path), "-t", table.target, "-o", str(folder / "m.mfm"), *QUICK]) == 0
    return folder, path


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_answers_are_written_as_the_input_is(encoding, fitted, tmp_path):
    folder, _ = fitted
    path = replace(BY_NAME["01-windows"], name="new", encoding=encoding).write(tmp_path)
    answers = tmp_path / "answers.csv"
    assert main(["predict", str(folder / "m.mfm"), str(path), "-o", str(answers), "--keep", "Größe,Station", "-q"]) == 0
    text = answers.read_bytes().decode(encoding)
    header, first = text.splitlines()[:2]
    assert header == "Größe;Station;label;chance;unfamiliar"
    height, ward, label, chance, _ = first.split(";")
    assert ("," in height, ward in ("Süd", "Nord", "Kinder"), label in ("ja", "nein")) == (True, True, True)
    assert 0.5 <= float(chance.replace(",", ".")) <= 1
    assert "." not in chance
    again = read(sources([answers]))  # what was written is read alike
    assert again.columns == header.split(";")
    assert len(again) == 240


def test_unless_told_otherwise(fitted, tmp_path):
    folder, path = fitted
    answers = tmp_path / "answers.csv"
    assert main(["predict", str(folder / "m.mfm"), str(path), "-o", str(answers), "--plain", "-q"]) == 0
    found = pl.read_csv(answers)
    assert found.columns == ["label", "chance", "unfamiliar"]
    assert found["chance"].is_between(0, 1).all()


def test_a_workbook_of_answers(fitted, tmp_path):
    folder, _ = fitted
    path = BY_NAME["09-excel-title"].write(tmp_path)
    answers = tmp_path / "answers.xlsx"
    words = ["predict", str(folder / "m.mfm"), str(path), "-o", str(answers), "--keep", "Patienten-Nr"]
    assert main([*words, "-q"]) == 0
    found = read(sources([answers]))
    assert found.columns == ["Patienten-Nr", "label", "chance", "unfamiliar"]
    assert found["chance"].is_between(0, 1).all()
    assert set(found["label"]) == {"ja", "nein"}


def test_what_an_encoding_has_not(fitted, tmp_path, capsys):
    folder, _ = fitted
    table = tmp_path / "new.csv"
    frame = read(sources([fitted[1]])).with_columns(pl.lit("łódź").alias("Station"))
    table.write_bytes(frame.write_csv(separator=";").replace("łódź", "ward").encode("cp1252"))
    words = ["predict", str(folder / "m.mfm"), str(table), "-o", str(tmp_path / "a.csv")]
    assert main([*words, "-q"]) == 0
    table.write_bytes(frame.write_csv(separator=";").encode("utf-8"))
    assert main([*words, "-q", "--encoding", "cp1252"]) == 1
    assert "has no column 'Alter'" not in capsys.readouterr().err


def test_a_sheet_by_name_and_a_word_for_missing(tmp_path, capsys):
    table = replace(BY_NAME["18-excel-sheets"], missing=("lost",))
    path = table.write(tmp_path)
    words = ["fit", str(path), "-t", "ill", "-o", str(tmp_path / "m.mfm"), *QUICK[:-1], "--json"]
    assert main([*words, "--sheet", "patients", "--na", "lost"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert not any("sheet" in note for note in told["notes"])
    assert {one["name"]: one["role"] for one in told["columns"]}["blood pressure"] == "number"
    assert main([*words, "--sheet", "nothing"]) == 1
    assert "has no sheet 'nothing'; it has 'patients', 'codes', 'notes'" in capsys.readouterr().err


def test_no_such_encoding(tmp_path):
    path = BY_NAME["01-windows"].write(tmp_path)
    with pytest.raises(TableError, match="There is no encoding 'klingon'"):
        read(sources([path], encoding="klingon"))
    with pytest.raises(TableError, match="There is no encoding 'base64'"):
        read(sources([path], encoding="base64"))
    assert len(read(sources([path], encoding="latin-1"))) == 240
