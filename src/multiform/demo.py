"""``python -m multiform.demo``: a tour in well under a minute, on data that comes with the packages.

It compares accuracies by cross-validation, asks how far answers can be trusted, makes a promise and checks it, plans
which tests to buy for a diagnosis and pays the bill, draws a picture of it where matplotlib is installed, and says how
the plan is opened in the browser.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

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
from multiform.diagnosis import DiagnosisPlanner
from multiform.files import save
from multiform.loyalty import LoyaltyClassifier
from multiform.metrics import loyalty_table
from multiform.tables import TableClassifier
from multiform.triage import TriageClassifier

__all__ = ["main", "run"]

SEED = 0
N_FOLDS = 5
TARGET_ACCURACY = 0.98
BEAM_WIDTH = 6  # narrower than the default, as this is a demonstration
PICTURE = "overview.png"
WINE_FEATURES = ("flavanoids", "color_intensity")


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


def compare(problems: Mapping[str, tuple[Any, Any]], models: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every model on every set: mean accuracy over the folds, median time of a fit."""
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=SEED)
    scores = []
    for problem, (X, y) in problems.items():
        for name, model in models.items():
            found = cross_validate(make_pipeline(SimpleImputer(strategy="median"), model), X, y, cv=folds)
            accuracy, seconds = found["test_score"].mean(), float(np.median(found["fit_time"]))
            scores.append({"problem": problem, "model": name, "accuracy": accuracy, "fit_seconds": seconds})
    return scores


def score_table(scores: Sequence[Mapping[str, Any]]) -> str:
    """The scores as aligned text, one line per model.

    >>> print(score_table([{"problem": "iris", "model": "QMS", "accuracy": 0.97, "fit_seconds": 0.01}]))
    set                model                     accuracy     fit s
    iris               QMS                         97.00%     0.010
    """
    lines = [f"{'set':<18} {'model':<24} {'accuracy':>9} {'fit s':>9}"]
    lines += ["{problem:<18} {model:<24} {accuracy:>9.2%} {fit_seconds:>9.3f}".format(**score) for score in scores]
    return "\n".join(lines)


def draw(path: Path, loyalty: LoyaltyClassifier, nominal: QMSClassifier, X: Any, y: Any) -> None:
    """Decision regions of two features of wine; risk and coverage, and loyalty types, of the samples X."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
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
    axes["risk"].set_title("How far to trust it? (thyroid, unseen rows)")
    LoyaltyDisplay.from_estimator(loyalty, X, y, ax=[axes["share"], axes["accuracy"]])
    axes["accuracy"].set_title("Accuracy within the type (thyroid, unseen rows)")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)


def run(output: Path | None = None, echo: Callable[[str], None] = print) -> dict[str, Any]:
    """The tour: says each part as soon as it is there, and returns its figures.

    Parameters
    ----------
    output : Path, default=None
        The folder of the picture, and of files for `multiform serve`; None draws and writes none.
    echo : callable
        Gets each part's text.
    """
    sets = problems()
    echo(f"1. What is it? Accuracy by {N_FOLDS}-fold cross-validation, and the median time of a fit\n")
    scores = compare(sets, models())
    echo(score_table(scores))

    # Half of the thyroid data stays unseen until the end.
    X, X_new, y, y_new = train_test_split(
        *sets["thyroid"], test_size=0.5, stratify=sets["thyroid"][1], random_state=SEED
    )
    loyalty = LoyaltyClassifier(random_state=SEED).fit(X, y)
    echo("\n2. How far can an answer be trusted? Its loyalty type: strong (sure), normal (usual) or weak (unsure)")
    echo("What the types are worth on thyroid, estimated on the training half\n")
    echo(str(loyalty.loyalty_table_))
    echo("\nand what came true on the other half\n")
    actual = loyalty_table(y_new, loyalty.predict(X_new), loyalty.predict_loyalty(X_new), levels=loyalty.levels_)
    echo(str(actual))

    triage = TriageClassifier(
        LoyaltyClassifier(random_state=SEED),
        target_accuracy=TARGET_ACCURACY,
        calibration_fraction=0.5,
        random_state=SEED,
    ).fit(X, y)
    kept = triage.report(X_new, y_new)
    echo("\n3. A promise, made on the training half and checked on the other")
    echo("It is about the answers that the model (estimator) gives; the others (nobody) are left to a person\n")
    echo(str(kept))

    echo("\n4. What to measure next? Heart disease: 13 tests with their prices, a third of the patients unseen\n")
    planner, bills = diagnose(echo)

    figures: dict[str, Any] = {
        "scores": scores,
        "loyalty": {"estimated": loyalty.loyalty_table_.as_dict(), "actual": actual.as_dict()},
        "promise": {
            "promised": kept.target_accuracy,
            "accepted_accuracy": kept.accepted_accuracy,
            "coverage": kept.coverage,
        },
        "diagnosis": bills,
        "picture": None,
        "files": [],
    }
    if output is not None:
        picture = output / PICTURE
        try:
            draw(picture, loyalty, QMSClassifier(random_state=SEED).fit(X, y), X_new, y_new)
            echo(f"\n5. A picture of all that: {picture}")
            figures["picture"] = str(picture)
        except ImportError as error:
            echo(f"\n5. No picture: {error}")
        try:
            files = keep(output, planner)
            echo("\n6. The plan of part 4, and a classifier of the same patients, in the browser:\n")
            for file in files:
                echo(f"{command()} serve {shlex.quote(str(file))}")
            figures["files"] = [str(file) for file in files]
        except ImportError as error:
            echo(f"\n6. No page: {error}")
    return figures


def keep(folder: Path, planner: DiagnosisPlanner) -> list[Path]:
    """Files of a plan and of a classifier of heart disease, which `multiform serve` opens."""
    for needed in ("starlette", "uvicorn", "polars", "safetensors"):
        if find_spec(needed) is None:
            raise ImportError(f'A page needs {needed}; install it with pip install "multiform[web]".')
    heart = load_heart_disease()
    columns = {name: heart.data[:, place] for place, name in enumerate(heart.feature_names)}
    labels = np.array(heart.target_names)[heart.target]
    model = TableClassifier(LoyaltyClassifier(random_state=SEED)).fit(columns, labels)
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / "plan.mfm", folder / "model.mfm"]
    for fitted, file in zip((planner, model), files, strict=True):
        save(fitted, file)
    return files


def command() -> str:
    """How the command line is called here: as it is found on the path, or beside this Python."""
    beside = Path(sys.executable).parent / "multiform"
    if not beside.exists():
        return f"{shlex.quote(sys.executable)} -m multiform"
    if shutil.which("multiform") == str(beside):
        return "multiform"
    here = Path.cwd()
    return shlex.quote(str(beside.relative_to(here) if beside.is_relative_to(here) else beside))


def diagnose(echo: Callable[[str], None]) -> tuple[DiagnosisPlanner, dict[str, Any]]:
    """A plan for heart disease, followed for patients whom it has not seen, and the bill of one of them."""
    heart = load_heart_disease()
    found = np.array(heart.target_names)[heart.target]
    X, X_new, y, y_new = train_test_split(heart.data, found, test_size=1 / 3, stratify=found, random_state=SEED)
    planner = DiagnosisPlanner(
        heart.costs, discounts=heart.discounts, search="beam", beam_width=BEAM_WIDTH, random_state=SEED
    ).fit(X, y)
    bought = planner.acquire(X_new)
    right, right_with_all = bought.answer == y_new, planner.predict_full(X_new) == y_new
    echo(f"order: {', '.join(planner.order_)}")
    echo(f"mean bill {bought.cost.mean():.2f} of {planner.panel_cost_:.2f} for all tests ({bought.cost_share:.0%})")
    echo(f"accuracy {right.mean():.2%}; with all tests {right_with_all.mean():.2%}")
    patient = int(np.argmin(np.abs(bought.cost - np.median(bought.cost))))
    echo(f"\nthe bill of one patient (heart disease: {y_new[patient]})\n")
    echo(bought.bill(patient))
    return planner, {
        "order": planner.order_,
        "mean_bill": float(bought.cost.mean()),
        "panel_cost": float(planner.panel_cost_),
        "accuracy": float(right.mean()),
        "accuracy_with_all_tests": float(right_with_all.mean()),
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tour; see ``python -m multiform.demo --help``. ``multiform demo`` is the same."""
    parser = argparse.ArgumentParser(prog="python -m multiform.demo", description=__doc__)
    parser.add_argument(
        "--output", type=Path, default=Path("demo-output"), help="folder of the picture and of model files"
    )
    run(parser.parse_args(argv).output)


if __name__ == "__main__":
    main()
