"""Columns: what each one is (a number, a code, a category, a date, a text, or left out) and how it becomes numbers.

Three rooms read columns: `multiform.tables` (any table, by way of polars), `multiform.diagnosis` (the features of a
plan, as arrays) and `QMSClassifierCV` (one-hot values and hinges beside the columns of a matrix). What they do alike
stands here once. Where they differ, `_encodings.py` has the numbers beside those of tables, and `Number` and `Category`
say what becomes of missing cells.
"""

from multiform.columns._categories import Categories, Coded, warn_of_unknown
from multiform.columns._cells import (
    TableError,
    as_frame,
    as_numbers,
    as_text,
    columns_of,
    moment_among,
    numbers_or_text,
    polars,
    repeated_name,
    typed,
    with_numbers,
    without,
)
from multiform.columns._decide import COUNTS, MOST_CATEGORIES, MOST_CODED, MOST_WORDS, ROLES, counts_rows, decide
from multiform.columns._encodings import ENRICHED, FARTHEST, Encoding, Encodings
from multiform.columns._frames import (
    MOST_LABELS,
    NumbersAsTextWarning,
    frame_numbers,
    holds_words,
    learn_frame,
    places_of,
)
from multiform.columns._kinds import (
    NO_KNOWN_WORD,
    Category,
    Code,
    Column,
    Date,
    Dropped,
    Label,
    Measure,
    Number,
    Rank,
    Text,
    column_from,
    spellings,
)
from multiform.columns._notation import Notation, has_decimal_commas, hours_of
from multiform.columns._seen import Seen, Shift, Tally, UnfamiliarWarning

__all__ = [
    "COUNTS",
    "ENRICHED",
    "FARTHEST",
    "MOST_CATEGORIES",
    "MOST_CODED",
    "MOST_LABELS",
    "MOST_WORDS",
    "NO_KNOWN_WORD",
    "ROLES",
    "Categories",
    "Category",
    "Code",
    "Coded",
    "Column",
    "Date",
    "Dropped",
    "Encoding",
    "Encodings",
    "Label",
    "Measure",
    "Notation",
    "Number",
    "NumbersAsTextWarning",
    "Rank",
    "Seen",
    "Shift",
    "TableError",
    "Tally",
    "Text",
    "UnfamiliarWarning",
    "as_frame",
    "as_numbers",
    "as_text",
    "column_from",
    "columns_of",
    "counts_rows",
    "decide",
    "frame_numbers",
    "has_decimal_commas",
    "holds_words",
    "hours_of",
    "learn_frame",
    "moment_among",
    "numbers_or_text",
    "places_of",
    "polars",
    "repeated_name",
    "spellings",
    "typed",
    "warn_of_unknown",
    "with_numbers",
    "without",
]
