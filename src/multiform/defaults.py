"""The defaults that depend on the data, each measured on a validation part of training data (docs/defaults.md)."""

from __future__ import annotations

from dataclasses import replace

from multiform.solvers import AdamSolver, CpmSolver

MOST_COEFFICIENTS = 40_000_000
LEAST_STEPS = 350
CPM_LITERAL_UP_TO = 4_096  # samples
NOISE = 0.35
MOST_NOISE = 1e6  # beyond, single precision has no room for its square, and nothing is learnt
NOISE_LEVELS = (0.1, 0.3, 1.0, 2.0)  # to choose from
CHOOSE_NOISE_UP_TO = 20_000, 2_000_000  # samples and cells; with more, NOISE is as good and the choice slow


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
        return 14 if solver == "cpm" and n_samples > CPM_LITERAL_UP_TO else 10
    steps_a_pass = max(1, -(-n_samples // batch_size))
    return max(5, -(-LEAST_STEPS // steps_a_pass))


def components_for(n_components: int | str, n_samples: int, n_features: int, n_classes: int) -> int:
    """q, as given or by `auto_components`."""
    if isinstance(n_components, str):
        return auto_components(n_samples, n_features, n_classes)
    return int(n_components)


def noise_levels(noise: float | str, n_samples: int, n_features: int) -> tuple[float, ...]:
    """The noise levels to choose from: the one given, or those that are worth a trial on so much data.

    >>> noise_levels(0.5, 100, 4), noise_levels("auto", 100, 4), noise_levels("auto", 60_000, 784)
    ((0.5,), (0.1, 0.3, 1.0, 2.0), (0.35,))
    """
    if not isinstance(noise, str):
        return (float(noise),)
    most_samples, most_cells = CHOOSE_NOISE_UP_TO
    few = n_samples < most_samples and n_samples * n_features <= most_cells
    return NOISE_LEVELS if few else (NOISE,)


def batch_size_for(batch_size: int | str, n_samples: int) -> int:
    return auto_batch_size(n_samples) if isinstance(batch_size, str) else int(batch_size)


def solver_for(
    name: str,
    n_samples: int,
    n_components: int,
    *,
    max_iter: int | str = "auto",
    batch_size: int | str = "auto",
    learning_rate: float = 0.07,
) -> AdamSolver | CpmSolver:
    """The settings of a solver, from the parameters of an estimator."""
    batch = batch_size_for(batch_size, n_samples)
    n_passes = auto_passes(n_samples, batch, name) if isinstance(max_iter, str) else int(max_iter)
    if name == "adam":
        # A pass that is one step visits everything: nothing is gained by leaving samples out.
        return AdamSolver(n_passes, batch, float(learning_rate), revisit=1.0 if n_samples <= batch else 0.2)
    # The departures from the paper's algorithm buy speed on large problems; small ones do without.
    if name == "cpm-literal" or n_samples <= CPM_LITERAL_UP_TO:
        return CpmSolver(n_passes).literal()
    # With few rows between two exchanges, moving all classes at once oscillates.
    return replace(CpmSolver(n_passes), synchronous=n_components >= 8)
