"""What every fit does in the same way: it leaves nothing half-fitted, and draws one seed."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from sklearn.utils import check_random_state

__all__ = ["all_or_nothing", "drawn_seed"]

Fit = TypeVar("Fit", bound=Callable[..., Any])


def all_or_nothing(fit: Fit) -> Fit:
    """A fit that fails or is interrupted leaves the estimator exactly as it was."""

    @wraps(fit)
    def fit_or_restore(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(estimator))
        try:
            return fit(estimator, *args, **kwargs)
        except BaseException:
            vars(estimator).clear()
            vars(estimator).update(before)
            raise

    return fit_or_restore  # type: ignore[return-value]


def drawn_seed(random_state: Any) -> int:
    """A seed from scikit-learn's `random_state`."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
