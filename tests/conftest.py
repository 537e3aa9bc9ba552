"""What all tests share: hypothesis without deadlines (a busy machine is no failure), and two sets of data."""

import numpy as np
import pytest
from hypothesis import settings
from sklearn.datasets import load_digits, make_blobs

settings.register_profile("multiform", deadline=None, max_examples=20)
settings.load_profile("multiform")


@pytest.fixture(scope="session")
def digits():
    """600 digits as (X, y), 64 features from 0 to 16, ten classes."""
    X, y = load_digits(return_X_y=True)
    return X[:600].astype(np.float32), y[:600]


@pytest.fixture(scope="session")
def blobs():
    """Three classes that overlap, six features, 300 samples, float64."""
    return make_blobs(300, n_features=6, centers=3, cluster_std=4.0, random_state=0)
