"""The confusion tensor (section 3.2 of the paper) and the tables and reports read off it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import unique_labels
from sklearn.utils.validation import check_consistent_length, column_or_1d

from multiform._typing import Array, Doubles, Indices
from multiform.metrics.labels import distinct, positions

LOYALTY_LEVELS: tuple[str, ...] = ("strong", "normal", "weak")
"""The paper's three loyalty types (Definition 6), the surest first: the order of the layers."""

TYPE_WORDS = {"strong": "sure", "normal": "usual", "weak": "unsure"}


def type_words(level: str) -> str:
    """A loyalty type: the paper's word, and what it means.

    >>> type_words("strong"), type_words("weak(20)")
    ('strong (sure)', 'weak(20) (unsure)')
    """
    return next((f"{level} ({word})" for begin, word in TYPE_WORDS.items() if level.startswith(begin)), level)


def confusion_tensor(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    loyalty: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    levels: Sequence[str] = LOYALTY_LEVELS,
    sample_weight: ArrayLike | None = None,
) -> Array:
    """Count right and wrong answers by loyalty type: one confusion matrix per layer.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        The true and the predicted labels.
    loyalty : array-like of shape (n_samples,)
        The loyalty type of each sample, one of ``levels``.
    labels : array-like of shape (n_classes,), default=None
        The classes, in the wanted order; samples of other classes are left out, as in
        :func:`sklearn.metrics.confusion_matrix`. By default every label of ``y_true`` or ``y_pred``, sorted.
    levels : sequence of str, default=("strong", "normal", "weak")
        The loyalty types, from the surest to the least sure: the order of the layers.
    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.

    Returns
    -------
    tensor : ndarray of shape (n_levels, n_classes, n_classes)
        ``tensor[l, i, j]`` counts the samples of level ``l`` that are of class ``i`` and were called ``j``;
        integers, or floats if there are weights. ``tensor.sum(axis=0)`` is the confusion matrix.

    Examples
    --------
    >>> from multiform.metrics import confusion_tensor
    >>> tensor = confusion_tensor([0, 0, 1, 1], [0, 1, 1, 1], ["strong", "weak", "strong", "normal"])
    >>> tensor.shape
    (3, 2, 2)
    >>> tensor[0]
    array([[1, 0],
           [0, 1]])
    >>> tensor.sum(axis=0)
    array([[1, 1],
           [0, 2]])
    """
    true, pred = column_or_1d(y_true), column_or_1d(y_pred)
    level = _level_index(loyalty, levels)
    check_consistent_length(true, pred, level, sample_weight)
    classes = _classes(true, pred, labels)
    row, col = positions(true, classes), positions(pred, classes)
    kept = (row >= 0) & (col >= 0)

    n_levels, n_classes = len(levels), len(classes)
    cell = ((level * n_classes + row) * n_classes + col)[kept]
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)[kept]
    counts = np.bincount(cell, weights=weight, minlength=n_levels * n_classes**2)
    return counts.reshape(n_levels, n_classes, n_classes)


class LayerScores(NamedTuple):
    """What the confusion matrix of each layer says; NaN where there is nothing to divide by.

    That is where a layer has no sample, no sample called so, or no sample of the class.

    Attributes
    ----------
    accuracy : ndarray of shape (n_levels,)
        The local predictive accuracy (LPA) of section 4.4.
    precision, recall : ndarray of shape (n_levels, n_classes)
        Of each class, within the layer.
    """

    accuracy: Doubles
    precision: Doubles
    recall: Doubles


def layer_scores(tensor: ArrayLike) -> LayerScores:
    """Accuracy, precision and recall of every layer of a confusion tensor.

    Parameters
    ----------
    tensor : array-like of shape (n_levels, n_classes, n_classes)
        What :func:`confusion_tensor` returns.

    Examples
    --------
    >>> from multiform.metrics import layer_scores
    >>> scores = layer_scores([[[8, 0], [1, 1]], [[0, 0], [0, 0]]])
    >>> scores.accuracy
    array([0.9, nan])
    >>> scores.recall[0]
    array([1. , 0.5])
    """
    layers = np.asarray(tensor, dtype=np.float64)
    if layers.ndim != 3 or layers.shape[1] != layers.shape[2]:
        raise ValueError(
            "The parameter 'tensor' of layer_scores must have the shape (n_levels, n_classes, n_classes), as "
            f"confusion_tensor returns it; got the shape {layers.shape}."
        )
    right = np.diagonal(layers, axis1=1, axis2=2)
    return LayerScores(
        accuracy=_ratio(right.sum(axis=1), layers.sum(axis=(1, 2))),
        precision=_ratio(right, layers.sum(axis=1)),
        recall=_ratio(right, layers.sum(axis=2)),
    )


@dataclass(frozen=True, eq=False)
class LoyaltyTable:
    """How many samples each loyalty type has and how many of them are right: the tables of section 4.4.

    Attributes
    ----------
    levels : tuple of str
        The loyalty types, from the surest to the least sure.
    count : ndarray of shape (n_levels,)
        Samples of the type (the paper's n_1).
    correct : ndarray of shape (n_levels,)
        Samples of the type that are predicted rightly (n_2).
    """

    levels: tuple[str, ...]
    count: Array
    correct: Array

    @property
    def share(self) -> Doubles:
        """The part of all samples that is of the type (n_1 / n)."""
        return _ratio(self.count, np.full(len(self.levels), self.count.sum()))

    @property
    def accuracy(self) -> Doubles:
        """The local predictive accuracy (n_2 / n_1); NaN for a type without samples."""
        return _ratio(self.correct, self.count)

    @property
    def overall_accuracy(self) -> float:
        """The accuracy over all types: the inner product of ``share`` and ``accuracy``."""
        return float(self.correct.sum() / self.count.sum()) if self.count.sum() else float("nan")

    def as_dict(self) -> dict[str, dict[str, float]]:
        """One entry per type: ``count``, ``share``, ``correct``, ``accuracy``."""
        columns = zip(self.levels, self.count, self.share, self.correct, self.accuracy, strict=True)
        return {
            level: {"count": n1.item(), "share": float(share), "correct": n2.item(), "accuracy": float(lpa)}
            for level, n1, share, n2, lpa in columns
        }

    def __str__(self) -> str:
        width = max(7, *(len(level) for level in self.levels))
        lines = [f"{'':>{width}} {'count':>9} {'share':>8} {'correct':>9} {'accuracy':>9}"]
        for level, row in self.as_dict().items():
            accuracy = "-" if np.isnan(row["accuracy"]) else f"{row['accuracy']:.2%}"
            lines.append(f"{level:>{width}} {row['count']:>9g} {row['share']:>8.2%} {row['correct']:>9g} {accuracy:>9}")
        return "\n".join(lines)


def loyalty_table(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    loyalty: ArrayLike,
    *,
    levels: Sequence[str] = LOYALTY_LEVELS,
    sample_weight: ArrayLike | None = None,
) -> LoyaltyTable:
    """Count the samples of each loyalty type, and the right answers among them; it prints as the paper's table.

    Parameters
    ----------
    y_true, y_pred, loyalty, levels, sample_weight
        As in :func:`confusion_tensor`.

    Examples
    --------
    >>> from multiform.metrics import loyalty_table
    >>> print(loyalty_table([0, 0, 1, 1], [0, 1, 1, 1], ["strong", "weak", "strong", "normal"]))
                count    share   correct  accuracy
     strong         2   50.00%         2   100.00%
     normal         1   25.00%         1   100.00%
       weak         1   25.00%         0     0.00%
    """
    tensor = confusion_tensor(y_true, y_pred, loyalty, levels=levels, sample_weight=sample_weight)
    right = np.diagonal(tensor, axis1=1, axis2=2)
    return LoyaltyTable(tuple(levels), tensor.sum(axis=(1, 2)), right.sum(axis=1))


def loyalty_report(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    loyalty: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    target_names: Sequence[str] | None = None,
    levels: Sequence[str] = LOYALTY_LEVELS,
    sample_weight: ArrayLike | None = None,
    digits: int = 4,
    output_dict: bool = False,
) -> str | dict[str, Any]:
    """Say how far each loyalty type can be trusted, in the manner of ``classification_report``.

    Parameters
    ----------
    y_true, y_pred, loyalty, labels, levels, sample_weight
        As in :func:`confusion_tensor`.
    target_names : sequence of str of length n_classes, default=None
        Names to print for the classes.
    digits : int, default=4
        Digits after the point in the text.
    output_dict : bool, default=False
        Whether to return a dictionary instead of text.

    Returns
    -------
    report : str or dict
        By type and overall: ``count``, ``share``, ``correct``, ``accuracy``, and the unweighted means over
        the classes of ``precision`` and ``recall``, leaving out classes for which they are undefined. Below
        it, for every class, precision, recall and support within each type; in the dictionary under
        ``"classes"``. What cannot be computed is NaN in the dictionary and ``-`` in the text.

    Examples
    --------
    >>> from multiform.metrics import loyalty_report
    >>> y_true = ["cat", "cat", "dog", "dog", "dog"]
    >>> y_pred = ["cat", "dog", "dog", "dog", "cat"]
    >>> loyalty = ["strong", "weak", "strong", "strong", "normal"]
    >>> print(loyalty_report(y_true, y_pred, loyalty, digits=2))
                 count     share   correct  accuracy precision    recall
    <BLANKLINE>
        strong       3      0.60         3      1.00      1.00      1.00
        normal       1      0.20         0      0.00      0.00      0.00
          weak       1      0.20         0      0.00      0.00      0.00
       overall       5      1.00         3      0.60      0.58      0.58
    <BLANKLINE>
                      strong                        normal                         weak
             precision    recall   support precision    recall   support precision    recall   support
    <BLANKLINE>
       cat      1.00      1.00         1      0.00         -         0         -      0.00         1
       dog      1.00      1.00         2         -      0.00         1      0.00         -         0
    """
    true, pred = column_or_1d(y_true), column_or_1d(y_pred)
    classes = _classes(true, pred, labels)
    names = [str(c) for c in classes] if target_names is None else [str(name) for name in target_names]
    if len(names) != len(classes):
        raise ValueError(
            f"The parameter 'target_names' of loyalty_report must name the {len(classes)} classes, one each; "
            f"got {len(names)} names. Give as many names as labels."
        )
    tensor = confusion_tensor(true, pred, loyalty, labels=classes, levels=levels, sample_weight=sample_weight)
    stacked = np.concatenate([tensor, tensor.sum(axis=0, keepdims=True)])  # the last layer is "overall"
    scores = layer_scores(stacked)
    count = stacked.sum(axis=(1, 2))
    correct = np.diagonal(stacked, axis1=1, axis2=2).sum(axis=1)
    share = _ratio(count, np.full(len(count), count[-1]))

    report: dict[str, Any] = {}
    for k, level in enumerate([*levels, "overall"]):
        support = stacked[k].sum(axis=1)
        report[level] = {
            "count": count[k].item(),
            "share": float(share[k]),
            "correct": correct[k].item(),
            "accuracy": float(scores.accuracy[k]),
            "precision": _mean_of_defined(scores.precision[k]),
            "recall": _mean_of_defined(scores.recall[k]),
            "classes": {
                name: {
                    "precision": float(scores.precision[k, c]),
                    "recall": float(scores.recall[k, c]),
                    "support": support[c].item(),
                }
                for c, name in enumerate(names)
            },
        }
    return report if output_dict else _render(report, names, list(levels), digits)


def _render(report: dict[str, Any], names: list[str], levels: list[str], digits: int) -> str:
    """The report as text: one row per type, then one row per class with three columns per type."""
    width = max(10, *(len(text) + 2 for text in [*names, *levels]))

    def cell(value: float, size: int = 10) -> str:
        if np.isnan(value):
            return f"{'-':>{size}}"
        return f"{value:>{size}.{digits}f}" if isinstance(value, float) else f"{value:>{size}d}"

    columns = ["count", "share", "correct", "accuracy", "precision", "recall"]
    lines = [" " * width + f"{columns[0]:>8}" + "".join(f"{name:>10}" for name in columns[1:]), ""]
    for level, row in report.items():
        lines.append(f"{level:>{width}}" + cell(row["count"], 8) + "".join(cell(row[c]) for c in columns[1:]))

    inner = ["precision", "recall", "support"]
    lines += ["", (" " * width + "".join(f"{level:^30}" for level in levels)).rstrip()]
    lines += [" " * width + "".join(f"{name:>10}" for _ in levels for name in inner), ""]
    for name in names:
        cells = [cell(report[level]["classes"][name][c]) for level in levels for c in inner]
        lines.append(f"{name:>{width}}" + "".join(cells))
    return "\n".join(lines)


def _classes(true: Array, pred: Array, labels: ArrayLike | None) -> Array:
    """The classes to count: those asked for, else all."""
    if labels is not None:
        return np.asarray(column_or_1d(labels))
    unique_labels(true, pred)  # refuses measurements, and numbers beside texts
    return distinct(true, pred)


def _level_index(loyalty: ArrayLike, levels: Sequence[str]) -> Indices:
    """The position of each sample's loyalty type in ``levels``; an unknown type is refused."""
    if len(set(levels)) != len(levels) or not len(levels):
        raise ValueError(
            f"The parameter 'levels' must name each loyalty type once, the surest first; got {list(levels)!r}."
        )
    types = column_or_1d(loyalty)
    index = positions(types, np.array(levels, dtype=object))
    if (index < 0).any():
        raise ValueError(
            f"The parameter 'loyalty' must hold only the types {list(levels)!r}; got "
            f"{distinct(types[index < 0]).tolist()!r}. Name a finer partition's types with the parameter 'levels'."
        )
    return index


def _ratio(numerator: Array, denominator: Array) -> Doubles:
    """``numerator / denominator``, NaN where the denominator is 0."""
    out = np.full(np.shape(numerator), np.nan)
    np.divide(numerator, denominator, out=out, where=np.asarray(denominator) > 0)
    return out


def _mean_of_defined(values: Doubles) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else float("nan")
