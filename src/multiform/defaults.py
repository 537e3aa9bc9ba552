"""The defaults that depend on the data, each measured on a validation part of training data (docs/defaults.md)."""

from __future__ import annotations

from dataclasses import replace

from multiform.solvers import AdamSolver, CpmSolver

MOST_COMPONENTS = 16  # rows of ten classes fill a processor's vectors; the paper's 18 gain little (docs/defaults.md)
MOST_COEFFICIENTS = 40_000_000
LEAST_STEPS = 350
CPM_LITERAL_UP_TO = 4_096  # samples
NOISE = 0.35
MOST_NOISE = 1e6  # beyond, single precision has no room for its square, and nothing is learnt
NOISE_LEVELS = (0.1, 0.3, 1.0, 2.0)  # to choose from
WIDE_UP_TO = 5  # samples a column: with fewer of them only more noise keeps the columns in check
WIDE_NOISE = 2.0
WIDE_NOISE_LEVELS = (1.0, 2.0, 3.0)
# Sparse rows: a linear row a class and a few more, and the noise of a column against the few entries that there are.
SPARSE_COMPONENTS = 4
SPARSE_PASSES = 6
SPARSE_NOISE = 10.0
SPARSE_NOISE_LEVELS = (5.0, 10.0, 20.0, 40.0)
BOOSTING_FROM = 1_000  # samples: below, it adds half a per cent to what forests gain, and doubles the time
CHOOSE_NOISE_UP_TO = 20_000, 2_000_000  # samples and cells; with more, one level is as good and the choice slow


def auto_components(n_samples: int, n_features: int, n_classes: int, *, sparse: bool = False) -> int:
    """q: 16, at most p + 1 (Lemma 1 needs no more), and no more than MOST_COEFFICIENTS in all.

    With few samples for p columns n / 2p are enough, but no fewer than 9, nor than the m - 1 shared rows of a start and
    two more.
    Sparse rows have 4: every class starts with a linear row of its own.

    >>> auto_components(60_000, 784, 10), auto_components(150, 4, 3), auto_components(5_000, 20_000, 1_000)
    (16, 5, 1)
    >>> auto_components(1_000, 500, 3), auto_components(1_000, 500, 100)
    (9, 16)
    >>> auto_components(16_000, 50_000, 20, sparse=True)
    4
    """
    enough = SPARSE_COMPONENTS if sparse else max(9, n_classes + 1, n_samples // (2 * n_features))
    return max(1, min(MOST_COMPONENTS, enough, n_features + 1, MOST_COEFFICIENTS // (n_classes * (n_features + 1))))


def auto_batch_size(n_samples: int) -> int:
    return 64 if n_samples < 2_000 else 128 if n_samples < 10_000 else 256


def auto_passes(n_samples: int, batch_size: int, solver: str, *, sparse: bool = False) -> int:
    """Adam: four passes, eight over sparse rows, more where there would be fewer than LEAST_STEPS. CPM: nine sweeps.

    >>> auto_passes(60_000, 256, "adam"), auto_passes(500, 64, "adam"), auto_passes(60_000, 256, "cpm")
    (4, 44, 9)
    """
    if solver != "adam":
        return 9
    steps_a_pass = max(1, -(-n_samples // batch_size))
    return max(SPARSE_PASSES if sparse else 4, -(-LEAST_STEPS // steps_a_pass))


def components_for(
    n_components: int | str, n_samples: int, n_features: int, n_classes: int, *, sparse: bool = False
) -> int:
    """q, as given or by `auto_components`."""
    if isinstance(n_components, str):
        return auto_components(n_samples, n_features, n_classes, sparse=sparse)
    return int(n_components)


def usual_noise(n_samples: int, n_features: int, *, entries: int | None = None) -> float:
    """The noise level where none is given and none chosen; `entries` are the values that a sparse matrix stores."""
    if entries is not None:
        return SPARSE_NOISE
    return WIDE_NOISE if n_samples < WIDE_UP_TO * n_features else NOISE


def levels_to_try(n_samples: int, n_features: int, *, entries: int | None = None) -> tuple[float, ...]:
    if entries is not None:
        return SPARSE_NOISE_LEVELS
    return WIDE_NOISE_LEVELS if n_samples < WIDE_UP_TO * n_features else NOISE_LEVELS


def noise_levels(
    noise: float | str, n_samples: int, n_features: int, *, entries: int | None = None
) -> tuple[float, ...]:
    """The noise levels to choose from: the one given, or those that are worth a trial on so much data.

    >>> noise_levels(0.5, 100, 4), noise_levels("auto", 100, 4), noise_levels("auto", 60_000, 784)
    ((0.5,), (0.1, 0.3, 1.0, 2.0), (0.35,))
    >>> noise_levels("auto", 1_000, 500), noise_levels("auto", 10_000, 5_000)
    ((1.0, 2.0, 3.0), (2.0,))
    >>> noise_levels("auto", 10_000, 5_000, entries=200_000)
    (5.0, 10.0, 20.0, 40.0)
    """
    if not isinstance(noise, str):
        return (float(noise),)
    most_samples, most_cells = CHOOSE_NOISE_UP_TO
    if n_samples >= most_samples or (n_samples * n_features if entries is None else entries) > most_cells:
        return (usual_noise(n_samples, n_features, entries=entries),)
    return levels_to_try(n_samples, n_features, entries=entries)


def usual_partners(n_samples: int, n_features: int, *, sparse: bool = False) -> str | None:
    """Forests beside ours, and boosting from 1,000 samples on, where they can read the table in a fair time.

    >>> usual_partners(500, 10), usual_partners(1_000, 10), usual_partners(1_000, 2_000), usual_partners(60_000, 784)
    ('forests', 'trees', None, None)
    """
    if sparse or n_samples < n_features or n_samples * n_features > CHOOSE_NOISE_UP_TO[1]:
        return None
    return "forests" if n_samples < BOOSTING_FROM else "trees"


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
    sparse: bool = False,
) -> AdamSolver | CpmSolver:
    """The settings of a solver, from the parameters of an estimator."""
    batch = batch_size_for(batch_size, n_samples)
    n_passes = auto_passes(n_samples, batch, name, sparse=sparse) if isinstance(max_iter, str) else int(max_iter)
    if name == "adam":
        # A pass that is one step visits everything: nothing is gained by leaving samples out.
        revisit = 1.0 if n_samples <= batch else 0.2 if n_samples < 10_000 else 0.1
        return AdamSolver(n_passes, batch, float(learning_rate), revisit=revisit)
    # The departures from the paper's algorithm buy speed on large problems, and on sparse ones, where the literal one
    # would look at every sample for every coordinate; small ones do without.
    if name == "cpm-literal" or (n_samples <= CPM_LITERAL_UP_TO and not sparse):
        return CpmSolver(n_passes).literal()
    # With few rows between two exchanges, moving all classes at once oscillates.
    return replace(CpmSolver(n_passes), synchronous=n_components >= 8)
