"""LoyaltyClassifier: around QMS in batches, around QMS one by one, around scikit-learn's classifiers."""

from functools import partial

from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB

from multiform import LoyaltyClassifier, QMSClassifier
from tests.behaviour.registry import add
from tests.behaviour.samples import clouds, counts, repeated, weights, words


def told(model, asked):
    label, loyalty, score = model.assess(asked)
    tables = {"loyalty_table_": model.loyalty_table_, "training_table_": model.training_table_}
    shown = {
        "predict": model.predict(asked),
        "predict_proba": model.predict_proba(asked),
        "predict_loyalty": model.predict_loyalty(asked),
        "loyalty_score": model.loyalty_score(asked),
        "assess label": label,
        "assess loyalty": loyalty,
        "assess score": score,
        "classes_": model.classes_,
        "levels_": model.levels_,
        "class_factors_": model.class_factors_,
        "n_altered": len(model.altered_estimators_),
    }
    for name, table in tables.items():
        shown |= {f"{name} share": table.share, f"{name} accuracy": table.accuracy, f"{name} levels": table.levels}
        shown[f"{name} overall_accuracy"] = table.overall_accuracy
    if hasattr(model, "decision_function"):
        shown["decision_function"] = model.decision_function(asked)
    if isinstance(model.estimator_, QMSClassifier):
        shown |= {"components_": model.estimator_.components_, "temperature_": model.estimator_.temperature_}
        shown["altered decision_function"] = [one.decision_function(asked) for one in model.altered_estimators_]
    return shown


def small_qms(**settings):
    return QMSClassifier(**({"n_components": 3, "max_iter": 5, "random_state": 1} | settings))


def fitted(estimator, settings, data, weighted=False):
    X, y, asked = data()
    model = LoyaltyClassifier(estimator, **({"cv": 3, "random_state": 0} | settings))
    return told(model.fit(X, y, sample_weight=weights(X.shape[0]) if weighted else None), asked)


def two():
    X, y, asked = clouds(120, 3, 2, seed=5)
    return X, words(y), asked


def three():
    return clouds(150, 4, 3, seed=21)


def four():
    X, y, asked = clouds(160, 4, 4, 1.3, seed=10)
    return X, words(y), asked


add("loyalty.two_classes", partial(fitted, small_qms(), {}, two))
add("loyalty.three_classes", partial(fitted, small_qms(), {}, three))
add("loyalty.four_classes", partial(fitted, small_qms(), {"cv": "auto"}, four))
add("loyalty.ladder", partial(fitted, small_qms(), {"beta": (0.05, 0.3), "gamma": (3.0, 20.0)}, four))
add("loyalty.weighted", partial(fitted, small_qms(class_weight="balanced"), {}, four, weighted=True))
add("loyalty.two_threads", partial(fitted, small_qms(n_jobs=2), {"altered_iter": 2}, three))
add("loyalty.cpm", partial(fitted, small_qms(solver="cpm", max_iter=2), {"altered_iter": 1}, three))
add("loyalty.sparse", partial(fitted, small_qms(), {}, counts))
add("loyalty.early_stopping", partial(fitted, small_qms(early_stopping=True, validation_fraction=0.2), {}, three))
add("loyalty.two_models", partial(fitted, small_qms(n_models=2), {}, two, weighted=True))
add("loyalty.folds_given", partial(fitted, small_qms(), {"cv": StratifiedKFold(4)}, three))
add("loyalty.repeated", partial(fitted, small_qms(), {}, repeated))
add("loyalty.defaults", partial(fitted, None, {"cv": "auto"}, three))
# Newton's method, which ends at the same point in every version.
add("loyalty.logistic", partial(fitted, LogisticRegression(solver="newton-cholesky", tol=1e-10), {}, two))
add("loyalty.naive_bayes", partial(fitted, GaussianNB(), {}, four, weighted=True))
