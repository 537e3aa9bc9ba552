"""Patients and what their tests cost: four sets with real prices, UCI's medical ones with uniform prices, and cubes.

Heart disease and its prices are in the package; the other priced sets need a folder with Turney's prices in
``costs/turney_costs.csv`` and, for Pima, the patients in ``raw/pima-indians-diabetes.data``.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multiform.datasets import load_heart_disease, load_hepatitis, load_thyroid
from multiform.diagnosis import Tariff

Array = NDArray[Any]

PRICED = ("heart", "pima", "hepatitis", "thyroid")
CUBES = ("cube", "cube with context")
# Of UCI's sets in the form of Fernandez-Delgado et al., the medical ones of six tests or more that are not above.
UNIFORM = (
    "vertebral-column-3clases",
    "breast-cancer",
    "breast-cancer-wisc",
    "heart-va",
    "ilpd-indian-liver",
    "lymphography",
    "parkinsons",
    "primary-tumor",
    "breast-cancer-wisc-diag",
    "spectf",
)


@dataclass(frozen=True)
class Problem:
    """Patients and prices."""

    name: str
    X: Array
    y: Array
    costs: dict[str, float]
    discounts: dict[str, dict[str, float]]
    unverified: int = 0  # prices that the file marks as recalled

    @cached_property
    def tariff(self) -> Tariff:
        return Tariff.of(self.costs, self.discounts)


def problems(priced: Path | None, uci: Path | None, wanted: list[str]) -> Iterator[Problem]:
    """The sets that are wanted; SystemExit where one is unknown or its folder was not given."""
    for name in wanted:
        if name == "heart":
            heart = load_heart_disease()
            yield Problem(name, heart.data, heart.target, heart.costs, heart.discounts)
        elif name in PRICED and priced is not None:
            costs, discounts, unverified = prices(priced, name)
            X, y = _priced_patients(priced, name)
            yield Problem(name, X[:, : len(costs)], y, costs, discounts, unverified)  # thyroid's FTI has no price
        elif name in CUBES:
            yield uniform(name, *cube(600, context=name != "cube"))
        elif uci is not None and (uci / f"{name}.npz").exists():
            with np.load(uci / f"{name}.npz") as found:
                yield uniform(name, found["X"].astype(np.float64), found["y"])
        else:
            raise SystemExit(
                f"--sets: no set is named {name!r}; there are heart, {', '.join(CUBES)}, with --data "
                f"{', '.join(PRICED[1:])}, and the files of --uci."
            )


def uniform(name: str, X: Array, y: Array) -> Problem:
    """Every test at the same price."""
    return Problem(name, X, y, {f"t{t}": 1.0 for t in range(X.shape[1])}, {})


def cube(n: int, context: bool, seed: int = 0) -> tuple[Array, Array]:
    """Eight classes, the corners of a cube in three of 20 tests; with a context, the first test says in which three."""
    rng = np.random.default_rng(seed)
    y, which = rng.integers(0, 8, n), rng.integers(0, 2, n) if context else np.zeros(n, dtype=int)
    X = rng.integers(0, 2, (n, 20)) + rng.normal(0, 0.1, (n, 20))
    for bit in range(3):
        X[np.arange(n), 1 + 3 * which + bit] = (y >> bit & 1) + rng.normal(0, 0.1, n)
    X[:, 0] = which if context else rng.normal(size=n)
    return X, y


def prices(folder: Path, name: str) -> tuple[dict[str, float], dict[str, dict[str, float]], int]:
    """Full prices, the discounts, and how many of them nobody has verified."""
    costs: dict[str, float] = {}
    discounts: dict[str, dict[str, float]] = {}
    unverified = 0
    with open(folder / "costs" / "turney_costs.csv", newline="", encoding="utf-8") as stream:
        for row in csv.reader(line for line in stream if not line.startswith("#")):
            of, test, full, less, discount, _, status = row
            if of == name:
                costs[test] = float(full)
                unverified += status == "memory"
                if discount:
                    discounts.setdefault(discount, {})[test] = float(less)
    return costs, discounts, unverified


def _priced_patients(folder: Path, name: str) -> tuple[Array, Array]:
    if name == "pima":
        table = np.loadtxt(folder / "raw" / "pima-indians-diabetes.data")
        return table[:, :-1], table[:, -1].astype(int)
    return (load_hepatitis if name == "hepatitis" else load_thyroid)(return_X_y=True)  # type: ignore[no-any-return]
