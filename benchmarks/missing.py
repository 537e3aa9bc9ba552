"""Missing values over a folder of ``.npz`` files: the closed form against median plus indicator.

Of each set a share of all cells is taken away, in training and in what is predicted: at random, or depending on the
value, where a cell of rank r of n in its column is missing with the chance 2 share r / n, so that large values are
missing most. ``QMSClassifierCV`` and ``QMSClassifier`` read the gaps themselves (``missing="expectation"``), or a
``SimpleImputer`` with the median and an indicator stands before them; ``QMSClassifier`` also reads the gaps with
indicators beside them. Log loss (no chance below 1e-6) by 3-fold cross-validation, stratified, with the same folds and
gaps for all; at most 1,000 rows of a set, drawn at random.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer

from benchmarks.measure import threads, timed
from benchmarks.options import benchmark_parser, names
from benchmarks.tables import Table, publish, run_description
from benchmarks.uci import N_FOLDS, judged_chances

SHARES = (0.1, 0.3, 0.5)
KINDS = ("at random", "by value")
MOST_ROWS = 1_000
TOLD = "change % with indicators"


def with_gaps(X: NDArray[np.float64], share: float, kind: str, random: np.random.Generator) -> NDArray[np.float64]:
    """X with a share of its cells taken away; no row loses all."""
    chance = np.full(X.shape, share)
    if kind == "by value":
        order = np.argsort(np.argsort(X + 1e-9 * random.random(X.shape), axis=0), axis=0)
        chance = np.minimum(1, 2 * share * (order + 0.5) / len(X))
    gap = random.random(X.shape) < chance
    gap[np.arange(len(X)), random.integers(0, X.shape[1], len(X))] &= ~gap.all(axis=1)
    return np.where(gap, np.nan, X)


def losses(
    build: Callable[[], Any], X: NDArray[np.float64], y: NDArray[Any], seed: int
) -> tuple[NDArray[np.float64], float, float]:
    """Log loss of each row, accuracy, and the seconds of all fits; a class that was not trained has no chance."""
    classes, target = np.unique(y, return_inverse=True)
    chances, seconds = np.zeros((len(y), len(classes))), 0.0
    for train, test in StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed).split(X, target):
        model, taken = timed(lambda rows=train: build().fit(X[rows], target[rows]))  # type: ignore[misc]
        chances[np.ix_(test, model.classes_)] = model.predict_proba(X[test])
        seconds += taken
    at_truth = np.maximum(chances[np.arange(len(y)), target], 1e-6)
    assert np.isclose(-np.log(at_truth).mean(), judged_chances(chances, target)[0])
    return -np.log(at_truth), float((chances.argmax(axis=1) == target).mean()), seconds


def main(argv: list[str]) -> int:
    """Run both on every set, print and write the tables."""
    from multiform import QMSClassifier, QMSClassifierCV

    parser = benchmark_parser("missing", __doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of .npz files with X and y")
    parser.add_argument("--sets", type=names, help="only these sets, comma-separated")
    parser.add_argument(
        "--shares", type=names, default=[str(share) for share in SHARES], help="of cells that are missing"
    )
    parser.add_argument("--models", type=names, default=["QMSClassifierCV", "QMSClassifier"])
    options = parser.parse_args(argv)
    paths = [path for path in sorted(options.data.glob("*.npz")) if not options.sets or path.stem in options.sets]
    if not paths:
        parser.error(f"--data {options.data}: no .npz file there has a wanted name (--sets {options.sets}).")
    known = {"QMSClassifierCV": QMSClassifierCV, "QMSClassifier": QMSClassifier}
    cases = [(name, kind, float(share)) for name in options.models for kind in KINDS for share in options.shares]
    columns = ["model", "missing", "share", "median + indicator", "expectation", "change %", "worse", "sets"]
    columns += ["accuracy points", "fit time ratio", TOLD]
    formats = {"median + indicator": ".4f", "expectation": ".4f", "change %": "+.2f", "accuracy points": "+.2f"}
    formats[TOLD] = "+.2f"
    formats["fit time ratio"] = ".2f"
    notes = [
        "change: geometric mean over sets of the ratio of log losses, less 1; log losses and points: means over sets",
        f"{TOLD}: of log loss, where columns beside the gaps tell where they are",
        "worse: sets whose log loss is higher by more than two standard errors of the difference by row",
    ]
    summary = Table("Log loss with missing values", columns, formats, notes)
    by_set = Table("Log loss by set", ["set", *columns[:5], "change %"], {name: formats[name] for name in columns[3:6]})
    for name, kind, share in cases:
        kept, with_indicators = [], []
        for path in paths:
            with np.load(path) as data:
                X, y = data["X"].astype(np.float64), data["y"]
            random = np.random.default_rng(options.seed)
            some = random.permutation(len(y))[:MOST_ROWS]
            X, y = with_gaps(X[some], share, kind, random), y[some]

            def ours(make: Any = known[name]) -> Any:
                return make(n_jobs=options.n_jobs, random_state=options.seed)

            def filled() -> Any:
                return make_pipeline(SimpleImputer(strategy="median", add_indicator=True), ours())

            def told() -> Any:
                return make_pipeline(make_union(FunctionTransformer(), MissingIndicator(features="all")), ours())

            # QMSClassifierCV tries columns that tell where gaps are by itself.
            ways = (filled, ours, told) if name == "QMSClassifier" else (filled, ours)
            with warnings.catch_warnings(), threads(options.n_jobs):
                warnings.simplefilter("ignore")  # of classes of one row, and of columns that lost everything
                before, after, *more = (losses(way, X, y, options.seed) for way in ways)
            kept.append((before, after))
            with_indicators += [np.log(one[0].mean() / before[0].mean()) for one in more]
            change = 100 * (after[0].mean() / before[0].mean() - 1)
            cells = {"model": name, "missing": kind, "share": share, "change %": change}
            by_set.append({"set": path.stem, **cells, columns[3]: before[0].mean(), columns[4]: after[0].mean()})
            print(f"{name}, {kind}, {share}: {path.stem} {change:+.1f} %", flush=True)
        first, second = (np.array([one[side][0].mean() for one in kept]) for side in (0, 1))
        errors = [(one[1][0] - one[0][0]).std() / np.sqrt(len(one[0][0])) for one in kept]
        summary.append(
            {
                "model": name,
                "missing": kind,
                "share": share,
                "median + indicator": first.mean(),
                "expectation": second.mean(),
                "change %": 100 * (np.exp(np.log(second / first).mean()) - 1),
                "worse": int(np.sum(second - first > 2 * np.array(errors))),
                "sets": len(kept),
                "accuracy points": 100 * float(np.mean([after[1] - before[1] for before, after in kept])),
                TOLD: 100 * float(np.expm1(np.mean(with_indicators))) if with_indicators else None,
                "fit time ratio": sum(after[2] for _, after in kept) / sum(before[2] for before, _ in kept),
            }
        )
    publish([summary, by_set], "missing", options.output, run_description("missing", argv, options.seed))
    return 0
