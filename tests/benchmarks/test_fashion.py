"""The Fashion-MNIST benchmark, on a tiny stand-in and with peers only."""

import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.svm import SVC

from benchmarks import fashion, paper, peers, settings
from benchmarks.fashion import Measurement, accuracy_at_coverage, confidence
from benchmarks.peers import Model
from tests.datasets.idx_files import write_folder


@given(
    confidences=hnp.arrays(np.float64, 20, elements=st.floats(0, 1), unique=True),
    correct=hnp.arrays(bool, 20),
    coverage=st.sampled_from([0.05, 0.5, 0.7, 1.0]),
)
def test_accuracy_at_coverage(confidences, correct, coverage):
    # The definition: of the pairs (confidence, correct), the n highest.
    ranked = sorted(zip(confidences, correct, strict=True), reverse=True)[: round(20 * coverage)]
    expected = sum(right for _, right in ranked) / len(ranked)
    assert accuracy_at_coverage(confidences, correct, coverage) == pytest.approx(expected)


def test_confidence():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), np.arange(60) % 3
    with_probabilities = LinearDiscriminantAnalysis().fit(X, y)
    np.testing.assert_array_equal(confidence(with_probabilities, X), with_probabilities.predict_proba(X).max(axis=1))
    without = SVC().fit(X, y)
    margins = confidence(without, X)
    for margin, scores in zip(margins, without.decision_function(X), strict=True):
        first, second = sorted(scores, reverse=True)[:2]
        assert margin == pytest.approx(first - second)


def measurement(fit_seconds):
    confusion = np.array([[3, 1], [0, 4]])
    return Measurement(fit_seconds, 0.1, 12.0, confusion, confusion, 1.0)


def test_ratios_are_to_the_same_run():
    models = [Model(name, peers.lda) for name in ("QMS", "LightGBM", "XGBoost")]
    measured = {"QMS": measurement(2.0), "LightGBM": measurement(100.0), "XGBoost": measurement(300.0)}
    rows = {row["model"]: row for row in fashion.comparison_table(models, measured).rows}
    assert rows["QMS"]["x faster than LightGBM"] == 50
    assert rows["QMS"]["x faster than XGBoost"] == 150
    assert rows["LightGBM"]["x faster than LightGBM"] == 1
    assert rows["QMS"]["test %"] == pytest.approx(100 * 7 / 8)
    assert rows["the paper"]["test %"] == pytest.approx(88.63)
    assert "x faster than LightGBM" not in rows["the paper"]


def test_no_ratio_without_the_peer():
    rows = fashion.comparison_table([Model("QMS", peers.lda)], {"QMS": measurement(2.0)}).rows
    assert "x faster than LightGBM" not in rows[0]


def test_reproduction_shows_the_paper_beside_ours():
    models = settings.REPRODUCE
    tables = fashion.reproduction_tables(models, {model.name: measurement(2.0) for model in models})
    assert [row["source"] for row in tables[0].rows] == ["the paper", "QMS, cpm", "QMS, adam"]
    titles = [table.title for table in tables[1:]]
    assert titles[0] == "Confusion matrix (training set): the paper"
    assert titles[3:] == [f"Confusion matrix (test set): {who}" for who in ("the paper", "QMS, cpm", "QMS, adam")]
    assert [tables[4].rows[0][str(k)] for k in range(10)] == paper.TEST_CONFUSION[0].tolist()


def test_a_run_from_data_to_files(tmp_path, capsys):
    write_folder(tmp_path / "data", n_train=200, n_test=100)
    output = tmp_path / "results"
    arguments = ["--data", str(tmp_path / "data"), "--only", "LDA", "--output", str(output), "--n-jobs", "1"]
    assert fashion.main(arguments) == 0
    lines = (output / "fashion.csv").read_text().splitlines()
    (lda, published) = csv.DictReader(line for line in lines if not line.startswith("#"))
    assert lda["model"] == "LDA"
    assert float(lda["train %"]) > float(lda["test %"]) > 0.0  # random labels are learnt by heart, not understood
    assert float(lda["fit s"]) > 0.0
    assert published["model"] == "the paper"
    assert "LDA" in capsys.readouterr().out
