"""Columns: what each one is (a number, a code, a category, a date, a text, or left out) and how it becomes numbers.

Three rooms read columns: `multiform.tables` (any table, by way of polars), `multiform.diagnosis` (the features of a
plan, as arrays) and `QMSClassifierCV` (one-hot values and hinges beside the columns of a matrix). What they do alike
stands here once. Where they differ, `_encodings.py` has the numbers beside those of tables, and `Number` and `Category`
say what becomes of missing cells.
"""

from multiform.columns._cells import (
    TableError,
    as_frame,
    as_numbers,
    as_text,
    columns_of,
    numbers_or_text,
    polars,
    typed,
    with_numbers,
)
from multiform.columns._decide import COUNTS, MOST_CATEGORIES, MOST_CODED, MOST_WORDS, ROLES, counts_rows, decide
from multiform.columns._encodings import FARTHEST, Encoding, Encodings
from multiform.columns._kinds import Category, Code, Column, Date, Dropped, Number, Text, column_from
from multiform.columns._seen import Seen, Shift, Tally, UnfamiliarWarning

__all__ = [
    "COUNTS",
    "FARTHEST",
    "MOST_CATEGORIES",
    "MOST_CODED",
    "MOST_WORDS",
    "ROLES",
    "Category",
    "Code",
    "Column",
    "Date",
    "Dropped",
    "Encoding",
    "Encodings",
    "Number",
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
    "numbers_or_text",
    "polars",
    "typed",
    "with_numbers",
]
