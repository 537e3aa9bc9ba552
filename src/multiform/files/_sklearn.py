"""What of scikit-learn a model file may hold, in a form that outlives scikit-learn's own attributes.

Only what scikit-learn documents is written: parameters that differ from their defaults, and public fitted attributes.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from multiform.state import FEATURES, require, require_names

MODULES = {
    "LogisticRegression": "sklearn.linear_model",
    "StandardScaler": "sklearn.preprocessing",
    "Pipeline": "sklearn.pipeline",
    "FrozenEstimator": "sklearn.frozen",
    "KFold": "sklearn.model_selection",
    "StratifiedKFold": "sklearn.model_selection",
    "RandomState": "numpy.random",
}
FITTED = {
    "LogisticRegression": ("classes_", "coef_", "intercept_", "n_iter_", *FEATURES),
    "StandardScaler": ("mean_", "var_", "scale_", "n_samples_seen_", *FEATURES),
}
RANDOM = ("key", "pos", "has_gauss", "gauss")  # the state of the Mersenne Twister


def parts_of(kind: str, value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and fitted state."""
    if kind == "RandomState":
        state = value.get_state(legacy=False)
        return {}, {**state["state"], "has_gauss": state["has_gauss"], "gauss": state["gauss"]}
    if kind == "Pipeline":
        return {"steps": [tuple(step) for step in value.steps]}, {}
    # A parameter that a later scikit-learn drops does no harm as long as nobody has set it.
    defaults = {name: one.default for name, one in inspect.signature(type(value).__init__).parameters.items()}
    params = {name: getattr(value, name) for name in defaults if hasattr(value, name)}
    params = {name: found for name, found in params.items() if not _same(found, defaults[name])}
    return params, {name: vars(value)[name] for name in FITTED.get(kind, ()) if name in vars(value)}


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(np.array_equal(value, default))


def made(kind: str, cls: Any, params: dict[str, Any], state: dict[str, Any]) -> Any:
    """The object of these parts."""
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
