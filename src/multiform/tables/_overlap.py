"""Whether rows were among the training rows, by a sketch of those: a few thousand hashes, however many rows there were.

A row is hashed to 64 bits: of what the model reads, and of the label. The sketch holds the least hashes and how many
training rows have each; that is a random sample of the distinct rows, and any other table has the same part of its rows
below the same limit. Of those rows it is known exactly whether they were in training.

Rows that are equal by chance look the same: where the columns have few values, a new row often has a twin. How often is
known from the training rows themselves, as the share of them that have one.

No value can be read off a hash. Whoever has a whole row, though, can ask whether it was there; that is its use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from multiform._typing import Array
from multiform.columns import Column, Date, Number, with_numbers
from multiform.state import require, require_array, require_names

MOST_KEYS = 4096
WORTH_A_NOTE = 0.05  # share of rows
SURE = 0.001  # chance of a note, where no more than that share is from training
Keys = npt.NDArray[np.uint64]


class Overlap(NamedTuple):
    """How many rows could be compared with the training rows, how many were found among them, and the share that has a
    twin there by chance.
    """

    compared: int
    found: int
    by_chance: float

    @classmethod
    def of_all(cls, parts: Sequence[Overlap | None]) -> Overlap | None:
        """Of a table that came in parts."""
        known = [part for part in parts if part is not None]
        return cls(sum(p.compared for p in known), sum(p.found for p in known), known[0].by_chance) if known else None

    @property
    def share(self) -> float:
        """The share of rows that were training rows, beyond chance."""
        found = self.found / self.compared if self.compared else 0.0
        return max(0.0, (found - self.by_chance) / (1 - self.by_chance)) if self.by_chance < 1 else 0.0

    @property
    def evident(self) -> bool:
        """Whether more than a few rows are from training, surely."""
        expected = self.by_chance + WORTH_A_NOTE * (1 - self.by_chance)
        return self.compared > 0 and bool(scipy.stats.binom.sf(self.found - 1, self.compared, expected) < SURE)

    def notes(self) -> list[str]:
        """A sentence, if a model is judged on rows that it has seen."""
        if not self.evident:
            return []
        return [
            f"{self.share:.0%} of the rows are rows that the model was trained on, with which it seems better than it "
            f"is ({self.found} of the {self.compared} rows that could be compared); judge it on others."
        ]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**self._asdict(), "share": self.share, "evident": self.evident}


@dataclass(frozen=True)
class RowSketch:
    """The least hashes of the training rows, sorted, and how many rows have each; `limit` is the greatest that is kept.

    >>> rows = np.random.default_rng(0).integers(0, 2**64, 100_000, dtype=np.uint64)
    >>> sketch = RowSketch.learn(rows)
    >>> found = sketch.compared(rows[::10])
    >>> found.compared == found.found, found.share, found.evident
    (True, 1.0, True)
    """

    keys: Keys
    counts: npt.NDArray[np.int64]
    limit: int

    @classmethod
    def learn(cls, keys: Keys, most: int = MOST_KEYS) -> RowSketch:
        distinct, counts = np.unique(keys, return_counts=True)
        limit = int(distinct[most - 1]) if len(distinct) > most else 2**64 - 1
        return cls(distinct[:most], counts[:most].astype(np.int64), limit)

    def compared(self, keys: Keys) -> Overlap:
        """These rows against those of the training."""
        within = keys[keys <= np.uint64(self.limit)]
        twins = self.counts[self.counts > 1].sum() / max(1, self.counts.sum())
        return Overlap(len(within), int(np.isin(within, self.keys).sum()), float(twins))

    def as_plain(self) -> dict[str, Any]:
        """For a model file."""
        return {"keys": self.keys, "counts": self.counts, "limit": self.limit}

    @classmethod
    def from_plain(cls, state: Any) -> RowSketch:
        parts = require_names(state, "the sketch of the training rows", ["keys", "counts", "limit"])
        require_array(parts["keys"], (None,), "u", "the hashes of the training rows")
        require_array(parts["counts"], (len(parts["keys"]),), "i", "the counts of the training rows")
        require(isinstance(parts["limit"], int) and 0 <= parts["limit"] < 2**64, "the limit of the hashes is none")
        return cls(**parts)


def row_keys(columns: Sequence[Column], frame: Any, labels: Array) -> Keys:
    """The hash of each row: of the columns that are read, as what they were taken for, and of its label."""
    total = _hashes_of_text([str(label) for label in labels.tolist()])
    frame = with_numbers(frame, [one.name for one in columns if isinstance(one, Number) and not any(one.notation)])
    given = {series.name: series for series in frame.get_columns()}
    for place, column in enumerate(columns, start=1):
        if not column.width:
            continue
        series = given[column.name]
        if isinstance(column, Number):
            bits = (column.read(series)[0] + 0.0).view(np.uint64)  # one zero
        elif isinstance(column, Date):
            bits = column.typed(series).dt.epoch("ms").fill_null(-(2**63)).to_numpy().view(np.uint64)
        else:
            bits = _hashes_of_text(column.typed(series).to_list())
        total = _mixed(total + np.uint64(place)) ^ bits
    return _mixed(total)


def _hashes_of_text(cells: list[str | None]) -> Keys:
    known = {cell: _hash(cell) for cell in set(cells)}
    return np.fromiter((known[cell] for cell in cells), dtype=np.uint64, count=len(cells))


def _hash(cell: str | None) -> int:
    return 0 if cell is None else int.from_bytes(blake2b(cell.encode(), digest_size=8).digest(), "little")


def _mixed(bits: Keys) -> Keys:
    """Every bit depends on every other (the last steps of splitmix64)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
