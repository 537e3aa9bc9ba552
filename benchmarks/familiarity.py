"""False alarms and detection of what is unlike training.

A model is fitted on a table and asked about files of 10 to 1,000 rows.

False alarms, on fresh rows of the same source: the share of rows of which a number is called unfamiliar, of files of
which a column is said to have shifted (at most 1 % is promised). A category that training did not have is named
rightly, and counted apart.

Detection, on files in which one thing was changed: age in months, pulse in Hz, categories renamed, age and pulse
swapped, dates in the place of numbers.

Tables are a made clinic of eleven columns, 30 columns of heavy and light tails, and with --data a folder of ``.npz``
files (X, y), of which one half is training and the other fresh.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from joblib import Parallel, delayed
from sklearn.dummy import DummyClassifier

from benchmarks.options import benchmark_parser
from benchmarks.tables import Table, publish, run_description
from multiform.tables import TableClassifier

SIZES = (10, 30, 100, 1_000)  # rows of a file
TRAINING = (100, 300, 1_000, 5_000)  # rows of a training table
FILES_EACH = 10  # files of each size for one training table
CHANGED_TRAINING = 300


def clinic(random: np.random.Generator, n: int) -> pl.DataFrame:
    """Whole and real numbers, tails, counts, categories common and rare, gaps."""
    lab = random.gamma(2, 3, n).round(2)
    return pl.DataFrame(
        {
            "age": random.normal(54, 9, n).round(),
            "pulse": random.normal(75, 12, n).round(),
            "weight": random.lognormal(4.3, 0.2, n).round(1),
            "wait": random.exponential(30, n).round(1),
            "score": random.uniform(0, 1, n),
            "lab": pl.Series(np.where(random.random(n) < 0.15, np.nan, lab)).fill_nan(None),
            "visits": random.poisson(1.5, n),
            "sex": random.choice(["m", "w"], n),
            "smoker": random.choice(["yes", "no", None], n, p=[0.2, 0.7, 0.1]).tolist(),
            "ward": [f"ward {k}" for k in np.minimum(random.geometric(0.35, n), 12)],
            "town": [f"town {k}" for k in random.zipf(1.6, n).clip(max=400)],
        }
    )


def tails(random: np.random.Generator, n: int) -> pl.DataFrame:
    """Thirty columns: normal, uniform, exponential, lognormal, Student's t of 3 degrees, two values; five of each."""
    drawn: list[Callable[[], np.ndarray]] = [
        lambda: random.normal(size=n),
        lambda: random.uniform(size=n),
        lambda: random.exponential(size=n),
        lambda: random.lognormal(size=n),
        lambda: random.standard_t(3, size=n),
        lambda: random.integers(0, 2, n).astype(float),
    ]
    return pl.DataFrame({f"x{k}": drawn[k % 6]() for k in range(30)})


CHANGES: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "age in months": lambda rows: rows.with_columns(age=12 * pl.col("age")),
    "pulse in Hz": lambda rows: rows.with_columns(pulse=pl.col("pulse") / 60),
    "categories renamed": lambda rows: rows.with_columns(sex=pl.col("sex").replace({"m": "male", "w": "female"})),
    "age and pulse swapped": lambda rows: rows.with_columns(age=pl.col("pulse"), pulse=pl.col("age")),
    "dates for numbers": lambda rows: rows.with_columns(wait=pl.lit("2024-05-17")),
}


def fitted(rows: pl.DataFrame) -> TableClassifier:
    """What is kept of a training table does not depend on the classifier."""
    return TableClassifier(DummyClassifier()).fit(rows, np.arange(len(rows)) % 2)


class Alarms(NamedTuple):
    """Of a file: the shares of rows with a number and with a category unlike training; whether a column has shifted."""

    numbers: float
    categories: float
    shifted: bool


def alarms(model: TableClassifier, rows: pl.DataFrame) -> Alarms:
    """What the model says of a file."""
    found = model.familiarity(rows)
    named = {True: np.zeros(len(rows), dtype=bool), False: np.zeros(len(rows), dtype=bool)}
    for name, where in found.rows.items():
        named[model.seen_[name].is_numeric][where] = True
    return Alarms(float(named[True].mean()), float(named[False].mean()), bool(found.shifts))


def unchanged(source: str, n: int, number: int, seed: int) -> dict[int, list[Alarms]]:
    """The alarms of fresh files of each size, for one training table of n rows."""
    random = np.random.default_rng([seed, n, number])
    draw = SOURCES[source]
    model = fitted(draw(random, n))
    return {size: [alarms(model, draw(random, size)) for _ in range(FILES_EACH)] for size in SIZES}


def changed(number: int, seed: int) -> dict[tuple[str, int], Alarms]:
    """The alarms of changed files of each size, for one training table."""
    random = np.random.default_rng([seed, number])
    model = fitted(clinic(random, CHANGED_TRAINING))
    return {
        (name, size): alarms(model, change(clinic(random, size))) for name, change in CHANGES.items() for size in SIZES
    }


def folder_alarms(path: Path, n_splits: int, seed: int) -> dict[int, list[Alarms]]:
    """The alarms of files of each size from the half of a set that was not trained on."""
    with np.load(path) as data:
        X = data["X"].astype(np.float64)
    found: dict[int, list[Alarms]] = {size: [] for size in SIZES}
    for split in range(n_splits):
        order = np.random.default_rng([seed, split]).permutation(len(X))
        train, fresh = order[: len(X) // 2], order[len(X) // 2 :]
        frame = pl.DataFrame({f"x{j}": X[:, j] for j in range(X.shape[1])})
        model = fitted(frame[train])
        for size in SIZES:
            parts = [fresh[first : first + size] for first in range(0, len(fresh) - size + 1, size)][:FILES_EACH]
            found[size] += [alarms(model, frame[part]) for part in parts]
    return found


SOURCES = {"clinic": clinic, "tails": tails}


FIGURES = ("numbers named, %", "new categories, %", "files warned, %", "+-")


def _figures(files: Sequence[Alarms]) -> dict[str, int | float]:
    means = 100 * np.mean(files, axis=0)
    error = 100 * float(np.std([one.shifted for one in files])) / len(files) ** 0.5
    return {"files": len(files), **dict(zip(FIGURES, [*means.tolist(), error], strict=True))}


def main(argv: list[str] | None = None) -> int:
    """Two tables: false alarms, and detection."""
    parser = benchmark_parser("familiarity", __doc__)
    parser.add_argument("--tables", type=int, default=100, help="training tables of each kind and size")
    parser.add_argument("--data", type=Path, help="a folder of .npz files (X, y)")
    parser.add_argument("--splits", type=int, default=5, help="random halves of each set of --data")
    options = parser.parse_args(argv)
    run = Parallel(n_jobs=options.n_jobs)
    columns, formats = ("table", "rows of a file", "files", *FIGURES), dict.fromkeys(FIGURES, ".2f")
    false = Table("False alarms: fresh files of the same source", columns, formats)
    parts: dict[str, list[dict[int, list[Alarms]]]] = {}
    for source in SOURCES:
        for n in TRAINING:
            asked = (delayed(unchanged)(source, n, number, options.seed) for number in range(options.tables))
            parts[f"{source}, {n} rows"] = run(asked)
    if options.data is not None:
        paths = sorted(options.data.glob("*.npz"))
        asked = (delayed(folder_alarms)(path, options.splits, options.seed) for path in paths)
        parts[f"{len(paths)} sets, half of the rows"] = run(asked)
    for title, found in parts.items():
        for size in SIZES:
            files = [one for part in found for one in part[size]]
            if files:
                false.append({"table": title, "rows of a file": size, **_figures(files)})
    columns = ("change", "rows of a file", "files", *FIGURES)
    detected = Table(f"Detection: clinic, {CHANGED_TRAINING} rows", columns, dict.fromkeys(FIGURES, ".1f"))
    changes = run(delayed(changed)(number, options.seed) for number in range(options.tables))
    for name in CHANGES:
        for size in SIZES:
            figures = _figures([part[name, size] for part in changes])
            detected.append({"change": name, "rows of a file": size, **figures})
    publish([false, detected], "familiarity", options.output, run_description("familiarity", argv or [], options.seed))
    return 0
