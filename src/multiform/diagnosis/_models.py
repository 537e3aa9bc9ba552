"""A classifier on every evidence set, each cross-fitted, many in one batch.

For an evidence set S the classifier is the average of the models of the folds: the score of class k is the mean of
``-log f_k`` over them. A training patient is judged by the one fold model that has not seen it; nothing is refitted, so
what is estimated on these *unseen scores* is about the very models that will answer.

All sets x folds are members of one `ModelBatch` with a feature mask each. For the paper's stopping rule every set
also has altered models (section 3.1): class i's part of the loss weighted by beta, started from the nominal one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from multiform.calibration import fit_temperature, log_scores
from multiform.classifier import QMSClassifier
from multiform.engines import evaluate
from multiform.loyalty import Alterations, answers_of, loyalty_levels
from multiform.separators import Scaling, Separators
from multiform.solvers import AdamSolver
from multiform.training import Member, Trainer

__all__ = ["EvidenceModels", "OnlyFields", "Records", "Settings", "default_settings"]

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

AT_ONCE = 20_000_000  # numbers that the sample weights of one batch may hold
ALTERED_SHARE = 0.5  # passes of an altered model, of the nominal's: it starts from the nominal
LEAST_STEPS = 80
NOISES = (0.1, 0.3, 1.0, 2.0, 3.0)


class OnlyFields:
    """A dataclass whose copies and pickles hold its fields only, and none of what it has computed from them."""

    def __getstate__(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True)
class Records(OnlyFields):
    """The training patients, encoded.

    Attributes
    ----------
    rows : array of float32, shape (n, n_columns)
    target : array of int32, shape (n,)
    fold : array of int, shape (n,)
        The fold that judges each patient.
    column_owner : array of int, shape (n_columns,)
        The test that each column belongs to.
    n_classes : int
    """

    rows: Floats
    target: npt.NDArray[np.int32]
    fold: npt.NDArray[np.int64]
    column_owner: npt.NDArray[np.int64]
    n_classes: int

    @property
    def n_folds(self) -> int:
        return int(self.fold.max()) + 1

    def columns(self, tests: int) -> npt.NDArray[np.int32]:
        """The columns of an evidence set."""
        return np.flatnonzero(np.int64(tests) >> self.column_owner & 1).astype(np.int32)

    @cached_property
    def masks(self) -> Floats:
        """The patients that each fold's model learns from: shape (n_folds, n)."""
        return np.asarray(self.fold != np.arange(self.n_folds)[:, None], dtype=np.float32)

    @cached_property
    def prior(self) -> Doubles:
        """Log share of each class among the patients that each fold learns from: shape (n_folds, m)."""
        counts = np.stack([np.bincount(self.target[mask > 0], minlength=self.n_classes) for mask in self.masks])
        return np.asarray(np.log((counts + 1) / (counts + 1).sum(axis=1, keepdims=True)))


@dataclass(frozen=True)
class Settings:
    """How the model of a set is trained; `estimator` is None for QMS in batches, else any classifier."""

    estimator: Any
    n_components: int
    alpha: float
    noise: float
    n_passes: int
    batch_size: int
    learning_rate: float
    revisit: float
    betas: tuple[float, ...]
    seed: int
    n_jobs: int | None
    device: str = "cpu"  # where sets are trained; what they say of a few hundred patients is quicker on the CPU

    @property
    def solver(self) -> AdamSolver:
        return AdamSolver(self.n_passes, self.batch_size, self.learning_rate, revisit=self.revisit)

    @property
    def altered_solver(self) -> AdamSolver:
        n_passes = max(1, round(ALTERED_SHARE * self.n_passes))
        return AdamSolver(n_passes, self.batch_size, self.learning_rate, revisit=self.revisit)


@dataclass(frozen=True)
class EvidenceModels(OnlyFields):
    """The models of the sets that were asked for so far.

    Attributes
    ----------
    records : Records
        What further models are learnt from.
    settings : Settings
    sets : list of int
    nominal : list
        Of each set: the separators of all folds, stacked as if they were classes, shape (n_folds * m, q, p + 1); or
        the fitted classifiers.
    altered : list
        Of each set: the same for every (beta, class), or None as long as nobody asked.
    """

    records: Records
    settings: Settings
    sets: list[int] = field(default_factory=list)
    nominal: list[Any] = field(default_factory=list)
    altered: list[Any] = field(default_factory=list)

    @cached_property
    def _place(self) -> dict[int, int]:
        return {one: place for place, one in enumerate(self.sets)}

    @cached_property
    def _unseen(self) -> dict[int, Floats]:
        return {}

    def kept(self, sets: Sequence[int]) -> EvidenceModels:
        """A copy that holds the models of these sets only."""
        self.fit(sets)
        places = [self._place[one] for one in sets if one]
        return EvidenceModels(
            self.records,
            self.settings,
            [self.sets[place] for place in places],
            [self.nominal[place] for place in places],
            [self.altered[place] for place in places],
        )

    # ------------------------------------------------------------------------------------------------ fitting

    def fit(self, sets: Sequence[int]) -> None:
        """Train the models of those sets that have none yet; the empty set needs none."""
        new = [one for one in dict.fromkeys(int(s) for s in sets) if one and one not in self._place]
        if not new:
            return
        n_folds = self.records.n_folds
        for begin in range(0, len(new), self._sets_at_once(n_folds)):
            part = new[begin : begin + self._sets_at_once(n_folds)]
            factors = np.ones((1, self.records.n_classes))
            for one, models in zip(part, self._train(part, factors, None), strict=True):
                self._place[one] = len(self.sets)
                self.sets.append(one)
                self.nominal.append(models[0])
                self.altered.append(None)

    def fit_altered(self, sets: Sequence[int]) -> None:
        """Train the altered models of the sets too."""
        self.fit(sets)
        new = [one for one in dict.fromkeys(int(s) for s in sets) if one and self.altered[self._place[one]] is None]
        m, betas = self.records.n_classes, self.settings.betas
        factors = np.ones((len(betas) * m, m))
        for member, (beta, altered) in enumerate((beta, k) for beta in betas for k in range(m)):
            factors[member, altered] = beta
        at_once = self._sets_at_once(self.records.n_folds * len(factors))
        for begin in range(0, len(new), at_once):
            part = new[begin : begin + at_once]
            starts = [self.nominal[self._place[one]] for one in part]
            for one, models in zip(part, self._train(part, factors, starts), strict=True):
                self.altered[self._place[one]] = models

    def _sets_at_once(self, n_members: int) -> int:
        return max(1, AT_ONCE // (n_members * len(self.records.target)))

    def _train(self, sets: list[int], factors: Doubles, starts: list[Any] | None) -> list[list[Any]]:
        """For each set and each row of class factors, the models of all folds."""
        if self.settings.estimator is not None:
            return self._train_any(sets, factors)
        records, settings = self.records, self.settings
        n_folds, n_factors = records.n_folds, len(factors)
        members = []
        for place, one in enumerate(sets):
            start = [None] * n_folds if starts is None else np.split(starts[place].coefficients, n_folds)
            # A model depends on its set alone, not on which others are trained with it.
            seed, columns = _seed(settings.seed, one), records.columns(one)
            members += [
                Member(seed, settings.noise, factor, mask, columns, begin)
                for factor in factors
                for mask, begin in zip(records.masks, start, strict=True)
            ]
        solver = settings.solver if starts is None else settings.altered_solver
        with Trainer(
            records.rows,
            records.target,
            records.n_classes,
            scaling=Scaling.identity(records.rows.shape[1]),
            alpha=settings.alpha,
            n_jobs=settings.n_jobs,
            device=settings.device,
        ) as trainer:
            trained = trainer.train(members, solver, settings.n_components)
        separators = [trained.separators(member) for member in range(len(members))]
        stacked = [Separators.stack(separators[i : i + n_folds]) for i in range(0, len(members), n_folds)]
        return [stacked[i : i + n_factors] for i in range(0, len(stacked), n_factors)]

    def _train_any(self, sets: list[int], factors: Doubles) -> list[list[Any]]:
        """Any classifier, one fit a member."""
        records, estimator = self.records, self.settings.estimator

        def fitted(columns: npt.NDArray[np.int32], factor: Doubles, mask: Floats) -> Any:
            rows = np.flatnonzero(mask)
            X, y = records.rows[np.ix_(rows, columns)], records.target[rows]
            model = clone(estimator)
            if (factor == 1).all():
                return model.fit(X, y)
            if not has_fit_parameter(model, "sample_weight"):
                raise ValueError(
                    f"stop='loyalty' of DiagnosisPlanner alters the weights of classes, and {type(model).__name__} "
                    "takes no sample_weight in fit: use stop='regret' or 'calibrated', or another estimator."
                )
            return model.fit(X, y, sample_weight=factor[y])

        jobs = [
            delayed(fitted)(records.columns(one), factor, mask)
            for one in sets
            for factor in factors
            for mask in records.masks
        ]
        models = Parallel(n_jobs=self.settings.n_jobs, prefer="threads")(jobs)
        groups = [models[i : i + records.n_folds] for i in range(0, len(models), records.n_folds)]
        return [groups[i : i + len(factors)] for i in range(0, len(groups), len(factors))]

    # ----------------------------------------------------------------------------------------------- answering

    def unseen(self, tests: int) -> Floats:
        """Scores of the training patients, each by the fold model that has not seen it: shape (n, m)."""
        if tests not in self._unseen:
            records = self.records
            if tests:
                self.fit([tests])
                by_fold = self._fold_scores(self.nominal[self._place[tests]], tests, records.rows)
                self._unseen[tests] = by_fold[np.arange(len(by_fold)), records.fold].astype(np.float32)
            else:
                self._unseen[tests] = records.prior[records.fold].astype(np.float32)
        return self._unseen[tests]

    def scores(self, tests: int, rows: Floats) -> Floats:
        """Scores of new patients, averaged over the folds: shape (n, m)."""
        if not tests:
            return np.tile(self.records.prior.mean(axis=0), (len(rows), 1)).astype(np.float32)
        self.fit([tests])
        scores = self._fold_scores(self.nominal[self._place[tests]], tests, rows).mean(axis=1)
        return np.asarray(scores, dtype=np.float32)

    def unseen_claims(self, tests: int) -> npt.NDArray[np.int64]:
        """How many classes keep each training patient although held back, |B(x)|: shape (n_betas, n)."""
        return self._claims(tests, self.records.rows, self.records.fold)

    def claims(self, tests: int, rows: Floats) -> npt.NDArray[np.int64]:
        """The same of new patients, the altered models averaged over the folds."""
        return self._claims(tests, rows, None)

    def _claims(self, tests: int, rows: Floats, fold: npt.NDArray[np.int64] | None) -> npt.NDArray[np.int64]:
        m, n_betas = self.records.n_classes, len(self.settings.betas)
        counts = np.zeros((n_betas, len(rows)), dtype=np.int64)
        if not tests:  # nothing is known: no class keeps anybody
            return counts
        self.fit_altered([tests])
        for member, model in enumerate(self.altered[self._place[tests]]):
            scores = self._fold_scores(model, tests, rows)
            own = scores.mean(axis=1) if fold is None else scores[np.arange(len(rows)), fold]
            counts[member // m] += own.argmax(axis=1) == member % m
        return counts

    def loyalty(self, tests: int, rows: Floats, beta: float, gamma: float) -> npt.NDArray[np.str_]:
        """The loyalty type of new patients (Definition 6), by altered models trained for the question."""
        m = self.records.n_classes
        alterations = Alterations.of(beta, gamma, m)
        claims = np.zeros((1 + len(alterations.gamma), len(rows)), dtype=np.int64)
        if tests:
            self.fit([tests])
            [altered] = self._train([tests], alterations.factors, [self.nominal[self._place[tests]]])
            for (step, own), model in zip(alterations, altered, strict=True):
                claims[step] += self._fold_scores(model, tests, rows).mean(axis=1).argmax(axis=1) == own
        return np.array(alterations.levels)[loyalty_levels(claims[:1], claims[1:])]

    def _fold_scores(self, model: Any, tests: int, rows: Floats) -> Floats:
        """Scores by every fold's model: shape (n, n_folds, m)."""
        records = self.records
        m = records.n_classes
        columns = records.columns(tests)
        if isinstance(model, Separators):
            f = evaluate(model, rows, "cpu", self.settings.n_jobs)
            return np.asarray(log_scores(f).reshape(len(rows), -1, m))
        return np.stack([answers_of(one, rows[:, columns], np.arange(m))[1] for one in model], axis=1)


def _seed(base: int, tests: int) -> int:
    """A seed for each set."""
    return int(np.random.SeedSequence([base, tests]).generate_state(1, np.uint64)[0])


def default_settings(
    estimator: Any, records: Records, some_sets: Sequence[int], betas: tuple[float, ...], seed: int, n_jobs: int | None
) -> Settings:
    """The settings of QMS for these records, the noise level chosen by the log loss on unseen patients."""
    n = len(records.target)
    batch_size, revisit = (64, 1.0) if n < 2_000 else (128, 0.2)
    n_passes = max(5, -(-LEAST_STEPS // max(1, -(-n // batch_size))))
    settings = Settings(
        estimator, 4 if n < 1_000 else 8, 0.5, 1.0, n_passes, batch_size, 0.25, revisit, betas, seed, n_jobs
    )
    if type(estimator) is QMSClassifier:

        def given(value: int | str, default: int) -> int:
            return default if value == "auto" else int(value)

        return replace(
            settings,
            estimator=None,
            n_components=given(estimator.n_components, settings.n_components),
            n_passes=given(estimator.max_iter, settings.n_passes),
            batch_size=given(estimator.batch_size, settings.batch_size),
            noise=float(estimator.noise),
            alpha=float(estimator.alpha),
            learning_rate=float(estimator.learning_rate),
            device=estimator.device,
        )
    if estimator is not None:
        return settings
    losses = [_log_loss(EvidenceModels(records, replace(settings, noise=noise)), some_sets) for noise in NOISES]
    return replace(settings, noise=NOISES[int(np.argmin(losses))])


def _log_loss(models: EvidenceModels, sets: Sequence[int]) -> float:
    """Mean log loss on unseen patients, each set at its own best temperature."""
    models.fit(sets)
    target = models.records.target
    total = 0.0
    for one in sets:
        scores = models.unseen(one)
        log_chances = log_softmax(scores / fit_temperature(scores, target), axis=1)
        total -= float(log_chances[np.arange(len(target)), target].mean())
    return total / len(sets)
