"""How the nominal and the altered classifiers are trained: those of QMS together, any other one by one.

Around QMS all models are trained in a few batches over one matrix, the altered ones started from the nominal.
The loss of an altered model differs from the nominal's in one class only. On large data a few passes from the nominal
are therefore enough, and most samples have nothing to say: a pair with ``f_y / f_j`` far below alpha has no gradient
and will not get one soon. What remains is sampled: samples that the altered class touches (its own, and those near
it) are all kept; of the others a share is drawn and weighted by its inverse, so that the expected gradient stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter

from multiform import progress
from multiform._typing import Array, Floats, Indices
from multiform.classifier import QMSClassifier, fitted_classifier
from multiform.classifier_cv import QMSClassifierCV
from multiform.defaults import components_for, noise_levels, solver_for, usual_noise
from multiform.fitting import all_but, best_calibrated, drawn_seed, masked_weights, unseen_scores
from multiform.folds import Split
from multiform.inputs import class_weights_of, of_mean_one
from multiform.loyalty._alterations import Alterations
from multiform.loyalty._committee import Committee
from multiform.runtime import jobs_for
from multiform.separators import Separators, entries_of
from multiform.solvers import AdamSolver, CpmSolver
from multiform.training import Member, Trained, Trainer

# Chosen on a validation part of Fashion-MNIST's training data (docs/loyalty.md).
ALTERED_PASSES = 1 / 3  # passes of an altered model, of the nominal's; two at least
ALTERED_RATE = 0.5  # learning rate of an altered model, of the nominal's
ALTERED_REVISIT = 0.05  # see AdamSolver
NEAR = 0.55  # a pair with f_y / f_j above this share of alpha may become active
DRAWN = 0.1  # share of the samples drawn that the altered class does not touch
SAMPLED_FROM = 5_000  # fewer samples are all visited, for as many passes as the nominal's


def quadratic_committees(
    estimator: QMSClassifier,
    X: Any,
    target: Any,
    classes: Array,
    weight: Array | None,
    alterations: Alterations,
    altered_iter: int | str,
    parts: list[Indices | None],
    splits: list[Split],
) -> Iterator[Committee]:
    """A committee for each part of the rows (None: all of them): the nominals together, then each one's 2m.

    The parameters of `estimator` hold for every model; an altered one makes `altered_iter` passes. X, target, classes
    and weight are the training data, checked.

    Of several noise levels a committee has the one with the least log loss on the samples that the nominals did not
    see; that of a split does not look at the samples that it is to judge, so that its verdicts stay honest. Then the
    parts must be all rows, and what each of the splits trains on.
    """
    estimator._validate_params()  # as its own fit would
    seed, n, m = drawn_seed(estimator.random_state), len(target), len(classes)
    class_weights = of_mean_one(class_weights_of(estimator.class_weight, classes, target, weight), weight)
    entries = entries_of(X)
    n_components = components_for(estimator.n_components, n, X.shape[1], m, sparse=entries is not None)
    parameters = estimator.get_params()
    asked = {name: parameters[name] for name in ("max_iter", "batch_size", "learning_rate")}
    solver = solver_for(estimator.solver, n, n_components, sparse=entries is not None, **asked)
    many = n >= SAMPLED_FROM
    altered_solver = _altered(solver, altered_iter, many)
    masks = masked_weights([None if rows is None else np.isin(np.arange(n), rows) for rows in parts], weight)
    levels = noise_levels(estimator.noise, *X.shape, entries=entries)
    if len(levels) > 1 and len(parts) < 2:  # nothing is held out to choose by
        levels = (usual_noise(*X.shape, entries=entries),)

    def classifier(trained: Trained, member: int, noise: float) -> QMSClassifier:
        """A member of the batch as a fitted classifier of its own."""
        figures = {"n_iter_": trained.passes, "loss_curve_": trained.losses[member], "noise_": noise}
        return fitted_classifier(parameters, trained.separators(member), classes, **figures)

    with Trainer.of(estimator, X, target, classes, weight, scaling=estimator.scaling) as trainer:
        nominal_work = len(levels) * len(masks) * solver.n_passes
        altered_work = len(masks) * len(alterations) * altered_solver.n_passes
        done = nominal_work / (nominal_work + altered_work)
        with progress.part(0.0, done):
            nominals = trainer.train(
                [Member(seed, level, class_weights, mask) for level in levels for mask in masks], solver, n_components
            )
        chosen_levels = _chosen_levels(trainer, nominals, levels, splits) if len(levels) > 1 else [0] * len(parts)
        for part, (mask, chosen) in enumerate(zip(masks, chosen_levels, strict=True)):
            noise, nominal = levels[chosen], chosen * len(masks) + part
            visited: list[Floats | None] = [mask] * len(alterations)
            if many and isinstance(solver, AdamSolver):
                visited = list(_visited(trainer, nominals.separators(nominal), mask, alterations, seed))
            start = nominals.coefficients[nominal]
            members = [
                Member(seed, noise, factors * class_weights, sample_weight, None, start)
                for factors, sample_weight in zip(alterations.factors, visited, strict=True)
            ]
            with progress.part(*(done + (1 - done) * (part + k) / len(masks) for k in (0, 1))):
                trained = trainer.train(members, altered_solver, n_components)
            altered = [classifier(trained, member, noise) for member in range(len(members))]
            yield Committee(classes, alterations, classifier(nominals, nominal, noise), altered)


def _chosen_levels(trainer: Trainer, nominals: Trained, levels: Sequence[float], splits: list[Split]) -> list[int]:
    """Which noise level the committee of all rows has, and that of each split."""
    n_parts = 1 + len(splits)
    judged = np.concatenate([np.sort(test) for _, test in splits])
    split = np.repeat(np.arange(len(splits)), [len(test) for _, test in splits])
    masks = [all_but(len(trainer.target), test) for _, test in splits]
    models = [
        [nominals.separators(level * n_parts + 1 + k) for level in range(len(levels))] for k in range(len(splits))
    ]
    scores, _, _ = unseen_scores(trainer, models, masks)
    chosen = []
    for left_out in range(-1, len(splits)):
        used = split != left_out
        weight = None if trainer.weight is None else trainer.weight[judged[used]]
        chosen.append(best_calibrated(scores[:, used], trainer.target[judged[used]], weight)[0])
    return chosen


def _visited(
    trainer: Trainer, nominal: Separators, mask: Floats | None, alterations: Alterations, seed: int
) -> Iterator[Floats]:
    """The weight of each sample for each altered model, 0 for those that it need not visit."""
    target = trainer.target
    n = len(target)
    f = nominal.values(trainer.rows, trainer.engine)
    own = f[np.arange(n), target]
    # near[x, j]: the pair of x's class with j matters; no class is near itself
    near = own[:, None] > NEAR * trainer.alpha * f
    near[np.arange(n), target] = False
    matters = near.any(axis=1)
    whole = matters.astype(np.float32) if mask is None else mask * matters
    touched = near.T.copy()  # a row a class, which touches its own samples, too
    touched[target, np.arange(n)] = True
    drawn = (np.random.default_rng(seed).random(n) < DRAWN) / np.float32(DRAWN)
    weights = [whole * np.where(one, np.float32(1), drawn) for one in touched]
    for _, altered in alterations:
        yield weights[altered]


def _altered(solver: AdamSolver | CpmSolver, altered_iter: int | str, many: bool) -> AdamSolver | CpmSolver:
    """The solver of the altered models; with many samples, few and gentle passes do."""
    n_passes = solver.n_passes if isinstance(altered_iter, str) else int(altered_iter)
    if many and isinstance(altered_iter, str):
        n_passes = max(2, round(ALTERED_PASSES * n_passes))
    if many and isinstance(solver, AdamSolver):
        rate = ALTERED_RATE * solver.learning_rate
        return replace(solver, n_passes=n_passes, learning_rate=rate, revisit=ALTERED_REVISIT)
    return replace(solver, n_passes=n_passes)


def refuse_weightless(estimator: Any, has_sample_weight: bool) -> None:
    """A sentence for a classifier that cannot be altered."""
    name = type(estimator).__name__
    if has_fit_parameter(estimator, "sample_weight"):
        return
    if "class_weight" not in estimator.get_params(deep=False):
        raise ValueError(
            f"LoyaltyClassifier alters the weights of classes, and {name} takes neither sample_weight in fit nor the "
            "parameter class_weight: give a classifier that does, or put LoyaltyClassifier around the last step of a "
            "pipeline instead of the whole."
        )
    if has_sample_weight:
        raise ValueError(
            f"sample_weight of LoyaltyClassifier.fit needs an estimator whose fit takes sample_weight, and {name} does "
            "not: leave sample_weight out, or give another classifier."
        )


def weighted_committees(
    estimator: Any,
    X: Any,
    target: Array,
    classes: Array,
    weight: Array | None,
    alterations: Alterations,
    n_jobs: int | None,
    parts: list[Indices | None],
    groups: Array | None,
) -> Iterator[Committee]:
    """A committee for each part of the rows (None: all of them), through the estimator's public methods alone.

    Every model is a clone of the estimator, fitted on X as the user has it; `n_jobs` of them at the same time.
    """
    factors = np.vstack([np.ones(len(classes)), alterations.factors])  # of the nominal, then of each altered one
    told: dict[str, Any] = {} if groups is None or not has_fit_parameter(estimator, "groups") else {"groups": groups}
    for rows in parts:
        part, of_part, weight_of_part, about = X, target, weight, told
        if rows is not None:
            part, of_part = _safe_indexing(X, rows), target[rows]
            weight_of_part = None if weight is None else weight[rows]
            about = {name: values[rows] for name, values in told.items()}
        models = Parallel(n_jobs=jobs_for(n_jobs, len(factors)))(
            delayed(_fit)(estimator, one, part, of_part, classes, weight_of_part, about) for one in factors
        )
        yield Committee(classes, alterations, models[0], models[1:])


def _fit(
    estimator: Any,
    factors: Array,
    X: Any,
    target: Array,
    classes: Array,
    weight: Array | None,
    about: dict[str, Any],
) -> Any:
    """One model, with the classes' weights multiplied by these factors; `about` has the groups, where they matter."""
    model, y = clone(estimator), classes[target]
    told = about if weight is None else {"sample_weight": weight, **about}
    if (factors == 1).all():
        return model.fit(X, y, **told)
    # To ours, a sample of weight 20 beside others of weight 1 is twenty samples; a class of weight 20 is not.
    ours = isinstance(model, QMSClassifier | QMSClassifierCV)
    if has_fit_parameter(model, "sample_weight") and not ours:
        if model.get_params(deep=False).get("class_weight") == "balanced":
            # Classes that are balanced by the weight of their samples would level out the very alteration.
            factors = factors * class_weights_of("balanced", classes, target, weight)
            model.set_params(class_weight=None)
        return model.fit(X, y, sample_weight=factors[target] * (1 if weight is None else weight), **about)
    present = np.unique(target)
    own = class_weights_of(model.class_weight, classes[present], np.searchsorted(present, target), weight)
    altered = dict(zip(classes[present].tolist(), (own * factors[present]).tolist(), strict=True))
    return model.set_params(class_weight=altered).fit(X, y, **told)
