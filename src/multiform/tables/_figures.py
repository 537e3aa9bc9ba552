"""A model's answers beside the truth, for programs and for people."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiform.metrics import loyalty_table
from multiform.metrics.labels import distinct, positions


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
