"""The classes that a file may hold objects of, and how an object becomes its parts and is made of them again."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import numpy as np

from multiform.state import (
    FEATURES,
    require,
    require_array,
    require_classes,
    require_features,
    require_jobs,
    require_names,
    require_whole,
)

# The estimators that a file may be of, and where they are found.
OURS = {
    "QMSClassifier": "multiform",
    "QMSClassifierCV": "multiform",
    "LoyaltyClassifier": "multiform",
    "TriageClassifier": "multiform",
    "DiagnosisPlanner": "multiform",
    "TableClassifier": "multiform.tables",
    "ImagePatches": "multiform.images",
}
OF_OTHERS = {
    "LogisticRegression": "sklearn.linear_model",
    "StandardScaler": "sklearn.preprocessing",
    "Pipeline": "sklearn.pipeline",
    "FrozenEstimator": "sklearn.frozen",
    "KFold": "sklearn.model_selection",
    "StratifiedKFold": "sklearn.model_selection",
    "RandomState": "numpy.random",
    "ExtraTreesClassifier": "sklearn.ensemble",
    "RandomForestClassifier": "sklearn.ensemble",
    "HistGradientBoostingClassifier": "sklearn.ensemble",
}
KINDS = OURS | OF_OTHERS
FORESTS = ("ExtraTreesClassifier", "RandomForestClassifier", "HistGradientBoostingClassifier")  # never fitted
FITTED = {
    "LogisticRegression": ("classes_", "coef_", "intercept_", "n_iter_", *FEATURES),
    "StandardScaler": ("mean_", "var_", "scale_", "n_samples_seen_", *FEATURES),
}
RENAMED = {"DiagnosisPlanner": {"groups": "discounts"}}  # parameters that older files call otherwise
RANDOM = ("key", "pos", "has_gauss", "gauss")  # the state of the Mersenne Twister
KEYS = 624  # of it
LARGEST = 1e30  # of a coefficient, and the inverse of the smallest scale: no sum of products overflows


def _class_of(kind: str) -> Any:
    """The class that files call so; it is imported when somebody asks for it."""
    return getattr(importlib.import_module(KINDS[kind]), kind)


def kind_of(value: Any, where: str) -> str:
    """What files call the class of an object, or a sentence that says why it cannot be saved."""
    kind = type(value).__name__
    if kind in KINDS and type(value) is _class_of(kind) and not (kind in FORESTS and hasattr(value, "classes_")):
        return kind
    what = f"a {type(value).__module__}.{type(value).__qualname__}"
    if callable(value) and hasattr(value, "__qualname__"):
        what = f"the function {value.__qualname__}"
    of_others = ", ".join(name for name in OF_OTHERS if name not in ("RandomState", *FORESTS))
    raise TypeError(
        f"{where} is {what}, which a model file cannot hold, as it has no code in it; it holds "
        f"{', '.join(OURS)}, and around and inside them {of_others} of scikit-learn. "
        "For anything else there is joblib or skops."
    )


def parts_of(kind: str, value: Any) -> dict[str, dict[str, Any]]:
    """An object's parameters and fitted state: plain values, and objects that files may hold, too."""
    if kind in OURS:
        return {"params": value.get_params(deep=False), "state": value._get_state()}
    if kind == "RandomState":
        state = value.get_state(legacy=False)
        return {"params": {}, "state": {**state["state"], "has_gauss": state["has_gauss"], "gauss": state["gauss"]}}
    if kind == "Pipeline":
        return {"params": {"steps": [tuple(step) for step in value.steps]}, "state": {}}
    # A parameter that a later scikit-learn drops does no harm as long as nobody has set it.
    defaults = {name: one.default for name, one in inspect.signature(type(value).__init__).parameters.items()}
    params = {name: getattr(value, name) for name in defaults if hasattr(value, name)}
    params = {name: found for name, found in params.items() if not _same(found, defaults[name])}
    state = {name: vars(value)[name] for name in FITTED.get(kind, ()) if name in vars(value)}
    return {"params": params, "state": state}


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(np.array_equal(value, default))


def made(kind: str, params: dict[str, Any], state: dict[str, Any]) -> Any:
    """The object of these parts."""
    cls = _class_of(kind)
    require_jobs(params.get("n_jobs"))
    inner = params.get("estimator")
    require(inner is None or hasattr(inner, "fit"), f"estimator of {kind} is none")
    if kind in OURS:
        renamed = RENAMED.get(kind, {})
        model = cls(**{renamed.get(name, name): value for name, value in params.items()})
        if state:
            model._validate_params()
            model._set_state(state)
        return model
    if kind == "RandomState":
        return _random(cls, state)
    require_names(state, kind, (), FITTED.get(kind, ()))
    if kind == "Pipeline":
        require_names(params, kind, ["steps"])
        _check_steps(params["steps"])
    if kind == "FrozenEstimator":
        require(hasattr(params.get("estimator"), "fit"), "FrozenEstimator holds no estimator")
    value = cls(**params)
    if state:
        value._validate_params()
        _check_logistic(state) if kind == "LogisticRegression" else _check_scaler(value, state)
    vars(value).update(state)
    return value


# What others' classes are given is checked here, as they do not: NumPy reads its state without looking, and
# scikit-learn has no idea that a fitted attribute could come from anywhere but `fit`.


def _random(cls: Any, state: dict[str, Any]) -> Any:
    require_names(state, "RandomState", RANDOM)
    key = require_array(state["key"], (KEYS,), "u", "key of RandomState")
    require(key.dtype == np.uint32, "key of RandomState has the wrong type")
    for name, most in (("pos", KEYS), ("has_gauss", 1)):
        require_whole(state[name], 0, f"{name} of RandomState")
        require(state[name] <= most, f"{name} of RandomState is greater than {most}")
    gauss = state["gauss"]
    require(isinstance(gauss, float) and np.isfinite(gauss), "gauss of RandomState is not a number")
    random = cls()
    random.set_state(("MT19937", *(state[name] for name in RANDOM)))
    return random


def _check_steps(steps: Any) -> None:
    pairs = isinstance(steps, list) and all(isinstance(step, tuple) and len(step) == 2 for step in steps)
    require(pairs and len(steps) > 0, "the steps of Pipeline are not pairs of a name and an estimator")
    for name, step in steps:
        require(isinstance(name, str) and hasattr(step, "fit"), "a step of Pipeline is not an estimator")
    for _, step in steps[:-1]:
        require(hasattr(step, "transform"), "a step of Pipeline transforms nothing")
    _, last = steps[-1]
    unfitted = [step for _, step in steps if hasattr(last, "classes_") and not hasattr(step, "n_features_in_")]
    require(not unfitted, "a step of Pipeline is not fitted")


def _check_logistic(state: dict[str, Any]) -> None:
    require_names(state, "LogisticRegression", FITTED["LogisticRegression"][:3], FITTED["LogisticRegression"][3:])
    m, p = require_classes(state["classes_"]), require_features(state)
    n_rows = 1 if m == 2 else m
    _require_moderate(require_array(state["coef_"], (n_rows, p), "f", "coef_"), "coef_")
    _require_moderate(require_array(state["intercept_"], (n_rows,), "f", "intercept_"), "intercept_")


def _check_scaler(scaler: Any, state: dict[str, Any]) -> None:
    require_names(state, "StandardScaler", FITTED["StandardScaler"][:3], FITTED["StandardScaler"][3:])
    p = require_features(state)
    for used, name in ((scaler.with_mean, "mean_"), (scaler.with_std, "scale_")):
        require(not used or state[name] is not None, f"StandardScaler uses {name}, which is not there")
    for name in ("mean_", "var_", "scale_"):
        if state[name] is not None:
            _require_moderate(require_array(state[name], (p,), "f", name), name)
    require(state["scale_"] is None or (state["scale_"] >= 1 / LARGEST).all(), "scale_ is not positive")


def _require_moderate(values: Any, what: str) -> None:
    require((np.abs(values) <= LARGEST).all(), f"{what} is not finite, or too large")
