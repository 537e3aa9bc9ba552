"""The benchmark of shapes: what is drawn, and a run of it."""

import numpy as np
import pytest

from benchmarks import peers, shapes
from benchmarks.peers import Model


@pytest.mark.parametrize("shape", [s for s in shapes.SHAPES if s.cells < 1e6], ids=lambda shape: shape.name)
def test_a_shape_is_what_its_name_says(shape):
    X, y, X_fresh, y_fresh = shape.draw(np.random.default_rng(0))
    assert X.shape == (shape.n, shape.p)
    assert X_fresh.shape[1] == shape.p
    assert len(y) == shape.n
    assert X_fresh.shape[0] == len(y_fresh)
    assert set(np.unique(y_fresh)) <= set(np.unique(y))
    assert np.bincount(y).min() * len(np.unique(y)) > 0.2 * len(y)  # no class is rare


def test_multinomial_nb_is_not_given_negative_numbers():
    shape = shapes.SHAPES[0]
    assert not shapes.takes(Model("multinomial NB", peers.multinomial_nb), shape, np.array([[-1.0]]))
    assert shapes.takes(Model("multinomial NB", peers.multinomial_nb), shape, np.array([[0.0]]))


def test_a_run(tmp_path, capsys):
    argv = ["--kinds", "quadratic", "--cells", "1000", "--only", ["LDA", " shrinkage"][0]]
    with pytest.raises(SystemExit, match="no model is named"):
        shapes.main([*argv, "--output", str(tmp_path)])
    argv[-1] = "SGD,linear SVC"
    assert shapes.main([*argv, "--repeats", "2", "--output", str(tmp_path)]) == 0
    assert "quadratic, 200 x 5" in capsys.readouterr().out
    assert (tmp_path / "shapes.md").exists()
