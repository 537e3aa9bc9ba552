"""What a column is taken for, and the numbers that it becomes."""

import datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform.columns import Notation, column_from, hours_of
from multiform.columns._notation import numbers_in
from multiform.tables import Category, Code, Date, Number, TableError, Text, decide


def column(values, name="column"):
    return pl.Series(name, values, strict=False)


WORDS = ("the", "patient", "came", "late", "and", "felt", "well", "again", "after", "some", "days", "of", "rest")


def texts(n):
    random = np.random.default_rng(0)
    return [" ".join(random.choice(WORDS, 6)) for _ in range(n)]


@pytest.mark.parametrize(
    ("values", "role"),
    [
        (["1.5", "2", "", "1e3"], "number"),
        ([1.5, 2.0, None], "number"),
        (["1,5", "2", "-3,25"], "number"),
        ([f"{n}.25" for n in range(100)], "number"),
        ([str(n % 7) for n in range(100)], "code"),
        ([n % 3 for n in range(50)], "code"),
        (["0", "1"] * 20, "number"),
        ([f"{n * n + 7}" for n in range(100)], "number"),  # distinct, but not evenly spaced, and no id by name
        ([str(n) for n in range(100)], "identifier"),
        ([str(5 * n) for n in range(100)], "identifier"),
        ([str(612345678 + 7919 * n * n) for n in range(100)], "identifier"),
        ([f"AB-{n:04d}" for n in range(100)], "identifier"),
        (["0012", "0345", "0012", "9999"] * 5, "category"),
        (["red", "green", None, "red"], "category"),
        ([True, False, None], "category"),
        (["2024-01-31", "2023-12-01", ""], "date"),
        (["31.01.2024", "01.12.2023"], "date"),
        (["2024-01-31 10:00:00", "2023-12-01 11:30:00"], "date"),
        ([datetime.date(2024, 1, 31), None], "date"),
        ([datetime.datetime(2024, 1, 31, 12), None], "date"),
        ([f"{n // 60:02d}:{n % 60:02d}" for n in range(0, 1440, 7)], "number"),  # all distinct, and no identifier
        (["8:00", "9:00", "10:00"] * 20, "code"),
        ([datetime.time(6, 30), datetime.time(14, 5), None], "number"),
        ([datetime.timedelta(minutes=30), datetime.timedelta(days=3)], "number"),
        (["1:20", "1:40", "1:20"], "category"),  # they may be ratios
        (["1:20", "1:80", "2:20"], "category"),  # these are
        (["14:30", "late"] * 20, "category"),
        (texts(200), "text"),
        (["same"] * 9, "constant"),
        ([None] * 9, "constant"),
        (["NA", "", "?"], "constant"),
        (["present", None, None], "category"),  # whether it is there says something
        ([[1, 2], [3]], "dropped"),
    ],
)
def test_roles(values, role):
    assert decide(column(values)).role == role


@given(
    st.lists(st.times(), min_size=1, max_size=20),
    st.sampled_from(["%H:%M:%S", "%H:%M", "%Hh%M", "%H:%M Uhr", "%I:%M %p", "%I:%M:%S%p"]),
)
def test_times_are_hours(times, format):
    texts = [time.strftime(format) for time in times]
    read = [datetime.datetime.strptime(text, format) for text in texts]
    notation = Notation(clock=True)
    hours, unreadable = numbers_in(pl.Series(texts), notation)
    assert unreadable == 0
    np.testing.assert_allclose(hours, [one.hour + one.minute / 60 + one.second / 3600 for one in read], atol=1e-12)
    assert hours_of(texts[0]) == pytest.approx(hours[0], abs=1e-12)


def test_times_in_a_table_that_was_trained():
    """New cells may be of another type, or hours as they are; what is no time is unlike training."""
    cells = ["06:30", "14:05", "23:59", "k.A."] * 5 + [f"{hour}:17" for hour in range(24)] * 4
    time = decide(column(cells))
    assert "times as hours; 'k.A.' counts as missing" in time.why
    assert column_from(time.state()).state() == time.state()
    before = {name: value for name, value in time.state().items() if name != "clock"}  # a file that does not have it
    assert not column_from(before).clock
    new = ["12:30", "12:30:36 Uhr", "12.5", "k.A.", "25 o'clock"]
    hours, unreadable = time.read(column(new[:2]))
    np.testing.assert_allclose(hours, [12.5, 12.51])
    assert not unreadable.any()
    np.testing.assert_allclose(time.read(column([datetime.time(12, 30)]))[0], [12.5])
    np.testing.assert_allclose(time.read(column([12.5]))[0], [12.5])
    np.testing.assert_allclose(time.read(column(new[2:3]))[0], [12.5])
    hours, unreadable = time.read(column(new))
    assert unreadable.tolist() == [False, False, True, False, True]
    assert np.isnan(hours[2:]).all()
    duration = decide(column([datetime.timedelta(minutes=30), datetime.timedelta(days=3)]))
    np.testing.assert_allclose(duration.encode(column([datetime.timedelta(days=1)])), [[24]])


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("patient_id", "identifier"),
        ("PatientID", "identifier"),
        ("No", "identifier"),
        ("humid", "number"),
        ("paid", "number"),
    ],
)
def test_an_identifier_by_name(name, role):
    values = [str(n * n + 7) for n in range(100)]
    assert decide(column(values, name)).role == role


def returning(n, n_distinct, seed=0):
    """Which of `n_distinct` people each of n rows is of; every one is there."""
    random = np.random.default_rng(seed)
    return random.permutation(np.r_[np.arange(n_distinct), random.integers(0, n_distinct, n - n_distinct)])


@pytest.mark.parametrize(
    ("name", "values", "role"),
    [
        ("patient_id", 7 * returning(420, 300) + 1000, "identifier"),
        ("patient_id", [f"P{one:04d}" for one in returning(420, 300)], "identifier"),
        ("PatientID", [f"P{one:04d}" for one in returning(420, 90)], "identifier"),
        ("visit id", returning(420, 90) ** 2, "identifier"),
        ("Patient", returning(2000, 40) ** 2, "identifier"),
        ("customer nr", [f"{one:06d}" for one in returning(2000, 40)], "identifier"),
        ("anything", [f"K-{one:05d}" for one in returning(420, 300)], "identifier"),
        ("phone", 612345678 + 7919 * returning(420, 300), "identifier"),
        ("number", np.random.default_rng(0).permutation(500)[:300], "identifier"),  # of rows, half of them gone
        ("number", [one for one in range(40) if one % 3], "identifier"),
        ("store_id", [f"S{one}" for one in returning(420, 30)], "category"),  # 14 rows a shop
        ("store_id", returning(420, 30), "number"),
        ("member", ["yes", "no"] * 210, "category"),
        ("patients", 3 * returning(420, 300) + 7, "number"),  # how many
        ("body mass index", np.random.default_rng(0).normal(26, 5, 300).round(), "number"),
        ("age", np.random.default_rng(0).integers(18, 90, 60), "number"),
        ("year", np.random.default_rng(0).integers(1950, 2024, 100), "number"),
        ("price", np.exp(np.random.default_rng(0).normal(6, 1, 300)).round(), "number"),
        ("weight", np.random.default_rng(0).normal(3500, 500, 400).round(), "number"),
        ("salary", np.sort(np.random.default_rng(0).choice(90_000, 300, replace=False)), "number"),
        ("city", [f"city {one}" for one in np.random.default_rng(0).zipf(1.3, 400)], "category"),
        ("surname", [f"name{one}" for one in np.random.default_rng(0).integers(0, 150, 400)], "category"),
    ],
)
def test_identifiers_whose_bearers_return(name, values, role):
    for series in (pl.Series(name, values), pl.Series(name, [str(value) for value in pl.Series(values).to_list()])):
        assert decide(series).role == role


@pytest.mark.parametrize("n", [60, 200, 1000])
def test_measures_are_no_identifiers(n):
    """Whole numbers, many of them distinct, sorted or not: 50 tables each."""
    for seed in range(50):
        random = np.random.default_rng(seed)
        for values in (
            random.normal(3500, 500, n),
            np.exp(random.normal(8, 1, n)),
            random.uniform(0, 3 * n, n),
            random.uniform(0, 1e6, n),
        ):
            for order in (values, np.sort(values)):
                assert decide(pl.Series("measure", order.round().astype(int))).role == "number"


def test_the_user_knows_better():
    codes = column([str(n % 7) for n in range(100)])
    assert decide(codes, "category").values == tuple("0123456")
    assert isinstance(decide(codes, "number"), Number)
    assert isinstance(decide(codes, "text"), Text)
    assert decide(codes, "drop").role == "dropped"
    assert decide(codes, "identifier").feature_names() == []
    assert isinstance(decide(column(["2024-01-01", "2024-01-02"]), "date"), Date)
    with pytest.raises(TableError, match=r"column 'column', row 2: it was to be read as a number, and this is 'b'"):
        decide(column(["1", "b"]), "number")
    with pytest.raises(TableError, match="every cell is empty"):
        decide(column(["", None]), "number")
    with pytest.raises(TableError, match="to be read as a date, and no known way to write dates fits all"):
        decide(codes, "date")
    with pytest.raises(TableError, match=r"must be one of number, category, .*; got 'colour'"):
        decide(codes, "colour")


@given(values=st.lists(st.none() | st.floats(-1e6, 1e6), min_size=1).filter(lambda v: set(v) != {None}))
def test_numbers(values):
    number = decide(column([None if v is None else repr(v) for v in values]), "number")
    # The definition: the value, or the median of the training values; and whether it is missing.
    present = sorted(v for v in values if v is not None)
    half = len(present) // 2
    median = present[half] if len(present) % 2 else (present[half - 1] + present[half]) / 2
    rows = number.encode(column([None if v is None else repr(v) for v in values]))
    for row, value in zip(rows, values, strict=True):
        assert row[0] == pytest.approx(median if value is None else value)
        if None in values:
            assert row[1] == (value is None)
    assert rows.shape == (len(values), 1 + (None in values))


def test_what_a_number_column_makes_of_strange_cells():
    number = decide(column(["1", "2", "4"]))
    strange = column(["3", "oops", None, "inf", " 5 ", "NaN"])
    assert number.encode(strange)[:, 0].tolist() == [3, 2, 2, 2, 5, 2]
    cells, unreadable = number.read(strange)
    np.testing.assert_array_equal(cells, [3, np.nan, np.nan, np.nan, 5, np.nan])
    assert unreadable.tolist() == [False, True, False, True, False, False]
    comma = decide(column(["1,5", "2,5", "7"]))
    assert comma.decimal_comma
    assert comma.encode(column(["3,25", "4"]))[:, 0].tolist() == [3.25, 4]


@given(
    values=st.lists(st.none() | st.sampled_from("abc"), min_size=1), new=st.lists(st.none() | st.sampled_from("abcxyz"))
)
def test_categories(values, new):
    category = decide(column(values), "category")
    rows = category.encode(column(new) if new else pl.Series("column", [], dtype=pl.String))
    known = sorted({v for v in values if v is not None})
    names = [f"column = {v}" for v in known] + (["column missing"] if None in values else [])
    assert category.feature_names() == names
    for row, value in zip(rows, new, strict=True):
        expected = [value == v for v in known] + ([value is None] if None in values else [])
        assert row.tolist() == expected


def test_rare_categories_are_one():
    values = ["common"] * 10 + ["second"] * 5 + [f"rare {n}" for n in range(10)]
    category = decide(column(values), "category", most_categories=2)
    assert category == Category("column", category.why, ("common", "second"), True, False)
    assert "10 rarest are one" in category.why
    assert category.encode(column(["second", "rare 3", "new"])).tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 1]]


def test_codes_keep_the_number_and_the_values():
    code = decide(column(["1", "2", "4", None] * 10))
    assert isinstance(code, Code)
    rows = code.encode(column(["2", "3", None]))
    assert code.feature_names() == ["column", "column missing", "column = 1", "column = 2", "column = 4"]
    assert rows.tolist() == [[2, 0, 0, 1, 0], [3, 0, 0, 0, 0], [2, 1, 0, 0, 0]]


@given(day=st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 12, 31)))
def test_dates(day):
    date = decide(column(["2024-01-31", "2023-12-01"]))
    assert date.feature_names() == [
        f"column {part}" for part in ("day", "month sin", "month cos", "weekday sin", "weekday cos")
    ]
    values = date.encode(column([day.isoformat()]))[0]
    month, weekday = 2 * np.pi * (day.month - 1) / 12, 2 * np.pi * day.weekday() / 7
    expected = [(day - datetime.date(1970, 1, 1)).days, np.sin(month), np.cos(month), np.sin(weekday), np.cos(weekday)]
    np.testing.assert_allclose(values, expected, atol=1e-9)


def test_dates_with_a_time_and_gaps():
    date = decide(column(["2024-01-31 06:00:00", "", "2024-01-31 18:00:00"]))
    asked = column(["1970-01-01 06:00:00", "", "yesterday"])
    rows = date.encode(asked)
    assert date.feature_names()[-3:] == ["column hour sin", "column hour cos", "column missing"]
    np.testing.assert_allclose(rows[0][[0, 5, 6, 7]], [0.25, 1, 0, 0], atol=1e-9)
    assert rows[1:, -1].tolist() == [1, 1]
    assert date.read(asked)[1].tolist() == [False, False, True]


def test_a_time_zone_means_the_hour_on_the_clock():
    local = column([datetime.datetime(2024, 1, day, 15) for day in (1, 2, 3)])
    date = decide(local)
    there = local.dt.replace_time_zone("America/New_York")
    np.testing.assert_array_equal(date.encode(there), date.encode(local))


@pytest.mark.parametrize(
    ("series", "role"),
    [
        (pl.Series("c", ["a", "b"] * 20, dtype=pl.Categorical), "category"),
        (pl.Series("c", ["a", "b"] * 20, dtype=pl.Enum(["a", "b"])), "category"),
        (pl.Series("c", [1.5, 2.5], dtype=pl.Decimal(10, 2)), "number"),
        (pl.Series("c", [datetime.timedelta(days=1), datetime.timedelta(days=2)]), "number"),
        (pl.Series("c", [datetime.time(1), datetime.time(2)]), "number"),
        (pl.Series("c", [b"x", b"y"]), "dropped"),
        (pl.Series("c", [{"a": 1}, {"a": 2}]), "dropped"),
        (pl.Series("c", [None, None]), "constant"),
    ],
)
def test_types_of_binary_files(series, role):
    found = decide(series)
    assert found.role == role
    assert len(found.typed(series)) == len(series)
    assert found.encode(series).shape == (len(series), len(found.feature_names()))


def test_in_a_wide_table_few_values_are_no_code():
    few = column([str(n % 7) for n in range(100)])
    assert decide(few, codes=False).role == "number"


def test_an_ambiguous_date_says_so():
    assert "(DD/MM/YYYY; MM/DD/YYYY would fit, too)" in decide(column(["01/02/2024", "03/04/2024"])).why
    assert decide(column(["01/22/2024", "03/04/2024"])).format == "%m/%d/%Y"


def test_text_weighs_words():
    found = decide(column(texts(200)), most_words=5)
    assert len(found.words) == 5
    values = found.encode(column([f"{found.words[0]} {found.words[0]} unknownword", None]))
    assert values[0].tolist() == [1, 0, 0, 0, 0]  # of length 1, as TF-IDF has it
    assert values[1].tolist() == [0] * 5
    assert decide(column(["...", "!!!"] * 60), "text").role == "dropped"


def test_the_type_of_a_file_does_not_matter():
    """Trained on text, asked in numbers, and the other way round."""
    for values in ([1.0, 2.0, 5.0] * 20, list(range(1, 61)), [n % 5 for n in range(60)]):
        typed, as_text = column(values, "x"), column([f"{v:g}" for v in values], "x")
        for learnt in (decide(typed, "category"), decide(as_text, "category"), decide(typed, "number")):
            np.testing.assert_array_equal(learnt.encode(typed), learnt.encode(as_text))


def test_descriptions_are_for_people():
    told = decide(column(["1.5", "2", ""])).description()
    assert told == {
        "name": "column",
        "role": "number",
        "why": "every cell reads as a number",
        "becomes": ["column", "column missing"],
    }
