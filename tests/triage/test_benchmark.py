"""The benchmark of broken promises, on a population small enough to check."""

import numpy as np
import pytest

from benchmarks.triage import Pool, experiment, main, naive_threshold, outcome


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
    pool = Pool(np.zeros(2001, dtype=int), (trust < 0.5).astype(int), trust)
    ours, naive = experiment(pool, 1000, 0.95, 0.9, repeats=10, seed=0)
    assert 0.3 < ours.coverage < 0.55
    assert ours.broken <= 0.3
    assert ours.nothing == 0
    assert naive.coverage > 0.45


def test_command_writes_the_table(tmp_path, capsys):
    options = ["--no-fashion", "--only", "naive Bayes", "--calibration", "400", "--repeats", "2"]
    assert main([*options, "--n-jobs", "1", "--output", str(tmp_path)]) == 0
    assert "synthetic" in capsys.readouterr().out
    assert "naive Bayes" in (tmp_path / "triage.md").read_text()
