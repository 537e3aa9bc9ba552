"""The loyalty extraction machine as ONNX: type and score of every answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model._base import LinearClassifierMixin

from multiform.classifier import QMSClassifier
from multiform.export._answers import Answer, answer, log_scores, unwrapped
from multiform.export._graph import Graph
from multiform.loyalty import LEAST_CHANCE, MOST_GAPS, Alterations, LoyaltyClassifier

__all__ = ["Judgement", "judged"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Judgement:
    """Names of values: the answer, the loyalty level (n,) and the chance of being right (n, 1)."""

    answer: Answer
    level: str
    score: str


def judged(graph: Graph, model: LoyaltyClassifier, X: Any) -> Judgement:
    """Ask every model about every sample."""
    members = [_member(graph, member, X) for member in (model.estimator_, *model.altered_estimators_)]
    nominal = answer(graph, model.estimator_, X)
    m = len(model.classes_)
    predicted = graph.beside(*(graph.node("Unsqueeze", index, graph.constant([1])) for index, _ in members))
    n_models = float(len(members))
    mean = graph.node("Div", graph.node("Sum", *(scores for _, scores in members)), graph.constant(n_models))
    level = _level(graph, model, predicted)
    # The share of all models that predict the nominal's class.
    same = graph.node("Equal", predicted, graph.node("Unsqueeze", nominal.index, graph.constant([1])))
    agreement = graph.node("Div", graph.total(graph.cast(same, np.float64), 1, keepdims=True), graph.constant(n_models))
    inputs = _score_inputs(graph, model, nominal.index, mean, agreement, level, m)
    score = model._get_state()["score"]  # the plain values that a model file has, too
    slopes = score["coefficients"] / score["scale"]
    offset = score["intercept"] - slopes @ score["mean"]
    return Judgement(nominal, level, graph.node("Sigmoid", graph.linear(inputs, slopes[:, None], offset)))


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
        found = answer(graph, model, X)
        chances = graph.node("Max", found.chances, graph.constant(np.float64(LEAST_CHANCE)))
        return found.index, graph.node("Log", chances)
    return graph.node("ArgMax", scores, axis=1, keepdims=0), scores


def _level(graph: Graph, model: LoyaltyClassifier, predicted: str) -> str:
    """Definition 6, and its refinement by ladders: the level of each sample, 0 the surest."""
    alterations = Alterations.of(model.beta, model.gamma, len(model.classes_))
    n_betas, n_gammas, m = len(alterations.beta), len(alterations.gamma), len(model.classes_)
    altered = np.array([altered for _, altered in alterations])
    answers = graph.columns(predicted, np.arange(1, 1 + len(altered)))
    claimed = graph.cast(graph.node("Equal", answers, graph.constant(altered[None, :])), np.int64)
    claims = graph.total(graph.node("Reshape", claimed, graph.constant([-1, n_betas + n_gammas, m])), axis=2)

    def claims_of(step: int) -> str:
        return graph.node("Gather", claims, graph.constant(np.int64(step)), axis=1)

    level = graph.node("Mul", claims_of(0), graph.constant(np.int64(0)))
    level = graph.node("Add", level, graph.constant(np.int64(n_betas)))  # normal
    for step in reversed(range(n_gammas)):
        weak = graph.node("GreaterOrEqual", claims_of(n_betas + step), graph.constant(np.int64(3)))
        level = graph.node("Where", weak, graph.constant(np.int64(n_betas + n_gammas - step)), level)
    for step in reversed(range(n_betas)):
        strong = graph.node("Equal", claims_of(step), graph.constant(np.int64(1)))
        level = graph.node("Where", strong, graph.constant(np.int64(step)), level)
    return level


def _score_inputs(
    graph: Graph, model: LoyaltyClassifier, index: str, mean: str, agreement: str, level: str, m: int
) -> str:
    """What the logistic regression of "the answer is right" reads; see `ChanceOfBeingRight`."""
    own_class = graph.one_hot(index, m)
    predicted = graph.cast(own_class, np.float64)
    own = graph.total(graph.node("Mul", mean, predicted), 1, keepdims=True)
    gaps = graph.node("Sub", own, mean)
    far = graph.node("Where", own_class, graph.constant(np.float64(np.inf)), gaps)  # its own class is no rival
    nearest = graph.smallest(far, min(MOST_GAPS, m - 1))
    first = graph.columns(nearest, np.array([0]))
    levels = graph.cast(graph.one_hot(level, len(model.levels_)), np.float64)
    return graph.beside(nearest, agreement, levels, predicted, graph.node("Mul", predicted, first))
