"""Small models of every kind, for pages: quick to fit, with everything that a page must show."""

from functools import cache

import numpy as np
import pandas as pd
import polars as pl
from sklearn.ensemble import RandomForestClassifier

from multiform import DiagnosisPlanner, LoyaltyClassifier, QMSClassifier, QMSClassifierCV, TriageClassifier
from multiform.tables import TableClassifier

N = 400


@cache
def patients():
    """A table of patients with numbers, a category, a date, gaps, and whether they are ill."""
    rng = np.random.default_rng(0)
    ill = rng.random(N) < 0.5
    age = np.round(rng.normal(50 + 12 * ill, 9)).clip(20, 90)
    pressure = np.round(rng.normal(120 + 18 * ill, 14)).clip(80, 220)
    sugar = np.round(rng.normal(5 + 1.6 * ill, 0.9), 1).clip(3, 15)
    pain = np.where(rng.random(N) < np.where(ill, 0.75, 0.2), "yes", rng.choice(["no", "sometimes"], N))
    days = np.datetime64("2024-01-01") + rng.integers(0, 600, N)
    return pl.DataFrame(
        {
            "age (years)": age,
            "pain": pain,
            "pressure (mmHg)": pl.Series(pressure).set(pl.Series(rng.random(N) < 0.1), None),
            "sugar (mmol/l)": sugar,
            "examined": [str(day) for day in days],
            "state": np.where(ill, "ill", "healthy"),
        }
    )


@cache
def plan():
    """A plan of four tests, one known at the start, one of two features."""
    table = patients()
    columns = {"age": "age (years)", "pain": "pain", "pressure": "pressure (mmHg)", "sugar": "sugar (mmol/l)"}
    X = pd.DataFrame({name: table[column].to_numpy() for name, column in columns.items()})
    costs = {"age": 1, "pain": 2.5, "blood": 40, "pressure": 10}
    features = {"blood": ["sugar", "fat"]}
    X["fat"] = np.random.default_rng(1).normal(3 + 0.8 * (table["state"] == "ill").to_numpy(), 0.8).round(1)
    planner = DiagnosisPlanner(costs, features=features, known=["age"], search="beam", beam_width=2, random_state=0)
    return planner.fit(X, table["state"].to_numpy())


@cache
def table_model():
    """A classifier with loyalty types behind a table."""
    return TableClassifier(LoyaltyClassifier(cv=2, random_state=0)).fit(patients(), "state")


@cache
def triage_model():
    """A classifier with a promise behind a table."""
    triage = TriageClassifier(
        LoyaltyClassifier(cv=2, random_state=0), target_accuracy=0.85, calibration_fraction=0.5, random_state=0
    )
    return TableClassifier(triage).fit(patients(), "state")


@cache
def plain_model():
    """A classifier without a table around it."""
    X = patients().select("age (years)", "sugar (mmol/l)").to_pandas()
    return QMSClassifier(random_state=0).fit(X, patients()["state"].to_numpy())


def _ensemble(columns, wrapped=lambda model: model, **options):
    """A `QMSClassifierCV` without a table around it, of a frame of these columns."""
    options = {"noise": (0.3, 1.0), "encodings": ("plain", "enriched"), "cv": 3, "random_state": 0} | options
    X = patients().select(columns).to_pandas()
    return wrapped(QMSClassifierCV(**options)).fit(X, patients()["state"].to_numpy())


NUMBERS = ["age (years)", "sugar (mmol/l)"]


@cache
def ensemble(kind):
    """Ensembles of every kind."""
    if kind == "plain":
        return _ensemble(NUMBERS)
    if kind == "gaps":
        return _ensemble([*NUMBERS, "pressure (mmHg)"])
    if kind == "refuses gaps":
        return _ensemble(NUMBERS, missing="refuse")
    if kind == "words":
        return _ensemble([*NUMBERS, "pain", "pressure (mmHg)"])
    if kind == "partners":
        return _ensemble([*NUMBERS, "pain"], partners=[RandomForestClassifier(5, random_state=0)])
    if kind == "codes":
        X = patients().select(NUMBERS).to_numpy()
        pain = patients()["pain"].replace_strict({"no": 0, "sometimes": 1, "yes": 2}).to_numpy()
        model = QMSClassifierCV((0.3,), cv=3, categorical_features=[1], random_state=0)
        return model.fit(np.column_stack([X[:, 0], pain, X[:, 1]]), patients()["state"].to_numpy())
    wrappers = {
        "loyalty": lambda model: LoyaltyClassifier(model, cv=2),
        "triage": lambda model: TriageClassifier(model, target_accuracy=0.85, random_state=0),
    }
    return _ensemble([*NUMBERS, "pain"], wrappers[kind], encodings=("plain",), noise=(0.3,))


EVIL = "<script>window.fooled = true</script>"


@cache
def hostile_model():
    """A classifier whose every word would rather be a programme."""
    rng = np.random.default_rng(0)
    names = [EVIL, '"><img src=x onerror="window.fooled = true">', "wide" * 60, "\x1b[31m\u202e"]
    frame = {name: rng.normal(size=120) for name in names[:3]}
    frame[names[3]] = rng.choice([EVIL, "{{ 7 * 7 }}", "' onfocus=alert(1) autofocus='"], 120)
    labels = np.where(frame[names[0]] > 0, EVIL, "</title></svg>" + EVIL)
    return TableClassifier(LoyaltyClassifier(cv=2, random_state=0)).fit(pl.DataFrame(frame), labels)
