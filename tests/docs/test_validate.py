"""docs/validate.py: settings reach the classifier or its solver, and a run prints what it says."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_blobs

SCRIPT = Path(__file__).parents[2] / "docs" / "validate.py"


@pytest.fixture
def validate(monkeypatch):
    """The script, with three easy classes in place of Fashion-MNIST."""
    spec = importlib.util.spec_from_file_location("validate", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    X, y = make_blobs(600, n_features=5, centers=3, center_box=(40, 200), cluster_std=8.0, random_state=0)
    X = np.clip(X, 0, 255).astype(np.uint8)
    monkeypatch.setattr(module, "load_fashion_mnist", lambda folder: (X, y, X[:0], y[:0]))
    monkeypatch.setattr(module, "N_TRAIN", 400)
    return module


def test_settings_reach_the_solver(validate):
    model = validate.build({"solver": "cpm", "max_iter": 3, "slack": 0.7, "grow": 1.2}, seed=0)
    solver = model._solver(50_000, 18)
    assert (solver.n_passes, solver.slack, solver.grow, solver.synchronous) == (3, 0.7, 1.2, True)
    with pytest.raises(TypeError, match="slak"):
        validate.build({"slak": 1}, seed=0)._solver(50_000, 18)


@pytest.mark.parametrize(
    "options", [[], ["--lift", "RBFSampler", "--features", "8"], ["--dtype", "float64", "beta1=0.9"]]
)
def test_a_run_prints_accuracies(validate, options, capsys):
    validate.main(["--seeds", "2", "n_components=3", "max_iter=20", *options])
    *seeds, mean = capsys.readouterr().out.splitlines()
    accuracies = [float(line.split()[4]) for line in seeds]
    assert len(accuracies) == 2
    assert min(accuracies) > 80
    assert mean == f"mean over 2 seeds: {np.mean(accuracies):.2f} %"


def test_what_is_no_setting_is_refused(validate, capsys):
    with pytest.raises(SystemExit, match="2"):
        validate.main(["n_components"])
    assert "'n_components' is not NAME=VALUE" in capsys.readouterr().err
