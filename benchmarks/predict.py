"""Predicting 10,000 Fashion-MNIST images: us, the peers, and the bare matrix product that we cannot go below; and
assessing them by the loyalty machine's 21 models, whose floor is one bare product of all their rows.

The floor is NumPy's (10000, 784) @ (784, 180) in float32 with as many threads: the products of ten classes
with q = 18. Every call is measured after half a second of the same. Every model is fitted on the same 5,000 images:
what a fit costs is not the question here.
"""

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import peers, settings
from benchmarks.fashion import load
from benchmarks.measure import interleaved, threads
from benchmarks.options import benchmark_parser, models_named, names
from benchmarks.tables import Table, publish, run_description

Array = NDArray[Any]
N_FIT = 5000
N_COMPONENTS = 18
FLOOR = "bare sgemm"


def assess_table(X: Array, y: Array, X_test: Array, n_jobs: int, repeats: int, seed: int) -> Table:
    """Answer, type and chance of every sample, over one product of all rows of all models."""
    from multiform import LoyaltyClassifier

    model = LoyaltyClassifier(n_jobs=n_jobs, random_state=seed).fit(X, y)
    models = [model.estimator_, *model.altered_estimators_]
    n_columns = sum(one.n_components_ * len(one.classes_) for one in models)
    weights = np.random.default_rng(seed).standard_normal((X_test.shape[1], n_columns), dtype=np.float32)
    with threads(n_jobs):
        calls = {FLOOR: partial(np.matmul, X_test, weights), "assess": partial(model.assess, X_test)}
        medians = interleaved(calls, repeats, settled=True)
    what = (
        f"LoyaltyClassifier().assess of {X_test.shape[0]} x {X_test.shape[1]}, {len(models)} models, {n_jobs} threads"
    )
    table = Table(what, ["what", "ms", "over the bare sgemm"], {"ms": ".1f", "over the bare sgemm": ".2f"})
    for name, time in medians.items():
        table.append({"what": name, "ms": 1e3 * time, "over the bare sgemm": time / medians[FLOOR]})
    return table


def main(argv: list[str]) -> int:
    """Fit every model, let their predictions take turns, print and write the table."""
    parser = benchmark_parser("predict", __doc__)
    parser.add_argument("--data", type=Path, help="folder of the IDX files (default: see load_fashion_mnist)")
    parser.add_argument("--only", type=names, help='only these models, comma-separated; "ours", "peers"')
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args(argv)

    ours = settings.qms("QMS", n_components=N_COMPONENTS)
    models = models_named((ours, *peers.PREDICT), options.only)
    X_train, y_train, X_test, _ = load(options.data, quick=False)
    n_columns = N_COMPONENTS * len(np.unique(y_train))
    rng = np.random.default_rng(options.seed)
    weights = rng.standard_normal((X_test.shape[1], n_columns), dtype=np.float32)
    with threads(options.n_jobs), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # iteration limits: only the time to predict counts
        calls = {FLOOR: partial(np.matmul, X_test, weights)}
        for model in models:
            classifier = model.build(options.n_jobs, options.seed)
            calls[model.name] = partial(classifier.fit(X_train[:N_FIT], y_train[:N_FIT]).predict, X_test)
        medians = interleaved(calls, options.repeats, settled=True)

    table = Table(
        f"predict of {X_test.shape[0]} x {X_test.shape[1]}, {options.n_jobs} threads",
        ["model", "ms", "over the bare sgemm", "settings"],
        {"ms": ".2f", "over the bare sgemm": ".2f"},
    )
    notes = {FLOOR: f"({X_test.shape[0]}, {X_test.shape[1]}) @ ({X_test.shape[1]}, {n_columns})"}
    notes |= {model.name: model.note or "default" for model in models}
    for name, time in medians.items():
        ratio = time / medians[FLOOR]
        table.append({"model": name, "ms": 1e3 * time, "over the bare sgemm": ratio, "settings": notes[name]})
    assess = assess_table(X_train[:N_FIT], y_train[:N_FIT], X_test, options.n_jobs, options.repeats, options.seed)
    publish([table, assess], "predict", options.output, run_description("predict", argv, options.seed))
    return 0
