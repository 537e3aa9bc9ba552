"""Values as JSON has them, for people and programs to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """As JSON; a number that JSON does not have becomes None, an object its text.

    >>> import numpy as np
    >>> from multiform.files import plain
    >>> plain({1: np.float64(0.5), "b": (np.inf, np.arange(2))})
    {'1': 0.5, 'b': [None, [0, 1]]}
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
