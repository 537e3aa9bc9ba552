"""What `fit` and `evaluate` say of targets, columns and rows that mislead."""

import numpy as np
import polars as pl
import pytest

import multiform
from multiform.tables import TableClassifier


@pytest.fixture(scope="session")
def visits(tmp_path_factory):
    """visits.csv: 420 rows of 300 patients, some without a label, an outcome that is known afterwards, spellings."""
    path = tmp_path_factory.mktemp("visits")
    random = np.random.default_rng(0)
    patients = random.permutation(np.r_[np.arange(300), random.integers(0, 300, 120)])
    age = random.normal(50, 15, 420)
    ill = age + random.normal(0, 10, 420) > 50
    label = np.where(ill, "yes", "no").astype(object)
    label[::9] = np.where(ill[::9], "Yes", "no")
    label[::14] = None
    pl.DataFrame(
        {
            "number": range(1, 421),
            "patient_id": 7 * patients + 1000,
            "age": age.round(1),
            "weight": random.normal(80, 15, 420).round(1),
            "outcome": np.where(ill, "ward", "home"),
            "ill": label.tolist(),
        }
    ).write_csv(path / "visits.csv")
    return path


FAST = ("--max-iter", 10, "--noise", 0.5)


def test_fit_says_what_misleads(visits, tmp_path, call):
    code, _, err = call("fit", visits / "visits.csv", "-t", "ill", "-o", tmp_path / "m.mfm", *FAST)
    assert code == 0
    for sentence in (
        "note: 'Yes', 'yes' differ only in upper and lower case or blanks, and are different classes",
        "note: column 'outcome' alone is enough to predict 100.0% of held-out rows",
        "leave it out with --drop outcome.",
        "note: column 'number' was left out (it counts the rows)",
        "note: column 'patient_id' was left out (its name says that it names rows; 2",
        "note: values of column 'patient_id' repeat. If rows with the same value belong together",
        "say --group patient_id",
    ):
        assert sentence in err
    assert "'age' alone" not in err


def test_fit_with_groups_and_merged_classes(visits, tmp_path, call, call_json):
    words = ("fit", visits / "visits.csv", "-t", "ill", "-o", tmp_path / "m.mfm", "--group", "patient_id", *FAST)
    told = call_json(*words, "--merge-classes", "--drop", "outcome")
    assert told["group"] == "patient_id"
    assert told["classes"].keys() == {"yes", "no"}
    assert [column["name"] for column in told["columns"]] == ["number", "age", "weight", "outcome"]
    assert not any("--group" in note for note in told["notes"])
    assert any("were merged" in note for note in told["notes"])
    code, shown, _ = call("info", tmp_path / "m.mfm")
    assert code == 0
    assert "rows were held out together by the column: patient_id" in shown
    n_labelled = pl.read_csv(visits / "visits.csv").filter(pl.col("ill").is_not_null())["patient_id"].n_unique()
    assert f"different values of that column: {n_labelled}" in shown
    new = pl.read_csv(visits / "visits.csv").drop("patient_id", "ill", "number", "outcome")[:5]
    new.write_csv(tmp_path / "new.csv")
    predicted = call_json("predict", tmp_path / "m.mfm", tmp_path / "new.csv", "-o", tmp_path / "answers.csv")
    assert predicted["rows"] == 5
    assert predicted["notes"] == []


@pytest.mark.parametrize("options", [["--model", "cv"], ["--model", "qms"], ["--target-accuracy", "0.6"], []])
def test_every_model_takes_groups(options, visits, tmp_path, call_json):
    """Those that choose their noise, too."""
    words = ("fit", visits / "visits.csv", "-t", "ill", "-o", tmp_path / "m.mfm", "--group", "patient_id")
    told = call_json(*words, "--max-iter", 5, *options)
    assert told["training"]["groups"] > 250


def test_fit_with_a_group_that_is_none(visits, tmp_path, call):
    words = ("fit", visits / "visits.csv", "-t", "ill", "-o", tmp_path / "m.mfm")
    code, _, err = call(*words, "--group", "person")
    assert code == 1
    assert "There is no column 'person' of groups; the columns are 'number', 'patient_id'" in err


def test_a_measure_is_no_target(visits, tmp_path, call, call_json):
    for step, name in ((1, "years"), (10, "decades")):
        table = pl.read_csv(visits / "visits.csv").with_columns((pl.col("age") / step).round().cast(int))
        table.write_csv(tmp_path / f"{name}.csv")
    words = ("-t", "age", "-o", tmp_path / "m.mfm", "--model", "qms", *FAST)
    for path in (visits / "visits.csv", tmp_path / "years.csv"):
        code, _, err = call("fit", path, *words)
        assert code == 1
        assert "like a measurement; multiform tells classes apart" in err
        assert "--as-classes" in err
    assert not (tmp_path / "m.mfm").exists()
    assert len(call_json("fit", tmp_path / "years.csv", *words, "--as-classes")["classes"]) > 50
    assert len(call_json("fit", tmp_path / "decades.csv", *words)["classes"]) < 13


def test_evaluate_and_report_recognise_training_rows(folder, tmp_path, call, call_json):
    code, _, err = call("evaluate", folder / "model.mfm", folder / "train.csv")
    assert code == 0
    assert "note: 100% of the rows are rows that the model was trained on" in err
    told = call_json("evaluate", folder / "model.mfm", folder / "train.csv")["training_rows"]
    assert told == {"compared": 300, "found": 300, "by_chance": 0.0, "share": 1.0, "evident": True}
    fresh = call_json("evaluate", folder / "model.mfm", folder / "test.csv")
    assert fresh["training_rows"]["found"] == 0
    assert not any("trained on" in note for note in fresh["notes"])
    # In parts, and mixed with new rows.
    pl.read_csv(folder / "train.csv")[:100].write_csv(tmp_path / "old.csv")
    mixed = call_json("evaluate", folder / "model.mfm", folder / "test.csv", tmp_path / "old.csv")
    assert mixed["training_rows"]["share"] == pytest.approx(1 / 3)
    assert any(note.startswith("33% of the rows are rows that the model was trained on") for note in mixed["notes"])
    words = ("report", folder / "model.mfm", folder / "train.csv", "-o", tmp_path / "r.html", "--no-baselines")
    assert call_json(*words)["training_rows"]["share"] == 1


def test_a_model_without_a_table_does_not_know_its_rows(tmp_path, call_json):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 2)), np.arange(60) % 2
    multiform.save(multiform.QMSClassifier(random_state=0).fit(X, y), tmp_path / "m.mfm")
    np.savez(tmp_path / "t.npz", X=X, y=y)
    assert call_json("evaluate", tmp_path / "m.mfm", tmp_path / "t.npz", "-t", "y")["training_rows"] is None


@pytest.mark.slow
def test_python_is_as_good_as_the_command_line(tmp_path, call_json):
    """A few hundred rows, the defaults of both: nearly the same accuracy on new rows, over 10 tables."""
    by_python, by_command = [], []
    for seed in range(10):
        random = np.random.default_rng(seed)
        X = random.normal(size=(2300, 8)).clip(-2, 2)
        linear = X[:, 0] + X[:, 1] - X[:, 2] + 0.5 * X[:, 3] * X[:, 4]
        label = np.where(linear + random.normal(0, 1, 2300) > 0, "yes", "no")
        table = pl.DataFrame({**{f"c{k}": X[:, k] for k in range(8)}, "y": label})
        table[:300].write_csv(tmp_path / "train.csv")
        call_json("fit", tmp_path / "train.csv", "-t", "y", "-o", tmp_path / "m.mfm")
        truth = label[300:]
        by_command.append(np.mean(multiform.load(tmp_path / "m.mfm").predict(table[300:]) == truth))
        by_python.append(np.mean(TableClassifier().fit(table[:300], "y").predict(table[300:]) == truth))
    assert np.mean(by_python) >= np.mean(by_command) - 0.01
