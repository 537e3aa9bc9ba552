"""Nested evaluation: whole plans are made on a part of the patients and followed by the others.

Accuracy is always compared with full evidence on the same patients by the same models: the *change* is the mean over
patients of (right under the plan) - (right on full evidence), and its standard error is that of a mean of paired
differences. With repeats, a patient counts once, by its mean over them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from multiform._typing import Array, Doubles, Indices
from multiform.columns import columns_of
from multiform.diagnosis._level import standard_error
from multiform.diagnosis._losses import Losses
from multiform.diagnosis._results import read_results
from multiform.folds import drawn_folds, group_codes, splits_of
from multiform.runtime import jobs_for

if TYPE_CHECKING:
    from multiform.diagnosis._planner import DiagnosisPlanner


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
    recalls : tuple of float
        Of the patients of each class, the share answered right: of those who are ill, the sensitivity.
    loss, loss_error : float or None
        Mean loss of the answers by `losses`, and its standard error.
    """

    name: str
    accuracy: float
    change: float
    change_error: float
    cost: float
    cost_error: float
    cost_share: float
    recalls: tuple[float, ...] = ()
    loss: float | None = None
    loss_error: float | None = None


@dataclass(frozen=True)
class Evaluation:
    """What `DiagnosisPlanner.evaluate` found, on patients that no decision had seen.

    Attributes
    ----------
    plan : EvaluationRow
        The planner, level chosen and all.
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
    classes : tuple of str
        In the order of the recalls.
    """

    plan: EvaluationRow
    frontier: tuple[EvaluationRow, ...]
    theta: float
    full_accuracy: float
    panel_cost: float
    n_patients: int
    n_folds: int
    n_repeats: int
    orders: tuple[tuple[str, ...], ...]
    classes: tuple[str, ...] = ()

    def cost_at(self, change: float) -> float:
        """The share of the full panel that the frontier pays for a change of accuracy, to compare like with like.

        It is that of the cheapest mixture of two neighbouring levels that keeps so much; 1 where only the full panel
        does, NaN where nothing does.

        Parameters
        ----------
        change : float
            Against full evidence: -0.005 is half a point less.
        """
        points = sorted((row.cost_share, row.change) for row in self.frontier)
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
            f"{'':<24} {'cost':>9} {'share':>7} {'accuracy':>9} {'change':>8} {'s.e.':>6}"
            + (f" {'loss':>9} {'s.e.':>7} {'in all':>9}" if self.plan.loss is not None else ""),
        ]
        for row in (self.plan, *self.frontier):
            lines.append(
                f"{row.name:<24} {row.cost:>9.2f} {row.cost_share:>7.1%} {row.accuracy:>9.1%} "
                f"{100 * row.change:>+8.2f} {100 * row.change_error:>6.2f}"
            )
            if row.loss is not None:
                lines[-1] += f" {row.loss:>9.2f} {row.loss_error:>7.2f} {row.cost + row.loss:>9.2f}"
        if self.plan.loss is not None:
            found = ", ".join(f"{name} {one:.1%}" for name, one in zip(self.classes, self.plan.recalls, strict=True))
            lines.append(f"found by the plan: {found}")
        return "\n".join(lines)


def nested_evaluation(
    planner: DiagnosisPlanner,
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
    """What `DiagnosisPlanner.evaluate` finds."""
    if cv < 2:
        raise ValueError(f"cv of DiagnosisPlanner.evaluate must be at least 2, as a part is held out; got {cv!r}.")
    y = np.asarray(y)
    seeds = np.random.SeedSequence(random_state).generate_state(repeats).tolist()
    target, people = np.unique(y, return_inverse=True)[1], group_codes(groups, len(y), "DiagnosisPlanner.evaluate")
    drawn = [drawn_folds(target, cv, np.random.default_rng(seed), people) for seed in seeds]
    splits = [split for folds in drawn for split in splits_of(folds)]
    folds = Parallel(n_jobs=jobs_for(n_jobs, len(splits)))(
        delayed(_one_fold)(planner, X, y, people, train, test, frontier) for train, test in splits
    )
    labels = np.unique(y)
    losses = None if planner.losses is None else Losses.of(planner.losses, labels)
    # Of each method: bills, right answers, change of right answers, losses and how often, summed over repeats.
    sums: dict[str, Doubles] = {}
    for (_, test), (outcomes, _, _, _) in zip(splits, folds, strict=True):
        right_on_full_evidence = outcomes["full evidence"][1] == y[test]
        for name, (cost, answer) in outcomes.items():
            right = answer == y[test]
            lost = np.zeros(len(test))
            if losses is not None:
                lost = losses.matrix[target[test], np.searchsorted(labels, answer)]
            told = [cost, right, right.astype(np.float64) - right_on_full_evidence, lost, np.ones(len(test))]
            sums.setdefault(name, np.zeros((5, len(y))))[:, test] += told
    _, thetas, orders, panels = zip(*folds, strict=True)
    rows = {name: _row(name, one, panels[0], people, target, losses is not None) for name, one in sums.items()}
    full_accuracy, plan = rows.pop("full evidence").accuracy, rows.pop("plan")
    levels = tuple(rows.pop(name) for name in list(rows) if name.startswith("level "))
    theta = float(np.mean(thetas))
    n_folds = len(splits) // repeats
    about = theta, full_accuracy, panels[0], len(y), n_folds, repeats, orders, tuple(map(str, labels))
    return Evaluation(plan, levels, *about)


def _row(name: str, sums: Doubles, panel: float, groups: Indices | None, target: Array, lossy: bool) -> EvaluationRow:
    used = sums[4] > 0
    cost, right, change, lost = sums[:4, used] / sums[4, used]
    own = None if groups is None else groups[used]
    cost_error, change_error = standard_error(cost, own), standard_error(change, own)
    mean_cost = float(cost.mean())
    share = mean_cost / panel if panel else 0.0
    found = tuple(float(right[target[used] == k].mean()) for k in range(int(target.max()) + 1))
    about = float(right.mean()), float(change.mean()), change_error, mean_cost, cost_error, share, found
    return EvaluationRow(name, *about, *((float(lost.mean()), standard_error(lost, own)) if lossy else ()))


def _one_fold(
    planner: DiagnosisPlanner,
    X: Any,
    y: Array,
    groups: Indices | None,
    train: Array,
    test: Array,
    frontier: bool,
) -> tuple[dict[str, tuple[Doubles, Array]], float, tuple[str, ...], float]:
    """Bills and answers of each method; theta; the order of the plan; the cost of the full panel."""
    X_train, X_test = _safe_indexing(X, train), _safe_indexing(X, test)
    planner = clone(planner)
    classes, encoding, seen, planning = planner._prepare(X_train, y[train], None if groups is None else groups[train])
    theta, _, level, _, plan, *_ = planner._decide(planning)
    tariff = planning.tariff
    results = read_results(encoding, seen, columns_of(X_test, encoding.names), planner.missing == "finding")
    full_answer, _, _ = planning.judge.of(results)(tariff.everything, np.arange(len(test)))
    outcomes = {"full evidence": (np.full(len(test), tariff.panel_cost), full_answer)}
    for at in (None, *(planning.ladder if frontier else ())):
        name, made, used = ("plan", plan, level) if at is None else (f"level {at:g}", planning.structure(at), at)
        outcomes[name] = planning.followed(made, used, results)
    told = {name: (cost, classes[answer]) for name, (cost, answer) in outcomes.items()}
    return told, theta, tuple(tariff.tests[t] for t in plan.order), tariff.panel_cost
