"""A fit that fails, for whatever reason, leaves every estimator as it was: fitted before, or not."""

import numpy as np
import pytest

from multiform import DiagnosisPlanner, LoyaltyClassifier, QMSClassifier, QMSClassifierCV, TriageClassifier
from multiform.images import ImagePatches
from multiform.tables import TableClassifier

ESTIMATORS = {
    "qms": lambda: QMSClassifier(max_iter=2, random_state=0),
    "cv": lambda: QMSClassifierCV(noise=[1.0], cv=2, max_iter=2, random_state=0),
    "loyalty": lambda: LoyaltyClassifier(QMSClassifier(max_iter=2, random_state=0), cv=2, random_state=0),
    "triage": lambda: TriageClassifier(QMSClassifier(max_iter=2), target_accuracy=0.5, random_state=0),
    "table": lambda: TableClassifier(QMSClassifier(max_iter=2, random_state=0)),
    "plan": lambda: DiagnosisPlanner({f"x{i}": 1.0 for i in range(4)}, search="beam", random_state=0),
    "patches": lambda: ImagePatches(n_filters=4, patch_size=1, grid=1, random_state=0),
}


def frame(X):
    import polars

    return polars.DataFrame({f"x{i}": column for i, column in enumerate(X.T)})


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("fitted", [False, True])
def test_a_fit_that_fails_changes_nothing(name, fitted, monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 120)
    X = rng.normal(size=(120, 4)) + 2 * y[:, None]
    as_given = frame if name == "table" else np.asarray
    model = ESTIMATORS[name]()
    if fitted:
        model.fit(as_given(X), y)
    before = dict(vars(model))

    def broken(*arguments, **named):
        raise MemoryError("no room")

    monkeypatch.setattr("multiform.training.solve", broken)
    monkeypatch.setattr("multiform.images.np.linalg.eigh", broken)
    with pytest.raises(MemoryError, match="no room"):
        model.fit(as_given(7 * X[:80]), 1 - y[:80])
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[part] is before[part] for part in before)
