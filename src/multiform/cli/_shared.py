"""What the commands share: their options, and where words go.

Results go to standard output, notes and progress to standard error; JSON instead for programs.
"""

from __future__ import annotations

import csv
import json
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, ClassVar

import click

import multiform
from multiform.cli._terminal import say, visible, visible_json

TABLES = (".csv", ".tsv", ".txt", ".xlsx", ".ods", ".parquet")  # names of files that are hardly models
MOST_LAST = 160  # letters in the last column of a table: nothing stands beside it
# As in `multiform.tables`, which takes a while to import; a test compares them.
FORMATS = ("csv", "tsv", "xlsx", "ods", "parquet", "arrow", "npz")


class _InWords:
    """Ranges of numbers as people say them."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        try:
            return super().convert(value, param, ctx)  # type: ignore[misc]
        except click.BadParameter:
            allowed = f"{self.name} {self._describe_range()}".rstrip()  # type: ignore[attr-defined]
            self.fail(f"it takes a {allowed}, and you gave {value}", param, ctx)  # type: ignore[attr-defined]

    def _describe_range(self) -> str:
        range_: Any = self
        low = None if range_.min is None else f"{'above' if range_.min_open else 'from'} {range_.min:,}"
        high = None if range_.max is None else f"{'below' if range_.max_open else 'to'} {range_.max:,}"
        if low and not high and not range_.min_open:
            return f"of at least {range_.min:,}"
        return " ".join(filter(None, [low, "and" if low and high and range_.max_open else None, high]))


class Number(_InWords, click.FloatRange):
    """A number within a range."""

    name = "number"


class WholeNumber(_InWords, click.IntRange):
    """A whole number within a range."""

    name = "whole number"


model_file: Callable[[Any], Any] = click.argument("model_path", metavar="MODEL")
share = Number(0, 1, min_open=True, max_open=True)


class Size(click.ParamType):  # type: ignore[type-arg]
    """So many bytes, as people write them: 500MB, 1.5GB."""

    name = "size"
    UNITS: ClassVar[dict[str, int]] = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}

    def convert(self, value: Any, parameter: Any, context: Any) -> int:
        found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)I?(B?)\s*", str(value).upper())
        if found is None or float(found[1]) <= 0:
            self.fail(f"{value!r} is no size; write it as 500MB or 1.5GB", parameter, context)
        return int(float(found[1]) * self.UNITS[found[2] + ("B" if found[2] else "")])


def table_files(command: Any, required: bool = True) -> Any:
    """The files of a table, and `how` to read them, as `multiform.tables.sources` takes it."""

    @wraps(command)
    def with_how(*args: Any, **options: Any) -> Any:
        how = {name: options.pop(f"file_{name}") for name in ("format", "encoding", "sheet")}
        _put_in_order(options)
        return command(*args, how=how, **options)

    formats = click.option(
        "--format",
        "file_format",
        type=click.Choice(FORMATS),
        help="The format of the files, if their names do not say it; standard input (-) is csv.",
    )
    text = "The encoding of text files, for example cp1252; recognised if not given."
    encodings = click.option("--encoding", "file_encoding", metavar="NAME", help=text)
    text = "The sheet of an Excel file; the first if not given."
    sheets = click.option("--sheet", "file_sheet", metavar="NAME", help=text)
    files = click.argument("files", nargs=-1, required=required, metavar="FILE..." if required else "[FILE]...")
    return files(formats(encodings(sheets(with_how))))


def _put_in_order(options: dict[str, Any]) -> None:
    """A table where the model is expected, and the other way round, is what was meant; it is said."""
    files, model = options["files"], options.get("model_path")
    models = [path for path in files if multiform.files.is_model_file(path)]
    both = [options[name] for name in ("first_path", "second_path") if name in options]
    tables = [path for path in both if not multiform.files.is_model_file(path)]
    if models and len(both) - len(tables) + len(models) == 2:
        first, second = [path for path in (*both, *files) if path not in tables and path in (*both, *models)]
        options |= {"first_path": first, "second_path": second}
        options["files"] = tuple(path for path in (*both, *files) if path not in (first, second))
        options["console"].note(f"{first} and {second} are the models, which come first; {tables[0]} is a table.")
    elif model is not None and len(models) == 1 and not multiform.files.is_model_file(model):
        options["model_path"] = models[0]
        options["files"] = tuple(path for path in (model, *files) if path != models[0])
        options["console"].note(f"{models[0]} is the model and {model} a table; the model comes first.")
    elif models:
        raise click.UsageError(f"{models[0]} is a model file and no table; `multiform info` says what is in it")


strict_option = click.option(
    "--strict", is_flag=True, help="Stop with an error (exit code 1) if a whole column looks different from training."
)


def threshold_options(command: Any) -> Any:
    """Which class is looked for, and from which chance on."""
    for option in (
        click.option(
            "--cost-of-miss",
            type=Number(min=0, min_open=True),
            metavar="TIMES",
            help="How many false alarms one missed case is worth. It sets the threshold: 9 means 0.1.",
        ),
        click.option(
            "--threshold",
            type=share,
            help="Call a row --positive if its chance is at least this, instead of taking the likeliest class.",
        ),
        click.option(
            "--positive",
            metavar="CLASS",
            help="The class you are looking for, for example ill. Of two classes one is guessed if you do not say it.",
        ),
    ):
        command = option(command)
    return command


def seed_and_jobs(command: Any) -> Any:
    """What makes a result the same again, and how many threads work on it."""
    text = "The same seed gives the same result."
    seeds = WholeNumber(0, 2**32 - 1)
    seed = click.option("--seed", "random_state", type=seeds, default=0, help=text)
    text = "Number of threads; all cores if not given."
    return seed(click.option("--jobs", "n_jobs", type=int, callback=_threads, help=text)(command))


def _threads(context: click.Context, parameter: click.Parameter, value: int | None) -> int | None:
    if value == 0:
        raise click.BadParameter("0 threads cannot work; give their number, or -1 for all cores.")
    return value


def names(*option: str, help: str) -> Callable[[Any], Any]:
    """``--drop a,b --drop c`` as a, b, c; a name that holds a comma is given alone, in quotation marks of its own."""

    def read(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for given in value for name in next(csv.reader([given], skipinitialspace=True), []) if name)

    return click.option(*option, multiple=True, callback=read, metavar="NAMES", help=help)


missing_words = names("--na", "missing", help="Words or numbers that stand for a missing value, for example lost,999.")


class Console:
    """One command's voice: `as_json` one object on standard output and nothing else anywhere, `quiet` results alone."""

    def __init__(self, as_json: bool, quiet: bool) -> None:
        self.as_json, self.quiet = as_json, quiet
        self._notes: list[str] = []
        self._held: list[str] | None = None  # notes that wait until no bar is in their way

    def note(self, sentence: str) -> None:
        """Something worth knowing that is not the result; it is said once."""
        if sentence in self._notes:
            return
        self._notes.append(sentence)
        if self._held is not None:
            self._held.append(sentence)
        elif not (self.as_json or self.quiet):
            say(f"note: {sentence}", err=True)

    def result(self, data: dict[str, Any], text: str) -> None:
        """The result: `data` for programs, `text` for people."""
        if self.as_json:
            told = multiform.files.plain(data) | {"notes": self._notes}
            click.echo(visible_json(json.dumps(told, ensure_ascii=False)))
        else:
            say(text)

    @contextmanager
    def progress(self, words: str) -> Iterator[Callable[..., None]]:
        """A bar on a terminal, with the time that is left; nothing when piped, quiet, or for programs.

        It is told how much is done, from 0 to 1 or None where that is not known, and maybe what is being done now.
        What is trained inside tells it by itself (`multiform.progress`).
        """
        if self.as_json or self.quiet or not sys.stderr.isatty():
            yield lambda share, words=None: None
            return
        from rich.console import Console as RichConsole
        from rich.progress import (
            BarColumn,
            SpinnerColumn,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as RichProgress

        clocks = TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()
        columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), *clocks
        self._held = []
        try:
            with RichProgress(*columns, console=RichConsole(stderr=True), transient=True) as bar:
                stage = _Stage(bar, words)
                with multiform.progress.heard(stage.heard):
                    yield stage.at
        finally:
            held, self._held = self._held, None
            for sentence in held:
                say(f"note: {sentence}", err=True)


class _Stage:
    """What is being done now, and how much of it is; the bar of a stage never goes back."""

    def __init__(self, bar: Any, words: str) -> None:
        self._bar, self._words, self._share = bar, words, 0.0
        self._task = bar.add_task(words, total=None)

    def at(self, share: float | None, words: str | None = None) -> None:
        """A stage, or how far it is."""
        if words is not None and words != self._words and share is None:  # a new one, with clocks of its own
            self._bar.remove_task(self._task)
            self._task = self._bar.add_task(words, total=None)
            self._words, self._share = words, 0.0
        self._share = max(self._share, share or 0.0)
        self._bar.update(self._task, description=words, completed=self._share, total=None if share is None else 1)

    def heard(self, share: float, words: str) -> None:
        """By what is trained."""
        self._share = max(self._share, share)
        told = f"{self._words}: {words}" if words else None
        self._bar.update(self._task, description=told, completed=self._share, total=1)


def command(*examples: str, reads: bool = True) -> Callable[[Callable[..., None]], click.Command]:
    """Make a function a command of its name that has ``--json`` and ``--quiet``, and a `console` that heeds them.

    `reads` says whether it reads tables, and so loads polars.
    """

    def made(function: Callable[..., None]) -> click.Command:
        @wraps(function)
        def with_console(*args: Any, as_json: bool, quiet: bool, **options: Any) -> None:
            if reads:
                _hear_interrupts()
            function(*args, console=Console(as_json, quiet), **options)

        epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples)
        found = click.command(function.__name__, epilog=epilog)(with_console)
        for_programs = "One JSON object on standard output, for programs."
        found.params.append(click.Option(["--json", "as_json"], is_flag=True, help=for_programs))
        found.params.append(click.Option(["--quiet", "-q"], is_flag=True, help="No notes, no progress."))
        return found

    return made


def _hear_interrupts() -> None:
    """Polars, once imported, has a read that waits begin again after a Ctrl-C, and Python never hears of it."""
    import polars  # noqa: F401

    if sys.platform != "win32":
        signal.siginterrupt(signal.SIGINT, True)


def text_table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Aligned columns, the first row the header, the columns `right` to the right; each row is one line.

    >>> print(text_table([["type", "share"], ["strong", "70 %"]], right=[1]))
    type    share
    strong   70 %
    """
    rows = [[*map(one_line, row[:-1]), *(one_line(cell, MOST_LAST) for cell in row[-1:])] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = enumerate(zip(row, widths, strict=True))
        aligned = [cell.rjust(width) if number in right else cell.ljust(width) for number, (cell, width) in cells]
        lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)


def columns_table(columns: Sequence[dict[str, Any]], most: int | None = None) -> str:
    """What each column of a table was taken for."""
    rows = [["column", "taken as", "becomes", "because"]]
    for one in columns[:most]:
        n = len(one["becomes"])
        rows.append([one["name"], one["role"], f"{n} number{'s' * (n != 1)}" if n else "left out", one["why"]])
    if most is not None and len(columns) > most:
        rows.append([f"and {len(columns) - most} more", "", "", "`multiform info` lists them"])
    return text_table(rows)


def one_line(text: str, most: int = 80) -> str:
    """Text from the data as it may stand in a line on a terminal: nothing that moves the cursor, and not too long.

    >>> print(one_line("two\\nlines \\x1b[31m"), one_line("x" * 100, most=5))
    two\\nlines \\x1b[31m xxxx…
    """
    shown = visible(text).replace("\n", "\\n").replace("\t", "\\t")
    return shown if len(shown) <= most else shown[: most - 1] + "…"
