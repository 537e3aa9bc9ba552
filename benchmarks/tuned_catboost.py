"""CatBoost as a careful user would tune it: random trials, judged on a held-out part."""

import time
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

HELD_OUT = 0.2
PATIENCE = 50  # trees without a gain
ITERATIONS = 1000
MOST_SECONDS = 40.0  # of processor time, of trials


class TunedCatBoost(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """CatBoost with the parameters of the best of `n_trials` random ones, the first of which is the default.

    No trial begins after 40 seconds (of processor time) of them. A trial stops early on a fifth of the rows and is
    judged there by its log loss; the final fit sees all rows and has as many trees as the best trial.
    """

    def __init__(self, n_trials: int = 30, n_jobs: int = 1, random_state: int | None = None) -> None:
        self.n_trials = n_trials
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        rng = np.random.default_rng(self.random_state)
        stratify = y if np.bincount(y).min() > 1 and HELD_OUT * len(y) >= len(np.unique(y)) else None
        parts = train_test_split(X, y, test_size=HELD_OUT, random_state=self.random_state, stratify=stratify)
        X_part, X_held, y_part, y_held = parts
        known = np.isin(y_held, y_part)  # CatBoost takes no class in a validation part that training has not
        X_held, y_held = X_held[known], y_held[known]
        best, parameters, n_trees = np.inf, {}, ITERATIONS
        begin = time.process_time()
        for trial in range(self.n_trials):
            if time.process_time() - begin > MOST_SECONDS:
                break
            drawn = {} if trial == 0 else self._drawn(rng)
            model = self._model(iterations=ITERATIONS, **drawn)
            model.fit(X_part, y_part, eval_set=(X_held, y_held), early_stopping_rounds=PATIENCE)
            loss = log_loss(y_held, model.predict_proba(X_held), labels=model.classes_)
            if loss < best:
                best, parameters, n_trees = loss, drawn, max(1, model.tree_count_)
        self.catboost_ = self._model(iterations=n_trees, **parameters).fit(X, y)
        self.classes_ = self.catboost_.classes_
        return self

    def _drawn(self, rng: Any) -> dict[str, Any]:
        return {
            "learning_rate": float(np.exp(rng.uniform(np.log(0.01), np.log(0.3)))),
            "depth": int(rng.integers(3, 9)),
            "l2_leaf_reg": float(np.exp(rng.uniform(0, np.log(10)))),
            "random_strength": float(np.exp(rng.uniform(np.log(0.1), np.log(10)))),
            "bagging_temperature": float(rng.uniform(0, 1)),
        }

    def _model(self, **parameters: Any) -> Any:
        from catboost import CatBoostClassifier

        quiet = {"verbose": 0, "allow_writing_files": False}
        return CatBoostClassifier(thread_count=self.n_jobs, random_seed=self.random_state, **quiet, **parameters)

    def predict(self, X: Any) -> Any:
        return np.ravel(self.catboost_.predict(X))

    def predict_proba(self, X: Any) -> Any:
        return self.catboost_.predict_proba(X)
