"""The arrays that annotations speak of, each named once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "Bools", "Doubles", "Floats", "Indices", "Ints"]

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.intp]
Ints = npt.NDArray[np.int32]
