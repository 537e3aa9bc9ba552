"""Small tabular sets: 3-fold accuracy, chances and time of us and the peers over a folder of ``.npz`` files.

A file holds ``X`` (standardised) and ``y``; a given split is ignored, and all rows are folded. The folds are
stratified with a fixed seed and are the same for every model. A class with fewer rows than folds may be
missing from a training part: its rows in the test part then count as errors, for everybody alike. A model
that cannot fit a training part at all (QDA with a class of one row) is scored as the guess of that part's
most frequent class, and the table counts it as failed.
"""

import time
import warnings
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold

from benchmarks import peers, settings
from benchmarks.cells import Result, append_cell, keep_cells, key_of, read_cells
from benchmarks.measure import threads, timed
from benchmarks.options import benchmark_parser, models_named, names
from benchmarks.peers import Model
from benchmarks.tables import Table, publish, run_description

N_FOLDS = 3
YARDSTICK = "CatBoost"  # of fit times
ENSEMBLE = "QMS CV"  # of ours, what peers are compared with
N_BINS = 10  # of the calibration error
LEAST_CHANCE = 1e-6
CHANCES = {  # columns, fields
    "log loss": "log_loss",
    "Brier": "brier",
    "calibration error": "calibration_error",
    "ROC AUC": "roc_auc",
    "PR AUC": "pr_auc",
}
PEERS = Path(__file__).with_name("uci-peers.csv")  # cells that took hours, computed once
FEW_VALUES = 12  # distinct ones: such a column is, or is like, a category


def evaluate(path: Path, model: Model, n_jobs: int, seed: int) -> Result:
    """Accuracy over all rows, each predicted by the fold model that has not seen it."""
    with np.load(path) as data:
        X, y = data["X"].astype(np.float64), data["y"]  # LDA's rank decisions go wrong in single precision
    n_correct, failed_folds = 0, 0
    fit_seconds, processor_seconds, predict_seconds = 0.0, 0.0, 0.0
    all_classes = np.unique(y)
    chances = np.full((len(y), len(all_classes)), np.nan)
    with warnings.catch_warnings(), threads(n_jobs):
        warnings.simplefilter("ignore")  # peers' convergence and rare-class warnings, expected over 49 sets
        for train, test in StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed).split(X, y):
            # Labels 0..m-1 without a gap in each training part: XGBoost takes no others.
            classes, codes = np.unique(y[train], return_inverse=True)
            classifier = model.build(n_jobs, seed)
            try:
                began = time.process_time()
                _, seconds = timed(partial(classifier.fit, X[train], codes))
                processor_seconds += time.process_time() - began
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
    judged = judged_chances(chances, np.searchsorted(all_classes, y))
    figures = n_correct / len(y), fit_seconds, predict_seconds, failed_folds
    return Result(*key_of(path, model, seed), *figures, *judged, processor_seconds)


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
        [*columns, "fit s", "processor s", "predict s", "failed folds", "settings"],
        {
            "mean accuracy %": ".2f",
            "mean rank": ".2f",
            **dict.fromkeys(CHANCES, ".4f"),
            "lowest log loss %": ".0f",
            "fit s": ".1f",
            "processor s": ".1f",
            "predict s": ".1f",
        },
        notes=[
            "failed folds are scored as the most frequent class; seconds are totals over sets and folds",
            "seconds are of the machines that computed the cells: with --resume they do not compare",
        ],
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
                "processor s": sum(result.processor_seconds for result in own),
                "predict s": sum(result.predict_seconds for result in own),
                "failed folds": sum(result.failed_folds for result in own),
                "settings": model.note or "default",
            }
        )
    return table


def beside_table(results: Sequence[Result], models: Sequence[Model]) -> Table:
    """Our ensemble beside each other model, on the sets that both have; a peer need not have ended on all of them."""
    columns = [
        "model",
        "sets",
        "accuracy",
        "ours - it",
        "ours better",
        "worse",
        "log loss",
        "ours / it",
        "ours lower %",
    ]
    columns += ["mean rank", "lowest log loss %"]
    formats = {"accuracy": ".2f", "ours - it": "+.2f", "log loss": ".4f", "ours / it": ".3f", "ours lower %": ".0f"}
    formats |= {"mean rank": ".2f", "lowest log loss %": ".0f"}
    ours = max((model for model in models if model.ours), key=lambda model: model.name == ENSEMBLE)
    notes = [
        "differences in points, ratios of log losses as geometric means; ranks of accuracy, and who has the lowest log "
        "loss, are among the models that are known on a set"
    ]
    table = Table(f"{ours.name} beside each", columns, formats, notes)
    cells: dict[str, dict[str, Result]] = {}
    for result in results:
        cells.setdefault(result.set, {})[result.model] = result
    ranks: dict[str, list[float]] = {model.name: [] for model in models}
    lowest: dict[str, list[bool]] = {model.name: [] for model in models}
    for of_set in cells.values():
        losses = {name: np.inf if np.isnan(one.log_loss) else one.log_loss for name, one in of_set.items()}
        places = rankdata([-round(one.accuracy, 9) for one in of_set.values()])
        for name, place in zip(of_set, places, strict=True):
            ranks[name].append(place)
            lowest[name].append(losses[name] == min(losses.values()) < np.inf)
    for model in sorted(models, key=lambda model: np.mean(ranks[model.name])):
        pairs = [(one[ours.name], one[model.name]) for one in cells.values() if model.name in one and ours.name in one]
        own, its = (np.array([(pair[k].accuracy, pair[k].log_loss) for pair in pairs]).T for k in (0, 1))
        better = own[0].round(9) - its[0].round(9)
        ratios = own[1] / its[1]
        row = {"model": model.name, "sets": len(pairs), "accuracy": 100 * its[0].mean(), "log loss": its[1].mean()}
        if model is not ours:
            row |= {"ours - it": 100 * better.mean(), "ours better": int((better > 0).sum())}
            row["worse"] = int((better < 0).sum())
            if (judged := np.isfinite(ratios)).any():  # not of one that gives no chances, or failed
                row["ours lower %"] = 100 * np.mean(ratios[judged] < 1)
                row["ours / it"] = float(np.exp(np.log(ratios[judged]).mean()))
        row |= {"mean rank": np.mean(ranks[model.name]), "lowest log loss %": 100 * np.mean(lowest[model.name])}
        table.append(row)
    return table


def times_table(results: Sequence[Result], models: Sequence[Model]) -> Table:
    """Fit time of each model over that of CatBoost's default on the same set, by wall and by processor time."""
    columns = ["median", "largest", "sets above 1"]
    columns = ["model", *(f"{column}, {kind}" for kind in ("wall", "processor") for column in columns)]
    formats = {name: ".2f" for name in columns if "median" in name or "largest" in name}
    table = Table(f"Fit time over {YARDSTICK}'s, by set", columns, formats)
    yardstick = [model.name for model in models].index(YARDSTICK)
    both = [_matrix(results, models, field) for field in ("fit_seconds", "processor_seconds")]
    for place, model in enumerate(models):
        ratios = [seconds[:, place] / seconds[:, yardstick] for seconds in both]
        cells = [cell for one in ratios for cell in (np.median(one), one.max(), int(np.sum(one > 1)))]
        table.append(dict(zip(columns, [model.name, *cells], strict=True)))
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


def _size(path: Path) -> int:
    """Rows x columns x classes."""
    with np.load(path) as data:
        return int(data["X"].size * len(np.unique(data["y"])))


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
        action="store_true",
        help=f"take the cells that {PEERS} and --output have already; of ours those of this very code",
    )
    parser.add_argument(
        "--known", action="store_true", help="compute nothing: tables of the sets that ours are known on"
    )
    parser.add_argument(
        "--keep", action="store_true", help=f"compute nothing: add the peers' cells of --output to {PEERS.name}"
    )
    parser.add_argument("--workers", type=int, default=1, help="processes that fit at the same time, for figures only")
    options = parser.parse_args(argv)

    models = models_named((*settings.UCI, *peers.UCI), options.only)
    paths = [path for path in sorted(options.data.glob("*.npz")) if not options.sets or path.stem in options.sets]
    if not paths:
        parser.error(f"--data {options.data}: no .npz file there has a wanted name (--sets {options.sets}).")
    cells = options.output / "uci-cells.csv"
    if options.keep:
        names_of_peers = {model.name for model in models if not model.ours}
        kept = [result for result in read_cells(cells).values() if result.model in names_of_peers]
        described = run_description("uci", argv, options.seed)
        told = [f"{what}: {described[what]}" for what in ("date", "machine", "versions")]
        keep_cells(PEERS, kept, ["peers' cells of python -m benchmarks uci: no seconds; each has its library", *told])
        print(f"{len(kept)} cells are in {PEERS}")
        return 0
    resume = options.resume or options.known
    known = {**read_cells(PEERS), **read_cells(cells)} if resume else {}
    tasks = {key_of(path, model, options.seed): (path, model) for path in paths for model in models}
    results = [known[key] for key in tasks if key in known]
    todo = [task for key, task in tasks.items() if key not in known]
    if options.known:
        must = [model for model in models if model.ours] or models
        lacking = {path for path, model in todo if model in must}
        paths = [path for path in paths if path not in lacking]
        results, todo = [result for result in results if result.set in {path.stem for path in paths}], []
        if not paths:
            parser.error(f"--known: of no set all cells of {[model.name for model in must]} are there; see --resume.")
    todo.sort(key=lambda task: _size(task[0]))  # small sets first: a run that is broken off has most of them
    run = joblib.Parallel(n_jobs=options.workers, return_as="generator_unordered")
    for result in run(joblib.delayed(evaluate)(*task, options.n_jobs, options.seed) for task in todo):
        append_cell(cells, result)
        print(f"{result.set}: {result.model} {100 * result.accuracy:.2f} % in {result.fit_seconds:.2f} s", flush=True)
        results.append(result)
    results.sort(key=lambda result: result.set)
    counts = Counter(result.model for result in results)
    everywhere = [model for model in models if counts[model.name] == len(paths)]
    whole = [result for result in results if result.model in {model.name for model in everywhere}]
    tables = [sets_table(results, models), *group_tables(whole, everywhere, paths), summary_table(whole, everywhere)]
    if any(model.ours for model in models):
        tables.append(beside_table(results, models))
    if not resume and YARDSTICK in [model.name for model in models]:
        tables.append(times_table(results, models))
    publish(tables, "uci", options.output, run_description("uci", argv, options.seed))
    return 0
