"""What does a diagnosis cost? Nested figures of the planner and its rivals on medical data with real prices.

Whole plans are made on four fifths of the patients and followed by the others, again and again; accuracy is
compared with full evidence on the same patients by the same models. Heart disease and its prices are in the package;
the other sets need a folder (--data) with Turney's prices in ``costs/turney_costs.csv`` and, for Pima, the patients in
``raw/pima-indians-diabetes.data``. Prices that the file marks as recalled, not verified, are counted in the notes.
"""

import csv
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import timed
from benchmarks.options import benchmark_parser, names
from benchmarks.rivals import BASELINES, Comparison, compare
from benchmarks.tables import Table, publish, run_description
from multiform import DiagnosisPlanner
from multiform.datasets import load_heart_disease, load_hepatitis, load_thyroid
from multiform.diagnosis import ThetaNotReachedWarning

Array = NDArray[Any]
SETS = ("heart", "pima", "hepatitis", "thyroid")
CUBES = ("cube", "cube with context")
SETTINGS: dict[str, dict[str, Any]] = {}  # the defaults, for every set
CHANGES = (-0.001, -0.003, -0.005, -0.01)  # of accuracy, at which frontiers are compared
COLUMNS = ["set", "method", "cost", "share", "accuracy", "change", "error"]
ACCURACY_FORMATS = {"change": "+.2f", "plan pays": ".1%", "it pays": ".1%"}
FORMATS = {"cost": ".2f", "share": ".1%", "accuracy": ".1%", "change": "+.2f", "error": ".2f"}
TREE_FORMATS = {"share": ".1%", "accuracy": ".1%", "plan": ".1%"}


@dataclass(frozen=True)
class Problem:
    """Patients and prices."""

    name: str
    X: Array
    y: Array
    costs: dict[str, float]
    discounts: dict[str, dict[str, float]]
    unverified: int  # prices


def problems(folder: Path | None, wanted: list[str]) -> Iterator[Problem]:
    """The sets that are wanted and at hand."""
    heart = load_heart_disease()
    if "heart" in wanted:
        yield Problem("heart", heart.data, heart.target, heart.costs, heart.discounts, 0)
    if folder is None:
        return
    if "pima" in wanted:
        table = np.loadtxt(folder / "raw" / "pima-indians-diabetes.data")
        yield Problem("pima", table[:, :-1], table[:, -1].astype(int), *prices(folder, "pima"))
    if "hepatitis" in wanted:
        X, y = load_hepatitis(return_X_y=True)
        yield Problem("hepatitis", X, y, *prices(folder, "hepatitis"))
    if "thyroid" in wanted:
        costs, discounts, unverified = prices(folder, "thyroid")
        X, y = load_thyroid(return_X_y=True)
        yield Problem("thyroid", X[:, : len(costs)], y, costs, discounts, unverified)  # FTI has no price


def uniform(folder: Path | None, wanted: list[str]) -> Iterator[Problem]:
    """Cubes, and UCI's sets of a folder with a file for each (X and y), every test at the same price."""
    for name in wanted:
        if name in CUBES:
            X, y = cube(600, context=name != "cube")
        elif folder is not None and (folder / f"{name}.npz").exists():
            with np.load(folder / f"{name}.npz") as found:
                X, y = found["X"].astype(np.float64), found["y"]
        else:
            raise SystemExit(f"--uniform: no set is named {name!r}; there are {list(CUBES)} and the files of --uci.")
        yield Problem(name, X, y, {f"t{t}": 1.0 for t in range(X.shape[1])}, {}, 0)


def cube(n: int, context: bool, seed: int = 0) -> tuple[Array, Array]:
    """Eight classes, the corners of a cube in three of 20 tests; with a context, the first test says in which three."""
    rng = np.random.default_rng(seed)
    y, which = rng.integers(0, 8, n), rng.integers(0, 2, n) if context else np.zeros(n, dtype=int)
    X = rng.integers(0, 2, (n, 20)) + rng.normal(0, 0.1, (n, 20))
    for bit in range(3):
        X[np.arange(n), 1 + 3 * which + bit] = (y >> bit & 1) + rng.normal(0, 0.1, n)
    X[:, 0] = which if context else rng.normal(size=n)
    return X, y


def prices(folder: Path, name: str) -> tuple[dict[str, float], dict[str, dict[str, float]], int]:
    """Full prices, the discounts, and how many of them nobody has verified."""
    costs: dict[str, float] = {}
    discounts: dict[str, dict[str, float]] = {}
    unverified = 0
    with open(folder / "costs" / "turney_costs.csv", newline="", encoding="utf-8") as stream:
        for row in csv.reader(line for line in stream if not line.startswith("#")):
            of, test, full, less, discount, _, status = row
            if of == name:
                costs[test] = float(full)
                unverified += status == "memory"
                if discount:
                    discounts.setdefault(discount, {})[test] = float(less)
    return costs, discounts, unverified


def evaluated(
    problem: Problem, repeats: int, n_jobs: int, seed: int, baselines: list[str], settings: dict[str, Any]
) -> Comparison:
    """The planner as a user gets it, at the defaults but for the settings."""
    settings = {**settings, **SETTINGS.get(problem.name, {})}
    planner = DiagnosisPlanner(problem.costs, discounts=problem.discounts, n_jobs=1, random_state=seed, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ThetaNotReachedWarning)
        return compare(
            planner, problem.X, problem.y, repeats=repeats, baselines=baselines, random_state=seed, n_jobs=n_jobs
        )


def at_their_cost(found: Comparison, name: str) -> dict[str, Any] | None:
    """How accurate the plan is at a tree's cost: a mixture of two neighbouring levels, NaN where all cost more."""
    rival = next((row for row in found.baselines if row.name == name), None)
    if rival is None:
        return None
    points = sorted((row.cost, row.accuracy) for row in found.evaluation.frontier)
    costs, kept = [cost for cost, _ in points], np.maximum.accumulate([accuracy for _, accuracy in points])
    accuracy = float(np.interp(rival.cost, costs, kept, left=np.nan))
    return {"tree": name, "share": rival.cost_share, "accuracy": rival.accuracy, "plan": accuracy}


def at_their_accuracy(found: Comparison) -> list[dict[str, Any]]:
    """What the plan pays at the accuracy of each order that needs no search, and what they pay at the plan's."""
    rows = []
    for rival in found.rival_frontiers:
        chosen = next(row for row in found.baselines if row.name == rival)
        for change in sorted({chosen.change, found.evaluation.plan.change, *CHANGES}, reverse=True):
            rows.append(
                {
                    "rival": rival,
                    "change": 100 * change,
                    "plan pays": found.cost_at(change),
                    "it pays": found.cost_at(change, rival),
                }
            )
    return rows


def main(argv: list[str]) -> int:
    """Print and write the table of costs."""
    parser = benchmark_parser("diagnosis", __doc__)
    parser.add_argument("--data", type=Path, help="folder with raw/ and costs/; without it only heart disease is run")
    parser.add_argument(
        "--only", "--sets", type=names, default=list(SETS), help=f"sets, comma-separated: {', '.join(SETS)}"
    )
    parser.add_argument("--uci", type=Path, help="folder with UCI's sets, a file NAME.npz each")
    parser.add_argument("--uniform", type=names, default=[], help=f"sets with uniform prices: of --uci, or {CUBES}")
    parser.add_argument("--policy", choices=["fixed", "adaptive"], default="fixed", help="of the planner")
    parser.add_argument("--repeats", type=int, default=8, help="times that the 5 outer folds are drawn")
    parser.add_argument("--search", choices=["auto", "exact", "beam"], default="auto", help="of the orders")
    parser.add_argument("--stop", choices=["regret", "calibrated", "loyalty"], default="regret", help="of the planner")
    parser.add_argument("--error-price", type=float, default=10.0, help="of the planner; 0: orders of least cost alone")
    parser.add_argument("--baselines", type=names, default=[name for name in BASELINES if name != "fixed order"])
    options = parser.parse_args(argv)
    unknown = [name for name in options.only if name not in SETS]
    if unknown:
        raise SystemExit(f"--only: no set is named {unknown}; choose from {list(SETS)}.")

    settings = {
        "policy": options.policy,
        "search": options.search,
        "stop": options.stop,
        "error_price": options.error_price,
    }
    table = Table(f"Diagnosis: 5 outer folds, {options.repeats} repeats", COLUMNS, FORMATS)
    table.notes += [
        "share: of the full panel, with the discounts. change: accuracy less that of full evidence on the same "
        "patients by the same models, in points; error: its standard error",
        f"plan: the planner with {settings}, all else as by default; level ...: the same at a level of its ladder, "
        "beam search",
    ]
    trees = Table("At a tree's cost", ["set", "tree", "share", "accuracy", "plan"], TREE_FORMATS)
    trees.notes.append(
        "plan: its accuracy for the tree's share of the panel, between two levels where need be; nan: all cost more"
    )
    orders = Table("At an order's accuracy", ["set", "rival", "change", "plan pays", "it pays"], ACCURACY_FORMATS)
    orders.notes.append(
        "share of the full panel at a change of accuracy, read off both frontiers, between two levels where need be; "
        "the changes are the rival's own, the plan's own and round ones; nan: no level keeps so much"
    )
    found_sets = [] if options.uniform else problems(options.data, options.only)
    for problem in (*found_sets, *uniform(options.uci, options.uniform)):
        comparison, elapsed = timed(
            lambda problem=problem: evaluated(  # type: ignore[misc]
                problem, options.repeats, options.n_jobs, options.seed, options.baselines, settings
            )
        )
        evaluation = comparison.evaluation
        for row in (evaluation.plan, *comparison.baselines, *evaluation.frontier):
            table.append(
                {
                    "set": problem.name,
                    "method": row.name,
                    "cost": row.cost,
                    "share": row.cost_share,
                    "accuracy": row.accuracy,
                    "change": 100 * row.change,
                    "error": 100 * row.change_error,
                }
            )
        for name in ("EG2 tree", "pystreed"):
            found = at_their_cost(comparison, name)
            if found is not None:
                trees.append({"set": problem.name, **found})
        for found_row in at_their_accuracy(comparison):
            orders.append({"set": problem.name, **found_row})
        prices_note = f"; {problem.unverified} of its prices are recalled, not verified" if problem.unverified else ""
        table.notes.append(f"{problem.name}: {elapsed:.0f} s{prices_note}")
        print(problem.name, comparison, sep="\n", flush=True)
        # After each set, so that a long run leaves what it has; sets on their own do not overwrite the others.
        ran = options.uniform or options.only
        name = "diagnosis" if ran == list(SETS) else f"diagnosis-{'-'.join(ran).replace(' ', '-')}"
        publish([table, trees, orders], name, options.output, run_description("diagnosis", argv, options.seed))
    return 0
