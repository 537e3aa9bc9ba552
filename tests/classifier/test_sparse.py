"""Sparse data stay sparse, and the default is sound on words."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression

from benchmarks.words import zipf_words
from multiform import QMSClassifier
from multiform.inputs import choose_scaling
from multiform.separators import Rows, Scaling, Separators, entries_of
from tests.named_engines import cpu


@pytest.fixture(scope="module")
def words():
    X, y = zipf_words(2_000, 3_000, 8, np.random.default_rng(0))
    return X[:1_400], y[:1_400], X[1_400:], y[1_400:]


@pytest.mark.parametrize("solver", ["adam", "cpm"])
def test_words_are_learnt_as_a_linear_model_learns_them(words, solver):
    X, y, X_new, y_new = words
    linear = LogisticRegression(max_iter=500).fit(X, y).score(X_new, y_new)
    model = QMSClassifier(solver=solver, random_state=0).fit(X, y)
    assert model.score(X_new, y_new) > linear - 0.03
    assert abs(model.predict_proba(X_new).max(axis=1).mean() - model.score(X_new, y_new)) < 0.05


def test_rare_classes_of_words_have_their_share_of_the_chances():
    told, there = [], []
    for seed in range(3):
        X, y = zipf_words(9_000, 3_000, 8, np.random.default_rng(seed), subject=0.08)
        kept = np.random.default_rng(seed).random(len(y)) < np.array([1, 1, 0.5, 0.5, 0.2, 0.2, 0.07, 0.07])[y]
        X, y = X[kept], y[kept]
        model = QMSClassifier(random_state=0).fit(X[:2_500], y[:2_500])
        told.append(model.predict_proba(X[2_500:])[:, 4:].sum() / len(y[2_500:]))
        there.append((y[2_500:] >= 4).mean())
        assert abs(model.oof_accuracy_ - model.score(X[2_500:], y[2_500:])) < 0.06
    assert 0.9 < np.mean(told) / np.mean(there) < 1.1


def test_answers_do_not_depend_on_the_storage(words):
    X, y, X_new, _ = words
    model = QMSClassifier(random_state=0).fit(X, y)
    np.testing.assert_allclose(model.member_values(X_new), model.member_values(X_new.toarray()), rtol=2e-3)
    np.testing.assert_allclose(model.member_values(X_new[:1]), model.member_values(X_new)[:1], rtol=1e-5)


def test_a_model_of_dense_data_reads_sparse_ones():
    random = np.random.default_rng(0)
    X = (1000 + random.normal(size=(200, 6))).astype(np.float32)
    y = (X[:, 0] > 1000).astype(int)
    model = QMSClassifier(random_state=0).fit(X, y)
    few = scipy.sparse.csr_array(np.where(random.uniform(size=X.shape) < 0.1, X, 0).astype(np.float32))
    np.testing.assert_allclose(model.member_values(few), model.member_values(few.toarray()), rtol=1e-3)


def test_zeros_stay_zeros_and_full_columns_are_centred(words):
    X = words[0]
    year = np.random.default_rng(1).integers(1990, 2025, size=(X.shape[0], 1)).astype(np.float32)
    both = scipy.sparse.hstack([X, year], format="csr")
    scaling = choose_scaling(both, "auto", None, 1, keep_zeros=False)
    assert (scaling.center[:-1] == 0).mean() > 0.99
    assert 1990 < scaling.center[-1] < 2025
    assert Rows(both, scaling).sparse
    nearly_full = scipy.sparse.csr_array(year)
    assert entries_of(nearly_full) is None
    assert entries_of(year) is None


def test_a_column_that_says_all_is_heard_among_words(words):
    """Its values are a thousand deviations from 0: uncentred, it would drown everything."""
    X, y, X_new, y_new = words
    telling = [scipy.sparse.csr_array((1000 + 0.01 * one[:, None]).astype(np.float32)) for one in (y, y_new)]
    both, both_new = (scipy.sparse.hstack(parts, format="csr") for parts in ((X, telling[0]), (X_new, telling[1])))
    without = QMSClassifier(random_state=0).fit(X, y).score(X_new, y_new)
    assert QMSClassifier(random_state=0).fit(both, y).score(both_new, y_new) > without - 0.02


def test_some_columns_of_sparse_rows():
    random = np.random.default_rng(0)
    X = scipy.sparse.random(50, 40, density=0.1, format="csr", dtype=np.float32, random_state=random)
    columns = np.array([0, 3, 17, 39], np.int32)
    coefficients = random.normal(size=(3, 2, 5)).astype(np.float32)
    center = np.zeros(40)
    center[3] = 0.5
    separators = Separators(coefficients, Scaling(center, np.full(40, 2.0)), 3, columns=columns)
    x = (X.toarray()[:, columns] - center[columns]) / 2
    expected = ((np.einsum("kqp,np->nkq", coefficients[:, :, :-1], x) - coefficients[:, :, -1]) ** 2).sum(axis=2)
    np.testing.assert_allclose(separators.values(X, cpu(n_threads=2)), expected, rtol=1e-4)


def test_partial_fit_takes_either_storage(words):
    X, y, X_new, y_new = words
    model = QMSClassifier(random_state=0)
    for start in range(0, 1_400, 350):
        part = X[start : start + 350]
        model.partial_fit(part if start != 700 else part.toarray(), y[start : start + 350], classes=np.arange(8))
    assert model.score(X_new, y_new) > 0.4


def test_the_literal_cpm_refuses_what_it_would_have_to_lay_out_dense():
    X = scipy.sparse.random(
        1_000, 600_000, density=1e-5, format="csr", dtype=np.float32, random_state=np.random.default_rng(0)
    )
    with pytest.raises(ValueError, match=r"takes up to 500,000,000 cells; got 1,000 x 600,000 .* solver='cpm' or"):
        QMSClassifier(1, solver="cpm-literal", noise=1.0, random_state=0).fit(X, np.arange(1_000) % 2)


CHILD = """
import resource, sys
import numpy as np
from benchmarks.words import uniform_entries
from multiform import QMSClassifier
X, y = uniform_entries(2_000, 50_000, 20, np.random.default_rng(0))
QMSClassifier(random_state=0).fit(X[:200, :500], y[:200])  # what is imported at the first fit
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = QMSClassifier(noise=10.0, n_jobs=2, random_state=0).fit(X, y)
model.predict_proba(X)
used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
print(used / (model.components_.size * 4))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux only")
def test_memory_is_a_few_models():
    """2,000 x 50,000 in single precision are 400 MB; the model of five rows is 20 MB, and the fit may hold a dozen."""
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", CHILD], capture_output=True, text=True, check=True)
    assert float(ran.stdout) < 14
