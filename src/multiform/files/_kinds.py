"""Which classes a model file may hold, and what of each one is written.

The table below is the whole list. A file names a kind; where its class lives is said here, never by the file. An
estimator of ours is rebuilt by its constructor, from its parameters, and then gets its fitted attributes; any other
object gets its attributes and no code of it runs.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from multiform.files import _checks, _sklearn

__all__ = ["Kind", "named", "of", "root_names"]

Parts = dict[str, dict[str, Any]]

# Fitted attributes that scikit-learn's machinery puts beside a model; they say nothing about it.
PASSING = frozenset({"_sklearn_output_config", "_metadata_request", "_skl_callbacks", "_parent_callback_ctx"})
FEATURES = ("n_features_in_", "feature_names_in_")


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
    read : callable
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
    name: str, module: str, fitted: tuple[str, ...], check: Callable[[Any], None] = lambda model: None
) -> Kind:
    """All parameters, and the fitted attributes named here; one that is not would be lost, so it is refused."""

    def write(model: Any) -> Parts:
        params = model.get_params(deep=False)
        state = {key: value for key, value in vars(model).items() if key not in params and key not in PASSING}
        unknown = sorted(set(state) - set(fitted))
        if unknown:
            raise TypeError(
                f"This {name} has an attribute {unknown[0]!r} that model files do not know; delete it, and save again."
            )
        return {"params": params, "fitted": state}

    def build(cls: type, parts: Parts) -> Any:
        model = cls(**parts["params"])
        unknown = sorted(set(parts["fitted"]) - set(fitted))
        if unknown:
            raise ValueError(f"{name} has no attribute {unknown[0]!r}")
        vars(model).update(parts["fitted"])
        if parts["fitted"]:
            check(model)
        return model

    return Kind(name, module, write, build, root=True)


# ------------------------------------------------------------------------------------------- their own small parts


def _record(
    name: str,
    module: str,
    attributes: tuple[str, ...],
    check: Callable[[Any], None] = lambda record: None,
    class_name: str = "",
) -> Kind:
    """Exactly these attributes."""

    def write(record: Any) -> Parts:
        if is_dataclass(record):
            unknown = sorted({field.name for field in fields(record)} - set(attributes))
            if unknown:
                raise TypeError(f"This {name} has an attribute {unknown[0]!r} that model files do not know.")
        return {"attributes": {key: getattr(record, key) for key in attributes}}

    def build(cls: type, parts: Parts) -> Any:
        found = parts["attributes"]
        if set(found) != set(attributes):
            raise ValueError(f"{name} has the attributes {', '.join(attributes)}; got {', '.join(sorted(found))}")
        record: Any = object.__new__(cls)
        for key in attributes:
            object.__setattr__(record, key, found[key])
        check(record)
        return record

    return Kind(name, module, write, build, class_name=class_name)


@functools.cache
def _table() -> dict[str, Kind]:
    kinds = [
        _estimator(
            "QMSClassifier",
            "multiform.classifier",
            (
                "classes_",
                "components_",
                "offsets_",
                "n_components_",
                "temperature_",
                "n_iter_",
                "loss_curve_",
                "validation_scores_",
                "best_validation_score_",
                *FEATURES,
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
            (
                "classes_",
                "n_iter_",
                "cv_results_",
                "best_noise_",
                "best_encoding_",
                "oof_accuracy_",
                "temperature_",
                *FEATURES,
                "_encodings",
                "_center",
                "_scale",
                "_kept",
            ),
            _checks.qms_cv,
        ),
        _record("_KeptSetting", "multiform.classifier_cv", ("columns", "factor", "weights")),
        Kind("Encodings", "multiform.encodings", _sklearn.write_encodings, _sklearn.build_encodings),
        _estimator(
            "LoyaltyClassifier",
            "multiform.loyalty",
            (
                "classes_",
                "levels_",
                "loyalty_table_",
                "training_table_",
                "estimator_",
                "altered_estimators_",
                "class_factors_",
                *FEATURES,
                "_committee",
                "_chance",
            ),
            _checks.loyalty,
        ),
        _record("LoyaltyTable", "multiform.metrics", ("levels", "count", "correct")),
        _record("Committee", "multiform.loyalty._committee", ("classes", "alterations", "nominal", "altered")),
        _record("Alterations", "multiform.loyalty._alterations", ("beta", "gamma", "n_classes")),
        _record("ChanceOfBeingRight", "multiform.loyalty._score", ("n_levels", "n_classes", "_model")),
        _estimator(
            "TriageClassifier",
            "multiform.triage",
            (
                "estimator_",
                "fallback_",
                "classes_",
                "certificates_",
                "thresholds_",
                "attained_",
                "guarantee_",
                "n_calibration_",
                *FEATURES,
            ),
            _checks.triage,
        ),
        _record(
            "Certificate",
            "multiform.triage._certify",
            ("threshold", "n_tested", "n_accepted", "n_correct", "level"),
        ),
        _estimator(
            "DiagnosisPlanner",
            "multiform.diagnosis",
            (
                "order_",
                "plan_",
                "theta_",
                "full_accuracy_",
                "level_",
                "expected_cost_",
                "panel_cost_",
                "certificate_",
                "frontier_",
                "classes_",
                "tariff_",
                "encoding_",
                "judge_",
                "remaining_costs_",
                "stop_shares_",
                *FEATURES,
            ),
            _checks.planner,
        ),
        _record("Plan", "multiform.diagnosis", ("tests", "held", "following")),
        _record("Tariff", "multiform.diagnosis", ("tests", "prices", "discounted", "groups", "required", "known")),
        _record(
            "FrontierPoint",
            "multiform.diagnosis",
            ("level", "cost", "cost_share", "loss", "loss_error", "accuracy", "order"),
        ),
        _record(
            "PlanCertificate",
            "multiform.diagnosis",
            ("optimal", "cost", "lower_bound", "n_labels"),
            class_name="Certificate",
        ),
        _record("Encoding", "multiform.diagnosis._encoding", ("codes", "owner")),
        _record(
            "FeatureCode",
            "multiform.diagnosis._encoding",
            ("name", "fill", "values", "hinges", "numeric", "tells_missing", "center", "scale"),
        ),
        _record(
            "Judge",
            "multiform.diagnosis._judge",
            ("models", "rule", "everything", "common", "full", "sets", "trusts"),
        ),
        _record("SetTrust", "multiform.diagnosis._trust", ("sharpness", "slope", "spread")),
        _record(
            "EvidenceModels",
            "multiform.diagnosis._models",
            ("records", "settings", "sets", "nominal", "altered"),
        ),
        _record("Records", "multiform.diagnosis._models", ("rows", "target", "fold", "column_owner", "n_classes")),
        _record(
            "Settings",
            "multiform.diagnosis._models",
            (
                "estimator",
                "n_components",
                "alpha",
                "noise",
                "n_passes",
                "batch_size",
                "learning_rate",
                "betas",
                "seed",
                "n_jobs",
            ),
        ),
        _estimator(
            "TableClassifier",
            "multiform.tables",
            ("columns_", "target_", "classes_", "estimator_", "training_", *FEATURES, "_whole_labels"),
            _checks.table,
        ),
        *(
            _record(name, "multiform.tables", ("name", "why", *fields), _checks.column)
            for name, fields in {
                "Dropped": ("reason",),
                "Number": ("median", "has_missing", "decimal_comma"),
                "Code": ("number", "values"),
                "Category": ("values", "has_other", "has_missing"),
                "Date": ("format", "has_time", "has_missing", "median"),
                "Text": ("words", "weights"),
            }.items()
        ),
        *(Kind(name, module, write, build) for name, module, write, build in _sklearn.KINDS),
    ]
    return {kind.name: kind for kind in kinds}
