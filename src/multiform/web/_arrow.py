"""Tables that programs send as Arrow streams, and large matrices in JSON, which may be anybody's bytes.

They are read by Arrow's own library: that of polars believes whatever sizes a stranger states. What is compressed says
how large it becomes, and that is bounded before it is unpacked: a few kilobytes may become gigabytes.

Python's own reader of JSON lets no other thread go on until it has read everything, and so is for small bodies; Arrow's
does, and is quicker with numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from multiform.columns import polars
from multiform.web._problems import Problem

ARROW = "application/vnd.apache.arrow.stream"
FILE = b"ARROW1"  # what a file begins and ends with
# Places of fields in Arrow's Message, RecordBatch and DictionaryBatch (Message.fbs).
HEADER, BUFFERS, COMPRESSION, DATA = 2, 2, 3, 1
PARTS = (2, 3)  # and of those of the Footer of a file that list dictionaries and record batches (File.fbs)
MOST_BYTES = 2**28  # unpacked


def arrow_table(body: Any, most: int, most_bytes: int = MOST_BYTES) -> Any:
    """The table of a stream or a file: columns of numbers, truths, dates or text, of `most` values at most."""
    try:
        import pyarrow as pa  # type: ignore[import-untyped]
    except ImportError:
        raise Problem(415, 'Arrow needs pyarrow on the server: pip install "multiform[web]".') from None
    buffer, is_file = pa.py_buffer(body), bytes(body[: len(FILE)]) == FILE
    try:
        messages = _messages(pa, buffer) if is_file else pa.ipc.MessageReader.open_stream(buffer)
        _check_size(sum(map(_unpacked, messages)), most_bytes)
        with (pa.ipc.open_file if is_file else pa.ipc.open_stream)(buffer) as reader:
            schema = reader.schema
            _check_types(pa, schema)
            parts, rows = [], 0
            for part in map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader:
                rows += part.num_rows
                if rows * max(1, len(schema)) > most:
                    raise Problem(413, f"a body may hold {most:,} values; send fewer rows at a time.")
                parts.append(part)
        table = pa.Table.from_batches(parts, schema)
        table.validate(full=True)
    except (pa.ArrowException, ValueError, OSError, KeyError, TypeError, struct.error) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise Problem(400, f"the body is no Arrow stream: {reason.rstrip('.')}.") from None
    if not rows:
        raise Problem(422, "there are no rows.")
    return table


def arrow_frame(body: Any, most: int, most_bytes: int = MOST_BYTES) -> Any:
    """The same as a polars frame, of which all text together is bounded, too: many cells may point to one text."""
    import pyarrow as pa
    import pyarrow.compute  # type: ignore[import-untyped]

    table = arrow_table(body, most, most_bytes)
    for place, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if pa.types.is_dictionary(column.type):
            size = 0
            for part in column.chunks if _is_text(pa, column.type.value_type) else ():
                lengths = pa.compute.binary_length(part.dictionary)
                size += pa.compute.sum(pa.compute.take(lengths, part.indices)).as_py() or 0
            _check_size(size, most_bytes)
            table = table.set_column(place, name, column.cast(column.type.value_type))
    frame = polars().from_arrow(table)
    _check_size(text_size(frame), most_bytes)
    return frame


def text_size(frame: Any) -> int:
    """Bytes of the text of all cells."""
    pl = polars()
    sizes = frame.select(pl.col(pl.String).str.len_bytes().sum())
    return sum(size or 0 for size in sizes.row(0)) if sizes.width else 0


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise Problem(413, f"a body may hold {most >> 20} MB, unpacked; send fewer rows at a time.")


def matrix_of_arrow(table: Any) -> Any:
    """The rows of a table of numbers of one type, without gaps, None of any other.

    Columns in single precision stay as they lie, which the core reads. Those in double precision are for BLAS, whose
    last bits hang on how they lie.
    """
    kinds = table.schema.types
    if str(kinds[0]) not in ("float", "double") or any(kind != kinds[0] for kind in kinds):
        return None
    kind = np.dtype(kinds[0].to_pandas_dtype())
    parts = [part.columns for part in table.to_batches() if len(part)]
    if any(column.null_count for columns in parts for column in columns):
        return None
    turned = [_side_by_side(columns, kind) for columns in parts]
    rows = (turned[0] if len(turned) == 1 else np.concatenate(turned, axis=1)).T
    return rows if kind == np.float32 else np.ascontiguousarray(rows)


def _side_by_side(columns: list[Any], kind: Any) -> Any:
    """Columns, a row each, where they lie (mostly at equal distances), or else copied."""
    n = len(columns[0])
    addresses = np.array([column.buffers()[1].address + column.offset * kind.itemsize for column in columns])
    steps = np.unique(np.diff(addresses))
    if len(steps) == 1 and steps[0] >= n * kind.itemsize:
        return np.asarray(_Lying(columns, int(addresses[0]), int(steps[0]), kind))
    return np.array([column.to_numpy() for column in columns], dtype=kind)


class _Lying:
    """Columns at equal distances, as NumPy reads them; they stay as long as an array of them does."""

    def __init__(self, columns: list[Any], address: int, step: int, kind: Any) -> None:
        self.columns = columns
        self.__array_interface__ = {
            "version": 3,
            "typestr": kind.str,
            "shape": (len(columns), len(columns[0])),
            "strides": (step, kind.itemsize),
            "data": (address, True),  # to be read only
        }


def matrix_of_json(body: bytes, n_columns: int) -> tuple[Any, bool] | None:
    """``{"rows": [[...], ...], "chances": ...}``, all of it finite numbers: the matrix, and what chances says.

    None of anything else: whoever reads it in the usual way can say what it is.
    """
    try:
        import pyarrow as pa
        from pyarrow import json
    except ImportError:
        return None
    schema = pa.schema({"rows": pa.list_(pa.list_(pa.float64())), "chances": pa.bool_()})
    parsing = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    reading = json.ReadOptions(use_threads=False, block_size=len(body) + 1)
    try:
        table = json.read_json(pa.py_buffer(body), reading, parsing)
    except (pa.ArrowException, ValueError, OSError):
        return None
    if len(table) != 1 or table["rows"].null_count:
        return None
    rows = table["rows"].combine_chunks().values
    cells, ends = rows.values, rows.offsets.to_numpy()
    if rows.null_count or cells.null_count or not len(rows) or (np.diff(ends) != n_columns).any():
        return None
    matrix = cells.to_numpy().reshape(-1, n_columns)
    return (matrix, bool(table["chances"][0].as_py())) if np.isfinite(matrix).all() else None


def _check_types(pa: Any, schema: Any) -> None:
    if len(set(schema.names)) != len(schema.names):
        raise Problem(422, "two columns have one name.")
    known = None
    for name, given in zip(schema.names, schema.types, strict=True):
        if given == known:  # as the column before: a matrix has thousands of one type
            continue
        coded = pa.types.is_dictionary(given)
        kind = given.value_type if coded else given
        is_view = not coded and pa.types.is_string_view(kind)
        if not (pa.types.is_primitive(kind) or _is_text(pa, kind) or is_view):
            raise Problem(422, f"columns are numbers, truths, dates or text; {name[:80]!r} is {str(kind)[:80]}.")
        known = given


def _is_text(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _messages(pa: Any, buffer: Any) -> Iterator[Any]:
    """Those of the parts that the end of a file lists."""
    body = memoryview(buffer)
    end = len(body) - len(FILE) - 4
    (size,) = struct.unpack_from("<i", body, end)
    footer = bytes(body[max(0, end - size) : end])
    (root,) = struct.unpack_from("<I", footer, 0)
    for field in PARTS:
        if blocks := _table(footer, root, field):
            (n,) = struct.unpack_from("<I", footer, blocks)
            for number in range(n):
                (start,) = struct.unpack_from("<q", footer, blocks + 4 + 24 * number)
                yield pa.ipc.read_message(buffer.slice(start))


def _unpacked(message: Any) -> int:
    """How many bytes the parts of a record batch, or of a dictionary, say that they become."""
    metadata = message.metadata.to_pybytes()
    (root,) = struct.unpack_from("<I", metadata, 0)
    batch = _table(metadata, root, HEADER)
    if message.type == "dictionary":
        batch = _table(metadata, batch, DATA)
    elif message.type != "record batch":
        return 0
    buffers = _table(metadata, batch, BUFFERS)
    if not buffers or not _place(metadata, batch, COMPRESSION):
        return len(message.body)
    (n,) = struct.unpack_from("<I", metadata, buffers)
    size = 0
    for number in range(n):
        start, length = struct.unpack_from("<qq", metadata, buffers + 4 + 16 * number)
        if length:
            (stated,) = struct.unpack_from("<q", message.body, start)
            size += length if stated == -1 else stated
            if stated < -1:
                raise ValueError("a buffer is of negative size")
    return size


def _table(metadata: bytes, table: int, field: int) -> int:
    """Where the table, or the vector, of a field begins; 0 if it has none."""
    place = _place(metadata, table, field)
    return place + int(struct.unpack_from("<I", metadata, place)[0]) if place else 0


def _place(metadata: bytes, table: int, field: int) -> int:
    """Where a field of a FlatBuffers table stands; 0 if it has none."""
    (back,) = struct.unpack_from("<i", metadata, table)
    (size,) = struct.unpack_from("<H", metadata, table - back)
    if 4 + 2 * field >= size:
        return 0
    (offset,) = struct.unpack_from("<H", metadata, table - back + 4 + 2 * field)
    return table + int(offset) if offset else 0
