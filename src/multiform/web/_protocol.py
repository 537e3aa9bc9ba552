"""HTTP as uvicorn speaks it, with patience that ends: with requests that do not come, answers that nobody reads."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from multiform.web._guard import Limits


def protocol_for(limits: Limits) -> type[H11Protocol]:
    """The protocol of every connection."""

    class Patient(H11Protocol):
        """A connection that is ended where the other side lets it wait for `limits.body_seconds`."""

        _waiting: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                self._go_on()

        def on_response_complete(self) -> None:
            self._wait()
            super().on_response_complete()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._wait()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._go_on()

        def connection_lost(self, exc: Exception | None) -> None:
            self._go_on()
            super().connection_lost(exc)

        def _wait(self) -> None:
            self._go_on()
            self._waiting = self.loop.call_later(limits.body_seconds, self.transport.abort)

        def _go_on(self) -> None:
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None

    return Patient
