"""DiagnosisPlanner: the medical diagnosis problem of section 3.3 of the paper."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, check_consistent_length, check_is_fitted

from multiform.diagnosis._acquisitions import Acquisitions
from multiform.diagnosis._encoding import Encoding, FeatureCode, columns_of
from multiform.diagnosis._evaluation import Evaluation, evaluate
from multiform.diagnosis._flow import flow_text
from multiform.diagnosis._judge import NOBODY_STOPS, RULES, Judge, Opinion
from multiform.diagnosis._level import FrontierPoint, chosen_level, considered, frontier_point
from multiform.diagnosis._models import EvidenceModels, Records, Settings, default_settings
from multiform.diagnosis._plan import Course, Plan, follow
from multiform.diagnosis._policy import Planning
from multiform.diagnosis._request import checked_betas, feature_names, tariff_and_features
from multiform.diagnosis._search import EXACT_UP_TO, Certificate
from multiform.diagnosis._session import DiagnosisSession
from multiform.diagnosis._tariff import Tariff
from multiform.diagnosis._trust import SetTrust
from multiform.inputs import content_folds
from multiform.state import (
    fitted_state,
    require,
    require_array,
    require_classes,
    require_features,
    require_names,
    require_numbers,
)

__all__ = ["DiagnosisPlanner", "ThetaNotReachedWarning"]

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

EXACT_BY_DEFAULT = 10  # tests: a model for each of 1,023 sets
FEW_PATIENTS = 200  # below, models are judged by more folds
WIDE_BEAM, NARROW_BEAM = 40, 8  # where every set is known anyway, and where each one costs a fit
NOISE_SETS = 12  # evidence sets that the noise level and the common sharpness are estimated on


FITTED = (  # what a model file holds
    "classes_",
    "n_features_in_",
    "feature_names_in_",
    "tariff_",
    "encoding_",
    "theta_",
    "full_accuracy_",
    "level_",
    "plan_",
    "certificate_",
    "frontier_",
    "order_",
    "expected_cost_",
    "panel_cost_",
    "judge_",
    "remaining_costs_",
    "traffic_",
    "stopped_at_once_",
)


class ThetaNotReachedWarning(UserWarning):
    """No stopping level keeps the accuracy that was asked for; the plan buys everything."""


@dataclass(frozen=True)
class MadePlan:
    """A plan and all that was learnt to make it."""

    names: list[str]
    classes: Array
    target: npt.NDArray[np.int32]
    encoding: Encoding
    planning: Planning
    theta: float
    full_accuracy: float
    level: float
    plan: Plan
    certificate: Certificate
    frontier: list[FrontierPoint]


class DiagnosisPlanner(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Finds the cheapest way to the answer that full evidence would give: which test next, and when to stop.

    Evidence costs money. The plan acquires one test after the other and stops as soon as the evidence so far suffices,
    so that the accuracy of full evidence, theta, is kept at the lowest expected cost (the medical diagnosis problem,
    section 3.3 of the paper). Every evidence set has a classifier of its own, all trained in batches and cross-fitted;
    every figure that decides something is of patients whom the models have not seen.

    Parameters
    ----------
    costs : dict, data frame or path
        The price of each test, by name; or a table (data frame, CSV file) with the columns ``test`` and ``cost``, and
        maybe ``group`` and ``cost_in_group``. Columns of X that belong to no test are not used.
    groups : dict of dicts, default=None
        Tests that share a part of their price: ``{"blood": {"chol": 5.17, "fbs": 3.10}}`` is what each of them costs
        once another one of the group has been bought.
    features : dict, default=None
        The features that a test yields, where they are not the one column of the same name:
        ``{"ecg": ["rate", "axis"]}``.
    known : sequence of str, default=()
        Tests whose results are there at the start and cost nothing.
    requires : dict, default=None
        Tests that must come before a test: ``{"thallium": ["ecg"]}``.
    estimator : classifier, default=None
        What answers on an evidence set. None means quadratic multiform separation with a noise level chosen by
        cross-fitting; a :class:`~multiform.QMSClassifier` sets its parameters; any other classifier is fitted for
        every evidence set, which takes its time.
    policy : {"fixed", "adaptive"}, default="fixed"
        One order for all patients, or a next test that depends on the diagnosis so far.
    search : {"auto", "exact", "beam"}, default="auto"
        "exact" proves that no order is cheaper on the estimate, with a model for every evidence set: up to 16 tests.
        "beam" trains only what it visits. "auto" is "exact" up to 10 tests.
    stop : {"regret", "calibrated", "loyalty"}, default="regret"
        When the evidence suffices: when the accuracy that one expects to forgo by stopping is at most the level
        ("regret"), when the chance of a wrong answer is at most the level ("calibrated"), or when the patient is
        of strong loyalty type under a beta of at most the level ("loyalty", the paper's).
    level : float or "auto", default="auto"
        The stopping level. "auto" chooses the cheapest that keeps theta, cross-fitted; at 0 nobody stops early.
    theta : float, default=None
        The accuracy to keep. None means that of full evidence, cross-fitted.
    tolerance : float, default=0.005
        How much accuracy the plan may be estimated to lose against theta, a standard error included.
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
        The order of acquisition; of an adaptive plan, the branch of those whose diagnosis is always the first class.
    plan_ : Plan
        The plan as a tree.
    theta_ : float
        The accuracy to keep.
    full_accuracy_ : float
        Cross-fitted accuracy with all evidence.
    level_ : float
        The stopping level; 0 where none keeps theta, so that the plan buys everything.
    expected_cost_ : float
        Mean bill of the training patients under the plan, judged by models that have not seen them.
    panel_cost_ : float
        What all evidence costs.
    certificate_ : Certificate
        Whether the order is proven optimal on the estimate (cost and `error_price`), or the gap.
    frontier_ : list of FrontierPoint
        Cross-fitted cost and loss at every level that was considered.
    traffic_ : list of lists
        Of each node of the plan: the share of the training patients who come to it, and the shares who stop there with
        each diagnosis. ``stopped_at_once_`` is the share who need no test.
    remaining_costs_ : list of lists
        Of each node: what those who come to it with each diagnosis still pay on average.
    classes_ : ndarray of shape (m,)
    tariff_ : Tariff
    encoding_ : Encoding
        How features become the columns that the classifiers read.
    judge_ : Judge
        The classifiers of the evidence sets, and how far each can be trusted.
    feature_names_in_ : ndarray of shape (p,)
    n_features_in_ : int

    Notes
    -----
    A result that is missing in the data although its test was bought is paid for and read as the median, with an
    indicator where there are enough of them; see `docs/diagnosis.md`.

    The plan keeps the encoded records that it was made from, so that it can answer on evidence sets off its own way (a
    test that cannot be done, findings in another order).

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
        "groups": [dict, None],
        "features": [dict, None],
        "known": ["array-like", str],
        "requires": [dict, None],
        "estimator": [HasMethods(["fit", "predict"]), None],
        "policy": [StrOptions({"fixed", "adaptive"})],
        "search": [StrOptions({"auto", "exact", "beam"})],
        "stop": [StrOptions({*RULES})],
        "level": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "theta": [Interval(Real, 0, 1, closed="both"), None],
        "tolerance": [Interval(Real, 0, 1, closed="both")],
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
        groups: Any = None,
        features: Any = None,
        known: Any = (),
        requires: Any = None,
        estimator: Any = None,
        policy: str = "fixed",
        search: str = "auto",
        stop: str = "regret",
        level: float | str = "auto",
        theta: float | None = None,
        tolerance: float = 0.005,
        error_price: float = 10.0,
        beta: Any = (0.05, 0.1, 0.15, 0.2, 0.3),
        cv: int | str = "auto",
        beam_width: int | str = "auto",
        time_limit: float = 60.0,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.costs = costs
        self.groups = groups
        self.features = features
        self.known = known
        self.requires = requires
        self.estimator = estimator
        self.policy = policy
        self.search = search
        self.stop = stop
        self.level = level
        self.theta = theta
        self.tolerance = tolerance
        self.error_price = error_price
        self.beta = beta
        self.cv = cv
        self.beam_width = beam_width
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ------------------------------------------------------------------------------------------------ fitting

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any) -> DiagnosisPlanner:
        """Make the plan.

        Parameters
        ----------
        X : data frame or array-like of shape (n, p)
            A row a patient. The columns of an array are the features of `costs` in their order. NaN (None, an empty
            cell) is a missing result; columns of words are categories.
        y : array-like of shape (n,)
            The diagnoses.
        """
        made = self._make(X, y)
        planning, plan, tariff = made.planning, made.plan, made.planning.tariff
        course = _unseen_course(planning, plan, made.level)
        self.classes_ = made.classes
        self.n_features_in_ = len(made.names)
        self.feature_names_in_ = np.array(made.names, dtype=object)
        self.tariff_, self.encoding_ = tariff, made.encoding
        self.theta_, self.full_accuracy_, self.level_ = made.theta, made.full_accuracy, made.level
        self.plan_, self.certificate_, self.frontier_ = plan, made.certificate, made.frontier
        self.order_ = [tariff.tests[t] for t in plan.order]
        self.expected_cost_ = float(course.cost.mean())
        self.panel_cost_ = tariff.panel_cost
        self.judge_ = planning.judge.kept(list(dict.fromkeys([tariff.known, *plan.sets, tariff.everything])))
        self.remaining_costs_, self.traffic_ = _outlook(planning, plan, course)
        self.stopped_at_once_ = float((course.node < 0).mean())
        return self

    def _make(self, X: Any, y: Any) -> MadePlan:
        """Everything that fit finds out, with all models that it trained on the way."""
        tariff, features = tariff_and_features(self.costs, self.groups, self.known, self.requires, self.features)
        betas = checked_betas(self.beta)
        names = feature_names(X, features)
        columns = columns_of(X, names)
        y = _check_y(y, estimator=self)
        check_classification_targets(y)
        check_consistent_length(next(iter(columns.values())), y)
        classes, index = np.unique(y, return_inverse=True)
        target = index.astype(np.int32).ravel()
        if len(classes) < 2:
            raise ValueError(f"DiagnosisPlanner needs patients of at least 2 classes in y; got 1 class, {classes[0]}.")
        exact = self._is_exact(len(tariff))

        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        encoding = Encoding.learnt(columns, features)
        rows = encoding.encode(columns)
        n_folds = _auto_folds(len(target)) if self.cv == "auto" else int(self.cv)
        folds = content_folds(rows, target, n_folds, np.random.default_rng(seed))
        folds = np.unique(folds, return_inverse=True)[1].astype(np.int64).ravel()
        records = Records(rows, target, folds, encoding.column_owner, len(classes))
        _refuse_bare_folds(records)
        some = _some_sets(tariff, seed)
        models = EvidenceModels(records, default_settings(self._estimator(), records, some, betas, seed, self.n_jobs))
        judge = Judge.learnt(models, self.stop, tariff.everything, [*some, tariff.everything])
        width = (WIDE_BEAM if exact else NARROW_BEAM) if self.beam_width == "auto" else int(self.beam_width)
        limit, price = float(self.time_limit), float(self.error_price)
        planning = Planning(tariff, judge, self.policy, width, limit, price, thorough=exact)
        full_accuracy = float((judge.unseen_answer(tariff.everything) == target).mean())
        theta = full_accuracy if self.theta is None else float(self.theta)
        frontier, level = self._choose_level(planning, theta, full_accuracy)
        plan, certificate = planning.plan(level, np.ones(len(y), dtype=bool), exact=exact)
        return MadePlan(
            names, classes, target, encoding, planning, theta, full_accuracy, level, plan, certificate, frontier
        )

    def _is_exact(self, n_tests: int) -> bool:
        if self.search == "exact" and n_tests > EXACT_UP_TO:
            raise ValueError(
                f"search='exact' of DiagnosisPlanner needs a model for each evidence set, up to {EXACT_UP_TO} tests; "
                f"costs names {n_tests}. Use search='beam'."
            )
        return self.search == "exact" or (self.search == "auto" and n_tests <= EXACT_BY_DEFAULT)

    def _estimator(self) -> Any:
        if self.estimator is not None and not is_classifier(self.estimator):
            raise ValueError(f"estimator of DiagnosisPlanner must be a classifier; got {self.estimator!r}.")
        return self.estimator

    def _choose_level(
        self, planning: Planning, theta: float, full_accuracy: float
    ) -> tuple[list[FrontierPoint], float]:
        if self.level != "auto":
            return [frontier_point(planning, float(self.level))], float(self.level)
        most_loss = full_accuracy - theta + self.tolerance  # accuracy of the plan = full_accuracy - loss
        frontier = considered(planning, most_loss)
        point = chosen_level(frontier, most_loss)
        if point is None:
            warnings.warn(
                f"No stopping level of DiagnosisPlanner keeps theta={theta:.3f} within tolerance={self.tolerance:g}; "
                "the plan buys all evidence. Give more patients, a larger tolerance or a lower theta.",
                ThetaNotReachedWarning,
                stacklevel=5,  # of the caller of fit, past scikit-learn's wrapper
            )
            return frontier, NOBODY_STOPS
        return frontier, point.level

    # --------------------------------------------------------------------------------------------- following it

    def acquire(self, X: Any) -> Acquisitions:
        """Buy evidence for each patient as the plan says, and answer.

        Parameters
        ----------
        X : data frame or array-like of shape (n, p)
            All results, as in `fit`; only those that the plan buys are looked at.

        Returns
        -------
        acquisitions : Acquisitions
            A row a patient: `cost`, what was bought in which order, the answer and its chance.
        """
        course = self._course(X)
        tests = self.tariff_.tests
        return Acquisitions(
            course.cost,
            [tuple(tests[t] for t in bought) for bought in course.tests],
            self.classes_[course.answer],
            np.asarray(course.chances.max(axis=1)),
            course.prices,
            tests,
            self.panel_cost_,
        )

    def predict(self, X: Any) -> Array:
        """The diagnosis of each patient, on the evidence that the plan buys."""
        answer = self._course(X).answer
        return np.asarray(self.classes_[answer])

    def predict_proba(self, X: Any) -> Doubles:
        """Calibrated chances of the classes, on the evidence that the plan buys: shape (n, m)."""
        return self._course(X).chances

    def predict_full(self, X: Any) -> Array:
        """The diagnosis of each patient on all evidence."""
        rows = self._encoded(X)
        opinion = self.judge_.opinion(self.tariff_.everything, rows)
        return np.asarray(self.classes_[opinion.answer])

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
        *,
        cv: int = 5,
        repeats: int = 1,
        baselines: Any = "auto",
        frontier: bool = True,
        random_state: int | None = 0,
        n_jobs: int | None = None,
    ) -> Evaluation:
        """Nested estimates: whole plans are made on parts of the patients and followed by the others.

        Parameters
        ----------
        X, y : the patients, as in `fit`
        cv : int, default=5
            Outer folds. Everything that `fit` decides, the level too, is decided again in each of them.
        repeats : int, default=1
            Times that the folds are drawn anew.
        baselines : "auto" or sequence of str, default="auto"
            What to compare with, on the same patients: any of ``multiform.diagnosis.BASELINES``. "auto" is all that
            need no further package; "pystreed" needs the package of that name.
        frontier : bool, default=True
            Whether every level is followed too.
        random_state : int or None, default=0
            Of the outer folds.
        n_jobs : int or None, default=None
            Outer folds to evaluate at the same time, as joblib counts.

        Returns
        -------
        evaluation : Evaluation
        """
        return evaluate(self, X, y, cv, repeats, baselines, frontier, random_state, n_jobs)

    def _encoded(self, X: Any) -> npt.NDArray[np.float32]:
        check_is_fitted(self, "plan_")
        names = [str(name) for name in self.feature_names_in_]
        if hasattr(X, "columns"):
            missing = [name for name in names if name not in [str(column) for column in X.columns]]
            if missing:
                raise ValueError(f"X of DiagnosisPlanner lacks the columns {missing}, which fit has seen.")
        elif np.ndim(X) != 2 or np.shape(X)[1] != len(names):
            raise ValueError(f"X of DiagnosisPlanner must have the {len(names)} columns of fit; got {np.shape(X)}.")
        if not len(X):
            raise ValueError("X of DiagnosisPlanner holds no patient; give at least one row.")
        return self.encoding_.encode(columns_of(X, names))

    def _course(self, X: Any) -> Course:
        rows = self._encoded(X)

        def opinion(held: int, patients: Rows) -> Opinion:
            return self.judge_.opinion(held, rows[patients])

        return follow(self.plan_, self.tariff_, opinion, self.level_, len(rows), len(self.classes_))

    # -------------------------------------------------------------------------------------------- model files

    def _get_state(self) -> dict[str, Any]:
        state = fitted_state(self, FITTED)
        if "plan_" not in state:
            return {}
        models = self.judge_.models
        return state | {
            **{name: _fields(state[name]) for name in ("plan_", "tariff_", "certificate_")},
            "frontier_": [_fields(point) for point in self.frontier_],
            "encoding_": {"codes": [_fields(code) for code in self.encoding_.codes], "owner": self.encoding_.owner},
            "judge_": _fields(self.judge_)
            | {
                "models": _fields(models) | {"records": _fields(models.records), "settings": _fields(models.settings)},
                "trusts": [_fields(trust) for trust in self.judge_.trusts],
            },
        }

    def _set_state(self, state: dict[str, Any]) -> None:
        """Plan, records and the separators of every evidence set are of the same tests and columns."""
        require_names(state, type(self).__name__, FITTED)
        m, _ = require_classes(state["classes_"]), require_features(state)
        codes = tuple(FeatureCode(**code) for code in state["encoding_"]["codes"])
        trusts, models = [SetTrust(**one) for one in state["judge_"]["trusts"]], state["judge_"]["models"]
        learnt = {"records": Records(**models["records"]), "settings": Settings(**models["settings"])}
        built = state | {
            "plan_": Plan(**state["plan_"]),
            "tariff_": Tariff(**state["tariff_"]),
            "certificate_": Certificate(**state["certificate_"]),
            "frontier_": [FrontierPoint(**point) for point in state["frontier_"]],
            "encoding_": Encoding(codes, state["encoding_"]["owner"]),
            "judge_": Judge(**state["judge_"] | {"models": EvidenceModels(**models | learnt), "trusts": trusts}),
        }
        _check_state(built, m)
        self.__dict__.update(built)


def _auto_folds(n: int) -> int:
    return 10 if n < FEW_PATIENTS else 5 if n < 2_000 else 3


def _unseen_course(planning: Planning, plan: Plan, level: float) -> Course:
    """The training patients along the plan, judged by models that have not seen them."""

    def opinion(held: int, rows: Rows) -> Opinion:
        known = planning.judge.unseen(held)
        return Opinion(known.answer[rows], known.chances[rows], known.doubt[rows])

    return follow(plan, planning.tariff, opinion, level, planning.n, planning.judge.models.records.n_classes)


def _some_sets(tariff: Tariff, seed: int) -> list[int]:
    """Random evidence sets of all sizes, as the start of many orders would be."""
    rng = np.random.default_rng(seed)
    bits = np.int64(1) << np.arange(len(tariff), dtype=np.int64)
    sizes = np.linspace(1, len(tariff), NOISE_SETS).round().astype(int)
    return [int(rng.permutation(bits)[:size].sum()) | tariff.known for size in sizes]


def _refuse_bare_folds(records: Records) -> None:
    for mask in records.masks:
        if len(np.unique(records.target[mask > 0])) < 2 or mask.all():
            raise ValueError(
                "Every fold of cv of DiagnosisPlanner must learn from at least 2 classes and judge somebody; "
                f"got n_samples={len(records.target)}. Give more patients, or a smaller cv."
            )


def _outlook(planning: Planning, plan: Plan, course: Course) -> tuple[list[list[float]], list[list[float]]]:
    """Of each node: what those who came with each diagnosis still paid; and the traffic, as shares of all patients.

    The traffic is the share who came, and the shares who stopped there with each diagnosis. What is still paid, where
    nobody came by with a diagnosis, is the mean of all who came by; where nobody came by at all, the price.
    """
    tariff, n_classes = planning.tariff, planning.judge.models.records.n_classes
    remaining, traffic = [], []
    for node, paid in enumerate(plan.paid_before(tariff)):
        came = course.visited[:, node]
        diagnosis = planning.judge.unseen_answer(plan.held[node])
        price = tariff.price(plan.tests[node], plan.held[node])
        overall = float(course.cost[came].mean()) - paid if came.any() else price
        groups = [came & (diagnosis == k) for k in range(n_classes)]
        remaining.append([float(course.cost[one].mean()) - paid if one.any() else overall for one in groups])
        stopped = [float(((course.node == node) & (course.answer == k)).mean()) for k in range(n_classes)]
        traffic.append([float(came.mean()), *stopped])
    return remaining, traffic


def _fields(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}


def _check_state(state: dict[str, Any], m: int) -> None:
    tariff, plan, encoding, judge = (state[name] for name in ("tariff_", "plan_", "encoding_", "judge_"))
    n_tests = len(tariff.tests)
    figures = ("theta_", "full_accuracy_", "level_", "expected_cost_", "panel_cost_", "stopped_at_once_")
    require_numbers([state[name] for name in figures], "a figure of the plan")
    require(state["level_"] >= 0, "level_ is wrong")
    require(state["order_"] == [tariff.tests[t] for t in plan.order], "order_ is not that of the plan")
    for name, width in (("remaining_costs_", m), ("traffic_", m + 1)):
        require(len(state[name]) == len(plan), f"{name} is of another plan")
        for row in state[name]:
            require_numbers(row, name)
            require(len(row) == width, f"{name} is of other classes")
    require(len(plan.tests) == len(plan.held) == len(plan.following), "the plan has parts of several lengths")
    for node, (test, after) in enumerate(zip(plan.tests, plan.following, strict=True)):
        require(0 <= test < n_tests and len(after) == m, "the plan buys a test that there is not")
        # Nodes lead to later nodes only, so that a walk ends.
        ends = all(follows == -1 or node < follows < len(plan.tests) for follows in after)
        require(ends, "the plan goes in circles")
    n_parts = [len(part) for part in (tariff.prices, tariff.discounted, tariff.groups, tariff.required)]
    require(n_parts == [n_tests] * 4, "the tariff is wrong")
    evidence = judge.models
    records = evidence.records
    width = sum(code.width for code in encoding.codes)
    require(np.array_equal(records.column_owner, encoding.column_owner), "columns belong to other tests")
    n = require_array(records.rows, (None, width), "f", "rows").shape[0]
    require(records.rows.dtype == np.float32 and records.n_classes == m, "the records are of the wrong type")
    for name, most in (("target", m), ("fold", n)):
        whole = require_array(getattr(records, name), (n,), "i", name)
        require(n > 0 and whole.min() >= 0 and whole.max() < most, f"{name} is out of range")
    require_array(judge.full, (n, m), "f", "full")
    require(len(judge.sets) == len(judge.trusts), "the trust of an evidence set is missing")
    require(len(evidence.sets) == len(evidence.nominal) == len(evidence.altered), "an evidence set has no model")
    if evidence.settings.estimator is None:
        for one, nominal, altered in zip(evidence.sets, evidence.nominal, evidence.altered, strict=True):
            columns = len(records.columns(int(one)))
            for weights in (nominal, *(altered if altered is not None else ())):
                found = require_array(weights, (records.n_folds * m, None, columns + 1), "f", "separators")
                require(found.dtype == np.float32, "separators have the wrong type")
