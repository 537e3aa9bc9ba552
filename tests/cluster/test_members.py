"""Members of a batch over the workers of a cluster: the models that one machine finds."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from multiform import LoyaltyClassifier, QMSClassifier, QMSClassifierCV, load, save
from multiform.engines import CpuEngine, engine_for
from multiform.engines.dask import DaskEngine
from multiform.testing import check_batch_equals_singles, check_engine, check_parity, check_same_bits


def test_the_cluster_is_an_engine(client):
    engine = DaskEngine()
    check_parity(engine, "csr", "adam", some_columns=True)
    check_same_bits([CpuEngine(), engine], "uint8", "cpm, all departures", n_samples=60, n_features=5)
    check_batch_equals_singles(engine)


@pytest.mark.slow
def test_the_cluster_passes_every_check(client):
    check_engine(DaskEngine())


def test_x_is_sent_once_a_worker_for_all_batches(client, monkeypatch):
    X, y = load_iris(return_X_y=True)
    sent = []
    whole = type(client).scatter

    def scatter(self, data, *arguments, **options):
        sent.append((type(data[0]).__name__, options["workers"][0]))
        return whole(self, data, *arguments, **options)

    monkeypatch.setattr(type(client), "scatter", scatter)
    settings = {"noise": [0.3, 1.0], "cv": 3, "max_iter": 3, "random_state": 0}
    spread = QMSClassifierCV(device="dask", **settings).fit(X, y)
    problems = [home for what, home in sent if what == "TrainingProblem"]
    assert len(problems) == len(set(problems)) == 2
    here = QMSClassifierCV(**settings).fit(X, y)
    np.testing.assert_array_equal(spread.predict_proba(X), here.predict_proba(X))


def test_a_loyalty_machine_and_early_stopping(client, tmp_path):
    X, y = load_iris(return_X_y=True)
    settings = {"max_iter": 5, "random_state": 0, "early_stopping": True, "solver": "cpm"}
    spread, here = (QMSClassifier(device=device, **settings).fit(X, y) for device in ("dask", "cpu"))
    np.testing.assert_array_equal(spread.components_, here.components_)
    assert spread.validation_scores_ == here.validation_scores_
    spread, here = (
        LoyaltyClassifier(QMSClassifier(device=device, max_iter=5, random_state=0), random_state=0).fit(X, y)
        for device in ("dask", "cpu")
    )
    np.testing.assert_array_equal(spread.loyalty_score(X), here.loyalty_score(X))
    save(spread, tmp_path / "model.mfm")
    np.testing.assert_array_equal(load(tmp_path / "model.mfm").loyalty_score(X), here.loyalty_score(X))
    assert not any(client.run(lambda dask_worker: getattr(dask_worker, "multiform_states", {})).values())


def test_without_a_client_there_is_a_sentence(monkeypatch):
    monkeypatch.setattr("distributed.client._get_global_client", lambda: None)
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="device='dask' finds no client of a cluster"):
        QMSClassifier(device="dask").fit(X, y)
    assert isinstance(engine_for("dask", 1), DaskEngine)  # which evaluates without one
