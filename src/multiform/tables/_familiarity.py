"""Whether a table looks as the training table did, and answers where it does not.

One rule: a cell that is unlike training is named and not used. The chances of its row are the mean of those with 16
values in its place, as its column had them in training:

    P(k | the other cells) = 1/16 sum over d of P(k | the other cells, value d)

Such an answer is never called strong, and no promise covers it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import cached_property
from typing import Any

import numpy as np

from multiform._typing import Array, Bools, Doubles, Indices
from multiform.columns import (
    Column,
    Number,
    Seen,
    Shift,
    TableError,
    Tally,
    UnfamiliarWarning,
    as_text,
    polars,
    with_numbers,
)

N_DRAWS = 16  # values in the place of an unknown cell
MOST_CELLS = 2**21  # of rows with drawn values, held at a time
MOST_LETTERS = 80  # of a cell in a note
MOST_NAMED = 3  # columns in a warning
LEAST_ROWS = 10  # of a table that can have shifted
MOST_COMPARED, ALIKE = 2_000, 0.6  # names of columns that are compared with one that is not there, and how alike one is


@dataclass(frozen=True, eq=False)
class Familiarity:
    """What in a table is not as in the training table. Those of parts of a table add up to that of the whole.

    Attributes
    ----------
    n_rows, n_unfamiliar : int
        Rows of the table, and rows of which a cell is unlike training.
    rows : dict
        Of each column that has such cells, their rows, from 0.
    written : dict
        What stands in them: a polars Series of text, null where there is a gap.
    tallies : dict
        What was counted in each column.
    seen : dict
        What each column looked like in training; empty if the model was made before that was kept.
    """

    n_rows: int = 0
    n_unfamiliar: int = 0
    rows: dict[str, Indices] = field(default_factory=dict)
    written: dict[str, Any] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)

    def __add__(self, later: Familiarity) -> Familiarity:
        rows, written, tallies = dict(self.rows), dict(self.written), dict(self.tallies)
        for name, found in later.rows.items():
            known = name in rows
            rows[name] = np.concatenate([rows[name], found + self.n_rows]) if known else found + self.n_rows
            written[name] = polars().concat([written[name], later.written[name]]) if known else later.written[name]
        for name, tally in later.tallies.items():
            tallies[name] = tallies[name] + tally if name in tallies else tally
        counts = self.n_rows + later.n_rows, self.n_unfamiliar + later.n_unfamiliar
        return Familiarity(*counts, rows, written, tallies, later.seen)

    def counted(self) -> Familiarity:
        """Without the single cells: of fixed size, for tables that are larger than memory."""
        return replace(self, rows={}, written={})

    @property
    def unfamiliar(self) -> Bools:
        """Which rows have a cell that is unlike training."""
        found = np.zeros(self.n_rows, dtype=bool)
        for rows in self.rows.values():
            found[rows] = True
        return found

    @cached_property
    def shifts(self) -> list[Shift]:
        """The columns that have shifted as a whole; of unchanged tables, at most 1 % have any.

        Fewer than ten rows are no whole, and their cells are named anyway.
        """
        if self.n_rows < LEAST_ROWS:
            return []
        n = len(self.tallies)
        return [shift for name, tally in self.tallies.items() for shift in self.seen[name].shifts(name, tally, n)]

    @property
    def cells(self) -> Any:
        """The cells that are unlike training, a polars frame: ``row`` (from 0), ``column``, ``value``, ``seen``."""
        pl = polars()
        parts = [
            pl.DataFrame({"row": rows, "column": name, "value": self.written[name], "seen": str(self.seen[name])})
            for name, rows in self.rows.items()
        ]
        schema = {"row": pl.Int64, "column": pl.String, "value": pl.String, "seen": pl.String}
        return pl.concat([pl.DataFrame(schema=schema), *parts]).sort("row", maintain_order=True)

    def notes(self) -> Any:
        """What is unlike training in each row, in words: a polars Series of text, null where nothing is."""
        pl = polars()
        if not self.rows:
            return pl.Series("note", [None] * self.n_rows, dtype=pl.String)
        value = pl.col("value").fill_null("missing")
        short = pl.when(value.str.len_chars() > MOST_LETTERS).then(value.str.head(MOST_LETTERS - 1) + "…")
        told = pl.format("{} {} (training: {})", "column", short.otherwise(value), "seen")
        notes = self.cells.group_by("row", maintain_order=True).agg(told.str.join("; ").alias("note"))
        every = pl.DataFrame({"row": np.arange(self.n_rows, dtype=np.int64)})
        return every.join(notes, on="row", how="left", maintain_order="left")["note"]

    def sentences(self) -> list[str]:
        """A sentence for each column that has shifted, then for each other that has cells unlike training."""
        return [sentence for _, sentence in self.told()]

    def told(self) -> list[tuple[str, str]]:
        """The sentences, each with its column."""
        shifted: dict[str, list[str]] = {}
        for one in self.shifts:
            p_value = f"p = {one.p_value:.1g}" if one.p_value else "p below 1e-300"
            shifted.setdefault(one.column, []).append(f"{one.sentence} ({p_value})")
        found = [
            (name, f"column {name!r} has shifted since training: {'; '.join(told)}.") for name, told in shifted.items()
        ]
        for name, tally in self.tallies.items():
            if tally.n_unfamiliar and name not in shifted:
                cells = f"{tally.n_unfamiliar} cell{'s are' if tally.n_unfamiliar != 1 else ' is'}"
                example = f"{_short(tally.example)} (training had {self.seen[name]})"
                found.append(
                    (name, f"column {name!r}: {cells} unlike the training table and not used, for example {example}.")
                )
        return found

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        columns = [
            {"column": name, "cells": tally.n_unfamiliar, "example": tally.example, "seen": str(self.seen[name])}
            for name, tally in self.tallies.items()
            if tally.n_unfamiliar
        ]
        return {"rows": self.n_unfamiliar, "columns": columns, "shifted": [one._asdict() for one in self.shifts]}

    def warn(self, stacklevel: int) -> None:
        """One `UnfamiliarWarning`, if there is anything to warn of."""
        sentences = self.sentences()
        if not sentences:
            return
        more = f" And {len(sentences) - MOST_NAMED} more." if len(sentences) > MOST_NAMED else ""
        warnings.warn(
            f"{self.n_unfamiliar} of {self.n_rows} rows have cells unlike those of training, taken as unknown. "
            f"{' '.join(one[0].upper() + one[1:] for one in sentences[:MOST_NAMED])}{more} `familiarity` lists them.",
            UnfamiliarWarning,
            stacklevel=stacklevel + 1,
        )


# -------------------------------------------------------------------------------------------------------------- reading


def learn(columns: Sequence[Column], frame: Any, n_groups: int | None = None) -> tuple[Doubles, dict[str, Seen]]:
    """The numbers that the columns of the training table become, and what they look like."""
    numbers, seen = [], {}
    for column, _, cells, _, encoded in _each(columns, frame):
        numbers.append(encoded)
        seen[column.name] = Seen.of_column(column, column.looks(cells, encoded), n_groups)
    return np.ascontiguousarray(np.hstack(numbers)), seen


def read(columns: Sequence[Column], seen: dict[str, Seen], frame: Any) -> tuple[Doubles, Familiarity]:
    """The numbers that the columns become, unfamiliar cells as missing ones, and what is familiar."""
    numbers, tallies, rows, written = [], {}, {}, {}
    unfamiliar = np.zeros(len(frame), dtype=bool)
    for column, series, cells, unreadable, encoded in _each(columns, frame):
        numbers.append(encoded)
        if column.name not in seen:
            continue
        known = seen[column.name]
        familiar, tally = known.look(column.looks(cells, encoded), unreadable)
        if tally.n_unfamiliar:
            strange = np.flatnonzero(~familiar)
            encoded[strange] = column.columns(known.gap())
            unfamiliar[strange] = True
            rows[column.name], written[column.name] = strange, as_text(series.gather(strange))
            tally = replace(tally, example=written[column.name][0] or "missing")
        tallies[column.name] = tally
    found = Familiarity(len(frame), int(unfamiliar.sum()), rows, written, tallies, seen)
    return np.ascontiguousarray(np.hstack(numbers)), found


def _each(columns: Sequence[Column], frame: Any) -> Iterator[tuple[Column, Any, Any, Bools, Doubles]]:
    """Each column that is used: its series, its cells, which cannot be read, and the numbers that they become."""
    columns = [column for column in columns if column.width]
    known = set(frame.columns)
    if lost := [column.name for column in columns if column.name not in known]:
        ends = nearest(lost[0], frame.columns, "it has")
        raise TableError(f"The table has no column {lost[0]!r}, which the model needs; {ends}")
    given = {one.name: frame.get_column(one.name) for one in columns}
    text = polars().String
    written = [
        one.name
        for one in columns
        if given[one.name].dtype == text and isinstance(one, Number) and not any(one.notation)
    ]
    if written:  # a query, which takes as long as a row of numbers
        given |= {one.name: one for one in with_numbers(frame.select(written), written).get_columns()}
    for column in columns:
        series = given[column.name]
        cells, unreadable = column.read(series)
        yield column, series, cells, unreadable, column.columns(cells)


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names of columns, for a sentence."""
    shown = ", ".join(map(repr, names[:most]))
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def nearest(name: str, names: Sequence[str], told: str = "the columns are") -> str:
    """The end of a sentence, which says what a name of a column may have meant, and which there are.

    >>> nearest("Krank", ["alter", "krank", "herz krank"])
    "the nearest are 'krank', 'herz krank'; the columns are 'alter', 'krank', 'herz krank'."
    """

    def likeness(other: str) -> float:
        one, two = name.casefold().strip(), other.casefold().strip()
        return SequenceMatcher(None, one, two).ratio() + 0.3 * bool(one and two and (one in two or two in one))

    ranked = sorted(names[:MOST_COMPARED], key=likeness, reverse=True)
    close = [other for other in ranked[:MOST_NAMED] if likeness(other) >= ALIKE]
    meant = f"the nearest {'is' if len(close) == 1 else 'are'} {listed(close)}; " if close else ""
    return f"{meant}{told} {listed(names) or 'none'}."


def _short(text: str | None) -> str:
    return str(text) if text is None or len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"


# ------------------------------------------------------------------------------------------------------------ answering


class Unknown:
    """The rows of which a cell is unknown, and their chances without it.

    Attributes
    ----------
    rows : ndarray of int
    chances : ndarray of shape (len(rows), m), or None if the classifier knows none: then nothing but the cells' being
        read as missing can be done.
    labels : ndarray of shape (len(rows),), or None
        The answers by these chances.
    """

    def __init__(self, estimator: Any, matrix: Doubles, found: Familiarity, columns: Sequence[Column]) -> None:
        self.rows = np.flatnonzero(found.unfamiliar)
        self.chances: Doubles | None = None
        self.labels: Array | None = None
        is_triage = hasattr(estimator, "defer")
        if not len(self.rows):
            return
        # No promise covers these rows, so who answers them in a triage is its fallback, if it has one.
        asked, fallback = estimator, None
        if is_triage:
            fallback = estimator.fallback_
            asked = estimator.estimator_ if fallback is None else fallback
        if not hasattr(asked, "predict_proba"):
            return
        chances = mean_chances(asked.predict_proba, matrix, self.rows, found, columns)
        self.chances = np.zeros((len(self.rows), len(estimator.classes_)))
        self.chances[:, np.searchsorted(estimator.classes_, asked.classes_)] = chances
        self.labels = np.asarray(estimator.classes_)[self.chances.argmax(axis=1)]
        if is_triage and fallback is None and estimator.defer_label is not None:
            self.labels = np.full(len(self.rows), estimator.defer_label)

    def correct(self, name: str, answers: Array) -> Array:
        """Put what is known without the cells into the answers that method `name` gave to all rows."""
        if not len(self.rows):
            return answers
        if name == "predict_loyalty":
            answers = np.array(answers)
            strong = np.char.startswith(answers[self.rows].astype(str), "strong")
            answers[self.rows[strong]] = "normal"
        elif name == "defer":
            answers = np.array(answers)
            answers[self.rows] = True
        elif self.chances is not None:
            known = {"predict": self.labels, "predict_proba": self.chances, "loyalty_score": self.chances.max(axis=1)}
            new = np.asarray(known[name])
            alike = answers.dtype.kind == new.dtype.kind
            answers = np.array(answers, dtype=np.result_type(answers, new) if alike else object)
            answers[self.rows] = new
        return answers


def mean_chances(
    predict_proba: Any, matrix: Doubles, rows: Indices, found: Familiarity, columns: Sequence[Column]
) -> Doubles:
    """The mean of the chances with `N_DRAWS` values in the place of every unknown cell."""
    drawn, start = [], 0
    for place, column in enumerate(columns):
        stop = start + column.width
        if column.name in found.rows and column.role != "text":  # of texts no values are kept: they are empty
            # Another order for each column, so that two unknown cells are not large together.
            order = np.random.default_rng(place).permutation(N_DRAWS)
            values = column.columns(found.seen[column.name].draws(N_DRAWS)[order])
            drawn.append((slice(start, stop), np.isin(rows, found.rows[column.name]), values))
        start = stop
    size = max(1, MOST_CELLS // (N_DRAWS * matrix.shape[1]))
    parts = []
    for first in range(0, len(rows), size):
        part = slice(first, first + size)
        tried = np.repeat(matrix[rows[part]][None], N_DRAWS, axis=0)
        for own, unknown, values in drawn:
            tried[:, unknown[part], own] = values[:, None]
        chances = np.asarray(predict_proba(tried.reshape(-1, matrix.shape[1])))
        parts.append(chances.reshape(N_DRAWS, -1, chances.shape[1]).mean(axis=0))
    return np.concatenate(parts)
