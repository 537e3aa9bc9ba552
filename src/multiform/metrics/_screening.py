"""One class against the rest, as a test is judged: who is found, who is called so and is, and at which threshold.

    sensitivity   of those who are of the class, the share that is found (recall)
    specificity   of all others, the share that is not called so
    PPV           of those who are called so, the share that is (positive predictive value, precision)
    NPV           of all others, the share that is not (negative predictive value)
    ROC AUC       of pairs of one who is and one who is not, the share in which the first has the higher chance
    PR AUC        the precision, averaged over those who are as the threshold falls to each of them

All are shares, and every interval is Wilson's, of 95 %, with the number of rows that the share is of. For the ROC AUC
this number n solves ``A (1 - A) / n = Var A``, the variance by DeLong et al. (1988); for the PR AUC it is the number of
those who are of the class (Boyd, Eng and Page, 2013, found such intervals sound where the bootstrap's are too narrow).

The variance of an area is that of the mean of one number a row, its influence. With the share pi of the class and
``V_i``, the share of the others whom row i is on the right side of,

    phi_i = (V_i - A) / pi    of the class,    (V_i - A) / (1 - pi)    of the others,    Var A = sum phi_i^2 / n^2,

so that the difference of two areas on the same rows, and the mean over classes, are no harder.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy

from multiform._typing import Bools, Doubles

NORMAL = 1.959963984540054  # of 95 %
THRESHOLDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
N_BINS = 10


class Interval(NamedTuple):
    """A figure, and the 95 % interval around it."""

    value: float
    low: float
    high: float


def share_interval(value: float, n: float) -> Interval:
    """A share of n rows and its Wilson interval; n need not be whole.

    >>> share_interval(0.8, 10)
    Interval(value=0.8, low=0.490..., high=0.943...)
    """
    spread = NORMAL**2 / n
    middle = (value + spread / 2) / (1 + spread)
    half = math.sqrt(spread * value * (1 - value) + spread**2 / 4) / (1 + spread)
    # It holds the share itself, whatever rounding does at 0 and 1.
    return Interval(float(value), max(0.0, min(value, middle - half)), min(1.0, max(value, middle + half)))


def proportion(n_right: int, n: int) -> Interval | None:
    """A share by its counts; None of nothing."""
    return share_interval(n_right / n, n) if n else None


def auc_influence(own: Bools, chance: Doubles) -> tuple[float, Doubles] | None:
    """The area under the ROC curve, and the influence of each row on it; None if there is only one kind of row."""
    n, n_own = len(own), int(own.sum())
    if n_own in (0, n):
        return None
    ranks = scipy.stats.rankdata(chance)
    placed = np.empty(n)
    placed[own] = (ranks[own] - scipy.stats.rankdata(chance[own])) / (n - n_own)
    placed[~own] = 1 - (ranks[~own] - scipy.stats.rankdata(chance[~own])) / n_own
    area = float(placed[own].mean())
    return area, (placed - area) / np.where(own, n_own / n, 1 - n_own / n)


def roc_auc(own: Bools, chance: Doubles) -> Interval | None:
    """The area under the ROC curve with its interval; None if there is only one kind of row.

    Parameters
    ----------
    own, chance : ndarray of shape (n,)
        Who is of the class (bool), and the chance that each is.

    Examples
    --------
    >>> import numpy as np
    >>> from multiform.metrics import roc_auc
    >>> area = roc_auc(np.array([0, 0, 1, 1], dtype=bool), np.array([0.1, 0.4, 0.35, 0.8]))
    >>> area.value, area.low < 0.5
    (0.75, True)
    """
    found = auc_influence(own, chance)
    if found is None:
        return None
    area, influence = found
    n, n_own = len(own), int(own.sum())
    variance = float(np.sum(influence**2)) / n**2
    # Of classes that are parted wholly the rows say nothing of the scatter: then as many count as the rarer class has.
    least = min(n_own, n - n_own)
    return share_interval(area, min(n, area * (1 - area) / variance) if variance > 0 and 0 < area < 1 else least)


def pr_auc(own: Bools, chance: Doubles) -> Interval | None:
    """The average precision, the area under the precision-recall curve, with its interval; None without the class.

    Parameters
    ----------
    own, chance : ndarray of shape (n,)
        Who is of the class (bool), and the chance that each is.

    Examples
    --------
    >>> import numpy as np
    >>> from multiform.metrics import pr_auc
    >>> round(pr_auc(np.array([0, 0, 1, 1], dtype=bool), np.array([0.1, 0.4, 0.35, 0.8])).value, 3)
    0.833
    """
    n_own = int(own.sum())
    from sklearn.metrics import average_precision_score  # it takes a while to load

    return share_interval(float(average_precision_score(own, chance)), n_own) if n_own else None


def one_against_rest(own: Bools, called: Bools) -> dict[str, Any]:
    """Sensitivity, specificity and predictive values with their intervals, None where nobody is left to judge by.

    Parameters
    ----------
    own, called : ndarray of bool of shape (n,)
        Who is of the class, and who is called so.

    Examples
    --------
    >>> import numpy as np
    >>> from multiform.metrics import one_against_rest
    >>> found = one_against_rest(np.array([1, 1, 0, 0], dtype=bool), np.array([1, 0, 0, 0], dtype=bool))
    >>> found["sensitivity"].value, found["specificity"].value, found["ppv"].value
    (0.5, 1.0, 1.0)
    """
    found, n, n_own, n_called = int((own & called).sum()), len(own), int(own.sum()), int(called.sum())
    spared = n - n_own - n_called + found  # neither of the class nor called so
    return {
        "sensitivity": proportion(found, n_own),
        "specificity": proportion(spared, n - n_own),
        "ppv": proportion(found, n_called),
        "npv": proportion(spared, n - n_called),
    }


def threshold_table(
    own: Bools, chance: Doubles, thresholds: Sequence[float] = (), cost_of_miss: float | None = None
) -> list[dict[str, Any]]:
    """What becomes of the figures where everybody is called so whose chance is at least the threshold.

    Parameters
    ----------
    own, chance : ndarray of shape (n,)
        Who is of the class, and the chance that each is.
    thresholds : sequence of float
        Further ones, beside twelve from 0.01 to 0.9.
    cost_of_miss : float, default=None
        How many false alarms a miss is worth: then each row has ``cost``, in false alarms per 100 rows.

    Examples
    --------
    >>> import numpy as np
    >>> from multiform.metrics import threshold_table
    >>> rows = threshold_table(np.array([0, 1], dtype=bool), np.array([0.3, 0.6]), [0.45])
    >>> [(row["threshold"], row["called"]) for row in rows][6:8]
    [(0.4, 1), (0.45, 1)]
    """
    rows = []
    for threshold in sorted({*THRESHOLDS, *thresholds}):
        called = chance >= threshold
        row = {"threshold": threshold, "called": int(called.sum()), **one_against_rest(own, called)}
        if cost_of_miss is not None:
            row["cost"] = 100 * float(np.mean(called & ~own) + cost_of_miss * np.mean(own & ~called))
        rows.append(row)
    return rows


def calibration(came_true: Bools, chance: Doubles, n_bins: int = N_BINS) -> list[dict[str, Any]]:
    """Are chances true? The rows in up to ten groups of about equal size, by the chance that they were given.

    Parameters
    ----------
    came_true, chance : ndarray of shape (n,)
        Whether it came true (bool), and the chance that it was given.
    n_bins : int, default=10
        Groups at most.

    Returns
    -------
    groups : list of dict
        ``chance``, the mean of those given; ``share``, of the rows in which it came true, with its interval; ``rows``.

    Examples
    --------
    >>> import numpy as np
    >>> from multiform.metrics import calibration
    >>> found = calibration(np.arange(100) % 4 == 0, np.repeat([0.2, 0.3], 50))
    >>> [(round(group["chance"], 2), group["share"].value, group["rows"]) for group in found]
    [(0.2, 0.26, 50), (0.3, 0.24, 50)]
    """
    edges = np.unique(np.quantile(chance, np.linspace(0, 1, n_bins + 1)))
    if len(edges) < 3:  # two chances at most: each is a group
        edges = np.append(edges, edges[-1] + 1.0)
    sums, _, place = scipy.stats.binned_statistic(chance, [chance, came_true], "sum", bins=edges)
    counts = np.bincount(place - 1, minlength=len(edges) - 1)
    return [
        {"chance": float(sums[0][k] / rows), "share": proportion(round(sums[1][k]), int(rows)), "rows": int(rows)}
        for k, rows in enumerate(counts)
        if rows
    ]
