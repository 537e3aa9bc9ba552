"""The display: what it draws is what the separators decide."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from multiform.geometry import SeparatorDisplay, Separators

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture
def separators():
    rng = np.random.default_rng(0)
    return Separators(rng.normal(size=(3, 4, 4)), rng.normal(size=(3, 4)), ["a", "b", "c"], ["w", "x", "y", "z"])


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_regions_are_decisions_on_the_plane(separators):
    at = np.array([0.1, 0.2, 0.3, 0.4])
    display = SeparatorDisplay.from_model(
        separators, features=("z", 1), at=at, limits=((-1, 1), (-2, 2)), grid_resolution=20
    )
    drawn = np.asarray(display.regions_.get_array()).reshape(20, 20)
    for row, column in [(0, 0), (7, 13), (19, 4)]:
        x = at.copy()
        x[3], x[1] = display.xx0[row, column], display.xx1[row, column]
        assert separators.classes[int(drawn[row, column])] == separators.predict([x])[0]
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("z", "x")
    assert display.samples_ is None


def test_samples_set_limits_and_the_place_of_the_plane(separators):
    X = np.random.default_rng(1).normal(size=(30, 4))
    y = separators.predict(X)
    _, ax = plt.subplots()
    display = SeparatorDisplay.from_model(separators, X, y, grid_resolution=30, ax=ax)
    assert display.ax_ is ax
    assert display.xx0.min() < X[:, 0].min() < X[:, 0].max() < display.xx0.max()
    assert len(display.samples_.get_offsets()) == 30
    plane = np.median(X, axis=0)
    plane[:2] = display.xx0[3, 5], display.xx1[3, 5]
    np.testing.assert_allclose(display.values[3, 5], separators.member_values([plane])[0])
    assert SeparatorDisplay.from_model(separators, X, grid_resolution=5).samples_ is not None
    assert display.boundaries_
    assert display.separators_


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs samples X or limits"),
        ({"limits": ((1, 0), (0, 1))}, "with low < high"),
        ({"limits": ((0, 1), (0, 1)), "features": (1, 1)}, "two different features"),
        ({"limits": ((0, 1), (0, 1)), "at": [0.0]}, "at of SeparatorDisplay.from_model must have 4 values"),
        ({"limits": ((0, 1), (0, 1)), "grid_resolution": 1}, "must be at least 2"),
    ],
)
def test_errors_say_what_is_wrong(separators, options, message):
    with pytest.raises(ValueError, match=message):
        SeparatorDisplay.from_model(separators, **options)


def test_missing_matplotlib_names_the_extra(separators, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'pip install "multiform\[plots\]"'):
        SeparatorDisplay.from_model(separators, limits=((0, 1), (0, 1)))
