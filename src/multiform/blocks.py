"""Rows that come block by block: Parquet, CSV and Arrow files, lazy frames, memory maps, any re-iterable of (X, y).

A source can be gone through again and again; where its blocks can be read in any order, each pass has its own. Nothing
is kept but the blocks that are being read.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from multiform._typing import Array
from multiform.runtime import memory_to_use

__all__ = ["Block", "Source", "ahead", "buffered", "side_by_side", "source_of"]

READ_BYTES = 1 << 22  # of X in one reading of a file
FORMATS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".arrow": "ipc", ".feather": "feather"}


class Block(NamedTuple):
    """Some rows, X of shape (n, p) and y of shape (n,); the number is the same whenever they are read."""

    number: int
    X: Array
    y: Array


class Source(Protocol):
    """What can be gone through block by block, any number of times."""

    @property
    def names(self) -> list[str] | None:
        """The names of the features, where they have any."""

    def blocks(self, random: np.random.Generator | None) -> Generator[Block]:
        """All blocks once; in an order drawn at random, where there is a choice and a generator."""


def source_of(X: Any, y: Any, name: str) -> Source | None:
    """The source that X of an estimator called `name` is, y naming its target; None for arrays and frames."""
    if isinstance(X, str | os.PathLike):
        return _Dataset(_opened(Path(X), name), _named(y, name))
    kind = f"{type(X).__module__}.{type(X).__name__}"
    if kind.startswith("pyarrow.") and hasattr(X, "get_fragments"):
        return _Dataset(X, _named(y, name))
    if kind.startswith("polars.") and type(X).__name__ == "LazyFrame":
        return _LazyFrame(X, _named(y, name))
    if isinstance(X, np.memmap) and X.ndim == 2 and X.nbytes > memory_to_use():
        return _Mapped(X, y, name)
    if y is not None or hasattr(X, "shape") or not hasattr(X, "__iter__"):
        return None
    if iter(X) is X:
        raise ValueError(
            f"X of {name} is an iterator, which can be gone through only once; give an object whose __iter__ starts "
            "anew with every pass, and gives pairs (X, y)."
        )
    return _Pairs(X, name)


def _named(y: Any, name: str) -> str:
    if isinstance(y, str):
        return y
    got = "None" if y is None else type(y).__name__
    raise ValueError(f"y of {name} must be the name of the target column where X is a file or a dataset; got {got}.")


def _opened(path: Path, name: str) -> Any:
    try:
        from pyarrow import dataset  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError("Blocks of files are read by pyarrow: pip install 'multiform[big]'.") from error
    if not path.exists():
        raise FileNotFoundError(f"X of {name} is {str(path)!r}, and there is no such file or folder.")
    files = sorted(one for one in path.rglob("*") if one.suffix in FORMATS) if path.is_dir() else [path]
    kinds = {FORMATS.get(one.suffix) for one in files}
    if len(kinds) != 1 or None in kinds:
        found = ", ".join(sorted({one.suffix or one.name for one in files})) or "nothing of the kind"
        raise ValueError(
            f"X of {name} must be a file, or a folder of files of one kind, of {', '.join(FORMATS)}; "
            f"{str(path)!r} has {found}."
        )
    return dataset.dataset([str(one) for one in files], format=kinds.pop())


class _Columns:
    """Which columns of a table are the features, and which is the target."""

    def __init__(self, columns: list[str], target: str) -> None:
        if target not in columns:
            raise ValueError(f"y names the column {target!r}, which is not there; there are {', '.join(columns[:20])}.")
        self.target = target
        self.names = [column for column in columns if column != target]
        if not self.names:
            raise ValueError(f"There is no column but the target {target!r}.")

    def block(self, number: int, table: Any) -> Block:
        """X and y of a table of Arrow."""
        columns = []
        for name in self.names:
            column = table.column(name)
            values = _array(column)
            if values.dtype.kind not in "fiub":
                raise ValueError(
                    f"Column {name!r} holds {column.type}, and blocks must hold numbers. Leave the column out, or "
                    "turn it into numbers, as multiform.tables.TableClassifier does with tables that fit the memory."
                )
            columns.append(values)
        X = side_by_side(columns)
        target = table.column(self.target)
        if target.null_count:
            raise ValueError(f"The target {self.target!r} has missing values; leave these rows out.")
        return Block(number, X, _array(target))

    @property
    def rows_a_reading(self) -> int:
        return max(1, READ_BYTES // (4 * len(self.names)))


def side_by_side(columns: list[Array]) -> Array:
    """As arrays are read: bytes and single precision as they are, other numbers where nothing of them is lost."""
    kind = np.result_type(*columns)
    if kind != np.uint8 and kind != np.float64:
        kind = np.dtype(np.float32 if kind.itemsize <= 2 or kind == np.float32 else np.float64)
    X = np.empty((len(columns[0]), len(columns)), dtype=kind)
    for place, values in enumerate(columns):
        X[:, place] = values
    return X


def _array(column: Any) -> Array:
    """A column of Arrow; one in chunks has no other way than to copy."""
    return np.asarray(column.to_numpy() if hasattr(column, "num_chunks") else column.to_numpy(zero_copy_only=False))


class _Dataset:
    """Files that pyarrow reads; Parquet files by row groups, in any order."""

    def __init__(self, dataset: Any, target: str) -> None:
        self._dataset, self._columns = dataset, _Columns(dataset.schema.names, target)
        self.names = self._columns.names

    def blocks(self, random: np.random.Generator | None) -> Generator[Block]:
        parts = [part for fragment in self._dataset.get_fragments() for part in _row_groups(fragment)]
        for place in range(len(parts)) if random is None else random.permutation(len(parts)):
            for reading, batch in enumerate(self._batches(parts[place])):
                if len(batch):
                    yield self._columns.block((int(place) << 32) + reading, batch)

    def _batches(self, part: Any) -> Iterator[Any]:
        """Readings of a bounded size, whatever the size of a row group."""
        schema, size = self._dataset.schema, self._columns.rows_a_reading
        if hasattr(part, "row_groups"):
            from pyarrow import parquet

            # What the end of a file says of all its row groups is known; to read it for each takes longer than these.
            file = parquet.ParquetFile(part.open(), metadata=part.metadata, buffer_size=1 << 16, pre_buffer=False)
            if set(schema.names) <= set(file.schema_arrow.names):  # else a column is in the folders' names
                groups = [group.id for group in part.row_groups]
                # Threads of pyarrow 17 get in each other's way in such a buffer; training uses the other cores anyway.
                yield from file.iter_batches(size, row_groups=groups, columns=schema.names, use_threads=False)
                return
        yield from part.to_batches(schema=schema, batch_size=size, batch_readahead=0, fragment_readahead=0)


def _row_groups(fragment: Any) -> list[Any]:
    return fragment.split_by_row_group() if hasattr(fragment, "split_by_row_group") else [fragment]


class _LazyFrame:
    """What polars computes in batches."""

    def __init__(self, frame: Any, target: str) -> None:
        self._frame, self._columns = frame, _Columns(frame.collect_schema().names(), target)
        self.names = self._columns.names

    def blocks(self, random: np.random.Generator | None) -> Generator[Block]:
        batches = self._frame.collect_batches(chunk_size=self._columns.rows_a_reading, maintain_order=True)
        for number, frame in enumerate(batches):
            if len(frame):
                yield self._columns.block(number, frame.to_arrow().combine_chunks())


class _Mapped:
    """A memory map that is larger than the memory: stretches of rows, in any order."""

    names = None

    def __init__(self, X: Array, y: Any, name: str) -> None:
        self._X, self._y = X, np.asarray(y)
        if self._y.shape != (len(X),):
            raise ValueError(f"y of {name} must have the shape ({len(X)},), as X has rows; got {self._y.shape}.")
        if X.dtype.kind not in "fiub":
            raise ValueError(f"X of {name} must hold numbers; got {X.dtype}.")

    def blocks(self, random: np.random.Generator | None) -> Generator[Block]:
        size = max(1, READ_BYTES // (4 * self._X.shape[1]))
        n_blocks = -(-len(self._X) // size)
        for number in range(n_blocks) if random is None else random.permutation(n_blocks).tolist():
            part = slice(number * size, (number + 1) * size)
            yield Block(number, np.array(self._X[part]), self._y[part])


class _Pairs:
    """Any object that gives pairs (X, y) whenever it is asked for an iterator."""

    names = None

    def __init__(self, pairs: Any, name: str) -> None:
        self._pairs, self._name = pairs, name

    def blocks(self, random: np.random.Generator | None) -> Generator[Block]:
        for number, pair in enumerate(self._pairs):
            if not (isinstance(pair, tuple) and len(pair) == 2):
                raise ValueError(
                    f"X of {self._name} must give pairs (X, y); block {number} is {type(pair).__name__}"
                    + (f" of {len(pair)}." if isinstance(pair, tuple) else ".")
                )
            X, y = np.asarray(pair[0]), np.asarray(pair[1])
            if X.ndim != 2 or y.shape != (len(X),) or X.dtype.kind not in "fiub":
                raise ValueError(
                    f"Block {number} of X of {self._name} must be numbers of shape (n, p) and labels of shape (n,); "
                    f"got {X.dtype} of shape {X.shape} and {y.dtype} of shape {y.shape}."
                )
            if len(X):
                yield Block(number, X, y)


def buffered(blocks: Generator[Block], n_bytes: int) -> Generator[Block]:
    """The same rows in numbered blocks of about so many bytes: small ones are put together, large ones are cut."""
    number, held, X, y = 0, 0, np.empty((0, 0)), np.empty(0)
    for block in blocks:
        for start in range(0, len(block.X), most := max(1, n_bytes // (block.X.shape[1] * min(block.X.itemsize, 4)))):
            rows, labels = block.X[start : start + most], block.y[start : start + most]
            if held and (held + len(rows) > most or np.result_type(X, rows) != X.dtype):
                yield Block(number, X[:held], y[:held])
                number, held = number + 1, 0
            if not held:  # a new one: whoever was given the last one may still read it
                X, y = np.empty((most, rows.shape[1]), dtype=rows.dtype), np.empty(0, dtype=labels.dtype)
            X[held : held + len(rows)] = rows
            y = np.concatenate([y, labels])
            held += len(rows)
    if held:
        yield Block(number, X[:held], y[:held])


def ahead(blocks: Generator[Block]) -> Generator[Block]:
    """The same blocks, the next of which is read by a thread while the caller works on one."""
    with closing(blocks), ThreadPoolExecutor(1, thread_name_prefix="multiform-reading") as reader:
        coming = reader.submit(next, blocks, None)
        while (block := coming.result()) is not None:
            coming = reader.submit(next, blocks, None)
            yield block
            del block  # or three of them would be held
