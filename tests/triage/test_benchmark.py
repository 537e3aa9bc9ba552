"""The benchmark of broken promises, on a population small enough to check."""

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.triage import Pool, Recorded, experiment, main, mapie_threshold, naive_threshold, outcome


def test_naive_threshold_by_hand():
    trust = np.array([0.9, 0.8, 0.7, 0.6, 0.5])
    right = np.array([True, True, True, False, False])
    # 2 right of 2 prove an accuracy of 0.5 at level 0.25, and so do 3 of 3; 3 of 4 have a p-value of 5/16.
    assert naive_threshold(trust, right, 0.5, 0.75) == 0.7
    assert naive_threshold(trust, right, 0.5, 0.9) == np.inf


def test_outcome_counts_broken_promises():
    result = outcome([0.0, 0.5, 0.25], [np.nan, 0.8, 0.95], target=0.9)
    assert result.broken == pytest.approx(1 / 3)  # accepting nothing breaks nothing
    assert result.coverage == pytest.approx(0.25)
    assert result.nothing == pytest.approx(1 / 3)


def test_experiment_knows_the_truth():
    """Right above 0.5, wrong below: every accepted share beyond one half breaks a target of nearly 1."""
    trust = np.linspace(0, 1, 2001)
    right = trust >= 0.5
    sure, rest = 0.5 + trust / 2, 0.5 - trust / 2
    pool = Pool(np.zeros(2001, dtype=int), np.where(right, [sure, rest], [rest, sure]).T)
    np.testing.assert_array_equal(pool.predicted[1:] == 0, right[1:])
    found = experiment(pool, 1000, 0.95, 0.9, repeats=10, seed=0)
    ours, naive = found["ours"], found["naive"]
    assert 0.3 < ours.coverage < 0.55
    assert ours.broken <= 0.3
    assert ours.nothing == 0
    assert naive.coverage > 0.45


def test_command_writes_the_table(tmp_path, capsys):
    options = ["--no-fashion", "--no-mapie", "--only", "naive Bayes", "--calibration", "400", "--repeats", "2"]
    assert main([*options, "--target", "0.8,0.9", "--n-jobs", "1", "--output", str(tmp_path)]) == 0
    assert "synthetic" in capsys.readouterr().out
    written = (tmp_path / "triage.md").read_text()
    assert "naive Bayes" in written
    assert "means over models and sizes" in written


def test_mapie_makes_the_same_promise():
    """Its threshold is the lowest of its grid that Holm's procedure lets pass, computed here from the definition."""
    pytest.importorskip("mapie")
    rng = np.random.default_rng(0)
    trust = 0.5 + rng.random(600) / 2
    wrong = rng.random(600) < 0.6 * (1 - trust)
    pool = Pool(wrong.astype(int), np.column_stack([trust, 1 - trust]))
    classifier = Recorded(pool).fit(None, None)
    rows = np.arange(600)[:, None]
    found = mapie_threshold("bonferroni_holm", 0.85, 0.9)(classifier, rows, pool.true)
    grid = np.linspace(0, 0.99, 100)
    p_values = np.array([binom.cdf(wrong[trust >= t].sum(), (trust >= t).sum(), 0.15) for t in grid])
    order = np.argsort(p_values)
    passed = np.cumprod(p_values[order] <= 0.1 / np.arange(100, 0, -1)).astype(bool)
    assert found == pytest.approx(grid[order[passed]].min(), abs=0.0101)  # it rounds some counts up
