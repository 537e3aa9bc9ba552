"""A model that was saved and loaded is the model."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import multiform
from multiform import LoyaltyClassifier, QMSClassifier, QMSClassifierCV, TriageClassifier
from multiform.files import describe
from multiform.files._format import TreeReader, TreeWriter
from multiform.state import Allowance
from tests.files import models


@pytest.mark.parametrize("name", models.NAMES)
def test_answers_and_parameters_are_the_same(name, tmp_path):
    fitted, X = models.model(name), models.samples(name)
    multiform.save(fitted, tmp_path / "model.mfm")
    loaded = multiform.load(tmp_path / "model.mfm")
    assert type(loaded) is type(fitted)
    assert models.same(models.answers(loaded, X), models.answers(fitted, X))
    before, after = fitted.get_params(), loaded.get_params()
    assert before.keys() == after.keys()
    for key, value in before.items():
        if value is None or isinstance(value, bool | int | float | str | tuple | list | dict):
            assert repr(after[key]) == repr(value)
            assert type(after[key]) is type(value)
    assert vars(loaded).keys() == vars(fitted).keys()


@pytest.mark.parametrize("name", models.NAMES)
def test_saving_what_was_loaded_changes_nothing(name, tmp_path):
    multiform.save(models.model(name), tmp_path / "first.mfm")
    multiform.save(multiform.load(tmp_path / "first.mfm"), tmp_path / "second.mfm")
    X = models.samples(name)
    expected = models.answers(models.model(name), X)
    assert models.same(models.answers(multiform.load(tmp_path / "second.mfm"), X), expected)


def test_partial_fit_goes_on_as_if_nothing_had_happened(tmp_path):
    X, y = models.data()
    here = QMSClassifier(random_state=0).partial_fit(X, y, classes=np.unique(y))
    multiform.save(here, tmp_path / "model.mfm")
    there = multiform.load(tmp_path / "model.mfm").partial_fit(X, y)
    assert models.same(models.answers(there, X), models.answers(here.partial_fit(X, y), X))


def test_a_fit_goes_on_from_the_same_random_state(tmp_path):
    X, y = models.data()
    random = np.random.RandomState(5)
    random.normal()  # leaves half a pair behind
    multiform.save(QMSClassifier(random_state=random, max_iter=5), tmp_path / "model.mfm")
    there = multiform.load(tmp_path / "model.mfm").fit(X, y)
    here = QMSClassifier(random_state=random, max_iter=5).fit(X, y)
    assert np.array_equal(there.components_, here.components_)
    assert there.random_state.normal() == random.normal()


def test_what_is_not_fitted_comes_back_unfitted(tmp_path):
    for unfitted in (
        QMSClassifier(alpha=0.2),
        QMSClassifierCV(),
        LoyaltyClassifier(),
        TriageClassifier(QMSClassifier()),
    ):
        multiform.save(unfitted, tmp_path / "model.mfm")
        assert repr(multiform.load(tmp_path / "model.mfm")) == repr(unfitted)


def test_members_of_a_committee_are_saved_once(tmp_path):
    fitted = models.model("loyalty")
    multiform.save(fitted, tmp_path / "model.mfm")
    loaded = multiform.load(tmp_path / "model.mfm")
    assert loaded._committee.nominal is loaded.estimator_
    assert loaded._committee.altered[1] is loaded.altered_estimators_[1]
    numbers = sum(
        model.components_.size + model.offsets_.size for model in [fitted.estimator_, *fitted.altered_estimators_]
    )
    assert describe(tmp_path / "model.mfm")["numbers"] < 1.5 * numbers + 200


def test_single_precision_input_gives_the_same_bits(tmp_path):
    multiform.save(models.model("qms"), tmp_path / "model.mfm")
    loaded = multiform.load(tmp_path / "model.mfm")
    for dtype in (np.float32, np.uint8):
        X = models.data()[0].astype(dtype)
        assert np.array_equal(loaded.member_values(X), models.model("qms").member_values(X))


WATCHED = """
import sys, numpy, multiform
path, samples, chances = sys.argv[1:]
optional = {"safetensors", "polars", "click", "matplotlib", "jinja2", "onnx", "skl2onnx"}
assert not optional & set(sys.modules), "import multiform must bring nothing optional"
multiform.load(path)  # what has to be imported has been
events = []
sys.addaudithook(lambda event, args: events.append((event, args)))
model = multiform.load(path)
seen, opened = {event for event, _ in events}, [str(args[0]) for event, args in events if event == "open"]
assert not seen & {"exec", "compile", "import", "os.system", "subprocess.Popen", "pickle.find_class", "socket.connect"}
assert opened == [path], opened
numpy.save(chances, model.predict_proba(numpy.load(samples)))
"""


def test_another_process_reads_it_and_nothing_is_run(tmp_path):
    multiform.save(models.model("loyalty"), tmp_path / "model.mfm")
    np.save(tmp_path / "X.npy", models.samples("loyalty"))
    paths = [str(tmp_path / name) for name in ("model.mfm", "X.npy", "chances.npy")]
    subprocess.run([sys.executable, "-c", WATCHED, *paths], check=True)
    expected = models.model("loyalty").predict_proba(models.samples("loyalty"))
    assert np.array_equal(np.load(tmp_path / "chances.npy"), expected)


def test_describe_says_what_a_person_asks(tmp_path):
    multiform.save(models.model("table"), tmp_path / "model.mfm", notes={"purpose": "a test", "seed": 0})
    found = describe(tmp_path / "model.mfm")
    assert found["kind"] == "TableClassifier"
    assert found["classes"] == ["setosa", "versicolor", "virginica"]
    assert {column["name"]: column["role"] for column in found["columns"]} == {
        "id": "identifier",
        "petal": "number",
        "sepal": "number",
        "grade": "code",
        "site": "category",
        "day": "date",
        "note": "text",
        "always": "constant",
    }
    assert found["training"]["rows"] == 150
    assert found["training"]["estimator"]["loyalty"]["strong"]["count"] > 0
    assert found["versions"]["multiform"] == multiform.__version__
    assert found["notes"] == {"purpose": "a test", "seed": 0}
    json.dumps(found, allow_nan=False)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.integers() | st.text(), inner, max_size=3)
    ),
    max_leaves=8,
)
arrays = hnp.arrays(
    dtype=st.sampled_from(["f8", "f4", "i8", "i4", "u1", "u8", "?"]),
    shape=hnp.array_shapes(min_dims=0, min_side=0, max_side=3),
) | hnp.arrays(dtype="U5", shape=hnp.array_shapes(max_dims=2, max_side=3))


@given(value=plain | arrays | st.floats(width=32).map(np.float32) | st.integers(0, 255).map(np.uint8))
def test_any_plain_value_comes_back(value):
    writer = TreeWriter()
    tree = json.loads(json.dumps(writer.write(value, "value"), allow_nan=False))
    found = TreeReader(writer.arrays, "here", Allowance(0)).read(tree)
    assert type(found) is type(value)
    if isinstance(value, np.ndarray):
        assert (found.dtype, found.shape) == (value.dtype, value.shape)
        np.testing.assert_array_equal(found, value)
    else:
        assert repr(found) == repr(value)  # NaN is not equal to itself, and -0.0 is equal to 0.0


def test_the_order_of_an_array_is_kept():
    for array in (np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.arange(9.0)[::2]):
        writer = TreeWriter()
        found = TreeReader(writer.arrays, "here", Allowance(0)).read(writer.write(array, "array"))
        np.testing.assert_array_equal(found, array)
        if array.flags.f_contiguous != array.flags.c_contiguous:
            assert found.flags.f_contiguous == array.flags.f_contiguous
        assert found.flags.writeable
