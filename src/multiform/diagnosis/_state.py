"""A fitted plan as plain values, and back; see `multiform.state`.

It holds what the evidence models were learnt from, too, so that a plan that was read can answer on evidence sets off
its own way.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from multiform.classifier import QMSClassifier
from multiform.columns import Encoding
from multiform.diagnosis._judge import RULES, Judge
from multiform.diagnosis._models import EvidenceModels
from multiform.diagnosis._plan import Plan
from multiform.diagnosis._planning import FrontierPoint
from multiform.diagnosis._search import SearchProof
from multiform.diagnosis._tariff import Tariff
from multiform.separators import Scaling, Separators
from multiform.state import (
    fitted_state,
    require,
    require_array,
    require_classes,
    require_features,
    require_names,
    require_numbers,
)

if TYPE_CHECKING:
    from multiform.diagnosis._planner import DiagnosisPlanner

FIGURES = ("theta_", "full_accuracy_", "level_", "expected_cost_", "stopped_at_once_")
SAME = ("classes_", "n_features_in_", "feature_names_in_", *FIGURES, "remaining_costs_", "traffic_")
RECORDS = ("tariff_", "encoding_", "plan_", "certificate_", "frontier_", "judge_")
DERIVED = ("order_", "panel_cost_")
JUDGE = ("rule", "common", "full", "sets", "trusts", "rows", "target", "fold", "estimator", "betas", "seed", "models")


def planner_state(planner: DiagnosisPlanner) -> dict[str, Any]:
    """The fitted state of a planner as plain values."""
    state = fitted_state(planner, [*SAME, *RECORDS, *DERIVED])
    if "plan_" not in state:
        return {}
    judge, models = planner.judge_, planner.judge_.models
    plain = {name: getattr(models, name) for name in ("rows", "target", "fold", "estimator", "betas", "seed")}
    plain |= {"rule": judge.rule, "common": judge.common, "full": judge.full}
    plain |= {"sets": list(judge.trusts), "trusts": np.stack(list(judge.trusts.values()))}
    plain["models"] = {"nominal": [], "held back": []}
    for kind, found in plain["models"].items():
        for tests, made in models.fitted[kind].items():
            found.append([tests, [one.as_plain() if isinstance(one, Separators) else one for one in made]])
    return {
        **{name: state[name] for name in SAME},
        **{name: asdict(state[name]) for name in ("tariff_", "plan_", "certificate_")},
        "encoding_": planner.encoding_.state(),
        "frontier_": [asdict(point) for point in planner.frontier_],
        "judge_": plain,
    }


def read_planner_state(state: dict[str, Any], n_jobs: int | None) -> dict[str, Any]:
    """The fitted attributes of a planner; ValueError where plan, records and models are not of the same tests."""
    require_names(state, "DiagnosisPlanner", [*SAME, *RECORDS])
    m, _ = require_classes(state["classes_"]), require_features(state)
    require_numbers([state[name] for name in FIGURES], "a figure of the plan")
    require(state["level_"] >= 0, "level_ is wrong")
    tariff, encoding = Tariff(**_tuples(state["tariff_"])), Encoding.from_state(state["encoding_"])
    _check_tests(tariff, encoding, state["feature_names_in_"])
    plan = Plan(**_tuples(state["plan_"]))
    _check_plan(plan, m, tariff)
    for name, width in (("remaining_costs_", m), ("traffic_", m + 1)):
        require(len(state[name]) == len(plan), f"{name} is of another plan")
        for row in state[name]:
            require_numbers(row, name)
            require(len(row) == width, f"{name} is of other classes")
    return {
        **{name: state[name] for name in SAME},
        "tariff_": tariff,
        "encoding_": encoding,
        "plan_": plan,
        "certificate_": SearchProof(**state["certificate_"]),
        "frontier_": [FrontierPoint(**_tuples(point)) for point in state["frontier_"]],
        "order_": [tariff.tests[t] for t in plan.order],
        "panel_cost_": tariff.panel_cost,
        "judge_": _judge(state["judge_"], m, tariff.everything, encoding.column_owner, n_jobs),
    }


def _tuples(value: Any) -> Any:
    """The fields of a record, all lists as tuples."""
    if isinstance(value, dict):
        return {name: _tuples(one) for name, one in value.items()}
    return tuple(_tuples(one) for one in value) if isinstance(value, list | tuple) else value


def _check_tests(tariff: Tariff, encoding: Encoding, names: Any) -> None:
    lengths = {len(part) for part in (tariff.prices, tariff.discounted, tariff.groups, tariff.required)}
    require(lengths == {len(tariff)} and len(tariff), "the tariff is wrong")
    sets = (tariff.known, *tariff.required)
    require(all(0 <= one <= tariff.everything for one in sets), "the tariff knows a test that there is not")
    tariff.checked()
    owned = all(0 <= t < len(tariff) for t in encoding.owner)
    require(owned, "a feature belongs to a test that there is not")
    require(list(names) == [code.name for code in encoding.codes], "feature_names_in_ are not those of the encoding")


def _check_plan(plan: Plan, n_classes: int, tariff: Tariff) -> None:
    """Nodes lead to later nodes only, so that a walk ends."""
    require(len(plan.tests) == len(plan.held) == len(plan.following), "the plan has parts of several lengths")
    require(all(0 <= held <= tariff.everything for held in plan.held), "the plan holds a test that there is not")
    for node, (test, after) in enumerate(zip(plan.tests, plan.following, strict=True)):
        require(0 <= test < len(tariff) and len(after) == n_classes, "the plan buys a test that there is not")
        require(all(one == -1 or node < one < len(plan) for one in after), "the plan goes in circles")


def _judge(state: dict[str, Any], m: int, everything: int, column_owner: Any, n_jobs: int | None) -> Judge:
    """The records, and the models of every evidence set."""
    require_names(state, "judge_", JUDGE)
    rows = require_array(state["rows"], (None, len(column_owner)), "f", "rows")
    n, how = len(rows), state["estimator"]
    require(n > 0 and rows.dtype == np.float32 and rows.flags.c_contiguous, "rows have the wrong type")
    for name, most in (("target", m), ("fold", n)):
        whole = require_array(state[name], (n,), "i", name)
        require(whole.min() >= 0 and whole.max() < most, f"{name} is out of range")
    require(state["target"].dtype == np.int32, "target has the wrong type")
    require_numbers([state["common"], *state["betas"]], "a figure of the evidence models")
    if type(how) is QMSClassifier:
        how._validate_params()
        decided = all(isinstance(value, int) for value in (how.n_components, how.max_iter, how.batch_size))
        require(decided, "a parameter of the evidence models is not decided")
    about = rows, state["target"], state["fold"], column_owner, m
    models = EvidenceModels(*about, how, tuple(state["betas"]), state["seed"], n_jobs)
    scaling = Scaling.identity(len(column_owner))
    for kind, per_set in (("nominal", 1), ("held back", len(models.betas) * m)):
        for tests, made in require_names(state["models"], "models", ["nominal", "held back"])[kind]:
            require(0 < tests <= everything, "an evidence set has a test that there is not")
            require(len(made) == per_set, "an evidence set has no model")
            models.fitted[kind][tests] = [_model(one, models, tests, scaling) for one in made]
    require(models.fitted["held back"].keys() <= models.fitted["nominal"].keys(), "a nominal model is missing")
    full = require_array(state["full"], (n, m), "f", "full")
    trusts = require_array(state["trusts"], (len(state["sets"]), 4 + m), "f", "trusts")
    require(all(0 <= tests <= everything for tests in state["sets"]), "a trusted set has a test that there is not")
    require(state["rule"] in RULES, "there is no such stopping rule")
    trusted = dict(zip(state["sets"], trusts, strict=True))
    return Judge(models, state["rule"], everything, state["common"], full, trusts=trusted)


def _model(state: Any, models: EvidenceModels, tests: int, scaling: Scaling) -> Any:
    """The separators of all folds on the columns of the set, or a fitted classifier per fold."""
    if type(models.estimator) is not QMSClassifier:
        require(len(state) == models.n_folds, "there is not a classifier for each fold")
        return state
    found = Separators.from_plain(state, scaling, models.n_classes)
    own = found.columns is not None and np.array_equal(found.columns, models.columns(tests))
    require(own, "separators read the columns of another set")
    require(found.n_members == models.n_folds, "there is not a model for each fold")
    return found
