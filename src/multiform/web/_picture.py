"""The path ahead as a picture: where boxes and bars stand. The template draws them, as elements with classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from multiform.diagnosis import FlowStep
from multiform.web._words import Words, short

WIDE = 340  # of the picture, in its own units: one is about a pixel on a phone
ROW, BOX, INDENT, MARGIN = 66, 46, 14, 4
LEGEND = 148  # room for the words beside a bar
MOST_STEPS = 40
MOST_LETTERS = 24  # of a test's name in a box
MOST_COLOURS = 6


def path_picture(
    steps: Sequence[FlowStep], classes: Sequence[str], words: Words, pending: Sequence[str] = ()
) -> dict[str, Any] | None:
    """Boxes from top to bottom, a branch of its own farther to the right; None where nothing is ahead.

    Tests that are `pending` are paid for.
    """
    shown = steps[:MOST_STEPS]
    if not shown:
        return None
    depths: dict[int, int] = {-1: 0}
    places: dict[int, tuple[float, float]] = {}
    boxes = []
    for row, step in enumerate(shown):
        parted = (len(step.diagnoses) < len(classes) or step.condition != "") and step.parent >= 0
        depth = depths[step.node] = depths.get(step.parent, 0) + parted
        x, y = MARGIN + INDENT * min(depth, 6), 2 + ROW * row
        width = WIDE - x - MARGIN
        bar = width - 20 - LEGEND
        bars: list[dict[str, float]] = []
        left, stop = x + 10.0, sum(step.stopped)
        for k, share in enumerate(step.stopped):
            size = bar * min(1.0, share)
            if size > 0.3:
                bars.append({"x": round(left, 1), "width": round(size, 1), "colour": min(k, MOST_COLOURS - 1)})
                left += size
        way = None
        if step.parent in places:
            from_x, from_y = places[step.parent]
            # A branch leaves in the margin beside the boxes between, and comes in from the left.
            line = f"M{from_x + 7} {from_y + BOX}V{y + BOX // 2}H{x}" if parted else f"M{x + 22} {from_y + BOX}V{y}"
            way = {"line": line, "thick": round(1 + (5 if parted else 9) * min(1.0, step.came), 1)}
        places[step.node] = (x, y)
        boxes.append(
            {
                "x": x,
                "y": y,
                "width": width,
                "height": BOX,
                "test": short(step.test, MOST_LETTERS),
                "price": _price(step, words, pending),
                "came": words.percent(step.came),
                "stop": words.percent(stop),
                "condition": _condition(step, words) if parted else "",
                "bar": bar,
                "bars": bars,
                "way": way,
                "now": row == 0,
            }
        )
    return {
        "width": WIDE,
        "height": 2 + ROW * len(shown) - (ROW - BOX) + 2,
        "boxes": boxes,
        "more": len(steps) - len(shown),
    }


def _price(step: FlowStep, words: Words, pending: Sequence[str]) -> str:
    if step.test in pending:
        return words("next_ordered")
    return words.money(step.price) if step.price else words("free")


def _condition(step: FlowStep, words: Words) -> str:
    """With which result, or which diagnosis so far, one comes to a box."""
    if step.condition == "otherwise":
        return words("path_otherwise")
    return words("path_if", diagnosis=step.condition or ", ".join(step.diagnoses))


def colours(classes: Sequence[str]) -> list[tuple[str, int]]:
    """Each class with the number of its colour."""
    return [(label, min(k, MOST_COLOURS - 1)) for k, label in enumerate(classes)]
