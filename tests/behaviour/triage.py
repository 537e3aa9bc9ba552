"""TriageClassifier: around QMS and loyalty, calibrated in each way."""

from functools import partial

from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB

from multiform import LoyaltyClassifier, QMSClassifier, TriageClassifier
from tests.behaviour.registry import add, case
from tests.behaviour.samples import clouds, weights, words


def told(model, asked):
    shown = {
        "predict": model.predict(asked),
        "predict_proba": model.predict_proba(asked),
        "defer": model.defer(asked),
        "answered_by": model.answered_by(asked),
        "trust_score": model.trust_score(asked),
        "thresholds_": model.thresholds_,
        "classes_": model.classes_,
        "attained_": model.attained_,
        "guarantee_": model.guarantee_,
        "n_calibration_": model.n_calibration_,
    }
    figures = ("threshold", "n_tested", "n_accepted", "n_correct", "coverage", "accuracy", "accuracy_bound")
    return shown | {f"certificates_ {name}": [getattr(c, name) for c in model.certificates_] for name in figures}


def data():
    X, y, asked = clouds(400, 3, 3, 0.6, seed=11)
    return X, words(y), asked


def small_qms():
    return QMSClassifier(n_components=3, max_iter=4, noise=0.5, random_state=0)


def new(estimator, **settings):
    return TriageClassifier(estimator, **({"target_accuracy": 0.8, "confidence": 0.9, "random_state": 0} | settings))


def fitted(model, **fit):
    X, y, asked = data()
    return told(model.fit(X, y, **fit), asked)


add("triage.held_out", partial(fitted, new(small_qms())))
add(
    "triage.defer_label",
    partial(fitted, new(small_qms(), target_accuracy=0.92, calibration_fraction=0.5, defer_label="nobody knows")),
)
add(
    "triage.fallback",
    partial(fitted, new(small_qms(), target_accuracy=0.92, calibration_fraction=0.5, fallback=GaussianNB())),
)
add("triage.per_class", partial(fitted, new(small_qms(), per_class=True, target_accuracy=0.7, cv=3)))
add("triage.cross_fitted", partial(fitted, new(small_qms(), cv=3, score_method="decision_function")))
add("triage.weighted", partial(fitted, new(small_qms(), calibration_fraction=0.4), sample_weight=weights(400)))
add("triage.loyalty", partial(fitted, new(LoyaltyClassifier(small_qms(), cv=3, random_state=0))))


@case
def frozen():
    X, y, asked = data()
    model = new(FrozenEstimator(small_qms().fit(X[:150], y[:150]))).fit(X[150:], y[150:])
    report = model.report(X[:150], y[:150])
    rows = {f"report {who} {name}": value for who, row in report.rows.items() for name, value in row.items()}
    return told(model, asked) | rows | {"report accuracy": report.accuracy}


@case
def calibration_given():
    X, y, asked = data()
    return told(new(small_qms()).fit(X[:200], y[:200], X_cal=X[200:], y_cal=y[200:]), asked)
