"""How a column of text writes its numbers: 172.1, 172,1 cm, 1.003,50, > 120, 14:30, and what stands for a missing one.

It is learnt from the training cells, and new cells are read by it. What the cells leave open is decided so:

- 1,234 and 1.234 in all cells that have a mark, with 1 to 9 in front, may be thousands or thousandths. A comma is
  between thousands, unless other columns of the table have decimal commas; a point is only if they have.
- A unit is what follows every number that is followed by anything; two units are none, and no numbers.
- `> 120`, `< 5` and `90+` are read as the number that they name.
- 14:30, 2:30 pm and 1:45:00 are hours, of the day or of a duration. 1:20, 1:40, all with the same hour, may be ratios.
- A word of which nobody knows that it means missing is taken so where it is rare, and numbers are many.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from multiform.columns._words import MISSING_WORDS

BOUND = r"(<=|>=|=<|=>|[<>≤≥~≈]|(?i:ca|approx|etwa|env|aprox)\.? )"
SPACES = r"[ \u{a0}\u{2009}\u{202f}]"
UNIT = r"[^0-9\s.,;:<>=+()\-–][^0-9]{0,19}"
CELL = (
    rf"^{BOUND}?\s*([€$£])?\s*"
    rf"([-+−]?(?:[0-9](?:[0-9.,'’]|{SPACES}[0-9])*|[.,][0-9]+)(?:[eE][-+]?[0-9]+)?)\s*(\+)?\s*({UNIT})?$"
)
CLOCK = r"^([-+]?)([0-9]{1,3})[:h]([0-5][0-9])(?::([0-5][0-9](?:\.[0-9]{1,9})?))?\s*(?i:uhr|h|([ap])\.?\s?m\.?)?$"
RATIO = r"^([1-9][0-9]*):[0-9]{2}$"
GROUPINGS = ((",", "."), (".", ","), (" ", ","), (" ", "."), ("'", "."), ("'", ","))  # thousands, and decimals
RARE = 0.05  # share of the cells that a word may have which nobody knows
ENOUGH_NUMBERS, MANY_NUMBERS = 20, 13  # cells, and distinct ones, that make such a word a missing number
MOST_WORDS = 20
COMMA_SHARE = 0.3  # of the cells of one column, with a decimal comma that can be nothing else
LOOKED_AT = 200  # cells for that
DECIMAL_COMMA = r"^[^0-9,]{0,12}([0-9]+,([0-9]{1,2}|[0-9]{4,})|0,[0-9]+|[0-9]{1,3}(\.[0-9]{3})+,[0-9]+)[^0-9,]{0,12}$"


class Notation(NamedTuple):
    """How numbers are written.

    Attributes
    ----------
    decimal_comma : bool
    grouping : str
        What stands between thousands: a point, a comma, a space, an apostrophe, or nothing.
    unit : str
        What follows the number, in small letters; a currency may stand before it.
    bounds : bool
        Whether ``>`` or the like may stand before it.
    absent : tuple of str
        What stands for a missing number, beside the words that everybody knows.
    clock : bool
        Whether they are times, read as hours.
    """

    decimal_comma: bool = False
    grouping: str = ""
    unit: str = ""
    bounds: bool = False
    absent: tuple[str, ...] = ()
    clock: bool = False

    def __str__(self) -> str:
        """What is unusual in it, for people."""
        told = []
        if self.decimal_comma:
            told.append("with a decimal comma")
        if self.grouping:
            mark = {".": "points", ",": "commas", " ": "spaces", "'": "apostrophes"}[self.grouping]
            told.append(f"{mark} between thousands")
        if self.unit:
            told.append(f"the unit {self.unit}")
        if self.bounds:
            told.append("signs like > and < left out")
        if self.clock:
            told.append("times as hours")
        return ", ".join(told)


PLAIN = Notation()


def numbers_in(text: Any, notation: Notation) -> tuple[Any, int]:
    """The numbers of a polars series of trimmed text, null where there is none; and how many cells are no number, and
    no word for a missing one either.
    """
    import polars as pl

    number: Any = pl.first()
    if notation.bounds:
        number = number.str.replace(rf"^{BOUND}", "").str.replace(r"\+$", "")
    if notation.unit:
        unit = re.escape(notation.unit).replace(r"\ ", " ")
        number = number.str.replace(rf"(?i)\s*{unit}$", "").str.replace(rf"(?i)^{unit}", "")
    if notation != PLAIN:
        number = number.str.strip_chars().str.replace_all(SPACES, " ").str.replace_all("’", "'").str.replace("−", "-")
    if notation.grouping:
        grouped, mark = (
            _grouped(notation.grouping, "," if notation.decimal_comma else "."),
            re.escape(notation.grouping),
        )
        number = pl.when(number.str.contains(grouped)).then(number.str.replace_all(mark, ""))
    if notation.decimal_comma:
        number = number.str.replace(",", ".", literal=True)
    number = _hours() if notation.clock else number.cast(pl.Float64, strict=False)
    found = text.to_frame().select(number).to_series()
    if found.null_count() == text.null_count():
        return found, 0
    others = text.filter(found.is_null())  # words, and gaps
    return found, len(without_words(others, notation.absent).drop_nulls())


def _hours() -> Any:
    """The expression of times as hours, null where there is none."""
    import polars as pl

    part = pl.first().str.extract_groups(CLOCK).struct
    hours, half = part.field("2").cast(pl.Float64), part.field("5").str.to_lowercase()
    hours = pl.when(half.is_null()).then(hours).otherwise(hours % 12 + 12 * (half == "p"))
    minutes, seconds = part.field("3").cast(pl.Float64), part.field("4").cast(pl.Float64).fill_null(0)
    return pl.when(part.field("1") == "-").then(-1.0).otherwise(1.0) * (hours + minutes / 60 + seconds / 3600)


def hours_of(text: str) -> float | None:
    """A time of day or a duration as hours; None where it is none.

    >>> hours_of("14:30"), hours_of("2:30 pm"), hours_of("0:45:36"), hours_of("14.30")
    (14.5, 14.5, 0.76, None)
    """
    import polars as pl

    found = pl.Series([text.strip()]).to_frame().select(_hours()).item()
    return None if found is None else float(found)


def without_words(text: Any, absent: Sequence[str] = ()) -> Any:
    """The text, null where a word says that the value is missing."""
    import polars as pl

    words = [*MISSING_WORDS, *(word.lower() for word in absent)]
    return text.to_frame().select(pl.when(~pl.first().str.to_lowercase().is_in(words)).then(pl.first())).to_series()


def has_decimal_commas(frame: Any) -> bool:
    """Whether a column of the table has commas that can be nothing but decimal ones."""
    import polars as pl

    some = frame.head(LOOKED_AT).select(pl.col(pl.String))
    have_any = some.select(pl.all().str.contains(",", literal=True).any())
    names = [name for name, found in zip(some.columns, have_any.row(0) if some.width else (), strict=True) if found]
    shares = some.select(pl.col(names).str.strip_chars().str.contains(DECIMAL_COMMA).mean()) if names else have_any[:0]
    return any(share is not None and share >= COMMA_SHARE for share in (shares.row(0) if len(shares) else ()))


def notation_of(text: Any, commas: bool = False) -> Notation | None:
    """How the numbers of a polars series of trimmed text are written; None if these are no numbers.

    `commas`: whether other columns of the table have decimal commas.
    """
    import polars as pl

    text = text.drop_nulls()
    if not text.str.contains("[0-9]").any():  # most columns of words
        return None
    counts = without_words(text).drop_nulls().value_counts()
    distinct, count = counts.get_columns()
    is_clock = distinct.str.contains(CLOCK)
    if is_clock.any():
        absent = _absent(distinct, count, ~is_clock)
        return None if absent is None or _are_ratios(distinct.filter(is_clock)) else Notation(absent=absent, clock=True)
    parts = distinct.to_frame().select(pl.first().str.extract_groups(CELL)).to_series().struct.unnest()
    bound, currency, number, plus, unit = parts.get_columns()
    is_word = number.is_null()
    absent = _absent(distinct, count, is_word)
    if absent is None or len(absent) == len(distinct):
        return None
    if absent:
        bound, currency, number, plus, unit = (one.filter(~is_word) for one in (bound, currency, number, plus, unit))
    units = {" ".join(one.lower().split()) for one in (*unit.drop_nulls().unique(), *currency.drop_nulls().unique())}
    number = number.str.replace_all(SPACES, " ").str.replace_all("’", "'").str.replace("−", "-")
    marks = None if len(units) > 1 else _marks(number, commas)
    if marks is None:
        return None
    bounds = bound.null_count() < len(bound) or plus.null_count() < len(plus)
    return Notation(*marks, next(iter(units), ""), bounds, absent)


def _absent(distinct: Any, count: Any, is_word: Any) -> tuple[str, ...] | None:
    """The words among distinct cells, which stand for a missing number; None where they are too many for that."""
    words = distinct.filter(is_word)
    if not len(words):
        return ()
    n_words, n_numbers = int(count.filter(is_word).sum()), int(count.filter(~is_word).sum())
    few = n_words <= RARE * (n_words + n_numbers) and len(words) <= MOST_WORDS
    many = n_numbers >= ENOUGH_NUMBERS and len(distinct) - len(words) >= MANY_NUMBERS
    return tuple(sorted(words.to_list())) if few and many and not words.str.contains(r"[0-9]").any() else None


def _are_ratios(times: Any) -> bool:
    """Whether what looks like times may as well be 1:20, 1:40, ..."""
    firsts = times.str.extract(RATIO)
    return bool(firsts.null_count() == 0 and firsts.n_unique() == 1)


def is_certain(text: Any, notation: Notation) -> bool:
    """Whether what is between thousands can be nothing else: a number has decimals, too."""
    decimal = "," if notation.decimal_comma else r"\."
    mixed = rf"{re.escape(notation.grouping)}[0-9]{{3}}{decimal}[0-9]"
    return not notation.grouping or bool(text.str.contains(mixed).any())


def _marks(number: Any, commas: bool) -> tuple[bool, str] | None:
    """Whether there are decimal commas, and what is between thousands."""

    def every(pattern: str) -> bool:
        return bool(number.str.contains(pattern).all())

    def only_thousands(mark: str) -> bool:
        marked = number.filter(number.str.contains(mark, literal=True))
        return bool(len(marked)) and bool(
            marked.str.contains(rf"^[-+]?[1-9][0-9]{{0,2}}({re.escape(mark)}[0-9]{{3}})+$").all()
        )

    if every(r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"):
        return (True, ".") if commas and only_thousands(".") else (False, "")
    if every(r"^[-+]?([0-9]+,?[0-9]*|,[0-9]+)([eE][-+]?[0-9]+)?$"):
        return (False, ",") if not commas and only_thousands(",") else (True, "")
    for grouping, decimal in GROUPINGS:
        if every(_grouped(grouping, decimal)):
            return decimal == ",", grouping
    if every(r"^[-+]?[0-9]+([.,][0-9]+)?$") and not (only_thousands(",") or only_thousands(".")):
        return True, ""  # some with a point, as a spreadsheet program has them, some with a comma, as people do
    return None


def _grouped(grouping: str, decimal: str) -> str:
    """Numbers whose thousands are apart, or are not."""
    return rf"^[-+]?([0-9]{{1,3}}({re.escape(grouping)}[0-9]{{3}})+|[0-9]+)({re.escape(decimal)}[0-9]+)?$"
