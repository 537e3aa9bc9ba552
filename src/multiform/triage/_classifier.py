"""Answer only when the answer can be trusted, with a promise about how often an accepted answer is right."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict
from math import ceil
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, _fit_context, clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, check_array, check_random_state, get_tags, indexable
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, check_is_fitted, column_or_1d, has_fit_parameter

from multiform._typing import Array, Bools, Doubles, Indices
from multiform.metrics import ScoreMethod, trust_score
from multiform.metrics.labels import distinct, positions
from multiform.state import (
    FEATURES,
    all_or_nothing,
    fitted_state,
    require,
    require_array,
    require_features,
    require_names,
    require_whole,
)
from multiform.triage._certify import Certificate, certify, samples_needed
from multiform.triage._report import TriageReport

# Calibration samples as the tests need them: what they are, what they were called, and how surely.
Judged = tuple[Array, Array, Doubles]

# What a model file holds of a fitted model.
FITTED = (
    "classes_",
    "estimator_",
    "fallback_",
    "guarantee_",
    "attained_",
    "thresholds_",
    "certificates_",
    "n_calibration_",
)


class TargetNotReachedWarning(UserWarning):
    """The calibration data could not prove the target accuracy, so answers that might be right are deferred."""


class TriageClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Accept the answers of a classifier that meet a target accuracy, and defer the rest.

    With probability ``confidence`` over the draw of the calibration samples, the accuracy of the accepted answers on
    future samples is at least ``target_accuracy``. This holds for every classifier, every trust score, every
    distribution and every number of samples, provided that calibration and future samples come independently from the
    same source and that the classifier has not been trained on the calibration samples. If the target cannot be proved,
    more is deferred, in the end everything; the promise is never weakened.

    The threshold is found by Learn then Test with fallback testing [1]_ and exact binomial tests;
    see the user guide, ``docs/triage.md``.

    Parameters
    ----------
    estimator : classifier
        The classifier to judge. Wrap a fitted one in :class:`~sklearn.frozen.FrozenEstimator` to use it as it
        is: then all samples given to ``fit`` are calibration samples.
    target_accuracy : float in (0, 1), default=0.99
        The accuracy that accepted answers must have.
    confidence : float in (0, 1), default=0.95
        The probability with which the promise holds.
    per_class : bool, default=False
        If True, the target holds among the accepted answers of *each* predicted class, for all classes
        jointly with probability ``confidence``, and each class has a threshold of its own. This needs more
        calibration samples. If False, it holds among all accepted answers together.
    fallback : classifier, default=None
        Answers what is deferred, without a promise. It is fitted on all samples given to ``fit``, unless it
        is a :class:`~sklearn.frozen.FrozenEstimator`.
    cv : int, cross-validation generator or iterable, default=None
        None holds out ``calibration_fraction`` of the samples at random for the calibration; this carries the
        exact promise. Anything else cross-fits: every sample is judged by a model fitted without it, and the
        model that answers is refitted on all samples. No data is lost, but the promise then speaks of the
        fold models and holds for the refitted one only approximately: ``guarantee_`` is ``"approximate"``.
    calibration_fraction : float in (0, 1), default=0.25
        The share of the samples held out for the calibration if ``cv`` is None. The split is random and not
        stratified, for a stratified part is no independent sample.
    score_method : {"auto", "loyalty_score", "predict_proba", "decision_function"} or callable, default="auto"
        Where the trust in an answer comes from; see :func:`multiform.metrics.trust_score`.
    defer_label : object, default=None
        What ``predict`` says for a deferred sample when there is no fallback. With None it gives the
        estimator's own answer, for which nothing is promised; ask ``defer`` which ones these are.
    n_jobs : int, default=None
        Fold models to fit at the same time, as in scikit-learn.
    random_state : int, RandomState instance or None, default=None
        Decides which samples are held out, and which of the calibration samples design the tests.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Every label that an answer may have: the estimator's classes and the fallback's.
    estimator_ : classifier
        The fitted classifier.
    fallback_ : classifier or None
        The fitted fallback.
    guarantee_ : {"exact", "approximate"}
        Whether the promise is exact, or approximate because of cross-fitting.
    attained_ : bool
        Whether anything is accepted at all.
    thresholds_ : ndarray of shape (n_estimator_classes,)
        The least trust for an accepted answer, by predicted class in the order of ``estimator_.classes_``;
        ``inf`` where nothing is accepted. All the same unless ``per_class``.
    certificates_ : list
        The evidence: one certificate, or one per class, with ``threshold``, ``n_tested``, ``n_accepted``,
        ``n_correct``, ``coverage``, ``accuracy`` and ``accuracy_bound`` on the calibration samples.
    n_calibration_ : int
        The number of calibration samples.
    n_features_in_ : int
        Number of features seen during ``fit``, if the estimator knows.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if the estimator knows them.

    See Also
    --------
    multiform.metrics.coverage_at_accuracy : The same trade on the data at hand, without a promise.

    References
    ----------
    .. [1] A. N. Angelopoulos, S. Bates, E. J. Candes, M. I. Jordan and L. Lei, "Learn then test: calibrating
       predictive algorithms to achieve risk control", 2021, arXiv:2110.01052.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn.svm import SVC
    >>> from multiform.triage import TriageClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> X, X_new, y, y_new = train_test_split(X, y, test_size=300, random_state=0)
    >>> triage = TriageClassifier(SVC(), target_accuracy=0.97, random_state=0).fit(X, y)
    >>> deferred = triage.defer(X_new)
    >>> bool((triage.predict(X_new) == y_new)[~deferred].mean() >= 0.97)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": "no_validation",  # fit asks whether it is a classifier
        "target_accuracy": [Interval(Real, 0, 1, closed="neither")],
        "confidence": [Interval(Real, 0, 1, closed="neither")],
        "per_class": ["boolean"],
        "fallback": "no_validation",
        "cv": ["cv_object"],
        "calibration_fraction": [Interval(Real, 0, 1, closed="neither")],
        "score_method": [StrOptions({"auto", "loyalty_score", "predict_proba", "decision_function"}), callable],
        "defer_label": "no_validation",
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        target_accuracy: float = 0.99,
        confidence: float = 0.95,
        per_class: bool = False,
        fallback: Any = None,
        cv: Any = None,
        calibration_fraction: float = 0.25,
        score_method: ScoreMethod = "auto",
        defer_label: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.target_accuracy = target_accuracy
        self.confidence = confidence
        self.per_class = per_class
        self.fallback = fallback
        self.cv = cv
        self.calibration_fraction = calibration_fraction
        self.score_method = score_method
        self.defer_label = defer_label
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
    @all_or_nothing
    def fit(
        self, X: Any, y: ArrayLike, *, X_cal: Any = None, y_cal: ArrayLike | None = None, **fit_params: Any
    ) -> TriageClassifier:
        """Fit the classifier and choose the threshold.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples: for training and calibration, or for calibration alone if the estimator is frozen.
        y : array-like of shape (n_samples,)
            Their labels.
        X_cal, y_cal : array-like, default=None
            Calibration samples and labels of your own, which the estimator must not have seen. Then all of
            ``X`` trains.
        **fit_params : dict
            Passed to the estimator's ``fit``, arrays with one entry per sample cut to the training part;
            ``sample_weight`` also to the fallback's, if it takes weights. With metadata routing, whoever
            asked for them gets them. Calibration counts every sample once, whatever its weight.
        """
        self._check_parameters(X_cal, y_cal)
        X, y = _check_samples(self, X, y)
        params = self._route(fit_params)
        rng, guarantee = check_random_state(self.random_state), "exact"

        if X_cal is None and isinstance(self.estimator, FrozenEstimator):
            X_cal, y_cal = X, y
        if X_cal is not None:
            X_cal, y_cal = _check_samples(self, X_cal, y_cal)
            self._check_enough(len(y_cal), len(y))
            estimator = clone(self.estimator).fit(X, y, **params["estimator"])
            judged = _judge(estimator, X_cal, y_cal, self.score_method)
        elif self.cv is None:
            estimator = clone(self.estimator)
            train, held_out = self._hold_out(len(y), rng)
            judged = _fit_and_judge(estimator, X, y, train, held_out, self.score_method, params["estimator"])
        else:
            estimator, judged = self._cross_fit(X, y, params)
            guarantee = "approximate"
        true, predicted, trust = judged
        self._check_labels(estimator, true)

        classes = np.asarray(estimator.classes_)
        right = predicted == true
        certificates = certify(
            trust,
            right,
            positions(predicted, classes) if self.per_class else np.zeros(len(true), int),
            len(classes) if self.per_class else 1,
            target_accuracy=self.target_accuracy,
            confidence=self.confidence,
            rng=rng,
        )
        fallback = None
        if self.fallback is not None:
            fallback = clone(self.fallback).fit(X, y, **params["fallback"])
            classes = distinct(classes, np.asarray(fallback.classes_))

        self.estimator_ = estimator
        self.fallback_ = fallback
        self.classes_ = classes
        self.certificates_ = certificates
        self.thresholds_ = np.full(len(estimator.classes_), [c.threshold for c in certificates])
        self.attained_ = any(c.attained for c in certificates)
        self.guarantee_ = guarantee
        self.n_calibration_ = len(true)
        for name in FEATURES:
            if hasattr(estimator, name):
                setattr(self, name, getattr(estimator, name))
            elif hasattr(self, name):
                delattr(self, name)  # of an earlier fit
        self._warn_if_not_reached(right)
        return self

    def predict(self, X: Any) -> Array:
        """The answers: the estimator's where accepted, else the fallback's.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            For deferred samples the fallback's answer; without a fallback ``defer_label``, or if that is None
            the estimator's own answer, for which nothing is promised.
        """
        labels, accepted = self._answer(X)
        if self.fallback_ is not None and not accepted.all():
            deferred = np.flatnonzero(~accepted)
            answers = np.asarray(self.fallback_.predict(_rows(X, deferred)))
            labels = _room_for(labels, answers)
            labels[deferred] = answers
        elif self.fallback_ is None and self.defer_label is not None:
            labels = _room_for(labels, np.asarray(self.defer_label))
            labels[~accepted] = self.defer_label
        return labels

    def defer(self, X: Any) -> Bools:
        """Which samples of X the estimator should not answer: True where the promise does not cover its answer."""
        return ~self._answer(X)[1]

    def answered_by(self, X: Any) -> NDArray[np.str_]:
        """Who answers each sample of X: ``"estimator"``, ``"fallback"`` or ``"nobody"``."""
        accepted = self._answer(X)[1]
        return np.where(accepted, "estimator", "nobody" if self.fallback_ is None else "fallback")

    @available_if(lambda self: self._all_have("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities of whoever answers: the estimator, or for deferred samples of X the fallback.

        Of shape (n_samples, n_classes), in the order of ``classes_``.
        """
        accepted = self._answer(X)[1]
        result = np.zeros((len(accepted), len(self.classes_)))
        known = np.searchsorted(self.classes_, self.estimator_.classes_)
        result[:, known] = self.estimator_.predict_proba(X)
        if self.fallback_ is not None and not accepted.all():
            deferred = np.flatnonzero(~accepted)
            known = np.searchsorted(self.classes_, self.fallback_.classes_)
            result[deferred] = 0
            result[np.ix_(deferred, known)] = self.fallback_.predict_proba(_rows(X, deferred))
        return result

    def trust_score(self, X: Any) -> NDArray[np.float64]:
        """How far the estimator's answers to X can be trusted, higher is surer; compare with ``thresholds_``."""
        check_is_fitted(self)
        return trust_score(self.estimator_, X, self.score_method)

    def report(self, X: Any, y: ArrayLike) -> TriageReport:
        """Accuracy, coverage and who answered, on samples X with the labels y; the report prints as a table."""
        right = self.predict(X) == column_or_1d(y)
        who = self.answered_by(X)
        rows = {}
        for name in ("estimator", "nobody" if self.fallback_ is None else "fallback"):
            mask = who == name
            answered = mask.any() and name != "nobody"
            accuracy = float(right[mask].mean()) if answered else float("nan")
            rows[name] = {"count": int(mask.sum()), "share": float(mask.mean()), "accuracy": accuracy}
        counted = right if self.fallback_ is not None else right[who == "estimator"]
        return TriageReport(
            rows,
            float(counted.mean()) if counted.size else float("nan"),
            float(self.target_accuracy),
            float(self.confidence),
            self.guarantee_,
            bool(self.per_class),
        )

    def get_metadata_routing(self) -> Any:
        """Who gets which metadata: the estimator's and the fallback's ``fit``, and the splitter."""
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=type(self).__name__)
        router.add(estimator=self.estimator, method_mapping=to_fit)
        if self.fallback is not None:
            router.add(fallback=self.fallback, method_mapping=to_fit)
        if self.cv is not None:
            to_split = MethodMapping().add(caller="fit", callee="split")
            router.add(splitter=self.cv, method_mapping=to_split)
        return router

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        if inner.classifier_tags is not None:
            tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
        return tags

    def _answer(self, X: Any) -> tuple[Array, Bools]:
        """The estimator's predictions, and whether the trust in each reaches its class's threshold."""
        check_is_fitted(self)
        labels = np.asarray(self.estimator_.predict(X))
        predicted = positions(labels, self.estimator_.classes_)
        trust = trust_score(self.estimator_, X, self.score_method)
        # -inf accepts every real number; +inf means "accept nothing", even where a score is infinite.
        limit = np.where(predicted < 0, np.inf, self.thresholds_[predicted])  # "I defer" of a triage inside is no class
        return labels, (trust >= limit) & (limit < np.inf)

    def _cross_fit(self, X: Any, y: Array, params: Any) -> tuple[Any, Judged]:
        """Judge every sample by a model fitted without it; the model that serves is fitted on all of them."""
        splitter = check_cv(self.cv, y, classifier=True)
        folds = list(splitter.split(X, y, **params["splitter"]))
        self._check_enough(sum(len(test) for _, test in folds), len(y))
        parts: list[Judged] = Parallel(n_jobs=self.n_jobs)(
            delayed(_fit_and_judge)(clone(self.estimator), X, y, train, test, self.score_method, params["estimator"])
            for train, test in folds
        )
        true, predicted, trust = (np.concatenate(part) for part in zip(*parts, strict=True))
        return clone(self.estimator).fit(X, y, **params["estimator"]), (true, predicted, trust)

    def _hold_out(self, n_samples: int, rng: Any) -> tuple[Indices, Indices]:
        n_held_out = ceil(self.calibration_fraction * n_samples)
        self._check_enough(min(n_held_out, n_samples - 1), n_samples)
        order = rng.permutation(n_samples)
        return np.sort(order[n_held_out:]), np.sort(order[:n_held_out])

    def _route(self, fit_params: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """The metadata for the estimator, the fallback and the splitter."""
        routed: dict[str, dict[str, Any]] = {"estimator": {}, "fallback": {}, "splitter": {}}
        if not fit_params:
            return routed
        if not get_config()["enable_metadata_routing"]:
            routed["estimator"] = dict(fit_params)
            if self.fallback is not None and has_fit_parameter(self.fallback, "sample_weight"):
                routed["fallback"] = {k: v for k, v in fit_params.items() if k == "sample_weight"}
            return routed
        asked = process_routing(self, "fit", **fit_params)
        routed["estimator"] = dict(asked.estimator.fit)
        if self.fallback is not None:
            routed["fallback"] = dict(asked.fallback.fit)
        if self.cv is not None:
            routed["splitter"] = dict(asked.splitter.split)
        return routed

    def _all_have(self, method: str) -> bool:
        members = [self.estimator_, self.fallback_] if hasattr(self, "estimator_") else [self.estimator, self.fallback]
        return all(hasattr(member, method) for member in members if member is not None)

    def _check_parameters(self, X_cal: Any, y_cal: Any) -> None:
        for name in ("estimator", "fallback"):
            member = getattr(self, name)
            optional = name == "fallback" and member is None
            if not optional and not (hasattr(member, "fit") and is_classifier(member)):
                raise ValueError(f"The parameter {name!r} of TriageClassifier must be a classifier; got {member!r}.")
        if (X_cal is None) != (y_cal is None):
            raise ValueError(
                "TriageClassifier.fit takes the calibration samples 'X_cal' and their labels 'y_cal' "
                f"together; got only {'y_cal' if X_cal is None else 'X_cal'!r}. Give both, or neither."
            )
        if X_cal is not None and self.cv is not None:
            raise ValueError(
                "TriageClassifier calibrates either on 'X_cal' or by cross-fitting with 'cv', not both; got "
                f"X_cal and cv={self.cv!r}. Leave one of them out."
            )

    def _check_enough(self, n_calibration: int, n_samples: int) -> None:
        """Refuse what cannot succeed before anything is fitted: even flawless answers would prove nothing."""
        needed = samples_needed(self.target_accuracy, 1 - self.confidence)
        if n_calibration < needed:
            raise ValueError(
                f"TriageClassifier needs at least {needed} calibration samples to prove "
                f"target_accuracy={self.target_accuracy} with confidence={self.confidence}, even if every "
                f"answer is right; it has {n_calibration} (n_samples={n_samples}). Give more samples, hold "
                "out a larger calibration_fraction, cross-fit with cv=5, or lower the target or the "
                "confidence."
            )

    def _check_labels(self, estimator: Any, true: Array) -> None:
        """A class that the model never saw is an error of the model; labels of another kind are a mistake."""
        if (positions(true, estimator.classes_) < 0).all():
            raise ValueError(
                "None of the calibration labels given to TriageClassifier is a class of its estimator: the "
                f"labels are {np.unique(true)[:5].tolist()}, the classes "
                f"{estimator.classes_[:5].tolist()}. Encode both alike."
            )

    def _warn_if_not_reached(self, right: Bools) -> None:
        missed = [k for k, c in enumerate(self.certificates_) if not c.attained]
        if not missed:
            return
        level = (1 - self.confidence) / len(self.certificates_)
        needed = samples_needed(self.target_accuracy, level)
        if not self.per_class:
            what = f"no threshold reached target_accuracy={self.target_accuracy}, so everything is deferred"
        else:
            names = [str(self.estimator_.classes_[k]) for k in missed]
            shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
            what = (
                f"target_accuracy={self.target_accuracy} was not reached for {len(names)} of "
                f"{len(self.certificates_)} predicted classes ({shown}), so all answers of these are deferred"
            )
        warnings.warn(
            f"TriageClassifier: {what}. The estimator has an accuracy of {right.mean():.4f} on the "
            f"{len(right)} calibration samples; a proof takes at least {needed} accepted samples"
            f"{' of a class' if self.per_class else ''} without an error. Use more calibration samples, a "
            "better estimator, a lower target or a lower confidence.",
            TargetNotReachedWarning,
            stacklevel=5,  # the caller of fit, which scikit-learn and `all_or_nothing` have wrapped
        )

    # -------------------------------------------------------------------------------------------- model files

    def _get_state(self) -> dict[str, Any]:
        state = fitted_state(self, [*FITTED, *FEATURES])
        if "estimator_" not in state:
            return {}
        return state | {"certificates_": [asdict(certificate) for certificate in self.certificates_]}

    def _set_state(self, state: dict[str, Any]) -> None:
        """A threshold for each class of the estimator, and the certificates behind them."""
        require_names(state, type(self).__name__, FITTED, FEATURES)
        if "n_features_in_" in state:
            require_features(state)
        estimator, fallback, classes = state["estimator_"], state["fallback_"], state["classes_"]
        require_array(classes, (None,), "biufUO", "classes_")
        for part in (estimator, fallback):
            if part is None and part is fallback:
                continue
            require(is_classifier(part), "a part is not a classifier")
            require((positions(np.asarray(part.classes_), classes) >= 0).all(), "a part has other classes")
            width = getattr(part, "n_features_in_", None)
            require(width == state.get("n_features_in_"), "a part reads another number of features")
        certificates = [Certificate._from_state(one) for one in state["certificates_"]]
        n_classes = len(estimator.classes_)
        require(len(certificates) in (1, n_classes), "there is not a certificate for each class")
        require_array(state["thresholds_"], (n_classes,), "f", "thresholds_")
        require(isinstance(state["attained_"], bool), "attained_ is neither true nor false")
        require(state["guarantee_"] in ("exact", "approximate"), "guarantee_ is wrong")
        require_whole(state["n_calibration_"], 1, "n_calibration_")
        self.__dict__.update(state | {"certificates_": certificates})


def _check_samples(owner: Any, X: Any, y: Any) -> tuple[Any, Array]:
    """Labels as one clean column; the samples stay what they are, for the estimator to judge."""
    if y is None:
        raise ValueError(f"{type(owner).__name__} requires y to be passed, but the target y is None. Give the labels.")
    y = column_or_1d(y, warn=True)
    y = check_array(y, ensure_2d=False, dtype=None, input_name="y")
    check_classification_targets(y)
    X, y = indexable(X, y)
    return X, np.asarray(y)


def _rows(X: Any, index: Indices) -> Any:
    """Some of the samples, of whatever kind X is."""
    return _safe_indexing(indexable(X)[0], index)


def _room_for(labels: Array, others: Array) -> Array:
    """A copy of the labels that can also hold the others: never a number turned into text."""
    alike = labels.dtype.kind == others.dtype.kind or {labels.dtype.kind, others.dtype.kind} <= set("biuf")
    return labels.astype(np.result_type(labels, others) if alike else object)


def _judge(estimator: Any, X: Any, y: Array, score_method: ScoreMethod) -> Judged:
    """A fitted classifier's answers to labelled samples."""
    return y, np.asarray(estimator.predict(X)), trust_score(estimator, X, score_method)


def _fit_and_judge(
    estimator: Any,
    X: Any,
    y: Array,
    train: Indices,
    test: Indices,
    score_method: ScoreMethod,
    params: Mapping[str, Any],
) -> Judged:
    """Fit on the samples at ``train``, judge those at ``test``."""
    estimator.fit(_safe_indexing(X, train), y[train], **_cut_metadata(params, train, len(y)))
    return _judge(estimator, _safe_indexing(X, test), y[test], score_method)


def _cut_metadata(params: Mapping[str, Any], index: Indices, n_samples: int) -> dict[str, Any]:
    """Metadata for the samples at ``index``: what has one entry per sample is cut, the rest passes as it is."""

    def per_sample(value: Any) -> bool:
        return hasattr(value, "__len__") and not isinstance(value, str) and _num_samples(value) == n_samples

    return {k: _safe_indexing(v, index) if per_sample(v) else v for k, v in params.items()}
