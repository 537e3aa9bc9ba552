"""Which classes a model file may hold: the public estimators of multiform, and a few of scikit-learn.

The two tables are the whole list. A file names a kind; where its class lives is said here, never by the file. An
estimator of ours is its parameters and what its `_get_state` says, plain values; it is made by its constructor, and
its `_set_state` checks what it is given.
"""

from __future__ import annotations

import importlib
from typing import Any

from multiform.files import _sklearn

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
KINDS = OURS | _sklearn.MODULES


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
    of_others = ", ".join(name for name in _sklearn.MODULES if name != "RandomState")
    raise TypeError(
        f"{where} is {what}, which a model file cannot hold, as it has no code in it; it holds "
        f"{', '.join(OURS)}, and around and inside them {of_others} of scikit-learn. "
        "For anything else there is joblib or skops."
    )


def parts_of(kind: str, value: Any) -> dict[str, dict[str, Any]]:
    """An object as plain values, and objects that files may hold, too."""
    if kind in OURS:
        return {"params": value.get_params(deep=False), "state": value._get_state()}
    params, state = _sklearn.parts_of(kind, value)
    return {"params": params, "state": state}


def made(kind: str, params: dict[str, Any], state: dict[str, Any]) -> Any:
    """The object of these parts."""
    if kind not in OURS:
        return _sklearn.made(kind, _class_of(kind), params, state)
    model = _class_of(kind)(**params)
    if state:
        model._set_state(state)
    return model
