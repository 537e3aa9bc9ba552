"""A plan of what to measure (section 3.3 of the paper): its order, its bill and its frontier."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiform.displays import CostAccuracyDisplay, PlanDisplay
from multiform.displays.style import BLUE
from multiform.reporting._pictures import WIDE, Picture, drawn, named, plain


def plan_section(plan: Any, X: Any, y: Any) -> dict[str, Any]:
    """Look at a fitted `DiagnosisPlanner`, and follow it on the samples where these have its columns."""
    prices = plan.tariff_.bill(plan.order_)
    section: dict[str, Any] = {
        "policy": plan.policy,
        "steps": [{"name": name, "price": price} for name, price in zip(plan.order_, prices, strict=True)],
        "expected_cost": plan.expected_cost_,
        "panel_cost": plan.panel_cost_,
        "cost_share": plan.expected_cost_ / plan.panel_cost_ if plan.panel_cost_ else 0.0,
        "theta": plan.theta_,
        "mean_bill": None,
        "pictures": [
            (_chart(plan), "The plan: what is bought next, and how many of the training samples stop where."),
            (_frontier(plan), "Cost and accuracy of stopping earlier or later, cross-fitted; the plan is marked."),
        ],
    }
    if _has_columns(plan, X):
        followed = plan.acquire(X)
        section |= {
            "n_samples": len(followed),
            "mean_bill": float(np.mean(followed.cost)),
            "accuracy": float(np.mean(np.asarray(followed.answer) == np.asarray(y))),
        }
        for step in section["steps"]:
            step["bought"] = float(np.mean([step["name"] in tests for tests in followed.tests]))
        picture = _purchases({step["name"]: step["bought"] for step in section["steps"]})
        section["pictures"].append((picture, "For how many samples of this report each test is bought."))
    return section


def _has_columns(plan: Any, X: Any) -> bool:
    """Whether the samples are what the plan was made for; a report may well be of another model."""
    names = [str(name) for name in plan.feature_names_in_]
    if hasattr(X, "columns"):
        return set(names) <= {str(name) for name in X.columns}
    return np.ndim(X) == 2 and np.shape(X)[1] == len(names)


def _purchases(shares: dict[str, float]) -> Picture:
    def draw(figure: Any) -> None:
        axis = figure.subplots()
        bars = axis.barh(range(len(shares)), list(shares.values()), color=BLUE)
        axis.bar_label(bars, [f"{share:.0%}" for share in shares.values()], padding=3, fontsize=9)
        axis.set_yticks(range(len(shares)), named(shares))
        axis.invert_yaxis()
        axis.set_xlim(0, 1.12)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}" if value <= 1 else "")
        axis.set_xlabel("share of the samples")

    told = ", ".join(f"{plain(name)} {share:.0%}" for name, share in shares.items())
    alt = f"Tests in the order of the plan, and for how many samples each is bought: {told}."
    return drawn(draw, alt, (WIDE, 1.0 + 0.32 * len(shares)))


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
