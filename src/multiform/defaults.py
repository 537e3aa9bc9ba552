"""The defaults that depend on the data, each measured on a validation part of training data (docs/defaults.md)."""

from __future__ import annotations

__all__ = ["FEW_SAMPLES", "auto_batch_size", "auto_components", "auto_passes"]

MOST_COEFFICIENTS = 40_000_000
LEAST_STEPS = 350
FEW_SAMPLES = 4_096  # up to which CPM is literal


def auto_components(n_samples: int, n_features: int, n_classes: int) -> int:
    """q: 18, at most p + 1 (Lemma 1 needs no more), and no more than MOST_COEFFICIENTS in all.

    >>> auto_components(60_000, 784, 10), auto_components(150, 4, 3), auto_components(5_000, 20_000, 1_000)
    (18, 5, 1)
    """
    return max(1, min(18, n_features + 1, MOST_COEFFICIENTS // (n_classes * (n_features + 1))))


def auto_batch_size(n_samples: int) -> int:
    return 64 if n_samples < 2_000 else 128 if n_samples < 10_000 else 256


def auto_passes(n_samples: int, batch_size: int, solver: str) -> int:
    """Adam: five passes, more where they would be fewer than LEAST_STEPS steps.

    CPM: ten sweeps over all samples, 14 where a sweep takes a part of many.

    >>> auto_passes(60_000, 256, "adam"), auto_passes(500, 64, "adam")
    (5, 44)
    >>> auto_passes(500, 64, "cpm"), auto_passes(60_000, 256, "cpm")
    (10, 14)
    """
    if solver != "adam":
        return 14 if solver == "cpm" and n_samples > FEW_SAMPLES else 10
    steps_a_pass = max(1, -(-n_samples // batch_size))
    return max(5, -(-LEAST_STEPS // steps_a_pass))
