"""From files to frames: CSV, TSV, Parquet, Arrow and NPZ, whole or a batch of rows at a time.

Text files are read as text throughout: which column is a number is decided once, on the training data, and not anew
by whatever stands in the first rows of the next file.
"""

from __future__ import annotations

import glob
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from multiform.columns import TableError, polars
from multiform.tables._delimited import delimited_batches

FORMAT_SUFFIXES = {
    "csv": (".csv", ".txt"),
    "tsv": (".tsv", ".tab"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
    "npz": (".npz",),
}
FORMATS = tuple(FORMAT_SUFFIXES)
STANDARD_INPUT = "-"
BATCH_ROWS = 20_000


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
        if self.source.format in ("csv", "tsv"):
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
                found_here = batch.frame.columns
                for name in columns:
                    if name not in found_here:
                        raise TableError(f"{source.name} has no column {name!r}, which {first} has.")
                for name in found_here:
                    if name not in columns:
                        raise TableError(f"{source.name} has a column {name!r}, which {first} has not.")
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
    if source.format in ("csv", "tsv"):
        separator = "\t" if source.format == "tsv" else None
        for frame, line, share in delimited_batches(source.path, source.name, separator):
            yield Batch(frame, source, line, share)
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
