"""``python -m multiform.demo``: a tour in well under a minute, on data that comes with the packages.

It compares accuracies by cross-validation, asks how far answers can be trusted, makes a promise and checks it, and
draws all of that into one picture.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_validate, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from multiform.classifier import QMSClassifier
from multiform.classifier_cv import QMSClassifierCV
from multiform.datasets import load_breast_cancer_wisconsin, load_heart_disease, load_thyroid
from multiform.loyalty import LoyaltyClassifier
from multiform.metrics import loyalty_table
from multiform.triage import TriageClassifier

__all__ = ["main"]

SEED = 0
N_FOLDS = 5
TARGET_ACCURACY = 0.98
PICTURE = "overview.png"
WINE_FEATURES = ("flavanoids", "color_intensity")


class Score(NamedTuple):
    """One model on one set."""

    problem: str
    model: str
    accuracy: float
    fit_seconds: float


def problems() -> dict[str, tuple[Any, Any]]:
    """Name -> X, y. The first two have missing values."""
    return {
        "heart disease": load_heart_disease(return_X_y=True),
        "breast cancer": load_breast_cancer_wisconsin(return_X_y=True),
        "thyroid": load_thyroid(return_X_y=True),
    }


def models() -> dict[str, Any]:
    """Name -> classifier: ours, and two of scikit-learn's."""
    return {
        "QMSClassifier": QMSClassifier(random_state=SEED),
        "QMSClassifierCV": QMSClassifierCV(random_state=SEED),
        "RandomForestClassifier": RandomForestClassifier(random_state=SEED),
        "LogisticRegression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    }


def compare(problems: Mapping[str, tuple[Any, Any]], models: Mapping[str, Any]) -> list[Score]:
    """Every model on every set: mean accuracy over the folds, median time of a fit."""
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=SEED)
    scores = []
    for problem, (X, y) in problems.items():
        for name, model in models.items():
            found = cross_validate(make_pipeline(SimpleImputer(strategy="median"), model), X, y, cv=folds)
            scores.append(Score(problem, name, found["test_score"].mean(), float(np.median(found["fit_time"]))))
    return scores


def score_table(scores: Sequence[Score]) -> str:
    """The scores as aligned text, a model a line.

    >>> print(score_table([Score("iris", "QMS", 0.97, 0.01), Score("wine", "QMS", 0.985, 0.2)]))
    set                model                     accuracy     fit s
    iris               QMS                         97.00%     0.010
    wine               QMS                         98.50%     0.200
    """
    lines = [f"{'set':<18} {'model':<24} {'accuracy':>9} {'fit s':>9}"]
    for score in scores:
        lines.append(f"{score.problem:<18} {score.model:<24} {score.accuracy:>9.2%} {score.fit_seconds:>9.3f}")
    return "\n".join(lines)


def draw(path: Path, loyalty: LoyaltyClassifier, nominal: QMSClassifier, X: Any, y: Any) -> None:
    """Decision regions of two features of wine; risk and coverage, and loyalty types, of the samples X."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SystemExit(
            'The picture of the demo needs matplotlib; install it with pip install "multiform[plots]".'
        ) from error
    from multiform.displays import LoyaltyDisplay, RiskCoverageDisplay
    from multiform.geometry import SeparatorDisplay

    wine = load_wine()
    two = wine.data[:, [wine.feature_names.index(name) for name in WINE_FEATURES]]
    cultivar = np.array(["cultivar 1", "cultivar 2", "cultivar 3"])[wine.target]
    plane = QMSClassifier(random_state=SEED).fit(two, cultivar)

    figure = Figure(figsize=(11, 8), layout="constrained")
    axes = figure.subplot_mosaic([["regions", "risk"], ["share", "accuracy"]])
    SeparatorDisplay.from_model(plane, two, cultivar, ax=axes["regions"])
    first, second = (name.replace("_", " ") for name in WINE_FEATURES)
    axes["regions"].set(title="What is it? Regions and separators (wine)", xlabel=first, ylabel=second)
    for name, model in {"one QMS model": nominal, "loyalty score": loyalty}.items():
        RiskCoverageDisplay.from_estimator(model, X, y, name=name, ax=axes["risk"])
    # One wrong answer among the very first would hide the rest of the curve.
    axes["risk"].set(title="How far to trust it? (thyroid, unseen samples)", ylim=(0, 1.4 * (1 - loyalty.score(X, y))))
    LoyaltyDisplay.from_estimator(loyalty, X, y, ax=[axes["share"], axes["accuracy"]])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tour; see ``python -m multiform.demo --help``."""
    parser = argparse.ArgumentParser(prog="python -m multiform.demo", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="folder of the picture")
    output = parser.parse_args(argv).output

    sets = problems()
    print(f"1. What is it? Accuracy by {N_FOLDS}-fold cross-validation, and the median time of a fit\n")
    print(score_table(compare(sets, models())))

    # Half of the thyroid data stays unseen until the end.
    X, X_new, y, y_new = train_test_split(
        *sets["thyroid"], test_size=0.5, stratify=sets["thyroid"][1], random_state=SEED
    )
    loyalty = LoyaltyClassifier(random_state=SEED).fit(X, y)
    print("\n2. How far can an answer be trusted? Loyalty types of thyroid, estimated on the training half\n")
    print(loyalty.loyalty_table_)
    print("\nand what came true on the other half\n")
    print(loyalty_table(y_new, loyalty.predict(X_new), loyalty.predict_loyalty(X_new), levels=loyalty.levels_))

    triage = TriageClassifier(
        LoyaltyClassifier(random_state=SEED),
        target_accuracy=TARGET_ACCURACY,
        calibration_fraction=0.5,
        random_state=SEED,
    ).fit(X, y)
    print("\n3. A promise, made on the training half and checked on the other; the rest is deferred\n")
    print(triage.report(X_new, y_new))

    picture = output / PICTURE
    draw(picture, loyalty, QMSClassifier(random_state=SEED).fit(X, y), X_new, y_new)
    print(f"\n4. A picture of all that: {picture}")


if __name__ == "__main__":
    main()
