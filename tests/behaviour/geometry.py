"""What is computed with separators: radii, counterfactuals, contributions; and other classifiers as separators."""

from functools import partial

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid

from multiform import QMSClassifier
from multiform.geometry import (
    QuadraticPolynomial,
    Separators,
    certified_radius,
    counterfactuals,
    cyclic_violation,
    difference_of_members,
    feature_contributions,
    member_from_polynomial,
    nearest_sign_change,
    pairwise_from_separators,
    project_to_cyclic,
    property_a_report,
    qms_from_estimator,
    separators_from_pairwise,
)
from tests.behaviour.registry import add, case
from tests.behaviour.samples import clouds, words


def told(model, X, asked):
    unit = X.std(axis=0)
    nearest = counterfactuals(model, asked, scale=unit)
    account = feature_contributions(model, asked, baseline=X.mean(axis=0))
    return {
        "certified_radius": certified_radius(model, asked),
        "certified_radius scaled": certified_radius(model, asked, scale=unit),
        "certified_radius of two": certified_radius(model, asked, features=[0, 2]),
        "points": nearest.points,
        "distances": nearest.distances,
        "from": nearest.from_classes,
        "to": nearest.to_classes,
        "pushed": nearest.pushed(),
        "pushed predict": model.predict(nearest.pushed(1e-2)),
        "contributions": account.values,
        "base": account.base,
        "total": account.total,
        "against": account.against_classes,
    }


@case
def of_qms():
    X, y, asked = clouds()
    model = QMSClassifier(n_components=3, max_iter=6, noise=0.5, random_state=0).fit(X, words(y))
    for_one = feature_contributions(model, asked, for_class="bad", against_class="none")
    return told(model, X, asked) | {"for bad": for_one.values, "for bad, total": for_one.total}


@case
def of_separators():
    X, y, asked = clouds(100, 3, 2, seed=5)
    model = QMSClassifier(n_components=3, max_iter=6, noise=0.5, random_state=0).fit(X, y)
    separators = Separators.of(model)
    return told(separators, X, asked) | {
        "components": separators.components,
        "offsets": separators.offsets,
        "member_values": separators.member_values(asked),
        "residuals": separators.residuals(asked),
    }


def bridged(estimator):
    """What does not depend on the signs of scikit-learn's decompositions, nor on how its version counts variances."""
    X, y, asked = clouds(spread=0.8)
    estimator.fit(X, y)
    model = qms_from_estimator(estimator)
    f = model.member_values(asked)
    shown = {"predict": model.predict(asked), "its own": estimator.predict(asked)}
    if hasattr(estimator, "predict_log_proba"):
        own = estimator.predict_log_proba(asked)
        shown["ratio"] = (f[:, 1:] - f[:, :1]) / (own[:, 1:] - own[:, :1])
    if not isinstance(estimator, LinearDiscriminantAnalysis | QuadraticDiscriminantAnalysis):
        shown |= {"differences": f - f[:, :1], "certified_radius": certified_radius(model, asked)}
    return shown


ESTIMATORS = {
    "qda": QuadraticDiscriminantAnalysis(),
    "lda": LinearDiscriminantAnalysis(),
    "naive_bayes": GaussianNB(),
    "logistic": LogisticRegression(solver="newton-cholesky", tol=1e-10),
    "centroids": NearestCentroid(),
}
for name, estimator in ESTIMATORS.items():
    add(f"geometry.from_{name}", partial(bridged, estimator))


@case
def lemmas():
    """Members from polynomials, and separators from pairwise differences (Appendix A of the paper)."""
    random = np.random.default_rng(13)
    asked = random.normal(size=(10, 3))
    separators = Separators(random.normal(size=(3, 2, 3)), random.normal(size=(3, 2)))
    pairwise = pairwise_from_separators(separators)
    h = QuadraticPolynomial(random.normal(size=(3, 3)), random.normal(size=3), 0.3)
    plus, minus = difference_of_members(h)
    distances, points = nearest_sign_change(h, asked)
    again = {method: separators_from_pairwise(pairwise, method=method) for method in ("compact", "paper")}
    bent = dict(pairwise) | {(0, 1): h}
    del bent[1, 0]
    projected = project_to_cyclic(bent)
    report = property_a_report(asked[:5], asked[5:], h)
    return {
        "separators": separators.member_values(asked),
        "pairwise": [pairwise[pair](asked) for pair in sorted(pairwise)],
        "difference": plus(asked) - minus(asked),
        "rows": [plus.n_components, minus.n_components],
        "distances": distances,
        "points": points,
        "margin": report.margin,
        "cyclic_violation": cyclic_violation(bent)[1],
        "projected": [projected[pair](asked) for pair in sorted(projected)],
        "member_from_polynomial": member_from_polynomial(plus.to_polynomial())(asked),
        **{f"again {method}": (f := one.member_values(asked)) - f[:, :1] for method, one in again.items()},
    }
