"""Splines of degree 1 as pieces of lines: the same as scikit-learn's, wherever x lies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.preprocessing import SplineTransformer

from multiform.export._answers import _pieces

VALUES = st.one_of(st.integers(-5, 5).map(float), st.floats(-100, 100, allow_subnormal=False))


@given(
    X=arrays(np.float64, (40, 3), elements=VALUES),
    x=arrays(np.float64, (20, 3), elements=VALUES),
    extrapolation=st.sampled_from(["linear", "constant"]),
)
def test_pieces_are_the_splines(X, x, extrapolation):
    """Also with equal knots, at the knots, and outside of all that was seen."""
    X = X + np.arange(40)[:, None] * 1e-3  # no column is constant
    transformer = SplineTransformer(
        degree=1, n_knots=5, knots="quantile", extrapolation=extrapolation, include_bias=False
    ).fit(X)
    x = np.vstack([x, X, *(np.column_stack([spline.t[1:-1] for spline in transformer.bsplines_]),)])
    expected = transformer.transform(x).reshape(len(x), 3, -1)
    edges, origin, value, slope = _pieces(transformer, np.float64)
    for c in range(3):
        piece = (x[:, c, None] >= edges[c]).sum(axis=1)
        found = value[c, piece] + slope[c, piece] * (x[:, c] - origin[c, piece])[:, None]
        scale = max(1.0, np.abs(expected[:, c]).max())
        assert np.abs(found - expected[:, c]).max() <= 1e-6 * scale


def test_single_precision_keeps_the_side_of_a_knot():
    """A value that is a knot in double is on the same side of it as a float."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.where(rng.random(200) < 0.6, 0.7, rng.random(200))])  # 0.7 is no float
    transformer = SplineTransformer(
        degree=1, n_knots=5, knots="quantile", extrapolation="linear", include_bias=False
    ).fit(X)
    single, double = _pieces(transformer, np.float32)[0], _pieces(transformer, np.float64)[0]
    for x in (0.1, 0.3, 0.7, 0.9):
        assert (np.float64(np.float32(x)) >= single).sum() == (x >= double).sum()


def test_other_degrees_are_refused():
    from multiform.export._answers import _hinges

    X = np.random.default_rng(0).normal(size=(50, 1))
    with pytest.raises(ValueError, match="can export SplineTransformer of degree 1; got 2"):
        _hinges(None, "X", np.array([0]), SplineTransformer(degree=2).fit(X), np.float64)
