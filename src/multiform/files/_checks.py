"""Whether the parts of a model that was read fit each other: the engine trusts its arrays, a file may be anybody's."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["column", "loyalty", "patches", "planner", "qms", "qms_cv", "table", "triage"]


def _require(condition: Any, what: str) -> None:
    if not condition:
        raise ValueError(what)


def _array(value: Any, shape: tuple[int | None, ...], kinds: str, what: str) -> Any:
    """An array of this shape (None: any length) and of one of these kinds of numbers."""
    fits = (
        isinstance(value, np.ndarray)
        and value.ndim == len(shape)
        and all(size is None or size == found for size, found in zip(shape, value.shape, strict=True))
        and value.dtype.kind in kinds
    )
    _require(fits, f"{what} has the wrong shape or type")
    return value


def _classes(model: Any) -> int:
    classes = _array(model.classes_, (None,), "biufUO", "classes_")
    _require(len(classes) >= 2 and bool((classes[1:] > classes[:-1]).all()), "classes_ are not sorted and distinct")
    return len(classes)


def _positive(value: Any, what: str) -> None:
    _require(isinstance(value, int | float | np.number) and 0 < value < np.inf, f"{what} is not a positive number")


def _features(model: Any) -> int:
    n = model.n_features_in_
    _require(isinstance(n, int | np.integer) and n > 0, "n_features_in_ is not a positive number")
    if hasattr(model, "feature_names_in_"):
        _array(model.feature_names_in_, (int(n),), "UO", "feature_names_in_")
    return int(n)


def qms(model: Any) -> None:
    """components_ (m, q, p), offsets_ (m, q), scaling (p,)."""
    m, p = _classes(model), _features(model)
    q = _array(model.components_, (m, None, p), "f", "components_").shape[1]
    _require(q > 0, "components_ has no rows")
    _array(model.offsets_, (m, q), "f", "offsets_")
    arrays = (model.components_, model.offsets_, model._center, model._scale)
    _require(all(getattr(array, "dtype", None) == np.float64 for array in arrays), "a separator is not of doubles")
    _require(np.isfinite(model.components_).all() and np.isfinite(model.offsets_).all(), "a separator is not finite")
    _array(model._center, (p,), "f", "_center")
    _array(model._scale, (p,), "f", "_scale")
    _require((model._scale > 0).all() and np.isfinite(model._center).all(), "the scaling is wrong")
    _positive(model.temperature_, "temperature_")
    _require(0 < model.n_components_ <= model._n_trained <= q, "n_components_ is wrong")
    for first, second, _ in getattr(model, "_moments", None) or []:
        _array(first, (m, model._n_trained, p + 1), "f", "_moments")
        _array(second, (m, model._n_trained, p + 1), "f", "_moments")


def patches(model: Any) -> None:
    """filters_ (patch_size² x channels, n_filters) for images that have the features' number of pixels."""
    shape = model.image_shape_
    whole = isinstance(shape, tuple) and len(shape) == 3 and all(isinstance(n, int) and n > 0 for n in shape)
    _require(whole and int(np.prod(shape)) == _features(model), "image_shape_ is wrong")
    _require(model._checked_shape(model.n_features_in_) == shape, "image_shape_ is not what the parameters say")
    area = model.patch_size**2 * shape[2]
    filters = _array(model.filters_, (area, model.n_filters), "f", "filters_")
    _require(filters.dtype == np.float32 and np.isfinite(filters).all(), "filters_ is not finite")
    _positive(model.contrast_, "contrast_")


def qms_cv(model: Any) -> None:
    """Each kept setting: separators (folds * m, q, columns + 1) on columns that there are."""
    m, p = _classes(model), _features(model)
    _positive(model.temperature_, "temperature_")
    width = len(_array(model._center, (None,), "f", "_center"))
    _array(model._scale, (width,), "f", "_scale")
    encoded = model._encodings.transform(np.zeros((1, p))).shape[1]
    _require(encoded == width, "the encodings do not have the columns that the model reads")
    _require(model._kept, "there is no separator")
    for kept in model._kept:
        columns = _array(kept.columns, (None,), "i", "columns")
        _require(columns.dtype == np.int32 and len(columns) > 0, "columns has the wrong type")
        _require(columns.min() >= 0 and columns.max() < width, "a separator reads columns that there are not")
        weights = _array(kept.weights, (None, None, len(columns) + 1), "f", "weights")
        _require(weights.dtype == np.float32 and weights.flags.c_contiguous, "weights has the wrong type")
        _require(len(weights) > 0 and len(weights) % m == 0, "there is not a separator for each class")
        _positive(kept.factor, "factor")


def loyalty(model: Any) -> None:
    """A committee of the model's own classes, with an altered model for each row of `class_factors_`."""
    m = _classes(model)
    committee = model._committee
    _require(np.array_equal(committee.classes, model.classes_), "the committee has other classes")
    _require(committee.nominal is model.estimator_, "the committee has another nominal classifier")
    _require(
        len(committee.altered) == len(model.altered_estimators_) == len(committee.alterations), "a model is missing"
    )
    _require(tuple(model.levels_) == committee.alterations.levels, "levels_ is wrong")
    _require(
        (model._chance.n_levels, model._chance.n_classes) == (len(model.levels_), m), "the score is of another model"
    )
    for member in (committee.nominal, *committee.altered):
        _require(np.isin(member.classes_, model.classes_).all(), "a member has other classes")
        widths = {getattr(part, "n_features_in_", None) for part in (member, model)}
        _require(len(widths) == 1, "a member reads another number of features")


def triage(model: Any) -> None:
    """A threshold for each class of the estimator."""
    _array(model.thresholds_, (len(model.estimator_.classes_),), "f", "thresholds_")
    _require(np.isin(model.estimator_.classes_, model.classes_).all(), "the estimator has other classes")
    for part in (model.estimator_, model.fallback_):
        same = part is None or getattr(part, "n_features_in_", None) == getattr(model, "n_features_in_", None)
        _require(same, "a part reads another number of features")
    _require(model.guarantee_ in ("exact", "approximate"), "guarantee_ is wrong")


def column(part: Any) -> None:
    """A column can say what it becomes, and makes so many numbers of an empty table."""
    _require(isinstance(part.name, str) and isinstance(part.why, str), "a column has no name")
    if hasattr(part, "words"):
        _array(part.weights, (len(part.words),), "f", "the weights of words")
    if hasattr(part, "values"):
        _require(
            isinstance(part.values, tuple) and len(set(part.values)) == len(part.values), "values are not distinct"
        )
    for name in ("has_missing", "has_other", "has_time", "decimal_comma"):
        _require(isinstance(getattr(part, name, False), bool), f"{name} is neither true nor false")
    if hasattr(part, "median"):
        _require(isinstance(part.median, float) and np.isfinite(part.median), "a median is not a number")
    _require(all(isinstance(name, str) for name in part.feature_names()), "a column does not say what it becomes")


def table(model: Any) -> None:
    """The columns become what the estimator reads."""
    _require(np.array_equal(model.classes_, model.estimator_.classes_), "the estimator has other classes")
    _require(all(hasattr(part, "encode") for part in model.columns_), "a column is none")
    names = [part.name for part in model.columns_]
    _require(len(set(names)) == len(names) and list(model.feature_names_in_) == names, "the columns' names are wrong")
    n_features = getattr(model.estimator_, "n_features_in_", None)
    _require(n_features == len(model.encoded_names()), "the columns do not become what the estimator reads")


def planner(model: Any) -> None:
    """Plan, records and the separators of every evidence set are of the same tests and columns."""
    m, n_tests = _classes(model), len(model.tariff_.tests)
    _require(model.level_ >= 0, "level_ is wrong")
    _plan(model.plan_, m, n_tests)
    n_parts = [len(part) for part in (model.tariff_.prices, model.tariff_.discounted, model.tariff_.groups)]
    _require(n_parts == [n_tests] * 3 and len(model.tariff_.required) == n_tests, "the tariff is wrong")
    records, judge = model.judge_.models.records, model.judge_
    width = sum(code.width for code in model.encoding_.codes)
    _require(np.array_equal(records.column_owner, model.encoding_.column_owner), "columns belong to other tests")
    n = _array(records.rows, (None, width), "f", "rows").shape[0]
    _require(records.rows.dtype == np.float32 and records.n_classes == m, "the records are of the wrong type")
    for name, most in (("target", m), ("fold", n)):
        whole = _array(getattr(records, name), (n,), "i", name)
        _require(n > 0 and whole.min() >= 0 and whole.max() < most, f"{name} is out of range")
    _array(judge.full, (n, m), "f", "full")
    _require(len(judge.sets) == len(judge.trusts), "the trust of an evidence set is missing")
    evidence = judge.models
    _require(len(evidence.sets) == len(evidence.nominal) == len(evidence.altered), "an evidence set has no model")
    if evidence.settings.estimator is None:
        for one, nominal, altered in zip(evidence.sets, evidence.nominal, evidence.altered, strict=True):
            columns = len(records.columns(int(one)))
            for weights in (nominal, *(altered if altered is not None else ())):
                shape = (records.n_folds * m, None, columns + 1)
                _require(
                    _array(weights, shape, "f", "separators").dtype == np.float32, "separators have the wrong type"
                )


def _plan(plan: Any, n_classes: int, n_tests: int) -> None:
    """Nodes lead to later nodes only, so that a walk ends."""
    _require(len(plan.tests) == len(plan.held) == len(plan.following), "the plan has parts of several lengths")
    for node, (test, after) in enumerate(zip(plan.tests, plan.following, strict=True)):
        _require(0 <= test < n_tests and len(after) == n_classes, "the plan buys a test that there is not")
        _require(
            all(follows == -1 or node < follows < len(plan.tests) for follows in after), "the plan goes in circles"
        )
