"""Workbooks (.xlsx, .ods): one sheet of them as a frame, read by fastexcel.

A workbook is a zip archive of XML, in which a few bytes can stand for any number of cells: a cell in the last row of
the last column, a row that is repeated a million times, a text that a million cells refer to. What a sheet becomes is
counted before fastexcel reads it.
"""

from __future__ import annotations

import io
import logging
import re
import zipfile
import zlib
from typing import Any, NamedTuple
from xml.parsers import expat

import numpy as np

from multiform.columns import TableError, polars

MOST_UNPACKED = 256_000_000  # bytes of XML
MOST_CELLS = 4_000_000  # of the rectangle that holds all cells of a sheet; each takes some 100 bytes on the way
MOST_LETTERS = 256_000_000  # in the cells of a sheet
LARGE = "save the sheet as CSV, which may have any size"
MOST_NOTES = 3  # of names that come twice
FIRST_ROWS = 30  # in which the names of the columns must stand
STEP = 1_000_000
REFERENCE = re.compile(rb"\br\s*=\s*[\"']([A-Za-z]{1,3})([0-9]{1,9})[\"']")
ROW = re.compile(rb"<(?:\w+:)?row\b")
CELL = re.compile(rb"<(?:\w+:)?c\b")
ROW_NUMBER = re.compile(rb"<(?:\w+:)?row\b[^>]*?\br\s*=\s*[\"']([0-9]{1,9})")
SHARED = re.compile(
    rb"<(?:\w+:)?c\b[^>]*\bt\s*=\s*[\"']s[\"'][^>]*>(?:(?!<(?:\w+:)?c\b)[\s\S])*?<(?:\w+:)?v\b[^>]*>\s*([0-9]{1,9})"
)
ITEM = re.compile(rb"<(?:\w+:)?si\b")


class Sheet(NamedTuple):
    """A sheet's table, the row of its first record, and what was decided."""

    frame: Any
    first_row: int
    notes: tuple[str, ...]


def read_sheet(content: bytes, format: str, name: str, sheet: str | None) -> Sheet:
    """The sheet of this name, or the first that holds anything; errors call the file `name`."""
    _check_size(content, format, name)
    try:
        import fastexcel
    except ImportError as error:
        raise ImportError('Workbooks are read with fastexcel; install it with pip install "multiform[cli]".') from error
    logging.getLogger("fastexcel").addHandler(logging.NullHandler())  # it complains of columns that are empty
    book = fastexcel.read_excel(content)
    names = list(book.sheet_names)
    listed = ", ".join(map(repr, names[:12])) + f" and {len(names) - 12} more" * (len(names) > 12)
    if sheet is not None and sheet not in names:
        raise TableError(f"{name} has no sheet {sheet!r}; it has {listed}.")
    for own in names if sheet is None else [sheet]:
        top = book.load_sheet(own, header_row=None, skip_rows=0, n_rows=FIRST_ROWS, dtypes="string").to_polars()
        rows = [[cell or "" for cell in row] for row in top.rows()]
        if any(any(row) for row in rows):
            break
    else:
        raise TableError(f"{name} is empty." if sheet is None else f"{name}: the sheet {sheet!r} is empty.")
    notes = []
    if sheet is None and len(names) > 1:
        which = "the first" if own == names[0] else "the first that holds anything"
        notes.append(f"{name} has {len(names)} sheets, {listed}; {own!r}, {which}, was read. --sheet names another.")
    header = header_row(rows)
    if any(map(any, rows[:header])):
        notes.append(f"{name}: row {header + 1} of the sheet names the columns; what stands above it was left out.")
    if header + 1 >= len(rows):
        raise TableError(f"{name}: the sheet {own!r} has names of columns and no rows below them.")
    read: dict[str, Any] = {
        "header_row": None,
        "skip_rows": header + 1,
        "schema_sample_rows": None,
        "skip_whitespace_tail_rows": True,
    }
    frame = book.load_sheet(own, **read).to_polars()
    columns, renamed = column_names(rows[header] + [""] * (frame.width - len(rows[header])))
    notes += [f"{name}: {one}" for one in renamed]
    frame = frame.rename(dict(zip(frame.columns, columns, strict=False)))
    pl = polars()
    named = dict(zip(columns, rows[header] + [""] * frame.width, strict=False))
    gaps = frame.null_count().row(0) if frame.width else ()
    kept = [one for one, n in zip(frame.columns, gaps, strict=True) if named[one] or n < len(frame)]
    return Sheet(frame.select(kept).with_columns(pl.col(pl.Null).cast(pl.String)), header + 2, tuple(notes))


def header_row(rows: list[list[str]]) -> int:
    """Which of the first rows of a table names the columns.

    It is the first, but for titles: rows that have less than half as many cells as the fullest. What names columns is
    no number.
    """
    filled = [sum(map(bool, row)) for row in rows]
    first = next((number for number, n in enumerate(filled) if n), 0)
    found = next((number for number, n in enumerate(filled) if n >= 2 and 2 * n >= max(filled)), first)
    is_named = not any(_is_number(cell) for cell in rows[found])
    return found if is_named else first


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"\s*[-+]?[0-9]+([.,][0-9]+)?\s*", cell) is not None


def column_names(given: list[str]) -> tuple[list[str], list[str]]:
    """A name of its own for each column, and what is to be said of those that had none."""
    found: list[str] = []
    notes: list[str] = []
    taken = {name.strip() for name in given}  # a name that is made up is none that another column has
    number_of: dict[str, int] = {}
    for number, name in enumerate((one.strip() for one in given), start=1):
        if name and name not in number_of:
            own, number_of[name] = name, 1
        else:
            own = f"column {number}"
            while own in taken or name:
                number_of[name] = number_of.get(name, 1) + 1
                own = f"{name or own} ({number_of[name]})"
                if own not in taken:
                    break
            taken.add(own)
        if name and own != name:
            notes.append(f"column {number} has the same name as another, {name!r}; it is called {own!r} here.")
        found.append(own)
    if len(notes) > MOST_NOTES:
        notes[MOST_NOTES:] = [f"{len(notes) - MOST_NOTES} more columns have the same name as another."]
    return found, notes


# ------------------------------------------------------------------------------------------------------------- bounds


def _check_size(content: bytes, format: str, name: str) -> None:
    """Refuse what would become more than the limits."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            parts = [one for one in archive.infolist() if one.filename.lower().endswith((".xml", ".rels"))]
            if len({one.filename.lstrip("/").lower() for one in parts}) < len(parts):
                raise zipfile.BadZipFile("two parts have one name")
            unpacked: dict[str, bytes] = {}
            left = MOST_UNPACKED
            for part in parts:
                unpacked[part.filename.lstrip("/").lower()] = found = _unpacked(archive, part, left, name)
                left -= len(found)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError, OSError) as error:
        if isinstance(error, TableError):
            raise
        raise TableError(f"{name} cannot be read as {format}: it is damaged, has a password, or is none.") from error
    if format == "ods":
        counted = _OpenDocument().counted(unpacked.get("content.xml", b""), name)
        _refuse(name, *counted)
        return
    texts = next((xml for path, xml in unpacked.items() if path.endswith("sharedstrings.xml")), b"")
    starts = np.array([one.start() for one in ITEM.finditer(texts)], dtype=np.int64)
    sizes = np.diff(np.append(starts, len(texts)))
    for xml in unpacked.values():
        if b"sheetData" in xml:
            _check_sheet(xml, sizes, name)


def _unpacked(archive: zipfile.ZipFile, part: zipfile.ZipInfo, left: int, name: str) -> bytes:
    part.file_size = left + 2 * STEP  # what the archive says of its sizes need not be true
    found = bytearray()
    with archive.open(part) as stream:
        while piece := stream.read(STEP):
            found += piece
            if len(found) > left:
                raise TableError(f"{name} unpacks to more than {MOST_UNPACKED:,} bytes; {LARGE}.")
    return bytes(found)


def _check_sheet(xml: bytes, sizes: Any, name: str) -> None:
    if b"<!" in xml:
        raise TableError(f"{name} cannot be read as xlsx: a sheet holds what no spreadsheet program writes.")
    columns, last_row, letters = set(), 0, 0
    longest = int(sizes.max(initial=0))
    may_be_long = longest * len(CELL.findall(xml)) > MOST_LETTERS  # else it need not be known which cell has which text
    for window in _windows(xml):
        found = REFERENCE.findall(window)
        columns |= {column for column, _ in found}
        last_row = max([last_row, *(int(row) for row in {row for _, row in found})])
        last_row = max([last_row, *map(int, ROW_NUMBER.findall(window))])
        if may_be_long and letters <= MOST_LETTERS:
            places = np.array(SHARED.findall(window), dtype="S9").astype(np.int64)
            letters += int(sizes[places[places < len(sizes)]].sum())
    n_rows = max(last_row, len(ROW.findall(xml)))
    most = max((len(CELL.findall(row)) for row in _rows(xml)), default=0)
    n_columns = max([most, *(_column_number(column) for column in columns)])
    _refuse(name, n_rows, n_columns, letters)


def _windows(xml: bytes) -> Any:
    """Pieces of whole rows."""
    start = 0
    while start < len(xml):
        end = xml.find(b"row>", start + STEP)
        end = len(xml) if end < 0 else end + 4
        yield xml[start:end]
        start = end


def _rows(xml: bytes) -> Any:
    starts = [one.start() for one in ROW.finditer(xml)]
    for start, end in zip(starts, [*starts[1:], len(xml)], strict=False):
        yield xml[start:end]


def _column_number(letters: bytes) -> int:
    number = 0
    for letter in letters.upper():
        number = 26 * number + letter - ord("A") + 1
    return number


def _refuse(name: str, n_rows: int, n_columns: int, n_letters: int) -> None:
    if n_rows * n_columns > MOST_CELLS:
        raise TableError(
            f"{name}: a sheet has a cell in row {n_rows:,} and one in column {n_columns:,}, and {MOST_CELLS:,} cells "
            f"are read at most; delete what lies beyond the table, or {LARGE}."
        )
    if n_letters > MOST_LETTERS:
        raise TableError(f"{name}: the cells of a sheet have more than {MOST_LETTERS:,} letters; {LARGE}.")


class _OpenDocument:
    """Counts the cells of the largest sheet, repeated ones as often as they are meant."""

    def __init__(self) -> None:
        self.rows = self.columns = self.letters = 0
        self._row = self._column = self._repeats = self._row_repeats = self._own = 0
        self._largest = (0, 0)

    def counted(self, xml: bytes, name: str) -> tuple[int, int, int]:
        """Rows, columns and letters."""
        parser = expat.ParserCreate()
        parser.StartElementHandler, parser.EndElementHandler = self._begin, self._end
        parser.CharacterDataHandler = self._text
        try:
            parser.Parse(xml, True)
        except expat.ExpatError as error:
            raise TableError(f"{name} cannot be read as ods: {error}.") from error
        return (*self._largest, self.letters)

    def _begin(self, element: str, attributes: dict[str, str]) -> None:
        kind = element.rpartition(":")[2]
        if kind == "table":
            self._row = self.rows = self.columns = 0
        elif kind == "table-row":
            self._row_repeats, self._column = _times(attributes, "number-rows-repeated"), 0
            self._row += self._row_repeats
        elif kind in ("table-cell", "covered-table-cell"):
            self._repeats, self._own = _times(attributes, "number-columns-repeated"), 0
            self._column += self._repeats
            if any(one.rpartition(":")[2] in ("value", "date-value", "string-value") for one in attributes):
                self._own = sum(map(len, attributes.values()))

    def _text(self, text: str) -> None:
        self._own += len(text.strip())

    def _end(self, element: str) -> None:
        kind = element.rpartition(":")[2]
        if kind in ("table-cell", "covered-table-cell") and self._own:
            self.letters += self._own * self._repeats * self._row_repeats
            self.rows, self.columns = self._row, max(self.columns, self._column)
            self._own = 0
        elif kind == "table":
            self._largest = max(self._largest, (self.rows, self.columns), key=lambda size: size[0] * size[1])


def _times(attributes: dict[str, str], which: str) -> int:
    told = next((value for name, value in attributes.items() if name.rpartition(":")[2] == which), "1")
    return min(int(told), 10**9) if told.isascii() and told.isdigit() and len(told) < 20 else 10**9
