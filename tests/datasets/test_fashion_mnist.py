"""Where Fashion-MNIST is looked for, and what is said about files that are not it."""

import gzip
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from multiform.datasets import _fashion_mnist, load_fashion_mnist
from multiform.datasets._fashion_mnist import read_idx
from tests.datasets.idx_files import idx_bytes, write_folder


def assert_loaded(parts, arrays):
    X_train, y_train, X_test, y_test = parts
    np.testing.assert_array_equal(X_train.reshape(-1, 28, 28), arrays[0])
    np.testing.assert_array_equal(y_train, arrays[1])
    np.testing.assert_array_equal(X_test.reshape(-1, 28, 28), arrays[2])
    np.testing.assert_array_equal(y_test, arrays[3])
    assert X_train.dtype == X_test.dtype == np.uint8
    assert y_train.dtype == y_test.dtype == np.int64
    assert X_train.flags.writeable
    assert X_train.flags.c_contiguous


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """A machine without the environment variable and without Debian's package."""
    monkeypatch.delenv(_fashion_mnist.ENVIRONMENT_VARIABLE, raising=False)
    monkeypatch.setattr(_fashion_mnist, "DEBIAN_FOLDER", tmp_path / "no-such-folder")


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("kind", [str, Path])
def test_given_folder(tmp_path, compress, kind):
    arrays = write_folder(tmp_path, compress=compress)
    assert_loaded(load_fashion_mnist(kind(tmp_path)), arrays)


def test_order_of_the_places(monkeypatch, tmp_path, nowhere):
    given, variable, debian = tmp_path / "given", tmp_path / "variable", tmp_path / "debian"
    arrays = {folder: write_folder(folder, seed=seed) for seed, folder in enumerate((given, variable, debian))}
    monkeypatch.setattr(_fashion_mnist, "DEBIAN_FOLDER", debian)
    assert_loaded(load_fashion_mnist(), arrays[debian])
    monkeypatch.setenv("MULTIFORM_FASHION_MNIST", str(variable))
    assert_loaded(load_fashion_mnist(), arrays[variable])
    assert_loaded(load_fashion_mnist(given), arrays[given])


def test_a_named_folder_is_not_replaced_by_another_place(monkeypatch, tmp_path, nowhere):
    debian = tmp_path / "debian"
    write_folder(debian)
    monkeypatch.setattr(_fashion_mnist, "DEBIAN_FOLDER", debian)
    with pytest.raises(FileNotFoundError, match=r"absent \(data_dir\) has neither train-images-idx3-ubyte.gz"):
        load_fashion_mnist(tmp_path / "absent")
    monkeypatch.setenv("MULTIFORM_FASHION_MNIST", str(tmp_path / "absent"))
    with pytest.raises(FileNotFoundError, match=r"environment variable MULTIFORM_FASHION_MNIST"):
        load_fashion_mnist()


def test_openml_is_split(monkeypatch, nowhere):
    X = np.arange(70_000, dtype=np.int64)[:, None] % 256
    y = np.array([str(i % 10) for i in range(70_000)], dtype=object)
    asked = {}

    def fetch_openml(name, **options):
        asked.update(options, name=name)
        return X, y

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    X_train, y_train, X_test, y_test = load_fashion_mnist()
    assert asked["name"] == "Fashion-MNIST"
    assert X_train.shape == (60_000, 1)
    assert X_test.shape == (10_000, 1)
    assert X_train.dtype == np.uint8
    assert y_train.dtype == y_test.dtype == np.int64
    np.testing.assert_array_equal(X_test, X[60_000:])
    np.testing.assert_array_equal(y_train[:12], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1])


def test_openml_in_another_order_is_refused(monkeypatch, nowhere):
    X, y = np.zeros((70_000, 1)), np.sort(np.arange(70_000) % 10).astype(str)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda name, **options: (X, y))
    with pytest.raises(ValueError, match="does not start with the 60000 training images"):
        load_fashion_mnist()


def test_nothing_works_says_what_to_do(monkeypatch, nowhere):
    def fetch_openml(name, **options):
        raise URLError("no network")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    with pytest.raises(FileNotFoundError, match="no network") as raised:
        load_fashion_mnist()
    for advice in ("apt install dataset-fashion-mnist", "data_dir", "MULTIFORM_FASHION_MNIST", "internet"):
        assert advice in str(raised.value)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda content: content[:-1],
            r"truncated or damaged: its header announces 12 x 28 x 28 = 9408 bytes",
        ),
        (lambda content: content + b"x", r"truncated or damaged"),
        (lambda content: content[:9], r"ends within its header, after 9 bytes"),
        (lambda content: b"", r"starts with nothing"),
        (lambda content: b"GIF8" + content[4:], r"not an IDX file .* starts with 47 49 46 38"),
        (lambda content: content[:3] + b"\x01" + content[4:], r"with 3 axes"),
        (lambda content: content[:2] + b"\x0d" + content[3:], r"not an IDX file of unsigned bytes"),
        (lambda content: idx_bytes(np.zeros((12, 20, 28), np.uint8)), r"20 x 28 pixels"),
        (lambda content: idx_bytes(np.zeros((11, 28, 28), np.uint8)), r"11 images and .* 12 labels"),
    ],
)
def test_damaged_images(tmp_path, damage, message):
    write_folder(tmp_path, compress=False)
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=message):
        load_fashion_mnist(tmp_path)


def test_foreign_labels(tmp_path):
    write_folder(tmp_path, compress=False)
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx_bytes(np.full(5, 11, np.uint8)))
    with pytest.raises(ValueError, match="has the label 11"):
        load_fashion_mnist(tmp_path)


@pytest.mark.parametrize("end", [5, -4])
def test_incomplete_gzip(tmp_path, end):
    write_folder(tmp_path)
    path = tmp_path / "train-labels-idx1-ubyte.gz"
    path.write_bytes(path.read_bytes()[:end])
    with pytest.raises(ValueError, match="not a complete gzip file"):
        load_fashion_mnist(tmp_path)


def test_no_gzip_at_all(tmp_path):
    write_folder(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(b"<html>not found</html>")
    with pytest.raises(ValueError, match="not a complete gzip file"):
        load_fashion_mnist(tmp_path)


@given(
    array=hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=6)),
    compress=st.booleans(),
)
def test_idx_round_trip(tmp_path_factory, array, compress):
    path = tmp_path_factory.mktemp("idx") / ("array.gz" if compress else "array")
    content = idx_bytes(array)
    path.write_bytes(gzip.compress(content) if compress else content)
    np.testing.assert_array_equal(read_idx(path, array.ndim), array)
