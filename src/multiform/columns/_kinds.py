"""The kinds of columns. Each class is one way to make columns of numbers of a column; its fields are all that it has
learnt from the training data: plain values, which a model file keeps.

`Number` and `Category` can treat a missing cell in two ways. In tables, it has a column of its own where the training
table had gaps, and is 0 in the columns of the values. In plans, it is read as the median, or the commonest value, in
all columns, and one more says that it was missing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import repeat
from typing import Any, ClassVar

import numpy as np

from multiform._typing import Array, Bools, Doubles
from multiform.columns._cells import (
    DATE_FORMATS,
    FARTHEST_MOMENT,
    MISSING,
    as_dates,
    as_numbers,
    as_text,
    is_plain,
    polars,
)
from multiform.columns._notation import Notation, without_words
from multiform.columns._words import NO, YES, in_one_spelling
from multiform.state import require, require_array, require_names, spend

# A number of 3 to 12 distinct values may be a code, and gets a column per value (in plans, up to 6).
FEWEST_VALUES, MOST_VALUES = 3, 12
# Cells that must have a value for it to get a column, and cells that must be missing for a column to say so.
LEAST_CELLS = 1, 1
DAY = 86_400.0
LARGEST_WEIGHT = 1e6  # of a word there
Texts = Sequence[str | None] | Array
Cells = tuple[Any, Bools]  # numbers with NaN or texts with None, and which of them are there but cannot be read
NO_PLACE = -2  # of a missing category among the values; -1 is another value
KNOWN_WORDS, NO_KNOWN_WORD = "known words", "no known word"


@dataclass(frozen=True)
class Column(ABC):
    """A column of the training table.

    Attributes
    ----------
    name : str
    why : str
        What it was taken for, and on what grounds; for people.
    """

    name: str
    why: str
    role: ClassVar[str] = "column"

    @abstractmethod
    def feature_names(self) -> list[str]:
        """Names of the columns of numbers that it becomes."""

    @abstractmethod
    def read(self, series: Any) -> Cells:
        """The cells of a polars series of any length: numbers with NaN or texts with None; and which are no gaps and
        yet cannot be read (a word in a column of numbers)."""

    @abstractmethod
    def columns(self, cells: Any) -> Doubles:
        """The columns of numbers that these cells become: shape (n, width)."""

    def encode(self, series: Any) -> Doubles:
        """The columns of numbers that a polars series becomes: shape (n, width)."""
        return self.columns(self.read(series)[0])

    def looks(self, cells: Any, encoded: Doubles) -> Any:
        """The cells as one remembers them (`Seen`); `encoded` is what they become."""
        return cells

    @property
    @abstractmethod
    def width(self) -> int:
        """How many columns of numbers it becomes; their names may be long, so it is counted without them."""

    def typed(self, series: Any) -> Any:
        """The series with the type that it was taken for."""
        return as_text(series).alias(self.name)

    def description(self) -> dict[str, Any]:
        """For people and for JSON."""
        return {"name": self.name, "role": self.role, "why": self.why, "becomes": self.feature_names()}

    def state(self) -> dict[str, Any]:
        """What it has learnt as plain values, for a model file."""
        return {"kind": type(self).__name__, **{field.name: getattr(self, field.name) for field in fields(self)}}

    def _missing_name(self) -> list[str]:
        """The name of the column that says where a cell is missing, if there is one."""
        return [f"{self.name} missing"] if getattr(self, "has_missing", False) else []


@dataclass(frozen=True)
class Dropped(Column):
    """Not used: an identifier, a constant, or asked to be left out."""

    reason: str = "dropped"

    @property
    def role(self) -> str:  # type: ignore[override]
        return self.reason

    def feature_names(self) -> list[str]:
        return []

    @property
    def width(self) -> int:
        return 0

    def read(self, series: Any) -> Cells:
        return np.full(len(series), np.nan), np.zeros(len(series), dtype=bool)

    def columns(self, cells: Any) -> Doubles:
        return np.empty((len(cells), 0))

    def typed(self, series: Any) -> Any:
        if is_plain(series):
            return super().typed(series)
        pl = polars()
        return pl.Series(self.name, [None] * len(series), dtype=pl.String)


@dataclass(frozen=True)
class Number(Column):
    """The number, the median where it is missing; and 1 in a further column where it is, if the training data had gaps.

    Attributes
    ----------
    median : float
    has_missing : bool
        Whether a column says that the number is missing.
    decimal_comma, grouping, unit, bounds, absent, clock
        How text is read: its `Notation`.
    values, steps : tuple of float
        The values that have a column of their own, and the thresholds that have one.
    fill_all : bool
        Whether a missing number is the median in the columns of values, too, and not 0; what says so then comes last.
    """

    median: float
    has_missing: bool
    decimal_comma: bool = False
    values: tuple[float, ...] = ()
    steps: tuple[float, ...] = ()
    fill_all: bool = False
    grouping: str = ""
    unit: str = ""
    bounds: bool = False
    absent: tuple[str, ...] = ()
    clock: bool = False
    role: ClassVar[str] = "number"

    @property
    def notation(self) -> Notation:
        """How text is read."""
        return Notation(self.decimal_comma, self.grouping, self.unit, self.bounds, self.absent, self.clock)

    @classmethod
    def learn(
        cls, name: str, why: str, values: Doubles, least: tuple[int, int] = LEAST_CELLS, **settings: Any
    ) -> Number:
        """From numbers with NaN, not all missing."""
        missing = np.isnan(values)
        if issubclass(cls, Code):
            distinct, counts = np.unique(values[~missing], return_counts=True)
            settings["values"] = tuple(distinct[counts >= min(least[0], counts.max())].tolist())
        median = 2 * float(np.median(values[~missing] / 2))  # halved: two numbers of 1e308 have no sum
        return cls(name, why, median, int(missing.sum()) >= least[1], **settings)

    def feature_names(self) -> list[str]:
        missing = self._missing_name()
        each = [*(f"{self.name} > {step:g}" for step in self.steps), *(f"{self.name} = {v:g}" for v in self.values)]
        return [self.name, *each, *missing] if self.fill_all else [self.name, *missing, *each]

    @property
    def width(self) -> int:
        return 1 + len(self.steps) + len(self.values) + self.has_missing

    def columns(self, cells: Doubles) -> Doubles:
        """The columns of numbers with NaN: shape (n, width)."""
        filled = self.filled(cells)
        if self.width == 1:
            return filled[:, None].astype(np.float64, copy=False)
        found, read = np.empty((len(cells), self.width)), (filled if self.fill_all else cells)[:, None]
        found[:, 0] = filled
        if self.has_missing:
            found[:, -1 if self.fill_all else 1] = np.isnan(cells)
        first = 1 if self.fill_all else 1 + self.has_missing
        last = first + len(self.steps)
        if self.steps:
            found[:, first:last] = read > np.array(self.steps)
        if self.values:
            found[:, last : last + len(self.values)] = read == np.array(self.values)
        return found

    def filled(self, values: Doubles) -> Doubles:
        """The numbers themselves, without gaps."""
        return np.where(np.isnan(values), self.median, values)

    def typed(self, series: Any) -> Any:
        values, _ = as_numbers(series, self.notation)
        return polars().Series(self.name, values).fill_nan(None)

    def read(self, series: Any) -> Cells:
        values, _ = as_numbers(series, self.notation)
        return values, _unreadable(series, values, self.absent)


class Code(Number):
    """A whole number of few values, which may be a measure or a code: the number, and beside it a column per value."""

    role: ClassVar[str] = "code"


@dataclass(frozen=True)
class Category(Column):
    """A column per value; in tables, rare values share one, "other", and a missing value has one if there were gaps.

    A value that the training data do not have is "other" where there is such a column, else 0 in all columns.

    Attributes
    ----------
    values : tuple of str
    has_other, has_missing : bool
        Whether there are columns for other values and for none.
    fill : str or None
        The value that a missing one is read as, too; None if it is 0 in the columns of all values.
    truth : bool
        Whether the values are yes and no; other spellings of these are the same.
    empty : str or None
        What an empty cell is, where that means something: no, beside crosses.
    """

    values: tuple[str, ...]
    has_other: bool
    has_missing: bool
    fill: str | None = None
    truth: bool = False
    empty: str | None = None
    role: ClassVar[str] = "category"
    steps: ClassVar[tuple[float, ...]] = ()  # words have no order

    @classmethod
    def learn(
        cls,
        name: str,
        why: str,
        texts: Texts,
        least: tuple[int, int] = LEAST_CELLS,
        most: int | None = None,
        **settings: Any,
    ) -> Category:
        """The most frequent values, among equally frequent ones the first in the alphabet.

        If there are more than `most`, the rest is "other". Without `most`, a missing value is read as the commonest.
        """
        counts: Counter[Any] = Counter(texts)
        n_missing = counts.pop(None, 0)
        ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
        kept = sorted(value for value, count in ranked[:most] if count >= min(least[0], ranked[0][1]))
        if most is None:
            return cls(name, why, tuple(kept), False, n_missing >= least[1], ranked[0][0])
        n_other = len(ranked) - len(kept)
        why += f"; the {n_other} rarest are one, 'other'" if n_other else ""
        return cls(name, why, tuple(kept), n_other > 0, n_missing >= least[1], **settings)

    def feature_names(self) -> list[str]:
        names = [f"{self.name} = {value}" for value in self.values]
        other = [f"{self.name} other"] if self.has_other else []
        return [*names, *other, *self._missing_name()]

    @property
    def width(self) -> int:
        return len(self.values) + self.has_other + self.has_missing

    @cached_property
    def _place(self) -> dict[str | None, int]:
        return {value: place for place, value in enumerate(self.values)} | {None: NO_PLACE}

    def columns(self, cells: Texts) -> Doubles:
        """The columns of texts with None: shape (n, width)."""
        place = np.fromiter(map(self._place.get, cells, repeat(-1)), dtype=np.intp, count=len(cells))
        missing = place == NO_PLACE
        if self.fill is not None:
            place[missing] = self._place[self.fill]
        encoded = np.zeros((len(place), self.width))
        known = np.flatnonzero(place >= 0)
        encoded[known, place[known]] = 1
        if self.has_other:
            encoded[(place < 0) & ~missing, len(self.values)] = 1
        if self.has_missing:
            encoded[missing, -1] = 1
        return encoded

    def filled(self, texts: Texts) -> Array:
        """The texts themselves; where `fill` is, without gaps."""
        found = np.empty(len(texts), dtype=object)
        found[:] = [self.fill if text is None else text for text in texts]
        return found

    def typed(self, series: Any) -> Any:
        text = super().typed(series)
        if not self.truth:
            return text
        first, second = self.values
        yes, no = (second, first) if first.lower() in NO else (first, second)
        return in_one_spelling(text, yes, no, self.empty)

    def read(self, series: Any) -> Cells:
        return self.typed(series).to_list(), np.zeros(len(series), dtype=bool)

    def description(self) -> dict[str, Any]:
        return super().description() | ({"role": "boolean"} if self.truth else {})


def spellings(category: Category, value: str | None) -> list[str]:
    """What is read as a value of a category, or as a missing one, in cells without blanks around them."""
    if value is None:
        return list(MISSING) if category.empty is None else []
    empty = list(MISSING) if value == category.empty else []
    if not category.truth:
        return [value, *empty]
    low = YES if value.lower() in YES else NO
    return sorted({value, *low, *(word.upper() for word in low), *(word.title() for word in low)}) + empty


class _Single:
    """A column that is one number, NaN where there is none: for classifiers that read gaps."""

    name: str

    def feature_names(self) -> list[str]:
        return [self.name]

    @property
    def width(self) -> int:
        return 1


class Measure(_Single, Number):
    """A number as it is."""

    @classmethod
    def of(cls, number: Number) -> Measure:
        """The same number as a measure."""
        return cls(number.name, number.why, number.median, number.has_missing, **number.notation._asdict())

    def columns(self, cells: Doubles) -> Doubles:
        """The numbers themselves: shape (n, 1)."""
        return np.array(cells, dtype=np.float64)[:, None]


class Label(_Single, Category):
    """A category in one column, the place of its value; NaN where it is missing or was not in the training data."""

    @classmethod
    def of(cls, category: Category) -> Label:
        """The same category as a label."""
        return cls(
            category.name,
            category.why,
            category.values,
            category.has_other,
            category.has_missing,
            truth=category.truth,
            empty=category.empty,
        )

    def columns(self, cells: Texts) -> Doubles:
        """The places of the texts among the values: shape (n, 1)."""
        place = np.fromiter(map(self._place.get, cells, repeat(-1)), dtype=np.float64, count=len(cells))
        return np.where(place < 0, np.nan, place)[:, None]


class Rank(Label):
    """A category whose values have an order, in which they stand: their places are numbers, and no mere names."""


@dataclass(frozen=True)
class Date(Column):
    """The day as a number, and month, weekday and (where there is a time) hour as points on a circle."""

    format: str | None
    has_time: bool
    has_missing: bool
    median: float  # seconds since 1970
    role: ClassVar[str] = "date"

    def feature_names(self) -> list[str]:
        circles = ["month", "weekday", *(["hour"] if self.has_time else [])]
        parts = [f"{self.name} {circle} {part}" for circle in circles for part in ("sin", "cos")]
        return [f"{self.name} day", *parts, *self._missing_name()]

    @property
    def width(self) -> int:
        return 5 + 2 * self.has_time + self.has_missing

    def typed(self, series: Any) -> Any:
        pl = polars()
        seconds, _ = as_dates(series, self.format, others=True)
        milliseconds = (pl.Series(self.name, seconds).fill_nan(None) * 1000).round(0).cast(pl.Int64)
        return milliseconds.cast(pl.Datetime("ms"))

    def read(self, series: Any) -> Cells:
        seconds, _ = as_dates(series, self.format, others=True)
        return seconds, _unreadable(series, seconds)

    def columns(self, cells: Doubles) -> Doubles:
        """The columns of moments, seconds since 1970, with NaN: shape (n, width)."""
        missing = np.isnan(cells)
        moments = np.where(missing, self.median, cells)
        days = moments / DAY
        month = np.array(moments, dtype="datetime64[s]").astype("datetime64[M]").astype(np.int64) % 12
        # 1 January 1970 was a Thursday.
        turns = [month / 12, (np.floor(days) + 3) % 7 / 7, *([days % 1] if self.has_time else [])]
        circles = [part(2 * np.pi * turn) for turn in turns for part in (np.sin, np.cos)]
        columns = [days, *circles, *([missing] if self.has_missing else [])]
        return np.column_stack(columns).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Text(Column):
    """Free text: how much each of the most frequent words tells (scikit-learn's TF-IDF)."""

    words: tuple[str, ...]
    weights: Doubles
    role: ClassVar[str] = "text"

    @classmethod
    def learn(cls, name: str, why: str, texts: Sequence[str], most_words: int) -> Text:
        """The `most_words` most frequent words of the training texts."""
        fitted = _vectorizer(max_features=most_words).fit(texts)
        return cls(name, why, tuple(fitted.get_feature_names_out().tolist()), np.asarray(fitted.idf_, dtype=np.float64))

    def feature_names(self) -> list[str]:
        return [f"{self.name} : {word}" for word in self.words]

    @property
    def width(self) -> int:
        return len(self.words)

    @cached_property
    def _fitted(self) -> Any:
        vectorizer = _vectorizer(vocabulary=list(self.words))
        vectorizer.idf_ = self.weights
        return vectorizer

    def read(self, series: Any) -> Cells:
        return as_text(series).to_list(), np.zeros(len(series), dtype=bool)

    def columns(self, cells: Texts) -> Doubles:
        """The weights of the words in texts with None: shape (n, width)."""
        texts = ["" if text is None else text for text in cells]
        if not texts:  # scikit-learn takes no empty table
            return np.empty((0, self.width))
        return np.asarray(self._fitted.transform(texts).toarray(), dtype=np.float64)

    def looks(self, cells: Any, encoded: Doubles) -> Any:
        """Only whether there is a word that is known."""
        known = np.asarray(encoded.any(axis=1))
        return [
            None if text is None else KNOWN_WORDS if has_one else NO_KNOWN_WORD
            for text, has_one in zip(cells, known, strict=True)
        ]


def _unreadable(series: Any, values: Doubles, absent: Sequence[str] = ()) -> Bools:
    """Which cells have no value, and yet are no gaps, nor words for one."""
    found = np.isnan(values)
    if not np.count_nonzero(found):  # `any` takes thrice as long, which counts where a row is all there is
        return found
    if series.dtype.is_numeric():
        return np.asarray(np.isinf(series.cast(polars().Float64).to_numpy()))
    found[found] = without_words(as_text(series.filter(polars().Series(found))), absent).is_not_null().to_numpy()
    return found


def _vectorizer(**settings: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(sublinear_tf=True, strip_accents="unicode", token_pattern=r"(?u)\b\w+\b", **settings)


# The type of each field in a model file; a name means the same in all kinds.
FIELD_TYPES: dict[str, Any] = {
    **dict.fromkeys(("name", "why", "reason", "grouping", "unit"), str),
    **dict.fromkeys(
        ("has_missing", "has_other", "has_time", "decimal_comma", "fill_all", "bounds", "truth", "clock"), bool
    ),
    **dict.fromkeys(("values", "steps", "words", "absent"), tuple),
    **dict.fromkeys(("format", "fill", "empty"), str | None),
    "median": float,
    "weights": np.ndarray,
}


LATER = {"grouping", "unit", "bounds", "absent", "clock", "truth", "empty"}  # files of 0.1 do not have them


def column_from(state: Any) -> Column:
    """The column of a `Column.state`; ValueError where it is none."""
    kinds = {kind.__name__: kind for kind in (Dropped, Number, Code, Measure, Category, Label, Rank, Date, Text)}
    kind: Any = kinds.get(str(state.get("kind"))) if isinstance(state, dict) else None
    require(kind is not None, "a column is none")
    parts = {name: value for name, value in state.items() if name != "kind"}
    named = [field.name for field in fields(kind)]
    require_names(parts, f"a {kind.__name__}", [name for name in named if name not in LATER], LATER & set(named))
    for name, value in parts.items():
        cell_type = str if issubclass(kind, Category | Text) or name == "absent" else float
        require(isinstance(value, FIELD_TYPES[name]), f"{name} of a column has the wrong type")
        require(not isinstance(value, float) or np.isfinite(value), f"{name} of a column is not a number")
        if isinstance(value, tuple):
            require(all(isinstance(one, cell_type) for one in value), f"{name} of a column has the wrong type")
            require(len(set(value)) == len(value), f"{name} of a column are not distinct")
    if kind is Text:
        weights = require_array(parts["weights"], (len(parts["words"]),), "f", "the weights of words")
        require(len(weights) > 0 and ((weights > 0) & (weights < LARGEST_WEIGHT)).all(), "a weight of a word is wrong")
        require(all(parts["words"]), "a word is empty")
    if issubclass(kind, Category):
        require(parts["fill"] in (None, *parts["values"]), "a missing value is read as one that is none")
        require(not parts.get("truth") or len(parts["values"]) == 2, "yes and no are not two values")
        require(parts.get("empty") in (None, *parts["values"]), "an empty cell is read as a value that is none")
    if issubclass(kind, Number):
        require(parts.get("grouping", "") in ("", ".", ",", " ", "'"), "nothing of the kind stands between thousands")
    if kind is Date:
        require(parts["format"] in (None, *DATE_FORMATS), "there is no such format of dates")
        require(abs(parts["median"]) < FARTHEST_MOMENT, "a date is out of range")
    found: Column = kind(**parts)
    spend((len(found.name) + 16) * found.width, "the names of the columns")
    return found
