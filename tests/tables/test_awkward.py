"""Thirty awkward tables (`tests.tables.awkward`): what is read of them at the first command, and what it costs."""

import json

import numpy as np
import pytest

import multiform
from multiform import QMSClassifier
from multiform.cli import main
from multiform.tables import TableClassifier, read, sources
from tests.tables.awkward import TABLES

QUICK = ("--model", "qms", "--noise", "1", "--max-iter", "2", "--components", "2", "--jobs", "1")
NOTES = {
    "01-windows": ["is read as Windows-1252"],
    "03-unicode-text": ["is read as UTF-16"],
    "09-excel-title": ["has 2 sheets, 'Daten', 'Legende'; 'Daten', the first, was read", "row 3 of the sheet names"],
    "12-title-lines": ["line 3 names the columns"],
    "20-names-twice": ["column 13 has the same name as another, 'cost'; it is called 'cost (2)' here"],
}
REASONS = {
    "05-units": {"Größe": "every cell reads as a number, with a decimal comma, the unit cm"},
    "06-bounds": {"Blutdruck": "every cell reads as a number, signs like > and < left out; 'fehlt' counts as missing"},
    "08-crosses": {"Raucher": "yes is 'x', no is an empty cell"},
    "15-percent": {"Sättigung": "every cell reads as a number, the unit %"},
    "24-french": {"fumeur": "yes is 'oui', no is 'non'; 'n/d' counts as missing"},
}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_read_right_at_the_first_command(table, tmp_path, capsys):
    path = table.write(tmp_path)
    assert main(["fit", str(path), "-t", table.target, "-o", str(tmp_path / "m.mfm"), "--json", *QUICK]) == 0
    told = json.loads(capsys.readouterr().out)
    model = multiform.load(tmp_path / "m.mfm")
    assert not table.wrong(told["columns"], model.typed(read(sources([path]))))
    for words in NOTES.get(table.name, []):
        assert any(words in note for note in told["notes"]), told["notes"]
    why = {column["name"]: column["why"] for column in told["columns"]}
    for name, reason in REASONS.get(table.name, {}).items():
        assert why[name] == reason


@pytest.mark.slow
def test_as_accurate_as_on_the_table_cleaned_by_hand(tmp_path):
    """Fit on two thirds of the rows, judged on the others, beside the same of the clean table."""
    differences = {}
    for table in TABLES:
        frame, clean = read(sources([table.write(tmp_path)])), table.truth()
        found = [_accuracy(one, table.target) for one in (frame, clean)]
        differences[table.name] = found[0] - found[1]
    assert len(differences) == 30
    assert min(differences.values()) >= 0, differences


def _accuracy(frame, target):
    model = TableClassifier(QMSClassifier(random_state=0)).fit(frame[:160], target)
    return float(np.mean(model.predict(frame[160:]) == np.asarray(frame[target][160:].to_list())))


@pytest.mark.parametrize(
    ("learnt", "new"),
    [("01-windows", "09-excel-title"), ("09-excel-title", "01-windows"), ("11-open-document", "07-letters"),
     ("01-windows", "05-units"), ("05-units", "01-windows"), ("04-thousands", "10-excel-texts")],
)  # fmt: skip
def test_a_table_written_in_another_way_is_read_alike(learnt, new, tmp_path):
    """Trained on a text file, asked about a spreadsheet, and the other way round."""
    by_name = {table.name: table for table in TABLES}
    model = TableClassifier(QMSClassifier(noise=1.0, max_iter=2, n_components=2, random_state=0))
    model.fit(read(sources([by_name[learnt].write(tmp_path)])), "krank")
    frame = read(sources([by_name[new].write(tmp_path)]))
    assert not model.familiarity(frame).sentences()
    typed, truth = model.typed(frame), by_name[new].truth()
    for name in ("Größe", "Kosten", "Leukozyten"):
        np.testing.assert_allclose(typed[name].to_numpy(), truth[name].cast(float).to_numpy())
    assert typed["Aufnahme"].dt.date().to_list() == truth["Aufnahme"].to_list()
