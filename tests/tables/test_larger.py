"""Tables that do not fit the memory: columns from some rows, the model from all, and the answers of a small table."""

import datetime
import json

import numpy as np
import polars as pl
import pytest

from multiform import QMSClassifier, load, streaming
from multiform.cli import main
from multiform.tables import TableClassifier, TableError, _larger, fit_in_batches, needed_memory, sources

N = 8_000


def mixed(n=N, seed=0):
    """Numbers with gaps, a category with a rare value, a date, an identifier; some rows without a label."""
    random = np.random.default_rng(seed)
    height, kind = random.normal(size=n), random.integers(0, 4, n)
    days = random.integers(0, 2_000, n)
    score = height + (kind == 2) * 2 - (days > 1_000) + random.normal(size=n) / 2
    label = np.where(score > 0.5, "high", "low").astype(object)
    label[::500] = None
    label[7 : 7 + 30 * 40 : 40] = "odd"
    return pl.DataFrame(
        {
            "id": [f"P{k:06d}" for k in range(n)],
            "height": pl.Series(height).set(pl.Series(random.random(n) < 0.1), None),
            "kind": [["red", "green", "blue", None][k] for k in kind],
            "seen": [datetime.date(2020, 1, 1) + datetime.timedelta(int(k)) for k in days],
            "outcome": label.tolist(),
        }
    )


@pytest.fixture(scope="module", params=["parquet", "csv"])
def path(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("larger") / f"table.{request.param}"
    getattr(mixed(), f"write_{request.param}")(path)
    return str(path)


@pytest.fixture
def small_buffers(monkeypatch):
    for name in ("SMALL_BYTES", "BUFFER_BYTES"):
        monkeypatch.setattr(streaming, name, 1 << 18)
    monkeypatch.setattr(_larger, "SAMPLE", 2_000)


def test_a_large_table_is_read_as_a_small_one(path, small_buffers):
    found = sources([path])
    assert needed_memory(found) > 0
    model, sample = fit_in_batches(TableClassifier(QMSClassifier(random_state=0)), found, "outcome", 0)
    small = TableClassifier(QMSClassifier(random_state=0)).fit(mixed(), "outcome")
    assert [(one.name, one.role) for one in model.columns_] == [(one.name, one.role) for one in small.columns_]
    assert model.training_["rows"] == small.training_["rows"]
    assert model.training_["class_counts"] == small.training_["class_counts"]
    assert model.training_["rows_without_label"] == small.training_["rows_without_label"] == N // 500
    assert len(sample) < N
    assert not len(model.familiarity(mixed().drop("outcome")).cells)  # the extremes of all rows, not of the sample
    fresh = mixed(seed=1).filter(pl.col("outcome").is_not_null() & (pl.col("height").abs().fill_null(0) < 3))
    truth = fresh["outcome"].to_numpy()
    right = [(one.predict(fresh.drop("outcome")) == truth).mean() for one in (model, small)]
    assert right[0] > right[1] - 0.01
    assert abs(model.estimator_.oof_accuracy_ - right[0]) < 0.03


def test_the_command_streams_above_its_memory(path, small_buffers, tmp_path, capsys):
    output = str(tmp_path / "model.mfm")
    command = ["fit", path, "-t", "outcome", "-o", output, "--memory"]
    assert main([*command, "0.2MB", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["kind"] == "QMSClassifier"
    assert data["rows"] == N - N // 500
    assert {one["name"]: one["role"] for one in data["columns"]}["kind"] == "category"
    model = load(output)
    assert set(model.predict(mixed(300, seed=2).drop("outcome"))) <= {"high", "low", "odd"}
    for option, words in ((["--model", "cv"], "--model cv"), (["--group", "id"], "--group")):
        assert main([*command, "0.2MB", *option]) != 0
        assert f"{words} is for tables that fit the memory" in capsys.readouterr().err
    assert main([*command, "much"]) != 0
    assert "'much' is no size; write it as 500MB or 1.5GB" in capsys.readouterr().err


def test_what_cannot_be_read_twice_is_read_at_once(tmp_path):
    assert needed_memory(sources(["-"], format="csv")) == 0
    path = tmp_path / "table.csv"
    mixed(200).write_csv(path)
    with pytest.raises(TableError, match="There is no column 'result' to predict"):
        fit_in_batches(TableClassifier(QMSClassifier()), sources([str(path)]), "result", 0)
