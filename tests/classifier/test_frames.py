"""Frames as they are: numbers, categories, truth values, text of few values, gaps; pandas and polars alike."""

import datetime
import decimal
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import OneHotEncoder, TargetEncoder
from sklearn.utils import get_tags

import multiform
from multiform import QMSClassifier, QMSClassifierCV
from multiform.columns import Categories, NumbersAsTextWarning, UnfamiliarWarning
from multiform.tables import TableClassifier

N = 400


def small(**settings):
    return QMSClassifierCV((0.3, 1.0), cv=3, max_iter=20, random_state=0, **settings)


def people(n=N, seed=0):
    """A pandas frame with a column of every kind, and labels that depend on them all."""
    random = np.random.default_rng(seed)
    city, kind = random.integers(0, 40, n), random.choice(["mild", "hot", "sweet"], n)
    x, flag = random.normal(size=n), random.random(n) < 0.5
    effect = np.random.default_rng(99).normal(0, 2, 40)
    logit = effect[city] + x + 2.0 * (kind == "hot") - 1.5 * flag
    frame = pd.DataFrame({"city": [f"city {c}" for c in city], "kind": pd.Categorical(kind), "x": x, "flag": flag})
    return frame, np.where(random.random(n) < 1 / (1 + np.exp(-logit)), "yes", "no")


def with_gaps(frame):
    frame = frame.copy()
    frame.loc[::7, "x"] = np.nan
    frame.loc[3::11, "city"] = None
    frame.loc[5::13, "kind"] = None
    return frame


def test_a_frame_of_every_kind():
    frame, y = people()
    model = small().fit(frame, y)
    assert model.score(*people(seed=1)) > 0.7
    assert model.n_features_in_ == 4
    assert model.feature_names_in_.tolist() == ["city", "kind", "x", "flag"]
    assert [type(column).__name__ for column in model.frame_columns_] == ["Label", "Label", "Measure", "Measure"]
    assert get_tags(model).input_tags.categorical


def test_ordered_categories_keep_their_order(tmp_path):
    """A class that begins at a level: as numbers one quadratic sees it, in the alphabet's order none does."""
    random = np.random.default_rng(0)
    levels = ["none", "mild", "moderate", "severe", "worst"]
    place = random.integers(0, 5, 300)
    place[place == 2] = 1  # never seen, and yet between two that were
    frame = pd.DataFrame({"pain": pd.Categorical.from_codes(place, levels, ordered=True), "x": random.normal(size=300)})
    frame.loc[::10, "pain"] = None
    model = small(encodings=["plain"]).fit(frame, place > 1)
    assert [type(column).__name__ for column in model.frame_columns_] == ["Rank", "Measure"]
    assert model.frame_columns_[0].values == tuple(levels)
    assert model.categories_ is None
    numbers = pd.DataFrame({"pain": place.astype(float), "x": frame["x"]})
    numbers.loc[::10, "pain"] = np.nan
    np.testing.assert_array_equal(
        model.predict_proba(frame), small(encodings=["plain"]).fit(numbers, place > 1).predict_proba(numbers)
    )
    as_text = frame.astype({"pain": object})  # new rows need no type
    np.testing.assert_array_equal(model.predict_proba(as_text), model.predict_proba(frame))
    multiform.save(model, tmp_path / "model.mfm")
    np.testing.assert_array_equal(
        multiform.load(tmp_path / "model.mfm").predict_proba(frame), model.predict_proba(frame)
    )
    with pytest.warns(UnfamiliarWarning, match="1 in column 'pain'"):
        model.predict(pd.DataFrame({"pain": ["strange"], "x": [0.0]}))


def test_pandas_and_polars_are_the_same():
    frame, y = people()
    frame = with_gaps(frame)
    expected = small().fit(frame, y).predict_proba(frame)
    for kind in (pl.from_pandas(frame), frame.astype({"kind": object}), frame.convert_dtypes()):
        np.testing.assert_array_equal(small().fit(kind, y).predict_proba(kind), expected)


def test_the_matrix_is_one_hot_and_numbers():
    """A frame of few values is what scikit-learn's OneHotEncoder makes of it, with one column for two values."""
    frame, y = people()
    few = frame[["x", "flag", "kind"]]
    model = small().fit(few, y)
    by_hand = make_column_transformer((OneHotEncoder(sparse_output=False), ["kind"]), remainder="passthrough")
    encoded = by_hand.fit_transform(few).astype(np.float64)
    columns = np.hstack([encoded[:, 3:], encoded[:, :3]])
    np.testing.assert_array_equal(model.predict_proba(few), small().fit(columns, y).predict_proba(columns))


def test_statistics_are_cross_fitted():
    """Each row's is of the other folds, as a TargetEncoder fitted on these has it; a new row's is of all rows."""
    frame, y = people()
    codes = np.unique(frame["city"], return_inverse=True)[1].astype(np.float64)[:, None]
    target, folds = (y == "yes").astype(np.int32), np.arange(N) % 3
    categories, columns = Categories.learnt(codes, [0]).crossed(codes, target, folds, 2)
    assert columns.shape == (N, 41)  # one-hot, and the share of the second class
    for fold in range(3):
        others = TargetEncoder(target_type="binary").fit(codes[folds != fold], target[folds != fold])
        np.testing.assert_allclose(columns[folds == fold, -1], others.transform(codes[folds == fold])[:, 0])
    whole = TargetEncoder(target_type="binary").fit(codes, target)
    np.testing.assert_allclose(categories.columns(codes)[:, -1], whole.transform(codes)[:, 0])


def test_statistics_of_several_classes():
    random = np.random.default_rng(0)
    codes, target = random.integers(0, 60, (300, 1)).astype(float), random.integers(0, 3, 300)
    target[:20], codes[:20] = 3, 7  # a class that one fold has alone
    folds = np.where(target == 3, 0, np.arange(300) % 3)
    categories, columns = Categories.learnt(codes, [0]).crossed(codes, target, folds, 4)
    assert columns.shape == (300, 4)  # too many values for one-hot
    assert (columns[target == 3, 3] == 0).all()  # the other folds do not have the class
    assert categories.columns(np.array([[7.0]]))[0, 3] > 0.5
    assert (categories.columns(codes)[codes[:, 0] != 7, 3] < 0.3).all()


def test_labels_of_chance_teach_nothing():
    """A column of names, of which a target statistic that is not cross-fitted would know the labels by heart."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"name": [f"name {i}" for i in random.integers(0, 150, N)], "x": random.normal(size=N)})
    y = random.integers(0, 2, N)
    assert small().fit(frame, y).oof_accuracy_ < 0.6


def test_many_values_are_of_use():
    frame, y = people(1200)
    cities = frame[["city"]]
    model = small().fit(cities[:800], y[:800])
    assert model.score(cities[800:], y[800:]) > 0.66


def test_unseen_categories_are_the_average_and_counted():
    frame, y = people()
    model = small().fit(frame, y)
    new = frame[:6].copy()
    new.loc[:2, "city"] = "nowhere"
    with pytest.warns(UnfamiliarWarning, match="QMSClassifierCV was not trained on .* 3 in column 'city'"):
        found = model.predict_proba(new)
    gap = frame[:6].copy()
    gap.loc[:2, "city"] = None
    np.testing.assert_array_equal(found, model.predict_proba(gap))
    np.testing.assert_allclose(found[3:], model.predict_proba(frame[3:6]), rtol=1e-5)


def test_whole_numbers_keep_their_order_beside_the_one_hot():
    random = np.random.default_rng(0)
    grade = random.integers(0, 9, N).astype(float)
    y = (grade + random.normal(size=N) > 4).astype(int)
    model = small().fit(pd.DataFrame({"grade": grade, "word": random.choice(["a", "b", "c"], N)}), y)
    assert model.encodings_.names == ["plain", "enriched", "one-hot"]  # as most columns may be codes
    plain, enriched, one_hot = model.encodings_.columns
    assert len(plain) == 4  # the number, and three words
    assert len(enriched) == 4 + 9  # and nine indicators beside the number
    assert set(enriched) - set(one_hot) == {0}  # without the number
    mixed = np.column_stack([grade, random.normal(size=(N, 2))])
    assert small().fit(mixed, y).encodings_.names == ["plain", "enriched"]


# ------------------------------------------------------------------------------------------------- categorical_features


@pytest.mark.parametrize("asked", [[0], ["city"], [True, False]])
def test_columns_that_are_said_to_be_categories(asked):
    random = np.random.default_rng(0)
    codes, x = random.integers(0, 30, N), random.normal(size=N)
    y = (random.normal(size=30)[codes] + 0.3 * random.normal(size=N) > 0).astype(int)
    frame = pd.DataFrame({"city": codes, "x": x})
    X = frame if asked == ["city"] else frame.to_numpy()
    model = small(categorical_features=asked).fit(X[: N // 2], y[: N // 2])
    assert model.score(X[N // 2 :], y[N // 2 :]) > 0.75
    new = np.array([[77.0, 0.0]])
    new = pd.DataFrame(new, columns=["city", "x"]) if asked == ["city"] else new
    with pytest.warns(UnfamiliarWarning, match=f"1 in column '{'city' if asked == ['city'] else 0}'"):
        model.predict(new)


@pytest.mark.parametrize(
    ("asked", "X", "match"),
    [
        ([2], np.zeros((6, 2)), r"must be 'from_dtype', None, or places, .* of the 2 columns of X; got \[2\]"),
        ([0.5], np.zeros((6, 2)), "must be 'from_dtype', None, or places"),
        (["x"], np.zeros((6, 2)), "must be 'from_dtype', None, or places"),
        (["z"], pd.DataFrame({"x": np.zeros(6)}), "categorical_features of QMSClassifierCV names 'z'"),
        ([0], scipy.sparse.csr_matrix(np.eye(6)), "categorical_features of QMSClassifierCV needs dense X"),
        ("dtype", np.zeros((6, 2)), "'categorical_features' parameter of QMSClassifierCV"),
    ],
)
def test_what_categorical_features_may_not_be(asked, X, match):
    with pytest.raises(ValueError, match=match):
        small(categorical_features=asked).fit(X, np.arange(6) % 2)


# ----------------------------------------------------------------------------------------------------- what is refused


def test_what_is_refused():
    frame, y = people()
    days = pd.date_range("2024-01-01", periods=N)
    some = (None, pd.NaT, datetime.date(2024, 1, 1)), (datetime.time(8, 30),), (datetime.timedelta(hours=2),)
    for moments in (days, days - days[0], days.to_period("D"), *(list(cells) * N for cells in some)):
        with pytest.raises(ValueError, match=r"Column 'day' of X holds dates or times, as .* Give the table to"):
            small().fit(frame.assign(day=moments[:N]), y)
    named = frame.assign(name=[f"person {i}" for i in range(N)])
    with pytest.raises(ValueError, match="Column 'name' of X has 400 distinct texts in 400 cells"):
        small().fit(named, y)
    records = pl.DataFrame({"x": np.arange(N), "record": [{"a": 1}] * N})
    for nested in (frame.assign(record=[{"a": 1}] * N), frame.assign(record=1 + 2j), records):
        with pytest.raises(ValueError, match=r"Column 'record' of X holds .* Give what is inside as columns"):
            small().fit(nested, y)
    with pytest.raises(ValueError, match="X of QMSClassifierCV must hold numbers, but has the text 'city"):
        small().fit(frame.to_numpy(), y)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        small(missing="refuse").fit(with_gaps(frame), y)
    model = small().fit(frame, y)
    with pytest.raises(ValueError, match=r"Column 'x' of X was a number in every row .* got \['high'"):
        model.predict(frame.assign(x="high"))
    numbers = small().fit(frame[["x", "flag"]], y)
    with pytest.raises(ValueError, match=r"Column 'x' of X was a number .* got \['high'.* Give numbers, and None"):
        numbers.predict(frame[["x", "flag"]].assign(x="high"))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"x": "z"}))
    with pytest.raises(ValueError, match="same order"):
        model.predict(frame[["kind", "city", "x", "flag"]])
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["city", "kind", "x"]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        np.testing.assert_array_equal(model.predict_proba(frame.to_numpy(object)), model.predict_proba(frame))


@pytest.mark.parametrize("classifier", [small(), QMSClassifier(random_state=0)])
def test_frames_that_cannot_be_read(classifier):
    name, x, y = type(classifier).__name__, np.arange(6.0), np.arange(6) % 2
    twice = pd.DataFrame(np.column_stack([x, x]), columns=["x", "x"])
    for frame in (twice, twice.astype({"x": str})):
        with pytest.raises(ValueError, match=f"X of {name} has several columns named 'x', .* rename or leave out"):
            classifier.fit(frame, y)
    with pytest.raises(ValueError, match=f"X of {name} is a frame without columns; give at least one"):
        classifier.fit(pd.DataFrame(index=range(6)), y)
    for labels, match in (
        (["a", None, "b"], "has 2 labels that are None, of 6"),
        (["a", 1, "b"], "got text and 1, of"),
    ):
        for given in (labels * 2, np.array(labels * 2, dtype=object), pd.Series(labels * 2, dtype=object)):
            with pytest.raises(ValueError, match=f"y of {name} .*{match}"):
                classifier.fit(x[:, None], given)


def test_a_lazy_frame_and_one_of_a_single_category_are_refused():
    y = np.arange(6) % 2
    with pytest.raises(ValueError, match=r"X of QMSClassifierCV is a lazy frame, .* give X.collect\(\)"):
        small().fit(pl.LazyFrame({"x": np.arange(6.0)}), y)
    with pytest.raises(ValueError, match="in every column all rows have the same one, so that there is nothing"):
        small().fit(pd.DataFrame({"kind": ["a"] * 6}), y)


def test_arrow_tables_and_decimals():
    frame, y = people()
    frame = with_gaps(frame)
    model = small().fit(frame, y)
    expected, arrow = model.predict_proba(frame), pa.Table.from_pandas(frame, preserve_index=False)
    np.testing.assert_array_equal(model.predict_proba(arrow), expected)
    np.testing.assert_array_equal(small().fit(arrow, y).predict_proba(arrow), expected)
    decimals = frame.assign(x=[None if x != x else decimal.Decimal(repr(x)) for x in frame["x"].tolist()])
    np.testing.assert_array_equal(small().fit(decimals, y).predict_proba(decimals), expected)


def test_a_model_of_numbers_reads_objects_that_are_numbers():
    frame = pd.DataFrame({"x": np.random.default_rng(0).normal(size=60), "z": np.arange(60.0)})
    model = small().fit(frame, frame["x"] > 0)
    gaps = frame.assign(x=[pd.NA if k % 2 else x for k, x in enumerate(frame["x"].tolist())])
    expected = model.predict_proba(frame.assign(x=frame["x"].where(np.arange(60) % 2 == 0)))
    np.testing.assert_array_equal(model.predict_proba(gaps), expected)


def test_codes_of_many_digits_stay_distinct():
    codes = pd.DataFrame({"code": pd.Categorical([12345678, 12345679, 3, 0.1234567, 0.1234568] * 12)})
    model = small().fit(codes, np.arange(60) % 5)
    assert set(model.frame_columns_[0].values) == {"12345678", "12345679", "3", "0.1234567", "0.1234568"}
    assert model.score(codes, np.arange(60) % 5) == 1


def test_numbers_as_text_are_warned_of():
    x = np.random.default_rng(0).normal(size=N).round(1)
    texts = ["?" if k % 9 == 0 else str(value) for k, value in enumerate(x.tolist())]  # as pandas reads a file
    with pytest.warns(
        NumbersAsTextWarning, match=r"Column 'x' of X holds .* numbers as text, .* Give numbers, as"
    ) as told:
        small().fit(pd.DataFrame({"x": texts}), x > 0)
    assert told[0].filename == __file__
    codes = [f"{k % 30:05d}" for k in range(N)]
    small().fit(pd.DataFrame({"zip": codes, "kind": pd.Categorical(texts)}), x > 0)  # without a warning


# ------------------------------------------------------------------------------------------------------------- copies


def test_copies_answer_alike(tmp_path):
    frame, y = people()
    frame = with_gaps(frame)
    model = small().fit(frame, y)
    expected = model.predict_proba(frame)
    multiform.save(model, tmp_path / "model.mfm")
    for again in (multiform.load(tmp_path / "model.mfm"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict_proba(frame), expected)
    # a fit of another kind leaves nothing of the first
    model.fit(frame[["x", "flag"]].fillna(0).to_numpy(float), y)
    assert model.frame_columns_ is None
    assert model.categories_ is None
    assert clone(model).get_params() == model.get_params()


# ---------------------------------------------------------------------------------------------------- TableClassifier


def test_a_table_hands_over_codes_and_gaps():
    frame, y = people()
    frame = with_gaps(frame).assign(when=pd.date_range("2024-01-01", periods=N).strftime("%d.%m.%Y"), answer=y)
    table = TableClassifier(small()).fit(frame, "answer")
    assert [type(column).__name__ for column in table.columns_] == ["Label", "Label", "Measure", "Label", "Date"]
    assert table.estimator_.categorical_features == [0, 1, 3]
    matrix = table.transform(frame)
    assert matrix.shape == (N, 4 + 5)
    assert np.isnan(matrix[0, 2])
    assert table.score(frame.drop(columns="answer"), y) > 0.7


def test_a_table_with_a_frame_model_is_the_frame_model():
    frame, y = people()
    frame = with_gaps(frame)
    frame["flag"] = frame["flag"].astype(float)
    table = TableClassifier(small()).fit(frame, y)
    np.testing.assert_allclose(table.predict_proba(frame), small().fit(frame, y).predict_proba(frame), rtol=1e-5)


def test_onnx_of_a_table_of_categories():
    onnxruntime = pytest.importorskip("onnxruntime")
    from multiform.export import to_onnx

    frame, y = people()
    table = TableClassifier(small()).fit(frame, y)
    session = onnxruntime.InferenceSession(to_onnx(table.estimator_, double=True).SerializeToString())
    matrix = table.transform(frame)
    (found,) = session.run(["probabilities"], {"X": matrix})
    np.testing.assert_allclose(found, table.estimator_.predict_proba(matrix), atol=1e-5)
    matrix[0, 0] = 77.0  # a code that training did not have
    (found,) = session.run(["probabilities"], {"X": matrix})
    with pytest.warns(UnfamiliarWarning, match="1 in column"):
        np.testing.assert_allclose(found, table.estimator_.predict_proba(matrix), atol=1e-5)
    with pytest.raises(ValueError, match="to_onnx cannot export a QMSClassifierCV that reads words in a frame"):
        to_onnx(small().fit(frame, y))


def test_partners_read_what_is_filled(tmp_path):
    """Forests get the plain columns of our own models: gaps as their expected values, categories one-hot."""
    from sklearn.ensemble import RandomForestClassifier

    frame, y = people()
    frame = with_gaps(frame)
    partner = RandomForestClassifier(10, max_depth=3, random_state=0)
    model = QMSClassifierCV((3.0,), partners=[partner], encodings=["plain"], max_iter=1, cv=3, random_state=0)
    model.fit(frame, y)
    assert model.partners_
    assert model.score(frame, y) > 0.6
    multiform.save(model, tmp_path / "model.mfm")
    again = multiform.load(tmp_path / "model.mfm")
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
