"""What the commands say and write, called in this process."""

import io
import json
import sys

import numpy as np
import polars as pl
import pytest

import multiform
from multiform import QMSClassifier, reproduction
from multiform.cli import main
from multiform.cli._app import COMMANDS
from multiform.reproduction import _run
from tests.cli.conftest import people
from tests.datasets.idx_files import write_folder


def test_help_of_every_command_has_an_example(call):
    code, out, _ = call("--help")
    assert code == 0
    for name in COMMANDS:
        assert name in out
        code, text, _ = call(name, "--help")
        assert code == 0
        assert "Examples:" in text
        assert f"multiform {name}" in text
        assert "--json" in text


def test_version(call):
    assert call("--version") == (0, f"multiform {multiform.__version__}\n", "")


def test_fit_shows_what_was_done_to_each_column(folder, tmp_path, call):
    code, out, err = call("fit", folder / "train.csv", "-t", "level", "-o", tmp_path / "m.mfm", "--max-iter", 20)
    assert code == 0
    for words in (
        "300 rows",
        "3 classes",
        "identifier",
        "every cell reads as a date",
        "constant",
        "estimated accuracy",
        "strong",
    ):
        assert words in out
    assert "note: column 'patient_id' was left out (it names rows: 300 distinct values" in err
    code, told, _ = call("info", tmp_path / "m.mfm")
    assert code == 0
    for line in out.splitlines():
        if line.startswith(("age", "city", "visit", "note", "ward")):
            assert line in told
    assert "by the command: multiform" in told
    assert "trained on 300 rows: " in told
    assert "estimated accuracy on new rows" in told
    assert not any(mark in told for mark in ("['", "{'", "n_features"))


def test_the_same_seed_gives_the_same_model(folder, tmp_path, call):
    for name in ("a", "b"):
        call("fit", folder / "train.csv", "-t", "level", "-o", tmp_path / f"{name}.mfm", "--max-iter", 20, "--seed", 3)
        assert call("predict", tmp_path / f"{name}.mfm", folder / "test.csv", "-o", tmp_path / f"{name}.csv")[0] == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (["--model", "qms", "--solver", "cpm", "--components", "4", "--alpha", "0.4", "--balanced"], "QMSClassifier"),
        (["--model", "cv", "--max-iter", "10"], "QMSClassifierCV"),
        (["--model", "loyalty", "--noise", "0.5"], "LoyaltyClassifier"),
        (["--target-accuracy", "0.6", "--noise", "0.5"], "TriageClassifier"),
    ],
)
def test_models(options, kind, folder, tmp_path, call_json):
    told = call_json("fit", folder / "train.csv", "-t", "level", "-o", tmp_path / "m.mfm", *options)
    assert told["kind"] == kind
    assert told["rows"] == 300
    model = multiform.load(tmp_path / "m.mfm")
    assert type(model.estimator_).__name__ == kind
    inner = model.estimator_.get_params()
    if kind == "QMSClassifier":
        assert (inner["n_components"], inner["alpha"], inner["class_weight"], inner["solver"]) == (
            4,
            0.4,
            "balanced",
            "cpm",
        )
    evaluated = call_json("evaluate", tmp_path / "m.mfm", folder / "test.csv")
    assert evaluated["accuracy"] > evaluated["commonest_class_accuracy"] + 0.2


def test_partners(folder, tmp_path, call, call_json):
    """They imply the ensemble; what each kind has of it is told by fit and by info."""
    fit = ("fit", folder / "train.csv", "-t", "level", "-o", tmp_path / "m.mfm", "--max-iter", 1, "--noise", 3)
    told = call_json(*fit, "--partners", "trees")
    assert told["kind"] == "QMSClassifierCV"
    model = multiform.load(tmp_path / "m.mfm").estimator_
    assert model.partners == "trees"
    assert told["training"]["estimator"]["shares"] == pytest.approx(model.shares_)
    assert len(model.shares_) > 1
    own = model.shares_["QMS"]
    assert f"the ensemble is QMS {own:.0%}, " in call("info", tmp_path / "m.mfm")[1]
    assert f"the ensemble is QMS {own:.0%}, " in call(*fit, "--partners", "trees")[1]
    assert call_json(*fit, "--partners", "none")["kind"] == "QMSClassifierCV"
    assert multiform.load(tmp_path / "m.mfm").estimator_.partners is None
    code, _, said = call(*fit, "--partners", "trees", "--model", "qms")
    assert code == 2
    assert "--partners works with --model cv only, and you gave --model qms; see" in said


def test_columns_can_be_overruled(folder, tmp_path, call_json):
    told = call_json(
        "fit", folder / "train.csv", "-t", "level", "-o", tmp_path / "m.mfm", "--model", "qms", "--noise", 1,
        "--drop", "note,ward", "--as-category", "age", "--id", "city", "--as-text", "visit",
    )  # fmt: skip
    roles = {column["name"]: column["role"] for column in told["columns"]}
    assert roles == {
        "patient_id": "identifier",
        "age": "category",
        "city": "identifier",
        "visit": "text",
        "note": "dropped",
        "ward": "dropped",
    }


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "jsonl"])
def test_predict_writes_every_format_in_the_order_of_the_input(suffix, folder, tmp_path, call, call_json):
    out = tmp_path / f"answers.{suffix}"
    told = call_json(
        "predict", folder / "model.mfm", folder / "test.csv", "-o", out, "--keep", "patient_id", "--chances"
    )
    match suffix:
        case "parquet":
            found = pl.read_parquet(out)
        case "jsonl":
            found = pl.read_ndjson(out)
        case _:
            found = pl.read_csv(out, separator="\t" if suffix == "tsv" else ",")
    assert found.columns == [
        "patient_id", "label", "chance", "loyalty", "chance of mild", "chance of none", "chance of severe",
        "unfamiliar",
    ]  # fmt: skip
    test = pl.read_csv(folder / "test.csv")
    assert found["patient_id"].to_list() == test["patient_id"].to_list()
    model = multiform.load(folder / "model.mfm")
    assert found["label"].to_list() == model.predict(test).tolist()
    np.testing.assert_allclose(found["chance"].to_numpy(), model.loyalty_score(test))
    assert told["rows"] == 200
    assert sum(told["labels"].values()) == 200
    assert [entry.name for entry in tmp_path.iterdir()] == [out.name]


def test_predict_reads_and_writes_streams(folder, capsysbinary, monkeypatch):
    content = (folder / "test.csv").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content))))
    assert main(["predict", str(folder / "model.mfm"), "-", "--output-format", "jsonl", "-q"]) == 0
    lines = capsysbinary.readouterr().out.decode().splitlines()
    assert len(lines) == 200
    assert json.loads(lines[0]).keys() == {"label", "chance", "loyalty", "unfamiliar"}


def test_several_files_and_a_pattern(folder, tmp_path, call_json):
    test = pl.read_csv(folder / "test.csv")
    for part in range(4):
        test[part * 50 : (part + 1) * 50].write_parquet(tmp_path / f"part-{part}.parquet")
    call_json("predict", folder / "model.mfm", tmp_path / "part-*.parquet", "-o", tmp_path / "parts.csv")
    call_json("predict", folder / "model.mfm", folder / "test.csv", "-o", tmp_path / "whole.csv")
    parts, whole = pl.read_csv(tmp_path / "parts.csv"), pl.read_csv(tmp_path / "whole.csv")
    assert parts["label"].equals(whole["label"])
    np.testing.assert_allclose(parts["chance"], whole["chance"], rtol=1e-12)  # products of other sizes round otherwise


def test_odd_cells_are_told_and_stop_nothing(folder, tmp_path, call, call_json):
    usual = people(50, 4)
    odd = usual.with_columns(
        city=pl.Series([*["Atlantis\x1b[31m"] * 4, *usual["city"][4:]]),
        age=pl.concat([pl.Series(["old"] * 3), usual["age"].cast(str)[3:]]),
        visit=pl.Series([None, *usual["visit"][1:]]),
    )
    odd.write_csv(tmp_path / "odd.csv")
    words = ["predict", folder / "model.mfm", tmp_path / "odd.csv", "-o", tmp_path / "out.csv"]
    code, out, err = call(*words)
    assert code == 0
    assert "50 rows written" in out
    assert (
        "note: column 'city': 4 cells are unlike the training table and not used, for example Atlantis\\x1b[31m ("
        in err
    )
    assert "(training had Bern, Kyiv, Oslo, Rome or missing)." in err
    assert (
        "note: column 'age': 3 cells are unlike the training table and not used, for example old (training had" in err
    )
    assert (
        "note: column 'visit': 1 cell is unlike the training table and not used, for example missing (training" in err
    )
    assert "shifted" not in err
    answers = pl.read_csv(tmp_path / "out.csv")
    assert answers["unfamiliar"].is_not_null().sum() == 4
    assert answers["unfamiliar"][0].startswith("age old (training: ")
    assert "visit missing (training: 2024-01-01 to 2024-12-28)" in answers["unfamiliar"][0]
    assert "strong" not in answers["loyalty"][:4]
    code, _, err = call(*words, "--quiet")
    assert (code, err) == (0, "")
    told = call_json(*words, "--strict")["unfamiliar"]
    assert told["rows"] == 4
    assert told["shifted"] == []
    assert [(one["column"], one["cells"]) for one in told["columns"]] == [("age", 3), ("city", 4), ("visit", 1)]


def test_labels_are_listed_by_their_number(folder, tmp_path, call_json):
    told = call_json("predict", folder / "model.mfm", folder / "test.csv", "-o", tmp_path / "out.csv")["labels"]
    assert list(told.items()) == sorted(told.items(), key=lambda one: (-one[1], one[0]))
    assert len(told) == 3


@pytest.fixture(scope="module")
def hearts(tmp_path_factory):
    """The issue's case: train.csv and right.csv with age and pulse, wrong.csv with age in months and pulse in Hz."""
    path = tmp_path_factory.mktemp("hearts")
    random = np.random.default_rng(0)
    age, pulse = random.normal(54, 9, 500).round(), random.normal(130, 20, 500).round()
    ill = np.where(age / 9 + pulse / 20 + random.normal(size=500) > 12.5, "ja", "nein")
    table = pl.DataFrame({"age": age, "pulse": pulse, "sex": random.choice(["m", "w"], 500), "ill": ill})
    table[:333].write_csv(path / "train.csv")
    table[333:].write_csv(path / "right.csv")
    table[333:].with_columns(age=12 * pl.col("age"), pulse=pl.col("pulse") / 60).write_csv(path / "wrong.csv")
    assert main(["fit", str(path / "train.csv"), "-t", "ill", "-o", str(path / "model.mfm"), "-q"]) == 0
    return path


def test_other_units_are_told(hearts, tmp_path, call, call_json):
    output = tmp_path / "out.csv"
    words = ["predict", hearts / "model.mfm", hearts / "wrong.csv", "-o", output, "--chances"]
    code, _, err = call(*words)
    assert code == 0
    assert "note: column 'age' has shifted since training: mean 5" in err
    assert "note: column 'pulse' has shifted since training: mean 1" in err
    answers = pl.read_csv(output)
    assert answers["unfamiliar"].null_count() == 0
    assert "strong" not in answers["loyalty"]
    said = np.maximum(answers["chance of ja"], answers["chance of nein"])
    np.testing.assert_allclose(answers["chance"], said)
    assert answers["chance"].max() < 0.75  # nothing is known but the sex
    assert [one["column"] for one in call_json(*words)["unfamiliar"]["shifted"]] == ["age", "pulse"]


@pytest.mark.parametrize("command", ["predict", "evaluate", "report"])
def test_strict_refuses_a_shift(hearts, tmp_path, call, command):
    output = ["-o", tmp_path / "out.html" if command == "report" else tmp_path / "out.csv"] * (command != "evaluate")
    more = ["--no-baselines"] * (command == "report")
    code, out, err = call(command, hearts / "model.mfm", hearts / "wrong.csv", *output, *more, "--strict")
    assert code == 1
    assert out == ""
    assert err.startswith("multiform: column 'age' has shifted since training: mean 5")
    assert err.endswith("and 1 more; stopped, as --strict asks.\n")
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
    code, _, err = call(command, hearts / "model.mfm", hearts / "right.csv", *output, *more, "--strict")
    assert code == 0
    assert "shifted" not in err


def test_the_report_says_what_is_unlike_training(hearts, tmp_path, call):
    words = ["-o", tmp_path / "r.html", "--no-baselines"]
    code, _, err = call("report", hearts / "model.mfm", hearts / "wrong.csv", *words)
    assert code == 0
    assert "column 'age' has shifted" in err
    page = (tmp_path / "r.html").read_text()
    assert "167 of 167 rows have a cell that is unlike the training table" in page
    assert "Column &#39;age&#39; has shifted since training: mean 5" in page
    call("report", hearts / "model.mfm", hearts / "right.csv", *words)
    assert "no column has shifted as a whole" in (tmp_path / "r.html").read_text().lower()


def test_a_shift_shows_only_in_the_whole_of_many_files(hearts, tmp_path, call_json):
    """Every part is too small to tell, and nothing is read twice."""
    older = pl.read_csv(hearts / "right.csv").with_columns(age=pl.col("age").clip(60, 70))
    for part in range(8):
        older[part * 5 : part * 5 + 5].write_csv(tmp_path / f"part-{part}.csv")
    words = ["predict", hearts / "model.mfm"]
    one = call_json(*words, tmp_path / "part-0.csv", "-o", tmp_path / "out.csv")["unfamiliar"]
    assert one["shifted"] == []
    whole = call_json(*words, tmp_path / "part-*.csv", "-o", tmp_path / "out.csv")["unfamiliar"]
    assert [shift["column"] for shift in whole["shifted"]] == ["age"]


def test_evaluate_beside_what_was_expected(folder, call, call_json):
    code, out, _ = call("evaluate", folder / "model.mfm", folder / "test.csv")
    assert code == 0
    for words in ("200 rows, accuracy", "always answering", "right when said", "expected", "strong"):
        assert words in out
    told = call_json("evaluate", folder / "model.mfm", folder / "test.csv")
    test = pl.read_csv(folder / "test.csv")
    right = multiform.load(folder / "model.mfm").predict(test) == test["level"].to_numpy()
    assert told["accuracy"] == pytest.approx(right.mean())
    assert sum(row["count"] for row in told["loyalty"].values()) == 200


def test_requirements_decide_the_exit_code(folder, call):
    model, promise, test = folder / "model.mfm", folder / "promise.mfm", folder / "test.csv"
    assert call("evaluate", model, test, "--require", "0.5")[0] == 0
    code, out, err = call("evaluate", model, test, "--require", "0.999")
    assert code == 3
    assert "200 rows" in out
    assert "0.999 was required" in err
    code, out, _ = call("evaluate", promise, test, "--require", "promise")
    assert code == 0
    assert "promised 60.00%: kept" in out
    for accuracy, code in ((0.5, 0), (0.999, 3)):
        found, out, _ = call("evaluate", model, test, "--require", accuracy, "--json")
        assert found == code
        assert json.loads(out)["required"] == {"accuracy": accuracy, "met": code == 0}  # one object, met or not
    assert call("evaluate", model, test, "--require", "promise")[0] == 2
    assert call("evaluate", model, test, "--require", "much")[0] == 2


def test_rows_without_a_label_and_rare_classes(tmp_path, call):
    frame = people(120, 5).with_columns(level=pl.Series([None] * 7 + ["odd"] + ["mild", "none"] * 56))
    frame.write_csv(tmp_path / "t.csv")
    code, _, err = call("fit", tmp_path / "t.csv", "-t", "level", "-o", tmp_path / "m.mfm", "--max-iter", 10)
    assert code == 0
    assert "note: 7 rows have no label and were left out." in err
    assert "note: class 'odd' has fewer than 5 rows" in err
    code, _, err = call("evaluate", tmp_path / "m.mfm", tmp_path / "t.csv")
    assert code == 0
    assert "7 rows have no label" in err


def test_a_model_saved_in_python_predicts_too(tmp_path, call, call_json):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(80, 2)), np.arange(80) % 2
    X[:, 0] += 3 * y
    np.savez(tmp_path / "train.npz", X=X, y=y)
    multiform.save(QMSClassifier(random_state=0).fit(X, y), tmp_path / "m.mfm")
    told = call_json("evaluate", tmp_path / "m.mfm", tmp_path / "train.npz", "--target", "y")
    assert told["accuracy"] > 0.8
    (tmp_path / "new.csv").write_text("first,second\n1.5,2\n1,x\n")
    code, _, err = call("predict", tmp_path / "m.mfm", tmp_path / "new.csv")
    assert code == 1
    assert "new.csv, line 3, column 'second': the model needs a number; got 'x'." in err
    (tmp_path / "new.csv").write_text("first\n1.5\n")
    assert (
        "reads 2 columns of numbers, and the table has 1"
        in call("predict", tmp_path / "m.mfm", tmp_path / "new.csv")[2]
    )
    code, _, err = call("evaluate", tmp_path / "m.mfm", tmp_path / "train.npz")
    assert code == 2
    assert "give --target" in err


def test_labels_of_every_type_are_found_again(tmp_path, call_json):
    """A model of Python may have truth values or floats for labels, and a table writes them as it likes."""
    X = np.arange(60.0).reshape(-1, 1)
    for classes, written in (([False, True], ["FALSE", "true"]), ([1.0, 2.0], ["1.0", "2"]), (["a", "a\0"], None)):
        y = np.array(classes, dtype=object if written is None else None)[(X[:, 0] >= 30).astype(int)]
        multiform.save(QMSClassifier(random_state=0).fit(X, y), tmp_path / "m.mfm")
        labels = np.array(written or classes, dtype=object)[(X[:, 0] >= 30).astype(int)]
        pl.DataFrame({"x": X[:, 0], "y": labels.tolist()}).write_csv(tmp_path / "t.csv")
        told = call_json("evaluate", tmp_path / "m.mfm", tmp_path / "t.csv", "--target", "y")
        assert told["accuracy"] == 1
        assert told["unknown_classes"] == []
        assert [row["rows"] for row in told["classes"].values()] == [30, 30]


@pytest.mark.parametrize(
    ("words", "code", "match"),
    [
        ("fitt", 2, "There is no command 'fitt', but there is fit; see multiform --help."),
        ("fit {folder}/train.csv", 2, "--target or -t is missing: the column to predict; see multiform fit --help."),
        ("fit {folder}/train.csv -t level -o {new}/m.mfm --model forest", 2, "'forest' is not one of"),
        (
            "fit {folder}/train.csv -t level -o {new}/m.mfm --model qms --target-accuracy 0.9",
            2,
            "works with --model triage only",
        ),
        (
            "fit {folder}/train.csv -t level -o {new}/m.mfm --model cv --confidence 0.9",
            2,
            "works with --model triage only",
        ),
        ("fit {folder}/train.csv -t level -o {new}/m.mfm --target-accuracy 1", 2, "below 1, and you gave 1;"),
        (
            "fit {folder}/train.csv -t level -o {new}/m.mfm --components 0",
            2,
            "'--components': it takes a whole number from 1",
        ),
        ("fit {folder}/train.csv -t level -o {new}/m.mfm --jobs 0", 2, "'--jobs': 0 threads cannot work"),
        ("fit {folder}/train.csv -t level -o {new}/m.mfm --noise nan", 1, "noise"),
        ("fit {folder}/train.csv -t level -o {folder}", 1, "is a folder; give the name of a file"),
        ("fit {new}/bad.csv -t level -o {new}/no/m.mfm", 1, "there is no folder"),  # before anything is read
        ("fit {new}/one.csv -t b -o {new}/m.mfm", 1, "'b' holds only 'x'; there must be at least two classes"),
        ("fit {new}/ids.csv -t b -o {new}/m.mfm", 1, "learnt from: 'a' is taken as identifier (it counts"),
        ("fit {new}/lists.parquet -t b -o {new}/m.mfm", 1, "Column 'b' holds values of the type List(Int64)"),
        ("fit {folder}/train.csv -t leve -o {new}/m.mfm", 1, "There is no column 'leve' to predict"),
        ("fit {folder}/train.csv -t level -o {new}/no/m.mfm --model qms", 1, "there is no folder"),
        ("fit {folder}/train.csv -t patient_id -o {new}/m.mfm", 1, "too many for classes"),
        ("fit {folder}/none.csv -t level -o {new}/m.mfm", 1, "There is no file"),
        ("fit {new}/bad.csv -t b -o {new}/m.mfm", 1, "bad.csv, line 3, column 3: the line has 3 cells"),
        ("fit -t level -o {new}/m.mfm", 2, "FILE is missing: multiform fit [OPTIONS] FILE"),
        ("fit {folder}/train.csv -t level -o {new}/m.mfm --na", 2, "needs a value after it; see multiform fit --help."),
        ("fit {folder}/train.csv -t level -o {new}/m.mfm --sheet A", 1, "is no Excel file and has no sheets"),
        ("fit {folder}/train.csv -t level -o {new}/m.mfm --drop level", 1, "'level' is the target, which is left out"),
        ("fit {folder}/train.csv -t level -o {new}/m.mfm --format parquet", 1, "train.csv cannot be read as parquet: "),
        ("fit {folder}/train.csv -t level -o {new}/m.mfm --as-date city", 1, "fits all of its cells: YYYY-MM-DD; "),
        ("report {folder}/train.csv {folder}/test.csv -t level -o {new}/r.html", 2, "test.csv are both tables; give a"),
        ("export {folder}/model.mfm --onnx {new}/m.onnx --double", 2, "--double is for --numbers"),
        (
            "fit {folder}/train.csv -t level -o {new}/m.mfm --alpha 2",
            2,
            "'--alpha': it takes a number from 0 and below 1",
        ),
        (
            "fit {folder}/train.csv -t level -o {new}/m.mfm --as-number city",
            1,
            "train.csv, line 2, column 'city': it was to be read as a",
        ),
        ("predict {folder}/none.mfm {folder}/test.csv", 1, "There is no model file"),
        ("predict {folder}/test.csv {folder}/test.csv", 1, "is not a model file of multiform"),
        ("predict {folder}/model.mfm {new}/bad.csv", 1, "bad.csv, line 3"),
        (
            "predict {folder}/model.mfm {new}/few.csv",
            1,
            "few.csv: The table has no column 'age', which the model needs",
        ),
        (
            "predict {folder}/model.mfm {new}/lists.parquet",
            1,
            "lists.parquet: Column 'age' holds values of the type List",
        ),
        ("report {folder}/model.mfm {folder}/test.csv -o {new}/no/r.html", 1, "r.html cannot be written: there is no"),
        ("report {folder}/model.mfm {folder}/test.csv -o {new}/r.html --plan {folder}/model.mfm", 1, "and no plan"),
        ("fit {folder}/train.csv -t level -o {folder}/train.csv", 2, "is also an input, which would be lost"),
        ("predict {folder}/model.mfm {folder}/test.csv -o {folder}/./test.csv", 2, "is also an input"),
        ("export {folder}/model.mfm --onnx {folder}/model.mfm", 2, "is also an input"),
        ("report {folder}/model.mfm {folder}/test.csv -o {folder}/test.csv", 2, "is also an input"),
        ("plan {folder}/train.csv -t level --costs {new}/one.csv -o {new}/one.csv", 2, "is also an input"),
        ("export {folder}/model.mfm --onnx {folder}", 1, "is a folder; give the name of a file"),
        ("plan {folder}/train.csv -t level --costs {folder}/none.csv -o {new}/p.mfm", 1, "There is no file"),
        (
            "plan {folder}/train.csv -t level --costs x.csv -o {new}/p.mfm --theta 2",
            2,
            "'--theta': it takes a number from 0 to 1",
        ),
        ("predict {folder}/model.mfm {folder}/test.csv -o {new}/out.xls", 2, "name the output .csv"),
        ("predict {folder}/model.mfm {folder}/test.csv -o {new}/o.csv --keep w", 1, "no column 'w' to keep"),
        ("predict {folder}/model.mfm {folder}/test.csv --json", 2, "cannot share standard output"),
        ("predict {folder}/model.mfm {folder}/test.csv --output-format parquet", 2, "standard output"),
        ("evaluate {folder}/model.mfm {new}/few.csv", 1, "few.csv: The table has no column 'level' with the truth"),
        ("demo --output {folder}/train.csv", 2, "--output takes a folder, and"),
        ("info {folder}/train.csv", 1, "is not a model file of multiform"),
        ("diagnose {folder}/model.mfm", 1, "holds a model (TableClassifier) and no plan"),
    ],
)
def test_what_goes_wrong_is_one_sentence(words, code, match, folder, tmp_path, call):
    (tmp_path / "bad.csv").write_text("a,b\n1,x\n2,y,z\n")
    (tmp_path / "few.csv").write_text("city,visit\nRome,2024-01-01\n")
    (tmp_path / "one.csv").write_text("a,b\n1,x\n2,x\n")
    (tmp_path / "ids.csv").write_text("a,b\n" + "".join(f"{row},{'xy'[row % 2]}\n" for row in range(40)))
    many = people(40, 0).drop("level").with_columns(age=pl.Series([[row] for row in range(40)]))
    many.with_columns(b=pl.col("age")).write_parquet(tmp_path / "lists.parquet")
    (tmp_path / "m.mfm").write_text("the old one")
    before = sorted(entry.name for entry in tmp_path.iterdir())
    found, out, err = call(*words.format(folder=folder, new=tmp_path).split())
    assert found == code
    assert match in err
    assert err.startswith("multiform: ")
    assert err.count("\n") == 1
    if "--json" in words:
        assert json.loads(out) == {"error": err.removeprefix("multiform: ").rstrip("\n"), "exit_code": code}
    assert (tmp_path / "m.mfm").read_text() == "the old one"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == before


def test_whatever_labels_hold_a_row_of_a_table_is_a_line(tmp_path, call):
    kinds = ["two\nlines", "a,b", 'q"uote', "\x1b[31mred", "w" * 300]
    frame = pl.DataFrame({"x": [k + 0.01 * row for row in range(12) for k in range(5)], "kind": kinds * 12})
    frame.write_csv(tmp_path / "t.csv")
    code, told, _ = call("fit", tmp_path / "t.csv", "-t", "kind", "-o", tmp_path / "m.mfm", "--model", "qms", "-q")
    assert code == 0
    assert "two\\nlines 12" in told
    for words in (["evaluate", tmp_path / "m.mfm", tmp_path / "t.csv"],
                  ["predict", tmp_path / "m.mfm", tmp_path / "t.csv", "-o", tmp_path / "out.csv"]):  # fmt: skip
        code, out, _ = call(*words)
        assert code == 0
        assert "\x1b" not in out
        assert (
            sum(
                line.startswith(("two\\nlines ", "a,b ", 'q"uote ', "\\x1b[31mred ", "www"))
                for line in out.splitlines()
            )
            == (10 if words[0] == "evaluate" else 5)  # the classes, and the matrix of truth and answer
        )
    assert pl.read_csv(tmp_path / "out.csv")["label"].to_list() == kinds * 12


def test_without_words_it_says_what_there_is(call):
    code, out, err = call()
    assert (code, err) == (0, "")
    assert out.startswith("Usage: multiform")
    assert "diagnose" in out


def test_what_should_not_happen_is_a_sentence_too(monkeypatch, call):
    def fail():
        raise RuntimeError("deep inside\nand more")

    monkeypatch.setattr("multiform.cli._info._installation", fail)
    code, _, err = call("info")
    assert code == 1
    assert err == (
        "multiform: this should not happen, RuntimeError: deep inside and more; MULTIFORM_DEBUG=1 shows where, please "
        "report it.\n"
    )
    monkeypatch.setenv("MULTIFORM_DEBUG", "1")
    with pytest.raises(RuntimeError, match="deep inside"):
        call("info")


def test_the_line_of_a_wrong_cell(folder, tmp_path, call):
    """Rows without a label, cells of several lines and other files before it are counted."""
    (tmp_path / "a.csv").write_text("x,y\n1,p\n2,q\n")
    (tmp_path / "b.csv").write_text('x,y\n3,p\n4,\n5,"q"\n6,"\nr"\nseven,p\n')
    words = ["fit", tmp_path / "a.csv", tmp_path / "b.csv", "-t", "y", "-o", tmp_path / "m.mfm", "--as-number", "x"]
    code, _, err = call(*words)
    assert code == 1
    assert f"{tmp_path / 'b.csv'}, line 7, column 'x': it was to be read as a number, and this is 'seven'." in err
    pl.DataFrame({"x": ["1", "two"], "y": ["p", "q"]}).write_parquet(tmp_path / "c.parquet")
    code, _, err = call("fit", tmp_path / "c.parquet", "-t", "y", "-o", tmp_path / "m.mfm", "--as-number", "x")
    assert f"{tmp_path / 'c.parquet'}, row 2, column 'x'" in err


def test_info_of_the_installation(call_json):
    told = call_json("info")
    assert told["multiform"] == multiform.__version__
    assert told["extra cli"] == "installed"


def test_without_the_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "polars", None)
    assert main(["info"]) == 1
    assert 'needs polars; install it with pip install "multiform[cli]"' in capsys.readouterr().err


def test_export(folder, tmp_path, call_json):
    pytest.importorskip("skl2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    told = call_json("export", folder / "model.mfm", "--onnx", tmp_path / "m.onnx", "--check", folder / "train.csv")
    model, test = multiform.load(folder / "model.mfm"), pl.read_csv(folder / "test.csv")
    assert told["inputs"] == [column.name for column in model.columns_ if column.width]
    assert told["checked"]["same_labels"] == told["checked"]["rows"] > 0
    told = call_json("export", folder / "model.mfm", "--onnx", tmp_path / "m.onnx", "--numbers")
    assert told["inputs"] == model.encoded_names()
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    X = model.transform(test).astype(np.float32)
    labels = session.run(["label"], {"X": X})[0]
    assert labels.tolist() == model.estimator_.predict(X).tolist()


def test_report(folder, tmp_path, call_json):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    told = call_json("report", folder / "model.mfm", folder / "test.csv", "-o", tmp_path / "r.html", "--no-baselines")
    assert told["n_samples"] == 200
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "multiform" in page
    assert "every cell reads as a date" in page


def once(function):
    """Called once; the second call gets the first one's result."""
    results = []

    def first_result(*args, **settings):
        if not results:
            results.append(function(*args, **settings))
        return results[0]

    return first_result


def test_reproduce_prints_every_table_beside_ours(tmp_path, call, call_json, monkeypatch):
    write_folder(tmp_path, n_train=100, n_test=60)
    monkeypatch.setattr(reproduction, "reproduce", once(reproduction.reproduce))
    # The paper's settings on random pixels take long and show nothing.
    monkeypatch.setattr(_run, "PAPER", {"n_components": 2, "max_iter": 2})
    code, out, _ = call("reproduce", "--data", tmp_path, "--solver", "adam", "--quiet")
    assert code == 0
    assert out.count("Table: ") == 9
    for figure in ("92.69%", "88.63%", "58 s", "99.82%", "97.45%", "5422", "858", "530"):
        assert figure in out
    told = call_json("reproduce", "--data", tmp_path, "--solver", "adam")
    assert np.sum(told["qms"][0]["test_confusion"]) == 60
    layers = np.sum(told["loyalty"]["test_tensor"], axis=0)
    assert np.sum(layers) == 60
