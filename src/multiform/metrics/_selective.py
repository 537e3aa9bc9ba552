"""What the error becomes when only the surest answers are kept: risk against coverage.

Then one number per sample for how sure a classifier is, whatever it offers, and scorers built on it.

Notation, for a trust score s(x), higher is surer, and an error indicator e(x): at the threshold t

    coverage c(t) = P(s >= t)            the share of samples that get an answer,
    risk     r(t) = P(e = 1 | s >= t)    the error among them (El-Yaniv and Wiener, 2010).

Samples with the same score cannot be told apart by a threshold, so they are accepted together: every curve
has one point for each distinct score, and none of the figures below depends on the order of the samples. For
the same reason a sample of weight 2 counts exactly as the same sample twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_consistent_length, column_or_1d

from multiform._typing import Doubles

ScoreMethod = str | Callable[[Any, Any], ArrayLike]
SCORE_METHODS = ("loyalty_score", "predict_proba", "decision_function")


def risk_coverage_curve(
    y_true: ArrayLike, y_pred: ArrayLike, trust: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> tuple[Doubles, Doubles, Doubles]:
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
    accepted, wrong, thresholds = _acceptance_steps(y_true, y_pred, trust, sample_weight)
    return accepted, wrong / accepted, thresholds


def aurc(y_true: ArrayLike, y_pred: ArrayLike, trust: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Area under the risk-coverage curve: the mean selective risk (Geifman, Uziel and El-Yaniv, 2019).

    The expectation of r(s(x)) over the samples x: each sample contributes the error among all samples at
    least as sure as itself. Lower is better: 0 is perfect; a constant trust score gives the plain error rate.

    Parameters
    ----------
    y_true, y_pred, trust, sample_weight
        As in :func:`risk_coverage_curve`.

    Examples
    --------
    >>> from multiform.metrics import aurc
    >>> aurc([0, 1, 1, 0], [0, 1, 0, 0], [0.9, 0.8, 0.7, 0.6])  # (0 + 0 + 1/3 + 1/4) / 4
    0.1458...
    """
    accepted, wrong, _ = _acceptance_steps(y_true, y_pred, trust, sample_weight)
    return float(np.sum(np.diff(accepted, prepend=0.0) * wrong / accepted))


def augrc(y_true: ArrayLike, y_pred: ArrayLike, trust: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Area under the generalised risk-coverage curve (Traub et al., 2024).

    The integral over the coverage of P(e = 1, s >= t) = r(t) c(t), the chance that an error slips through.
    Within a group of equal scores it grows linearly, its expectation in random order, so the trapezoidal rule
    is exact and, with the accuracy a and the area under the ROC curve of "trust finds the right answers",

        AUGRC = a (1 - a) (1 - AUROC) + (1 - a)^2 / 2.

    Lower is better; it is at most 1/2.

    Parameters
    ----------
    y_true, y_pred, trust, sample_weight
        As in :func:`risk_coverage_curve`.

    Examples
    --------
    >>> from multiform.metrics import augrc
    >>> augrc([0, 1, 1, 0], [0, 1, 0, 0], [0.9, 0.8, 0.7, 0.6])
    0.09375
    """
    accepted, wrong, _ = _acceptance_steps(y_true, y_pred, trust, sample_weight)
    coverage, wrong = np.append(0.0, accepted), np.append(0.0, wrong)
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
    y_true, y_pred, trust, sample_weight
        As in :func:`risk_coverage_curve`.
    coverage : float in (0, 1]
        The share of the samples to keep. If it cuts through a group of equal scores, the group counts with
        its expectation under a random choice among its samples.

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
    accepted, wrong, _ = _acceptance_steps(y_true, y_pred, trust, sample_weight)
    risk = np.interp(coverage, np.append(0.0, accepted), np.append(0.0, wrong)) / coverage
    return float(1 - risk)


def coverage_at_accuracy(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    trust: ArrayLike,
    *,
    accuracy: float,
    sample_weight: ArrayLike | None = None,
) -> float:
    """The largest share of the samples that a threshold can accept at the given accuracy; 0 if none reaches it.

    It is read off the very data that it describes, so it flatters; to *promise* an accuracy on data not yet
    seen, use :class:`multiform.TriageClassifier`.

    Parameters
    ----------
    y_true, y_pred, trust, sample_weight
        As in :func:`risk_coverage_curve`.
    accuracy : float in [0, 1]
        The accuracy that the accepted samples must have.

    Examples
    --------
    >>> from multiform.metrics import coverage_at_accuracy
    >>> coverage_at_accuracy([0, 1, 1, 0], [0, 1, 0, 0], [0.9, 0.8, 0.7, 0.6], accuracy=0.99)
    0.5
    """
    if not 0 <= accuracy <= 1:
        raise ValueError(f"The parameter 'accuracy' of coverage_at_accuracy must be in [0, 1]; got {accuracy!r}.")
    accepted, wrong, _ = _acceptance_steps(y_true, y_pred, trust, sample_weight)
    # Counts are compared, not their ratio, with room for the rounding of the shares: 0.9 is reached by 9 of 10.
    reached = wrong <= (1 - accuracy) * accepted + 1e-12
    return float(accepted[reached][-1]) if reached.any() else 0.0


def _acceptance_steps(
    y_true: ArrayLike, y_pred: ArrayLike, trust: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[Doubles, Doubles, Doubles]:
    """Cumulative shares of all weight, as the threshold falls from one distinct score to the next.

    They are c(t), the share with s >= t, and P(e = 1, s >= t), the generalised risk; then the thresholds, decreasing.
    """
    true, pred = column_or_1d(y_true), column_or_1d(y_pred)
    score = np.asarray(column_or_1d(trust), dtype=np.float64)
    check_consistent_length(true, pred, score, sample_weight)
    n_samples = len(score)
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
    if np.isnan(score).any():
        raise ValueError(
            f"The parameter 'trust' must hold one number per sample; got NaN for {np.isnan(score).sum()} of "
            f"{n_samples} samples. Leave those samples out, or give them the lowest trust (-inf)."
        )
    wrong = (true != pred)[weight > 0]
    score, weight = score[weight > 0], weight[weight > 0]

    surest_first = np.argsort(-score, kind="stable")
    score, wrong, weight = score[surest_first], wrong[surest_first], weight[surest_first]
    last_of_group = np.append(score[1:] != score[:-1], True)
    total = weight.sum()
    accepted = np.cumsum(weight)[last_of_group] / total
    accepted[-1] = 1.0  # whatever rounding did to the sum
    return accepted, np.cumsum(weight * wrong)[last_of_group] / total, score[last_of_group]


def trust_score(estimator: Any, X: Any, method: ScoreMethod = "auto") -> Doubles:
    """How sure a fitted classifier is of its prediction, sample by sample.

    Parameters
    ----------
    estimator : fitted classifier
        The classifier.
    X : array-like of shape (n_samples, n_features)
        The samples.
    method : {"auto", "loyalty_score", "predict_proba", "decision_function"} or callable, default="auto"
        Where the score comes from:

        - ``"loyalty_score"``: the estimated chance of being right, of :class:`multiform.LoyaltyClassifier`;
        - ``"predict_proba"``: the largest class probability;
        - ``"decision_function"``: the margin, the best class's value minus the second best's (two classes:
          the absolute value);
        - ``"auto"``: the first of these that the classifier has;
        - a callable ``method(estimator, X)`` that returns the scores.

    Returns
    -------
    trust : ndarray of shape (n_samples,)
        Higher is surer. Only the order matters to what is built on it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from multiform.metrics import trust_score
    >>> X, y = load_iris(return_X_y=True)
    >>> trust_score(LogisticRegression(max_iter=1000).fit(X, y), X).shape
    (150,)
    """
    if callable(method):
        values = np.asarray(method(estimator, X), dtype=np.float64)
    else:
        name = _resolve(estimator, method)
        values = np.asarray(getattr(estimator, name)(X), dtype=np.float64)
        if name == "predict_proba":
            values = values.max(axis=1)
        elif name == "decision_function" and values.ndim == 1:
            values = np.abs(values)
        elif name == "decision_function":
            ordered = np.partition(values, -2, axis=1)
            values = ordered[:, -1] - ordered[:, -2]
    if values.ndim != 1:
        raise ValueError(
            f"The score method {method!r} must give one number per sample, of shape (n_samples,); got the "
            f"shape {values.shape}."
        )
    return values


def _resolve(estimator: Any, method: str) -> str:
    """The name of the method to call, or a sentence why there is none."""
    if method != "auto" and method not in SCORE_METHODS:
        raise ValueError(
            f"The score method must be 'auto', one of {list(SCORE_METHODS)} or a callable; got {method!r}."
        )
    wanted = SCORE_METHODS if method == "auto" else (method,)
    for name in wanted:
        if hasattr(estimator, name):
            return name
    raise ValueError(
        f"{type(estimator).__name__} cannot say how sure it is: it has none of the methods {list(wanted)}. "
        "Use a classifier that has one of them, or give a callable(estimator, X) as the score method."
    )


@dataclass(frozen=True)
class SelectiveScorer:
    """A scorer ``scorer(estimator, X, y)`` of how well a classifier knows when it is right.

    Made by :func:`make_selective_scorer`; usable wherever scikit-learn takes a callable ``scoring``.
    """

    metric: Callable[..., float]
    score_method: ScoreMethod = "auto"
    greater_is_better: bool = True
    kwargs: dict[str, Any] = field(default_factory=dict)

    def __call__(self, estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        trust = trust_score(estimator, X, self.score_method)
        value = self.metric(y, estimator.predict(X), trust, sample_weight=sample_weight, **self.kwargs)
        return value if self.greater_is_better else -value


def make_selective_scorer(
    metric: Callable[..., float],
    *,
    score_method: ScoreMethod = "auto",
    greater_is_better: bool = True,
    **kwargs: Any,
) -> SelectiveScorer:
    """Turn a metric of this module into a scorer for ``cross_validate``, ``GridSearchCV`` and the like.

    Parameters
    ----------
    metric : callable
        ``metric(y_true, y_pred, trust, *, sample_weight, **kwargs)``, for instance :func:`accuracy_at_coverage`.
    score_method : str or callable, default="auto"
        Where the trust comes from; see :func:`trust_score`.
    greater_is_better : bool, default=True
        Whether a larger value is better; if not, the scorer changes the sign.
    **kwargs
        Further arguments of the metric.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_val_score
    >>> from multiform.metrics import accuracy_at_coverage, make_selective_scorer
    >>> scorer = make_selective_scorer(accuracy_at_coverage, coverage=0.5)
    >>> X, y = load_iris(return_X_y=True)
    >>> float(cross_val_score(LogisticRegression(max_iter=1000), X, y, scoring=scorer).mean())
    1.0
    """
    return SelectiveScorer(metric, score_method, greater_is_better, kwargs)


neg_aurc_scorer = make_selective_scorer(aurc, greater_is_better=False)
"""Minus the area under the risk-coverage curve, as a scorer."""

neg_augrc_scorer = make_selective_scorer(augrc, greater_is_better=False)
"""Minus the area under the generalised risk-coverage curve, as a scorer."""
