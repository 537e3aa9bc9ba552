"""A plan of what to measure (section 3.3 of the paper): its order, its bill and its frontier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from multiform.displays import CostAccuracyDisplay, PlanDisplay
from multiform.displays.style import BLUE
from multiform.reporting._pictures import WIDE, Picture, drawn, named, plain

__all__ = ["PlanSection", "plan_section"]


@dataclass(frozen=True)
class Step:
    """One test of the order: its price there, and the share of the samples for whom it is bought."""

    name: str
    price: float
    bought: float | None


@dataclass(frozen=True)
class PlanSection:
    """What the page says of a plan."""

    policy: str
    steps: list[Step]
    expected_cost: float
    panel_cost: float
    theta: float
    n_samples: int | None
    mean_bill: float | None
    accuracy: float | None
    pictures: list[tuple[Picture, str]]

    @property
    def cost_share(self) -> float:
        """The expected cost as a share of the full panel's."""
        return self.expected_cost / self.panel_cost if self.panel_cost else 0.0


def plan_section(plan: Any, X: Any, y: Any) -> PlanSection:
    """Look at a fitted `DiagnosisPlanner`, and follow it on the samples where these have its columns."""
    followed = plan.acquire(X) if _has_columns(plan, X) else None
    prices = plan.tariff_.bill(plan.order_)
    bought: dict[str, float] = {}
    if followed is not None:
        bought = {name: float(np.mean([name in tests for tests in followed.tests])) for name in plan.order_}
    steps = [Step(name, price, bought.get(name)) for name, price in zip(plan.order_, prices, strict=True)]
    pictures = [
        (_chart(plan), "The plan: what is bought next, and how many of the training samples stop where."),
        (_frontier(plan), "Cost and accuracy of stopping earlier or later, cross-fitted; the plan is marked."),
    ]
    if followed is not None:
        pictures.append((_purchases(steps), "For how many samples of this report each test is bought."))
    return PlanSection(
        str(plan.policy),
        steps,
        float(plan.expected_cost_),
        float(plan.panel_cost_),
        float(plan.theta_),
        None if followed is None else len(followed),
        None if followed is None else float(np.mean(followed.cost)),
        None if followed is None else float(np.mean(np.asarray(followed.answer) == np.asarray(y))),
        pictures,
    )


def _has_columns(plan: Any, X: Any) -> bool:
    """Whether the samples are what the plan was made for; a report may well be of another model."""
    names = [str(name) for name in plan.feature_names_in_]
    if hasattr(X, "columns"):
        return set(names) <= {str(name) for name in X.columns}
    return np.ndim(X) == 2 and np.shape(X)[1] == len(names)


def _purchases(steps: list[Step]) -> Picture:
    shares = [0.0 if step.bought is None else float(step.bought) for step in steps]

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        bars = axis.barh(range(len(steps)), shares, color=BLUE)
        axis.bar_label(bars, [f"{share:.0%}" for share in shares], padding=3, fontsize=9)
        axis.set_yticks(range(len(steps)), named(step.name for step in steps))
        axis.invert_yaxis()
        axis.set_xlim(0, 1.12)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}" if value <= 1 else "")
        axis.set_xlabel("share of the samples")

    told = ", ".join(f"{plain(step.name)} {share:.0%}" for step, share in zip(steps, shares, strict=True))
    return drawn(
        draw,
        f"Tests in the order of the plan, and for how many samples each is bought: {told}.",
        (WIDE, 1.0 + 0.32 * len(steps)),
    )


def _chart(plan: Any) -> Picture:
    """The flow chart, as large as it has to be."""

    def draw(figure: Any) -> None:
        axis = PlanDisplay.from_estimator(plan, ax=figure.subplots()).ax_
        # Its limits count boxes: one column a branch, one row a test.
        figure.set_size_inches(1.2 + 3.4 * (axis.get_xlim()[1] + 0.1), 0.8 + 0.72 * (axis.get_ylim()[0] + 0.4))

    return drawn(draw, f"Flow chart of the plan: first {plain(plan.order_[0])}, then on until it stops.", (WIDE, WIDE))


def _frontier(plan: Any) -> Picture:
    def draw(figure: Any) -> None:
        axis = CostAccuracyDisplay.from_estimator(plan, ax=figure.subplots()).ax_
        axis.legend(frameon=False, loc="lower right")  # beside the axes there is no room on a phone

    alt = (
        f"Accuracy against cost: all evidence costs {plan.panel_cost_:.2f} and is right on {plan.full_accuracy_:.1%}; "
        f"the plan costs {plan.expected_cost_:.2f}."
    )
    return drawn(draw, alt, (WIDE, 3.8))
