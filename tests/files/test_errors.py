"""What is wrong with a file, or cannot be saved, is one sentence; and nothing of a file is ever run."""

import json
import struct
import sys

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.svm import SVC

import multiform
from multiform import LoyaltyClassifier, QMSClassifier, QMSClassifierCV, TriageClassifier
from multiform.files import ModelFileError, _format, describe
from multiform.files._format import pack, unpack
from tests.files import models


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "model.mfm"
    multiform.save(models.model("loyalty"), path)
    return path.read_bytes()


def refused(content, tmp_path, match):
    path = tmp_path / "model.mfm"
    path.write_bytes(content)
    for read in (multiform.load, describe):
        with pytest.raises(ModelFileError, match=match) as caught:
            read(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
        assert str(caught.value).endswith(".")


def test_foreign_files(tmp_path):
    refused(b"", tmp_path, "is empty")
    for foreign in (
        b"label,chance\na,0.5\n",
        b"PK\x03\x04zip",
        b"\x80\x04\x95pickle",
        b"\x89PNG\r\n\x1a\n",
        b"\x00" * 500,
    ):
        refused(foreign, tmp_path, "is not a model file of multiform")


def test_truncated_files(content, tmp_path):
    for length in (4, 20, 51):
        refused(content[:length], tmp_path, "truncated")
    for length in (60, len(content) // 2, len(content) - 1):
        refused(content[:length], tmp_path, "damaged or truncated")
    refused(content + b"\x00", tmp_path, "damaged or truncated")


def test_a_transfer_that_changes_line_ends_is_noticed(content, tmp_path):
    refused(content.replace(b"\r\n", b"\n"), tmp_path, "is not a model file")


def test_a_newer_file_says_so(content, tmp_path, monkeypatch):
    header, arrays = unpack(content, "here")
    monkeypatch.setattr(_format, "FORMAT_VERSION", 7)
    newer = pack(header, arrays)
    monkeypatch.undo()
    refused(newer, tmp_path, "has format 7, and this version of multiform reads formats up to 2: install a newer")
    # A flipped bit in the version is damage, not news.
    damaged = content[:8] + struct.pack("<I", 9) + content[12:]
    refused(damaged, tmp_path, "checksum")


@pytest.mark.parametrize("version", [0, 1])
def test_a_file_from_before_the_first_release_says_so(version, content, tmp_path, monkeypatch):
    header, arrays = unpack(content, "here")
    monkeypatch.setattr(_format, "FORMAT_VERSION", version)
    older = pack(header, arrays)
    monkeypatch.undo()
    refused(older, tmp_path, f"has format {version}, which no released version of multiform wrote: fit the model again")


def test_there_is_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no model file .*nothing\.mfm\."):
        multiform.load(tmp_path / "nothing.mfm")
    with pytest.raises(IsADirectoryError, match="is a folder, not a model file"):
        multiform.load(tmp_path)


def sealed(change, content):
    """The file with its JSON changed and a right checksum: what somebody could write on purpose."""
    header, arrays = unpack(content, "here")
    change(header, arrays)
    return pack(header, arrays)


def members(tree):
    """All nodes of a kind in a tree."""
    if isinstance(tree, dict):
        if "kind" in tree:
            yield tree
        for entry in tree.values():
            yield from members(entry)
    elif isinstance(tree, list):
        for entry in tree:
            yield from members(entry)


def first(header, kind):
    """The first object of a kind that is fitted."""
    found = (node for node in members(header["model"]) if node["kind"] == kind)
    return next(node for node in found if node["state"])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda h, a: h.update(schema="other"), "does not say which model"),
        (lambda h, a: h.update(kind="subprocess.Popen"), "does not say which model"),
        (lambda h, a: h.update(kind="Pipeline"), "does not say which model"),
        (lambda h, a: h.update(kind="QMSClassifier"), "it says QMSClassifier and holds LoyaltyClassifier"),
        (lambda h, a: h.update(model={"kind": "os.system", "id": 0}), "unknown kind 'os.system'"),
        (lambda h, a: h.update(model={"surprise": 1}), "something unknown"),
        (lambda h, a: h.update(model={"kind": "LoyaltyTable", "id": 0}), "unknown kind 'LoyaltyTable'"),
        (lambda h, a: h["model"].update(surprise={}), "has other parts than params and state"),
        (lambda h, a: h["model"].pop("state"), "has other parts than params and state"),
        (lambda h, a: h["model"]["params"].update(nonsense=1), "holds no model that works"),
        (lambda h, a: h["model"]["state"].update(fit=1), "has no attribute 'fit'"),
        (lambda h, a: h["model"]["state"].pop("score"), "LoyaltyClassifier lacks 'score'"),
        (lambda h, a: first(h, "QMSClassifier").update(state=3), "is not an object"),
        (lambda h, a: list(members(h))[-1].update(id=first(h, "QMSClassifier")["id"]), "objects have the number"),
        (lambda h, a: a.clear(), "something unknown"),
        (
            lambda h, a: h["model"]["state"].update(classes_={"values": [1, 2], "shape": [3], "dtype": "object"}),
            "shape",
        ),
        (
            lambda h, a: h["model"]["state"].update(classes_={"values": [1], "shape": [1], "dtype": "U9"}),
            "something else",
        ),
        (lambda h, a: h["model"]["state"].update(levels_={"tuple": ["strong"]}), "levels_ is wrong"),
        (lambda h, a: h["model"]["state"].update(estimator_=json.loads("[" * 70 + "]" * 70)), "nested too deeply"),
    ],
)
def test_a_file_made_on_purpose(change, match, content, tmp_path):
    path = tmp_path / "model.mfm"
    path.write_bytes(sealed(change, content))
    with pytest.raises(ModelFileError, match=match) as caught:
        multiform.load(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["kind", "versions", "written", "classes", "columns", "training", "notes", "model"])
def test_a_description_that_lacks_something(key, content, tmp_path):
    refused(sealed(lambda header, arrays: header.pop(key), content), tmp_path, "is damaged: it")
    refused(sealed(lambda header, arrays: header.update({key: 1}), content), tmp_path, "is damaged: it")


@pytest.mark.parametrize("name", ["components_", "offsets_", "center", "scale", "classes_"])
def test_arrays_that_do_not_fit_never_reach_the_engine(name, content, tmp_path):
    def shorten(header, arrays):
        state = first(header, "QMSClassifier")["state"]
        node = state[name] if name in state else dict(state["scaling"]["dict"])[name]
        if "array" in node:
            arrays[node["array"]] = arrays[node["array"]][:-1]
        else:
            node.update(values=node["values"][:-1], shape=[len(node["values"]) - 1])

    path = tmp_path / "model.mfm"
    path.write_bytes(sealed(shorten, content))
    with pytest.raises(ModelFileError, match=r"wrong shape|not what|other classes|is wrong"):
        multiform.load(path)


def test_columns_of_an_ensemble_stay_inside_the_matrix(tmp_path):
    path = tmp_path / "model.mfm"
    multiform.save(models.model("cv"), path)

    def outside(header, arrays):
        node = dict(header["model"]["state"]["separators_"]["dict"])["columns"]
        arrays[node["array"]] = arrays[node["array"]] + np.int32(10_000)

    path.write_bytes(sealed(outside, path.read_bytes()))
    with pytest.raises(ModelFileError, match="reads columns that there are not"):
        multiform.load(path)


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (RandomForestClassifier(), r"multiform\.save writes QMSClassifier, .*; got a RandomForestClassifier"),
        (
            LoyaltyClassifier(SVC()),
            "estimator of LoyaltyClassifier is a sklearn.*SVC",
        ),
        (QMSClassifierCV(encodings=["plain", Nystroem()]), "encodings of QMSClassifierCV is a .*Nystroem"),
        (TriageClassifier(QMSClassifier(), score_method=lambda model, X: X[:, 0]), "score_method .* is the function"),
        (QMSClassifier(class_weight={0: 1j}), "class_weight of QMSClassifier is a builtins.complex"),
    ],
)
def test_what_a_file_cannot_hold(model, match, tmp_path):
    path = tmp_path / "model.mfm"
    path.write_bytes(b"the old one")
    with pytest.raises(TypeError, match=match):
        multiform.save(model, path)
    assert path.read_bytes() == b"the old one"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_fitted_transformer_of_the_users_own_is_refused(tmp_path):
    X, y = models.data()
    fitted = QMSClassifierCV((0.1,), encodings=[Nystroem(n_components=3)], cv=2, max_iter=2, random_state=0).fit(X, y)
    fitted.encodings = "auto"
    with pytest.raises(TypeError, match="has a transformer of its own, Nystroem"):
        multiform.save(fitted, tmp_path / "model.mfm")


def test_an_attribute_that_would_be_lost_is_refused(tmp_path):
    model = QMSClassifier.from_separators([[[1.0]], [[1.0]]], [[2.0], [0.0]], ["a", "b"])
    model.threshold = 0.5
    with pytest.raises(TypeError, match=r"has an attribute 'threshold' that model files do not know"):
        multiform.save(model, tmp_path / "model.mfm")


def test_without_safetensors(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    with pytest.raises(ImportError, match=r'pip install "multiform\[files\]"'):
        multiform.save(models.model("qms"), tmp_path / "model.mfm")
    assert list(tmp_path.iterdir()) == []
