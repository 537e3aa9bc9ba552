"""The benchmark of loyalty, on a tiny stand-in; and the paper's figures against each other."""

import numpy as np
import pytest

from benchmarks import loyalty, paper, paper_loyalty
from benchmarks.loyalty import Judged
from multiform.metrics import LoyaltyTable
from tests.datasets.idx_files import write_folder


def test_the_papers_layers_are_its_tables():
    """A slip of the pen would break these sums."""
    tensor = paper_loyalty.TEST_TENSOR
    np.testing.assert_array_equal(tensor.sum(axis=0), paper.TEST_CONFUSION)
    np.testing.assert_array_equal(tensor.sum(axis=(1, 2)), paper_loyalty.TEST_COUNT)
    np.testing.assert_array_equal(np.trace(tensor, axis1=1, axis2=2), paper_loyalty.TEST_CORRECT)
    assert paper_loyalty.TRAIN_COUNT.sum() == 60_000
    # 92.69 % in the paper's Table of 4.3
    assert paper_loyalty.TRAIN_CORRECT.sum() / 60_000 == pytest.approx(paper.TRAIN_ACCURACY, abs=5e-5)


def judged(**parts):
    true = np.arange(10)
    predicted = np.where(true == 9, 0, true)
    return Judged(1.0, true, predicted, **parts)


def test_tables_by_hand():
    levels = paper_loyalty.LEVELS
    own = judged(
        trust=np.linspace(1, 0, 10),
        loyalty=np.array(["strong"] * 7 + ["normal"] * 2 + ["weak"]),
        expected=LoyaltyTable(levels, np.array([80, 15, 5]), np.array([76, 12, 2])),
        training=LoyaltyTable(levels, np.array([90, 10, 0]), np.array([90, 5, 0])),
    )
    sets = judged(sure={"set of one": np.arange(10) >= 5})
    found = {"LEM": own, "sets": sets}
    printed, ours = loyalty.estimate_table(found, {"LEM": 4.5}).rows
    assert printed["estimated - actual"] == pytest.approx(2.37, abs=0.01)
    assert ours["share %"] == pytest.approx(70)
    assert ours["estimated - actual"] == pytest.approx(-5)
    assert ours["models / one fit"] == 4.5
    (row,) = loyalty.coverage_table([*loyalty.OURS[:1]], found).rows
    assert row["test %"] == pytest.approx(90)
    assert row["at 69.67 %"] == pytest.approx(100)
    assert row["AURC e-3"] == pytest.approx(1e3 * 0.1 / 10)
    strong, ones = loyalty.sure_table(found).rows
    assert (strong["share %"], strong["accuracy %"]) == (pytest.approx(70), pytest.approx(100))
    assert (ones["accuracy %"], ones["LEM at that share"]) == (pytest.approx(80), pytest.approx(100))
    tables = loyalty.reproduction_tables(found)
    assert [row["source"] for row in tables[2].rows] == ["the paper"] * 3 + ["LEM"] * 3
    assert tables[2].rows[3]["n1"] == 7
    assert [table.title.split(":")[0] for table in tables[3:]] == [
        f"Confusion tensor, {level} layer (test set)" for level in levels for _ in range(2)
    ]


@pytest.mark.filterwarnings("ignore::multiform.fitting.OverfittedWarning")  # its pixels say nothing
def test_a_run_from_data_to_files(tmp_path, capsys, monkeypatch):
    write_folder(tmp_path / "data", n_train=60, n_test=40)
    small = {"n_components": 1, "max_iter": 2}
    monkeypatch.setattr(loyalty, "in_fresh_process", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(loyalty, "SETTINGS", {"LEM": small})
    monkeypatch.setattr(loyalty, "OURS", (loyalty.loyalty_model("LEM", **small),))
    arguments = ["--data", str(tmp_path / "data"), "--quick", "--only", "LEM", "--n-jobs", "1"]
    assert loyalty.main([*arguments, "--output", str(tmp_path / "results")]) == 0
    text = (tmp_path / "results" / "loyalty.md").read_text()
    assert "The strong type" in text
    assert "Confusion tensor, weak layer (test set): LEM" in text
    assert "LEM:" in capsys.readouterr().out
