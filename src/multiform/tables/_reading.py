"""From files to frames: CSV, TSV, Parquet, Arrow and NPZ, whole or a batch of rows at a time.

Text files are read as text throughout: which column is a number is decided once, on the training data, and not anew
by whatever stands in the first rows of the next file. They are read a block of bytes at a time: memory does not grow
with the file, and every error knows its line. A block ends at a line end outside quotation marks. Polars parses it; a
block that polars cannot parse is read again, slowly, by Python's csv module, which either makes sense of it or says in
which line it does not.
"""

from __future__ import annotations

import codecs
import csv
import glob
import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from multiform.columns import TableError, polars

FORMAT_SUFFIXES = {
    "csv": (".csv", ".txt"),
    "tsv": (".tsv", ".tab"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
    "npz": (".npz",),
}
FORMATS = tuple(FORMAT_SUFFIXES)
TEXT_FORMATS = ("csv", "tsv")
SEPARATORS = (",", "\t", ";", "|")
STANDARD_INPUT = "-"
BATCH_ROWS = 20_000
BLOCK_BYTES = 4_000_000
STEP_BYTES = 1_000_000
MOST_BYTES = 256_000_000  # of one record
BLANK_LINES = re.compile(rb"(?m)^(?:\r?\n)+")


@dataclass(frozen=True)
class Source:
    """A file, or standard input (``-``), and how to read it."""

    path: str
    format: str

    @property
    def name(self) -> str:
        """What errors call it."""
        return "standard input" if self.path == STANDARD_INPUT else self.path


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
    """

    frame: Any
    source: Source
    first_line: int
    share: float | None

    def located(self, error: TableError, row: int | None = None) -> TableError:
        """The error with the file, and the line where a row of this batch is known."""
        row = error.row if row is None else row
        if row is None:
            return TableError(f"{self.source.name}: {error}")
        place = f"row {self.first_line + row}"
        if self.source.format in TEXT_FORMATS:
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


def sources(paths: Sequence[str | os.PathLike[str]], format: str | None = None) -> list[Source]:
    """The sources behind paths and patterns (``part-*.csv``), the files of a pattern in sorted order.

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
            found.append(Source(given, format or "csv"))
            continue
        matches = [given] if os.path.exists(given) else sorted(glob.glob(given, recursive=True))
        if not matches:
            what = "No file matches" if glob.has_magic(given) else "There is no file"
            raise TableError(f"{what} {given}.")
        found += [Source(match, format or _format_of(match)) for match in matches]
    return found


def _format_of(path: str) -> str:
    if os.path.isdir(path):
        raise TableError(f"{path} is a folder; give its files, as {os.path.join(path, '*.csv')}.")
    suffixes = [suffix.lower() for suffix in Path(path).suffixes if suffix.lower() != ".gz"]
    for format, known in FORMAT_SUFFIXES.items():
        if suffixes and suffixes[-1] in known:
            return format
    raise TableError(
        f"{path}: the name does not say what is in it; name it .csv, .tsv, .parquet, .arrow or .npz, or give the "
        "format (--format)."
    )


def batches(found: Iterable[Source], rows: int = BATCH_ROWS) -> Iterator[Batch]:
    """The rows of all sources in order, some at a time; every source must have the columns of the first."""
    columns: list[str] | None = None
    first = ""
    for source in found:
        for batch in _batches_of(source, rows):
            if columns is None:
                columns, first = batch.frame.columns, source.name
            elif batch.frame.columns != columns:
                if lost := [name for name in columns if name not in batch.frame.columns]:
                    raise TableError(f"{source.name} has no column {lost[0]!r}, which {first} has.")
                if new := [name for name in batch.frame.columns if name not in columns]:
                    raise TableError(f"{source.name} has a column {new[0]!r}, which {first} has not.")
                batch = replace(batch, frame=batch.frame.select(columns))
            yield batch


def read(found: Sequence[Source], progress: Callable[[float | None], None] = lambda share: None) -> Any:
    """All rows of all sources as one polars frame; `progress` hears how much of each source has been read."""
    frames = []
    for batch in batches(found):
        frames.append(batch.frame)
        progress(batch.share)
    return polars().concat(frames, how="vertical_relaxed")


def _batches_of(source: Source, rows: int) -> Iterator[Batch]:
    pl = polars()
    if source.format in TEXT_FORMATS:
        yield from _delimited(source)
        return
    if source.format == "npz":
        yield Batch(_read_npz(source), source, 1, 1.0)
        return
    # Parquet and Arrow, a slice at a time; standard input is read as a whole.
    if source.path == STANDARD_INPUT:
        reader = pl.read_parquet if source.format == "parquet" else pl.read_ipc
        scanned = _tried(source, lambda: reader(sys.stdin.buffer.read()).lazy())
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
    except (Exception, polars().exceptions.PanicException) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TableError(f"{source.name} cannot be read as {source.format}: {reason.rstrip('.')}.") from error


def _read_npz(source: Source) -> Any:
    """`X` of shape (n, p), with or without `y` and `feature_names`; or arrays of one length, a column each."""

    def arrays_of() -> dict[str, Any]:
        content = sys.stdin.buffer.read() if source.path == STANDARD_INPUT else Path(source.path).read_bytes()
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
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
        if source.path != STANDARD_INPUT:
            try:
                stream = stack.enter_context(open(source.path, "rb"))
                size = os.fstat(stream.fileno()).st_size
            except OSError as error:
                raise TableError(f"{source.name} cannot be read: {error.strerror}.") from error
        raw = stream
        if stream.peek(2)[:2] == b"\x1f\x8b":
            stream = stack.enter_context(gzip.open(stream))
        try:
            for frame, line in _frames(stream, source):
                yield Batch(frame, source, line, min(1.0, raw.tell() / size) if size else None)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise TableError(f"{source.name} is damaged: {str(error).rstrip('.')}.") from error


def _frames(stream: Any, source: Source) -> Iterator[tuple[Any, int]]:
    """Frames of text columns, and the line that each begins at."""
    name, blocks = source.name, _blocks(stream, source.name)
    first = next(blocks, b"").removeprefix(codecs.BOM_UTF8)
    if first[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise TableError(f"{name} is UTF-16; convert it to UTF-8, as with iconv -f utf-16 -t utf-8.")
    head = first.lstrip(b"\r\n")
    line = 1 + first.count(b"\n", 0, len(first) - len(head))
    if not head.strip():
        raise TableError(f"{name} is empty; its first line must name the columns.")
    even = (found.end() for found in re.finditer(b"\n", head) if not head.count(b'"', 0, found.end()) % 2)
    end = next(even, len(head))  # of the first record
    if end == len(head) and b"\n" not in head[-1:] and head.count(b'"') % 2:
        raise TableError(f"{name}, line {line}: a quotation mark is never closed.")
    parser = _Parser(head[:end], name, "\t" if source.format == "tsv" else None, line)
    line += head[:end].count(b"\n")
    rows = 0
    for block in chain([head[end:]], blocks):
        for frame, first_line in parser.frames(block, line):
            rows += len(frame)
            if len(frame):
                yield frame, first_line
        line += block.count(b"\n")
    if not rows:
        raise TableError(f"{name} has a first line and no rows after it.")


def _blocks(stream: Any, name: str) -> Iterator[bytes]:
    """Pieces of whole records."""
    kept = b""
    while piece := _piece(stream):
        kept += piece
        end = _last_record_end(kept)
        if end:
            yield kept[:end]
            kept = kept[end:]
        elif len(kept) > MOST_BYTES:
            raise TableError(f"{name}: a record has more than {MOST_BYTES:,} bytes; is a quotation mark never closed?")
    if kept:
        yield kept


def _piece(stream: Any) -> bytes:
    """About a block; read in small steps, as a long read from a pipe can miss a Ctrl-C."""
    steps, size = [], 0
    while size < BLOCK_BYTES and (step := stream.read1(min(STEP_BYTES, BLOCK_BYTES - size))):
        steps.append(step)
        size += len(step)
    return b"".join(steps)


def _last_record_end(content: bytes) -> int:
    """Just after the last line end that has an even number of quotation marks before it; 0 if there is none."""
    end = content.rfind(b"\n") + 1
    quotes = content.count(b'"', 0, end)
    while end and quotes % 2:
        before = content.rfind(b"\n", 0, end - 1) + 1
        quotes -= content.count(b'"', before, end)
        end = before
    return end


def _text(content: bytes, name: str, line: int) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        bad = line + content.count(b"\n", 0, error.start)
        raise TableError(
            f"{name}, line {bad}: a character is not UTF-8; convert the file, as with iconv -f latin1 -t utf-8."
        ) from error


def _cells(text: str, separator: str) -> list[str]:
    """The cells of one record."""
    records = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
    if len(records) > 1:
        raise csv.Error("a bare carriage return ends it; convert the line ends")
    return records[0] if records else []


class _Parser:
    """From blocks to frames, by the separator and the column names of the first record; errors call the file `name`."""

    def __init__(self, header: bytes, name: str, separator: str | None, line: int) -> None:
        self.name = name
        text = _text(header, name, line)
        if "\x00" in text:
            raise TableError(f"{name} is not a text table: its first line holds zero bytes.")
        text = text.rstrip("\r\n")
        try:
            self.separator = separator or max(SEPARATORS, key=lambda mark: len(_cells(text, mark)))
            self.columns = [column.strip() for column in _cells(text, self.separator)]
        except csv.Error as error:
            raise TableError(f"{name}, line {line}: {error}.") from error
        for number, column in enumerate(self.columns, start=1):
            if not column:
                # The row names that other programs write come first and have no name.
                self.columns[number - 1] = column = f"column {number}"
            if self.columns.index(column) != number - 1:
                raise TableError(f"{name}, line {line}, column {number}: the name {column!r} comes twice; rename one.")

    def frames(self, block: bytes, line: int) -> Iterator[tuple[Any, int]]:
        """The records of a block that begins at this line, and the line of each frame's first.

        Polars would read a blank line as a row of gaps, which it is in a table of one column only; so it gets the parts
        between blank lines. Where there are quotation marks such a line may stand inside a cell.
        """
        blank = list(BLANK_LINES.finditer(block)) if len(self.columns) > 1 else []
        if blank and b'"' in block:
            yield self._parse_slowly(block, line), line
            return
        start = 0
        for end, following in [*(lines.span() for lines in blank), (len(block), len(block))]:
            if end > start:
                first_line = line + block.count(b"\n", 0, start)
                yield self._parse(block[start:end], first_line), first_line
            start = following

    def _parse(self, block: bytes, line: int) -> Any:
        pl, width = polars(), len(self.columns)
        # Names of our own making, so that nothing in the file's names can matter here.
        plain = [f"c{number}" for number in range(width)]
        head = self.separator.join(plain).encode() + b"\n"
        try:
            frame = pl.read_csv(io.BytesIO(head + block), separator=self.separator, infer_schema_length=0)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            return self._parse_slowly(block, line)
        # Polars fills a line that ends too early with gaps; that can be only where the last cell is one.
        if width > 1 and (frame.columns != plain or frame[plain[-1]].null_count()):
            if b'"' in block or frame.width != width:
                self._parse_slowly(block, line)
            else:
                for number, text in enumerate(block.split(b"\n")):
                    n_cells = text.count(self.separator.encode()) + 1
                    if text.strip(b"\r") and n_cells != width:
                        raise self._wrong_width(n_cells, line + number)
        return frame.rename(dict(zip(plain, self.columns, strict=True)))

    def _parse_slowly(self, block: bytes, line: int) -> Any:
        pl = polars()
        reader = csv.reader(io.StringIO(_text(block, self.name, line), newline=""), delimiter=self.separator)
        records: list[list[str | None]] = []
        before = 0
        try:
            for record in reader:
                at, before = line + before, reader.line_num
                if not record and len(self.columns) > 1:
                    continue
                if len(record) != len(self.columns) and record:
                    if any("\n" in cell for cell in record):
                        raise TableError(f"{self.name}, line {at}: a quotation mark is never closed.")
                    raise self._wrong_width(len(record), at)
                records.append([cell or None for cell in record] or [None])
        except csv.Error as error:
            raise TableError(f"{self.name}, line {line + before}: {error}.") from error
        return pl.DataFrame(records, schema=dict.fromkeys(self.columns, pl.String), orient="row")

    def _wrong_width(self, found: int, line: int) -> TableError:
        wanted = len(self.columns)
        where = f"column {wanted + 1}" if found > wanted else f"column {self.columns[found]!r}"
        return TableError(
            f"{self.name}, line {line}, {where}: the line has {found} cell{'s' * (found != 1)}, "
            f"and the first line names {wanted} columns."
        )
