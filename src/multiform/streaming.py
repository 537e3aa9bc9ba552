"""A fit over blocks: rows that do not fit the memory are gone through once to be known, and once for every pass.

The first time counts the classes, finds the scaling, and draws rows at random: some that are held out to calibrate the
chances, and some that the start looks at, from which is also learnt what gaps are filled by. In a pass the blocks come
in a random order, as far as their source has one, and are put together to buffers of bounded size; each buffer is
trained over in a random order while the next one is read. Coefficients and moments go on from buffer to buffer, and the
learning rate follows one cosine over the whole fit.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, closing
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from multiform import progress
from multiform._typing import Array, Bools, Doubles, Floats, Indices, Ints
from multiform.blocks import Block, Source, ahead, buffered
from multiform.defaults import auto_passes, batch_size_for, components_for, usual_noise
from multiform.fitting import HELD_OUT
from multiform.gaps import MOST_SAMPLES, Gaussian
from multiform.inputs import (
    as_applied,
    class_weights_of,
    column_figures,
    gaussian_of,
    of_mean_one,
    scaling_by,
    surely_finite,
)
from multiform.prediction import log_scores, mean_temperature
from multiform.separators import Scaling, Separators
from multiform.solvers import AdamSolver, Moments
from multiform.starts import ENOUGH_SAMPLES
from multiform.training import Member, Trainer

__all__ = ["Known", "Look", "Plan", "Shown", "SortedRowsWarning", "State", "Streamed", "small_enough", "stream"]

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
    plan: Plan
    losses: list[float]
    gaussian: Gaussian | None  # of rows that have gaps


def small_enough(source: Source, name: str) -> Block | None:
    """All rows of a source that has no more than SMALL_BYTES; None of a larger one."""
    with closing(buffered(_checked(source, None, name, "expectation"), SMALL_BYTES)) as buffers:
        first = next(buffers, None)
        if first is None:
            raise ValueError(f"X of {name} has no rows.")
        return first if next(buffers, None) is None else None


def stream(model: Any, source: Source, seed: int) -> Streamed:
    """The separators of a QMSClassifier for the rows of a source."""
    name, missing = type(model).__name__, model.missing
    look = Look(model, seed)
    with closing(ahead(_checked(source, None, name, missing))) as blocks:
        for block in blocks:
            look.add(block)
    known = look.known()
    plan = Plan.of(model, known)
    state = State(known.starts(model, plan, seed))
    losses: list[float] = []
    sorted_rows = False
    shown = Shown(model, plan)
    for number in range(plan.n_passes):
        done, lost = 0, 0.0
        blocks = _checked(source, np.random.default_rng([seed, number]), name, missing, known.n_features)
        with closing(ahead(buffered(_without_held_out(blocks, known), BUFFER_BYTES))) as buffers:
            for place, X, y in buffers:
                target = known.codes(y, name)
                sorted_rows = sorted_rows or known.lacks_a_frequent_class(target)
                begin, end = ((number + rows / plan.n) / plan.n_passes for rows in (done, done + len(y)))
                with shown.part(begin, end):
                    state, loss = plan.advance(model, known, X, target, state, [seed, number, place], begin, end)
                done, lost = done + len(y), lost + loss * len(y)
                shown.show(number, done, lost / done)
        if done != plan.n:
            raise ValueError(
                f"X of {name} had {plan.n:,} rows to train on when it was gone through first, and {done:,} in pass "
                f"{number + 1}; a source must give the same rows every time."
            )
        losses.append(lost / done)
    shown.close()
    if sorted_rows:
        warn_of_sorted_rows(name)
    return Streamed(*known.calibrated(model, plan, state), plan, losses, known.gaussian)


@dataclass(frozen=True, eq=False)
class State:
    """Where training stands, for each of the models: coefficients, and Adam's moments after the first steps."""

    coefficients: list[Floats]
    moments: list[Moments] | None = None

    @property
    def n_bytes(self) -> int:
        return 3 * sum(one.nbytes for one in self.coefficients)


@dataclass(frozen=True)
class Plan:
    """What is settled before the first step, from the parameters of a model and the number of rows."""

    n: int  # to train on
    n_passes: int
    batch_size: int
    n_components: int
    noise: float
    class_weights: Floats

    @classmethod
    def of(cls, model: Any, known: Known) -> Plan:
        n = int(known.counts.sum()) - known.n_held_out
        batch_size = batch_size_for(model.batch_size, n)
        each = np.arange(len(known.classes))  # "balanced" from the counts alone: a sample of each class stands for all
        weights = class_weights_of(model.class_weight, known.classes, each, known.counts.astype(np.float64))
        return cls(
            n=n,
            n_passes=auto_passes(n, batch_size, "adam") if isinstance(model.max_iter, str) else int(model.max_iter),
            batch_size=batch_size,
            n_components=components_for(model.n_components, n, known.n_features, len(known.classes)),
            noise=usual_noise(n, known.n_features) if isinstance(model.noise, str) else float(model.noise),
            class_weights=of_mean_one(weights, None),
        )

    def advance(
        self, model: Any, known: Known, X: Array, target: Ints, state: State, seeds: list[int], begin: float, end: float
    ) -> tuple[State, float]:
        """Once over these rows, from the share `begin` of the whole fit to `end`; and their mean loss."""
        first, last = _cosine(begin), _cosine(end)
        rate = first * float(model.learning_rate)
        solver = AdamSolver(1, self.batch_size, rate, revisit=1.0, final_rate=last / first)
        drawn = np.random.default_rng(seeds).integers(np.iinfo(np.int32).max, size=len(state.coefficients)).tolist()
        members = [
            Member(seed, self.noise, self.class_weights, None, None, start)
            for seed, start in zip(drawn, state.coefficients, strict=True)
        ]
        with known.trainer(model, X, target) as trainer:
            trained = trainer.train(members, solver, self.n_components, moments=state.moments)
        return State(trained.coefficients, trained.moments), trained.losses[0][-1]


def _cosine(share: float) -> float:
    """The learning rate at this share of the fit, of the first."""
    return max(LEAST_RATE, 0.5 + 0.5 * float(np.cos(np.pi * min(1.0, share))))


def warn_of_sorted_rows(name: str) -> None:
    warnings.warn(
        f"The rows of X of {name} seem to be sorted: a buffer of them lacked a class that is frequent, and the "
        "model leans to what it has seen last. Write them in a random order once (shuffle), or as a Parquet "
        "file of many small row groups, which are read in a random order.",
        SortedRowsWarning,
        stacklevel=7,
    )


# ------------------------------------------------------------------------------------------------ the first look


@dataclass(frozen=True, eq=False)
class Known:
    """What the first time through has found.

    Every row has a number from 0 to 1, drawn at random. Those of the smallest ones are `rows`, in that order: first the
    `n_held_out` that are not trained on, their numbers up to `threshold`.
    """

    seed: int
    classes: Array
    counts: Indices
    scaling: Scaling
    gaussian: Gaussian | None
    rows: Array
    target: Ints
    n_held_out: int
    threshold: float

    @property
    def n_features(self) -> int:
        return int(self.scaling.center.size)

    def without_rows(self) -> Known:
        """What may be told to anybody."""
        return replace(self, rows=self.rows[:0], target=self.target[:0])

    def trained_on(self, block: Block) -> Bools:
        """Which rows of a block are not held out."""
        return _numbers(block, self.seed) > self.threshold

    def codes(self, y: Array, name: str) -> Ints:
        """Labels as the places of their classes."""
        codes = np.minimum(np.searchsorted(self.classes, y), len(self.classes) - 1)
        if (self.classes[codes] != y).any():
            raise ValueError(f"y of {name} holds a label that was not there when it was gone through first.")
        return codes.astype(np.int32)

    def lacks_a_frequent_class(self, target: Ints) -> bool:
        """Of a hundred rows or more; such a class is missing by chance in one of 150 such buffers at most."""
        frequent = self.counts >= FREQUENT * self.counts.sum()
        return len(target) >= 100 and bool((np.bincount(target, minlength=len(frequent))[frequent] == 0).any())

    def starts(self, model: Any, plan: Plan, seed: int) -> list[Floats]:
        """Where each of the models starts, by the rows that are not held out."""
        rest = slice(self.n_held_out, None)
        with self.trainer(model, self.rows[rest], self.target[rest]) as trainer:
            return trainer.starts([seed + member for member in range(model.n_models)], plan.n_components, plan.noise)

    def calibrated(self, model: Any, plan: Plan, state: State) -> tuple[Separators, Array, float, dict[str, Any]]:
        """What was trained; its classes; its temperature by the rows held out, and what is judged on these."""
        judged: dict[str, Any] = {}
        temperature = 1.0
        held_out = slice(self.n_held_out if self.n_held_out else None)
        with self.trainer(model, self.rows[held_out], self.target[held_out]) as trainer:
            members = [Member(0, plan.noise, plan.class_weights)] * model.n_models
            separators = trainer.merged(state.coefficients, members)
            if self.n_held_out:
                scores = log_scores(trainer.values(separators, slice(None)))
                temperature = mean_temperature(scores, trainer.target)
                right = scores.argmax(axis=1) == trainer.target
                judged = {"oof_accuracy_": float(right.mean()), "oof_samples_": len(right)}
        return separators, self.classes, temperature, judged

    def trainer(self, model: Any, X: Array, target: Ints) -> Trainer:
        """Of some rows, their gaps filled."""
        rows = self.gaussian.filled(X) if self.gaussian is not None and _has_gaps(X) else X
        return Trainer.of(model, rows, target, self.classes, None, scaling=self.scaling)


class Look:
    """What is learnt of rows by going through them once, block by block; looks at parts of them can be put together."""

    def __init__(self, model: Any, seed: int) -> None:
        self._name, self._model, self._seed = type(model).__name__, model, seed
        self._n_held_out = HELD_OUT if model.calibrate else 0
        self._columns, self._drawn = _Columns(model.n_jobs), _Drawn(self._n_held_out + ENOUGH_SAMPLES)
        self._classes, self._counts = np.empty(0, dtype=object), np.empty(0)

    def copy(self) -> Look:
        """One that can go on by itself."""
        other = copy(self)
        other._columns, other._drawn = copy(self._columns), copy(self._drawn)
        return other

    def add(self, block: Block) -> None:
        self._columns.add(block.X)
        self._count(*np.unique(block.y, return_counts=True))
        self._drawn.add(_numbers(block, self._seed), block.X, block.y)

    def merge(self, other: Look) -> None:
        """What another one has learnt of other rows."""
        if other._columns.n:
            self._columns.merge(other._columns)
            self._count(other._classes, other._counts)
            self._drawn.add(*other._drawn.rows())

    def _count(self, classes: Array, counts: Array) -> None:
        found: Array = np.concatenate([self._classes, classes]) if len(self._classes) else classes
        self._classes, places = np.unique(found, return_inverse=True)
        self._counts = np.bincount(places, weights=np.concatenate([self._counts, counts])).astype(np.float64)
        if len(self._classes) > MOST_CLASSES:
            raise ValueError(f"y of {self._name} has more than {MOST_CLASSES:,} different labels: is it a measurement?")

    def known(self) -> Known:
        if not self._columns.n:
            raise ValueError(f"X of {self._name} has no rows.")
        check_classification_targets(self._classes)
        if len(self._classes) < 2:
            raise ValueError(f"{self._name} needs samples of at least 2 classes in y; got 1 class, {self._classes[0]}.")
        numbers, rows, labels = self._drawn.rows()
        # Of few rows no more than a tenth is held out.
        n_held_out = min(self._n_held_out, int(self._counts.sum()) // 10)
        columns, some = self._columns, rows[n_held_out:][:MOST_SAMPLES]
        return Known(
            self._seed,
            self._classes,
            self._counts.astype(np.intp),
            columns.scaling(self._model.scaling),
            gaussian_of(self._model, some, None, columns.has_gaps, moments=columns.moments),
            rows,
            np.searchsorted(self._classes, labels).astype(np.int32),
            n_held_out,
            float(numbers[n_held_out - 1]) if n_held_out else -1.0,
        )


def _numbers(block: Block, seed: int) -> Doubles:
    """A number from 0 to 1 for every row, the same whenever it is read."""
    return np.random.default_rng([seed, block.number]).random(len(block.y))


def _without_held_out(blocks: Iterable[Block], known: Known) -> Generator[Block]:
    for block in blocks:
        kept = known.trained_on(block)
        yield block if kept.all() else Block(block.number, block.X[kept], block.y[kept])


class _Drawn:
    """The rows of the smallest numbers so far."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: tuple[Doubles, Array, Array] | None = None

    def add(self, *parts: Array) -> None:
        """Numbers, X and y of more rows."""
        if self._kept is not None:
            numbers = parts[0]
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
    """Mean, variance and extremes of the known entries of columns that come in parts (Chan, Golub and LeVeque 1979)."""

    def __init__(self, n_jobs: int | None) -> None:
        self._n_jobs, self.n, self._kind = n_jobs, 0, np.dtype(np.uint8)
        self._known = self._mean = self._scatter = self._least = self._most = np.empty(0)

    def add(self, X: Array) -> None:
        part = _Columns(self._n_jobs)
        part.n, part._kind, part._known = len(X), X.dtype, np.full(X.shape[1], float(len(X)))
        if _has_gaps(X):
            # At the mean of the others an entry changes neither mean nor scatter nor extremes.
            gap = np.isnan(X)
            part._known -= gap.sum(axis=0)
            shares = np.where(gap, 0.0, X) / np.maximum(part._known, 1)
            X = np.where(gap, shares.sum(axis=0), X)
        part._mean, deviation, part._least, part._most = column_figures(X, None, self._n_jobs)
        part._scatter = len(X) * deviation**2
        none = part._known == 0
        part._least, part._most = np.where(none, np.inf, part._least), np.where(none, -np.inf, part._most)
        self.merge(part)

    def merge(self, other: _Columns) -> None:
        if not self.n:
            self.__dict__.update(vars(other))
            return
        known = self._known + other._known
        share = other._known / np.maximum(known, 1)
        apart = other._mean - self._mean
        self._scatter = self._scatter + other._scatter + apart**2 * self._known * share
        self._mean = self._mean + apart * share
        self._least, self._most = np.minimum(self._least, other._least), np.maximum(self._most, other._most)
        self.n, self._known, self._kind = self.n + other.n, known, np.result_type(self._kind, other._kind)

    @property
    def has_gaps(self) -> bool:
        return bool((self._known < self.n).any())

    @property
    def moments(self) -> tuple[Doubles, Doubles]:
        """Mean and deviation."""
        return self._mean, np.sqrt(self._scatter / np.maximum(self._known, 1))

    def scaling(self, rule: str) -> Scaling:
        none = self._known == 0  # of a column that nothing is known of, 0 is
        extremes = np.where(none, 0, self._least), np.where(none, 0, self._most)
        chosen = scaling_by(rule, (*self.moments, *extremes), self._kind, self._kind, extremes)
        return as_applied(chosen, self._kind in (np.float32, np.uint8))


# ----------------------------------------------------------------------------------------------- rows of a source


def _checked(
    source: Source, random: np.random.Generator | None, name: str, missing: str, n_features: int | None = None
) -> Generator[Block]:
    """The blocks of a source; all have the same columns, and what is no number is refused or may be missing."""
    for block in source.blocks(random):
        n_features = block.X.shape[1] if n_features is None else n_features
        if block.X.shape[1] != n_features:
            raise ValueError(
                f"The blocks of X of {name} must have the same columns; got {n_features} and {block.X.shape[1]}."
            )
        block = as_read(block)
        check_numbers(block.X, source.names, f"X of {name}", missing)
        yield block


def as_read(block: Block) -> Block:
    """Bytes and single precision as they are, all else in double precision."""
    return block if block.X.dtype in (np.uint8, np.float32) else block._replace(X=block.X.astype(np.float64))


def _has_gaps(X: Array) -> bool:
    return not surely_finite(X) and bool(np.isnan(X).any())


def check_numbers(X: Array, names: list[str] | None, what: str, missing: str) -> None:
    """Refuse infinity; NaN, too, unless `missing` of the estimator says what it means."""
    if surely_finite(X):
        return
    for refused, word, advice in (
        (np.isinf, "infinity", "Leave these rows out, or make it NaN, a missing value"),
        (np.isnan, "NaN", 'Impute these values first, or set missing="expectation"'),
    ):
        bad = np.flatnonzero(refused(X).any(axis=0))
        if len(bad) and (word == "infinity" or missing != "expectation"):
            column = repr(names[bad[0]]) if names else bad[0]
            raise ValueError(f"Column {column} of {what} holds {word}. {advice}.")


# --------------------------------------------------------------------------------------------------- what is shown


class Shown:
    """Rows done and the time left, for `verbose`; and to whoever listens, the look being the first part of all."""

    def __init__(self, model: Any, plan: Plan) -> None:
        self._verbose, self._plan, self._start = model.verbose, plan, time.monotonic()

    def part(self, begin: float, end: float) -> AbstractContextManager[None]:
        """What is done inside are these shares of the passes."""
        n = self._plan.n_passes
        return progress.part((1 + n * begin) / (1 + n), (1 + n * end) / (1 + n))

    def show(self, number: int, rows: int, loss: float) -> None:
        if not self._verbose:
            return
        n, n_passes = self._plan.n, self._plan.n_passes
        share = (number + rows / n) / n_passes
        left = (time.monotonic() - self._start) * (1 - share) / share
        end = "\r" if sys.stderr.isatty() else "\n"
        sys.stderr.write(
            f"QMSClassifier: pass {number + 1}/{n_passes}, {rows:,} of {n:,} rows, loss {loss:.4f}, "
            f"{left:.0f} s left{end}"
        )
        sys.stderr.flush()

    def close(self) -> None:
        if self._verbose and sys.stderr.isatty():
            sys.stderr.write("\n")
