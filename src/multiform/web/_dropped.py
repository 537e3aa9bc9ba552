"""A table that somebody has dropped onto the page: whatever the reader of tables reads, and no more than fits here.

A small file can hold much. What a Parquet or an Arrow file says of its size is looked at before anything is unpacked,
and what comes out is counted before it is answered.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

from multiform.columns import TableError
from multiform.tables import FORMAT_SUFFIXES, Batch, Source, batches
from multiform.web._arrow import arrow_frame, text_size
from multiform.web._problems import Problem

MOST_ROWS = 1_000_000
MOST_CELLS = 32_000_000
MOST_BYTES = 2**28  # unpacked
BATCH_ROWS = 20_000
SUFFIXES = {suffix: format for format, known in FORMAT_SUFFIXES.items() for suffix in known if format != "npz"}


def source_of(name: str, content: bytes) -> Source:
    """The table in a file of this name."""
    end = "." + name.lower().removesuffix(".gz").rpartition(".")[2]
    if end not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise Problem(415, f"the name {name[:80]!r} does not say what is in it; it must end in one of {known}.")
    return Source(name, SUFFIXES[end], content)


def rows_of(source: Source) -> Iterator[Batch]:
    """The rows, some at a time; `TableError` as soon as they are too many."""
    if source.format == "parquet":
        _check_parquet(source)
    rows = cells = size = 0
    for batch in _arrow_batches(source) if source.format == "arrow" else batches([source]):
        frame = batch.frame
        rows, cells, size = rows + len(frame), cells + len(frame) * frame.width, size + text_size(frame)
        _check(rows, cells, size)
        yield batch


def _check(rows: int, cells: int, size: int) -> None:
    if rows > MOST_ROWS or cells > MOST_CELLS or size > MOST_BYTES:
        raise TableError(
            f"A table on the page may have {MOST_ROWS:,} rows, {MOST_CELLS:,} cells and {MOST_BYTES >> 20} MB, "
            "unpacked; `multiform predict` takes larger ones."
        )


def _check_parquet(source: Source) -> None:
    """Refuse a Parquet file that says that it is too large."""
    import pyarrow  # type: ignore[import-untyped]
    import pyarrow.parquet  # type: ignore[import-untyped]

    assert source.content is not None
    try:
        told = pyarrow.parquet.read_metadata(io.BytesIO(source.content))
        size = sum(told.row_group(number).total_byte_size for number in range(told.num_row_groups))
    except (pyarrow.ArrowException, OSError) as error:
        raise TableError(f"{source.name} cannot be read as parquet: it is none, or not whole.") from error
    _check(told.num_rows, told.num_rows * told.num_columns, size)


def _arrow_batches(source: Source) -> Iterator[Batch]:
    """An Arrow file or stream, read by Arrow's own library, as those that programs send."""
    assert source.content is not None
    try:
        frame = arrow_frame(source.content, MOST_CELLS, MOST_BYTES)
    except Problem as problem:
        raise TableError(f"{source.name}: {problem.detail}") from problem
    for start in range(0, len(frame), BATCH_ROWS):
        yield Batch(frame.slice(start, BATCH_ROWS), source, start + 1, min(1.0, (start + BATCH_ROWS) / len(frame)))
