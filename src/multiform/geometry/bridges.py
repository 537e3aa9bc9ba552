"""Bridges from scikit-learn: quadratic and linear classifiers are separators, and here they become them.

A Gaussian class model scores a sample by `||T_k (x - mean_k)||^2 + kappa_k`, smallest first: a member function as soon
as the constants are shifted to be nonnegative. Linear scores `s = W x + c`, largest first, are distances as well:

    f_k(x) = ||P (s(x) - e_k)||^2,   so that   f_i - f_j = 2 (s_j - s_i),

with e_k the k-th unit vector and P an orthonormal basis of the scores that sum to zero. That takes m - 1 rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, RidgeClassifierCV, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.validation import check_is_fitted

from multiform._typing import Array, Doubles
from multiform.classifier import QMSClassifier

from .quadratics import MemberFunction
from .separators import Separators

_LINEAR = (LogisticRegression, RidgeClassifier, RidgeClassifierCV, SGDClassifier, Perceptron, LinearSVC)


def separators_from_estimator(estimator: Any) -> Separators:
    """Separators that decide as a fitted scikit-learn classifier does, in the units of its input.

    Decisions differ only where two scores agree up to rounding.

    Parameters
    ----------
    estimator : fitted classifier
        QuadraticDiscriminantAnalysis, LinearDiscriminantAnalysis, GaussianNB, NearestCentroid (Euclidean),
        a linear classifier (LogisticRegression, LogisticRegressionCV, RidgeClassifier, RidgeClassifierCV,
        SGDClassifier, Perceptron, LinearSVC), or a Pipeline of StandardScaler, MinMaxScaler, MaxAbsScaler,
        RobustScaler or PCA steps that ends in one of these.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
    >>> from multiform.geometry import separators_from_estimator
    >>> X, y = load_iris(return_X_y=True)
    >>> qda = QuadraticDiscriminantAnalysis().fit(X, y)
    >>> separators = separators_from_estimator(qda)
    >>> bool((separators.predict(X) == qda.predict(X)).all())
    True
    """
    check_is_fitted(estimator)
    steps = [estimator]
    if isinstance(estimator, Pipeline):
        steps = [step for _, step in estimator.steps if step is not None and step != "passthrough"]
    components, offsets = _separators_of(steps[-1])
    for transformer in reversed(steps[:-1]):
        # A (M x + t) - b = (A M) x - (b - A t)
        matrix, shift = _affine_map(transformer)
        offsets = offsets - components @ shift
        components = components @ matrix
    names = getattr(estimator, "feature_names_in_", None)
    return Separators(components, offsets, estimator.classes_, names)


def qms_from_estimator(estimator: Any) -> QMSClassifier:
    """A fitted QMSClassifier that decides as a fitted scikit-learn classifier does.

    Set its `warm_start` to True and `fit` continues from there.

    Parameters
    ----------
    estimator : fitted classifier
        As in `separators_from_estimator`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from multiform.geometry import qms_from_estimator
    >>> X, y = load_iris(return_X_y=True)
    >>> bayes = GaussianNB().fit(X, y)
    >>> model = qms_from_estimator(bayes)
    >>> bool((model.predict(X) == bayes.predict(X)).all())
    True
    """
    return qms_from_separators(separators_from_estimator(estimator))


def qms_from_separators(model: object) -> QMSClassifier:
    """A fitted QMSClassifier of given separators, with its classes sorted, as scikit-learn keeps them.

    Parameters
    ----------
    model : anything that `Separators.of` takes
        The result of `separators_from_pairwise`, for example.

    Examples
    --------
    >>> from multiform.geometry import MemberFunction, qms_from_separators
    >>> model = qms_from_separators({"low": MemberFunction([[1]], [0]), "high": MemberFunction([[1]], [2])})
    >>> model.predict([[0.4], [1.7]])
    array(['low', 'high'], dtype='<U4')
    """
    separators = Separators.of(model)
    try:
        order = np.argsort(separators.classes, kind="stable")
    except TypeError as error:
        raise ValueError(
            "a QMSClassifier keeps its classes sorted, so the labels must be comparable with each other; "
            f"got {separators.classes.tolist()!r}."
        ) from error
    return QMSClassifier.from_separators(
        separators.components[order],
        separators.offsets[order],
        separators.classes[order],
        feature_names=separators.feature_names,
    )


def _separators_of(estimator: Any) -> tuple[Doubles, Doubles]:
    """Components (m, q, p) and offsets (m, q) of one supported classifier."""
    if isinstance(estimator, QuadraticDiscriminantAnalysis):
        return _of_gaussians(estimator.means_, estimator.rotations_, estimator.scalings_, estimator.priors_)
    if isinstance(estimator, GaussianNB):
        axes = [np.eye(estimator.n_features_in_)] * len(estimator.classes_)
        return _of_gaussians(estimator.theta_, axes, estimator.var_, estimator.class_prior_)
    if isinstance(estimator, NearestCentroid):
        return _of_nearest_centroid(estimator)
    if isinstance(estimator, (LinearDiscriminantAnalysis, *_LINEAR)):
        return _of_linear_classifier(estimator)
    raise TypeError(
        "separators can be made from QuadraticDiscriminantAnalysis, LinearDiscriminantAnalysis, GaussianNB, "
        f"NearestCentroid, {', '.join(kind.__name__ for kind in _LINEAR)}, or a Pipeline that ends in one of these; "
        f"got {type(estimator).__name__}."
    )


def _of_gaussians(
    means: Array, axes: Sequence[Array], variances: Sequence[Array], priors: Array
) -> tuple[Doubles, Doubles]:
    """The separators of Gaussian classes, each with its variances S along the columns of R.

    -2 log posterior = ||S^(-1/2) R' (x - mean)||^2 + log det(covariance) - 2 log prior, up to a common constant.
    """
    spreads = [np.asarray(variance, dtype=np.float64) for variance in variances]
    maps = [(directions / np.sqrt(spread)).T for directions, spread in zip(axes, spreads, strict=True)]
    constants = np.array([np.log(spread).sum() for spread in spreads]) + _prior_terms(priors)
    return _from_distances(maps, np.asarray(means, dtype=np.float64), constants)


def _of_nearest_centroid(estimator: Any) -> tuple[Doubles, Doubles]:
    if estimator.metric != "euclidean":
        raise ValueError(
            'a NearestCentroid becomes separators only with metric="euclidean", whose square is a quadratic; '
            f"got metric={estimator.metric!r}."
        )
    centroids = np.asarray(estimator.centroids_, dtype=np.float64)
    m, p = centroids.shape
    if not np.isclose(estimator.class_prior_, 1 / m).all():
        # scikit-learn then scales by the standard deviations within the classes, leaving those that are zero.
        deviation = np.asarray(estimator.within_class_std_dev_, dtype=np.float64)
        whitening = np.diag(1.0 / np.where(deviation == 0, 1.0, deviation))
        return _from_distances([whitening] * m, centroids, _prior_terms(estimator.class_prior_))
    # What is orthogonal to all differences of centroids is the same for every class: m - 1 directions decide.
    if p < m:
        rows = np.eye(p)
    else:
        rows = np.linalg.svd(centroids - centroids.mean(axis=0), full_matrices=False)[2][: m - 1]
    return _from_distances([rows] * m, centroids, np.zeros(m))


def _of_linear_classifier(estimator: Any) -> tuple[Doubles, Doubles]:
    raw = estimator.coef_
    weights = np.atleast_2d(np.asarray(raw.toarray() if sparse.issparse(raw) else raw, dtype=np.float64))
    intercepts = np.broadcast_to(np.asarray(estimator.intercept_, dtype=np.float64), len(weights))
    m = len(estimator.classes_)
    if m == 2 and len(weights) == 1:
        # One score, positive for the second class.
        weights, intercepts = np.vstack([-weights, weights]) / 2, np.append(-intercepts, intercepts) / 2
    if len(weights) != m:
        raise ValueError(
            f"{type(estimator).__name__} has {len(weights)} linear scores for {m} classes; separators "
            "need one score per class, so fit it on a single column of labels."
        )
    basis = linalg.helmert(m)
    components = np.broadcast_to(basis @ weights, (m, m - 1, weights.shape[1]))
    return components, basis.T - basis @ intercepts


def _prior_terms(priors: Array) -> Doubles:
    """`-2 log prior`; a prior of zero is refused, as no separator can say that its class is never chosen."""
    priors = np.asarray(priors, dtype=np.float64)
    if not (priors > 0).all():
        raise ValueError(
            f"class priors must all be > 0 to become separators; got {priors.tolist()}. "
            "Refit without the classes whose prior is zero."
        )
    return np.asarray(-2.0 * np.log(priors), dtype=np.float64)


def _from_distances(maps: list[Doubles], means: Doubles, constants: Doubles) -> tuple[Doubles, Doubles]:
    """`f_k = ||T_k (x - mean_k)||^2 + kappa_k - min kappa`: the rows of T_k, and a constant one if needed."""
    members = [MemberFunction(rows, rows @ mean) for rows, mean in zip(maps, means, strict=True)]
    extra = constants - constants.min()
    if extra.any():
        nothing = np.zeros((1, means.shape[1]))
        members = [f + MemberFunction(nothing, [np.sqrt(more)]) for f, more in zip(members, extra, strict=True)]
    separators = Separators.from_members(members)
    return separators.components, separators.offsets


def _affine_map(transformer: Any) -> tuple[Doubles, Doubles]:
    """Matrix M and shift t of a transformer that maps x to `M x + t`."""
    p = transformer.n_features_in_
    if isinstance(transformer, MinMaxScaler) and not transformer.clip:
        return np.diag(transformer.scale_), np.asarray(transformer.min_, dtype=np.float64)
    if isinstance(transformer, (StandardScaler, MaxAbsScaler, RobustScaler)):
        scale = getattr(transformer, "scale_", None)
        # StandardScaler keeps a mean_ even where it does not subtract it.
        center = getattr(transformer, "mean_" if getattr(transformer, "with_mean", False) else "center_", None)
        inverse = np.ones(p) if scale is None else 1.0 / np.asarray(scale, dtype=np.float64)
        if center is None:
            return np.diag(inverse), np.zeros(p)
        return np.diag(inverse), -inverse * np.asarray(center, dtype=np.float64)
    if isinstance(transformer, PCA):
        rows = np.asarray(transformer.components_, dtype=np.float64)
        if transformer.whiten:
            rows = rows / np.sqrt(transformer.explained_variance_)[:, None]
        return rows, -rows @ np.asarray(transformer.mean_, dtype=np.float64)
    raise TypeError(
        "a Pipeline becomes separators only if its steps before the last are affine: StandardScaler, "
        "MinMaxScaler without clipping, MaxAbsScaler, RobustScaler or PCA; got "
        f"{type(transformer).__name__}."
    )


def separators_behind(estimator: Any) -> tuple[Separators, Doubles] | None:
    """The separators by which a fitted classifier of ours decides, also inside a loyalty or a triage, and the average
    row that they are scaled around; None where several decide together, or none.

    Examples
    --------
    >>> from multiform import LoyaltyClassifier
    >>> from multiform.geometry import separators_behind
    >>> model = LoyaltyClassifier(random_state=0).fit([[0.0], [1.0]] * 20, [0, 1] * 20)
    >>> separators, center = separators_behind(model)
    >>> separators.n_features, center.shape
    (1, (1,))
    """
    while estimator is not None:
        if hasattr(estimator, "components_") and hasattr(estimator, "offsets_"):
            center = np.asarray(estimator._get_state()["scaling"]["center"], dtype=np.float64)
            return Separators(estimator.components_, estimator.offsets_, estimator.classes_), center
        estimator = getattr(estimator, "estimator_", None)
    return None
