"""Is triage's promise kept? How often it is broken, and how much is accepted, over many calibrations.

A classifier is fitted once on a part of a set; its answers to all the other rows, the pool, are the
population. Every calibration is a fresh draw of rows from the pool (with replacement, so they are
independent), given to TriageClassifier as it would be by a user. Because the population is known, so are the
true accuracy of what each calibration accepts, its true coverage, and the oracle: the largest coverage that
any threshold reaches at the target. The promise may be broken in at most 1 - confidence of the calibrations.
The naive scan, the largest coverage whose own Clopper-Pearson bound holds, stands beside it to show what the
order of the tests is good for.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB

from benchmarks import peers
from benchmarks.measure import threads
from benchmarks.options import benchmark_parser, models_named, names
from benchmarks.peers import Model
from benchmarks.tables import Table, publish, run_description
from multiform.metrics import coverage_at_accuracy, trust_score
from multiform.triage import TargetNotReachedWarning, TriageClassifier

Array = NDArray[Any]

MODELS = (
    Model("logistic regression", peers.logistic_regression_short),
    Model("naive Bayes", lambda n_jobs, seed: GaussianNB(), note="overconfident: most trust scores are 1"),
    Model("random forest", peers.random_forest, note="many equal trust scores"),
    Model("LightGBM", peers.lightgbm, "lightgbm"),
)
UCI_SETS = ("chess-krvk", "page-blocks", "pendigits", "ringnorm", "statlog-landsat", "waveform-noise")


@dataclass(frozen=True)
class Pool:
    """A fitted classifier's answers to every row of a population."""

    true: Array
    predicted: Array
    trust: Array


class Recorded(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The fitted classifier, its answers looked up instead of computed again: a sample is a row number."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    def fit(self, X: Array, y: Array) -> "Recorded":
        self.classes_ = np.unique(self.pool.predicted)
        return self

    def predict(self, X: Array) -> Array:
        return np.asarray(self.pool.predicted[X[:, 0]])

    def loyalty_score(self, X: Array) -> Array:
        return np.asarray(self.pool.trust[X[:, 0]])


def problems(
    uci: Path | None, fashion: Path | None, with_fashion: bool, seed: int
) -> Iterator[tuple[str, Array, Array, int]]:
    """Name, samples, labels, and how many rows train; the rest is the pool."""
    X, y = make_classification(
        60_000,
        n_informative=10,
        n_classes=4,
        n_clusters_per_class=1,
        class_sep=1.3,
        flip_y=0.004,
        random_state=seed,
    )
    yield "synthetic", X, y, 10_000
    if with_fashion:
        from benchmarks.fashion import load

        X_train, y_train, X_test, y_test = load(fashion, quick=False)
        yield "fashion", np.concatenate([X_train, X_test]), np.concatenate([y_train, y_test]), 20_000
    for name in UCI_SETS if uci is not None else ():
        with np.load(Path(str(uci)) / f"{name}.npz") as data:
            yield name, data["X"].astype(np.float64), data["y"], len(data["y"]) // 2


def judged_pool(X: Array, y: Array, n_train: int, model: Model, n_jobs: int, seed: int) -> Pool:
    order = np.random.default_rng(seed).permutation(len(y))
    train, rest = order[:n_train], order[n_train:]
    with warnings.catch_warnings(), threads(n_jobs):
        warnings.simplefilter("ignore")  # convergence
        classifier = model.build(n_jobs, seed).fit(X[train], y[train])
        return Pool(y[rest], np.asarray(classifier.predict(X[rest])), trust_score(classifier, X[rest]))


def naive_threshold(trust: Array, right: Array, target: float, confidence: float) -> float:
    """The largest coverage whose own exact bound holds, as if it were the only one looked at."""
    order = np.argsort(-trust, kind="stable")
    last = np.append(np.diff(trust[order]) != 0, True)
    errors, accepted = np.cumsum(~right[order])[last], np.flatnonzero(last) + 1
    passed = np.flatnonzero(binom.cdf(errors, accepted, 1 - target) <= 1 - confidence)
    return float(trust[order][last][passed[-1]]) if len(passed) else np.inf


@dataclass(frozen=True)
class Outcome:
    """Over all calibrations: how often the promise broke, and what was covered."""

    broken: float
    coverage: float
    median_coverage: float
    nothing: float  # share of the calibrations that accept nothing


def outcome(coverages: list[float], accuracies: list[float], target: float) -> Outcome:
    covered, right = np.array(coverages), np.array(accuracies)
    broken = (covered > 0) & (right < target)
    return Outcome(float(broken.mean()), float(covered.mean()), float(np.median(covered)), float((covered == 0).mean()))


def experiment(
    pool: Pool, n_calibration: int, target: float, confidence: float, repeats: int, seed: int
) -> tuple[Outcome, Outcome]:
    """Triage and the naive scan on the same draws."""
    right = pool.true == pool.predicted
    surest_first = np.argsort(-pool.trust, kind="stable")
    falling = -pool.trust[surest_first]
    hits = np.append(0, np.cumsum(right[surest_first]))

    def truth(threshold: float) -> tuple[float, float]:
        n = int(np.searchsorted(falling, -threshold, side="right"))
        return n / len(right), hits[n] / n if n else np.nan

    rng = np.random.default_rng(seed)
    frozen = FrozenEstimator(Recorded(pool).fit(pool.true[:1, None], pool.true[:1]))
    ours, naive = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TargetNotReachedWarning)
        for repeat in range(repeats):
            rows = rng.integers(len(right), size=n_calibration)
            triage = TriageClassifier(frozen, target_accuracy=target, confidence=confidence, random_state=repeat).fit(
                rows[:, None], pool.true[rows]
            )
            ours.append(truth(triage.thresholds_[0]) if triage.attained_ else (0.0, np.nan))
            naive.append(truth(naive_threshold(pool.trust[rows], right[rows], target, confidence)))
    first, second = (outcome(*map(list, zip(*found, strict=True)), target) for found in (ours, naive))
    return first, second


def main(argv: list[str]) -> int:
    """Print and write the table of broken promises."""
    parser = benchmark_parser("triage", __doc__)
    parser.add_argument("--uci", type=Path, help="folder of the small sets (.npz with X and y)")
    parser.add_argument("--data", type=Path, help="folder of Fashion-MNIST's IDX files")
    parser.add_argument("--no-fashion", action="store_true", help="leave Fashion-MNIST out")
    parser.add_argument("--only", type=names, help="only these models, comma-separated")
    parser.add_argument("--calibration", type=names, default=["2000", "10000"], help="sizes, comma-separated")
    parser.add_argument("--target", type=float, default=0.99)
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--repeats", type=int, default=500, help="calibrations drawn for each row")
    options = parser.parse_args(argv)

    promise = f"target {options.target:g}, confidence {options.confidence:g}"
    shares = ["accuracy", "broken", "naive", "oracle", "mean", "median", "gap", "nothing"]
    table = Table(
        f"Triage: {promise}, {options.repeats} calibrations a row",
        ["set", "model", "n", *shares],
        dict.fromkeys(shares, ".3f"),
    )
    allowed = 1 - options.confidence
    noise = 2 * np.sqrt(allowed * (1 - allowed) / options.repeats)
    table.notes += [
        f"broken: share of the calibrations whose accepted answers miss the target; allowed {allowed:.3f}, "
        f"and {noise:.3f} more is two standard errors of the count. naive: the same of the naive scan",
        "oracle: the largest coverage at the target, truth known. mean, median: coverage of triage. gap: "
        "oracle minus median. nothing: share of the calibrations that accept nothing",
    ]
    for name, X, y, n_train in problems(options.uci, options.data, not options.no_fashion, options.seed):
        for model in models_named(MODELS, options.only):
            pool = judged_pool(X, y, n_train, model, options.n_jobs, options.seed)
            oracle = coverage_at_accuracy(pool.true, pool.predicted, pool.trust, accuracy=options.target)
            for n in map(int, options.calibration):
                ours, naive = experiment(pool, n, options.target, options.confidence, options.repeats, options.seed)
                row = {
                    "set": name,
                    "model": model.name,
                    "n": n,
                    "accuracy": float(np.mean(pool.true == pool.predicted)),
                    "broken": ours.broken,
                    "naive": naive.broken,
                    "oracle": oracle,
                    "mean": ours.coverage,
                    "median": ours.median_coverage,
                    "gap": oracle - ours.median_coverage,
                    "nothing": ours.nothing,
                }
                table.append(row)
                print(*(f"{k}={v:.3f}" if isinstance(v, float) else v for k, v in row.items()), flush=True)
    publish([table], "triage", options.output, run_description("triage", argv, options.seed))
    return 0
