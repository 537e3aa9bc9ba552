"""What a classifier says of a sample, as names of values in a graph: class and chances, loyalty, and whether a promise
covers it.

An answer is a pair: the index of the predicted class (n,), and the chances (n, m) in double precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.pipeline import Pipeline

from multiform._typing import Array
from multiform.classifier import QMSClassifier
from multiform.classifier_cv import QMSClassifierCV
from multiform.export._encodings import encoded
from multiform.export._graph import Graph, is_double
from multiform.loyalty import LEAST_CHANCE, MOST_GAPS, Alterations, LoyaltyClassifier
from multiform.metrics.labels import positions
from multiform.triage import TriageClassifier

Answer = tuple[str, str]

# Thresholds are scores of calibration samples, so a repeated sample lies exactly on one; rounding must not reject it.
ROUNDING = 1e-6


def unwrapped(scope: Any, model: Any, X: Any) -> tuple[Any, Any]:
    """The classifier at the end of a pipeline or a `FrozenEstimator`, and the variable that it reads."""
    from skl2onnx._parse import _parse_sklearn

    while isinstance(model, FrozenEstimator | Pipeline):
        if isinstance(model, FrozenEstimator):
            model = model.estimator
        else:
            for _, step in model.steps[:-1]:
                if step not in (None, "passthrough"):
                    X = _parse_sklearn(scope, step, [X])[0]
            model = model.steps[-1][1]
    return model, X


def answer(graph: Graph, model: Any, X: Any) -> Answer:
    """What a fitted classifier, ours or any that skl2onnx can convert, answers for the variable X, float or double."""
    model, X = unwrapped(graph.scope, model, X)
    if isinstance(model, QMSClassifier):
        return _chances(graph, log_scores(graph, model, X), model.temperature_)
    if isinstance(model, QMSClassifierCV):
        return _chances(graph, _ensemble_scores(graph, model, X), model.temperature_)
    if isinstance(model, LoyaltyClassifier):
        return answer(graph, model.estimator_, X)
    if isinstance(model, TriageClassifier):
        return triaged(graph, model, X)[0]
    return _foreign(graph, model, X)


def log_scores(graph: Graph, model: QMSClassifier, X: Any) -> str:
    """``-log f_k(x)`` of one QMS model: shape (n, m)."""
    tiny = float(np.finfo(np.float64 if is_double(X) else np.float32).tiny)
    doubles = graph.cast(X.full_name, np.float64)
    return _minus_log(graph, _member_values(graph, doubles, model.components_, model.offsets_), tiny)


def _member_values(graph: Graph, X: str, components: Array, offsets: Array) -> str:
    """Definition 3, ``f_k(x) = ||A_k x - b_k||^2``: shape (n, m)."""
    m, q, p = components.shape
    residual = graph.linear(X, components.reshape(m * q, p).T, -offsets.reshape(-1))
    squares = graph.node("Reshape", graph.node("Mul", residual, residual), graph.constant([-1, m, q]))
    return graph.total(squares, axis=2)


def _minus_log(graph: Graph, f: str, tiny: float) -> str:
    return graph.node("Neg", graph.node("Log", graph.node("Max", f, graph.constant(tiny))))


def _ensemble_scores(graph: Graph, model: QMSClassifierCV, X: Any) -> str:
    """The ensemble's sum over its models of ``-log f`` times the model's factor: shape (n, m).

    The ensemble reads scaled columns in single precision, so they are rounded here as there.
    """
    separators, factors = model.separators_, model.factors_
    center, scale = separators.scaling.center, separators.scaling.scale
    centred = graph.node("Sub", encoded(graph, model.encodings_, X), graph.constant(center[None, :]))
    scaled = graph.node("Div", centred, graph.constant(scale[None, :]))
    columns = graph.cast(graph.cast(scaled, np.float32), np.float64)
    read = columns if separators.columns is None else graph.columns(columns, separators.columns)
    # All models are stacked as if their separators were those of so many classes.
    f = _member_values(graph, read, separators.coefficients[:, :, :-1], separators.coefficients[:, :, -1])
    if separators.noise is not None:
        f = graph.node("Add", f, graph.constant(separators.noise[None, :]))
    scores = _minus_log(graph, f, float(np.finfo(np.float32).tiny))
    by_model = graph.node("Reshape", scores, graph.constant([-1, len(factors), len(model.classes_)]))
    return graph.total(graph.node("Mul", by_model, graph.constant(factors[None, :, None])), axis=1)


def _chances(graph: Graph, scores: str, temperature: float) -> Answer:
    """The best class, and ``p_k = f_k^(-1/T)`` normalised, the softmax of ``-log f / T``."""
    sharpened = graph.node("Div", scores, graph.constant(np.float64(temperature)))
    return graph.node("ArgMax", scores, axis=1, keepdims=0), graph.node("Softmax", sharpened, axis=1)


def _foreign(graph: Graph, model: Any, X: Any) -> Answer:
    """Another library's classifier, by its own converter."""
    from skl2onnx._supported_operators import sklearn_operator_name_map
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType

    name = type(model).__name__
    if type(model) not in sklearn_operator_name_map or not hasattr(model, "predict_proba"):
        raise ValueError(
            f"to_onnx can export {name} inside one of our classifiers only if skl2onnx knows it and it has "
            "predict_proba; use such a classifier, or export the parts on their own."
        )
    graph.scope.add_options(id(model), {"zipmap": False})
    graph.container.add_options(id(model), {"zipmap": False})
    operator = graph.scope.declare_local_operator(sklearn_operator_name_map[type(model)], model)
    operator.inputs.append(X)
    text = np.asarray(model.classes_).dtype.kind in "UO"
    label = graph.scope.declare_local_variable("label", StringTensorType() if text else Int64TensorType())
    chances = graph.scope.declare_local_variable("chances", X.type.__class__())
    operator.outputs.append(label)
    operator.outputs.append(chances)
    keys = {"keys_strings" if text else "keys_int64s": list(model.classes_)}
    index = graph.node("LabelEncoder", label.full_name, values_int64s=list(range(len(model.classes_))), **keys)
    return graph.flat(index), graph.cast(chances.full_name, np.float64)


# ------------------------------------------------------------------------------------------------------- loyalty


def judged(graph: Graph, model: LoyaltyClassifier, X: Any) -> tuple[Answer, str, str]:
    """The answer, its loyalty level (n,) and the chance that it is right (n,), from every model."""
    members = [_member(graph, member, X) for member in (model.estimator_, *model.altered_estimators_)]
    nominal = answer(graph, model.estimator_, X)
    m = len(model.classes_)
    predicted = graph.beside(*(graph.upright(index) for index, _ in members))
    n_models = graph.constant(float(len(members)))
    mean = graph.node("Div", graph.node("Sum", *(scores for _, scores in members)), n_models)
    level = _level(graph, model, predicted)
    # The share of all models that predict the nominal's class.
    same = graph.cast(graph.node("Equal", predicted, graph.upright(nominal[0])), np.float64)
    agreement = graph.node("Div", graph.total(same, 1, keepdims=True), n_models)

    # What the logistic regression of "the answer is right" reads; see `ChanceOfBeingRight`.
    own_class = graph.one_hot(nominal[0], m)
    indicator = graph.cast(own_class, np.float64)
    own = graph.total(graph.node("Mul", mean, indicator), 1, keepdims=True)
    gaps = graph.node("Sub", own, mean)
    far = graph.node("Where", own_class, graph.constant(np.float64(np.inf)), gaps)  # its own class is no rival
    nearest = graph.extreme(far, min(MOST_GAPS, m - 1), largest=False)
    first = graph.columns(nearest, np.array([0]))
    levels = graph.cast(graph.one_hot(level, len(model.levels_)), np.float64)
    inputs = graph.beside(nearest, agreement, levels, indicator, graph.node("Mul", indicator, first))
    score = model._get_state()["score"]  # the plain values that a model file has, too
    slopes = score["coefficients"] / score["scale"]
    offset = score["intercept"] - slopes @ score["mean"]
    return nominal, level, graph.flat(graph.node("Sigmoid", graph.linear(inputs, slopes[:, None], offset)))


def _member(graph: Graph, model: Any, X: Any) -> tuple[str, str]:
    """Predicted class indices (n,), and scores that are higher for a likelier class (n, m)."""
    model, X = unwrapped(graph.scope, model, X)
    if isinstance(model, QMSClassifier):
        scores = log_scores(graph, model, X)
    elif isinstance(model, LinearClassifierMixin):
        coefficients, intercept = model.coef_.T, model.intercept_
        if len(model.classes_) == 2:  # d becomes -d/2, d/2
            coefficients, intercept = coefficients * [[-0.5, 0.5]], intercept * np.array([-0.5, 0.5])
        scores = graph.linear(graph.cast(X.full_name, np.float64), coefficients, intercept)
    elif hasattr(model, "decision_function"):
        raise ValueError(
            f"to_onnx can export a LoyaltyClassifier around QMSClassifier, linear classifiers and classifiers without "
            f"decision_function (forests, trees, naive Bayes); got {type(model).__name__}."
        )
    else:
        index, chances = answer(graph, model, X)
        return index, graph.node("Log", graph.node("Max", chances, graph.constant(np.float64(LEAST_CHANCE))))
    return graph.node("ArgMax", scores, axis=1, keepdims=0), scores


def _level(graph: Graph, model: LoyaltyClassifier, predicted: str) -> str:
    """Definition 6, and its refinement by ladders: the level of each sample, 0 the surest."""
    alterations = Alterations.of(model.beta, model.gamma, len(model.classes_))
    n_betas, n_gammas, m = len(alterations.beta), len(alterations.gamma), len(model.classes_)
    altered = np.array([altered for _, altered in alterations])
    answers = graph.columns(predicted, np.arange(1, 1 + len(altered)))
    claimed = graph.cast(graph.node("Equal", answers, graph.constant(altered[None, :])), np.int64)
    claims = graph.total(graph.node("Reshape", claimed, graph.constant([-1, n_betas + n_gammas, m])), axis=2)
    # The first rung that holds decides: strong where one class claims a sample, weak where three do, else normal.
    rungs = [graph.node("Equal", graph.columns(claims, np.arange(n_betas)), graph.constant(1))]
    if n_gammas:
        pushed = graph.columns(claims, n_betas + np.arange(n_gammas))
        rungs.append(graph.node("GreaterOrEqual", pushed, graph.constant(3)))
    rungs.append(graph.node("GreaterOrEqual", graph.columns(claims, np.array([0])), graph.constant(0)))
    first = graph.node("ArgMax", graph.cast(graph.beside(*rungs), np.float64), axis=1, keepdims=0)
    levels = [*range(n_betas), *range(n_betas + n_gammas, n_betas, -1), n_betas]
    return graph.node("Gather", graph.constant(levels), first)


# -------------------------------------------------------------------------------------------------------- triage


def triaged(graph: Graph, model: TriageClassifier, X: Any) -> tuple[Answer, str, str]:
    """The estimator's answer where accepted, else the fallback's; whether it is (n,), and the trust in it (n,)."""
    if model.fallback_ is None and model.defer_label is not None:
        raise ValueError(
            "to_onnx cannot export the defer_label of TriageClassifier, as a label of ONNX has one type; set "
            "defer_label=None and read the output 'accepted'."
        )
    own, trust = _trusted(graph, model, X)
    thresholds = model.thresholds_.copy()
    finite = np.isfinite(thresholds)
    thresholds[finite] -= ROUNDING * np.abs(thresholds[finite])
    limit = graph.node("Gather", graph.constant(thresholds), own[0])
    accepted = graph.node("GreaterOrEqual", trust, limit)
    # +inf means "accept nothing", even where a score is infinite.
    accepted = graph.node("And", accepted, graph.node("Less", limit, graph.constant(np.float64(np.inf))))
    index, chances = _among(graph, own, model.estimator_.classes_, model.classes_)
    if model.fallback_ is not None:
        other = _among(graph, answer(graph, model.fallback_, X), model.fallback_.classes_, model.classes_)
        index = graph.node("Where", accepted, index, other[0])
        chances = graph.node("Where", graph.upright(accepted), chances, other[1])
    return (index, chances), accepted, trust


def _trusted(graph: Graph, model: TriageClassifier, X: Any) -> tuple[Answer, str]:
    """The estimator's answer and the trust in it, by the method that `score_method` means."""
    estimator, X = unwrapped(graph.scope, model.estimator_, X)
    method = model.score_method
    if method == "auto":
        # A pipeline does not pass loyalty_score on, so "auto" has meant its chances.
        method = "loyalty_score" if hasattr(model.estimator_, "loyalty_score") else "predict_proba"
    if method == "loyalty_score" and isinstance(estimator, LoyaltyClassifier):
        own, _, score = judged(graph, estimator, X)
        return own, score
    if method == "predict_proba":
        own = answer(graph, estimator, X)
        return own, graph.flat(graph.extreme(own[1], 1, largest=True))
    raise ValueError(
        "to_onnx can export a TriageClassifier whose trust is 'loyalty_score' or 'predict_proba'; got "
        f"score_method={model.score_method!r} around {type(estimator).__name__}."
    )


def _among(graph: Graph, found: Answer, known: Any, classes: Any) -> Answer:
    """The same answer in terms of all classes."""
    if np.array_equal(known, classes):
        return found
    place = positions(known, classes)
    index = graph.node("Gather", graph.constant(place), found[0])
    return index, graph.node("MatMul", found[1], graph.constant(np.eye(len(classes))[place]))
