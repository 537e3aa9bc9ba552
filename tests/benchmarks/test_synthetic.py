"""The made data of the scaling benchmark."""

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from benchmarks.synthetic import gaussian_classes
from benchmarks.tuned_svc import TunedSVC


def test_classes_overlap_but_can_be_told_apart():
    X, y = gaussian_classes(4000, 50, 4, seed=1)
    assert X.shape == (4000, 50)
    assert X.dtype == np.float32
    assert set(y) == {0, 1, 2, 3}
    accuracy = LinearDiscriminantAnalysis().fit(X[:2000], y[:2000]).score(X[2000:], y[2000:])
    assert 0.4 < accuracy < 0.9


def test_tuned_svc_searches_on_a_part_and_fits_all():
    X, y = gaussian_classes(300, 3, 3)
    X *= 2
    svc = TunedSVC(max_search_rows=60, random_state=0).fit(X, y)
    assert svc.svc_.shape_fit_ == (300, 3)
    assert svc.score(X, y) > 0.5
