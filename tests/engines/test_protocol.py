"""One protocol for every engine: another implementation needs nothing but it, and nobody asks which one it is."""

import numpy as np
import pytest

from multiform import LoyaltyClassifier, QMSClassifier, QMSClassifierCV
from multiform.engines import CpuEngine, ReferenceEngine, engine_for, solve
from multiform.testing import SOLVERS, check_engine, sample_batch, sample_problem
from tests.named_engines import cpu


class Relay:
    """A fourth engine, as a cluster would be: it passes everything on, and counts."""

    reads_sparse = True

    def __init__(self, inner):
        self.inner, self.begun, self.evaluated, self.released = inner, 0, [], 0

    def begin(self, problem, batch, solver, moments=None):
        self.begun += 1
        return self.inner.begin(problem, batch, solver, moments)

    def values(self, rows, separators):
        self.evaluated.append(separators.n_members)
        return self.inner.values(rows, separators)

    def release(self):
        self.released += 1


@pytest.fixture
def relay(monkeypatch):
    engine = Relay(cpu("auto", 2))
    for place in ("multiform.training.engine_for", "multiform.engines.engine_for"):
        monkeypatch.setattr(place, lambda *arguments, **named: engine)
    return engine


def test_another_implementation_passes_every_check():
    check_engine(Relay(cpu("auto", 2)))


def test_estimators_train_on_whatever_engine_is_chosen(relay, blobs):
    X, y = blobs
    model = QMSClassifier(max_iter=3, random_state=0).fit(X, y)
    assert relay.begun == 1
    assert relay.released == 1
    QMSClassifierCV(noise=[0.3, 1.0], cv=3, max_iter=3, random_state=0).fit(X, y)
    assert relay.begun == 3  # one batch for each of the two encodings
    assert model.predict(X).shape == y.shape


@pytest.mark.parametrize("X_type", [np.float32, np.uint8])
def test_a_committee_and_an_ensemble_answer_by_one_product(relay, blobs, X_type):
    X, y = blobs
    X = (10 * (X - X.min())).astype(X_type)
    loyal = LoyaltyClassifier(QMSClassifier(max_iter=2, random_state=0), random_state=0).fit(X, y)
    ensemble = QMSClassifierCV(noise=[0.3, 1.0], cv=3, max_iter=2, random_state=0).fit(X, y)
    relay.evaluated.clear()
    loyal.assess(X)
    assert relay.evaluated == [1 + 2 * 3]
    relay.evaluated.clear()
    ensemble.predict_proba(X)
    assert relay.evaluated == [len(ensemble.factors_)]


def test_an_error_between_two_passes_releases_the_engine():
    relay, problem = Relay(cpu()), sample_problem()

    def broken(state):
        raise MemoryError("no room")

    with pytest.raises(MemoryError, match="no room"):
        solve(problem, sample_batch(problem), SOLVERS["adam"], relay, after_pass=broken)
    assert relay.released == 1


def test_engines_by_name(monkeypatch):
    monkeypatch.setattr("multiform.engines.CpuEngine", CpuEngine)
    assert engine_for("cpu", 3) == CpuEngine("auto", 3)
    monkeypatch.setenv("MULTIFORM_KERNEL", "portable")
    assert engine_for("auto", 1) == CpuEngine("portable", 1)
    monkeypatch.setenv("MULTIFORM_KERNEL", "reference")
    assert engine_for("cpu", 1) == ReferenceEngine()
    given = Relay(cpu())
    assert engine_for(given, 1) is given
