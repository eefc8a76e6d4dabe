"""The settings of uvicorn, with deadlines and an upper bound for connections.

uvicorn limits only the idle time between requests. A client that sends a header slowly,
or does not read its answer, keeps a connection forever, and `limit_concurrency` counts
it.
"""

import asyncio
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from jaxaug.serve.limits import Limits

_BACKLOG = 128  # connections that are accepted at once; each needs a file descriptor
_EVENTS = 256  # parts of requests in what is read at once; a chunk of a body is one
_LAST_ANSWERS = 5  # seconds after Ctrl-C


def config(app: ASGIApp, limits: Limits) -> uvicorn.Config:
    """Returns the settings of a server that keeps the limits."""

    class Limited(_Connection):
        pass

    Limited.limits = limits
    return uvicorn.Config(
        app,
        http=Limited,
        ws="none",
        lifespan="off",
        log_config=None,  # Its own would close the handlers of other libraries.
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_LAST_ANSWERS,
    )


class _Parser(h11.Connection):
    """Refuses floods of tiny chunks, which would keep the event loop busy."""

    events = 0

    def next_event(self) -> Any:
        self.events += 1
        if self.events > _EVENTS:
            raise h11.RemoteProtocolError("The body comes in too many small chunks.")
        return super().next_event()


class _Connection(H11Protocol):
    """A connection of uvicorn that is closed when its client is too slow."""

    limits = Limits()
    _request_due: asyncio.TimerHandle | None = None
    _reading_due: asyncio.TimerHandle | None = None
    _since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.conn = _Parser(h11.SERVER)
        self._since = self.loop.time()
        self._expect_request()
        if len(self.connections) > self.limits.connections:
            others = [one for one in self.connections if one is not self]
            idlest = min(others, key=_Connection._rank)  # type: ignore[arg-type]
            # `connection_lost` follows after other connections may have been made.
            self.connections.discard(idlest)
            idlest.transport.abort()

    def _rank(self) -> tuple[int, float]:
        """Orders connections: the smallest is closed first."""
        if not self._has_request():
            state = 0
        elif self.cycle.more_body or self.flow.write_paused:
            state = 1
        else:
            state = 2
        return state, self._since

    def _has_request(self) -> bool:
        """Tells whether a request has begun whose answer is not complete."""
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_request(self) -> None:
        if self._request_due is None:
            self._request_due = self.loop.call_later(
                self.limits.header_seconds, self.transport.abort
            )

    def data_received(self, data: bytes) -> None:
        assert isinstance(self.conn, _Parser)
        self.conn.events = 0
        super().data_received(data)
        if not self._has_request():
            self._expect_request()
        elif self._request_due:
            self._request_due.cancel()
            self._request_due = None

    def on_response_complete(self) -> None:
        self._since = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # An answer has begun.
            self.transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading_due = self.loop.call_later(
            self.limits.reading_seconds, self.transport.abort
        )

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reading_due:
            self._reading_due.cancel()
            self._reading_due = None

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._request_due, self._reading_due):
            if timer:
                timer.cancel()
        super().connection_lost(exc)
