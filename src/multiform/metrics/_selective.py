"""What the error becomes when only the surest answers are kept: risk against coverage.

Notation, for a trust score s(x), higher is surer, and an error indicator e(x): at the threshold t

    coverage c(t) = P(s >= t)            the share of samples that get an answer,
    risk     r(t) = P(e = 1 | s >= t)    the error among them (El-Yaniv and Wiener, 2010).

Samples with the same score cannot be told apart by a threshold, so they are accepted together: every curve
has one point for each distinct score, and none of the figures below depends on the order of the samples. For
the same reason a sample of weight 2 counts exactly as the same sample twice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_consistent_length, column_or_1d

Floats = NDArray[np.float64]


class _Steps(NamedTuple):
    """Cumulative shares of all weight, as the threshold falls from one distinct score to the next."""

    thresholds: Floats  # decreasing
    accepted: Floats  # c(t): share with s >= t
    wrong: Floats  # P(e = 1, s >= t): the generalised risk


def risk_coverage_curve(
    y_true: ArrayLike, y_pred: ArrayLike, trust: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> tuple[Floats, Floats, Floats]:
    """Coverage and selective risk at every threshold of a trust score.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        The true and the predicted labels.
    trust : array-like of shape (n_samples,)
        How sure each prediction is; higher is surer.
    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.

    Returns
    -------
    coverage : ndarray of shape (n_thresholds,)
        The share of the samples whose trust is at least the threshold; increasing, the last one is 1.
    risk : ndarray of shape (n_thresholds,)
        The error among those samples.
    thresholds : ndarray of shape (n_thresholds,)
        The distinct trust scores, decreasing.

    Examples
    --------
    >>> from multiform.metrics import risk_coverage_curve
    >>> coverage, risk, thresholds = risk_coverage_curve([0, 1, 1, 0], [0, 1, 0, 0], [0.9, 0.8, 0.6, 0.6])
    >>> coverage
    array([0.25, 0.5 , 1.  ])
    >>> risk
    array([0.  , 0.  , 0.25])
    >>> thresholds
    array([0.9, 0.8, 0.6])
    """
    steps = _acceptance_steps(y_true, y_pred, trust, sample_weight)
    return steps.accepted, steps.wrong / steps.accepted, steps.thresholds


def aurc(y_true: ArrayLike, y_pred: ArrayLike, trust: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Area under the risk-coverage curve: the mean selective risk (Geifman, Uziel and El-Yaniv, 2019).

    The expectation of r(s(x)) over the samples x: each sample contributes the error among all samples at
    least as sure as itself. 0 is perfect; a constant trust score gives the plain error rate.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        The true and the predicted labels.
    trust : array-like of shape (n_samples,)
        How sure each prediction is; higher is surer.
    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.

    Returns
    -------
    area : float
        Lower is better.

    Examples
    --------
    >>> from multiform.metrics import aurc
    >>> aurc([0, 1, 1, 0], [0, 1, 0, 0], [0.9, 0.8, 0.7, 0.6])  # (0 + 0 + 1/3 + 1/4) / 4
    0.1458...
    """
    steps = _acceptance_steps(y_true, y_pred, trust, sample_weight)
    share = np.diff(steps.accepted, prepend=0.0)
    return float(np.sum(share * steps.wrong / steps.accepted))


def augrc(y_true: ArrayLike, y_pred: ArrayLike, trust: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Area under the generalised risk-coverage curve (Traub et al., 2024).

    The integral over the coverage of P(e = 1, s >= t) = r(t) c(t), the chance that an error slips through.
    Within a group of equal scores it grows linearly, its expectation in random order, so the trapezoidal rule
    is exact and, with the accuracy a and the area under the ROC curve of "trust finds the right answers",

        AUGRC = a (1 - a) (1 - AUROC) + (1 - a)^2 / 2.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        The true and the predicted labels.
    trust : array-like of shape (n_samples,)
        How sure each prediction is; higher is surer.
    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.

    Returns
    -------
    area : float
        Lower is better; at most 1/2.

    Examples
    --------
    >>> from multiform.metrics import augrc
    >>> augrc([0, 1, 1, 0], [0, 1, 0, 0], [0.9, 0.8, 0.7, 0.6])
    0.09375
    """
    steps = _acceptance_steps(y_true, y_pred, trust, sample_weight)
    coverage, wrong = np.append(0.0, steps.accepted), np.append(0.0, steps.wrong)
    return float(np.sum(np.diff(coverage) * (wrong[1:] + wrong[:-1]) / 2))


def accuracy_at_coverage(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    trust: ArrayLike,
    *,
    coverage: float,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Accuracy on the surest part of the samples.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        The true and the predicted labels.
    trust : array-like of shape (n_samples,)
        How sure each prediction is; higher is surer.
    coverage : float in (0, 1]
        The share of the samples to keep. If it cuts through a group of equal scores, the group counts with
        its expectation under a random choice among its samples.
    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.

    Returns
    -------
    accuracy : float
        The accuracy on that part.

    Examples
    --------
    >>> from multiform.metrics import accuracy_at_coverage
    >>> accuracy_at_coverage([0, 1, 1, 0], [0, 1, 0, 0], [0.9, 0.8, 0.7, 0.6], coverage=0.75)
    0.666...
    """
    if not 0 < coverage <= 1:
        raise ValueError(
            "The parameter 'coverage' of accuracy_at_coverage is a share of the samples and must be in (0, "
            f"1]; got {coverage!r}."
        )
    steps = _acceptance_steps(y_true, y_pred, trust, sample_weight)
    wrong = np.interp(coverage, np.append(0.0, steps.accepted), np.append(0.0, steps.wrong))
    return float(1 - wrong / coverage)


def coverage_at_accuracy(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    trust: ArrayLike,
    *,
    accuracy: float,
    sample_weight: ArrayLike | None = None,
) -> float:
    """The largest share of the samples that a threshold can accept at the given accuracy.

    It is read off the very data that it describes, so it flatters; to *promise* an accuracy on data not yet
    seen, use :class:`multiform.TriageClassifier`.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        The true and the predicted labels.
    trust : array-like of shape (n_samples,)
        How sure each prediction is; higher is surer.
    accuracy : float in [0, 1]
        The accuracy that the accepted samples must have.
    sample_weight : array-like of shape (n_samples,), default=None
        Sample weights.

    Returns
    -------
    coverage : float
        0 if no threshold reaches the accuracy.

    Examples
    --------
    >>> from multiform.metrics import coverage_at_accuracy
    >>> coverage_at_accuracy([0, 1, 1, 0], [0, 1, 0, 0], [0.9, 0.8, 0.7, 0.6], accuracy=0.99)
    0.5
    """
    if not 0 <= accuracy <= 1:
        raise ValueError(f"The parameter 'accuracy' of coverage_at_accuracy must be in [0, 1]; got {accuracy!r}.")
    steps = _acceptance_steps(y_true, y_pred, trust, sample_weight)
    # Counts are compared, not their ratio, with room for the rounding of the shares: 0.9 is reached by 9 of
    # 10.
    reached = steps.wrong <= (1 - accuracy) * steps.accepted + 1e-12
    return float(steps.accepted[reached][-1]) if reached.any() else 0.0


def _acceptance_steps(
    y_true: ArrayLike, y_pred: ArrayLike, trust: ArrayLike, sample_weight: ArrayLike | None
) -> _Steps:
    true, pred = column_or_1d(y_true), column_or_1d(y_pred)
    score = np.asarray(column_or_1d(trust), dtype=np.float64)
    check_consistent_length(true, pred, score, sample_weight)
    weight = _valid_weights(sample_weight, len(score))
    if np.isnan(score).any():
        raise ValueError(
            f"The parameter 'trust' must hold one number a sample; got NaN for {np.isnan(score).sum()} of "
            f"{len(score)} samples. Leave those samples out, or give them the lowest trust (-inf)."
        )
    wrong = (true != pred)[weight > 0]
    score, weight = score[weight > 0], weight[weight > 0]

    surest_first = np.argsort(-score, kind="stable")
    score, wrong, weight = score[surest_first], wrong[surest_first], weight[surest_first]
    last_of_group = np.append(score[1:] != score[:-1], True)
    total = weight.sum()
    accepted = np.cumsum(weight)[last_of_group] / total
    accepted[-1] = 1.0  # whatever rounding did to the sum
    return _Steps(score[last_of_group], accepted, np.cumsum(weight * wrong)[last_of_group] / total)


def _valid_weights(sample_weight: ArrayLike | None, n_samples: int) -> NDArray[Any]:
    if sample_weight is None:
        weight = np.ones(n_samples)
    else:
        weight = np.asarray(column_or_1d(sample_weight), dtype=np.float64)
    if not n_samples or not np.isfinite(weight).all() or (weight < 0).any() or not weight.any():
        raise ValueError(
            "A risk-coverage figure needs at least one sample, and weights ('sample_weight') that are "
            f"finite, not negative and not all 0; got {n_samples} samples with weights that sum to "
            f"{weight.sum()}."
        )
    return weight
