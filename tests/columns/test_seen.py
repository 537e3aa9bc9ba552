"""What a column looked like in training: one cell, many cells, and a file."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform.columns import Number, Seen

numbers = st.floats(allow_nan=True, allow_infinity=False, width=32)
words = st.none() | st.text(max_size=3)


def learnt(cells, kind):
    """Numbers or texts in training, as `Seen` has them."""
    if kind in ("number", "code", "date"):
        return Seen.of_numbers(np.array(cells, dtype=float), kind)
    return Seen.of_texts(cells, kind)


def as_cells(cells, seen):
    return np.array(cells, dtype=float) if seen.is_numeric else cells


def columns(kind):
    """The cells of a column of this kind, in training or new."""
    return st.lists(numbers if kind in ("number", "code", "date") else words, max_size=40)


KINDS = st.sampled_from(["number", "code", "date", "category"])


# -------------------------------------------------------------------------------------------------------- one cell


def test_the_margin_is_what_the_ten_outermost_span():
    rng = np.random.default_rng(0)
    values = rng.exponential(size=200)
    seen, ordered = Seen.of_numbers(values), np.sort(values)
    least, greatest = ordered[0] - (ordered[9] - ordered[0]), ordered[-1] + (ordered[-1] - ordered[-10])
    assert seen.low == pytest.approx(least)
    assert seen.high == pytest.approx(greatest)
    asked = np.array([least + 1e-9, least - 1e-9, greatest - 1e-9, greatest + 1e-9, np.inf])
    assert seen.familiar(asked).tolist() == [True, False, True, False, False]
    assert greatest - ordered[-1] > 5 * (ordered[0] - least)  # the long tail has the wide margin


def test_few_values_have_little_margin():
    assert Seen.of_numbers(np.array([3.0])).familiar(np.array([3.0, 3.1])).tolist() == [True, False]
    seen = Seen.of_numbers(np.array([1.0, 2, 3, 4, 5]))  # half of them span it
    assert (seen.low, seen.high) == (0, 6)


def test_two_values_and_codes_have_no_margin():
    binary = Seen.of_numbers(np.repeat([0.0, 1.0], 20))
    assert binary.familiar(np.array([0.0, 1.0, 2.0, -1.0])).tolist() == [True, True, False, False]
    thal = Seen.of_numbers(np.repeat([3.0, 6.0, 7.0], 20), "code")
    assert thal.familiar(np.array([3.0, 5.0, 6.5, 7.0, 8.0])).tolist() == [True, False, False, True, False]
    assert str(thal) == "3, 6, 7"


def test_a_count_of_which_a_value_was_seen_once_may_have_others():
    children = Seen.of_numbers(np.array([0.0] * 20 + [1.0] * 20 + [2.0] * 9 + [3.0] * 5 + [4.0] * 3 + [6.0]), "code")
    assert children.familiar(np.array([5.0, 7.0, 30.0])).tolist() == [True, True, False]


@pytest.mark.parametrize("cells", [np.array([1.0, 2.0]), ["a", "b"]])
def test_a_gap_is_familiar_where_training_had_one(cells):
    gap = np.array([np.nan]) if isinstance(cells, np.ndarray) else [None]
    learn = Seen.of_numbers if isinstance(cells, np.ndarray) else Seen.of_texts
    assert learn(cells).familiar(gap).tolist() == [False]
    assert learn(np.append(cells, np.nan) if isinstance(cells, np.ndarray) else [*cells, None]).familiar(gap).all()


def test_categories_are_kept_by_name_up_to_a_limit():
    texts = [f"w{i}" for i in range(900)]
    assert Seen.of_texts(texts).familiar(["w7", "new"]).tolist() == [True, False]
    many = Seen.of_texts(["often"] * 5 + [f"w{i}" for i in range(1_500)])
    assert len(many.values) == 1_000
    assert many.familiar(["w1499", "new"]).all()  # which is which is not known any more
    assert str(many).endswith("and 992 more, and rarer ones that were not kept")


def test_what_was_seen_in_words():
    assert str(Seen.of_numbers(np.array([29.0, 77.5, 40.0, np.nan]))) == "29 to 77.5 or missing"
    assert str(Seen.of_texts(["w", "m", "w"])) == "m, w"
    days = np.array(["2020-02-01", "2024-12-31"], dtype="datetime64[s]").astype(float)
    assert str(Seen.of_numbers(days, "date")) == "2020-02-01 to 2024-12-31"
    assert str(Seen.of_numbers(np.array([np.nan]))) == "nothing but gaps"
    assert str(Seen.of_texts(["x" * 99])) == "x" * 39 + "…"
    assert str(Seen.of_texts([*"hgfedcba", "a", "h"])) == "a, b, c, d, e, f, g, h"
    assert str(Seen.of_texts([*"ihgfedcba", "i"])) == "i, a, b, c, d, e, f, g and 1 more"
    assert Seen.of_numbers(days + 3_600, "date").shown(days[0] + 60) == "2020-02-01 00:01:00"
    assert Seen.of_numbers(days, "date").shown(1e300) == "1e+300"
    assert Seen.of_numbers(days, "date").shown(np.inf) == "inf"


def test_draws_are_spread_as_training_was():
    seen = Seen.of_texts(["a"] * 12 + ["b"] * 4 + [None] * 50)
    assert sorted(seen.draws(16)) == ["a"] * 12 + ["b"] * 4
    normal = Seen.of_numbers(np.random.default_rng(0).normal(size=1_000)).draws(16)
    assert abs(normal.mean()) < 0.1
    assert 0.85 < normal.std() < 1.1
    assert np.isnan(Seen.of_numbers(np.array([np.nan])).draws(3)).all()
    assert Seen.of_texts([None]).draws(2).tolist() == [None, None]


@given(st.data(), KINDS)
def test_training_is_familiar(data, kind):
    cells = data.draw(columns(kind))
    seen = learnt(cells, kind)
    familiar, tally = seen.look(as_cells(cells, seen))
    assert familiar.all()
    assert tally.n_unfamiliar == 0
    assert tally.example is None
    assert seen.shifts("x", tally, 1) == []
    assert seen.familiar(seen.draws(8)).all() or not seen.values


@given(st.data(), KINDS)
def test_pieces_add_up_to_the_whole(data, kind):
    seen = learnt(data.draw(columns(kind)), kind)
    new = data.draw(columns(kind))
    cut = data.draw(st.integers(0, len(new)))
    whole = seen.look(as_cells(new, seen))[1]
    parts = seen.look(as_cells(new[:cut], seen))[1] + seen.look(as_cells(new[cut:], seen))[1]
    np.testing.assert_array_equal(parts.counts, whole.counts)
    assert parts.counts.sum() + parts.n_missing == len(new)
    for name in ("n_missing", "n_unreadable", "n_unfamiliar", "least", "greatest", "example"):
        assert getattr(parts, name) == getattr(whole, name)
    assert parts.total == pytest.approx(whole.total, rel=1e-9, abs=1e-9 * np.nansum(np.abs([whole.least, 1])))


# ------------------------------------------------------------------------------------------------------ many cells


def shifts(seen, cells, **settings):
    return seen.shifts("x", seen.look(cells, **settings)[1], n_columns=10)


def test_other_units_are_a_shift_and_said_in_numbers():
    rng = np.random.default_rng(0)
    seen = Seen.of_numbers(rng.normal(54, 9, 300).round())
    (shift,) = shifts(seen, 12 * rng.normal(54, 9, 10).round())
    assert shift.what == "values"
    assert shift.p_value < 1e-6
    assert shift.sentence.startswith("mean 53.")
    assert (shift.before, shift.after) == (1.0, 0.0)
    assert shifts(seen, rng.normal(54, 9, 30)) == []


def test_gaps_and_unreadable_cells_are_a_shift():
    seen = Seen.of_numbers(np.where(np.arange(200) % 50, np.arange(200.0), np.nan))
    gone = np.where(np.arange(60) % 2, np.linspace(0, 199, 60), np.nan)
    (shift,) = shifts(seen, gone)
    assert shift.what == "gaps"
    assert shift.sentence == "2 % of the cells had no value in training, 50 % have none here"
    (shift,) = shifts(seen, np.full(20, np.nan), unreadable=np.ones(20, dtype=bool))
    assert shift.sentence.endswith("100 % have none here (20 of 20 cannot be read)")


def test_renamed_categories_and_other_shares_are_a_shift():
    seen = Seen.of_texts(["m", "w"] * 60)
    (shift,) = shifts(seen, ["male", "female"] * 8)
    assert shift.sentence == "100 % of the values were never seen in training, which had m, w"
    (shift,) = shifts(seen, ["m"] * 40)
    assert shift.sentence == "50 % of the values were 'm' in training, 100 % are here"
    assert shifts(seen, ["m"] * 8) == []
    rare = Seen.of_texts([f"w{i}" for i in range(100)])
    assert shifts(rare, [f"v{i}" for i in range(100)]) == []  # every cell of training was new, too


def test_a_trifle_in_a_huge_table_is_none():
    rng = np.random.default_rng(0)
    seen = Seen.of_numbers(rng.normal(size=100_000))
    assert shifts(seen, rng.normal(0.1, 1, size=100_000)) == []
    assert shifts(seen, rng.normal(0.5, 1, size=100_000)) != []


def test_rows_that_belong_together_count_once():
    rng = np.random.default_rng(0)
    people = rng.normal(size=20)
    seen = Seen.of_numbers(np.repeat(people, 50), n_groups=20)
    alone = Seen.of_numbers(np.repeat(people, 50))
    new = np.repeat(rng.normal(size=6), 50)
    assert shifts(seen, new) == []
    assert shifts(alone, new) != []


@pytest.mark.parametrize("kind", ["number", "rounded", "code", "category", "gaps"])
def test_unchanged_columns_seldom_shift(kind):
    """At most 1 % of tables, here of one column; 600 tables of each size: 14 are beyond chance."""
    rng = np.random.default_rng(1)

    def drawn(n):
        if kind == "number":
            return rng.lognormal(size=n)
        if kind == "rounded":
            return rng.normal(scale=3, size=n).round()
        if kind == "code":
            return rng.binomial(4, 0.3, size=n).astype(float)
        if kind == "gaps":
            return np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n))
        return [f"w{i}" for i in rng.geometric(0.2, size=n)]

    for n, n_new in ((50, 10), (100, 100), (400, 30)):
        alarms = 0
        for _ in range(600):
            cells = drawn(n)
            seen = learnt(cells, kind if kind in ("code", "category") else "number")
            alarms += bool(seen.shifts("x", seen.look(drawn(n_new))[1], n_columns=1))
        assert alarms < 14


# ----------------------------------------------------------------------------------------------------------- files


@given(st.data(), KINDS)
def test_what_was_seen_comes_back(data, kind):
    seen = learnt(data.draw(columns(kind)), kind)
    assert Seen.from_plain(seen.as_plain()) == seen


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"kind": "colour"}, "has no kind"),
        ({"n_rows": -1}, "n_rows of what was seen"),
        ({"n_rows": 5}, "does not add up"),
        ({"n_groups": 99}, "more groups than rows"),
        ({"low": float("nan")}, "low of what was seen is no number"),
        ({"low": 1}, "low of what was seen is no number"),
        ({"values": np.array([2.0, 1.0, 3.0])}, "do not ascend"),
        ({"values": np.array([1.0])}, "the values that were seen has the wrong shape"),
        ({"counts": np.array([1.0, 1.0, 1.0])}, "the counts of what was seen has the wrong shape"),
        ({"kind": "category"}, "are no texts"),
        ({"more": 1}, "has no attribute 'more'"),
    ],
)
def test_what_was_not_seen(change, match):
    state = Seen.of_numbers(np.array([1.0, 2.0, 3.0, np.nan])).as_plain()
    with pytest.raises(ValueError, match=match):
        Seen.from_plain(state | change)


def test_numbers_near_the_largest_there_is():
    """Sums of two of them are infinite, which a model file refuses."""
    values = np.array([-1.7e308, 1e308, 1.5e308, 1.7e308] * 10)
    seen = Seen.of_numbers(values)
    assert np.isfinite([seen.low, seen.high, seen.mean]).all()
    assert Seen.from_plain(seen.as_plain()) == seen
    assert seen.familiar(values).all()
    assert Number.learn("size", "", values).median == 1.25e308
