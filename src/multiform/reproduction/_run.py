"""The runs behind section 4: QMS (4.3) and the loyalty extraction machine (4.4) on Fashion-MNIST."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import confusion_matrix

from multiform.classifier import QMSClassifier
from multiform.datasets import load_fashion_mnist
from multiform.loyalty import LoyaltyClassifier
from multiform.metrics import LoyaltyTable, confusion_tensor, loyalty_table

__all__ = ["QUICK_ROWS", "Figures", "Loyalty", "reproduce"]

Array = npt.NDArray[Any]

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
        One a solver.
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
    answers = machine.assess(X_test)
    told = (y_test, answers.label, answers.loyalty)
    return figures, Loyalty(
        f"LEM, {loyalty_solver}",
        seconds,
        machine.training_table_,
        machine.loyalty_table_,
        loyalty_table(*told, levels=machine.levels_),
        confusion_tensor(*told, levels=machine.levels_, labels=np.arange(10)),
    )
