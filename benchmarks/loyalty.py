"""Loyalty on Fashion-MNIST: the paper's Tables of 4.4 beside ours, then our score against the peers' in the same run.

Every model is fitted in a fresh process on the same pixels, as uint8 (ours) or as float32 from 0 to 1, and its answers
to the test images are judged here. Our models' trust is `loyalty_score`, a peer's its top probability. Conformal peers
answer two neighbouring questions around the same QMS classifier, calibrated on a sixth of the training images: crepes
ranks by its confidence (one minus the second largest p-value), and MAPIE's prediction sets call an answer sure when the
set holds one class.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline

from benchmarks import paper, paper_loyalty, peers, settings
from benchmarks.fashion import QUICK_ROWS, load
from benchmarks.measure import in_fresh_process, interleaved, threads, timed
from benchmarks.options import benchmark_parser, models_named, names
from benchmarks.peers import Model
from benchmarks.tables import Table, publish, run_description
from multiform.loyalty import LoyaltyClassifier
from multiform.metrics import (
    LoyaltyTable,
    accuracy_at_coverage,
    augrc,
    aurc,
    confusion_tensor,
    coverage_at_accuracy,
    loyalty_table,
    trust_score,
)

Array = NDArray[Any]

FOLDS = 5  # of the accurate settings: the score learns from every image, for five times the time
PATCHES_BETA = 0.025  # better separated classes need more to be called strong
SET_LEVELS = (0.95, 0.98)  # MAPIE's confidence levels


def build_loyalty(parameters: dict[str, Any], cv: int | str, n_jobs: int, seed: int) -> Any:
    from multiform import QMSClassifier

    return LoyaltyClassifier(QMSClassifier(n_jobs=n_jobs, random_state=seed, **parameters), cv=cv, random_state=seed)


def build_lifted(n_jobs: int, seed: int) -> Any:
    """The machine behind the features of "QMS, accurate" of the settings; more noise, for a surer strong type."""
    features = Nystroem(gamma=0.01, n_components=600, random_state=seed)
    parameters = {"n_components": 24, "noise": 1.0, "max_iter": 8, "scaling": "standard"}
    lifted = settings.build_lifted(features, parameters, n_jobs, seed)
    return Pipeline([*lifted.steps[:-1], ("lem", LoyaltyClassifier(lifted[-1], cv=FOLDS, random_state=seed))])


def build_patches(n_jobs: int, seed: int) -> Any:
    """The machine behind the features of "QMS, patches" of the settings."""
    patches, qms = settings.build_patches(n_jobs, seed)
    machine = LoyaltyClassifier(qms, beta=PATCHES_BETA, gamma=1 / PATCHES_BETA, cv=FOLDS, random_state=seed)
    return Pipeline([("patches", patches), ("lem", machine)])


def loyalty_model(name: str, cv: int | str = "auto", **parameters: Any) -> Model:
    """``LoyaltyClassifier`` around QMS with these parameters, beta = 0.05 and gamma = 20."""
    note = ", ".join(f"{key}={value!r}" for key, value in {**parameters, "cv": cv}.items())
    return Model(name, partial(build_loyalty, parameters, cv), "multiform", note, ours=True)


# Chosen on the last 10,000 training images; the test set only reports.
SETTINGS: dict[str, dict[str, Any]] = {
    "LEM": {"n_components": 18, "alpha": 0.5},
    "LEM, accurate": {"n_components": 36, "alpha": 0.5},
}
OURS = (
    loyalty_model("LEM", **SETTINGS["LEM"]),
    loyalty_model("LEM, accurate", FOLDS, **SETTINGS["LEM, accurate"]),
    Model("LEM, lifted", build_lifted, "multiform", f"600 Nystroem features too, cv={FOLDS}", ours=True),
    Model(
        "LEM, patches",
        build_patches,
        "multiform",
        f"patches, beta={PATCHES_BETA}, cv={FOLDS}",
        ours=True,
    ),
)
PEERS = (
    settings.qms("QMS, top probability", n_components=36),
    Model("LightGBM", peers.lightgbm, "lightgbm"),
    Model("XGBoost", peers.xgboost, "xgboost"),
    Model("MLP(100), 10 epochs", peers.mlp_short, note="max_iter=10"),
    Model("MLP(256), 20 epochs", peers.mlp_wide, note="hidden_layer_sizes=(256,), max_iter=20"),
    Model("crepes around QMS", partial(settings.build_qms, {"n_components": 36}), "crepes", "calibrated on a sixth"),
    Model("MAPIE around QMS", partial(settings.build_qms, {"n_components": 36}), "mapie", "calibrated on a sixth"),
)


@dataclass(frozen=True)
class Judged:
    """A model's answers to the test images, and what else it says of them."""

    fit_seconds: float
    true: Array
    predicted: Array
    trust: Array | None = None
    sure: dict[str, Array] | None = None  # masks of answers called sure
    loyalty: Array | None = None
    expected: LoyaltyTable | None = None  # estimated on unseen samples
    training: LoyaltyTable | None = None


def judge(model: Model, data_dir: Path | None, n_jobs: int, seed: int, quick: bool) -> Judged:
    """Fit one model and let it answer (called in a fresh process)."""
    X, y, X_test, y_test = load(data_dir, quick, raw=model.ours)
    with threads(n_jobs), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # iteration limits that the model's note states
        classifier = model.build(n_jobs, seed)
        if model.library in ("crepes", "mapie"):
            X, X_cal, y, y_cal = train_test_split(X, y, test_size=1 / 6, stratify=y, random_state=seed)
        fitted, seconds = timed(partial(classifier.fit, X, y))
        predicted = np.asarray(fitted.predict(X_test))
        if model.library == "crepes":
            return Judged(seconds, y_test, predicted, crepes_confidence(fitted, X_cal, y_cal, X_test, seed))
        if model.library == "mapie":
            return Judged(seconds, y_test, predicted, sure=mapie_singletons(fitted, X_cal, y_cal, X_test))
        features, machine = (fitted[:-1], fitted[-1]) if isinstance(fitted, Pipeline) else (None, fitted)
        if isinstance(machine, LoyaltyClassifier):
            told = machine.assess(X_test if features is None else features.transform(X_test))
            tables = machine.loyalty_table_, machine.training_table_
            return Judged(seconds, y_test, told.label, told.score, None, told.loyalty, *tables)
        return Judged(seconds, y_test, predicted, trust_score(fitted, X_test))


def crepes_confidence(fitted: Any, X_cal: Array, y_cal: Array, X: Array, seed: int) -> Array:
    """One minus the second largest p-value: the level up to which a conformal set would hold one class."""
    from crepes import WrapClassifier

    wrapped = WrapClassifier(fitted)
    wrapped.calibrate(X_cal, y_cal, seed=seed)
    p_values = np.sort(wrapped.predict_p(X, seed=seed), axis=1)
    return np.asarray(1 - p_values[:, -2])


def mapie_singletons(fitted: Any, X_cal: Array, y_cal: Array, X: Array) -> dict[str, Array]:
    """Which prediction sets hold exactly one class, at each level."""
    from mapie.classification import SplitConformalClassifier

    conformal = SplitConformalClassifier(fitted, confidence_level=list(SET_LEVELS), prefit=True)
    _, sets = conformal.conformalize(X_cal, y_cal).predict_set(X)
    return {f"set of one at {level:g}": sets[:, :, k].sum(axis=1) == 1 for k, level in enumerate(SET_LEVELS)}


def fits_for_all_models(parameters: dict[str, Any], data: Path | None, n_jobs: int, seed: int, quick: bool) -> float:
    """Time of the nominal and all altered models over the time of one QMSClassifier fit (in a fresh process).

    Without the cross-fitting, which is of the same kind for every classifier, and measured as "fit s" elsewhere.
    """
    from multiform import QMSClassifier
    from multiform.inputs import check_training_data
    from multiform.loyalty import Alterations, quadratic_committees

    X, y, _, _ = load(data, quick, raw=True)
    qms = QMSClassifier(n_jobs=n_jobs, random_state=seed, **parameters)

    def all_models() -> Any:
        checked, target, classes, weight = check_training_data(LoyaltyClassifier(), X, y, None)
        alterations = Alterations.of(0.05, 20.0, len(classes))
        return next(quadratic_committees(qms, checked, target, classes, weight, alterations, "auto", [None], []))

    with threads(n_jobs):
        medians = interleaved({"one": lambda: qms.fit(X, y), "all": all_models}, repeats=5)
    return medians["all"] / medians["one"]


def type_table(part: str, rows: dict[str, LoyaltyTable]) -> Table:
    """The paper's Table "LEM result", one source after the other."""
    columns = ["source", "loyalty type", "n1", "n1/n %", "n2", "n2/n1 %"]
    formats = {"n1/n %": ".2f", "n2/n1 %": ".2f"}
    table = Table(f"LEM result ({part})", columns, formats)
    for source, counts in rows.items():
        for level, row in counts.as_dict().items():
            cells = (source, level, row["count"], 100 * row["share"], row["correct"], 100 * row["accuracy"])
            table.append(dict(zip(columns, cells, strict=True)))
    return table


def reproduction_tables(judged: dict[str, Judged]) -> list[Table]:
    """The paper's Tables of 4.4, with ours beside them."""
    printed = partial(LoyaltyTable, paper_loyalty.LEVELS)
    training = {"the paper": printed(paper_loyalty.TRAIN_COUNT, paper_loyalty.TRAIN_CORRECT)}
    test = {"the paper": printed(paper_loyalty.TEST_COUNT, paper_loyalty.TEST_CORRECT)}
    unseen = {}
    tensors = {"the paper": paper_loyalty.TEST_TENSOR}
    for name, own in judged.items():
        if own.loyalty is None or own.expected is None or own.training is None:
            continue
        training[name], unseen[name] = own.training, own.expected
        test[name] = loyalty_table(own.true, own.predicted, own.loyalty)
        tensors[name] = confusion_tensor(own.true, own.predicted, own.loyalty, labels=np.arange(10))
    tables = [
        type_table("training set, by the models that were trained on it", training),
        type_table("training set, cross-fitted: what to expect", unseen),
        type_table("test set", test),
    ]
    for level, name in enumerate(paper_loyalty.LEVELS):
        for source, tensor in tensors.items():
            layer = Table(f"Confusion tensor, {name} layer (test set): {source}", ["true class", *map(str, range(10))])
            for k, row in enumerate(tensor[level].tolist()):
                layer.append({"true class": str(k), **{str(j): count for j, count in enumerate(row)}})
            tables.append(layer)
    return tables


def estimate_table(judged: dict[str, Judged], ratios: dict[str, float]) -> Table:
    """The strong type: what was estimated, what came true, and what the models cost."""
    columns = ["model", "share %", "estimated %", "actual %", "estimated - actual", "models / one fit"]
    table = Table("The strong type", columns, dict.fromkeys(columns[1:], ".2f"))
    train, test = paper_loyalty.TRAIN_CORRECT / paper_loyalty.TRAIN_COUNT, paper.STRONG_ACCURACY
    cells: tuple[Any, ...] = ("the paper", 100 * paper.STRONG_COVERAGE, 100 * train[0], 100 * test)
    table.append(dict(zip(columns, (*cells, 100 * (train[0] - test), 21.0), strict=True)))
    for name, own in judged.items():
        if own.loyalty is None or own.expected is None:
            continue
        found = loyalty_table(own.true, own.predicted, own.loyalty)
        expected, actual = 100 * own.expected.accuracy[0], 100 * found.accuracy[0]
        cells = (name, 100 * found.share[0], expected, actual, expected - actual, ratios.get(name))
        table.append(dict(zip(columns, cells, strict=True)))
    table.notes.append("models / one fit: time of the nominal and the 2m altered models over one QMSClassifier fit")
    return table


def coverage_table(models: Sequence[Model], judged: dict[str, Judged]) -> Table:
    """Everybody at the paper's coverage, and over all coverages."""
    columns = ["model", "fit s", "test %", "at 69.67 %", "AURC e-3", "AUGRC e-3", "% at 98", "% at 99", "settings"]
    formats = {"fit s": ".1f", **dict.fromkeys(columns[2:-1], ".2f")}
    table = Table("Trust: accuracy on the surest 69.67 %, and areas under the risk-coverage curves", columns, formats)
    table.notes += [
        "% at 98, % at 99: the largest share of the test images on which that accuracy is reached",
        "fit s of LEM: with the cross-fitting; trust is the loyalty score, a peer's the top probability",
    ]
    for model in models:
        own = judged.get(model.name)
        if own is None or own.trust is None:
            continue
        told = own.true, own.predicted, own.trust
        cells = (
            model.name,
            own.fit_seconds,
            100 * float(np.mean(own.true == own.predicted)),
            100 * accuracy_at_coverage(*told, coverage=paper.STRONG_COVERAGE),
            1e3 * aurc(*told),
            1e3 * augrc(*told),
            100 * coverage_at_accuracy(*told, accuracy=0.98),
            100 * coverage_at_accuracy(*told, accuracy=0.99),
            model.note or "default",
        )
        table.append(dict(zip(columns, cells, strict=True)))
    return table


def sure_table(judged: dict[str, Judged]) -> Table:
    """Answers called sure: the strong type, sets of one class; and each of our scores at the same share."""
    ranked = {name: own for name, own in judged.items() if own.loyalty is not None and own.trust is not None}
    columns = ["called sure", "share %", "accuracy %", *(f"{name} at that share" for name in ranked)]
    table = Table("Answers called sure", columns, dict.fromkeys(columns[1:], ".2f"))
    masks = {f"{name}: strong": (own, own.loyalty == "strong") for name, own in ranked.items()}
    for name, own in judged.items():
        masks |= {f"{name}: {what}": (own, mask) for what, mask in (own.sure or {}).items()}
    for what, (own, mask) in masks.items():
        share = float(np.mean(mask))
        row: dict[str, Any] = {"called sure": what, "share %": 100 * share}
        if share > 0:
            row["accuracy %"] = 100 * float(np.mean((own.true == own.predicted)[mask]))
            for name, other in ranked.items():
                told = other.true, other.predicted, np.asarray(other.trust)
                row[f"{name} at that share"] = 100 * accuracy_at_coverage(*told, coverage=share)
        table.append(row)
    return table


def main(argv: list[str]) -> int:
    """Print and write the tables."""
    parser = benchmark_parser("loyalty", __doc__)
    parser.add_argument("--data", type=Path, help="folder of the IDX files (default: see load_fashion_mnist)")
    parser.add_argument("--only", type=names, help='only these models, comma-separated; "ours", "peers"')
    parser.add_argument("--quick", action="store_true", help="6,000 training and 2,000 test images: a try-out")
    options = parser.parse_args(argv)

    models = models_named((*OURS, *PEERS), options.only)
    judged: dict[str, Judged] = {}
    ratios: dict[str, float] = {}
    for model in models:
        arguments = (options.data, options.n_jobs, options.seed, options.quick)
        own = judged[model.name] = in_fresh_process(judge, model, *arguments)
        print(
            f"{model.name}: {100 * np.mean(own.true == own.predicted):.2f} % after {own.fit_seconds:.1f} s", flush=True
        )
        if model.name in SETTINGS:
            ratios[model.name] = in_fresh_process(fits_for_all_models, SETTINGS[model.name], *arguments)
    tables = [estimate_table(judged, ratios), coverage_table(models, judged), sure_table(judged)]
    tables += reproduction_tables(judged)
    if options.quick:
        tables[0].notes.append(f"--quick: {QUICK_ROWS[0]} training and {QUICK_ROWS[1]} test images only")
    publish(tables, "loyalty", options.output, run_description("loyalty", argv, options.seed))
    return 0
