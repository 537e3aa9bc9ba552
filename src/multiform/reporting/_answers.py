"""Everything that a fitted model says of labelled samples, through its public methods alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import _num_samples

from multiform._typing import Array, Bools, Doubles, Indices
from multiform.metrics import LoyaltyTable, loyalty_table, trust_score
from multiform.metrics.labels import distinct, positions


@dataclass(frozen=True)
class Answers:
    """A model's answers to labelled samples; None is what the model does not say."""

    classes: Array  # every label that was answered or true, in order
    truth: Indices  # what each sample is, as a position in `classes`
    labels: Indices  # what was answered, likewise
    chances: Array | None  # per sample and class; a class that the model does not know has none
    trust: Doubles | None  # how sure each answer is
    trust_is_chance: bool  # whether that is meant as the chance of being right
    loyalty: Array | None  # the loyalty type of each answer
    estimated: LoyaltyTable | None  # what training expected of the types
    triage: Any  # the classifier that promises an accuracy of the answers that it accepts
    accepted: Bools | None  # which those are
    promises: list[Any]  # each promise that it makes, beside what became of it

    @property
    def right(self) -> Bools:
        """Which answers are right."""
        return np.asarray(self.labels == self.truth)

    @property
    def can_be_ranked(self) -> bool:
        """Whether it is known of every answer how sure it is."""
        return self.trust is not None and not np.isnan(self.trust).any()

    def runner_up(self, i: int) -> Any:
        """The likeliest class of sample i but for the answer; empty where there is no other."""
        assert self.chances is not None
        ranked = np.argsort(-self.chances[i], kind="stable")
        return next((self.classes[position] for position in ranked if position != self.labels[i]), "")

    @property
    def levels(self) -> tuple[str, ...]:
        """The loyalty types, the surest first."""
        if self.estimated is not None:
            return self.estimated.levels
        assert self.loyalty is not None
        return tuple(level for level in ("strong", "normal", "weak") if level in set(self.loyalty))

    @property
    def actual(self) -> LoyaltyTable:
        """What came true of the types."""
        assert self.loyalty is not None
        return loyalty_table(self.truth, self.labels, self.loyalty, levels=self.levels)


def ask(model: Any, X: Any, y: Any) -> Answers:
    """Ask a fitted classifier everything that it can say of the samples X with the labels y."""
    truth = np.asarray(y)
    if truth.ndim != 1 or len(truth) != _num_samples(X):
        raise ValueError(
            f"y of report must hold one label per sample, {_num_samples(X)}; got the shape {truth.shape}: "
            "give one column."
        )
    if not len(truth):
        raise ValueError("report needs at least one labelled sample; got none.")
    n_missing = sum(label is None or label != label for label in truth.tolist())
    if n_missing:
        raise ValueError(f"y of report lacks {n_missing} of its {len(truth)} labels; leave those samples out.")
    labels, known = np.asarray(model.predict(X)), np.asarray(model.classes_)
    if truth.dtype.kind in "biuf" and known.dtype.kind in "biuf" and np.array_equal(truth.astype(known.dtype), truth):
        truth = truth.astype(known.dtype)  # 1.0 is 1, and is shown so
    if set(known.tolist()).isdisjoint(truth.tolist()):
        raise ValueError(
            "None of the labels given to report is a class of the model: the labels are "
            f"{distinct(truth)[:5].tolist()}, the classes {known[:5].tolist()}; encode both alike."
        )
    classes = distinct(truth, labels, known)
    chances = None
    if hasattr(model, "predict_proba"):
        chances = np.zeros((len(truth), len(classes)))
        chances[:, positions(known, classes)] = model.predict_proba(X)

    loyalty, estimated, triage, accepted, trust, is_chance = None, None, None, None, None, False
    promises: list[Any] = []
    for part, seen in layers(model, X):
        if triage is None and hasattr(part, "certificates_"):
            asked = (model, X) if hasattr(model, "defer") else (part, seen)  # a table in front of it defers more
            triage, accepted = part, ~np.asarray(asked[0].defer(asked[1]))
            trust = np.asarray(part.trust_score(seen), dtype=np.float64)
            promises = part.report(seen, truth).promises
        if loyalty is None and hasattr(part, "predict_loyalty"):
            loyalty = np.asarray(part.predict_loyalty(seen))
        if estimated is None and hasattr(part, "loyalty_table_"):
            estimated = part.loyalty_table_
        if trust is None and hasattr(part, "loyalty_score"):
            trust, is_chance = np.asarray(part.loyalty_score(seen), dtype=np.float64), True
    if trust is None and (chances is not None or hasattr(model, "decision_function")):
        trust, is_chance = trust_score(model, X), chances is not None
    if triage is not None and trust is not None:
        is_chance = bool(((trust >= 0) & (trust <= 1)).all())
    found = positions(truth, classes), positions(labels, classes)
    return Answers(classes, *found, chances, trust, is_chance, loyalty, estimated, triage, accepted, promises)


def layers(model: Any, X: Any) -> list[tuple[Any, Any]]:
    """The model and those that it is wrapped around, each with the samples as it sees them.

    A pipeline does not pass `predict_loyalty` or `defer` on, so its last step is asked; a triage knows no loyalty, but
    its estimator may.
    """
    found = [(model, X)]
    while True:
        if isinstance(model, Pipeline):
            X = model[:-1].transform(X) if len(model.steps) > 1 else X
            model = model.steps[-1][1]
        elif isinstance(model, FrozenEstimator):
            model = model.estimator
        elif hasattr(model, "estimator_") and hasattr(model, "transform"):  # a table in front of a classifier
            X = model.transform(X)
            model = model.estimator_
        elif hasattr(model, "certificates_"):
            model = model.estimator_
        else:
            return found
        found.append((model, X))
