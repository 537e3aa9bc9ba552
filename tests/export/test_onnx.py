"""Exported models: onnxruntime gives Python's labels and chances."""

import copy
import sys

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer, StandardScaler
from sklearn.svm import SVC

from multiform import LoyaltyClassifier, QMSClassifier, QMSClassifierCV, TriageClassifier
from multiform.datasets import load_heart_disease
from multiform.export import register_onnx, to_onnx
from multiform.partners import Forest, Partner

onnxruntime = pytest.importorskip("onnxruntime")
skl2onnx = pytest.importorskip("skl2onnx")

N_TRAIN = 1500
# The graph is in double precision, so what is left is Python's own float32 arithmetic.
CLOSE = 1e-5


def predictions(onnx_model, X):
    """Every output by its name."""
    session = onnxruntime.InferenceSession(onnx_model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    inputs = {session.get_inputs()[0].name: X}
    return dict(zip(names, session.run(names, inputs), strict=True))


@pytest.fixture(scope="module")
def samples():
    """Four classes that overlap: columns with many values, few values, two values, and a constant; 10,000 to judge."""
    X, y = make_blobs(2 * N_TRAIN + 10_000, n_features=5, centers=4, cluster_std=4.0, random_state=0)
    X[:, 1] = np.round(X[:, 1] / 4).clip(-2, 2)
    X[:, 2] = X[:, 2] > 0
    X[:, 3] = np.where(X[:, 3] > 3, X[:, 3], 0.0)  # most values equal: two knots coincide
    y = np.where(np.abs(X[:, 4]) < 2, 3, y)  # a stripe, which the enriched columns see
    X = np.column_stack([X, np.full(len(X), 7.0), 100 + X[:, 0] + X[:, 4]])
    return X.astype(np.float32), np.array(["north", "east", "south", "west"])[y]


@pytest.fixture(scope="module")
def fitted(samples):
    """Every estimator of ours."""
    X, y = samples[0][:N_TRAIN], samples[1][:N_TRAIN]
    loyalty = LoyaltyClassifier(random_state=0).fit(X, y)
    triage = TriageClassifier(FrozenEstimator(loyalty), target_accuracy=0.9, random_state=0)
    return {
        "qms": QMSClassifier(random_state=0).fit(X, y),
        "cv": QMSClassifierCV(random_state=0).fit(X, y),
        "loyalty": loyalty,
        "triage": triage.fit(samples[0][N_TRAIN : 2 * N_TRAIN], samples[1][N_TRAIN : 2 * N_TRAIN]),
    }


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["qms", "cv", "loyalty", "triage"])
def test_same_answers_on_ten_thousand_rows(fitted, samples, name, kind):
    model, X = fitted[name], samples[0][2 * N_TRAIN :].astype(kind)
    assert len(X) == 10_000
    found = predictions(to_onnx(model, double=kind is np.float64), X)
    np.testing.assert_array_equal(found["label"], model.predict(X))
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), atol=CLOSE)
    assert found["probabilities"].dtype == kind
    if name == "loyalty":
        np.testing.assert_array_equal(found["loyalty"], model.predict_loyalty(X))
        np.testing.assert_allclose(found["loyalty_score"], model.loyalty_score(X), atol=CLOSE)
        assert len(set(found["loyalty"])) == 3
    if name == "triage":
        np.testing.assert_array_equal(found["accepted"], ~model.defer(X))
        np.testing.assert_allclose(found["trust"], model.trust_score(X), atol=CLOSE)
        assert 0 < found["accepted"].mean() < 1


def test_samples_on_the_threshold_itself_are_accepted(fitted, samples):
    """A threshold may be the score of a sample; that sample must be accepted there as here."""
    model, X = copy.copy(fitted["triage"]), samples[0][N_TRAIN : 2 * N_TRAIN]
    model.thresholds_ = np.full_like(model.thresholds_, np.median(model.trust_score(X[1:])))
    assert model.thresholds_[0] in model.trust_score(X)
    np.testing.assert_array_equal(predictions(to_onnx(model), X)["accepted"], ~model.defer(X))


def test_the_ensemble_enriches_columns(fitted):
    """Otherwise the encodings would not be tested."""
    shares = fitted["cv"].cv_results_
    assert any(share > 0 for share, e in zip(shares["share"], shares["encoding"], strict=True) if e == "enriched")


PARTNERS = {
    "extra trees": ExtraTreesClassifier(20),
    "random forest": RandomForestClassifier(20, min_samples_leaf=3),
    "boosting": HistGradientBoostingClassifier(max_iter=10),
}


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("name", PARTNERS)
def test_partners_that_are_forests(samples, name, class_weight, kind):
    X, y = samples[0][:500], samples[1][:500]
    shared = {"encodings": ["plain"], "max_iter": 1, "class_weight": class_weight, "random_state": 0}
    model = QMSClassifierCV((3.0,), partners=[PARTNERS[name]], **shared).fit(X, y)
    assert len(model.partners_) == 1
    new = samples[0][N_TRAIN : N_TRAIN + 3000].astype(kind)
    new[::50] *= 1e3
    found = predictions(to_onnx(model, double=kind is np.float64), new)
    np.testing.assert_array_equal(found["label"], model.predict(new))
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(new), atol=CLOSE)


def test_boosting_that_never_saw_two_classes():
    model = QMSClassifierCV(partners=[HistGradientBoostingClassifier()], cv=2, random_state=0).fit([[0.0], [1]], [0, 1])
    model.partners_ = model.partners_ or [Partner("alone", Forest.of([_of_one_class()], 2), 2)]
    model.partner_factors_ = np.ones(1)
    X = np.array([[0.0], [0.4], [1.0]], dtype=np.float32)
    np.testing.assert_allclose(predictions(to_onnx(model), X)["probabilities"], model.predict_proba(X), atol=CLOSE)


def _of_one_class():
    return HistGradientBoostingClassifier().fit([[0.0], [1.0]], [1, 1])


def test_other_partners_are_refused_by_a_sentence(samples):
    X, y = samples[0][:500], samples[1][:500]
    model = QMSClassifierCV((3.0,), encodings=["plain"], max_iter=1, partners=[GaussianNB()]).fit(X, y)
    assert len(model.partners_) == 1
    with pytest.raises(ValueError, match="whose partners are forests; got GaussianNB"):
        to_onnx(model)


def test_values_far_outside_and_never_seen(fitted, samples):
    X = samples[0][N_TRAIN : N_TRAIN + 200].copy()
    X[::2, 0] *= 30
    X[1::2, 1] = 17
    found = predictions(to_onnx(fitted["cv"]), X)
    np.testing.assert_array_equal(found["label"], fitted["cv"].predict(X))
    np.testing.assert_allclose(found["probabilities"], fitted["cv"].predict_proba(X), atol=CLOSE)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_every_knot_and_category_counts_as_it_did(samples, kind):
    """Values that a float cannot hold, on the knots and categories themselves."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.choice([0.1, 0.3, 0.7], 600), rng.choice(np.arange(40) / 10, 600), rng.normal(size=600)])
    X[:400, 1] = 0.7
    y = (X[:, 0] > 0.2) + (X[:, 1] > 1) + (X[:, 2] > 0)
    model = QMSClassifierCV(encodings=["enriched"], cv=3, partners=None, random_state=0).fit(X, y)
    found = predictions(to_onnx(model, double=kind is np.float64), X.astype(kind))
    np.testing.assert_array_equal(found["label"], model.predict(X))
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), atol=CLOSE)


def test_other_transformers_as_encodings(samples):
    X, y = samples[0][:N_TRAIN, :3], samples[1][:N_TRAIN]
    encodings = ["plain", PolynomialFeatures(2, include_bias=False)]
    model = QMSClassifierCV(encodings=encodings, noise=[0.3], cv=3, random_state=0).fit(X, y)
    assert model.cv_results_["share"][1] > 0
    found = predictions(to_onnx(model), X)
    np.testing.assert_array_equal(found["label"], model.predict(X))
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), atol=CLOSE)


@pytest.mark.parametrize("cut", [2, 4])
def test_ladders_of_loyalty_and_two_classes(samples, cut):
    chosen = np.isin(samples[1], ["north", "east", "south", "west"][:cut])
    X, y = samples[0][chosen][:N_TRAIN], samples[1][chosen][:N_TRAIN]
    model = LoyaltyClassifier(beta=[0.05, 0.3], gamma=[3, 20], cv=2, random_state=0).fit(X, y)
    found = predictions(to_onnx(model), X)
    np.testing.assert_array_equal(found["loyalty"], model.predict_loyalty(X))
    np.testing.assert_allclose(found["loyalty_score"], model.loyalty_score(X), atol=CLOSE)
    assert len(set(found["loyalty"])) >= 3


@pytest.mark.parametrize("estimator", [LogisticRegression(max_iter=2000), GaussianNB()])
def test_loyalty_around_other_classifiers(samples, estimator):
    X, y = samples[0][:500, :5] / 10, samples[1][:500]
    model = LoyaltyClassifier(estimator, beta=0.3, gamma=3.0, cv=2).fit(X, y)
    found = predictions(to_onnx(model), X)
    np.testing.assert_array_equal(found["label"], model.predict(X))
    np.testing.assert_array_equal(found["loyalty"], model.predict_loyalty(X))
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), atol=CLOSE)
    np.testing.assert_allclose(found["loyalty_score"], model.loyalty_score(X), atol=1e-4)


@pytest.mark.filterwarnings("ignore::multiform.triage.TargetNotReachedWarning")
@pytest.mark.parametrize("per_class", [False, True])
def test_triage_around_another_classifier_with_a_fallback_in_pipelines(samples, per_class):
    X, y = samples[0], samples[1]
    model = TriageClassifier(
        make_pipeline(StandardScaler(), GaussianNB()),
        target_accuracy=0.7,
        per_class=per_class,
        fallback=RandomForestClassifier(20, max_depth=6, random_state=0),
        random_state=0,
    ).fit(X[: 2 * N_TRAIN, :5], y[: 2 * N_TRAIN])
    new = X[2 * N_TRAIN : 3 * N_TRAIN, :5]
    found = predictions(to_onnx(model), new)
    np.testing.assert_array_equal(found["accepted"], ~model.defer(new))
    np.testing.assert_array_equal(found["label"], model.predict(new))
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(new), atol=CLOSE)
    assert 0 < found["accepted"].mean() < 1


@pytest.mark.parametrize("last", [QMSClassifier(random_state=0), LoyaltyClassifier(random_state=0)])
def test_a_pipeline_with_missing_values(last):
    X, y = load_heart_disease(return_X_y=True)
    X, y = np.asarray(X, dtype=np.float32), np.asarray(y)
    assert np.isnan(X).any()
    model = make_pipeline(SimpleImputer(strategy="median"), StandardScaler(), last).fit(X, y)
    found = predictions(to_onnx(model), X)
    np.testing.assert_array_equal(found["label"], model.predict(X))
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), atol=CLOSE)


def test_skl2onnx_itself_converts_a_pipeline(samples):
    X, y = samples[0][:300], samples[1][:300]
    model = make_pipeline(StandardScaler(), QMSClassifier(random_state=0)).fit(X, y)
    register_onnx()
    converted = skl2onnx.to_onnx(model, X[:1], options={"zipmap": False})
    np.testing.assert_array_equal(predictions(converted, X)["label"], model.predict(X))
    zipped = predictions(skl2onnx.to_onnx(model, X[:1]), X)["output_probability"]
    chances = model.predict_proba(X[:1])[0]
    assert zipped[0] == pytest.approx(dict(zip(model.classes_, chances, strict=True)), abs=CLOSE)


@pytest.mark.parametrize("labels", [np.array([3, 7, -1]), np.array([False, True, True]), np.array([1.0, 2.0, 5.0])])
def test_labels_that_are_whole_numbers(blobs, labels):
    X, y = blobs[0].astype(np.float32), labels[blobs[1]]
    model = QMSClassifier(random_state=0).fit(X, y)
    found = predictions(to_onnx(model), X)["label"]
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, model.predict(X).astype(int))


def test_columns_one_by_one(blobs):
    X, y = blobs[0].astype(np.float32), blobs[1]
    model = QMSClassifier(random_state=0).fit(X, y)
    kinds = [(f"column_{i}", skl2onnx.common.data_types.FloatTensorType([None, 1])) for i in range(X.shape[1])]
    session = onnxruntime.InferenceSession(to_onnx(model, initial_types=kinds).SerializeToString())
    label = session.run(["label"], {name: X[:, [i]] for i, (name, _) in enumerate(kinds)})[0]
    np.testing.assert_array_equal(label, model.predict(X))


def test_opset_13_is_enough(blobs):
    X, y = blobs[0].astype(np.float32), blobs[1]
    model = LoyaltyClassifier(cv=2, random_state=0).fit(X, y)
    converted = to_onnx(model, target_opset=13)
    assert [entry.version for entry in converted.opset_import if entry.domain == ""] == [13]
    np.testing.assert_array_equal(predictions(converted, X)["loyalty"], model.predict_loyalty(X))
    with pytest.raises(ValueError, match="target_opset of to_onnx must be at least 13; got 12"):
        to_onnx(model, target_opset=12)


def test_the_file_is_the_model_and_replaces_an_old_one_whole(blobs, tmp_path, monkeypatch):
    model = QMSClassifier(random_state=0).fit(*blobs)
    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")
    converted = to_onnx(model, path)
    assert path.read_bytes() == converted.SerializeToString()
    monkeypatch.setattr("os.replace", _full)
    with pytest.raises(OSError, match="no room"):
        to_onnx(model, path)
    assert path.read_bytes() == converted.SerializeToString()
    assert list(tmp_path.iterdir()) == [path]


def _full(*_):
    raise OSError("no room")


def test_what_cannot_be_exported_gets_a_sentence(blobs):
    X, y = blobs
    with pytest.raises(ValueError, match=r"must be one of QMSClassifier.*got LogisticRegression"):
        to_onnx(LogisticRegression(max_iter=1000).fit(X, y))
    halves = QMSClassifier.from_separators([[[1.0]], [[1.0]]], [[0.0], [2.0]], [0.5, 1.5])
    with pytest.raises(ValueError, match=r"labels that are all text or all whole numbers; got \[0\.5, 1\.5\]"):
        to_onnx(halves)


def test_parts_that_cannot_be_exported_get_a_sentence(blobs):
    X, y = blobs
    around_svc = LoyaltyClassifier(SVC(), beta=0.3, gamma=3.0, cv=2).fit(X, y)
    with pytest.raises(ValueError, match=r"around QMSClassifier, linear classifiers.*got SVC"):
        to_onnx(around_svc)
    margin = TriageClassifier(
        QMSClassifier(random_state=0), target_accuracy=0.6, score_method="decision_function", random_state=0
    ).fit(X, y)
    with pytest.raises(ValueError, match="trust is 'loyalty_score' or 'predict_proba'; got score_method='decision_fun"):
        to_onnx(margin)
    labelled = TriageClassifier(QMSClassifier(random_state=0), target_accuracy=0.6, defer_label=-1, random_state=0)
    with pytest.raises(ValueError, match="cannot export the defer_label of TriageClassifier"):
        to_onnx(labelled.fit(X, y))
    parted = TriageClassifier(QMSClassifier(random_state=0), target_accuracy=0.6, by=_everybody, random_state=0)
    with pytest.raises(ValueError, match=r"cannot export by=.* of TriageClassifier, whose thresholds depend on more"):
        to_onnx(parted.fit(X, y))
    curved = QMSClassifierCV(encodings=[SplineTransformer(degree=3)], cv=2, random_state=0).fit(X, y)
    with pytest.raises(Exception, match="SplineTransformer"):
        to_onnx(curved)


def _everybody(X):
    return np.zeros(len(X), dtype=int)


def test_without_skl2onnx_a_sentence_says_what_to_install(blobs, monkeypatch):
    model = QMSClassifier(random_state=0).fit(*blobs)
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(ImportError, match=r'to_onnx needs skl2onnx; install it with pip install "multiform\[onnx\]"'):
        to_onnx(model)
    with pytest.raises(ImportError, match="register_onnx needs skl2onnx"):
        register_onnx()


def test_labels_keep_their_type():
    """Whole numbers in an array of objects are numbers; text that onnxruntime would cut is refused."""

    def model(labels):
        return QMSClassifier.from_separators([[[1.0]]] * 3, [[0.0], [2.0], [4.0]], np.array(labels, dtype=object))

    X = np.array([[0.1], [2.1], [4.1]], dtype=np.float32)
    for labels in ([10, 20, 30], ["a", "b", "é"]):
        assert predictions(to_onnx(model(labels)), X)["label"].tolist() == labels
    for labels in ([0.5, 1, 2], [0, 1, 2**63]):
        with pytest.raises(ValueError, match="labels that are all text or all whole numbers; got"):
            to_onnx(model(labels))
    with pytest.raises(ValueError, match=r"labels without a NUL, where onnxruntime ends a text; got 'a\\x00'"):
        to_onnx(model(["a", "a\0", "b"]))


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("name", ["qms", "cv", "loyalty", "triage"])
def test_what_python_refuses_has_no_chances(fitted, samples, name, double):
    """A graph cannot raise: a row with NaN or infinity gets NaN chances, is not accepted, and changes no other row."""
    X = samples[0][:200].astype(np.float64 if double else np.float32)
    onnx_model = to_onnx(fitted[name], double=double)
    expected = predictions(onnx_model, X)
    for column in range(X.shape[1]):
        for bad in (np.nan, np.inf, -np.inf):
            given = X.copy()
            given[7, column] = bad
            found = predictions(onnx_model, given)
            if name in ("qms", "cv") and np.isnan(bad):
                np.testing.assert_allclose(found["probabilities"], fitted[name].predict_proba(given), atol=CLOSE)
                continue
            with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
                fitted[name].predict_proba(given)
            assert np.isnan(found["probabilities"][7]).all()
            assert found["label"][7] == fitted[name].classes_[0]
            if name == "loyalty":
                assert np.isnan(found["loyalty_score"][7])
                assert found["loyalty"][7] == fitted[name].levels_[-1]
            if name == "triage":
                assert np.isnan(found["trust"][7])
                assert not found["accepted"][7]
            for output, values in found.items():
                np.testing.assert_array_equal(np.delete(values, 7, axis=0), np.delete(expected[output], 7, axis=0))


@pytest.mark.parametrize("name", ["qms", "cv", "loyalty", "triage"])
def test_rows_far_off_have_chances(fitted, samples, name):
    X = samples[0][:1].astype(np.float64)
    for size, double in ((1e25, False), (3e38, False), (1e155, True)):
        given = np.repeat(X, 2, axis=0).astype(np.float64 if double else np.float32)
        given[:, 0] = [size, -size]
        found = predictions(to_onnx(fitted[name], double=double), given)
        np.testing.assert_allclose(found["probabilities"], fitted[name].predict_proba(given), atol=1e-4)
        np.testing.assert_array_equal(found["label"], fitted[name].predict(given))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["qms", "cv", "partner", "independent"])
def test_the_mean_over_what_is_missing(samples, name, kind):
    """Rows with no gap, some, and nothing else; models trained with gaps, and without."""
    random = np.random.default_rng(1)
    X, y = samples[0][:400].copy(), samples[1][:400]
    X[random.random(X.shape) < 0.2] = np.nan
    shared = {"cv": 2, "max_iter": 3, "random_state": 0}
    model = {
        "qms": QMSClassifier(max_iter=5, random_state=0),
        "cv": QMSClassifierCV((0.3,), encodings=["plain", "enriched"], **shared),
        "partner": QMSClassifierCV((0.3,), partners=[PARTNERS["extra trees"]], **shared),
        "independent": QMSClassifier(max_iter=5, random_state=0),
    }[name]
    if name == "independent":  # more columns than have correlations
        X = np.hstack([X, random.normal(size=(400, 200))]).astype(np.float32)
    for trained in (X, np.nan_to_num(X, nan=1.0)):
        model.fit(trained, y)
        if model._gaussian is None:
            continue
        assert (model._gaussian.correlation is None) == (name == "independent")
        onnx_model = to_onnx(model, double=kind is np.float64)
        new = np.concatenate([X, np.full_like(X[:1], np.nan), np.nan_to_num(X[:5])]).astype(kind)
        for rows in (new, new[-5:], new[:0]):
            found = predictions(onnx_model, rows)
            assert len(found["label"]) == len(rows)
            if len(rows):
                np.testing.assert_array_equal(found["label"], model.predict(rows))
                np.testing.assert_allclose(found["probabilities"], model.predict_proba(rows), atol=CLOSE)
