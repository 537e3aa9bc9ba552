"""What all tests share: how hypothesis searches, and two sets of data.

A busy machine is no failure, so there are no deadlines. `make test` tries the same examples each time, so that a
commit passes everywhere or nowhere; `make test-all` looks for new ones.
"""

from functools import partial

import numpy as np
import pytest
from hypothesis import settings
from sklearn.datasets import load_digits, make_blobs

import multiform.training  # noqa: F401  (it asks for the type below, and comes late otherwise)
from multiform.engines import CpuEngine

settings.register_profile("same", deadline=None, max_examples=20, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=100)


def pytest_configure(config):
    """The slow tests' search where slow tests run; hypothesis' own option goes before."""
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("same" if "not slow" in config.getoption("markexpr") else "search")


@pytest.fixture(scope="session", autouse=True)
def every_thread_works():
    """Also on small problems, which would do without: what threads must not change is tested on those."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("multiform.engines.CpuEngine", partial(CpuEngine, worth_a_thread=1))
        yield


@pytest.fixture(scope="session")
def digits():
    """600 digits as (X, y), 64 features from 0 to 16, ten classes."""
    X, y = load_digits(return_X_y=True)
    return X[:600].astype(np.float32), y[:600]


@pytest.fixture(scope="session")
def blobs():
    """Three classes that overlap, six features, 300 samples, float64."""
    return make_blobs(300, n_features=6, centers=3, cluster_std=4.0, random_state=0)
