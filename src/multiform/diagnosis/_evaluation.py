"""Nested evaluation: whole plans are made on a part of the patients and followed by the others.

Accuracy is always compared with full evidence on the same patients by the same models: the *change* is the mean over
patients of (right under the plan) - (right on full evidence), and its standard error is that of a mean of paired
differences. With repeats, a patient counts once, by its mean over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import _safe_indexing

from multiform.columns import columns_of
from multiform.diagnosis._baselines import BASELINES, ORDERS, Contest, Outcome, baseline, followed, followed_order
from multiform.diagnosis._level import FrontierPoint, level_ladder
from multiform.diagnosis._trees import questions

if TYPE_CHECKING:
    from multiform.diagnosis._planner import DiagnosisPlanner, MadePlan

__all__ = ["Evaluation", "EvaluationRow", "evaluate"]

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class EvaluationRow:
    """Nested figures of one way to diagnose.

    Attributes
    ----------
    name : str
    accuracy, change, change_error : float
        Accuracy, its difference from full evidence on the same patients, and that difference's standard error.
    cost, cost_error, cost_share : float
        Mean bill, its standard error, and as a share of the full panel.
    """

    name: str
    accuracy: float
    change: float
    change_error: float
    cost: float
    cost_error: float
    cost_share: float


@dataclass(frozen=True)
class Evaluation:
    """What `DiagnosisPlanner.evaluate` found, on patients that no decision had seen.

    Attributes
    ----------
    plan : EvaluationRow
        The planner, level chosen and all.
    baselines : tuple of EvaluationRow
    frontier : tuple of EvaluationRow
        The planner at every level of its ladder, named after the level.
    theta : float
        Mean of the accuracies that the plans promised to keep.
    full_accuracy : float
        Accuracy with all evidence on the test patients.
    panel_cost : float
    n_patients, n_folds, n_repeats : int
    orders : tuple of tuple of str
        The order of each plan that was made.
    rival_frontiers : dict of str to tuple of EvaluationRow
        Of the baselines that are an order and nothing else: the same at every level, named after it.
    """

    plan: EvaluationRow
    baselines: tuple[EvaluationRow, ...]
    frontier: tuple[EvaluationRow, ...]
    theta: float
    full_accuracy: float
    panel_cost: float
    n_patients: int
    n_folds: int
    n_repeats: int
    orders: tuple[tuple[str, ...], ...]
    rival_frontiers: dict[str, tuple[EvaluationRow, ...]]

    def cost_at(self, change: float, rival: str | None = None) -> float:
        """The share of the full panel that a frontier pays for a change of accuracy, to compare like with like.

        Parameters
        ----------
        change : float
            Against full evidence: -0.005 is half a point less.
        rival : str or None, default=None
            A name of `rival_frontiers`; None means the planner itself.

        Returns
        -------
        cost_share : float
            Of the cheapest mixture of two neighbouring levels that keeps so much; 1 where only the full panel does, NaN
            where nothing does.
        """
        rows = self.frontier if rival is None else self.rival_frontiers[rival]
        points = sorted((row.cost_share, row.change) for row in rows)
        shares = np.array([0.0, *(share for share, _ in points), 1.0])
        kept = np.maximum.accumulate([-np.inf, *(kept for _, kept in points), 0.0])
        if kept[-1] < change:
            return float("nan")
        place = int(np.argmax(kept >= change))  # the first that keeps so much
        below, above = kept[place - 1], kept[place]
        if np.isinf(below) or above == below:
            return float(shares[place])
        return float(shares[place] - (shares[place] - shares[place - 1]) * (above - change) / (above - below))

    def __str__(self) -> str:
        lines = [
            f"{self.n_patients} patients, {self.n_folds} outer folds, {self.n_repeats} repeats; full evidence costs "
            f"{self.panel_cost:.2f} and is right for {self.full_accuracy:.1%}",
            f"{'':<24} {'cost':>9} {'share':>7} {'accuracy':>9} {'change':>8} {'s.e.':>6}",
        ]
        for row in (self.plan, *self.baselines, *self.frontier):
            lines.append(
                f"{row.name:<24} {row.cost:>9.2f} {row.cost_share:>7.1%} {row.accuracy:>9.1%} "
                f"{100 * row.change:>+8.2f} {100 * row.change_error:>6.2f}"
            )
        return "\n".join(lines)


class _Tally:
    """Bills and right answers of one method, summed over repeats, patient by patient."""

    def __init__(self, n: int) -> None:
        self.cost, self.right, self.change, self.seen = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)

    def add(self, patients: Array, outcome: Outcome, fold: _Fold) -> None:
        right = outcome.answer == fold.target
        self.cost[patients] += outcome.cost
        self.right[patients] += right
        self.change[patients] += right.astype(np.float64) - fold.right_on_full_evidence
        self.seen[patients] += 1

    def row(self, name: str, panel: float) -> EvaluationRow:
        used = self.seen > 0
        cost, right, change = (one[used] / self.seen[used] for one in (self.cost, self.right, self.change))
        root = np.sqrt(used.sum())
        return EvaluationRow(
            name,
            float(right.mean()),
            float(change.mean()),
            float(change.std(ddof=1) / root),
            float(cost.mean()),
            float(cost.std(ddof=1) / root),
            float(cost.mean() / panel) if panel else 0.0,
        )


def evaluate(
    planner: DiagnosisPlanner,
    X: Any,
    y: Any,
    cv: int,
    repeats: int,
    baselines: str | Sequence[str],
    frontier: bool,
    random_state: int | None,
    n_jobs: int | None,
) -> Evaluation:
    """See `DiagnosisPlanner.evaluate`."""
    y = np.asarray(y)
    names = _asked(baselines, planner.policy)
    seeds = np.random.SeedSequence(random_state).generate_state(repeats).tolist()
    splits = [
        (seed, train, test)
        for seed in seeds
        for train, test in StratifiedKFold(cv, shuffle=True, random_state=seed).split(np.zeros(len(y)), y)
    ]
    folds = Parallel(n_jobs=n_jobs)(
        delayed(_one_fold)(planner, X, y, train, test, seed, names, frontier) for seed, train, test in splits
    )
    tallies: dict[str, _Tally] = {}
    for (_, _, test), fold in zip(splits, folds, strict=True):
        for name, outcome in fold.outcomes.items():
            tallies.setdefault(name, _Tally(len(y))).add(test, outcome, fold)
    panel = folds[0].panel_cost
    rows = {name: one.row(name, panel) for name, one in tallies.items()}
    return Evaluation(
        rows["plan"],
        tuple(rows[name] for name in names if name in rows),
        _levels_of(rows, "level "),
        float(np.mean([fold.theta for fold in folds])),
        rows["full evidence"].accuracy,
        panel,
        len(y),
        cv,
        repeats,
        tuple(fold.order for fold in folds),
        {name: found for name in names if (found := _levels_of(rows, f"{name}, level "))},
    )


def _levels_of(rows: dict[str, EvaluationRow], prefix: str) -> tuple[EvaluationRow, ...]:
    return tuple(row for name, row in rows.items() if name.startswith(prefix))


@dataclass(frozen=True)
class _Fold:
    """What came out of one outer fold."""

    outcomes: dict[str, Outcome]
    target: Array
    right_on_full_evidence: Array
    theta: float
    order: tuple[str, ...]
    panel_cost: float
    frontier: list[FrontierPoint]  # as cross-fitted when the plan was made


def _one_fold(
    planner: DiagnosisPlanner,
    X: Any,
    y: Array,
    train: Array,
    test: Array,
    seed: int,
    names: Sequence[str],
    frontier: bool,
) -> _Fold:
    made = clone(planner)._make(_safe_indexing(X, train), y[train])
    contest, target = _contest(made, _safe_indexing(X, train), _safe_indexing(X, test), y[test], planner, seed)
    planning, tariff = made.planning, made.planning.tariff
    answer = planning.judge.opinion(tariff.everything, contest.rows).answer
    outcomes = {
        "full evidence": Outcome(np.full(len(test), tariff.panel_cost), answer),
        "plan": followed(contest, planning, made.plan, made.level),
    }
    for name in names:
        outcome = baseline(name, contest)
        if outcome is not None:
            outcomes[name] = outcome
    if frontier:
        for level in level_ladder(planning.judge.rule, planning.judge.models.settings.betas):
            plan, _ = planning.plan(level, np.ones(planning.n, dtype=bool), exact=False)
            outcomes[f"level {level:g}"] = followed(contest, planning, plan, level)
            for name in [one for one in names if one in ORDERS]:
                outcomes[f"{name}, level {level:g}"] = followed_order(contest, ORDERS[name](planning), level)
    order = tuple(tariff.tests[t] for t in made.plan.order)
    return _Fold(outcomes, target, answer == target, made.theta, order, tariff.panel_cost, made.frontier)


def _asked(baselines: str | Sequence[str], policy: str) -> tuple[str, ...]:
    own = {"fixed": "fixed order", "adaptive": "adaptive policy"}[policy]
    if isinstance(baselines, str):
        if baselines != "auto":
            raise ValueError(
                f"baselines of DiagnosisPlanner.evaluate must be 'auto' or a sequence of {list(BASELINES)}; "
                f"got {baselines!r}."
            )
        return tuple(name for name in BASELINES if name != "pystreed" and name != own)
    unknown = [name for name in baselines if name not in BASELINES]
    if unknown:
        raise ValueError(
            f"baselines of DiagnosisPlanner.evaluate: no baseline is named {unknown}; there are {list(BASELINES)}."
        )
    return tuple(baselines)


def _contest(
    made: MadePlan, X_train: Any, X_test: Any, y_test: Array, planner: DiagnosisPlanner, seed: int
) -> tuple[Contest, Array]:
    """What the methods compete on, and the class indices of the test patients; -1 for a class that training had not."""
    train, test = columns_of(X_train, made.names), columns_of(X_test, made.names)
    asked_train, owner = questions(made.encoding, train, train)
    asked_test, _ = questions(made.encoding, test, train)
    place = np.minimum(np.searchsorted(made.classes, y_test), len(made.classes) - 1)
    target = np.where(made.classes[place] == y_test, place, -1)
    allowed = made.full_accuracy - made.theta + planner.tolerance
    rows = made.encoding.encode(test)
    return Contest(made.planning, made.level, allowed, rows, asked_train, asked_test, owner, seed), target
