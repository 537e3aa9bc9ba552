"""A fitted plan as plain values, and back; see `multiform.state`.

It holds what the evidence models were learnt from, too, so that a plan that was read can answer on evidence sets off
its own way.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from multiform.classifier import QMSClassifier
from multiform.diagnosis._encoding import Encoding, FeatureCode
from multiform.diagnosis._judge import RULES, Judge
from multiform.diagnosis._models import EvidenceModels
from multiform.diagnosis._plan import Plan
from multiform.diagnosis._planning import FrontierPoint
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
        "nominal_models": [models.fitted["nominal"][one][0] for one in models.sets],
        "altered_models": [models.fitted["held back"].get(one) for one in models.sets],
    }


def read_planner_state(state: dict[str, Any], n_jobs: int | None) -> dict[str, Any]:
    """The fitted attributes of a planner; ValueError where plan, records and models are not of the same tests."""
    try:
        m = require_classes(state["classes_"])
        require_features(state)
        require(state["level_"] >= 0, "level_ is wrong")
        tariff, encoding = Tariff(**_tuples(state["tariff"])), _encoding(state["encoding"])
        _check_tests(tariff, encoding, state["feature_names_in_"])
        plan = Plan(**_tuples(state["plan"]))
        _check_plan(plan, m, tariff)
        for name in ("remaining_costs_", "traffic_"):
            require(len(state[name]) == len(plan), f"{name} is not of the plan")
        return {
            **{name: state[name] for name in SAME},
            "tariff_": tariff,
            "encoding_": encoding,
            "plan_": plan,
            "certificate_": SearchProof(**state["certificate"]),
            "frontier_": [FrontierPoint(**_tuples(point)) for point in state["frontier"]],
            "order_": [tariff.tests[t] for t in plan.order],
            "panel_cost_": tariff.panel_cost,
            "judge_": _judge(state, m, tariff.everything, encoding.column_owner, n_jobs),
        }
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise ValueError(f"the state of a plan is incomplete or of the wrong kind: {error!r}") from error


def _tuples(value: Any) -> Any:
    """The fields of a record, all lists as tuples."""
    if isinstance(value, dict):
        return {name: _tuples(one) for name, one in value.items()}
    return tuple(_tuples(one) for one in value) if isinstance(value, list | tuple) else value


def _encoding_state(encoding: Encoding) -> dict[str, Any]:
    return asdict(encoding)


def _encoding(state: dict[str, Any]) -> Encoding:
    codes = tuple(FeatureCode(**code) for code in _tuples(state["codes"]))
    require(all(len(code.center) == len(code.scale) == code.width for code in codes), "the encoding is wrong")
    require(len(codes) == len(state["owner"]), "the encoding has parts of several lengths")
    return Encoding(codes, tuple(state["owner"]))


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
    """The records, and the separators (or the fitted classifiers of all folds) of every evidence set."""
    rows = require_array(state["rows"], (None, len(column_owner)), "f", "rows")
    n, how = len(rows), state["estimator"]
    require(n > 0 and rows.dtype == np.float32 and rows.flags.c_contiguous, "rows have the wrong type")
    for name, most in (("target", m), ("fold", n)):
        whole = require_array(state[name], (n,), "i", name)
        require(whole.min() >= 0 and whole.max() < most, f"{name} is out of range")
    require(state["target"].dtype == np.int32, "target has the wrong type")
    about = rows, state["target"], state["fold"], column_owner, m
    models = EvidenceModels(*about, how, tuple(state["betas"]), state["seed"], n_jobs)
    separate = type(how) is QMSClassifier
    if separate:
        how._validate_params()
        decided = all(isinstance(value, int) for value in (how.n_components, how.max_iter, how.batch_size))
        require(decided, "a parameter of the evidence models is not decided")

    sets = state["modelled_sets"], state["nominal_models"], state["altered_models"]
    require(len({len(part) for part in sets}) == 1, "an evidence set has no model")
    for tests in (*state["modelled_sets"], *state["trusted_sets"]):
        require(0 <= tests <= everything, "an evidence set has a test that there is not")
    for tests, nominal, altered in zip(*sets, strict=True):
        require(altered is None or len(altered) == len(models.betas) * m, "an altered model is missing")
        for one in (nominal, *(altered or ())):
            if separate:
                shape = (models.n_folds * m, None, len(models.columns(tests)) + 1)
                require(require_array(one, shape, "f", "separators").shape[1] > 0, "a separator has no rows")
                require(one.dtype == np.float32 and one.flags.c_contiguous, "separators have the wrong type")
            else:
                require(len(one) == models.n_folds, "there is not a classifier for each fold")
        models.fitted["nominal"][tests] = [nominal]
        if altered is not None:
            models.fitted["held back"][tests] = altered
    full = require_array(state["full_chances"], (n, m), "f", "full_chances")
    trusts = require_array(state["trusts"], (len(state["trusted_sets"]), 4 + m), "f", "trusts")
    require(state["rule"] in RULES, "there is no such stopping rule")
    known = dict(zip(state["trusted_sets"], trusts, strict=True))
    return Judge(models, state["rule"], everything, state["common_sharpness"], full, trusts=known)
