"""A classifier on every evidence set, each cross-fitted: for classifiers of others, and for plans of version 0.1.0.

For an evidence set S the classifier is the average of the models of the folds: the score of class k is the mean of
``-log f_k`` over them. A training patient is judged by the one fold model that has not seen it; nothing is refitted, so
what is estimated on these *unseen scores* is about the very models that will answer.

Where a file of 0.1.0 has quadratic classifiers, all sets x folds are members of one batch with a feature mask each. For
the paper's stopping rule every set also has altered models (section 3.1): class i's part of the loss weighted by beta,
started from the nominal one.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from multiform._typing import Array, Doubles, Floats, Ints
from multiform.classifier import QMSClassifier
from multiform.diagnosis._masked import FoldedPatients, alterations_of
from multiform.engines import evaluate
from multiform.loyalty import answers_of, loyalty_levels
from multiform.prediction import log_scores
from multiform.runtime import jobs_for
from multiform.separators import Scaling, Separators
from multiform.solvers import AdamSolver
from multiform.training import Member, Trainer

MOST_SAMPLE_WEIGHTS = 20_000_000  # numbers that the sample weights of one batch may hold
ALTERED_SET_PASSES = 0.5  # of an altered model, as a share of the nominal's: it starts from the nominal


class EvidenceModels(FoldedPatients):
    """The training patients, encoded, and the models of the evidence sets that were asked for so far.

    ``fitted[kind][S]`` holds what all folds learnt on the set S, for each row of class factors of the kind: stacked
    `Separators` where `estimator` is a `QMSClassifier`, whose parameters say how a batch is trained; else a fitted
    classifier per fold. Models of the kind "nominal" weigh all classes alike; "held back" are those of every (beta,
    class), for the stopping rule; "shown" those of the loyalty type that a session shows. `fold` says which fold
    judges each patient, and `column_owner` which test each column belongs to.
    """

    def __init__(
        self,
        rows: Floats,
        target: Ints,
        fold: Array,
        column_owner: Array,
        n_classes: int,
        estimator: Any,
        betas: tuple[float, ...],
        seed: int,
        n_jobs: int | None,
    ) -> None:
        self.rows, self.target, self.fold, self.column_owner = rows, target, fold, column_owner
        self.n_classes, self.estimator, self.betas = n_classes, estimator, betas
        self.seed, self.n_jobs = seed, n_jobs
        self.n_folds = int(fold.max()) + 1
        self.fitted: dict[str, dict[int, list[Any]]] = {"nominal": {}, "held back": {}, "shown": {}}
        self._unseen: dict[int, Floats] = {}

    @property
    def sets(self) -> list[int]:
        """The sets that have a model, the first that was asked for first."""
        return list(self.fitted["nominal"])

    @property
    def values(self) -> Floats:
        """The encoded results."""
        return self.rows

    def columns(self, tests: int) -> Ints:
        """The columns of an evidence set."""
        return np.flatnonzero([tests >> t & 1 for t in self.column_owner.tolist()]).astype(np.int32)

    def empty(self, estimator: Any) -> EvidenceModels:
        """The same patients, no model yet."""
        about = self.rows, self.target, self.fold, self.column_owner, self.n_classes
        return EvidenceModels(*about, estimator, self.betas, self.seed, self.n_jobs)

    def kept(self, sets: Sequence[int]) -> EvidenceModels:
        """A copy that holds the models of these sets only."""
        self.fit(sets)
        copy = self.empty(self.estimator)
        for kind in ("nominal", "held back"):
            copy.fitted[kind] = {one: models for one, models in self.fitted[kind].items() if one in sets}
        return copy

    # ------------------------------------------------------------------------------------------------ fitting

    def fit(self, sets: Sequence[int], kind: str = "nominal") -> None:
        """Train the models of those sets that have none of this kind yet; the empty set needs none."""
        new = [one for one in dict.fromkeys(int(s) for s in sets) if one and one not in self.fitted[kind]]
        altered = kind != "nominal"
        if altered:
            self.fit(new)
        factors = alterations_of(kind, self.betas, self.n_classes).factors if altered else np.ones((1, self.n_classes))
        train = self._train if type(self.estimator) is QMSClassifier else self._train_any
        at_once = max(1, MOST_SAMPLE_WEIGHTS // (self.n_folds * len(factors) * len(self.target)))
        for begin in range(0, len(new), at_once):
            part = new[begin : begin + at_once]
            models = train(part, factors, altered)
            for k, one in enumerate(part):
                self.fitted[kind][one] = models[k * len(factors) : (k + 1) * len(factors)]

    def _train(self, sets: list[int], factors: Doubles, altered: bool) -> list[Any]:
        """For each set and each row of class factors, the separators of all folds; altered ones start from nominal."""
        how, n_folds, members = self.estimator, self.n_folds, []
        for one in sets:
            starts = np.split(self.fitted["nominal"][one][0].coefficients, n_folds) if altered else [None] * n_folds
            # A seed for each set: a model depends on its set alone, not on which others are trained with it.
            seed = int(np.random.SeedSequence([self.seed, one]).generate_state(1, np.uint64)[0])
            columns = self.columns(one)
            members += [
                Member(seed, how.noise, factor, mask, columns, start)
                for factor in factors
                for mask, start in zip(self.masks, starts, strict=True)
            ]
        n_passes = max(1, round(ALTERED_SET_PASSES * how.max_iter)) if altered else how.max_iter
        revisit = 1.0 if len(self.target) < 2_000 else 0.2
        solver = AdamSolver(n_passes, how.batch_size, how.learning_rate, revisit=revisit)
        with Trainer(
            self.rows,
            self.target,
            self.n_classes,
            scaling=Scaling.identity(self.rows.shape[1]),
            alpha=how.alpha,
            n_jobs=self.n_jobs,
            device=how.device,
        ) as trainer:
            trained = trainer.train(members, solver, how.n_components)
        separators = [trained.separators(member) for member in range(len(members))]
        return [Separators.stack(separators[i : i + n_folds]) for i in range(0, len(members), n_folds)]

    def _train_any(self, sets: list[int], factors: Doubles, altered: bool) -> list[Any]:
        """For each set and each row of class factors, any classifier fitted per fold."""

        def fitted(columns: Ints, factor: Doubles, mask: Floats) -> Any:
            rows = np.flatnonzero(mask)
            X, y = self.rows[np.ix_(rows, columns)], self.target[rows]
            model = clone(self.estimator)
            if not altered:
                return model.fit(X, y)
            if not has_fit_parameter(model, "sample_weight"):
                raise ValueError(
                    f"stop='loyalty' of DiagnosisPlanner alters the weights of classes, and {type(model).__name__} "
                    "takes no sample_weight in fit: use stop='regret' or 'calibrated', or another estimator."
                )
            return model.fit(X, y, sample_weight=factor[y])

        members = list(itertools.product([self.columns(one) for one in sets], factors, self.masks))
        n_jobs = jobs_for(self.n_jobs, len(members))
        models = Parallel(n_jobs=n_jobs, prefer="threads")(delayed(fitted)(*member) for member in members)
        return [models[i : i + self.n_folds] for i in range(0, len(models), self.n_folds)]

    # ----------------------------------------------------------------------------------------------- answering

    def unseen(self, tests: int) -> Floats:
        """Scores of the training patients, each by the fold model that has not seen it: shape (n, m); remembered."""
        if tests not in self._unseen:
            self._unseen[tests] = self.scores(tests)
        return self._unseen[tests]

    def scores(self, tests: int, rows: Floats | None = None) -> Floats:
        """Scores of new patients, averaged over the folds, or of the training patients, unseen: shape (n, m)."""
        if tests:
            self.fit([tests])
            scores = self._scores(self.fitted["nominal"][tests][0], tests, rows)
        else:
            scores = self.prior[self.fold] if rows is None else np.tile(self.prior.mean(axis=0), (len(rows), 1))
        return scores.astype(np.float32)

    def claims(self, tests: int, rows: Floats | None = None, kind: str = "held back") -> Array:
        """How many classes keep each patient although held back (or pushed), |B(x)|: shape (n_weights, n)."""
        alterations = alterations_of(kind, self.betas, self.n_classes)
        n = len(self.rows if rows is None else rows)
        counts = np.zeros((len(alterations.beta) + len(alterations.gamma), n), dtype=np.int64)
        if tests:  # where nothing is known, no class keeps anybody
            self.fit([tests], kind)
            for (step, altered), model in zip(alterations, self.fitted[kind][tests], strict=True):
                counts[step] += self._scores(model, tests, rows).argmax(axis=1) == altered
        return counts

    def loyalty(self, tests: int, rows: Floats) -> Array:
        """The loyalty type of new patients (Definition 6); its altered models are trained once per set."""
        claims = self.claims(tests, rows, "shown")
        levels = alterations_of("shown", self.betas, self.n_classes).levels
        return np.array(levels)[loyalty_levels(claims[:1], claims[1:])]

    def _scores(self, model: Any, tests: int, rows: Floats | None) -> Array:
        """By a model, averaged over the folds; without rows, of the training patients by the fold that judges each."""
        asked = self.rows if rows is None else rows
        if isinstance(model, Separators):  # on the CPU: it is quicker for a few hundred patients
            scores = log_scores(evaluate(model, asked, "cpu", self.n_jobs)).reshape(len(asked), -1, self.n_classes)
        else:
            columns, classes = self.columns(tests), np.arange(self.n_classes)
            scores = np.stack([answers_of(one, asked[:, columns], classes)[1] for one in model], axis=1)
        return np.asarray(scores[np.arange(len(asked)), self.fold] if rows is None else scores.mean(axis=1))
