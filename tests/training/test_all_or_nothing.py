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


def prepared(name, fitted):
    """A model, fitted or not, samples of two classes, and how it takes them."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 120)
    X = rng.normal(size=(120, 4)) + 2 * y[:, None]
    as_given = frame if name == "table" else np.asarray
    model = ESTIMATORS[name]()
    return model.fit(as_given(X), y) if fitted else model, X, y, as_given


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("fitted", [False, True])
def test_a_fit_that_fails_changes_nothing(name, fitted, monkeypatch):
    model, X, y, as_given = prepared(name, fitted)
    before = dict(vars(model))

    def broken(*arguments, **named):
        raise MemoryError("no room")

    monkeypatch.setattr("multiform.training.solve", broken)
    monkeypatch.setattr("multiform.images.np.linalg.eigh", broken)
    with pytest.raises(MemoryError, match="no room"):
        model.fit(as_given(7 * X[:80]), 1 - y[:80])
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[part] is before[part] for part in before)


def refused(X, y):
    """Arguments of a fit that every classifier refuses, and what it says; X has another number of columns."""
    X = X[:, :3]
    yield (X, np.zeros_like(y)), "class"
    yield (X, y[:-1]), "inconsistent|[Ll]ength|rows|samples"
    yield (X[:0], y[:0]), "0 sample|no rows|empty|[Ll]east|minimum"


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name not in ("patches", "plan")])
@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_fit_that_is_refused_changes_nothing(name, fitted):
    model, X, y, as_given = prepared(name, fitted)
    before = dict(vars(model))
    for (other, target), said in refused(X, y):
        with pytest.raises(ValueError, match=said):
            model.fit(as_given(other), target)
        assert vars(model).keys() == before.keys()
        assert all(vars(model)[part] is before[part] for part in before)


@pytest.mark.parametrize("name", ["qms", "cv", "loyalty", "triage"])
@pytest.mark.parametrize("late", ["in training", "when all models are trained"])
def test_an_interrupted_fit_changes_nothing_and_draws_nothing(name, late, monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 120)
    X = rng.normal(size=(120, 4)) + 2 * y[:, None]
    model = ESTIMATORS[name]().set_params(random_state=np.random.RandomState(0)).fit(X, y)
    before, stream = dict(vars(model)), model.random_state.get_state()[1].copy()

    def interrupted(*arguments, **named):
        raise KeyboardInterrupt("enough")

    temperatures = ["fitting.temperatures_and_losses", "selection.fit_temperatures", "loyalty._score.fit_temperature"]
    with monkeypatch.context() as patched:
        for place in ["training.solve"] if late == "in training" else temperatures:
            patched.setattr(f"multiform.{place}", interrupted)
        with pytest.raises(KeyboardInterrupt, match="enough"):
            model.fit(X[:, :2], y)
    assert model.n_features_in_ == 4
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[part] is before[part] for part in before)
    np.testing.assert_array_equal(model.random_state.get_state()[1], stream)
    assert np.isfinite(model.predict_proba(X)).all()
