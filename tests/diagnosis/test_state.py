"""A fitted plan as plain values, and back."""

import copy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

from multiform import DiagnosisPlanner, QMSClassifier, load
from multiform.diagnosis._judge import MEMORY
from tests.diagnosis.worlds import COSTS, gated, patients

DISCOUNTS = {"lab": {"blood": 15.0, "scan": 60.0}}


def words(n):
    """Patients of three classes with words, numbers and missing results."""
    X, y = patients(n)
    frame = pd.DataFrame(X, columns=list(COSTS))
    frame["talk"] = np.select([X[:, 0] < 0.3, X[:, 0] < 0.7], ["well", "so-so"], "bad")
    frame.loc[::5, "blood"] = np.nan
    return frame, np.where(y == 0, "none", np.where(X[:, 3] > 0, "flu", "cold"))


PLANNERS = {
    "regret": (DiagnosisPlanner(COSTS, discounts=DISCOUNTS, cv=3, level=0.01, random_state=0), patients(200)),
    "words": (DiagnosisPlanner(COSTS, requires={"noise": "talk"}, cv=3, level=0.02, random_state=0), words(200)),
    "loyalty": (DiagnosisPlanner(COSTS, stop="loyalty", beta=(0.1, 0.3), cv=3, level=0.3), patients(200)),
    "tree": (
        DiagnosisPlanner(dict.fromkeys("abc", 9.0), policy="adaptive", known=["a"], cv=3, level=0.01, random_state=0),
        gated(300),
    ),
    "any classifier": (
        DiagnosisPlanner(COSTS, estimator=LogisticRegression(), search="beam", cv=3, level=0.01, random_state=0),
        patients(200),
    ),
    "own settings": (
        DiagnosisPlanner(COSTS, estimator=QMSClassifier(3, noise=0.7), cv=3, level=0.01, random_state=0),
        patients(200),
    ),
}


FIRST = ["judge_", "models", "nominal", 0, 1, 0]  # the separators of the first set
MASKED = ["judge_", "classifier", "masked"]
OLD_PLAN = Path(__file__).parents[1] / "files" / "golden" / "0.1.0" / "plan.mfm"


def plain(value):
    """Fresh copies of plain values and estimators; anything else is none of a state's business."""
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        return value
    if isinstance(value, list | tuple):
        return type(value)(plain(one) for one in value)
    if isinstance(value, dict):
        assert all(isinstance(key, str) for key in value)
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray):
        return value.copy()
    assert isinstance(value, BaseEstimator), type(value)
    return copy.deepcopy(value)


@pytest.fixture(scope="module", params=list(PLANNERS))
def fitted(request):
    planner, (X, y) = PLANNERS[request.param]
    return planner.fit(X, y), X


@pytest.fixture(scope="module")
def older():
    """Of a plan of version 0.1.0, which has a model for each set, and the records."""
    return load(OLD_PLAN)._get_state()


@pytest.fixture(scope="module")
def state():
    planner, (X, y) = PLANNERS["regret"]
    return planner.fit(X, y)._get_state()


def test_a_plan_read_is_the_plan_written(fitted):
    planner, X = fitted
    again = DiagnosisPlanner(**planner.get_params(deep=False))
    again._set_state(plain(planner._get_state()))
    assert {name for name in vars(planner) if name.endswith("_")} == {
        name for name in vars(again) if name.endswith("_")
    }
    np.testing.assert_array_equal(again.predict_proba(X), planner.predict_proba(X))
    np.testing.assert_array_equal(again.predict_full(X), planner.predict_full(X))
    first, second = planner.acquire(X), again.acquire(X)
    np.testing.assert_array_equal(first.prices, second.prices)
    assert (first.tests, first.panel_cost) == (second.tests, second.panel_cost)
    assert again.flow_chart() == planner.flow_chart()
    for name in ("order_", "plan_", "certificate_", "frontier_", "tariff_", "theta_", "remaining_costs_"):
        assert getattr(again, name) == getattr(planner, name)


def test_a_plan_read_learns_what_is_off_its_way(fitted):
    """On a copy, so that neither has the other's models."""
    planner, _ = fitted
    last = planner.order_[-1]
    again = DiagnosisPlanner(**planner.get_params(deep=False))
    again._set_state(plain(planner._get_state()))
    sessions = [one.start().observe(last, 1.0) for one in (copy.deepcopy(planner), again)]
    assert str(sessions[0]) == str(sessions[1])
    assert sessions[0].loyalty == sessions[1].loyalty
    assert sessions[0].chances == sessions[1].chances


def test_a_tariff_of_the_first_version_is_read(state):
    older = plain(state)
    older["tariff_"]["groups"] = older["tariff_"].pop("discounts")
    planner = DiagnosisPlanner(COSTS)
    planner._set_state(older)
    assert planner.tariff_.discounts == (None, "lab", "lab", None)


def test_nothing_is_written_before_fit():
    assert DiagnosisPlanner(COSTS)._get_state() == {}


def changed(state, path, value):
    """A state with another value in one place."""
    whole = plain(state)
    part = whole
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value(part[path[-1]]) if callable(value) else value
    return whole


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["level_"], -1.0, "level_ is wrong"),
        (["classes_"], lambda old: old[::-1].copy(), "classes_ are not sorted"),
        (["plan_", "tests"], lambda old: (*old[:-1], 99), "buys a test that there is not"),
        (["plan_", "held"], lambda old: old[:-1], "parts of several lengths"),
        (["plan_", "held"], lambda old: (*old[:-1], 99), "holds a test that there is not"),
        (["plan_", "following"], lambda old: ((0,), *old[1:]), "goes in circles"),
        (["plan_", "following"], lambda old: ((1, 1), *old[1:]), "a way leads nowhere"),
        (["plan_", "ways"], lambda old: (((99, -1e6, 0.0),), *old[1:]), "a way leads nowhere"),
        (["missing_"], "perhaps", "missing_ is unknown"),
        (["tariff_", "prices"], lambda old: old[:-1], "the tariff is wrong"),
        (["tariff_", "known"], 1 << 9, "the tariff knows a test that there is not"),
        (["encoding_", "owner"], lambda old: (*old[:-1], 7), "belongs to a test that there is not"),
        (["encoding_", "center"], lambda old: old[:0], "center of the encoding has the wrong shape"),
        (["encoding_", "scale"], lambda old: -old, "the scaling of the encoding is wrong"),
        (["feature_names_in_"], lambda old: old[::-1].copy(), "are not those of the encoding"),
        (["judge_", "trusts"], lambda old: old[1:], "trusts has the wrong shape"),
        (["judge_", "sets"], lambda old: [*old[:-1], 1 << 9], "a trusted set has a test that there is not"),
        (["judge_", "trusts"], lambda old: old[:, 1:-1], "trusts have the wrong shape"),
        (["judge_", "rule"], "mood", "no such stopping rule"),
        ([*MASKED, "components"], lambda old: old[:, :, :, 1:].copy(), "components has the wrong shape"),
        ([*MASKED, "components"], lambda old: old.astype(np.float64), "member functions have the wrong type"),
        ([*MASKED, "components"], lambda old: np.full_like(old, np.inf), "is not finite, or too large"),
        ([*MASKED, "energy"], lambda old: -1 - old, "what noise adds"),
        (["judge_", "classifier", "share"], 2.0, "the mixture of the masked models is wrong"),
        (["judge_", "classifier", "prior"], lambda old: old + 9, "holds no chances"),
        (["judge_", "classifier", "altered"], {}, "an altered model is missing"),
        (["traffic_"], lambda old: old[1:], "traffic_ is of another plan"),
        (["certificate_"], {"optimal": True}, "missing 3 required"),
        (["plan_"], None, "must be a mapping"),
    ],
)
def test_parts_that_do_not_fit_each_other_are_refused(state, path, value, message):
    planner = DiagnosisPlanner(COSTS)
    with pytest.raises((TypeError, ValueError), match=message):  # files make one sentence of it
        planner._set_state(changed(state, path, value))
    assert not hasattr(planner, "plan_")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["judge_", "rows"], lambda old: old[:, 1:].copy(), "rows has the wrong shape"),
        (["judge_", "rows"], lambda old: old.astype(np.float64), "rows have the wrong type"),
        (["judge_", "target"], lambda old: old + 1, "target is out of range"),
        (["judge_", "fold"], lambda old: old - 1, "fold is out of range"),
        (["judge_", "full"], lambda old: old[1:], "full has the wrong shape"),
        (["judge_", "models", "nominal", 0, 0], 1 << 9, "an evidence set has a test that there is not"),
        (["judge_", "models", "nominal", 0, 1], [], "an evidence set has no model"),
        ([*FIRST, "coefficients"], lambda old: old[:, :, 1:].copy(), "separators has the wrong shape"),
        ([*FIRST, "coefficients"], lambda old: old.astype(np.float64), "separators has the wrong type"),
        ([*FIRST, "coefficients"], lambda old: old[:3].copy(), "noise has the wrong shape"),
        ([*FIRST, "columns"], lambda old: old + 1, "the columns of another set"),
        (["judge_", "models", "held back"], [[1, []]], "an evidence set has no model"),
        (["judge_", "estimator"], lambda old: old.set_params(n_components=-1), "'n_components' parameter"),
        (["judge_", "estimator"], lambda old: old.set_params(max_iter="auto"), "is not decided"),
    ],
)
def test_parts_of_an_older_plan_that_do_not_fit_are_refused(older, path, value, message):
    planner = DiagnosisPlanner(COSTS)
    with pytest.raises((TypeError, ValueError), match=message):
        planner._set_state(changed(older, path, value))
    assert not hasattr(planner, "plan_")


def test_a_part_of_the_judge_that_is_missing_is_refused(state):
    # Without the classifier it is read as one of 0.1.0, and what older files do not have is not missed.
    for name in {*state["judge_"]} - {"classifier", "memory"}:
        judge = {key: value for key, value in state["judge_"].items() if key != name}
        with pytest.raises(ValueError, match=f"judge_ lacks '{name}'"):
            DiagnosisPlanner(COSTS)._set_state({**state, "judge_": judge})


def test_a_plan_of_an_older_file_forgets(state):
    """Its level was chosen for doubts that know nothing of those before."""
    older = {key: value for key, value in state["judge_"].items() if key != "memory"}
    for judge, memory in ((state["judge_"], MEMORY), (older, 0.0)):
        planner = DiagnosisPlanner(COSTS)
        planner._set_state({**state, "judge_": judge})
        assert planner.judge_.memory == memory
