"""What `info` says a file holds of the training rows."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import multiform
from multiform.files import describe
from multiform.tables import TableClassifier

GOLDEN = Path(__file__).parent / "golden" / "0.1.0"


def said(model, path):
    multiform.save(model, path)
    return describe(path)["holds"]


def test_a_plan_that_keeps_its_patients_says_so():
    holds = describe(GOLDEN / "plan.mfm")["holds"]
    assert holds["rows"] == 150
    assert holds["sentences"][0].startswith("the 150 training rows, as numbers, with their labels: treat it as")


@pytest.mark.parametrize("kind", ["qms", "cv", "loyalty", "triage", "patches", "table"])
def test_the_others_hold_no_row(kind):
    holds = describe(GOLDEN / f"{kind}.mfm")["holds"]
    assert holds["rows"] == 0
    assert holds["sentences"][0].startswith("no training row")


def test_a_table_model_names_what_it_keeps_of_which_column(tmp_path):
    random = np.random.default_rng(0)
    words = ["seen", "by", "Frankenstein", "today", "again", "tired"]
    table = pl.DataFrame(
        {
            "id": [f"P{k}" for k in range(200)],
            "age": random.normal(50, 9, 200).round(1),
            "ward": random.choice(["north", "south"], 200),
            "note": [" ".join(random.choice(words, 4)) for _ in range(200)],
            "ill": random.integers(0, 2, 200),
        }
    )
    estimator = multiform.QMSClassifierCV(partners="trees", noise=(1.0,), encodings=["plain"], random_state=0)
    model = TableClassifier(estimator).fit(table, "ill")
    told = said(model, tmp_path / "m.mfm")["sentences"]
    text = "\n".join(told)
    assert "of age, ward, note: values that rows had, about 100 of a column of numbers" in text
    assert "of note: the most frequent words, which may be names" in text
    assert "a fingerprint (hash) of 200 rows each: no value can be read off it" in text
    assert "of id: nothing but the name of the column" in text
    assert ("thresholds of trees" in text) == bool(model.estimator_.partners_)
    kept = (tmp_path / "m.mfm").read_bytes()
    assert b"P17" not in kept  # it is true: of identifiers there is nothing
    assert b"frankenstein" in kept
