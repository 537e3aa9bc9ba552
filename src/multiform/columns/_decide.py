"""What a column of a table is: decided on the training data, by rules in this order.

1. asked: what the user says it is
2. constant: one value and no gaps, or nothing but gaps
3. date: a date type, or text of which every cell reads as a date in one format
4. number: a number type, or text of which every cell reads as a number and none begins with a needless 0, as in 00123;
   then it is
   - an identifier, if its values are whole and
     - it counts the rows: all are distinct, and at least half of the numbers of their range, or
     - it is called as people are, patient or customer no: it has 20 distinct values or more, or
     - it is called an id: it has 20 distinct values or more, of at most 5 cells each on average, or
     - it is called a key, an index or the like: all are distinct, or
     - at least half are distinct, and all are as long as a telephone number;
   - a code, if it has 3 to 12 distinct values, all whole;
   - else a number
5. identifier: text of a word or two, which is (almost) all distinct, or is called an identifier, as above; or of which
   more than 50 values and at least half are distinct, and none is common: patients return
6. text: more than 50 distinct values, of three words or more on average
7. category: all other text
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import Any

import numpy as np

from multiform._typing import Doubles
from multiform.columns._cells import (
    DATE_FORMATS,
    EXACT,
    NEEDLESS_ZERO,
    TableError,
    any_numbers,
    as_dates,
    as_numbers,
    as_text,
    is_day,
    is_plain,
    polars,
)
from multiform.columns._kinds import (
    DAY,
    FEWEST_VALUES,
    MOST_VALUES,
    Category,
    Code,
    Column,
    Date,
    Dropped,
    Number,
    Text,
)
from multiform.columns._notation import PLAIN, Notation, without_words
from multiform.columns._words import in_one_spelling, missing_words, yes_and_no

ROLES = ("number", "category", "date", "text", "identifier", "drop")
PERSON_NAME = re.compile(
    r"^(patient(en)?|subject|person|participant|respondent|proband(en)?|customer|client|user|member|employee|student)"
    r"[\s_.-]*(id|nr|no|num|number|nummer|code|key|name)?$|(^|[\s_.-])mrn$",
    re.IGNORECASE,
)
IDENTIFIER_NAME = re.compile(r"(^|[\s_.-])(id|ids|uid|uuid|guid)$", re.IGNORECASE)
CAMEL_IDENTIFIER = re.compile(r"[a-z]I[Dd]$")  # "humid" and "paid" end so, too: the capital matters
DISTINCT_NAME = re.compile(r"(^|[\s_.-])(key|nr|no|rowid|row|index|idx)$", re.IGNORECASE)
COUNTS = "it counts the rows"
AS_ASKED = "as you asked"

DATE_LETTERS = {"%Y": "YYYY", "%y": "YY", "%m": "MM", "%b": "Mon", "%d": "DD", "%H": "hh", "%M": "mm", "%S": "ss"}

NOT = "no"  # what an empty cell beside crosses is
MOST_SPELLINGS = 12  # of yes and no, and of missing, in one column
MOST_TOLD = 3  # words that are said to be missing
MOST_CODED = 200  # columns of a table: in a wider one, a number of few values is no code but a pixel, or the like
MOST_CATEGORIES = 50  # columns that a category becomes at most
MOST_WORDS = 200  # columns that a text becomes at most
MANY_VALUES = 50  # distinct ones, from which on words are read one by one
MANY_WORDS = 3.0  # on average, in free text
ENOUGH_ROWS = 20  # to call a column of distinct values an identifier
SHUFFLED_ROWS = 50  # to see that numbers count the rows though their order is lost
RETURNS = 5  # rows of one patient, on average, that leave an id an identifier
ALMOST_ALL = 0.95
COMMON = 0.05  # of the cells, that one value has
LONG_NUMBER = 9  # digits


def decide(
    series: Any,
    role: str | None = None,
    *,
    most_categories: int = MOST_CATEGORIES,
    most_words: int = MOST_WORDS,
    codes: bool = True,
    commas: bool = False,
) -> Column:
    """What to do with a column of the training table.

    Parameters
    ----------
    series : polars Series
    role : {"number", "category", "date", "text", "identifier", "drop"}, default=None
        What the user says; None decides by the rules above.
    most_categories, most_words : int
        Columns of numbers that a category and a text become at most.
    codes : bool, default=True
        Whether a whole number of few values may be a code; in very wide tables, as of pixels, it is not.
    commas : bool, default=False
        Whether other columns of the table have decimal commas: then 7.400 is more than seven thousand.

    Returns
    -------
    column : Column

    Examples
    --------
    >>> import polars as pl
    >>> from multiform.tables import decide
    >>> decide(pl.Series("size", ["3.5", "", "7"])).feature_names()
    ['size', 'size missing']
    >>> decide(pl.Series("postcode", ["01067", "80331", "01067"])).values
    ('01067', '80331')
    >>> decide(pl.Series("row", [str(i) for i in range(100)])).role
    'identifier'
    """
    name = str(series.name)
    if role in ("drop", "identifier"):
        return Dropped(name, AS_ASKED, "dropped" if role == "drop" else role)
    if not is_plain(series):
        return Dropped(name, f"its type, {series.dtype}, is none that can be used", "dropped")
    if role is not None:
        return _as_asked(series, as_text(series), role, most_categories, most_words, commas)
    if series.dtype.is_numeric():
        values, _ = as_numbers(series)
        present = values[~np.isnan(values)]
        return _constant(series, len(np.unique(present)), len(present)) or _number(name, values, codes)
    text = as_text(series)
    present = text.drop_nulls() if text.null_count() else text
    n_distinct = int(present.n_unique())
    return (
        _constant(text, n_distinct, len(present))
        or _date(series, present, "every cell reads as a date")
        or _numeric(series, present, codes, commas)
        or _truth(name, text, present, n_distinct, most_categories)
        or _words(name, text, present, n_distinct, most_categories, most_words)
    )


def _constant(series: Any, n_distinct: int, n_present: int) -> Dropped | None:
    if n_distinct == 0:
        return Dropped(str(series.name), "every cell is empty", "constant")
    if n_distinct == 1 and n_present == len(series):
        return Dropped(str(series.name), f"every cell is {as_text(series.head(1))[0]!r}", "constant")
    return None


def _as_asked(series: Any, text: Any, role: str, most_categories: int, most_words: int, commas: bool) -> Column:
    name, why = str(series.name), AS_ASKED
    if role == "category":
        return Category.learn(name, why, text.to_list(), most=most_categories)
    if role == "text":
        return _text(name, why, text, most_words)
    if role == "number":
        values, notation = any_numbers(series, commas)
        if notation is None and without_words(text).null_count() < len(text):
            values, _ = as_numbers(series)
            row = next(i for i, value in enumerate(text) if value is not None and np.isnan(values[i]))
            raise TableError(f"it was to be read as a number, and this is {text[row]!r}.", column=name, row=row)
        if notation is None or np.isnan(values).all():
            raise TableError(f"Column {name!r} was to be read as a number, and every cell is empty.")
        return Number.learn(name, _told(why, text, notation), values, **notation._asdict())
    if role == "date":
        date = _date(series, text.drop_nulls(), why)
        if date is None:
            raise TableError(
                f"Column {name!r} was to be read as a date, and no known way to write dates fits all of its cells: "
                f"{'; '.join(written_date(one) for one in DATE_FORMATS if '%H' not in one)}; or with a time."
            )
        return date
    raise TableError(f"The role of column {name!r} must be one of {', '.join(ROLES)}; got {role!r}.")


def _date(series: Any, present: Any, why: str) -> Date | None:
    """`present` are the cells that are there, as text."""
    pl = polars()
    format: str | None = None
    if is_day(series.dtype):
        why, has_time = "its type is a date", series.dtype != pl.Date
    elif series.dtype != pl.String or not len(present):
        return None
    else:
        first = next((cell for cell in present.head(100) if not missing_words([cell])), present[0])
        fitting = [format for format, shape in DATE_SHAPES.items() if shape.fullmatch(first)]
        for cells in (present.head(100), present) if fitting else ():
            fitting = [format for format in fitting if not as_dates(cells, format)[1]]
        if not fitting:
            return None
        format = fitting[0]
        has_time = "%H" in format
        others = [one for one in fitting[1:] if ("%y" in one) == ("%y" in format)]
        other = f"; {written_date(others[0])} would fit, too" if others else ""
        why += f" ({written_date(format)}{other})"
        why = _with_words(why, present)
    seconds, _ = as_dates(series, format)
    missing = np.isnan(seconds)
    has_time = has_time and bool((seconds[~missing] % DAY).any())  # a spreadsheet program writes midnight beside a day
    return Date(str(series.name), why, format, has_time, bool(missing.any()), float(np.median(seconds[~missing])))


def written_date(format: str) -> str:
    """A format of dates as people write it.

    >>> written_date("%d.%m.%Y %H:%M")
    'DD.MM.YYYY hh:mm'
    """
    for code, letters in DATE_LETTERS.items():
        format = format.replace(code, letters)
    return format


def _shape(format: str) -> re.Pattern[str]:
    """What every date in a format looks like. Most columns are no dates, and their first cell shows it."""
    shapes = {"%b": r"[a-z]+", "%y": r"\d\d", "%Y": r"[-+]?\d{3,}"}
    parts = (shapes.get(part, r"[-+]?\d+") for part in re.findall("%.", format))
    marks = (r"\s*" + re.escape(mark) + r"\s*" for mark in re.split("%.", format)[1:-1])
    return re.compile("".join(chain(*zip_longest(parts, marks, fillvalue=""))).replace("\\ ", ""), re.IGNORECASE)


DATE_SHAPES = {format: _shape(format) for format in DATE_FORMATS}


def _numeric(series: Any, present: Any, codes: bool, commas: bool) -> Column | None:
    if series.dtype == polars().Boolean:
        return None
    values, notation = any_numbers(series, commas)
    if notation is None or np.isnan(values).all():
        return None
    if not notation.clock and present.str.contains(NEEDLESS_ZERO).any():
        return None
    return _number(str(series.name), values, codes, present, notation)


def _told(why: str, text: Any, notation: Notation) -> str:
    """The reason, and how the numbers are written."""
    return _with_words(why + f", {notation}" * bool(str(notation)), text, notation.absent)


def _with_words(why: str, text: Any, absent: Sequence[str] = ()) -> str:
    """The reason, and which words count as missing."""
    words = [cell for cell in text.unique().drop_nulls().to_list() if cell in absent or missing_words([cell])]
    shown = ", ".join(map(repr, sorted(words)[:MOST_TOLD])) + ", ..." * (len(words) > MOST_TOLD)
    return f"{why}; {shown} count{'s' * (len(words) == 1)} as missing" if words else why


def _number(name: str, values: Doubles, codes: bool, text: Any = None, notation: Notation = PLAIN) -> Column:
    present = values[~np.isnan(values)]
    whole = bool((present == np.round(present)).all())
    n_values = len(np.unique(present))
    if whole and (why := _identifying(name, present, n_values)):
        return Dropped(name, why, "identifier")
    kind, why = Number, "every cell reads as a number"
    if codes and whole and FEWEST_VALUES <= n_values <= MOST_VALUES and len(present) > 2 * n_values:
        kind, why = Code, f"{n_values} distinct whole numbers"
    return kind.learn(name, why if text is None else _told(why, text, notation), values, **notation._asdict())


def _identifying(name: str, values: Doubles, n_distinct: int) -> str | None:
    """Why whole numbers are names and not measures; None if they seem to be measures."""
    if n_distinct < ENOUGH_ROWS:
        return None
    if n_distinct == len(values) and _count(values):
        return COUNTS
    distinct = _in_cells(n_distinct, len(values))
    if _named(name, n_distinct, len(values)) or (n_distinct == len(values) and DISTINCT_NAME.search(name)):
        return f"its name says that it names rows; {distinct}"
    shortest, longest = (len(f"{value:.0f}") for value in (np.abs(values).min(), np.abs(values).max()))
    is_long = longest == shortest >= LONG_NUMBER and 2 * n_distinct >= len(values)
    return f"it names rows: {distinct}, all of the same length" if is_long else None


def _named(name: str, n_distinct: int, n_cells: int) -> bool:
    """Whether a column is called an identifier, and has as many values as one has."""
    if n_distinct < ENOUGH_ROWS:
        return False
    if PERSON_NAME.search(name):
        return True
    return bool(IDENTIFIER_NAME.search(name) or CAMEL_IDENTIFIER.search(name)) and RETURNS * n_distinct >= n_cells


def _count(values: Doubles) -> bool:
    """Whether whole numbers count: each is there once, and at least half of those that could be. Fewer than 50 must be
    in order, too.
    """
    steps = np.diff(np.sort(values))
    if len(values) < ENOUGH_ROWS or not steps.all() or np.abs(values).max() >= EXACT:
        return False
    step = int(np.gcd.reduce(steps.astype(np.int64)))
    ordered = len(np.unique(np.sign(np.diff(values)))) == 1
    return bool(steps.sum() / step < 2 * len(values)) and (ordered or len(values) >= SHUFFLED_ROWS)


def counts_rows(series: Any) -> bool:
    """Whether a column counts the rows of a table."""
    if not is_plain(series):
        return False
    for part in (series.head(ENOUGH_ROWS), series):  # most columns do not, and a few cells show it
        values, unreadable = as_numbers(part)
        if (
            unreadable
            or np.isnan(values).any()
            or (values != np.round(values)).any()
            or len(np.unique(values)) < len(values)
        ):
            return False
    return _count(values)


def _truth(name: str, text: Any, present: Any, n_distinct: int, most_categories: int) -> Column | None:
    """Yes and no."""
    if n_distinct > MOST_SPELLINGS:
        return None
    words = present.unique().to_list()
    absent = set(missing_words(words))
    values, has_gaps = [word for word in words if word not in absent], bool(absent) or len(present) < len(text)
    if yes_and_no(values, has_gaps) is None:  # most columns of words
        return None
    ranked = sorted(present.value_counts().rows(), key=lambda one: (-one[1], one[0]))
    yes, no = yes_and_no([word for word, _ in ranked if word not in absent], has_gaps) or ("", None)
    spelt = in_one_spelling(text, yes, no or NOT, None if no else NOT)
    why = _with_words(f"yes is {yes!r}, no is {no!r}" if no else f"yes is {yes!r}, no is an empty cell", present)
    empty = None if no else NOT
    return Category.learn(name, why, spelt.to_list(), most=max(2, most_categories), truth=True, empty=empty)


def _words(name: str, text: Any, present: Any, n_distinct: int, most_categories: int, most_words: int) -> Column:
    n_words = 1 + float(present.str.count_matches(" ", literal=True).mean())
    if n_words < MANY_WORDS and len(present) >= ENOUGH_ROWS:
        distinct = _in_cells(n_distinct, len(present))
        if n_distinct >= ALMOST_ALL * len(present):
            return Dropped(name, f"it names rows: {distinct}", "identifier")
        if _named(name, n_distinct, len(present)):
            return Dropped(name, f"its name says that it names rows; {distinct}", "identifier")
        if 2 * n_distinct >= len(present) and n_distinct > MANY_VALUES:
            commonest = int(present.value_counts()["count"].max())
            if commonest <= COMMON * len(present):
                return Dropped(name, f"it names rows: {distinct}", "identifier")
    if n_distinct > MANY_VALUES and n_words >= MANY_WORDS:
        return _text(name, f"{n_words:.0f} words a cell, {n_distinct} distinct texts", text, most_words)
    why = f"{n_distinct} distinct value{'s' * (n_distinct != 1)}"
    return Category.learn(name, why, text.to_list(), most=most_categories)


def _in_cells(n_distinct: int, n_cells: int) -> str:
    return f"{n_distinct} distinct values in {n_cells} cells"


def _text(name: str, why: str, text: Any, most_words: int) -> Column:
    try:
        return Text.learn(name, why, text.drop_nulls().to_list(), most_words)
    except ValueError:  # scikit-learn's, when no cell holds a word
        return Dropped(name, "its text holds no words", "dropped")
