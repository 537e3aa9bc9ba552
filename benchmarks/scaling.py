"""How our fit grows and what it costs: sizes, threads, many models at once, small fits, memory.

Every ratio is between medians (for threads: least times) of fits that took turns in this run. The number of iterations
is fixed, so that a ratio compares the time for the same work and not a stopping rule.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.engine import batch_and_single_fits, epochs_and_products
from benchmarks.measure import in_fresh_process, interleaved, peak_memory, threads
from benchmarks.options import benchmark_parser, names
from benchmarks.synthetic import gaussian_classes
from benchmarks.tables import Cell, Table, publish, run_description

SOLVERS = ("adam", "cpm")
N_ITERATIONS = {"adam": 10, "cpm": 2}  # epochs; sweeps
DEFAULT_ITERATIONS = {"adam": 5, "cpm": 10}  # QMSClassifier's own, for data of this size
BASE = {"n": 20_000, "p": 200, "q": 12, "m": 8}
LARGE = {"n": 60_000, "p": 784, "q": 18, "m": 10}  # Fashion-MNIST's size
SMALL = {"n": 500, "p": 10, "m": 3}

Row = dict[str, Cell]


def fit(X: Any, y: Any, q: int, solver: str, n_jobs: int, n_iterations: int | None = None) -> Any:
    """One fit of a fixed number of iterations."""
    from multiform import QMSClassifier

    classifier = QMSClassifier(
        q,
        solver=solver,
        max_iter=n_iterations or N_ITERATIONS[solver],
        early_stopping=False,
        n_jobs=n_jobs,
        random_state=0,
    )
    return classifier.fit(X, y)


def fit_of_size(size: dict[str, int], solver: str, n_jobs: int) -> Callable[[], Any]:
    """A fit on made data of that size; the data are made now, not when it is called."""
    X, y = gaussian_classes(size["n"], size["p"], size["m"])
    return partial(fit, X, y, size["q"], solver, n_jobs)


def growth(n_jobs: int, repeats: int) -> list[Row]:
    """Fit time when one of n, p, q, m doubles."""
    rows: list[Row] = []
    for solver in SOLVERS:
        fits = {"base": fit_of_size(BASE, solver, n_jobs)}
        for letter in BASE:
            fits[letter] = fit_of_size({**BASE, letter: 2 * BASE[letter]}, solver, n_jobs)
        medians = interleaved(fits, repeats)
        for letter in BASE:
            what = f"{solver}: {letter} {BASE[letter]} -> {2 * BASE[letter]}"
            rows.append(_row(what, medians[letter], "half the size", medians["base"]))
    return rows


def thread_gain(n_jobs: int, repeats: int) -> list[Row]:
    """One thread against two on a large problem (ratio: one over two), beside what the machine gives a bare product.

    The least of the times, not their median: whatever else runs meanwhile takes from two threads, and hardly from one.
    """
    rows = []
    X, y = gaussian_classes(LARGE["n"], LARGE["p"], LARGE["m"])
    products = epochs_and_products(X, y, LARGE["q"], 1, n_jobs)["products"]
    calls = {
        solver: {k: partial(fit, X, y, LARGE["q"], solver, k, DEFAULT_ITERATIONS[solver]) for k in (1, 2)}
        for solver in SOLVERS
    }
    calls["an epoch's two bare sgemm"] = {k: partial(with_threads, k, products) for k in (1, 2)}
    for what, by_threads in calls.items():
        least = interleaved({str(k): call for k, call in by_threads.items()}, 2 * repeats, summary=min)
        rows.append(_row(f"{what}: one thread", least["1"], "two threads", least["2"]))
    return rows


def with_threads(n_threads: int, call: Callable[[], Any]) -> None:
    """The call, with so many threads for the libraries below."""
    with threads(n_threads):
        call()


def batch(n_jobs: int, repeats: int) -> list[Row]:
    """The loyalty machine's 21 models for ten classes in one batch, against 21 single fits."""
    rows = []
    X, y = gaussian_classes(BASE["n"], BASE["p"], LARGE["m"])
    for solver in SOLVERS:
        fits = batch_and_single_fits(X, y, BASE["q"], solver, N_ITERATIONS[solver], n_jobs)
        medians = interleaved(fits, repeats)
        rows.append(_row(f"{solver}: batch of 21", medians["batch"], "21 single fits", medians["single"]))
    return rows


def epoch(n_jobs: int, repeats: int) -> list[Row]:
    """An epoch of Adam over every sample, against the bare matrix products that it cannot do without."""
    X, y = gaussian_classes(LARGE["n"], LARGE["p"], LARGE["m"])
    n_epochs = 3
    medians = interleaved(epochs_and_products(X, y, LARGE["q"], n_epochs, n_jobs), repeats)
    one_epoch = (medians["more"] - medians["one"]) / n_epochs
    return [_row("adam: one epoch", one_epoch, "its two sgemm", medians["products"])]


def small_fit(n_jobs: int, repeats: int) -> list[Row]:
    """The default fit of a small problem, and one of a given noise, against scikit-learn's LogisticRegression."""
    from sklearn.linear_model import LogisticRegression

    from multiform import QMSClassifier

    X, y = gaussian_classes(SMALL["n"], SMALL["p"], SMALL["m"])
    X = X.astype(np.float64)
    fits = {
        "default fit": lambda: QMSClassifier(n_jobs=n_jobs, random_state=0).fit(X, y),
        "noise given": lambda: QMSClassifier(noise=0.35, n_jobs=n_jobs, random_state=0).fit(X, y),
        "logistic": lambda: LogisticRegression().fit(X, y),
    }
    medians = interleaved(fits, 3 * repeats, settled=True)
    of = f", {SMALL['n']} x {SMALL['p']}, {SMALL['m']} classes"
    return [
        _row(what + of, medians[what], "LogisticRegression", medians["logistic"])
        for what in ("noise given", "default fit")
    ]


def memory(n_jobs: int, repeats: int) -> list[Row]:
    """Peak memory of a fit beyond the caller's X, over the size of X."""
    rows: list[Row] = []
    for solver in SOLVERS:
        for dtype in ("float32", "uint8"):
            peak, size = in_fresh_process(fit_memory, solver, dtype, n_jobs)
            what = f"{solver}: peak MB beyond X ({dtype})"
            rows.append(_row(what, peak, "MB of X", size))
    return rows


def fit_memory(solver: str, dtype: str, n_jobs: int) -> tuple[float, float]:
    """Peak megabytes of a large fit, and the megabytes of its X (called in a fresh process)."""
    X, y = gaussian_classes(LARGE["n"], LARGE["p"], LARGE["m"])
    if dtype == "uint8":
        X = np.clip(X * 40 + 128, 0, 255).astype(np.uint8)
    fit(X[:500], y[:500], 2, solver, n_jobs)  # libraries and threads are there before the measurement
    with peak_memory() as peak:
        fit(X, y, LARGE["q"], solver, n_jobs)
    if peak.megabytes is None:
        raise SystemExit("scaling: peak memory is measured on Linux only; leave 'memory' out of --parts.")
    return peak.megabytes, X.nbytes / 1e6


def _row(what: str, own: float, against: str, other: float) -> Row:
    return {"what": what, "value": own, "against": against, "its value": other, "ratio": own / other}


PARTS = {
    "growth": growth,
    "threads": thread_gain,
    "batch": batch,
    "epoch": epoch,
    "small": small_fit,
    "memory": memory,
}


def main(argv: list[str]) -> int:
    """Run the parts, print and write one table."""
    parser = benchmark_parser("scaling", __doc__)
    parser.add_argument("--parts", type=names, default=list(PARTS), help=f"only these of {','.join(PARTS)}")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(argv)
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"--parts: {unknown} are not parts; choose from {list(PARTS)}.")

    formats = {"value": ".4g", "its value": ".4g", "ratio": ".2f"}
    table = Table("Scaling", ["part", "what", "value", "against", "its value", "ratio"], formats)
    table.notes.append("values are median seconds of one fit (threads: the least), except megabytes where it says so")
    with threads(options.n_jobs):
        for part in options.parts:
            for row in PARTS[part](options.n_jobs, options.repeats):
                table.append({"part": part, **row})
    publish([table], "scaling", options.output, run_description("scaling", argv, options.seed))
    return 0
