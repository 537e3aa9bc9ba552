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
    "20-names-twice": ["column 13 is called 'cost', as another is; it is 'cost (2)' here"],
}
REASONS = {
    "05-units": {"Größe": "every cell reads as a number, with a decimal comma, the unit cm"},
    "06-bounds": {"Blutdruck": "every cell reads as a number, signs as > and < left out; 'fehlt' counts as missing"},
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
