"""Files that a stranger made: right magic, framing and checksum, and values that nobody ever fitted.

Each runs in a child that has 1 GB beyond its start and 5 s (`tests.fuzz.runner`); where it is refused, the sentence is
checked here, too.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import multiform
from multiform.files import ModelFileError
from multiform.files._format import unpack
from tests.files import models
from tests.fuzz import Case, runner
from tests.fuzz.model_files import ESCAPES, sealed


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    """The bytes of a small model of some kinds."""
    path = tmp_path_factory.mktemp("files") / "model.mfm"
    found = {}
    for name in ("qms", "cv", "loyalty", "triage, pipeline", "patches", "plan", "table"):
        multiform.save(models.model(name), path)
        found[name] = path.read_bytes()
    found["plan of 0.1.0"] = (Path(__file__).parent / "golden" / "0.1.0" / "plan.mfm").read_bytes()  # has its patients
    return found


def entry(node, *names):
    """A value inside written dicts and states."""
    for name in names:
        node = dict(node["dict"])[name] if "dict" in node else node[name]
    return node


def put(node, name, value):
    """Replace a value of a written dict or of a state."""
    if "dict" in node:
        node["dict"] = [[key, value if key == name else old] for key, old in node["dict"]]
    else:
        node[name] = value


def wide_texts(n):
    def change(header, arrays):
        texts = [{"values": ["a"], "shape": [1], "dtype": "U9999999"} for _ in range(n)]
        header["model"].update(params={"class_weight": texts}, state={})

    return "qms", change


def one_long_text(header, arrays):
    names = {"values": ["x" * 40_000] + [""] * 10_000, "shape": [10_001], "dtype": "U40000"}
    header["model"].update(params={"class_weight": names}, state={})


def many_features(header, arrays):
    encodings = entry(header["model"], "state", "encodings_")
    for name, value in (("n_features", 60_000_000), ("names", ["plain"]), ("enriched", [])):
        put(encodings, name, value)


def many_knots(header, arrays):
    (found,) = entry(header["model"], "state", "encodings_", "enriched")
    name = entry(found, "knots")["array"]
    arrays[name] = np.sort(np.random.default_rng(0).normal(size=(16_004, arrays[name].shape[1])), axis=0)


def a_fold_for_every_patient(header, arrays):
    judge, n = entry(header["model"], "state", "judge_"), 20_000
    for part, dtype, wide in (
        ("rows", "f4", True),
        ("target", "i4", False),
        ("fold", "i8", False),
        ("full", "f8", True),
    ):
        node = entry(judge, part)
        shape = (n, arrays[node["array"]].shape[1]) if wide else (n,)
        arrays[node["array"]] = np.arange(n) if part == "fold" else np.zeros(shape, dtype=dtype)
    put(judge, "models", {"dict": [["nominal", []], ["held back", []]]})


def long_column_names(header, arrays):
    columns = header["model"]["state"]["columns_"]
    for column in columns:
        if entry(column, "kind") == "Category":
            put(column, "name", "n" * 200_000)
            put(column, "values", {"tuple": [f"v{k}" for k in range(20_000)]})


def many_positions(header, arrays):
    header["model"]["params"].update(image_shape={"tuple": [300, 300]}, patch_size=1, grid=300)
    header["model"]["state"].update(n_features_in_=90_000, image_shape_={"tuple": [300, 300, 1]})
    arrays[header["model"]["state"]["filters_"]["array"]] = np.ones((1, 3), dtype=np.float32)


def twisted(pos):
    def change(header, arrays):
        arrays["key"] = np.arange(624, dtype=np.uint32)
        state = {"key": {"array": "key", "order": "C"}, "pos": pos, "has_gauss": 0, "gauss": 0.0}
        header["model"]["params"]["random_state"] = {"kind": "RandomState", "id": 99, "params": {}, "state": state}

    return "qms", change


def shared_pipelines(header, arrays):
    node = {"kind": "StandardScaler", "id": 100, "params": {}, "state": {}}
    for level in range(1, 14):
        steps = [{"tuple": ["a", node]}, *[{"tuple": [name, {"same": 99 + level}]} for name in "bcdef"]]
        node = {"kind": "Pipeline", "id": 100 + level, "params": {"steps": steps}, "state": {}}
    header["model"].update(params={"estimator": node}, state={})


def one_array_many_times(header, arrays):
    (found,) = entry(header["model"], "state", "encodings_", "enriched")
    arrays["many"] = np.arange(200_000.0)
    put(found, "categories", [{"array": "many", "order": "C"}] * 3000)


def colliding_keys(header, arrays):
    weights = {"dict": [[k * (2**61 - 1), 1.0] for k in range(1, 40_000)]}
    header["model"].update(params={"class_weight": weights}, state={})


def many_empty_lists(header, arrays):
    header["notes"] = {"a": [[]] * 3_000_000}


def coefficients_of(value):
    def change(header, arrays):
        node = entry(header["model"], "state", "separators_", "coefficients")
        arrays[node["array"]] = np.full_like(arrays[node["array"]], value)

    return "cv", change


def scale_of(value):
    def change(header, arrays):
        node = entry(header["model"], "state", "scaling", "scale")
        arrays[node["array"]] = np.full_like(arrays[node["array"]], value)
        node = entry(
            header["model"], "state", "gaps", "deviation"
        )  # else gaps would add more than there are numbers for
        arrays[node["array"]] = np.zeros_like(arrays[node["array"]])

    return "cv", change


def logistic(attribute, value):
    def change(header, arrays):
        node = header["model"]["state"]["estimator_"]["params"]["steps"][-1]["tuple"][1]["state"][attribute]
        arrays[node["array"]] = np.full_like(arrays[node["array"]], value)

    return "triage, pipeline", change


def scaler(value):
    def change(header, arrays):
        node = header["model"]["state"]["estimator_"]["params"]["steps"][0]["tuple"][1]["state"]["scale_"]
        arrays[node["array"]] = np.full_like(arrays[node["array"]], value)

    return "triage, pipeline", change


def trust(header, arrays):
    node = entry(header["model"], "state", "judge_", "trusts")
    arrays[node["array"]] = np.full_like(arrays[node["array"]], np.nan)


def other_order(header, arrays):
    header["model"]["state"]["classes_"]["values"].reverse()


def huge_threshold(header, arrays):
    header["model"]["params"]["threshold"] = -1e300


def estimator_is_a_number(header, arrays):
    header["model"]["params"]["estimator"] = 5


def huge_components(header, arrays):
    node = header["model"]["state"]["altered_estimators_"][0]["state"]["components_"]
    arrays[node["array"]] = np.full_like(arrays[node["array"]], 1e38)


def jobs(n):
    return "qms", lambda header, arrays: header["model"]["params"].update(n_jobs=n)


REFUSED = {
    "many features": ("cv", many_features, "more memory than a file of"),
    "many knots": ("cv", many_knots, "more memory than a file of"),
    "a fold for every patient": ("plan of 0.1.0", a_fold_for_every_patient, "more memory than a file of|has no model"),
    "long names of many columns": ("table", long_column_names, "more memory than a file of"),
    "many positions of a patch": ("patches", many_positions, "more memory than a file of"),
    "an array many times": ("cv", one_array_many_times, "more memory than a file of"),
    "pipelines in pipelines": ("loyalty", shared_pipelines, "more memory than a file of"),
    "keys that collide": ("qms", colliding_keys, "a whole number of more than 64 bits"),
    "many empty lists": ("qms", many_empty_lists, "its description would take more memory than a file of"),
    "generator beyond its end": (*twisted(625), "pos of RandomState is greater than 624"),
    "generator before its start": (*twisted(-1), "pos of RandomState is not a whole number of at least 0"),
    "200,000 threads": (*jobs(200_000), "n_jobs must be None or a whole number from -1024 to 1024"),
    "no thread": (*jobs(0), "n_jobs must be None or"),
    "coefficients too large": (*coefficients_of(1e25), "a separator is not finite, or too large"),
    "coefficients not a number": (*coefficients_of(np.nan), "a separator is not finite, or too large"),
    "zero scale": (*scale_of(0.0), "the scaling is wrong"),
    "logistic regression not a number": (*logistic("coef_", np.nan), "coef_ is not finite, or too large"),
    "logistic regression too large": (*logistic("intercept_", 1e300), "intercept_ is not finite, or too large"),
    "zero scale of a scaler": (*scaler(0.0), "scale_ is not positive"),
    "classes in another order": ("triage, pipeline", other_order, "not sorted and distinct"),
    "huge threshold": ("patches", huge_threshold, "threshold is out of range"),
    "no estimator": ("triage, pipeline", estimator_is_a_number, "estimator of TriageClassifier is none"),
    "huge components": ("loyalty", huge_components, "a separator is not finite, or too large"),
    "trust not a number": ("plan", trust, "a trust is out of range"),
}
ANSWERED = {
    "sixty wide texts": wide_texts(60),
    "600 wide texts": wide_texts(600),
    "one long text beside 10,000 empty ones": ("qms", one_long_text),
    "scale that single precision does not have": scale_of(1e-50),
    "scale that double precision hardly has": scale_of(1e-310),
    "scale that is huge": scale_of(1e300),
}


def made(contents, name, change):
    header, arrays = unpack(contents[name], "here")
    change(header, arrays)
    return sealed(header, arrays)


def file_name(what):
    return f"model-files_{what.replace('_', '-')}"


@pytest.fixture(scope="module")
def files(contents, tmp_path_factory):
    """A folder with all of them."""
    folder = tmp_path_factory.mktemp("strangers")
    for what, (name, change, *_) in (REFUSED | ANSWERED).items():
        (folder / file_name(what)).write_bytes(made(contents, name, change))
    return folder


@pytest.fixture(scope="module")
def outcomes(files):
    command = [sys.executable, "-m", "tests.fuzz", "--replay", str(files)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)


@pytest.mark.parametrize("what", REFUSED)
def test_refused_with_a_sentence_and_at_no_cost(what, files, outcomes):
    outcome = outcomes[file_name(what)]
    assert outcome["what"] == "refused", outcome
    with pytest.raises(ModelFileError, match=REFUSED[what][2]) as caught:
        multiform.load(files / file_name(what))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("what", ANSWERED)
def test_read_at_no_cost(what, outcomes):
    outcome = outcomes[file_name(what)]
    assert outcome["what"] == "answered", outcome


def test_texts_come_back_as_wide_as_they_were(tmp_path):
    """Padding is kept where it is little."""
    model = multiform.QMSClassifier.from_separators([[[1.0]], [[1.0]]], [[2.0], [0.0]], np.array(["a", "b"], "U50"))
    multiform.save(model, tmp_path / "model.mfm")
    assert multiform.load(tmp_path / "model.mfm").classes_.dtype == model.classes_.dtype


class Paths:
    """Reads a path rather than bytes: `Case.how` says which."""

    def __init__(self, path):
        self.path = path

    def judge(self, case, folder):
        with pytest.raises(ModelFileError, match=case.content.decode()):
            multiform.load(self.path)
        return "refused"


def test_what_is_not_a_model_file_is_not_read(tmp_path):
    large, pipe = tmp_path / "large.mfm", tmp_path / "pipe.mfm"
    with open(large, "wb") as stream:
        stream.truncate(3 << 30)  # takes no room on the disk
    os.mkfifo(pipe)
    for path, match in (
        (large, "is not a model file"),
        (pipe, "is a pipe or a device"),
        ("/dev/zero", "is a pipe or a"),
    ):
        outcome = runner.run([(Paths(path), lambda match=match: Case(match.encode()))])[0]
        assert outcome.what == "refused", outcome


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_info_shows_escapes_and_does_not_send_them(options, contents, tmp_path):
    def change(header, arrays):
        header["notes"] = {ESCAPES: ESCAPES}
        header["classes"] = [ESCAPES]
        header["written"] = ESCAPES
        header["versions"] = {"multiform": ESCAPES}

    path = tmp_path / "model.mfm"
    path.write_bytes(made(contents, "table", change))
    command = [sys.executable, "-m", "multiform", "info", str(path), *options]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "owned" in told
    assert all(letter.isprintable() or letter == "\n" for letter in told)


def test_an_error_shows_escapes_and_does_not_send_them(contents, tmp_path):
    path = tmp_path / "model.mfm"
    path.write_bytes(made(contents, "qms", lambda header, arrays: header["model"]["params"].update({ESCAPES: 1})))
    command = [sys.executable, "-m", "multiform", "export", str(path), "--onnx", str(tmp_path / "model.onnx")]
    told = subprocess.run(command, capture_output=True, text=True)
    assert told.returncode == 1
    assert "owned" in told.stderr
    assert all(letter.isprintable() or letter == "\n" for letter in told.stderr)
