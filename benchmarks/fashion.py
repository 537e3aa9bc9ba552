"""Fashion-MNIST: us and the peers, each in a fresh process. We read the pixels as they come (uint8), the peers as
float32 from 0 to 1, made before the clock starts.

Peak memory is what a fit takes beyond the caller's X. A fit shorter than a minute is repeated, and its median
told. "at 69.67 % coverage" is the accuracy on that share of the test samples of which a model is surest, by
its top probability (its decision margin where it has none); the paper's is that of its strong type.
"""

import statistics
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import train_test_split

from benchmarks import paper, peers, settings
from benchmarks.measure import in_fresh_process, peak_memory, seconds, threads, timed
from benchmarks.options import benchmark_parser, models_named, names
from benchmarks.peers import Model
from benchmarks.tables import Table, publish, run_description

SLOW_SECONDS = 60.0  # a model whose fit takes longer is measured once
QUICK_ROWS = 6000, 2000

Array = NDArray[Any]


@dataclass(frozen=True)
class Measurement:
    """One model's figures; seconds are medians."""

    fit_seconds: float
    predict_seconds: float
    peak_megabytes: float | None
    train_confusion: Array
    test_confusion: Array
    covered_accuracy: float

    @property
    def train_accuracy(self) -> float:
        return accuracy(self.train_confusion)

    @property
    def test_accuracy(self) -> float:
        return accuracy(self.test_confusion)


def accuracy(confusion: Array) -> float:
    """The share on the diagonal."""
    return float(np.trace(confusion) / confusion.sum())


def load(data_dir: Path | None, quick: bool, raw: bool = False) -> tuple[Array, Array, Array, Array]:
    """Pixels from 0 to 1 as float32, or ``raw`` from 0 to 255 as uint8; ``quick`` takes the first rows only."""
    from multiform.datasets import load_fashion_mnist

    X_train, y_train, X_test, y_test = load_fashion_mnist(data_dir)
    n_train, n_test = QUICK_ROWS if quick else (len(X_train), len(X_test))
    X_train, y_train, X_test, y_test = X_train[:n_train], y_train[:n_train], X_test[:n_test], y_test[:n_test]
    scale = np.float32(255)
    return (X_train, y_train, X_test, y_test) if raw else (X_train / scale, y_train, X_test / scale, y_test)


def confidence(classifier: Any, X: Array) -> Array:
    """How sure the classifier is of each answer."""
    if hasattr(classifier, "predict_proba"):
        return np.asarray(classifier.predict_proba(X).max(axis=1))
    ranked = np.sort(classifier.decision_function(X), axis=1)
    return np.asarray(ranked[:, -1] - ranked[:, -2])


def accuracy_at_coverage(confidences: Array, correct: Array, coverage: float) -> float:
    """Accuracy on the ``coverage`` share of samples with the highest confidence."""
    surest = np.argsort(-confidences, kind="stable")[: round(coverage * len(correct))]
    return float(np.mean(correct[surest]))


def measure(model: Model, data_dir: Path | None, n_jobs: int, seed: int, repeats: int, quick: bool) -> Measurement:
    """Fit, predict and score one model (called in a fresh process)."""
    X_train, y_train, X_test, y_test = load(data_dir, quick, raw=model.ours)
    if model.max_rows is not None and model.max_rows < len(X_train):
        X_train, _, y_train, _ = train_test_split(
            X_train, y_train, train_size=model.max_rows, stratify=y_train, random_state=seed
        )
    with threads(n_jobs), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # iteration limits that the model's note states
        classifier = model.build(n_jobs, seed)
        with peak_memory() as peak:
            fit_times = [seconds(partial(classifier.fit, X_train, y_train))]
        while fit_times[0] < SLOW_SECONDS and len(fit_times) < repeats:
            fit_times.append(seconds(partial(model.build(n_jobs, seed).fit, X_train, y_train)))
        predicted, first_predict_seconds = timed(partial(classifier.predict, X_test))
        predict_times = [first_predict_seconds]
        while fit_times[0] < SLOW_SECONDS and len(predict_times) < repeats:
            predict_times.append(seconds(partial(classifier.predict, X_test)))
        confidences = confidence(classifier, X_test)
        return Measurement(
            statistics.median(fit_times),
            statistics.median(predict_times),
            peak.megabytes,
            confusion_matrix(y_train, classifier.predict(X_train)),
            confusion_matrix(y_test, predicted),
            accuracy_at_coverage(confidences, predicted == y_test, paper.STRONG_COVERAGE),
        )


def comparison_table(models: Sequence[Model], measured: dict[str, Measurement]) -> Table:
    """Us, the peers and the paper, with fit times as ratios to the two boosting libraries of the same run."""
    table = Table(
        "Fashion-MNIST",
        [
            "model",
            "fit s",
            "x faster than LightGBM",
            "x faster than XGBoost",
            "train %",
            "test %",
            "at 69.67 % coverage",
            "peak MB",
            "predict s",
            "settings",
        ],
        {
            "fit s": ".2f",
            "x faster than LightGBM": ".3g",
            "x faster than XGBoost": ".3g",
            "train %": ".2f",
            "test %": ".2f",
            "at 69.67 % coverage": ".2f",
            "peak MB": ".0f",
            "predict s": ".3f",
        },
    )
    for model in models:
        if model.name not in measured:
            continue
        own = measured[model.name]
        faster = {
            f"x faster than {peer}": measured[peer].fit_seconds / own.fit_seconds
            for peer in ("LightGBM", "XGBoost")
            if peer in measured
        }
        table.append(
            {
                "model": model.name,
                "fit s": own.fit_seconds,
                **faster,
                "train %": 100 * own.train_accuracy,
                "test %": 100 * own.test_accuracy,
                "at 69.67 % coverage": 100 * own.covered_accuracy,
                "peak MB": own.peak_megabytes,
                "predict s": own.predict_seconds,
                "settings": model.note or "default",
            }
        )
    table.append(
        {
            "model": "the paper",
            "fit s": paper.FIT_SECONDS,
            "train %": 100 * paper.TRAIN_ACCURACY,
            "test %": 100 * paper.TEST_ACCURACY,
            "at 69.67 % coverage": 100 * paper.STRONG_ACCURACY,
            "settings": "q=18, alpha=0.5; a laptop, one thread",
        }
    )
    return table


def reproduction_tables(models: Sequence[Model], measured: dict[str, Measurement]) -> list[Table]:
    """The paper's Tables of section 4.3, each followed by ours."""
    columns = ["source", "training accuracy %", "test accuracy %", "execution time s"]
    result = Table("QMS result (q = 18, alpha = 0.5)", columns, dict.fromkeys(columns[1:], ".2f"))
    figures = ("the paper", 100 * paper.TRAIN_ACCURACY, 100 * paper.TEST_ACCURACY, paper.FIT_SECONDS)
    result.append(dict(zip(columns, figures, strict=True)))
    parts: dict[str, dict[str, Array]] = {
        "training set": {"the paper": paper.TRAIN_CONFUSION},
        "test set": {"the paper": paper.TEST_CONFUSION},
    }
    for model in models:
        own = measured[model.name]
        figures = (model.name, 100 * own.train_accuracy, 100 * own.test_accuracy, own.fit_seconds)
        result.append(dict(zip(columns, figures, strict=True)))
        parts["training set"][model.name] = own.train_confusion
        parts["test set"][model.name] = own.test_confusion
    return [result, *(_matrix_table(part, name, m) for part, of in parts.items() for name, m in of.items())]


def _matrix_table(part: str, source: str, matrix: Array) -> Table:
    classes = [str(k) for k in range(len(matrix))]
    table = Table(f"Confusion matrix ({part}): {source}", ["true class", *classes])
    for true_class, row in zip(classes, matrix.tolist(), strict=True):
        table.append({"true class": true_class, **dict(zip(classes, row, strict=True))})
    return table


def main(argv: list[str]) -> int:
    """Measure every model, print and write the table (with ``--reproduce``, the paper's Tables of 4.3)."""
    parser = benchmark_parser("fashion", __doc__)
    parser.add_argument("--data", type=Path, help="folder of the IDX files (default: see load_fashion_mnist)")
    parser.add_argument("--reproduce", action="store_true", help="the paper's Tables of 4.3 beside ours")
    parser.add_argument("--only", type=names, help='only these models, comma-separated; "ours", "peers"')
    parser.add_argument("--repeats", type=int, default=3, help="fits of a fast model (the median is told)")
    parser.add_argument("--quick", action="store_true", help="6,000 training and 2,000 test images: a try-out")
    options = parser.parse_args(argv)

    all_models = settings.REPRODUCE if options.reproduce else (*settings.FASHION, *peers.FASHION)
    models = models_named(all_models, options.only)
    measured = {}
    for model in models:
        arguments = (options.data, options.n_jobs, options.seed, options.repeats, options.quick)
        own = measured[model.name] = in_fresh_process(measure, model, *arguments)
        print(f"{model.name}: {100 * own.test_accuracy:.2f} % after {own.fit_seconds:.2f} s", flush=True)
    if options.reproduce:
        tables, stem = reproduction_tables(models, measured), "fashion-reproduce"
    else:
        tables, stem = [comparison_table(models, measured)], "fashion"
    if options.quick:
        tables[0].notes.append(f"--quick: {QUICK_ROWS[0]} training and {QUICK_ROWS[1]} test images only")
    publish(tables, stem, options.output, run_description("fashion", argv, options.seed))
    return 0
