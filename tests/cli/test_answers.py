"""What analysts ask of a model: sensitivity and its like, thresholds, two models side by side."""

import json

import numpy as np
import polars as pl
import pytest

import multiform
from multiform.tables import Judgement, TableClassifier, estimate, parted, rule_for


def patients(n, seed):
    random = np.random.default_rng(seed)
    ill = random.random(n) < 0.3
    return pl.DataFrame(
        {
            "age": random.integers(30, 70, n) + 10 * ill,
            "crp": (3 + 4 * ill + random.random(n) * 6).round(1),
            "ward": random.choice(["north", "south"], n),
            "ill": np.where(ill, "ja", "nein"),
        }
    )


@pytest.fixture(scope="module")
def ward(tmp_path_factory):
    from multiform.cli import main

    path = tmp_path_factory.mktemp("ward")
    patients(400, 0).write_csv(path / "train.csv")
    patients(300, 1).write_csv(path / "test.csv")
    for name, model in (("a", "loyalty"), ("b", "qms")):
        words = ["fit", str(path / "train.csv"), "-t", "ill", "-o", str(path / f"{name}.mfm"), "--model", model, "-q"]
        assert main(words) == 0
    return path


def test_evaluate_says_who_is_found(ward, call, call_json):
    told = call_json("evaluate", ward / "a.mfm", ward / "test.csv")
    test = pl.read_csv(ward / "test.csv")
    own = test["ill"].to_numpy() == "ja"
    called = multiform.load(ward / "a.mfm").predict(test) == "ja"
    assert told["positive"]["class"] == "ja"  # though "nein" comes second
    row = told["classes"]["ja"]
    assert row["sensitivity"]["value"] == pytest.approx(called[own].mean())
    assert row["specificity"]["value"] == pytest.approx(1 - called[~own].mean())
    assert row["ppv"]["low"] < row["ppv"]["value"] < row["ppv"]["high"]
    assert 0.5 < row["roc_auc"]["low"] < row["roc_auc"]["value"] < 1
    assert told["confusion"]["ja"]["nein"] == (own & ~called).sum()
    assert sum(group["rows"] for group in told["calibration"]["groups"]) == 300
    out = call("evaluate", ward / "a.mfm", ward / "test.csv")[1]
    found = round(100 * called[own].mean())
    assert f"of 100 with ill = 'ja', {found} are found and {100 - found} missed" in out
    assert "do chances come true?" in out


def test_the_class_that_is_looked_for_can_be_chosen(ward, call, call_json):
    told = call_json("evaluate", ward / "a.mfm", ward / "test.csv", "--positive", "nein")
    assert told["positive"] | {"class": "nein", "why": "as you asked"} == told["positive"]
    code, _, err = call("evaluate", ward / "a.mfm", ward / "test.csv", "--positive", "nien")
    assert code == 1
    assert "'nien' is no class of the model; its classes are 'ja', 'nein'" in err


@pytest.mark.parametrize(("words", "least"), [(["--threshold", 0.2], 0.2), (["--cost-of-miss", 9], 0.1)])
def test_a_threshold_decides(ward, tmp_path, call_json, words, least):
    told = call_json("predict", ward / "a.mfm", ward / "test.csv", "-o", tmp_path / "a.csv", "--chances", *words)
    answers = pl.read_csv(tmp_path / "a.csv")
    called = answers["chance of ja"].to_numpy() >= least
    assert ((answers["label"] == "ja").to_numpy() == called).all()
    assert told["positive"]["changed"] == answers["changed"].sum() > 0
    changed = answers.filter("changed")
    assert changed["loyalty"].null_count() == len(changed)
    assert changed["chance"].to_list() == changed["chance of ja"].to_list()
    judged = call_json("evaluate", ward / "a.mfm", ward / "test.csv", *words)
    own = (pl.read_csv(ward / "test.csv")["ill"] == "ja").to_numpy()
    assert judged["classes"]["ja"]["sensitivity"]["value"] == pytest.approx(called[own].mean())
    (row,) = [row for row in judged["thresholds"] if row["threshold"] == pytest.approx(least)]
    assert row["called"] == called.sum()
    assert ("cost" in row) == ("--cost-of-miss" in words)


def test_a_threshold_covers_no_changed_answer(folder, tmp_path, call):
    words = ["predict", folder / "promise.mfm", folder / "test.csv", "-o", tmp_path / "a.csv", "--threshold", "0.1"]
    code, _, err = call(*words)
    assert code == 1
    assert "With 3 classes a threshold is for one class; name it with --positive, one of 'mild'" in err
    code, _, err = call(*words, "--positive", "severe")
    assert code == 0
    answers = pl.read_csv(tmp_path / "a.csv")
    assert 0 < answers["changed"].sum() < 200
    assert not answers.filter("changed")["accepted"].any()
    assert f"for {answers['changed'].sum()} of 200 rows; they have no loyalty type, and no promise covers them" in err


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["--threshold", "0.2", "--cost-of-miss", "4"], 1, "give one of the two, not both"),
        (["--positive", "ja"], 2, "give one of them, too"),
        (["--threshold", "1.5"], 2, "it takes a number above 0 and below 1, and you gave 1.5"),
        (["--cost-of-miss", "0"], 2, "0"),
    ],
)
def test_thresholds_that_do_not_do(ward, tmp_path, call, words, code, sentence):
    found, _, err = call("predict", ward / "a.mfm", ward / "test.csv", "-o", tmp_path / "a.csv", *words)
    assert found == code
    assert sentence in err
    assert not (tmp_path / "a.csv").exists()


@pytest.mark.parametrize(
    ("labels", "positive"),
    [
        (["no", "yes"], "yes"),
        (["ja", "nein"], "ja"),
        (["0", "1"], "1"),
        (["healthy", "tumour"], "tumour"),
        (["krank", "gesund"], "krank"),
        (["b", "b", "b", "a"], "a"),  # the rarer one
        (["a", "b"], "b"),
    ],
)
def test_the_class_that_is_looked_for(labels, positive):
    y = np.array(labels * 20)
    X = np.random.default_rng(0).normal(size=(len(y), 1)) + 4 * (y == positive)[:, None]
    model = TableClassifier(multiform.QMSClassifier(random_state=0)).fit(pl.DataFrame({"x": X[:, 0]}), y)
    assert str(rule_for(model).positive) == positive


def test_evaluate_says_which_columns_matter(ward, call, call_json):
    told = call_json("evaluate", ward / "a.mfm", ward / "test.csv", "--importance")["importance"]
    assert told["columns"][0]["column"] == "crp"
    assert told["columns"][0]["accuracy_lost"]["low"] > 0
    assert (told["rows"], told["of"]) == (300, 300)
    out = call("evaluate", ward / "b.mfm", ward / "test.csv", "--importance")[1]
    assert (
        "what is lost if the cells of a column are shuffled among the rows (95 % interval), on 300 of 300 rows" in out
    )
    assert "looked at: the share of this column in what decides the answers" in out


def test_large_tables_are_thinned_for_areas_alone(ward, monkeypatch):
    model, test = multiform.load(ward / "a.mfm"), pl.read_csv(ward / "test.csv")
    whole = Judgement(model, "ill", rule_for(model))
    whole.add(test)
    monkeypatch.setattr("multiform.tables._figures.MOST_CELLS", 200)
    parts = Judgement(model, "ill", rule_for(model))
    for start in range(0, 300, 37):
        parts.add(test[start : start + 37])
    whole, parts = whole.as_dict(), parts.as_dict()
    assert parts["rows_for_areas"] == 75
    assert whole["rows_for_areas"] == 300
    assert parts["classes"]["ja"]["sensitivity"] == whole["classes"]["ja"]["sensitivity"]
    assert parts["classes"]["ja"]["roc_auc"]["value"] == pytest.approx(
        whole["classes"]["ja"]["roc_auc"]["value"], abs=0.1
    )


def test_compare(ward, call, call_json):
    told = call_json("compare", ward / "a.mfm", ward / "b.mfm", ward / "test.csv")
    test = pl.read_csv(ward / "test.csv")
    said = [multiform.load(ward / f"{name}.mfm").predict(test) for name in "ab"]
    truth = test["ill"].to_numpy()
    gain = np.mean(said[1] == truth) - np.mean(said[0] == truth)
    assert told["accuracy"]["difference"]["value"] == pytest.approx(gain)
    assert told["first"]["kind"] == "LoyaltyClassifier"
    assert told["n_disagreeing"] == (said[0] != said[1]).sum() == sum(one["rows"] for one in told["disagreements"])
    assert told["disagreeing_rows"] == (np.flatnonzero(said[0] != said[1]) + 1).tolist()
    code, out, _ = call("compare", ward / "a.mfm", ward / "b.mfm", ward / "test.csv")
    assert code == 0
    for words in (
        "log loss (lower is better)",
        "(95 % interval)",
        "McNemar's test",
        "both right on",
    ):
        assert words in out


def test_compare_knows_models_from_tables(ward, call, call_json):
    first, second, table = (ward / name for name in ("a.mfm", "b.mfm", "test.csv"))
    told = call_json("compare", first, second, table)
    for words in ([first, table, second], [table, first, second]):
        again = call_json("compare", *words)
        assert again["notes"] == [f"{first} and {second} are the models, which come first; {table} is a table."]
        assert again | {"notes": []} == told | {"notes": []}
    code, _, err = call("compare", table, first, table)
    assert (code, "is not a model file" in err) == (1, True)


def test_a_class_that_no_row_has(ward, tmp_path, call):
    """Nothing is said of who was found where nobody was to be found."""
    pl.read_csv(ward / "test.csv").filter(pl.col("ill") == "nein").write_csv(tmp_path / "well.csv")
    code, out, _ = call("evaluate", ward / "a.mfm", tmp_path / "well.csv")
    assert code == 0
    assert "no row has ill = 'ja', which is looked for (guessed by its name; --positive names another class)" in out
    assert "sensitivity:" not in out


def test_rows_that_a_threshold_changes_have_no_type(ward, call, call_json):
    words = ("evaluate", ward / "a.mfm", ward / "test.csv", "--cost-of-miss", 9)
    changed = call_json(*words)["positive"]["changed"]
    assert changed
    assert f"the {changed} rows whose label the threshold changed have no such type" in call(*words)[1]


def test_compare_takes_models_of_one_target(ward, folder, call):
    code, out, _ = call("compare", ward / "a.mfm", folder / "model.mfm", ward / "test.csv", "--json")
    assert code == 1
    assert "has no column 'level' with the truth" in json.loads(out)["error"]


@pytest.mark.parametrize(
    "words", [["--model", "loyalty"], ["--target-accuracy", "0.7"], ["--model", "cv"], ["--model", "qms"]]
)
def test_every_fit_says_what_to_expect(ward, tmp_path, call, call_json, words):
    told = call_json("fit", ward / "train.csv", "-t", "ill", "-o", tmp_path / "m.mfm", *words)["estimate"]
    judged = call_json("evaluate", tmp_path / "m.mfm", ward / "test.csv")
    assert told["low"] < told["value"] < told["high"]
    assert told["value"] == pytest.approx(judged["accuracy"], abs=0.08)
    assert told["how"] == "rows that were held out in turn while training"
    assert call_json("info", tmp_path / "m.mfm")["file_notes"]["estimate"]["value"] == told["value"]
    out = call("fit", ward / "train.csv", "-t", "ill", "-o", tmp_path / "m.mfm", *words)[1]
    assert f"estimated accuracy on new rows {100 * told['value']:.1f} %" in out


def test_whole_groups_are_held_out_for_the_estimate(tmp_path, call_json):
    """Each patient has an answer of their own, which five rows of theirs tell and nobody else's do."""
    random = np.random.default_rng(0)
    who = np.repeat(np.arange(60), 6)
    ill = random.integers(0, 2, 60)
    x = random.normal(size=(60, 8)) + np.outer(0.5 * ill, np.arange(8) == 0)
    x = x[who] + random.normal(0, 0.01, (360, 8))
    frame = pl.DataFrame({f"x{k}": x[:, k] for k in range(8)} | {"who": who, "ill": ill[who]})
    frame.write_csv(tmp_path / "t.csv")
    words = ["fit", tmp_path / "t.csv", "-t", "ill", "-o", tmp_path / "m.mfm", "--model", "qms", "--group", "who"]
    told = call_json(*words)["estimate"]
    assert told["value"] < 0.75
    assert told["high"] - told["low"] > 0.2  # sixty patients, not 360 rows


@pytest.mark.parametrize(
    ("many", "rows", "how"),
    [
        (100, 80, "a fifth of the rows that was held out, one more fit"),
        (1000, 400, "5-fold cross-validation, 5 more fits"),
    ],
)
def test_a_model_that_knows_nothing_of_itself_is_fitted_again(ward, monkeypatch, many, rows, how):
    monkeypatch.setattr("multiform.tables._estimate.MANY_ROWS", many)
    frame = pl.read_csv(ward / "train.csv")
    model = TableClassifier(multiform.QMSClassifier(calibrate=False, random_state=0)).fit(frame, "ill")
    found = estimate(model, frame, "ill")
    assert found.rows == rows
    assert found.how == how


def test_a_report_straight_from_a_table(ward, tmp_path, call, call_json):
    told = call_json("report", ward / "train.csv", "-t", "ill", "-o", tmp_path / "r.html")
    assert told["n_samples"] == 100
    assert "a model was trained on 300 rows, and is reported on the other 100." in told["notes"]
    assert (tmp_path / "r.html").read_text("utf-8").startswith("<!doctype html>")
    for words, code, sentence in (
        (["report", ward / "train.csv"], 2, "train.csv is a table; say which column to predict with --target"),
        (["report", ward / "a.mfm"], 2, "a.mfm is a model; name the table to report on, too"),
        (["report", ward / "train.csv", "-t", "il"], 1, "There is no column 'il'; the nearest is 'ill'"),
    ):
        found, _, err = call(*words, "-o", tmp_path / "none.html")
        assert found == code
        assert sentence in err
        assert not (tmp_path / "none.html").exists()


def test_whole_patients_are_on_one_side_of_a_report(ward):
    frame = pl.read_csv(ward / "train.csv").with_columns(who=pl.int_range(pl.len()) // 4)
    training, others = parted(frame, "ill", "who")
    assert len(training) + len(others) == 400
    assert not set(training["who"]) & set(others["who"])
    assert 80 <= len(others) <= 120
