"""The command line on wide tables, on one stray quotation mark, and at its start, over what cannot be avoided.

The floor of reading is polars reading the same file, all cells as text; of the start, `import sklearn` in a fresh
process. "columns" is everything between the file and the training: what each of them is, the numbers that it becomes,
what it looked like. "fit" is the whole command, `multiform fit --model qms`, in a process of its own.
"""

import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator, ClassifierMixin

from benchmarks.measure import interleaved, timed
from benchmarks.options import benchmark_parser
from benchmarks.tables import Table, publish, run_description
from multiform.tables import TableClassifier, TableError, read, sources

N_ROWS = 40
N_COLUMNS = (1_000, 3_000, 10_000)
MEGABYTES = (18, 180)
ROW = "disk of some kind,12.25,3\n"


class Nothing(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that learns nothing."""

    def fit(self, X: Any, y: Any) -> "Nothing":
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return self.classes_[np.zeros(len(X), dtype=int)]


def genes(path: Path, n_columns: int, seed: int) -> Path:
    """Two classes, ten columns of many that tell them apart."""
    rng = np.random.default_rng(seed)
    classes = np.arange(N_ROWS) % 2
    values = rng.normal(size=(N_ROWS, n_columns))
    values[:, :10] += 1.5 * classes[:, None]
    columns = {f"gene_{j:05d}_expression": values[:, j].round(4) for j in range(n_columns)}
    pl.DataFrame({"label": np.array(["ill", "well"])[classes], **columns}).write_csv(path)
    return path


def wide_table(folder: Path, repeats: int, seed: int) -> Table:
    """Seconds of each step, and how often the floor fits into them."""
    columns = [
        "columns",
        "polars, s",
        "read, s",
        "over polars",
        "columns, s",
        "a column, ms",
        "fit, s",
        "its memory, MB",
    ]
    formats = dict.fromkeys(columns[1:], ".2f") | {"columns": ",", "its memory, MB": ".0f"}
    table = Table(f"A table of {N_ROWS} rows", columns, formats)
    for n_columns in N_COLUMNS:
        path = genes(folder / f"{n_columns}.csv", n_columns, seed)
        calls = {
            "polars": partial(pl.read_csv, path, infer_schema_length=0),
            "read": lambda path=path: read(sources([path])),
        }
        medians = interleaved(calls, repeats)
        frame = read(sources([path]))
        _, deciding = timed(lambda frame=frame: TableClassifier(Nothing()).fit(frame, "label"))
        words = ["fit", str(path), "-t", "label", "-o", str(folder / "m.mfm"), "--model", "qms", "-q"]
        fitting, memory = process("-m", "multiform", *words)
        table.append(
            {
                "columns": n_columns,
                "polars, s": medians["polars"],
                "read, s": medians["read"],
                "over polars": medians["read"] / medians["polars"],
                "columns, s": deciding,
                "a column, ms": 1e3 * deciding / n_columns,
                "fit, s": fitting,
                "its memory, MB": memory,
            }
        )
    return table


def stray_table(folder: Path) -> Table:
    """Time until the mark is named, over polars reading the same file without the mark."""
    formats = {"s": ".2f", "over polars": ".2f"}
    table = Table("One stray quotation mark in a file", ["MB", "s", "over polars", "sentence"], formats)
    for megabytes in MEGABYTES:
        n = 1_000_000 * megabytes // len(ROW)
        sound, stray = folder / "sound.csv", folder / "stray.csv"
        sound.write_text("name,a,b\n" + ROW * n)
        stray.write_text("name,a,b\n" + ROW * (n // 10) + '"disk,1,2\n' + ROW * (n - n // 10))
        _, floor = timed(partial(pl.read_csv, sound, infer_schema_length=0))
        sentence, seconds = timed(partial(refusal, stray))
        table.append({"MB": megabytes, "s": seconds, "over polars": seconds / floor, "sentence": sentence})
    return table


def refusal(path: Path) -> str:
    """What is said of a file that cannot be read, without its name."""
    try:
        read(sources([path]))
    except TableError as error:
        return str(error).removeprefix(f"{path}, ")
    raise AssertionError("it was read")


def start_table(repeats: int) -> Table:
    """Seconds and memory of processes that do next to nothing."""
    calls = {
        "import sklearn": ("-c", "import sklearn"),
        "multiform --help": ("-m", "multiform", "--help"),
        "multiform fit --help": ("-m", "multiform", "fit", "--help"),
        "import multiform": ("-c", "import multiform"),
    }
    medians = interleaved({name: partial(process, *words) for name, words in calls.items()}, repeats)
    columns = ["process", "s", "over import sklearn", "memory, MB"]
    table = Table("Start", columns, {"s": ".2f", "over import sklearn": ".2f", "memory, MB": ".0f"})
    for name, seconds in medians.items():
        memory = process(*calls[name])[1]
        ratio = seconds / medians["import sklearn"]
        table.append({"process": name, "s": seconds, "over import sklearn": ratio, "memory, MB": memory})
    return table


def process(*words: str) -> tuple[float, float]:
    """Seconds and the most memory (MB, where the system tells) of a fresh Python."""
    told = (
        "import resource, subprocess, sys; code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode;"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(code)"
    )
    command = [sys.executable, "-c", told, sys.executable, *words]
    done, seconds = timed(partial(subprocess.run, command, capture_output=True, text=True, check=True))
    return seconds, int(done.stdout) / 1e3


def main(argv: list[str]) -> int:
    """Measure, print and write the tables."""
    parser = benchmark_parser("wide", __doc__)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables = [
            wide_table(folder, options.repeats, options.seed),
            stray_table(folder),
            start_table(options.repeats),
        ]
    publish(tables, "wide", options.output, run_description("wide", argv, options.seed))
    return 0
