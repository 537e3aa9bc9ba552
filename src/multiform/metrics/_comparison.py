"""Two classifiers on the same rows: how much better is the second, and is that chance?

Differences are of the second minus the first, with 95 % intervals that heed that the rows are the same:

    accuracy   (c - b) / n, for b rows that only the first gets right and c that only the second does; its interval is
               that of Agresti and Min (2005), with half a row more in each of the four cells; p by McNemar's exact test
    log loss   the mean over rows, with the interval of Student's paired test
    ROC AUC    by DeLong's variance (`auc_influence`); of many classes the mean over each against the rest
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from multiform._typing import Bools, Doubles, Indices
from multiform.metrics._screening import NORMAL, Interval, auc_influence, proportion

LEAST_CHANCE = 1e-6  # that a class is given: one row must not decide a mean


def compare_answers(
    truth: Indices, said: tuple[Indices, Indices], chances: tuple[Doubles, Doubles] | None = None
) -> dict[str, Any]:
    """Accuracy, log loss and ROC AUC of two classifiers on the same rows, and their paired differences.

    Parameters
    ----------
    truth : ndarray of int of shape (n,)
        The class of each row.
    said : two ndarrays of int of shape (n,)
        What each of the two answers.
    chances : two ndarrays of shape (n, m), default=None
        The chances that each gives to all classes.

    Returns
    -------
    found : dict
        ``accuracy``, and with chances ``log_loss`` and ``roc_auc``: each a dict of ``first``, ``second`` and
        ``difference``, an interval. ``rows``: how many both, only the first, only the second and neither get right.
        ``p_value`` of McNemar's test.

    Examples
    --------
    >>> import numpy as np
    >>> from multiform.metrics import compare_answers
    >>> truth = np.zeros(100, dtype=int)
    >>> found = compare_answers(truth, ((np.arange(100) < 20).astype(int), (np.arange(100) < 5).astype(int)))
    >>> found["rows"]
    {'both': 80, 'only_first': 0, 'only_second': 15, 'neither': 5}
    >>> found["accuracy"]["difference"].value, round(found["accuracy"]["difference"].low, 2)
    (0.15, 0.08)
    """
    first, second = (np.asarray(one == truth) for one in said)
    found: dict[str, Any] = {"accuracy": _accuracies(first, second)}
    if chances is not None:
        found["log_loss"] = _log_losses(truth, *chances)
        found["roc_auc"] = _areas(truth, *chances)
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    found["rows"] = {
        "both": int((first & second).sum()),
        "only_first": only_first,
        "only_second": only_second,
        "neither": int((~first & ~second).sum()),
    }
    differ = only_first + only_second
    found["p_value"] = float(scipy.stats.binomtest(only_first, differ).pvalue) if differ else 1.0
    return found


def _accuracies(first: Bools, second: Bools) -> dict[str, Any]:
    n = len(first)
    b, c = int((first & ~second).sum()), int((second & ~first).sum())
    middle = (c - b) / (n + 2)
    half = NORMAL * np.sqrt((b + c + 1) / (n + 2) - middle**2) / np.sqrt(n + 2)
    return {
        "first": proportion(int(first.sum()), n),
        "second": proportion(int(second.sum()), n),
        "difference": Interval((c - b) / n, float(middle - half), float(middle + half)),
    }


def _log_losses(truth: Indices, first: Doubles, second: Doubles) -> dict[str, Any] | None:
    rows = np.arange(len(truth))
    a, b = (-np.log(np.maximum(one[rows, truth], LEAST_CHANCE)) for one in (first, second))
    gain = Interval(float(b.mean() - a.mean()), float(b.mean() - a.mean()), float(b.mean() - a.mean()))
    if len(truth) > 1 and np.ptp(b - a) > 0:
        low, high = scipy.stats.ttest_rel(b, a).confidence_interval(0.95)
        gain = gain._replace(low=float(low), high=float(high))
    return {"first": float(a.mean()), "second": float(b.mean()), "difference": gain}


def _areas(truth: Indices, first: Doubles, second: Doubles) -> dict[str, Any] | None:
    n, m = first.shape
    areas, influence = np.zeros((2, m)), np.zeros((2, n))
    counted = [1] if m == 2 else [k for k in range(m) if 0 < np.sum(truth == k) < n]
    for which, chances in enumerate((first, second)):
        for k in counted:
            found = auc_influence(truth == k, chances[:, k])
            if found is None:
                return None
            areas[which, k] = found[0]
            influence[which] += found[1] / len(counted)
    if not counted:
        return None
    means = areas[:, counted].mean(axis=1)
    half = NORMAL * float(np.sqrt(np.sum((influence[1] - influence[0]) ** 2))) / n
    gain = float(means[1] - means[0])
    return {
        "first": float(means[0]),
        "second": float(means[1]),
        "difference": Interval(gain, gain - half, gain + half),
    }
