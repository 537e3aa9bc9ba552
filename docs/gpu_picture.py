"""Draws docs/images/gpu.png: how the two solvers spread over a GPU. ``python docs/gpu_picture.py``."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

BLUE, ORANGE, GREY, LIGHT, GREEN = "#2f6fb0", "#e0812b", "#555555", "#e8edf3", "#4d9a58"


def box(axes: Any, x: float, y: float, width: float, height: float, colour: str, text: str = "", size: int = 9) -> None:
    style = "round,pad=0.02,rounding_size=0.06"
    axes.add_patch(
        FancyBboxPatch((x, y), width, height, boxstyle=style, facecolor=colour, edgecolor=GREY, linewidth=0.8)
    )
    axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=size)


def arrow(
    axes: Any, start: tuple[float, float], end: tuple[float, float], colour: str = GREY, bend: float = 0.0
) -> None:
    axes.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            mutation_scale=11,
            color=colour,
            connectionstyle=f"arc3,rad={bend}",
            linewidth=1.2,
        )
    )


def panel(axes: Any, title: str) -> None:
    axes.set_xlim(0, 10)
    axes.set_ylim(0, 6.2)
    axes.axis("off")
    axes.set_title(title, fontsize=11, loc="left", fontweight="bold")


def rows_at_once(axes: Any) -> None:
    panel(axes, "CPM: row r of every separator moves at once")
    n_rows = 5
    for k in range(4):
        left = 0.5 + 2.35 * k
        for r in range(n_rows):
            bottom = 5.1 - 0.5 * r
            colour = ORANGE if r == 1 else LIGHT
            axes.add_patch(Rectangle((left, bottom), 1.7, 0.4, facecolor=colour, edgecolor=GREY, linewidth=0.7))
        axes.text(left + 0.85, 5.7, f"$A_{k + 1}$", ha="center", fontsize=10)
        arrow(axes, (left + 0.85, 3.0), (left + 0.85, 2.35), ORANGE)
    axes.text(0.15, 4.8, "r", fontsize=10, color=ORANGE, fontweight="bold", ha="center", va="center")
    box(axes, 0.5, 1.75, 8.75, 0.5, "#fbe6d2", "new $f_k(x)$ of every sample, exchanged once a row")
    axes.text(
        4.9,
        0.75,
        "within the row, each separator sees the others frozen:\nits 785 coordinates are tried one after the other,\n"
        "all separators and all models side by side",
        ha="center",
        va="center",
        fontsize=8.5,
        color=GREY,
    )
    arrow(axes, (9.35, 2.0), (9.3, 4.4), GREY, 0.25)
    axes.text(9.85, 3.2, "row r+1", rotation=90, va="center", fontsize=8.5, color=GREY)


def one_coordinate(axes: Any) -> None:
    panel(axes, "One coordinate of one separator: one barrier")
    for b in range(3):
        left = 0.4 + 3.2 * b
        box(axes, left, 3.55, 2.8, 1.9, LIGHT)
        axes.text(left + 1.4, 5.6, f"block {b}", ha="center", fontsize=8.5, color=GREY)
        for w in range(4):
            for t in range(8):
                own = b == 0 and w < 3
                axes.add_patch(
                    Rectangle(
                        (left + 0.2 + 0.31 * t, 4.95 - 0.4 * w),
                        0.24,
                        0.28,
                        facecolor=GREEN if own else BLUE,
                        edgecolor="white",
                    )
                )
        arrow(axes, (left + 1.4, 3.5), (left + 1.4, 2.75))
    box(
        axes,
        0.4,
        2.0,
        9.2,
        0.65,
        "#fbe6d2",
        "4 sums a warp, sent to all blocks of the group",
        8,
    )
    for b in range(3):
        arrow(axes, (1.8 + 3.2 * b, 1.95), (1.8 + 3.2 * b, 1.35))
        box(axes, 0.4 + 3.2 * b, 0.75, 2.8, 0.55, "#dcebd9", "same sum,\nsame move", 8)
    axes.text(
        5.0,
        0.3,
        "a square: a thread with 4 or 8 samples in registers, of the own class\n"
        "(green) or another (blue); both points, +d and -d, are tried at once",
        ha="center",
        va="center",
        fontsize=8,
        color=GREY,
    )


def one_step(axes: Any) -> None:
    panel(axes, "Adam: three kernels a step, 16 steps a graph")
    names = [
        "forward\n$R = A_k x - b_k$\ntensor cores",
        "slopes\nof $\\max(\\alpha, f_y/f_j)$\na list a class",
        "update\ngradient, Adam\ntensor cores",
    ]
    for i, name in enumerate(names):
        box(axes, 0.3 + 3.25 * i, 3.6, 2.7, 1.6, ("#d6e3f1", "#fbe6d2", "#d6e3f1")[i], name)
        if i < 2:
            arrow(axes, (3.05 + 3.25 * i, 4.4), (3.5 + 3.25 * i, 4.4))
    for i, grid in enumerate(
        ("tiles of samples\nx classes x models", "classes x models", "tiles of columns\nx classes x models")
    ):
        axes.text(1.65 + 3.25 * i, 3.15, grid, ha="center", va="center", fontsize=8, color=GREY)
    arrow(axes, (8.3, 5.3), (1.6, 5.3), GREY, 0.12)
    axes.text(4.95, 5.95, "next batch", ha="center", fontsize=8.5, color=GREY)
    box(axes, 0.3, 1.1, 9.2, 1.5, LIGHT)
    axes.text(
        4.9,
        1.8,
        "each model has its own batches, in the CPU's order:\n"
        "the same numbers are drawn on the GPU, so that\n"
        "both engines train the same model up to rounding",
        ha="center",
        va="center",
        fontsize=8.5,
    )
    axes.text(
        4.9,
        0.35,
        "small problems: one block has one model, all of it in\nshared memory, a whole fit in one launch",
        ha="center",
        fontsize=8.5,
        color=GREY,
    )


def main() -> None:
    figure, axes = plt.subplots(1, 3, figsize=(17, 4.6))
    for draw, one in zip((rows_at_once, one_coordinate, one_step), axes, strict=True):
        draw(one)
    figure.subplots_adjust(left=0.01, right=0.99, bottom=0.02, top=0.92, wspace=0.06)
    figure.savefig(Path(__file__).parent / "images" / "gpu.png", dpi=110)


if __name__ == "__main__":
    main()
