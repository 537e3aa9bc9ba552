"""Images for a classifier of columns: what small patches of an image look like, and roughly where.

Pixels one by one know nothing of their neighbours. `ImagePatches` compares every patch of an image with a bank of
filters and adds the answers up over a coarse grid, so that a quadratic of its columns sees shapes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from multiform._typing import Array, Floats
from multiform.runtime import effective_threads, in_threads, single_threaded_blas
from multiform.state import (
    all_or_nothing,
    fitted_state,
    require,
    require_array,
    require_features,
    require_names,
    require_positive,
    spend,
)

__all__ = ["ImagePatches"]

N_SAMPLED = 50_000  # patches that the filters come from
CHUNK = 4000  # patches at a time: few enough for the cache, enough to keep two threads out of each other's way
CONTRAST = 0.3  # patches with less than this share of the pixels' usual spread count as flat
LARGEST = 1e12  # of a filter and of the contrast, in a model file
RIDGE = 0.1  # of whitening, in units of a normalised patch's variance
FITTED = ("image_shape_", "filters_", "contrast_", "n_features_in_")  # what a model file holds


class ImagePatches(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Responses of small filters, summed over the cells of a coarse grid.

    A patch is brought to mean zero and one contrast, ``v = (patch - mean) / (deviation + c)``, and a filter ``w``
    answers ``max(0, w·v - threshold)`` and ``max(0, -w·v - threshold)``. The filters are patches of the training
    images themselves, chosen at random and whitened: Coates and Ng (2011), "The importance of encoding versus
    training with sparse coding and vector quantization", found that learning them better adds little.

    Parameters
    ----------
    image_shape : tuple of 2 or 3 ints, default=None
        Height, width, and channels if there are several, of the image that a row of X holds (in C order).
        None means square and of one channel.
    n_filters : int, default=64
        Filters; there are ``2 * n_filters * grid**2`` columns.
    patch_size : int, default=6
        Height and width of a patch.
    stride : int, default=1
        Pixels from one patch to the next. 2 is nearly four times faster.
    grid : int, default=4
        Cells along each side over which answers are summed.
    threshold : float, default=0.1
        In units of the typical answer.
    n_jobs : int, default=None
        Threads; None means every core.
    random_state : int, RandomState or None, default=None
        Which patches become filters.

    Attributes
    ----------
    filters_ : ndarray of shape (patch_size**2 * channels, n_filters)
    contrast_ : float
        The ``c`` above.
    image_shape_ : tuple of 3 ints
        Height, width, channels.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.pipeline import make_pipeline
    >>> from multiform import QMSClassifier
    >>> from multiform.images import ImagePatches
    >>> X, y = load_digits(return_X_y=True)
    >>> patches = ImagePatches(n_filters=16, patch_size=4, grid=2, random_state=0)
    >>> model = make_pipeline(patches, QMSClassifier(random_state=0)).fit(X[:900], y[:900])
    >>> model.score(X[900:], y[900:]) > 0.94
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "image_shape": ["array-like", None],
        **{
            name: [Interval(Integral, 1, None, closed="left")] for name in ("n_filters", "patch_size", "stride", "grid")
        },
        "threshold": [Real],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        image_shape: Sequence[int] | None = None,
        *,
        n_filters: int = 64,
        patch_size: int = 6,
        stride: int = 1,
        grid: int = 4,
        threshold: float = 0.1,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.image_shape = image_shape
        self.n_filters = n_filters
        self.patch_size = patch_size
        self.stride = stride
        self.grid = grid
        self.threshold = threshold
        self.n_jobs = n_jobs
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the filters from the training images."""
        X = validate_data(self, X, dtype="numeric")
        shape = self._checked_shape(X.shape[1])
        random = check_random_state(self.random_state)
        images = X.reshape(len(X), *shape)
        windows = np.lib.stride_tricks.sliding_window_view(images, (self.patch_size,) * 2, axis=(1, 2))
        which = tuple(random.randint(0, side, N_SAMPLED) for side in windows.shape[:3])
        patches = windows[which].reshape(N_SAMPLED, -1).astype(np.float64)
        contrast = CONTRAST * float(np.std(patches)) or 1.0
        patches -= patches.mean(axis=1, keepdims=True)
        deviation = patches.std(axis=1, keepdims=True)
        lively = deviation[:, 0] > contrast / 2
        if lively.any():
            patches, deviation = patches[lively], deviation[lively]
        patches /= deviation + contrast

        # Whitening, Z = V (D + ridge)^(-1/2) V', makes a patch's pixels uncorrelated; w = Z Z v / |Z v|.
        variance, directions = np.linalg.eigh(patches.T @ patches / len(patches))
        whitening = (directions / np.sqrt(np.maximum(variance, 0) + RIDGE)) @ directions.T
        chosen = patches[random.randint(0, len(patches), self.n_filters)] @ whitening
        chosen /= np.linalg.norm(chosen, axis=1, keepdims=True) + np.finfo(np.float64).tiny
        filters = whitening @ chosen.T
        filters -= filters.mean(axis=0)  # so that a patch's mean need not be taken off
        typical = float(np.std(patches @ filters)) or 1.0

        self.image_shape_ = shape
        self.filters_ = np.asarray(filters / typical, dtype=np.float32)
        self.contrast_ = contrast
        return self

    def transform(self, X: Any) -> Floats:
        """The columns of every image, float32 of shape (n, 2 * n_filters * grid**2)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype="numeric", reset=False)
        columns = np.empty((len(X), 2 * self.filters_.shape[1] * self.grid**2), dtype=np.float32)
        pooling = self._pooling()
        chunk = max(1, CHUNK // pooling.shape[1])
        parts = [slice(first, first + chunk) for first in range(0, len(X), chunk)]
        n_threads = effective_threads(self.n_jobs)
        with single_threaded_blas():
            in_threads(lambda part: self._transform_part(X[part], pooling, columns[part]), parts, n_threads)
        return columns

    def _transform_part(self, X: Array, pooling: Array, columns: Array) -> None:
        height, width, channels = self.image_shape_
        size, stride = self.patch_size, self.stride
        area = np.float32(size * size * channels)
        threshold = np.float32(self.threshold)
        sign = np.array([[1], [-1]], dtype=np.float32)
        beneath = (threshold * pooling.sum(axis=1))[:, None, None]
        images = X.reshape(len(X), height, width, channels).astype(np.float32)
        windows = np.lib.stride_tricks.sliding_window_view(images, (size, size), axis=(1, 2))[:, ::stride, ::stride]
        patches = windows.reshape(len(X), -1, int(area))
        mean = patches.sum(axis=2) / area
        square = np.einsum("nps,nps->np", patches, patches) / area
        deviation = np.sqrt(np.maximum(square - mean * mean, 0)) + np.float32(self.contrast_)
        answers = patches @ self.filters_
        answers /= deviation[:, :, None]
        # max(0, a - t) = max(a, t) - t and max(0, -a - t) = -min(a, -t) - t: t comes off after the sum.
        halves = np.empty((*answers.shape[:2], 2, answers.shape[2]), dtype=np.float32)
        np.maximum(answers, threshold, out=halves[:, :, 0])
        np.minimum(answers, -threshold, out=halves[:, :, 1])
        sums = (pooling @ halves.reshape(*answers.shape[:2], -1)).reshape(len(X), -1, 2, answers.shape[2])
        sums *= sign
        sums -= beneath
        columns[:] = sums.reshape(len(X), -1)

    def _pooling(self) -> Array:
        """Which positions a cell adds up: (grid², positions), one where it does."""
        height, width, _ = self.image_shape_
        cells = [
            np.arange(self.grid)[:, None] == np.arange(n) * self.grid // n
            for n in ((side - self.patch_size) // self.stride + 1 for side in (height, width))
        ]
        return np.asarray(np.kron(cells[0], cells[1]), dtype=np.float32)

    def _checked_shape(self, n_columns: int) -> tuple[int, int, int]:
        self._validate_params()
        if self.image_shape is None:
            side = math.isqrt(n_columns)
            if side * side != n_columns:
                raise ValueError(
                    f"ImagePatches: X has {n_columns} columns, which is no square image; give image_shape, e.g. "
                    "(height, width) or (height, width, channels)."
                )
            shape: tuple[int, ...] = (side, side, 1)
        else:
            shape = tuple(int(length) for length in self.image_shape)
            shape = (*shape, 1) if len(shape) == 2 else shape
            if len(shape) != 3 or min(shape) < 1 or math.prod(shape) != n_columns:
                raise ValueError(
                    f"ImagePatches: image_shape must be (height, width) or (height, width, channels) with a product "
                    f"of {n_columns}, the columns of X; got {tuple(self.image_shape)}."
                )
        room = (min(shape[:2]) - self.patch_size) // self.stride + 1 if min(shape[:2]) >= self.patch_size else 0
        if room < self.grid:
            raise ValueError(
                f"ImagePatches: an image of {shape[0]} x {shape[1]} has room for {room} patches of {self.patch_size} "
                f"pixels along a side, fewer than grid={self.grid}; lower patch_size, stride or grid."
            )
        return shape[0], shape[1], shape[2]

    # -------------------------------------------------------------------------------------------- model files

    def _get_state(self) -> dict[str, Any]:
        state = fitted_state(self, [*FITTED, "feature_names_in_"])
        return state if "filters_" in state else {}

    def _set_state(self, state: dict[str, Any]) -> None:
        """filters_ (patch_size² x channels, n_filters) for images that have the features' number of pixels."""
        require_names(state, type(self).__name__, FITTED, ["feature_names_in_"])
        shape = self._checked_shape(require_features(state))
        require(state["image_shape_"] == shape, "image_shape_ is not what the parameters say")
        positions = [(side - self.patch_size) // self.stride + 1 for side in shape[:2]]
        spend(8 * self.grid**2 * math.prod(positions), "what pools the patches")
        filters = require_array(state["filters_"], (self.patch_size**2 * shape[2], self.n_filters), "f", "filters_")
        moderate = filters.dtype == np.float32 and (np.abs(filters) <= LARGEST).all()
        require(moderate, "filters_ is not finite, or too large")
        require(abs(float(self.threshold)) <= LARGEST, "threshold is out of range")
        require_positive(state["contrast_"], "contrast_")
        require(1 / LARGEST <= state["contrast_"] <= LARGEST, "contrast_ is out of range")
        self.__dict__.update(state | {"image_shape_": shape})  # 28.0 is equal to 28, and no length
