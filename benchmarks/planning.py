"""How long a plan takes, how much memory, and whether the seed decides what it costs.

400 synthetic patients and 13, 34 and 60 tests (each tells a little, prices are exponential), with a plan of either
policy made in a fresh process; then plans of heart disease that differ in nothing but `random_state`.
"""

import time
import warnings
from typing import Any

import numpy as np

from benchmarks.measure import in_fresh_process, peak_memory, timed
from benchmarks.options import benchmark_parser, names
from benchmarks.tables import Table, publish, run_description
from multiform import DiagnosisPlanner
from multiform.datasets import load_heart_disease

PATIENTS, SIZES, PARTS = 400, (13, 34, 60), ("time", "seeds")


def patients(n_tests: int, seed: int) -> tuple[Any, Any, dict[str, float]]:
    """Two classes; each test tells something of its own strength."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, PATIENTS)
    X = y[:, None] * rng.uniform(0, 1, n_tests) + rng.normal(size=(PATIENTS, n_tests))
    return X, y, {f"t{t}": float(price) for t, price in enumerate(rng.exponential(10, n_tests) + 1)}


def planned(n_tests: int, policy: str, seed: int, n_jobs: int) -> dict[str, Any]:
    """Time, memory and cost of one plan."""
    X, y, costs = patients(n_tests, seed)
    planner = DiagnosisPlanner(costs, policy=policy, n_jobs=n_jobs, random_state=seed)
    began = time.process_time()
    with warnings.catch_warnings(), peak_memory() as peak:
        warnings.simplefilter("ignore")
        _, elapsed = timed(lambda: planner.fit(X, y))
    figures = {"seconds": elapsed, "processor": time.process_time() - began, "MB": peak.megabytes}
    return {"tests": n_tests, "policy": policy, **figures, "share": planner.expected_cost_ / planner.panel_cost_}


def main(argv: list[str]) -> int:
    """Print and write both tables."""
    parser = benchmark_parser("planning", __doc__)
    parser.add_argument("--parts", type=names, default=list(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="numbers of tests")
    parser.add_argument("--policies", type=names, default=["fixed", "adaptive"])
    parser.add_argument("--seeds", type=int, default=8, help="plans of heart disease, of either policy")
    options = parser.parse_args(argv)
    formats = {"seconds": ".1f", "processor": ".1f", "MB": ".0f", "share": ".1%", "mean": ".1%", "deviation": ".1%"}
    times = Table(f"{PATIENTS} patients", ["tests", "policy", "seconds", "processor", "MB", "share"], formats)
    seeds = Table(f"Heart disease, {options.seeds} seeds", ["policy", "mean", "deviation", "least", "most"], formats)
    if "time" in options.parts:
        for n_tests in options.sizes:
            for policy in options.policies:
                times.append(in_fresh_process(planned, n_tests, policy, options.seed, options.n_jobs))
    if "seeds" in options.parts:
        heart = load_heart_disease()
        for policy in options.policies:
            about: dict[str, Any] = {"discounts": heart.discounts, "policy": policy, "n_jobs": options.n_jobs}
            made = [
                DiagnosisPlanner(heart.costs, random_state=options.seed + one, **about).fit(heart.data, heart.target)
                for one in range(options.seeds)
            ]
            shares = np.array([one.expected_cost_ / one.panel_cost_ for one in made])
            figures = {"mean": shares.mean(), "deviation": shares.std(ddof=1)}
            seeds.append({"policy": policy, **figures, "least": f"{shares.min():.1%}", "most": f"{shares.max():.1%}"})
    times.notes.append("seconds: wall time; processor: seconds of all threads; MB: peak above the start's")
    tables = [table for table in (times, seeds) if table.rows]
    publish(tables, "planning", options.output, run_description("planning", argv, options.seed))
    return 0
