"""Options that several commands have."""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import Any

import click

from multiform.tables import FORMATS

Decorator = Callable[[Any], Any]

input_files: Decorator = click.argument("files", nargs=-1, required=True, metavar="FILE...")
input_format: Decorator = click.option(
    "--format",
    "file_format",
    type=click.Choice(FORMATS),
    help="What the files hold, where their names do not say it; standard input (-) is csv.",
)
model_file: Decorator = click.argument("model_path", metavar="MODEL")
share = click.FloatRange(0, 1, min_open=True, max_open=True)
seed: Decorator = click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="The same seed gives the same model.",
)


def _threads(context: click.Context, parameter: click.Parameter, value: int | None) -> int | None:
    if value == 0:
        raise click.BadParameter("0 threads cannot work; give their number, or -1 for all cores.")
    return value


jobs: Decorator = click.option("--jobs", type=int, callback=_threads, help="Threads; all cores if not given.")


def names(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """``--drop a,b --drop c`` as a, b, c; a name that holds a comma is given alone, in quotation marks of its own."""
    return tuple(name for given in value for name in next(csv.reader([given], skipinitialspace=True), []) if name)


def column_options(command: Any) -> Any:
    """What the user knows better of columns."""
    for option, parameter, what in (
        ("--id", "identifiers", "Columns that are identifiers: left out."),
        ("--as-text", "texts", "Columns that are free text."),
        ("--as-date", "dates", "Columns that are dates."),
        ("--as-category", "categories", "Columns that are categories."),
        ("--as-number", "numbers", "Columns that are numbers."),
        ("--drop", "drop", "Columns to leave out."),
    ):
        command = click.option(
            option, parameter, multiple=True, callback=names, metavar="NAMES", help=f"{what} Separated by commas."
        )(command)
    return command
