"""Is triage's promise kept? How often it is broken, and how much is accepted, over many calibrations.

A classifier is fitted once on a part of a set; its answers to all the other rows, the pool, are the
population. Every calibration is a fresh draw of rows from the pool (with replacement, so they are
independent), given to TriageClassifier as it would be by a user. Because the population is known, so are the
true accuracy of what each calibration accepts, its true coverage, and the oracle: the largest coverage that
any threshold reaches at the target. The promise may be broken in at most 1 - confidence of the calibrations.
The naive scan, the largest coverage whose own Clopper-Pearson bound holds, stands beside it to show what the
order of the tests is good for. MAPIE's MultiClassificationLTTController makes the same promise from the same draws
(accuracy of what is not abstained from, as little abstention as possible, its own 100 thresholds): by its default,
Holm's procedure, and by a fixed sequence.
"""

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
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
from multiform.metrics import coverage_at_accuracy
from multiform.triage import TargetNotReachedWarning, TriageClassifier

Array = NDArray[Any]

MODELS = (
    Model("logistic regression", peers.logistic_regression_short),
    Model("naive Bayes", lambda n_jobs, seed: GaussianNB(), note="overconfident: most trust scores are 1"),
    Model("random forest", peers.random_forest, note="many equal trust scores"),
    Model("LightGBM", peers.lightgbm, "lightgbm"),
)
MAPIE = {"MAPIE Holm": "bonferroni_holm", "MAPIE sequence": "fixed_sequence"}
UCI_SETS = ("chess-krvk", "page-blocks", "pendigits", "ringnorm", "statlog-landsat", "waveform-noise")


@dataclass(frozen=True)
class Pool:
    """A fitted classifier's answers to every row of a population, the classes as numbers from 0."""

    true: Array
    chances: Array

    @property
    def predicted(self) -> Array:
        return np.asarray(self.chances.argmax(axis=1))

    @property
    def trust(self) -> Array:
        return np.asarray(self.chances.max(axis=1))


class Recorded(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The fitted classifier, its answers looked up instead of computed again: a sample is a row number."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    def fit(self, X: Array, y: Array) -> "Recorded":
        self.classes_ = np.arange(self.pool.chances.shape[1])
        self.predicted_, self.trust_ = self.pool.predicted, self.pool.trust
        return self

    def predict(self, X: Array) -> Array:
        return np.asarray(self.predicted_[X[:, 0]])

    def loyalty_score(self, X: Array) -> Array:
        return np.asarray(self.trust_[X[:, 0]])

    def predict_proba(self, X: Array) -> Array:
        return np.asarray(self.pool.chances[X[:, 0]])


def problems(
    uci: Path | None, fashion: Path | None, with_fashion: bool, seed: int, sets: Sequence[str] = UCI_SETS
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
    for name in sets if uci is not None else ():
        with np.load(Path(str(uci)) / f"{name}.npz") as data:
            yield name, data["X"].astype(np.float64), data["y"], len(data["y"]) // 2


def judged_pool(X: Array, y: Array, n_train: int, model: Model, n_jobs: int, seed: int) -> Pool:
    order = np.random.default_rng(seed).permutation(len(y))
    train, rest = order[:n_train], order[n_train:]
    with warnings.catch_warnings(), threads(n_jobs):
        warnings.simplefilter("ignore")  # convergence
        classifier = model.build(n_jobs, seed).fit(X[train], y[train])
        classes, true = np.unique(y, return_inverse=True)
        chances = np.zeros((len(rest), len(classes)))
        chances[:, np.searchsorted(classes, classifier.classes_)] = classifier.predict_proba(X[rest])
        return Pool(true.ravel()[rest], chances / chances.sum(axis=1, keepdims=True))


def naive_threshold(trust: Array, right: Array, target: float, confidence: float) -> float:
    """The largest coverage whose own exact bound holds, as if it were the only one looked at."""
    order = np.argsort(-trust, kind="stable")
    last = np.append(np.diff(trust[order]) != 0, True)
    errors, accepted = np.cumsum(~right[order])[last], np.flatnonzero(last) + 1
    passed = np.flatnonzero(binom.cdf(errors, accepted, 1 - target) <= 1 - confidence)
    return float(trust[order][last][passed[-1]]) if len(passed) else np.inf


def mapie_threshold(method: str, target: float, confidence: float) -> Callable[[Recorded, Array, Array], float]:
    """The threshold that MAPIE's controller chooses on labelled calibration samples; inf if it finds none."""
    from mapie.risk_control import BinaryRisk, MultiClassificationLTTController, abstention_rate

    # NaN is "I abstain", and differs from itself.
    accuracy = BinaryRisk(lambda true, said: said == true, lambda true, said: said == said, higher_is_better=True)

    def choose(classifier: Recorded, X: Array, y: Array) -> float:
        controller = MultiClassificationLTTController(
            classifier.predict_proba,
            [accuracy],
            [target],
            confidence_level=confidence,
            best_predict_param_choice=abstention_rate,
            classes=classifier.classes_,
            fwer_method=method,
        )
        found = controller.calibrate(X, y).best_predict_param
        return np.inf if found is None else float(found)

    return choose


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
    pool: Pool,
    n_calibration: int,
    target: float,
    confidence: float,
    repeats: int,
    seed: int,
    methods: dict[str, str] | None = None,
) -> dict[str, Outcome]:
    """Triage ("ours"), the naive scan and MAPIE by these methods on the same draws."""
    predicted, trust = pool.predicted, pool.trust
    right = pool.true == predicted
    surest_first = np.argsort(-trust, kind="stable")
    falling = -trust[surest_first]
    hits = np.append(0, np.cumsum(right[surest_first]))

    def truth(threshold: float) -> tuple[float, float]:
        n = int(np.searchsorted(falling, -threshold, side="right")) if threshold < np.inf else 0
        return n / len(right), hits[n] / n if n else np.nan

    rng = np.random.default_rng(seed)
    classifier = Recorded(pool).fit(pool.true[:1, None], pool.true[:1])
    rivals = {name: mapie_threshold(method, target, confidence) for name, method in (methods or {}).items()}
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TargetNotReachedWarning)
        warnings.filterwarnings("ignore", module="mapie")  # no threshold is valid, a risk is not monotone
        for repeat in range(repeats):
            rows = rng.integers(len(right), size=n_calibration)
            X, y = rows[:, None], pool.true[rows]
            triage = TriageClassifier(
                FrozenEstimator(classifier), target_accuracy=target, confidence=confidence, random_state=repeat
            ).fit(X, y)
            found["ours"].append(truth(triage.thresholds_[0]))
            found["naive"].append(truth(naive_threshold(trust[rows], right[rows], target, confidence)))
            for name, choose in rivals.items():
                found[name].append(truth(choose(classifier, X, y)))
    return {name: outcome([c for c, _ in one], [a for _, a in one], target) for name, one in found.items()}


def main(argv: list[str]) -> int:
    """Print and write the tables of broken promises and of coverage."""
    parser = benchmark_parser("triage", __doc__)
    parser.add_argument("--uci", type=Path, help="folder of the small sets (.npz with X and y)")
    parser.add_argument("--sets", type=names, default=UCI_SETS, help="which of these, comma-separated")
    parser.add_argument("--data", type=Path, help="folder of Fashion-MNIST's IDX files")
    parser.add_argument("--no-fashion", action="store_true", help="leave Fashion-MNIST out")
    parser.add_argument("--no-mapie", action="store_true", help="leave MAPIE out, which takes most of the time")
    parser.add_argument("--only", type=names, help="only these models, comma-separated")
    parser.add_argument("--calibration", type=names, default=["500", "2000"], help="sizes, comma-separated")
    parser.add_argument("--target", type=names, default=["0.9", "0.95", "0.99"], help="targets, comma-separated")
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--repeats", type=int, default=500, help="calibrations drawn for each row")
    options = parser.parse_args(argv)

    methods = {} if options.no_mapie else MAPIE
    shares = ["accuracy", "broken", "naive broken", "oracle", "ours", *methods, "nothing"]
    counted = f"confidence {options.confidence:g}, {options.repeats} calibrations a row"
    table = Table(
        f"Triage: {counted}", ["set", "model", "n", "target", *shares], dict.fromkeys(shares, ".3f") | {"target": "g"}
    )
    allowed = 1 - options.confidence
    noise = 2 * np.sqrt(allowed * (1 - allowed) / options.repeats)
    table.notes += [
        f"broken: share of the calibrations whose accepted answers miss the target; allowed {allowed:.3f}, "
        f"and {noise:.3f} more is two standard errors of the count. naive broken: the same of the naive scan",
        "oracle: the largest coverage at the target, truth known. ours, MAPIE: mean coverage on the same draws. "
        "nothing: share of the calibrations in which ours accepts nothing",
    ]
    targets = [float(target) for target in options.target]
    for name, X, y, n_train in problems(options.uci, options.data, not options.no_fashion, options.seed, options.sets):
        for model in models_named(MODELS, options.only):
            pool = judged_pool(X, y, n_train, model, options.n_jobs, options.seed)
            for target in targets:
                oracle = coverage_at_accuracy(pool.true, pool.predicted, pool.trust, accuracy=target)
                for n in map(int, options.calibration):
                    found = experiment(pool, n, target, options.confidence, options.repeats, options.seed, methods)
                    row: dict[str, Any] = {
                        "set": name,
                        "model": model.name,
                        "n": n,
                        "target": target,
                        "accuracy": float(np.mean(pool.true == pool.predicted)),
                        "broken": found["ours"].broken,
                        "naive broken": found["naive"].broken,
                        "oracle": oracle,
                        **{rival: found[rival].coverage for rival in ("ours", *methods)},
                        "nothing": found["ours"].nothing,
                    }
                    table.append(row)
                    print(*(f"{k}={v:.3f}" if isinstance(v, float) else v for k, v in row.items()), flush=True)
    tables = [by_set_and_target(table, ["oracle", "ours", *methods]), table]
    publish(tables, "triage", options.output, run_description("triage", argv, options.seed))
    return 0


def by_set_and_target(table: Table, coverages: list[str]) -> Table:
    """Means over the models and sizes, and the most often broken promise."""
    shares = ["most broken", *coverages]
    summary = Table(
        f"{table.title}; means over models and sizes",
        ["set", "target", *shares],
        dict.fromkeys(shares, ".3f") | {"target": "g"},
    )
    for name, target in dict.fromkeys((row["set"], row["target"]) for row in table.rows):
        rows: list[Any] = [row for row in table.rows if (row["set"], row["target"]) == (name, target)]
        means = {column: float(np.mean([row[column] for row in rows])) for column in coverages}
        summary.append({"set": name, "target": target, "most broken": max(row["broken"] for row in rows), **means})
    return summary
