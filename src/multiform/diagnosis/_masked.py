"""One classifier for all evidence sets: it reads the results that are known, and which those are.

The inputs are the encoded results, 0 where a test was not done, and for each test whether it was. A quadratic
classifier on these is trained on many copies of the patients, each with a random part of the tests; so it answers on
any set, and no other has to be trained for a search, a plan or a session.

With ``A x - b`` linear in x, the residual on a set S is a sum over its tests,

    A x_S - b  =  sum_{t in S} (A_t x_t + a_t)  -  b,       f_k = ||A_k x_S - b_k||^2 + noise energy,

so the terms of every patient and test are computed once, and many sets are one product of a 0-1 matrix with them. There
is a model for each fold, and where patients are few, folds are drawn several times. A new patient is judged by the mean
of ``-log f`` over all models, a training patient by that over those that have not seen it, one of each draw: a single
model changes its mind by chance as evidence comes in, and a plan would seem to lose what it does not.

Tests that add nothing to random sets of the others are *idle*: both classifiers learn as if nobody had had them, if
that is surely better for unseen patients.

All evidence has a classifier of its own beside it, without masks, which reads numbers bent (`Bends`) if that is better,
and the two are mixed as unseen patients like best: what the plan is compared with is as good as a classifier that was
made for nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_softmax

from multiform import progress
from multiform._typing import Array, Bools, Doubles, Floats, Ints
from multiform.classifier import QMSClassifier
from multiform.defaults import auto_passes, batch_size_for, components_for
from multiform.diagnosis._tariff import members
from multiform.loyalty import Alterations, loyalty_levels
from multiform.prediction import fit_temperature, log_scores
from multiform.separators import Separators
from multiform.solvers import AdamSolver
from multiform.state import require, require_array, require_names, require_numbers, require_temperature
from multiform.training import Member, Trainer

MOST_COPIES, FEWEST_COPIES, MASKED_ROWS = 60, 8, 20_000  # of each patient; so many rows in all, where there are few
FULL_EVERY = 10  # one copy in so many knows everything
TRIED_ON = 6  # masked copies that the settings are chosen on
SOUNDED_WITH, SOUNDED_UP_TO = 4, 100  # random sets of each patient that a test is added to; and of how many tests
MANY_PATIENTS = 2_000  # from which on one fold is enough to choose on
# Floor of the ratio loss, and noise: gates and thresholds want little noise, a few hundred noisy patients much.
SETTINGS: tuple[tuple[float, float], ...]
SETTINGS = ((0.5, 0.1), (0.5, 0.3), (0.1, 1.0), (0.1, 2.0), (0.1, 3.0), (0.1, 5.0), (0.1, 8.0))
KNOTS = (0.0, 0.25, 0.5, 0.75, 1.0)  # quantiles of a column at which its answers may bend
MOST_STRAIGHT = 12  # distinct values of a column that does not bend
CLEAR_PASSES = 3  # times as many passes where there is little noise
SHARES = (0.0, 0.5, 1.0)  # of the classifier of all evidence, in what answers on it
NUMBERS_AT_ONCE = 4_000_000  # residuals
SHOWN_BETA, SHOWN_GAMMA = 0.05, 20.0  # of the loyalty type that a session shows

LARGEST = 1e12  # coefficients of a row, in a model file: with results of a million deviations f is still a number

Setting = tuple[float, float, str]  # alpha, noise, and what is read: the "results", and their "steps" or "bends"
Copies = tuple[Array, Bools]  # the patient of each copy, and the tests that are known of it


@dataclass(frozen=True, eq=False)
class Quadratics:
    """Member functions of several models, in the units of their inputs.

    Attributes
    ----------
    components : array, shape (n_models, m, q, p)
    offsets : array, shape (n_models, m, q)
    energy : array, shape (n_models, m)
        What noise adds to f.
    """

    components: Floats
    offsets: Floats
    energy: Floats

    @classmethod
    def of(cls, separators: Sequence[Separators]) -> Quadratics:
        """Of trained models."""
        found = [one.in_user_units() for one in separators]
        q = separators[0].coefficients.shape[1]  # the row after these, if any, is what noise adds
        return cls(
            np.stack([components[:, :q] for components, _ in found]).astype(np.float32),
            np.stack([offsets[:, :q] for _, offsets in found]).astype(np.float32),
            np.stack([(offsets[:, q:] ** 2).sum(axis=1) for _, offsets in found]).astype(np.float32),
        )

    def __len__(self) -> int:
        return len(self.energy)

    def scores(self, X: Floats) -> Floats:
        """``-log f`` of every row by every model: shape (n, n_models, m)."""
        residual = X @ self.components.reshape(-1, self.components.shape[3]).T - self.offsets.reshape(-1)
        f = (residual.reshape(len(X), *self.offsets.shape) ** 2).sum(axis=3) + self.energy
        return np.asarray(log_scores(f), dtype=np.float32)

    def state(self) -> dict[str, Any]:
        """As plain values."""
        return {"components": self.components, "offsets": self.offsets, "energy": self.energy}

    @classmethod
    def from_state(cls, state: Any, m: int, width: int) -> Quadratics:
        """The inverse of `state`, checked."""
        require_names(state, "member functions", ["components", "offsets", "energy"])
        components = require_array(state["components"], (None, m, None, width), "f", "components")
        offsets = require_array(state["offsets"], components.shape[:3], "f", "offsets")
        energy = require_array(state["energy"], components.shape[:2], "f", "energy")
        single = all(one.dtype == np.float32 for one in (components, offsets, energy))
        require(components.size and single, "member functions have the wrong type")
        largest = np.abs(components).sum(axis=3, dtype=np.float64) + np.abs(offsets)
        require((largest < LARGEST).all(), "a member function is not finite, or too large")
        require((energy >= 0).all() and (energy < LARGEST).all(), "what noise adds is not finite, or too large")
        return cls(components, offsets, energy)

    def own_scores(self, X: Floats, judged_by: Array) -> Floats:
        """Of every row by the mean of the models that `judged_by` says, of shape (n_draws, n): shape (n, m)."""
        scores = np.zeros((len(X), self.energy.shape[1]), dtype=np.float32)
        for models in judged_by:
            for one in np.unique(models):
                part = models == one
                scores[part] += self.part(one).scores(X[part])[:, 0]
        return np.asarray(scores / np.float32(len(judged_by)))

    def part(self, model: int) -> Quadratics:
        """One of the models alone."""
        return Quadratics(*(array[model : model + 1] for array in (self.components, self.offsets, self.energy)))


@dataclass(frozen=True, eq=False)
class Bends:
    """What the classifier of all evidence may read beside the results, as `QMSClassifierCV` does: tents on numbers.

    Each of `columns`, which have many values, has `knots` at its quantiles, a row each, and beside it a further column
    for every knot but the last: 1 there, linear to 0 at the next knots. So a quadratic can bend along an axis.
    """

    columns: Array
    knots: Floats

    @classmethod
    def learnt(cls, rows: Floats, done: Bools) -> Bends:
        """From the training patients, as far as they had the test: shape (n, p) both."""
        knots = {}
        for column in range(rows.shape[1]):
            present = rows[done[:, column], column]
            if len(np.unique(present)) > MOST_STRAIGHT:
                knots[column] = np.quantile(present, KNOTS)
        return cls(np.array([*knots], dtype=np.int64), np.array([*knots.values()], np.float32).reshape(-1, len(KNOTS)))

    def beside(self, rows: Floats) -> Floats:
        """The rows, and the further columns."""
        tents = np.zeros((len(rows), *self.knots.shape), dtype=np.float32)
        for own, (column, knots) in enumerate(zip(self.columns, self.knots, strict=True)):
            for k in range(len(knots)):
                tents[:, own, k] = np.interp(rows[:, column], knots, np.arange(len(knots)) == k)
        return np.hstack([rows, tents[:, :, :-1].reshape(len(rows), -1)])

    def owner(self, column_owner: Array) -> Array:
        """The test of each column, the further ones last."""
        return np.append(column_owner, np.repeat(column_owner[self.columns], self.knots.shape[1] - 1))

    def state(self) -> dict[str, Any]:
        """As plain values."""
        return {"columns": self.columns, "knots": self.knots}

    @classmethod
    def from_state(cls, state: Any, width: int) -> Bends:
        """The inverse of `state`, checked."""
        require_names(state, "bends", ["columns", "knots"])
        columns = require_array(state["columns"], (None,), "i", "columns that bend")
        inside = len(columns) <= width and ((columns >= 0) & (columns < width)).all()
        require(inside, "bends are of columns that there are not")
        knots = require_array(state["knots"], (len(columns), len(KNOTS)), "f", "knots")
        single = columns.dtype == np.int64 and knots.dtype == np.float32
        require(single and np.isfinite(knots).all() and (np.diff(knots) >= 0).all(), "knots do not ascend")
        return cls(columns, knots)


NO_BENDS = Bends(np.empty(0, dtype=np.int64), np.empty((0, len(KNOTS)), dtype=np.float32))


class Tried(NamedTuple):
    """What unseen patients make of each setting.

    Attributes
    ----------
    on_all : array, shape (n_settings, n, m)
        Scores on all evidence.
    losses : array, shape (n_settings, n)
        Mean log losses over the sets that were tried.
    """

    on_all: Floats
    losses: Doubles

    def best(self, choosing: Bools | slice = slice(None)) -> int:
        """The setting that these patients like best."""
        return int(self.losses[:, choosing].mean(axis=1).argmin())


class Mixture(NamedTuple):
    """How what both classifiers say on all evidence is mixed.

    Attributes
    ----------
    share : float
        Of the classifier of all evidence alone.
    temperatures : tuple of float
        Of the classifier of all sets, and of this one.
    """

    share: float
    temperatures: tuple[float, float]

    @classmethod
    def liked_by(cls, masked: Floats, full: Floats, target: Ints) -> Mixture:
        """The mixture of the least log loss of patients of these classes, whom neither has seen."""
        temperatures = fit_temperature(masked, target), fit_temperature(full, target)
        mixtures = [cls(share, temperatures) for share in SHARES]
        told = [log_softmax(one.of(masked, full), axis=1)[np.arange(len(target)), target].mean() for one in mixtures]
        return mixtures[int(np.argmax(told))]

    def of(self, masked: Floats, full: Floats) -> Floats:
        """Scores of some patients, from those of both."""
        warm, full_warm = self.temperatures
        told = self.share * log_softmax(full / full_warm, axis=1)
        return np.asarray(told + (1 - self.share) * log_softmax(masked / warm, axis=1), dtype=np.float32)


@dataclass(frozen=True, eq=False)
class MaskedClassifier:
    """What answers on any evidence set, without the patients whom it was learnt from.

    Attributes
    ----------
    column_owner : array
        The test that each encoded column belongs to.
    n_tests : int
    masked, full : Quadratics
        The classifier of all sets, and that of all evidence: a model for each fold of each draw.
    mixture : Mixture
        Of both, on all evidence.
    prior : array, shape (m,)
        Log shares of the classes: the scores where nothing is known.
    betas : tuple of float
        Of the stopping rule.
    bends : Bends
        What the second reads beside the results.
    altered : dict of str to Quadratics
        Models of altered class weights (section 3.1): "held back" are those of the rule, of every beta, class and fold;
        "shown" those of the loyalty type that a session shows, which have learnt from everybody.
    """

    column_owner: Array
    n_tests: int
    masked: Quadratics
    full: Quadratics
    mixture: Mixture
    prior: Doubles
    betas: tuple[float, ...] = ()
    altered: dict[str, Quadratics] = field(default_factory=dict)
    bends: Bends = NO_BENDS

    @property
    def n_classes(self) -> int:
        return len(self.prior)

    def inputs(self, rows: Floats, known: Bools) -> Floats:
        """The results that are known, 0 for all others, and which those are."""
        return read_inputs(rows, known, self.column_owner)

    def scores(self, tests: int, rows: Floats) -> Floats:
        """Scores of new patients, averaged over the folds: shape (n, m)."""
        if not tests:
            return np.tile(self.prior, (len(rows), 1)).astype(np.float32)
        known = np.broadcast_to(members([tests], self.n_tests), (len(rows), self.n_tests))
        X = self.inputs(rows, known)
        masked: Floats = self.masked.scores(X).mean(axis=1)
        if not known.all():
            return masked
        X = read_inputs(self.bends.beside(rows), known, self.bends.owner(self.column_owner))
        return self.mixture.of(masked, self.full.scores(X).mean(axis=1))

    def claims(self, tests: int, rows: Floats, kind: str = "held back", judged_by: Array | None = None) -> Array:
        """How many classes keep each patient although held back (or pushed), |B(x)|: shape (n_weights, n).

        With `judged_by`, by the mean of the models that this says of each patient, (n_draws, n), else by that of all.
        """
        alterations, n = alterations_of(kind, self.betas, self.n_classes), len(rows)
        counts = np.zeros((len(alterations.beta) + len(alterations.gamma), n), dtype=np.int64)
        if not tests:  # where nothing is known, no class keeps anybody
            return counts
        known = np.broadcast_to(members([tests], self.n_tests), (n, self.n_tests))
        scores = self.altered[kind].scores(self.inputs(rows, known)).reshape(n, len(alterations), -1, self.n_classes)
        told = scores.mean(axis=2) if judged_by is None else scores[np.arange(n), :, judged_by].mean(axis=0)
        for member, (step, altered) in enumerate(alterations):
            counts[step] += told[:, member].argmax(axis=1) == altered
        return counts

    def loyalty(self, tests: int, rows: Floats) -> Array:
        """The loyalty type of new patients (Definition 6)."""
        claims = self.claims(tests, rows, "shown")
        levels = alterations_of("shown", self.betas, self.n_classes).levels
        return np.array(levels)[loyalty_levels(claims[:1], claims[1:])]

    # -------------------------------------------------------------------------------------------- model files

    def state(self) -> dict[str, Any]:
        """As plain values."""
        plain: dict[str, Any] = {"share": self.mixture.share, "temperatures": list(self.mixture.temperatures)}
        plain |= {"prior": self.prior, "betas": list(self.betas)}
        plain |= {"masked": self.masked.state(), "full": self.full.state()}
        if len(self.bends.columns):
            plain["bends"] = self.bends.state()
        return plain | {"altered": {kind: models.state() for kind, models in self.altered.items()}}

    @classmethod
    def from_state(cls, state: Any, m: int, n_tests: int, column_owner: Array) -> MaskedClassifier:
        """The inverse of `state`, checked."""
        names = ["share", "prior", "temperatures", "betas", "masked", "full", "altered"]
        require_names(state, "the masked models", names, ["bends"])
        width = len(column_owner) + n_tests
        bends = Bends.from_state(state["bends"], len(column_owner)) if "bends" in state else NO_BENDS
        masked = Quadratics.from_state(state["masked"], m, width)
        full = Quadratics.from_state(state["full"], m, len(bends.owner(column_owner)) + n_tests)
        require(len(masked) == len(full), "there is not a model of all evidence for each fold")
        betas, share, temperatures = tuple(state["betas"]), state["share"], tuple(state["temperatures"])
        require_numbers([*betas, share, *temperatures], "a figure of the masked models")
        require(all(0 < beta < 1 for beta in betas), "a beta of the masked models is out of range")
        require(0 <= share <= 1 and len(temperatures) == 2, "the mixture of the masked models is wrong")
        for temperature in temperatures:
            require_temperature(temperature, "a temperature of the masked models")
        prior = require_array(state["prior"], (m,), "f", "the prior of the masked models")
        require((prior <= 0).all() and np.isfinite(prior).all(), "the prior of the masked models holds no chances")
        kinds = state["altered"]
        named = isinstance(kinds, dict) and {"shown"} <= {*kinds} <= {"shown", "held back"}
        require(named, "an altered model is missing")
        altered = {kind: Quadratics.from_state(models, m, width) for kind, models in kinds.items()}
        for kind, models in altered.items():
            n_models = len(alterations_of(kind, betas, m)) * (1 if kind == "shown" else len(masked))
            require(len(models) == n_models, "an altered model is missing")
        return cls(column_owner, n_tests, masked, full, Mixture(share, temperatures), prior, betas, altered, bends)


def read_inputs(rows: Floats, known: Bools, column_owner: Array) -> Floats:
    """The results that are known, 0 for all others, and which those are."""
    read = np.where(known[:, column_owner], rows, 0)
    return np.ascontiguousarray(np.hstack([read, known]), dtype=np.float32)


def alterations_of(kind: str, betas: tuple[float, ...], n_classes: int) -> Alterations:
    """How the altered models of a kind weigh the classes."""
    if kind == "shown":
        return Alterations.of(SHOWN_BETA, SHOWN_GAMMA, n_classes)
    return Alterations(betas, (), n_classes)


class FoldedPatients:
    """Patients of known classes (`target`), each judged by the models of its `fold`, which learn from all others."""

    fold: Array
    target: Ints
    n_folds: int
    n_classes: int

    @property
    def masks(self) -> Floats:
        """The patients that each fold's model learns from: shape (n_folds, n)."""
        return np.asarray(self.fold != np.arange(self.n_folds)[:, None], dtype=np.float32)

    @property
    def prior(self) -> Doubles:
        """Log share of each class among the patients that each fold learns from: shape (n_folds, m)."""
        judged = np.zeros((self.n_folds, self.n_classes), dtype=np.int64)
        np.add.at(judged, (self.fold, self.target), 1)
        counts = judged.sum(axis=0) - judged
        return np.asarray(np.log((counts + 1) / (counts + 1).sum(axis=1, keepdims=True)))


class MaskedModels(FoldedPatients):
    """The training patients, encoded, and the one classifier of all evidence sets; the face of `EvidenceModels`.

    `undone` says which tests each patient did not have, `always` which are known from the start, and `steps` which
    columns are but steps of numbers, to be read if that is better. An `estimator`, if there is one, says how to train.
    `flattery` is by how much the choice of settings and of their mixture makes the accuracy on all evidence too good.
    The first row of `folds` is the draw that all is chosen on, and that plans are made without; `judged_by` are the
    models that have not seen each patient, shape (n_draws, n).
    """

    def __init__(
        self,
        rows: Floats,
        target: Ints,
        folds: Array,
        column_owner: Array,
        n_classes: int,
        estimator: QMSClassifier | None,
        betas: tuple[float, ...],
        seed: int,
        n_jobs: int | None,
        *,
        n_tests: int,
        undone: Array | None = None,
        always: int = 0,
        steps: Bools | None = None,
    ) -> None:
        self.rows, self.target, self.fold, self.column_owner = rows, target, folds[0], column_owner
        self.n_classes, self.n_tests, self.betas = n_classes, n_tests, betas
        self.seed, self.n_jobs = seed, n_jobs
        self.n_folds, before = int(folds[0].max()) + 1, np.cumsum(folds.max(axis=1) + 1)
        self.judged_by, self.n_models = folds + np.append(0, before[:-1])[:, None], int(before[-1])
        self._how = QMSClassifier() if estimator is None else estimator
        settings = SETTINGS
        if estimator is not None:
            levels = [noise for _, noise in SETTINGS] if isinstance(estimator.noise, str) else [float(estimator.noise)]
            settings = tuple((float(estimator.alpha), noise) for noise in levels)
        self._steps = np.zeros(len(column_owner), dtype=bool) if steps is None else steps
        self.done = np.ones((len(rows), n_tests), dtype=bool) if undone is None else ~members(undone, n_tests)
        self._random, self._always = np.random.default_rng(seed), members([always], n_tests)[0]
        self._unseen: dict[int, Floats] = {}
        self._idle = np.zeros((self.n_models + 1, n_tests), dtype=bool)  # of each model; the last learns from everybody
        self._chosen: tuple[Setting, Setting]
        self.flattery = 0.0
        self._bends = Bends.learnt(rows, self.done[:, column_owner])
        readings = ["steps", "results"] if self._steps.any() else ["results"]
        self._settings = [(*setting, reading) for reading in readings for setting in settings]
        bends = estimator is None and len(self._bends.columns) > 0
        bent = [(*setting, "bends") for setting in settings if bends and setting[1] >= 1]  # so many columns want noise
        self._settings_of_all = [*self._settings, *bent]
        self._train()

    @property
    def sets(self) -> list[int]:
        """The sets that were asked for."""
        return list(self._unseen)

    @property
    def values(self) -> Floats:
        """The encoded results, NaN where a test was not done."""
        return np.where(self.done[:, self.column_owner], self.rows, np.float32(np.nan))

    # ------------------------------------------------------------------------------------------------ training

    def _train(self) -> None:
        """Both classifiers, each with the setting that unseen patients like best, and how they are mixed."""
        n, everybody = len(self.target), (np.arange(len(self.target)), self.done)
        self._copies = self._masked_copies(int(np.clip(MASKED_ROWS // n, FEWEST_COPIES, MOST_COPIES)))
        copies, judging = len(self._copies[0]) / n, len(self._judging) / self.n_models
        last = 1 + 1 / copies  # in units of one training of all models on the copies
        searched = judging * (len(self._settings) * last + 2)
        done = searched / (searched + last)
        judges = self._masked_copies(TRIED_ON)
        with progress.part(0.0, 0.7 * done):
            tried = self._tried(self._copies, judges, self._settings)
        setting = self._settings[tried.best()]
        with progress.part(0.7 * done, 0.9 * done):
            self._leave_out_idle(setting, judges)
        with progress.part(0.9 * done, done):
            tried_of_all = self._tried(everybody, everybody, self._settings_of_all)
        setting_of_all = self._settings_of_all[tried_of_all.best()]
        self.flattery = self._flattery(tried, tried_of_all)
        self._chosen = setting, setting_of_all
        with progress.part(done, 1 - (1 - done) / (1 + copies)):
            masked = self._fitted(self._copies, setting, range(self.n_models))
        full = self._fitted(everybody, setting_of_all, range(self.n_models))
        inputs = [self._inputs(*everybody, reading) for *_, reading in self._chosen]
        scores = [models.own_scores(X, self.judged_by) for models, X in zip((masked, full), inputs, strict=True)]
        mixture = Mixture.liked_by(scores[0], scores[1], self.target)
        bends = self._bends if setting_of_all[2] == "bends" else NO_BENDS
        about = self.column_owner, self.n_tests, masked, full, mixture, self.prior.mean(axis=0), self.betas
        self.classifier = MaskedClassifier(*about, bends=bends)
        self._unseen[(1 << self.n_tests) - 1] = mixture.of(*scores)

    def _masked_copies(self, n_copies: int) -> Copies:
        """Copies of all patients with random tests, any number of them; now and then with all."""
        n, known = len(self.target), []
        for copy in range(n_copies):
            size = np.full(n, self.n_tests) if copy % FULL_EVERY == 0 else self._random.integers(0, self.n_tests + 1, n)
            place = self._random.random((n, self.n_tests)).argsort(axis=1).argsort(axis=1)
            known.append(((place < size[:, None]) | self._always) & self.done)
        return np.tile(np.arange(n), n_copies), np.concatenate(known)

    @property
    def _judging(self) -> range:
        """The folds that choose."""
        return range(self.n_folds) if len(self.target) < MANY_PATIENTS else range(1)

    def _leave_out_idle(self, setting: Setting, judges: Copies) -> None:
        """Find the tests that tell nothing, and leave them out if unseen patients surely like it.

        A test is sounded by what it adds to random sets of the others. What adds less than its standard error is idle:
        among few patients a classifier that reads a dozen such tests hardly finds the few that matter. Whom a model
        judges has no part in what it leaves out: else the patients at hand seem to be told more than new ones are.
        """
        if not 1 < self.n_tests <= SOUNDED_UP_TO:
            return
        with progress.part(0.0, 0.3):
            models = self._fitted(self._copies, setting, self._judging)
        before, temperature = self._losses(models, judges)
        own = np.flatnonzero(np.isin(self.fold, self._judging))
        gains = np.zeros((self.n_tests, len(own)))
        for t in range(self.n_tests):
            progress.tell(0.3 + 0.4 * t / self.n_tests, f"what test {t + 1} of {self.n_tests} adds")
            for _ in range(SOUNDED_WITH):
                size, place = self._random.random((len(own), 1)), self._random.random((len(own), self.n_tests))
                known = ((place < size) | self._always) & self.done[own]
                with_test, without = known.copy(), known.copy()
                with_test[:, t], without[:, t] = self.done[own, t], False
                pair = [self._losses(models, (own, one), temperature)[0] for one in (without, with_test)]
                gains[t] += pair[0] - pair[1]
        every = [*range(self.n_models), -1]
        for model in every:
            told = gains[:, self._learning(model, own)]
            idle = (told.mean(axis=1) < told.std(axis=1) / np.sqrt(told.shape[1])) & ~self._always
            self._idle[model] = idle & ~idle.all()
        if self._idle.any():
            with progress.part(0.7, 1.0):
                after, _ = self._losses(self._fitted(self._copies, setting, self._judging), judges)
            better = (before - after).reshape(-1, len(own)).mean(axis=0)
            for model in every:
                told = better[self._learning(model, own)]
                self._idle[model] &= told.mean() > told.std() / np.sqrt(len(told))

    def _learning(self, model: int, who: Array) -> Bools:
        """Whom of these patients a model does not judge; all, if it judges all of them."""
        learning = (self.judged_by[:, who] != model).all(axis=0)
        return np.asarray(learning if learning.any() else ~learning)

    def _losses(self, models: Quadratics, judges: Copies, temperature: float | None = None) -> tuple[Doubles, float]:
        """Log losses of unseen patients, and the temperature that they are at: the best one, if none is given."""
        who, known = (part[np.isin(self.fold[judges[0]], self._judging)] for part in judges)
        scores = models.own_scores(read_inputs(self.rows[who], known, self.column_owner), self.fold[None, who])
        temperature = fit_temperature(scores, self.target[who]) if temperature is None else temperature
        log_chances = log_softmax(scores / temperature, axis=1)
        return np.asarray(-log_chances[np.arange(len(who)), self.target[who]]), temperature

    def _tried(self, copies: Copies, judges: Copies, settings: Sequence[Setting]) -> Tried:
        """What unseen patients make of each setting."""
        folds = self._judging
        who, known = judges
        judged = np.isin(self.fold[who], folds)
        who, known = who[judged], known[judged]
        fold, target, places = self.fold[who], self.target[who], np.arange(len(who))
        n = int(np.isin(self.fold, folds).sum())  # the first copy, which knows everything
        on_all, losses = [], []
        for k, setting in enumerate(settings):
            with progress.part(k / len(settings), (k + 1) / len(settings)):
                models = self._fitted(copies, setting, folds)
                scores = models.own_scores(self._inputs(who, known, setting[2]), fold[None])
            on_all.append(scores[:n])
            losses.append(-log_softmax(scores / fit_temperature(scores, target), axis=1)[places, target])
        return Tried(np.stack(on_all), np.stack(losses).reshape(len(settings), -1, n).mean(axis=1))

    def _flattery(self, tried: Tried, tried_of_all: Tried) -> float:
        """By how much the accuracy on all evidence is above that of patients who had no part in any choice.

        Of both settings and the mixture: each fold's patients are answered at those which the others like best.
        """
        if len(self._judging) < self.n_folds:
            return 0.0

        def right(choosing: Bools, asked: Bools) -> Bools:
            masked, full = (one.on_all[one.best(choosing)] for one in (tried, tried_of_all))
            mixture = Mixture.liked_by(masked[choosing], full[choosing], self.target[choosing])
            found: Bools = mixture.of(masked[asked], full[asked]).argmax(axis=1) == self.target[asked]
            return found

        everybody = np.ones(len(self.target), dtype=bool)
        by_others = [right(self.fold != one, self.fold == one) for one in self._judging]
        return float(right(everybody, everybody).mean() - np.concatenate(by_others).mean())

    def _read(self, reading: str) -> tuple[Floats, Array]:
        """The columns that are read of the patients, and the test of each."""
        if reading == "bends":
            return self._bends.beside(self.rows), self._bends.owner(self.column_owner)
        return self.rows if reading == "steps" else np.where(self._steps, 0, self.rows), self.column_owner

    def _inputs(self, who: Array, known: Bools, reading: str) -> Floats:
        """Of these patients, what is known of them."""
        rows, owner = self._read(reading)
        return read_inputs(rows[who], known, owner)

    def _fitted(
        self, copies: Copies, setting: Setting, models: Sequence[int], factors: Doubles | None = None
    ) -> Quadratics:
        """For each row of class factors these models; each learns from whom it does not judge, -1 from everybody."""
        (alpha, noise, reading), how, (who, known) = setting, self._how, copies
        X = self._inputs(who, known, reading)
        n, p = X.shape
        batch_size = batch_size_for(how.batch_size, n)
        n_passes = auto_passes(n, batch_size, "adam") * (CLEAR_PASSES if noise < 1 else 1)
        n_passes = n_passes if isinstance(how.max_iter, str) else int(how.max_iter)
        weights = [(self.judged_by != one).all(axis=0)[who].astype(np.float32) for one in models]
        owner = np.append(self._read(reading)[1], np.arange(self.n_tests))
        columns = [np.flatnonzero(~self._idle[one, owner]).astype(np.int32) for one in models]
        factors = np.ones((1, self.n_classes)) if factors is None else factors
        parts = [*zip(weights, columns, strict=True)]
        members_ = [Member(self.seed, noise, factor, *part) for factor in factors for part in parts]
        n_components = components_for(how.n_components, len(self.target), p, self.n_classes)
        shared: dict[str, Any] = {"alpha": alpha, "n_jobs": self.n_jobs, "device": how.device}
        with Trainer(X, self.target[who], self.n_classes, scaling="standard", **shared) as trainer:
            solver = AdamSolver(n_passes, batch_size, float(how.learning_rate))
            trained = trainer.train(members_, solver, n_components)
            return Quadratics.of([trained.separators(member) for member in range(len(members_))])

    # ----------------------------------------------------------------------------------------------- answering

    def fit(self, sets: Sequence[int], kind: str = "nominal") -> None:
        """See to it that the altered models of a kind are there, and remember what these sets tell, all at once."""
        if kind != "nominal":
            self._alter(kind)
        if 0 not in self._unseen:
            self._unseen[0] = self.prior[self.fold].astype(np.float32)
        new = [one for one in dict.fromkeys(map(int, sets)) if one not in self._unseen]
        if not new:
            return
        masked = self.classifier.masked
        offsets, energy = masked.offsets[self.judged_by], masked.energy[self.judged_by]
        at_once = max(1, NUMBERS_AT_ONCE // offsets.size)
        for begin in range(0, len(new), at_once):
            part = new[begin : begin + at_once]
            known = members(part, self.n_tests)
            some = np.flatnonzero(known.any(axis=0))  # early in an order, few of many tests
            residual = known[:, some].astype(np.float32) @ self._terms[some].reshape(len(some), -1)
            residual = residual.reshape(len(part), *offsets.shape) - offsets
            scores = log_scores(np.einsum("sdnkq,sdnkq->sdnk", residual, residual) + energy).mean(axis=1)
            self._unseen.update(zip(part, scores.astype(np.float32), strict=True))

    @cached_property
    def _terms(self) -> Floats:
        """``A_t x_t + a_t`` of every test and training patient, by the models that judge it: (T, n_draws, n, m, q)."""
        A, width = self.classifier.masked.components, len(self.column_owner)
        terms = np.empty((self.n_tests, *self.judged_by.shape, *A.shape[1:3]), dtype=np.float32)
        for t in range(self.n_tests):
            own = np.flatnonzero(self.column_owner == t)
            for model in range(self.n_models):
                draw, part = np.nonzero(self.judged_by == model)
                term = np.einsum("nc,kqc->nkq", self.rows[np.ix_(part, own)], A[model][:, :, own])
                terms[t, draw, part] = term + A[model][:, :, width + t]
        return np.asarray(terms * self.done.T[:, None, :, None, None], dtype=np.float32)

    def unseen(self, tests: int) -> Floats:
        """Scores of the training patients, each by the models that have not seen it: shape (n, m); remembered."""
        self.fit([tests])
        return self._unseen[tests]

    def scores(self, tests: int, rows: Floats) -> Floats:
        """Scores of new patients: shape (n, m)."""
        return self.classifier.scores(tests, rows)

    def claims(self, tests: int, rows: Floats | None = None, kind: str = "held back") -> Array:
        """Of new patients, or of the training patients by models that have not seen them."""
        self._alter(kind)
        if rows is None:
            return self.classifier.claims(tests, self.rows, kind, self.judged_by)
        return self.classifier.claims(tests, rows, kind)

    def _alter(self, kind: str) -> None:
        """Train the altered models of a kind, once."""
        altered = self.classifier.altered
        if kind not in altered:
            factors = alterations_of(kind, self.betas, self.n_classes).factors
            models = [-1] if kind == "shown" else range(self.n_models)
            altered[kind] = self._fitted(self._copies, self._chosen[0], models, factors)

    def kept(self, with_rule: bool) -> MaskedClassifier:
        """What answers, without the patients."""
        for kind in ("shown", "held back") if with_rule else ("shown",):
            self._alter(kind)
        return self.classifier
