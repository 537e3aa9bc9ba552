"""Text tables, a block of bytes at a time: memory does not grow with the file, and every error knows its line.

A block ends at a line end outside quotation marks. Polars parses it, as text; a block that polars cannot parse is read
again, slowly, by Python's csv module, which either makes sense of it or says in which line it does not.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from typing import Any

from multiform.columns import TableError, polars

BLOCK_BYTES = 4_000_000
STEP_BYTES = 1_000_000
MOST_BYTES = 256_000_000  # of one record
BLANK_LINES = re.compile(rb"(?m)^(?:\r?\n)+")
SEPARATORS = (",", "\t", ";", "|")


def delimited_batches(path: str, name: str, separator: str | None) -> Iterator[tuple[Any, int, float | None]]:
    """Frames of text columns, the line that each begins at, and the share of the file that has been read.

    `path` may be ``-``; gzip is recognised.
    """
    with ExitStack() as stack:
        stream: Any = sys.stdin.buffer
        size = 0
        if path != "-":
            try:
                stream = stack.enter_context(open(path, "rb"))
                size = os.fstat(stream.fileno()).st_size
            except OSError as error:
                raise TableError(f"{name} cannot be read: {error.strerror}.") from error
        raw = stream
        if stream.peek(2)[:2] == b"\x1f\x8b":
            stream = stack.enter_context(gzip.open(stream))
        try:
            for frame, line in _batches(stream, name, separator):
                yield frame, line, min(1.0, raw.tell() / size) if size else None
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise TableError(f"{name} is damaged: {str(error).rstrip('.')}.") from error


def _batches(stream: Any, name: str, separator: str | None) -> Iterator[tuple[Any, int]]:
    blocks = _blocks(stream, name)
    first = next(blocks, b"").removeprefix(codecs.BOM_UTF8)
    if first[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise TableError(f"{name} is UTF-16; convert it to UTF-8, as with iconv -f utf-16 -t utf-8.")
    head, skipped = first.lstrip(b"\r\n"), first[: len(first) - len(first.lstrip(b"\r\n"))]
    line = 1 + skipped.count(b"\n")
    if not head.strip():
        raise TableError(f"{name} is empty; its first line must name the columns.")
    end = _record_end(head)
    if end == len(head) and b"\n" not in head[-1:] and head.count(b'"') % 2:
        raise TableError(f"{name}, line {line}: a quotation mark is never closed.")
    parser = _Parser(head[:end], name, separator, line)
    line += head[:end].count(b"\n")
    rows = 0
    for block in chain([head[end:]] if head[end:] else [], blocks):
        for piece, lines_before in parser.without_blank_lines(block):
            frame = parser.parse(piece, line + lines_before)
            if len(frame):
                rows += len(frame)
                yield frame, line + lines_before
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


def _record_end(content: bytes) -> int:
    """Just after the first record."""
    end = content.find(b"\n") + 1
    while end and content.count(b'"', 0, end) % 2:
        end = content.find(b"\n", end) + 1
    return end or len(content)


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
    """From blocks to frames, by the separator and the column names that the first record gives."""

    def __init__(self, header: bytes, name: str, separator: str | None, line: int) -> None:
        """`name` is what errors call the file."""
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

    def without_blank_lines(self, block: bytes) -> Iterator[tuple[bytes, int]]:
        """The parts of a block between blank lines, which polars would read as rows of gaps, and the lines before each.

        In a table of one column a blank line is a gap. Where there are quotation marks it may stand inside a cell, and
        `parse` sees to it.
        """
        if len(self.columns) == 1 or b'"' in block:
            yield block, 0
            return
        start = 0
        for blank in BLANK_LINES.finditer(block):
            if blank.start() > start:
                yield block[start : blank.start()], block.count(b"\n", 0, start)
            start = blank.end()
        if start < len(block):
            yield block[start:], block.count(b"\n", 0, start)

    def parse(self, block: bytes, line: int) -> Any:
        """The records of a block that begins at this line."""
        width, quoted = len(self.columns), b'"' in block
        if quoted and width > 1 and BLANK_LINES.search(block):
            return self._parse_slowly(block, line)
        pl = polars()
        # Names of our own making, so that nothing in the file's names can matter here.
        plain = [f"c{number}" for number in range(width)]
        head = self.separator.join(plain).encode() + b"\n"
        try:
            frame = pl.read_csv(io.BytesIO(head + block), separator=self.separator, infer_schema_length=0)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            return self._parse_slowly(block, line)
        # Polars fills a line that ends too early with gaps; that can be only where the last cell is one.
        if width > 1 and (frame.columns != plain or frame[plain[-1]].null_count()):
            if quoted or frame.width != width:
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
