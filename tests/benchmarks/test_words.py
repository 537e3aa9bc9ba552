"""Texts of the benchmark of shapes: what is drawn, and what is read."""

import numpy as np
import pytest

from benchmarks import shapes
from benchmarks.words import fortunes, uniform_entries, zipf_words


def test_zipf_words_say_what_class_they_are_of():
    X, y = zipf_words(600, 2_000, 3, np.random.default_rng(0))
    assert X.shape == (600, 2_000)
    assert X.dtype == np.float32
    assert X.nnz < 0.05 * X.shape[0] * X.shape[1]
    means = np.stack([np.asarray(X[:300][y[:300] == k].mean(axis=0)).ravel() for k in range(3)])
    nearest = (X[300:] @ means.T).argmax(axis=1)
    assert np.mean(nearest == y[300:]) > 0.6


def test_uniform_entries_are_as_few_as_they_say():
    X, y = uniform_entries(300, 10_000, 4, np.random.default_rng(0))
    assert X.nnz == pytest.approx(0.0011 * 300 * 10_000, rel=0.05)
    assert set(y) == {0, 1, 2, 3}


def test_fortunes_are_read_and_learnt(tmp_path, capsys):
    folder = tmp_path / "fortunes"
    folder.mkdir()
    for name in ("cats", "dogs"):
        (folder / name).write_text("\n%\n".join(f"the {name} number {i} of all {name}" for i in range(60)))
    (folder / "few").write_text("one\n%\ntwo\n")
    (folder / "cats.dat").write_bytes(b"\x00\x01")
    (folder / "cats.u8").symlink_to(folder / "cats")
    texts, files = fortunes(str(folder))
    assert len(texts) == 120
    assert set(files) == {"cats", "dogs"}
    argv = ["--fortunes", str(folder), "--kinds", "texts", "--only", "SGD", "--output", str(tmp_path)]
    assert shapes.main(argv) == 0
    assert "fortunes, 120 texts in 2 files" in capsys.readouterr().out
