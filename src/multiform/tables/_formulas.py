"""Text that a spreadsheet program would run as a formula: a table that is opened there may be anybody's."""

from __future__ import annotations

import re
from typing import Any

from multiform.columns import polars

# What is run as a formula, and what is not, as it is a number.
FORMULA, NUMBER = r"^[=+\-@\t\r]", r"^[-+]?(\d+([.,]\d*)?|[.,]\d+)([eE][-+]?\d+)?$"


def _is_formula(text: Any) -> Any:
    return text.str.contains(FORMULA) & ~text.str.contains(NUMBER)


def n_formulas(frame: Any) -> int:
    """How many texts in a frame a spreadsheet program would run."""
    pl = polars()
    cells = frame.select(_is_formula(pl.col(pl.String)).sum())
    return int(sum(cells.row(0)) if cells.width else 0)


def without_formulas(frame: Any) -> Any:
    """The frame with ' before each text, and each name of a column, that a spreadsheet program would run.

    >>> import polars as pl
    >>> from multiform.tables import without_formulas
    >>> without_formulas(pl.DataFrame({"=a": ["=1+1", "-1.5", "@x", "fine"]})).to_dict(as_series=False)
    {"'=a": ["'=1+1", '-1.5', "'@x", 'fine']}
    """
    pl = polars()
    texts = pl.col(pl.String)
    safe = frame.with_columns(pl.when(_is_formula(texts)).then("'" + texts).otherwise(texts).name.keep())
    return safe.rename({name: f"'{name}" for name in frame.columns if re.match(FORMULA, name)})
