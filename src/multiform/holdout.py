"""Which samples a model must not see, so that it can be validated and calibrated on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import train_test_split

from multiform.calibration import fit_temperature, log_scores
from multiform.inputs import content_folds
from multiform.solvers import TrainingProblem, member_values

__all__ = ["Mask", "all_but", "masked_weights", "training_masks", "unseen_temperature", "validation_split"]

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

# From so many samples on, a held-out part is enough to calibrate; below it, a model or four that left a part out.
MANY_SAMPLES = 20_000
HELD_OUT = 2_000
FEW_SAMPLES = 400


def validation_split(target: Array, n_classes: int, fraction: float, seed: int) -> npt.NDArray[np.intp]:
    """The held-out samples of early stopping, balanced over the classes where each has two or more."""
    counts = np.bincount(target, minlength=n_classes)
    balanced = counts.min() > 1 and fraction * len(target) >= n_classes
    _, held_out = train_test_split(
        np.arange(len(target)), test_size=fraction, random_state=seed, stratify=target if balanced else None
    )
    if len(np.unique(np.delete(target, held_out))) < n_classes:
        raise ValueError(
            "A class has no sample left after the validation split of QMSClassifier: "
            "lower validation_fraction, or give X_val and y_val."
        )
    return np.sort(held_out)


def training_masks(X: Any, target: Array, seed: int) -> list[Mask | None]:
    """What each member of the batch trains on: first the model (None: all), then those that only calibrate it."""
    n, n_classes = len(target), int(target.max()) + 1
    random = np.random.default_rng(seed)
    if n >= MANY_SAMPLES:
        held_out = random.choice(n, HELD_OUT, replace=False)
        # A class keeps at least half of its samples.
        counts, taken = np.bincount(target), np.bincount(target[held_out], minlength=n_classes)
        return [all_but(n, held_out[(2 * taken <= counts)[target[held_out]]])]
    folds = content_folds(X, target, 4, random)
    masks = [folds != fold for fold in range(4 if n < FEW_SAMPLES else 1)]
    return [None, *(mask for mask in masks if len(np.unique(target[mask])) == n_classes and not mask.all())]


def all_but(n: int, held_out: Array) -> Mask:
    mask = np.ones(n, dtype=bool)
    mask[held_out] = False
    return mask


def masked_weights(masks: Sequence[Mask | None], weight: Array | None) -> npt.NDArray[np.float32] | None:
    """A row of sample weights per mask; None when there is nothing to say."""
    if weight is None and all(mask is None for mask in masks):
        return None
    n = next(len(part) for part in (weight, *masks) if part is not None)
    whole = np.ones(n, dtype=np.float32) if weight is None else weight
    return np.stack([whole if mask is None else whole * mask for mask in masks]).astype(np.float32)


def unseen_temperature(
    problem: TrainingProblem,
    models: Sequence[npt.NDArray[np.float32]],
    masks: Sequence[Mask | None],
    weight: Array | None,
    n_jobs: int | None,
) -> float:
    """The temperature on the samples that each model did not see; 1 when no class could spare a sample."""
    f, samples = [], []
    for model, mask in zip(models, masks, strict=True):
        if mask is not None and not mask.all():
            samples.append(np.flatnonzero(~mask))
            f.append(member_values(problem.X[samples[-1]], model, problem.center, problem.scale, n_jobs=n_jobs))
    if not samples:
        return 1.0
    unseen = np.concatenate(samples)
    share = None if weight is None else weight[unseen]
    return fit_temperature(log_scores(np.concatenate(f)), problem.target[unseen], share)
