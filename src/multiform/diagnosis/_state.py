"""A fitted plan as plain values, and back; see `multiform.state`.

Of the evidence models it holds what they were learnt from, too, so that a plan that was read can answer on evidence
sets off its own way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from multiform.classifier import QMSClassifier
from multiform.diagnosis._encoding import Encoding, FeatureCode
from multiform.diagnosis._judge import RULES, Judge
from multiform.diagnosis._level import FrontierPoint
from multiform.diagnosis._models import EvidenceModels
from multiform.diagnosis._plan import Plan
from multiform.diagnosis._search import SearchProof
from multiform.diagnosis._tariff import Tariff
from multiform.state import require, require_array, require_classes, require_features

if TYPE_CHECKING:
    from multiform.diagnosis._planner import DiagnosisPlanner

__all__ = ["planner_state", "read_planner_state"]

SAME = (
    *("classes_", "n_features_in_", "feature_names_in_", "theta_", "full_accuracy_", "level_"),
    *("expected_cost_", "remaining_costs_", "traffic_", "stopped_at_once_"),
)


def planner_state(planner: DiagnosisPlanner) -> dict[str, Any]:
    """The fitted state of a planner as plain values."""
    judge, models = planner.judge_, planner.judge_.models
    return {
        **{name: getattr(planner, name) for name in SAME},
        "tariff": asdict(planner.tariff_),
        "encoding": _encoding_state(planner.encoding_),
        "plan": asdict(planner.plan_),
        "certificate": asdict(planner.certificate_),
        "frontier": [asdict(point) for point in planner.frontier_],
        "rule": judge.rule,
        "common_sharpness": judge.common,
        "full_chances": judge.full,
        "trusted_sets": list(judge.trusts),
        "trusts": np.stack(list(judge.trusts.values())),
        "rows": models.rows,
        "target": models.target,
        "fold": models.fold,
        "estimator": models.estimator,
        "betas": models.betas,
        "seed": models.seed,
        "modelled_sets": models.sets,
        "nominal_models": list(models.nominal.values()),
        "altered_models": [models.altered.get(one) for one in models.sets],
    }


def read_planner_state(state: dict[str, Any], n_jobs: int | None) -> dict[str, Any]:
    """The fitted attributes of a planner; ValueError where plan, records and models are not of the same tests."""
    try:
        return _read(state, n_jobs)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise ValueError(f"the state of a plan is incomplete or of the wrong kind: {error!r}") from error


def _read(state: dict[str, Any], n_jobs: int | None) -> dict[str, Any]:
    m = require_classes(state["classes_"])
    require_features(state)
    require(state["level_"] >= 0, "level_ is wrong")
    tariff = _tariff(state["tariff"])
    encoding = _encoding(state["encoding"], len(tariff))
    names = [code.name for code in encoding.codes]
    require(list(state["feature_names_in_"]) == names, "feature_names_in_ are not those of the encoding")
    plan = _plan(state["plan"], m, tariff)
    judge = _judge(state, m, tariff, encoding, n_jobs)
    for name in ("remaining_costs_", "traffic_"):
        require(len(state[name]) == len(plan), f"{name} is not of the plan")
    return {
        **{name: state[name] for name in SAME},
        "tariff_": tariff,
        "encoding_": encoding,
        "plan_": plan,
        "certificate_": SearchProof(**state["certificate"]),
        "frontier_": [FrontierPoint(**{**point, "order": tuple(point["order"])}) for point in state["frontier"]],
        "order_": [tariff.tests[t] for t in plan.order],
        "panel_cost_": tariff.panel_cost,
        "judge_": judge,
    }


def _tuples(parts: dict[str, Any]) -> dict[str, Any]:
    """The fields of a record, its lists as tuples."""
    return {name: tuple(value) if isinstance(value, list | tuple) else value for name, value in parts.items()}


def _encoding_state(encoding: Encoding) -> dict[str, Any]:
    return {"codes": [asdict(code) for code in encoding.codes], "owner": encoding.owner}


def _encoding(parts: dict[str, Any], n_tests: int) -> Encoding:
    codes = tuple(FeatureCode(**_tuples(code)) for code in parts["codes"])
    encoding = Encoding(codes, tuple(parts["owner"]))
    require(len(codes) == len(encoding.owner), "the encoding has parts of several lengths")
    require(all(0 <= t < n_tests for t in encoding.owner), "a feature belongs to a test that there is not")
    require(all(len(code.center) == len(code.scale) == code.width for code in codes), "the encoding is wrong")
    return encoding


def _tariff(parts: dict[str, Any]) -> Tariff:
    tariff = Tariff(**_tuples(parts))
    lengths = {len(part) for part in (tariff.prices, tariff.discounted, tariff.groups, tariff.required)}
    require(lengths == {len(tariff)} and len(tariff), "the tariff is wrong")
    sets = (tariff.known, *tariff.required)
    require(all(0 <= one <= tariff.everything for one in sets), "the tariff knows a test that there is not")
    return tariff.checked()


def _plan(parts: dict[str, Any], n_classes: int, tariff: Tariff) -> Plan:
    """Nodes lead to later nodes only, so that a walk ends."""
    plan = Plan(tuple(parts["tests"]), tuple(parts["held"]), tuple(tuple(one) for one in parts["following"]))
    require(len(plan.tests) == len(plan.held) == len(plan.following), "the plan has parts of several lengths")
    require(all(0 <= held <= tariff.everything for held in plan.held), "the plan holds a test that there is not")
    for node, (test, after) in enumerate(zip(plan.tests, plan.following, strict=True)):
        require(0 <= test < len(tariff) and len(after) == n_classes, "the plan buys a test that there is not")
        require(all(one == -1 or node < one < len(plan) for one in after), "the plan goes in circles")
    return plan


def _judge(state: dict[str, Any], m: int, tariff: Tariff, encoding: Encoding, n_jobs: int | None) -> Judge:
    owner = encoding.column_owner
    rows = require_array(state["rows"], (None, len(owner)), "f", "rows")
    n = len(rows)
    require(n > 0 and rows.dtype == np.float32 and rows.flags.c_contiguous, "rows have the wrong type")
    for name, most in (("target", m), ("fold", n)):
        whole = require_array(state[name], (n,), "i", name)
        require(whole.min() >= 0 and whole.max() < most, f"{name} is out of range")
    require(state["target"].dtype == np.int32, "target has the wrong type")
    require(state["rule"] in RULES, "there is no such stopping rule")
    how = state["estimator"]
    if type(how) is QMSClassifier:
        how._validate_params()
        decided = all(isinstance(value, int) for value in (how.n_components, how.max_iter, how.batch_size))
        require(decided, "a parameter of the evidence models is not decided")
    about = rows, state["target"], state["fold"], owner, m
    models = EvidenceModels(*about, how, tuple(state["betas"]), state["seed"], n_jobs)

    for sets in (state["modelled_sets"], state["trusted_sets"]):
        require(all(0 <= one <= tariff.everything for one in sets), "an evidence set has a test that there is not")
    kinds = (state["modelled_sets"], state["nominal_models"], state["altered_models"])
    for tests, nominal, altered in zip(*kinds, strict=True):
        for one in (nominal, *(() if altered is None else altered)):
            _require_model(one, models, tests)
        models.nominal[tests] = nominal
        if altered is not None:
            require(len(altered) == len(models.betas) * m, "an altered model is missing")
            models.altered[tests] = list(altered)
    full = require_array(state["full_chances"], (n, m), "f", "full_chances")
    trusts = require_array(state["trusts"], (len(state["trusted_sets"]), 4 + m), "f", "trusts")
    trusted = dict(zip(state["trusted_sets"], trusts, strict=True))
    return Judge(models, state["rule"], tariff.everything, state["common_sharpness"], full, trusts=trusted)


def _require_model(model: Any, models: EvidenceModels, tests: int) -> None:
    """The separators of all folds on the columns of the set, or a fitted classifier per fold."""
    if type(models.estimator) is QMSClassifier:
        shape = (models.n_folds * models.n_classes, None, len(models.columns(tests)) + 1)
        stacked = require_array(model, shape, "f", "separators")
        require(stacked.shape[1] > 0, "a separator has no rows")
        require(stacked.dtype == np.float32 and stacked.flags.c_contiguous, "separators have the wrong type")
    else:
        fitted = isinstance(model, Iterable) and len(list(model)) == models.n_folds
        require(fitted, "there is not a classifier for each fold")
