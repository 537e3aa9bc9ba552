"""QMSClassifierCV: noise level and encoding by cross-validation, in one batch; the fold models are the ensemble."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from multiform import progress
from multiform._typing import Array, Doubles, Indices
from multiform.columns import (
    Categories,
    Encodings,
    Label,
    Measure,
    Rank,
    column_from,
    frame_numbers,
    holds_words,
    learn_frame,
    places_of,
    warn_of_unknown,
)
from multiform.defaults import MOST_NOISE, components_for, levels_to_try, solver_for, usual_partners
from multiform.engines import evaluate
from multiform.fitting import drawn_seed
from multiform.folds import Split, drawn_folds, given_splits, group_codes, unit_samples, warn_of_copies
from multiform.gaps import Filled, Gaussian
from multiform.inputs import (
    check_input,
    check_training_data,
    class_weights_of,
    counted_samples,
    filled,
    has_gaps,
    of_mean_one,
    used_samples,
    without_gaps,
)
from multiform.partners import Partner, cross_fitted, partners_named, read_rows
from multiform.prediction import expected_values, log_scores, mean_temperature, probabilities
from multiform.selection import choose
from multiform.separators import Scaling, Separators, entries_of
from multiform.state import (
    MOST_TEMPERATURE,
    all_or_nothing,
    fitted_state,
    require,
    require_array,
    require_classes,
    require_features,
    require_names,
    require_numbers,
    require_temperature,
    require_whole,
)
from multiform.training import Member, Trainer

__all__ = ["QMSClassifierCV"]

OWN_SHARE = 0.3  # of the time, beside partners
OWN = "QMS"  # what `cv_results_` calls our own settings
RESULTS = ("encoding", "noise", "log_loss", "accuracy", "temperature", "share")  # per setting
PARTNERS = ("partners_", "partner_factors_")
MOST_PARTNERS = 1000
# What a model file holds of a fitted model under its own name.
FITTED = (
    "classes_",
    "cv_results_",
    "best_noise_",
    "best_encoding_",
    "oof_accuracy_",
    "temperature_",
    "n_iter_",
    "n_features_in_",
)

SOMETIMES_FITTED = ("feature_names_in_", "frame_columns_", "categories_")


class QMSClassifierCV(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Quadratic multiform separation for small tabular data: nothing to tune, an ensemble comes out.

    Every noise level and encoding is trained on every fold, all in one batch over one matrix. Each setting is judged on
    the samples that its models did not see; a greedy selection (Caruana et al. 2004) then decides how much of each goes
    into the ensemble, and the models of all folds are kept. With partners and fewer than 5,000 samples, half of the
    choice gives way to the plain mean of all kinds where that is better on unseen samples. Last, without groups, the
    member functions of each class are scaled so that none is named too often of unseen samples. Nothing is refitted, so
    the estimates are of the very models that predict.

    Parameters
    ----------
    noise : sequence of float or "auto", default="auto"
        Levels of input noise to choose from; see `QMSClassifier`. "auto": 0.1, 0.3, 1 and 2, or 1, 2 and 3 with
        fewer than 5 samples a feature.
    encodings : "auto" or sequence of {"plain", "enriched", "finer"} and transformers, default="auto"
        "enriched" adds to the columns one-hot values (3 to 12 distinct values) or hinges at 5 quantiles, "finer" at 12,
        by scikit-learn's OneHotEncoder and SplineTransformer. A transformer is fitted on X. "auto" tries the first two,
        from 1,000 rows on without partners the third, too, if X has at most 50 columns; only
        "plain" for sparse data and for more than 500 columns, 40 where values are missing. Where some are, every
        encoding is tried without and with columns that tell where ("plain + gaps"). Where half of the columns of three
        values or more have 12 at most, it tries "one-hot", too: "enriched" without the numbers that are one-hot.
    cv : int, splitter or iterable, default=5
        A number means folds drawn at random within the classes; with `groups`, of whole groups.
    partners : "auto", "forests", "trees", None or list of classifiers, default="auto"
        Other classifiers, which enter the selection beside our own settings. They are fitted on the same folds, on the
        plain columns as our models read them (scaled), and need `predict_proba`. "forests": ExtraTrees and a random
        forest (200 trees each, over all folds); "trees": HistGradientBoosting, too. None: quadratic multiform
        separation alone, which is quicker and has a geometry. "auto": forests, and from 1,000 rows on trees, but None
        for X that is sparse, wider than long, or of more than 2 million cells.
    ensemble_size : int, default=10
        Steps of the greedy selection, the first of which takes one of our own settings.
    alpha : float in [0, 1), default=0.2
        As in `QMSClassifier`. Chances beyond odds of 1 : alpha^2 look alike to the loss, so a small table, where
        chances matter, has a smaller one than there.
    categorical_features : "from_dtype", None, or places, names or mask of columns, default="from_dtype"
        The columns whose values are categories: one-hot where they are few (50 at most), with cross-fitted shares of
        the classes where they are many (13 and more). "from_dtype": those of a frame that are no numbers. A value that
        training did not have is a missing one, and an `UnfamiliarWarning` counts them.
    n_components, max_iter, batch_size, learning_rate, missing, class_weight, n_jobs, device, random_state
        As in `QMSClassifier`.

    Attributes
    ----------
    classes_ : ndarray of shape (m,)
    cv_results_ : dict of lists
        Per setting and partner: "model" ("QMS", or the partner's class), "encoding", "noise" (NaN for a partner),
        "log_loss" and "accuracy" on unseen samples, "temperature", and "share" in the ensemble.
    shares_ : dict of float
        What QMS and each partner have of the ensemble, where it is anything.
    best_noise_, best_encoding_ :
        Of our own setting with the largest share.
    oof_accuracy_ : float
        Accuracy on samples that neither the models nor the choice among them have seen.
    temperature_ : float
    n_iter_ : int
        Passes that every model made.
    encodings_ : Encodings
        How X becomes the columns that the models read.
    frame_columns_ : list of Column
        What the columns of X are, if it was a frame with words.
    categories_ : Categories
        How columns that hold categories become numbers, if there are any.
    separators_ : Separators
        The member functions of all models of the ensemble, stacked.
    factors_ : ndarray of shape (n_models,)
        The share of each model: the score of a class is the sum over models of ``factor * -log f``.
    partners_ : list of Partner
        Those that have a share, and what their models say.
    partner_factors_ : ndarray of shape (n_partners,)
        The score of a class has ``factor * log(chance)`` of each of them more.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from multiform import QMSClassifierCV
    >>> X, y = load_wine(return_X_y=True)
    >>> model = QMSClassifierCV(random_state=0).fit(X, y)
    >>> model.oof_accuracy_ > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "noise": ["array-like", StrOptions({"auto"})],
        "encodings": [StrOptions({"auto", "plain", "enriched", "finer"}), list, tuple],
        "cv": ["cv_object"],
        "partners": [StrOptions({"auto", "forests", "trees"}), list, tuple, None],
        "ensemble_size": [Interval(Integral, 1, None, closed="left")],
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "alpha": [Interval(Real, 0, 1, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "batch_size": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
        "missing": [StrOptions({"expectation", "refuse"})],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "n_jobs": [Integral, None],
        "device": [StrOptions({"cpu", "cuda", "dask", "auto"})],
        "random_state": ["random_state"],
    }

    _gaussian: Gaussian | None = None  # of encoded rows that have gaps
    frame_columns_: list[Measure | Label] | None = None
    categories_: Categories | None = None

    def __init__(
        self,
        noise: Any = "auto",
        *,
        encodings: Any = "auto",
        cv: Any = 5,
        partners: Any = "auto",
        ensemble_size: int = 10,
        n_components: int | str = "auto",
        alpha: float = 0.2,
        max_iter: int | str = "auto",
        batch_size: int | str = "auto",
        learning_rate: float = 0.07,
        categorical_features: Any = "from_dtype",
        missing: str = "expectation",
        class_weight: dict[Any, float] | str | None = None,
        n_jobs: int | None = None,
        device: str = "cpu",
        random_state: Any = None,
    ) -> None:
        self.noise = noise
        self.encodings = encodings
        self.cv = cv
        self.partners = partners
        self.ensemble_size = ensemble_size
        self.n_components = n_components
        self.alpha = alpha
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.categorical_features = categorical_features
        self.missing = missing
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> QMSClassifierCV:
        """Train all settings on all folds and keep an ensemble.

        Parameters
        ----------
        X : array-like, sparse matrix, or frame of pandas or polars, of shape (n, p)
            The columns of a frame may be numbers, truth values, categories and text of few values; a value may be
            missing.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), default=None
            0 means removed, 2 means repeated. Where all are whole numbers, or whole multiples of the least one, the
            units of a sample may be on both sides of a fold, unless `groups` or `cv` say otherwise.
        groups : array-like of shape (n,), default=None
            Samples that belong together, as those of one patient do: whole groups are held out, so that the estimates
            are of new groups. A splitter given as `cv` gets them, too.
        """
        given, used = (X, y, groups), used_samples(sample_weight)
        words, places, X = self._learn_words(X)
        X, target, classes, weight = check_training_data(self, X, y, sample_weight, finite=False)
        gaps = has_gaps(self, X)
        categories = Categories.learnt(X, places) if places else None
        width = X.shape[1] if categories is None else categories.width(len(classes))
        if not width:
            raise ValueError(
                "X of QMSClassifierCV holds categories alone, and in every column all rows have the same one, so that "
                "there is nothing to learn from; give columns that vary."
            )
        levels = self.noise
        if isinstance(self.noise, str):
            levels = levels_to_try(len(target), width, entries=entries_of(X))
        noise = np.unique(np.asarray(levels, dtype=np.float64))
        if noise.ndim != 1 or len(noise) == 0 or not ((noise >= 0) & (noise <= MOST_NOISE)).all():
            raise ValueError(
                f"noise of QMSClassifierCV must hold numbers from 0 to {MOST_NOISE:g}; got {self.noise!r}."
            )
        groups = group_codes(groups, len(target), type(self).__name__, used)
        random = np.random.default_rng(drawn_seed(self.random_state))
        if isinstance(self.cv, Integral):
            if groups is None:
                n_given = len(target)
                X, target, weight = unit_samples(X, target, weight)
                warn_of_copies(X, type(self).__name__, n_given)
            folds = drawn_folds(target, int(self.cv), random, groups)
        else:
            folds = self._given_folds(given_splits(self.cv, *given, used), len(target))
        n_folds = int(folds.max()) + 1
        if n_folds < 2:
            raise ValueError(f"QMSClassifierCV needs at least 2 samples to split; got n_samples={len(target)}.")
        asked = self.partners
        if isinstance(asked, str) and asked == "auto":
            asked = usual_partners(*X.shape, sparse=scipy.sparse.issparse(X))
        others = partners_named(asked, n_folds)
        if categories is not None:
            categories, X = categories.crossed(X, target, folds, len(classes))
        encodings = Encodings(self.encodings).fit(X, gaps, finer=not others)
        may_have_gaps = not (words is None and categories is None)  # a value that nobody knows is one
        encoded, gaussian = without_gaps(self, encodings.transform(X, gaps), weight, gaps, may_have_gaps)
        n, m = len(target), len(classes)
        whole = np.ones(n) if weight is None else weight
        masks = [np.where(folds == fold, 0, whole).astype(np.float32) for fold in range(n_folds)]
        class_weights = of_mean_one(class_weights_of(self.class_weight, classes, target, weight), weight)
        sparse = entries_of(X) is not None
        solver = solver_for(
            "adam",
            n,
            0,
            max_iter=self.max_iter,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            sparse=sparse,
        )
        # A member for each setting and fold; the settings are encoding x noise.
        settings = [(e, float(sigma)) for e in range(len(encodings.names)) for sigma in noise]
        seeds = iter(random.integers(0, 2**63, size=len(settings) * n_folds, dtype=np.uint64).tolist())
        separators: list[Separators] = []
        unseen = np.empty((len(settings), n, m))
        with Trainer.of(self, encoded, target, classes, weight, scaling="auto") as trainer:
            own = OWN_SHARE if others else 1.0
            for k, columns in enumerate(encodings.columns):
                members = [
                    Member(next(seeds), float(sigma), class_weights, mask, columns) for sigma in noise for mask in masks
                ]
                n_components = components_for(self.n_components, n, len(columns), m, sparse=sparse)
                with progress.part(*(own * at / len(encodings.columns) for at in (k, k + 1))):
                    trained = trainer.train(members, solver, n_components)
                separators += [trained.separators(member) for member in range(len(members))]
            for fold in range(n_folds):
                held = np.flatnonzero(folds == fold)
                f = trainer.values(Separators.stack(separators[fold::n_folds]), held)
                unseen[:, held] = log_scores(f).reshape(len(held), -1, m).swapaxes(0, 1)
            scaling = trainer.scaling
        partners: list[Partner] = []
        if others:
            told = target, m, weight, class_weights, folds, random, self.n_jobs
            plain = _plain_columns(X, encoded)
            with progress.part(own, 1.0):
                partners, chances = cross_fitted(others, read_rows(plain, scaling), *told)
            unseen = np.concatenate([unseen, chances])
        n_own = len(settings)
        counted = None  # with groups: classes are as frequent in a fold as its few groups have them
        if groups is None:
            counted = counted_samples(target, whole, class_weights)
        choice = choose(unseen, target, whole, counted, folds, n_own, self.ensemble_size, random)
        factors = choice.shares / choice.temperatures

        best = int(np.argmax(choice.shares[:n_own]))
        self.classes_ = classes
        self.n_iter_ = solver.n_passes
        self.cv_results_ = {
            "model": [OWN] * n_own + [partner.name for partner in partners],
            "encoding": [encodings.names[e] for e, _ in settings] + ["plain"] * len(partners),
            "noise": [sigma for _, sigma in settings] + [float("nan")] * len(partners),
            "log_loss": choice.log_losses.tolist(),
            "accuracy": choice.accuracies.tolist(),
            "temperature": choice.temperatures.tolist(),
            "share": choice.shares.tolist(),
        }
        self.best_noise_, self.best_encoding_ = settings[best][1], encodings.names[settings[best][0]]
        self.oof_accuracy_ = float(np.average(choice.judged.argmax(axis=1) == target, weights=weight))
        self.temperature_ = mean_temperature(choice.judged, target, weight)
        # The score of a class is the sum over all kept models of factor * -log f, so that f has what it lacks.
        kept = [member for member in range(len(separators)) if factors[member // n_folds] > 0]
        stacked = Separators.stack([separators[member] for member in kept])
        self.encodings_ = encodings
        self.separators_ = stacked.times(np.exp(-choice.offsets / choice.own_scale))
        self.factors_ = np.array([factors[member // n_folds] / n_folds for member in kept])
        with_share = np.flatnonzero(factors[n_own:])
        self.partners_ = [partners[place].compact() for place in with_share]
        self.partner_factors_ = factors[n_own:][with_share]
        fitted = {"_gaussian": gaussian, "frame_columns_": words, "categories_": categories}
        for name, part in fitted.items():  # those that this X has
            self.__dict__.pop(name, None)
            if part is not None:
                setattr(self, name, part)
        return self

    @property
    def shares_(self) -> dict[str, float]:
        """What QMS and each partner have of the ensemble, where it is anything."""
        check_is_fitted(self, "classes_")
        totals: dict[str, float] = {}
        for name, share in zip(self.cv_results_["model"], self.cv_results_["share"], strict=True):
            totals[name] = totals.get(name, 0.0) + share
        return {name: total for name, total in totals.items() if total > 0}

    def _learn_words(self, X: Any) -> tuple[list[Measure | Label] | None, list[int], Any]:
        """What the columns of a frame that is not all numbers are, which columns hold codes, and X without words."""
        owner = type(self).__name__
        by_type = isinstance(self.categorical_features, str) or self.categorical_features is None
        places = set() if by_type else set(places_of(self.categorical_features, X, owner))
        if places and scipy.sparse.issparse(X):
            raise ValueError(f"categorical_features of {owner} needs dense X; give X.toarray().")
        if not holds_words(X, owner):
            return None, sorted(places), X
        words = learn_frame(X, owner)
        places |= {place for place, column in enumerate(words) if _is_name(column)}
        return words, sorted(places), frame_numbers(words, X, owner)[0]

    def _read(self, X: Any) -> tuple[Any, bool]:
        """Rows as the encodings read them, and whether they have gaps."""
        unknown: dict[str, int] = {}
        if self.frame_columns_ is not None:
            X, unknown = frame_numbers(self.frame_columns_, X, type(self).__name__)
        elif holds_words(X, type(self).__name__):  # training had numbers alone: objects may be some, and gaps
            X, _ = frame_numbers([Measure(str(name), "", 0.0, False) for name in X.columns], X, type(self).__name__)
        X = check_input(self, X, finite=False)
        gaps = has_gaps(self, X)
        if self.categories_ is not None and self.frame_columns_ is None:
            names = getattr(self, "feature_names_in_", range(self.n_features_in_))
            unknown = {str(names[place]): count for place, count in self.categories_.count_unknown(X).items()}
        warn_of_unknown(unknown, type(self).__name__, stacklevel=4)
        gaps = gaps or bool(unknown)
        return (X if self.categories_ is None else self.categories_.columns(X)), gaps

    def _given_folds(self, splits: list[Split], n: int) -> Indices:
        folds = np.full(n, -1, dtype=np.intp)
        judging = [test for _, test in splits if len(test)]  # a fold of samples of weight 0 alone is none
        for fold, test in enumerate(judging):
            folds[test] = fold
        if (folds < 0).any() or sum(len(test) for test in judging) != n:
            raise ValueError("cv of QMSClassifierCV must put every sample into exactly one test fold, as KFold does.")
        return folds

    def decision_function(self, X: Any) -> Array:
        """The ensemble's average of ``-log f / T`` and of partners' ``log(chance) / T``, higher is better.

        Shape (n, m); with two classes (n,).
        """
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def _scores(self, X: Any) -> Doubles:
        check_is_fitted(self, "classes_")
        X, gaps = self._read(X)
        encoded = self.encodings_.transform(X, gaps)
        if gaps:
            encoded = filled(self, encoded, self._gaussian)
            f = expected_values(self.separators_, encoded, self.device, self.n_jobs, single=True)
        else:
            f = evaluate(self.separators_, encoded, self.device, self.n_jobs, single=True)
        scores = log_scores(f).reshape(len(f), len(self.factors_), -1)
        total = np.asarray(np.tensordot(self.factors_, scores, axes=(0, 1)), dtype=np.float64)
        if self.partners_:
            rows = read_rows(_plain_columns(X, encoded), self.separators_.scaling)
            for partner, factor in zip(self.partners_, self.partner_factors_, strict=True):
                total += factor * partner.log_chances(rows)
        return total

    def predict(self, X: Any) -> Array:
        """The class that the ensemble finds likeliest."""
        scores = self._scores(X)
        return np.asarray(self.classes_[scores.argmax(axis=1)])

    def predict_proba(self, X: Any) -> Array:
        """Chances, calibrated on the samples that the models did not see: shape (n, m)."""
        scores = self._scores(X)
        return probabilities(scores, self.temperature_)

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithm of `predict_proba`."""
        return np.asarray(np.log(self.predict_proba(X)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "expectation"
        tags.input_tags.categorical = True
        return tags

    # -------------------------------------------------------------------------------------------- model files

    def _get_state(self) -> dict[str, Any]:
        state = fitted_state(self, [*FITTED, *SOMETIMES_FITTED, "encodings_", "separators_", "factors_", *PARTNERS])
        if "classes_" not in state:
            return {}
        separators = self.separators_
        if self._gaussian is not None:
            state["gaps"] = self._gaussian.as_plain()
        if self.frame_columns_ is not None:
            state["frame_columns_"] = [column.state() for column in self.frame_columns_]
        if self.categories_ is not None:
            state["categories_"] = self.categories_.as_plain()
        return state | {
            "encodings_": self.encodings_._get_state(),
            "separators_": separators.as_plain(),
            "scaling": separators.scaling.as_plain(),
            "partners_": [partner.as_plain() for partner in self.partners_],
        }

    def _set_state(self, state: dict[str, Any]) -> None:
        """Separators of all kept models, on columns that there are, and the share of each model in the scores."""
        name = type(self).__name__
        required = [*FITTED, "encodings_", "separators_", "factors_", "scaling"]
        require_names(state, name, required, [*SOMETIMES_FITTED, *PARTNERS, "gaps"])
        m, p = require_classes(state["classes_"]), require_features(state)
        require_temperature(state["temperature_"], "temperature_")
        require_whole(state["n_iter_"], 0, "n_iter_")
        require_numbers([state["best_noise_"], state["oof_accuracy_"]], "a figure of the fit")
        require(isinstance(state["best_encoding_"], str), "best_encoding_ is not a name")
        results = require_names(state["cv_results_"], "cv_results_", RESULTS, ["model"])
        if "model" not in results and isinstance(results["share"], list):  # a file of 0.1.0, which had no partners
            state["cv_results_"] = results = {"model": [OWN] * len(results["share"]), **results}
        columns = [column for column in results.values() if isinstance(column, list)]
        is_table = len(columns) == len(RESULTS) + 1 and len({len(column) for column in columns}) == 1
        require(is_table and all(isinstance(one, str) for one in results["model"]), "cv_results_ is not a table")
        for column in RESULTS[1:]:
            require_numbers(results[column], f"{column} of cv_results_")
        scaling = Scaling.from_plain(state["scaling"])
        encodings = Encodings("auto")
        encodings._set_state(state["encodings_"])
        categories = Categories.from_plain(state["categories_"], p, m) if "categories_" in state else None
        width = p if categories is None else categories.width(m)
        same = width == encodings.n_features and encodings.width == len(scaling.center)
        require(same, "the encodings do not have the columns that the model reads")
        separators = Separators.from_plain(state["separators_"], scaling, m)
        factors = require_array(state["factors_"], (separators.n_members,), "f", "factors_")
        require((factors > 0).all() and factors.sum() <= MOST_TEMPERATURE, "a share is not a positive number, or large")
        gaussian = Gaussian.from_plain(state["gaps"], separators) if "gaps" in state else None
        words = self._words_from(state["frame_columns_"], p, categories) if "frame_columns_" in state else None
        told = state.get("partners_", [])
        require(isinstance(told, list) and len(told) <= MOST_PARTNERS, "partners_ is not a list, or long")
        partners = [Partner.from_plain(one, encodings.n_features, m) for one in told]
        partner_factors = require_array(
            state.get("partner_factors_", np.zeros(0)), (len(partners),), "f", "partner_factors_"
        )
        moderate = (partner_factors > 0).all() and partner_factors.sum() <= MOST_TEMPERATURE
        require(moderate, "a share of a partner is not a positive number, or large")
        self.__dict__.update({part: state[part] for part in [*FITTED, "feature_names_in_"] if part in state})
        self.encodings_, self.separators_, self.factors_ = encodings, separators, factors
        self.partners_, self.partner_factors_ = partners, partner_factors
        for name, part in (("_gaussian", gaussian), ("frame_columns_", words), ("categories_", categories)):
            if part is not None:
                setattr(self, name, part)

    @staticmethod
    def _words_from(state: Any, p: int, categories: Categories | None) -> list[Any]:
        """The columns of a frame; words have places among those that hold codes."""
        require(isinstance(state, list) and len(state) == p, "the columns of a frame are none")
        words = [column_from(column) for column in state]
        require(all(isinstance(column, Measure | Label) for column in words), "a column of a frame is of no known kind")
        require(len({column.name for column in words}) == p, "two columns of a frame have one name")
        coded = set() if categories is None else {one.place for one in categories.coded}
        known = all(place in coded for place, column in enumerate(words) if _is_name(column))
        require(known, "the words of a column are no categories")
        return words


def _is_name(column: Any) -> bool:
    """Whether the numbers of a column of a frame only name its values."""
    return isinstance(column, Label) and not isinstance(column, Rank)


def _plain_columns(X: Any, encoded: Any) -> Any:
    """The plain columns, which come first; those of rows that had gaps are filled."""
    return encoded.rows[:, : X.shape[1]] if isinstance(encoded, Filled) else X
