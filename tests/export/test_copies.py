"""joblib and skops: what comes back answers as what went in; the types to trust are those of docs/export.md."""

import io
import re
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from multiform import DiagnosisPlanner, LoyaltyClassifier, QMSClassifier, QMSClassifierCV, TriageClassifier

PAGE = Path(__file__).parents[2] / "docs" / "export.md"
X, Y = make_blobs(500, n_features=4, centers=3, cluster_std=3.0, random_state=0)
MODELS = {
    "qms": QMSClassifier(random_state=0),
    "cv": QMSClassifierCV(cv=3, random_state=0),
    "loyalty": LoyaltyClassifier(cv=2, random_state=0),
    "triage": TriageClassifier(LoyaltyClassifier(cv=2, random_state=0), target_accuracy=0.7, random_state=0),
    "pipeline": make_pipeline(StandardScaler(), QMSClassifier(random_state=0)),
}


def same(model, again):
    for method in ("predict", "predict_proba", "predict_loyalty", "loyalty_score", "defer"):
        if hasattr(model, method):
            np.testing.assert_array_equal(getattr(again, method)(X), getattr(model, method)(X))


@pytest.mark.parametrize("name", MODELS)
def test_joblib(name):
    model = MODELS[name].fit(X, Y)
    buffer = io.BytesIO()
    joblib.dump(model, buffer)
    buffer.seek(0)
    same(model, joblib.load(buffer))


def test_joblib_of_a_plan():
    planner = DiagnosisPlanner({"a": 1, "b": 2, "c": 3, "d": 4}, cv=3, random_state=0).fit(X, Y)
    buffer = io.BytesIO()
    joblib.dump(planner, buffer)
    buffer.seek(0)
    same(planner, joblib.load(buffer))


@pytest.mark.parametrize("name", MODELS)
def test_skops_with_the_types_that_the_page_names(name):
    skops = pytest.importorskip("skops.io")
    model = MODELS[name].fit(X, Y)
    stored = skops.dumps(model)
    asked = skops.get_untrusted_types(data=stored)
    text = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r'["`](multiform\.[\w.]+)["`]', text))
    assert {kind for kind in asked if kind.startswith("multiform.")} <= named
    same(model, skops.loads(stored, trusted=asked))
