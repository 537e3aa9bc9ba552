"""Why a row has its label: cells that hold the decision, and the least change that alters it."""

from datetime import datetime

import numpy as np
import polars as pl
import pytest

from multiform import LoyaltyClassifier, QMSClassifier, TriageClassifier
from multiform.tables import MatrixModel, TableClassifier, deciding_cells, least_change


def table(n, seed):
    """The class depends on `weight` and on `kind`; `luck` says nothing."""
    random = np.random.default_rng(seed)
    weight, kind = random.normal(70, 10, n).round(), random.integers(0, 2, n)
    ill = weight + 12 * kind + random.normal(0, 2, n) > 76
    return pl.DataFrame(
        {
            "weight": weight,
            "kind": np.array(["a", "b"])[kind],
            "luck": random.normal(size=n).round(2),
            "day": [f"{1 + row % 28:02d}.{1 + row % 12:02d}.2024" for row in range(n)],
            "note": [" ".join(random.choice(["one", "two", "three", "four", "five"], 3)) for _ in range(n)],
            "ill": np.array(["no", "yes"])[ill.astype(int)],
        }
    )


@pytest.fixture(scope="module")
def model():
    return TableClassifier(QMSClassifier(3, noise=0.3, max_iter=30, random_state=0)).fit(table(400, 0), "ill")


@pytest.fixture(scope="module")
def rows():
    return table(30, 1).drop("ill")


def cell(change):
    """The changed cell; dates are told as ISO 8601 has them, however training wrote them."""
    text = isinstance(change["to"], str) and change["column"] == "day"
    return pl.Series(change["column"], [datetime.fromisoformat(change["to"]) if text else change["to"]])


def chance_of(model, label, frame):
    """The model's own chance of a label."""
    return model.predict_proba(frame)[:, list(model.classes_).index(label)]


def test_a_cell_counts_as_its_mean_over_what_training_had(model, rows):
    """The definition: the mean of the chances with 16 values in its place."""
    row = rows.head(1)
    label = model.predict(row)[0]
    draws = model.seen_["weight"].draws(16)
    tried = [chance_of(model, label, row.with_columns(weight=pl.lit(value)))[0] for value in draws]
    expected = chance_of(model, label, row)[0] - np.mean(tried)
    found = deciding_cells(model, row)
    assert found["weight"] == pytest.approx(expected, abs=1e-12)
    assert list(found) == ["weight", "kind", "luck", "day", "note"]


def test_what_decides_counts_most(model, rows):
    sizes = np.array([[abs(size) for size in deciding_cells(model, rows[k]).values()] for k in range(len(rows))])
    weight, kind, luck, day, note = sizes.mean(axis=0)
    assert min(weight, kind) > 2 * max(luck, day, note)


def test_a_cell_unlike_training_counts_nothing(model, rows):
    row = rows.head(1).with_columns(weight=pl.lit(5000.0))
    assert deciding_cells(model, row)["weight"] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("k", range(8))
def test_the_change_alters_the_label_and_no_smaller_one_of_its_numbers_does(model, rows, k):
    row = rows[k]
    before = model.predict(row)[0]
    found = least_change(model, row)
    assert found["label"] != before
    after = row.with_columns([cell(one) for one in found["changes"]])
    assert model.predict(after)[0] == found["label"]
    assert found["chance"] == pytest.approx(model.answers(after)[0]["chance"][0])
    (change,) = found["changes"]
    assert change["from"] == row[change["column"]][0]
    if change["column"] == "weight":  # whole numbers in training
        nearer = change["to"] - np.sign(change["to"] - change["from"])
        assert model.predict(row.with_columns(pl.Series("weight", [float(nearer)])))[0] == before


def test_columns_that_cannot_change_do_not(model, rows):
    for k in range(8):
        row = rows[k]
        found = least_change(model, row, locked=["weight", "day", "luck"])
        assert found is None or [one["column"] for one in found["changes"]] == ["kind"]
        assert least_change(model, row, locked=row.columns) is None


def test_dates_are_told_as_dates(model, rows):
    for k in range(len(rows)):
        found = least_change(model, rows[k], locked=["weight", "kind", "luck"])
        if found is not None:
            assert found["changes"][0]["to"].startswith("2024-")
            return
    pytest.skip("no date alters a label here")


@pytest.mark.parametrize("kind", ["loyalty", "triage"])
def test_behind_loyalty_types_and_promises(rows, kind):
    inner = LoyaltyClassifier(QMSClassifier(2, noise=0.3, max_iter=20, random_state=0), cv=3, random_state=0)
    if kind == "triage":
        inner = TriageClassifier(inner, target_accuracy=0.6, random_state=0)
    model = TableClassifier(inner).fit(table(400, 0), "ill")
    row = rows.head(1)
    assert max(map(abs, deciding_cells(model, row).values())) > 0.05
    found = least_change(model, row)
    after = row.with_columns([cell(one) for one in found["changes"]])
    assert model.answers(after)[0]["label"][0] == found["label"] != model.answers(row)[0]["label"][0]


def test_one_row_at_a_time(model, rows):
    with pytest.raises(ValueError, match="take one row; got 30"):
        deciding_cells(model, rows)


def test_a_classifier_without_a_table_says_the_same_as_one_whose_columns_are_normal():
    """What is known of its training is mean and deviation; that is all there is to know of normal columns."""
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 2_000)
    X = np.column_stack([random.normal(2 * y, 1), random.normal(0, 3, 2_000), random.normal(5 + y, 1)])
    model = QMSClassifier(random_state=0).fit(X, y)
    bare = MatrixModel(model)
    assert list(bare.looks) == ["x0", "x1", "x2"]
    for row in X[:5]:
        found = deciding_cells(bare, pl.DataFrame(row[None], schema=["x0", "x1", "x2"]))
        label = model.predict_proba(row[None]).argmax()
        for column, change in found.items():
            many = np.tile(row, (2_000, 1))
            many[:, int(column[1])] = X[:, int(column[1])]
            expected = model.predict_proba(row[None])[0, label] - model.predict_proba(many)[:, label].mean()
            assert change == pytest.approx(expected, abs=0.05)
    change = least_change(bare, pl.DataFrame(X[:1], schema=["x0", "x1", "x2"]), locked=["x0"])
    assert {one["column"] for one in change["changes"]} <= {"x1", "x2"}
