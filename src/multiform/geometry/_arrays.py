"""What the geometry needs from an array: checked, float64, kept as it is, and scaled before it is factorised."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from multiform._typing import Array, Doubles

EPS = float(np.finfo(np.float64).eps)


def finite_array(value: ArrayLike, name: str, owner: str, *, ndim: int) -> Doubles:
    """`value` as a finite float64 array of `ndim` dimensions, or one sentence about what is wrong with it."""
    array = np.asarray(value, dtype=np.float64)
    if array.ndim != ndim:
        raise ValueError(f"{name} of {owner} must have {ndim} dimension{'s' * (ndim != 1)}; got shape {array.shape}.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} of {owner} must be finite, but it holds NaN or infinity; clean it first.")
    return array


class Frozen:
    """A value that never changes under its readers: attributes are set once, arrays as private read-only copies."""

    def __init__(self, **attributes: Any) -> None:
        for name, value in attributes.items():
            if isinstance(value, np.ndarray):
                value = np.array(value)
                value.setflags(write=False)
            self.__dict__[name] = value

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot assign to {name!r}: a {type(self).__name__} never changes; make a new one.")


def check_points(points: ArrayLike, n_features: int, owner: str) -> Doubles:
    """Samples as a finite float64 array of shape (n_samples, n_features)."""
    array = finite_array(points, "X", owner, ndim=2)
    if array.shape[1] != n_features:
        raise ValueError(
            f"X of {owner} must have {n_features} columns, one per feature; got {array.shape[1]}. "
            "Pass the features the model was made from, in the same order."
        )
    return array


def label_array(labels: Iterable[Any]) -> Array:
    """Class labels as an array that keeps them as they are (mixed types become objects, never strings)."""
    kept = list(labels)
    array = np.asarray(kept)
    if array.ndim == 1 and array.tolist() == kept:
        return array
    array = np.empty(len(kept), dtype=object)
    array[:] = kept
    return array


def equilibrating_scale(symmetric: Doubles) -> Doubles:
    """Scale `d` that brings the largest entry of every row of `symmetric / (d d')` near 1; rows of zeros keep 1.

    Features come in any units, and the entries of a quadratic's matrix in the squares of them. Eigenvalues
    of the bare matrix see only the largest unit; after this scaling (Ruiz's, with powers of two so that it
    is exact) a factorisation is accurate, and a tolerance meaningful, for every feature on its own scale.
    """
    scaled = np.abs(symmetric)
    exponent = np.zeros(len(scaled), dtype=np.intc)
    # Each pass halves the distance of the exponents from balance; 1100 bits of range need at most a dozen passes.
    for _ in range(16):
        largest = scaled.max(axis=1, initial=0.0)
        _, bits = np.frexp(np.where(largest > 0, largest, 0.5))
        step = np.asarray(np.trunc(bits / 2), dtype=np.intc)
        if not step.any():
            break
        exponent += step
        scaled = np.ldexp(scaled, -(step[:, None] + step[None, :]))
    return np.ldexp(np.ones(len(scaled)), exponent)
