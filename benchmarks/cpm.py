"""Row-synchronous CPM against the literal one, at equal work, on a folder of small sets (``.npz``).

Work is counted in samples looked at, over all points tried. The literal method makes some sweeps; the row-synchronous
one over active samples (slack 0.9, no other departure) may look at as many samples. The table has the loss above its
floor, n (m - 1) alpha, that each leaves on the training data: the mean over several random starts, and the ratio of
the two means with its standard error. "level" is a ratio within two standard errors of 1, or both at the floor.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.options import benchmark_parser
from benchmarks.tables import Cell, Table, publish, run_description
from multiform.engines import CpuEngine, solve
from multiform.separators import Rows, Scaling
from multiform.solvers import CpmSolver, ModelBatch, TrainingProblem
from multiform.testing import exact_loss, loss_at_equal_work

ALPHA = 0.5
SLACK = 0.9
AT_THE_FLOOR = 1e-4  # of the floor itself
LARGEST = 150_000  # n x p x m: the literal method takes minutes beyond
COLUMNS = ["set", "n", "literal", "row-synchronous", "ratio", "s.e.", "ends"]


def compare(path: Path, n_sweeps: int, q: int, starts: range) -> dict[str, Cell] | None:
    """Both methods on one set from every start, or None if it is too large."""
    stored = np.load(path)
    X = stored["X"].astype(np.float32)
    classes, target = np.unique(stored["y"], return_inverse=True)
    m = len(classes)
    if X.size * m > LARGEST:
        return None
    rows = Rows(X, Scaling(X.mean(axis=0), np.maximum(X.std(axis=0), 1e-6)))
    problem = TrainingProblem(rows, target.astype(np.int32), m)
    floor = len(X) * (m - 1) * ALPHA
    synchronous = replace(CpmSolver(1).literal(), synchronous=True, slack=SLACK)
    before, after = np.empty(len(starts)), np.empty(len(starts))
    for i, seed in enumerate(starts):
        batch = ModelBatch(q, ALPHA, np.ones((1, m), np.float32), np.zeros(1, np.float32), np.array([seed], np.uint64))
        literal = solve(problem, batch, CpmSolver(n_sweeps).literal(), CpuEngine())
        before[i] = exact_loss(problem, batch, literal.coefficients[0]) - floor
        after[i] = loss_at_equal_work(problem, batch, synchronous, literal.counts["looked"]) - floor
    if max(before.mean(), after.mean()) <= AT_THE_FLOOR * floor:
        ratio, error, ends = 1.0, 0.0, "level"
    else:
        ratio = after.mean() / before.mean()
        error = (after - ratio * before).std(ddof=1) / np.sqrt(len(starts)) / before.mean()
        ends = "level" if abs(ratio - 1) <= 2 * error else "below" if ratio < 1 else "above"
    return dict(zip(COLUMNS, [path.stem, len(X), before.mean(), after.mean(), ratio, error, ends], strict=True))


def main(argv: list[str]) -> int:
    """Compare on every set, print and write the table."""
    parser = benchmark_parser("cpm", __doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of .npz sets")
    parser.add_argument("--sweeps", type=int, default=10, help="of the literal method")
    parser.add_argument("--components", type=int, default=6)
    parser.add_argument("--starts", type=int, default=10, help="random starts per set")
    options = parser.parse_args(argv)
    if options.starts < 2:
        parser.error(f"--starts: {options.starts} gives no standard error; it must be at least 2.")
    starts = range(options.seed, options.seed + options.starts)
    formats = dict.fromkeys(("literal", "row-synchronous", "ratio", "s.e."), ".3f")
    table = Table("Loss above the floor, at equal work", COLUMNS, formats)
    for path in sorted(options.data.glob("*.npz")):
        row = compare(path, options.sweeps, options.components, starts)
        if row is not None:
            table.append(row)
    if not table.rows:
        raise SystemExit(f"cpm: no .npz set of at most {LARGEST} values in {options.data}.")
    ends = [row["ends"] for row in table.rows]
    median = np.median([float(row["ratio"]) for row in table.rows])  # type: ignore[arg-type]
    table.notes.append(
        f"row-synchronous ends below in {ends.count('below')} sets, level in {ends.count('level')}, above in "
        f"{ends.count('above')}; median ratio {median:.3f}"
    )
    publish([table], "cpm", options.output, run_description("cpm", argv, options.seed))
    return 0
