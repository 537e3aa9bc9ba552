"""What a column looked like in training, and whether new cells look like it.

One cell is **unfamiliar** if it is

- a number or a date beyond the least or the greatest of training by more than the margin: what the ten outermost
  training values on that side span. A long tail has a wide margin, a code and a column of two values have none;
- a category that training did not have, or a code in the midst of those it had, if it had each of them twice;
- missing, if training had no gap; or unreadable: a word in a column of numbers.

A whole column has **shifted** if many new cells cannot come from what training had. Two p-values a column:

- gaps: both shares of cells without a value, by Fisher's exact test (hypergeometric, two-sided by doubling);
- values: of numbers, D = max |F_training(v) - F_new(v)| over the kept quantiles v, by Kolmogorov and Smirnov (D is not
  greater than over all values, so this errs on the safe side); of categories, Fisher's test of each value's share, the
  least p-value times their number.

A shift needs p below .01 / (2 x columns), so at most 1 % of unchanged tables have any, and must concern a tenth of the
rows, so that a huge table is not warned of trifles. Counts add up, so a table may come in pieces.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import scipy

from multiform._typing import Array, Bools, Doubles, Indices
from multiform.columns._kinds import NO_KNOWN_WORD, Column, Texts
from multiform.state import require, require_array, require_names, require_whole

N_QUANTILES = 101
N_OUTERMOST = 10  # values on a side, whose span is the margin
MOST_NAMED = 1_000  # categories that are kept by name
MOST_SHOWN, MOST_LETTERS = 8, 40  # of them in a sentence, and of one
FALSE_ALARMS = 0.01  # share of unchanged tables of which some column is said to have shifted, at most
LEAST_SHIFT = 0.1  # share of the rows that a shift must concern

FEW = 500  # cells
EMPTY = 0.0, float("inf"), float("-inf")  # sum, least and greatest of no numbers
REST = object()  # the place of all values but those that are kept
LAST_MOMENT = 2**53  # seconds; no date is beyond it, whatever a cell says
NUMERIC = ("number", "code", "date")  # kinds whose cells are numbers


class UnfamiliarWarning(UserWarning):
    """Cells, or whole columns, do not look as they did in training; answers are given as if the cells were unknown."""


class Shift(NamedTuple):
    """A column that does not look as it did in training.

    Attributes
    ----------
    column : str
    what : {"gaps", "values"}
        Whether its gaps are others, or its values.
    before, after : float
        The share of training rows and of new rows that differ most: see `sentence`.
    p_value : float
        The chance of a difference as large if nothing has changed.
    sentence : str
    """

    column: str
    what: str
    before: float
    after: float
    p_value: float
    sentence: str


@dataclass(frozen=True, eq=False)
class Tally:
    """What is counted of new cells of a column; tallies of parts of a table add up to that of the whole."""

    counts: Indices  # cells of each value of `Seen.values`, and the rest; of numbers, from one quantile to the next
    n_missing: int
    n_unreadable: int
    n_unfamiliar: int
    total: float  # sum, least and greatest of the numbers
    least: float
    greatest: float
    example: str | None  # the first unfamiliar cell

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.counts + other.counts,
            self.n_missing + other.n_missing,
            self.n_unreadable + other.n_unreadable,
            self.n_unfamiliar + other.n_unfamiliar,
            self.total + other.total,
            min(self.least, other.least),
            max(self.greatest, other.greatest),
            other.example if self.example is None else self.example,
        )


@dataclass(frozen=True)
class Seen:
    """What a column looked like in training.

    Attributes
    ----------
    kind : {"number", "code", "date", "category", "text"}
        Dates are seconds since 1970. Of a text it is only known whether it has a word that the model knows.
    n_rows, n_missing : int
        Cells, and those without a value.
    n_groups : int
        How many of the rows tell something of their own: groups where rows belong together, else all.
    values : tuple of float or of str
        Of a number or a date its quantiles, of a code or a category its values.
    counts : tuple of int
        Cells that have this value; of a number, cells above the quantile before and not above this one.
    n_unnamed : int
        Cells of rare categories beyond the 1,000 commonest, which are not kept by name.
    low, high : float
        What a number may be: the least and the greatest value with their margins.
    mean : float
        Of a number.

    Examples
    --------
    >>> import numpy as np
    >>> from multiform.columns import Seen
    >>> ages = Seen.of_numbers(np.arange(29.0, 78.0))
    >>> str(ages), ages.low, ages.high
    ('29 to 77', 20.0, 86.0)
    >>> ages.familiar(np.array([50.0, 80.0, 540.0, np.nan]))
    array([ True,  True, False, False])
    >>> str(Seen.of_texts(["m", "w", "w", None])), Seen.of_texts(["m", "w", "w", None]).familiar(["quit", None])
    ('m, w or missing', array([False,  True]))
    >>> new = np.arange(29.0, 78.0) * 12
    >>> ages.shifts("age", ages.look(new)[1], n_columns=1)[0].sentence
    'mean 53 in training (29 to 77), 636 here (348 to 924); 100 % of the values were at most 77 there, 0 % are here'
    """

    kind: str
    n_rows: int
    n_missing: int
    n_groups: int
    values: tuple[Any, ...]
    counts: tuple[int, ...]
    n_unnamed: int = 0
    low: float = 0.0
    high: float = 0.0
    mean: float = 0.0

    # ------------------------------------------------------------------------------------------------ learning

    @classmethod
    def of_numbers(cls, values: Doubles, kind: str = "number", n_groups: int | None = None) -> Seen:
        """From the training numbers, NaN where one is missing; `n_groups` where rows belong together."""
        present = np.sort(values[np.isfinite(values)])
        n = len(present)
        sizes = (kind, len(values), len(values) - n, len(values) if n_groups is None else n_groups)
        if not n:
            return cls(*sizes, (), ())
        if kind == "code":
            points, counts = np.unique(present, return_counts=True)
        else:
            points = np.unique(present[np.linspace(0, n - 1, N_QUANTILES).round().astype(np.intp)])
            counts = np.diff(np.searchsorted(present, points, side="right"), prepend=0)
        outermost = max(1, min(N_OUTERMOST, n // 2))
        with np.errstate(over="ignore"):
            low, high = 2 * present[0] - present[outermost - 1], 2 * present[-1] - present[-outermost]
            figures = tuple(np.nan_to_num([low, high, (present / n).sum()]).tolist())  # the largest number there is
        return cls(*sizes, tuple(points.tolist()), tuple(counts.tolist()), 0, *figures)

    @classmethod
    def of_texts(cls, texts: Texts, kind: str = "category", n_groups: int | None = None) -> Seen:
        """From the training texts, None where one is missing; `n_groups` where rows belong together."""
        counts: Counter[Any] = Counter(texts)
        n_missing = counts.pop(None, 0)
        ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
        named, rest = ranked[:MOST_NAMED], ranked[MOST_NAMED:]
        sizes = (kind, len(texts), n_missing, len(texts) if n_groups is None else n_groups)
        kept = tuple(value for value, _ in named), tuple(count for _, count in named)
        return cls(*sizes, *kept, sum(count for _, count in rest))

    @classmethod
    def of_column(cls, column: Column, cells: Any, n_groups: int | None = None) -> Seen:
        """From the training cells as the column looks at them (`Column.looks`)."""
        learn = cls.of_numbers if column.role in NUMERIC else cls.of_texts
        return learn(cells, column.role, n_groups)

    # ----------------------------------------------------------------------------------------------- one cell

    @property
    def is_numeric(self) -> bool:
        """Whether cells are numbers, NaN where missing, and not texts, None where missing."""
        return self.kind in NUMERIC

    @property
    def n_present(self) -> int:
        """Training cells that have a value."""
        return self.n_rows - self.n_missing

    def familiar(self, cells: Any) -> Bools:
        """Which cells look as those of training did: numbers with NaN, or texts with None."""
        return self.look(cells)[0]

    def draws(self, n: int) -> Array:
        """`n` values that stand for what a cell might have been: by their shares in training, the same every time."""
        if not self.values:
            return np.full(n, np.nan) if self.is_numeric else np.full(n, None, dtype=object)
        cumulated = np.cumsum(self.counts)
        places = np.searchsorted(cumulated, (np.arange(n) + 0.5) / n * cumulated[-1])
        values: Array = np.array(self.values, dtype=np.float64 if self.is_numeric else object)[places]
        return values

    def gap(self) -> Any:
        """A cell without a value."""
        return np.full(1, np.nan) if self.is_numeric else [None]

    def shown(self, cell: Any) -> str:
        """A cell as people write it."""
        if cell is None or cell != cell:
            return "missing"
        if self.kind == "date" and abs(cell) < LAST_MOMENT:
            moment = str(np.datetime64(round(float(cell)), "s"))
            return moment.removesuffix("T00:00:00").replace("T", " ")
        return f"{cell:.6g}" if self.is_numeric else str(cell)

    def __str__(self) -> str:
        if not self.values:
            return "nothing but gaps"
        if self.kind in ("number", "date"):
            seen = f"{self.shown(self.values[0])} to {self.shown(self.values[-1])}"
        elif self.kind == "text":
            seen = "words that were seen" if NO_KNOWN_WORD not in self.values else "any text"
        else:
            values = self.values[:MOST_SHOWN]  # the commonest; if these are all, in order
            shown = [self.shown(value) for value in (sorted(values) if len(self.values) <= MOST_SHOWN else values)]
            seen = ", ".join(one if len(one) <= MOST_LETTERS else one[: MOST_LETTERS - 1] + "…" for one in shown)
            n_more = len(self.values) - MOST_SHOWN
            seen += f" and {n_more} more" * (n_more > 0) + ", and rarer ones that were not kept" * (self.n_unnamed > 0)
        return seen + " or missing" * (self.n_missing > 0)

    # --------------------------------------------------------------------------------------------- many cells

    @cached_property
    def _points(self) -> Doubles:
        return np.array(self.values, dtype=np.float64)

    @cached_property
    def _place(self) -> dict[Any, int]:
        return {value: place for place, value in enumerate((*self.values, REST, None))}

    def look(self, cells: Any, unreadable: Bools | None = None) -> tuple[Bools, Tally]:
        """Which new cells are familiar, and the tally of them all.

        Parameters
        ----------
        cells : array of numbers with NaN, or texts with None
        unreadable : array of bool, default=None
            Cells that are missing in `cells` because they cannot be read.
        """
        n, figures = len(self.values), EMPTY
        if self.is_numeric:
            missing = np.isnan(cells)
            n_missing = int(np.count_nonzero(missing))
            present = cells[~missing] if n_missing else cells
            is_code = self.kind == "code"
            # All cells against each value is faster than to look for the place of each cell, unless there are few.
            if len(present) < FEW:
                place = self._points.searchsorted(present)
                if is_code and n:
                    place[self._points[np.minimum(place, n - 1)] != present] = n
                counts = np.bincount(place, minlength=n + 1)
                if few := present.tolist():
                    figures = sum(few), min(few), max(few)
            else:
                if is_code:
                    each = np.array([np.count_nonzero(present == value) for value in self.values], dtype=np.intp)
                else:
                    upto = np.array([np.count_nonzero(present <= value) for value in self.values], dtype=np.intp)
                    each = np.diff(upto, prepend=0)
                counts = np.append(each, len(present) - each.sum())
                with np.errstate(over="ignore", invalid="ignore"):
                    figures = float(present.sum()), float(present.min()), float(present.max())
            familiar = (cells >= self.low) & (cells <= self.high) if n else np.zeros(len(cells), dtype=bool)
            if is_code and counts[-1] and 1 not in self.counts:
                familiar &= np.isin(cells, self._points)
        else:
            place = np.fromiter(map(self._place.get, cells, repeat(n)), dtype=np.intp, count=len(cells))
            missing, familiar = place > n, (place < n) | (self.n_unnamed > 0)
            counts, n_missing = np.bincount(place, minlength=n + 2)[: n + 1], int(np.count_nonzero(missing))
        # Of a single row every call counts, so what is rare is asked first.
        if n_missing:
            familiar = np.where(missing, self.n_missing > 0, familiar)
        n_unreadable = 0
        if unreadable is not None and (n_unreadable := int(np.count_nonzero(unreadable))):
            familiar &= ~unreadable
        n_strange = len(familiar) - int(np.count_nonzero(familiar))
        example = self.shown(cells[int(np.argmin(familiar))]) if n_strange else None
        return familiar, Tally(counts, n_missing - n_unreadable, n_unreadable, n_strange, *figures, example)

    def shifts(self, name: str, tally: Tally, n_columns: int) -> list[Shift]:
        """How the column `name` has shifted as a whole, if it has; `n_columns` of the table are asked."""
        found = [self._shift_of_gaps(name, tally), self._shift_of_values(name, tally)]
        return [shift for shift in found if shift is not None and shift.p_value <= FALSE_ALARMS / (2 * n_columns)]

    def _shift_of_gaps(self, name: str, tally: Tally) -> Shift | None:
        n_gaps = tally.n_missing + tally.n_unreadable
        n = n_gaps + int(tally.counts.sum())
        before, after = self.n_missing / max(1, self.n_rows), n_gaps / max(1, n)
        if not self.n_rows or abs(after - before) < LEAST_SHIFT:
            return None
        p = float(self._fisher(self.n_missing, self.n_rows, n_gaps, n))
        which = f" ({tally.n_unreadable} of {n} cannot be read)" if tally.n_unreadable else ""
        sentence = f"{_percent(before)} of the cells had no value in training, {_percent(after)} have none here{which}"
        return Shift(name, "gaps", before, after, p, sentence)

    def _shift_of_values(self, name: str, tally: Tally) -> Shift | None:
        n, n_new = self.n_present, int(tally.counts.sum())
        if not (n and n_new):
            return None
        if self.kind in ("number", "date"):
            before, after = np.cumsum(self.counts) / n, np.cumsum(tally.counts)[:-1] / n_new
            worst = int(np.abs(before - after).argmax())
            distance = abs(before[worst] - after[worst])
            if distance < LEAST_SHIFT:
                return None
            size = n * n_new / (n + n_new) * self.n_groups / self.n_rows
            p = float(scipy.stats.kstwo.sf(distance, max(1, int(size))))
            told = [self.values[0], self.values[-1], tally.least, tally.greatest, self.mean, tally.total / n_new]
            first, last, least, greatest, mean, mean_here = (self.shown(one) for one in told)
            sentence = (
                f"mean {mean} in training ({first} to {last}), {mean_here} here ({least} to {greatest}); "
                f"{_percent(before[worst])} of the values were at most {self.shown(self.values[worst])} there, "
                f"{_percent(after[worst])} are here"
            )
            return Shift(name, "values", float(before[worst]), float(after[worst]), p, sentence)
        # Values that training had once or twice say how many there are that it happened not to have (Good and Turing).
        counts = np.array(self.counts)
        counts = np.append(counts, self.n_unnamed + counts[counts <= 2].sum())
        before, after = counts / n, tally.counts / n_new
        large = np.abs(after - before) >= LEAST_SHIFT
        large[-1] = after[-1] >= before[-1] + LEAST_SHIFT  # fewer are no surprise
        if not large.any():
            return None
        asked = np.flatnonzero(large)
        p_values = self._fisher(counts[asked], n, tally.counts[asked], n_new) * len(counts)
        worst = int(asked[p_values.argmin()])
        if worst == len(self.values):
            sentence = f"{_percent(after[worst])} of the values were never seen in training, which had {self}"
        else:
            value = self.shown(self.values[worst])
            sentence = (
                f"{_percent(before[worst])} of the values were {value!r} in training, {_percent(after[worst])} are here"
            )
        p = min(1.0, float(p_values.min()))
        return Shift(name, "values", float(before[worst]), float(after[worst]), p, sentence)

    def _fisher(self, some: Any, n: int, some_new: Any, n_new: int) -> Any:
        """The p-value of two shares, `some` of n and `some_new` of n_new; where rows belong together, of groups."""
        share = self.n_groups / self.n_rows
        some, n_all, some_new, n_drawn = (np.round(np.asarray(part) * share) for part in (some, n, some_new, n_new))
        given = (n_all + n_drawn, some + some_new, n_drawn)
        hypergeom = scipy.stats.hypergeom
        return np.minimum(1, 2 * np.minimum(hypergeom.cdf(some_new, *given), hypergeom.sf(some_new - 1, *given)))

    # -------------------------------------------------------------------------------------------- model files

    def as_plain(self) -> dict[str, Any]:
        """Plain values, for a model file."""
        state = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.is_numeric:
            state["values"] = np.array(self.values, dtype=np.float64)
        return state | {"counts": np.array(self.counts, dtype=np.int64)}

    @classmethod
    def from_plain(cls, state: Any) -> Seen:
        """The inverse of `as_plain`; ValueError where it is none."""
        names = [field.name for field in fields(cls)]
        require_names(state, "what was seen", names)
        require(state["kind"] in (*NUMERIC, "category", "text"), "what was seen of a column has no kind")
        for name in ("n_rows", "n_missing", "n_groups", "n_unnamed"):
            require_whole(state[name], 0, f"{name} of what was seen")
        require(state["n_groups"] <= state["n_rows"], "there are more groups than rows")
        for name in ("low", "high", "mean"):
            require(
                isinstance(state[name], float) and np.isfinite(state[name]), f"{name} of what was seen is no number"
            )
        counts = require_array(state["counts"], (None,), "i", "the counts of what was seen")
        n_present = state["n_rows"] - state["n_missing"]
        require((counts > 0).all() and counts.sum() + state["n_unnamed"] == n_present, "what was seen does not add up")
        values = state["values"]
        if state["kind"] in NUMERIC:
            require_array(values, (len(counts),), "f", "the values that were seen")
            require(
                np.isfinite(values).all() and (values[1:] > values[:-1]).all(),
                "the values that were seen do not ascend",
            )
            values = tuple(values.tolist())
        else:
            texts = isinstance(values, tuple) and all(isinstance(one, str) for one in values)
            require(texts and len(set(values)) == len(counts), "the values that were seen are no texts")
        return cls(**(state | {"values": values, "counts": tuple(counts.tolist())}))


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
