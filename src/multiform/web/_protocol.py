"""HTTP as uvicorn speaks it, with limits that it does not have: how many connections, and how long one may wait.

uvicorn's own limit answers nobody while too many are there; here those who came first are answered.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

from multiform.web._guard import HEADERS, Limits
from multiform.web._problems import Problem

MOST_WAITING = 2**20  # bytes of a body that nobody has taken yet


class _Connection(h11.Connection):
    """h11 copies a body three times; here a piece that holds nothing but a part of one is handed on as it came."""

    _piece: bytes | None = None

    def receive_data(self, data: bytes) -> None:
        reader: Any = self._reader
        left = getattr(reader, "_remaining", 0)  # bytes of a body of a stated size that are still to come
        if self.their_state is h11.SEND_BODY and 0 < len(data) < left and not self.trailing_data[0]:
            reader._remaining = left - len(data)
            self._piece = data
        else:
            super().receive_data(data)

    def next_event(self) -> Any:
        if self._piece is None:
            return super().next_event()
        event, self._piece = h11.Data(data=self._piece), None
        return event


class _Flow(FlowControl):
    """uvicorn stops reading with each piece of a body, and begins again once it is taken, which takes longer than to
    receive it; here it stops where `MOST_WAITING` bytes wait.
    """

    def __init__(self, protocol: H11Protocol) -> None:
        super().__init__(protocol.transport)
        self._protocol = protocol

    def pause_reading(self) -> None:
        cycle = self._protocol.cycle
        is_body = self._protocol.conn.their_state is h11.SEND_BODY
        if not (is_body and cycle is not None and len(cycle.body) < MOST_WAITING):
            super().pause_reading()


def protocol_for(limits: Limits) -> type[H11Protocol]:
    """The protocol of every connection."""
    busy = _written(Problem(503, f"{limits.connections} connections are open; come again in a moment."))
    unread = _written(Problem(400, "the request cannot be read: it is no HTTP/1.1, or its headers are too long."))

    class Limited(H11Protocol):
        """A connection, which ends where the other side lets it wait for `limits.body_seconds`."""

        _waiting: asyncio.TimerHandle | None = None
        _is_refused = False

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.conn = _Connection(h11.SERVER)
            self.access_log = False  # it would name paths and queries, wherever somebody has set logging up

        def _unsupported_upgrade_warning(self) -> None:
            """Who asks for a WebSocket is answered as if not; uvicorn would advise in the log to install one."""

        def connection_made(self, transport: Any) -> None:
            if len(self.connections) >= limits.connections:
                self._is_refused = True
                transport.write(busy)
                transport.close()
                return
            super().connection_made(transport)
            self.flow = _Flow(self)
            self._wait()

        def data_received(self, data: bytes) -> None:
            if self._is_refused:
                return
            if self.cycle is not None and not self.cycle.body:
                self.cycle.body = b""  # type: ignore[assignment]  # to which bytes are added, and taken from, without a copy
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                self._go_on()

        def send_400_response(self, msg: str) -> None:
            if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
                self.transport.write(unread)
            self.transport.close()

        def on_response_complete(self) -> None:
            self._wait()
            super().on_response_complete()  # a request that has come already begins here
            if not self.cycle.response_complete:
                self._go_on()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._wait()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._go_on()

        def connection_lost(self, exc: Exception | None) -> None:
            self._go_on()
            if not self._is_refused:
                super().connection_lost(exc)

        def _wait(self) -> None:
            self._go_on()
            self._waiting = self.loop.call_later(limits.body_seconds, self.transport.abort)

        def _go_on(self) -> None:
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None

    return Limited


def _written(problem: Problem) -> bytes:
    """The answer of a connection that ends with it, as bytes."""
    told = problem.response()
    headers = {**told.headers, **HEADERS, "connection": "close"}
    lines = [f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + bytes(told.body)
