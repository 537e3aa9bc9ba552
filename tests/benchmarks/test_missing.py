"""The benchmarks of missing values and of raw tables, on small sets."""

import numpy as np
import pytest

from benchmarks import missing, raw


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 4)) + y[:, None]
    X[:, 0] = np.round(X[:, 0])
    X[:, 1] = np.clip(np.round(X[:, 1]), -1, 2)
    np.savez(tmp_path / "small.npz", X=X, y=y, n_train=0)
    return tmp_path


@pytest.mark.parametrize("kind", missing.KINDS)
@pytest.mark.parametrize("share", missing.SHARES)
def test_a_share_of_the_cells_is_missing(kind, share):
    X = np.random.default_rng(0).normal(size=(2000, 5))
    gaps = missing.with_gaps(X, share, kind, np.random.default_rng(1))
    gap = np.isnan(gaps)
    assert gap.mean() == pytest.approx(share, abs=0.04)
    assert not gap.all(axis=1).any()
    np.testing.assert_array_equal(gaps[~gap], X[~gap])
    larger = gap[X > 0].mean() / gap[X < 0].mean()
    assert larger == pytest.approx(1, abs=0.1) if kind == "at random" else larger > 2


def test_missing_values_are_compared(folder, tmp_path, capsys):
    out = tmp_path / "out"
    argv = [
        "--data",
        str(folder),
        "--shares",
        "0.3",
        "--models",
        "QMSClassifier",
        "--n-jobs",
        "1",
        "--output",
        str(out),
    ]
    assert missing.main(argv) == 0
    told = capsys.readouterr().out
    assert "QMSClassifier, by value, 0.3: small" in told
    assert "median + indicator" in (out / "missing.md").read_text()


def test_a_raw_table_is_as_a_file_has_it():
    X = np.column_stack([np.tile([-1.5, 0.2, 0.9], 4), np.arange(12) / 7, np.tile([0.0, 1.0], 6)])
    coded = raw.coded_columns(X)
    assert coded.tolist() == [0, 1]
    numbers, words = (raw.raw_table(X, coded[:1], words=words) for words in (False, True))
    assert numbers["x0"].to_list() == [0, 1, 2] * 4
    assert words["x0"].to_list() == ["value 0", "value 1", "value 2"] * 4
    np.testing.assert_array_equal(words["x1"].to_numpy(), X[:, 1])


def test_raw_tables_are_compared(folder, tmp_path, capsys):
    out = tmp_path / "out"
    assert raw.main(["--data", str(folder), "--n-jobs", "1", "--output", str(out)]) == 0
    assert "small, 2 of 4" in capsys.readouterr().out
    assert "one-hot by hand" in (out / "raw.md").read_text()
    with pytest.raises(SystemExit, match="2"):
        raw.main(["--data", str(tmp_path / "nowhere")])
