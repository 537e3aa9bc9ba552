"""Small tabular sets: 3-fold accuracy, chances and time of us and the peers over a folder of ``.npz`` files.

A file holds ``X`` (standardised) and ``y``; a given split is ignored, and all rows are folded. The folds are
stratified with a fixed seed and are the same for every model. A class with fewer rows than folds may be
missing from a training part: its rows in the test part then count as errors, for everybody alike. A model
that cannot fit a training part at all (QDA with a class of one row) is scored as the guess of that part's
most frequent class, and the table counts it as failed.
"""

import csv
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold

from benchmarks import peers, settings
from benchmarks.measure import threads, timed
from benchmarks.options import benchmark_parser, models_named, names
from benchmarks.peers import Model
from benchmarks.tables import Table, publish, run_description, version_of

N_FOLDS = 3
N_BINS = 10  # of the calibration error
LEAST_CHANCE = 1e-6
CHANCES = {  # columns, fields
    "log loss": "log_loss",
    "Brier": "brier",
    "calibration error": "calibration_error",
    "ROC AUC": "roc_auc",
    "PR AUC": "pr_auc",
}
FEW_VALUES = 12  # distinct ones: such a column is, or is like, a category


@dataclass(frozen=True)
class Result:
    """One model on one set. The first five fields are the key under which a peer's result is kept."""

    set: str
    model: str
    version: str
    seed: int
    recipe: str  # checksum of the set's file and of the classifier's settings
    accuracy: float
    fit_seconds: float  # all folds together
    predict_seconds: float
    failed_folds: int
    log_loss: float = float("nan")  # of a model that gives chances; NaN of others, and where a fold failed
    brier: float = float("nan")
    calibration_error: float = float("nan")
    roc_auc: float = float("nan")
    pr_auc: float = float("nan")

    @property
    def key(self) -> tuple[str, str, str, int, str]:
        return self.set, self.model, self.version, self.seed, self.recipe


def evaluate(path: Path, model: Model, n_jobs: int, seed: int) -> Result:
    """Accuracy over all rows, each predicted by the fold model that has not seen it."""
    with np.load(path) as data:
        X, y = data["X"].astype(np.float64), data["y"]  # LDA's rank decisions go wrong in single precision
    n_correct, fit_seconds, predict_seconds, failed_folds = 0, 0.0, 0.0, 0
    all_classes = np.unique(y)
    chances = np.full((len(y), len(all_classes)), np.nan)
    with warnings.catch_warnings(), threads(n_jobs):
        warnings.simplefilter("ignore")  # peers' convergence and rare-class warnings, expected over 49 sets
        for train, test in StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed).split(X, y):
            # Labels 0..m-1 without a gap in each training part: XGBoost takes no others.
            classes, codes = np.unique(y[train], return_inverse=True)
            classifier = model.build(n_jobs, seed)
            try:
                _, seconds = timed(partial(classifier.fit, X[train], codes))
                predicted, more_seconds = timed(partial(classifier.predict, X[test]))
                predicted = np.ravel(predicted)  # CatBoost answers in a column
                if hasattr(classifier, "predict_proba"):
                    chances[test] = 0
                    known = np.searchsorted(all_classes, classes)
                    chances[np.ix_(test, known)] = classifier.predict_proba(X[test])
            except Exception as error:
                if model.ours:
                    raise RuntimeError(f"{model.name} failed on {path.stem}.") from error
                failed_folds += 1
                predicted, seconds, more_seconds = np.full(len(test), np.bincount(codes).argmax()), 0.0, 0.0
            n_correct += int(np.sum(classes[predicted] == y[test]))
            fit_seconds += seconds
            predict_seconds += more_seconds
    figures = n_correct / len(y), fit_seconds, predict_seconds, failed_folds
    return Result(*_key(path, model, seed), *figures, *judged_chances(chances, np.searchsorted(all_classes, y)))


def judged_chances(chances: NDArray[np.float64], target: NDArray[np.intp]) -> tuple[float, float, float, float, float]:
    """Log loss, Brier score, calibration error, ROC AUC and PR AUC of chances (n, m) for samples of classes `target`.

    No chance counts as less than 1e-6. The calibration error is the mean distance of the chance of the answer from the
    share of right answers, in ten bins of equal width. The areas are those of each class against the others, weighted
    by its samples.
    """
    best, right = chances.max(axis=1), chances.argmax(axis=1) == target
    if np.isnan(best).any():
        return (float("nan"),) * 5
    log_loss = -np.log(np.maximum(chances[np.arange(len(target)), target], LEAST_CHANCE)).mean()
    brier = ((chances - np.eye(chances.shape[1])[target]) ** 2).sum(axis=1).mean()
    bins = np.minimum((best * N_BINS).astype(int), N_BINS - 1)
    errors = [abs((best - right)[bins == k].sum()) for k in range(N_BINS)]
    counts = np.bincount(target, minlength=chances.shape[1])
    judged = np.flatnonzero((counts > 0) & (counts < len(target)))
    areas = [
        np.average([score(target == k, chances[:, k]) for k in judged], weights=counts[judged])
        for score in (roc_auc_score, average_precision_score)
    ]
    return float(log_loss), float(brier), float(sum(errors) / len(target)), float(areas[0]), float(areas[1])


def _key(path: Path, model: Model, seed: int) -> tuple[str, str, str, int, str]:
    recipe = zlib.crc32(path.read_bytes() + repr(model.build(1, seed)).encode())
    return path.stem, model.name, version_of(model.library), seed, f"{recipe:08x}"


class ResultFile:
    """Results of a model in a CSV file, appended as they come, so that an interrupted run loses nothing."""

    def __init__(self, path: Path, *, resume: bool) -> None:
        self.path = path
        self.results: dict[tuple[str, str, str, int, str], Result] = {}
        if resume and path.exists():
            with open(path, newline="", encoding="utf-8") as stream:
                for row in csv.DictReader(stream):
                    result = Result(**{f.name: f.type(row[f.name]) for f in fields(Result)})  # type: ignore[operator]
                    self.results[result.key] = result
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._write("w", [])

    def append(self, result: Result) -> None:
        self._write("a", [result])

    def _write(self, mode: str, results: Sequence[Result]) -> None:
        with open(self.path, mode, newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, [field.name for field in fields(Result)])
            if mode == "w":
                writer.writeheader()
            writer.writerows(map(asdict, results))


def sets_table(results: Sequence[Result], models: Sequence[Model]) -> Table:
    """Accuracy in per cent, one row per set."""
    columns = [model.name for model in models]
    table = Table("Accuracy (%) by set", ["set", *columns], dict.fromkeys(columns, ".2f"))
    by_set: dict[str, dict[str, float]] = {}
    for result in results:
        by_set.setdefault(result.set, {})[result.model] = 100 * result.accuracy
    for name, accuracies in by_set.items():
        table.append({"set": name, **accuracies})
    return table


def summary_table(results: Sequence[Result], models: Sequence[Model]) -> Table:
    """Mean accuracy, mean rank (1 is best, ties share), wins (a tie for the first place counts), chances, time."""
    accuracy, losses = _matrix(results, models, "accuracy"), _matrix(results, models, "log_loss")
    ranks = rankdata(-accuracy.round(9), axis=1)
    wins = accuracy.round(9) == accuracy.round(9).max(axis=1, keepdims=True)
    judged = np.where(np.isnan(losses), np.inf, losses)
    lowest = (judged == judged.min(axis=1, keepdims=True)) & np.isfinite(judged)
    columns = ["model", "mean accuracy %", "mean rank", "wins", *CHANCES, "lowest log loss %"]
    table = Table(
        f"{len(accuracy)} sets, {N_FOLDS}-fold cross-validation",
        [*columns, "fit s", "predict s", "failed folds", "settings"],
        {
            "mean accuracy %": ".2f",
            "mean rank": ".2f",
            **dict.fromkeys(CHANCES, ".4f"),
            "lowest log loss %": ".0f",
            "fit s": ".1f",
            "predict s": ".1f",
        },
        notes=["failed folds are scored as the most frequent class; seconds are totals over sets and folds"],
    )
    for column in np.argsort(ranks.mean(axis=0), kind="stable"):
        model = models[column]
        own = [result for result in results if result.model == model.name]
        table.append(
            {
                "model": model.name,
                "mean accuracy %": 100 * accuracy[:, column].mean(),
                "mean rank": ranks[:, column].mean(),
                "wins": int(wins[:, column].sum()),
                **{name: float(np.mean([getattr(result, field) for result in own])) for name, field in CHANCES.items()},
                "lowest log loss %": 100 * lowest[:, column].mean(),
                "fit s": sum(result.fit_seconds for result in own),
                "predict s": sum(result.predict_seconds for result in own),
                "failed folds": sum(result.failed_folds for result in own),
                "settings": model.note or "default",
            }
        )
    return table


def groups_of(path: Path) -> list[str]:
    """The groups that a set belongs to: by rows, by columns that are like categories, and by classes."""
    with np.load(path) as data:
        X, y = data["X"], data["y"]
    n, m = len(y), len(np.unique(y))
    few = np.mean([len(np.unique(column)) <= FEW_VALUES for column in X.T])
    return [
        "n below 500" if n < 500 else "n from 500" if n < 2000 else "n from 2,000",
        "mostly categories" if few > 0.5 else "mostly numbers",
        "2 classes" if m == 2 else "3 to 5 classes" if m <= 5 else "6 classes or more",
    ]


def group_tables(results: Sequence[Result], models: Sequence[Model], paths: Sequence[Path]) -> list[Table]:
    """Mean accuracy and mean log loss of each model by groups of sets."""
    groups: dict[str, list[str]] = {}
    for path in paths:
        for group in groups_of(path):
            groups.setdefault(group, []).append(path.stem)
    columns = [model.name for model in models]
    tables = []
    for title, field, factor, form in (("Accuracy (%)", "accuracy", 100, ".2f"), ("Log loss", "log_loss", 1, ".4f")):
        table = Table(f"{title} by groups of sets", ["group", "sets", *columns], dict.fromkeys(columns, form))
        for group in sorted(groups):
            of_group = [result for result in results if result.set in groups[group]]
            means = factor * _matrix(of_group, models, field).mean(axis=0)
            table.append(
                {"group": group, "sets": len(groups[group]), **dict(zip(columns, means.tolist(), strict=True))}
            )
        tables.append(table)
    return tables


def _matrix(results: Sequence[Result], models: Sequence[Model], field: str) -> NDArray[np.float64]:
    """A figure, sets by models."""
    found = {(result.set, result.model): getattr(result, field) for result in results}
    sets = sorted({result.set for result in results})
    return np.array([[found[name, model.name] for model in models] for name in sets])


def main(argv: list[str]) -> int:
    """Run every model on every set, print and write the tables."""
    parser = benchmark_parser("uci", __doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of .npz files with X and y")
    parser.add_argument("--sets", type=names, help="only these sets, comma-separated")
    parser.add_argument("--only", type=names, help='only these models, comma-separated; "ours", "peers"')
    parser.add_argument(
        "--resume",
        nargs="?",
        const="peers",
        choices=["peers", "all"],
        help="take results that --output has already: those of peers, or of us as well",
    )
    parser.add_argument("--workers", type=int, default=1, help="processes that fit at the same time, for figures only")
    options = parser.parse_args(argv)

    models = models_named((*settings.UCI, *peers.UCI), options.only)
    paths = [path for path in sorted(options.data.glob("*.npz")) if not options.sets or path.stem in options.sets]
    if not paths:
        parser.error(f"--data {options.data}: no .npz file there has a wanted name (--sets {options.sets}).")
    files = {
        model.name: ResultFile(options.output / "uci" / f"{model.name}.csv", resume=bool(options.resume))
        for model in models
    }
    results, todo = [], []
    for path in paths:
        for model in models:
            # Our own code changes between runs without a new version: its results are kept only where that is asked.
            again = model.ours and options.resume != "all"
            kept = None if again else files[model.name].results.get(_key(path, model, options.seed))
            results += [] if kept is None else [kept]
            todo += [(path, model)] if kept is None else []
    run = joblib.Parallel(n_jobs=options.workers, return_as="generator_unordered")
    for result in run(joblib.delayed(evaluate)(*task, options.n_jobs, options.seed) for task in todo):
        files[result.model].append(result)
        print(f"{result.set}: {result.model} {100 * result.accuracy:.2f} % in {result.fit_seconds:.2f} s", flush=True)
        results.append(result)
    results.sort(key=lambda result: result.set)
    tables = [sets_table(results, models), *group_tables(results, models, paths), summary_table(results, models)]
    publish(tables, "uci", options.output, run_description("uci", argv, options.seed))
    return 0
