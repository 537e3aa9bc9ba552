"""The medical sets inside the package: their figures as published by the source."""

import sys
import tomllib
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from multiform import datasets

# name: rows, features, missing values, rows of each class (the source's documentation)
PUBLISHED = {
    "heart_disease": (303, 13, 6, [164, 139]),
    "breast_cancer_wisconsin": (699, 9, 16, [458, 241]),
    "hepatitis": (155, 19, 167, [123, 32]),
    "thyroid": (7200, 21, 0, [166, 368, 6666]),
}


def loader(name):
    return getattr(datasets, f"load_{name}")


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_figures(name):
    n_rows, n_features, n_missing, class_counts = PUBLISHED[name]
    bunch = loader(name)()
    assert bunch.data.shape == (n_rows, n_features)
    assert bunch.data.dtype == np.float64
    assert np.isnan(bunch.data).sum() == n_missing
    np.testing.assert_array_equal(np.bincount(bunch.target), class_counts)
    assert len(bunch.feature_names) == len(set(bunch.feature_names)) == n_features
    assert len(bunch.target_names) == len(class_counts)
    assert bunch.frame is None


@pytest.mark.parametrize("name", PUBLISHED)
def test_source_and_licence_stand_beside_the_data(name):
    description = loader(name)().DESCR
    assert "CC BY" in description
    assert "https://doi.org/10.24432/" in description
    for feature in loader(name)().feature_names:
        assert feature in description


def test_their_licences_are_in_the_metadata():
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert project["license"] == "BSD-3-Clause AND CC-BY-4.0"
    named = {path for pattern in project["license-files"] for path in root.glob(pattern)}
    data = root / "src" / "multiform" / "datasets" / "data"
    assert named == {root / "LICENSE", *(data / f"{name}.md" for name in PUBLISHED)}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_ways_to_ask_agree(name):
    pandas = pytest.importorskip("pandas")
    bunch, framed = loader(name)(), loader(name)(as_frame=True)
    X, y = loader(name)(return_X_y=True)
    X_frame, y_frame = loader(name)(return_X_y=True, as_frame=True)
    np.testing.assert_array_equal(X, bunch.data)
    np.testing.assert_array_equal(y, bunch.target)
    assert isinstance(X_frame, pandas.DataFrame)
    assert isinstance(y_frame, pandas.Series)
    assert list(X_frame.columns) == bunch.feature_names
    np.testing.assert_array_equal(X_frame.to_numpy(), X)
    np.testing.assert_array_equal(y_frame.to_numpy(), y)
    assert framed.frame.shape == (len(X), X.shape[1] + 1)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_change_by_the_caller_stays_with_the_caller(name):
    loader(name)().data[:] = -1.0
    assert not np.any(loader(name)().data == -1.0)


def test_heart_first_patient():
    heart = datasets.load_heart_disease(target="grade")
    patient = dict(zip(heart.feature_names, heart.data[1], strict=True))
    assert patient["age"] == 67
    assert patient["trestbps"] == 160
    assert patient["oldpeak"] == 1.5
    assert heart.target[1] == 2


def test_heart_grade_and_presence():
    grade = datasets.load_heart_disease(target="grade")
    np.testing.assert_array_equal(np.bincount(grade.target), [164, 55, 36, 35, 13])
    np.testing.assert_array_equal(datasets.load_heart_disease().target, grade.target > 0)
    assert len(grade.target_names) == 5


def test_heart_costs():
    heart = datasets.load_heart_disease()
    assert list(heart.costs) == heart.feature_names
    assert list(heart.delays) == heart.feature_names
    assert set(heart.delays.values()) == {"immediate", "delayed"}
    assert heart.discounts == {
        "A": {"chol": 5.17, "fbs": 3.10},
        "B": {"thalach": 1.00, "thal": 1.00},
        "C": {"exang": 1.00, "oldpeak": 1.00, "slope": 1.00},
    }
    # The whole panel: all at full price; or the first of each discount in full, the others at its price.
    assert sum(heart.costs.values()) == pytest.approx(600.57)
    discounted = {test for prices in heart.discounts.values() for test in prices}
    panel = sum(cost for test, cost in heart.costs.items() if test not in discounted)
    for prices in heart.discounts.values():
        first, *others = prices
        panel += heart.costs[first] + sum(prices[test] for test in others)
    assert panel == pytest.approx(323.97)


def test_heart_unknown_target():
    with pytest.raises(ValueError, match=r"target must be 'presence' \(0 or 1\) or 'grade'.*got 'num'"):
        datasets.load_heart_disease(target="num")


def test_frame_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"load_hepatitis\(as_frame=True\) needs pandas"):
        datasets.load_hepatitis(as_frame=True)


def test_every_file_is_accounted_for_and_small():
    files = {file.name: len(file.read_bytes()) for file in (resources.files(datasets) / "data").iterdir()}
    assert sum(files.values()) < 500_000
    assert {name.partition(".")[0] for name in files} == {*PUBLISHED, "heart_disease_costs"}
