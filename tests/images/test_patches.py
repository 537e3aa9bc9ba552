"""`ImagePatches` against its formula, one patch at a time."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from multiform.images import ImagePatches


def restated(image, fitted):
    """The docstring's formula for one image of shape (height, width, channels)."""
    size, stride, grid = fitted.patch_size, fitted.stride, fitted.grid
    rows, columns = ((side - size) // stride + 1 for side in image.shape[:2])
    sums = np.zeros((grid, grid, 2, fitted.filters_.shape[1]))
    for i in range(rows):
        for j in range(columns):
            patch = image[i * stride : i * stride + size, j * stride : j * stride + size]
            patch = np.moveaxis(patch, 2, 0).ravel().astype(float)
            answer = (patch - patch.mean()) / (patch.std() + fitted.contrast_) @ fitted.filters_
            cell = sums[i * grid // rows, j * grid // columns]
            cell[0] += np.maximum(0, answer - fitted.threshold)
            cell[1] += np.maximum(0, -answer - fitted.threshold)
    return sums.ravel()


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((9, 9), {}),
        ((12, 7), {"stride": 2, "grid": 2, "threshold": 0.4}),
        ((8, 10, 3), {"patch_size": 4, "grid": 3}),
        ((5, 5), {"patch_size": 5, "grid": 1}),
    ],
)
@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
def test_columns_are_the_formula(shape, options, dtype):
    X = np.random.default_rng(0).integers(0, 256, (30, int(np.prod(shape)))).astype(dtype)
    options = {"patch_size": 3, "n_filters": 5, "grid": 2, "random_state": 0, **options}
    fitted = ImagePatches(shape, **options).fit(X)
    columns = fitted.transform(X)
    assert columns.dtype == np.float32
    assert columns.shape == (30, 2 * 5 * options["grid"] ** 2)
    for row in (0, 17, 29):
        image = X[row].reshape(shape if len(shape) == 3 else (*shape, 1))
        np.testing.assert_allclose(columns[row], restated(image, fitted), rtol=2e-4, atol=2e-4)


def test_threads_and_neighbours_change_nothing():
    X = load_digits().data
    fitted = ImagePatches(n_filters=8, patch_size=3, random_state=0, n_jobs=1).fit(X)
    together = fitted.transform(X)
    for n_jobs in (2, 3):
        np.testing.assert_array_equal(clone(fitted).set_params(n_jobs=n_jobs).fit(X).transform(X), together)
    np.testing.assert_allclose(fitted.transform(X[:1]), together[:1], rtol=1e-5, atol=1e-5)


def test_contrast_and_brightness_hardly_matter():
    """What patches are for: an image twice as bright, or on a lighter ground, answers nearly alike."""
    X = load_digits().data
    fitted = ImagePatches(n_filters=8, patch_size=4, grid=2, random_state=0).fit(X)
    plain = fitted.transform(X)
    np.testing.assert_allclose(fitted.transform(X + 100.0), plain, rtol=0.05, atol=0.1)
    assert np.corrcoef(fitted.transform(2 * X).ravel(), plain.ravel())[0, 1] > 0.98


def test_patches_help_a_linear_model():
    X, y = load_digits(return_X_y=True)
    plain = LogisticRegression(max_iter=2000).fit(X[:400] / 16, y[:400]).score(X[400:] / 16, y[400:])
    patches = ImagePatches(n_filters=32, patch_size=4, grid=3, random_state=0)
    lifted = make_pipeline(patches, LogisticRegression(max_iter=2000)).fit(X[:400], y[:400]).score(X[400:], y[400:])
    assert lifted > plain + 0.01


def test_blank_images_are_no_trouble():
    blank = np.zeros((4, 36))
    columns = ImagePatches(n_filters=2, patch_size=3, grid=2).fit(blank).transform(blank)
    np.testing.assert_array_equal(columns, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "X has 35 columns, which is no square image; give image_shape"),
        ({"image_shape": (5, 6)}, r"a product of 35, the columns of X; got \(5, 6\)"),
        ({"image_shape": (35,)}, r"must be \(height, width\) or"),
        ({"image_shape": (5, 7), "patch_size": 6}, "has room for 0 patches of 6 pixels along a side"),
        ({"image_shape": (5, 7), "patch_size": 3}, "fewer than grid=4; lower patch_size, stride or grid"),
        ({"n_filters": 0}, "'n_filters' parameter of ImagePatches must be an int in the range .1, inf.. Got 0"),
        ({"stride": 1.5}, "'stride' parameter of ImagePatches must be an int in the range .1, inf.. Got 1.5"),
    ],
)
def test_what_cannot_be_is_said(options, message):
    with pytest.raises(ValueError, match=message):
        ImagePatches(**options).fit(np.zeros((3, 35)))
