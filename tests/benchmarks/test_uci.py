"""The benchmark of small sets, with peers only."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier

from benchmarks import cells, peers, uci
from benchmarks.cells import Result, append_cell, read_cells
from benchmarks.peers import Model

KNN = Model("kNN", peers.knn)


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for name, n in (("first", 60), ("second", 45)):
        y = np.arange(n) % 3
        X = rng.normal(size=(n, 4)).astype(np.float32) + y[:, None]
        np.savez(tmp_path / f"{name}.npz", X=X, y=y, n_train=0)
    return tmp_path


def test_accuracy_is_that_of_unseen_rows(folder):
    with np.load(folder / "first.npz") as data:
        X, y = data["X"].astype(np.float64), data["y"]
    correct = 0
    for train, test in StratifiedKFold(3, shuffle=True, random_state=5).split(X, y):
        correct += np.sum(KNeighborsClassifier().fit(X[train], y[train]).predict(X[test]) == y[test])
    result = uci.evaluate(folder / "first.npz", KNN, n_jobs=1, seed=5)
    assert result.accuracy == correct / 60
    assert result.failed_folds == 0
    assert result.set == "first"


def test_chances_are_judged_as_scikit_learn_does():
    random = np.random.default_rng(0)
    chances, target = random.dirichlet(np.ones(3), 500), random.integers(0, 3, 500)
    log_loss_found, brier, error, roc_auc, pr_auc = uci.judged_chances(chances, target)
    assert log_loss_found == pytest.approx(log_loss(target, chances, labels=[0, 1, 2]))
    assert brier == pytest.approx(((chances - np.eye(3)[target]) ** 2).sum(axis=1).mean())
    assert 0 < error < 1
    assert roc_auc == pytest.approx(roc_auc_score(target, chances, multi_class="ovr", average="weighted"))
    assert pr_auc == pytest.approx(average_precision_score(np.eye(3)[target], chances, average="weighted"))
    sure = np.eye(3)[target]
    assert uci.judged_chances(sure, target) == pytest.approx((0, 0, 0, 1, 1))
    assert uci.judged_chances(np.roll(sure, 1, axis=1), target)[:3] == pytest.approx((-np.log(1e-6), 2, 1))
    assert all(np.isnan(uci.judged_chances(np.full((5, 2), np.nan), np.zeros(5, dtype=int))))


def test_rare_classes_and_labels_with_gaps(tmp_path):
    # Class 40 has two rows, so in some fold its training part lacks it, or has one: no model may stop there.
    y = np.array([7] * 20 + [9] * 20 + [40] * 2)
    X = np.random.default_rng(0).normal(size=(42, 2)) + 10 * y[:, None]
    np.savez(tmp_path / "rare.npz", X=X, y=y, n_train=0)
    result = uci.evaluate(tmp_path / "rare.npz", KNN, n_jobs=1, seed=0)
    assert result.accuracy == pytest.approx(40 / 42)


class Impossible:
    def fit(self, X, y):
        raise ValueError("cannot")


def test_a_peer_that_cannot_fit_is_scored_as_the_most_frequent_class(tmp_path):
    y = np.array([0] * 10 + [1] * 20)
    np.savez(tmp_path / "set.npz", X=np.zeros((30, 2)), y=y, n_train=0)
    model = Model("impossible", lambda n_jobs, seed: Impossible())
    result = uci.evaluate(tmp_path / "set.npz", model, n_jobs=1, seed=0)
    assert result.accuracy == pytest.approx(20 / 30)
    assert result.failed_folds == 3


def test_our_own_failure_is_not_hidden(tmp_path):
    np.savez(tmp_path / "set.npz", X=np.zeros((30, 2)), y=np.arange(30) % 2, n_train=0)
    model = Model("QMS", lambda n_jobs, seed: Impossible(), ours=True)
    with pytest.raises(RuntimeError, match="QMS failed on set"):
        uci.evaluate(tmp_path / "set.npz", model, n_jobs=1, seed=0)


def test_summary():
    models = [Model("a", peers.lda), Model("b", peers.lda), Model("c", peers.lda)]
    accuracies = {"one": (0.9, 0.8, 0.9), "two": (0.5, 0.7, 0.6)}
    results = [
        Result(name, model.name, "1", 0, "x", accuracy, 2.0, 1.0, 0)
        for name, row in accuracies.items()
        for model, accuracy in zip(models, row, strict=True)
    ]
    rows = {row["model"]: row for row in uci.summary_table(results, models).rows}
    # Ranks: set one 1.5, 3, 1.5; set two 3, 1, 2.
    assert [rows[name]["mean rank"] for name in "abc"] == [2.25, 2.0, 1.75]
    assert [rows[name]["wins"] for name in "abc"] == [1, 1, 1]
    assert rows["a"]["mean accuracy %"] == pytest.approx(70.0)
    assert rows["a"]["fit s"] == 4.0
    assert next(iter(rows)) == "c"  # best mean rank first
    losses = {"one": (0.3, 0.2, float("nan")), "two": (0.4, 0.5, 0.4)}
    judged = [replace(result, log_loss=losses[result.set]["abc".index(result.model)]) for result in results]
    table = uci.summary_table(judged, models)
    assert {row["model"]: row["lowest log loss %"] for row in table.rows} == {"a": 50, "b": 50, "c": 50}
    assert uci.sets_table(results, models).rows[1] == {"set": "two", "a": 50.0, "b": 70.0, "c": 60.0}


def test_a_peer_that_did_not_end_everywhere_is_compared_where_it_did():
    models = [Model("QMS", peers.lda, ours=True), Model("QMS CV", peers.lda, ours=True), Model("slow", peers.lda)]
    figures = {
        ("one", "QMS"): (0.7, 0.5),
        ("one", "QMS CV"): (0.9, 0.2),
        ("one", "slow"): (0.8, 0.4),
        ("two", "QMS"): (0.5, 0.9),
        ("two", "QMS CV"): (0.6, 0.8),
    }
    results = [Result(*key, "1", 0, "x", one[0], 1.0, 1.0, 0, log_loss=one[1]) for key, one in figures.items()]
    ours, slow, other = uci.beside_table(results, models).rows
    assert [row["model"] for row in (ours, slow, other)] == ["QMS CV", "slow", "QMS"]
    assert slow == {
        "model": "slow",
        "sets": 1,
        "accuracy": 80.0,
        "log loss": 0.4,
        "ours - it": pytest.approx(10),
        "ours better": 1,
        "worse": 0,
        "ours lower %": 100,
        "ours / it": pytest.approx(0.5),
        "mean rank": 2,
        "lowest log loss %": 0,
    }
    assert (ours["mean rank"], ours["lowest log loss %"], ours["sets"]) == (1, 100, 2)
    assert other["ours / it"] == pytest.approx(np.sqrt(0.4 * 0.8 / 0.9))
    assert other["mean rank"] == 2.5


def test_times_are_told_over_catboosts():
    models = [Model("CatBoost", peers.lda), Model("ours", peers.lda)]
    seconds = {("one", "CatBoost"): (2.0, 4.0), ("one", "ours"): (1.0, 3.0), ("two", "CatBoost"): (1.0, 1.0)}
    seconds["two", "ours"] = 3.0, 1.0
    results = [
        Result(*key, "1", 0, "x", 0.5, wall, 1.0, 0, processor_seconds=processor)
        for key, (wall, processor) in seconds.items()
    ]
    first, second = uci.times_table(results, models).rows
    assert list(first.values()) == ["CatBoost", 1, 1, 0, 1, 1, 0]
    assert list(second.values()) == ["ours", 1.75, 3, 1, 0.875, 1, 0]


def run(folder, output, *more):
    arguments = ["--data", str(folder), "--output", str(output), "--n-jobs", "1", "--only", "kNN,LDA", *more]
    return uci.main(arguments)


def test_resume_repeats_nothing_that_is_known(folder, tmp_path, capsys, monkeypatch):
    output = tmp_path / "results"
    assert run(folder, output, "--sets", "first") == 0
    evaluated = []
    original = uci.evaluate

    def evaluate(path, model, n_jobs, seed):
        evaluated.append((path.stem, model.name))
        return original(path, model, n_jobs, seed)

    monkeypatch.setattr(uci, "evaluate", evaluate)
    assert run(folder, output, "--resume") == 0
    assert evaluated == [("second", "LDA"), ("second", "kNN")]
    assert run(folder, output, "--resume", "--seed", "1") == 0
    assert len(evaluated) == 6
    table = (output / "uci.md").read_text()
    assert "2 sets, 3-fold cross-validation" in table


def test_known_sets_alone(folder, tmp_path, capsys):
    output = tmp_path / "results"
    with pytest.raises(SystemExit, match="2"):
        run(folder, output, "--known")
    assert "of no set all cells of ['LDA', 'kNN'] are there" in capsys.readouterr().err
    run(folder, output, "--sets", "first")
    assert run(folder, output, "--known") == 0
    assert "1 sets, 3-fold" in (output / "uci.md").read_text()


def test_what_is_known_of_slow_peers(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(uci.settings, "UCI", (Model("QMS", peers.knn, ours=True),))
    arguments = ["--data", str(folder), "--output", str(tmp_path / "out"), "--n-jobs", "1"]
    uci.main([*arguments, "--only", "ours"])
    uci.main([*arguments, "--only", "LDA", "--sets", "first"])
    capsys.readouterr()
    assert uci.main([*arguments, "--only", "ours,LDA", "--known"]) == 0
    told = capsys.readouterr().out
    assert "2 sets, 3-fold" in told
    summary, beside = told[told.index("2 sets, 3-fold") :].split("QMS beside each")
    assert "LDA" not in summary
    assert [line.split()[1] for line in beside.splitlines() if line.startswith("LDA")] == ["1"]


def test_peers_cells_that_others_take_on(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(uci, "PEERS", tmp_path / "peers.csv")
    output = tmp_path / "results"
    run(folder, output, "--sets", "first")
    append_cell(output / "uci-cells.csv", Result("first", "QMS", "1", 0, "x", 0.5, 2.0, 1.0, 0))
    assert run(folder, output, "--keep") == 0
    assert run(folder, output, "--keep") == 0  # once more changes nothing
    text = (tmp_path / "peers.csv").read_text()
    assert text.startswith("# peers' cells")
    found = read_cells(tmp_path / "peers.csv").values()
    assert {result.model for result in found} == {"kNN", "LDA"}
    assert all(np.isnan(result.fit_seconds) for result in found)
    capsys.readouterr()
    run(folder, tmp_path / "elsewhere", "--sets", "first", "--resume")  # another machine computes nothing
    assert "first: kNN" not in capsys.readouterr().out


def test_resume_does_not_trust_changed_data(folder, tmp_path, capsys):
    output = tmp_path / "results"
    run(folder, output, "--sets", "first")
    assert "first: kNN" in capsys.readouterr().out
    run(folder, output, "--sets", "first", "--resume")
    assert "first: kNN" not in capsys.readouterr().out
    with np.load(folder / "first.npz") as data:
        X, y = data["X"], data["y"]
    np.savez(folder / "first.npz", X=np.roll(X, 1, axis=0), y=y, n_train=0)
    run(folder, output, "--sets", "first", "--resume")
    assert "first: kNN" in capsys.readouterr().out


def test_ours_are_run_again_when_our_code_has_changed(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(uci.settings, "UCI", (Model("QMS", peers.knn, ours=True),))
    arguments = ["--data", str(folder), "--output", str(tmp_path / "out"), "--only", "ours", "--resume"]
    for code, again in ((b"one", True), (b"one", False), (b"two", True)):
        monkeypatch.setattr(cells, "_our_code", lambda code=code: code)
        uci.main(arguments)
        assert ("first: QMS" in capsys.readouterr().out) == again


def test_our_code_is_part_of_the_key(folder, monkeypatch):
    ours, theirs = Model("m", peers.knn, ours=True), Model("m", peers.knn)
    path = folder / "first.npz"
    assert b"class QMSClassifierCV" in cells._our_code()
    assert cells.key_of(path, ours, 0)[:4] == cells.key_of(path, theirs, 0)[:4]
    before = cells.key_of(path, ours, 0), cells.key_of(path, theirs, 0)
    monkeypatch.setattr(cells, "_our_code", lambda: b"other")
    after = cells.key_of(path, ours, 0), cells.key_of(path, theirs, 0)
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_cells_survive_a_run_that_was_killed(tmp_path):
    path = tmp_path / "folder" / "cells.csv"
    first, second = (Result(name, "a, b", "1", 0, "x", 0.5, 2.0, 1.0, 0) for name in ("one", "two"))
    append_cell(path, first)
    with open(path, "a") as stream:
        stream.write("two,a")  # half a line
    assert read_cells(path).keys() == {first.key}
    append_cell(path, second)
    append_cell(path, replace(second, accuracy=0.75))
    found = read_cells(path)
    assert found.keys() == {first.key, second.key}
    assert found[second.key].accuracy == 0.75
    assert np.isnan(found[first.key].log_loss)
    assert read_cells(tmp_path / "none.csv") == {}


def test_groups_of_sets(folder):
    assert uci.groups_of(folder / "first.npz") == ["n below 500", "mostly numbers", "3 to 5 classes"]
    models = [KNN]
    results = [uci.evaluate(folder / f"{name}.npz", KNN, n_jobs=1, seed=0) for name in ("first", "second")]
    paths = [folder / "first.npz", folder / "second.npz"]
    accuracy, losses = uci.group_tables(results, models, paths)
    means = np.mean([[100 * result.accuracy, result.log_loss] for result in results], axis=0)
    assert [row["sets"] for row in accuracy.rows] == [2, 2, 2]
    assert accuracy.rows[0]["kNN"] == pytest.approx(means[0])
    assert losses.rows[0]["kNN"] == pytest.approx(means[1])


def test_a_folder_without_sets(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        uci.main(["--data", str(tmp_path)])
    assert "no .npz file there has a wanted name" in capsys.readouterr().err
