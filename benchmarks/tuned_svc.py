"""A support vector machine as a careful user would tune it."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

PENALTIES = (0.3, 3.0, 30.0, 300.0)
WIDTHS = (0.03, 0.1, 0.3, 1.0, 3.0)  # gamma times the number of columns, for standardised columns


class TunedSVC(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """RBF support vector machine, C and gamma by 3-fold grid search.

    The search sees a random part of ``max_search_rows`` at most, as it would take hours on all; the final
    fit sees all rows.
    """

    def __init__(self, max_search_rows: int = 3000, random_state: int | None = None) -> None:
        self.max_search_rows = max_search_rows
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        rng = np.random.default_rng(self.random_state)
        part = rng.permutation(len(X))[: self.max_search_rows]
        grid = {"C": PENALTIES, "gamma": [width / X.shape[1] for width in WIDTHS]}
        folds = StratifiedKFold(3, shuffle=True, random_state=self.random_state)
        search = GridSearchCV(SVC(cache_size=500), grid, cv=folds, refit=False).fit(X[part], y[part])
        self.svc_ = SVC(cache_size=500, **search.best_params_).fit(X, y)
        self.classes_ = self.svc_.classes_
        return self

    def predict(self, X: Any) -> Any:
        return self.svc_.predict(X)
