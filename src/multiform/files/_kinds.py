"""Which classes a model file may hold: the public estimators of multiform, and a few of scikit-learn.

The two tables are the whole list. A file names a kind; where its class lives is said here, never by the file. An
estimator of ours is its parameters and what its `_get_state` says, plain values; it is made by its constructor, and
its `_set_state` checks what it is given. Of scikit-learn's only what it documents is written, as that outlives its own
attributes: parameters that differ from their defaults, and public fitted attributes.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import numpy as np

from multiform.state import FEATURES, require, require_names

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
}
KINDS = OURS | OF_OTHERS
FITTED = {
    "LogisticRegression": ("classes_", "coef_", "intercept_", "n_iter_", *FEATURES),
    "StandardScaler": ("mean_", "var_", "scale_", "n_samples_seen_", *FEATURES),
}
RANDOM = ("key", "pos", "has_gauss", "gauss")  # the state of the Mersenne Twister


def _class_of(kind: str) -> Any:
    """The class that files call so; it is imported when somebody asks for it."""
    return getattr(importlib.import_module(KINDS[kind]), kind)


def kind_of(value: Any, where: str) -> str:
    """What files call the class of an object, or a sentence that says why it cannot be saved."""
    kind = type(value).__name__
    if kind in KINDS and type(value) is _class_of(kind):
        return kind
    what = f"a {type(value).__module__}.{type(value).__qualname__}"
    if callable(value) and hasattr(value, "__qualname__"):
        what = f"the function {value.__qualname__}"
    of_others = ", ".join(name for name in OF_OTHERS if name != "RandomState")
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
    if kind in OURS:
        model = cls(**params)
        if state:
            model._set_state(state)
        return model
    if kind == "RandomState":
        require_names(state, kind, RANDOM)
        random = cls()
        random.set_state(("MT19937", *(state[name] for name in RANDOM)))
        return random
    require_names(state, kind, (), FITTED.get(kind, ()))
    if kind == "Pipeline":
        require_names(params, kind, ["steps"])
        steps = all(isinstance(name, str) and hasattr(step, "fit") for name, step in params["steps"])
        require(steps, "a step of Pipeline is not an estimator")
    value = cls(**params)
    vars(value).update(state)
    return value
