"""What a column of a table becomes: a few columns of numbers. Each class below is one way, and its fields are all that
it has learnt from the training data: plain values, which a model file keeps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from multiform.tables._errors import polars
from multiform.tables._values import as_dates, as_numbers, as_text, is_plain

__all__ = ["Category", "Code", "Column", "Date", "Dropped", "Encoded", "Number", "Text"]

Doubles = npt.NDArray[np.float64]
DAY = 86_400.0


class Encoded(NamedTuple):
    """A column as numbers, and what was odd about it."""

    values: Doubles  # shape (n, width)
    n_missing: int
    n_unseen: int  # categories that the training data do not have
    n_unreadable: int  # cells of a number or date column that are neither


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
    def encode(self, series: Any) -> Encoded:
        """The numbers for a polars series of any length."""

    def typed(self, series: Any) -> Any:
        """The series with the type that it was taken for."""
        return as_text(series).alias(self.name)

    def description(self) -> dict[str, Any]:
        """For people and for JSON."""
        return {"name": self.name, "role": self.role, "why": self.why, "becomes": self.feature_names()}


@dataclass(frozen=True)
class Dropped(Column):
    """Not used: an identifier, a constant, or asked to be left out."""

    reason: str = "dropped"

    @property
    def role(self) -> str:  # type: ignore[override]
        return self.reason

    def feature_names(self) -> list[str]:
        return []

    def typed(self, series: Any) -> Any:
        if is_plain(series):
            return as_text(series).alias(self.name)
        pl = polars()
        return pl.Series(self.name, [None] * len(series), dtype=pl.String)

    def encode(self, series: Any) -> Encoded:
        return Encoded(np.empty((len(series), 0)), 0, 0, 0)


@dataclass(frozen=True)
class Number(Column):
    """The number; the median where it is missing, and then 1 in a second column if the training data had gaps, too."""

    median: float
    has_missing: bool
    decimal_comma: bool
    role: ClassVar[str] = "number"

    def feature_names(self) -> list[str]:
        return [self.name, *([f"{self.name} missing"] if self.has_missing else [])]

    def typed(self, series: Any) -> Any:
        values, _ = as_numbers(series, self.decimal_comma)
        return polars().Series(self.name, values).fill_nan(None)

    def encode(self, series: Any) -> Encoded:
        values, unreadable = as_numbers(series, self.decimal_comma)
        missing = np.isnan(values)
        filled = np.where(missing, self.median, values)
        columns = [filled, missing] if self.has_missing else [filled]
        return Encoded(np.column_stack(columns).astype(np.float64), int(missing.sum()) - unreadable, 0, unreadable)


@dataclass(frozen=True)
class Code(Column):
    """A whole number of few values, which may be a measure or a code: the number, and beside it a column a value."""

    number: Number
    values: tuple[float, ...]
    role: ClassVar[str] = "code"

    def feature_names(self) -> list[str]:
        return [*self.number.feature_names(), *(f"{self.name} = {value:g}" for value in self.values)]

    def typed(self, series: Any) -> Any:
        return self.number.typed(series)

    def encode(self, series: Any) -> Encoded:
        found = self.number.encode(series)
        raw, _ = as_numbers(series, self.number.decimal_comma)
        each = raw[:, None] == np.array(self.values)
        unseen = int((~each.any(axis=1) & ~np.isnan(raw)).sum())
        return found._replace(values=np.column_stack([found.values, each]).astype(np.float64), n_unseen=unseen)


@dataclass(frozen=True)
class Category(Column):
    """A column a value; rare values share one, "other"; a missing value has its own if the training data had gaps.

    A value that the training data do not have is "other" where there is such a column, else 0 in all columns.
    """

    values: tuple[str, ...]
    has_other: bool
    has_missing: bool
    role: ClassVar[str] = "category"

    def feature_names(self) -> list[str]:
        names = [f"{self.name} = {value}" for value in self.values]
        return [
            *names,
            *([f"{self.name} other"] if self.has_other else []),
            *([f"{self.name} missing"] if self.has_missing else []),
        ]

    @cached_property
    def _place(self) -> dict[str, int]:
        return {value: place for place, value in enumerate(self.values)}

    def encode(self, series: Any) -> Encoded:
        text = as_text(series)
        # Each distinct value is looked up once.
        distinct = text.unique(maintain_order=True)
        places = {value: self._place.get(value, -1) for value in distinct if value is not None}
        place = np.array([-2 if value is None else places[value] for value in text.to_list()], dtype=np.intp)
        n_values = len(self.values)
        encoded = np.zeros((len(text), len(self.feature_names())))
        known = np.flatnonzero(place >= 0)
        encoded[known, place[known]] = 1
        if self.has_other:
            encoded[place == -1, n_values] = 1
        if self.has_missing:
            encoded[place == -2, -1] = 1
        return Encoded(encoded, int((place == -2).sum()), int((place == -1).sum()), 0)


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
        return [
            f"{self.name} day",
            *(f"{self.name} {circle} {part}" for circle in circles for part in ("sin", "cos")),
            *([f"{self.name} missing"] if self.has_missing else []),
        ]

    def typed(self, series: Any) -> Any:
        pl = polars()
        seconds, _ = as_dates(series, self.format)
        milliseconds = (pl.Series(self.name, seconds).fill_nan(None) * 1000).round(0).cast(pl.Int64)
        return milliseconds.cast(pl.Datetime("ms"))

    def encode(self, series: Any) -> Encoded:
        seconds, unreadable = as_dates(series, self.format)
        missing = np.isnan(seconds)
        moments = np.where(missing, self.median, seconds)
        days = moments / DAY
        month = np.array(moments, dtype="datetime64[s]").astype("datetime64[M]").astype(np.int64) % 12
        # 1 January 1970 was a Thursday.
        turns = [month / 12, (np.floor(days) + 3) % 7 / 7, *([days % 1] if self.has_time else [])]
        circles = [part(2 * np.pi * turn) for turn in turns for part in (np.sin, np.cos)]
        columns = [days, *circles, *([missing] if self.has_missing else [])]
        return Encoded(np.column_stack(columns).astype(np.float64), int(missing.sum()) - unreadable, 0, unreadable)


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

    @cached_property
    def _fitted(self) -> Any:
        vectorizer = _vectorizer(vocabulary=list(self.words))
        vectorizer.idf_ = self.weights
        return vectorizer

    def encode(self, series: Any) -> Encoded:
        text = as_text(series)
        missing = int(text.null_count())
        values = self._fitted.transform(text.fill_null("").to_list()).toarray()
        return Encoded(np.asarray(values, dtype=np.float64), missing, 0, 0)


def _vectorizer(**settings: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(sublinear_tf=True, strip_accents="unicode", token_pattern=r"(?u)\b\w+\b", **settings)
