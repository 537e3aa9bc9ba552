"""A fit over blocks: rows that do not fit the memory are gone through once to be known, and once for every pass.

The first time counts the classes, finds the scaling, and draws rows at random: some that are held out to calibrate the
chances, and some that the start looks at. In a pass the blocks come in a random order, as far as their source has one,
and are put together to buffers of bounded size; each buffer is trained over in a random order while the next one is
read. Coefficients and moments go on from buffer to buffer, and the learning rate follows one cosine over the whole fit.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from multiform import progress
from multiform._typing import Array, Bools, Doubles, Indices, Ints
from multiform.blocks import Block, Source, ahead, buffered
from multiform.defaults import auto_passes, batch_size_for, components_for, usual_noise
from multiform.fitting import HELD_OUT
from multiform.inputs import as_applied, class_weights_of, column_figures, of_mean_one, scaling_by
from multiform.prediction import log_scores, mean_temperature
from multiform.separators import Scaling, Separators
from multiform.solvers import AdamSolver, Moments
from multiform.starts import ENOUGH_SAMPLES
from multiform.training import Member, Trained, Trainer

__all__ = ["SortedRowsWarning", "Streamed", "small_enough", "stream"]

SMALL_BYTES = 1 << 27  # of X in single precision: with no more nothing is gained by blocks
BUFFER_BYTES = 1 << 24  # two of them are held, and what is being read
MOST_CLASSES = 10_000
FREQUENT = 0.05  # share of rows from which on a class is to be in every full buffer
LEAST_RATE = 1e-6  # of the first, so that a share of it can be told


class SortedRowsWarning(UserWarning):
    """Rows come sorted by class, and a pass ends with those of the last one."""


@dataclass(frozen=True, eq=False)
class Streamed:
    """What came out of a fit over blocks."""

    separators: Separators
    classes: Array
    temperature: float
    judged: dict[str, Any]  # the accuracy on rows held out, and their number, where there are any
    noise: float
    passes: int
    losses: list[float]


def small_enough(source: Source, name: str) -> Block | None:
    """All rows of a source that has no more than SMALL_BYTES; None of a larger one."""
    with closing(buffered(_checked(source, None, name), SMALL_BYTES)) as buffers:
        first = next(buffers, None)
        if first is None:
            raise ValueError(f"X of {name} has no rows.")
        return first if next(buffers, None) is None else None


def stream(model: Any, source: Source, seed: int) -> Streamed:
    """The separators of a QMSClassifier for the rows of a source."""
    name = type(model).__name__
    known = _first_look(model, source, seed)
    n, p, m = int(known.counts.sum()) - known.n_held_out, known.scaling.center.size, len(known.classes)
    batch_size = batch_size_for(model.batch_size, n)
    n_passes = auto_passes(n, batch_size, "adam") if isinstance(model.max_iter, str) else int(model.max_iter)
    q = components_for(model.n_components, n, p, m)
    noise = usual_noise(n, p) if isinstance(model.noise, str) else float(model.noise)
    class_weights = of_mean_one(_class_weights(model, known), None)
    with known.trainer(model, slice(known.n_held_out, None)) as trainer:
        starts = trainer.starts([seed + member for member in range(model.n_models)], q, noise)
    moments: list[Moments] | None = None
    losses: list[float] = []
    sorted_rows = False
    shown = _Progress(model, n, n_passes)
    for number in range(n_passes):
        done, lost = 0, 0.0
        blocks = _checked(source, np.random.default_rng([seed, number]), name, p)
        with closing(ahead(buffered(_without_held_out(blocks, known, seed), BUFFER_BYTES))) as buffers:
            for place, X, y in buffers:
                first, last = (_cosine((number + rows / n) / n_passes) for rows in (done, done + len(y)))
                solver = AdamSolver(
                    1, batch_size, first * float(model.learning_rate), revisit=1.0, final_rate=last / first
                )
                members = [
                    Member(drawn, noise, class_weights, None, None, start)
                    for drawn, start in zip(_seeds([seed, number, place], len(starts)), starts, strict=True)
                ]
                target = _codes(y, known.classes, name)
                sorted_rows = sorted_rows or _lacks_a_frequent_class(target, known)
                begin, end = ((1 + number + rows / n) / (1 + n_passes) for rows in (done, done + len(y)))
                with (
                    progress.part(begin, end),
                    Trainer.of(model, X, target, known.classes, None, scaling=known.scaling) as trainer,
                ):
                    trained = trainer.train(members, solver, q, moments=moments)
                starts, moments = trained.coefficients, trained.moments
                done, lost = done + len(y), lost + trained.losses[0][-1] * len(y)
                shown.show(number, done, lost / done)
        if done != n:
            raise ValueError(
                f"X of {name} had {n:,} rows to train on when it was gone through first, and {done:,} in pass "
                f"{number + 1}; a source must give the same rows every time."
            )
        losses.append(lost / done)
    shown.close()
    if sorted_rows:
        warnings.warn(
            f"The rows of X of {name} seem to be sorted: a buffer of them lacked a class that is frequent, and the "
            "model leans to what it has seen last. Write them in a random order once (shuffle), or as a Parquet "
            "file of many small row groups, which are read in a random order.",
            SortedRowsWarning,
            stacklevel=6,
        )
    return _calibrated(model, known, trained, noise, n_passes, losses)


def _cosine(share: float) -> float:
    """The learning rate at this share of the fit, of the first."""
    return max(LEAST_RATE, 0.5 + 0.5 * float(np.cos(np.pi * min(1.0, share))))


def _seeds(of: list[int], n: int) -> list[int]:
    return [int(drawn) for drawn in np.random.default_rng(of).integers(np.iinfo(np.int32).max, size=n)]


# ------------------------------------------------------------------------------------------------ the first look


@dataclass(frozen=True, eq=False)
class _Known:
    """What the first time through has found.

    Every row has a number from 0 to 1, drawn at random. Those of the smallest ones are `rows`, in that order: first the
    `n_held_out` that are not trained on, their numbers up to `threshold`.
    """

    classes: Array
    counts: Indices
    scaling: Scaling
    rows: Array
    target: Ints
    n_held_out: int
    threshold: float

    def trainer(self, model: Any, part: slice) -> Trainer:
        """Of some of the rows."""
        return Trainer.of(model, self.rows[part], self.target[part], self.classes, None, scaling=self.scaling)


def _first_look(model: Any, source: Source, seed: int) -> _Known:
    name = type(model).__name__
    columns = _Columns(model.n_jobs)
    classes, counts = np.empty(0, dtype=object), np.empty(0)
    n_held_out = HELD_OUT if model.calibrate else 0
    drawn = _Drawn(n_held_out + ENOUGH_SAMPLES)
    with closing(ahead(_checked(source, None, name))) as blocks:
        for block in blocks:
            columns.add(block.X)
            labels, n = np.unique(block.y, return_counts=True)
            found: Array = np.concatenate([classes, labels]) if len(classes) else labels
            classes, places = np.unique(found, return_inverse=True)
            counts = np.bincount(places, weights=np.concatenate([counts, n])).astype(np.float64)
            if len(classes) > MOST_CLASSES:
                raise ValueError(f"y of {name} has more than {MOST_CLASSES:,} different labels: is it a measurement?")
            drawn.add(block, _numbers(block, seed))
    check_classification_targets(classes)
    if len(classes) < 2:
        raise ValueError(f"{name} needs samples of at least 2 classes in y; got 1 class, {classes[0]}.")
    numbers, rows, labels = drawn.rows()
    threshold = float(numbers[n_held_out - 1]) if n_held_out else -1.0
    target = _codes(labels, classes, name)
    scaling = columns.scaling(model.scaling)
    return _Known(classes, counts.astype(np.intp), scaling, rows, target, n_held_out, threshold)


def _numbers(block: Block, seed: int) -> Doubles:
    """A number from 0 to 1 for every row, the same whenever it is read."""
    return np.random.default_rng([seed, block.number]).random(len(block.y))


class _Drawn:
    """The rows of the smallest numbers so far."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: tuple[Doubles, Array, Array] | None = None

    def add(self, block: Block, numbers: Doubles) -> None:
        parts: tuple[Array, ...] = numbers, block.X, block.y
        if self._kept is not None:
            few = numbers < self._kept[0][-1] if len(self._kept[0]) == self._most else np.ones(len(numbers), dtype=bool)
            if not few.any():
                return
            parts = tuple(np.concatenate([old, new[few]]) for old, new in zip(self._kept, parts, strict=True))
        order = np.argsort(parts[0], kind="stable")[: self._most]
        self._kept = parts[0][order], parts[1][order], parts[2][order]

    def rows(self) -> tuple[Doubles, Array, Array]:
        assert self._kept is not None
        return self._kept


class _Columns:
    """Mean, variance and extremes of columns that come in parts (Chan, Golub and LeVeque 1979)."""

    def __init__(self, n_jobs: int | None) -> None:
        self._n_jobs, self._n, self._kind = n_jobs, 0, np.dtype(np.uint8)
        self._mean = self._scatter = self._least = self._most = np.empty(0)

    def add(self, X: Array) -> None:
        mean, deviation, least, most = column_figures(X, None, self._n_jobs)
        n, scatter = len(X), len(X) * deviation**2
        if self._n:
            apart = mean - self._mean
            scatter = self._scatter + scatter + apart**2 * (self._n * n / (self._n + n))
            mean = self._mean + apart * (n / (self._n + n))
            least, most = np.minimum(self._least, least), np.maximum(self._most, most)
        self._kind = np.result_type(self._kind, X.dtype)
        self._n, self._mean, self._scatter, self._least, self._most = self._n + n, mean, scatter, least, most

    def scaling(self, rule: str) -> Scaling:
        moments = self._mean, np.sqrt(self._scatter / self._n), self._least, self._most
        chosen = scaling_by(rule, moments, self._kind, self._kind, moments[2:])
        return as_applied(chosen, self._kind in (np.float32, np.uint8))


# ----------------------------------------------------------------------------------------------- rows of a source


def _checked(
    source: Source, random: np.random.Generator | None, name: str, n_features: int | None = None
) -> Generator[Block]:
    """The blocks of a source; all have the same columns, and finite numbers."""
    for block in source.blocks(random):
        n_features = block.X.shape[1] if n_features is None else n_features
        if block.X.shape[1] != n_features:
            raise ValueError(
                f"The blocks of X of {name} must have the same columns; got {n_features} and {block.X.shape[1]}."
            )
        X = block.X if block.X.dtype in (np.uint8, np.float32) else block.X.astype(np.float64)
        if X.dtype.kind == "f" and not np.isfinite(X.sum(dtype=np.float64)) and not np.isfinite(X).all():
            bad = int(np.flatnonzero(~np.isfinite(X).all(axis=0))[0])
            column = repr(source.names[bad]) if source.names else bad
            raise ValueError(
                f"Column {column} of X of {name} holds NaN or infinity. Missing values are read in arrays and tables "
                "that fit the memory only; impute them first, or leave these rows or the column out."
            )
        yield block._replace(X=X)


def _without_held_out(blocks: Generator[Block], known: _Known, seed: int) -> Generator[Block]:
    for block in blocks:
        kept: Bools = _numbers(block, seed) > known.threshold
        yield block if kept.all() else Block(block.number, block.X[kept], block.y[kept])


def _codes(y: Array, classes: Array, name: str) -> Ints:
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    if (classes[codes] != y).any():
        raise ValueError(f"y of {name} holds a label that was not there when it was gone through first.")
    return codes.astype(np.int32)


def _lacks_a_frequent_class(target: Ints, known: _Known) -> bool:
    """Of a hundred rows or more; such a class is missing by chance in one of 150 such buffers at most."""
    frequent = known.counts >= FREQUENT * known.counts.sum()
    return len(target) >= 100 and bool((np.bincount(target, minlength=len(frequent))[frequent] == 0).any())


def _class_weights(model: Any, known: _Known) -> Array:
    """By scikit-learn's rules, from the counts alone: a sample of each class that stands for all."""
    each = np.arange(len(known.classes))
    return class_weights_of(model.class_weight, known.classes, each, known.counts.astype(np.float64))


# --------------------------------------------------------------------------------------------------- what comes out


def _calibrated(
    model: Any, known: _Known, trained: Trained, noise: float, passes: int, losses: list[float]
) -> Streamed:
    separators, temperature = trained.merged(range(model.n_models)), 1.0
    judged: dict[str, Any] = {}
    if known.n_held_out:
        with known.trainer(model, slice(known.n_held_out)) as trainer:
            scores = log_scores(trainer.values(separators, slice(None)))
        temperature = mean_temperature(scores, trainer.target)
        right = scores.argmax(axis=1) == trainer.target
        judged = {"oof_accuracy_": float(right.mean()), "oof_samples_": len(right)}
    return Streamed(separators, known.classes, temperature, judged, noise, passes, losses)


class _Progress:
    """Rows done and the time left, for `verbose`."""

    def __init__(self, model: Any, n_rows: int, n_passes: int) -> None:
        self._verbose, self._n_rows, self._n_passes = model.verbose, n_rows, n_passes
        self._start = time.monotonic()

    def show(self, number: int, rows: int, loss: float) -> None:
        if not self._verbose:
            return
        share = (number + rows / self._n_rows) / self._n_passes
        left = (time.monotonic() - self._start) * (1 - share) / share
        end = "\r" if sys.stderr.isatty() else "\n"
        sys.stderr.write(
            f"QMSClassifier: pass {number + 1}/{self._n_passes}, {rows:,} of {self._n_rows:,} rows, loss {loss:.4f}, "
            f"{left:.0f} s left{end}"
        )
        sys.stderr.flush()

    def close(self) -> None:
        if self._verbose and sys.stderr.isatty():
            sys.stderr.write("\n")
