"""What tests say: the order of most information per price, and how telling each test is at its best.

The information of a test, given an evidence set, is by how much it lowers the log loss of unseen patients. It is not
the same everywhere: whether somebody had surgery says little alone, and much once the hormone was found raised. So
each test is asked alone and again after every step of the greedy order, and what counts is the most it ever said.
"""

from __future__ import annotations

import numpy as np

from multiform._typing import Doubles
from multiform.diagnosis._judge import Judge
from multiform.diagnosis._tariff import Tariff

__all__ = ["gathered_information"]

ASKED_AT_ONCE = 24  # tests that a step asks, those that said most for their price so far: each one costs a model


def gathered_information(judge: Judge, tariff: Tariff, only_known: bool) -> tuple[tuple[int, ...], Doubles]:
    """The greedy order, and the most that each test has lowered the log loss, alone or as the next of this order.

    With `only_known` no further model may be trained; what a test said last then stands for what it would say next.
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
    return tuple(order), most
