"""What a fit does around training: one seed, samples held out, a look after each pass, nothing left half-fitted."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from multiform._typing import Array, Bools, Doubles, Floats, Indices
from multiform.folds import drawn_folds, held_out_part
from multiform.gaps import Filled
from multiform.prediction import (
    MOST_OFFSET,
    class_offsets,
    log_scores,
    mean_temperature,
    temperatures_and_losses,
)
from multiform.separators import Separators
from multiform.training import Trained, Trainer

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin  # for others to import from here
except ImportError:  # scikit-learn < 1.9, the only difference between its versions that concerns us

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Without callbacks in scikit-learn there is nothing to support."""


# From so many samples on, a held-out part is enough to calibrate; below it, models that have left an eighth out: one,
# two below 2,000 samples, eight below 400. Where they are the model together, it takes two at least.
HELD_OUT_FROM = 20_000
HELD_OUT = 2_000
EIGHTS = {400: 8, 2_000: 2}
PARTS_OF_ONE = 4  # of samples that one model has left out
TOGETHER_UP_TO = 2_000, 256  # samples and features, with any number of rows

ENOUGH_TO_WARN = 50  # unseen samples
ENOUGH_TRAINING_SAMPLES = 1_000
BY_HEART = 0.99  # training accuracy
WORTH_A_WARNING = 0.1  # how far below it others are: one in ten thousand is at chance and well learnt


class _Drawing(threading.local):
    """A stream of each thread, to be seeded: one that is made anew gathers entropy first, for twenty times as long."""

    def __init__(self) -> None:
        self.stream = np.random.RandomState()


_drawing = _Drawing()


def drawn_seed(random_state: Any) -> int:
    """A seed from scikit-learn's `random_state`."""
    if isinstance(random_state, Integral):
        _drawing.stream.seed(int(random_state))
        random_state = _drawing.stream
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


# ----------------------------------------------------------------------------------------------- held-out samples


def validation_split(target: Array, n_classes: int, fraction: float, seed: int, groups: Array | None) -> Indices:
    """The held-out samples of early stopping, balanced over the classes where each has two or more."""
    if groups is None:
        counts = np.bincount(target, minlength=n_classes)
        balanced = counts.min() > 1 and fraction * len(target) >= n_classes
        from sklearn.model_selection import train_test_split  # it takes a while to load

        _, held_out = train_test_split(
            np.arange(len(target)), test_size=fraction, random_state=seed, stratify=target if balanced else None
        )
    else:
        held_out = held_out_part(target, int(fraction * len(target)), np.random.default_rng(seed), groups)
    if len(np.unique(np.delete(target, held_out))) < n_classes:
        raise ValueError(
            "A class has no sample left after the validation split of QMSClassifier: "
            "lower validation_fraction, or give X_val and y_val."
        )
    return np.sort(held_out)


def training_masks(target: Array, seed: int, groups: Array | None, *, together: bool = False) -> list[Bools | None]:
    """What each member of the batch trains on: first the model (None: all), then those that only calibrate it.

    `together` they are the model, and nobody trains on all samples; unless a class cannot spare one.
    """
    n, n_classes = len(target), int(target.max()) + 1
    random = np.random.default_rng(seed)
    if n >= HELD_OUT_FROM:
        return [all_but(n, held_out_part(target, HELD_OUT, random, groups))]
    folds = drawn_folds(target, 8, random, groups)
    n_models = next((number for most, number in EIGHTS.items() if n < most), 2 if together else 1)
    left_out = np.bincount(folds * n_classes + target, minlength=8 * n_classes).reshape(8, n_classes)
    fits = left_out.any(axis=1) & (left_out < left_out.sum(axis=0)).all(axis=1)
    masks = [folds != fold for fold in range(n_models) if fits[fold]]
    return [*masks] if together and len(masks) > 1 else [None, *masks]


def all_but(n: int, held_out: Array) -> Bools:
    mask = np.ones(n, dtype=bool)
    mask[held_out] = False
    return mask


def masked_weights(masks: Sequence[Bools | None], weight: Array | None) -> list[Floats | None]:
    """The weights of samples per mask; None where there is nothing to say."""
    whole = None if weight is None else weight.astype(np.float32)
    return [whole if mask is None else (mask if whole is None else whole * mask).astype(np.float32) for mask in masks]


def unseen_scores(
    trainer: Trainer, models: Sequence[Sequence[Separators]], masks: Sequence[Bools | None]
) -> tuple[Array, Indices, Indices]:
    """-log f of the samples that a mask leaves out by each of its models, k for every mask: shape (k, n, m).

    And which samples they are, and by which mask.
    """
    scores, samples = [np.empty((len(models[0]), 0, trainer.n_classes))], [np.empty(0, dtype=np.intp)]
    for of_mask, mask in zip(models, masks, strict=True):
        if mask is not None and not mask.all():
            samples.append(np.flatnonzero(~mask))
            f = trainer.values(Separators.stack(of_mask), samples[-1])
            scores.append(log_scores(f).reshape(len(f), -1, trainer.n_classes).swapaxes(0, 1))
    by_mask = np.repeat(np.arange(len(samples)), [*map(len, samples)])
    return np.concatenate(scores, axis=1), np.concatenate(samples), by_mask


def best_calibrated(scores: Array, target: Array, weight: Array | None) -> tuple[int, float]:
    """Which of several models has the least log loss on unseen samples, each at its own temperature; and that.

    Their scores have the shape (k, n, m).
    """
    temperatures, losses = temperatures_and_losses(scores, target, weight)
    best = int(np.argmin(losses))
    return best, float(temperatures[best])


class Calibrated(NamedTuple):
    """What unseen samples say of several models: the best, its temperature and accuracy, what classes lack."""

    best: int
    temperature: float
    offsets: Doubles | None
    accuracy: float


def honestly_calibrated(
    scores: Array, target: Array, weight: Array | None, parts: Indices, counted: Array | None = None
) -> Calibrated:
    """The best of several models on unseen samples, and figures of it that do not believe in what was chosen by them.

    What these are found on is judged part by part, each by the model, and the offsets of classes, that the other parts
    choose. The model's own offsets are the mean of these.

    Parameters
    ----------
    scores : array of shape (k, n, m)
    target, weight : arrays of shape (n,)
    parts : array of shape (n,)
        Of which part each sample is. Where all are of one and there are offsets, quarters of it judge each other.
    counted : array of shape (n,), or None
        How often each sample counts where answers are given, for the offsets; None: there are none.
    """
    best, temperature = best_calibrated(scores, target, weight)
    judged = scores[best] / temperature
    if counted is not None and parts.min() == parts.max():
        parts = np.arange(len(parts)) % PARTS_OF_ONE
    found = np.flatnonzero(np.bincount(parts))
    held_out = [parts == part for part in found] if len(found) > 1 else []
    if len(scores) > 1:
        for held in held_out:
            others = ~held
            of_others = target[others], None if weight is None else weight[others]
            chosen, at = best_calibrated(scores[:, others], *of_others)
            judged[held] = scores[chosen][held] / at
    offsets = None
    if counted is not None and held_out:
        most = MOST_OFFSET / temperature
        lacking = [
            class_offsets(judged[others], target[others], counted[others], most, 1.0)
            for others in (~held for held in held_out)
        ]
        for held, one in zip(held_out, lacking, strict=True):
            judged[held] += one
        offsets = np.asarray(sum(lacking) / len(lacking) * temperature)
    accuracy = _share(judged.argmax(axis=1) == target, weight)
    return Calibrated(best, temperature * mean_temperature(judged, target, weight), offsets, accuracy)


def _share(true: Bools, weight: Array | None) -> float:
    return float(true.mean() if weight is None else weight @ true / weight.sum())


class OverfittedWarning(UserWarning):
    """A model knows its training samples by heart and is no better than chance on others."""


def warn_if_overfitted(trainer: Trainer, model: Separators, unseen: Array, target: Array, weight: Array | None) -> None:
    """Warn where the model is right on its training samples, and not above chance on unseen ones (their scores)."""
    right = _share(unseen.argmax(axis=1) == target, weight)
    chance = np.bincount(target, weights=weight).max() / (len(target) if weight is None else weight.sum())
    if len(target) < ENOUGH_TO_WARN or right > chance + np.sqrt(chance * (1 - chance) / len(target)):
        return
    some = slice(None, None, max(1, len(trainer.target) // ENOUGH_TRAINING_SAMPLES))
    learnt = np.mean(trainer.values(model, some).argmin(axis=1) == trainer.target[some])
    if learnt >= BY_HEART and right < learnt - WORTH_A_WARNING:
        warnings.warn(
            f"QMSClassifier is right on {learnt:.0%} of its training samples, but on {right:.0%} of those held out, no "
            f"better than the most frequent class ({chance:.0%}): do not trust its answers. Try QMSClassifierCV, a "
            "larger noise, fewer columns or more samples, and see whether X says anything about y.",
            OverfittedWarning,
            stacklevel=4,
        )


# ----------------------------------------------------------------------------------------------- after each pass


class Validation(NamedTuple):
    """Held-out samples, weighted as the loss weights them."""

    X: Any
    target: Array
    weight: Array

    def values(self, separators: Separators, engine: Any) -> Array:
        """f of the samples; of one that had gaps, the expectation."""
        if isinstance(self.X, Filled):
            return self.X.added(separators.values(self.X.rows, engine), separators)
        return separators.values(self.X, engine)


class Monitor:
    """Called with the state after each pass of a model's fit; True ends it.

    `separators` are a state's, to be validated, and the best are kept; `fitted` its fitted attributes, for callbacks.
    """

    def __init__(
        self,
        model: Any,
        n_passes: int,
        validation: Validation | None,
        trainer: Trainer,
        separators: Callable[[Trained], Separators],
        fitted: Callable[[Trained], dict[str, Any]],
    ) -> None:
        self._model, self._n_passes, self._validation = model, n_passes, validation
        self._trainer, self._separators, self._fitted = trainer, separators, fitted
        self._callbacks: Any = None  # scikit-learn's, around the passes of this fit
        if getattr(model, "_skl_callbacks", None) or hasattr(model, "_parent_callback_ctx"):
            self._callbacks = model._init_callback_context(max_subtasks=n_passes)
            self._callbacks.call_on_fit_task_begin(estimator=model)
        self._since_best, self._begin = 0, time.monotonic()
        self.scores: list[float] = []
        self.best: Separators | None = None

    @property
    def needed(self) -> bool:
        watched = self._validation is not None or self._callbacks is not None or self._model.verbose > 0
        return watched or self._model.solver != "adam"

    def __call__(self, state: Trained) -> bool:
        stop = False
        if self._validation is not None:
            stop = self._validate(state, self._validation)
        elif self._model.solver != "adam":
            stop = self._converged(state.losses[0])
        if self._callbacks is not None:
            task = self._callbacks.subcontext(task_name="pass")
            task.call_on_fit_task_begin(estimator=self._model)
            fitted = {"reconstruction_attributes": lambda: self._fitted(state)}
            stop |= bool(task.call_on_fit_task_end(estimator=self._model, **fitted))
        if self._model.verbose:
            self._show(state)
        return bool(stop)

    def _converged(self, losses: list[float]) -> bool:
        """CPM: whether none of the last sweeps lowered the loss by more than a share `tol` of it."""
        recent = losses[-1 - self._model.n_iter_no_change :]
        if len(recent) <= self._model.n_iter_no_change:
            return False
        return recent[0] - min(recent) <= float(self._model.tol) * abs(recent[0])

    def _validate(self, state: Trained, validation: Validation) -> bool:
        separators = self._separators(state)
        correct = validation.values(separators, self._trainer.engine).argmin(axis=1) == validation.target
        score = float(np.average(correct, weights=validation.weight if validation.weight.any() else None))
        if self.best is None or score > max(self.scores):
            self.best = deepcopy(separators)  # training goes on with the coefficients
        improved = not self.scores or score > max(self.scores) + self._model.tol
        self._since_best = 0 if improved else self._since_best + 1
        self.scores.append(score)
        return self._since_best >= int(self._model.n_iter_no_change)

    def _show(self, state: Trained) -> None:
        text = f"QMSClassifier: pass {state.passes}/{self._n_passes}, loss {state.losses[0][-1]:.4f}"
        if self.scores:
            text += f", validation accuracy {self.scores[-1]:.4f}"
        left = (time.monotonic() - self._begin) / state.passes * (self._n_passes - state.passes)
        text += f", {left:.0f} s left" if state.passes < self._n_passes else ""
        # What is no terminal gets whole lines.
        sys.stderr.write(f"\r{text:<79}" if sys.stderr.isatty() else f"{text}\n")
        sys.stderr.flush()

    def close(self, fitted: dict[str, Any]) -> None:
        if self._model.verbose and sys.stderr.isatty():
            sys.stderr.write("\n")
        if self._callbacks is not None:
            self._callbacks.call_on_fit_task_end(estimator=self._model, reconstruction_attributes=lambda: fitted)
