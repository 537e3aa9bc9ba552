"""Where the model is least sure: by class, and sample by sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiform._typing import Array
from multiform.reporting._answers import Answers
from multiform.reporting._pictures import MANY_CLASSES

N_SAMPLES = 8


def doubts(model: Any, X: Any, answers: Answers) -> dict[str, Any]:
    """The classes that are recognised least, the samples with the least trust, and the wrong answers with the most.

    The latter are what to look at first, in the model and in the labels.
    """
    identifiers = _identifiers(model, X)
    classes = _classes(answers)
    unsure, mistaken = np.empty(0, dtype=int), np.empty(0, dtype=int)
    if answers.can_be_ranked:
        assert answers.trust is not None
        unsure = np.argsort(answers.trust, kind="stable")
        wrong = np.flatnonzero(~answers.right)
        mistaken = wrong[np.argsort(-answers.trust[wrong], kind="stable")]
    # A sample is named by the index of a pandas frame, else by the number of its row, from 0.
    index = getattr(X, "index", None)
    rows = np.arange(len(answers.truth)) if index is None or callable(index) else np.asarray(index)
    return {
        "class_doubts": classes[:MANY_CLASSES],
        "n_class_doubts": len(classes),
        "least_sure": [_sample(answers, i, rows, identifiers) for i in unsure[:N_SAMPLES]],
        "confident_mistakes": [_sample(answers, i, rows, identifiers) for i in mistaken[:N_SAMPLES]],
        "has_identifiers": identifiers is not None,
    }


def _identifiers(model: Any, X: Any) -> Array | None:
    """The column that a table model has taken for an identifier, to name the samples by."""
    names = [column.name for column in getattr(model, "columns_", []) if column.role == "identifier"]
    known = [name for name in names if name in getattr(X, "columns", [])]
    return np.asarray(X[known[0]].to_numpy()) if known else None


def _classes(answers: Answers) -> list[dict[str, Any]]:
    """How each class that occurs fares, the one that is recognised least first."""
    found = []
    for position, label in enumerate(answers.classes):
        own, said = answers.truth == position, answers.labels == position
        if not (own.any() or said.any()):
            continue
        wrong, counts = np.unique(answers.labels[own & ~answers.right], return_counts=True)
        found.append(
            {
                "label": label,
                "count": int(own.sum()),
                "recall": float(answers.right[own].mean()) if own.any() else None,
                "precision": float(answers.right[said].mean()) if said.any() else None,
                "mean_trust": float(answers.trust[own].mean()) if own.any() and answers.trust is not None else None,
                "taken_for": answers.classes[wrong[counts.argmax()]] if len(wrong) else None,
                "taken_for_count": int(counts.max()) if len(wrong) else 0,
            }
        )
    return sorted(found, key=lambda doubt: (2.0 if doubt["recall"] is None else doubt["recall"], str(doubt["label"])))


def _sample(answers: Answers, i: int, rows: Array, identifiers: Array | None) -> dict[str, Any]:
    """Where a sample stands, what it is, what was answered, and how surely."""
    assert answers.trust is not None
    runner_up = None
    if answers.chances is not None:
        ranked = np.argsort(-answers.chances[i], kind="stable")
        runner_up = next((answers.classes[position] for position in ranked if position != answers.labels[i]), None)
    return {
        "row": rows[i],
        "identifier": None if identifiers is None else identifiers[i],
        "truth": answers.classes[answers.truth[i]],
        "label": answers.classes[answers.labels[i]],
        "trust": float(answers.trust[i]),
        "runner_up": runner_up,
        "loyalty": None if answers.loyalty is None else str(answers.loyalty[i]),
        "right": bool(answers.right[i]),
    }
