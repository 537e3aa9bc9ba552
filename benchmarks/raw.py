"""Raw tables: ``TableClassifier`` around ``QMSClassifierCV`` against one-hot by hand before it.

The tables are made of a folder of ``.npz`` files: in the twelve sets with the largest share of columns that have 3 to
12 values, such a column is written as whole numbers (``as numbers``) or as words (``as words``), all others as they
are. By hand, each of these columns is one-hot (scikit-learn's OneHotEncoder), the others are numbers, and
``QMSClassifierCV`` reads the matrix. Log loss (no chance below 1e-6) and accuracy by 3-fold cross-validation,
stratified, the same folds for both; at most 1,000 rows of a set, drawn at random.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from benchmarks.measure import threads
from benchmarks.options import benchmark_parser, names
from benchmarks.tables import Table, publish, run_description
from benchmarks.uci import N_FOLDS

N_SETS = 12
FEW = 3, 12  # values
MOST_ROWS = 1_000


def coded_columns(X: NDArray[Any]) -> NDArray[np.intp]:
    """The columns with few values."""
    n_values = np.array([len(np.unique(column)) for column in X.T])
    return np.flatnonzero((n_values >= FEW[0]) & (n_values <= FEW[1]))


def raw_table(X: NDArray[Any], coded: NDArray[np.intp], *, words: bool) -> Any:
    """A polars frame as a file would have it."""
    import polars as pl

    columns: dict[str, Any] = {}
    for j, column in enumerate(X.T):
        codes = np.unique(column, return_inverse=True)[1]
        values = codes if j in coded else column.astype(np.float64)
        columns[f"x{j}"] = [f"value {code}" for code in codes] if j in coded and words else values
    return pl.DataFrame(columns)


def chances_of(kind: str, X: NDArray[Any], target: NDArray[np.intp], options: Any) -> NDArray[np.float64]:
    """Chances of every row by the models that have not seen it."""
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    from multiform import QMSClassifierCV
    from multiform.tables import TableClassifier

    coded = coded_columns(X)
    rows: Any = X if kind == "by hand" else raw_table(X, coded, words=kind == "as words")
    chances = np.zeros((len(target), int(target.max()) + 1))
    for train, test in StratifiedKFold(N_FOLDS, shuffle=True, random_state=options.seed).split(X, target):
        model: Any = QMSClassifierCV(n_jobs=options.n_jobs, random_state=options.seed)
        if kind == "by hand":
            one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
            model = make_pipeline(make_column_transformer((one_hot, coded), remainder="passthrough"), model)
        else:
            model = TableClassifier(model, numbers=[f"x{j}" for j in range(X.shape[1]) if j not in coded])
        model.fit(rows[train], target[train])
        chances[np.ix_(test, model.classes_.astype(int))] = model.predict_proba(rows[test])
    return chances


def main(argv: list[str]) -> int:
    """Run all three on every set, print and write the table."""
    parser = benchmark_parser("raw", __doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of .npz files with X and y")
    parser.add_argument("--sets", type=names, help="these sets instead, comma-separated")
    options = parser.parse_args(argv)
    shares = {}
    for path in sorted(options.data.glob("*.npz")):
        with np.load(path) as data:
            if options.sets is None or path.stem in options.sets:
                shares[path] = len(coded_columns(data["X"])) / data["X"].shape[1]
    paths = sorted(shares, key=lambda path: -shares[path])[: N_SETS if options.sets is None else None]
    if not paths:
        parser.error(f"--data {options.data}: no .npz file there has a wanted name (--sets {options.sets}).")
    kinds = ("by hand", "as numbers", "as words")
    columns = ["set", "coded columns", *(f"log loss {kind}" for kind in kinds), *(f"accuracy {kind}" for kind in kinds)]
    columns += [f"{kind}: standard errors" for kind in kinds[1:]]
    formats = {name: ".4f" if "loss" in name else "+.1f" if "errors" in name else ".1f" for name in columns[2:]}
    note = "standard errors: log loss by hand less that of TableClassifier, over its standard error; below -2 is worse"
    table = Table("TableClassifier against one-hot by hand, before QMSClassifierCV", columns, formats, [note])
    for path in paths:
        with np.load(path) as data:
            X, y = data["X"].astype(np.float64), data["y"]
        some = np.random.default_rng(options.seed).permutation(len(y))[:MOST_ROWS]
        X, target = X[some], np.unique(y[some], return_inverse=True)[1]
        cells: dict[str, Any] = {"set": path.stem, "coded columns": f"{len(coded_columns(X))} of {X.shape[1]}"}
        losses = {}
        with warnings.catch_warnings(), threads(options.n_jobs):
            warnings.simplefilter("ignore")  # of classes of one row, of cells that training did not have
            for kind in kinds:
                chances = chances_of(kind, X, target, options)
                losses[kind] = -np.log(np.maximum(chances[np.arange(len(target)), target], 1e-6))
                cells[f"log loss {kind}"] = losses[kind].mean()
                cells[f"accuracy {kind}"] = 100 * (chances.argmax(axis=1) == target).mean()
        for kind in kinds[1:]:
            better = losses["by hand"] - losses[kind]
            error = better.std() / np.sqrt(len(better))
            cells[f"{kind}: standard errors"] = better.mean() / error if error else 0.0
        table.append(cells)
        print(", ".join(f"{name} {cell:.4g}" if isinstance(cell, float) else str(cell) for name, cell in cells.items()))
    table.append({"set": "mean", "coded columns": "", **{
        name: float(np.mean([row[name] for row in table.rows])) for name in columns[2:]  # type: ignore[arg-type]
    }})  # fmt: skip
    publish([table], "raw", options.output, run_description("raw", argv, options.seed))
    return 0
