"""Every kind of X and y that a user may hold: it fits, predicts the obvious, and is never copied needlessly."""

import tracemalloc

import joblib
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_blobs

from multiform import QMSClassifier


@pytest.fixture(scope="module")
def counts():
    """Whole numbers from 0 to 255 that every dtype can hold, and their three classes."""
    X, y = make_blobs(200, n_features=8, centers=3, cluster_std=2.0, random_state=1)
    return np.clip(np.round(10 * X + 100), 0, 255).astype(np.uint8), y


KINDS = {
    "float64": lambda X: X.astype(np.float64),
    "float64, Fortran order": lambda X: np.asfortranarray(X.astype(np.float64)),
    "float32, Fortran order": lambda X: np.asfortranarray(X.astype(np.float32)),
    "float32, every second row": lambda X: np.repeat(X, 2, axis=0).astype(np.float32)[::2],
    "float32, read-only": lambda X: _read_only(X.astype(np.float32)),
    "float16": lambda X: X.astype(np.float16),
    "int64": lambda X: X.astype(np.int64),
    "int32": lambda X: X.astype(np.int32),
    "uint8": lambda X: X,
    "uint8, Fortran order": np.asfortranarray,
    "list": lambda X: X.tolist(),
}
SPARSE = {
    "csr": lambda X: scipy.sparse.csr_matrix(X.astype(np.float32)),
    "csr array": lambda X: scipy.sparse.csr_array(X.astype(np.float64)),
    "csc": lambda X: scipy.sparse.csc_matrix(X.astype(np.float32)),
    "coo": lambda X: scipy.sparse.coo_matrix(X.astype(np.float64)),
    "csr of int64 indices": lambda X: _wide_indices(scipy.sparse.csr_matrix(X.astype(np.float32))),
    "csr, unsorted": lambda X: _unsorted(scipy.sparse.csr_matrix(X.astype(np.float32))),
    "csr of uint8": scipy.sparse.csr_matrix,
}


def _read_only(X):
    X.setflags(write=False)
    return X


def _wide_indices(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def _unsorted(X):
    for begin, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        X.indices[begin:end] = X.indices[begin:end][::-1].copy()
        X.data[begin:end] = X.data[begin:end][::-1].copy()
    X.has_sorted_indices = False
    return X


@pytest.mark.parametrize("solver", ["adam", "cpm"])
@pytest.mark.parametrize("kind", [*KINDS, *SPARSE])
def test_the_same_numbers_make_the_same_model(counts, kind, solver):
    X, y = counts
    convert = (KINDS | SPARSE)[kind]
    # Sparse input is scaled by one deviation for all columns; so is this dense model.
    scaling = "common" if kind in SPARSE else "standard"
    settings = {"solver": solver, "scaling": scaling, "max_iter": 4, "random_state": 0}
    expected = QMSClassifier(**settings).fit(X.astype(np.float32), y)
    model = QMSClassifier(**settings).fit(convert(X), y)
    agree = model.predict(convert(X)) == expected.predict(X.astype(np.float32))
    assert agree.mean() > 0.98
    np.testing.assert_allclose(model.loss_curve_, expected.loss_curve_, rtol=2e-2)
    assert model.score(convert(X), y) > 0.9


def test_the_caller_keeps_his_data(counts):
    X, y = counts
    for held in (X.astype(np.float64), X.astype(np.float32), X.copy()):
        before = held.copy()
        QMSClassifier(max_iter=2).fit(held, y).predict(held)
        np.testing.assert_array_equal(held, before)
    sparse = _unsorted(scipy.sparse.csr_matrix(X.astype(np.float32)))
    before = sparse.indices.copy()
    QMSClassifier(max_iter=2).fit(sparse, y).predict(sparse)
    np.testing.assert_array_equal(sparse.indices, before)


def test_boolean_features():
    random = np.random.default_rng(0)
    X = random.random((300, 6)) < 0.5
    y = X[:, 0] ^ X[:, 1]  # quadratic in its inputs, linear in none
    assert QMSClassifier(noise=0.1, random_state=0).fit(X, y).score(X, y) > 0.95


def test_memory_map(counts, tmp_path):
    X, y = counts
    joblib.dump(X.astype(np.float32), tmp_path / "X")
    mapped = joblib.load(tmp_path / "X", mmap_mode="r")
    assert isinstance(mapped, np.memmap)
    model = QMSClassifier(max_iter=3, random_state=0).fit(mapped, y)
    plain = QMSClassifier(max_iter=3, random_state=0).fit(X.astype(np.float32), y)
    np.testing.assert_array_equal(model.components_, plain.components_)
    np.testing.assert_array_equal(model.member_values(mapped), plain.member_values(X.astype(np.float32)))


@pytest.mark.parametrize("solver", ["adam", "cpm"])
def test_no_float_copy_of_a_large_byte_matrix(solver):
    """The peak that Python allocates during fit and predict stays far below one float32 copy of X."""
    random = np.random.default_rng(0)
    y = np.arange(60_000) % 2
    X = random.integers(0, 200, size=(60_000, 200), dtype=np.uint8)
    X[:, 0] += (50 * y).astype(np.uint8)
    model = QMSClassifier(2, solver=solver, max_iter=1, n_jobs=1)
    tracemalloc.start()
    try:
        model.fit(X, y).predict(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.3 * X.size * np.dtype(np.float32).itemsize


def test_pandas(counts):
    pandas = pytest.importorskip("pandas")
    X, y = counts
    frame = pandas.DataFrame(X, columns=[f"pixel {c}" for c in range(X.shape[1])])
    labels = pandas.Series(np.array(["ant", "bee", "cat"])[y])
    model = QMSClassifier(random_state=0).fit(frame, labels)
    assert list(model.feature_names_in_) == list(frame.columns)
    assert model.score(frame, labels) > 0.9
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[frame.columns[::-1]])


def test_pandas_categories_and_mixed_numbers():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": np.arange(60) % 7, "b": np.linspace(-1, 1, 60), "c": np.arange(60) % 2 == 0})
    labels = pandas.Categorical(np.where(frame["b"] > 0, "high", "low"))
    model = QMSClassifier(random_state=0).fit(frame, labels)
    assert list(model.classes_) == ["high", "low"]
    assert model.score(frame, labels) > 0.9


def test_polars(counts):
    polars = pytest.importorskip("polars")
    X, y = counts
    frame = polars.DataFrame({f"c{c}": X[:, c] for c in range(X.shape[1])})
    model = QMSClassifier(random_state=0).fit(frame, polars.Series(y))
    assert list(model.feature_names_in_) == frame.columns
    assert model.score(frame, y) > 0.9


@pytest.mark.parametrize(
    "names",
    [
        np.array(["x", "yy", "z"]),
        np.array(["x", "yy", "z"], dtype=object),
        np.array([-5, 7, 100]),
        np.array([0.0, 1, 2]),
    ],
    ids=["text", "objects", "integers", "whole floats"],
)
def test_labels(counts, names):
    X, y = counts
    model = QMSClassifier(random_state=0).fit(X, names[y])
    np.testing.assert_array_equal(model.classes_, names)
    assert model.predict(X).dtype == names.dtype
    assert model.score(X, names[y]) > 0.9


def test_boolean_labels(counts):
    X, y = counts
    model = QMSClassifier(random_state=0).fit(X, y == 1)
    assert model.predict(X).dtype == bool
    assert model.decision_function(X).shape == (200,)
    np.testing.assert_array_equal(model.decision_function(X) > 0, model.predict(X))


def test_column_of_labels_warns(counts):
    X, y = counts
    with pytest.warns(UserWarning, match="column-vector y was passed"):
        QMSClassifier(max_iter=1).fit(X, y[:, None])


# ------------------------------------------------------------------------------------------------ sizes and shapes


@pytest.mark.parametrize(("solver", "max_iter"), [("adam", 40), pytest.param("cpm", 3, marks=pytest.mark.slow)])
def test_a_thousand_classes(solver, max_iter):
    """Each class is one point of a grid, three samples each: nearly all are found again."""
    grid = np.stack(np.meshgrid(*[np.arange(10.0)] * 3), axis=-1).reshape(-1, 3)
    X = np.repeat(grid, 3, axis=0) + np.random.default_rng(0).normal(0, 0.03, size=(3000, 3))
    y = np.repeat(np.arange(1000), 3)
    model = QMSClassifier(solver=solver, noise=0.02, max_iter=max_iter, calibrate=False, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.predict_proba(X[:5]).shape == (5, 1000)


@pytest.mark.parametrize("solver", ["adam", "cpm"])
@pytest.mark.parametrize("n_features", [1, 2, 20_000])
def test_number_of_features(n_features, solver):
    random = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = random.normal(size=(60, n_features)).astype(np.float32)
    X[:, 0] += 6 * y
    X[:, n_features // 2] += 6 * y
    X[:, -1] += 6 * y
    model = QMSClassifier(solver=solver, max_iter="auto" if n_features < 3 else 2, calibrate=False, random_state=0)
    assert model.fit(X, y).score(X, y) > 0.95
    assert model.components_.shape[2] == n_features


@pytest.mark.parametrize("solver", ["adam", "cpm", "cpm-literal"])
def test_constant_and_duplicated_columns(blobs, solver):
    X, y = blobs
    plain = QMSClassifier(solver=solver, random_state=0).fit(X, y).score(X, y)
    wide = np.hstack([X, X[:, :2], np.zeros((300, 1)), np.full((300, 2), 1e6), np.full((300, 1), 0.1)])
    for held in (wide, wide.astype(np.float32)):
        model = QMSClassifier(solver=solver, random_state=0).fit(held, y)
        assert model.score(held, y) > plain - 0.05
        np.testing.assert_array_equal(model.components_[:, :, -4:], 0)
        assert np.isfinite(model.member_values(held)).all()


def test_only_constant_columns():
    """Nothing to go by: every sample gets the same answer, and chances add up."""
    X, y = np.full((30, 3), 7.0), np.arange(30) % 3 // 2
    model = QMSClassifier(random_state=0).fit(X, y)
    assert len(np.unique(model.predict(X))) == 1
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("solver", ["adam", "cpm"])
def test_columns_of_any_scale(blobs, solver, dtype):
    X, y = blobs
    scale = np.array([1e-8, 1e8, 1.0, 1e-4, 1e4, 1e8])
    plain = QMSClassifier(solver=solver, random_state=0).fit(X.astype(dtype), y)
    scaled = QMSClassifier(solver=solver, random_state=0).fit((X * scale).astype(dtype), y)
    agree = plain.predict(X.astype(dtype)) == scaled.predict((X * scale).astype(dtype))
    assert agree.mean() > 0.98


@given(
    a=st.lists(st.floats(1e-3, 1e3), min_size=6, max_size=6), c=st.lists(st.floats(-100, 100), min_size=6, max_size=6)
)
def test_affine_maps_of_the_inputs_fold_in(a, c):
    """x -> a x + c with a > 0, column by column: the same decisions, from the model of the mapped data."""
    X, y = make_blobs(90, n_features=6, centers=3, cluster_std=4.0, random_state=0)
    settings = {"solver": "cpm-literal", "scaling": "standard", "max_iter": 2, "calibrate": False, "random_state": 0}
    mapped = X * np.array(a) + np.array(c)
    plain, other = QMSClassifier(**settings).fit(X, y), QMSClassifier(**settings).fit(mapped, y)
    np.testing.assert_allclose(other.decision_function(mapped), plain.decision_function(X), atol=1e-2)


def test_components_are_in_the_users_units(blobs):
    X, y = blobs
    X = X * 37 + 5
    for held in (X, X.astype(np.float32)):
        model = QMSClassifier(random_state=0).fit(held, y)
        f = ((held.astype(np.float64) @ model.components_.transpose(0, 2, 1) - model.offsets_[:, None]) ** 2).sum(2).T
        np.testing.assert_allclose(model.member_values(held), f, rtol=1e-3)
        np.testing.assert_array_equal(model.predict(held), model.classes_[f.argmin(axis=1)])


@pytest.mark.parametrize("solver", ["adam", "cpm", "cpm-literal"])
def test_fewer_samples_than_components(solver):
    X = np.array([[0.0, 0.0], [0.1, 0.0], [3.0, 3.0], [3.1, 3.0]])
    y = np.array(["low", "low", "high", "high"])
    model = QMSClassifier(18, solver=solver, random_state=0).fit(X, y)
    assert model.n_components_ == 18
    np.testing.assert_array_equal(model.predict([[0.05, 0.05], [3.05, 2.9]]), ["low", "high"])


@pytest.mark.parametrize("solver", ["adam", "cpm", "cpm-literal"])
def test_classes_with_one_sample(solver):
    X, y = np.array([[0.0], [10.0], [20.0]]), np.array([0, 1, 2])
    model = QMSClassifier(solver=solver, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def two_rare_samples():
    """Two samples far from 20,000 others."""
    X = np.random.default_rng(0).normal(size=(20_002, 3)).astype(np.float32)
    X[:2] += 12
    return X, (np.arange(20_002) < 2).astype(int)


@pytest.mark.parametrize(
    "settings",
    [{}, {"solver": "cpm"}, {"solver": "cpm-literal", "class_weight": "balanced"}],
    ids=["default", "cpm", "balanced"],
)
def test_one_in_ten_thousand(settings):
    """A new sample beside the rare ones is one of them, and there is no false alarm."""
    X, y = two_rare_samples()
    model = QMSClassifier(random_state=0, **settings).fit(X, y)
    assert list(model.predict(np.array([[12, 12, 12], [0, 0, 0]], np.float32))) == [1, 0]
    assert model.predict(X[2:]).mean() < 1e-3


def test_values_of_float64_and_float32_agree(blobs):
    X, y = blobs
    model = QMSClassifier(random_state=0).fit(X, y)
    assert model.member_values(X).dtype == np.float64
    assert model.member_values(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(model.member_values(X.astype(np.float32)), model.member_values(X), rtol=1e-3)
