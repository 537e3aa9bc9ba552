"""The command line, and the choice of models."""

import sys

import pytest

from benchmarks import peers, settings
from benchmarks.__main__ import COMMANDS, main
from benchmarks.options import models_named, names


def test_the_rest_goes_to_the_command(monkeypatch):
    received = []

    class Module:
        @staticmethod
        def main(argv):
            received.extend(argv)

    monkeypatch.setitem(sys.modules, "benchmarks.geometry", Module)
    assert main(["geometry", "--size", "3"]) == 0
    assert received == ["--size", "3"]


@pytest.mark.parametrize("command", ["fashion", "uci", "scaling", "predict"])
def test_every_command_explains_itself(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    assert f"python -m benchmarks {command}" in capsys.readouterr().out


def test_unknown_command(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["fast"])
    assert all(command in capsys.readouterr().err for command in list(COMMANDS)[:1])


def test_models_by_name():
    models = (*settings.UCI, *peers.UCI)
    assert [model.name for model in models_named(models, ["kNN", "QMS"])] == ["QMS", "kNN"]
    assert models_named(models, ["ours"]) == list(settings.UCI)
    assert models_named(models, ["peers"]) == list(peers.UCI)
    assert models_named(models, None) == list(models)
    with pytest.raises(SystemExit, match=r"no model is named \['knn'\]; choose from \['CatBoost'"):
        models_named(models, ["knn"])


def test_names():
    assert names("a, b,,c ") == ["a", "b", "c"]


@pytest.mark.parametrize("models", [settings.FASHION + peers.FASHION, settings.UCI + peers.UCI, peers.PREDICT])
def test_model_names_are_unique(models):
    assert len({model.name for model in models}) == len(models)


@pytest.mark.parametrize("model", [*peers.FASHION, *peers.UCI], ids=lambda model: model.name)
def test_every_peer_can_be_built(model):
    pytest.importorskip({"scikit-learn": "sklearn", "interpret-core": "interpret"}.get(model.library, model.library))
    if model.name == "QDA":
        pytest.importorskip("sklearn", minversion="1.8", reason="QDA with shrinkage")
    classifier = model.build(1, 0)
    assert callable(classifier.fit)
    assert callable(classifier.predict)
