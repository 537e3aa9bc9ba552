"""A model's answers beside the truth, for programs and for people."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiform.columns import TableError, polars
from multiform.metrics import loyalty_table
from multiform.metrics.labels import distinct, positions
from multiform.tables._familiarity import Familiarity, nearest
from multiform.tables._overlap import Overlap


def labelled(model: Any, frame: Any, target: str) -> tuple[Any, Any]:
    """The rows that have a label, without the target column, and their labels."""
    if target not in frame.columns:
        ends = nearest(target, frame.columns, "it has")
        raise TableError(f"The table has no column {target!r} with the truth; give its name by --target: {ends}")
    labels, present = model.labels(frame[target])
    return frame.drop(target).filter(polars().Series(present)), labels


class Judgement:
    """A labelled table, which may come in parts, beside a model's answers.

    Attributes
    ----------
    known : Familiarity
        What is unlike training, counted.
    unlabelled : int
        Rows without a label, which are left out.
    """

    def __init__(self, model: Any, target: str) -> None:
        self.model, self.target = model, target
        self.known, self.unlabelled = Familiarity(), 0
        self._true: list[Any] = []
        self._answers: list[Any] = []
        self._overlaps: list[Any] = []

    def add(self, frame: Any) -> None:
        """A part of the table."""
        rows, labels = labelled(self.model, frame, self.target)
        if len(rows):
            self._true.append(labels)
            answers, familiar = self.model.answers(rows)
            self._answers.append(answers)
            self.known += familiar.counted()
            self._overlaps.append(self.model.overlap(rows, labels))
        self.unlabelled += len(frame) - len(rows)

    def as_dict(self) -> dict[str, Any]:
        """What `multiform evaluate --json` tells."""
        if not self._true:
            raise ValueError("No row has a label, so there is nothing to compare with.")
        parts = self._answers
        columns = {column: np.concatenate([part[column].to_numpy() for part in parts]) for column in parts[0].columns}
        told = figures(self.model.estimator_, np.concatenate(self._true), columns)
        overlap = Overlap.of_all(self._overlaps)
        return told | {
            "unfamiliar": self.known.as_dict(),
            "training_rows": None if overlap is None else overlap.as_dict(),
        }

    def notes(self) -> list[str]:
        """What is worth knowing of the figures: rows without a label, rows that the model was trained on."""
        overlap = Overlap.of_all(self._overlaps)
        found = [f"{self.unlabelled} rows have no label and were left out."] if self.unlabelled else []
        return [*found, *(overlap.notes() if overlap is not None else [])]


def figures(estimator: Any, true: Any, answers: dict[str, Any]) -> dict[str, Any]:
    """How the answers, by column, do beside the truth: what `multiform evaluate --json` tells."""
    labels = distinct(true)
    truth, said = positions(true, labels), positions(answers["label"], labels)  # -1: a label that no row has
    right, counts = truth == said, np.bincount(truth)
    unknown = positions(labels, np.asarray(estimator.classes_)) < 0
    data: dict[str, Any] = {
        "rows": len(true),
        "accuracy": float(right.mean()),
        "commonest_class": str(labels[counts.argmax()]),
        "commonest_class_accuracy": float(counts.max() / counts.sum()),
        "mean_chance": float(np.mean(answers["chance"])),
        "classes": {
            str(label): {
                "rows": int(counts[k]),
                "recall": float(right[truth == k].mean()),
                "precision": _share(right[said == k]),
            }
            for k, label in enumerate(labels)
        },
        "unknown_classes": [str(label) for label in labels[unknown]],
    }
    judge = estimator if hasattr(estimator, "loyalty_table_") else getattr(estimator, "estimator_", estimator)
    if "loyalty" in answers and hasattr(judge, "loyalty_table_"):
        found = loyalty_table(truth, said, answers["loyalty"], levels=judge.levels_)
        expected = judge.loyalty_table_.as_dict()
        data["loyalty"] = {
            level: {**row, "expected_accuracy": expected[level]["accuracy"], "expected_share": expected[level]["share"]}
            for level, row in found.as_dict().items()
        }
    if "accepted" in answers:
        accepted = answers["accepted"]
        reached = _share(right[accepted])
        data["accepted"] = {
            "rows": int(accepted.sum()),
            "share": float(accepted.mean()),
            "accuracy": reached,
            "promised": float(estimator.target_accuracy),
            "kept": reached is None or reached >= estimator.target_accuracy,
        }
    return data


def _share(right: Any) -> float | None:
    return float(right.mean()) if len(right) else None
