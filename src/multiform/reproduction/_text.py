"""The tables of section 4 as text, the paper's on the left and ours on the right."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from multiform.metrics import LoyaltyTable
from multiform.reproduction import paper
from multiform.reproduction._run import Figures, Loyalty
from multiform.runtime import effective_threads

__all__ = ["beside", "reproduction_text"]


def reproduction_text(figures: Sequence[Figures], loyalty: Loyalty) -> str:
    """Every table of section 4, in the paper's order."""
    printed = "the paper"
    parts = [
        "Table: computer specifications",
        beside(printed, _lines(paper.COMPUTER), "here", _lines(_this_computer())),
        "Table: QMS result (q = 18, alpha = 0.5)",
        _results(figures),
    ]
    for part, published in (("training", paper.TRAIN_CONFUSION), ("test", paper.TEST_CONFUSION)):
        for own in figures:
            matrix = own.train_confusion if part == "training" else own.test_confusion
            parts += [
                f"Table: confusion matrix ({part} set)",
                beside(printed, _matrix(published), own.name, _matrix(matrix)),
            ]
    for part, count, correct, own_table in (
        ("training", paper.TRAIN_COUNT, paper.TRAIN_CORRECT, loyalty.training),
        ("test", paper.TEST_COUNT, paper.TEST_CORRECT, loyalty.test),
    ):
        published_table = LoyaltyTable(paper.LEVELS, count, correct)
        parts += [
            f"Table: LEM result ({part} set), beta = 0.05, gamma = 20",
            beside(printed, str(published_table), loyalty.name, str(own_table)),
        ]
    parts += [
        "Not in the paper: the same estimated on samples that the models did not see, to be compared with the test set",
        str(loyalty.expected),
    ]
    for level, name in enumerate(paper.LEVELS):
        parts += [
            f"Table: confusion tensor, {name} loyalty type layer (test set)",
            beside(printed, _matrix(paper.TEST_TENSOR[level]), loyalty.name, _matrix(loyalty.test_tensor[level])),
        ]
    parts.append(f"The 21 models of the LEM and their cross-fitted estimates took {loyalty.fit_seconds:.1f} s.")
    return "\n\n".join(parts)


def beside(left_title: str, left: str, right_title: str, right: str) -> str:
    """Two blocks of lines next to each other.

    >>> print(beside("a", "1 2", "b", "3 4"))
    a      b
    1 2    3 4
    """
    first, second = [left_title, *left.split("\n")], [right_title, *right.split("\n")]
    width = max(map(len, first))
    n_lines = max(len(first), len(second))
    first, second = first + [""] * (n_lines - len(first)), second + [""] * (n_lines - len(second))
    return "\n".join(f"{a:<{width}}    {b}".rstrip() for a, b in zip(first, second, strict=True))


def _results(figures: Sequence[Figures]) -> str:
    names = ["", "the paper", *(own.name for own in figures)]
    rows = [
        names,
        ["training accuracy", f"{paper.TRAIN_ACCURACY:.2%}", *(f"{own.train_accuracy:.2%}" for own in figures)],
        ["test accuracy", f"{paper.TEST_ACCURACY:.2%}", *(f"{own.test_accuracy:.2%}" for own in figures)],
        ["execution time", f"{paper.FIT_SECONDS:.0f} s", *(f"{own.fit_seconds:.1f} s" for own in figures)],
    ]
    return "\n".join(f"{row[0]:<18}" + "".join(f"{cell:>12}" for cell in row[1:]) for row in rows)


def _matrix(matrix: npt.NDArray[Any]) -> str:
    return "\n".join("".join(f"{count:>5d}" for count in row) for row in np.asarray(matrix, dtype=int).tolist())


def _lines(entries: dict[str, str]) -> str:
    return "\n".join(f"{name:<10} {value}" for name, value in entries.items())


def _this_computer() -> dict[str, str]:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
    return {
        "model": platform.machine(),
        "memory": f"{pages / 2**30:.1f} GiB" if pages else "unknown",
        "processor": f"{platform.processor() or platform.machine()}, {effective_threads(None)} threads used",
        "system": f"{platform.system()} {platform.release()}",
    }
