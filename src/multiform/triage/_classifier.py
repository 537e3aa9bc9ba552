"""Answer only when the answer can be trusted, with a promise about how often an accepted answer is right."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import pairwise
from math import ceil
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, _fit_context, clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils import _safe_indexing, check_array, check_random_state, get_tags, indexable
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, has_fit_parameter

from multiform import progress
from multiform._typing import Array, Bools, Doubles, Indices
from multiform.folds import Split, drawn_folds, group_codes, splits_of
from multiform.metrics import ScoreMethod, trust_score
from multiform.metrics.labels import distinct, positions
from multiform.runtime import jobs_for
from multiform.state import (
    FEATURES,
    all_or_nothing,
    fitted_state,
    require,
    require_array,
    require_classes,
    require_features,
    require_names,
    require_whole,
)
from multiform.triage._calibration import (
    Examined,
    Examiner,
    as_objects,
    conformal_threshold,
    fit_and_examine,
    is_known,
    known_from,
    one_of_each,
)
from multiform.triage._certify import Certificate, Claim, certify, samples_needed, total_level
from multiform.triage._report import Kept, TriageReport

SETS_SHARE = 0.25  # of the calibration samples, put aside for prediction sets

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
ADDED = ("parts_", "set_threshold_")  # files of version 0.1.0 lack these


class TargetNotReachedWarning(UserWarning):
    """The calibration data could not prove what was promised, so answers that might be right are deferred."""


class TriageClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Accept the answers of a classifier that meet a target accuracy, and defer the rest.

    With probability ``confidence`` over the draw of the calibration samples, the accuracy of the accepted answers on
    future samples is at least ``target_accuracy``. This holds for every classifier, every trust score, every
    distribution and every number of samples, provided that calibration and future samples come independently from the
    same source and that the classifier has not been trained on the calibration samples. If the target cannot be proved,
    more is deferred, in the end everything; the promise is never weakened.

    More can be promised at once, all of it together with probability ``confidence``: the target in each predicted class
    (``per_class``), in each part of the samples that x tells apart (``by``), and the recall of classes
    (``target_recall``). With ``groups`` given to ``fit``, as of patients with several visits, the promise is of new
    groups: of a sample drawn at random from a group that was not seen.

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
    target_recall : dict of label to float in (0, 1), default=None
        Of the accepted samples whose *true* class is the label, at least this share is answered right. So also at most
        one minus this share of all samples of the class that come in is accepted and answered wrong. Not together with
        ``per_class``, where an answer is accepted by its class alone.
    by : int, str or callable, default=None
        A partition of the samples that x tells: a column of X, by number or name, or a callable that takes X and
        gives a label for each row. Everything that is promised holds in each part, with a threshold of its
        own. A part that the calibration samples lack, or whose label is missing, is deferred.
    fallback : classifier, default=None
        Answers what is deferred, without a promise. It is fitted on all samples given to ``fit``, unless it
        is a :class:`~sklearn.frozen.FrozenEstimator`.
    set_coverage : float in (0, 1), default=None
        The probability with which the set of labels that ``prediction_sets`` gives for a deferred sample contains the
        truth. A quarter of the calibration samples is put aside for it. None makes no sets.
    cv : int, cross-validation generator or iterable, default=None
        None holds out ``calibration_fraction`` of the samples at random for the calibration; this carries the
        exact promise. Anything else cross-fits: every sample is judged by a model fitted without it, and the
        model that answers is refitted on all samples. No data is lost, but the promise then speaks of the
        fold models and holds for the refitted one only approximately: ``guarantee_`` is ``"approximate"``.
    calibration_fraction : float in (0, 1), default=0.25
        The share of the samples (of the groups, where given) held out for the calibration if ``cv`` is None. The split
        is random and not stratified, for a stratified part is no independent sample.
    score_method : {"auto", "loyalty_score", "predict_proba", "decision_function"} or callable, default="auto"
        Where the trust in an answer comes from; see :func:`multiform.metrics.trust_score`.
    defer_label : object, default=None
        What ``predict`` says for a deferred sample when there is no fallback. With None it gives the
        estimator's own answer, for which nothing is promised; ask ``defer`` which ones these are.
    n_jobs : int, default=None
        Fold models to fit at the same time, as in scikit-learn.
    random_state : int, RandomState instance or None, default=None
        Decides which samples are held out, in which order equally sure ones are tested, which sample of a group is
        drawn, and which are put aside for prediction sets.

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
    thresholds_ : ndarray of shape (n_estimator_classes,), or (n_parts, n_estimator_classes) with ``by``
        The least trust for an accepted answer, by predicted class in the order of ``estimator_.classes_``;
        ``inf`` where nothing is accepted. All the same unless ``per_class`` or ``by``.
    parts_ : ndarray of shape (n_parts,) or None
        The labels of the parts with ``by``, in the order of ``thresholds_``.
    certificates_ : list
        The evidence: one certificate, or one for each class and part (the classes of the first part first), with
        ``threshold``, ``n_tested``, ``n_accepted``, ``n_correct``, ``coverage``, ``accuracy``, ``accuracy_bound`` and
        ``recalls`` on the calibration samples.
    set_threshold_ : float or None
        The least chance of a label in a prediction set.
    n_calibration_ : int
        The number of calibration samples; with ``groups`` there is one of each calibration group.
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

    An accuracy of 95 %, and a recall of 97 % for class 0, both with a confidence of 90 %:

    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_classification(6000, random_state=0)
    >>> triage = TriageClassifier(
    ...     LogisticRegression(), target_accuracy=0.95, target_recall={0: 0.97}, confidence=0.9, random_state=0
    ... )
    >>> report = triage.fit(X[:4000], y[:4000]).report(X[4000:], y[4000:])
    >>> [(promise.what, promise.target, bool(promise.share >= promise.target)) for promise in report.promises]
    [('accuracy', 0.95, True), ('recall of 0', 0.97, True)]
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": "no_validation",  # fit asks whether it is a classifier
        "target_accuracy": [Interval(Real, 0, 1, closed="neither")],
        "confidence": [Interval(Real, 0, 1, closed="neither")],
        "per_class": ["boolean"],
        "target_recall": [dict, None],
        "by": [Integral, str, callable, None],
        "fallback": "no_validation",
        "set_coverage": [Interval(Real, 0, 1, closed="neither"), None],
        "cv": ["cv_object"],
        "calibration_fraction": [Interval(Real, 0, 1, closed="neither")],
        "score_method": [StrOptions({"auto", "loyalty_score", "predict_proba", "decision_function"}), callable],
        "defer_label": [str, Real, "boolean", None],
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
        target_recall: Mapping[Any, float] | None = None,
        by: int | str | Callable[[Any], Any] | None = None,
        fallback: Any = None,
        set_coverage: float | None = None,
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
        self.target_recall = target_recall
        self.by = by
        self.fallback = fallback
        self.set_coverage = set_coverage
        self.cv = cv
        self.calibration_fraction = calibration_fraction
        self.score_method = score_method
        self.defer_label = defer_label
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        X_cal: Any = None,
        y_cal: ArrayLike | None = None,
        groups_cal: ArrayLike | None = None,
        **fit_params: Any,
    ) -> TriageClassifier:
        """Fit the classifier and choose the threshold.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples: for training and calibration, or for calibration alone if the estimator is frozen.
        y : array-like of shape (n_samples,)
            Their labels.
        groups : array-like of shape (n_samples,), default=None
            Samples that belong together, as those of one patient do: whole groups are held out, and the promise is of a
            random sample of a new group. For that, one sample of each calibration group is drawn, as these are
            independent; so it takes as many groups as else samples. The estimator and the fallback get the groups, too,
            if their ``fit`` takes them, and so does the splitter.
        X_cal, y_cal : array-like, default=None
            Calibration samples and labels of your own, which the estimator must not have seen. Then all of
            ``X`` trains.
        groups_cal : array-like, default=None
            The groups of ``X_cal``, none of which may be among those of ``X``.
        **fit_params : dict
            Passed to the estimator's ``fit``, arrays with one entry per sample cut to the training part;
            ``sample_weight`` also to the fallback's, if it takes weights. With metadata routing, whoever
            asked for them gets them, and ``groups`` likewise. Calibration counts every sample once, whatever its
            weight.
        """
        self._check_parameters(X_cal, y_cal, groups_cal)
        X, y = _check_samples(self, X, y)
        self._check_recall(y)
        codes = group_codes(groups, len(y), type(self).__name__)
        params = self._route(fit_params, groups)
        rng, guarantee = check_random_state(self.random_state), "exact"
        judge = Examiner(self.score_method, self.by, self.set_coverage is not None)

        if X_cal is None and isinstance(self.estimator, FrozenEstimator):
            X_cal, y_cal, groups_cal = X, y, groups
        if X_cal is not None:
            X_cal, y_cal = _check_samples(self, X_cal, y_cal)
            codes = group_codes(groups_cal, len(y_cal), type(self).__name__)
            self._check_enough(len(y_cal) if codes is None else len(np.unique(codes)), len(y), codes)
            estimator = clone(self.estimator).fit(X, y, **params["estimator"])
            judged = judge(estimator, X_cal, y_cal)
        elif self.cv is None:
            estimator = clone(self.estimator)
            train, held_out = self._hold_out(len(y), codes, rng)
            judged = fit_and_examine(estimator, X, y, train, held_out, judge, params["estimator"])
            codes = None if codes is None else codes[held_out]
        else:
            estimator, judged, tested = self._cross_fit(X, y, codes, params, judge, rng)
            guarantee = "approximate"
            codes = None if codes is None else codes[tested]
        self._check_labels(estimator, judged.true)
        if codes is not None:
            judged = judged.at(one_of_each(codes, rng))
        n_calibration = len(judged.true)
        if self.set_coverage is not None:
            order = rng.permutation(n_calibration)
            n_aside = ceil(SETS_SHARE * n_calibration)
            judged, aside = judged.at(order[n_aside:]), judged.at(order[:n_aside])

        classes = np.asarray(estimator.classes_)
        right = judged.predicted == judged.true
        parts = None if judged.part is None else distinct(judged.part[is_known(judged.part)])
        cells, shape = self._cells(judged, classes, parts)
        recalls = dict(self.target_recall or {})
        claims = [Claim(np.ones(len(right), dtype=bool), float(self.target_accuracy))]
        claims += [Claim(positions(judged.true, as_objects([label])) == 0, float(r)) for label, r in recalls.items()]
        certificates = certify(
            judged.trust, right, cells, int(np.prod(shape)), claims, confidence=self.confidence, rng=rng
        )
        fallback = None
        if self.fallback is not None:
            fallback = clone(self.fallback).fit(X, y, **params["fallback"])

        thresholds = np.broadcast_to(
            np.reshape([c.threshold for c in certificates], shape), (shape[0], len(classes))
        ).copy()
        self.estimator_ = estimator
        self.fallback_ = fallback
        self.classes_ = classes if fallback is None else distinct(classes, np.asarray(fallback.classes_))
        self.certificates_ = certificates
        self.parts_ = parts
        self.thresholds_ = thresholds[0] if parts is None else thresholds
        self.attained_ = any(c.attained for c in certificates)
        self.guarantee_ = guarantee
        self.n_calibration_ = n_calibration
        self.set_threshold_ = None
        if self.set_coverage is not None:
            deferred = ~self._accepts(aside.predicted, aside.trust, aside.part)
            assert aside.chance is not None
            self.set_threshold_ = conformal_threshold(aside.chance[deferred], self.set_coverage)
        for name in FEATURES:
            if hasattr(estimator, name):
                setattr(self, name, getattr(estimator, name))
            elif hasattr(self, name):
                delattr(self, name)  # of an earlier fit
        self._warn_if_not_reached(right, claims)
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

    def prediction_sets(self, X: Any) -> Bools:
        """For each sample of X a set of labels: the answer alone where it is accepted, else as many as are needed.

        Of the samples that are deferred, the set contains the truth with a probability of at least ``set_coverage``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        sets : ndarray of shape (n_samples, n_classes)
            Whether a label of ``classes_`` is in the set. Of an accepted answer nothing is said but the promise.

        Notes
        -----
        The probability is over the calibration samples that were put aside and the new sample (split conformal
        prediction): the threshold on the trust is chosen on other samples, so those that were put aside and deferred
        and a new deferred one are exchangeable. It is not conditional on x, and not on the class. A truth that
        the estimator never saw can be in no set.

        Examples
        --------
        >>> from sklearn.datasets import make_blobs
        >>> from sklearn.linear_model import LogisticRegression
        >>> from multiform.triage import TriageClassifier
        >>> X, y = make_blobs(6000, centers=3, cluster_std=2.2, random_state=3)
        >>> triage = TriageClassifier(LogisticRegression(), target_accuracy=0.97, set_coverage=0.9, random_state=0)
        >>> triage = triage.fit(X[:4500], y[:4500])
        >>> sets = triage.prediction_sets(X[4500:])
        >>> bool(sets[triage.defer(X[4500:]), :].sum(axis=1).mean() > 1)
        True
        """
        labels, accepted = self._answer(X)
        if self.set_threshold_ is None:
            raise ValueError(
                "prediction_sets needs a TriageClassifier that was fitted with a set_coverage; got None. Fit with "
                "set_coverage=0.9, say."
            )
        chances = np.asarray(self.estimator_.predict_proba(X), dtype=np.float64)
        # No set is empty: the likeliest label costs nothing of the promise.
        likely = chances >= np.minimum(self.set_threshold_, chances.max(axis=1, keepdims=True))
        answer = positions(labels, self.estimator_.classes_)[:, None] == np.arange(chances.shape[1])
        sets = np.zeros((len(labels), len(self.classes_)), dtype=bool)
        sets[:, positions(self.estimator_.classes_, self.classes_)] = np.where(accepted[:, None], answer, likely)
        return sets

    def trust_score(self, X: Any) -> NDArray[np.float64]:
        """How far the estimator's answers to X can be trusted, higher is surer; compare with ``thresholds_``."""
        check_is_fitted(self)
        return trust_score(self.estimator_, X, self.score_method)

    def report(self, X: Any, y: ArrayLike) -> TriageReport:
        """Accuracy, coverage, who answered and each promise, on samples X with the labels y; it prints as a table."""
        true = column_or_1d(y)
        right = self.predict(X) == true
        labels, accepted = self._answer(X)
        other = "nobody" if self.fallback_ is None else "fallback"
        rows = {}
        for name, mask in (("estimator", accepted), (other, ~accepted)):
            answered = mask.any() and name != "nobody"
            accuracy = float(right[mask].mean()) if answered else float("nan")
            rows[name] = {"count": int(mask.sum()), "share": float(mask.mean()), "accuracy": accuracy}
        counted = right if self.fallback_ is not None else right[accepted]
        return TriageReport(
            rows,
            float(counted.mean()) if counted.size else float("nan"),
            float(self.target_accuracy),
            float(self.confidence),
            self.guarantee_,
            bool(self.per_class),
            self._kept(X, true, labels, accepted),
        )

    def _kept(self, X: Any, true: Array, labels: Array, accepted: Bools) -> list[Kept]:
        """Each promise, and what became of it among the accepted samples."""
        everyone = np.ones(len(true), dtype=bool)
        classes = np.asarray(self.estimator_.classes_)
        predicted = positions(labels, classes)
        cells = [("", everyone)]
        if self.parts_ is not None:
            part = positions(known_from(X, self.by), self.parts_)
            cells = [(f"by {label}", part == k) for k, label in enumerate(self.parts_.tolist())]
        if self.per_class:
            named = [(f"answer {label}", predicted == k) for k, label in enumerate(classes.tolist())]
            cells = [(f"{a}, {b}" if a else b, one & two) for a, one in cells for b, two in named]
        scopes = [("accuracy", everyone, self.target_accuracy)]
        for label, target in (self.target_recall or {}).items():
            scopes.append((f"recall of {label}", positions(true, as_objects([label])) == 0, target))
        kept = []
        for where, inside in cells:
            for what, scope, target in scopes:
                mask = accepted & inside & scope
                share = float((labels == true)[mask].mean()) if mask.any() else float("nan")
                kept.append(Kept(f"{what}, {where}" if where else what, float(target), int(mask.sum()), share))
        return kept

    def get_metadata_routing(self) -> Any:
        """Who gets which metadata: this ``fit``, the estimator's and the fallback's, and the splitter."""
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
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
        """The estimator's predictions, and whether the trust in each reaches its class's and part's threshold."""
        check_is_fitted(self)
        labels = np.asarray(self.estimator_.predict(X))
        part = None if self.parts_ is None else known_from(X, self.by)
        return labels, self._accepts(labels, trust_score(self.estimator_, X, self.score_method), part)

    def _accepts(self, labels: Array, trust: Doubles, part: Array | None) -> Bools:
        # "I defer" of a triage inside is no class, and a part that is not known is none.
        predicted = positions(labels, self.estimator_.classes_)
        cells, place = self.thresholds_[None], np.zeros(len(labels), dtype=np.intp)
        if self.parts_ is not None and part is not None:
            cells, place = self.thresholds_, positions(part, self.parts_)
        limit = np.where((predicted < 0) | (place < 0), np.inf, cells[place, predicted])
        # -inf accepts every real number; +inf means "accept nothing", even where a score is infinite.
        return np.asarray((trust >= limit) & (limit < np.inf))

    def _cells(self, judged: Examined, classes: Array, parts: Array | None) -> tuple[Indices, tuple[int, int]]:
        """Which threshold each sample belongs to, -1 for none; and how many there are, by parts and by classes."""
        predicted = (
            positions(judged.predicted, classes) if self.per_class else np.zeros(len(judged.true), dtype=np.intp)
        )
        shape = (1 if parts is None else len(parts), len(classes) if self.per_class else 1)
        place = np.zeros_like(predicted)
        if parts is not None:
            assert judged.part is not None
            place = positions(judged.part, parts)
        return np.where((place < 0) | (predicted < 0), -1, place * shape[1] + predicted), shape

    def _cross_fit(
        self, X: Any, y: Array, codes: Indices | None, params: Any, judge: Examiner, rng: Any
    ) -> tuple[Any, Examined, Indices]:
        """Judge every sample by a model fitted without it; the model that serves is fitted on all of them."""
        if isinstance(self.cv, Integral):
            random = np.random.default_rng(rng.randint(2**31))
            folds = splits_of(drawn_folds(np.unique(y, return_inverse=True)[1].ravel(), int(self.cv), random, codes))
            if len(folds) < 2:
                raise ValueError(
                    f"cv={self.cv} of TriageClassifier needs samples for at least 2 folds; got n_samples={len(y)}."
                )
        else:
            given = params["splitter"] if codes is None else {"groups": codes} | params["splitter"]
            from sklearn.model_selection import check_cv  # it takes a while to load

            folds = list(check_cv(self.cv, y, classifier=True).split(X, y, **given))
        tested = np.concatenate([test for _, test in folds])
        self._check_enough(len(tested) if codes is None else len(np.unique(codes[tested])), len(y), codes)
        shares = np.linspace(0, 1, len(folds) + 2)  # of all fits, the last of which serves
        pieces: list[Examined] = Parallel(n_jobs=jobs_for(self.n_jobs, len(folds)))(
            delayed(fit_and_examine)(clone(self.estimator), X, y, train, test, judge, params["estimator"], share)
            for (train, test), share in zip(folds, pairwise(shares), strict=False)
        )
        with progress.part(shares[-2], 1.0):
            serving = clone(self.estimator).fit(X, y, **params["estimator"])
        return serving, Examined.together(pieces), tested

    def _hold_out(self, n_samples: int, codes: Indices | None, rng: Any) -> Split:
        """Some samples at random, or some groups as a whole."""
        n = n_samples if codes is None else int(codes.max()) + 1
        n_held_out = ceil(self.calibration_fraction * n)
        self._check_enough(min(n_held_out, n - 1), n_samples, codes)
        held_out = np.zeros(n, dtype=bool)
        held_out[rng.permutation(n)[:n_held_out]] = True
        mask = held_out if codes is None else held_out[codes]
        return np.flatnonzero(~mask), np.flatnonzero(mask)

    def _route(self, fit_params: Mapping[str, Any], groups: Any) -> dict[str, dict[str, Any]]:
        """The metadata for the estimator, the fallback and the splitter."""
        routed: dict[str, dict[str, Any]] = {"estimator": {}, "fallback": {}, "splitter": {}}
        named = {} if groups is None else {"groups": groups}
        if not fit_params and not named:
            return routed
        if not get_config()["enable_metadata_routing"]:
            routed["estimator"] = dict(fit_params)
            if named and has_fit_parameter(self.estimator, "groups"):
                routed["estimator"] |= named
            if self.fallback is not None:
                offered = {k: v for k, v in fit_params.items() if k == "sample_weight"} | named
                routed["fallback"] = {k: v for k, v in offered.items() if has_fit_parameter(self.fallback, k)}
            return routed
        asked = process_routing(self, "fit", **fit_params, **named)
        routed["estimator"] = dict(asked.estimator.fit)
        if self.fallback is not None:
            routed["fallback"] = dict(asked.fallback.fit)
        if self.cv is not None:
            routed["splitter"] = dict(asked.splitter.split)
        return routed

    def _all_have(self, method: str) -> bool:
        members = [self.estimator_, self.fallback_] if hasattr(self, "estimator_") else [self.estimator, self.fallback]
        return all(hasattr(member, method) for member in members if member is not None)

    def _check_parameters(self, X_cal: Any, y_cal: Any, groups_cal: Any) -> None:
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

        if groups_cal is not None and X_cal is None:
            raise ValueError("'groups_cal' of TriageClassifier.fit are the groups of 'X_cal', which is not given.")
        if self.set_coverage is not None and not hasattr(self.estimator, "predict_proba"):
            raise ValueError(
                "'set_coverage' of TriageClassifier needs an estimator with predict_proba, as a prediction set holds "
                f"the likely labels; got {self.estimator!r}. Leave it out, or calibrate the estimator."
            )

    def _check_recall(self, y: Array) -> None:
        """Shares between 0 and 1, of classes that there are."""
        recalls = self.target_recall or {}
        if recalls and self.per_class:
            raise ValueError(
                "'target_recall' and 'per_class' of TriageClassifier exclude each other: a recall is of one threshold "
                "for all answers, and per_class=True has one for each class. Leave one of them out."
            )
        known = distinct(y, np.asarray(getattr(self.estimator, "classes_", y)))
        for label, share in recalls.items():
            if isinstance(share, bool) or not isinstance(share, Real) or not 0 < share < 1:
                raise ValueError(
                    "'target_recall' of TriageClassifier must hold shares between 0 and 1; "
                    f"got {share!r} for {label!r}."
                )
            if positions(as_objects([label]), known)[0] < 0:
                raise ValueError(
                    f"'target_recall' of TriageClassifier names {label!r}, which is not among the classes "
                    f"{known[:10].tolist()}."
                )

    def _check_enough(self, n_calibration: int, n_samples: int, codes: Indices | None) -> None:
        """Refuse what cannot succeed before anything is fitted: even flawless answers would prove nothing."""
        recalls = dict(self.target_recall or {})
        level = total_level(self.confidence, 1 + len(recalls))
        needed = max(samples_needed(target, level) for target in (self.target_accuracy, *recalls.values()))
        if self.set_coverage is not None:
            needed = ceil(needed / (1 - SETS_SHARE))  # what is put aside proves nothing
        if n_calibration < needed:
            what = "samples" if codes is None else "groups"
            total = f"n_samples={n_samples}" if codes is None else "a promise of new groups takes one sample of each"
            raise ValueError(
                f"TriageClassifier needs at least {needed} calibration {what} to prove "
                f"target_accuracy={self.target_accuracy} with confidence={self.confidence}, even if every "
                f"answer is right; it has {n_calibration} ({total}). Give more {what}, hold "
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

    def _warn_if_not_reached(self, right: Bools, claims: list[Claim]) -> None:
        missed = [k for k, c in enumerate(self.certificates_) if not c.attained]
        if not missed:
            return
        level = total_level(self.confidence, len(claims)) / len(self.certificates_)
        needed = samples_needed(self.target_accuracy, level)
        recalls = dict(self.target_recall or {})
        goal = f"target_accuracy={self.target_accuracy}" + (f" and target_recall={recalls}" if recalls else "")
        if len(self.certificates_) == 1:
            what = f"no threshold reached {goal}, so everything is deferred"
        else:
            names = [self._cell_name(k) for k in missed]
            shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
            kind = "predicted classes" if self.parts_ is None else "parts"
            what = (
                f"{goal} was not reached for {len(names)} of {len(self.certificates_)} {kind} ({shown}), so all "
                "answers of these are deferred"
            )
        each = "" if len(self.certificates_) == 1 else " of a class" if self.parts_ is None else " of a part"
        proof = f"a proof takes at least {needed} accepted samples{each} without an error"
        for (label, target), claim in zip(recalls.items(), claims[1:], strict=True):
            proof += f", {samples_needed(target, level)} of class {label} (there are {int(claim.scope.sum())})"
        warnings.warn(
            f"TriageClassifier: {what}. The estimator has an accuracy of {right.mean():.4f} on the "
            f"{len(right)} calibration samples; {proof}. Use more calibration samples, a "
            "better estimator, a lower target or a lower confidence.",
            TargetNotReachedWarning,
            stacklevel=5,  # the caller of fit, which scikit-learn and `all_or_nothing` have wrapped
        )

    def _cell_name(self, cell: int) -> str:
        """The part and the class of a certificate."""
        n_classes = len(self.estimator_.classes_) if self.per_class else 1
        part = [] if self.parts_ is None else [str(self.parts_[cell // n_classes])]
        return ", ".join(part + ([str(self.estimator_.classes_[cell % n_classes])] if self.per_class else []))

    # -------------------------------------------------------------------------------------------- model files

    def _get_state(self) -> dict[str, Any]:
        state = fitted_state(self, [*FITTED, *ADDED, *FEATURES])
        if "estimator_" not in state:
            return {}
        return state | {"certificates_": [asdict(certificate) for certificate in self.certificates_]}

    def _set_state(self, state: dict[str, Any]) -> None:
        """A threshold for each class of the estimator, and the certificates behind them."""
        require_names(state, type(self).__name__, FITTED, [*ADDED, *FEATURES])
        require(hasattr(self.estimator, "fit"), "estimator of TriageClassifier is none")
        state = dict.fromkeys(ADDED) | state
        if "n_features_in_" in state:
            require_features(state)
        estimator, fallback, classes = state["estimator_"], state["fallback_"], state["classes_"]
        require_classes(classes)
        for part in (estimator, fallback):
            if part is None and part is fallback:
                continue
            require(is_classifier(part), "a part is not a classifier")
            require((positions(np.asarray(part.classes_), classes) >= 0).all(), "a part has other classes")
            width = getattr(part, "n_features_in_", None)
            require(width == state.get("n_features_in_"), "a part reads another number of features")
        certificates = [Certificate._from_state(one) for one in state["certificates_"]]
        n_classes, parts = len(estimator.classes_), state["parts_"]
        require((parts is None) == (self.by is None), "parts_ are there without 'by', or 'by' without parts_")
        if parts is not None:
            require_array(parts, (None,), "biufUO", "parts_")
        n_parts = 1 if parts is None else len(parts)
        require(
            len(certificates) in (n_parts, n_parts * n_classes), "there is not a certificate for each class and part"
        )
        shape = (n_classes,) if parts is None else (n_parts, n_classes)
        thresholds = require_array(state["thresholds_"], shape, "f", "thresholds_")
        require(not np.isnan(thresholds).any(), "a threshold is not a number")
        limit = state["set_threshold_"]
        require(limit is None or (isinstance(limit, float) and not np.isnan(limit)), "set_threshold_ is wrong")
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
