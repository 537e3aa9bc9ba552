"""A small fitted model of every kind that a file can hold, and everything that one can ask it."""

import warnings
from functools import cache

import numpy as np
from sklearn.datasets import load_iris
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from multiform import LoyaltyClassifier, QMSClassifier, QMSClassifierCV, TriageClassifier
from multiform.columns import UnfamiliarWarning
from multiform.diagnosis import DiagnosisPlanner
from multiform.images import ImagePatches

QUESTIONS = (
    "transform",
    "predict",
    "predict_proba",
    "decision_function",
    "member_values",
    "predict_loyalty",
    "loyalty_score",
    "defer",
    "trust_score",
    "predict_full",
)


@cache
def data():
    """Iris, whose columns have few digits, so that encodings have something to find; and text labels."""
    X, y = load_iris(return_X_y=True)
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


def with_gaps(X):
    """Every fifth value is missing."""
    return np.where(np.arange(X.size).reshape(X.shape) % 5 == 0, np.nan, X)


@cache
def table():
    """A table with a column of every role."""
    import polars as pl

    X, y = data()
    rng = np.random.default_rng(0)
    words = np.array(["small", "large", "pale", "dark", "found", "early", "late", "near", "wood", "river"])
    return pl.DataFrame(
        {
            "id": [f"plant-{row}" for row in range(len(X))],
            "petal": [None if row % 9 == 0 else f"{value}" for row, value in enumerate(X[:, 2])],
            "sepal": X[:, 0],
            "grade": np.round(X[:, 3]).astype(int),
            "site": [None if row % 7 == 0 else "abcd"[int(value)] for row, value in enumerate(X[:, 1] % 4)],
            "day": [f"2024-{1 + row % 12:02d}-{1 + row % 28:02d}" for row in range(len(X))],
            "note": [" ".join(rng.choice(words, 5)) for _ in X],
            "always": ["x"] * len(X),
            "kind": y,
        }
    )


@cache
def plants():
    """A frame with gaps, a category of few values and one of many."""
    import polars as pl

    beds = pl.Series("bed", [f"bed {row * row % 17}" for row in range(len(data()[0]))])
    return table().select(pl.col("petal").cast(pl.Float64), "sepal", "site").with_columns(beds)


def _model(name):
    from multiform.tables import TableClassifier

    X, y = data()
    qms = QMSClassifier(random_state=0, max_iter=20)
    if name == "qms":
        return qms.fit(X, y)
    if name == "qms, cpm, two models":
        return QMSClassifier(solver="cpm", n_models=2, max_iter=3, random_state=np.random.RandomState(3)).fit(X, y)
    if name == "qms, early stopping":
        return QMSClassifier(early_stopping=True, class_weight={"setosa": 2.0}, random_state=0).fit(X, y)
    if name == "qms, partial_fit":
        return QMSClassifier(random_state=0).partial_fit(X, y, classes=np.unique(y))
    if name == "qms, whole labels":
        return qms.fit(X, np.searchsorted(np.unique(y), y))
    if name == "cv":
        # Petal width cut at 1: many equal values, and so equal quantiles.
        cut = np.column_stack([X, np.maximum(X[:, 3], 1)])
        return QMSClassifierCV((0.1, 0.3), max_iter=10, cv=StratifiedKFold(3), random_state=0).fit(cut, y)
    if name == "qms, gaps":
        return qms.fit(with_gaps(X), y)
    if name == "cv, gaps":
        return QMSClassifierCV((0.1, 0.3), max_iter=10, cv=3, random_state=0).fit(with_gaps(X), y)
    if name == "cv, partners":
        # So poor a model of ours that all of them get a share.
        forests = [ExtraTreesClassifier(4, max_depth=2), RandomForestClassifier(2, max_depth=2)]
        boosting = HistGradientBoostingClassifier(max_iter=8, max_leaf_nodes=4)
        shared = {"encodings": ["plain"], "max_iter": 1, "cv": 3, "ensemble_size": 20, "random_state": 0}
        return QMSClassifierCV((3.0,), partners=[*forests, boosting], **shared).fit(X, y)
    if name == "loyalty":
        return LoyaltyClassifier(qms, cv=3, random_state=0).fit(X, y)
    if name == "loyalty, ladder":
        return LoyaltyClassifier(qms, beta=(0.01, 0.1), gamma=[5.0, 20.0], cv=3, random_state=0).fit(X, y)
    if name == "loyalty, logistic regression":
        return LoyaltyClassifier(LogisticRegression(C=0.5, max_iter=1000), cv=3, random_state=0).fit(X, y)
    if name == "triage":
        inner = LoyaltyClassifier(qms, cv=3, random_state=0)
        return TriageClassifier(
            inner, target_accuracy=0.7, fallback=LogisticRegression(max_iter=1000), random_state=0
        ).fit(X, y)
    if name == "triage, pipeline":
        pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        return TriageClassifier(pipeline, target_accuracy=0.7, cv=StratifiedKFold(3), random_state=0).fit(X, y)
    if name == "patches":
        return ImagePatches((2, 2), n_filters=3, patch_size=2, grid=1, random_state=0).fit(X)
    if name == "plan":
        costs = {"sepal": 1, "petal": 3, "width": 10}
        discounts = {"tape": {"sepal": 0.5, "petal": 2.0}}
        return DiagnosisPlanner(costs, discounts=discounts, cv=3, policy="adaptive", random_state=0).fit(
            X[:, [0, 2, 3]], y
        )
    if name == "cv, frame":
        return QMSClassifierCV((0.1, 0.3), max_iter=10, cv=3, random_state=0).fit(plants(), y)
    if name == "table, cv":
        columns = [*plants().columns, "day", "kind"]
        ensemble = QMSClassifierCV((0.1, 0.3), max_iter=10, cv=3, random_state=0)
        return TableClassifier(ensemble).fit(plants().with_columns(table()["day"], table()["kind"])[columns], "kind")
    if name == "table":
        return TableClassifier(LoyaltyClassifier(qms, cv=3, random_state=0)).fit(table(), "kind")
    raise KeyError(name)


model = cache(_model)

NAMES = (
    "qms",
    "qms, cpm, two models",
    "qms, early stopping",
    "qms, partial_fit",
    "qms, whole labels",
    "cv",
    "qms, gaps",
    "cv, gaps",
    "cv, partners",
    "loyalty",
    "loyalty, ladder",
    "loyalty, logistic regression",
    "triage",
    "triage, pipeline",
    "patches",
    "plan",
    "table",
    "cv, frame",
    "table, cv",
)


def samples(name):
    """What the model can be asked about, with values that training did not have."""
    if name == "table":
        return table().drop("kind").with_columns(site=table()["site"].fill_null("never seen"))
    if name == "cv, frame":
        return plants().with_columns(site=plants()["site"].fill_null("never seen"))
    if name == "table, cv":
        return plants().with_columns(table()["day"])
    X = data()[0]
    if name.endswith("gaps"):
        return with_gaps(X) + 0.25
    if name == "plan":
        return X[:, [0, 2, 3]] + 0.25
    return (np.column_stack([X, np.maximum(X[:, 3], 1)]) if name == "cv" else X) + 0.25


def answers(fitted, X):
    """Everything that the model says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnfamiliarWarning)
        known = [question for question in QUESTIONS if hasattr(fitted, question)]
        return {question: np.asarray(getattr(fitted, question)(X)) for question in known}


def same(first, second):
    """Whether two sets of answers are the same, bit by bit."""
    return first.keys() == second.keys() and all(
        first[key].dtype == second[key].dtype
        and np.array_equal(first[key], second[key], equal_nan=first[key].dtype.kind == "f")
        for key in first
    )
