"""Files in, frames out: formats, patterns, standard input; and what is wrong, with its line."""

import gzip
import io
import sys

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiform.tables import TableError, _reading, batches, read, sources

FRAME = pl.DataFrame({"a": ["1", "2", None], "b": ["x", "y, z", 'say "hi"'], "c": ["1.5", "", "line\nbreak"]})


def rows(frame):
    return [tuple(cell or None for cell in row) for row in frame.rows()]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "parquet", "arrow"])
def test_every_format_has_the_same_rows(suffix, tmp_path):
    path = tmp_path / f"table.{suffix}"
    match suffix:
        case "csv":
            FRAME.write_csv(path)
        case "tsv":
            FRAME.write_csv(path, separator="\t")
        case "csv.gz":
            path.write_bytes(gzip.compress(FRAME.write_csv().encode()))
        case "parquet":
            FRAME.write_parquet(path)
        case "arrow":
            FRAME.write_ipc(path)
    found = read(sources([path]))
    assert found.columns == FRAME.columns
    assert rows(found) == rows(FRAME)


def test_npz(tmp_path):
    X, y = np.arange(6.0).reshape(3, 2), np.array(["a", "b", "a"])
    np.savez(tmp_path / "plain.npz", X=X, y=y)
    found = read(sources([tmp_path / "plain.npz"]))
    assert found.columns == ["x0", "x1", "y"]
    assert found["x1"].to_list() == [1.0, 3.0, 5.0]
    np.savez(tmp_path / "named.npz", X=X, feature_names=["p", "q"], y=y, junk=np.zeros((5, 5)))
    assert read(sources([tmp_path / "named.npz"])).columns == ["p", "q", "y"]
    np.savez(tmp_path / "columns.npz", first=X[:, 0], second=y)
    assert read(sources([tmp_path / "columns.npz"])).columns == ["first", "second"]
    np.savez(tmp_path / "objects.npz", X=np.array([object()]))
    np.savez(tmp_path / "short.npz", X=X, y=y[:2])
    np.savez(tmp_path / "names.npz", X=X, feature_names=["p"])
    np.savez(tmp_path / "cube.npz", X=np.zeros((2, 2, 2)))
    (tmp_path / "text.npz").write_text("no archive")
    for name, match in {
        "objects": "cannot be read as npz",
        "short": r"'y' of shape \(2,\) is not a column of 3 rows",
        "names": "X has 2 columns, and there are 1 names",
        "cube": "X must have two dimensions; it has 3",
        "text": "cannot be read as npz",
    }.items():
        with pytest.raises(TableError, match=match):
            read(sources([tmp_path / f"{name}.npz"]))


def test_patterns_and_several_files_are_one_table(tmp_path):
    for part in ("b", "a", "c"):
        (tmp_path / f"part-{part}.csv").write_text(f"name,n\n{part},1\n")
    assert read(sources([tmp_path / "part-*.csv"]))["name"].to_list() == ["a", "b", "c"]
    given = [tmp_path / "part-c.csv", tmp_path / "part-[ab].csv"]
    assert read(sources(given))["name"].to_list() == ["c", "a", "b"]
    (tmp_path / "part-d.csv").write_text("n,name\n2,d\n")  # another order of columns is fine
    assert read(sources([tmp_path / "part-*.csv"])).rows()[-1] == ("d", "2")
    (tmp_path / "part-e.csv").write_text("name,m\ne,1\n")
    with pytest.raises(TableError, match=r"part-e\.csv has no column 'n', which .*part-a\.csv has"):
        read(sources([tmp_path / "part-*.csv"]))
    (tmp_path / "part-e.csv").write_text("name,n,m\ne,1,2\n")
    with pytest.raises(TableError, match=r"part-e\.csv has a column 'm', which .*part-a\.csv has not"):
        read(sources([tmp_path / "part-*.csv"]))


def test_a_file_whose_name_looks_like_a_pattern(tmp_path):
    for suffix, write in (("csv", FRAME.write_csv), ("parquet", FRAME.write_parquet)):
        write(tmp_path / f"table[1].{suffix}")
        assert len(read(sources([tmp_path / f"table[1].{suffix}"]))) == 3


def test_a_table_without_rows_is_refused_and_a_part_without_is_not(tmp_path):
    FRAME.write_parquet(tmp_path / "part-1.parquet")
    FRAME.clear().write_parquet(tmp_path / "part-2.parquet")
    assert len(read(sources([tmp_path / "part-*.parquet"]))) == 3
    with pytest.raises(TableError, match=r"part-2\.parquet has no rows\."):
        read(sources([tmp_path / "part-2.parquet"]))


def test_standard_input(monkeypatch):
    for content, format in ((b"a,b\n1,2\n", None), (b"a\tb\n1\t2\n", "tsv"), (gzip.compress(b"a,b\n1,2\n"), None)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content))))
        assert read(sources(["-"], format)).rows() == [("1", "2")]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators_are_recognised(separator, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("\ufeff" + separator.join(["a", "b", "c"]) + "\n" + separator.join(["1", "2", "3"]) + "\r\n")
    assert read(sources([path])).rows() == [("1", "2", "3")]


def refusal(text, tmp_path, name="table.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(TableError) as caught:
        read(sources([path]))
    sentence = str(caught.value)
    assert str(path) in sentence
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["is empty"]),
        ("\n\n", ["is empty"]),
        ("a,b\n", ["no rows"]),
        ("a,b\n1,2\n3,4,5\n", ["line 3", "column 3", "3 cells", "names 2 columns"]),
        ("a,b,c\n1,2,3\n4\n", ["line 3", "column 'b'", "1 cell,", "names 3 columns"]),
        ('a,b\n"x\ny",2\n3,4\n5\n', ["line 5", "column 'b'"]),
        ('a,b\n1,2\n"3,4\n5,6\n', ["line 3", "never closed"]),
        ("a,b\né,2\n".encode() + b"\xff,3\n", ["line 3", "not UTF-8", "--encoding"]),
        ("a,b\n1,2\n".encode("utf-16")[:-1], ["is not utf-16"]),
        ("a,b\rc,d\n1,2,3\n", ["line 1", "carriage return"]),
        (b"\x00\x01\x02\n", ["zero bytes"]),
        (gzip.compress(b"a,b\n" + b"1,2\n" * 1000, mtime=0)[:-20], ["is damaged"]),
    ],
)
def test_what_is_wrong_and_where(text, words, tmp_path):
    sentence = refusal(text, tmp_path)
    for word in words:
        assert word in sentence, sentence


def test_damaged_binary_files(tmp_path):
    for suffix in ("parquet", "arrow"):
        assert f"cannot be read as {suffix}" in refusal(b"not that", tmp_path, f"table.{suffix}")


def test_what_is_not_there(tmp_path):
    with pytest.raises(TableError, match=r"There is no file .*missing\.csv"):
        sources([tmp_path / "missing.csv"])
    with pytest.raises(TableError, match=r"No file matches .*\*\.csv"):
        sources([tmp_path / "*.csv"])
    (tmp_path / "table.xls").write_text("")
    with pytest.raises(TableError, match="the name does not say what is in it"):
        sources([tmp_path / "table.xls"])
    assert sources([tmp_path / "table.xls"], "csv")[0].format == "csv"
    with pytest.raises(TableError, match="is a folder; give its files"):
        sources([tmp_path])
    with pytest.raises(TableError, match="format must be one of csv, tsv, xlsx, ods, parquet, arrow, npz; got"):
        sources(["-"], "xml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b\n1,2\n\n3,4\n\n\n", [("1", "2"), ("3", "4")]),
        ("\n\na,b\r\n1,2\r\n\r\n3,\r\n", [("1", "2"), ("3", None)]),
        ('a,b\n"1",2\n\n"3\n\n",4\n', [("1", "2"), ("3\n\n", "4")]),
        ("a,b\n1,2\n,\n", [("1", "2"), (None, None)]),  # a row of gaps is a row
        ("a\n1\n\n3\n", [("1",), (None,), ("3",)]),  # and so it is with one column
    ],
)
def test_blank_lines_are_no_rows(text, expected, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(text, newline="")
    assert read(sources([path])).rows() == expected


@pytest.mark.parametrize(
    ("text", "columns", "row"),
    [
        (
            "All patients;;\n;;\na;b;c\n1;2;3\n",
            ["a", "b", "c"],
            ("1", "2", "3"),
        ),  # as spreadsheet programs export titles
        ("All patients\n\n\na,b,c\n1,2,3\n4,5,6\n", ["a", "b", "c"], ("1", "2", "3")),
        ('"Title, of two\nlines"\na,b,c\n1,2,3\n', ["a", "b", "c"], ("1", "2", "3")),
        ("sep=|\na|b\n1|2\n", ["a", "b"], ("1", "2")),
        ("a;b;c\n1;2;3;\n4;5;6;\n", ["a", "b", "c"], ("1", "2", "3")),  # a separator at the end of rows
        ("a,b,a,\n1,2,3,4\n", ["a", "b", "a (2)", "column 4"], ("1", "2", "3", "4")),
        ("a (2),a,a\n1,2,3\n", ["a (2)", "a", "a (3)"], ("1", "2", "3")),
    ],
)
def test_what_stands_around_a_table(text, columns, row, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(text, newline="")
    found = read(sources([path]))
    assert found.columns == columns
    assert found.rows()[0] == row


@pytest.mark.parametrize("text", ["text\nhello, you there\nfine\n", "a,b\n1,2,3,4,5,6\n", "title\n1,2,3\n4,5,6\n"])
def test_what_is_no_title(text, tmp_path):
    assert "names" in refusal(text, tmp_path)


@pytest.mark.parametrize(
    "encoding", ["cp1252", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be", "utf-8-sig", "cp850"]
)
@pytest.mark.parametrize("block", [7, 4_000_000])
def test_encodings_are_recognised(encoding, block, tmp_path, monkeypatch):
    monkeypatch.setattr(_reading, "BLOCK_BYTES", block)
    path = tmp_path / "table.csv"
    words = ["Größe", "Übelkeit", "früh", "spät", "Männlich", "straße"]
    text = "Name;Größe\n" + "".join(f"{word};{k},5\n" for k in range(40) for word in words)
    path.write_bytes(text.encode(encoding))
    found = read(sources([path]))
    assert found.columns == ["Name", "Größe"]
    assert found["Name"].to_list() == words * 40


def test_an_encoding_that_shows_late(tmp_path, monkeypatch):
    """Nothing but ASCII in the first blocks."""
    monkeypatch.setattr(_reading, "BLOCK_BYTES", 64)
    path = tmp_path / "table.csv"
    path.write_bytes(b"name,n\n" + b"Mueller,1\n" * 2000 + "Müller,2\n".encode("cp1252"))
    notes = []
    assert read(sources([path]), note=notes.append)["name"][-1] == "Müller"
    assert notes == [f"{path} is read as Windows-1252 (western Europe) text; --encoding names another encoding."]


def test_blank_lines_are_counted(tmp_path):
    assert "line 6, column 'b'" in refusal("a,b\n1,2\n\n\n3,4\n5\n", tmp_path)


def test_stray_quotation_marks_are_read_as_they_stand(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text('size,price\n5" pipe,3\n2" tap,4\n7" hose,5\n')
    assert read(sources([path]))["size"].to_list() == ['5" pipe', '2" tap', '7" hose']


cells = st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), max_size=6)


@given(
    table=st.lists(st.tuples(cells, cells, cells.map(lambda text: text or "-")), min_size=1, max_size=20),
    block=st.integers(1, 200),
)
def test_blocks_never_cut_a_record(table, block, tmp_path_factory):
    path = tmp_path_factory.mktemp("blocks") / "table.csv"
    frame = pl.DataFrame(table, schema=["a", "b", "c"], orient="row")
    frame.write_csv(path, quote_style="always")
    before = _reading.BLOCK_BYTES
    try:
        _reading.BLOCK_BYTES = block
        found = read(sources([path]))
    finally:
        _reading.BLOCK_BYTES = before
    assert rows(found) == rows(frame)


def test_batches_come_in_order_and_know_their_line(tmp_path, monkeypatch):
    monkeypatch.setattr(_reading, "BLOCK_BYTES", 64)
    path = tmp_path / "table.csv"
    path.write_text("n,text\n" + "".join(f'{n},"two\nlines"\n' for n in range(50)))
    found = list(batches(sources([path])))
    assert len(found) > 5
    for batch in found:
        assert batch.first_line == 2 + 2 * int(batch.frame["n"][0])
    assert [int(n) for batch in found for n in batch.frame["n"]] == list(range(50))
    shares = [batch.share for batch in found]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_parquet_comes_in_slices(tmp_path):
    path = tmp_path / "table.parquet"
    pl.DataFrame({"n": range(25)}).write_parquet(path)
    found = list(batches(sources([path]), rows=10))
    assert [len(batch.frame) for batch in found] == [10, 10, 5]
    assert [batch.first_line for batch in found] == [1, 11, 21]


damage = st.lists(st.tuples(st.integers(0, 10_000), st.binary(max_size=8)), min_size=1, max_size=5)


@settings(max_examples=150)
@given(damage=damage, cut=st.integers(0, 400))
def test_damaged_text_gives_a_frame_or_a_sentence(damage, cut, tmp_path_factory):
    content = bytearray('name,size,"a, b"\n' + "".join(f'"p{n}",{n}.5,"x ""{n}"""\n' for n in range(20)), "utf-8")
    for at, piece in damage:
        at %= len(content) + 1
        content[at : at + len(piece)] = piece
    path = tmp_path_factory.mktemp("damaged") / "table.csv"
    path.write_bytes(bytes(content[: len(content) - cut]))
    try:
        frame = read(sources([path]))
    except TableError as error:
        sentence = str(error)
    else:
        sentence = ""
        assert len(frame) > 0
        assert all(dtype == pl.String for dtype in frame.dtypes)
    assert "\n" not in sentence


@pytest.mark.parametrize("suffix", ["arrow", "csv.gz", "npz"])
def test_damaged_binary_gives_a_frame_or_a_sentence(suffix, tmp_path):
    """Bits flipped, pieces missing. (A Parquet file can make polars itself end the process.)"""
    frame = pl.DataFrame({"n": range(300), "text": [f"row {n}" for n in range(300)]})
    path = tmp_path / f"table.{suffix}"
    match suffix:
        case "arrow":
            frame.write_ipc(path)
        case "csv.gz":
            path.write_bytes(gzip.compress(frame.write_csv().encode()))
        case "npz":
            np.savez_compressed(path, X=np.arange(600.0).reshape(300, 2), y=np.arange(300) % 2)
    content, random, n_refused = path.read_bytes(), np.random.default_rng(0), 0
    for _ in range(60):
        changed = bytearray(content)
        at = int(random.integers(0, len(changed)))
        if random.random() < 0.5:
            changed[at] ^= 1 << int(random.integers(0, 8))
        else:
            del changed[at : at + int(random.integers(1, 50))]
        path.write_bytes(changed)
        try:
            sentence = ""
            read(sources([path]))
        except TableError as error:
            sentence = str(error)
            n_refused += 1
        assert "\n" not in sentence
    assert n_refused > 10
