"""Which samples a model must not see, so that it can be validated and calibrated on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from multiform._typing import Array, Bools, Floats, Indices
from multiform.calibration import fit_temperature, log_scores
from multiform.inputs import content_folds
from multiform.separators import Separators
from multiform.training import Trainer

__all__ = ["all_but", "masked_weights", "training_masks", "unseen_temperature", "validation_split"]

# From so many samples on, a held-out part is enough to calibrate; below it, a model or four that left a part out.
HELD_OUT_FROM = 20_000
HELD_OUT = 2_000
FOUR_MODELS_BELOW = 400


def validation_split(target: Array, n_classes: int, fraction: float, seed: int) -> Indices:
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


def training_masks(X: Any, target: Array, seed: int) -> list[Bools | None]:
    """What each member of the batch trains on: first the model (None: all), then those that only calibrate it."""
    n, n_classes = len(target), int(target.max()) + 1
    random = np.random.default_rng(seed)
    if n >= HELD_OUT_FROM:
        held_out = random.choice(n, HELD_OUT, replace=False)
        # A class keeps at least half of its samples.
        counts, taken = np.bincount(target), np.bincount(target[held_out], minlength=n_classes)
        return [all_but(n, held_out[(2 * taken <= counts)[target[held_out]]])]
    folds = content_folds(X, target, 4, random)
    masks = [folds != fold for fold in range(4 if n < FOUR_MODELS_BELOW else 1)]
    return [None, *(mask for mask in masks if len(np.unique(target[mask])) == n_classes and not mask.all())]


def all_but(n: int, held_out: Array) -> Bools:
    mask = np.ones(n, dtype=bool)
    mask[held_out] = False
    return mask


def masked_weights(masks: Sequence[Bools | None], weight: Array | None) -> list[Floats | None]:
    """The weights of samples per mask; None where there is nothing to say."""
    whole = None if weight is None else weight.astype(np.float32)
    return [whole if mask is None else (mask if whole is None else whole * mask).astype(np.float32) for mask in masks]


def unseen_temperature(trainer: Trainer, models: Sequence[Separators], masks: Sequence[Bools | None]) -> float:
    """The temperature on the samples that each model did not see; 1 when no class could spare a sample."""
    f, samples = [], []
    for model, mask in zip(models, masks, strict=True):
        if mask is not None and not mask.all():
            samples.append(np.flatnonzero(~mask))
            f.append(trainer.values(model, samples[-1]))
    if not samples:
        return 1.0
    unseen = np.concatenate(samples)
    weight = None if trainer.weight is None else trainer.weight[unseen]
    return fit_temperature(log_scores(np.concatenate(f)), trainer.target[unseen], weight)
