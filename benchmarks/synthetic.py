"""A problem of any size: overlapping classes, so that a fit has work to do to its end."""

import numpy as np
from numpy.typing import NDArray


def gaussian_classes(n: int, p: int, m: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """``n`` samples of ``m`` classes in ``p`` columns: normal clouds, their centres about 1.4 sigma apart."""
    rng = np.random.default_rng(seed)
    y = rng.integers(m, size=n)
    centres = rng.normal(size=(m, p)) / np.sqrt(p)
    X = rng.standard_normal((n, p), dtype=np.float32)
    X += centres.astype(np.float32)[y]
    return X, y
