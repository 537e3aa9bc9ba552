"""What columns have learnt, as plain values and back."""

import numpy as np
import polars as pl
import pytest
from sklearn.preprocessing import StandardScaler

from multiform.columns import Encodings, UnfamiliarWarning, column_from
from tests.files.models import data, model, table


def columns():
    return {column.name: column for column in model("table").columns_}


@pytest.mark.parametrize("name", ["id", "petal", "sepal", "grade", "site", "day", "note", "always"])
def test_columns_come_back(name):
    column = columns()[name]
    again = column_from(column.state())
    assert type(again) is type(column)
    assert again.description() == column.description()
    rows = table()[name].shuffle(seed=0)
    np.testing.assert_array_equal(again.encode(rows), column.encode(rows))


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("sepal", {"kind": "Column"}, "a column is none"),
        ("sepal", {"kind": ["Number"]}, "a column is none"),
        ("sepal", {"kind": "Date"}, "a Date has no attribute 'decimal_comma'"),
        ("sepal", {"more": 1}, "a Number has no attribute 'more'"),
        ("sepal", {"name": 3}, "name of a column has the wrong type"),
        ("sepal", {"median": float("nan")}, "median of a column is not a number"),
        ("sepal", {"median": "5"}, "median of a column has the wrong type"),
        ("sepal", {"has_missing": 1}, "has_missing of a column has the wrong type"),
        ("grade", {"values": (1.0, 1.0)}, "values of a column are not distinct"),
        ("grade", {"values": ("a", "b")}, "values of a column has the wrong type"),
        ("site", {"values": (1.0,)}, "values of a column has the wrong type"),
        ("site", {"fill": "nowhere"}, "read as one that is none"),
        ("day", {"median": float("inf")}, "median of a column is not a number"),
        ("note", {"weights": np.ones(3)}, "the weights of words has the wrong shape"),
    ],
)
def test_a_column_that_is_none(name, change, match):
    with pytest.raises(ValueError, match=match):
        column_from(columns()[name].state() | change)


def test_no_column_at_all():
    with pytest.raises(ValueError, match="a column is none"):
        column_from(["Number"])


# ------------------------------------------------------------------------------------------------- TableClassifier


def test_a_table_model_comes_back():
    fitted = model("table")
    again = type(fitted)()
    again._set_state(fitted._get_state())
    changed = table().with_columns(site=table()["site"].fill_null("never seen"), grade=pl.Series(["9", None, "x"] * 50))
    for asked in (again, fitted):
        with pytest.warns(UnfamiliarWarning, match="150 of 150 rows"):
            asked.predict(changed)
    for one, other in zip(again.answers(changed, chances=True), fitted.answers(changed, chances=True), strict=True):
        assert one.equals(other) if isinstance(one, pl.DataFrame) else one.as_dict() == other.as_dict()
    np.testing.assert_array_equal(again.labels(table()["kind"])[0], fitted.labels(table()["kind"])[0])
    assert vars(again).keys() == vars(fitted).keys()
    for name in ("classes_", "feature_names_in_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(fitted, name))
    for name in ("n_features_in_", "training_", "target_"):
        assert getattr(again, name) == getattr(fitted, name)
    assert type(fitted)()._get_state() == {}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"columns_": []}, "do not become what the estimator reads"),
        ({"columns_": None}, "the columns are none"),
        ({"target_": 3}, "the target is no name"),
        ({"estimator_": None}, "the estimator is not fitted"),
        ({"training_": []}, "the figures of the training"),
        ({"whole_labels": 1}, "whole_labels is neither true nor false"),
        ({"seen_": []}, "what was seen is none"),
        ({"seen_": {"sepal": {}}}, "what was seen lacks 'kind'"),
        ({"more": 1}, "TableClassifier has no attribute 'more'"),
    ],
)
def test_a_table_model_that_is_none(change, match):
    fitted = model("table")
    again = type(fitted)()
    with pytest.raises(ValueError, match=match):
        again._set_state(fitted._get_state() | change)
    assert not hasattr(again, "columns_")
    one = {"petal": fitted._get_state()["seen_"]["petal"]}
    with pytest.raises(ValueError, match="what was seen is not of the columns that are used"):
        again._set_state(fitted._get_state() | {"seen_": one})
    with pytest.raises(ValueError, match="two columns have one name"):
        again._set_state(fitted._get_state() | {"columns_": fitted._get_state()["columns_"][:1] * 2})


# ------------------------------------------------------------------------------------------------------- Encodings


def matrix():
    """Few and many values, equal quantiles, and a column that never varies."""
    X = data()[0]
    return np.column_stack([X, np.maximum(X[:, 3], 1), np.round(X[:, 0]), np.ones(len(X))])


@pytest.mark.parametrize("names", ["auto", "plain", ("enriched",), ("enriched", "plain", "enriched")])
@pytest.mark.parametrize("columns", [slice(None), slice(5, None), slice(0, 2)])
def test_encodings_come_back(names, columns):
    X = matrix()[:, columns]
    fitted = Encodings(names).fit(X)
    again = Encodings("auto")
    again._set_state(fitted._get_state())
    np.testing.assert_array_equal(again.transform(X + 0.25), fitted.transform(X + 0.25))
    np.testing.assert_array_equal(again.transform(X), fitted.transform(X))
    assert again.names == fitted.names
    for one, other in zip(again.columns, fitted.columns, strict=True):
        np.testing.assert_array_equal(one, other)


def test_transformers_of_the_user_cannot_be_held():
    fitted = Encodings(["plain", StandardScaler()]).fit(matrix())
    with pytest.raises(TypeError, match="a transformer of its own, StandardScaler, which a model file cannot hold"):
        fitted._get_state()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"names": ["plain", "other"]}, "an encoding is unknown"),
        ({"names": []}, "an encoding is unknown"),
        ({"names": ["plain"]}, "lack what one of them has found"),
        ({"n_features": 0}, "the number of features is wrong"),
        ({"n_features": 2**40}, "the number of features is wrong"),
        ({"n_features": 3}, "reads columns that there are not"),
        ({"more": 1}, "Encodings has no attribute 'more'"),
    ],
)
def test_encodings_that_are_none(change, match):
    with pytest.raises(ValueError, match=match):
        Encodings("auto")._set_state(Encodings("auto").fit(matrix())._get_state() | change)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"value_columns": np.array([0, -1])}, "reads columns that there are not"),
        ({"value_columns": np.array([0.5])}, "value_columns has the wrong shape or type"),
        ({"categories": []}, "a column has no categories"),
        ({"categories": [np.array([])]}, "a column has no categories"),
        ({"categories": [np.array([2.0, 1.0])]}, "[Uu]nsorted"),
        ({"hinge_columns": np.array([], dtype=int)}, "knots has the wrong shape or type"),
        ({"knots": None}, "hinges without knots"),
        ({"knots": np.full((7, 5), np.nan)}, "knots do not ascend"),
        ({"knots": np.zeros((3, 5))}, "hinges without knots"),
        ({"more": 1}, "an enrichment has no attribute 'more'"),
    ],
)
def test_an_enrichment_that_is_none(change, match):
    state = Encodings(("enriched",)).fit(matrix())._get_state()
    (found,) = state["enriched"]
    assert len(found["value_columns"]) == 1
    assert len(found["hinge_columns"]) == 5
    with pytest.raises(ValueError, match=match):
        Encodings("auto")._set_state(state | {"enriched": [found | change]})


def test_encodings_of_codes_come_back():
    codes = np.random.default_rng(0).integers(0, 5, (60, 3)).astype(float)
    codes[::7, 1] = np.nan
    fitted = Encodings("auto").fit(codes, gaps=True)
    assert fitted.names == [f"{name}{told}" for told in ("", " + gaps") for name in ("plain", "enriched", "one-hot")]
    again = Encodings("auto")
    again._set_state(fitted._get_state())
    assert again.names == fitted.names
    assert all(np.array_equal(one, two) for one, two in zip(again.columns, fitted.columns, strict=True))
    found = again.transform(codes, gaps=True)
    np.testing.assert_array_equal(found, fitted.transform(codes, gaps=True))
    assert np.isnan(found[0]).sum() == 1 + 5  # the number, and its indicators
    assert found[0, -1] == 1
    assert found[1, -1] == 0
    for change, match in (
        ({"names": ["plain", "one-hot"], "enriched": []}, "an encoding is unknown"),
        ({"told": np.array([1, 1])}, "there are not such columns that had gaps"),
        ({"told": np.array([3])}, "there are not such columns that had gaps"),
        ({"told": np.array([1.0])}, "columns that had gaps has the wrong shape or type"),
    ):
        with pytest.raises(ValueError, match=match):
            Encodings("auto")._set_state(fitted._get_state() | change)
