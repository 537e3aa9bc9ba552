"""A table that does not fit the memory: what its columns are is learnt from some of its rows, the model from all.

The first time through draws rows at random, and some of every class. On these a table is fitted as a small one is,
which decides what each column is and how it becomes numbers. Then the classifier is fitted anew to all rows, which are
read and turned into numbers batch by batch, as often as it asks for them (`multiform.streaming`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from multiform._typing import Array, Doubles
from multiform.columns import Seen, TableError, Tally, as_text, polars
from multiform.tables._classifier import TableClassifier
from multiform.tables._familiarity import learn, nearest, read
from multiform.tables._labels import RARE
from multiform.tables._reading import STANDARD_INPUT, Source, batches

SAMPLE = 20_000  # rows that columns are learnt from
OF_A_CLASS = 50  # at least, where there are so many
# Bytes of memory for a byte of a file, while a table is read, encoded and trained on.
GROWTH = {"csv": 6, "tsv": 6, "parquet": 4, "arrow": 4}


def needed_memory(found: Sequence[Source]) -> int:
    """About how many bytes a fit in memory would need; 0 where a source cannot be read twice, or not in parts."""
    if any(one.path == STANDARD_INPUT or one.content is not None or one.format not in GROWTH for one in found):
        return 0
    return sum(GROWTH[one.format] * _size(one) for one in found)


def _size(source: Source) -> int:
    """Of what a file holds, as far as that is told without reading it."""
    on_disk = os.path.getsize(source.path) if os.path.isfile(source.path) else 0
    if source.format == "parquet" and on_disk:
        try:
            from pyarrow import parquet  # type: ignore[import-untyped]
        except ImportError:
            return 3 * on_disk
        try:
            described = parquet.read_metadata(source.path)
        except Exception:  # whoever reads it says what is wrong
            return on_disk
        held = sum(described.row_group(group).total_byte_size for group in range(described.num_row_groups))
        return max(on_disk, int(held))
    return 10 * on_disk if source.path.endswith(".gz") else on_disk


def fit_in_batches(
    table: TableClassifier,
    found: Sequence[Source],
    target: str,
    seed: int,
    note: Callable[[str], None] = lambda sentence: None,
) -> tuple[TableClassifier, Any]:
    """Fit a table to files that do not fit the memory; and the rows that its columns were learnt from, as a frame.

    Parameters
    ----------
    table : TableClassifier
        With a `QMSClassifier` for its estimator.
    found : sequence of Source
    target : str
        The name of the target column.
    seed : int
        Of the rows that are drawn.
    note : callable
        Hears what was decided in reading, in sentences.
    """
    sample = _drawn(found, target, seed, note)
    table.fit(sample, target)
    rows = _Encoded(table, found, target)
    table.estimator_ = clone(table.estimator_).fit(rows)
    counts = {str(label): rows.counts[label] for label in table.classes_.tolist()}
    table.seen_ = {name: widened(found, rows.tallies[name]) for name, found in table.seen_.items()}
    table.training_ |= {
        "rows": sum(counts.values()),
        "rows_without_label": rows.without_label,
        "class_counts": counts,
        "rare_classes": [label for label, count in counts.items() if count < RARE],
    }
    table._training_rows = None  # of most rows nothing is known
    return table, sample


def _drawn(found: Sequence[Source], target: str, seed: int, note: Callable[[str], None]) -> Any:
    """Rows at random, and some of every class: those with the smallest of numbers that are drawn for all."""
    pl = polars()
    said: set[str] = set()
    kept = None
    number, label = "\0number", "\0label"
    few = (pl.col(number).rank("ordinal") <= SAMPLE) | (pl.col(number).rank("ordinal").over(label) <= OF_A_CLASS)
    for place, batch in enumerate(batches(found)):
        if target not in batch.frame.columns:
            raise TableError(f"There is no column {target!r} to predict; {nearest(target, batch.frame.columns)}")
        for sentence in batch.dialect.notes:
            if sentence not in said:
                note(sentence)
                said.add(sentence)
        numbers = np.random.default_rng([seed, place]).random(len(batch.frame))
        columns = [pl.Series(number, numbers), as_text(batch.frame[target]).alias(label)]
        frame = batch.frame.with_columns(columns)
        frame = frame if kept is None else pl.concat([kept, frame], how="vertical_relaxed")
        kept = frame.filter(few | (pl.len() <= SAMPLE))
    assert kept is not None  # files without rows are refused
    return kept.drop(number, label)


def widened(seen: Seen, tally: Tally) -> Seen:
    """What a column looks like in some rows, with the gaps and the extremes of all, and the margins of these rows."""
    n_missing = seen.n_missing or min(tally.n_missing, seen.n_rows)
    if not seen.is_numeric or not seen.values or tally.least > tally.greatest:
        return replace(seen, n_missing=n_missing)
    below, above = seen.values[0] - seen.low, seen.high - seen.values[-1]
    low, high = min(seen.low, tally.least - below), max(seen.high, tally.greatest + above)
    return replace(seen, n_missing=n_missing, low=low, high=high)


class _Encoded:
    """Pairs of numbers and labels, batch by batch; the first time through counts them, and looks at the columns."""

    def __init__(self, table: TableClassifier, found: Sequence[Source], target: str) -> None:
        self._table, self._found, self._target = table, found, target
        self.counts: Counter[Any] = Counter()
        self.without_label = 0
        self.tallies: dict[str, Tally] = {}

    def __iter__(self) -> Iterator[tuple[Doubles, Array]]:
        pl, table = polars(), self._table
        counts: Counter[Any] = Counter()
        without_label = 0
        tallies: dict[str, Tally] = {}
        for batch in batches(self._found):
            labels, present = table.labels(batch.frame[self._target])
            counts.update(labels.tolist())
            without_label += int((~present).sum())
            if not len(labels):
                continue
            frame = table._frame(batch.frame.drop(self._target).filter(pl.Series(present)))
            if not self.tallies:
                for name, tally in read(table.columns_, table.seen_, frame)[1].tallies.items():
                    tallies[name] = tallies[name] + tally if name in tallies else tally
            yield learn(table.columns_, frame)[0], labels  # every cell of a training row is familiar
        if not self.tallies:
            self.counts, self.without_label, self.tallies = counts, without_label, tallies
