"""Work on the engine itself, below the classifier: the loyalty machine's batch, and one epoch of Adam."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

BETA, GAMMA = 0.05, 20.0  # the paper's (section 4.4)


def loyalty_weights(n_classes: int) -> NDArray[np.float32]:
    """Class weights of the nominal model and of the 2m with one class times beta or gamma (section 3.1)."""
    changed = [np.where(np.eye(n_classes, dtype=bool), factor, 1.0) for factor in (BETA, GAMMA)]
    return np.vstack([np.ones((1, n_classes)), *changed]).astype(np.float32)


def batch_fit(
    X: NDArray[np.float32],
    y: NDArray[Any],
    q: int,
    solver: str,
    n_passes: int,
    class_weight: NDArray[np.float32],
    n_jobs: int,
) -> Any:
    """Train one model for each row of ``class_weight``, in one batch."""
    from multiform.engines import CpuEngine, solve
    from multiform.separators import Rows, Scaling
    from multiform.solvers import AdamSolver, CpmSolver, ModelBatch, TrainingProblem

    n_models, n_classes = class_weight.shape
    rows = Rows(X, Scaling(X.mean(axis=0), X.std(axis=0)))
    problem = TrainingProblem(rows, y.astype(np.int32), n_classes)
    noise = np.zeros(n_models, dtype=np.float32)
    batch = ModelBatch(q, 0.5, class_weight, noise, np.zeros(n_models, dtype=np.uint64))
    method = AdamSolver(n_passes, revisit=1.0) if solver == "adam" else CpmSolver(n_passes)
    return solve(problem, batch, method, CpuEngine(n_threads=n_jobs))


def batch_and_single_fits(
    X: NDArray[np.float32], y: NDArray[Any], q: int, solver: str, n_passes: int, n_jobs: int
) -> dict[str, Callable[[], Any]]:
    """The loyalty machine's 2m + 1 models as one batch, and the same models one after the other."""
    weights = loyalty_weights(len(np.unique(y)))

    def single() -> None:
        for row in weights:
            batch_fit(X, y, q, solver, n_passes, row[None, :], n_jobs)

    return {"batch": partial(batch_fit, X, y, q, solver, n_passes, weights, n_jobs), "single": single}


def epochs_and_products(
    X: NDArray[np.float32], y: NDArray[Any], q: int, n_epochs: int, n_jobs: int
) -> dict[str, Callable[[], Any]]:
    """Adam for one epoch, and for ``n_epochs`` more, that visit every sample; and the products of one epoch.

    The products are those that no epoch can do without: residuals ``X @ W`` and gradient ``R.T @ X``.
    """
    n_classes = len(np.unique(y))
    weight = np.ones((1, n_classes), dtype=np.float32)
    W = np.random.default_rng(0).standard_normal((X.shape[1], q * n_classes), dtype=np.float32)

    def products() -> None:
        np.matmul((X @ W).T, X)

    return {
        "one": partial(batch_fit, X, y, q, "adam", 1, weight, n_jobs),
        "more": partial(batch_fit, X, y, q, "adam", 1 + n_epochs, weight, n_jobs),
        "products": products,
    }
