"""Tables that programs send as Arrow streams, and large matrices in JSON, which may be anybody's bytes.

They are read by Arrow's own library: that of polars believes whatever sizes a stranger states. What is compressed is
refused before it is opened, as a few kilobytes may become gigabytes.

Python's own reader of JSON lets no other thread go on until it has read everything, and so is for small bodies; Arrow's
does, and is quicker with numbers.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from multiform.web._problems import Problem

ARROW = "application/vnd.apache.arrow.stream"
HEADER, COMPRESSION = 2, 3  # places of fields in Arrow's Message and RecordBatch (Message.fbs)


def arrow_table(body: bytes, most: int) -> Any:
    """The table of a stream: columns of numbers, truths, dates or text, and no more than `most` values."""
    try:
        import pyarrow as pa  # type: ignore[import-untyped]
    except ImportError:
        raise Problem(415, 'Arrow needs pyarrow on the server: pip install "multiform[web]".') from None
    try:
        messages = pa.ipc.MessageReader.open_stream(pa.py_buffer(body))
        for message in messages:
            if message.type == "record batch" and _is_compressed(message.metadata.to_pybytes()):
                raise Problem(415, "an Arrow stream must not be compressed; write it without compression.")
        with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
            schema = reader.schema
            _check_types(pa, schema)
            parts, rows = [], 0
            for part in reader:
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
    for field in schema:
        kind = field.type
        if not (pa.types.is_primitive(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise Problem(422, f"columns are numbers, truths, dates or text; {field.name[:80]!r} is {str(kind)[:80]}.")


def _is_compressed(metadata: bytes) -> bool:
    """Whether the description of a record batch says so."""
    (message,) = struct.unpack_from("<I", metadata, 0)
    place = _place(metadata, message, HEADER)
    if not place:
        return False
    (offset,) = struct.unpack_from("<I", metadata, place)
    return bool(_place(metadata, place + offset, COMPRESSION))


def _place(metadata: bytes, table: int, field: int) -> int:
    """Where a field of a FlatBuffers table stands; 0 if it has none."""
    (back,) = struct.unpack_from("<i", metadata, table)
    (size,) = struct.unpack_from("<H", metadata, table - back)
    if 4 + 2 * field >= size:
        return 0
    (offset,) = struct.unpack_from("<H", metadata, table - back + 4 + 2 * field)
    return table + int(offset) if offset else 0
