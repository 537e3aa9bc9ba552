"""The paper's figures, against each other: a slip of the pen would break these sums."""

import numpy as np
import pytest

from benchmarks import paper


@pytest.mark.parametrize(
    ("confusion", "n_class", "accuracy"),
    [
        (paper.TRAIN_CONFUSION, 6000, paper.TRAIN_ACCURACY),
        (paper.TEST_CONFUSION, 1000, paper.TEST_ACCURACY),
    ],
)
def test_confusion_matrices(confusion, n_class, accuracy):
    np.testing.assert_array_equal(confusion.sum(axis=1), np.full(10, n_class))
    assert round(np.trace(confusion) / confusion.sum(), 4) == accuracy


def test_strong_type():
    # Table "LEM result (test set)": 6,967 samples of strong type, 6,789 of them right, of 10,000.
    assert round(6967 / 10_000, 4) == paper.STRONG_COVERAGE
    assert round(6789 / 6967, 4) == paper.STRONG_ACCURACY
