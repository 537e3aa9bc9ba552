"""One command from its words to its exit code: what goes wrong is one sentence on standard error.

0    done
1    the data, the model file or the settings do not do
2    the command was not understood
3    a requirement was not met (`evaluate --require`)
130  interrupted (Ctrl-C)
143  terminated
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
from polars.exceptions import PanicException

from multiform.cli._app import app

__all__ = ["RequirementNotMet", "run"]

DEBUG = "MULTIFORM_DEBUG"  # set, it shows where an error comes from
COMPLETE = "_MULTIFORM_COMPLETE"  # set by a shell that asks what could come next


class RequirementNotMet(Exception):
    """What was required does not hold: exit code 3."""


class _Terminated(BaseException):
    """SIGTERM, so that files are cleaned up on the way out."""


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
        return _failed(argv, _usage(error), 2)
    except RequirementNotMet as error:
        click.echo(f"multiform: {error}", err=True)  # the result has been told, to programs too
        return 3
    except (KeyboardInterrupt, click.Abort):
        if sys.stderr.isatty():
            click.echo(err=True)  # the terminal has written ^C
        return _failed(argv, "interrupted; no file was changed.", 130)
    except _Terminated:
        return _failed(argv, "terminated; no file was changed.", 143)
    except BrokenPipeError:
        # Whoever read our output has had enough, which is not an error. Nothing may be flushed into it any more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        if os.environ.get(DEBUG):
            raise
        return _failed(argv, _sentence(error), 1)
    except (Exception, PanicException) as error:
        if os.environ.get(DEBUG):
            raise
        what = f"{type(error).__name__}: {_sentence(error).rstrip('.')}"
        return _failed(argv, f"this should not happen, {what}; {DEBUG}=1 shows where, please report it.", 1)
    return 0


def _failed(argv: Sequence[str], sentence: str, code: int) -> int:
    if "--json" in argv:
        click.echo(json.dumps({"error": sentence, "exit_code": code}))
    click.echo(f"multiform: {sentence}", err=True)
    return code


def _usage(error: click.UsageError) -> str:
    where = error.ctx.command_path if error.ctx is not None else "multiform"
    return f"{error.format_message().rstrip('.')}; see {where} --help."


def _sentence(error: BaseException) -> str:
    """The first paragraph on one line."""
    if isinstance(error, MemoryError):
        return "there is not enough memory for that; give fewer rows or columns."
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}."
    text = " ".join(str(error).split("\n\n")[0].split()) or type(error).__name__
    return text if text.endswith((".", "!", "?")) else f"{text}."


@contextmanager
def _termination_unwinds() -> Iterator[None]:
    def stop(number: int, frame: Any) -> None:
        raise _Terminated

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
        click.echo(f"warning: {' '.join(str(message).split())}", err=True)

    with warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore")
        warnings.showwarning = show
        yield
