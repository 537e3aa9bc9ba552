"""The features of a plan as columns of numbers."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from multiform.columns import Encoding, columns_of


def test_numbers_codes_words_and_missing_values():
    rng = np.random.default_rng(0)
    columns = {
        "age": rng.normal(50, 10, 90),
        "pain": np.tile([1.0, 2.0, 4.0], 30),
        "mood": np.array(["good", "bad", None] * 30, dtype=object),
    }
    columns["age"][:20] = np.nan
    encoding = Encoding.learnt(columns, [["age"], ["pain", "mood"]])
    age, pain, mood = encoding.codes
    assert (age.width, pain.width, mood.width) == (2, 4, 3)  # and missing; and three values; two words and missing
    assert age.median == pytest.approx(np.nanmedian(columns["age"]))
    rows = encoding.encode(columns)
    np.testing.assert_array_equal(encoding.column_owner, [0, 0, 1, 1, 1, 1, 1, 1, 1])
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(rows[:, 0].std(), 1, rtol=1e-5)
    np.testing.assert_allclose(rows[:, 1:2].std(), 0.6, rtol=1e-5)
    assert encoding.features(1) == ["pain", "mood"]
    unknown = encoding.encode({"age": np.array([50.0]), "mood": np.array(["odd"], dtype=object)})
    assert np.isfinite(unknown).all()


def test_many_patients_get_thresholds():
    column = np.random.default_rng(0).normal(size=2000)
    encoding = Encoding.learnt({"x": column}, [["x"]])
    steps = encoding.codes[0].steps
    assert len(steps) == 16
    cut = encoding.encode({"x": np.array([steps[3], np.nextafter(steps[3], 9)])})[:, 4]
    assert cut[0] < 0 < cut[1]


def test_a_column_that_never_varies_is_read_as_nothing():
    encoding = Encoding.learnt({"x": np.ones(30)}, [["x"]])
    assert (encoding.encode({"x": np.array([1.0, 5.0])}) == 0).all()


def test_columns_by_name():
    X = np.arange(6).reshape(3, 2)
    np.testing.assert_array_equal(columns_of(X, ["a", "b"])["b"], [1, 3, 5])


def test_columns_of_any_frame():
    cells = {"a": [1, 2, None], "b": ["x", None, "y"]}
    for frame in (cells, pd.DataFrame(cells), pl.DataFrame(cells), pa.table(cells)):
        found = columns_of(frame)
        assert list(found) == ["a", "b"]
        np.testing.assert_array_equal(found["a"][:2].astype(float), [1, 2])
        assert found["b"][0] == "x"
        assert list(columns_of(frame, ["b"])) == ["b"]
    assert list(columns_of(pd.DataFrame([[1, 2]]))) == ["0", "1"]
    assert list(columns_of(np.zeros((3, 2)))) == ["column 0", "column 1"]


@pytest.mark.parametrize(
    ("column", "match"),
    [
        (np.full(30, np.nan), "missing for every patient"),
        (np.array([1.0, np.inf]), "infinite for some patient"),
        (np.array([1, 10**400], dtype=object), "infinite for some patient"),
    ],
)
def test_features_that_cannot_be_read(column, match):
    with pytest.raises(ValueError, match=match):
        Encoding.learnt({"x": column}, [["x"]])


def test_a_word_in_a_column_of_numbers():
    encoding = Encoding.learnt({"x": np.arange(30.0)}, [["x"]])
    with pytest.raises(ValueError, match=r"was a number for every training patient; got \['tall'\]"):
        encoding.encode({"x": np.array([None, "tall"], dtype=object)})


def mixed():
    columns = {
        "age": np.append(np.full(12, np.nan), np.random.default_rng(0).normal(50, 10, 1000)),
        "pain": np.resize([1.0, 2.0, 4.0], 1012),
        "mood": np.resize(np.array(["good", " bad ", None, ""], dtype=object), 1012),
    }
    return columns, Encoding.learnt(columns, [["age"], ["pain", "mood"]])


def test_state_of_an_encoding():
    columns, encoding = mixed()
    again = Encoding.from_state(encoding.state())
    np.testing.assert_array_equal(again.encode(columns), encoding.encode(columns))
    np.testing.assert_array_equal(again.column_owner, encoding.column_owner)
    assert again.codes == encoding.codes


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"codes": []}, "no features"),
        (
            {"codes": [{"kind": "Dropped", "name": "a", "why": "", "reason": "dropped"}] * 3},
            "no number and no category",
        ),
        ({"owner": (0, -1, 1)}, "belong to no test"),
        ({"owner": (0, 1)}, "belong to no test"),
        ({"center": np.zeros(3)}, "center of the encoding has the wrong shape"),
        ({"scale": np.zeros(25)}, "scaling of the encoding is wrong"),
        ({"scale": np.full(25, np.nan)}, "scaling of the encoding is wrong"),
        ({"more": 1}, "the encoding has no attribute 'more'"),
    ],
)
def test_a_wrong_state_of_an_encoding(change, match):
    _, encoding = mixed()
    assert len(encoding.center) == 25
    with pytest.raises(ValueError, match=match):
        Encoding.from_state(encoding.state() | change)


@pytest.mark.parametrize("unit", [2.0**-50, 2.0**-900, 2.0**900])
def test_the_unit_of_a_test_does_not_matter(unit):
    """Picomoles in mol per litre vary by less than 1e-12, and were read as constant."""
    column = np.random.default_rng(0).normal(50, 10, 90)
    usual, odd = (Encoding.learnt({"x": given}, [["x"]]).encode({"x": given}) for given in (column, unit * column))
    np.testing.assert_array_equal(odd, usual)
    assert usual[:, 0].std() == pytest.approx(1, rel=1e-5)
