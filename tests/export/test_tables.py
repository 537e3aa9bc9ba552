"""Table models as ONNX: raw columns in, Python's answers out; on the training rows, of every kind of column."""

import datetime
import json

import numpy as np
import polars as pl
import pytest

import multiform
from multiform import LoyaltyClassifier, QMSClassifier, QMSClassifierCV, TriageClassifier
from multiform.cli import main
from multiform.export import onnx_inputs, to_onnx
from multiform.tables import TableClassifier, read, sources
from tests.tables.awkward import TABLES

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("skl2onnx")
CLOSE = 1e-5


def people(n=300):
    """A column of every kind but free text."""
    random = np.random.default_rng(3)
    kind = random.integers(0, 3, n)
    gap = lambda k, cells: [None if row % k == 0 else cell for row, cell in enumerate(cells)]  # noqa: E731
    day = datetime.datetime(1962, 2, 25)
    return pl.DataFrame(
        {
            "Patient ID": [f"P{row:05d}" for row in range(n)],
            "Größe, in cm": gap(7, [f"{150 + 9 * k + random.normal():.1f} cm".replace(".", ",") for k in kind]),
            "stage": (kind + random.integers(0, 3, n)).astype(str),
            "smoker": gap(11, [["ja", "nein", "Ja"][k] for k in kind]),
            "label": gap(9, [day + datetime.timedelta(hours=int(hours)) for hours in random.integers(0, 480_000, n)]),
            "born": [f"{1 + k % 28:02d}.{1 + k % 12:02d}.{1890 + k % 130}" for k in range(n)],
            "ward": gap(5, [["north", "south", "east", "west"][k] for k in (kind + random.integers(0, 2, n)) % 4]),
            "cross": ["x" if k == 1 else "" for k in kind],
            "level": np.array(["mild", "none", "severe"])[kind],
        }
    )  # fmt: skip


def answers(onnx_model, model, table):
    session = onnxruntime.InferenceSession(onnx_model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, onnx_inputs(model, table)), strict=True))


@pytest.mark.parametrize(
    "estimator",
    [
        QMSClassifier(random_state=0),
        LoyaltyClassifier(random_state=0),
        TriageClassifier(LoyaltyClassifier(random_state=0), target_accuracy=0.7, random_state=0),
        QMSClassifierCV(random_state=0),
    ],
    ids=["qms", "loyalty", "triage", "cv"],
)
def test_the_same_answers_on_the_training_rows(estimator):
    table = people()
    model = TableClassifier(estimator).fit(table, "level")
    found = answers(to_onnx(model), model, table)
    np.testing.assert_array_equal(found["label"], model.predict(table))
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(table), atol=CLOSE)
    assert not found["unfamiliar"].any()
    assert not model.familiarity(table).unfamiliar.any()
    if "loyalty" in found:
        np.testing.assert_array_equal(found["loyalty"], model.predict_loyalty(table))
    if "accepted" in found:
        np.testing.assert_array_equal(found["accepted"], ~model.defer(table))


def test_the_numbers_that_the_columns_become():
    """The encoder alone, cell by cell, by a model that is linear in them."""
    table = people(400)
    model = TableClassifier(QMSClassifier(random_state=0)).fit(table, "level")
    found = answers(to_onnx(model), model, table)
    np.testing.assert_allclose(np.log(found["probabilities"]), np.log(model.predict_proba(table)), atol=1e-4)


def test_cells_unlike_training_are_told():
    table = people()
    model = TableClassifier(QMSClassifier(random_state=0)).fit(table, "level")
    odd = table.head(6).with_columns(
        pl.Series("Größe, in cm", ["1800", *table["Größe, in cm"][1:6]]),
        pl.Series("ward", [table["ward"][0], "moon", *table["ward"][2:6]]),
        pl.Series("stage", [*table["stage"][:2], "77", *table["stage"][3:6]]),
        pl.Series("born", [*table["born"][:3], None, *table["born"][4:6]]),
    )
    found = answers(to_onnx(model), model, odd)
    np.testing.assert_array_equal(found["unfamiliar"], model.familiarity(odd).unfamiliar)
    assert found["unfamiliar"].sum() == 4
    assert np.isfinite(found["probabilities"]).all()


def test_metadata_name_columns_classes_and_version():
    model = TableClassifier(QMSClassifier(random_state=0)).fit(people(), "level")
    converted = to_onnx(model)
    told = {entry.key: entry.value for entry in converted.metadata_props}
    assert told["multiform"] == multiform.__version__
    assert told["kind"] == "QMSClassifier"
    assert told["target"] == "level"
    assert json.loads(told["classes"]) == ["mild", "none", "severe"]
    columns = json.loads(told["columns"])
    assert [one["input"] for one in columns] == [one.name for one in converted.graph.input]
    assert {one["name"]: one["input"] for one in columns}["label"] == "label given"  # an output is called so
    assert {one["name"]: one["role"] for one in columns}["smoker"] == "boolean"


def test_free_text_as_it_is():
    """Case, accents, ligatures, fractions, blanks of all kinds, letters of others; nothing, and no known word."""
    random = np.random.default_rng(0)
    words = ["Übelkeit ÜBEL", "ÉTÉ été", "Schmerz,", "stark;stark", "nur(nachts)", "½ 3/4", "straße", "ﬁeber", "日本"]
    words += ["Te\u0301", "a_b", "e.g. • naïve"]
    notes = [f"{' '.join(random.choice(words, 9))} tag\n{k}\u00a0{['links', 'RECHTS'][k % 2]}" for k in range(100)]
    notes[7] = None
    table = pl.DataFrame({"note": notes, "x": random.normal(size=100)})
    model = TableClassifier(QMSClassifier(random_state=0), texts=["note"]).fit(table, [0, 1] * 50)
    assert {"ubelkeit", "stark", "nachts", "1", "strasse"} & set(model.columns_[0].words) == {
        "ubelkeit",
        "stark",
        "nachts",
        "1",
    }
    onnx_model = to_onnx(model)
    found = answers(onnx_model, model, table)
    np.testing.assert_array_equal(found["label"], model.predict(table))
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(table), atol=1e-12)
    assert onnx_inputs(model, table)["note"][0, 0] == notes[0]
    assert not found["unfamiliar"].any()
    odd = pl.DataFrame({"note": ["", "xyz", "linksrechts", "Links!"], "x": [0.0] * 4})
    found = answers(onnx_model, model, odd)
    assert found["unfamiliar"].tolist() == [False, True, True, False]
    np.testing.assert_array_equal(found["unfamiliar"], [row in model.familiarity(odd).rows["note"] for row in range(4)])
    assert len(answers(onnx_model, model, odd.head(0))["label"]) == 0


@pytest.mark.parametrize("name", ["08-crosses", "25-french-spaces"])
def test_the_command_checks_it_against_python(name, tmp_path, capsys):
    table = next(one for one in TABLES if one.name == name)
    path = table.write(tmp_path)
    quick = ("--noise", "1", "--max-iter", "3", "--components", "2", "--jobs", "1", "-q")
    assert main(["fit", str(path), "-t", table.target, "-o", str(tmp_path / "m.mfm"), *quick]) == 0
    capsys.readouterr()
    words = ["export", str(tmp_path / "m.mfm"), "--onnx", str(tmp_path / "m.onnx"), "--check", str(path), "--json"]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["checked"]["rows"] == 240
    assert told["checked"]["same_labels"] == 240
    assert told["checked"]["largest_difference"] < CLOSE
    assert len(read(sources([path]))) == 240
