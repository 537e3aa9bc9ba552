"""Wide tables: everything is linear in the cells, and what is not a date is not tried as one."""

import csv
import io
import random

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiform import QMSClassifier
from multiform.columns import _cells, _decide
from multiform.columns._cells import DATE_FORMATS, as_dates, with_numbers
from multiform.tables import TableClassifier, TableError, _reading, read, sources


def genes(n_columns, n_rows=12, seed=0):
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame({f"gene_{j:05d}_expression": rng.normal(size=n_rows).round(4) for j in range(n_columns)})
    return frame.with_columns(pl.Series("label", ["a", "b"] * (n_rows // 2)))


def test_ten_thousand_columns_are_read(tmp_path):
    """Their names alone are more than 131,072 letters, where Python's csv module ends."""
    path = tmp_path / "genes.csv"
    genes(10_000).write_csv(path)
    assert path.read_bytes().index(b"\n") > 131_072
    frame = read(sources([path]))
    assert frame.shape == (12, 10_001)
    assert frame.columns[-1] == "label"


def test_a_cell_of_any_length_is_read(tmp_path):
    """In a block that polars parses, and in one that is read cell by cell."""
    for stray in ("", '5" pipe,x\n\n'):
        path = tmp_path / "long.csv"
        path.write_text(f'a,b\n{stray}"{"long " * 100_000}",y\n')
        assert read(sources([path]))["a"].str.len_chars()[-1] == 500_000


def test_more_names_than_any_table_has_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_reading, "MOST_COLUMNS", 100)
    path = tmp_path / "names.csv"
    path.write_text(",".join(f"c{j}" for j in range(101)) + "\n" + "1," * 100 + "1\n")
    with pytest.raises(TableError, match="line 1: the first line names more than 100 columns"):
        read(sources([path]))


@pytest.fixture
def calls(monkeypatch):
    """How often cells are parsed as dates and cleaned as text, column by column."""
    counts = {"as_dates": 0, "as_text": 0}

    def counted(module, name):
        function = getattr(module, name)

        def call(*args, **kwargs):
            counts[name] += 1
            return function(*args, **kwargs)

        monkeypatch.setattr(module, name, call)

    counted(_decide, "as_dates")
    counted(_cells, "as_text")
    return counts


def test_columns_of_numbers_are_read_all_at_once(calls):
    text = genes(300).with_columns(pl.all().cast(pl.String))
    model = TableClassifier(QMSClassifier(max_iter=1, noise=1.0)).fit(text, "label")
    assert {column.role for column in model.columns_} == {"number"}
    assert calls["as_dates"] == 0
    assert calls["as_text"] < 10  # the target's
    model.predict(text)
    assert calls["as_text"] < 10


@pytest.mark.parametrize("cell", ["T{}", "{}%", "{}:{}", "grade {}", "{}-{}", "1.2.{}-x"])
def test_words_with_digits_are_not_tried_as_dates(cell, calls):
    _decide.decide(pl.Series("stage", [cell.format(k % 7, k % 5) for k in range(60)]))
    assert calls["as_dates"] == 0


@pytest.mark.parametrize("format", DATE_FORMATS)
def test_a_date_is_tried_by_formats_of_its_shape_only(format, calls):
    dates = pl.Series("day", [f"2024-{1 + k % 12:02d}-{1 + k % 28:02d} 10:20:30" for k in range(60)])
    written = dates.str.to_datetime("%Y-%m-%d %H:%M:%S").dt.strftime(format)
    column = _decide.decide(written.alias("day"))
    assert (column.role, column.format) == ("date", format)
    assert calls["as_dates"] <= 5  # of up to two formats, a few cells and all, and the dates themselves


def variants(format):
    """Text that may be a date in a format: parts too long, too short, with signs and blanks, and other marks."""
    number = st.tuples(st.sampled_from(["", "", "", "+", "-", " ", "0"]), st.integers(0, 3000)).map(
        lambda part: "".join(map(str, part))
    )
    month = st.sampled_from(["Jan", "jan", "JAN", "January", "Sept", "May", "Foo"])
    mark = st.sampled_from(["", "", "", " ", "  "])
    parts = []
    for piece in format.replace("%", "\0%").split("\0")[1:]:
        parts += [month if piece[1] == "b" else number, st.just(piece[2:]), mark]
    return st.tuples(*parts).map(lambda found: "".join(found).strip())


@given(data=st.data(), format=st.sampled_from(DATE_FORMATS))
def test_whatever_reads_as_a_date_has_its_shape(data, format):
    cells = data.draw(st.lists(variants(format), min_size=1, max_size=20))
    for cell in cells:
        if not as_dates(pl.Series([cell]), format)[1] and cell not in _cells.MISSING:
            assert _decide.DATE_SHAPES[format].fullmatch(cell), cell


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-99, 2**60), min_size=1, max_size=9))
def test_no_number_is_a_date(values):
    text = pl.Series([str(value) for value in values])
    for format in DATE_FORMATS:
        assert as_dates(text, format)[1] == len(text)


def test_what_becomes_a_number_at_once():
    frame = pl.DataFrame(
        {
            "number": ["1.5", " 2 ", "NA", None],
            "padded": ["007", "008", "009", "010"],
            "long": ["9007199254740993", "9007199254740992", "1", "2"],
            "word": ["1", "2", "x", None],
            "comma": ["1,5", "2,5", "3,5", "4,5"],
            "infinite": ["1", "inf", "2", "3"],
            "gaps": ["", None, "?", "NA"],
            "not named": ["1", "2", "3", "4"],
            "truth": [True, False, None, True],
        }
    )
    found = with_numbers(frame, [*frame.columns[:7], "truth"])
    assert found["number"].to_list() == [1.5, 2.0, None, None]
    assert found.drop("number").equals(frame.drop("number"))
    assert with_numbers(frame, []).equals(frame)
    assert with_numbers(frame.clear(), ["number"]).equals(frame.clear())


# --------------------------------------------------------------------------------------------------- quotation marks


@pytest.fixture
def bytes_scanned(monkeypatch):
    """How many bytes have been searched for quoted cells: time, as a count."""
    counts = []
    found = _reading._Quotes.of
    monkeypatch.setattr(
        _reading._Quotes, "of", lambda content, mark: counts.append(len(content)) or found(content, mark)
    )
    return counts


ROW = "disk of some kind,12.25,3\n"


@pytest.mark.parametrize(
    ("row", "stray"), [(ROW, '"disk,1,2\n'), (ROW, 'disk,1,"2\n'), ('"a disk, or so","12.25",3\n', '"disk,1,2\n')]
)
def test_a_stray_quotation_mark_is_named_in_linear_time(row, stray, tmp_path, monkeypatch, bytes_scanned):
    """It is not the line in which the table happens to stop making sense, and not a limit of some library."""
    monkeypatch.setattr(_reading, "BLOCK_BYTES", 10_000)
    path = tmp_path / "stray.csv"
    path.write_text("name,a,b\n" + row * 1000 + stray + row * 30_000)
    with pytest.raises(TableError, match="line 1002: a quotation mark is never closed; close it, or write it twice"):
        read(sources([path]))
    assert sum(bytes_scanned) < 4 * path.stat().st_size


def test_a_mark_inside_a_bare_cell_is_a_letter_in_a_table_of_any_length(tmp_path, monkeypatch, bytes_scanned):
    monkeypatch.setattr(_reading, "BLOCK_BYTES", 10_000)
    path = tmp_path / "pipes.csv"
    path.write_text("name,a,b\n" + ROW * 1000 + '5" pipe,1,2\n' + ROW * 3_000)
    frame = read(sources([path]))
    assert len(frame) == 4001
    assert frame["name"][1000] == '5" pipe'
    assert sum(bytes_scanned) < 2 * path.stat().st_size


def test_a_record_that_never_ends_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_reading, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(_reading, "MOST_BYTES", 20_000)
    path = tmp_path / "endless.csv"
    path.write_text("a,b\n1,2\n" + 'x,"' + "y" * 100_000 + '"\n')
    with pytest.raises(TableError, match="line 3: the record that begins here has more than 20,000 bytes"):
        read(sources([path]))
    path.write_text("a" * 100_000)
    with pytest.raises(TableError, match="line 1: the record that begins here has more than 20,000 bytes"):
        read(sources([path]))


def test_many_blank_lines_cost_no_parsing_each(tmp_path, monkeypatch):
    path = tmp_path / "blank.csv"
    path.write_text("a,b\n" + "1,2\n\n" * 2000 + "3,x\n")
    parsed, read_csv = [], pl.read_csv
    monkeypatch.setattr(pl, "read_csv", lambda *args, **kwargs: parsed.append(1) or read_csv(*args, **kwargs))
    model = TableClassifier(QMSClassifier(max_iter=1, noise=1.0), numbers=["b"])
    assert len(read(sources([path]))) == 2001
    assert len(parsed) == 1
    batch = next(iter(_reading.batches(sources([path]))))
    with pytest.raises(TableError) as caught:
        model.fit(batch.frame.with_columns(pl.Series("y", ["a", "b"] * 1000 + ["a"])), "y")
    assert "line 4002, column 'b': it was to be read as a number" in str(batch.located(caught.value))


letters = st.text(st.sampled_from('ab",;\n\t '), max_size=40)


@given(text=letters, separator=st.sampled_from([",", ";", "\t"]))
def test_records_are_those_of_pythons_csv_module(text, separator):
    quotes = _reading._Quotes.of(text.encode(), separator.encode())
    if quotes.open is not None:
        return  # which is refused, and the module goes on
    expected = [record or [""] for record in csv.reader(io.StringIO(text, newline=""), delimiter=separator)]
    found = list(_reading._records(text, separator))
    assert [cells for cells, _ in found] == expected
    # And the search for quoted cells has the same opinion of where the last record begins.
    begins = quotes.last_line_end()
    n_lines = text[:begins].count("\n")
    assert begins == len(text) or n_lines == found[-1][1]


@given(text=letters)
def test_marks_that_are_in_order_are_found_either_way(text):
    fast = _reading._Quotes.of(text.encode(), b",")
    slow = _reading._Quotes.of(b'x"x\n' + text.encode(), b",")  # a mark that is not in order
    assert (fast.open is None) == (slow.open is None)
    assert fast.last_line_end() == max(0, slow.last_line_end() - 4)


def test_time_to_decide_is_linear_in_columns(monkeypatch):
    """Queries of polars, each of which costs a tenth of a millisecond, are not more for more columns of numbers."""

    def queries(n_columns):
        text, counts = genes(n_columns).with_columns(pl.all().cast(pl.String)), []
        collect = pl.LazyFrame.collect
        with monkeypatch.context() as patched:
            patched.setattr(pl.LazyFrame, "collect", lambda self, **kw: counts.append(1) or collect(self, **kw))
            TableClassifier(QMSClassifier(max_iter=1, noise=1.0)).fit(text, "label")
        return len(counts)

    few, many = queries(20), queries(220)
    assert many <= few + 20


def test_shuffled_marks_give_a_frame_or_a_sentence(tmp_path, monkeypatch):
    """Small blocks, odd marks: never a record more or less than in one block."""
    rng = random.Random(0)
    outcomes = {True: 0, False: 0}
    for _ in range(300):
        body = "".join(rng.choice(['"', ",", "\n", "a", "1", '""', '"x",', "\r\n"]) for _ in range(rng.randrange(60)))
        path = tmp_path / "table.csv"
        path.write_bytes(("p,q\n1,2\n" + body).encode())
        found = []
        for block in (7, 10_000):
            monkeypatch.setattr(_reading, "BLOCK_BYTES", block)
            try:
                found.append([tuple(cell or None for cell in row) for row in read(sources([path])).rows()])
            except TableError as error:
                found.append(type(error))
        outcomes[found[0] is TableError] += 1
        assert found[0] == found[1], body
    assert min(outcomes.values()) > 20, outcomes


def test_a_label_of_a_million_letters_is_refused(tmp_path):
    """Each row would have room for it."""
    path = tmp_path / "labels.csv"
    path.write_text("a,y\n" + "1,no\n2,yes\n" * 20 + f"3,{'y' * 1_000_000}\n")
    frame = read(sources([path]))
    with pytest.raises(TableError, match="column 'y', row 41: the label has 1,000,000 letters; one may have 1,000"):
        TableClassifier(QMSClassifier(max_iter=1, noise=1.0)).fit(frame, "y")


def test_a_date_that_no_model_file_takes_is_none():
    days = [f"+262142-12-{1 + k % 28:02d}" for k in range(40)]
    assert _decide.decide(pl.Series("day", days)).role != "date"
    assert _decide.decide(pl.Series("day", [f"2024-12-{1 + k % 28:02d}" for k in range(40)])).role == "date"
