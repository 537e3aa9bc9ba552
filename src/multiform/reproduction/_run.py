"""Section 4: QMS (4.3) and the loyalty extraction machine (4.4) on Fashion-MNIST, and its tables as text."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix

from multiform._typing import Array
from multiform.classifier import QMSClassifier
from multiform.datasets import load_fashion_mnist
from multiform.loyalty import LoyaltyClassifier
from multiform.metrics import LoyaltyTable, confusion_tensor, loyalty_table
from multiform.reproduction import paper
from multiform.runtime import effective_threads

PAPER: dict[str, Any] = {"n_components": 18, "alpha": 0.5, "noise": 0.0}  # the paper has no input noise
BETA, GAMMA = 0.05, 20.0
QUICK_ROWS = 6_000, 2_000


@dataclass(frozen=True)
class Figures:
    """One row of section 4.3."""

    name: str
    fit_seconds: float
    train_confusion: Array
    test_confusion: Array

    @property
    def train_accuracy(self) -> float:
        return float(np.trace(self.train_confusion) / self.train_confusion.sum())

    @property
    def test_accuracy(self) -> float:
        return float(np.trace(self.test_confusion) / self.test_confusion.sum())


@dataclass(frozen=True)
class Loyalty:
    """Section 4.4: loyalty types on the training and the test set, what was expected, the tensor of the test set."""

    name: str
    fit_seconds: float
    training: LoyaltyTable
    expected: LoyaltyTable
    test: LoyaltyTable
    test_tensor: Array


def reproduce(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    solvers: tuple[str, ...] = ("cpm", "adam"),
    loyalty_solver: str = "adam",
    quick: bool = False,
    n_jobs: int | None = None,
    random_state: int = 0,
    stage: Callable[[str], None] = lambda words: None,
) -> tuple[list[Figures], Loyalty]:
    """Run section 4.

    Parameters
    ----------
    data_dir : path, default=None
        Folder of Fashion-MNIST; see :func:`multiform.datasets.load_fashion_mnist`.
    solvers : tuple of str
        A run of 4.3 for each; the paper's is "cpm".
    loyalty_solver : str
        Of the 21 models of 4.4.
    quick : bool, default=False
        6,000 training and 2,000 test images, to see that it works.
    n_jobs : int, default=None
    random_state : int, default=0
    stage : callable
        Told what is being done.

    Returns
    -------
    figures : list of Figures
        One per solver.
    loyalty : Loyalty
    """
    stage("reading Fashion-MNIST")
    X, y, X_test, y_test = load_fashion_mnist(data_dir)
    if quick:
        X, y, X_test, y_test = X[: QUICK_ROWS[0]], y[: QUICK_ROWS[0]], X_test[: QUICK_ROWS[1]], y_test[: QUICK_ROWS[1]]
    shared: dict[str, Any] = {"n_jobs": n_jobs, "random_state": random_state, **PAPER}
    figures = []
    for solver in solvers:
        stage(f"4.3, solver {solver}")
        begin = time.perf_counter()
        model = QMSClassifier(solver=solver, **shared).fit(X, y)
        seconds = time.perf_counter() - begin
        confusions = [confusion_matrix(true, model.predict(part)) for part, true in ((X, y), (X_test, y_test))]
        figures.append(Figures(f"QMS, {solver}", seconds, *confusions))
    stage(f"4.4, 21 models, solver {loyalty_solver}")
    begin = time.perf_counter()
    machine = LoyaltyClassifier(
        QMSClassifier(solver=loyalty_solver, **shared), beta=BETA, gamma=GAMMA, random_state=random_state
    ).fit(X, y)
    seconds = time.perf_counter() - begin
    known, answers = machine.assess(X), machine.assess(X_test)
    told = (y_test, answers.label, answers.loyalty)
    return figures, Loyalty(
        f"LEM, {loyalty_solver}",
        seconds,
        loyalty_table(y, known.label, known.loyalty, levels=machine.levels_),
        machine.loyalty_table_,
        loyalty_table(*told, levels=machine.levels_),
        confusion_tensor(*told, levels=machine.levels_, labels=np.arange(10)),
    )


def reproduction_text(figures: Sequence[Figures], loyalty: Loyalty) -> str:
    """Every table of section 4, in the paper's order, the paper's on the left and ours on the right."""
    parts: list[str] = []

    def table(title: str, published: str, name: str, own: str) -> None:
        parts.append(f"Table: {title}\n\n{_beside('the paper', published, name, own)}")

    table("computer specifications", _lines(paper.COMPUTER), "here", _lines(_this_computer()))
    parts.append(f"Table: QMS result (q = 18, alpha = 0.5)\n\n{_results(figures)}")
    for own in figures:
        matrices = _matrix(paper.TRAIN_CONFUSION), own.name, _matrix(own.train_confusion)
        table("confusion matrix (training set)", *matrices)
    for own in figures:
        matrices = _matrix(paper.TEST_CONFUSION), own.name, _matrix(own.test_confusion)
        table("confusion matrix (test set)", *matrices)
    published = LoyaltyTable(paper.LEVELS, paper.TRAIN_COUNT, paper.TRAIN_CORRECT)
    table("LEM result (training set), beta = 0.05, gamma = 20", str(published), loyalty.name, str(loyalty.training))
    published = LoyaltyTable(paper.LEVELS, paper.TEST_COUNT, paper.TEST_CORRECT)
    table("LEM result (test set), beta = 0.05, gamma = 20", str(published), loyalty.name, str(loyalty.test))
    parts += [
        "Not in the paper: the same estimated on samples that the models did not see, to be compared with the test set",
        str(loyalty.expected),
    ]
    for level, printed, ours in zip(paper.LEVELS, paper.TEST_TENSOR, loyalty.test_tensor, strict=True):
        title = f"confusion tensor, {level} loyalty type layer (test set)"
        table(title, _matrix(printed), loyalty.name, _matrix(ours))
    parts.append(f"The 21 models of the LEM and their cross-fitted estimates took {loyalty.fit_seconds:.1f} s.")
    return "\n\n".join(parts)


def _beside(left_title: str, left: str, right_title: str, right: str) -> str:
    """Two blocks of lines next to each other.

    >>> print(_beside("a", "1 2", "b", "3 4"))
    a      b
    1 2    3 4
    """
    first, second = [left_title, *left.split("\n")], [right_title, *right.split("\n")]
    width = max(map(len, first))
    return "\n".join(f"{a:<{width}}    {b}".rstrip() for a, b in zip_longest(first, second, fillvalue=""))


def _results(figures: Sequence[Figures]) -> str:
    rows = [
        ["", "the paper", *(own.name for own in figures)],
        ["training accuracy", f"{paper.TRAIN_ACCURACY:.2%}", *(f"{own.train_accuracy:.2%}" for own in figures)],
        ["test accuracy", f"{paper.TEST_ACCURACY:.2%}", *(f"{own.test_accuracy:.2%}" for own in figures)],
        ["execution time", f"{paper.FIT_SECONDS:.0f} s", *(f"{own.fit_seconds:.1f} s" for own in figures)],
    ]
    return "\n".join(f"{row[0]:<18}" + "".join(f"{cell:>12}" for cell in row[1:]) for row in rows)


def _matrix(matrix: Array) -> str:
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
