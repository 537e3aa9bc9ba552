"""What tests say: the order of most information per price, and how telling each test is at its best.

The information of a test, given an evidence set, is by how much it lowers the log loss of unseen patients. It is not
the same everywhere: whether somebody had surgery says little alone, and much once the hormone was found raised. So
each test is asked alone and again after every step of the greedy order, and what counts is the most it ever said.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from multiform.diagnosis._judge import Judge
from multiform.diagnosis._tariff import Tariff

__all__ = ["Information", "gathered_information"]

ASKED_AT_ONCE = 24  # tests that a step asks, those that said most for their price so far: each one costs a model


@dataclass(frozen=True)
class Information:
    """What was found out along the greedy order.

    Attributes
    ----------
    order : tuple of int
        Next is always the test that lowers the log loss most for its price, given those before it.
    most : array, shape (n_tests,)
        The most that each test has lowered the log loss, alone or as the next of this order.
    """

    order: tuple[int, ...]
    most: npt.NDArray[np.float64]


def gathered_information(judge: Judge, tariff: Tariff, only_known: bool = False) -> Information:
    """Follow the greedy order to its end.

    Parameters
    ----------
    only_known : bool, default=False
        Whether no further model may be trained; what a test said last then stands for what it would say next.
    """
    known_sets = set(judge.models.sets)
    most = np.full(len(tariff), -np.inf)
    latest = np.full(len(tariff), -np.inf)
    held, now, order = tariff.known, judge.log_loss(tariff.known), []  # type: int, float, list[int]

    def ask(tests: list[int]) -> None:
        asked = [t for t in tests if not only_known or held | 1 << t in known_sets]
        judge.learn([held | 1 << t for t in asked])
        for t in asked:
            latest[t] = now - judge.log_loss(held | 1 << t)
            most[t] = max(most[t], latest[t])

    def worth(t: int) -> float:
        return float(latest[t]) / max(tariff.price(t, held), 1e-9)

    ask([t for t in range(len(tariff)) if not held >> t & 1])
    while held != tariff.everything:
        tests = sorted(tariff.next_tests(held), key=worth, reverse=True)[:ASKED_AT_ONCE]
        ask(tests)
        best = max(tests, key=worth)
        order.append(best)
        now -= latest[best]
        held |= 1 << best
    return Information(tuple(order), most)
