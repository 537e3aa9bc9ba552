"""What is wrong with a table, in one sentence."""

from __future__ import annotations

from typing import Any

__all__ = ["TableError", "polars"]


class TableError(ValueError):
    """A table that cannot be read or used; names the file, the line and the column where they are known.

    Parameters
    ----------
    sentence : str
    column : str, default=None
        The column of the cell that is wrong.
    row : int, default=None
        Its row in the table, from 0. Whoever knows where that row stands says the file and the line.
    """

    def __init__(self, sentence: str, *, column: str | None = None, row: int | None = None) -> None:
        self.sentence, self.column, self.row = sentence, column, row
        super().__init__(sentence if row is None else f"column {column!r}, row {row + 1}: {sentence}")


def polars() -> Any:
    """The library, or a sentence that says how to get it."""
    try:
        import polars as library
    except ImportError as error:
        raise ImportError('Tables are read with polars; install it with pip install "multiform[cli]".') from error
    return library
