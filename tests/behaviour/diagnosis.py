"""DiagnosisPlanner: policies, searches, stopping rules, and a session at the bedside."""

import json
import warnings
from functools import partial

import numpy as np
from sklearn.naive_bayes import GaussianNB

from multiform import DiagnosisPlanner, QMSClassifier
from multiform.columns import UnfamiliarWarning
from multiform.datasets import load_heart_disease
from multiform.diagnosis import DiagnosisSession
from tests.behaviour.registry import add, case, needing

COSTS = {"talk": 1.0, "blood": 20.0, "sugar": 15.0, "scan": 100.0}
DISCOUNTS = {"needle": {"blood": 14.0, "sugar": 9.0}}
QMS = QMSClassifier(n_components=2, max_iter=8, noise=1.0, learning_rate=0.2)


def patients(n=160, n_classes=2, gaps=True):
    """Talk says something, blood and sugar more, scan nearly all; some results are missing."""
    random = np.random.default_rng(12)
    y = np.arange(n + 20) % n_classes
    spreads = (0.8, 0.7, 0.9, 0.35)
    X = np.column_stack([y + random.normal(0, spread, n + 20) for spread in spreads])
    if gaps:
        X[random.random(X.shape) < 0.06] = np.nan
    return X[:n], np.array(["healthy", "ill", "very ill"])[y[:n]], X[n:]


def planner(**settings):
    common = {"discounts": DISCOUNTS, "estimator": QMS, "cv": 3, "random_state": 0, "time_limit": 600.0}
    return DiagnosisPlanner(COSTS, **(common | settings))


def told(plan, asked):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnfamiliarWarning)  # of so few training patients, somebody is unlike them
        return answers(plan, asked)


def answers(plan, asked):
    bought = plan.acquire(asked)
    frontier = ("level", "cost", "cost_share", "loss", "loss_error", "accuracy")
    return {
        "order_": plan.order_,
        "theta_": plan.theta_,
        "level_": plan.level_,
        "full_accuracy_": plan.full_accuracy_,
        "plan_accuracy_": plan.plan_accuracy_,
        "expected_cost_": plan.expected_cost_,
        "panel_cost_": plan.panel_cost_,
        "classes_": plan.classes_,
        "certificate_": [plan.certificate_.optimal, plan.certificate_.cost, plan.certificate_.lower_bound],
        "stopped_at_once_": plan.stopped_at_once_,
        "traffic_": plan.traffic_,
        "remaining_costs_": plan.remaining_costs_,
        "predict": plan.predict(asked),
        "predict_proba": plan.predict_proba(asked),
        "predict_full": plan.predict_full(asked),
        "acquire cost": bought.cost,
        "acquire tests": [" ".join(tests) for tests in bought.tests],
        "acquire answer": bought.answer,
        "acquire chance": bought.chance,
        "acquire prices": bought.prices,
        "acquire cost_share": bought.cost_share,
    } | {f"frontier_ {name}": [getattr(point, name) for point in plan.frontier_] for name in frontier}


def fitted(settings, n_classes=2, gaps=True):
    X, y, asked = patients(n_classes=n_classes, gaps=gaps)
    return told(planner(**settings).fit(X, y), asked)


SETTINGS = {
    "fixed_exact": {"search": "exact"},
    "fixed_beam": {"search": "beam", "beam_width": 3, "tolerance": 0.02},
    # Their levels are given: among trees, rounding that differs between versions of NumPy can decide which is chosen.
    "adaptive_exact": {"policy": "adaptive", "search": "exact", "level": 0.05},
    "adaptive_beam": {"policy": "adaptive", "search": "beam", "beam_width": 3, "level": 0.04},
    "calibrated": {"stop": "calibrated", "tolerance": 0.03, "n_jobs": 2},
    "loyalty": {"stop": "loyalty", "beta": (0.1, 0.3), "tolerance": 0.15},
    "level_given": {"level": 0.05, "known": ["talk"], "requires": {"scan": ["blood"]}},
    "price_of_an_error": {"error_price": 0.0, "tolerance": 0.02},
    "default_estimator": {"estimator": None, "tolerance": 0.02},
    "naive_bayes": {"estimator": GaussianNB(), "tolerance": 0.06},
}
for name, settings in SETTINGS.items():
    add(f"diagnosis.{name}", partial(fitted, settings))
add("diagnosis.three_classes", partial(fitted, {"tolerance": 0.03}, n_classes=3, gaps=False))


@case
def many_tests():
    """Heart disease, 13 tests: a beam search looks at some of them only."""
    heart = load_heart_disease()
    X, y = heart.data[:150], heart.target[:150]
    plan = planner(discounts=heart.discounts, search="beam", beam_width=2, level=0.1)
    return told(plan.set_params(costs=heart.costs).fit(X, y), heart.data[150:166])


@needing("pandas")
def words_and_panels():
    """A data frame with a column of words, and a test that yields two results."""
    import pandas as pd

    X, y, asked = patients()

    def frame(values):
        colour = np.where(np.nan_to_num(values[:, 0]) > 0.5, "red", "blue")
        return pd.DataFrame({"talk": colour, "iron": values[:, 1], "salt": values[:, 2], "scan": values[:, 3]})

    plan = DiagnosisPlanner(
        {"talk": 1, "blood": 25, "scan": 100},
        features={"blood": ["iron", "salt"]},
        estimator=QMS,
        cv=3,
        tolerance=0.02,
        random_state=0,
    )
    return told(plan.fit(frame(X), y), frame(asked))


@case
def evaluated():
    X, y, _ = patients(n=200)
    found = planner(level=0.05, search="beam").evaluate(X, y, cv=2, frontier=False)
    figures = ("accuracy", "change", "change_error", "cost", "cost_error", "cost_share")
    plan = {"plan": [getattr(found.plan, name) for name in figures]}
    return plan | {"theta": found.theta, "full_accuracy": found.full_accuracy, "orders": found.orders}


def standing(session):
    """Where a session stands."""
    following = session.next_evidence
    return {
        "diagnosis": str(session.diagnosis),
        "chances": list(session.chances.values()),
        "loyalty": session.loyalty,
        "finished": session.finished,
        "spent": session.spent,
        "remaining": session.expected_remaining_cost,
        "next": "" if following is None else following.name,
        "next cost": 0.0 if following is None else following.cost,
        "unavailable": " ".join(session.unavailable_tests),
    }


@case
def session():
    X, y, _ = patients()
    plan = planner(level=0.01).fit(X, y)
    one = plan.start()
    events = [
        lambda one: one,
        lambda one: one.observe("talk", 0.45),
        lambda one: one.not_available("blood"),
        lambda one: one.observe("sugar", None),
        lambda one: one.undo(),
        lambda one: one.undo(),
        lambda one: one.observe("sugar", 0.6),
        lambda one: DiagnosisSession.from_json(plan, one.to_json()),
        lambda one: one.observe("blood", 0.4),
        lambda one: one.observe("scan", 0.9),
    ]
    stations = []
    for event in events:
        one = event(one)
        stations.append(standing(one))
    happened = json.loads(one.to_json())["events"]
    return {name: [station[name] for station in stations] for name in stations[0]} | {"events": len(happened)}
