"""What all displays share: the optional import, and colours that everybody can tell apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiform._typing import Array

__all__ = ["BLUE", "GREEN", "GREY", "ORANGE", "VERMILION", "axes_for"]

# Okabe and Ito's palette, made to be told apart with every common kind of colour blindness.
BLUE, ORANGE, GREEN, VERMILION, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6E6E6E"


def axes_for(owner: object, ax: Any, number: int = 1, wanted: str = "one Axes", **options: Any) -> Array:
    """The axes to draw on: those given, which must be so many, or those of a new figure with these options."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f'{type(owner).__name__}.plot needs matplotlib; install it with pip install "multiform[plots]".'
        ) from error
    if ax is None:
        return np.atleast_1d(plt.subplots(1, number, layout="constrained", **options)[1])
    axes = np.ravel(ax)
    if len(axes) != number:
        raise ValueError(f"The parameter 'ax' of {type(owner).__name__}.plot must hold {wanted}; got {len(axes)}.")
    return axes
