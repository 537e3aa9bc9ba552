"""Who suffers: a fit of every estimator, and every command."""

import contextlib
import io

import numpy as np
from sklearn.linear_model import LogisticRegression

from multiform import LoyaltyClassifier, QMSClassifier, QMSClassifierCV, TriageClassifier
from multiform.diagnosis import DiagnosisPlanner
from multiform.images import ImagePatches
from multiform.tables import TableClassifier
from tests.cli.conftest import people


def data(n_samples=1500, n_features=20, n_classes=3, seed=0):
    """Classes that can be told apart, though not wholly."""
    random = np.random.default_rng(seed)
    y = random.integers(0, n_classes, n_samples)
    X = random.normal(size=(n_samples, n_features)) + 0.4 * random.normal(size=(n_classes, n_features))[y]
    return X.astype(np.float32), y


def _qms(**settings):
    return QMSClassifier(**{"random_state": 0, "max_iter": 20, "noise": 0.3, **settings})


COSTS = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}

# Name -> an estimator with so many jobs, and what its fit is given.
ESTIMATORS = {
    "QMSClassifier, adam": lambda n_jobs: (_qms(n_components=30, n_jobs=n_jobs), data()),
    "QMSClassifier, adam, noise": lambda n_jobs: (_qms(noise="auto", n_jobs=n_jobs), data()),
    "QMSClassifier, cpm": lambda n_jobs: (_qms(solver="cpm", max_iter=6, n_jobs=n_jobs), data()),
    "QMSClassifier, cpm-literal": lambda n_jobs: (_qms(solver="cpm-literal", max_iter=3, n_jobs=n_jobs), data()),
    "QMSClassifierCV": lambda n_jobs: (QMSClassifierCV(max_iter=10, n_jobs=n_jobs, random_state=0), data(400)),
    "LoyaltyClassifier": lambda n_jobs: (LoyaltyClassifier(_qms(n_jobs=n_jobs), random_state=0), data()),
    "LoyaltyClassifier, cpm": lambda n_jobs: (
        LoyaltyClassifier(_qms(solver="cpm", max_iter=6, n_jobs=n_jobs), random_state=0),
        data(),
    ),
    "LoyaltyClassifier, another's": lambda n_jobs: (LoyaltyClassifier(LogisticRegression(), random_state=0), data()),
    "TriageClassifier": lambda n_jobs: (
        TriageClassifier(_qms(n_jobs=n_jobs), target_accuracy=0.6, random_state=0),
        data(),
    ),
    "DiagnosisPlanner, fixed": lambda n_jobs: (
        DiagnosisPlanner(COSTS, policy="fixed", n_jobs=n_jobs, random_state=0),
        data(300, 5),
    ),
    "DiagnosisPlanner, adaptive": lambda n_jobs: (
        DiagnosisPlanner(COSTS, policy="adaptive", n_jobs=n_jobs, random_state=0),
        data(300, 5),
    ),
    "TableClassifier": lambda n_jobs: (TableClassifier(_qms(n_jobs=n_jobs)), (people(600, 0), "level")),
    "ImagePatches": lambda n_jobs: (
        ImagePatches((16, 16), n_filters=32, n_jobs=n_jobs, random_state=0),
        (data(600, 256)[0],),
    ),
}


def answers(estimator, given):
    """What the fitted estimator says of what it was given."""
    X = given[0]
    return estimator.transform(X) if hasattr(estimator, "transform") else estimator.predict_proba(X)


def make_folder(folder):
    """Tables and models for the commands."""
    from multiform.cli import main

    people(300, 0).write_csv(folder / "train.csv")
    people(200, 1).write_csv(folder / "test.csv")
    fast = ["--target", "level", "--quiet", "--max-iter", "10"]
    X, y = data(300, 4)
    header = "a,b,c,d,ill\n"
    rows = "".join(",".join(f"{value:.3f}" for value in row) + f",{kind}\n" for row, kind in zip(X, y, strict=True))
    (folder / "patients.csv").write_text(header + rows)
    (folder / "costs.csv").write_text("test,cost\na,1\nb,2\nc,3\nd,4\n")
    for words in (
        ["fit", folder / "train.csv", "-o", folder / "model.mfm", *fast],
        ["fit", folder / "patients.csv", "-o", folder / "numbers.mfm", "-t", "ill", "-q", "--model", "qms"],
        [
            "plan",
            folder / "patients.csv",
            "-t",
            "ill",
            "--costs",
            folder / "costs.csv",
            "-o",
            folder / "plan.mfm",
            "-q",
        ],
    ):
        with contextlib.redirect_stdout(io.StringIO()):
            code = main([str(word) for word in words])
        if code != 0:
            raise RuntimeError(f"the folder could not be made: {words}")


def commands(folder):
    """Every command: its words, and the name of the file that it writes, if any."""
    out = folder / "outputs"
    fit = ["fit", folder / "train.csv", "-t", "level", "--max-iter", "20", "-o", out / "new.mfm"]
    model, test = folder / "model.mfm", folder / "test.csv"
    plan = ["plan", folder / "patients.csv", "-t", "ill", "--costs", folder / "costs.csv", "-o", out / "new.mfm"]
    case = ["diagnose", folder / "plan.mfm", "--evidence", "a=0.5", "--evidence", "b=1", "--json", "--session"]
    every = {
        "fit": (fit, "new.mfm"),
        "fit, qms, cpm": ([*fit, "--model", "qms", "--solver", "cpm"], "new.mfm"),
        "fit, cv": ([*fit, "--model", "cv"], "new.mfm"),
        "fit, triage": ([*fit, "--target-accuracy", "0.6", "--noise", "0.3"], "new.mfm"),
        "predict, csv": (["predict", model, test, "-o", out / "answers.csv"], "answers.csv"),
        "predict, parquet": (["predict", model, test, "-o", out / "answers.parquet"], "answers.parquet"),
        "predict, spreadsheet": (["predict", model, test, "-o", out / "answers.xlsx"], "answers.xlsx"),
        "describe": (["describe", folder / "train.csv", "-t", "level"], None),
        "compare": (["compare", model, model, test], None),
        "evaluate": (["evaluate", model, test], None),
        "report": (["report", model, test, "-o", out / "report.html"], "report.html"),
        "plan": (plan, "new.mfm"),
        "diagnose": ([*case, out / "case.json"], "case.json"),
        "export": (["export", folder / "numbers.mfm", "--onnx", out / "model.onnx"], "model.onnx"),
        "info": (["info", model], None),
        "demo": (["demo"], None),
    }
    return {name: ([str(word) for word in words], writes) for name, (words, writes) in every.items()}
