"""Workbooks: which sheet and which row are read; and what a stranger's one may cost."""

import datetime
import io
import zipfile

import openpyxl
import polars as pl
import pytest
from odf.opendocument import OpenDocumentSpreadsheet

from multiform.tables import Source, TableError, _workbooks, read, sources

MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'


def workbook(*sheets):
    """The bytes of a workbook: of each sheet its name and its rows."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets:
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def read_bytes(content, format="xlsx", sheet=None, note=lambda sentence: None):
    return read([Source("book", format, content, None, sheet)], note=note)


def test_cells_keep_their_types():
    day = datetime.date(2024, 2, 29)
    rows = [["n", "text", "day", "flag", "mixed"], [1.5, "a", day, True, 3], [None, "b", day, False, "k.A."]]
    found = read_bytes(workbook(("s", rows)))
    assert found["n"].to_list() == [1.5, None]
    assert found["flag"].to_list() == [True, False]
    assert found["mixed"].to_list() == ["3", "k.A."]
    assert found["day"].dtype.is_temporal()


def test_the_first_sheet_that_holds_anything():
    notes = []
    content = workbook(("cover", []), ("data", [["a", "b"], [1, 2]]), ("more", [["x", "y"], [8, 9]]))
    assert read_bytes(content, note=notes.append).columns == ["a", "b"]
    assert notes[0].startswith("book has 3 sheets, 'cover', 'data', 'more'; 'data', the first that holds anything, was")
    assert read_bytes(content, sheet="more").columns == ["x", "y"]
    with pytest.raises(TableError, match=r"book has no sheet 'no'; it has 'cover', 'data', 'more'"):
        read_bytes(content, sheet="no")
    with pytest.raises(TableError, match="book: the sheet 'cover' is empty"):
        read_bytes(content, sheet="cover")
    with pytest.raises(TableError, match="book is empty"):
        read_bytes(workbook(("cover", [])))
    with pytest.raises(TableError, match="has names of columns and no rows below them"):
        read_bytes(workbook(("s", [["a", "b"]])))


def test_a_table_that_does_not_begin_in_the_corner():
    rows = [
        [],
        [None, "Patients of March"],
        [],
        [None, "a", "b", None, "a"],
        [None, 1, "x", None, 5],
        [None, 2, "y", None, 6],
    ]
    found = read_bytes(workbook(("s", rows)))
    assert found.columns == ["a", "b", "a (2)"]
    assert found.rows() == [(1, "x", 5), (2, "y", 6)]


def test_several_workbooks_are_one_table(tmp_path):
    (tmp_path / "a.xlsx").write_bytes(workbook(("s", [["n", "t"], [1, "x"]])))
    (tmp_path / "b.xlsx").write_bytes(workbook(("s", [["n", "t"], ["k.A.", "y"]])))
    assert read(sources([tmp_path / "*.xlsx"]))["n"].to_list() == ["1", "k.A."]


# ----------------------------------------------------------------------------------------------------------- hostile


def crafted(sheet, shared=""):
    """A workbook whose sheet is this XML."""
    changed = {
        "xl/sharedStrings.xml": f"<sst {MAIN}>{shared}</sst>",
        "xl/worksheets/sheet1.xml": f"<worksheet {MAIN}><sheetData>{sheet}</sheetData></worksheet>",
    }
    return repacked(workbook(("s", [["a"], [5]])), changed)


def repacked(content, changed):
    """An archive with other parts in the place of some."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in dict.fromkeys([*old.namelist(), *changed]):
            archive.writestr(name, changed[name] if name in changed else old.read(name))
    return stream.getvalue()


TWO_ROWS = '<row><c t="inlineStr"><is><t>a</t></is></c></row><row><c><v>5</v></c></row>'


def test_a_crafted_workbook_can_be_read():
    assert read_bytes(crafted(TWO_ROWS)).to_dict(as_series=False) == {"a": [5]}


def test_a_cell_far_away():
    far = '<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    for sheet in (far, far.replace('"', "'"), far.replace("r=", "r = ")):
        with pytest.raises(TableError, match=r"a cell in row 1,048,576 and one in column 16,384, and 4,000,000 cells"):
            read_bytes(crafted(sheet))
    wide = "<row>" + "<c><v>1</v></c>" * 16_000 + "</row>"
    with pytest.raises(TableError, match="cells are read at most"):
        read_bytes(crafted(wide + "<row><c><v>1</v></c></row>" * 1000))


def test_a_text_that_many_cells_refer_to(monkeypatch):
    monkeypatch.setattr(_workbooks, "MOST_LETTERS", 1_000_000)
    shared = f"<si><t>{'y' * 30_000}</t></si>"
    row = '<row><c t="s"><v>0</v></c></row>'
    assert len(read_bytes(crafted(row * 30, shared))) == 29
    for one in (row, row.replace("<v>", "<f>A1</f><v>"), row.replace('"', "'")):
        with pytest.raises(TableError, match="have more than 1,000,000 letters"):
            read_bytes(crafted(one * 40, shared))


def test_what_unpacks_to_too_much(monkeypatch):
    monkeypatch.setattr(_workbooks, "MOST_UNPACKED", 1_000_000)
    with pytest.raises(TableError, match="unpacks to more than 1,000,000 bytes; save the sheet as CSV"):
        read_bytes(crafted(TWO_ROWS, " " * 2_000_000))
    lying = bytearray(crafted(TWO_ROWS, " " * 2_000_000))
    with zipfile.ZipFile(io.BytesIO(lying)) as archive:
        size = archive.getinfo("xl/sharedStrings.xml").file_size
    for at in range(len(lying) - 3):  # what it says of its size need not be true
        if lying[at : at + 4] == size.to_bytes(4, "little"):
            lying[at : at + 4] = (10).to_bytes(4, "little")
    with pytest.raises(TableError, match=r"unpacks to more|cannot be read as xlsx"):
        read_bytes(bytes(lying))


# Named, as an archive holds the time of its making: two workers of pytest would collect tests of different names.
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"PK", id="cut_off"),
        pytest.param(b"no workbook", id="text"),
        pytest.param(crafted("<!DOCTYPE x>" + TWO_ROWS), id="document_type"),
        pytest.param(crafted(TWO_ROWS)[:-30], id="truncated"),
        pytest.param(crafted("<row>" * 100), id="unclosed"),
    ],
)
def test_what_is_no_workbook(content):
    with pytest.raises(TableError, match=r"book (cannot be read as xlsx|is empty)"):
        read_bytes(content)


def test_repeated_rows_of_an_open_document():
    spaces = " ".join(
        f'xmlns:{one}="urn:oasis:names:tc:opendocument:xmlns:{one}:1.0"' for one in ("office", "table", "text")
    )

    def content(cell, row=""):
        text = f'<table:table-cell office:value-type="string"{cell}><text:p>a</text:p></table:table-cell>'
        table = f'<table:table table:name="s"><table:table-row{row}>{text}</table:table-row></table:table>'
        body = f"<office:body><office:spreadsheet>{table}</office:spreadsheet></office:body>"
        xml = f"<office:document-content {spaces}>{body}</office:document-content>"
        stream = io.BytesIO()
        OpenDocumentSpreadsheet().save(stream)
        return repacked(stream.getvalue(), {"content.xml": xml})

    with pytest.raises(TableError, match="cells are read at most"):
        read_bytes(content(' table:number-columns-repeated="16384"', ' table:number-rows-repeated="1048576"'), "ods")
    with pytest.raises(TableError, match="cells are read at most"):
        read_bytes(content("", ' table:number-rows-repeated="99999999999999999999999"'), "ods")
    assert read_bytes(content("", ' table:number-rows-repeated="4"'), "ods").to_dict(as_series=False) == {
        "a": ["a"] * 3
    }
    assert isinstance(read_bytes(content("", ' table:number-rows-repeated="4"'), "ods"), pl.DataFrame)
