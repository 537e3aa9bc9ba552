"""``multiform serve``: a model or a plan in the browser, until Ctrl-C."""

from __future__ import annotations

import logging
import os
import signal
import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from threading import Thread, Timer, current_thread, main_thread
from typing import Any

import click

from multiform.cli._app import Terminated
from multiform.cli._shared import Console, WholeNumber, command, one_line
from multiform.cli._sooner import load_scikit_learn
from multiform.cli._terminal import say, visible

GRACE = 20.0  # seconds after a signal; connections that are still open are cut after 10
LANGUAGES = ("en", "de")  # as in `multiform.web`; a test compares them
REMOTE = (
    "other machines can reach this server. What they send and get is not encrypted: whoever is on the network between "
    "can read it, the token too. Put a server that speaks TLS in front, or use an SSH tunnel instead."
)


@command(
    "multiform serve plan.mfm",
    "multiform serve model.mfm --port 9000 --no-browser --language de",
    "multiform serve model.mfm --host 0.0.0.0 --allow-remote --name ward7.example",
    reads=False,  # the first question comes sooner
)
@click.argument("path", metavar="FILE")
@click.option("--port", type=WholeNumber(1, 65535), help="The port to listen at; 8440, or any free one, if not given.")
@click.option(
    "--host",
    default="127.0.0.1",
    metavar="ADDRESS",
    help="The address to listen at; any but this machine's own needs --allow-remote.",
)
@click.option("--allow-remote", is_flag=True, help="Let other machines in, unencrypted; they need the token, too.")
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="HOST",
    help="A name by which other machines call this one; may be given several times.",
)
@click.option("--language", type=click.Choice(LANGUAGES), default="en", help="The language of the page.")
@click.option("--no-browser", is_flag=True, help="Open no browser, only print the address.")
def serve(
    path: str,
    port: int | None,
    host: str,
    allow_remote: bool,
    names: tuple[str, ...],
    language: str,
    no_browser: bool,
    console: Console,
) -> None:
    """Open a model or a plan in the browser, and answer other programs (/v1, described at /openapi.json).

    Only this machine can reach the page, and only with the address that is printed, which holds a secret word (a token)
    and is good for one browser. Programs send another token, in the header Authorization: Bearer TOKEN. Nothing that is
    sent is kept on disk. Ctrl-C stops it.
    """
    for needed in ("starlette", "uvicorn", "jinja2"):
        if find_spec(needed) is None:
            raise ImportError(f'The page needs {needed}; install it with pip install "multiform[web]".')
    is_first = True

    def told(address: str, token: str) -> None:
        nonlocal is_first
        if is_first:
            loaded()
        if is_first and console.as_json:
            console.result({"address": address, "token": token}, "")
            sys.stdout.flush()
        elif is_first:
            say(f"{one_line(path)} is at {address}\nfor programs: Authorization: Bearer {token}\nCtrl-C stops it.")
            sys.stdout.flush()
        else:
            say(f"for another browser: {address}", err=True)
        if is_first and not (no_browser or console.as_json):
            Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        is_first = False

    if allow_remote and not console.quiet:
        say(f"note: {REMOTE}", err=True)
    asked: dict[str, Any] = {
        "host": host,
        "port": port,
        "allow_remote": allow_remote,
        "names": names,
        "language": language,
    }
    # Ctrl-C and SIGTERM are how one stops it, and no errors; what was being answered has been by then.
    with suppress(KeyboardInterrupt, Terminated), _log_on_stderr(console.quiet), _ends_at_once() as loaded:
        load_scikit_learn()
        from multiform import web

        web.serve(path, **asked, told=told, stopping=_with_an_end())
    if not (console.quiet or console.as_json):
        say("stopped.", err=True)


@contextmanager
def _ends_at_once() -> Iterator[Callable[[], None]]:
    """While it loads there is nothing to finish: SIGTERM ends the process as the system does, until what is yielded is
    called. An exception, which is what SIGTERM is otherwise, can be lost in what an import calls.
    """
    if current_thread() is not main_thread():  # which alone gets signals
        yield lambda: None
        return
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def loaded() -> None:
        signal.signal(signal.SIGTERM, before)

    try:
        yield loaded
    finally:
        loaded()


def _with_an_end() -> Callable[[int], None]:
    """What is called at each signal: the first gives what is being answered `GRACE` seconds, the second none."""
    n_signals = 0

    def stopping(number: int) -> None:
        nonlocal n_signals
        n_signals += 1
        if n_signals > 1:
            os._exit(128 + number)
        limit = Timer(GRACE, os._exit, (128 + number,))
        limit.daemon = True
        limit.start()

    return stopping


class _Visible(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record)).replace("\n", " ")


@contextmanager
def _log_on_stderr(quiet: bool) -> Iterator[None]:
    """One line a request, and whatever uvicorn warns of."""
    lines = logging.NullHandler() if quiet else logging.StreamHandler(sys.stderr)
    lines.setFormatter(_Visible("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    loggers = {logging.getLogger("multiform.web"): logging.INFO, logging.getLogger("uvicorn.error"): logging.WARNING}
    before = {logger: (logger.level, logger.propagate) for logger in loggers}
    for logger, level in loggers.items():
        logger.addHandler(lines)
        logger.setLevel(level)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, (level, propagate) in before.items():
            logger.removeHandler(lines)
            logger.setLevel(level)
            logger.propagate = propagate
