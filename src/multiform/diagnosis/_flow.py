"""The plan as a flow chart, in words; `multiform.displays.PlanDisplay` draws the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiform.diagnosis._planner import DiagnosisPlanner

__all__ = ["FlowStep", "flow_steps", "flow_text"]


@dataclass(frozen=True)
class FlowStep:
    """One box of the flow chart.

    Attributes
    ----------
    node, parent : int
        The node of the plan, and the box before it; -1 for the first.
    diagnoses : tuple of str
        The diagnoses with which one comes from there; all of them where it makes no difference.
    test : str
    price : float
    came : float
        Share of the training patients who come here.
    stopped : tuple of float
        Shares of the training patients who stop here, by diagnosis.
    """

    node: int
    parent: int
    diagnoses: tuple[str, ...]
    test: str
    price: float
    came: float
    stopped: tuple[float, ...]


def flow_steps(planner: DiagnosisPlanner, least_share: float = 0.0) -> list[FlowStep]:
    """The boxes that more than `least_share` of the training patients came to, each after the one before it."""
    plan, tariff = planner.plan_, planner.tariff_
    names = [str(one) for one in planner.classes_]
    steps: list[FlowStep] = []

    def visit(node: int, parent: int, diagnoses: tuple[str, ...]) -> None:
        came, *stopped = planner.traffic_[node]
        if came <= least_share:
            return
        t = plan.tests[node]
        price = tariff.price(t, plan.held[node])
        steps.append(FlowStep(node, parent, diagnoses, tariff.tests[t], price, came, tuple(stopped)))
        following = plan.following[node]
        for after in dict.fromkeys(following):
            if after >= 0:
                visit(after, node, tuple(name for name, k in zip(names, following, strict=True) if k == after))

    if len(plan):
        visit(0, -1, tuple(names))
    return steps


def flow_text(planner: DiagnosisPlanner, least_share: float = 0.0) -> str:
    """The flow chart in words, a line a test."""
    names = [str(one) for one in planner.classes_]
    steps = flow_steps(planner, least_share)
    depth: dict[int, int] = {-1: 0}
    lines = [f"{'buy':<28} {'price':>9} {'come here':>10}  stop here, as"]
    for step in steps:
        parted = len(step.diagnoses) < len(names)
        depth[step.node] = depth[step.parent] + parted
        indent = "  " * depth[step.parent]
        if parted:
            lines.append(f"{indent}if {' or '.join(step.diagnoses)} so far:")
            indent += "  "
        stops = ", ".join(f"{name} {share:.0%}" for name, share in zip(names, step.stopped, strict=True) if share > 0)
        lines.append(f"{indent + step.test:<28} {step.price:>9.2f} {step.came:>10.0%}  {stops or '-'}")
    left = 1 - sum(sum(step.stopped) for step in steps) - planner.stopped_at_once_
    if left > 0.005:
        lines.append(f"{left:.0%} of the patients go on to further tests")
    lines.append(
        f"expected cost {planner.expected_cost_:.2f}, "
        f"{planner.expected_cost_ / planner.panel_cost_ if planner.panel_cost_ else 0:.0%} of the full panel"
    )
    return "\n".join(lines)
