"""Partners: which ones are meant, and what they say of samples that they have not seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import ThreadpoolController

from multiform import progress
from multiform._typing import Array, Doubles, Floats, Indices
from multiform.partners._forest import Forest
from multiform.runtime import effective_threads, in_threads, single_threaded_blas
from multiform.separators import Scaling
from multiform.state import require, require_array, require_names

N_TREES = 200  # of a forest, over all folds together (docs/defaults.md)
# Of boosting: a quarter of the rounds that scikit-learn makes, with steps twice as long (docs/defaults.md).
BOOSTS, STEP, LEAVES = 25, 0.2, 15
FARTHEST = 1e38  # in deviations: single precision has room for it
LEAST_WEIGHT = 1e-30  # of a class, as a share of the largest
ROUNDING = 1e-4  # by which a chance may be more than 1
DOUBT = 0.03  # a share of every chance that is spread over the classes: no partner is ever certain


class Partner:
    """A classifier that was fitted on every fold, and the mean of what its models say, as logarithms, as of our own.

    Parameters
    ----------
    name : str
        The name of its class, with a number where there are several of it.
    models : Forest or list of fitted classifiers
        Whose classes are numbers from 0 on.
    n_classes : int
    class_weights : array of shape (n_classes,), default=None
        How many times as frequent each class is where the answers are given as where the models were fitted.
    """

    def __init__(
        self, name: str, models: Forest | list[Any], n_classes: int, class_weights: Doubles | None = None
    ) -> None:
        self.name, self.models, self.n_classes, self.class_weights = name, models, n_classes, class_weights

    def compact(self) -> Partner:
        """The same with forests as arrays, which files and ONNX can hold."""
        forest = Forest.of(self.models, self.n_classes) if isinstance(self.models, list) else None
        return self if forest is None else Partner(self.name, forest, self.n_classes, self.class_weights)

    def log_chances(self, rows: Floats) -> Doubles:
        """The mean logarithm of the chances of rows that `read_rows` has read: shape (n, m)."""
        if isinstance(self.models, Forest):
            chances = self.models.chances(rows)
        else:
            chances = np.stack([_chances(model, rows, self.n_classes) for model in self.models], axis=1)
        return np.asarray(doubted(weighted(chances, self.class_weights)).mean(axis=1))

    def as_plain(self) -> dict[str, Any]:
        """For a model file, which holds forests alone."""
        if not isinstance(self.models, Forest):
            raise TypeError(
                f"partners of QMSClassifierCV has a {self.name}, which a model file cannot hold, as it has no code in "
                "it; it holds ExtraTreesClassifier, RandomForestClassifier and HistGradientBoostingClassifier (without "
                "categories), as arrays. For anything else there is joblib or skops."
            )
        plain = {"name": self.name, "forest": self.models.as_plain()}
        return plain if self.class_weights is None else plain | {"class_weights": self.class_weights}

    @classmethod
    def from_plain(cls, state: Any, n_features: int, n_classes: int) -> Partner:
        """The inverse."""
        require_names(state, "a partner", ["name", "forest"], ["class_weights"])
        require(isinstance(state["name"], str), "the name of a partner is none")
        forest, weights = Forest.from_plain(state["forest"], n_features, n_classes), state.get("class_weights")
        if weights is not None:
            weights = require_array(weights, (n_classes,), "f", "the class weights of a partner")
            fair = (weights >= LEAST_WEIGHT).all() and weights.max() == 1
            require(fair, "a class weight of a partner is out of range")
        return cls(state["name"], forest, n_classes, weights)


def weighted(chances: Doubles, class_weights: Doubles | None) -> Doubles:
    """Chances where class k is w_k times as frequent as in training: ``w_k c_k / sum_j w_j c_j``.

    So class weights reach every partner. A tree that grows until each leaf is of one class does not feel them.
    """
    if class_weights is None:
        return chances
    products = chances * class_weights
    return np.asarray(products / products.sum(axis=-1, keepdims=True))


def relative(class_weights: Array) -> Doubles | None:
    """Class weights as shares of the largest, or None where all are alike."""
    shares = np.maximum(np.asarray(class_weights, dtype=np.float64) / np.max(class_weights), LEAST_WEIGHT)
    return None if (shares == 1).all() else shares


def doubted(chances: Doubles) -> Doubles:
    """Logarithms of chances with some doubt: a forest may say that a class is impossible, and be wrong."""
    return np.asarray(np.log((1 - DOUBT) * chances + DOUBT / chances.shape[-1]))


def partners_named(asked: Any, n_folds: int) -> dict[str, Any]:
    """Unfitted classifiers by name, for `partners` of `QMSClassifierCV`: None, "forests", "trees" or classifiers."""
    if asked is None:
        return {}
    if isinstance(asked, str):
        from multiform.partners._growing import forests

        grown = forests(-(-N_TREES // n_folds))
        if asked == "forests":
            return grown
        from sklearn.ensemble import HistGradientBoostingClassifier  # which takes a while to load

        boosting = HistGradientBoostingClassifier(
            max_iter=BOOSTS, learning_rate=STEP, max_leaf_nodes=LEAVES, early_stopping=False
        )
        return grown | {"HistGradientBoostingClassifier": boosting}
    named: dict[str, Any] = {}
    for partner in asked:
        # `is_classifier` asks for tags, which only an estimator has.
        if not (hasattr(partner, "predict_proba") and hasattr(partner, "fit") and is_classifier(partner)):
            raise ValueError(
                'partners of QMSClassifierCV must be "auto", "forests", "trees", None or a list of classifiers with '
                f"predict_proba; got {partner!r}."
            )
        kind = type(partner).__name__
        number = sum(name.split(" ")[0] == kind for name in named)
        named[kind if not number else f"{kind} {number + 1}"] = partner
    return named


def read_rows(X: Any, scaling: Scaling) -> Floats:
    """The plain columns, the first of those that separators read, scaled in double precision, then single."""
    if scipy.sparse.issparse(X):
        raise ValueError("partners of QMSClassifierCV need dense X; use X.toarray(), or partners=None.")
    p = X.shape[1]
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = (np.asarray(X, dtype=np.float64) - scaling.center[:p]) / scaling.scale[:p]
    return np.clip(scaled, -FARTHEST, FARTHEST).astype(np.float32)


def cross_fitted(
    partners: dict[str, Any],
    rows: Floats,
    target: Array,
    n_classes: int,
    weight: Array | None,
    class_weights: Array,
    folds: Indices,
    random: np.random.Generator,
    n_jobs: int | None,
) -> tuple[list[Partner], Doubles]:
    """Every partner fitted without each fold, and the logarithms of its chances for that fold.

    Returns
    -------
    partners : list of Partner
    unseen : array of shape (n_partners, n, m)
    """
    n_folds = int(folds.max()) + 1
    shares = relative(class_weights)
    # Rounded, so that their unit decides no tie between two cuts of a tree.
    counts = None if weight is None else (weight / weight.max()).astype(np.float32).astype(np.float64)
    tasks = [(name, fold, int(random.integers(2**31 - 1))) for name in partners for fold in range(n_folds)]
    unseen = np.empty((len(partners), len(target), n_classes))
    places = {name: place for place, name in enumerate(partners)}
    pools = ThreadpoolController()
    done: list[Any] = []
    tell = progress.teller()

    def fit(task: tuple[str, int, int]) -> Any:
        name, fold, seed = task
        held = folds == fold
        model = clone(partners[name])
        model.set_params(**{one: seed for one, value in _parameters(model, "random_state").items() if value is None})
        told: dict[str, Any] = {}
        if counts is not None:
            if not has_fit_parameter(model, "sample_weight"):
                raise ValueError(
                    f"partners of QMSClassifierCV get the weights of samples, which {name} does not take; "
                    "leave it out, or give no weights."
                )
            told["sample_weight"] = counts[~held]
        # One core a model: the threads of OpenMP wait for each other more than they work on tables like ours.
        with pools.limit(limits=1, user_api="openmp"):
            model.fit(rows[~held], target[~held], **told)
            unseen[places[name], held] = doubted(weighted(_chances(model, rows[held], n_classes), shares))
        done.append(task)
        tell(len(done) / len(tasks), f"{len(done)} of {len(tasks)} trees' models")
        return model

    # Where joblib has threads of its own, models are fitted one after the other: begun from several of ours at a time,
    # it loses the filters of warnings.
    alone = [task for task in tasks if _parameters(partners[task[0]], "n_jobs")]
    side_by_side = [task for task in tasks if task not in alone]
    with single_threaded_blas():
        fitted = dict(zip(alone, map(fit, alone), strict=True))
        fitted |= dict(zip(side_by_side, in_threads(fit, side_by_side, effective_threads(n_jobs)), strict=True))
    models = {name: [fitted[task] for task in tasks if task[0] == name] for name in partners}
    return [Partner(name, models[name], n_classes, shares) for name in partners], unseen


def _parameters(model: Any, called: str) -> dict[str, Any]:
    """The parameters of this name that a classifier and its parts have."""
    return {name: value for name, value in model.get_params().items() if name.split("__")[-1] == called}


def _chances(model: Any, rows: Floats, n_classes: int) -> Doubles:
    """The chances of a fitted model, 0 of a class that it has not seen."""
    chances = np.zeros((len(rows), n_classes))
    if len(model.classes_) == 1:
        chances[:, model.classes_] = 1
        return chances
    told = np.asarray(model.predict_proba(rows))
    shape = (len(rows), len(model.classes_))
    if told.shape != shape or told.dtype.kind not in "fiu" or not ((told >= 0) & (told <= 1 + ROUNDING)).all():
        got = f"an array of shape {told.shape} and type {told.dtype}"
        if told.shape == shape and told.dtype.kind in "fiu":
            got = f"{told[~((told >= 0) & (told <= 1 + ROUNDING))][0]:.6g}"
        raise ValueError(
            f"partners of QMSClassifierCV must have a predict_proba that gives chances from 0 to 1, of shape {shape}; "
            f"that of {type(model).__name__} gave {got}. Leave it out, or put scikit-learn's CalibratedClassifierCV "
            "around it."
        )
    chances[:, model.classes_] = told
    return chances
