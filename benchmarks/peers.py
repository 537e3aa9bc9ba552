"""The other libraries' classifiers, as a user would set them up. Each is imported where it is built.

A builder takes ``(n_jobs, seed)`` and returns an unfitted classifier. Settings are the library's defaults
unless the model's note says otherwise.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Builder = Callable[[int, int], Any]


@dataclass(frozen=True)
class Model:
    """A named way to build a classifier, and what a reader of the table must know about it."""

    name: str
    build: Builder
    library: str = "scikit-learn"
    note: str = ""
    max_rows: int | None = None  # fitted on a stratified part of that size, because all would take hours
    ours: bool = False


def lightgbm(n_jobs: int, seed: int) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_jobs=n_jobs, random_state=seed, verbose=-1)


def xgboost(n_jobs: int, seed: int) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(n_jobs=n_jobs, random_state=seed)


def random_forest(n_jobs: int, seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_jobs=n_jobs, random_state=seed)


def large_random_forest(n_jobs: int, seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=500, n_jobs=n_jobs, random_state=seed)


def large_extra_trees(n_jobs: int, seed: int) -> Any:
    from sklearn.ensemble import ExtraTreesClassifier

    return ExtraTreesClassifier(n_estimators=500, n_jobs=n_jobs, random_state=seed)


def hist_gradient_boosting(n_jobs: int, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=seed)  # its threads are OpenMP's: see measure.threads


def mlp(n_jobs: int, seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(random_state=seed)


def mlp_short(n_jobs: int, seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(max_iter=10, random_state=seed)


def mlp_wide(n_jobs: int, seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier((256,), max_iter=20, random_state=seed)


def logistic_regression(n_jobs: int, seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000)


def logistic_regression_short(n_jobs: int, seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression()


def lda(n_jobs: int, seed: int) -> Any:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    return LinearDiscriminantAnalysis()


def qda(n_jobs: int, seed: int) -> Any:
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

    # Without shrinkage, constant pixels and classes smaller than p are singular (scikit-learn 1.8 and later).
    return QuadraticDiscriminantAnalysis(solver="eigen", shrinkage=0.1)


def lda_shrinkage(n_jobs: int, seed: int) -> Any:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")


def sgd(n_jobs: int, seed: int) -> Any:
    from sklearn.linear_model import SGDClassifier

    return SGDClassifier(n_jobs=n_jobs, random_state=seed)


def linear_svc(n_jobs: int, seed: int) -> Any:
    from sklearn.svm import LinearSVC

    return LinearSVC(random_state=seed)


def multinomial_nb(n_jobs: int, seed: int) -> Any:
    from sklearn.naive_bayes import MultinomialNB

    return MultinomialNB()


def knn(n_jobs: int, seed: int) -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(n_jobs=n_jobs)


def svc(n_jobs: int, seed: int) -> Any:
    from sklearn.svm import SVC

    return SVC(C=10.0, cache_size=1000)


def tuned_svc(n_jobs: int, seed: int) -> Any:
    from benchmarks.tuned_svc import TunedSVC

    return TunedSVC(random_state=seed)


def catboost(n_jobs: int, seed: int) -> Any:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(thread_count=n_jobs, random_seed=seed, verbose=0, allow_writing_files=False)


def tuned_catboost(n_jobs: int, seed: int) -> Any:
    from benchmarks.tuned_catboost import TunedCatBoost

    return TunedCatBoost(n_jobs=n_jobs, random_state=seed)


def real_mlp(n_jobs: int, seed: int) -> Any:
    from pytabkit import RealMLP_TD_Classifier

    return RealMLP_TD_Classifier(device="cpu", n_threads=n_jobs, random_state=seed)


def ebm(n_jobs: int, seed: int) -> Any:
    from interpret.glassbox import ExplainableBoostingClassifier

    return ExplainableBoostingClassifier(n_jobs=n_jobs, random_state=seed)


FASHION = (
    Model("LightGBM", lightgbm, "lightgbm"),
    Model("XGBoost", xgboost, "xgboost"),
    Model("random forest", random_forest),
    Model("HistGradientBoosting", hist_gradient_boosting),
    Model("MLP(100), 10 epochs", mlp_short, note="max_iter=10"),
    Model("MLP(256), 20 epochs", mlp_wide, note="hidden_layer_sizes=(256,), max_iter=20"),
    Model("logistic regression", logistic_regression_short, note="default: 100 iterations"),
    Model("LDA", lda),
    Model("QDA", qda, note="shrinkage=0.1"),
    Model("SVC", svc, note="C=10, fitted on 10,000 of the rows", max_rows=10_000),
)

PREDICT = (
    Model("LightGBM", lightgbm, "lightgbm"),
    Model("XGBoost", xgboost, "xgboost"),
    Model("random forest", random_forest),
    Model("HistGradientBoosting", hist_gradient_boosting),
    Model("MLP(100)", mlp_short),
    Model("logistic regression", logistic_regression_short),
    Model("LDA", lda),
    Model("QDA", qda, note="shrinkage=0.1"),
)

UCI = (
    Model("random forest", large_random_forest, note="n_estimators=500"),
    Model("extra trees", large_extra_trees, note="n_estimators=500"),
    Model("LightGBM", lightgbm, "lightgbm"),
    Model("XGBoost", xgboost, "xgboost"),
    Model("HistGradientBoosting", hist_gradient_boosting),
    Model("CatBoost", catboost, "catboost"),
    Model(
        "CatBoost tuned",
        tuned_catboost,
        "catboost",
        note="30 random trials (fewer after 40 s), judged on a fifth of the rows",
    ),
    Model("RealMLP", real_mlp, "pytabkit"),
    Model("EBM", ebm, "interpret-core"),
    Model("SVC tuned", tuned_svc, note="C and gamma by 3-fold grid search on 3,000 of the rows at most"),
    Model("MLP", mlp),
    Model("logistic regression", logistic_regression, note="max_iter=1000"),
    Model("LDA", lda),
    Model("QDA", qda, note="shrinkage=0.1"),
    Model("kNN", knn),
)

SHAPES = (
    Model("logistic regression", logistic_regression, note="max_iter=1000"),
    Model("SGD", sgd),
    Model("LDA, shrinkage", lda_shrinkage, note='solver="lsqr", shrinkage="auto"'),
    Model("linear SVC", linear_svc),
    Model("multinomial NB", multinomial_nb, note="where no value is negative"),
    Model("random forest", random_forest),
)
