"""The application: its routes and its life, and a server that runs it."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import ip_address
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from multiform.diagnosis import UnfamiliarValue, for_people
from multiform.web._guard import LOOPBACK, Access, Guard, Limits
from multiform.web._interface import interface_routes
from multiform.web._model import PlanModel, opened
from multiform.web._pages import page_routes, refusal_page
from multiform.web._problems import Problem
from multiform.web._protocol import protocol_for
from multiform.web._sessions import Sessions
from multiform.web._words import Words, languages
from multiform.web._work import Work

PORT = 8440
BACKLOG = 512


def application(
    model: Any,
    *,
    token: str | None = None,
    names: Sequence[str] = LOOPBACK,
    language: str = "en",
    limits: Limits | None = None,
) -> Starlette:
    """The page of a model or a plan, and the interface for programs, as an ASGI application.

    Parameters
    ----------
    model : path or fitted estimator
        A file is loaded with all its checks.
    token : str, default=None
        What programs send as ``Authorization: Bearer``; None makes one (``application(...).state.access.token``).
        ``state.access.link()`` is what a browser is given as ``/?token=``, good for one exchange against a cookie.
    names : sequence of str, default=("127.0.0.1", "localhost", "::1")
        Host names under which it is asked; ``*`` adds every IP address.
    language : {"en", "de"}, default="en"
        Of the pages, for browsers that ask for neither; a reader can choose.
    limits : Limits, default=None
        What is taken at most.

    Examples
    --------
    >>> from multiform import QMSClassifier
    >>> from multiform.web import application
    >>> app = application(QMSClassifier(random_state=0).fit([[0.0], [1.0]] * 20, [0, 1] * 20))
    >>> app.state.model.kind, app.state.model.classes
    ('classifier', ['0', '1'])
    """
    limits = limits or Limits()
    shown = opened(model)
    access = Access(token, tuple(names))
    sessions = Sessions(shown.planner, limits.sessions) if isinstance(shown, PlanModel) else None
    words = languages(language)
    routes = [
        Route("/healthz", _healthy),
        *interface_routes(shown),
        *page_routes(shown, sessions, words),
        Mount("/static", StaticFiles(packages=[("multiform.web", "static")])),
    ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, access=access, limits=limits, refusal=partial(_refusal, words))],
        exception_handlers={
            Problem: lambda request, error: _refusal(words, request, error),
            HTTPException: lambda request, error: _refusal(words, request, _not_found(request, error)),
            UnfamiliarValue: lambda request, error: _refusal(words, request, _unfamiliar(error)),
            ValueError: lambda request, error: _refusal(words, request, Problem(422, _sentence(error))),
        },
        lifespan=_life,
    )
    app.state.access, app.state.limits, app.state.model, app.state.sessions = access, limits, shown, sessions
    app.state.work = Work()
    return app


@asynccontextmanager
async def _life(app: Starlette) -> AsyncIterator[None]:
    yield
    app.state.work.close()


async def _healthy(request: Request) -> Response:
    return JSONResponse({"status": "ok"})


def _refusal(words: dict[str, Words], request: Request, problem: Any) -> Response:
    """Problem details for programs, a page for people."""
    for_people = "text/html" in request.headers.get("accept", "") and not request.scope["path"].startswith("/v1/")
    return refusal_page(words, request, problem) if for_people else problem.response()


def _not_found(request: Request, error: Any) -> Problem:
    if error.status_code == 405:
        taken = ", ".join(sorted(_methods(request)))
        return Problem(405, "this address does not take that method.", headers={"allow": taken})
    return Problem(error.status_code, "there is nothing at this address.")


def _methods(request: Request) -> set[str]:
    """What an address takes; several routes may share one."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    found = [route.methods or set() for route in routes if route.path_regex.match(request.scope["path"])]
    return set().union(*found) or {"GET", "HEAD"}  # of a file


def _unfamiliar(error: Any) -> Problem:
    sentence = f"{error.sentence}. If it is so, send it with insist: it is then recorded, and not used."
    return Problem(409, sentence, "unfamiliar-value")


def _sentence(error: Any) -> str:
    if isinstance(error, UnicodeError):
        return "a text holds half of a letter (a lone surrogate); send whole ones."
    return for_people(" ".join(str(error).split()))


def serve(
    model: Any,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    allow_remote: bool = False,
    names: Sequence[str] = (),
    language: str = "en",
    limits: Limits | None = None,
    told: Callable[[str, str], None] | None = None,
    stopping: Callable[[int], None] | None = None,
) -> None:
    """Run the page until it is stopped (Ctrl-C, or SIGTERM): what is being answered is finished first.

    Parameters
    ----------
    model : path or fitted estimator
    host : str, default="127.0.0.1"
        The address to listen at. Another than this machine's own loopback wants `allow_remote`.
    port : int, default=None
        None takes 8440, or any other that is free.
    allow_remote : bool, default=False
        Whether other machines may ask. Nothing is encrypted on the way: put a server that speaks TLS in front.
    names : sequence of str, default=()
        Further host names under which others know this machine.
    language, limits
        As for `application`.
    told : callable, default=None
        Called with the address for a browser and the token for programs; and again with a new address, each time
        somebody without a cookie comes after the last was used.
    stopping : callable, default=None
        Called with the number of each signal that asks it to stop. What computes cannot be broken off, so whoever
        must have an end sets one here.
    """
    local = _is_loopback(host)
    if not (local or allow_remote):
        raise ValueError(
            f"--host {host} would let other machines reach this server, unencrypted; add --allow-remote if that is "
            "meant."
        )
    limits = limits or Limits()
    known = LOOPBACK if local else (*LOOPBACK, "*", socket.gethostname())
    app = application(model, names=(*known, *names), language=language, limits=limits)
    listening = listening_at(host, port)
    shown = "127.0.0.1" if host in ("", "0.0.0.0") else f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}"

    def announce() -> None:
        if told is not None and app.state.access.is_used():
            told(f"{address}/?token={app.state.access.link()}", app.state.access.token)

    app.state.access.announce = announce
    announce()
    _Server(config_of(app, limits), stopping or (lambda number: None)).run(sockets=[listening])


class _Server(uvicorn.Server):
    """A server that says when it is asked to stop."""

    def __init__(self, config: uvicorn.Config, stopping: Callable[[int], None]) -> None:
        super().__init__(config)
        self._stopping = stopping

    def handle_exit(self, sig: int, frame: Any) -> None:
        super().handle_exit(sig, frame)
        self._stopping(sig)


def config_of(app: Starlette, limits: Limits) -> uvicorn.Config:
    """How uvicorn runs the application."""
    return uvicorn.Config(
        app,
        http=protocol_for(limits),
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def listening_at(host: str, port: int | None) -> socket.socket:
    """A socket that is bound, so that an address that is taken is one sentence."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for wanted in (PORT, 0) if port is None else (port,):
        # asyncio sends at once (TCP_NODELAY) only where the protocol is named; else an answer waits for 40 ms.
        found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, wanted))
            found.listen(BACKLOG)  # whoever opens the address at once waits until it is served
        except (OSError, OverflowError) as error:
            found.close()
            if wanted == (port or 0):
                reason = getattr(error, "strerror", None) or str(error)
                raise OSError(
                    f"port {wanted} of {host} cannot be used: {reason}; choose another with --port."
                ) from error
            continue
        return found
    raise AssertionError("one of the two is tried last")
