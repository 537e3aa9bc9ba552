"""The machine around QMS: all models in a few batches over one matrix, the altered ones started from the nominal.

The loss of an altered model differs from the nominal's in one class only. On large data a few passes from the nominal
are therefore enough, and most samples have nothing to say: a pair with ``f_y / f_j`` far below alpha has no gradient
and will not get one soon. What remains is sampled: samples that the altered class touches (its own, and those near
it) are all kept; of the others a share is drawn and weighted by its inverse, so that the expected gradient stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from multiform.classifier import QMSClassifier
from multiform.inputs import TrainingInput, prepare
from multiform.labels import class_weights_of, of_mean_one
from multiform.loyalty._alterations import Alterations
from multiform.loyalty._committee import Committee
from multiform.solvers import (
    AdamSolver,
    ModelBatch,
    Solver,
    TrainingProblem,
    TrainingState,
    solve,
    with_noise_row,
)

__all__ = ["QuadraticTrainer"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.intp]

# Chosen on a validation part of Fashion-MNIST's training data (docs/loyalty.md).
ALTERED_SHARE = 1 / 3  # passes of an altered model, of the nominal's
ALTERED_RATE = 0.5  # learning rate of an altered model, of the nominal's
ALTERED_REVISIT = 0.05  # see AdamSolver
NEAR = 0.55  # a pair with f_y / f_j above this share of alpha may become active
DRAWN = 0.1  # share of the samples drawn that the altered class does not touch
SAMPLED_FROM = 5_000  # fewer samples are all visited, for as many passes as the nominal's


class QuadraticTrainer:
    """Trains committees of QMS classifiers.

    Parameters
    ----------
    estimator : QMSClassifier
        Its parameters hold for every model.
    X, target, classes, weight
        The training data, checked.
    alterations : Alterations
    altered_iter : int or "auto"
        Passes of an altered model.
    """

    def __init__(
        self,
        estimator: QMSClassifier,
        X: Any,
        target: npt.NDArray[np.int32],
        classes: Array,
        weight: Array | None,
        alterations: Alterations,
        altered_iter: int | str,
    ) -> None:
        estimator._validate_params()  # as its own fit would
        self._estimator, self._classes, self._weight, self._alterations = estimator, classes, weight, alterations
        self._seed = int(check_random_state(estimator.random_state).randint(np.iinfo(np.int32).max))
        class_weights = class_weights_of(estimator.class_weight, classes, target, weight)
        self._class_weights = of_mean_one(class_weights, weight)
        self._data: TrainingInput = prepare(X, estimator.scaling, weight, estimator.n_jobs)
        self._problem = TrainingProblem(
            self._data.rows, target, len(classes), self._data.read_center, self._data.read_scale, estimator.device
        )
        n = len(target)
        self._n_components = estimator._n_components(n, X.shape[1], len(classes))
        self._solver = estimator._solver(n, self._n_components)
        self._sampled = n >= SAMPLED_FROM and isinstance(self._solver, AdamSolver)
        self._altered_solver = _altered(self._solver, altered_iter, few=n >= SAMPLED_FROM)

    def committees(self, parts: list[Rows | None]) -> Iterator[Committee]:
        """One committee for each part of the rows (None is all of them): the nominals together, then each one's 2m."""
        masks = [self._mask(rows) for rows in parts]
        stacked = None if all(mask is None for mask in masks) else np.stack([self._whole(mask) for mask in masks])
        nominals = self._solve(self._solver, np.ones((len(parts), len(self._classes))), stacked, None)
        for part, mask in enumerate(masks):
            nominal, factors = nominals.weights[part], self._alterations.factors
            state = self._solve(self._altered_solver, factors, self._visited(nominal, mask), [nominal] * len(factors))
            altered = [self._classifier(state, member) for member in range(len(factors))]
            yield Committee(self._classes, self._alterations, self._classifier(nominals, part), altered)

    def _solve(
        self, solver: Solver, factors: Array, sample_weight: Floats | None, start: list[Floats] | None
    ) -> TrainingState:
        batch = ModelBatch(
            n_components=self._n_components,
            alpha=float(self._estimator.alpha),
            class_weight=(factors * self._class_weights).astype(np.float32),
            noise=np.full(len(factors), self._estimator.noise, dtype=np.float32),
            seed=np.full(len(factors), self._seed, dtype=np.uint64),
            sample_weight=sample_weight,
            start=start,
        )
        return solve(self._problem, batch, solver, n_jobs=self._estimator.n_jobs)

    def _visited(self, nominal: Floats, mask: Floats | None) -> Floats | None:
        """The weight of each sample for each altered model, 0 for those that it need not visit: shape (2m, n)."""
        target = self._problem.target
        n = len(target)
        if not self._sampled:
            return mask
        f = self._values(nominal)
        own = f[np.arange(n), target]
        # near[x, j]: the pair of x's class with j matters; no class is near itself
        near = own[:, None] > NEAR * self._estimator.alpha * f
        near[np.arange(n), target] = False
        matters = near.any(axis=1)
        touched = near  # and a class touches its own samples
        touched[np.arange(n), target] = True
        drawn = np.random.default_rng(self._seed).random(n) < DRAWN
        whole = self._whole(mask)
        visited = np.empty((len(self._alterations), n), dtype=np.float32)
        for member, (_, altered) in enumerate(self._alterations):
            share = np.where(touched[:, altered], 1, drawn / DRAWN)
            visited[member] = whole * matters * share
        return visited

    def _values(self, weights: Floats) -> Floats:
        separators = with_noise_row(weights, self._estimator.noise)
        problem = self._problem
        return problem.member_values(separators, self._estimator.n_jobs)

    def _mask(self, rows: Rows | None) -> Floats | None:
        """Weights of the samples, 0 outside the rows."""
        if rows is None:
            return None if self._weight is None else self._weight.astype(np.float32)
        mask = np.zeros(len(self._problem.target), dtype=np.float32)
        mask[rows] = 1 if self._weight is None else self._weight[rows]
        return mask

    def _whole(self, mask: Floats | None) -> Floats:
        return np.ones(len(self._problem.target), dtype=np.float32) if mask is None else mask

    def _classifier(self, state: TrainingState, member: int) -> QMSClassifier:
        """A member of the batch as a fitted classifier of its own."""
        model = QMSClassifier(**self._estimator.get_params())
        model.__dict__.update(
            self._estimator._fitted_attributes(state.weights[member], self._data, self._classes),
            n_iter_=state.passes,
            loss_curve_=state.losses[member],
            temperature_=1.0,
            n_features_in_=len(self._data.center),
        )
        return model


def _altered(solver: Solver, altered_iter: int | str, few: bool) -> Solver:
    """The solver of the altered models; with many samples, few and gentle passes do."""
    n_passes = solver.n_passes if altered_iter == "auto" else int(altered_iter)
    if few and altered_iter == "auto":
        n_passes = max(1, round(ALTERED_SHARE * n_passes))
    if few and isinstance(solver, AdamSolver):
        rate = ALTERED_RATE * solver.learning_rate
        return replace(solver, n_passes=n_passes, learning_rate=rate, revisit=ALTERED_REVISIT)
    return replace(solver, n_passes=n_passes)  # type: ignore[type-var]
