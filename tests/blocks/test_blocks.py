"""Rows that come block by block: what a source gives, and what a fit over it finds."""

import itertools
import re
import threading

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform import QMSClassifier, load, progress, save, streaming
from multiform.blocks import Block, ahead, buffered, source_of
from multiform.inputs import choose_scaling

N, P = 24_000, 12


def drawn(n, seed):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, P)).astype(np.float32)
    scores = X @ np.random.default_rng(3).standard_normal((P, 3)) + X[:, :3] ** 2 + random.standard_normal((n, 3))
    return X, np.array(["a", "b", "c"])[scores.argmax(axis=1)]


@pytest.fixture(scope="module")
def data():
    return drawn(N, 0)


@pytest.fixture
def small_buffers(monkeypatch):
    for name in ("SMALL_BYTES", "BUFFER_BYTES"):
        monkeypatch.setattr(streaming, name, 4 * P * 3_000)


class Pairs:
    """Blocks of so many rows."""

    def __init__(self, X, y, n=2_000):
        self.X, self.y, self.n = X, y, n

    def __iter__(self):
        for start in range(0, len(self.X), self.n):
            yield self.X[start : start + self.n], self.y[start : start + self.n]


@pytest.fixture(scope="module")
def sources(data, tmp_path_factory):
    X, y = data
    folder = tmp_path_factory.mktemp("blocks")
    table = pa.table({f"x{k}": X[:, k] for k in range(P)} | {"kind": pa.array(y.tolist())})
    pq.write_table(table, folder / "one.parquet", row_group_size=1_700)
    (folder / "many").mkdir()
    for k in range(4):
        pq.write_table(table.slice(k * N // 4, N // 4), folder / "many" / f"{k}.parquet", row_group_size=1_000)
    pyarrow.csv.write_csv(table, folder / "one.csv")
    with pa.ipc.new_file(folder / "one.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=5_000)
    return {
        "parquet": (folder / "one.parquet", "kind"),
        "folder": (str(folder / "many"), "kind"),
        "csv": (folder / "one.csv", "kind"),
        "arrow": (folder / "one.arrow", "kind"),
        "dataset": (pyarrow.dataset.dataset(folder / "many"), "kind"),
        "lazy frame": (pl.scan_parquet(folder / "one.parquet"), "kind"),
        "pairs": (Pairs(X, y), None),
        "list": ([(X[:9_000], y[:9_000]), (X[9_000:], y[9_000:])], None),
    }


KINDS = ["parquet", "folder", "csv", "arrow", "dataset", "lazy frame", "pairs", "list"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_gives_every_row_once_in_any_order(sources, data, kind):
    X, y = data
    source = source_of(*sources[kind], "a model")
    for random in (None, np.random.default_rng(0)):
        blocks = list(source.blocks(random))
        assert len({block.number for block in blocks}) == len(blocks)
        found = np.concatenate([block.X for block in blocks])
        labels = np.concatenate([block.y for block in blocks])
        order, expected = np.lexsort(found.T), np.lexsort(X.T)
        np.testing.assert_allclose(found[order], X[expected], rtol=1e-6)
        assert (labels[order] == y[expected]).all()


def test_blocks_have_the_same_numbers_in_any_order(sources):
    source = source_of(*sources["folder"], "a model")
    once = {block.number: block.X for block in source.blocks(None)}
    again = {block.number: block.X for block in source.blocks(np.random.default_rng(1))}
    assert list(once) != list(again)
    assert all((once[number] == again[number]).all() for number in once)


@given(st.lists(st.integers(0, 40), max_size=8), st.integers(1, 60))
def test_buffers_hold_the_same_rows_and_no_more_than_they_may(sizes, most):
    rows = np.arange(3 * sum(sizes), dtype=np.float32).reshape(-1, 3)
    ends = np.cumsum([0, *sizes])
    blocks = (Block(k, rows[a:b], rows[a:b, 0]) for k, (a, b) in enumerate(itertools.pairwise(ends)))
    buffers = list(buffered(blocks, 12 * most))
    assert all(0 < len(buffer.X) <= most for buffer in buffers)
    assert [buffer.number for buffer in buffers] == list(range(len(buffers)))
    if buffers:
        np.testing.assert_array_equal(np.concatenate([buffer.X for buffer in buffers]), rows)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_over_blocks_is_as_good_as_one_in_memory(sources, data, small_buffers, kind):
    fresh, truth = drawn(8_000, 1)
    whole = QMSClassifier(random_state=0).fit(*data)
    model = QMSClassifier(random_state=0).fit(*sources[kind])
    names = [f"x{k}" for k in range(P)]
    expected = whole.score(fresh, truth)
    if kind in ("pairs", "list"):
        assert not hasattr(model, "feature_names_in_")
    else:
        assert list(model.feature_names_in_) == names
        fresh = pd.DataFrame(fresh, columns=names)
    assert model.score(fresh, truth) > expected - 0.01
    assert abs(model.predict_proba(fresh).max(axis=1).mean() - model.score(fresh, truth)) < 0.02
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.n_features_in_ == P
    assert len(model.loss_curve_) == model.n_iter_


def test_the_estimate_is_true_on_fresh_rows(small_buffers):
    random = np.random.default_rng(5)
    X = random.integers(0, 2, (N + 20_000, 6)).astype(np.uint8)  # few distinct rows, all of them repeated
    y = (random.random(len(X)) < 0.15 + 0.7 * (X[:, 0] ^ X[:, 1])).astype(int)
    model = QMSClassifier(random_state=0).fit(Pairs(X[:N], y[:N]))
    assert model.score(X[N:], y[N:]) > 0.8
    assert abs(model.predict_proba(X[N:]).max(axis=1).mean() - model.score(X[N:], y[N:])) < 0.02


def test_the_same_seed_and_blocks_give_the_same_model(sources, small_buffers):
    one, same, other = (QMSClassifier(random_state=seed).fit(*sources["folder"]) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.components_, same.components_)
    assert one.temperature_ == same.temperature_
    assert (one.components_ != other.components_).any()


@pytest.mark.parametrize("kind", ["parquet", "list"])
def test_what_fits_one_buffer_is_an_ordinary_fit(sources, data, kind):
    X, y = data
    model, ordinary = QMSClassifier(random_state=0).fit(*sources[kind]), QMSClassifier(random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.components_, ordinary.components_)
    assert hasattr(model, "feature_names_in_") == (kind == "parquet")


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.float64, np.int64])
def test_scaling_is_that_of_all_rows(dtype):
    X = (np.random.default_rng(0).standard_normal((5_000, 4)) * [1, 20, 5, 0] + [100, 120, 30, 7]).astype(dtype)
    for rule in ("auto", "standard", "common", "none"):
        columns = streaming._Columns(1)
        for start in range(0, len(X), 700):
            part = X[start : start + 700]
            columns.add(part if dtype in (np.float32, np.uint8) else part.astype(float))
        found = columns.scaling(rule)
        whole = choose_scaling(X if dtype != np.int64 else X.astype(float), rule, None, 1, False)
        np.testing.assert_allclose(found.center, whole.center, rtol=1e-5)
        np.testing.assert_allclose(found.scale, whole.scale, rtol=1e-5)


def test_many_models_balanced_classes_and_files(data, small_buffers, tmp_path):
    X, y = data
    kept = (y != "c") | (np.random.default_rng(0).random(N) < 0.1)
    model = QMSClassifier(n_models=2, class_weight="balanced", random_state=0).fit(Pairs(X[kept], y[kept]))
    plain = QMSClassifier(random_state=0).fit(Pairs(X[kept], y[kept]))
    rare = y == "c"
    assert (model.predict(X[rare]) == "c").mean() > (plain.predict(X[rare]) == "c").mean() + 0.02
    save(model, tmp_path / "model.mfm")
    np.testing.assert_array_equal(load(tmp_path / "model.mfm").predict_proba(X[:50]), model.predict_proba(X[:50]))
    assert model.n_components_ * 2 + 1 == model.components_.shape[1]  # the rows of both, and the noise


def test_rows_that_are_sorted_by_class_are_warned_of(data, small_buffers):
    X, y = data
    order = np.argsort(y, kind="stable")
    with pytest.warns(streaming.SortedRowsWarning, match="shuffle"):
        QMSClassifier(random_state=0).fit(Pairs(X[order], y[order]))


@pytest.mark.parametrize("place", [0, 3, 30])
def test_an_interrupted_fit_leaves_nothing_behind(data, small_buffers, place):
    X, y = data

    class Interrupted(Pairs):
        asked = 0

        def __iter__(self):
            for pair in super().__iter__():
                self.asked += 1
                if self.asked > place:
                    raise KeyboardInterrupt
                yield pair

    model = QMSClassifier(random_state=0).fit(X[:200], y[:200])
    before, threads = dict(vars(model)), threading.active_count()
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        model.fit(Interrupted(X, y))
    assert all(vars(model)[name] is value for name, value in before.items())
    assert vars(model).keys() == before.keys()
    assert threading.active_count() == threads


def test_verbose_writes_whole_lines(data, small_buffers, capsys):
    QMSClassifier(random_state=0, verbose=1).fit(Pairs(*data))
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"QMSClassifier: pass 5/5, 22,000 of 22,000 rows, loss \d\.\d{4}, 0 s left", lines[-1])


def test_whoever_listens_hears_how_far_it_is(data, small_buffers):
    shares = []
    with progress.heard(lambda share, words: shares.append(share)):
        QMSClassifier(random_state=0).fit(Pairs(*data))
    assert shares == sorted(shares)
    assert len(shares) > 20
    assert shares[-1] == pytest.approx(1)


def with_gaps(X, seed):
    """A quarter of the entries missing, column 4 wherever column 0 is large, and column 7 in the first half."""
    X = np.where(np.random.default_rng(seed).random(X.shape) < 0.25, np.nan, X).astype(X.dtype)
    X[X[:, 0] > 1, 4] = np.nan
    X[: len(X) // 2, 7] = np.nan
    return X


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_gaps_are_filled_as_in_memory(data, small_buffers, kind):
    X, y = data[0].astype(kind), data[1]
    X[:, 1] += X[:, 0]  # so that one tells of the other
    fresh, truth = drawn(8_000, 1)
    fresh[:, 1] += fresh[:, 0]
    holed, unseen = with_gaps(X, 2), with_gaps(fresh, 3)
    streamed = QMSClassifier(random_state=0, noise=0.3).fit(Pairs(holed, y))
    arrays = QMSClassifier(random_state=0, noise=0.3).fit(holed, y)
    assert streamed.score(unseen, truth) > arrays.score(unseen, truth) - 0.01
    assert abs(streamed.oof_accuracy_ - streamed.score(with_gaps(fresh, 3), truth)) < 0.04
    found, expected = streamed._gaussian, arrays._gaussian
    np.testing.assert_allclose(found.deviation, expected.deviation, rtol=1e-4)
    assert np.abs(found.correlation - expected.correlation).mean() < 0.04  # of other rows, 2,000 each
    assert found.correlation[0, 1] == pytest.approx(0.7, abs=0.1)
    again = QMSClassifier(random_state=0, noise=0.3).fit(Pairs(holed, y))
    np.testing.assert_array_equal(again.predict_proba(unseen), streamed.predict_proba(unseen))


def test_gaps_in_a_file_and_in_a_model_file(data, small_buffers, tmp_path):
    X, y = with_gaps(data[0], 0), data[1]
    file = parquet(tmp_path, **{f"x{k}": pa.array(X[:, k], from_pandas=True) for k in range(P)}, kind=y.tolist())
    model = QMSClassifier(random_state=0).fit(file, "kind")
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(P)])
    assert model.score(frame, y) > 0.6
    save(model, tmp_path / "model.mfm")
    np.testing.assert_array_equal(load(tmp_path / "model.mfm").predict_proba(frame), model.predict_proba(frame))


def test_a_column_of_which_nothing_is_known(data, small_buffers):
    X, y = np.array(data[0]), data[1]
    without = QMSClassifier(random_state=0).fit(Pairs(np.where(np.arange(P) == 5, 0, X).astype(np.float32), y))
    X[:, 5] = np.nan
    model = QMSClassifier(random_state=0).fit(Pairs(X, y))
    assert model.score(X, y) > without.score(np.where(np.isnan(X), 0, X), y) - 0.01


def test_complete_rows_of_a_stream_teach_what_fills_later_gaps(data, small_buffers):
    X, y = data
    model = QMSClassifier(random_state=0).fit(Pairs(X, y))
    assert model.score(with_gaps(X, 0), y) > 0.6
    with pytest.raises(ValueError, match=r'Column 0 of X of QMSClassifier holds NaN\. .*missing="expectation"'):
        QMSClassifier(missing="refuse").fit(Pairs(with_gaps(X, 0), y))


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 30), min_size=1, max_size=5))
def test_figures_of_columns_that_come_in_parts(seed, sizes):
    """Of the known entries: mean, deviation and extremes, whatever parts they come in."""
    random = np.random.default_rng(seed)
    X = random.normal(1e3, random.choice([1e-2, 1.0, 1e5]), (sum(sizes), 3))
    X[random.random(X.shape) < random.choice([0, 0.3, 0.9])] = np.nan
    columns, start = streaming._Columns(1), 0
    for size in sizes:
        columns.add(X[start : start + size])
        start += size
    for k, column in enumerate(X.T):
        known = column[~np.isnan(column)]
        assert columns.has_gaps == np.isnan(X).any()
        if len(known):
            assert columns.moments[0][k] == pytest.approx(known.mean(), rel=1e-9)
            assert columns.moments[1][k] == pytest.approx(known.std(), rel=1e-6, abs=1e-9 * abs(known).max())
            assert (columns._least[k], columns._most[k]) == pytest.approx((known.min(), known.max()))


def parquet(folder, **columns):
    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def test_bad_sources_get_a_sentence(data, small_buffers, tmp_path):
    X, y = data
    model = QMSClassifier(random_state=0)
    file = parquet(tmp_path, x=[1.0, 2.0, None], z=["a", "b", "c"], y=[0, 1, 1])
    cases = [
        ((file, None), ValueError, "y of QMSClassifier must be the name of the target column"),
        ((file, "Y"), ValueError, "y names the column 'Y', which is not there; there are x, z, y"),
        ((file, "y"), ValueError, "Column 'z' holds string, and blocks must hold numbers"),
        ((tmp_path / "none.parquet", "y"), FileNotFoundError, "no such file or folder"),
        ((Pairs(np.where(X.max() == X, np.inf, X), y), None), ValueError, "Column 2 of X of QMSClassifier holds infin"),
        ((parquet(tmp_path, x=[1.0, 2.0, 3.0], y=[0, 1, None]), "y"), ValueError, "target 'y' has missing values"),
        ((parquet(tmp_path, y=[0, 1, 1]), "y"), ValueError, "no column but the target"),
        ((iter(Pairs(X, y)), None), ValueError, "can be gone through only once"),
        (([(X, y, y)], None), ValueError, r"must give pairs \(X, y\); block 0 is tuple of 3"),
        (([[1, 2], [3, 4]], None), ValueError, r"must give pairs \(X, y\); block 0 is list"),
        (([(X, y[:-1])], None), ValueError, "Block 0 of X of QMSClassifier must be numbers of shape"),
        (([(X, y), (X[:, 1:], y)], None), ValueError, "must have the same columns; got 12 and 11"),
        ((Pairs(X, np.ones(N)), None), ValueError, "at least 2 classes in y; got 1 class"),
        ((Pairs(X, X[:, 0].astype(float)), None), ValueError, "more than 10,000 different labels"),
        (([], None), ValueError, "X of QMSClassifier has no rows"),
    ]
    for arguments, error, sentence in cases:
        with pytest.raises(error, match=sentence):
            model.fit(*arguments)
    (tmp_path / "folder").mkdir()
    for name in ("a.csv", "b.parquet"):
        (tmp_path / "folder" / name).write_bytes(b"")
    with pytest.raises(ValueError, match=r"files of one kind.*has \.csv, \.parquet"):
        model.fit(tmp_path / "folder", "y")
    for given_, settings in (({"sample_weight": np.ones(N)}, {}), ({"groups": y}, {}), ({}, {"solver": "cpm"})):
        with pytest.raises(ValueError, match="is for data that fit the memory, and X is a source of blocks"):
            QMSClassifier(**settings).fit(Pairs(X, y), **given_)


def test_gaps_of_what_fits_the_memory_are_read_as_in_an_array(data, tmp_path):
    X, y = data
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.float32(np.nan), X)[:3_000]
    path = parquet(tmp_path, **{f"x{k}": pa.array(X[:, k], from_pandas=True) for k in range(P)}, kind=y[:3_000])
    model, ordinary = QMSClassifier(random_state=0).fit(path, "kind"), QMSClassifier(random_state=0).fit(X, y[:3_000])
    np.testing.assert_array_equal(model.components_, ordinary.components_)


def test_a_memory_map_larger_than_the_memory_is_read_in_blocks(data, small_buffers, tmp_path, monkeypatch):
    X, y = data
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=X.shape)
    mapped[:] = X
    assert source_of(mapped, y, "a model") is None
    monkeypatch.setattr("multiform.blocks.memory_to_use", lambda: X.nbytes - 1)
    monkeypatch.setattr("multiform.blocks.READ_BYTES", 4 * P * 1_000)
    source = source_of(mapped, y, "a model")
    blocks = {block.number: block for block in source.blocks(np.random.default_rng(0))}
    assert list(blocks) != sorted(blocks)
    np.testing.assert_array_equal(np.concatenate([blocks[number].X for number in sorted(blocks)]), X)
    fresh, truth = drawn(8_000, 1)
    model = QMSClassifier(random_state=0).fit(mapped, y)
    assert model.score(fresh, truth) > QMSClassifier(random_state=0).fit(X, y).score(fresh, truth) - 0.01
    with pytest.raises(ValueError, match=r"y of QMSClassifier must have the shape \(24000,\)"):
        QMSClassifier().fit(mapped, y[:-1])


def test_a_source_that_changes_is_refused(data, small_buffers):
    class Shrinking(Pairs):
        asked = 0

        def __iter__(self):
            self.asked += 1
            return iter(list(super().__iter__())[: -1 if self.asked > 3 else None])

    with pytest.raises(ValueError, match="must give the same rows every time"):
        QMSClassifier(random_state=0).fit(Shrinking(*data))


def test_ahead_reads_one_block_ahead_and_hands_errors_on():
    read = []

    def blocks():
        for number in range(4):
            read.append(number)
            yield Block(number, np.zeros((1, 1)), np.zeros(1))
        raise RuntimeError("the disk is gone")

    coming = ahead(blocks())
    assert next(coming).number == 0
    coming.close()
    assert read in ([0], [0, 1])
    with pytest.raises(RuntimeError, match="the disk is gone"):
        list(ahead(blocks()))
