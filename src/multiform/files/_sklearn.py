"""What of scikit-learn a model file may hold, in a form that outlives scikit-learn's own attributes.

Only what scikit-learn documents is written: parameters that differ from their defaults, and public fitted attributes.
A transformer whose fitted state is private is written as what determines it (categories, knots) and fitted again,
from these parameters, when it is read.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["KINDS", "NAMES", "build_encodings", "write_encodings"]

Parts = dict[str, dict[str, Any]]


def _non_default(estimator: Any) -> dict[str, Any]:
    """A parameter that a later scikit-learn drops does no harm as long as nobody has set it."""
    defaults = {name: value.default for name, value in inspect.signature(type(estimator).__init__).parameters.items()}
    params = {name: getattr(estimator, name) for name in defaults if hasattr(estimator, name)}
    return {name: value for name, value in params.items() if not _same(value, defaults.get(name, inspect._empty))}


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(np.array_equal(value, default))


def _public(*fitted: str) -> tuple[Callable[[Any], Parts], Callable[[type, Parts], Any]]:
    """Parameters and these fitted attributes, where the estimator has them."""

    def write(estimator: Any) -> Parts:
        state = {name: getattr(estimator, name) for name in fitted if name in vars(estimator)}
        return {"params": _non_default(estimator), "fitted": state}

    def build(cls: type, parts: Parts) -> Any:
        if not set(parts["fitted"]) <= set(fitted):
            raise ValueError(f"{cls.__name__} has other attributes than {', '.join(fitted)}")
        estimator = cls(**parts["params"])
        vars(estimator).update(parts["fitted"])
        return estimator

    return write, build


def _write_pipeline(pipeline: Any) -> Parts:
    return {"params": {"steps": [tuple(step) for step in pipeline.steps]}}


def _build_pipeline(cls: type, parts: Parts) -> Any:
    steps = parts["params"]["steps"]
    if not all(isinstance(name, str) and hasattr(step, "fit") for name, step in steps):
        raise ValueError("a step of Pipeline is not an estimator")
    return cls(steps=steps)


def _write_random_state(random: np.random.RandomState) -> Parts:
    state: Any = random.get_state(legacy=False)
    return {
        "state": {
            "key": state["state"]["key"],
            "pos": state["state"]["pos"],
            "has_gauss": state["has_gauss"],
            "gauss": state["gauss"],
        }
    }


def _build_random_state(cls: type, parts: Parts) -> Any:
    found = parts["state"]
    random = np.random.RandomState()
    random.set_state(("MT19937", found["key"], found["pos"], found["has_gauss"], found["gauss"]))
    return random


FEATURES = ("n_features_in_", "feature_names_in_")
NAMES = ["LogisticRegression", "StandardScaler", "Pipeline", "FrozenEstimator", "KFold", "StratifiedKFold"]

# Name, module, write, build.
KINDS: list[tuple[str, str, Callable[[Any], Parts], Callable[[type, Parts], Any]]] = [
    (
        "LogisticRegression",
        "sklearn.linear_model",
        *_public("classes_", "coef_", "intercept_", "n_iter_", *FEATURES),
    ),
    (
        "StandardScaler",
        "sklearn.preprocessing",
        *_public("mean_", "var_", "scale_", "n_samples_seen_", *FEATURES),
    ),
    ("Pipeline", "sklearn.pipeline", _write_pipeline, _build_pipeline),
    ("FrozenEstimator", "sklearn.frozen", *_public()),
    ("KFold", "sklearn.model_selection", *_public()),
    ("StratifiedKFold", "sklearn.model_selection", *_public()),
    ("RandomState", "numpy.random", _write_random_state, _build_random_state),
]


# ------------------------------------------------------------------------------------------- multiform.encodings


def write_encodings(encodings: Any) -> Parts:
    """Names and columns, and for "enriched" what its transformers have found."""
    enriched = []
    for name, transformer in zip(
        [name for name in encodings.names if name != "plain"], encodings.transformers, strict=True
    ):
        if name != "enriched":
            raise TypeError(
                f"encodings of QMSClassifierCV has a transformer of its own, {name}, which a model file cannot hold; "
                'it holds "plain" and "enriched". For anything else there is joblib or skops.'
            )
        enriched.append(_found(transformer))
    return {
        "attributes": {
            "asked": encodings._asked,
            "names": encodings.names,
            "columns": encodings.columns,
            "enriched": enriched,
        }
    }


def _found(transformer: Any) -> dict[str, Any]:
    """Of the enrichment: categories of each one-hot column, knots of each hinged column."""
    columns = {name: np.asarray(chosen) for name, _, chosen in transformer.transformers}
    fitted = transformer.named_transformers_
    has_values, has_hinges = len(columns["values"]) > 0, len(columns["hinges"]) > 0
    splines = fitted["hinges"].bsplines_ if has_hinges else []
    return {
        "n_features": int(transformer.n_features_in_),
        "value_columns": columns["values"],
        "categories": list(fitted["values"].categories_) if has_values else [],
        "hinge_columns": columns["hinges"],
        "knots": np.column_stack([spline.t for spline in splines]) if has_hinges else None,
    }


def build_encodings(cls: type, parts: Parts) -> Any:
    found = parts["attributes"]
    encodings: Any = object.__new__(cls)
    vars(encodings).update(
        _asked=found["asked"],
        names=found["names"],
        columns=found["columns"],
        transformers=[_enrichment(**entry) for entry in found["enriched"]],
    )
    return encodings


def _enrichment(n_features: int, value_columns: Any, categories: Any, hinge_columns: Any, knots: Any) -> Any:
    """`multiform.encodings.enrichment` with its categories, so that any rows will do to fit it, and its splines."""
    from scipy.interpolate import BSpline
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import OneHotEncoder, SplineTransformer

    if not 0 < n_features < 2**31:
        raise ValueError("the number of features is wrong")
    steps: list[tuple[str, Any, Any]] = [
        (
            "values",
            OneHotEncoder(categories=categories or "auto", handle_unknown="ignore", sparse_output=False),
            value_columns,
        ),
        (
            "hinges",
            SplineTransformer(
                degree=1,
                n_knots=5 if knots is None else len(knots) - 2,  # one more at either end than the data have
                knots="uniform",
                extrapolation="linear",
                include_bias=False,
            ),
            hinge_columns,
        ),
    ]
    rows = np.tile(np.array([[0.0], [1.0]]), (1, n_features))
    for column, values in zip(value_columns, categories, strict=True):
        rows[:, column] = values[0]
    transformer = ColumnTransformer(steps, sparse_threshold=0).fit(rows)
    if knots is not None:
        # Quantiles can be equal, which the constructor of SplineTransformer refuses.
        n_splines = len(knots) - 2
        splines = [BSpline(column, np.eye(n_splines), 1, extrapolate=False) for column in np.asarray(knots).T.copy()]
        transformer.named_transformers_["hinges"].bsplines_ = splines
    return transformer
