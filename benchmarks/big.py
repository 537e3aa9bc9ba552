"""A fit over blocks: peak memory, time over reading the file as often, accuracy against a fit in memory; and a cluster.

The data are drawn in blocks with a fixed seed and written as one Parquet file, unless it is there already. "reading" is
pyarrow going through the file once in batches, all columns. The fit's own time counts every time through: the first
look and the passes. A fit in memory has as many of the rows as `--part` says; both are asked the same fresh rows.
`benchmarks/big_cluster.py` says how the cluster is measured.
"""

from argparse import Namespace
from pathlib import Path

import numpy as np

from benchmarks.big_cluster import cluster_block, fitted
from benchmarks.measure import in_fresh_process, peak_memory, timed
from benchmarks.options import benchmark_parser
from benchmarks.tables import Table, publish, run_description

BLOCK = 50_000  # rows
N_CLASSES = 4
N_FRESH = 50_000


def drawn(n: int, p: int, seed: int, block: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a block: a score for each class, linear and quadratic in some of the columns, and noise."""
    weights = np.random.default_rng(seed).normal(size=(p, N_CLASSES)) / np.sqrt(p)
    random = np.random.default_rng([seed, block + 1])
    X = random.standard_normal((n, p), dtype=np.float32)
    scores = 2 * X @ weights.astype(np.float32) + X[:, :N_CLASSES] ** 2 / 2
    return X, (scores + random.gumbel(size=scores.shape) / 2).argmax(axis=1)


def write(path: Path, n: int, p: int, seed: int) -> None:
    """One Parquet file, not compressed: noise does not shrink."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([*((f"x{k}", pa.float32()) for k in range(p)), ("label", pa.int64())])
    unfinished = path.with_suffix(".unfinished")
    with pq.ParquetWriter(unfinished, schema, compression="none", use_dictionary=["label"]) as writer:
        for block in range(-(-n // BLOCK)):
            X, y = drawn(min(BLOCK, n - block * BLOCK), p, seed, block)
            arrays = [pa.array(np.ascontiguousarray(X[:, k])) for k in range(p)]
            writer.write_table(pa.Table.from_arrays([*arrays, pa.array(y)], schema=schema))
    unfinished.rename(path)


def reading(path: Path) -> float:
    """Seconds of going through the file once."""
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    rows = 4_000_000 // len(file.schema.names)
    n, seconds = timed(lambda: sum(len(batch) for batch in file.iter_batches(rows)))
    assert n == file.metadata.num_rows
    return seconds


def over_blocks(path: Path, n_jobs: int, seed: int) -> tuple[float, float, int, float]:
    """Seconds, peak megabytes above the libraries, passes and accuracy of a fit (called in a fresh process)."""
    import pyarrow.parquet as pq

    from multiform import QMSClassifier

    QMSClassifier(n_jobs=n_jobs).fit(*drawn(500, 5, seed, 0))  # libraries and threads are there
    p = len(pq.ParquetFile(path).schema.names) - 1
    model = QMSClassifier(n_jobs=n_jobs, random_state=seed)
    with peak_memory() as peak:
        _, seconds = timed(lambda: model.fit(path, "label"))
    return seconds, peak.megabytes or float("nan"), model.n_iter_, accuracy(model, p, seed)


def in_memory(n: int, p: int, n_jobs: int, seed: int, block: int = BLOCK) -> tuple[float, float]:
    """Seconds and accuracy of an ordinary fit of the first rows (called in a fresh process)."""
    from multiform import QMSClassifier

    parts = [drawn(min(block, n - start), p, seed, start // block) for start in range(0, n, block)]
    X, y = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    model = QMSClassifier(n_jobs=n_jobs, random_state=seed)
    _, seconds = timed(lambda: model.fit(X, y))
    return seconds, accuracy(model, p, seed)


def accuracy(model, p: int, seed: int) -> float:  # type: ignore[no-untyped-def]
    X, y = drawn(N_FRESH, p, seed, 10**6)
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_
    return float(model.score(X, y))


def of_blocks(options: Namespace) -> Table:
    columns = ["rows", "GB", "reading, s", "fit, s", "over reading", "passes", "peak MB", "accuracy", "in memory"]
    formats = dict.fromkeys(columns[2:5], ".2f") | {"rows": ",", "GB": ".2f", "peak MB": ".0f"}
    formats |= {"accuracy": ".4f", "in memory": ".4f"}
    table = Table(f"{options.features} columns of float32 in Parquet", columns, formats)
    for n in dict.fromkeys((min(options.part, options.rows), options.rows)):
        path = options.folder / f"big_{n}_{options.features}_{options.seed}.parquet"
        if not path.exists():
            write(path, n, options.features, options.seed)
        once = in_fresh_process(reading, path)
        seconds, megabytes, passes, right = in_fresh_process(over_blocks, path, options.n_jobs, options.seed)
        cells = {
            "rows": n,
            "GB": path.stat().st_size / 1e9,
            "reading, s": once,
            "fit, s": seconds,
            "over reading": seconds / (once * (passes + 1)),
            "passes": passes,
            "peak MB": megabytes,
            "accuracy": right,
        }
        if n <= options.part:
            _, cells["in memory"] = in_fresh_process(in_memory, n, options.features, options.n_jobs, options.seed)
        table.append(cells)
    return table


def of_the_cluster(options: Namespace) -> Table:
    """Workers of one thread each: two against one, eight against one machine, one of four killed, peers on two."""
    n, p, seed = options.each, options.dask_features, options.seed
    columns = ["what", "workers", "rows", "s", "accuracy", "peak MB", "above, MB", "model"]
    formats = {"rows": ",", "s": ".2f", "accuracy": ".4f", "peak MB": ".0f", "above, MB": ".0f", "model": ".6f"}
    table = Table(f"{p} columns of float32 on a cluster of one machine, {n:,} rows a worker", columns, formats)
    for what, name, n_workers, kill in CLUSTERS:
        if what in options.cluster:
            # One that is killed is killed half way, if it is known where that is.
            seconds = float(table.rows[-1]["s"]) / 2 if kill and "four" in options.cluster else float(kill)
            arguments = (fitted, name, n_workers, n, p, seed, seconds)
            runs = sorted((in_fresh_process(*arguments) for _ in range(options.repeats)), key=lambda run: run["s"])
            if any(run.pop("killed") != kill for run in runs):
                raise RuntimeError("The fit was over before a worker was killed: give more rows with --each.")
            found = runs[len(runs) // 2]
            table.append({"what": what, "workers": n_workers, "rows": n * n_workers} | found)
    if "eight" in options.cluster:
        seconds, right = in_fresh_process(in_memory, 8 * n, p, 1, seed, cluster_block(n))  # the same rows
        table.append({"what": "one machine", "workers": 0, "rows": 8 * n, "s": seconds, "accuracy": right})
    return table


CLUSTERS = (
    ("one", "QMSClassifier", 1, False),
    ("two", "QMSClassifier", 2, False),
    ("eight", "QMSClassifier", 8, False),
    ("four", "QMSClassifier", 4, False),
    ("four, one killed", "QMSClassifier", 4, True),
    ("XGBoost", "XGBoost", 2, False),
    ("LightGBM", "LightGBM", 2, False),
)


def main(argv: list[str]) -> int:
    """Write the files, fit, print and write the tables."""
    parser = benchmark_parser("big", __doc__)
    parser.add_argument("folder", type=Path, help="where the Parquet files are, or are written")
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the file; 0 leaves files out")
    parser.add_argument("--features", type=int, default=500)
    parser.add_argument("--part", type=int, default=500_000, help="rows that a fit in memory is compared on")
    parser.add_argument("--each", type=int, default=100_000, help="rows of a worker of the cluster")
    parser.add_argument("--repeats", type=int, default=3, help="fits on each cluster, whose median is told")
    parser.add_argument("--dask-features", type=int, default=100)
    names = [what for what, *_ in CLUSTERS]
    parser.add_argument("--cluster", nargs="*", choices=names, default=names, help="what is measured on the cluster")
    options = parser.parse_args(argv)
    tables = [of_blocks(options)] if options.rows else []
    tables += [of_the_cluster(options)] if options.cluster else []
    publish(tables, "big", options.output, run_description("big", argv, options.seed))
    return 0
