"""Row-synchronous CPM against the literal one, at equal work, on a folder of small sets (``.npz``).

Work is counted in samples looked at, over all points tried. The literal method makes some sweeps; the row-synchronous
one over active samples (slack 0.8, no other departure) may look at as many samples. The table has the loss above its
floor, n (m - 1) alpha, that each leaves on the training data.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.options import benchmark_parser
from benchmarks.tables import Table, publish, run_description
from multiform.solvers import CpmSolver, ModelBatch, TrainingProblem, solve
from multiform.testing import exact_loss, loss_at_equal_work

ALPHA = 0.5
LARGEST = 150_000  # n x p x m: the literal method takes minutes beyond


def compare(path: Path, n_sweeps: int, q: int, seed: int) -> dict[str, str | int | float] | None:
    """Both methods on one set, or None if it is too large."""
    stored = np.load(path)
    X = stored["X"].astype(np.float32)
    classes, target = np.unique(stored["y"], return_inverse=True)
    m = len(classes)
    if X.size * m > LARGEST:
        return None
    problem = TrainingProblem(X, target.astype(np.int32), m, X.mean(axis=0), np.maximum(X.std(axis=0), 1e-6))
    batch = ModelBatch(q, ALPHA, np.ones((1, m), np.float32), np.zeros(1, np.float32), np.array([seed], np.uint64))
    literal = solve(problem, batch, CpmSolver(n_sweeps).literal(), n_jobs=1)
    floor = len(X) * (m - 1) * ALPHA
    before = exact_loss(problem, batch, literal.weights[0]) - floor
    synchronous = replace(CpmSolver(1).literal(), synchronous=True, slack=0.8)
    after = loss_at_equal_work(problem, batch, synchronous, literal.looked) - floor
    both_at_the_floor = max(before, after) <= 1e-6 * floor
    ratio = 1.0 if both_at_the_floor else after / before if before > 0 else float("inf")
    return {"set": path.stem, "n": len(X), "literal": before, "row-synchronous": after, "ratio": ratio}


def main(argv: list[str]) -> int:
    """Compare on every set, print and write the table."""
    parser = benchmark_parser("cpm", __doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of .npz sets")
    parser.add_argument("--sweeps", type=int, default=10, help="of the literal method")
    parser.add_argument("--components", type=int, default=6)
    options = parser.parse_args(argv)
    formats = {"literal": ".3f", "row-synchronous": ".3f", "ratio": ".3f"}
    table = Table("Loss above the floor, at equal work", ["set", "n", "literal", "row-synchronous", "ratio"], formats)
    for path in sorted(options.data.glob("*.npz")):
        row = compare(path, options.sweeps, options.components, options.seed)
        if row is not None:
            table.append(row)
    if not table.rows:
        raise SystemExit(f"cpm: no .npz set of at most {LARGEST} values in {options.data}.")
    ratios = np.array([float(row["ratio"]) for row in table.rows])  # type: ignore[arg-type]
    table.notes.append(
        f"row-synchronous ends below in {np.sum(ratios < 1)} sets, level in {np.sum(ratios == 1)}, above in "
        f"{np.sum(ratios > 1)} (by at most {100 * (ratios.max() - 1):.1f} %); median ratio {np.median(ratios):.3f}"
    )
    publish([table], "cpm", options.output, run_description("cpm", argv, options.seed))
    return 0
