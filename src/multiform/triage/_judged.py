"""A classifier judged on samples that it has not seen: the raw material of a calibration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from multiform._typing import Array, Doubles, Indices
from multiform.metrics import ScoreMethod, trust_score

# Calibration samples as the tests need them: what they are, what they were called, and how surely.
Judged = tuple[Array, Array, Doubles]


def judge(estimator: Any, X: Any, y: Array, score_method: ScoreMethod) -> Judged:
    """A fitted classifier's answers to labelled samples."""
    return y, np.asarray(estimator.predict(X)), trust_score(estimator, X, score_method)


def fit_and_judge(
    estimator: Any,
    X: Any,
    y: Array,
    train: Indices,
    test: Indices,
    score_method: ScoreMethod,
    params: Mapping[str, Any],
) -> Judged:
    """Fit on the samples at ``train``, judge those at ``test``."""
    estimator.fit(_safe_indexing(X, train), y[train], **cut_metadata(params, train, len(y)))
    return judge(estimator, _safe_indexing(X, test), y[test], score_method)


def cut_metadata(params: Mapping[str, Any], index: Indices, n_samples: int) -> dict[str, Any]:
    """Metadata for the samples at ``index``: what has one entry per sample is cut, the rest passes as it is."""

    def per_sample(value: Any) -> bool:
        return hasattr(value, "__len__") and not isinstance(value, str) and _num_samples(value) == n_samples

    return {k: _safe_indexing(v, index) if per_sample(v) else v for k, v in params.items()}
