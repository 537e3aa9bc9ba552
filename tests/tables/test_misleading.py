"""Targets and columns that mislead: measures for classes, spellings, leaks, identifiers, training rows, groups."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import GroupKFold, cross_validate

import multiform
from multiform import LoyaltyClassifier, QMSClassifier
from multiform.tables import TableClassifier, TableError, learn_labels


def qms():
    return QMSClassifier(random_state=0, max_iter=5)


class Remembers(ClassifierMixin, BaseEstimator):
    """A classifier that knows with which groups it was trained."""

    def fit(self, X, y, groups=None):
        self.classes_, self.groups_, self.n_features_in_ = np.unique(y), groups, X.shape[1]
        return self

    def predict(self, X):
        return np.repeat(self.classes_[:1], len(X))


def rng(seed=0):
    return np.random.default_rng(seed)


# -------------------------------------------------------------------------------------------------------------- targets


@pytest.mark.parametrize("n", [60, 200, 1000, 5000])
@pytest.mark.parametrize(
    "measured",
    [
        lambda random, n: random.normal(37, 0.7, n).round(1),
        lambda random, n: random.normal(size=n),
        lambda random, n: np.clip(random.normal(45, 17, n).round(), 0, 99),
        lambda random, n: np.exp(random.normal(6, 1, n)).round(),
    ],
    ids=["temperature", "anything", "age", "price"],
)
def test_a_measure_is_refused(measured, n):
    values = measured(rng(), n)
    for target in (values, [f"{value:g}" for value in values], [f"{value:g}".replace(".", ",") for value in values]):
        with pytest.raises(TableError, match="like a measurement; multiform tells classes apart"):
            learn_labels(pl.Series("y", target))
    labels, _, _ = learn_labels(pl.Series("y", values), as_classes=True)
    assert len(np.unique(labels)) == len(np.unique(values))


@pytest.mark.parametrize(
    "codes",
    [
        lambda random: random.integers(0, 10, 60),
        lambda random: random.integers(0, 26, 520),
        lambda random: np.repeat(np.arange(100), 50 + random.integers(0, 100, 100)),
        lambda random: np.repeat(np.arange(100), [15, *[16] * 99]),
        lambda random: np.repeat(np.arange(40), 10),
        lambda random: random.permutation(20)[random.zipf(1.5, 2000) % 20],
        lambda random: random.choice([1.0, 1.3, 1.7, 2.0, 2.3, 2.7, 3.0, 3.3, 3.7, 4.0, 5.0], 200),
        lambda random: [f"{code:03d}" for code in random.integers(0, 60, 900)],
        lambda random: np.arange(12),
    ],
    ids=["digits", "letters", "hundred", "plants", "faces", "long tail", "grades", "padded", "a row each"],
)
def test_codes_of_classes_are_not_refused(codes):
    for seed in range(20):
        values = codes(rng(seed))
        labels, _, _ = learn_labels(pl.Series("y", values))
        assert len(np.unique(labels)) == len(np.unique(values))


def test_a_measure_is_refused_from_python_too():
    X = pd.DataFrame({"x": rng().normal(size=300)})
    days = rng(1).poisson(30, 300)
    with pytest.raises(TableError, match=r"The target column 'y' holds \d+ distinct numbers in 300 rows"):
        TableClassifier(qms()).fit(X, days)
    fitted = TableClassifier(qms(), as_classes=True).fit(X, days)
    np.testing.assert_array_equal(fitted.classes_, np.unique(days))


def test_classes_that_differ_in_case_and_blanks():
    kinds = ["Yes", "yes ", "no", "No way", "no\u00a0way", "noway"] * 20
    table = pl.DataFrame({"x": rng().normal(size=120), "y": kinds})
    fitted = TableClassifier(qms()).fit(table, "y")
    assert sorted(fitted.training_["classes_alike"]) == [["No way", "noway", "no\u00a0way"], ["Yes", "yes"]]
    assert len(fitted.classes_) == 6
    merged = TableClassifier(qms(), merge_classes=True).fit(table.vstack(table.filter(pl.col("y") == "Yes")), "y")
    assert merged.classes_[0] == "Yes"
    assert len(merged.classes_) == 3
    labels, _ = merged.labels(pl.Series("y", ["YES", "N o", "maybe"]))
    assert labels.tolist() == ["Yes", "no", "maybe"]


def test_classes_that_differ_otherwise():
    table = pl.DataFrame({"x": rng().normal(size=60), "y": ["Yes", "no", "no!"] * 20})
    assert TableClassifier(qms()).fit(table, "y").training_["classes_alike"] == []


# ---------------------------------------------------------------------------------------------------------------- leaks


def with_target(columns, target):
    return pl.DataFrame({**columns, "noise": rng(99).normal(size=len(target)), "y": target})


def decides(table, **settings):
    return TableClassifier(qms(), **settings).fit(table, "y").training_["deciding_columns"]


@pytest.mark.parametrize("n", [200, 2000])
def test_a_column_that_decides_the_target_is_named(n):
    random = rng()
    ill = random.integers(0, 2, n)
    target = np.array(["no", "yes"])[ill]
    table = with_target(
        {
            "outcome": np.array(["home", "dead"])[ill],
            "dose": np.where(ill, random.uniform(3, 9, n), random.uniform(0, 3, n)),
            "boat": [float(row % 7) if one else None for row, one in enumerate(ill)],
            "words": [f"seen in room {row} at {row % 9}" + " and treated" * one for row, one in enumerate(ill)],
            "sign": ill * 3 + random.normal(size=n),
        },
        target,
    )
    found = decides(table)
    assert found.keys() == {"outcome", "dose", "boat", "words"}
    assert min(found.values()) >= 0.99


def test_a_rare_class_counts_as_much_as_a_common_one():
    """Always answering no is right of 97 % of the rows, and is no leak; neither is a column that says so."""
    random = rng()
    ill = random.random(2000) < 0.03
    table = with_target({"mostly": np.where(random.random(2000) < 0.99, 0, 1), "leak": ill.astype(int)}, ill)
    assert decides(table).keys() == {"leak"}


def test_spellings_do_not_hide_a_leak():
    ill = rng().integers(0, 2, 300)
    target = np.where(np.arange(300) % 9, np.array(["no", "yes"])[ill], np.array(["No", "Yes"])[ill])
    assert decides(with_target({"leak": ill}, target)).keys() == {"leak"}


def test_what_is_known_of_other_rows_of_a_group_is_no_leak():
    """Of 60 patients with 10 rows each, a number of a patient's own decides the class of rows of the same patient."""
    patient = np.repeat(np.arange(60), 10)
    table = with_target({"own": rng().normal(size=60)[patient]}, rng(1).integers(0, 2, 60)[patient])
    fitted = TableClassifier(Remembers()).fit(table, "y", patient)
    assert fitted.training_["deciding_columns"] == {}
    assert TableClassifier(Remembers()).fit(table, "y").training_["deciding_columns"].keys() == {"own"}


@pytest.mark.parametrize("load", [load_iris, load_wine, load_digits, load_breast_cancer])
def test_columns_of_real_sets_do_not_decide_the_target(load):
    X, y = load(return_X_y=True)
    assert TableClassifier(Remembers()).fit(X, y).training_["deciding_columns"] == {}
    if load is load_iris:  # setosa has smaller petals than the others, which is no leak but looks like one
        fitted = TableClassifier(Remembers()).fit(X, y == 0)
        assert fitted.training_["deciding_columns"].keys() == {"x2", "x3"}


@pytest.mark.slow
def test_how_often_a_column_is_said_to_decide_the_target():
    """In 200 tables each: columns that do not, however strong or unique; and leaks, some with wrong labels."""

    def share(made, n):
        found = 0
        for seed in range(200):
            random = rng(seed)
            ill = random.integers(0, 2, n)
            table = with_target({"column": made(random, ill)}, ill)
            found += "column" in TableClassifier(Remembers()).fit(table, "y").training_["deciding_columns"]
        return found / 200

    assert share(lambda random, ill: random.normal(size=len(ill)), 100) == 0
    assert share(lambda random, ill: random.permutation(len(ill)) + 0.5, 100) == 0
    for n, most in ((100, 0.05), (1000, 0)):
        assert share(lambda random, ill: 3 * ill + random.normal(size=len(ill)), n) <= most  # right of 93 %
        assert share(lambda random, ill: ill, n) == 1
    assert share(lambda random, ill: ill ^ (random.random(len(ill)) < 0.005), 1000) >= 0.9
    assert share(lambda random, ill: random.uniform(3 * ill, 3 + 6 * ill), 1000) >= 0.9


# ---------------------------------------------------------------------------------------------------------- identifiers


def test_a_column_that_counts_rows_though_targets_are_empty():
    random = rng()
    target = np.where(random.random(400) < 0.7, None, np.array(["a", "b"], dtype=object)[random.integers(0, 2, 400)])
    table = pl.DataFrame({"number": range(1001, 1401), "x": random.normal(size=400), "y": pl.Series(target.tolist())})
    fitted = TableClassifier(qms()).fit(table, "y")
    assert fitted.training_["rows_without_label"] > 200
    assert (fitted.columns_[0].role, fitted.columns_[0].why) == ("identifier", "it counts the rows")
    shown = TableClassifier(qms(), numbers=["number"]).fit(table, "y")
    assert shown.columns_[0].role == "number"


def test_identifiers_that_repeat_are_told():
    patients = rng().permutation(np.r_[np.arange(300), rng(1).integers(0, 300, 120)])
    table = pl.DataFrame(
        {
            "patient_id": [str(7 * patient + 1000) for patient in patients],
            "row": range(420),
            "x": rng(2).normal(size=420),
            "y": ["a", "b"] * 210,
        }
    )
    fitted = TableClassifier(qms()).fit(table, "y")
    assert [column.role for column in fitted.columns_] == ["identifier", "identifier", "number"]
    assert fitted.training_["repeated_identifiers"] == ["patient_id"]


# -------------------------------------------------------------------------------------------------------- training rows


def visits(n, seed, few=False):
    random = rng(seed)
    ill = random.integers(0, 2, n)
    size = ill + random.normal(size=n).round(3)
    return pl.DataFrame(
        {
            "id": [f"V{seed}-{row}" for row in range(n)],
            "size": (size > 0.5).astype(int)
            if few
            else [None if row % 11 == 0 else one for row, one in enumerate(size)],
            "weight": np.zeros(n) if few else random.normal(size=n),
            "site": random.choice(["north", "south", None], n).tolist(),
            "day": [
                f"2024-{1 + day // 28:02d}-{1 + day % 28:02d}" for day in random.integers(0, 336 if not few else 2, n)
            ],
            "y": np.array(["no", "yes"])[ill],
        }
    )


def overlap(fitted, table):
    labels, present = fitted.labels(table["y"])
    return fitted.overlap(table.filter(pl.Series(present)), labels)


@pytest.mark.parametrize("n", [100, 20_000])
def test_training_rows_are_recognised(n, tmp_path):
    fitted = TableClassifier(Remembers()).fit(visits(n, 0), "y")
    on_itself = overlap(fitted, visits(n, 0))
    assert on_itself.found == on_itself.compared >= min(n, 4000)
    assert on_itself.share == 1
    assert on_itself.evident
    fresh = overlap(fitted, visits(n, 1))
    assert fresh.found == 0
    assert not fresh.evident
    mixed = overlap(fitted, pl.concat([visits(n, 0)[: n // 2], visits(n, 1)]))
    assert mixed.evident
    assert mixed.share == pytest.approx(1 / 3, abs=0.03)
    # The order of rows and columns, columns that are not read, and how a cell is written do not matter.
    other = visits(n, 0).sample(fraction=1, shuffle=True, seed=3).select("y", "day", "site", "weight", "size")
    assert overlap(fitted, other.with_columns(pl.col("size").cast(pl.String))).share == 1
    # The label does.
    swapped = visits(n, 0).with_columns(y=pl.col("y").replace({"no": "yes", "yes": "no"}))
    assert overlap(fitted, swapped).found == 0


def test_rows_that_are_equal_by_chance_are_no_training_rows():
    """A handful of distinct rows: new ones are equal to training rows, and new all the same."""
    fitted = TableClassifier(qms()).fit(visits(500, 0, few=True), "y")
    found = overlap(fitted, visits(500, 1, few=True))
    assert found.found > 450
    assert found.by_chance > 0.9
    assert not found.evident


def test_the_training_rows_of_a_file(tmp_path):
    fitted = TableClassifier(qms()).fit(visits(300, 0), "y")
    multiform.save(fitted, tmp_path / "m.mfm")
    loaded = multiform.load(tmp_path / "m.mfm")
    assert overlap(loaded, visits(300, 0)) == overlap(fitted, visits(300, 0))
    state = fitted._get_state()
    del state["training_rows"]  # as version 0.1.0 wrote it
    old = TableClassifier(qms())
    old._set_state(state)
    assert overlap(old, visits(300, 0)) is None
    broken = {**fitted._get_state(), "training_rows": {"keys": np.zeros(3), "counts": np.zeros(3, int), "limit": 1}}
    with pytest.raises(ValueError, match="hashes of the training rows has the wrong shape or type"):
        old._set_state(broken)


@pytest.mark.slow
@pytest.mark.parametrize("n_days", [2, 20, 200])
def test_how_often_new_rows_are_taken_for_training_rows(n_days):
    """Columns of few values: at most 1 % of 500 fresh tables get a note, however many rows are equal by chance."""

    def table(seed):
        random = rng(seed)
        return pl.DataFrame(
            {
                "day": random.integers(0, n_days, 200),
                "ward": random.choice(list("abcdef"), 200),
                "y": random.choice(["no", "yes"], 200),
            }
        )

    evident = 0
    for seed in range(500):
        fitted = TableClassifier(Remembers(), categories=["ward"], numbers=["day"]).fit(table(2 * seed), "y")
        evident += overlap(fitted, table(2 * seed + 1)).evident
    assert evident <= 5


# --------------------------------------------------------------------------------------------------------------- groups


def grouped_table():
    patients = [f"P{row % 40}" for row in range(120)]
    target = ["a", "b", None] * 40
    return pl.DataFrame({"x": rng().normal(size=120), "patient": patients, "y": target})


def test_groups_by_name_and_as_an_array():
    table = grouped_table()
    named = TableClassifier(Remembers()).fit(table, "y", groups="patient")
    assert [column.name for column in named.columns_] == ["x"]
    assert named.training_["group_column"] == "patient"
    assert named.training_["groups"] == 40
    given = TableClassifier(Remembers()).fit(table.drop("patient"), "y", groups=table["patient"].to_numpy())
    assert given.training_["group_column"] is None
    expected = np.unique(table.filter(pl.col("y").is_not_null())["patient"].to_numpy(), return_inverse=True)[1]
    for fitted in (named, given):
        np.testing.assert_array_equal(fitted.estimator_.groups_, expected)
    assert TableClassifier(Remembers()).fit(table, "y").estimator_.groups_ is None
    # What predicts does not need the column, and does not mind it.
    np.testing.assert_array_equal(named.predict(table), named.predict(table.select("x")))
    # It is left out in any case, so that it may be named as an identifier, too.
    TableClassifier(Remembers(), identifiers=["patient"]).fit(table, "y", groups="patient")


@pytest.mark.parametrize(
    ("groups", "estimator", "match"),
    [
        ("person", Remembers(), "no column 'person' of groups; the columns are 'x', 'patient'"),
        ("y", Remembers(), "no column 'y' of groups"),
        (["a", "b"], Remembers(), "must have an entry for each of the 120 samples; got 2"),
        (["a"] * 120, Remembers(), "at least 2 groups"),
        ("gaps", Remembers(), "column 'gaps', row 2: the row has no group; give rows"),
        ("patient", sklearn.tree.DecisionTreeClassifier(), "fit of DecisionTreeClassifier does not take them"),
    ],
)
def test_groups_that_do_not_do(groups, estimator, match):
    table = grouped_table()
    if groups == "gaps":
        table = table.rename({"patient": "gaps"}).with_columns(
            gaps=pl.when(pl.int_range(pl.len()) == 1).then(None).otherwise("gaps")
        )
    with pytest.raises(ValueError, match=match):
        TableClassifier(estimator).fit(table, "y", groups=groups)


def test_scikit_learn_routes_groups():
    patients = np.arange(120) % 40
    X, y = pd.DataFrame({"x": rng().normal(size=120)}), rng(1).integers(0, 2, 120)
    with sklearn.config_context(enable_metadata_routing=True):
        model = TableClassifier(Remembers()).set_fit_request(groups=True)
        found = cross_validate(model, X, y, params={"groups": patients}, cv=GroupKFold(4), return_estimator=True)
    for fold in found["estimator"]:
        assert fold.training_["groups"] == 30


@pytest.mark.slow
def test_an_estimate_with_groups_is_about_new_groups():
    """A column that tells patients apart: judged on rows of the same patients the model seems good, and is not."""
    random = rng()
    patient = np.repeat(np.arange(60), 10)
    traits = random.normal(size=(60, 20))
    table = pl.DataFrame(
        {
            **{f"trait {k}": traits[patient, k] + random.normal(0, 0.01, 600) for k in range(20)},
            "patient": patient,
            "y": random.integers(0, 2, 60)[patient],
        }
    )
    model = TableClassifier(LoyaltyClassifier(QMSClassifier(noise=0.01, random_state=0), random_state=0))
    blind = model.fit(table.drop("patient"), "y").estimator_.loyalty_table_.overall_accuracy
    honest = model.fit(table, "y", groups="patient").estimator_.loyalty_table_.overall_accuracy
    assert blind > 0.9
    assert abs(honest - 0.5) < 0.2
