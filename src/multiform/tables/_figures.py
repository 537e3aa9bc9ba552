"""A model's answers beside the truth, for programs and for people."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from multiform.columns import TableError, polars
from multiform.metrics import (
    calibration,
    compare_answers,
    loyalty_table,
    one_against_rest,
    pr_auc,
    proportion,
    roc_auc,
    threshold_table,
)
from multiform.metrics.labels import distinct, positions
from multiform.tables._familiarity import Familiarity, nearest
from multiform.tables._overlap import Overlap
from multiform.tables._rule import Rule

MOST_CELLS = 25_000_000  # chances that are kept for areas and thresholds, 100 MB; of more rows a part is drawn evenly
MOST_AREAS = 50  # classes of which areas are computed
MOST_SAMPLED = 5_000  # rows that are kept as they are, for further questions
MOST_ROWS = 1_000  # that are named where two models disagree
MOST_CONFUSED = 30  # classes of a matrix that people look at


def labelled(model: Any, frame: Any, target: str) -> tuple[Any, Any]:
    """The rows that have a label, without the target column, and their labels."""
    if target not in frame.columns:
        ends = nearest(target, frame.columns, "it has")
        raise TableError(f"The table has no column {target!r} with the truth; name the right one as the target: {ends}")
    labels, present = model.labels(frame[target])
    return frame.drop(target).filter(polars().Series(present)), labels


class Thinned:
    """Every row of a table that comes in parts; as it grows beyond `most`, every second, every fourth, ...

    >>> rows = Thinned(most=4)
    >>> for part in (np.arange(3), np.arange(3, 9)):
    ...     rows.add(part)
    >>> np.concatenate(rows.parts), rows.step
    (array([0, 4, 8]), 4)
    """

    def __init__(self, most: int) -> None:
        self.most, self.step, self._n_rows = most, 1, 0
        self.parts: list[Any] = []

    def add(self, part: Any) -> None:
        """The next rows, an array or a frame."""
        self.parts.append(part[-self._n_rows % self.step :: self.step])
        self._n_rows += len(part)
        while sum(map(len, self.parts)) > self.most:
            starts = np.cumsum([0, *map(len, self.parts)]) % 2
            self.parts = [part[start::2] for part, start in zip(self.parts, starts, strict=False)]
            self.step *= 2


OF_ANSWERS = ("label", "chance", "loyalty", "accepted", "changed")


class Judgement:
    """A labelled table, which may come in parts, beside a model's answers.

    Parameters
    ----------
    model : TableClassifier or MatrixModel
    target : str
        The column with the truth.
    rule : Rule, default=None
        The class that is looked for, maybe with a threshold (`rule_for`).

    Attributes
    ----------
    known : Familiarity
        What is unlike training, counted.
    unlabelled : int
        Rows without a label, which are left out.
    rows : Thinned
        The rows with a label, or every so many of them, with the label as the model reads it.
    """

    def __init__(self, model: Any, target: str, rule: Rule | None = None) -> None:
        self.model, self.target, self.rule = model, target, rule
        self.known, self.unlabelled = Familiarity(), 0
        self._true: list[Any] = []
        self._answers: list[Any] = []
        self._overlaps: list[Any] = []
        self._chances = Thinned(MOST_CELLS // len(model.classes_))
        self.rows = Thinned(MOST_SAMPLED)

    def add(self, frame: Any) -> None:
        """A part of the table."""
        rows, labels = labelled(self.model, frame, self.target)
        if len(rows):
            self._true.append(labels)
            has_chances = hasattr(self.model.estimator_, "predict_proba")
            answers, familiar = self.model.answers(rows, chances=has_chances)
            if self.rule is not None:
                answers = self.rule.decide(answers, self.model.classes_)
            if has_chances:
                chances = answers.select([f"chance of {label}" for label in self.model.classes_]).to_numpy()
                self._chances.add(chances.astype(np.float32))
            self.rows.add(rows.with_columns(polars().Series(self.target, labels)))
            self._answers.append(answers.select([name for name in OF_ANSWERS if name in answers.columns]))
            self.known += familiar.counted()
            self._overlaps.append(self.model.overlap(rows, labels))
        self.unlabelled += len(frame) - len(rows)

    def as_dict(self) -> dict[str, Any]:
        """What `multiform evaluate --json` tells."""
        if not self._true:
            raise ValueError("No row has a label, so there is nothing to compare with.")
        parts, true = self._answers, np.concatenate(self._true)
        columns = {column: np.concatenate([part[column].to_numpy() for part in parts]) for column in parts[0].columns}
        told = figures(self.model.estimator_, true, columns)
        if self._chances.parts:
            step = self._chances.step
            told |= _by_chance(
                np.asarray(self.model.classes_),
                true[::step],
                {name: column[::step] for name, column in columns.items()},
                np.concatenate(self._chances.parts),
                self.rule,
            )
            if self.rule is not None:
                changed = int(np.sum(columns["changed"])) if "changed" in columns else 0
                told["positive"] |= {"target": self.target, "changed": changed}
            for label, row in told.pop("areas").items():
                told["classes"].setdefault(label, {"rows": 0}).update(row)
        overlap = Overlap.of_all(self._overlaps)
        return told | {
            "unfamiliar": self.known.as_dict(),
            "training_rows": None if overlap is None else overlap.as_dict(),
        }

    @property
    def n_rows(self) -> int:
        """Rows with a label."""
        return sum(map(len, self._true))

    def collected(self) -> tuple[Any, Any, Any, int]:
        """True labels and answers as text, the chances of every `step`-th row or None, and the step."""
        if not self._true:
            raise ValueError("No row has a label, so there is nothing to compare with.")
        said = np.concatenate([part["label"].cast(str).to_numpy() for part in self._answers])
        true = np.array([str(label) for part in self._true for label in part.tolist()], dtype=object)
        chances = np.concatenate(self._chances.parts) if self._chances.parts else None
        return true, said, chances, self._chances.step

    def notes(self) -> list[str]:
        """What is worth knowing of the figures: rows without a label, rows that the model was trained on."""
        overlap = Overlap.of_all(self._overlaps)
        found = [f"{self.unlabelled} rows have no label and were left out."] if self.unlabelled else []
        return [*found, *(overlap.notes() if overlap is not None else [])]


def compared(first: Judgement, second: Judgement) -> dict[str, Any]:
    """Two models on the same rows: what `multiform compare --json` tells."""
    (true, said_first, *about_first), (other_true, said_second, *about_second) = first.collected(), second.collected()
    if not np.array_equal(true, other_true):
        raise ValueError(
            "The two models do not predict the same: their labels of these rows differ, for example "
            f"{true[0]!r} and {other_true[0]!r}; give --target a column that both can be judged by."
        )
    labels = distinct(true, said_first, said_second)
    truth, *said = (positions(one, labels) for one in (true, said_first, said_second))
    told = compare_answers(truth, (said[0], said[1]))
    if about_first[0] is not None and about_second[0] is not None:
        step = max(about_first[1], about_second[1])
        chances = [
            _widened(one[:: step // own], judged.model.classes_, labels)
            for (one, own), judged in ((about_first, first), (about_second, second))
        ]
        part = slice(None, None, step)
        by_chance = compare_answers(truth[part], (said[0][part], said[1][part]), (chances[0], chances[1]))
        told |= {name: by_chance[name] for name in ("log_loss", "roc_auc")}
    found: dict[str, Any] = {"n_rows": len(true), "right": told.pop("rows"), "p_value": told.pop("p_value")}
    for name, figure in told.items():
        found[name] = figure and {key: _interval(one) if isinstance(one, tuple) else one for key, one in figure.items()}
    differ = np.flatnonzero(said[0] != said[1])
    patterns = Counter(zip(true[differ], said_first[differ], said_second[differ], strict=True))
    found["disagreements"] = [
        {"truth": truth_, "first": one, "second": other, "rows": count}
        for (truth_, one, other), count in patterns.most_common()
    ]
    found["disagreeing_rows"] = (differ[:MOST_ROWS] + 1).tolist()
    found["n_disagreeing"] = len(differ)
    found["classes"] = {
        str(label): {
            "rows": int((truth == k).sum()),
            "first": _share(said[0][truth == k] == k),
            "second": _share(said[1][truth == k] == k),
        }
        for k, label in enumerate(labels)
        if (truth == k).any()
    }
    return found


def _widened(chances: Any, classes: Any, labels: Any) -> Any:
    """Chances of a model's classes as those of all labels; one that it does not know has none."""
    place = positions(np.array([str(label) for label in classes], dtype=object), labels)
    found = np.zeros((len(chances), len(labels)), dtype=np.float64)
    found[:, place[place >= 0]] = chances[:, place >= 0]
    return found


def figures(estimator: Any, true: Any, answers: dict[str, Any]) -> dict[str, Any]:
    """How the answers, by column, do beside the truth: what `multiform evaluate --json` tells."""
    labels = distinct(true)
    truth, said = positions(true, labels), positions(answers["label"], labels)  # -1: a label that no row has
    right, counts = truth == said, np.bincount(truth)
    unknown = positions(labels, np.asarray(estimator.classes_)) < 0
    data: dict[str, Any] = {
        "rows": len(true),
        "accuracy": float(right.mean()),
        "accuracy_interval": _interval(proportion(int(right.sum()), len(right))),
        "commonest_class": str(labels[counts.argmax()]),
        "commonest_class_accuracy": float(counts.max() / counts.sum()),
        "mean_chance": float(np.mean(answers["chance"])),
        "classes": {
            str(label): {
                "rows": int(counts[k]),
                "recall": float(right[truth == k].mean()),
                "precision": _share(right[said == k]),
                **{name: _interval(found) for name, found in one_against_rest(truth == k, said == k).items()},
            }
            for k, label in enumerate(labels)
        },
        "unknown_classes": [str(label) for label in labels[unknown]],
        "confusion": _confusion(true, answers["label"]),
    }
    judge = estimator if hasattr(estimator, "loyalty_table_") else getattr(estimator, "estimator_", estimator)
    if "loyalty" in answers and hasattr(judge, "loyalty_table_"):
        typed = np.array([level is not None for level in answers["loyalty"]])  # a threshold takes the type away
        found = loyalty_table(truth[typed], said[typed], answers["loyalty"][typed], levels=judge.levels_)
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


def _by_chance(classes: Any, true: Any, answers: dict[str, Any], chances: Any, rule: Rule | None) -> dict[str, Any]:
    """What needs the chances of all classes: areas, calibration, thresholds."""
    truth = positions(true, classes)
    commonest = np.argsort(-np.bincount(truth[truth >= 0], minlength=len(classes)), kind="stable")[:MOST_AREAS]
    areas = {
        str(classes[k]): {
            "roc_auc": _interval(roc_auc(truth == k, chances[:, k])),
            "pr_auc": _interval(pr_auc(truth == k, chances[:, k])),
        }
        for k in sorted(commonest.tolist())
    }
    told: dict[str, Any] = {"areas": areas, "rows_for_areas": len(true)}
    if rule is None:
        right = truth == positions(answers["label"], classes)
        told["calibration"] = {"of": "answer", "groups": _told(calibration(right, answers["chance"]))}
        return told
    k = int(positions(np.array([rule.positive], dtype=object), classes)[0])
    asked = [] if rule.least_chance is None else [rule.least_chance]
    told["positive"] = {
        "class": str(rule.positive),
        "why": rule.why,
        "threshold": rule.least_chance,
        "cost_of_miss": rule.cost_of_miss,
    }
    told["calibration"] = {"of": str(rule.positive), "groups": _told(calibration(truth == k, chances[:, k]))}
    told["thresholds"] = _told(threshold_table(truth == k, chances[:, k], asked, rule.cost_of_miss))
    return told


def _confusion(true: Any, said: Any) -> dict[str, dict[str, int]] | None:
    """Counts by true class and answer; None of very many classes."""
    labels = distinct(true, said)
    if len(labels) > MOST_CONFUSED:
        return None
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(counts, (positions(true, labels), positions(said, labels)), 1)
    names = [str(label) for label in labels]
    return {name: dict(zip(names, row, strict=True)) for name, row in zip(names, counts.tolist(), strict=True)}


def _told(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Intervals as JSON has them."""
    return [{name: _interval(one) if isinstance(one, tuple) else one for name, one in row.items()} for row in rows]


def _interval(found: Any) -> dict[str, float] | None:
    return None if found is None else dict(found._asdict())


def _share(right: Any) -> float | None:
    return float(right.mean()) if len(right) else None
