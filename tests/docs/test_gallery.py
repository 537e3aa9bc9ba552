"""The gallery: every script runs without a warning and draws something."""

import runpy
import warnings
from pathlib import Path

import pytest

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
SCRIPTS = sorted(GALLERY.glob("plot_*.py"))


def test_there_are_enough_of_them():
    assert len(SCRIPTS) >= 6


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_runs_and_draws(script, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.close("all")
    monkeypatch.setattr(plt, "show", lambda: None)  # Agg has no window
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path(str(script))
    figures = [plt.figure(number) for number in plt.get_fignums()]
    assert figures
    for figure in figures:
        assert all(axis.has_data() or axis.images for axis in figure.axes)
    plt.close("all")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_begins_with_a_title_and_a_sentence(script):
    lines = script.read_text(encoding="utf-8").split('"""')[1].strip().splitlines()
    assert set(lines[1]) == {"="}
    assert len(lines[1]) == len(lines[0])
    assert lines[3].strip()
