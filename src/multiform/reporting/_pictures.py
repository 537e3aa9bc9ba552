"""Pictures of the report: drawn by matplotlib, embedded as SVG, each with a sentence for those who cannot see it."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from multiform import displays
from multiform.displays.style import BLUE, GREY, PURPLE, VERMILION
from multiform.metrics import aurc, confusion_tensor, risk_coverage_curve, type_words
from multiform.reporting._answers import Answers

WIDE = 5.0  # inches; narrow enough that its letters can be read on a phone
MOST_POINTS = 2_000
MANY_CLASSES = 30  # what is shown of more


class Picture(NamedTuple):
    """An image as a data URI, and what it shows in words."""

    uri: str
    alt: str


def plain(value: Any, most: int = 60) -> str:
    """Text from the data as it may stand in a picture or a page: printable, of bounded length.

    >>> plain("two\\nlines"), plain("x" * 100, most=5)
    ('two�lines', 'xxxx…')
    """
    text = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in str(value))
    return text if len(text) <= most else text[: most - 1] + "…"


def drawn(draw: Callable[[Any], None], alt: str, size: tuple[float, float]) -> Picture:
    """Draw into a new figure, apart from pyplot's, and embed it."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "svg.fonttype": "none",  # the reader's own fonts, so that every script can be read
        "svg.hashsalt": "multiform",  # the same picture, the same bytes
        "text.parse_math": False,  # a dollar in the data is a dollar
        "font.family": "sans-serif",
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    buffer = io.BytesIO()
    with rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # the browser has it
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    # A control character, also of a name that a display has drawn by itself, would make the image invalid.
    clean = "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in buffer.getvalue().decode())
    return Picture("data:image/svg+xml;base64," + base64.b64encode(clean.encode()).decode(), alt)


def named(values: Any) -> list[str]:
    """Names as they fit beside an axis."""
    return [plain(value, most=22) for value in values]


def classes_picture(answers: Answers) -> Picture:
    """How many samples each class has, and how often it was answered."""
    shown = answers.classes[:MANY_CLASSES]
    true, said = (np.bincount(who, minlength=len(shown))[: len(shown)] for who in (answers.truth, answers.labels))

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        place = np.arange(len(shown))
        axis.barh(place - 0.2, true, 0.4, color=BLUE, label="true")
        axis.barh(place + 0.2, said, 0.4, color=PURPLE, hatch="//", edgecolor="white", label="answered")
        axis.set_yticks(place, named(shown))
        axis.invert_yaxis()
        axis.set_xlabel("rows")
        figure.legend(loc="outside upper right", ncols=2, frameon=False)

    most, least = shown[true.argmax()], shown[true.argmin()]
    alt = f"Rows of each class: most of {plain(most)} ({true.max()}), fewest of {plain(least)} ({true.min()})."
    return drawn(draw, alt, (WIDE, 1.2 + 0.36 * len(shown)))


def results_picture(rows: Sequence[dict[str, Any]]) -> Picture:
    """Accuracies as dots with their intervals, the model first; an arrow is what would lie too far below."""
    accuracies = [row["accuracy"] for row in rows]
    far = accuracies[0].value - max(0.15, 6 * (accuracies[0].high - accuracies[0].low))
    shown = [one for one in accuracies if one.value >= far]
    left = max(0.0, min(one.low for one in shown) - 0.02) if len(shown) < len(rows) else None

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        for place, (value, low, high) in enumerate(accuracies):
            colour, text = GREY if place else BLUE, f"{value:.1%}"
            if left is not None and value < far:
                axis.plot(left, place, "<", color=colour, markersize=8, clip_on=False)
                axis.annotate(text, (left, place), (10, 0), textcoords="offset points", va="center")
                continue
            reach = [[value - low], [high - value]]
            axis.errorbar(value, place, xerr=reach, fmt="o", color=colour, capsize=4, markersize=8)
            axis.annotate(text, (value, place), (0, 9), textcoords="offset points", ha="center")
        axis.set_yticks(range(len(rows)), named(row["name"] for row in rows))
        axis.set_ylim(len(rows) - 0.5, -0.7)
        axis.set_xlim(left=left)
        axis.xaxis.set_major_formatter(lambda value, _: f"{round(100 * value, 1):g}%")
        axis.set_xlabel("accuracy, with its 95% interval")
        axis.grid(axis="x", alpha=0.3)

    alt = "; ".join(f"{plain(row['name'])} {row['accuracy'].value:.1%}" for row in rows)
    return drawn(draw, f"Accuracies: {alt}.", (WIDE, 0.9 + 0.52 * len(rows)))


def confusion_pictures(answers: Answers) -> list[Picture]:
    """The confusion tensor, one picture per loyalty type; one for all answers where there are no types."""
    levels = ("all answers",) if answers.loyalty is None else answers.levels
    loyalty = np.full(len(answers.truth), levels[0]) if answers.loyalty is None else answers.loyalty
    every = np.arange(len(answers.classes))
    tensor = confusion_tensor(answers.truth, answers.labels, loyalty, labels=every, levels=levels)
    names = named(answers.classes)
    m = len(names)
    room = 0.085 * max(map(len, names))
    side = min(max(2.1, 0.33 * m), 8.5)

    def layer(k: int) -> Picture:
        def draw(figure: Any) -> None:
            axis = figure.subplots()
            displays.ConfusionTensorDisplay(tensor[k : k + 1], display_labels=names, levels=levels[k : k + 1]).plot(
                ax=[axis], colorbar=False
            )
            right = "" if not tensor[k].any() else f", {np.trace(tensor[k]) / tensor[k].sum():.1%} right"
            axis.set_title(f"{type_words(levels[k])}\n{tensor[k].sum():,} rows{right}", fontsize=10)
            axis.spines[:].set(visible=True, color="#c8d0d8")
            axis.tick_params(labelsize=9 if m <= 15 else 7, length=0)
            if m > MANY_CLASSES:
                axis.set_xticks([])
                axis.set_yticks([])

        count, correct = int(tensor[k].sum()), int(np.trace(tensor[k]))
        alt = f"Confusion matrix of {levels[k]}: {count} rows, {correct} of them right."
        return drawn(draw, alt, (side + room + 0.5, side + room + 0.95))

    return [layer(k) for k in range(len(levels)) if tensor[k].any()]


def calibration_picture(groups: Sequence[dict[str, Any]], of: Any) -> Picture:
    """What came true against the chance that was given."""

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        axis.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--", label="chances that are true")
        chances = [group["chance"] for group in groups]
        shares = np.array([group["share"] for group in groups])
        reach = [shares[:, 0] - shares[:, 1], shares[:, 2] - shares[:, 0]]
        axis.errorbar(chances, shares[:, 0], yerr=reach, fmt="o", color=BLUE, capsize=3, label="these rows")
        axis.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        for formatted in (axis.xaxis, axis.yaxis):
            formatted.set_major_formatter(lambda value, _: f"{value:.0%}")
        axis.set_xlabel("chance given" + ("" if of is None else f" to {plain(of, 30)}"))
        axis.set_ylabel("came true")
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, loc="upper left")

    told = "; ".join(f"{group['chance']:.0%} given, {group['share'].value:.0%} came true" for group in groups)
    return drawn(draw, f"Chances and what came of them: {told}.", (WIDE, 4.2))


def importance_picture(found: Any, most: int = 15) -> Picture:
    """What is lost without each column, with its interval."""
    shown = found.columns[:most]
    by_chance = bool(shown) and shown[0].chance is not None

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        for place, one in enumerate(shown):
            value, low, high = one.chance if by_chance else one.accuracy
            reach = [[100 * (value - low)], [100 * (high - value)]]
            axis.errorbar(100 * value, place, xerr=reach, fmt="o", color=BLUE, capsize=3)
        axis.axvline(0, color=GREY, linewidth=1)
        axis.set_yticks(range(len(shown)), named(one.column for one in shown))
        axis.set_ylim(len(shown) - 0.5, -0.5)
        what = "chance of the true class" if by_chance else "accuracy"
        axis.set_xlabel(f"{what} lost without the column, points")
        axis.grid(axis="x", alpha=0.3)

    told = ", ".join(f"{plain(one.column)} {100 * (one.chance or one.accuracy).value:.1f}" for one in shown)
    return drawn(draw, f"Points lost without each column: {told}.", (WIDE, 1.0 + 0.34 * len(shown)))


def risk_picture(answers: Answers, target_accuracy: float | None) -> Picture:
    """Risk against coverage, the promise as a line, and what triage accepts as a point."""
    assert answers.trust is not None
    coverage, risk, _ = risk_coverage_curve(answers.truth, answers.labels, answers.trust)
    area = aurc(answers.truth, answers.labels, answers.trust)
    few = np.unique(np.linspace(0, len(coverage) - 1, min(len(coverage), MOST_POINTS)).astype(int))

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        display = displays.RiskCoverageDisplay(coverage[few], risk[few]).plot(ax=axis, target_accuracy=target_accuracy)
        display.line_.set_linewidth(2)
        allowed = 0.0 if target_accuracy is None else 1 - target_accuracy
        axis.set_ylim(0, 1.15 * max(display.line_.get_ydata().max(), allowed, 0.01))
        for formatted in (axis.xaxis, axis.yaxis):
            formatted.set_major_formatter(lambda value, _: f"{value:.3g}" if value < 0.01 and value else f"{value:.2g}")
        accepted = answers.accepted
        if accepted is not None and accepted.any():
            error = 1 - answers.right[accepted].mean()
            axis.plot(accepted.mean(), error, "D", color=VERMILION, markersize=9, label="accepted by triage")
            axis.legend(frameon=False, loc="upper left")

    alt = f"Error against coverage: {risk[-1]:.1%} when everything is answered; the area under the curve is {area:.4f}."
    return drawn(draw, alt, (WIDE, 3.6))


def loyalty_picture(answers: Answers) -> Picture:
    """Share and accuracy by type, estimated and actual, one above the other."""
    actual, estimated = answers.actual, answers.estimated

    def draw(figure: Any) -> None:
        displays.LoyaltyDisplay(actual, estimated=estimated).plot(ax=figure.subplots(2, 1))

    told = "; ".join(
        f"{level}: {share:.0%} of the rows" + ("" if np.isnan(right) else f", {right:.1%} right")
        for level, share, right in zip(actual.levels, actual.share, actual.accuracy, strict=True)
    )
    return drawn(draw, f"Loyalty types. {told}.", (WIDE, 5.8))


def purchases_picture(shares: dict[str, float]) -> Picture:
    """For how many samples a plan buys each test."""

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        bars = axis.barh(range(len(shares)), list(shares.values()), color=BLUE)
        axis.bar_label(bars, [f"{share:.0%}" for share in shares.values()], padding=3, fontsize=9)
        axis.set_yticks(range(len(shares)), named(shares))
        axis.invert_yaxis()
        axis.set_xlim(0, 1.12)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}" if value <= 1 else "")
        axis.set_xlabel("share of the rows")

    told = ", ".join(f"{plain(name)} {share:.0%}" for name, share in shares.items())
    alt = f"Tests in the order of the plan, and for how many rows each is bought: {told}."
    return drawn(draw, alt, (WIDE, 1.0 + 0.32 * len(shares)))


def chart_picture(plan: Any) -> Picture:
    """The flow chart of a plan, as large as it has to be."""

    def draw(figure: Any) -> None:
        axis = displays.PlanDisplay.from_estimator(plan, ax=figure.subplots()).ax_
        # Its limits count boxes: one column per branch, one row per test.
        figure.set_size_inches(1.2 + 3.4 * (axis.get_xlim()[1] + 0.1), 0.8 + 0.72 * (axis.get_ylim()[0] + 0.4))

    return drawn(draw, f"Flow chart of the plan: first {plain(plan.order_[0])}, then on until it stops.", (WIDE, WIDE))


def frontier_picture(plan: Any) -> Picture:
    """Cost and accuracy of stopping earlier or later."""

    def draw(figure: Any) -> None:
        axis = displays.CostAccuracyDisplay.from_estimator(plan, ax=figure.subplots()).ax_
        axis.legend(frameon=False, loc="lower right")  # beside the axes there is no room on a phone

    alt = (
        f"Accuracy against cost: all evidence costs {plan.panel_cost_:.2f} and is right on {plan.full_accuracy_:.1%}; "
        f"the plan costs {plan.expected_cost_:.2f}."
    )
    return drawn(draw, alt, (WIDE, 3.8))
