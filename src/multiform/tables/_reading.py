"""From files to frames: CSV, TSV, workbooks, Parquet, Arrow and NPZ, whole or a batch of rows at a time.

Text files are read as text throughout: which column is a number is decided once, on the training data, and not anew
by whatever stands in the first rows of the next file. They may be in any encoding; titles above the names of the
columns and a line as ``sep=;`` are left out. They are read a block of bytes at a time: memory does not grow with the
file, and every error knows its line. A block ends at a line end outside quoted cells, which begin with a quotation
mark; one inside a bare cell, as of 5" pipe, is a letter. Polars parses a block whose marks all stand where
they should; any other is read cell by cell, slowly, which either makes sense of it or says in which line it does not.
"""

from __future__ import annotations

import glob
import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from multiform._typing import Indices
from multiform.columns import TableError, as_text, has_decimal_commas, polars
from multiform.tables._encoding import Utf8, told
from multiform.tables._workbooks import column_names, header_row, read_sheet

FORMAT_SUFFIXES = {
    "csv": (".csv", ".txt"),
    "tsv": (".tsv", ".tab"),
    "xlsx": (".xlsx", ".xlsm"),
    "ods": (".ods",),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
    "npz": (".npz",),
}
FORMATS = tuple(FORMAT_SUFFIXES)
TEXT_FORMATS = ("csv", "tsv")
WORKBOOKS = ("xlsx", "ods")
SEPARATORS = (",", "\t", ";", "|")
STANDARD_INPUT = "-"
BATCH_ROWS = 20_000
BLOCK_BYTES = 4_000_000
STEP_BYTES = 1_000_000
MOST_BYTES = 256_000_000  # of one record
MOST_COLUMNS = 1_000_000
QUOTE = ord('"')
BARE_RETURN = re.compile(r"\r(?!\n)")
BLANK_LINES = re.compile(rb"(?m)^(?:\r?\n)+")
SEPARATOR_LINE = re.compile(rb'"?sep=([,;|\t])"?[,;|\t]*\r?\n', re.IGNORECASE)
FIRST_LINES, FIRST_BYTES = 30, 100_000  # in which the names of the columns must stand, if titles come before
HEADER_MARKS = re.compile(rb'(?:\A|(?<=[,\t;|]))"[^"]*(?:""[^"]*)*"|\n')


@dataclass(frozen=True)
class Source:
    """A file, or standard input (``-``), and how to read it; or a table in memory, its bytes the `content`.

    Attributes
    ----------
    path, format : str
    content : bytes or None
    encoding : str or None
        Of a text file; None recognises it.
    sheet : str or None
        Of a workbook; None is the first.
    """

    path: str
    format: str
    content: bytes | None = field(default=None, repr=False)
    encoding: str | None = field(default=None, repr=False)
    sheet: str | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """What errors call it."""
        return "standard input" if self.path == STANDARD_INPUT else self.path

    def bytes(self) -> Any:
        """All of it."""
        if self.content is not None:
            return self.content
        return sys.stdin.buffer.read() if self.path == STANDARD_INPUT else Path(self.path).read_bytes()


@dataclass(frozen=True)
class Dialect:
    """How a source is written, so that answers can be written alike.

    Attributes
    ----------
    separator, encoding : str
        Of a text file, as Python calls the encoding.
    decimal_comma : bool
    notes : tuple of str
        What was decided in reading it, in sentences for people.
    """

    separator: str = ","
    encoding: str = "utf-8"
    decimal_comma: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Batch:
    """Some rows of a source.

    Attributes
    ----------
    frame : polars DataFrame
    source : Source
    first_line : int
        Where they begin in a text file, else the number of the first row.
    share : float or None
        How much of the source has been read, from 0 to 1; None if its length is not known.
    lines : ndarray of int or None
        The line of each row, where blank lines stand between them.
    dialect : Dialect
    """

    frame: Any
    source: Source
    first_line: int
    share: float | None
    lines: Indices | None = None
    dialect: Dialect = Dialect()

    def located(self, error: TableError, row: int | None = None) -> TableError:
        """The error with the file, and the line where a row of this batch is known."""
        row = error.row if row is None else row
        if row is None:
            return TableError(f"{self.source.name}: {error}")
        place = f"row {self.first_line + row}"
        if self.lines is not None:
            place = f"line {self.lines[row]}"
        elif self.source.format in TEXT_FORMATS:
            line_ends = sum(series.str.count_matches("\n", literal=True).sum() for series in self.frame.head(row))
            place = f"line {self.first_line + row + line_ends}"
        return TableError(f"{self.source.name}, {place}, column {error.column!r}: {error.sentence}")


def located(error: TableError, found: Sequence[Source]) -> TableError:
    """The error with the file and the line of its row, counted over all sources.

    Standard input cannot be read again, so there the row has to do.
    """
    if error.row is None or any(source.path == STANDARD_INPUT for source in found):
        return error
    before = 0
    for batch in batches(found):
        if error.row < before + len(batch.frame):
            return batch.located(error, error.row - before)
        before += len(batch.frame)
    return error


def sources(
    paths: Sequence[str | os.PathLike[str]],
    format: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
) -> list[Source]:
    """The sources behind paths and patterns (``part-*.csv``), the files of a pattern in sorted order.

    Parameters
    ----------
    paths : sequence of path-like
    format : str, default=None
        What is in them, if their names do not say it.
    encoding : str, default=None
        Of text files; recognised if it is not given.
    sheet : str, default=None
        Of workbooks; the first if it is not given.

    Examples
    --------
    >>> from multiform.tables import sources
    >>> sources(["-"])
    [Source(path='-', format='csv')]
    >>> sources(["no-such-file.csv"])
    Traceback (most recent call last):
    ...
    multiform.columns._cells.TableError: There is no file no-such-file.csv.
    """
    if format is not None and format not in FORMATS:
        raise TableError(f"The format must be one of {', '.join(FORMATS)}; got {format!r}.")
    found: list[Source] = []
    for given in [os.fspath(path) for path in paths]:
        if given == STANDARD_INPUT:
            found.append(Source(given, format or "csv", None, encoding, sheet))
            continue
        matches = [given] if os.path.exists(given) else sorted(glob.glob(given, recursive=True))
        if not matches:
            what = "No file matches" if glob.has_magic(given) else "There is no file"
            raise TableError(f"{what} {given}.")
        found += [Source(match, format or _format_of(match), None, encoding, sheet) for match in matches]
    if sheet is not None and found and not any(one.format in WORKBOOKS for one in found):
        raise TableError(f"{found[0].name} is no Excel file and has no sheets; leave --sheet out.")
    return found


def _format_of(path: str) -> str:
    if os.path.isdir(path):
        raise TableError(f"{path} is a folder; give its files, for example {os.path.join(path, '*.csv')}.")
    suffixes = [suffix.lower() for suffix in Path(path).suffixes if suffix.lower() != ".gz"]
    for format, known in FORMAT_SUFFIXES.items():
        if suffixes and suffixes[-1] in known:
            return format
    raise TableError(
        f"{path}: the name does not say what is in it; name it .csv, .tsv, .xlsx, .ods, .parquet, .arrow or .npz, or "
        "give the format (--format)."
    )


def batches(found: Iterable[Source], rows: int = BATCH_ROWS) -> Iterator[Batch]:
    """The rows of all sources in order, some at a time; every source must have the columns of the first."""
    columns: list[str] | None = None
    first, n_rows = "", 0
    for source in found:
        for batch in _batches_of(source, rows):
            n_rows += len(batch.frame)
            if columns is None:
                columns, first = batch.frame.columns, source.name
            elif batch.frame.columns != columns:
                found_here, together = set(batch.frame.columns), "; several files are read as one table."
                if lost := [name for name in columns if name not in found_here]:
                    raise TableError(f"{source.name} has no column {lost[0]!r}, which {first} has{together}")
                if new := sorted(found_here - set(columns), key=batch.frame.columns.index):
                    raise TableError(f"{source.name} has a column {new[0]!r}, which {first} has not{together}")
                batch = replace(batch, frame=batch.frame.select(columns))
            if len(batch.frame):
                yield batch
    if not n_rows:
        raise TableError(f"{first} has no rows." if first else "There is no file to read.")


def read(
    found: Sequence[Source],
    progress: Callable[[float | None], None] = lambda share: None,
    note: Callable[[str], None] = lambda sentence: None,
) -> Any:
    """All rows of all sources as one polars frame.

    `progress` hears how much of each source has been read, `note` what was decided in reading it, in sentences.
    """
    frames = []
    said: set[str] = set()
    for batch in batches(found):
        frames.append(batch.frame)
        progress(batch.share)
        for sentence in batch.dialect.notes:
            if sentence not in said:
                note(sentence)
                said.add(sentence)
    if len({tuple(frame.dtypes) for frame in frames}) > 1:  # a column may be text in one sheet, and numbers in the next
        frames = _alike(frames)
    return polars().concat(frames, how="vertical_relaxed")


def _alike(frames: list[Any]) -> list[Any]:
    """Columns that are text in one frame and none in another are text in all."""
    pl = polars()
    names = {name for frame in frames for name, dtype in frame.schema.items() if dtype == pl.String}
    return [
        frame.with_columns(as_text(frame[one]) for one in names if frame[one].dtype != pl.String) for frame in frames
    ]


def _batches_of(source: Source, rows: int) -> Iterator[Batch]:
    pl = polars()
    if source.format in TEXT_FORMATS:
        yield from _delimited(source)
        return
    if source.format == "npz":
        yield Batch(_read_npz(source), source, 1, 1.0)
        return
    if source.format in WORKBOOKS:
        given = _tried(source, source.bytes)
        sheet = _tried(source, lambda: read_sheet(given, source.format, source.name, source.sheet))
        yield Batch(sheet.frame, source, sheet.first_row, 1.0, dialect=Dialect(notes=sheet.notes))
        return
    # Parquet and Arrow, a slice at a time; standard input and memory are read as a whole.
    if source.path == STANDARD_INPUT or source.content is not None:
        reader = pl.read_parquet if source.format == "parquet" else pl.read_ipc
        content = source.bytes()
        scanned = _tried(source, lambda: reader(content).lazy())
    else:
        scan = pl.scan_parquet if source.format == "parquet" else pl.scan_ipc
        scanned = _tried(source, lambda: scan(glob.escape(source.path)))  # what looks like a pattern has been expanded
    n_rows = _tried(source, lambda: scanned.select(pl.len()).collect().item())
    for start in range(0, max(1, n_rows), rows):
        frame = _tried(source, lambda at=start: scanned.slice(at, rows).collect())
        yield Batch(frame, source, start + 1, min(1.0, (start + rows) / max(1, n_rows)))


def _tried(source: Source, read_it: Any) -> Any:
    """What `read_it` returns, or a sentence with whatever polars, NumPy and zip say of bytes that are not theirs."""
    try:
        return read_it()
    except (TableError, ImportError):
        raise
    except BaseException as error:
        if not (isinstance(error, Exception) or type(error).__name__ == "PanicException"):  # a Ctrl-C
            raise
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TableError(f"{source.name} cannot be read as {source.format}: {reason.rstrip('.')}.") from error


def _read_npz(source: Source) -> Any:
    """`X` of shape (n, p), with or without `y` and `feature_names`; or arrays of one length, a column each."""

    def arrays_of() -> dict[str, Any]:
        with np.load(io.BytesIO(source.bytes()), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}

    arrays = _tried(source, arrays_of)
    names = arrays.pop("feature_names", arrays.pop("columns", None))
    matrix = arrays.pop("X", None)
    columns: dict[str, Any] = {}
    if matrix is not None:
        if matrix.ndim != 2:
            raise TableError(f"{source.name}: X must have two dimensions; it has {matrix.ndim}.")
        names = [f"x{column}" for column in range(matrix.shape[1])] if names is None else names
        if len(names) != matrix.shape[1]:
            raise TableError(f"{source.name}: X has {matrix.shape[1]} columns, and there are {len(names)} names.")
        columns = {str(name): matrix[:, column] for column, name in enumerate(names)}
    n_rows = len(matrix) if matrix is not None else None
    for name, array in arrays.items():
        if array.ndim == 1 and (n_rows is None or len(array) == n_rows):
            columns[name] = array
            n_rows = len(array)
        elif name == "y" or matrix is None:
            raise TableError(
                f"{source.name}: the array {name!r} of shape {array.shape} is not a column of {n_rows} rows."
            )
    if not columns:
        raise TableError(f"{source.name} holds no array X of shape (n, p), and no columns.")
    return polars().DataFrame(columns)


# --------------------------------------------------------------------------------------------------------- text tables


def _delimited(source: Source) -> Iterator[Batch]:
    """A text table; gzip is recognised."""
    with ExitStack() as stack:
        stream: Any = sys.stdin.buffer
        size = 0
        if source.content is not None:
            size, stream = len(source.content), io.BufferedReader(io.BytesIO(source.content))
        elif source.path != STANDARD_INPUT:
            try:
                stream = stack.enter_context(open(source.path, "rb"))
                size = os.fstat(stream.fileno()).st_size
            except OSError as error:
                raise TableError(f"{source.name} cannot be read: {error.strerror}.") from error
        raw = stream
        if stream.peek(2)[:2] == b"\x1f\x8b":
            stream = stack.enter_context(gzip.open(stream))
        try:
            text, dialect = Utf8(stream, source.name, source.encoding), None
            for part in _parts(text, source):
                if dialect is None or dialect.encoding != text.encoding:
                    dialect = _dialect(part, text.encoding, source)
                share = min(1.0, raw.tell() / size) if size else None
                yield Batch(part.frame, source, part.line, share, part.lines, dialect)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise TableError(f"{source.name} is damaged: {str(error).rstrip('.')}.") from error


class _Part(NamedTuple):
    """A frame, the line that it begins at, and the line of each row where blank lines stand between them."""

    frame: Any
    line: int
    lines: Indices | None = None
    separator: str = ","
    notes: tuple[str, ...] = ()


def _dialect(part: _Part, encoding: str, source: Source) -> Dialect:
    notes = part.notes
    if source.encoding is None and encoding not in ("utf-8", "utf-8-sig"):
        notes = (f"{source.name} is read as {told(encoding)} text; --encoding names another encoding.", *notes)
    commas = part.separator != "," and has_decimal_commas(part.frame)  # else they would have to be quoted
    return Dialect(part.separator, encoding, commas, notes)


def _parts(stream: Any, source: Source) -> Iterator[_Part]:
    """Frames of text columns."""
    name, head = source.name, _piece(stream)
    line, separator = 1, "\t" if source.format == "tsv" else None
    head, line = _without_blanks(stream, head, line)
    if found := SEPARATOR_LINE.match(head):  # as spreadsheet programs write, and read
        separator = found[1].decode()
        head, line = _without_blanks(stream, head[found.end() :], line + 1)
    if not head.strip():
        raise TableError(f"{name} is empty; its first line must name the columns.")
    titles = _n_titles(head, separator)
    for _ in range(titles):
        head = head[head.index(b"\n") + 1 :]
    line += titles
    while not (end := _header_end(head)) and (piece := _piece(stream, _bounded(head, f"{name}, line {line}"))):
        head += piece
    parser = _Parser(head[: end or len(head)], name, separator, line)
    if titles:
        above = f"{name}: line {line} names the columns; what stands above it was left out."
        parser.notes = (above, *parser.notes)
    line += head[:end].count(b"\n")
    rows = 0
    for block, is_clean in _blocks(stream, head[end:] if end else b"", parser.separator.encode(), name, line):
        for part in parser.parts(block, line, is_clean):
            rows += len(part.frame)
            if len(part.frame):
                yield part
        line += block.count(b"\n")
    if not rows:
        raise TableError(f"{name} has a first line and no rows after it.")


def _without_blanks(stream: Any, head: bytes, line: int) -> tuple[bytes, int]:
    """Without the blank lines that it begins with, and the line that it begins at then."""
    while (blank := len(head) - len(head.lstrip(b"\r\n"))) and head:
        line += head.count(b"\n", 0, blank)
        head = head[blank:] or _piece(stream)
    return head, line


def _n_titles(head: bytes, separator: str | None) -> int:
    """How many lines stand above the one that names the columns: rows below that all have as many cells as it."""
    window = head[:FIRST_BYTES]
    if len(window) < len(head):
        window = window[: window.rfind(b"\n") + 1]
    text = window.decode("utf-8", "replace").removesuffix("\n")
    first = text.partition("\n")[0]
    marks = [mark for mark in (SEPARATORS if separator is None else separator) if mark in text]
    most = max(marks, key=first.count, default="\0")
    second = text[len(first) + 1 :].partition("\n")[0]
    if 0 < first.count(most) == second.count(most) and 2 * most not in first:  # as nearly always
        return 0
    best = (0, 0)
    for mark in marks:
        if first.count(mark) >= MOST_COLUMNS:
            return 0
        records = [one for one, _ in zip(_records(text, mark), range(FIRST_LINES), strict=False)]
        records = records[:-1] if len(window) < len(head) and len(records) < FIRST_LINES else records
        rows = [[cell.strip() for cell in cells] for cells, _ in records]
        at = header_row(rows) if rows else 0
        widths = {len(cells) for cells in rows[at:] if any(cells)}
        if at and at + 1 < len(rows) and len(widths) == 1:
            best = max(best, (widths.pop(), records[at][1]))
        elif not at and rows and len(widths) == 1:
            best = max(best, (widths.pop(), 0))
    return best[1]


def _piece(stream: Any, size: int = 0) -> bytes:
    """About a block, or more; read in small steps, as a long read from a pipe can miss a Ctrl-C."""
    steps, wanted = [], max(size, BLOCK_BYTES)
    while wanted > 0 and (step := stream.read1(min(STEP_BYTES, wanted))):
        steps.append(step)
        wanted -= len(step)
    return b"".join(steps)


def _bounded(record: bytes, where: str) -> int:
    """The length of a record that has not ended. The next piece is as long as all before, so that time is linear."""
    if len(record) >= MOST_BYTES:
        raise TableError(f"{where}: the record that begins here has more than {MOST_BYTES:,} bytes.")
    return len(record)


def _header_end(head: bytes) -> int:
    """Just after the first line end outside a quoted cell; 0 if there is none."""
    return next((found.end() for found in HEADER_MARKS.finditer(head) if found.group() == b"\n"), 0)


def _blocks(stream: Any, kept: bytes, separator: bytes, name: str, line: int) -> Iterator[tuple[bytes, bool]]:
    """Pieces of whole records, the first of which begins in `line`, and whether their quotation marks are in order."""
    while True:
        quotes = _Quotes.of(kept, separator)
        if (stray := quotes.stray) is not None:
            raise _never_closed(name, line + kept.count(b"\n", 0, stray))
        if end := quotes.last_line_end():
            yield kept[:end], quotes.are_clean
            line += kept.count(b"\n", 0, end)
            kept = kept[end:]
        open_line = line if quotes.open is None else line + kept.count(b"\n", 0, quotes.open - end)
        if not (piece := _piece(stream, _bounded(kept, f"{name}, line {open_line}"))):
            break
        kept += piece
    if quotes.open is not None:
        raise _never_closed(name, open_line)
    if kept:
        yield kept, quotes.are_clean


def _never_closed(name: str, line: int) -> TableError:
    return TableError(
        f"{name}, line {line}: a quotation mark is never closed; close it, or write it twice inside a quoted cell."
    )


@dataclass(frozen=True)
class _Quotes:
    """The quoted cells of records: where each begins, and where it ends, just after its last mark.

    `open` is where one begins that has not ended yet. `are_clean`: no other cell has a quotation mark, and nothing
    follows the last mark of a quoted one.
    """

    content: bytes
    separator: bytes
    starts: Indices
    ends: Indices
    open: int | None
    are_clean: bool

    @classmethod
    def of(cls, content: bytes, separator: bytes) -> _Quotes:
        """From records, the first from its beginning."""
        none = np.empty(0, dtype=np.intp)
        if b'"' not in content:
            return cls(content, separator, none, none, None, True)
        letters = np.frombuffer(content, dtype=np.uint8)
        marks = np.flatnonzero(letters == QUOTE)
        first, last = marks[0::2], marks[1::2]
        # In order, marks come in pairs: a cell, or a part of one up to a doubled mark.
        joined = last[: len(first) - 1] + 1 == first[1:]
        opens = np.isin(letters[first - 1], list(separator + b"\n"))
        opens[1:] |= joined
        opens[0] |= first[0] == 0
        closes = (last + 1 == len(letters)) | np.isin(letters[(last + 1) % len(letters)], list(separator + b"\r\n"))
        closes[: len(joined)] |= joined
        if opens.all() and closes.all():
            return cls(content, separator, first[: len(last)], last + 1, _last(first, len(last)), True)
        cell = re.compile(rb"(?:\A|(?<=[\n" + re.escape(separator) + rb']))"[^"]*(?:""[^"]*)*("?)')
        spans = np.array([(*one.span(), bool(one[1])) for one in cell.finditer(content)], dtype=np.intp).reshape(-1, 3)
        closed = spans[spans[:, 2] == 1]
        return cls(content, separator, closed[:, 0], closed[:, 1], _last(spans[:, 0], len(closed)), False)

    def last_line_end(self) -> int:
        """Just after the last line end outside quoted cells; 0 if there is none."""
        until = len(self.content) if self.open is None else self.open
        for cell in range(len(self.starts) - 1, -1, -1):
            if found := self.content.rfind(b"\n", self.ends[cell], until) + 1:
                return found
            until = int(self.starts[cell])
        return self.content.rfind(b"\n", 0, until) + 1

    @property
    def stray(self) -> int | None:
        """Where a quoted cell begins that goes on to another line, and ends in the midst of a cell there."""
        if self.are_clean:
            return None
        for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True):
            following = self.content[end : end + 1]
            if following not in (b"", b" ", b"\t", b"\r", b"\n", self.separator) and b"\n" in self.content[start:end]:
                return int(start)
        return None


def _last(starts: Indices, n_closed: int) -> int | None:
    """Where the cell begins that is not closed."""
    return int(starts[n_closed]) if len(starts) > n_closed else None


def _text(content: bytes, name: str, line: int) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        bad = line + content.count(b"\n", 0, error.start)
        raise TableError(
            f"{name}, line {bad}: a character is not UTF-8, though others before are; name its encoding "
            "(--encoding, for example cp1252)."
        ) from error


def _records(text: str, separator: str) -> Iterator[tuple[list[str], int]]:
    """The cells of each record, and how many line ends there are before it.

    As Python's csv module reads them, but that module takes no cell of more than 131,072 letters, and takes a bare
    carriage return for a line end.

    >>> list(_records('a,"b, ""c""\\n"\\r\\n5" pipe,\\n', ","))
    [(['a', 'b, "c"\\n'], 0), (['5" pipe', ''], 2)]
    """
    mark = re.escape(separator)
    cell = re.compile(rf'(?:"([^"]*(?:""[^"]*)*)"([^{mark}\n]*)|([^{mark}\n]*))({mark}|\n|\Z)')
    cells: list[str] = []
    line = before = 0
    for found in cell.finditer(text):
        if found.start() == len(text) and not cells:
            return  # nothing comes after the last line end
        quoted, rest, bare, end = found.groups()
        rest = bare if quoted is None else rest
        rest = rest if end == separator else rest.removesuffix("\r")
        cells.append(rest if quoted is None else quoted.replace('""', '"') + rest)
        line += found.group().count("\n")
        if end != separator:
            yield cells, before
            cells, before = [], line


class _Parser:
    """From blocks to frames, by the separator and the column names of the first record; errors call the file `name`."""

    def __init__(self, header: bytes, name: str, separator: str | None, line: int) -> None:
        self.name = name
        text = _text(header, name, line)
        if "\x00" in text:
            raise TableError(f"{name} is not a text table: its first line holds zero bytes.")
        text = text.rstrip("\r\n")
        if BARE_RETURN.search(text):
            raise TableError(f"{name}, line {line}: a bare carriage return ends it; convert the line ends.")
        marks = [mark for mark in SEPARATORS if mark in text] if separator is None else [separator]
        marks = marks or [SEPARATORS[0]]
        if max(map(text.count, marks)) >= MOST_COLUMNS:
            raise TableError(f"{name}, line {line}: the first line names more than {MOST_COLUMNS:,} columns.")
        named = {mark: next(_records(text, mark))[0] for mark in marks}
        self.separator = max(named, key=lambda mark: len(named[mark]))
        # The row names that other programs write come first and have no name.
        self.columns, renamed = column_names(named[self.separator])
        self.notes = tuple(f"{name}, line {line}: {one}" for one in renamed)
        quotes = _Quotes.of(text.encode(), self.separator.encode())
        if quotes.open is not None or quotes.stray is not None:
            raise _never_closed(name, line)

    def parts(self, block: bytes, line: int, is_clean: bool) -> Iterator[_Part]:
        """The records of a block that begins at this line.

        Polars would read a blank line as a row of gaps, which it is in a table of one column only. Where there are
        quotation marks such a line may stand inside a cell.
        """
        has_blank = len(self.columns) > 1 and BLANK_LINES.search(block) is not None
        if not is_clean or (has_blank and b'"' in block):
            yield self._parse_slowly(block, line)
        elif not has_blank:
            yield self._parse(block, line)
        elif rows := BLANK_LINES.sub(b"", block):
            filled = [number for number, text in enumerate(block.split(b"\n"), start=line) if text not in (b"", b"\r")]
            yield self._parse(rows, line, np.array(filled))

    def _parse(self, block: bytes, line: int, lines: Indices | None = None) -> _Part:
        pl, width = polars(), len(self.columns)
        # Names of our own making, so that nothing in the file's names can matter here.
        plain = [f"c{number}" for number in range(width)]
        head = self.separator.join(plain).encode() + b"\n"
        try:
            frame = pl.read_csv(io.BytesIO(head + block), separator=self.separator, infer_schema_length=0)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            return self._parse_slowly(block, line, lines)
        # Polars fills a line that ends too early with gaps; that can be only where the last cell is one.
        if width > 1 and (frame.columns != plain or frame[plain[-1]].null_count()):
            if b'"' in block or frame.width != width:
                return self._parse_slowly(block, line, lines)
            for number, text in enumerate(block.split(b"\n")):
                n_cells = text.count(self.separator.encode()) + 1
                if text.strip(b"\r") and n_cells != width:
                    raise self._wrong_width(n_cells, line + number if lines is None else lines[number])
        return self._part(frame.rename(dict(zip(plain, self.columns, strict=True))), line, lines)

    def _parse_slowly(self, block: bytes, line: int, lines: Indices | None = None) -> _Part:
        """Cell by cell; `lines` are those of a block of which the blank ones are gone."""
        pl, width = polars(), len(self.columns)
        records: list[list[str | None]] = []
        found: list[int] = []
        for cells, before in _records(_text(block, self.name, line), self.separator):
            at = line + before if lines is None else int(lines[before])
            if cells == [""] and width > 1:
                continue
            if len(cells) == width + 1 and not cells[-1]:  # a separator at the end of the line
                cells.pop()
            if len(cells) != width:
                if any("\n" in cell for cell in cells):
                    raise _never_closed(self.name, at)
                raise self._wrong_width(len(cells), at)
            records.append([cell or None for cell in cells])
            found.append(at)
        frame = pl.DataFrame(records, schema=dict.fromkeys(self.columns, pl.String), orient="row")
        return self._part(frame, line, np.array(found))

    def _part(self, frame: Any, line: int, lines: Indices | None) -> _Part:
        return _Part(frame, line, lines, self.separator, self.notes)

    def _wrong_width(self, found: int, line: int) -> TableError:
        wanted = len(self.columns)
        where = f"column {wanted + 1}" if found > wanted else f"column {self.columns[found]!r}"
        return TableError(
            f"{self.name}, line {line}, {where}: the line has {found} cell{'s' * (found != 1)}, "
            f"and the first line names {wanted} columns."
        )
