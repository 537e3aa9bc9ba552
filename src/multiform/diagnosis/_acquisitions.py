"""What was bought for whom: the table that `DiagnosisPlanner.acquire` returns, and the bill of a patient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Acquisitions"]

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Acquisitions:
    """One row a patient.

    Attributes
    ----------
    cost : array, shape (n,)
        The bill.
    tests : list of tuple of str
        What was bought, in this order.
    answer : array, shape (n,)
        The diagnosis.
    chance : array, shape (n,)
        Calibrated chance that it is right.
    prices : array, shape (n, n_tests)
        What was paid for each test, NaN where it was not bought.
    test_names : tuple of str
    panel_cost : float
        What all evidence costs.
    """

    cost: Doubles
    tests: list[tuple[str, ...]]
    answer: npt.NDArray[Any]
    chance: Doubles
    prices: Doubles
    test_names: tuple[str, ...]
    panel_cost: float

    def __len__(self) -> int:
        return len(self.cost)

    @property
    def cost_share(self) -> float:
        """Mean cost as a share of the full panel."""
        return float(self.cost.mean() / self.panel_cost) if self.panel_cost else 0.0

    def bill(self, patient: int) -> str:
        """The bill of one patient, line by line."""
        bought = self.tests[patient]
        width = max([len(name) for name in (*bought, "sum", "full panel")])
        lines = [f"{name:<{width}}  {self.prices[patient, self.test_names.index(name)]:>10.2f}" for name in bought]
        lines.append(f"{'sum':<{width}}  {self.cost[patient]:>10.2f}")
        lines.append(f"{'full panel':<{width}}  {self.panel_cost:>10.2f}")
        lines.append(f"diagnosis: {self.answer[patient]}, right with a chance of {self.chance[patient]:.0%}")
        return "\n".join(lines)

    def to_frame(self) -> Any:
        """A pandas DataFrame: cost, n_tests, tests, answer, chance."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("Acquisitions.to_frame needs pandas: run `pip install pandas`.") from error
        return pd.DataFrame(
            {
                "cost": self.cost,
                "n_tests": [len(bought) for bought in self.tests],
                "tests": [", ".join(bought) for bought in self.tests],
                "answer": self.answer,
                "chance": self.chance,
            }
        )

    def __str__(self) -> str:
        lines = [f"{'patient':>7} {'cost':>10} {'answer':>10} {'chance':>7}  bought"]
        for i, bought in enumerate(self.tests):
            lines.append(
                f"{i:>7} {self.cost[i]:>10.2f} {self.answer[i]!s:>10} {self.chance[i]:>7.0%}  {', '.join(bought)}"
            )
        return "\n".join(lines)
