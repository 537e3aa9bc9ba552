"""One number a sample for how sure a classifier is, whatever it offers; and scorers built on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multiform.metrics._selective import augrc, aurc

ScoreMethod = str | Callable[[Any, Any], ArrayLike]
SCORE_METHODS = ("loyalty_score", "predict_proba", "decision_function")


def trust_score(estimator: Any, X: Any, method: ScoreMethod = "auto") -> NDArray[np.float64]:
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
        elif name == "decision_function":
            values = _margin(values)
    if values.ndim != 1:
        raise ValueError(
            f"The score method {method!r} must give one number a sample, of shape (n_samples,); got the "
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


def _margin(values: NDArray[np.float64]) -> NDArray[np.float64]:
    if values.ndim == 1:
        return np.abs(values)
    ordered = np.partition(values, -2, axis=1)
    return np.asarray(ordered[:, -1] - ordered[:, -2])


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
        ``metric(y_true, y_pred, trust, *, sample_weight, **kwargs)``, for instance
        :func:`accuracy_at_coverage`.
    score_method : str or callable, default="auto"
        Where the trust comes from; see :func:`trust_score`.
    greater_is_better : bool, default=True
        Whether a larger value is better; if not, the scorer changes the sign.
    **kwargs
        Further arguments of the metric.

    Returns
    -------
    scorer : SelectiveScorer
        A callable ``scorer(estimator, X, y)``.

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
