"""QMSClassifier: scikit-learn's face of the engine. Validation, fitting, attributes; no loop over samples."""

from __future__ import annotations

from functools import cache, lru_cache
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints
from sklearn.utils.metaestimators import available_if

from multiform._typing import Array, Bools, Floats, Indices
from multiform.blocks import source_of
from multiform.defaults import MOST_NOISE, batch_size_for, components_for, noise_levels, solver_for, usual_noise
from multiform.fitting import (
    TOGETHER_UP_TO,
    CallbackSupportMixin,
    Monitor,
    Validation,
    all_but,
    drawn_seed,
    honestly_calibrated,
    masked_weights,
    training_masks,
    unseen_scores,
    validation_split,
    warn_if_overfitted,
)
from multiform.folds import group_codes, unit_samples, warn_of_copies
from multiform.gaps import Gaussian
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
from multiform.prediction import MemberFunctionMixin, fit_temperature, log_scores, mean_temperature
from multiform.runtime import is_dask
from multiform.separators import Scaling, Separators, entries_of, noise_energy
from multiform.solvers import AdamSolver, CpmSolver
from multiform.state import (
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
from multiform.streaming import Streamed, small_enough, stream
from multiform.training import Member, Trained, Trainer

__all__ = ["QMSClassifier", "fitted_classifier"]

A_STREAM = 10**12  # samples

# What a model file holds of every fitted model, and of some.
FITTED = ("classes_", "components_", "offsets_", "n_components_", "temperature_", "n_iter_", "n_features_in_")
UNSEEN = ("oof_accuracy_", "oof_samples_")
SOMETIMES_FITTED = (
    *("feature_names_in_", "noise_", "loss_curve_", "validation_scores_", "best_validation_score_"),
    *UNSEEN,
)


@lru_cache(maxsize=64, typed=True)  # True is no number
def _refuse_unfit(model: type[QMSClassifier], *values: Any) -> None:
    """Refuse values of a model's parameters that its constraints do not allow."""
    given = dict(zip(model._get_param_names(), values, strict=True))
    validate_parameter_constraints(model._parameter_constraints, given, caller_name=model.__name__)


def _uses_adam(model: QMSClassifier) -> bool:
    if model.solver != "adam":
        raise AttributeError(
            f"partial_fit of QMSClassifier needs solver='adam'; got {model.solver!r}, which works on whole sweeps."
        )
    return True


class QMSClassifier(CallbackSupportMixin, MemberFunctionMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Quadratic multiform separation.

    One member function per class, ``f_k(x) = ||A_k x - b_k||^2``; a sample belongs to the class whose member function
    is smallest. The separators minimise the ratio loss ``sum over x, j != y of max(alpha, f_y(x) / f_j(x))``.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        q, the rows of each ``A_k``. "auto" takes 16 (the paper 18), and fewer when there are few features
        (``p + 1`` rows are all that a nonnegative quadratic needs), few samples for so many features (``n / 2p``, but
        no fewer than 9 and ``m + 1``), or the model would pass 40 million coefficients.
    n_models : int, default=1
        Models trained beside each other from different seeds and merged into one, whose member functions are the means
        of theirs: ``n_models * q`` rows. Steadier and a little more accurate, for so many times the work.
    alpha : float in [0, 1), default=0.5
        A pair with ``f_y / f_j`` below alpha is separated well enough and left alone.
    noise : float or "auto", default="auto"
        Regularisation: the loss is averaged over input noise of this standard deviation, in closed form; the unit is
        the standard deviation of a feature. Clean, structured data want 0.1, noisy small data 1. "auto" tries 0.1, 0.3,
        1 and 2 beside each other (1, 2 and 3 with fewer than 5 samples a feature) and takes the one with the least
        log loss on the samples that calibrate the chances. With 20,000 samples or 2 million cells and more, and where
        none calibrate, it is 0.35 (2 with fewer than 5 samples a feature). A number is a few times faster.
    solver : {"adam", "cpm", "cpm-literal"}, default="adam"
        "adam": minibatch gradient, the fastest. "cpm": the coordinate perturbation method of the paper,
        row-synchronous, so that it uses all cores. "cpm-literal": the same to the paper's letter, one coordinate after
        the other over all samples.
    max_iter : int or "auto", default="auto"
        Passes over the data (Adam) or sweeps over the coordinates (CPM). "auto": 4 passes, and more on small data,
        so that Adam takes at least 350 steps; 9 sweeps.
    batch_size : int or "auto", default="auto"
        Adam only. "auto": 64 below 2,000 samples, 128 below 10,000, else 256.
    learning_rate : float, default=0.07
        Adam only, relative to the initial size of the coefficients, ``1 / sqrt(p)``; four times that on sparse data.
    scaling : {"auto", "standard", "common", "none"}, default="auto"
        How inputs are scaled inside, and centred unless they are sparse: each column by its own deviation ("standard"),
        or all by one ("common"). "auto" takes "common" for columns that share one range (pixels, percentages, one-hot),
        else "standard"; for sparse data something between, ``common^.7 own^.3`` (CPM: "common"). `components_` and
        `offsets_` are in the user's units whatever this is.
    missing : {"expectation", "refuse"}, default="expectation"
        What becomes of NaN in dense X. "expectation": a member function is taken in the mean over what the missing
        entries may be, a Gaussian given the known ones; in closed form, as for noise (docs/mathematics.md).
        `partial_fit` refuses NaN in any case.
    class_weight : dict, "balanced" or None, default=None
    early_stopping : bool, default=False
        Stop when the accuracy on held-out samples has not improved by `tol` for `n_iter_no_change` passes, and keep the
        best model. The held-out samples are `X_val`, `y_val` of `fit`, or a part of the training data.
    validation_fraction : float in (0, 1), default=0.1
    n_iter_no_change : int, default=3
    tol : float, default=1e-4
        CPM without `early_stopping` ends as well when `n_iter_no_change` sweeps have lowered its loss by no more than
        this share of it. Adam follows its schedule to the end.
    calibrate : bool, default=True
        Fit the temperature of `predict_proba` on samples that the model did not see: the validation samples where there
        are any, 2,000 held-out samples when there are at least 20,000, else the eighth that a model trained beside this
        one has left out (two such models below 2,000 samples, eight below 400). False leaves the temperature at 1.
        Where such models are the model together (few samples, `n_components` "auto", without `groups`), their unseen
        samples also scale the member functions of each class, so that none is named too often.
    warm_start : bool, default=False
        Start from the separators of the last fit.
    n_jobs : int or None, default=None
        Threads; None means all cores that the process may use. The model does not depend on it.
    device : {"cpu", "cuda", "dask", "auto"}, default="cpu"
        "dask" spreads the models of a batch (noise levels, folds, weightings) over the workers of the current client of
        dask.distributed (``pip install "multiform[dask]"``); the model is the same. "cuda" trains and evaluates on an
        NVIDIA GPU (``pip install "multiform[gpu]"``), the same model up to rounding.
        "auto" does so when there is a GPU and the problem is large enough to gain.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        1 shows one line on standard error that updates with every pass.

    Attributes
    ----------
    classes_ : ndarray of shape (m,)
    components_ : ndarray of shape (m, q, p)
        ``A_k``, in the user's units. With noise there is one row more than was trained: ``A_k`` is 0 there, and the
        square of the offset is what the noise adds to ``f_k``.
    offsets_ : ndarray of shape (m, q)
        ``b_k``, in the user's units.
    n_components_ : int
        q, the rows of each model.
    noise_ : float
        The noise level.
    temperature_ : float
        Of `predict_proba`.
    oof_accuracy_ : float
        The accuracy to expect on new samples, of `oof_samples_` that the models judged on them had not seen: those that
        calibrate the chances. Not there without `calibrate`, and after `partial_fit`.
    oof_samples_ : int
    n_iter_ : int
        Passes made.
    loss_curve_ : list of float
        Mean loss of the samples visited in each pass.
    validation_scores_ : list of float
        Accuracy after each pass, with `early_stopping`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (p,)

    References
    ----------
    Fan, Chang, Kongguoluo: Quadratic Multiform Separation: A New Classification Model in Machine Learning.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multiform import QMSClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = QMSClassifier(random_state=0).fit(X, y)
    >>> model.components_.shape  # 5 rows and what the noise adds
    (3, 6, 4)
    >>> model.score(X, y) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "n_models": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, 1, closed="left")],
        "noise": [Interval(Real, 0, MOST_NOISE, closed="both"), StrOptions({"auto"})],
        "solver": [StrOptions({"adam", "cpm", "cpm-literal"})],
        "max_iter": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "batch_size": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "scaling": [StrOptions({"auto", "standard", "common", "none"})],
        "missing": [StrOptions({"expectation", "refuse"})],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "calibrate": ["boolean"],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "device": [StrOptions({"cpu", "cuda", "dask", "auto"})],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        n_models: int = 1,
        alpha: float = 0.5,
        noise: float | str = "auto",
        solver: str = "adam",
        max_iter: int | str = "auto",
        batch_size: int | str = "auto",
        learning_rate: float = 0.07,
        scaling: str = "auto",
        missing: str = "expectation",
        class_weight: dict[Any, float] | str | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 3,
        tol: float = 1e-4,
        calibrate: bool = True,
        warm_start: bool = False,
        n_jobs: int | None = None,
        device: str = "cpu",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_models = n_models
        self.alpha = alpha
        self.noise = noise
        self.solver = solver
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.scaling = scaling
        self.missing = missing
        self.class_weight = class_weight
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.calibrate = calibrate
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        """As scikit-learn's, which reads the signature anew for every fit, copy and question after parameters."""
        return list(super()._get_param_names())

    def _validate_params(self) -> None:
        """As scikit-learn's, which makes every constraint anew for every fit: values that were right are so again."""
        values = tuple(getattr(self, name) for name in self._get_param_names())
        try:
            hash(values)
        except TypeError:  # a dictionary of class weights
            super()._validate_params()
        else:
            model: Any = type(self)
            _refuse_unfit(model, *values)

    # ------------------------------------------------------------------------------------------------ fitting

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        groups: Any = None,
    ) -> QMSClassifier:
        """Find the separators.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, p), or a source of blocks
            float32, uint8 and CSR are read as they are; anything else costs one float32 copy. NaN is a missing value.
            Rows that do not fit the memory come block by block: the path of a Parquet, CSV or Arrow file or of a
            folder of them, a dataset of pyarrow, a lazy frame of polars, a memory map that is larger than half of the
            memory, or any object that gives pairs (X, y) anew whenever it is asked for an iterator. A Dask array or
            data frame is trained on by the cluster of the current client, where its partitions are (docs/big.md).
        y : array-like of shape (n,)
            For files and datasets the name of the target column; None where X gives pairs; for Dask collections
            another one with the same partitions, or the name of a column.
        sample_weight : array-like of shape (n,), default=None
            0 means removed, 2 means repeated.
        X_val, y_val : array-like, default=None
            Held-out samples for `early_stopping`.
        groups : array-like of shape (n,), default=None
            Samples that belong together, as those of one patient do. What is held out to calibrate the chances, or to
            stop early, is held out by whole groups.
        """
        if (X_val is None) != (y_val is None):
            raise ValueError(
                "X_val and y_val of QMSClassifier.fit must be given together; "
                f"got only {'y_val' if X_val is None else 'X_val'}."
            )
        if X_val is not None and not self.early_stopping:
            raise ValueError(
                "X_val and y_val are used for early stopping only: set early_stopping=True, or leave them out."
            )
        if is_dask(X):
            from multiform.cluster import fit_on_cluster

            self._refuse_for_blocks(sample_weight, groups)
            streamed, names = fit_on_cluster(self, X, y, drawn_seed(self.random_state))
            return self._set_streamed(streamed, names)
        source = source_of(X, y, type(self).__name__)
        if source is not None:
            self._refuse_for_blocks(sample_weight, groups)
            small = small_enough(source, type(self).__name__)
            if small is None:
                return self._set_streamed(stream(self, source, drawn_seed(self.random_state)), source.names)
            self._fit_arrays(small.X, small.y)
            if source.names is not None:
                self.feature_names_in_ = np.array(source.names, dtype=object)
            return self
        return self._fit_arrays(X, y, sample_weight, X_val, y_val, groups)

    def _fit_arrays(
        self, X: Any, y: Any, sample_weight: Any = None, X_val: Any = None, y_val: Any = None, groups: Any = None
    ) -> QMSClassifier:
        X, target, classes, weight = check_training_data(self, X, y, sample_weight, finite=False)
        gaps = has_gaps(self, X)
        groups = group_codes(groups, len(target), type(self).__name__, used_samples(sample_weight))
        if groups is None and (self.calibrate or self.early_stopping):
            n_given = len(target)
            X, target, weight = unit_samples(X, target, weight)
            if X_val is None:
                warn_of_copies(X, type(self).__name__, n_given, stacklevel=6)
        X, gaussian = without_gaps(self, X, weight, gaps)
        seed = drawn_seed(self.random_state)
        class_weights = class_weights_of(self.class_weight, classes, target, weight)
        held_out, validation = self._split(
            X, target, classes, weight, class_weights, seed, X_val, y_val, groups, gaussian
        )
        n_train = len(target) - (0 if held_out is None else len(held_out))
        entries = entries_of(X)
        n_components = self._n_components(n_train, X.shape[1], len(classes), entries is not None)
        masks: list[Bools | None] = [None]
        if held_out is not None:
            masks = [all_but(len(target), held_out)]
        elif self.calibrate and validation is None:
            # Models with p + 1 rows are one with p + 1 rows together (Lemma 1): those that calibrate are the model. A
            # model that may have as many rows as it likes has up to p + 1 where that costs little.
            few = entries is None and len(target) < TOGETHER_UP_TO[0] and X.shape[1] < TOGETHER_UP_TO[1]
            may_grow = self.n_components == "auto" and not self.warm_start and few
            together = self.n_models == 1 and (may_grow or n_components == X.shape[1] + 1)
            masks = training_masks(target, seed, groups, together=together)
        solver = self._solver(n_train, n_components, entries is not None)
        keep_zeros = self.solver != "adam"
        with Trainer.of(self, X, target, classes, weight, scaling=self.scaling, keep_zeros=keep_zeros) as trainer:
            starts = self._starts(classes, n_components, trainer.scaling)
            # What only calibrates the model chooses its noise, too.
            choosing = len(masks) > 1
            usual = (self._usual_noise(X.shape[0], X.shape[1], entries),)
            levels = noise_levels(self.noise, *X.shape, entries=entries) if choosing else usual
            of_classes, of_samples = of_mean_one(class_weights, weight), masked_weights(masks, weight)
            members = [
                Member(seed + number, level, of_classes, sample_weight, None, start)
                for level in levels
                for sample_weight in of_samples
                for number, start in enumerate(starts)
            ]

            def part(trained: Trained, which: int, level: int) -> Separators:
                """What a mask has trained: the model itself, or what calibrates it."""
                first = (level * len(masks) + which) * self.n_models
                return trained.merged(range(first, first + self.n_models))

            def model(trained: Trained, level: int = 0) -> Separators:
                if len(masks) == 1 or masks[0] is None:
                    return part(trained, 0, level)
                return trained.in_one(range(level * len(masks), (level + 1) * len(masks)))

            def fitted_now(trained: Trained) -> dict[str, Any]:
                fitted = self._fitted_attributes(model(trained), classes)
                return fitted | {"temperature_": 1.0, "n_iter_": trained.passes, "n_features_in_": self.n_features_in_}

            monitor = Monitor(self, solver.n_passes, validation, trainer, model, fitted_now)
            watch = monitor if monitor.needed else None
            trained = trainer.train(members, solver, n_components, after_pass=watch)
            level, temperature = 0, 1.0  # also of a class that could not spare a sample
            judged: dict[str, Any] = {}
            if not self.calibrate or validation is not None:
                separators = model(trained) if monitor.best is None else monitor.best
                if self.calibrate and validation is not None:
                    scores = log_scores(validation.values(separators, trainer.engine))
                    temperature = mean_temperature(scores, validation.target)
            else:
                calibrating = [
                    [part(trained, which, level) for level in range(len(levels))] for which in range(len(masks))
                ]
                unseen, samples, parts = unseen_scores(trainer, calibrating, masks)
                if len(samples):
                    of_unseen = target[samples], None if weight is None else weight[samples]
                    counted = None  # what few groups tell of the classes does not hold for others
                    # A model that was trained by itself is as the loss has it; but by Adam over words it lacks what
                    # those lack that calibrate it.
                    of_words = entries is not None and self.solver == "adam"
                    if groups is None and (of_words or (masks[0] is not None and len(masks) > 1)):
                        counted = counted_samples(*of_unseen, class_weights)
                    level, temperature, offsets, accuracy = honestly_calibrated(unseen, *of_unseen, parts, counted)
                    judged = {"oof_accuracy_": accuracy, "oof_samples_": len(samples)}
                    separators = model(trained, level)
                    warn_if_overfitted(trainer, separators, unseen[level], *of_unseen)
                    if offsets is not None:
                        separators = separators.times(np.exp(-offsets))
                else:
                    separators = model(trained)
        fitted = self._fitted_attributes(separators, classes)
        losses = trained.losses[level * len(masks) * self.n_models]
        fitted.update(n_iter_=trained.passes, loss_curve_=losses, temperature_=temperature, noise_=levels[level])
        if self.early_stopping:
            fitted.update(validation_scores_=monitor.scores, best_validation_score_=max(monitor.scores))
        for earlier in ("_moments", *UNSEEN):
            self.__dict__.pop(earlier, None)
        self.__dict__.update(fitted, **judged, _gaussian=gaussian)
        monitor.close(fitted | {"n_features_in_": self.n_features_in_})
        return self

    def _refuse_for_blocks(self, sample_weight: Any, groups: Any) -> None:
        refused = {
            "sample_weight": sample_weight is not None,
            "groups": groups is not None,
            "early_stopping=True": self.early_stopping,
            "warm_start=True": self.warm_start,
            f"solver={self.solver!r}": self.solver != "adam",
        }
        for what, given in refused.items():
            if given:
                raise ValueError(
                    f"{what} of QMSClassifier is for data that fit the memory, and X is a source of blocks: leave it "
                    "out, or read X into an array."
                )

    def _set_streamed(self, streamed: Streamed, names: list[str] | None) -> QMSClassifier:
        fitted = self._fitted_attributes(streamed.separators, streamed.classes)
        fitted.update(n_iter_=streamed.plan.n_passes, loss_curve_=streamed.losses, noise_=streamed.plan.noise)
        fitted.update(temperature_=streamed.temperature, n_features_in_=fitted["components_"].shape[2])
        if names is not None:
            fitted["feature_names_in_"] = np.array(names, dtype=object)
        for earlier in ("_moments", "feature_names_in_", *UNSEEN):
            self.__dict__.pop(earlier, None)
        self.__dict__.update(fitted, **streamed.judged, _gaussian=streamed.gaussian)
        return self

    @available_if(_uses_adam)  # type: ignore[untyped-decorator]
    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> QMSClassifier:
        """One pass of Adam over these samples, going on from the last call.

        The scaling is that of the first call. The temperature follows by test-then-train: before a model learns from
        samples it is tested on them (on the first call, on their last fifth).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, p)
        y : array-like of shape (n,)
        classes : array-like, default=None
            All classes that will ever come; needed on the first call.
        sample_weight : array-like of shape (n,), default=None
        """
        if self.n_models != 1:
            raise ValueError(f"partial_fit of QMSClassifier needs n_models=1; got {self.n_models}.")
        first_call = not hasattr(self, "components_")
        if first_call and classes is None:
            raise ValueError("classes must be given on the first call of partial_fit of QMSClassifier.")
        if not first_call and classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes must be those of the first call of partial_fit, {self.classes_}; got {np.unique(classes)}."
            )
        known = np.unique(classes) if first_call else self.classes_
        X, target, known, weight = check_training_data(self, X, y, sample_weight, classes=known, reset=first_call)
        n = len(target)
        seed = drawn_seed(self.random_state) + getattr(self, "n_iter_", 0)
        class_weights = of_mean_one(class_weights_of(self.class_weight, known, target, weight), weight)
        # Of a stream, the first chunk does not say how many samples will come: as for many.
        entries = entries_of(X)
        is_sparse, p = entries is not None, X.shape[1]
        n_components = self._n_components(A_STREAM, p, len(known), is_sparse) if first_call else self.n_components_
        noise = self._usual_noise(A_STREAM, p, entries)
        if isinstance(self.noise, str) and not first_call:
            noise = float(getattr(self, "noise_", noise))
        start = None if first_call else self._trained_rows(self._scaling)
        moments = getattr(self, "_moments", None)
        # A constant rate, lower than the peak of the schedule of `fit`.
        batch_size, rate = batch_size_for(self.batch_size, n), 0.3 * self.learning_rate
        solver = AdamSolver(1, batch_size, learning_rate=rate, revisit=1.0, final_rate=1.0)
        # Test-then-train; the first call trains on the first four fifths, tests on the last one, and goes on with it.
        tested = slice(n - n // 5, n) if first_call else slice(0, n)
        parts = [slice(0, tested.start), tested] if first_call else [tested]
        temperature = 1.0 if first_call else self.temperature_
        whole = np.ones(n) if weight is None else weight
        scaling = self.scaling if first_call else self._scaling
        separators: Separators | None = None
        with Trainer.of(self, X, target, known, weight, scaling=scaling) as trainer:
            if start is not None:
                separators = Separators(start, trainer.scaling, len(known), noise=noise_energy(start, noise))
            for part in parts:
                if part.start == part.stop:
                    continue
                if part == tested and separators is not None and self.calibrate:
                    scores = log_scores(separators.values(trainer.rows.part(tested), trainer.engine))
                    here = fit_temperature(scores, target[tested], None if weight is None else weight[tested])
                    log_mean = 0.7 * np.log(temperature) + 0.3 * np.log(here)
                    temperature = here if first_call else float(np.exp(log_mean))
                mask = np.zeros(n, dtype=np.float32)
                mask[part] = whole[part]
                member = Member(seed, noise, class_weights, mask, None, start)
                trained = trainer.train([member], solver, n_components, moments=moments)
                start, moments, separators = trained.coefficients[0], trained.moments, trained.separators()
        assert separators is not None
        fitted = self._fitted_attributes(separators, known)
        fitted.update(
            n_iter_=getattr(self, "n_iter_", 0) + 1,
            loss_curve_=[*getattr(self, "loss_curve_", []), *trained.losses[0]],
            temperature_=temperature,
            noise_=noise,
            _moments=moments,
        )
        for earlier in UNSEEN:
            self.__dict__.pop(earlier, None)
        self.__dict__.update(fitted)
        return self

    @classmethod
    def from_separators(
        cls,
        components: Any,
        offsets: Any,
        classes: Any,
        *,
        feature_names: Any = None,
        temperature: float = 1.0,
    ) -> QMSClassifier:
        """A fitted classifier with the given separators, ``argmin_k ||A_k x - b_k||^2``.

        Parameters
        ----------
        components : array-like of shape (m, q, p)
        offsets : array-like of shape (m, q)
        classes : array-like of shape (m,), sorted
        feature_names : array-like of shape (p,), default=None
        temperature : float, default=1.0

        Examples
        --------
        >>> from multiform import QMSClassifier
        >>> model = QMSClassifier.from_separators([[[1.0]], [[1.0]]], [[0.0], [2.0]], ["low", "high"])
        Traceback (most recent call last):
        ...
        ValueError: classes must be sorted and distinct; got ['low' 'high'].
        >>> model = QMSClassifier.from_separators([[[1.0]], [[1.0]]], [[2.0], [0.0]], ["high", "low"])
        >>> model.predict([[0.4], [1.7]])
        array(['low', 'high'], dtype='<U4')
        """
        A, b = np.array(components, dtype=np.float64), np.array(offsets, dtype=np.float64)
        names = np.asarray(classes)
        if A.ndim != 3 or b.shape != A.shape[:2]:
            raise ValueError(
                f"components must have the shape (m, q, p) and offsets (m, q); got {A.shape} and {b.shape}."
            )
        if names.shape != (len(A),) or len(A) < 2:
            raise ValueError(f"classes must name each of the {len(A)} separators, at least 2; got {names.shape}.")
        if not np.array_equal(np.unique(names), names):
            raise ValueError(f"classes must be sorted and distinct; got {names}.")
        if not (np.isfinite(A).all() and np.isfinite(b).all()):
            raise ValueError("components and offsets must be finite; got NaN or infinity.")
        if not temperature > 0:
            raise ValueError(f"temperature must be greater than 0; got {temperature}.")
        model = cls(n_components=A.shape[1])
        model.__dict__.update(
            classes_=names,
            components_=A,
            offsets_=b,
            n_components_=A.shape[1],
            temperature_=float(temperature),
            n_features_in_=A.shape[2],
            n_iter_=0,
            loss_curve_=[],
            _n_trained=A.shape[1],
            _scaling=Scaling.identity(A.shape[2]),
        )
        if feature_names is not None:
            model.feature_names_in_ = np.asarray(feature_names, dtype=object)
        return model

    # ------------------------------------------------------------------------------------- the parts of a fit

    def _n_components(self, n: int, n_features: int, n_classes: int, sparse: bool) -> int:
        if self.n_components == "auto" and self.warm_start and hasattr(self, "components_"):
            return int(self.n_components_)
        return components_for(self.n_components, n, n_features, n_classes, sparse=sparse)

    def _usual_noise(self, n: int, p: int, entries: int | None) -> float:
        """The noise level where none is chosen."""
        return usual_noise(n, p, entries=entries) if isinstance(self.noise, str) else float(self.noise)

    def _solver(self, n: int, n_components: int, sparse: bool) -> AdamSolver | CpmSolver:
        asked = {"max_iter": self.max_iter, "batch_size": self.batch_size, "learning_rate": self.learning_rate}
        return solver_for(self.solver, n, n_components, sparse=sparse, **asked)  # type: ignore[arg-type]

    def _split(
        self,
        X: Any,
        target: Array,
        classes: Array,
        weight: Array | None,
        class_weights: Array,
        seed: int,
        X_val: Any,
        y_val: Any,
        groups: Array | None,
        gaussian: Gaussian | None,
    ) -> tuple[Indices | None, Validation | None]:
        """Samples that the model must not see, and the validation set, where there is one."""
        if X_val is not None:
            X_val, y_val = check_input(self, X_val, y_val, finite=False)
            X_val = filled(self, X_val, gaussian) if has_gaps(self, X_val) else X_val
            if not np.isin(y_val, classes).all():
                raise ValueError("y_val of QMSClassifier holds a class that y does not have.")
            held_target = np.searchsorted(classes, y_val).astype(np.int32)
            return None, Validation(X_val, held_target, class_weights[held_target])
        if not self.early_stopping:
            return None, None
        held_out = validation_split(target, len(classes), self.validation_fraction, seed, groups)
        share = class_weights[target[held_out]] * (1 if weight is None else weight[held_out])
        return held_out, Validation(X[held_out], target[held_out], share)

    def _starts(self, classes: Array, n_components: int, scaling: Scaling) -> list[Floats | None]:
        """Where each of the models starts: at the last fit, with `warm_start`; None: where its seed says."""
        if not (self.warm_start and hasattr(self, "components_")):
            return [None] * self.n_models
        if not np.array_equal(classes, self.classes_):
            raise ValueError(
                f"warm_start of QMSClassifier needs the classes of the last fit, {self.classes_}; got {classes}."
            )
        before = (self._n_trained // self.n_components_, self.n_components_, self.components_.shape[2])
        now = (self.n_models, n_components, len(scaling.center))
        if before != now:
            raise ValueError(
                "warm_start of QMSClassifier needs the n_models, n_components and features of the last fit, "
                f"{before}; got {now}."
            )
        return [np.ascontiguousarray(part) for part in np.split(self._trained_rows(scaling), self.n_models, axis=1)]

    def _fitted_attributes(self, separators: Separators, classes: Array) -> dict[str, Any]:
        components, offsets = separators.in_user_units()
        n_trained = separators.coefficients.shape[1]
        return {
            "classes_": classes,
            "components_": components,
            "offsets_": offsets,
            "n_components_": n_trained // self.n_models,
            "_n_trained": n_trained,
            "_scaling": separators.scaling,
        }

    def _trained_rows(self, scaling: Scaling) -> Floats:
        """The coefficients to go on from, without the constant row that the noise has added."""
        q = self._n_trained
        return scaling.from_user_units(self.components_[:, :q], self.offsets_[:, :q])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "expectation"
        return tags

    # -------------------------------------------------------------------------------------------- model files

    def _get_state(self) -> dict[str, Any]:
        state = fitted_state(self, [*FITTED, *SOMETIMES_FITTED])
        if "components_" not in state:
            return {}
        state |= {"scaling": self._scaling.as_plain(), "n_trained": self._n_trained}
        if hasattr(self, "_moments"):
            state["moments"] = self._moments
        if self._gaussian is not None:
            state["gaps"] = self._gaussian.as_plain()
        return state

    def _set_state(self, state: dict[str, Any]) -> None:
        """components_ (m, q, p), offsets_ (m, q), scaling (p,), Adam's moments (m, trained rows, p + 1)."""
        name = type(self).__name__
        require_names(state, name, [*FITTED, "scaling", "n_trained"], [*SOMETIMES_FITTED, "moments", "gaps"])
        m, p = require_classes(state["classes_"]), require_features(state)
        components = require_array(state["components_"], (m, None, p), "f", "components_")
        q = components.shape[1]
        offsets = require_array(state["offsets_"], (m, q), "f", "offsets_")
        scaling = Scaling.from_plain(state["scaling"], p)
        require(components.dtype == offsets.dtype == np.float64, "a separator is not of doubles")
        with np.errstate(over="ignore", invalid="ignore"):
            separators = Separators.of_components(components, offsets, scaling).checked()
        require_temperature(state["temperature_"], "temperature_")
        require_whole(state["n_iter_"], 0, "n_iter_")
        for part in ("n_components_", "n_trained"):
            require_whole(state[part], 1, part)
        require(state["n_components_"] <= state["n_trained"] <= q, "n_components_ is wrong")
        for part in ("loss_curve_", "validation_scores_"):
            require_numbers(state.get(part, []), part)
        for part in ("best_validation_score_", "noise_", "oof_accuracy_"):
            require_numbers([state.get(part, 0.0)], part)
        require_whole(state.get("oof_samples_", 0), 0, "oof_samples_")
        require("moments" not in state or len(state["moments"]) == 1, "moments are of another number of models")
        for first, second, steps in state.get("moments", []):
            for moment in (first, second):
                require_array(moment, (m, state["n_trained"], p + 1), "f", "moments")
                require(moment.dtype == np.float32 and moment.flags.c_contiguous, "moments has the wrong type")
            require_whole(steps, 0, "the number of steps")
        gaussian = Gaussian.from_plain(state["gaps"], separators) if "gaps" in state else None
        self.__dict__.update({part: state[part] for part in [*FITTED, *SOMETIMES_FITTED] if part in state})
        self._scaling, self._n_trained = scaling, state["n_trained"]
        if gaussian is not None:
            self._gaussian = gaussian
        if "moments" in state:
            self._moments = state["moments"]


def fitted_classifier(
    parameters: dict[str, Any], separators: Separators, classes: Array, **fitted: Any
) -> QMSClassifier:
    """A classifier with these parameters, separators that were trained elsewhere, and further fitted attributes."""
    model = QMSClassifier(**parameters)
    figures = {"temperature_": 1.0, "n_features_in_": len(separators.scaling.center)}
    model.__dict__.update(model._fitted_attributes(separators, classes), **figures, **fitted)
    return model
