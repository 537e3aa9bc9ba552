"""The scaling and predict benchmarks on sizes that take a moment: their rows, and honest ratios."""

import csv
import sys

import numpy as np
import pytest

from benchmarks import engine, predict, scaling
from tests.datasets.idx_files import write_folder


@pytest.fixture
def small_sizes(monkeypatch):
    monkeypatch.setattr(scaling, "BASE", {"n": 200, "p": 5, "q": 2, "m": 3})
    monkeypatch.setattr(scaling, "LARGE", {"n": 300, "p": 6, "q": 2, "m": 3})
    monkeypatch.setattr(scaling, "SMALL", {"n": 60, "p": 3, "m": 2})


def rows_of(path):
    lines = path.read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def test_every_part_has_its_rows(small_sizes, tmp_path, capsys):
    parts = "growth,threads,batch,epoch,small"
    assert scaling.main(["--parts", parts, "--repeats", "1", "--n-jobs", "1", "--output", str(tmp_path)]) == 0
    rows = rows_of(tmp_path / "scaling.csv")
    whats = [row["what"] for row in rows if row["part"] == "growth"]
    sizes = ["n 200 -> 400", "p 5 -> 10", "q 2 -> 4", "m 3 -> 6"]
    assert whats == [f"{solver}: {size}" for solver in ("adam", "cpm") for size in sizes]
    assert [row["part"] for row in rows[8:]] == ["threads"] * 3 + ["batch"] * 2 + ["epoch", "small", "small"]
    for row in rows:
        assert float(row["ratio"]) == pytest.approx(float(row["value"]) / float(row["its value"]))


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is measured on Linux")
def test_memory_is_compared_with_x(monkeypatch):
    monkeypatch.setattr(scaling, "LARGE", {"n": 2000, "p": 100, "q": 2, "m": 3})
    for dtype, megabytes in (("float32", 0.8), ("uint8", 0.2)):
        peak, size = scaling.fit_memory("adam", dtype, n_jobs=1)
        assert size == pytest.approx(megabytes)
        assert peak >= 0.0


def test_unknown_part(capsys):
    with pytest.raises(SystemExit, match="2"):
        scaling.main(["--parts", "speed"])
    assert "['speed'] are not parts" in capsys.readouterr().err


def test_loyalty_weights():
    weights = engine.loyalty_weights(3)
    assert weights.shape == (7, 3)
    np.testing.assert_array_equal(weights[0], 1.0)
    for k in range(3):
        np.testing.assert_allclose(weights[1 + k], [0.05 if j == k else 1.0 for j in range(3)])
        np.testing.assert_allclose(weights[4 + k], [20.0 if j == k else 1.0 for j in range(3)])


@pytest.mark.parametrize("solver", ["adam", "cpm"])
def test_the_batch_and_the_single_fits_do_the_same_work(solver):
    X, y = scaling.gaussian_classes(200, 4, 3)
    weights = engine.loyalty_weights(3)
    together = engine.batch_fit(X, y, 2, solver, 2, weights, n_jobs=1)
    assert len(together.coefficients) == 7
    alone = engine.batch_fit(X, y, 2, solver, 2, weights[4:5], n_jobs=1)
    np.testing.assert_allclose(together.coefficients[4], alone.coefficients[0], rtol=1e-4, atol=1e-5)


def test_predict_is_measured_against_the_bare_product(tmp_path, capsys):
    write_folder(tmp_path / "data", n_train=100, n_test=50)
    arguments = ["--data", str(tmp_path / "data"), "--only", "QMS,LDA", "--repeats", "1", "--n-jobs", "1"]
    assert predict.main([*arguments, "--output", str(tmp_path)]) == 0
    bare, assess = rows_of(tmp_path / "predict-2.csv")
    assert (bare["what"], assess["what"]) == ("bare sgemm", "assess")
    assert float(assess["over the bare sgemm"]) == pytest.approx(float(assess["ms"]) / float(bare["ms"]))
    floor, *others = rows_of(tmp_path / "predict-1.csv")
    assert floor["model"] == "bare sgemm"
    assert floor["settings"] == "(50, 784) @ (784, 180)"
    assert [row["model"] for row in others] == ["QMS", "LDA"]
    for row in others:
        assert float(row["over the bare sgemm"]) == pytest.approx(float(row["ms"]) / float(floor["ms"]))
