"""What is wrong with a table, in one sentence."""

from __future__ import annotations

from typing import Any

__all__ = ["TableError", "polars"]


class TableError(ValueError):
    """A table that cannot be read or used; names the file, the line and the column where they are known."""


def polars() -> Any:
    """The library, or a sentence that says how to get it."""
    try:
        import polars as library
    except ImportError as error:
        raise ImportError('Tables are read with polars; install it with pip install "multiform[cli]".') from error
    return library
