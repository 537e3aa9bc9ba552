"""What does a diagnosis cost? The planner and its rivals, at equal accuracy and at equal cost, on the same folds.

Whole plans are made on four fifths of the patients and followed by the others, again and again. The plan is what a user
gets, its level chosen on training patients; every rival has its whole curve, of which the best is read off the test
patients. Without folders only heart disease and the cubes are run; --data has raw/ and costs/ for the other sets with
prices, --uci a file NAME.npz for each set with uniform prices. Results of each set, repeat and method are kept under
--output, so that a run goes on where it was stopped, and rivals are not run again when the planner changes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from benchmarks.contest import CHOSEN, Method, kept_repeat
from benchmarks.curves import Curve, better_by, cheaper_by, cheaper_by_curve, estimate
from benchmarks.options import benchmark_parser, names
from benchmarks.ours import CLASSIFIER, ON_ALL, OURS
from benchmarks.priced_sets import CUBES, PRICED, UNIFORM, Problem, problems
from benchmarks.rivals import RIVALS
from benchmarks.tables import Cell, Table, publish, run_description

METHODS: dict[str, Method] = {**OURS, **CLASSIFIER, **RIVALS}
SHARES = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0)  # of the panel, at which curves are told
FIGURES = {"cheaper by": cheaper_by, "by curves": cheaper_by_curve, "better by": better_by}
ERRORS = {"repeats": "over_repeats", "patients": "over_patients"}
SETS = [
    "set",
    "patients",
    "tests",
    "repeats",
    "plan pays",
    "plan is right",
    "at full cost",
    "simple rivals that pay less",
]
AGAINST = ["set", "rival", "repeats", "pays", *FIGURES]
FULL = ["planner", "QMSClassifierCV"]


def main(argv: list[str]) -> int:
    """Run what is wanted and not kept, and print and write the tables."""
    parser = benchmark_parser("diagnosis", __doc__)
    parser.add_argument("--data", type=Path, help="folder with raw/ and costs/")
    parser.add_argument("--uci", type=Path, help="folder with UCI's sets, a file NAME.npz each")
    parser.add_argument(
        "--sets", type=names, help=f"comma-separated: {', '.join((*PRICED, *CUBES, *UNIFORM))}, or a file of --uci"
    )
    parser.add_argument("--methods", type=names, default=[name for name in METHODS if name != "plan that branches"])
    parser.add_argument("--plan", choices=list(OURS), default="plan", help="with which rivals are compared")
    parser.add_argument("--repeats", type=int, default=8, help="times that the 5 folds are drawn")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--peers", action="store_true", help="run the rivals alone; ours are told where they are kept")
    which.add_argument("--ours", action="store_true", help="run ours alone; rivals are told where they are kept")
    which.add_argument("--kept", action="store_true", help="run nothing, and tell what is kept")
    options = parser.parse_args(argv)
    unknown = [name for name in options.methods if name not in METHODS]
    if unknown:
        raise SystemExit(f"--methods: no method is named {unknown}; choose from {list(METHODS)}.")
    uniform, priced = UNIFORM if options.uci else (), PRICED[1:] if options.data else ()
    found = list(problems(options.data, options.uci, options.sets or ["heart", *CUBES, *uniform, *priced]))
    left_out = [*(RIVALS if options.ours else ()), *(OURS if options.peers else ()), *(METHODS if options.kept else ())]
    running = [name for name in options.methods if name not in left_out]
    folder, seed = options.output / "diagnosis", options.seed
    Parallel(n_jobs=options.n_jobs)(
        delayed(run_one)(folder, name, problem, repeat, seed)
        for repeat in range(options.repeats)
        for problem in found
        for name in running
    )
    kept = [(problem, kept_curves(folder, problem, options.methods, options.repeats, seed)) for problem in found]
    publish(tables(kept, options.plan), "diagnosis", options.output, run_description("diagnosis", argv, seed))
    return 0


def run_one(folder: Path, name: str, problem: Problem, repeat: int, seed: int) -> None:
    """One repeat of a method, unless it is kept."""
    with threadpool_limits(1):
        kept_repeat(folder, name, METHODS[name], problem, repeat, seed, run=True)


def kept_curves(folder: Path, problem: Problem, methods: Sequence[str], repeats: int, seed: int) -> dict[str, Curve]:
    """The curves of those methods of which the first repeat is kept, over the repeats from there without a gap."""
    curves = {}
    for name in methods:
        points = []
        for repeat in range(repeats):
            found = kept_repeat(folder, name, METHODS[name], problem, repeat, seed, run=False)
            if found is None:
                break
            points.append(found)
        if points:
            curves[name] = Curve.of(points)
    return curves


def tables(kept: Sequence[tuple[Problem, Mapping[str, Curve]]], plan: str) -> list[Table]:
    """The sets and who pays less there, each rival against the plan, and the curves."""
    sets = Table("Sets", SETS, dict.fromkeys(("plan pays", "plan is right", "at full cost"), ".1%"))
    against = Table("Against the plan", AGAINST, {"pays": ".1%"})
    curves = Table("Curves: % right for a share of the panel", ["set", "method", *(f"{share:.0%}" for share in SHARES)])
    # A single repeat has no standard error over repeats.
    single = any(curve.n_repeats < 2 for _, found in kept if plan in found for curve in found.values())
    full = Table(
        "Full evidence", ["set", "planner", "QMSClassifierCV", "planner less classifier"], dict.fromkeys(FULL, ".1%")
    )
    errors = ["patients"] if single else list(ERRORS)
    losses: dict[tuple[str, str], list[str]] = {(f, e): [] for f in ("cheaper by", "by curves") for e in errors}
    for problem, found in kept:
        for name, curve in found.items():
            each = [curve.means([repeat]) for repeat in range(curve.n_repeats)]
            cells = {f"{share:.0%}": _mean([one.accuracy_at(share) for one in each]) for share in SHARES}
            curves.append({"set": problem.name, "method": name, **cells})
        if problem.unverified:
            sets.notes.append(f"{problem.name}: {problem.unverified} of its prices are recalled, not verified")
        full.rows += full_evidence(problem.name, found, plan)
        rivals = [name for name in found if name in RIVALS]
        if plan not in found or not rivals:
            continue
        pay_less: dict[tuple[str, str], list[str]] = {key: [] for key in losses}
        for name in rivals:
            n_repeats = min(found[plan].n_repeats, found[name].n_repeats)
            ours, theirs = found[plan].first(n_repeats), found[name].first(n_repeats)
            told = {figure: estimate(of, ours, theirs) for figure, of in FIGURES.items()}
            pays = theirs.means().cost_at(ours.means().points[CHOSEN][1])
            row: dict[str, Cell] = {"set": problem.name, "rival": name, "repeats": n_repeats, "pays": pays}
            against.append(row | {figure: str(one) for figure, one in told.items()})
            for figure, error in losses:
                if METHODS[name].simple and told[figure].value > getattr(told[figure], ERRORS[error]):
                    pay_less[figure, error].append(name)
        for key, who in pay_less.items():
            losses[key] += [problem.name] if who else []
        cost, accuracy = found[plan].means().points[CHOSEN]
        n, d = problem.X.shape
        figures = [n, d, found[plan].n_repeats, cost, accuracy, found[plan].means().accuracy_at(1.0)]
        who = "; ".join(pay_less["cheaper by", errors[0]]) or "none"
        sets.append(dict(zip(SETS, [problem.name, *figures, who], strict=True)))
    for (figure, error), where in losses.items():
        sets.notes.append(
            f"{figure}, s.e. over {error}: on {len(where)} of {len(sets.rows)} sets some simple rival is cheaper by "
            f"more than one standard error at the plan's accuracy: {', '.join(where) or 'none'}"
        )
    against.notes += [
        "simple rivals: " + "; ".join(name for name, method in RIVALS.items() if method.simple),
        "pays: share of the panel for the plan's accuracy, read off the rival's curve on the test patients; -: it is "
        "never so accurate, and counts as a full panel. cheaper by: what the plan paid, its level chosen on training "
        "patients, less that, in points of the panel. by curves: the same with the plan's cost read off its own curve, "
        "too. better by: the rival's accuracy for what the plan paid, less the plan's, in points",
        "+-: standard error over repeats (jackknife) / over patients (bootstrap)",
    ]
    curves.notes.append(
        "the best of a curve's points up to that cost; mean over repeats +- its standard error over them"
    )
    full.notes.append("share of held-out patients who are answered right; the difference in points, +- over patients")
    return [table for table in (sets, against, full, curves) if table.rows or table is not full]


def full_evidence(name: str, found: Mapping[str, Curve], plan: str) -> list[dict[str, Cell]]:
    """How often the planner is right on all tests, and a classifier that was made for nothing else."""
    both = [found[method] for method in (plan, *CLASSIFIER) if method in found and ON_ALL in found[method].names]
    if len(both) < 2:
        return []
    n_repeats = min(curve.n_repeats for curve in both)
    ours, theirs = (curve.right[:n_repeats, curve.names.index(ON_ALL)].mean(axis=0) for curve in both)
    better = 100 * (ours - theirs)
    told = f"{better.mean():+.2f} +- {better.std(ddof=1) / np.sqrt(len(better)):.2f}"
    return [
        {"set": name, **dict(zip(FULL, (ours.mean(), theirs.mean()), strict=True)), "planner less classifier": told}
    ]


def _mean(shares: Sequence[float]) -> str:
    found: npt.NDArray[np.float64] = 100 * np.array(shares)
    error = f" +- {found.std(ddof=1) / np.sqrt(len(found)):.1f}" if len(found) > 1 else ""
    return f"{found.mean():.1f}{error}"
