"""The list of commands, and one command from its words to its exit code: what goes wrong is one sentence.

0    done
1    the data, the model file or the settings do not do
2    the command was not understood
3    a requirement was not met (`evaluate --require`)
130  interrupted (Ctrl-C)
143  terminated
"""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from typing import Any

import click

from multiform._version import __version__
from multiform.cli._terminal import say

# Command -> its module, which is imported when it runs, so that `--help` comes at once, and its one-line help.
COMMANDS = {
    "demo": ("_demo", "A tour in under a minute, on data that come with the package."),
    "describe": ("_describe", "Say what is in a table, what is odd in it, and what would help."),
    "fit": ("_fit", "Train a model on a table."),
    "predict": ("_predict", "Answer the rows of a table: label, chance, how far to trust it."),
    "evaluate": ("_evaluate", "Compare a model's answers with the truth."),
    "compare": ("_compare", "Compare two models on the same labelled rows."),
    "report": ("_evaluate", "Write a report of a model, or straight from a table: one HTML file."),
    "plan": ("_diagnosis", "Plan which tests to buy, in which order, and when to stop."),
    "diagnose": ("_bedside", "Ask for the tests of one patient, one by one, as a plan says."),
    "serve": ("_serve", "Open a model or a plan in the browser, and answer other programs."),
    "reproduce": ("_demo", "Run section 4 of the paper and print each of its tables beside ours."),
    "export": ("_info", "Write a model in another format (ONNX)."),
    "info": ("_info", "Say what is in a model file."),
}
DEBUG = "MULTIFORM_DEBUG"  # set, it shows where an error comes from
PLAN_OPTIONS = {  # parameters of DiagnosisPlanner, as one types them
    name: f"--{name.replace('_', '-')}"
    for name in ("known", "search", "theta", "tolerance", "budget", "target_accuracy", "target_recall", "confidence")
} | {"losses": "--loss"}
COMPLETE = "_MULTIFORM_COMPLETE"  # set by a shell that asks what could come next
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True}


class RequirementNotMet(Exception):
    """What was required does not hold: exit code 3."""


class Terminated(BaseException):
    """SIGTERM, so that files are cleaned up on the way out."""


class _Commands(click.Group):
    """Knows names and one-line helps without importing anything."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"multiform.cli.{COMMANDS[cmd_name][0]}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            close = get_close_matches(name, list(COMMANDS), n=1)
            ctx.fail(f"There is no command {name!r}" + (f", but there is {close[0]}" if close else ""))
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, context_settings=SETTINGS)
@click.version_option(__version__, prog_name="multiform", message="%(prog)s %(version)s", help="Say the version.")
def app() -> None:
    """What is it, how far can I trust that, and what should I measure next?

    \b
    multiform demo
    multiform fit data.csv --target label -o model.mfm
    multiform predict model.mfm new.csv -o answers.csv
    multiform evaluate model.mfm test.csv
    multiform report patients.xlsx --target ill -o report.html
    """


def run(argv: Sequence[str]) -> int:
    """Run ``multiform`` with these words."""
    try:
        with _termination_unwinds(), _warnings_in_one_line(quiet="--quiet" in argv or "-q" in argv):
            if COMPLETE in os.environ:
                app.main(prog_name="multiform")
            # Not by app.main, for which a reader that has had enough is an error.
            with app.make_context("multiform", list(argv) or ["--help"]) as context:
                app.invoke(context)
            sys.stdout.flush()
    except click.exceptions.Exit as exit_:
        return int(exit_.exit_code)
    except click.UsageError as error:
        named = " ".join(["multiform", *(word for word in argv[:1] if word in COMMANDS)])
        where = error.ctx.command_path if error.ctx is not None else named
        return _failed(argv, f"{_usage(error).rstrip('.')}; see {where} --help.", 2)
    except RequirementNotMet as error:
        say(f"multiform: {error}", err=True)  # the result has been told, to programs too
        return 3
    except (KeyboardInterrupt, click.Abort):
        if sys.stderr.isatty():
            click.echo(err=True)  # the terminal has written ^C
        return _failed(argv, "interrupted; no file was changed.", 130)
    except Terminated:
        return _failed(argv, "terminated; no file was changed.", 143)
    except BrokenPipeError:
        # Whoever read our output has had enough, which is not an error. Nothing may be flushed into it any more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        if os.environ.get(DEBUG):
            raise
        return _failed(argv, _sentence(error), 1)
    except BaseException as error:
        if os.environ.get(DEBUG) or not (isinstance(error, Exception) or _is_panic(error)):
            raise
        what = f"{type(error).__name__}: {_sentence(error).rstrip('.')}"
        return _failed(argv, f"this should not happen, {what}; {DEBUG}=1 shows where, please report it.", 1)
    return 0


def _usage(error: click.UsageError) -> str:
    """What was not understood."""
    parameter = getattr(error, "param", None)
    if isinstance(error, click.MissingParameter) and isinstance(parameter, click.Option):
        what = (parameter.help or "").split(".")[0]
        return f"{' or '.join(parameter.opts)} is missing: {what[:1].lower()}{what[1:]}"
    if isinstance(error, click.MissingParameter) and error.ctx is not None and parameter is not None:
        usage = " ".join([error.ctx.command_path, *error.ctx.command.collect_usage_pieces(error.ctx)])
        return f"{parameter.make_metavar(error.ctx).rstrip('.')} is missing: {usage}"
    return error.format_message().replace("requires an argument", "needs a value after it")


def _is_panic(error: BaseException) -> bool:
    """Whether polars has lost its head; its own exception for that is none of Python's ordinary ones."""
    polars = sys.modules.get("polars")
    return polars is not None and isinstance(error, polars.exceptions.PanicException)


def _failed(argv: Sequence[str], sentence: str, code: int) -> int:
    if "--json" in argv:
        with suppress(OSError):  # standard output may be what has failed
            click.echo(json.dumps({"error": sentence, "exit_code": code}))
    say(f"multiform: {sentence}", err=True)
    return code


def _sentence(error: BaseException) -> str:
    """The first paragraph on one line."""
    if isinstance(error, MemoryError):
        return "there is not enough memory for that; give fewer rows or columns."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    text = _as_typed(" ".join(str(error).split("\n\n")[0].split())) or type(error).__name__
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _as_typed(text: str) -> str:
    """A sentence of the library about a parameter of a plan, with the option that sets it.

    >>> _as_typed("known of DiagnosisPlanner: no test is named 'x'.")
    "--known: no test is named 'x'."
    """
    text = re.sub(r"\b(\w+) of DiagnosisPlanner", lambda found: PLAN_OPTIONS.get(found[1], found[0]), text)
    return text.replace("DiagnosisPlanner", "the plan")


@contextmanager
def _termination_unwinds() -> Iterator[None]:
    def stop(number: int, frame: Any) -> None:
        raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not the main thread, which alone gets signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _warnings_in_one_line(quiet: bool) -> Iterator[None]:
    def show(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
        say(f"warning: {_as_typed(' '.join(str(message).split()))}", err=True)

    with warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore")
        warnings.showwarning = show
        yield
