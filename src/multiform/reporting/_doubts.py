"""Where the model is least sure: by class, and sample by sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from multiform.reporting._answers import Answers

__all__ = ["ClassDoubt", "SampleDoubt", "class_doubts", "confident_mistakes", "least_sure"]

Array = npt.NDArray[Any]
N_SAMPLES = 8


@dataclass(frozen=True)
class ClassDoubt:
    """How a class fares."""

    label: Any
    count: int
    recall: float | None
    precision: float | None
    mean_trust: float | None
    taken_for: Any | None
    taken_for_count: int


@dataclass(frozen=True)
class SampleDoubt:
    """One sample: where it stands, what it is, what was answered, and how surely."""

    row: Any
    identifier: Any | None
    truth: Any
    label: Any
    trust: float
    runner_up: Any | None
    loyalty: str | None
    right: bool


def class_doubts(answers: Answers) -> list[ClassDoubt]:
    """All classes that occur, the one that is recognised least first."""
    doubts = []
    for position, label in enumerate(answers.classes):
        own, said = answers.truth == position, answers.labels == position
        if not (own.any() or said.any()):
            continue
        wrong, counts = np.unique(answers.labels[own & ~answers.right], return_counts=True)
        doubts.append(
            ClassDoubt(
                label,
                int(own.sum()),
                float(answers.right[own].mean()) if own.any() else None,
                float(answers.right[said].mean()) if said.any() else None,
                float(answers.trust[own].mean()) if own.any() and answers.trust is not None else None,
                answers.classes[wrong[counts.argmax()]] if len(wrong) else None,
                int(counts.max()) if len(wrong) else 0,
            )
        )
    return sorted(doubts, key=lambda doubt: (2.0 if doubt.recall is None else doubt.recall, str(doubt.label)))


def least_sure(answers: Answers, rows: Array, identifiers: Array | None) -> list[SampleDoubt]:
    """The samples with the least trust."""
    assert answers.trust is not None
    order = np.argsort(answers.trust, kind="stable")[:N_SAMPLES]
    return [_sample(answers, i, rows, identifiers) for i in order]


def confident_mistakes(answers: Answers, rows: Array, identifiers: Array | None) -> list[SampleDoubt]:
    """The wrong answers with the most trust: what to look at first, in the model and in the labels."""
    assert answers.trust is not None
    wrong = np.flatnonzero(~answers.right)
    order = wrong[np.argsort(-answers.trust[wrong], kind="stable")][:N_SAMPLES]
    return [_sample(answers, i, rows, identifiers) for i in order]


def _sample(answers: Answers, i: int, rows: Array, identifiers: Array | None) -> SampleDoubt:
    assert answers.trust is not None
    runner_up = None
    if answers.chances is not None:
        ranked = np.argsort(-answers.chances[i], kind="stable")
        runner_up = next((answers.classes[position] for position in ranked if position != answers.labels[i]), None)
    return SampleDoubt(
        rows[i],
        None if identifiers is None else identifiers[i],
        answers.classes[answers.truth[i]],
        answers.classes[answers.labels[i]],
        float(answers.trust[i]),
        runner_up,
        None if answers.loyalty is None else str(answers.loyalty[i]),
        bool(answers.right[i]),
    )
