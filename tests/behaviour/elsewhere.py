"""Models that left: saved and loaded again, and exported to ONNX."""

import tempfile
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

import multiform
from multiform import LoyaltyClassifier, QMSClassifier, QMSClassifierCV, TriageClassifier
from multiform.columns import UnfamiliarWarning
from tests.behaviour.diagnosis import patients, planner
from tests.behaviour.registry import needing
from tests.behaviour.samples import clouds, steps, words

QUESTIONS = (
    "predict",
    "predict_proba",
    "decision_function",
    "predict_loyalty",
    "loyalty_score",
    "defer",
    "trust_score",
    "predict_full",
)


def small_qms(**settings):
    return QMSClassifier(**({"n_components": 3, "max_iter": 4, "noise": 0.5, "random_state": 0} | settings))


def data():
    X, y, asked = clouds(200, 3, 3, 0.8, seed=11)
    return X, words(y), asked


def models():
    """A fitted model of every kind."""
    X, y, _ = data()
    logistic = LogisticRegression(tol=1e-10, max_iter=1000)
    triage = TriageClassifier(
        LoyaltyClassifier(small_qms(), cv=3, random_state=0),
        target_accuracy=0.7,
        fallback=small_qms(noise=1.0),
        random_state=0,
    )
    return {
        "qms": small_qms().fit(X, y),
        "cpm": small_qms(solver="cpm", max_iter=2).fit(X, y),
        "loyalty": LoyaltyClassifier(small_qms(), cv=3, random_state=0).fit(X, y),
        "logistic": LoyaltyClassifier(logistic, cv=3, random_state=0).fit(X, y),
        "triage": triage.fit(X, y),
    }


def ensemble():
    X, y, asked = steps()
    settings = {"noise": (0.3, 1.0), "n_components": 3, "max_iter": 4, "cv": 3, "random_state": 0}
    return QMSClassifierCV(partners=None, **settings).fit(X, y), asked


def returned(model, asked):
    """What the model says once it was saved and loaded; whether this is what it said before, to the bit."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mfm"
        multiform.save(model, path)
        loaded = multiform.load(path)
    shown = {name: getattr(loaded, name)(asked) for name in QUESTIONS if hasattr(model, name)}
    before = {name: getattr(model, name)(asked) for name in shown}
    return shown | {"the same": [np.array_equal(before[name], shown[name]) for name in shown]}


def together(found):
    return {f"{kind} {name}": value for kind, arrays in found.items() for name, value in arrays.items()}


@needing("safetensors")
def saved():
    asked = data()[2]
    return together({kind: returned(model, asked) for kind, model in models().items()})


@needing("safetensors")
def saved_ensemble():
    return returned(*ensemble())


@needing("safetensors")
def saved_plan():
    X, y, asked = patients()
    return returned(planner(level=0.05).fit(X, y), asked)


@needing("safetensors", "polars")
def saved_table():
    from tests.behaviour.tables import odd, table, visits

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnfamiliarWarning)
        return returned(table(small_qms(noise=1.0)).fit(visits(150, 0), "level"), odd())


def exported(model, asked):
    """Every output of the ONNX model."""
    import onnxruntime

    from multiform.export import to_onnx

    content = to_onnx(model, double=True).SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {session.get_inputs()[0].name: asked}), strict=True))


@needing("skl2onnx", "onnxruntime")
def onnx():
    asked = data()[2]
    return together({kind: exported(model, asked) for kind, model in models().items()})


@needing("skl2onnx", "onnxruntime")
def onnx_ensemble():
    return exported(*ensemble())
