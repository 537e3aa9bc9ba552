"""Triage as ONNX: the answer, and whether the promise covers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from multiform.export._answers import Answer, answer, unwrapped
from multiform.export._graph import Graph
from multiform.loyalty import LoyaltyClassifier
from multiform.metrics.labels import positions
from multiform.triage import TriageClassifier

__all__ = ["Triaged", "triaged"]

# Thresholds are scores of calibration samples, so a repeated sample lies exactly on one; rounding must not reject it.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Triaged:
    """Names of values: the answer, whether it is accepted (n,), and the trust in it (n,)."""

    answer: Answer
    accepted: str
    trust: str


def triaged(graph: Graph, model: TriageClassifier, X: Any) -> Triaged:
    """The estimator's answer where it is accepted, else the fallback's."""
    if model.fallback_ is None and model.defer_label is not None:
        raise ValueError(
            "to_onnx cannot export the defer_label of TriageClassifier, as a label of ONNX has one type; set "
            "defer_label=None and read the output 'accepted'."
        )
    own, trust = _trusted(graph, model, X)
    thresholds = model.thresholds_.copy()
    finite = np.isfinite(thresholds)
    thresholds[finite] -= ROUNDING * np.abs(thresholds[finite])
    limit = graph.node("Gather", graph.constant(thresholds), own.index)
    accepted = graph.node("GreaterOrEqual", trust, limit)
    # +inf means "accept nothing", even where a score is infinite.
    accepted = graph.node("And", accepted, graph.node("Less", limit, graph.constant(np.float64(np.inf))))
    own = _among(graph, own, model.estimator_.classes_, model.classes_)
    if model.fallback_ is None:
        return Triaged(own, accepted, trust)
    other = _among(graph, answer(graph, model.fallback_, X), model.fallback_.classes_, model.classes_)
    index = graph.node("Where", accepted, own.index, other.index)
    rows = graph.node("Unsqueeze", accepted, graph.constant([1]))
    return Triaged(Answer(index, graph.node("Where", rows, own.chances, other.chances)), accepted, trust)


def _trusted(graph: Graph, model: TriageClassifier, X: Any) -> tuple[Answer, str]:
    """The estimator's answer and the trust in it, by the method that `score_method` means."""
    estimator, X = unwrapped(graph.scope, model.estimator_, X)
    method = model.score_method
    is_loyalty = isinstance(estimator, LoyaltyClassifier)
    if method == "auto":
        # A pipeline does not pass loyalty_score on, so "auto" has meant its chances.
        method = "loyalty_score" if hasattr(model.estimator_, "loyalty_score") else "predict_proba"
    if method == "loyalty_score" and is_loyalty:
        from multiform.export._loyalty import judged

        judgement = judged(graph, estimator, X)
        return judgement.answer, graph.node("Reshape", judgement.score, graph.constant([-1]))
    if method == "predict_proba":
        found = answer(graph, estimator, X)
        return found, graph.largest(found.chances)
    raise ValueError(
        "to_onnx can export a TriageClassifier whose trust is 'loyalty_score' or 'predict_proba'; got "
        f"score_method={model.score_method!r} around {type(estimator).__name__}."
    )


def _among(graph: Graph, found: Answer, known: Any, classes: Any) -> Answer:
    """The same answer in terms of all classes."""
    if np.array_equal(known, classes):
        return found
    place = positions(known, classes)
    index = graph.node("Gather", graph.constant(place), found.index)
    return Answer(index, graph.node("MatMul", found.chances, graph.constant(np.eye(len(classes))[place])))
