"""Who may ask, how much, and what an answer may do in a browser. Every request passes here, and no other place.

- **Host**: a page of elsewhere whose name suddenly means 127.0.0.1 (DNS rebinding) still sends its own name.
- **Origin**: what a browser sends on behalf of another page is refused, cookie or not.
- **Token**: programs send it (`Authorization: Bearer`). A person opens a link that is good for one exchange against a
  cookie that no script can read and no other site can use.
- **Bodies** are counted while they come, and have a time to come in; requests at once are counted, too.
- **Answers** are kept by nobody, and run nothing that does not come from here.

One line of log a request: method, route, status, time. No path, no query and no sentence, which could name a patient.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from multiform.web._problems import Problem

LOG = logging.getLogger("multiform.web")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
OPEN = ("/healthz", "/static/")  # what needs no token: it tells nothing of a model
CHANGES_NOTHING = ("GET", "HEAD")
MOST_QUERY = 4096
GONE = 499  # for the log: whoever asked has left before all was sent
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with none at all, browsers send forms with Origin: null
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True)
class Limits:
    """What a server takes at most.

    Attributes
    ----------
    body_bytes, all_bytes : int
        Of the body of a request, and of the bodies of all requests at once.
    body_seconds : float
        Until the body is there, and between two pieces of an answer that is read.
    json_bytes : int
        Of a body in JSON that is no list of lists of finite numbers: reading it holds all others up.
    cells : int
        Values in a body: rows times columns.
    requests : int
        That are worked on or wait for it at once; more are told to come later.
    connections : int
        That are open at once.
    sessions : int
        Cases of a plan that are kept in memory.
    """

    body_bytes: int = 64 * 2**20
    all_bytes: int = 256 * 2**20
    body_seconds: float = 60.0
    json_bytes: int = 16 * 2**20
    cells: int = 10_000_000
    requests: int = 64
    connections: int = 512
    sessions: int = 1_000


class Access:
    """Who may ask: the token of programs, the links of people, their cookie, and the names of this server.

    Parameters
    ----------
    token : str, default=None
        What programs send; None makes one.
    names : sequence of str
        Host names under which the server is asked; with ``*`` every IP address is one, too, which no stranger's page
        can pretend to be.
    """

    def __init__(self, token: str | None = None, names: tuple[str, ...] = LOOPBACK) -> None:
        if token is not None and (len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token):
            raise ValueError(
                "token of application: 16 printable ASCII characters at least, and no blanks; got another."
            )
        self.token = token or secrets.token_urlsafe(32)
        self.names = tuple(name.lower() for name in names)
        self._link: str | None = None
        self._cookie = secrets.token_urlsafe(32)
        # Cookies know hosts and no ports: two servers of one machine must not take each other's.
        self.cookie_name = f"multiform-{sha256(self._cookie.encode()).hexdigest()[:12]}"
        self.announce: Callable[[], None] = lambda: None  # called where somebody comes without a cookie

    def is_used(self) -> bool:
        """Whether there is no link that could be exchanged."""
        return self._link is None

    @property
    def is_local(self) -> bool:
        """Whether nobody asks but this machine."""
        return set(self.names) <= set(LOOPBACK)

    def link(self) -> str:
        """The word of the link that can be exchanged, once; a new one where there is none."""
        if self._link is None:
            self._link = secrets.token_urlsafe(32)
        return self._link

    def exchanged(self, given: str) -> bool:
        """Whether this is the link; it is none from now on."""
        if self._link is not None and _same(given, self._link):
            self._link = None
            return True
        return False

    def has_token(self, headers: Headers) -> bool:
        """Whether a program has shown the token."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and _same(given.strip(), self.token)

    def has_cookie(self, headers: Headers) -> bool:
        """Whether a browser has shown the cookie."""
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie_name)
        except CookieError:
            return False
        return found is not None and _same(found.value, self._cookie)

    def give_cookie(self, response: Response, secure: bool) -> None:
        """Let the browser keep the cookie until it is closed."""
        response.set_cookie(self.cookie_name, self._cookie, httponly=True, samesite="strict", secure=secure)

    def is_ours(self, host: str) -> bool:
        """Whether a ``Host`` header names this server."""
        name, port = _parted(host)
        return port.isdecimal() and (name in self.names or ("*" in self.names and _is_address(name)))

    def is_own_page(self, origin: str, scheme: str, host: str) -> bool:
        """Whether an ``Origin`` is that of our own pages, as the browser knows us: under a name that was given, a
        server that speaks TLS may stand between.
        """
        name, _ = _parted(host)
        may_be_proxied = name in self.names and name not in LOOPBACK
        schemes = {scheme, "https"} if may_be_proxied else {scheme}
        return origin.lower() in {f"{one}://{host.lower()}" for one in schemes}


def _same(given: str, own: str) -> bool:
    return compare_digest(given.encode("utf-8", "replace"), own.encode())


def _parted(host: str) -> tuple[str, str]:
    """Name and port of a host, in small letters; the port is 0 where there is none."""
    name, mark, port = host.rpartition(":")
    if not mark or host.endswith("]"):
        name, port = host, "0"
    return name.strip("[]").lower(), port


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


class Guard:
    """The outermost part of the application."""

    def __init__(self, app: ASGIApp, access: Access, limits: Limits, refusal: Callable[[Request, Problem], Response]):
        self.app, self.access, self.limits, self.refusal = app, access, limits, refusal
        self._at_once = self._held = 0  # requests, and bytes of their bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":  # there is nothing else behind: a WebSocket of another server's is refused
                await self.app(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008})
            return
        began, status, started = time.perf_counter(), 0, False

        async def told(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        request = Request(scope)
        try:
            answer = self._refused(request)
            if answer is not None:
                await answer(scope, receive, told)
            else:
                await self._admitted(request, receive, told)
        except Problem as problem:
            if not started:
                await self.refusal(request, problem)(scope, receive, told)
        except ClientDisconnect:
            status = status or GONE
        except Exception as error:
            # Its words may hold values of the request: what it is and where must do.
            LOG.error("%s in %s", type(error).__name__, place_of(error))
            status = status or 500
            if not started:
                sentence = "this should not happen; the server's log says where, please report it."
                await self.refusal(request, Problem(500, sentence))(scope, receive, told)
        finally:
            route = getattr(scope.get("route"), "path", "-")
            LOG.info("%s %s %d %.1f ms", _word(request.method), route, status, 1e3 * (time.perf_counter() - began))

    async def _admitted(self, request: Request, receive: Receive, send: Send) -> None:
        if self._at_once >= self.limits.requests:
            raise Problem(503, f"{self.limits.requests} requests are being answered; ask again in a moment.")
        body = _Body(self, request, receive)  # which may refuse it: then it is not among those that are worked on
        self._at_once += 1
        try:
            await self.app(request.scope, body.receive, send)
        finally:
            self._at_once -= 1
            self._held -= body.n_bytes

    def _refused(self, request: Request) -> Response | None:
        """An answer to whoever may not ask, or has come to get a cookie; None for all others."""
        access, headers = self.access, request.headers
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not access.is_ours(hosts[0]):
            raise Problem(421, "this server does not answer under that name; open the address that it has printed.")
        if len(request.scope["query_string"]) > MOST_QUERY:
            raise Problem(400, f"the query of an address may have {MOST_QUERY} characters.")
        origin, fetched = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and not access.is_own_page(origin, request.scope["scheme"], hosts[0]):
            raise Problem(403, "the request comes from another page; only pages of this server may ask it.")
        navigates = request.method in CHANGES_NOTHING and headers.get("sec-fetch-mode") == "navigate"
        if fetched in ("cross-site", "same-site") and not navigates:
            raise Problem(403, "the request comes from another site; only pages of this server may ask it.")
        if request.scope["path"].startswith(OPEN) or access.has_token(headers):
            return None
        if access.has_cookie(headers):
            # Browsers send one of the two with everything that could change something.
            if request.method not in CHANGES_NOTHING and origin is None and fetched != "same-origin":
                raise Problem(403, "the request does not say which page it comes from; programs send the token.")
            return None
        given = parse_qs(request.scope["query_string"].decode("latin-1"), max_num_fields=16).get("token", [])
        if request.method == "GET" and given and access.exchanged(given[0]):
            response = RedirectResponse(request.scope["path"], 303)
            access.give_cookie(response, secure=request.scope["scheme"] == "https")
            return response
        if request.scope["path"].startswith(("/v1/", "/openapi.json")):
            raise Problem(401, "send the token that the server has printed: Authorization: Bearer TOKEN.")
        access.announce()
        raise Problem(
            401, "open the address that the server has printed; it is good for one browser, and it prints another."
        )


class _Body:
    """The body of a request: its bytes are counted, and it comes in time."""

    def __init__(self, guard: Guard, request: Request, receive: Receive) -> None:
        self._guard, self._receive, self._limits = guard, receive, guard.limits
        self._until = asyncio.get_running_loop().time() + self._limits.body_seconds
        self._is_whole, self.n_bytes = False, 0
        stated = request.headers.get("content-length", "0")
        if stated.isdecimal():
            self._check(int(stated[:18]))
        if "transfer-encoding" in request.headers and "content-length" in request.headers:
            raise Problem(
                400,
                "the request states two sizes, as a length and in chunks; send one of them.",
                headers={"connection": "close"},
            )
        if request.headers.get("content-encoding", "identity") != "identity":
            raise Problem(415, "a body must not be compressed; send it as it is.")

    def _check(self, n_bytes: int) -> None:
        if n_bytes > self._limits.body_bytes:
            raise Problem(413, f"a body may have {self._limits.body_bytes:,} bytes; send fewer rows at a time.")
        if self._guard._held - self.n_bytes + n_bytes > self._limits.all_bytes:
            raise Problem(503, "too much is being sent at once; send it again in a moment.")

    async def receive(self) -> Message:
        """The next piece, as ASGI has it."""
        if self._is_whole:
            return await self._receive()  # whether the reader has gone
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise Problem(408, f"the body did not come within {self._limits.body_seconds:g} seconds.") from None
        size = len(message.get("body", b""))
        self._is_whole = not message.get("more_body", False)
        self._check(self.n_bytes + size)
        self.n_bytes += size
        self._guard._held += size
        return message


def place_of(error: BaseException) -> str:
    """Where an error was raised: file and line, innermost last."""
    places, trace = [], error.__traceback__
    while trace is not None:
        places.append(f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}")
        trace = trace.tb_next
    return " ".join(places[-6:])


def _word(method: str) -> str:
    """A method for the log, which may be anybody's word."""
    return method if method.isalpha() and len(method) < 10 else "?"


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form that a page has sent; of a name that comes twice the last. Nothing is written to disk."""
    try:
        text = (await request.body()).decode("utf-8")
        found: dict[str, Any] = parse_qs(text, keep_blank_values=True, max_num_fields=20_000, errors="strict")
    except ValueError as error:
        raise Problem(400, "the form cannot be read.") from error
    return {name: values[-1] for name, values in found.items()}
