"""What models say of themselves, and what is true on fresh samples.

Synthetic tables of six kinds, n from 60 to 5,000: every estimator is fitted on each, and its estimate of its own
accuracy, of its strong type's, and the mean chance that it gives are held against fresh samples of the same source.
The mean of (estimated - actual) over the tables is to be 0, within two standard errors and within one point.
"""

import csv
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from benchmarks.options import benchmark_parser, names
from multiform import DiagnosisPlanner, LoyaltyClassifier, QMSClassifier, QMSClassifierCV, TriageClassifier
from multiform.tables import TableClassifier

FRESH = 4_000  # samples
REFUSALS = ("calibration groups to prove", "must train on at least 2 classes")
FEWEST_STRONG = 20  # of a table that the strong type's estimate is taken from


class Samples(NamedTuple):
    """A table: its rows, their labels, and which rows belong together (None: each for itself)."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray | None = None


Source = Callable[[np.random.Generator, int], Samples]  # draws n samples


# ------------------------------------------------------------------------------------------------- the six kinds


def continuous(random: np.random.Generator, shares: np.ndarray | None = None) -> Source:
    """Normal clouds, each class with a covariance of its own; the shares of the classes are equal unless given."""
    p = int(random.integers(2, 11))
    m = int(random.integers(2, 5)) if shares is None else len(shares)
    centres = random.normal(size=(m, p)) * random.uniform(0.3, 1.5) / np.sqrt(p) * 2
    spread = np.eye(p) + 0.4 * random.normal(size=(m, p, p)) / np.sqrt(p)

    def draw(random: np.random.Generator, n: int) -> Samples:
        y = random.choice(m, n, p=shares)
        return Samples(centres[y] + np.einsum("npq,nq->np", spread[y], random.normal(size=(n, p))), y)

    return draw


def binary_columns(random: np.random.Generator) -> Source:
    """Columns of 0 and 1; the classes depend on them and on pairs of them."""
    p, m = int(random.integers(3, 13)), int(random.integers(2, 4))
    single, pairs = random.normal(size=(p, m)), random.normal(size=(p, p, m)) / p
    shares = random.uniform(0.2, 0.8, p)

    def draw(random: np.random.Generator, n: int) -> Samples:
        X = (random.random((n, p)) < shares).astype(float)
        return Samples(X, _drawn(X @ single + np.einsum("np,nq,pqm->nm", X, X, pairs), random))

    return draw


def few_rows(random: np.random.Generator) -> Source:
    """A handful of distinct rows, each with shares of the classes of its own."""
    n_distinct, m = int(random.integers(4, 13)), int(random.integers(2, 4))
    rows, scores = random.integers(0, 3, size=(n_distinct, 3)).astype(float), 1.5 * random.normal(size=(n_distinct, m))

    def draw(random: np.random.Generator, n: int) -> Samples:
        which = random.integers(n_distinct, size=n)
        return Samples(rows[which], _drawn(scores[which], random))

    return draw


def copied_rows(random: np.random.Generator) -> Source:
    """Every sample comes two to four times, and `groups` says so."""
    source, times = continuous(random), int(random.integers(2, 5))

    def draw(random: np.random.Generator, n: int) -> Samples:
        distinct = source(random, n // times)
        order = random.permutation(np.repeat(np.arange(len(distinct.y)), times))
        return Samples(distinct.X[order], distinct.y[order], order)

    return draw


def grouped(random: np.random.Generator) -> Source:
    """Groups with an effect: their members are alike, and mostly of one class."""
    source, alike = continuous(random), random.uniform(0.3, 0.9)
    size, loyal = int(random.integers(2, 6)), random.uniform(0.5, 1.0)

    def draw(random: np.random.Generator, n: int) -> Samples:
        n_groups = n // size
        n = n_groups * size
        groups = random.integers(n_groups, size=n)
        common, own = source(random, n_groups), source(random, n)
        y = np.where(random.random(n) < loyal, common.y[groups], own.y)
        return Samples(alike * common.X[groups] + (1 - alike) * own.X, y, groups)

    return draw


def imbalanced(random: np.random.Generator) -> Source:
    """One sample of the second class for 50 of the first, in every table alike, and never fewer than four."""
    source = continuous(random, np.array([0.5, 0.5]))

    def draw(random: np.random.Generator, n: int) -> Samples:
        n = max(n, 204)
        many = source(random, 4 * n)
        rare = np.flatnonzero(many.y == 1)[: round(n / 51)]
        rows = random.permutation(np.concatenate([rare, np.flatnonzero(many.y == 0)[: n - len(rare)]]))
        return Samples(many.X[rows], many.y[rows])

    return draw


KINDS: dict[str, Callable[[np.random.Generator], Source]] = {
    "continuous": continuous,
    "binary columns": binary_columns,
    "few distinct rows": few_rows,
    "copied rows, groups given": copied_rows,
    "groups with an effect": grouped,
    "imbalance 1:50": imbalanced,
}


def _drawn(scores: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Classes with the chances softmax(scores)."""
    return np.argmax(scores + random.gumbel(size=scores.shape), axis=1)


# ---------------------------------------------------------------------------------------------------- estimators

ESTIMATORS: dict[str, Callable[[int], Any]] = {
    "QMSClassifier": lambda p: QMSClassifier(n_jobs=1),
    "QMSClassifierCV": lambda p: QMSClassifierCV(n_jobs=1),
    "QMSClassifierCV pure": lambda p: QMSClassifierCV(n_jobs=1, partners=None),
    "LoyaltyClassifier": lambda p: LoyaltyClassifier(n_jobs=1),
    "loyalty with logistic regression": lambda p: LoyaltyClassifier(LogisticRegression(max_iter=1000)),
    "TableClassifier": lambda p: TableClassifier(LoyaltyClassifier(n_jobs=1)),
    "TriageClassifier": lambda p: TriageClassifier(LoyaltyClassifier(n_jobs=1), target_accuracy=0.7),
    "DiagnosisPlanner": lambda p: DiagnosisPlanner({f"x{j}": 1.0 for j in range(p)}, search="beam", n_jobs=1),
}


def estimates(model: Any) -> dict[str, float]:
    """What a fitted model says of its accuracy on new samples."""
    judge = _judge(model)
    if hasattr(judge, "loyalty_table_"):
        table = judge.loyalty_table_
        found = {"accuracy": table.overall_accuracy}
        if table.count[0] >= FEWEST_STRONG:
            found["strong"] = table.correct[0] / table.count[0]
        return found
    if hasattr(judge, "oof_accuracy_"):
        return {"accuracy": judge.oof_accuracy_}
    if hasattr(judge, "plan_accuracy_"):
        return {"accuracy": judge.plan_accuracy_, "full": judge.full_accuracy_}
    return {}


def _judge(model: Any) -> Any:
    """What knows loyalty types: the model, or what a triage or a table has inside."""
    return model.estimator_ if isinstance(model, (TriageClassifier, TableClassifier)) else model


def differences(model: Any, samples: Samples, fresh: Samples) -> dict[str, float]:
    """Estimated - actual of a model fitted on the samples, by what is estimated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(samples.X, samples.y, **({} if samples.groups is None else {"groups": samples.groups}))
        right = model.predict(fresh.X) == fresh.y
        said = estimates(model)
        found = {"chance": float(model.predict_proba(fresh.X).max(axis=1).mean() - right.mean())}
        if "accuracy" in said:
            found["accuracy"] = said["accuracy"] - float(right.mean())
        if "full" in said:
            found["full"] = said["full"] - float((model.predict_full(fresh.X) == fresh.y).mean())
        if "strong" in said:
            asked = model if isinstance(model, TableClassifier) else _judge(model)
            strong = asked.predict_loyalty(fresh.X) == "strong"
            if strong.sum() >= FEWEST_STRONG:
                found["strong"] = said["strong"] - float(right[strong].mean())
    return found


def one_table(kind: str, number: int, seed: int, wanted: list[str], most: int) -> list[dict[str, Any]]:
    """All estimators on one table: a row each."""
    random = np.random.default_rng([seed, list(KINDS).index(kind), number])
    source = KINDS[kind](random)
    n = round(float(np.exp(random.uniform(np.log(60), np.log(most)))))
    samples = source(random, n)
    while min(np.bincount(samples.y)) < 2 or len(np.bincount(samples.y)) < 2:
        samples = source(random, n)
    fresh = source(random, FRESH)
    rows = []
    for name in wanted:
        model = clone(ESTIMATORS[name](samples.X.shape[1]))
        seeds = [parameter for parameter in model.get_params() if parameter.endswith("random_state")]
        model.set_params(**dict.fromkeys(seeds, number))
        try:
            found = differences(model, samples, fresh)
        except ValueError as error:
            if name != "TriageClassifier" or not any(part in str(error) for part in REFUSALS):
                raise
            continue  # half of a table may be too little to train on, or to promise by
        rows.append({"kind": kind, "table": number, "n": n, "estimator": name, **found})
    return rows


WHAT = ("accuracy", "strong", "chance", "full")


def summary(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str, str, int, float, float]]:
    """Estimator, what, kind (or all): number of tables, mean of (estimated - actual) and its standard error, points."""
    for name in dict.fromkeys(row["estimator"] for row in rows):
        for what in WHAT:
            for kind in ("all", *KINDS):
                found = [
                    100 * row[what]
                    for row in rows
                    if row["estimator"] == name and row.get(what) is not None and kind in ("all", row["kind"])
                ]
                if len(found) > 1:
                    yield name, what, kind, len(found), float(np.mean(found)), float(np.std(found) / len(found) ** 0.5)


def main(argv: list[str] | None = None) -> int:
    """Print mean and standard error for every estimator, what it says, and kind of table."""
    parser = benchmark_parser("honesty", __doc__)
    parser.add_argument("--tables", type=int, default=40, help="tables of each of the six kinds")
    parser.add_argument("--only", type=names, default=list(ESTIMATORS), help="estimators, by name")
    parser.add_argument("--kinds", type=names, default=list(KINDS), help="kinds of tables, by the beginning of a name")
    parser.add_argument("--most", type=int, default=5_000, help="rows of the largest table")
    options = parser.parse_args(argv)
    kinds = [kind for kind in KINDS if any(kind.startswith(begin) for begin in options.kinds)]
    asked = [(kind, number) for number in range(options.tables) for kind in kinds]
    parts = Parallel(n_jobs=options.n_jobs, batch_size=1)(
        delayed(one_table)(kind, number, options.seed, options.only, options.most) for kind, number in asked
    )
    rows = [row for part in parts for row in part]
    options.output.mkdir(parents=True, exist_ok=True)
    with open(options.output / "honesty.csv", "w", newline="") as stream:
        writer = csv.DictWriter(stream, ["kind", "table", "n", "estimator", *WHAT])
        writer.writeheader()
        writer.writerows(rows)
    print("mean of (estimated - actual) over tables, in points, +- one standard error")
    for name, what, kind, count, mean, error in summary(rows):
        mark = "" if abs(mean) <= max(2 * error, 1e-9) and abs(mean) <= 1 else "  <-- " * (kind == "all") + " *"
        print(f"{name:28} {what:9} {kind:26} {count:4d} {mean:+6.2f} +- {error:.2f}{mark}")
    return 0
