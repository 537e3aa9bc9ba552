"""What a plan is compared with: other orders and policies on the same classifiers, under the same stopping rule.

An order that is not searched for gets its stopping level in the same way as the plan, so all are compared at what they
promise. The trees are other classifiers altogether, with their own idea of cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import xlogy

from multiform.diagnosis._judge import NOBODY_STOPS, suffices
from multiform.diagnosis._level import chosen_level, considered, order_point
from multiform.diagnosis._plan import Plan, follow
from multiform.diagnosis._policy import Planning, cheapest_first
from multiform.diagnosis._tariff import Tariff
from multiform.diagnosis._trees import Node, eg2_tree, streed_tree, walk

__all__ = ["BASELINES", "ORDERS", "Contest", "Outcome", "baseline", "followed", "followed_order"]

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

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
)
RANDOM_ORDERS = 3
NEIGHBOURS = 40  # patients whose gain stands for that of a patient as sure as they are
GREEDY_UP_TO = 13  # tests: the greedy policy asks for nearly every set


@dataclass(frozen=True)
class Outcome:
    """Bill and answer (class index) of each test patient."""

    cost: Doubles
    answer: Ints


@dataclass(frozen=True)
class Contest:
    """One outer fold: what was learnt from the others, and the patients to answer."""

    planning: Planning
    level: float  # of the plan
    allowed_loss: float
    rows: Floats  # the test patients, encoded
    binary_train: npt.NDArray[np.bool_]
    binary_test: npt.NDArray[np.bool_]
    binary_owner: Ints
    seed: int


def baseline(name: str, contest: Contest) -> Outcome | None:
    """A baseline's answers to the test patients; None where it is not feasible, or nothing but the plan itself."""
    return _METHODS[name](contest)


def _full_panel(contest: Contest) -> Outcome:
    planning = contest.planning
    answer = planning.judge.opinion(planning.tariff.everything, contest.rows).answer
    return Outcome(np.full(len(answer), planning.tariff.panel_cost), answer)


def _planned(contest: Contest, planning: Planning) -> Outcome:
    """The planner's own procedure under another policy or rule."""
    point = chosen_level(considered(planning, contest.allowed_loss), contest.allowed_loss)
    level = NOBODY_STOPS if point is None else point.level
    plan, _ = planning.plan(level, np.ones(planning.n, dtype=bool), exact=False)
    return followed(contest, planning, plan, level)


def _under(contest: Contest, rule: str) -> Outcome | None:
    """The planner's own procedure under another rule; None where it is the plan's own."""
    return None if contest.planning.judge.rule == rule else _planned(contest, contest.planning.under(rule))


def followed(contest: Contest, planning: Planning, plan: Plan, level: float) -> Outcome:
    judge = planning.judge
    course = follow(
        plan,
        planning.tariff,
        lambda held, rows: judge.opinion(held, contest.rows[rows]),
        level,
        len(contest.rows),
        judge.models.records.n_classes,
    )
    return Outcome(course.cost, course.answer)


def followed_order(contest: Contest, order: tuple[int, ...], level: float) -> Outcome:
    planning = contest.planning
    plan = Plan.of_order(order, planning.tariff.known, planning.judge.models.records.n_classes)
    return followed(contest, planning, plan, level)


def _at_its_level(contest: Contest, order: tuple[int, ...]) -> Outcome:
    """An order with the level that a plan would have got for it: the cheapest whose guarded loss is allowed."""
    planning, allowed = contest.planning, contest.allowed_loss
    point = chosen_level(considered(planning, allowed, lambda level: order_point(planning, level, order)), allowed)
    return followed_order(contest, order, NOBODY_STOPS if point is None else point.level)


def _random_order(contest: Contest) -> Outcome:
    """Three random orders, each answering a third of the patients: the mean over orders, at one order's price."""
    rng = np.random.default_rng(contest.seed)
    tariff = contest.planning.tariff
    outcomes = []
    for _ in range(RANDOM_ORDERS):
        held, order = tariff.known, []  # type: int, list[int]
        while held != tariff.everything:
            order.append(int(rng.choice(tariff.next_tests(held))))
            held |= 1 << order[-1]
        outcomes.append(_at_its_level(contest, tuple(order)))
    which = np.arange(len(contest.rows)) % RANDOM_ORDERS
    cost = np.choose(which, [one.cost for one in outcomes])
    return Outcome(cost, np.choose(which, [one.answer for one in outcomes]))


def _best_static_set(contest: Contest) -> Outcome:
    """The cheapest set for everybody whose guarded loss is allowed, of all that any search has looked at."""
    planning = contest.planning
    judge, n, tariff = planning.judge, planning.n, planning.tariff
    best, best_cost = tariff.everything, tariff.panel_cost
    for tests in list(judge.sets):
        cost = _panel_of(tariff, tests)
        if cost < best_cost and tests & tariff.known == tariff.known:
            forgone = judge.full.max(axis=1) - judge.full[np.arange(n), judge.unseen_answer(tests)]
            if forgone.mean() + forgone.std(ddof=1) / np.sqrt(n) <= contest.allowed_loss:
                best, best_cost = tests, cost
    answer = judge.opinion(best, contest.rows).answer
    return Outcome(np.full(len(answer), best_cost), answer)


def _panel_of(tariff: Tariff, tests: int) -> float:
    """What a set costs; infinite if precedence does not let it be bought alone."""
    held, total = tariff.known, 0.0
    while held != tests | tariff.known:
        ready = [t for t in tariff.next_tests(held) if tests >> t & 1]
        if not ready:
            return np.inf
        t = min(ready, key=lambda t: tariff.prices[t] - tariff.discounted[t])  # the least surcharge opens a group
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
    cost, answer = np.zeros(len(contest.rows)), np.zeros(len(contest.rows), dtype=np.int64)
    waiting = {tariff.known: np.arange(len(contest.rows))}
    while waiting:
        held = min(waiting, key=lambda one: bin(one).count("1"))
        patients = waiting.pop(held)
        opinion = judge.opinion(held, contest.rows[patients])
        answer[patients] = opinion.answer
        on = ~suffices(opinion.doubt, contest.level)
        patients, chances = patients[on], opinion.chances[on]
        tests = tariff.next_tests(held)
        if not len(patients) or not tests:
            continue
        before = judge.unseen(held).chances
        judge.learn([held | 1 << t for t in tests])
        uncertainty = _entropy(before)
        gains = np.stack([uncertainty - _entropy(judge.unseen(held | 1 << t).chances) for t in tests])
        distance = np.abs(chances[:, None, :] - before[None, :, :]).sum(axis=2)
        near = np.argsort(distance, axis=1)[:, :NEIGHBOURS]
        prices = np.array([tariff.price(t, held) for t in tests])
        best = (gains[:, near].mean(axis=2) / np.maximum(prices, 1e-9)[:, None]).argmax(axis=0)
        for k in np.unique(best):
            group = patients[best == k]
            cost[group] += prices[k]
            after = held | 1 << tests[k]
            waiting[after] = np.concatenate([waiting[after], group]) if after in waiting else group
    return Outcome(cost, answer)


def _tree(contest: Contest, grow: Callable[..., Node]) -> Outcome:
    target = contest.planning.judge.models.records.target
    tariff = contest.planning.tariff
    tree = grow(contest.binary_train, target, contest.binary_owner, tariff)
    return Outcome(*walk(tree, contest.binary_test, contest.binary_owner, tariff))


def _entropy(chances: Doubles) -> Doubles:
    return np.asarray(-xlogy(chances, chances).sum(axis=1))


# Orders that need no search: always the cheapest test that is left, or the one that lowers the log loss most for its
# price, given those before it.
ORDERS: dict[str, Callable[[Planning], tuple[int, ...]]] = {
    "cheapest first": lambda planning: cheapest_first(planning.tariff, planning.tariff.known),
    "information per cost": lambda planning: planning.information.order,
}

_METHODS: dict[str, Callable[[Contest], Outcome | None]] = {
    "full panel": _full_panel,
    "fixed order": lambda contest: _planned(contest, replace(contest.planning, policy="fixed")),
    "adaptive policy": lambda contest: _planned(contest, replace(contest.planning, policy="adaptive")),
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
