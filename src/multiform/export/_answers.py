"""What a classifier says of a sample, as names of values in a graph; one function writes it for any classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from multiform.classifier import QMSClassifier
from multiform.classifier_cv import QMSClassifierCV
from multiform.export._encodings import encoded
from multiform.export._graph import Graph, is_double

__all__ = ["Answer", "answer", "log_scores", "unwrapped"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Answer:
    """Names of values: the index of the predicted class (n,), and the chances (n, m) in double precision."""

    index: str
    chances: str


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
    """Write what a fitted classifier answers.

    Parameters
    ----------
    graph : Graph
    model : fitted classifier
        Ours, or any that skl2onnx can convert.
    X : skl2onnx's Variable
        The samples, float or double.
    """
    model, X = unwrapped(graph.scope, model, X)
    if isinstance(model, QMSClassifier):
        return _chances(graph, log_scores(graph, model, X), model.temperature_)
    if isinstance(model, QMSClassifierCV):
        return _chances(graph, _ensemble_scores(graph, model, X), model.temperature_)
    from multiform.loyalty import LoyaltyClassifier
    from multiform.triage import TriageClassifier

    if isinstance(model, LoyaltyClassifier):
        return answer(graph, model.estimator_, X)
    if isinstance(model, TriageClassifier):
        from multiform.export._triage import triaged

        return triaged(graph, model, X).answer
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
    return Answer(graph.node("ArgMax", scores, axis=1, keepdims=0), graph.node("Softmax", sharpened, axis=1))


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
    flat = graph.node("Reshape", index, graph.constant([-1]))
    return Answer(flat, graph.cast(chances.full_name, np.float64))
