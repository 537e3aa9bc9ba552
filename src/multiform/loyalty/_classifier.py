"""LoyaltyClassifier: the loyalty extraction machine of section 3 of the paper."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context, clone, is_classifier
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, _check_y, check_is_fitted

from multiform._typing import Array, Doubles
from multiform.classifier import QMSClassifier
from multiform.fitting import drawn_seed
from multiform.folds import Split, drawn_folds, given_splits, group_codes, splits_of, unit_samples, warn_of_copies
from multiform.inputs import as_host, check_input, check_training_data, in_own_unit, used_samples
from multiform.loyalty._alterations import Alterations
from multiform.loyalty._committee import Committee, Verdict
from multiform.loyalty._score import Chances
from multiform.loyalty._training import quadratic_committees, refuse_weightless, weighted_committees
from multiform.metrics import LoyaltyTable, loyalty_table
from multiform.state import (
    FEATURES,
    all_or_nothing,
    fitted_state,
    require,
    require_array,
    require_classes,
    require_features,
    require_names,
)

MANY_FOLDS_BELOW, HELD_OUT_FROM = 500, 20_000  # samples
ENOUGH_TO_COMPARE = 4_000  # samples of the table that nobody should believe
TABLES = ("loyalty_table_", "training_table_")
# What a model file holds of a fitted model under its own name; the second where the nominal classifier has them.
FITTED = ("classes_", "levels_", *TABLES, "estimator_", "altered_estimators_", "class_factors_")


class Assessment(NamedTuple):
    """What `LoyaltyClassifier.assess` says of each sample."""

    label: Array
    loyalty: Array
    score: Doubles


class LoyaltyClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Says of every answer how far it can be trusted: strong, normal or weak, and as a chance.

    Beside the nominal classifier stand two for each class i, trained with the weight of class i lowered to `beta` and
    raised to `gamma` (section 3.1 of the paper). A sample is of *strong* loyalty type if exactly one class keeps it
    although it is held back, *weak* if it is not strong and at least three classes win it when they are pushed, else
    *normal* (Definition 6). With two classes no sample can be weak, and only the nominal and the two held-back models
    are trained.

    The answers are the nominal classifier's own; the altered ones only judge them. What the types are worth is
    estimated by cross-fitting, on samples that the models did not see.

    Parameters
    ----------
    estimator : classifier, default=None
        Any classifier whose `fit` takes `sample_weight`, or that has the parameter `class_weight`. None means
        :class:`~multiform.QMSClassifier`. The models of a QMSClassifier are trained in batches
        over one matrix, the altered ones started from the nominal; with `early_stopping` or `n_models`, and around
        other classifiers, every model is a fit of its own.
    beta : float in (0, 1) or sequence of them, default=0.05
        The weight of a class that is held back. The smaller, the fewer samples are strong, and the surer they are.
    gamma : float > 1 or sequence of them, default=20.0
        The weight of a class that is pushed. The larger, the more samples are weak.

        A ladder (a sequence) of betas or gammas gives a finer partition, named after its values, the surest first:
        ``"strong 0.01"``, ``"strong 0.05"``, ``"normal"``, ``"weak 20"``, ``"weak 5"``. A sample has the level of the
        smallest beta under which it is strong; if there is none, of the smallest gamma under which it is weak.
    cv : int, "auto", splitter or iterable, default="auto"
        Folds of the estimates. A number means folds drawn at random within the classes; with `groups`, of whole groups.
        "auto" means 10 below 500 samples, where a model without a fifth of them would be too poor a judge, else 5; from
        20,000 samples on no fold has models of its own: a tenth of the samples is held out of all models, and judges
        them. The time of `fit` grows with the number of splits.
    altered_iter : int or "auto", default="auto"
        Passes of an altered QMS model, which starts from the nominal. "auto": as many as the nominal's, and a third of
        them from 5,000 samples on.
    n_jobs : int, default=None
        Threads of the default QMSClassifier; around any other estimator, models to fit at the same time.
    random_state : int, RandomState or None, default=None
        Decides the folds, and the start of the default QMSClassifier.

    Attributes
    ----------
    classes_ : ndarray of shape (m,)
    levels_ : tuple of str
        The loyalty types that can occur, the surest first.
    loyalty_table_ : LoyaltyTable
        Count, share and accuracy of each type on samples that the models did not see: what to expect of new ones.
    training_table_ : LoyaltyTable
        Training samples, 4,000 or more where there are as many, as judged by the models that were trained on them: the
        paper's "estimated predictive accuracy", which is too high. Kept for comparison only.
    estimator_ : classifier
        The nominal classifier, trained on all samples that `cv` does not hold out of all models.
    altered_estimators_ : list of classifiers
        The altered ones: class by class for the smallest beta, and so on up the ladders.
    class_factors_ : ndarray of shape (n_altered, m)
        What each altered classifier multiplied the weights of the classes by.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (p,)

    See Also
    --------
    multiform.TriageClassifier : Accepts answers up to a threshold on `loyalty_score`, with a promise.
    multiform.metrics.confusion_tensor : A confusion matrix for each loyalty type.

    Notes
    -----
    How much a weight alters a model depends on how strongly the model is regularised: an altered model has the same
    parameters as the nominal one. Class weights of the estimator's own are multiplied by `beta` and `gamma`.

    References
    ----------
    Fan, Chang, Kongguoluo: Quadratic Multiform Separation: A New Classification Model in Machine Learning, section 3.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from multiform.loyalty import LoyaltyClassifier
    >>> X, y = make_blobs(600, centers=4, cluster_std=2.5, random_state=0)
    >>> model = LoyaltyClassifier(random_state=0).fit(X[:300], y[:300])
    >>> loyalty = model.predict_loyalty(X[300:])
    >>> right = model.predict(X[300:]) == y[300:]
    >>> bool(right[loyalty == "strong"].mean() > right[loyalty != "strong"].mean())
    True
    >>> model.loyalty_table_.levels
    ('strong', 'normal', 'weak')
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "beta": [Real, "array-like"],  # Alterations checks what they hold
        "gamma": [Real, "array-like"],
        "cv": [Interval(Integral, 2, None, closed="left"), StrOptions({"auto"}), "cv_object"],
        "altered_iter": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        beta: Any = 0.05,
        gamma: Any = 20.0,
        cv: Any = "auto",
        altered_iter: int | str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.beta = beta
        self.gamma = gamma
        self.cv = cv
        self.altered_iter = altered_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ------------------------------------------------------------------------------------------------ fitting

    @_fit_context(prefer_skip_nested_validation=False)  # type: ignore[untyped-decorator]
    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> LoyaltyClassifier:
        """Train the nominal and the altered classifiers, and estimate what the loyalty types are worth.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, p)
            What the estimator takes.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), default=None
            0 means removed, 2 means repeated (as in `QMSClassifierCV`). The tables count samples by their weight. An
            estimator that is not ours gets the weights in the unit that they have; else only ratios matter.
        groups : array-like of shape (n,), default=None
            Samples that belong together, as those of one patient do: whole groups are held out, so that the estimates
            are of new groups. A splitter given as `cv` gets them, too.
        """
        Alterations.of(self.beta, self.gamma, n_classes=3)  # refuses a wrong ladder before anything is trained
        seed = drawn_seed(self.random_state)
        estimator = self._unfitted(seed)
        samples, target, classes, weight = self._check_samples(estimator, X, y, sample_weight)
        unit = 1.0 if weight is None else float(np.asarray(as_host(sample_weight)).max() / weight.max())
        used = used_samples(sample_weight)
        codes = group_codes(groups, len(target), type(self).__name__, used)
        if self.cv == "auto" or isinstance(self.cv, Integral):
            if codes is None:
                n_given = len(target)
                samples, target, weight = unit_samples(samples, target, weight)
                if _is_matrix(samples):
                    warn_of_copies(samples, type(self).__name__, n_given)
            few = MANY_FOLDS_BELOW <= len(target) < HELD_OUT_FROM
            n_folds = (5 if few else 10) if self.cv == "auto" else int(self.cv)
            splits = splits_of(drawn_folds(target, n_folds, np.random.default_rng(seed), codes))
            if self.cv == "auto" and len(target) >= HELD_OUT_FROM:
                splits = splits[:1]
        else:
            splits = given_splits(self.cv, X, y, groups, used)
        _refuse_bare_folds(splits, target)

        # A committee for each part of the samples: QMS in batches, any other classifier one fit per model. The first is
        # that of all samples; of many, one is enough that has left some out to judge itself by.
        alone = self.cv == "auto" and len(target) >= HELD_OUT_FROM
        parts = [*([] if alone else [None]), *(train for train, _ in splits)]
        data, alterations = (estimator, samples, target, classes), Alterations.of(self.beta, self.gamma, len(classes))
        given = None if weight is None else unit * weight
        if type(estimator) is QMSClassifier and not estimator.early_stopping and estimator.n_models == 1:
            committees = quadratic_committees(*data, weight, alterations, self.altered_iter, parts, splits)
        else:
            n_jobs = None if self.estimator is None else self.n_jobs
            committees = weighted_committees(*data, given, alterations, n_jobs, parts, codes)
        whole = next(committees)
        unseen = Verdict.pooled(
            [
                committee.verdict(_safe_indexing(samples, test))
                for (_, test), committee in zip(splits, [whole] if alone else committees, strict=True)
            ]
        )
        judged = np.concatenate([test for _, test in splits])
        true = target[judged]
        weight_of_judged, given_of_judged = (None if one is None else one[judged] for one in (weight, given))
        chances = Chances(len(alterations.levels), len(classes)).fit(unseen, true, weight_of_judged)
        self._set_fitted(whole, chances, _table(alterations.levels, true, unseen, given_of_judged))
        learnt = splits[0][0] if alone else judged
        learnt = learnt[:: max(1, len(learnt) // ENOUGH_TO_COMPARE)]
        known = whole.verdict(_safe_indexing(samples, learnt))
        self.training_table_ = _table(self.levels_, target[learnt], known, None if given is None else given[learnt])
        return self

    def _unfitted(self, seed: int) -> Any:
        """The classifier to train, of which every model is a copy."""
        if self.estimator is None:
            return QMSClassifier(n_jobs=self.n_jobs, random_state=seed)
        if not is_classifier(self.estimator):
            raise ValueError(f"estimator of LoyaltyClassifier must be a classifier; got {self.estimator!r}.")
        return clone(self.estimator)

    def _check_samples(
        self, estimator: Any, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Any, Array, Array, Array | None]:
        """Samples, class indices, classes and weights (`in_own_unit`), without the samples of weight 0.

        QMS reads a checked matrix; any other estimator checks X itself, as it is the one to know.
        """
        if isinstance(estimator, QMSClassifier):
            return check_training_data(self, X, y, sample_weight)
        if y is None:
            raise ValueError("LoyaltyClassifier requires y to be passed, but the target y is None. Give the labels.")
        X, y = indexable(X, _check_y(y, estimator=self))
        check_classification_targets(y)
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        refuse_weightless(estimator, weight is not None)
        if weight is not None and not weight.all():
            rows = np.flatnonzero(weight)
            X, y, weight = _safe_indexing(X, rows), y[rows], weight[rows]
        if weight is not None and len(weight):
            weight = in_own_unit(weight, type(self).__name__)
        classes, index = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                "LoyaltyClassifier needs samples of at least 2 classes in y, of positive weight; "
                f"got {len(classes)} class, n_samples={len(y)}."
            )
        return X, index.ravel(), classes, weight

    def _set_fitted(self, whole: Committee, chances: Chances, table: LoyaltyTable) -> None:
        """The committee of all samples, and what the verdicts on unseen ones have taught."""
        nominal = whole.nominal
        if isinstance(nominal, QMSClassifier):
            if nominal.calibrate:  # on more samples than it could hold out itself
                nominal.temperature_ = chances.temperature
            if hasattr(self, "feature_names_in_"):
                for model in whole.models:
                    model.feature_names_in_ = self.feature_names_in_
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        self.__dict__.update({name: getattr(nominal, name) for name in FEATURES if hasattr(nominal, name)})
        self.classes_, self.levels_ = whole.classes, whole.alterations.levels
        if len(whole.classes) == 2 and (2 * table.correct < table.count).any():
            # Of two answers the likelier one is given, so that fewer right ones than half are bad luck.
            table = replace(table, correct=np.maximum(table.correct, table.count / 2))
        self.loyalty_table_ = table
        self.estimator_, self.altered_estimators_ = nominal, whole.altered
        self.class_factors_ = whole.alterations.factors
        self._committee, self._chances = whole, chances

    # --------------------------------------------------------------------------------------------- predicting

    def assess(self, X: Any) -> Assessment:
        """Answer, loyalty type and score of every sample, asking each model once.

        Returns
        -------
        assessment : Assessment
            `label`, `loyalty` and `score`, each of shape (n,): what `predict`, `predict_loyalty` and
            `loyalty_score` give.
        """
        verdict = self._verdict(X)
        loyalty = np.array(self.levels_)[verdict.level]
        return Assessment(self.classes_[verdict.nominal], loyalty, self._chances.of_answer(verdict))

    def predict_loyalty(self, X: Any) -> Array:
        """The loyalty type of every sample, one of `levels_`: shape (n,)."""
        verdict = self._verdict(X)
        return np.array(self.levels_)[verdict.level]

    def loyalty_score(self, X: Any) -> Doubles:
        """The chance that the answer is right, its `predict_proba`: shape (n,).

        A logistic regression on what all models say together: the averaged scores (``-log f`` of QMS), how many models
        agree, the loyalty type and the predicted class, fitted on samples that the models did not see.
        """
        verdict = self._verdict(X)
        return np.asarray(self._chances.of_answer(verdict))

    def predict(self, X: Any) -> Array:
        """The nominal classifier's answers."""
        X = self._checked(X)
        return np.asarray(self.estimator_.predict(X))

    def predict_proba(self, X: Any) -> Array:
        """The chances of the classes, calibrated on samples that the models did not see: shape (n, m).

        The largest is the answer's, `loyalty_score`.
        """
        verdict = self._verdict(X)
        return np.asarray(self._chances(verdict))

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithm of `predict_proba`."""
        return np.asarray(np.log(self.predict_proba(X)))

    def decision_function(self, X: Any) -> Array:
        """Logarithm of `predict_proba`: shape (n, m); with two classes its difference (n,), positive for the second."""
        scores = self.predict_log_proba(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def _checked(self, X: Any) -> Any:
        """X, which another classifier than ours checks by itself."""
        check_is_fitted(self, "classes_")
        return check_input(self, X) if isinstance(self.estimator_, QMSClassifier) else X

    def _verdict(self, X: Any) -> Verdict:
        X = self._checked(X)
        verdict: Verdict = self._committee.verdict(X)
        return verdict

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(QMSClassifier() if self.estimator is None else self.estimator)
        tags.input_tags = inner.input_tags
        if self.estimator is None or isinstance(self.estimator, QMSClassifier):
            tags.input_tags.allow_nan = False  # its models share one matrix without gaps
        if inner.classifier_tags is not None:
            tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
        return tags

    # -------------------------------------------------------------------------------------------- model files

    def _get_state(self) -> dict[str, Any]:
        state = fitted_state(self, [*FITTED, *FEATURES])
        if "classes_" not in state:
            return {}
        for name in TABLES:
            state[name] = {"count": state[name].count, "correct": state[name].correct}
        alterations = self._committee.alterations
        return state | {"beta": alterations.beta, "gamma": alterations.gamma, "score": self._chances._get_state()}

    def _set_state(self, state: dict[str, Any]) -> None:
        """A committee of the model's own classes, with an altered model for each row of `class_factors_`."""
        require_names(state, type(self).__name__, [*FITTED, "beta", "gamma", "score"], FEATURES)
        classes, nominal, altered = state["classes_"], state["estimator_"], state["altered_estimators_"]
        m = require_classes(classes)
        if "n_features_in_" in state:
            require_features(state)
        alterations = Alterations.of(state["beta"], state["gamma"] or 2.0, m)  # no gamma with two classes
        require((alterations.beta, alterations.gamma) == (state["beta"], state["gamma"]), "beta or gamma is wrong")
        require(state["levels_"] == alterations.levels, "levels_ is wrong")
        require(isinstance(altered, list) and len(altered) == len(alterations), "a model is missing")
        factors = require_array(state["class_factors_"], (len(alterations), m), "f", "class_factors_")
        require(np.array_equal(factors, alterations.factors), "class_factors_ is wrong")
        for member in (nominal, *altered):
            require(is_classifier(member) and np.isin(member.classes_, classes).all(), "a member has other classes")
            width = getattr(member, "n_features_in_", None)
            require(width == state.get("n_features_in_"), "a member reads another number of features")
        n_levels = len(alterations.levels)
        tables = {}
        for name in TABLES:
            require_names(state[name], name, ["count", "correct"])
            for column, counted in state[name].items():
                require_array(counted, (n_levels,), "iuf", f"{column} of {name}")
                require(((counted >= 0) & (counted < np.inf)).all(), f"{column} of {name} is wrong")
            tables[name] = LoyaltyTable(alterations.levels, **state[name])
        chances = Chances(n_levels, m)
        chances._set_state({"temperature": getattr(nominal, "temperature_", 1.0)} | state["score"])  # 0.1.0 had none
        committee = Committee(classes, alterations, nominal, altered).checked()
        kept = {name: state[name] for name in [*FITTED, *FEATURES] if name in state}
        self.__dict__.update(kept | tables)
        self._committee, self._chances = committee, chances


def _table(levels: tuple[str, ...], true: Array, verdict: Verdict, weight: Array | None) -> LoyaltyTable:
    loyalty = np.array(levels)[verdict.level]
    return loyalty_table(true, verdict.nominal, loyalty, levels=levels, sample_weight=weight)


def _is_matrix(X: Any) -> bool:
    """Whether rows can be compared: other estimators may take anything that has rows."""
    return scipy.sparse.issparse(X) or (isinstance(X, np.ndarray) and X.dtype.kind in "biuf" and X.ndim == 2)


def _refuse_bare_folds(splits: list[Split], target: Array) -> None:
    """A fold must train on two classes at least, and judge something."""
    for train, test in splits:
        if len(np.unique(target[train])) < 2 or not len(test):
            raise ValueError(
                "Every fold of cv of LoyaltyClassifier must train on at least 2 classes and judge at least one sample; "
                f"got a fold that trains on {len(train)} and judges {len(test)}, n_samples={len(target)}. "
                "Give more samples, or fewer folds."
            )
