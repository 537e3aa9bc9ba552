"""TableClassifier: categories, dates, texts, identifiers and gaps."""

import warnings

import numpy as np

from multiform import LoyaltyClassifier, QMSClassifier, TriageClassifier
from multiform.columns import UnfamiliarWarning
from tests.behaviour.registry import needing

ASKED = ("predict", "predict_proba", "predict_loyalty", "defer")


def visits(n, seed):
    """A table with a column of every kind, and a target that can be learnt."""
    import polars as pl

    random = np.random.default_rng(seed)
    kind = np.arange(n) % 3
    words = np.array(["tired", "well", "cough", "fever", "rest", "better"])
    cities = ["Rome", "Oslo", "Bern", "Kyiv"]
    return pl.DataFrame(
        {
            "patient": [f"P{seed}-{row:05d}" for row in range(n)],
            "age": [None if random.random() < 0.1 else round(a, 1) for a in random.normal(40 + 12 * kind, 9).tolist()],
            "city": [None if random.random() < 0.1 else cities[k + random.integers(0, 2)] for k in kind],
            "visit": [f"2024-{1 + row * 5 % 12:02d}-{1 + row % 28:02d}" for row in range(n)],
            "note": [" ".join(random.choice(words, 4)) + (" severe" if k == 2 else "") for k in kind],
            "ward": ["main"] * n,
            "level": np.array(["mild", "none", "severe"])[kind],
        }
    )


def told(model, asked):
    answers, found = model.answers(asked, chances=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnfamiliarWarning)
        shown = {name: getattr(model, name)(asked) for name in ASKED if hasattr(model, name)}
    shown |= {
        "transform": model.transform(asked),
        "encoded_names": model.encoded_names(),
        "roles": [column.role for column in model.columns_],
        "classes_": model.classes_,
        "feature_names_in_": model.feature_names_in_,
        "unfamiliar": found.sentences(),
        "answers unfamiliar": answers["unfamiliar"].fill_null("").to_list(),
    }
    return shown | {f"answers {name}": answers[name].to_numpy() for name in answers.columns if name != "unfamiliar"}


def odd(n=20):
    """New rows, with a city that nobody knew, an age that cannot be read and a date left out."""
    import polars as pl

    age, city, visit = pl.col("age").cast(pl.String), pl.col("city"), pl.col("visit")
    row = pl.int_range(pl.len())
    return visits(n, 1).with_columns(
        age=pl.when(row == 2).then(pl.lit("old")).otherwise(age),
        city=pl.when(row == 3).then(pl.lit("Atlantis")).otherwise(city),
        visit=pl.when(row == 4).then(None).otherwise(visit),
    )


def small_qms(**settings):
    return QMSClassifier(**({"n_components": 3, "max_iter": 4, "noise": 1.0, "random_state": 0} | settings))


def table(estimator, **roles):
    """Without the column of texts: its weights differ in the last bit between NumPy's versions, folds are decided by
    the bits of a row, and what is estimated with other folds is another estimate."""
    from multiform.tables import TableClassifier

    return TableClassifier(estimator, **({"drop": ["note"]} | roles))


@needing("polars")
def qms():
    return told(table(small_qms()).fit(visits(150, 0), "level"), odd())


@needing("polars")
def texts():
    """With the texts, and without folds."""
    return told(table(small_qms(calibrate=False), drop=[]).fit(visits(150, 0), "level"), odd())


@needing("polars")
def loyalty():
    model = table(LoyaltyClassifier(small_qms(), cv=3, random_state=0)).fit(visits(150, 0), "level")
    return told(model, odd())


@needing("polars")
def triage():
    model = table(TriageClassifier(small_qms(max_iter=12), target_accuracy=0.7, random_state=0)).fit(
        visits(300, 0), "level"
    )
    return told(model, odd())


@needing("polars")
def roles_given():
    model = table(small_qms(), categories=["age"], identifiers=["city"], texts=["visit"], most_words=1000)
    return told(model.fit(visits(150, 0), "level"), odd())


@needing("polars", "pandas")
def pandas_frame():
    """Labels of their own, and whole numbers."""
    import pandas as pd

    frame = pd.DataFrame(visits(150, 0).drop("level").to_dict(as_series=False))
    asked = pd.DataFrame(odd().to_dict(as_series=False))
    return told(table(small_qms()).fit(frame, np.arange(150) % 3), asked)
