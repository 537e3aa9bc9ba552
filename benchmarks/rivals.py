"""What a plan is compared with: other orders and policies on the same classifiers, under the same stopping rule.

An order that is not searched for gets its stopping level in the same way as the plan, so all are compared at what they
promise. The trees are other classifiers altogether, with their own idea of cost. Everything is compared in the outer
folds of `DiagnosisPlanner.evaluate`, on patients that no decision had seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import xlogy

from benchmarks.sets_of_tests import CURVES, curve
from benchmarks.trees import Node, eg2_tree, questions, streed_tree, walk
from multiform import DiagnosisPlanner
from multiform.diagnosis import Evaluation, EvaluationRow, Plan, Results, Tariff, nested_evaluation

__all__ = ["BASELINES", "Comparison", "Contest", "compare"]

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Outcome = tuple[Doubles, Array]  # bill and answer (class index) of each test patient

BASELINES = (
    "full panel",
    "fixed order",
    "adaptive policy",
    "regret stop",
    "calibrated stop",
    "cheapest first",
    "random order",
    "information per cost",
    "best static set",
    "greedy information",
    "EG2 tree",
    "pystreed",
    *CURVES,
)
RANDOM_ORDERS = 3
NEIGHBOURS = 40  # patients whose gain stands for that of a patient as sure as they are
GREEDY_UP_TO = 13  # tests: the greedy policy asks for nearly every set


@dataclass(frozen=True)
class Comparison:
    """A plan and its rivals on the same patients.

    Attributes
    ----------
    evaluation : Evaluation
        Of the plan, as `DiagnosisPlanner.evaluate` gives it.
    baselines : tuple of EvaluationRow
    rival_frontiers : dict of str to tuple of EvaluationRow
        Of the baselines that are an order and nothing else: the figures at every level, named after it.
    """

    evaluation: Evaluation
    baselines: tuple[EvaluationRow, ...]
    rival_frontiers: dict[str, tuple[EvaluationRow, ...]]

    def cost_at(self, change: float, rival: str | None = None) -> float:
        """What `Evaluation.cost_at` says of the plan's frontier, or of a rival's."""
        if rival is None:
            return self.evaluation.cost_at(change)
        return replace(self.evaluation, frontier=self.rival_frontiers[rival]).cost_at(change)

    def __str__(self) -> str:
        rows = (*self.baselines, *self.evaluation.frontier)
        return str(replace(self.evaluation, frontier=rows))


def compare(
    planner: DiagnosisPlanner,
    X: Any,
    y: Any,
    *,
    baselines: Sequence[str],
    cv: int = 5,
    repeats: int = 1,
    frontier: bool = True,
    random_state: int | None = 0,
    n_jobs: int | None = None,
) -> Comparison:
    """Evaluate the plan and its rivals in the same outer folds; "pystreed" needs the package of that name."""
    unknown = [name for name in baselines if name not in BASELINES]
    if unknown:
        raise ValueError(f"baselines: no baseline is named {unknown}; there are {list(BASELINES)}.")
    evaluation, rows = nested_evaluation(
        planner,
        X,
        y,
        cv=cv,
        repeats=repeats,
        frontier=frontier,
        random_state=random_state,
        n_jobs=n_jobs,
        rivals=partial(outcomes, tuple(baselines)),
    )
    levels = {name: tuple(row for key, row in rows.items() if key.startswith(f"{name}, level ")) for name in baselines}
    frontiers = {name: found for name, found in levels.items() if found}
    return Comparison(evaluation, tuple(rows[name] for name in baselines if name in rows), frontiers)


@dataclass(frozen=True)
class Contest:
    """One outer fold: what was learnt from the others, and the patients to answer; see `nested_evaluation`."""

    planning: Any
    encoding: Any
    level: float  # of the plan
    allowed_loss: float
    X_train: Any
    X_test: Any
    results: Results  # of the test patients, as the judge reads them
    seed: int
    judges: list[Any] = field(default_factory=list)  # of other stopping rules, on the same models

    @property
    def patients(self) -> npt.NDArray[np.intp]:
        """The places of the test patients."""
        return np.arange(len(self.results.rows))


def outcomes(baselines: Sequence[str], *, at: float | None, **fold: Any) -> dict[str, Outcome]:
    """Of each baseline, or at a level of the frontier of those that are an order and nothing else.

    Left out is what is not feasible, and what is nothing but the plan itself.
    """
    contest = Contest(**fold)
    if at is None:
        found = {name: _METHODS[name](contest) for name in baselines if name in _METHODS}
        told = {name: outcome for name, outcome in found.items() if outcome is not None}
        for name in (name for name in baselines if name in CURVES):
            models = contest.planning.judge.models
            data = models.rows, models.target, contest.results.rows, models.column_owner, contest.planning.tariff
            points, told[name] = curve(name, *data)
            told |= {f"{name}, level {place}": outcome for place, outcome in enumerate(points)}
        return told
    orders = {name: ORDERS[name](contest.planning) for name in baselines if name in ORDERS}
    return {f"{name}, level {at:g}": _followed_order(contest, order, at) for name, order in orders.items()}


def _full_panel(contest: Contest) -> Outcome:
    planning = contest.planning
    answer, _, _ = planning.judge.of(contest.results)(planning.tariff.everything, contest.patients, ())
    return np.full(len(answer), planning.tariff.panel_cost), answer


def _planned(contest: Contest, planning: Any) -> Outcome:
    """The planner's own procedure under another policy or rule."""
    _, point = planning.choose_level(contest.allowed_loss)
    level = 0.0 if point is None else point.level  # at 0 nobody stops
    return planning.followed(planning.plan(level)[0], level, contest.results)  # type: ignore[no-any-return]


def _under(contest: Contest, rule: str) -> Outcome | None:
    """The planner's own procedure under another rule; None where it is the plan's own."""
    own = contest.planning.judge
    if own.rule == rule:
        return None
    judge = type(own)(own.models, rule, own.everything, own.common, own.full, trusts=dict(own.trusts))
    contest.judges.append(judge)
    return _planned(contest, contest.planning.changed(judge=judge))


def _followed_order(contest: Contest, order: tuple[int, ...], level: float) -> Outcome:
    planning = contest.planning
    plan = Plan.of_order(order, planning.tariff.known)
    return planning.followed(plan, level, contest.results)  # type: ignore[no-any-return]


def _at_its_level(contest: Contest, order: tuple[int, ...]) -> Outcome:
    """An order with the level that a plan would have got for it: the cheapest whose guarded loss is allowed."""
    _, point = contest.planning.choose_level(contest.allowed_loss, order)
    return _followed_order(contest, order, 0.0 if point is None else point.level)


def _random_order(contest: Contest) -> Outcome:
    """Three random orders, each answering a third of the patients: the mean over orders, at one order's price."""
    rng = np.random.default_rng(contest.seed)
    tariff = contest.planning.tariff
    found = []
    for _ in range(RANDOM_ORDERS):
        order = tariff.remaining_order(tariff.known, lambda tests, _: int(rng.choice(tests)))
        found.append(_at_its_level(contest, order))
    which = contest.patients % RANDOM_ORDERS
    costs, answers = zip(*found, strict=True)
    return np.choose(which, costs), np.choose(which, answers)


def _best_static_set(contest: Contest) -> Outcome:
    """The cheapest set for everybody whose guarded loss is allowed, of all that any search has looked at."""
    planning = contest.planning
    judge, n, tariff = planning.judge, planning.n, planning.tariff
    best, best_cost = tariff.everything, tariff.panel_cost
    for tests in dict.fromkeys(one for any_judge in (judge, *contest.judges) for one, _ in any_judge.trusts):
        cost = _panel_of(tariff, tests)
        if cost < best_cost and tests & tariff.known == tariff.known:
            forgone = judge.full.max(axis=1) - judge.full[np.arange(n), judge.unseen_answer(tests)]
            if forgone.mean() + forgone.std(ddof=1) / np.sqrt(n) <= contest.allowed_loss:
                best, best_cost = tests, cost
    answer, _, _ = judge.of(contest.results)(best, contest.patients, ())
    return np.full(len(answer), best_cost), answer


def _panel_of(tariff: Tariff, tests: int) -> float:
    """What a set costs; infinite if precedence does not let it be bought alone."""
    held, total = tariff.known, 0.0
    while held != tests | tariff.known:
        ready = [t for t in tariff.next_tests(held) if tests >> t & 1]
        if not ready:
            return np.inf
        t = min(ready, key=lambda t: tariff.prices[t] - tariff.discounted[t])  # the least surcharge opens a discount
        total += tariff.price(t, held)
        held |= 1 << t
    return total


def _greedy_information(contest: Contest) -> Outcome | None:
    """Next is the test with the most expected information for its price, given what was seen (as DIME estimates it).

    What a test is expected to say to a patient is what it said, on average, to training patients who were as sure of
    the same answer on the same evidence. The patient stops by the plan's own rule and level.
    """
    planning, tariff = contest.planning, contest.planning.tariff
    if len(tariff) > GREEDY_UP_TO:
        return None
    judge = planning.judge
    cost, answer = np.zeros(len(contest.patients)), np.zeros(len(contest.patients), dtype=np.int64)
    waiting = {tariff.known: contest.patients}
    while waiting:
        held = min(waiting, key=lambda one: bin(one).count("1"))
        patients = waiting.pop(held)
        answer[patients], chances, doubt = judge.of(contest.results)(held, patients, ())
        on = doubt > np.float32(contest.level)
        patients, chances = patients[on], chances[on]
        tests = tariff.next_tests(held)
        if not len(patients) or not tests:
            continue
        _, before, _ = judge.opinion(held)
        judge.learn([held | 1 << t for t in tests])
        uncertainty = _entropy(before)
        gains = np.stack([uncertainty - _entropy(judge.opinion(held | 1 << t)[1]) for t in tests])
        distance = np.abs(chances[:, None, :] - before[None, :, :]).sum(axis=2)
        near = np.argsort(distance, axis=1)[:, :NEIGHBOURS]
        prices = np.array([tariff.price(t, held) for t in tests])
        best = (gains[:, near].mean(axis=2) / np.maximum(prices, 1e-9)[:, None]).argmax(axis=0)
        for k in np.unique(best):
            group = patients[best == k]
            cost[group] += prices[k]
            after = held | 1 << tests[k]
            waiting[after] = np.concatenate([waiting[after], group]) if after in waiting else group
    return cost, answer


def _tree(contest: Contest, grow: Callable[..., Node]) -> Outcome:
    planning, encoding = contest.planning, contest.encoding
    train, test = _columns(contest.X_train, encoding), _columns(contest.X_test, encoding)
    asked_train, owner = questions(encoding, train, train)
    asked_test, _ = questions(encoding, test, train)
    tree = grow(asked_train, planning.judge.models.target, owner, planning.tariff)
    return walk(tree, asked_test, owner, planning.tariff)


def _columns(X: Array, encoding: Any) -> Mapping[str, Array]:
    """The columns of an array by name."""
    return {code.name: X[:, j] for j, code in enumerate(encoding.codes)}


def _entropy(chances: Doubles) -> Doubles:
    return np.asarray(-xlogy(chances, chances).sum(axis=1))


# Orders that need no search: always the cheapest test that is left, or the one that lowers the log loss most for its
# price, given those before it.
ORDERS: dict[str, Callable[[Any], tuple[int, ...]]] = {
    "cheapest first": lambda planning: planning.cheapest_first(planning.tariff.known),
    "information per cost": lambda planning: planning.information[0],
}

_METHODS: dict[str, Callable[[Contest], Outcome | None]] = {
    "full panel": _full_panel,
    "fixed order": lambda contest: _planned(contest, contest.planning.changed(policy="fixed")),
    "adaptive policy": lambda contest: _planned(contest, contest.planning.changed(policy="adaptive")),
    "regret stop": lambda contest: _under(contest, "regret"),
    "calibrated stop": lambda contest: _under(contest, "calibrated"),
    "cheapest first": lambda contest: _at_its_level(contest, ORDERS["cheapest first"](contest.planning)),
    "random order": _random_order,
    "information per cost": lambda contest: _at_its_level(contest, ORDERS["information per cost"](contest.planning)),
    "best static set": _best_static_set,
    "greedy information": _greedy_information,
    "EG2 tree": lambda contest: _tree(contest, eg2_tree),
    "pystreed": lambda contest: _tree(contest, streed_tree),
}
