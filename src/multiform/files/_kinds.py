"""Which classes a model file may hold, and what of each one is written.

The table below is the whole list. A file names a kind; where its class lives is said here, never by the file. An
estimator of ours is rebuilt by its constructor, from its parameters, and then gets its fitted attributes; a dataclass
gets its fields.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from multiform.files import _checks, _sklearn

__all__ = ["Kind", "named", "of", "root_names"]

Parts = dict[str, dict[str, Any]]

# Fitted attributes that scikit-learn's machinery puts beside a model; they say nothing about it.
PASSING = frozenset({"_sklearn_output_config", "_metadata_request", "_skl_callbacks", "_parent_callback_ctx"})
FITTED = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*_")


@dataclass(frozen=True)
class Kind:
    """A class that a model file may hold.

    Parameters
    ----------
    name : str
        What files call it.
    module : str
        Where this version of multiform has it.
    write : callable
        From an object to its parts; each part is a dict of named values.
    build : callable
        From the class and the parts to an object.
    root : bool
        Whether a file may be of it; else it is only a part of one that may.
    class_name : str
        What the class is called where it is not called as in files.
    """

    name: str
    module: str
    write: Callable[[Any], Parts]
    build: Callable[[type, Parts], Any]
    root: bool = False
    class_name: str = ""

    @property
    def cls(self) -> type:
        found: type = getattr(importlib.import_module(self.module), self.class_name or self.name)
        return found

    def read(self, parts: Parts) -> Any:
        return self.build(self.cls, parts)


def of(value: Any, where: str) -> Kind:
    """The kind of an object, or a sentence that says why it cannot be saved."""
    for kind in _table().values():
        if (kind.class_name or kind.name) == type(value).__name__ and type(value) is kind.cls:
            return kind
    what = f"a {type(value).__module__}.{type(value).__qualname__}"
    if callable(value) and hasattr(value, "__qualname__"):
        what = f"the function {value.__qualname__}"
    raise TypeError(
        f"{where} is {what}, which a model file cannot hold, as it has no code in it; it holds "
        f"{', '.join(root_names())}, and around and inside them {', '.join(_sklearn.NAMES)} of scikit-learn. "
        "For anything else there is joblib or skops."
    )


def named(name: str) -> Kind | None:
    """The kind that a file calls so."""
    return _table().get(name)


def root_names() -> list[str]:
    """The kinds that a file may be of."""
    return [kind.name for kind in _table().values() if kind.root]


# ------------------------------------------------------------------------------------------------ our estimators


def _estimator(
    name: str, module: str, private: tuple[str, ...] = (), check: Callable[[Any], None] = lambda model: None
) -> Kind:
    """All parameters, and all fitted attributes: by scikit-learn's rule they end in ``_``; `private` are the others."""

    def unknown(state: Any) -> list[str]:
        return sorted(key for key in state if not (FITTED.fullmatch(key) or key in private))

    def write(model: Any) -> Parts:
        params = model.get_params(deep=False)
        state = {key: value for key, value in vars(model).items() if key not in params and key not in PASSING}
        if unknown(state):
            raise TypeError(
                f"This {name} has an attribute {unknown(state)[0]!r} that model files do not know; "
                "delete it, and save again."
            )
        return {"params": params, "fitted": state}

    def build(cls: type, parts: Parts) -> Any:
        model = cls(**parts["params"])
        if unknown(parts["fitted"]):
            raise ValueError(f"{name} has no attribute {unknown(parts['fitted'])[0]!r}")
        vars(model).update(parts["fitted"])
        if parts["fitted"]:
            check(model)
        return model

    return Kind(name, module, write, build, root=True)


# ------------------------------------------------------------------------------------------- their own small parts


def _record(
    name: str,
    module: str,
    attributes: tuple[str, ...] = (),
    check: Callable[[Any], None] = lambda record: None,
    class_name: str = "",
) -> Kind:
    """The fields of a dataclass, or exactly these attributes of a class that is none.

    A field that a file does not have, as it is older than the field, has its default.
    """

    def names(cls: type) -> tuple[str, ...]:
        return tuple(field.name for field in fields(cls)) if is_dataclass(cls) else attributes

    def write(record: Any) -> Parts:
        return {"attributes": {key: getattr(record, key) for key in names(type(record))}}

    def build(cls: type, parts: Parts) -> Any:
        found = parts["attributes"]
        if is_dataclass(cls):
            record: Any = cls(**found)
        else:
            if set(found) != set(attributes):
                raise ValueError(f"{name} has the attributes {', '.join(attributes)}; got {', '.join(sorted(found))}")
            record = object.__new__(cls)
            vars(record).update(found)
        check(record)
        return record

    return Kind(name, module, write, build, class_name=class_name)


@functools.cache
def _table() -> dict[str, Kind]:
    diagnosis = "multiform.diagnosis"
    kinds = [
        _estimator(
            "QMSClassifier",
            "multiform.classifier",
            (
                "_n_trained",  # rows of components_ without what the noise adds
                "_center",  # the scaling that is folded into components_
                "_scale",
                "_moments",  # Adam's, so that partial_fit goes on as if nothing had happened
            ),
            _checks.qms,
        ),
        _estimator(
            "QMSClassifierCV",
            "multiform.classifier_cv",
            ("_encodings", "_center", "_scale", "_kept"),
            _checks.qms_cv,
        ),
        _record("_KeptSetting", "multiform.classifier_cv", ("columns", "factor", "weights")),
        Kind("Encodings", "multiform.columns", _sklearn.write_encodings, _sklearn.build_encodings),
        _estimator("ImagePatches", "multiform.images", (), _checks.patches),
        _estimator("LoyaltyClassifier", "multiform.loyalty", ("_committee", "_chance"), _checks.loyalty),
        _record("LoyaltyTable", "multiform.metrics"),
        _record("Committee", "multiform.loyalty._committee"),
        _record("Alterations", "multiform.loyalty._alterations"),
        _record("ChanceOfBeingRight", "multiform.loyalty._score", ("n_levels", "n_classes", "_model")),
        _estimator("TriageClassifier", "multiform.triage", (), _checks.triage),
        _record("Certificate", "multiform.triage._certify"),
        _estimator("DiagnosisPlanner", diagnosis, (), _checks.planner),
        _record("Plan", diagnosis),
        _record("Tariff", diagnosis),
        _record("FrontierPoint", diagnosis),
        _record("PlanCertificate", diagnosis, class_name="Certificate"),
        _record("Encoding", "multiform.columns", ("codes", "owner", "center", "scale")),
        _record("Judge", f"{diagnosis}._judge"),
        _record("SetTrust", f"{diagnosis}._trust"),
        _record("EvidenceModels", f"{diagnosis}._models"),
        _record("Records", f"{diagnosis}._models"),
        _record("Settings", f"{diagnosis}._models"),
        _estimator("TableClassifier", "multiform.tables", ("_whole_labels",), _checks.table),
        *(
            _record(name, "multiform.columns", check=_checks.column)
            for name in ("Dropped", "Number", "Code", "Category", "Date", "Text")
        ),
        *(Kind(name, module, write, build) for name, module, write, build in _sklearn.KINDS),
    ]
    return {kind.name: kind for kind in kinds}
