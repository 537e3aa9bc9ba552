"""TableClassifier: a table in, answers out."""

import decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from multiform import LoyaltyClassifier, QMSClassifier, TriageClassifier
from multiform.tables import Category, Column, Date, Number, TableClassifier, TableError, Text
from tests.files.models import model, table


def qms(**settings):
    return QMSClassifier(random_state=0, max_iter=20, **settings)


def test_a_table_of_every_role():
    fitted = model("table")
    assert fitted.score(table().drop("kind"), table()["kind"].to_numpy()) > 0.9
    assert fitted.transform(table()).shape == (150, len(fitted.encoded_names()))
    assert np.isfinite(fitted.transform(table())).all()
    assert fitted.training_["class_counts"] == {"setosa": 50, "versicolor": 50, "virginica": 50}
    answers, found = fitted.answers(table())
    assert answers.columns == ["label", "chance", "loyalty", "unfamiliar"]
    assert answers["unfamiliar"].null_count() == 150
    assert found.sentences() == []
    np.testing.assert_array_equal(answers["label"].to_numpy(), fitted.predict(table()))
    np.testing.assert_array_equal(answers["chance"].to_numpy(), fitted.loyalty_score(table()))
    np.testing.assert_array_equal(answers["loyalty"].to_numpy(), fitted.predict_loyalty(table()))


def test_pandas_polars_and_mappings_are_the_same():
    fitted = model("table")
    expected = fitted.predict_proba(table())
    frame = pd.DataFrame(table().to_dict(as_series=False))
    frame["day"] = pd.to_datetime(frame["day"])
    for form in (
        pd.DataFrame(table().to_dict(as_series=False)),
        table().lazy(),
        table().to_arrow(),
        table().to_dict(as_series=False),
        table().select(reversed(table().columns)),
        frame,
    ):
        np.testing.assert_array_equal(fitted.predict_proba(form), expected)
    typed = fitted.typed(table())
    assert dict(zip(typed.columns, typed.dtypes, strict=True))["petal"] == pl.Float64
    assert dict(zip(typed.columns, typed.dtypes, strict=True))["day"] == pl.Datetime("ms")
    np.testing.assert_array_equal(fitted.predict_proba(typed), expected)


def test_decimals_and_objects_are_read_as_what_they_are():
    x = np.random.default_rng(0).normal(size=60).round(3)
    kinds = np.where(x > 0.5, "a", "b")
    y = x > 0
    fitted = TableClassifier(qms()).fit(pd.DataFrame({"x": x, "kind": kinds}), y)
    decimals = pd.DataFrame({"x": [decimal.Decimal(str(value)) for value in x], "kind": kinds})
    matrix = np.array([x, kinds], dtype=object).T
    for form in (decimals, matrix):
        again = TableClassifier(qms()).fit(form, y)
        assert [column.role for column in again.columns_] == ["number", "category"]
        np.testing.assert_array_equal(again.predict_proba(form), fitted.predict_proba({"x": x, "kind": kinds}))


def test_two_columns_of_one_name_are_refused():
    twice = pd.DataFrame([[1, 2], [3, 4]], columns=["x", "x"])
    with pytest.raises(
        TableError, match=r"The table has several columns named 'x', .* rename or leave out all but one"
    ):
        TableClassifier(qms()).fit(twice, [0, 1])


def test_trained_on_pandas():
    frame = pd.DataFrame(table().to_dict(as_series=False))
    fitted = TableClassifier(qms()).fit(frame.drop(columns="kind"), frame["kind"])
    assert fitted.target_ is None
    assert [column.role for column in fitted.columns_] == [column.role for column in model("table").columns_]


def test_columns_may_be_missing_only_if_they_are_not_used():
    fitted = model("table")
    np.testing.assert_array_equal(fitted.predict(table().drop("id", "always", "kind")), fitted.predict(table()))
    with pytest.raises(
        TableError, match=r"has no column 'petal', which the model needs; the nearest is 'sepal'; it has 'id', 'sepal'"
    ):
        fitted.predict(table().drop("petal"))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["1", "2", None] * 20, np.array([1, 2])),
        ([1.0, 2.0, None] * 20, np.array([1, 2])),
        (["01", "02", ""] * 20, np.array(["01", "02"])),
        (["yes", "no", "NA"] * 20, np.array(["no", "yes"])),
        ([True, False, None] * 20, np.array(["false", "true"])),
    ],
)
def test_labels(labels, expected):
    frame = pl.DataFrame({"x": np.random.default_rng(0).normal(size=60), "y": pl.Series(labels, strict=False)})
    fitted = TableClassifier(qms()).fit(frame, "y")
    np.testing.assert_array_equal(fitted.classes_, expected)
    assert fitted.training_["rows"] == 40
    assert fitted.training_["rows_without_label"] == 20
    found, present = fitted.labels(frame["y"])
    assert len(found) == present.sum() == 40
    assert np.isin(found, fitted.classes_).all()


def test_a_label_of_another_kind():
    frame = pl.DataFrame({"x": np.arange(60) ** 2, "y": ["1", "2"] * 30})
    fitted = TableClassifier(qms()).fit(frame, "y")
    with pytest.raises(TableError, match=r"column 'y', row 2: the label 'two' is no whole number"):
        fitted.labels(pl.Series("y", ["1", "two"]))


@pytest.mark.parametrize(
    ("frame", "target", "settings", "match"),
    [
        ({"x": [1, 2], "y": [0, 1]}, "z", {}, "no column 'z' to predict; the columns are 'x', 'y'"),
        ({"x": [1, 2], "y": ["a", "a"]}, "y", {}, "holds only .*'a'.*; there must be at least two classes"),
        ({"x": [1, 2], "y": [None, None]}, "y", {}, "holds no label"),
        (
            {"x": range(500), "y": [i + 0.5 for i in range(500)]},
            "y",
            {},
            "500 distinct numbers in 500 rows, like a measurement; .* or say that they are classes",
        ),
        (
            {"x": range(500), "y": [f"n{i}" for i in range(500)]},
            "y",
            {},
            "too many for classes. Is this the target",
        ),
        ({"x": ["same"] * 4, "y": [0, 1, 0, 1]}, "y", {}, "No column of the table can be learnt from"),
        ({"x": [1, 2], "y": [0, 1]}, "y", {"drop": ["w"]}, "no column 'w' to drop"),
        ({"x": [1, 2], "y": [0, 1]}, "y", {"drop": ["x"], "numbers": ["x"]}, "is named twice, as drop and as number"),
        ({"x": [1, 2, 3]}, [0, 1], {}, "has 3 rows, and there are 2 labels"),
    ],
)
def test_what_cannot_be_learnt(frame, target, settings, match):
    with pytest.raises(TableError, match=match):
        TableClassifier(qms(), **settings).fit(pl.DataFrame(frame), target)


def test_no_table():
    with pytest.raises(TableError, match="must be a polars or pandas frame, a mapping of columns or a matrix; got int"):
        TableClassifier(qms()).fit(3, "y")


def test_roles_can_be_given():
    fitted = TableClassifier(qms(), drop=["note"], categories=["grade"], identifiers=["sepal"], texts=["site"]).fit(
        table(), "kind"
    )
    roles = {column.name: column.role for column in fitted.columns_}
    assert (roles["note"], roles["grade"], roles["sepal"], roles["site"]) == (
        "dropped",
        "category",
        "identifier",
        "text",
    )


def test_it_is_an_estimator():
    unfitted = TableClassifier(LoyaltyClassifier(), drop=["a"])
    assert clone(unfitted).get_params()["drop"] == ["a"]
    assert hasattr(unfitted, "predict_loyalty")
    assert not hasattr(TableClassifier(qms()), "predict_loyalty")
    assert not hasattr(unfitted, "defer")
    assert isinstance(TableClassifier()._inner(), LoyaltyClassifier)


def test_a_promise_is_passed_on():
    triage = TriageClassifier(LoyaltyClassifier(qms(), cv=3, random_state=0), target_accuracy=0.5, random_state=0)
    fitted = TableClassifier(triage).fit(table(), "kind")
    answers, _ = fitted.answers(table(), chances=True)
    assert answers.columns[:4] == ["label", "chance", "loyalty", "accepted"]
    assert answers.columns[4:] == [*(f"chance of {label}" for label in fitted.classes_), "unfamiliar"]
    np.testing.assert_array_equal(~answers["accepted"].to_numpy(), fitted.defer(table()))
    np.testing.assert_allclose(answers.select(answers.columns[4:-1]).to_numpy().sum(axis=1), 1)


def test_classes_of_one_row():
    """Rare classes are learnt as well as can be, and told."""
    frame = table()[:60].with_columns(kind=pl.Series(["lonely"] + ["few"] * 2 + ["many", "more"] * 28 + ["many"]))
    fitted = TableClassifier(LoyaltyClassifier(qms(), random_state=0)).fit(frame, "kind")
    assert fitted.training_["rare_classes"] == ["few", "lonely"]
    assert set(fitted.predict(frame)) <= {"lonely", "few", "many", "more"}


def test_labels_with_a_nul_at_their_end_are_other_labels():
    kinds = ["a", "a\0", "b"] * 20
    frame = pl.DataFrame({"size": [float(row % 3) for row in range(60)], "kind": kinds})
    fitted = TableClassifier(qms()).fit(frame, "kind")
    assert fitted.training_["class_counts"] == {"a": 20, "a\0": 20, "b": 20}
    answers, _ = fitted.answers(frame)
    assert answers["label"].to_list() == kinds


def test_a_column_is_one_of_its_kinds():
    with pytest.raises(TypeError, match="abstract"):
        Column("a", "because")


def test_columns_are_encoded_once_in_a_fit(monkeypatch):
    counts = dict.fromkeys((column.name for column in model("table").columns_), 0)
    for kind in (Category, Date, Number, Text):
        columns = kind.columns

        def counted(self, cells, columns=columns):
            counts[self.name] += 1
            return columns(self, cells)

        monkeypatch.setattr(kind, "columns", counted)
    TableClassifier(qms()).fit(table(), "kind")
    assert counts == {name: int(name not in ("id", "always")) for name in counts}


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"estimator": 3}, "'estimator' parameter of TableClassifier must be an object implementing 'fit'"),
        ({"drop": "note"}, "'drop' parameter of TableClassifier must be an array-like"),
        ({"most_categories": 0}, r"'most_categories' parameter .* in the range \[1, inf\)"),
        ({"most_words": 2.5}, "'most_words' parameter of TableClassifier must be an int"),
    ],
)
def test_parameters_are_checked(settings, match):
    with pytest.raises(ValueError, match=match):
        TableClassifier(**settings).fit(table(), "kind")
