"""What all displays share: the optional import, and colours that everybody can tell apart."""

from __future__ import annotations

from typing import Any

# Okabe and Ito's palette, made to be told apart with every common kind of colour blindness.
BLUE, ORANGE, GREEN, VERMILION, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6E6E6E"


def pyplot(owner: object) -> Any:
    """``matplotlib.pyplot``, or a sentence on how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f'{type(owner).__name__}.plot needs matplotlib; install it with pip install "multiform[plots]".'
        ) from error
    return plt
