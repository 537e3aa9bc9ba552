"""Rows on the workers of a cluster: trained where they are, answered partition by partition."""

import pickle

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import get_client, wait
from scipy.sparse import csr_array

from multiform import QMSClassifier, cluster, load, progress, save
from multiform.streaming import Plan, SortedRowsWarning, State
from tests.blocks.test_blocks import P, drawn

N = 12_000
SIZES = (3_500, 0, 4_800, 200, 3_500)  # unequal, and one is empty


@pytest.fixture(scope="module")
def data():
    return drawn(N, 0)


@pytest.fixture(scope="module")
def arrays(data):
    X, y = data
    return da.from_array(X, chunks=(SIZES, (5, 7))), da.from_array(y, chunks=N // 3)


@pytest.fixture(scope="module")
def frame(data):
    X, y = data
    table = pd.DataFrame(X, columns=[f"x{k}" for k in range(P)]).assign(kind=y)
    return dd.from_pandas(table, npartitions=3)


@pytest.fixture(scope="module")
def model(client, arrays):
    return QMSClassifier(random_state=0).fit(*arrays)


def test_a_fit_on_a_cluster_is_as_good_as_one_in_memory(model, data):
    fresh, truth = drawn(8_000, 1)
    whole = QMSClassifier(random_state=0).fit(*data)
    assert model.score(fresh, truth) > whole.score(fresh, truth) - 0.01
    assert abs(model.predict_proba(fresh).max(axis=1).mean() - model.score(fresh, truth)) < 0.02
    assert abs(model.oof_accuracy_ - model.score(fresh, truth)) < 0.03
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert (model.n_features_in_, len(model.loss_curve_)) == (P, model.n_iter_)
    assert not hasattr(model, "feature_names_in_")


def test_the_same_seed_and_partitions_give_the_same_model(model, arrays):
    one, same, other = (QMSClassifier(random_state=seed, max_iter=1).fit(*arrays) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.components_, same.components_)
    assert one.temperature_ == same.temperature_
    assert (one.components_ != other.components_).any()


def test_frames_name_their_target_or_give_it(client, frame, data, tmp_path):
    named = QMSClassifier(random_state=0, max_iter=2).fit(frame, "kind")
    given = QMSClassifier(random_state=0, max_iter=2).fit(frame.drop(columns="kind"), frame["kind"])
    np.testing.assert_array_equal(named.components_, given.components_)
    assert list(named.feature_names_in_) == [f"x{k}" for k in range(P)]
    save(named, tmp_path / "model.mfm")
    answers = load(tmp_path / "model.mfm").predict(frame.drop(columns="kind"))
    assert isinstance(answers, da.Array)
    assert (answers.compute() == data[1]).mean() > 0.8
    assert named.score(frame.drop(columns="kind"), frame["kind"]) == (answers.compute() == data[1]).mean()


def test_sizes_that_are_not_known(client, model, arrays, data):
    X, y = arrays
    some = X[:, 0] > -0.5
    few = QMSClassifier(random_state=0, max_iter=1).fit(X.rechunk({1: -1})[some], y.rechunk(X.chunks[:1])[some])
    assert few.score(*data) > 0.75
    chances = model.predict_proba(X.rechunk({1: -1})[some])
    assert np.isnan(chances.shape[0])
    assert chances.compute().shape == (int(some.sum().compute()), 3)


def test_answers_are_lazy_and_those_of_the_rows(model, arrays, data):
    X, rows = arrays[0], data[0]
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function", "member_values"):
        answers = getattr(model, method)(X)
        assert isinstance(answers, da.Array)
        assert answers.npartitions == 4  # Dask leaves the empty one out
        expected = getattr(model, method)(rows)
        found = answers.compute(scheduler="synchronous")
        assert (answers.shape, answers.dtype) == (expected.shape, expected.dtype)
        if method == "predict":
            assert (found == expected).all()
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-4)
    two = QMSClassifier(random_state=0).fit(rows[:500], data[1][:500] == "a")
    assert two.decision_function(X).shape == (N,)


def test_rows_are_trained_where_they_lie(client, data, monkeypatch):
    X, y = (da.from_array(part, chunks=(2_000, *part.shape[1:])) for part in data)
    X, y = client.persist([X, y])
    wait([X, y])
    homes = client.who_has(X)
    seen = {}
    whole = cluster.Workers.asked

    def asked(self, function, tasks, what, then=(), **more):
        if function is cluster._advanced:
            for place, arguments in [*tasks, *(task for later in then for task in later)]:
                seen.update({piece.block: self.home(place) for piece in arguments[3]})
        return whole(self, function, tasks, what, then, **more)

    monkeypatch.setattr(cluster.Workers, "asked", asked)
    QMSClassifier(random_state=0, max_iter=1).fit(X, y)
    assert len(seen) == len(homes) == 6
    for number, key in enumerate(key for row in X.__dask_keys__() for key in row):
        assert seen[number] in homes.get(key, homes.get(str(key)))


def test_no_rows_leave_the_workers(client, arrays, monkeypatch):
    """What comes back in a fit is far smaller than a partition, and holds no row of X."""
    answers = []
    whole = cluster.Workers._fetched

    def fetched(self, future):
        answer = whole(self, future)
        answers.append(answer)
        return answer

    monkeypatch.setattr(cluster.Workers, "_fetched", fetched)
    QMSClassifier(random_state=0, max_iter=1).fit(*arrays)
    assert answers
    assert max(len(pickle.dumps(one)) for one in answers) < 25_000  # 3 x 13 x 13 numbers and two moments of each


def test_averages_are_weighted_by_rows():
    values = [np.full((1, 1, 2), k, np.float32) for k in (1, 4)]
    states = [State([value], [(value, value, int(value.max()))]) for value in values]
    mean = cluster.averaged([(states[0], 20), (states[1], 10)])
    first, second, steps = mean.moments[0]
    for found in (mean.coefficients[0], first, second):
        np.testing.assert_allclose(found, 2)
    assert steps == 4


def test_places_meet_the_more_often_the_less_they_know():
    def rounds(n_rows, n_coefficients, n_passes=4, batch_size=500):
        plan = Plan(n_rows, n_passes, batch_size, 1, 0.0, np.ones(2))
        return cluster.rounds_a_pass(n_rows, n_coefficients, plan)

    assert rounds(100_000, 16_000) == 4  # 100 / (100,000 / 16,000) of a fit, over its four passes
    assert rounds(1_000_000, 6_500) == 2  # eight of a fit at least
    assert rounds(100_000, 64_000) == 12  # sixteen steps each at least
    assert rounds(100_000_000, 6_500) == 100  # two thousand at most
    assert rounds(100, 6_500) == 1


def test_short_passes_are_one_question():
    assert cluster.rounds_at_once(2, 100_000 * 100) == 8
    assert cluster.rounds_at_once(2, 400_000 * 100) == 5
    assert cluster.rounds_at_once(2, 10_000_000 * 100) == 2  # a pass at least
    assert cluster.rounds_at_once(100, 100) == 8


def test_questions_of_passes_and_of_whole_fits_lead_to_the_same_model(client, data, monkeypatch):
    X, y = (da.from_array(part, chunks=(1_000, *part.shape[1:])) for part in data)
    together = QMSClassifier(random_state=0, max_iter=3).fit(X, y)
    monkeypatch.setattr(cluster, "CELLS_AT_ONCE", 0)
    one_by_one = QMSClassifier(random_state=0, max_iter=3).fit(X, y)
    np.testing.assert_array_equal(together.components_, one_by_one.components_)
    assert len(together.loss_curve_) == 3
    np.testing.assert_allclose(together.loss_curve_, one_by_one.loss_curve_)


def test_a_place_of_fewer_rows_than_rounds(client, data):
    X, y = data
    few = da.from_array(X, chunks=((N - 2, 2), P)), da.from_array(y, chunks=((N - 2, 2),))
    model = QMSClassifier(random_state=0).fit(*few)
    assert model.score(X, y) > 0.8


def test_a_class_may_be_missing_in_a_partition_but_is_warned_of(client, data):
    X, y = data
    order = np.argsort(y, kind="stable")
    sorted_rows = da.from_array(X[order], chunks=(4_000, P)), da.from_array(y[order], chunks=4_000)
    with pytest.warns(SortedRowsWarning, match="shuffle"):
        model = QMSClassifier(random_state=0, max_iter=1).fit(*sorted_rows)
    assert model.classes_.tolist() == ["a", "b", "c"]


def test_whoever_listens_hears_how_far_it_is(client, arrays):
    shares = []
    with progress.heard(lambda share, words: shares.append(share)):
        QMSClassifier(random_state=0, max_iter=1).fit(*arrays)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)


def test_gaps_are_filled_on_the_workers(client, arrays, data):
    X, y = arrays
    holed = X.map_blocks(lambda part: np.where(np.abs(part) > 1.5, np.float32(np.nan), part))
    model = QMSClassifier(random_state=0).fit(holed, y)
    whole = np.where(np.abs(data[0]) > 1.5, np.float32(np.nan), data[0])
    in_memory = QMSClassifier(random_state=0).fit(whole, data[1])
    assert model.score(whole, data[1]) > in_memory.score(whole, data[1]) - 0.02
    np.testing.assert_allclose(model._gaussian.deviation, in_memory._gaussian.deviation, rtol=1e-4)
    with pytest.raises(ValueError, match=r"partition \d of X holds NaN"):
        QMSClassifier(missing="refuse").fit(holed, y)


def test_what_cannot_be_gets_a_sentence(client, arrays, frame, data):
    X, y = arrays
    model = QMSClassifier(random_state=0)
    endless = X.map_blocks(lambda part: np.where(part == part.max(), np.float32(np.inf), part))
    unknown = X.rechunk({1: -1})[X[:, 0] > 0]
    cases = [
        ((endless, y), "partition . of X holds infinity"),
        ((X, y[:-1]), r"y of QMSClassifier must have the shape \(12000,\)"),
        ((X[:, 0], y), "must have samples in rows"),
        ((X.map_blocks(lambda part: part.astype(str), dtype=str), y), "Partition . of X must be numbers of shape"),
        ((X.map_blocks(csr_array), y), "Partition . of X is sparse"),
        ((unknown, data[1]), "must be a Dask array, with the partitions of X"),
        ((unknown, y), "must have the same partitions; got 5 and 3"),
        ((frame, "Kind"), "y names the column 'Kind', which is not there"),
        ((frame, data[1]), "must be a column of the Dask data frame X"),
        ((frame, frame["x0"].astype("int64") * 0), "Column 'kind' of partition . of X holds"),
        ((frame.drop(columns="kind"), frame["kind"].where(frame["x0"] < 1)), "y has missing values in partition"),
        ((X[:0], y[:0]), "X of QMSClassifier has no rows"),
        ((X, da.zeros_like(y, dtype=int)), "at least 2 classes in y; got 1 class"),
    ]
    before = dict(vars(model))
    for arguments, sentence in cases:
        with pytest.raises(ValueError, match=sentence):
            model.fit(*arguments)
    for given, settings in (({"sample_weight": np.ones(N)}, {}), ({}, {"solver": "cpm"}), ({}, {"warm_start": True})):
        with pytest.raises(ValueError, match="is for data that fit the memory"):
            QMSClassifier(**settings).fit(X, y, **given)
    assert vars(model) == before
    assert get_client() is client
