"""What separators say of samples: member functions, classes, scores, chances.

Chances have one temperature, fitted on samples that the model did not see:
p_k(x) = f_k(x)^(-1/T) / sum_j f_j(x)^(-1/T), the softmax of -log f / T.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from multiform._typing import Array, Doubles
from multiform.engines import evaluate, least_offsets, log_sharpness, log_sharpness_in_the_mean
from multiform.gaps import Filled, Gaussian
from multiform.inputs import as_host, check_gpu_rows, check_input, cupy_array, filled, has_gaps
from multiform.runtime import is_dask, on_gpu
from multiform.separators import Scaling, Separators

OFFSETS = 0.5  # the deviation that offsets of classes are thought to have before any sample is seen
MOST_OFFSET = 20.0  # of -log f of a class


def separators_of(model: MemberFunctionMixin, like: MemberFunctionMixin | None = None) -> Separators:
    """The separators of a fitted model; `like` is another one whose scaling they are to have, to be stacked with it."""
    return Separators.of_components(model.components_, model.offsets_, (like or model)._scaling)


def _blockwise(method: Callable[[Any, Any], Array]) -> Callable[[Any, Any], Any]:
    """The same method; of a Dask array or data frame lazily, a Dask array of an answer for every partition."""

    @wraps(method)
    def ask(self: Any, X: Any) -> Any:
        return _of_partitions(self, method.__name__, X) if is_dask(X) else method(self, X)

    return ask


class MemberFunctionMixin:
    """The predicting half of an estimator that has separators: the class with the smallest member function."""

    classes_: Array
    components_: Array
    offsets_: Array
    temperature_: float
    _scaling: Scaling
    _gaussian: Gaussian | None = None  # of rows that have gaps
    n_jobs: int | None
    device: str

    @_blockwise
    def member_values(self, X: Any) -> Array:
        """``f_k(x) = ||A_k x - b_k||^2`` of every sample and class: shape (n, m), the smallest decides.

        Of a row with missing values (NaN) it is the expectation over them. float64 input is evaluated in float64,
        float32, uint8 and sparse input in float32. X on a GPU (CuPy's, torch's) is evaluated there in float32, and the
        answer stays there as a CuPy array.
        """
        check_is_fitted(self, "components_")
        # Of a row that is not finite, nor is f, which is then tried in float64: its type is enough, and cheaper to see.
        late = isinstance(X, np.ndarray) and X.dtype == np.float32
        X = check_gpu_rows(self, X) if on_gpu(X) else check_input(self, X, finite=False)
        separators = separators_of(self)
        if late:
            f = evaluate(separators, X, self.device, self.n_jobs)
            if f.dtype == np.float32 or not has_gaps(self, X):  # finite numbers can be so large that f overflows
                return f
        elif on_gpu(X) or not has_gaps(self, X):
            return evaluate(separators, X, self.device, self.n_jobs)
        return expected_values(separators, filled(self, X, self._gaussian), self.device, self.n_jobs)

    @_blockwise
    def predict(self, X: Any) -> Array:
        """The class with the smallest member function."""
        f = self.member_values(X)
        return _named(self.classes_, f.argmin(axis=1))

    @_blockwise
    def decision_function(self, X: Any) -> Array:
        """``-log f``, higher is better: shape (n, m); with two classes (n,), positive for the second."""
        scores = log_scores(self.member_values(X))
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    @_blockwise
    def predict_proba(self, X: Any) -> Array:
        """Calibrated chances, ``f_k^(-1/T)`` normalised: shape (n, m)."""
        return probabilities(log_scores(self.member_values(X)), self.temperature_)

    @_blockwise
    def predict_log_proba(self, X: Any) -> Array:
        """Logarithm of `predict_proba`."""
        logarithm: Array = np.log(self.predict_proba(X))  # where the chances are
        return logarithm

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of right answers, of samples on a GPU too."""
        from sklearn.metrics import accuracy_score  # it takes a while to load

        answers, y, sample_weight = as_host(self.predict(X)), as_host(y), as_host(sample_weight)
        if is_dask(answers):
            answers, y = answers.compute(), y.compute() if is_dask(y) else y
        return float(accuracy_score(y, answers, sample_weight=sample_weight))


def _of_partitions(model: MemberFunctionMixin, method: str, X: Any) -> Any:
    """What a method says of a Dask collection, computed when it is asked for; sizes that X does not know stay so."""
    from dask import array, delayed

    check_is_fitted(model, "components_")
    m, sizes = len(model.classes_), [np.nan] * X.npartitions
    single = False
    if isinstance(X, array.Array):
        X = X.rechunk({1: -1}) if X.ndim == 2 and X.numblocks[1] > 1 else X
        sizes, single = X.chunks[0], X.dtype in (np.float32, np.uint8)
    kind = model.classes_.dtype if method == "predict" else np.dtype(np.float32 if single else np.float64)
    width = () if method == "predict" or (method == "decision_function" and m == 2) else (m,)
    whole = delayed(model)
    answers = [
        array.from_delayed(delayed(_of_partition)(whole, method, part, width, kind), (size, *width), kind)
        for size, part in zip(sizes, np.ravel(X.to_delayed()).tolist(), strict=True)
    ]
    return array.concatenate(answers, allow_unknown_chunksizes=True)


def _of_partition(model: MemberFunctionMixin, method: str, X: Any, width: tuple[int, ...], kind: Any) -> Array:
    return np.asarray(getattr(model, method)(X) if len(X) else np.empty((0, *width)), dtype=kind)


def labels_and_chances(model: MemberFunctionMixin, X: Any) -> tuple[Array, Array]:
    """What `predict` and `predict_proba` give, by one evaluation."""
    f = model.member_values(X)
    return _named(model.classes_, f.argmin(axis=1)), probabilities(log_scores(f), model.temperature_)


def _named(classes: Array, index: Any) -> Array:
    """The classes at these indices, where the indices are; classes that are not numbers can only be on the host."""
    if not on_gpu(index):
        return np.asarray(classes[index])
    if classes.dtype.kind in "biuf":
        return cupy_array(classes)[index]  # type: ignore[no-any-return]
    return np.asarray(classes[index.get()])


def expected_values(
    separators: Separators, X: Filled, device: Any, n_jobs: int | None, *, single: bool = False
) -> Array:
    """The expectation of f for rows that had gaps."""
    return X.added(evaluate(separators, X.rows, device, n_jobs, single=single), separators)


def log_scores(f: Array) -> Array:
    """-log f; a sample that a separator meets exactly (f = 0) gets the largest finite score of its type."""
    if not on_gpu(f):
        f = np.asarray(f)
    scores: Array = -np.log(np.maximum(f, np.finfo(f.dtype).tiny))
    return scores


def log_softmax(scores: Array) -> Array:
    """Logarithms of chances, over the last axis; as SciPy's, which takes longer to be asked than a few rows do."""
    below = scores - scores.max(axis=-1, keepdims=True)
    return np.asarray(below - np.log(np.exp(below).sum(axis=-1, keepdims=True)))


def probabilities(scores: Array, temperature: float) -> Array:
    scaled = scores / scores.dtype.type(temperature)
    if on_gpu(scaled):
        chances = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        return chances / chances.sum(axis=1, keepdims=True)  # type: ignore[no-any-return]
    return np.asarray(np.exp(log_softmax(scaled)))


def fit_temperature(scores: Array, target: Array, weight: Array | None = None) -> float:
    """The temperature with the least log loss on (scores, target).

    Each label is softened by 1 / (n + 2) towards the uniform one, as Platt (1999) did, so that a small set that is
    separated perfectly does not ask for certainty.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(size=(20000, 3))
    >>> chance = probabilities(scores, 0.5)
    >>> target = (rng.random((20000, 1)) > chance.cumsum(axis=1)).sum(axis=1)
    >>> round(fit_temperature(scores, target), 1)
    0.5
    """
    return float(fit_temperatures(scores[None], target, weight)[0])


def fit_temperatures(scores: Array, target: Array, weight: Array | None = None) -> Doubles:
    """The temperature of each of several models, whose scores have the shape (k, n, m); see `fit_temperature`."""
    return temperatures_and_losses(scores, target, weight)[0]


def temperatures_and_losses(scores: Array, target: Array, weight: Array | None = None) -> tuple[Doubles, Doubles]:
    """The same, and the log loss of each at its temperature, a sum over the samples."""
    found, losses = log_sharpness(scores, target, weight)
    return np.exp(-found), losses


def mean_temperature(scores: Array, target: Array, weight: Array | None = None) -> float:
    """The temperature at which the mean chance of the answers is the share of right ones on (scores, target).

    The one with the least log loss trusts a little too much or too little in the mean; it is the first guess, which
    this one does not leave by more than a factor of 2. Right and wrong answers are softened as Platt (1999) did.
    """
    return float(np.exp(-log_sharpness_in_the_mean(scores, target, weight)))


def class_offsets(
    scores: Array, target: Array, weight: Array, most: float, temperature: float | None = None
) -> Doubles:
    """What scores of each class lack, so that none is named too often on (scores, target).

    At a temperature T, that of the least log loss if none is given, ``b`` minimises
    ``-sum_i w_i log p_i + |b|^2 / (2 s^2)`` with ``p = softmax(scores / T + b)``; s is 1/2, so that few samples, of
    weight 1 each, move little. It is ``T b``, within `most`.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(size=(20000, 2))
    >>> chance = probabilities(scores + [0.2, -0.2], 1.0)
    >>> target = (rng.random(20000) > chance[:, 0]).astype(int)
    >>> class_offsets(scores, target, np.ones(20000), 1.0).round(1).tolist()
    [0.2, -0.2]
    """
    if temperature is None:
        temperature = fit_temperature(scores, target, weight)
    found = least_offsets(scores / temperature, target, weight, OFFSETS)
    return np.asarray(np.clip(temperature * found, -most, most))
