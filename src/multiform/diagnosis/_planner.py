"""DiagnosisPlanner: the medical diagnosis problem of section 3.3 of the paper."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, check_consistent_length, check_is_fitted

from multiform import progress
from multiform._typing import Array, Doubles
from multiform.classifier import QMSClassifier
from multiform.columns import Encoding, Number, Seen, typed
from multiform.diagnosis._evaluation import Evaluation, nested_evaluation
from multiform.diagnosis._judge import NOBODY_STOPS, RULES, Judge, softened, softening
from multiform.diagnosis._level import FrontierPoint
from multiform.diagnosis._losses import Losses
from multiform.diagnosis._masked import MaskedModels
from multiform.diagnosis._models import EvidenceModels
from multiform.diagnosis._patients import columns_in, columns_of_ranges, columns_of_steps, learnable, warn_of_weakness
from multiform.diagnosis._plan import EXACTLY, Acquisitions, Followed, Plan, flow_text, follow
from multiform.diagnosis._planning import Planning
from multiform.diagnosis._promise import Aside, put_aside
from multiform.diagnosis._results import Results, StrangeResult, learn_seen, read_results
from multiform.diagnosis._search import EXACT_UP_TO, SearchProof
from multiform.diagnosis._session import DiagnosisSession
from multiform.diagnosis._tariff import Tariff, plain_set, set_of, tariff_and_features
from multiform.folds import drawn_folds, group_codes, warn_of_copies
from multiform.state import (
    all_or_nothing,
    fitted_state,
    require,
    require_classes,
    require_features,
    require_names,
    require_numbers,
    require_temperature,
)
from multiform.triage import Certificate

MODELS_SHARE = 0.5  # of the time of a fit, that goes into models; the rest into the search
EXACT_BY_DEFAULT = 10  # tests: a model for each of 1,023 sets
FEW_PATIENTS = 200  # below, models are judged by more folds
MANY_PATIENTS, DRAWS = 1_000, 4  # below so many, folds are drawn so often,
MOST_DRAWN = 1_000_000  # but no more often than makes so many patients x tests x classes
WIDE_BEAM, NARROW_BEAM = 40, 8  # where every set is known anyway, and where each one costs a fit
SHARPNESS_SETS = 12  # evidence sets that the common sharpness is estimated on

# What a model file holds of a fitted plan, as it is and by way of the records' fields, and what follows from that.
FIGURES = ("theta_", "full_accuracy_", "level_", "expected_cost_", "stopped_at_once_")
SAME = ("classes_", "n_features_in_", "feature_names_in_", *FIGURES, "remaining_costs_", "traffic_")
RECORDS = ("tariff_", "encoding_", "plan_", "certificate_", "frontier_", "judge_")
DERIVED = ("order_", "panel_cost_")
NEWER: dict[str, Any] = {
    "unpriced_columns_": [],
    "seen_": {},
    "plan_accuracy_": None,
    "softening_": 1.0,
    "missing_": "finding",
    "expected_hours_": 0.0,
    "promise_": None,
}  # what files of 0.1.0 do not have, and what it is then


class ThetaNotReachedWarning(UserWarning):
    """No stopping level keeps the accuracy that was asked for; the plan buys everything."""


class DiagnosisPlanner(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Finds the cheapest way to the answer that full evidence would give: which test next, and when to stop.

    Evidence costs money. The plan acquires one test after the other and stops as soon as the evidence so far suffices,
    so that the accuracy of full evidence, theta, is kept at the lowest expected cost (the medical diagnosis problem,
    section 3.3 of the paper). One classifier, which reads what is known and which tests that is, answers on all
    evidence sets; every figure that decides something is of patients whom the models have not seen.

    Parameters
    ----------
    costs : dict, data frame or path
        The price of each test, by name; or a table (data frame, CSV file) with the columns ``test`` and ``cost``, and
        maybe ``discount`` and ``discounted_cost``, ``duration`` and ``panel``. Columns of X that belong to no test are
        not used.
    discounts : dict of dicts, default=None
        Tests that share a part of their price: ``{"blood": {"chol": 5.17, "fbs": 3.10}}`` is what each of them costs
        once another one of them has been bought.
    features : dict, default=None
        The features that a test yields, where they are not the one column of the same name:
        ``{"ecg": ["rate", "axis"]}``.
    panels : dict, default=None
        Tests that come together: ``{"lipids": ["chol", "hdl"]}``. Whoever orders one gets, and pays, all of them, for
        what they cost when they are bought at once; the panel is one test of its name, which yields their features.
    durations : dict, default=None
        Hours until the result of a test is there; 0 for those that it does not name. Tests that are ordered together
        are a round, and one waits for the slowest of them.
    hour_price : float, default=0.0
        What an hour of waiting costs. It is part of every cost: the plan orders tests together where that costs less.
    max_hours : float, default=None
        The longest that a patient may wait, by any way through the plan.
    known : sequence of str, default=()
        Tests whose results are there at the start and cost nothing.
    requires : dict, default=None
        Tests that must come before a test: ``{"thallium": ["ecg"]}``.
    estimator : classifier, default=None
        What answers on an evidence set. None means quadratic multiform separation with a noise level chosen by
        cross-fitting; a :class:`~multiform.QMSClassifier` says how it is trained. Any other classifier is fitted, with
        its own settings, for every evidence set that a search comes to, which takes its time; such a plan keeps the
        encoded records, as it fits one more for a set off its way.
    policy : {"fixed", "adaptive"}, default="fixed"
        One order for all patients, which can be printed on a card; or a next test that depends on the results so far.
    search : {"auto", "exact", "beam"}, default="auto"
        "exact" proves that no order is cheaper on the estimate, looking at every evidence set: up to 16 tests. "beam"
        looks at the promising ones, of up to 500 tests. "auto" is "exact" up to 10 tests.
    missing : {"not_done", "finding"}, default="not_done"
        What it means that a test has no result (NaN, None, an empty cell), in `fit` as in `acquire` and `predict`. The
        test was not done: it is not in the evidence, not guessed and not billed. Or it was done, is paid for, and that
        it has no result is a finding, where training data have enough of such gaps to learn from.
    stop : {"regret", "calibrated", "loyalty"}, default="regret"
        When the evidence suffices: when the accuracy that one expects to forgo by stopping, in a mean with what one
        expected before, is at most the level ("regret"), when the chance of a wrong answer is at most the level
        ("calibrated"), or when the patient is of strong loyalty type under a beta of at most the level ("loyalty", the
        paper's).
    level : float or "auto", default="auto"
        The stopping level. "auto" chooses the cheapest that keeps theta, cross-fitted; at 0 nobody stops early. With
        "regret" it is that of a typical place of the plan: before a dear test that tells little it is larger, before a
        cheap one smaller (``plan_.eases``).
    theta : float, default=None
        The accuracy to keep. None means that of full evidence, cross-fitted.
    tolerance : float, default=0.005
        How much accuracy the plan may be estimated to lose against theta, a standard error included.
    budget : float, default=None
        The most that a patient may cost, by any way through the plan. The plan is then the one that loses least within
        it; `theta` and `tolerance` decide nothing.
    target_accuracy : float, default=None
        The accuracy that the plan is to have, a standard error included: instead of theta less tolerance.
        With `confidence` it is promised.
    target_recall : dict of label to float in (0, 1), default=None
        Of the patients of a class, the share that the plan is to answer right: of those who are ill, its sensitivity.
        It is promised, with `confidence`.
    confidence : float in (0, 1), default=None
        With it, `target_accuracy` and `target_recall` are promised of new patients: they hold with this probability. A
        quarter of the patients is put aside, on whom levels are tested from all evidence on (as in
        :class:`~multiform.TriageClassifier`), and the plan has the last that is proven. If none is, a
        :class:`~multiform.triage.TargetNotReachedWarning` says so.
    losses : dict of dicts, or array of shape (m, m), default=None
        What a wrong answer costs, by true class and answer: ``{"ill": {"well": 5000}, "well": {"ill": 300}}``; as an
        array in the order of the sorted classes. Answers are those of the least expected loss, and a patient stops when
        the loss that one expects to forgo is at most the level, in units of the dearest error.
    loss_unit : {"money", "error"}, default="money"
        Losses are in the currency of the costs, and the level is that of the least mean cost and loss together. Or they
        are relative, 1 being an ordinary error, and `tolerance` is the mean loss that the plan may forgo.
    error_price : float, default=10.0
        What an answer that full evidence would have corrected is worth to the search for an order, in full panels. At
        0 the order is the cheapest one at its level; above, one that costs a little more may be taken if those who stop
        have less to regret, and the level can be less careful for it.
    beta : float or sequence of float in (0, 1), default=(0.05, 0.1, 0.15, 0.2, 0.3)
        Weights of a class that is held back: the levels that ``stop="loyalty"`` chooses from. Every beta trains a model
        for each class beside the nominal one; with an exact search, give one.
    cv : int or "auto", default="auto"
        Folds of the cross-fitting. "auto": 5; 10 below 200 patients, where a model without a fifth of them would be too
        poor a judge; 3 from 2,000 on.
    beam_width : int or "auto", default="auto"
        Evidence sets that go on from each length of the order.
    time_limit : float, default=60.0
        Seconds after which the exact search gives the best order so far and the gap.
    n_jobs : int, default=None
        Threads.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    order_ : list of str
        The order of acquisition; of an adaptive plan, that of those whose results lead no other way.
    plan_ : Plan
        The plan as a tree.
    theta_ : float
        The accuracy to keep.
    full_accuracy_ : float
        Cross-fitted accuracy with all evidence.
    plan_accuracy_ : float
        Accuracy under the plan: `full_accuracy_` less the chance that is forgone, cross-fitted; noise and stopping
        level are chosen again without those who are judged, so that neither choice flatters it.
    softening_ : float
        The temperature of the chances under the plan: it stops with those whom it is surest of, whose chances flatter,
        and at this temperature their mean is `plan_accuracy_`.
    level_ : float
        The stopping level; 0 where none keeps theta, so that the plan buys everything.
    expected_cost_ : float
        Mean bill of the training patients under the plan, judged by models that have not seen them; waiting included.
    expected_hours_ : float
        Mean hours of waiting.
    promise_ : Certificate or None
        The evidence for what was promised with `confidence`, on the patients that were put aside: ``attained``,
        ``n_tested``, ``n_correct``, and the counts of each claim in ``recalls``, the accuracy first if it is promised.
    panel_cost_ : float
        What all evidence costs.
    certificate_ : SearchProof
        Whether the order is proven optimal on the estimate (cost and `error_price`, each evidence set for itself), or
        the gap.
    frontier_ : list of FrontierPoint
        Cross-fitted cost and loss at every level that was considered.
    traffic_ : list of lists
        Of each node of the plan: the share of the training patients who come to it, and the shares who stop there with
        each diagnosis. ``stopped_at_once_`` is the share who need no test.
    remaining_costs_ : list of lists
        Of each node: what those who come to it with each diagnosis still pay on average.
    unpriced_columns_ : list of str
        The columns of a data frame that the plan does not use, as `costs` has no price for them.
    classes_ : ndarray of shape (m,)
    tariff_ : Tariff
    encoding_ : Encoding
        How features become the columns that the classifiers read.
    judge_ : Judge
        The classifiers of the evidence sets, and how far each can be trusted.
    seen_ : dict of str to Seen
        What each feature looked like in training, so that a result that no patient could have had is recognised.
    feature_names_in_ : ndarray of shape (p,)
    n_features_in_ : int

    Notes
    -----
    Records whose gaps were chosen by clinicians say what a test showed of those who had it. Whoever follows the plan
    may have it where others did not; `docs/diagnosis.md` says how much that matters.

    But for classifiers of others, a fitted plan and its file hold no records of patients.

    References
    ----------
    Fan, Chang, Kongguoluo: Quadratic Multiform Separation: A New Classification Model in Machine Learning, section 3.3.

    Examples
    --------
    >>> import numpy as np
    >>> from multiform import DiagnosisPlanner
    >>> rng = np.random.default_rng(0)
    >>> ill = rng.integers(0, 2, 300)
    >>> X = np.column_stack([ill + rng.normal(0, s, 300) for s in (0.6, 0.8, 9.0)])
    >>> planner = DiagnosisPlanner({"question": 1, "scan": 100, "horoscope": 50}, random_state=0).fit(X, ill)
    >>> planner.order_
    ['question', 'scan', 'horoscope']
    >>> bool(planner.expected_cost_ < 0.6 * planner.panel_cost_)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "costs": "no_validation",  # type: ignore[dict-item]  # read_costs and Tariff say what is wrong
        "discounts": [dict, None],
        "features": [dict, None],
        "panels": [dict, None],
        "durations": [dict, None],
        "hour_price": [Interval(Real, 0, None, closed="left")],
        "max_hours": [Interval(Real, 0, None, closed="left"), None],
        "known": ["array-like", str],
        "requires": [dict, None],
        "estimator": [HasMethods(["fit", "predict"]), None],
        "policy": [StrOptions({"fixed", "adaptive"})],
        "missing": [StrOptions({"not_done", "finding"})],
        "search": [StrOptions({"auto", "exact", "beam"})],
        "stop": [StrOptions({*RULES})],
        "level": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "theta": [Interval(Real, 0, 1, closed="both"), None],
        "tolerance": [Interval(Real, 0, 1, closed="both")],
        "budget": [Interval(Real, 0, None, closed="left"), None],
        "target_accuracy": [Interval(Real, 0, 1, closed="both"), None],
        "target_recall": [dict, None],
        "confidence": [Interval(Real, 0, 1, closed="neither"), None],
        "losses": [dict, "array-like", None],
        "loss_unit": [StrOptions({"money", "error"})],
        "error_price": [Interval(Real, 0, None, closed="left")],
        "beta": [Real, "array-like"],
        "cv": [Interval(Integral, 2, None, closed="left"), StrOptions({"auto"})],
        "beam_width": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "time_limit": [Interval(Real, 0, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        costs: Any,
        *,
        discounts: Any = None,
        features: Any = None,
        panels: Any = None,
        durations: Any = None,
        hour_price: float = 0.0,
        max_hours: float | None = None,
        known: Any = (),
        requires: Any = None,
        estimator: Any = None,
        policy: str = "fixed",
        missing: str = "not_done",
        search: str = "auto",
        stop: str = "regret",
        level: float | str = "auto",
        theta: float | None = None,
        tolerance: float = 0.005,
        budget: float | None = None,
        target_accuracy: float | None = None,
        target_recall: Any = None,
        confidence: float | None = None,
        losses: Any = None,
        loss_unit: str = "money",
        error_price: float = 10.0,
        beta: Any = (0.05, 0.1, 0.15, 0.2, 0.3),
        cv: int | str = "auto",
        beam_width: int | str = "auto",
        time_limit: float = 60.0,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.costs = costs
        self.discounts = discounts
        self.features = features
        self.panels = panels
        self.durations = durations
        self.hour_price = hour_price
        self.max_hours = max_hours
        self.known = known
        self.requires = requires
        self.estimator = estimator
        self.policy = policy
        self.missing = missing
        self.search = search
        self.stop = stop
        self.level = level
        self.theta = theta
        self.tolerance = tolerance
        self.budget = budget
        self.target_accuracy = target_accuracy
        self.target_recall = target_recall
        self.confidence = confidence
        self.losses = losses
        self.loss_unit = loss_unit
        self.error_price = error_price
        self.beta = beta
        self.cv = cv
        self.beam_width = beam_width
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ------------------------------------------------------------------------------------------------ fitting

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    @all_or_nothing
    def fit(self, X: Any, y: Any, groups: Any = None) -> DiagnosisPlanner:
        """Make the plan.

        Parameters
        ----------
        X : data frame or array-like of shape (n, p)
            One row per patient. The columns of an array are the features of `costs` in their order. NaN (None, an empty
            cell) is a missing result; columns of words are categories.
        y : array-like of shape (n,)
            The diagnoses.
        groups : array-like of shape (n,), default=None
            Whose each row is, where a patient has several: whole patients are held out, so that every figure is about
            new ones.
        """
        with progress.part(0.0, MODELS_SHARE):
            classes, encoding, seen, planning = self._prepare(X, y, groups)
        theta, frontier, level, accuracy, plan, proof, promise = self._decide(planning)
        tariff, judge = planning.tariff, planning.judge
        # The training patients along the plan, judged by models that have not seen them.
        opinion = judge.walk(judge.unseen, planning.n)
        found = follow(plan, tariff, opinion, level, planning.values, planning.undone)
        kept = judge.kept(list(dict.fromkeys([tariff.known, *plan.sets, tariff.everything])))
        remaining, traffic = _outlook(planning, plan, found)

        self.classes_ = classes
        self.feature_names_in_ = np.array(encoding.names, dtype=object)
        self.n_features_in_ = len(encoding.codes)
        self.tariff_, self.encoding_, self.judge_, self.seen_ = tariff, encoding, kept, seen
        self.theta_, self.full_accuracy_, self.level_ = theta, planning.full_accuracy, level
        self.plan_accuracy_, self.softening_ = accuracy, softening(found.chances, found.answer, accuracy)
        self.missing_ = self.missing
        self.plan_, self.certificate_, self.frontier_ = plan, proof, frontier
        self.order_ = [tariff.tests[t] for t in plan.order]
        self.expected_cost_, self.panel_cost_ = float(found.cost.mean()), tariff.panel_cost
        self.expected_hours_, self.promise_ = float(found.hours.mean()), promise
        self.remaining_costs_, self.traffic_ = remaining, traffic
        self.stopped_at_once_ = float((found.node < 0).mean())
        self.unpriced_columns_ = [str(name) for name in getattr(X, "columns", ()) if str(name) not in encoding.names]
        return self

    def _prepare(self, X: Any, y: Any, groups: Any = None) -> tuple[Array, Encoding, dict[str, Seen], Planning]:
        """The classes, how features are read and what they looked like, and how plans are made of these patients."""
        given = self.costs, self.discounts, self.known, self.requires, self.features
        tariff, features = tariff_and_features(*given, self.durations, self.hour_price, self.panels)
        betas = _checked_betas(self.beta)
        columns = columns_in(
            X,
            [name for own in features for name in own],
            "costs of DiagnosisPlanner names {missing}, which X has no column for; X has {found}. "
            "Name the columns of a test in `features`.",
            "X of DiagnosisPlanner, as an array, must have a column for each of the {n_columns} features that "
            "costs and features name, in this order; got the shape {shape}. A data frame may have more columns.",
        )
        if np.ndim(y) == 1:
            cells = typed(np.asarray(y, dtype=object))
            unnamed = sum(cell is None or cell != cell or str(cell).strip() == "" for cell in cells.tolist())
            if unnamed:
                raise ValueError(
                    f"y of DiagnosisPlanner, the diagnoses, has no value for {unnamed} of {len(cells)} patients; leave "
                    "these out."
                )
        y = _check_y(y, estimator=self)
        check_classification_targets(y)
        check_consistent_length(next(iter(columns.values())), y)
        classes, index = np.unique(y, return_inverse=True)
        target = index.astype(np.int32).ravel()
        if len(classes) < 2:
            raise ValueError(f"DiagnosisPlanner needs patients of at least 2 classes in y; got 1 class, {classes[0]}.")
        if self.estimator is not None and not is_classifier(self.estimator):
            raise ValueError(f"estimator of DiagnosisPlanner must be a classifier; got {self.estimator!r}.")
        if self.search == "exact" and len(tariff) > EXACT_UP_TO:
            raise ValueError(
                f"search='exact' of DiagnosisPlanner needs a model for each evidence set, up to {EXACT_UP_TO} tests; "
                f"costs names {len(tariff)}. Use search='beam'."
            )
        losses = None if self.losses is None else Losses.of(self.losses, classes)
        self._check_targets(classes)
        exact = self.search == "exact" or (self.search == "auto" and len(tariff) <= EXACT_BY_DEFAULT)

        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        people = group_codes(groups, len(target), "DiagnosisPlanner")
        aside = None
        if self.confidence is not None:
            aside, kept = put_aside(len(target), people, seed)
            aside_columns = {name: column[aside] for name, column in columns.items()}
            columns = {name: column[kept] for name, column in columns.items()}
            aside_target, target = target[aside], target[kept]
            people = None if people is None else np.unique(people[kept], return_inverse=True)[1]
        encoding = Encoding.learnt(columns, features)
        rows = encoding.encode(columns)
        n = len(target)
        if people is None:
            warn_of_copies(rows, "DiagnosisPlanner")
        n_folds = int(self.cv) if self.cv != "auto" else 10 if n < FEW_PATIENTS else 5 if n < 2_000 else 3
        # Patients are drawn as groups of one, not within the classes: else who guesses the commonest class is told this
        # sample's share of it by every fold, a third of a point too much among a few hundred patients.
        whose = np.arange(n) if people is None else people
        folds = drawn_folds(target, n_folds, np.random.default_rng(seed), whose)
        if not learnable(folds, target):
            counts = np.bincount(target, minlength=len(classes))
            rarest = int(counts.argmin())
            raise ValueError(
                "Every fold of cv of DiagnosisPlanner must learn from at least 2 classes and judge somebody; "
                f"got n_samples={n}{'' if people is None else f' in {people.max() + 1} groups'}, "
                f"{counts[rarest]} of them {classes[rarest]}. Give more patients, or a smaller cv."
            )
        undone = read_results(encoding, {}, columns, self.missing == "finding").undone
        shared: dict[str, Any] = {
            "policy": self.policy,
            "width": (WIDE_BEAM if exact else NARROW_BEAM) if self.beam_width == "auto" else int(self.beam_width),
            "time_limit": float(self.time_limit),
            "error_price": float(self.error_price),
            "thorough": exact,
            "groups": people,
            "undone": undone if any(undone) else None,
            "ranged": columns_of_ranges(encoding),
            "budget": self.budget,
            "max_hours": self.max_hours,
        }
        if losses is not None:  # doubts are in units of the dearest error
            unit = 1.0 if self.loss_unit == "money" else float(self.error_price) * tariff.panel_cost
            shared["loss_price"] = unit * losses.dearest

        how = encoding.column_owner, len(classes), self.estimator, betas, seed, self.n_jobs
        models: MaskedModels | EvidenceModels
        if self.estimator is None or type(self.estimator) is QMSClassifier:
            often = min(DRAWS, MOST_DRAWN // (n * len(tariff) * len(classes))) if n < MANY_PATIENTS else 1
            drawn = [drawn_folds(target, n_folds, np.random.default_rng(seed + one), whose) for one in range(1, often)]
            more: dict[str, Any] = {"undone": undone, "always": tariff.known, "steps": columns_of_steps(encoding)}
            kept_draws = np.stack([folds, *(one for one in drawn if learnable(one, target))])
            models = MaskedModels(rows, target, kept_draws, *how, n_tests=len(tariff), **more)
            shared["flattery"] = models.flattery
        else:
            models = EvidenceModels(rows, target, folds, *how)
        some = [*_some_sets(tariff, seed), tariff.everything]
        planning = Planning(tariff, Judge.learnt(models, self.stop, tariff.everything, some, losses), **shared)
        warn_of_weakness(target, classes, planning.full_accuracy)
        n_groups = None if people is None else int(people.max()) + 1
        seen = learn_seen(encoding, columns, n_groups)
        if aside is not None:
            assert self.confidence is not None
            results = read_results(encoding, seen, aside_columns, self.missing == "finding")
            promised = self.target_accuracy, self.target_recall, self.confidence
            planning.aside = Aside.of(results, aside_target, classes.tolist(), *promised)
        return classes, encoding, seen, planning

    def _check_targets(self, classes: Array) -> None:
        """Refuse targets that do not go together."""
        recalls = self.target_recall or {}
        if self.losses is not None and self.theta is not None:
            raise ValueError("theta of DiagnosisPlanner is an accuracy, and losses decide the level; leave one out.")
        if self.losses is not None and self.target_accuracy is not None and self.confidence is None:
            raise ValueError(
                "target_accuracy of DiagnosisPlanner is an accuracy, and losses decide the level; leave one out, or "
                "give confidence to have it promised."
            )
        if recalls and self.confidence is None:
            raise ValueError("target_recall of DiagnosisPlanner is a promise; give confidence, too, for example 0.95.")
        if self.confidence is not None and not recalls and self.target_accuracy is None:
            raise ValueError(
                "confidence of DiagnosisPlanner needs something to promise; give target_accuracy or target_recall, too."
            )
        for label, share in recalls.items():
            if label not in classes.tolist() or not (isinstance(share, Real) and 0 < float(share) < 1):
                raise ValueError(
                    "target_recall of DiagnosisPlanner must map classes to numbers greater than 0 and less than 1; the "
                    f"classes are {', '.join(map(repr, classes.tolist()))}, and got {label!r}: {share!r}."
                )

    def _decide(
        self, planning: Planning
    ) -> tuple[float, list[FrontierPoint], float, float, Plan, SearchProof, Certificate | None]:
        """Theta, the levels considered, the chosen one, the plan's accuracy, the plan, its proof, the promise."""
        theta = planning.full_accuracy if self.theta is None else float(self.theta)
        if self.level != "auto":
            level = float(self.level)
            planning.keep_to_its_level()
            frontier = [planning.frontier_point(level)]
            accuracy = frontier[0].accuracy
        else:
            # The accuracy of the plan is full_accuracy - loss.
            most_loss: float | None = planning.full_accuracy - theta + self.tolerance
            if self.losses is not None:
                most_loss = None if self.loss_unit == "money" else float(self.tolerance)
            elif self.target_accuracy is not None:
                most_loss = planning.full_accuracy - float(self.target_accuracy)
            with progress.part(MODELS_SHARE, 1.0):
                frontier, point = planning.choose_level(most_loss)
            accuracy = planning.full_accuracy - planning.loss_at_chosen_levels(frontier, most_loss)
            level = NOBODY_STOPS if point is None else point.level
            if point is None:
                kept = f"theta={theta:.3f} (the accuracy to keep) within tolerance={self.tolerance:g}"
                given = "tolerance or a lower theta"
                if self.losses is not None:
                    kept, given = f"the loss of full evidence within tolerance={self.tolerance:g}", "tolerance"
                elif self.target_accuracy is not None:
                    kept, given = f"target_accuracy={self.target_accuracy:g}", "tolerance or a lower target_accuracy"
                half = min(frontier, key=lambda one: abs(one.cost_share - 0.5))
                limit = "" if self.max_hours is None else " for which there is time"
                warnings.warn(
                    f"DiagnosisPlanner found no point to stop early that keeps {kept}; the plan buys all evidence"
                    f"{limit}. Give more patients, a larger {given}: for {half.cost_share:.0%} of the cost "
                    f"{half.accuracy:.1%} of the patients would be answered right, with all evidence "
                    f"{planning.full_accuracy:.1%}.",
                    ThetaNotReachedWarning,
                    stacklevel=5,  # of the caller of fit, past scikit-learn's wrapper and ours
                )
        if self.budget is not None:
            self._warn_of_budget(planning, accuracy)
        promise = None
        if planning.aside is not None:
            bolder = {one.level: one.accuracy for one in frontier if one.level < level}
            accuracies = {NOBODY_STOPS: planning.full_accuracy, **bolder, level: accuracy}
            proven, promise = planning.aside.certified(planning, sorted(accuracies), stacklevel=5)
            if proven is not None:
                level, plan, proof = proven
                return theta, frontier, level, accuracies[level], plan, proof, promise
        return theta, frontier, level, accuracy, *planning.made(level), promise

    def _warn_of_budget(self, planning: Planning, accuracy: float) -> None:
        """Where it is too small for any test, or for what is asked."""
        assert self.budget is not None
        first = planning.tariff.next_tests(planning.tariff.known)
        least = min((planning.tariff.price(t, planning.tariff.known) for t in first), default=0.0)
        if least > self.budget + EXACTLY:
            told = f"buys no test, the cheapest of which costs {least:g}; nothing is bought of anybody"
        elif self.target_accuracy is not None and accuracy < self.target_accuracy:
            told = (
                f"does not buy target_accuracy={self.target_accuracy:g}; within it {accuracy:.1%} of the patients "
                f"would be answered right, with all evidence {planning.full_accuracy:.1%}"
            )
        else:
            return
        warnings.warn(
            f"budget={self.budget:g} of DiagnosisPlanner {told}. Give a larger one.",
            ThetaNotReachedWarning,
            stacklevel=6,
        )

    # --------------------------------------------------------------------------------------------- following it

    def acquire(self, X: Any) -> Acquisitions:
        """Buy evidence for each patient as the plan says, and answer.

        X holds all results, as in `fit`; here, in `predict` and in `predict_proba` only those that the plan buys are
        looked at. A test without a result was not done, and is not billed (see `missing`). A result that no training
        patient could have had is paid for and not used; an `UnfamiliarWarning` says so, and `unfamiliar` lists such
        results.
        """
        found = self._followed(X)
        tests, paths, bought = self.tariff_.tests, self.plan_.paths, ~np.isnan(found.prices)
        ways = [[self.plan_.tests[k] for k in paths[last]] for last in found.node]
        return Acquisitions(
            found.cost,
            [tuple(tests[t] for t in way if paid[t]) for way, paid in zip(ways, bought, strict=True)],
            self.classes_[found.answer],
            np.asarray(found.chances[np.arange(len(found.answer)), found.answer]),
            found.prices,
            tests,
            self.panel_cost_,
            found.hours if self.tariff_.durations else None,
        )

    def predict(self, X: Any) -> Array:
        """The diagnosis of each patient, on the evidence that the plan buys."""
        answer = self._followed(X).answer
        return np.asarray(self.classes_[answer])

    def predict_proba(self, X: Any) -> Doubles:
        """Calibrated chances of the classes, on the evidence that the plan buys: shape (n, m)."""
        return self._followed(X).chances

    def predict_full(self, X: Any) -> Array:
        """The diagnosis of each patient on all evidence."""
        results = self._results(X)
        results.warn(stacklevel=2)
        answer, _, _ = self.judge_.of(results)(self.tariff_.everything, np.arange(len(results.rows)))
        return np.asarray(self.classes_[answer])

    def unfamiliar(self, X: Any) -> list[StrangeResult]:
        """The results that no training patient could have had: of each the row, the feature, the value, what was seen.

        Examples
        --------
        >>> import numpy as np
        >>> from multiform import DiagnosisPlanner
        >>> age = np.arange(100.0) % 49 + 29
        >>> planner = DiagnosisPlanner({"age": 1}, level=0.01, random_state=0).fit(age[:, None], age > 50)
        >>> [found.sentence for found in planner.unfamiliar([[54.0], [540.0]])]
        ['age is 540, and patients had 29 to 77']
        """
        return list(self._results(X).strange)

    def flow_chart(self, least_share: float = 0.0) -> str:
        """The plan in words: each test, its price, who comes to it and who stops after it.

        Parameters
        ----------
        least_share : float, default=0.0
            Leave out what no larger share of the training patients came to.
        """
        check_is_fitted(self, "plan_")
        return flow_text(self, least_share)

    def start(self) -> DiagnosisSession:
        """A session for one patient at the bedside."""
        check_is_fitted(self, "plan_")
        return DiagnosisSession(self)

    def evaluate(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        *,
        cv: int = 5,
        repeats: int = 1,
        frontier: bool = True,
        random_state: int | None = 0,
        n_jobs: int | None = None,
    ) -> Evaluation:
        """Nested estimates: whole plans are made on parts of the patients and followed by the others.

        Parameters
        ----------
        X, y, groups : the patients, as in `fit`
        cv : int, default=5
            Outer folds. Everything that `fit` decides, the level too, is decided again in each of them.
        repeats : int, default=1
            Times that the folds are drawn anew.
        frontier : bool, default=True
            Whether every level is followed too.
        random_state : int or None, default=0
            Of the outer folds.
        n_jobs : int or None, default=None
            Outer folds to evaluate at the same time, as joblib counts.
        """
        return nested_evaluation(
            self, X, y, groups, cv=cv, repeats=repeats, frontier=frontier, random_state=random_state, n_jobs=n_jobs
        )

    def _results(self, X: Any) -> Results:
        check_is_fitted(self, "plan_")
        names = [str(name) for name in self.feature_names_in_]
        columns = columns_in(
            X,
            names,
            "X of DiagnosisPlanner lacks the columns {missing}, which fit has seen.",
            "X of DiagnosisPlanner must have the {n_columns} columns of fit; got {shape}.",
        )
        if not len(X):
            raise ValueError("X of DiagnosisPlanner holds no patient; give at least one row.")
        return read_results(self.encoding_, self.seen_, columns, self.missing_ == "finding")

    def _followed(self, X: Any) -> Followed:
        """What becomes of each patient under the plan."""
        results = self._results(X)
        results.warn(stacklevel=3)
        values = results.values(self.encoding_.column_owner)
        opinion = self.judge_.walk(self.judge_.of(results), len(values))
        found = follow(self.plan_, self.tariff_, opinion, self.level_, values, results.undone)
        return replace(found, chances=softened(found.chances, self.softening_))

    # -------------------------------------------------------------------------------------------- model files

    def _get_state(self) -> dict[str, Any]:
        state = fitted_state(self, [*SAME, *NEWER, *RECORDS, *DERIVED])
        if "plan_" not in state:
            return {}
        return {
            **{name: state[name] for name in (*SAME, *NEWER)},
            "seen_": {name: one.as_plain() for name, one in self.seen_.items()},
            "tariff_": _with_sets(asdict(self.tariff_), plain_set),
            "plan_": _with_sets(asdict(self.plan_), plain_set),
            "certificate_": asdict(self.certificate_),
            "promise_": None if self.promise_ is None else _lists(asdict(self.promise_)),
            "encoding_": self.encoding_.state(),
            "frontier_": [asdict(point) for point in self.frontier_],
            "judge_": self.judge_.state(),
        }

    def _set_state(self, state: dict[str, Any]) -> None:
        require_names(state, "DiagnosisPlanner", [*SAME, *RECORDS], NEWER)
        state = NEWER | state
        m, _ = require_classes(state["classes_"]), require_features(state)
        accuracy, unpriced = state["plan_accuracy_"], state["unpriced_columns_"]
        require_numbers([state[name] for name in FIGURES] + [accuracy] * (accuracy is not None), "a figure of the plan")
        named = isinstance(unpriced, list) and all(isinstance(name, str) for name in unpriced)
        require(named, "unpriced_columns_ are no names")
        require(state["level_"] >= 0, "level_ is wrong")
        require_numbers([state["expected_hours_"]], "expected_hours_")
        promise = None if state["promise_"] is None else Certificate._from_state(state["promise_"])
        require_temperature(state["softening_"], "softening_")
        prices = _with_sets(_tuples(state["tariff_"]), set_of)
        if "groups" in prices:  # as files of 0.1.0 say
            prices["discounts"] = prices.pop("groups")
        tariff = Tariff(**prices).checked()
        encoding = Encoding.from_state(state["encoding_"])
        owned = all(0 <= t < len(tariff) for t in encoding.owner)
        require(owned, "a feature belongs to a test that there is not")
        named = encoding.names == list(state["feature_names_in_"]) and len(set(encoding.names)) == len(encoding.names)
        require(named, "feature_names_in_ are not those of the encoding")
        require(
            isinstance(state["seen_"], dict) and {*state["seen_"]} <= {*encoding.names}, "seen_ is of other features"
        )
        seen = {name: Seen.from_plain(one) for name, one in state["seen_"].items()}
        alike = all(
            one.is_numeric == isinstance(code, Number) for code in encoding.codes if (one := seen.get(code.name))
        )
        require(alike, "seen_ is of features of another kind")
        require(state["missing_"] in ("not_done", "finding"), "missing_ is unknown")
        plan = Plan(**_with_sets(_tuples(state["plan_"]), set_of)).checked(m, tariff, encoding.column_owner)
        for name, width in (("remaining_costs_", m), ("traffic_", m + 1)):
            require(len(state[name]) == len(plan), f"{name} is of another plan")
            for row in state[name]:
                require_numbers(row, name)
                require(len(row) == width, f"{name} is of other classes")
        certificate = SearchProof(**state["certificate_"])
        require_numbers(list(asdict(certificate).values()), "the certificate of the plan")
        frontier = [FrontierPoint(**_tuples(point)) for point in state["frontier_"]]
        for point in frontier:
            require_numbers([value for name, value in asdict(point).items() if name != "order"], "the frontier")
        judge = Judge.from_state(state["judge_"], m, tariff.everything, encoding.column_owner, self.n_jobs)
        require(judge.trusts.keys() >= {tariff.known, *plan.sets}, "the plan stops where it has no model")

        for name in (*SAME, *NEWER):
            setattr(self, name, state[name])
        self.tariff_, self.encoding_, self.judge_, self.seen_ = tariff, encoding, judge, seen
        self.plan_, self.certificate_, self.frontier_, self.promise_ = plan, certificate, frontier, promise
        self.order_, self.panel_cost_ = [tariff.tests[t] for t in plan.order], tariff.panel_cost


def _with_sets(fields: Any, change: Callable[[Any], Any]) -> Any:
    """The fields of a tariff or a plan, their sets changed."""
    if not isinstance(fields, dict):
        raise TypeError(f"the fields of a tariff or a plan must be a mapping; got {type(fields).__name__}")
    changed = {name: tuple(map(change, fields[name])) for name in ("required", "held") if name in fields}
    return {**fields, **changed, **({"known": change(fields["known"])} if "known" in fields else {})}


def _lists(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a record, tuples of tuples as lists of lists."""
    return {**fields, "recalls": [list(pair) for pair in fields["recalls"]]}


def _tuples(value: Any) -> Any:
    """The fields of a record, all lists as tuples."""
    if isinstance(value, dict):
        return {name: _tuples(one) for name, one in value.items()}
    return tuple(_tuples(one) for one in value) if isinstance(value, list | tuple) else value


def _checked_betas(beta: Any) -> tuple[float, ...]:
    """The ladder of betas, ascending."""
    betas = [beta] if isinstance(beta, Real) else list(beta)
    if not betas or not all(isinstance(one, Real) and 0 < float(one) < 1 for one in betas):
        raise ValueError(f"beta of DiagnosisPlanner must hold numbers greater than 0 and less than 1; got {beta!r}.")
    return tuple(sorted({float(one) for one in betas}))


def _some_sets(tariff: Tariff, seed: int) -> list[int]:
    """Random evidence sets of all sizes, as the start of many orders would be."""
    rng = np.random.default_rng(seed)
    sizes = np.linspace(1, len(tariff), SHARPNESS_SETS).round().astype(int)
    return [sum(1 << t for t in rng.permutation(len(tariff))[:size].tolist()) | tariff.known for size in sizes]


def _outlook(planning: Planning, plan: Plan, found: Followed) -> tuple[list[list[float]], list[list[float]]]:
    """Of each node: what those who came with each diagnosis still paid; and the traffic, as shares of all patients.

    The traffic is the share who came, and the shares who stopped there with each diagnosis. What is still paid, where
    nobody came by with a diagnosis, is the mean of all who came by; where nobody came by at all, the price.
    """
    prices, paid_before = plan.prices(planning.tariff), plan.paid_before(planning.tariff)
    last, answer, cost = found.node, found.answer, found.cost
    remaining, traffic = [], []
    for node, (price, paid) in enumerate(zip(prices, paid_before, strict=True)):
        came = np.array([node in path for path in plan.paths])[last]
        diagnosis = planning.judge.unseen_answer(plan.held[node])
        overall = float(cost[came].mean()) - paid if came.any() else price
        parts = [came & (diagnosis == k) for k in range(planning.n_classes)]
        remaining.append([float(cost[one].mean()) - paid if one.any() else overall for one in parts])
        stopped = [float(((last == node) & (answer == k)).mean()) for k in range(planning.n_classes)]
        traffic.append([float(came.mean()), *stopped])
    return remaining, traffic
