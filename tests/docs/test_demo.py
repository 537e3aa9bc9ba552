"""The demo: on a part of the data in the fast tests, as a user runs it in the slow ones."""

import subprocess
import sys

import pytest

from multiform import demo, web
from multiform.classifier import QMSClassifier
from multiform.datasets import load_heart_disease, load_thyroid

PNG = b"\x89PNG"


@pytest.fixture
def small(monkeypatch):
    """A set with missing values, and enough of thyroid for the promise; one model."""
    X, y = load_thyroid(return_X_y=True)
    monkeypatch.setattr(
        demo,
        "problems",
        lambda: {"heart disease": load_heart_disease(return_X_y=True), "thyroid": (X[:4000], y[:4000])},
    )
    monkeypatch.setattr(demo, "models", lambda: {"QMSClassifier": QMSClassifier(random_state=0)})
    heart = load_heart_disease()
    names = ["age", "cp", "chol", "fbs"]
    few = [heart.feature_names.index(name) for name in names]
    heart.update(data=heart.data[:, few], feature_names=names, costs={name: heart.costs[name] for name in names})
    heart.discounts = {"A": heart.discounts["A"]}
    both = {True: (heart.data, heart.target), False: heart}
    monkeypatch.setattr(demo, "load_heart_disease", lambda return_X_y=False: both[return_X_y])


def test_tables_and_picture(small, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    demo.main(["--output", str(tmp_path / "new" / "folder")])
    printed = capsys.readouterr().out
    for line in ("heart disease      QMSClassifier", "strong", "promised (exact)", "full panel", "overview.png"):
        assert line in printed
    *_, plan, model = printed.splitlines()
    assert plan.endswith(f"multiform serve {tmp_path / 'new' / 'folder' / 'plan.mfm'}")
    assert model.endswith(f"multiform serve {tmp_path / 'new' / 'folder' / 'model.mfm'}")
    assert web.application(plan.split()[-1]).state.model.classes == ["absent", "present"]
    assert web.application(model.split()[-1]).state.model.classes == ["absent", "present"]
    picture = (tmp_path / "new" / "folder" / "overview.png").read_bytes()
    assert picture.startswith(PNG)
    assert len(picture) < 200_000


def test_without_matplotlib_the_tables_come_and_a_sentence(small, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    demo.main(["--output", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "promised (exact)" in printed
    assert 'needs matplotlib; install it with pip install "multiform[plots]"' in printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.mfm", "plan.mfm"]


def test_without_the_web_extra_a_sentence_says_so(small, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    demo.main(["--output", str(tmp_path)])
    assert 'No page: A page needs starlette; install it with pip install "multiform[web]"' in capsys.readouterr().out


def test_every_set_has_the_models_of_the_table():
    scores = demo.compare({"heart disease": load_heart_disease(return_X_y=True)}, demo.models())
    assert [score["model"] for score in scores] == list(demo.models())
    assert all(0.7 < score["accuracy"] < 0.9 for score in scores)
    assert len(demo.score_table(scores).splitlines()) == 1 + len(scores)


@pytest.mark.slow
def test_as_a_user_runs_it(tmp_path):
    pytest.importorskip("matplotlib")
    done = subprocess.run(
        [sys.executable, "-m", "multiform.demo", "--output", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert (tmp_path / "overview.png").read_bytes().startswith(PNG)
    assert "thyroid            RandomForestClassifier" in done.stdout


def test_help_names_the_option(capsys):
    with pytest.raises(SystemExit, match="0"):
        demo.main(["--help"])
    assert "--output" in capsys.readouterr().out
