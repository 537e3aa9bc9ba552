"""What every fit does in the same way: it leaves nothing half-fitted, and draws one seed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

__all__ = ["drawn_seed", "nothing_half_fitted"]


@contextmanager
def nothing_half_fitted(estimator: Any) -> Iterator[None]:
    """A fit that fails or is interrupted leaves the estimator exactly as it was."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def drawn_seed(random_state: Any) -> int:
    """A seed from scikit-learn's `random_state`."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
