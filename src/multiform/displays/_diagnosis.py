"""A diagnosis plan as a flow chart, and what it costs at each accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from multiform.diagnosis import DiagnosisPlanner, Evaluation, FlowStep, flow_steps
from multiform.displays.style import BLUE, GREEN, GREY, ORANGE, VERMILION, axes_for, class_styles

MARKERS = ("s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "d")


class PlanDisplay:
    """The flow chart of a plan: which test next, who stops where.

    Parameters
    ----------
    steps : sequence of FlowStep
        The boxes, as ``multiform.diagnosis.flow_steps`` lists them.
    class_names : sequence of str
        The diagnoses.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from multiform.diagnosis import FlowStep
    >>> from multiform.displays import PlanDisplay
    >>> steps = [FlowStep(0, -1, ("ill", "well"), "fever", 1.0, 1.0, (0.4, 0.6))]
    >>> display = PlanDisplay(steps, ["ill", "well"]).plot()
    """

    def __init__(self, steps: Sequence[FlowStep], class_names: Sequence[str]) -> None:
        self.steps = list(steps)
        self.class_names = list(class_names)

    @classmethod
    def from_estimator(cls, planner: DiagnosisPlanner, *, least_share: float = 0.01, ax: Any = None) -> PlanDisplay:
        """Draw the plan of a fitted planner.

        Parameters
        ----------
        planner : fitted DiagnosisPlanner
        least_share : float, default=0.01
            Leave out what no larger share of the training patients came to.
        ax : matplotlib Axes, default=None
        """
        check_is_fitted(planner, "plan_")
        return cls(flow_steps(planner, least_share), [str(one) for one in planner.classes_]).plot(ax=ax)

    def plot(self, ax: Any = None) -> PlanDisplay:
        """Draw the chart on `ax`, or on a new figure; return this display."""
        styles = class_styles(len(self.class_names))
        place = self._places()
        height = max((y for _, y in place.values()), default=0) + 1
        width = max((x for x, _ in place.values()), default=0) + 1
        ax = axes_for(self, ax, figsize=(1.2 + 3.4 * width, 0.8 + 0.72 * height))[0]
        parted = {step.parent for step in self.steps if len(step.diagnoses) < len(self.class_names) or step.condition}
        for step in self.steps:
            x, y = place[step.node]
            text = f"{step.test}  {step.price:.2f}\n" + (
                "and at the same time" if step.with_next else f"{step.came:.0%} come here"
            )
            box = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": GREY}
            ax.text(x, y, text, ha="center", va="center", fontsize=9, bbox=box)
            if step.parent in place:
                from_x, from_y = place[step.parent]
                arrow = {"arrowstyle": "->", "color": GREY}
                ax.annotate("", (x, y - 0.3), (from_x, from_y + 0.3), arrowprops=arrow)
                if step.parent in parted:
                    condition = f"if {step.condition or ' or '.join(step.diagnoses)}".replace(
                        "if otherwise", "otherwise"
                    )
                    ax.text(x + 0.04, y - 0.42, condition, fontsize=8, color=GREY, va="center")
            # Who stops: a bar to the right, as long as the share, a colour and a word for each diagnosis.
            left = x + 0.3
            for k, share in enumerate(step.stopped):
                if share > 0:
                    ax.barh(y, 0.62 * share, 0.3, left, **styles[k])
                    left += 0.62 * share
            total = sum(step.stopped)
            if total > 0:
                ax.text(left + 0.02, y, f"stop {total:.0%}", fontsize=8, va="center")
        for k, name in enumerate(self.class_names):
            ax.barh(np.nan, 0, **styles[k], label=f"stop: {name}")
        # Below the boxes, where it hides none of them; a column of names for every box that stands beside another.
        n_columns = min(len(self.class_names), 3 * int(width))
        room = 0.15 + 0.35 * -(-len(self.class_names) // n_columns)
        ax.set(xlim=(-0.4, width - 0.1), ylim=(height - 0.4 + room, -0.5))
        ax.legend(loc="lower left", frameon=False, fontsize=8, ncols=n_columns)
        ax.axis("off")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _places(self) -> dict[int, tuple[float, float]]:
        """Column and row of each box: a box below its parent; the first branch straight on, the others beside it."""
        place: dict[int, tuple[float, float]] = {}
        columns = 0
        taken: set[int] = set()
        for step in self.steps:  # parents come first, and a branch is listed to its end
            if step.parent not in place:
                place[step.node] = (0.0, 0.0)
                continue
            x, y = place[step.parent]
            if step.parent in taken:
                columns += 1
                x = float(columns)
            taken.add(step.parent)
            place[step.node] = (x, y + 1)
        return place


class CostAccuracyDisplay:
    """Cost against accuracy: the frontier of a planner, and what it is compared with.

    Parameters
    ----------
    cost_share, change : array-like of shape (n,)
        The frontier: cost as a share of the full panel, and the change of accuracy against full evidence.
    change_error : array-like of shape (n,), default=None
        Standard errors.
    others : dict, default=None
        Name to (cost share, change) of what else to show.
    chosen : tuple of float, default=None
        The point that was chosen.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from multiform.displays import CostAccuracyDisplay
    >>> display = CostAccuracyDisplay([0.3, 0.6], [-0.02, 0.0], others={"full panel": (1.0, 0.0)}).plot()
    """

    def __init__(
        self,
        cost_share: Any,
        change: Any,
        *,
        change_error: Any = None,
        others: dict[str, tuple[float, float]] | None = None,
        chosen: tuple[float, float] | None = None,
    ) -> None:
        self.cost_share = np.asarray(cost_share, dtype=np.float64)
        self.change = np.asarray(change, dtype=np.float64)
        self.change_error = None if change_error is None else np.asarray(change_error, dtype=np.float64)
        self.others = others or {}
        self.chosen = chosen

    @classmethod
    def from_evaluation(cls, evaluation: Evaluation, *, ax: Any = None) -> CostAccuracyDisplay:
        """Draw the nested figures of an `evaluation`, of ``DiagnosisPlanner.evaluate``."""
        rows = evaluation.frontier
        return cls(
            [row.cost_share for row in rows],
            [row.change for row in rows],
            change_error=[row.change_error for row in rows],
            others={"full panel": (1.0, 0.0)},
            chosen=(evaluation.plan.cost_share, evaluation.plan.change),
        ).plot(ax=ax)

    @classmethod
    def from_estimator(cls, planner: DiagnosisPlanner, *, ax: Any = None) -> CostAccuracyDisplay:
        """Draw the cross-fitted frontier that a fitted `planner` chose its level on."""
        check_is_fitted(planner, "plan_")
        points = planner.frontier_
        chosen = [(point.cost_share, -point.loss) for point in points if point.level == planner.level_]
        return cls(
            [point.cost_share for point in points],
            [-point.loss for point in points],
            change_error=[point.loss_error for point in points],
            others={"full panel": (1.0, 0.0)},
            chosen=chosen[0] if chosen else None,
        ).plot(ax=ax)

    def plot(self, ax: Any = None) -> CostAccuracyDisplay:
        """Draw the frontier on `ax`, or on a new figure; return this display."""
        ax = axes_for(self, ax, figsize=(7.2, 4.4))[0]
        order = np.argsort(self.cost_share)
        x, y = 100 * self.cost_share[order], 100 * self.change[order]
        if self.change_error is not None:
            error = 100 * self.change_error[order]
            ax.fill_between(x, y - error, y + error, color=BLUE, alpha=0.15, linewidth=0)
        ax.plot(x, y, "-o", color=BLUE, markersize=4, label="plan, by level")
        if self.chosen is not None:
            share, change = 100 * np.array(self.chosen)
            ax.plot(share, change, "*", color=VERMILION, markersize=14, label="plan, level chosen", zorder=3)
        colours = (GREY, ORANGE, GREEN)
        for k, (name, (share, change)) in enumerate(self.others.items()):
            marker, colour = MARKERS[k % len(MARKERS)], colours[k % len(colours)]
            ax.plot(100 * share, 100 * change, marker, color=colour, markersize=6, linestyle="", label=name)
        ax.axhline(0, color=GREY, linewidth=0.8, linestyle=":")
        ax.set(xlabel="Cost, % of the full panel", ylabel="Accuracy against full evidence, points")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
        self.ax_, self.figure_ = ax, ax.figure
        return self
