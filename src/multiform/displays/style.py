"""What all displays share: the optional import, and colours that everybody can tell apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiform._typing import Array

__all__ = ["BLUE", "GREEN", "GREY", "ORANGE", "PURPLE", "VERMILION", "axes_for", "class_styles"]

# Okabe and Ito's palette, made to be told apart with every common kind of colour blindness. In our pictures blue is
# this model and what came true, orange what was expected of it, purple what it answered, vermilion what was chosen, and
# grey all that it is compared with.
BLUE, ORANGE, GREEN, VERMILION, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6E6E6E"
PURPLE, SKY, YELLOW = "#CC79A7", "#56B4E9", "#F0E442"
CLASSES = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, YELLOW)
HATCHES = ("", "///", "...", "xxx", "++", "ooo")


def class_styles(n: int) -> list[dict[str, str]]:
    """A colour for each class, and a hatching where there are more classes than colours: no two look the same.

    >>> styles = class_styles(40)
    >>> len({tuple(style.items()) for style in styles})
    40
    """
    shown = [(colour, hatch) for hatch in HATCHES for colour in CLASSES]
    return [
        {"facecolor": shown[k % len(shown)][0], "hatch": shown[k % len(shown)][1], "edgecolor": "white"}
        for k in range(n)
    ]


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
