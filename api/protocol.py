"""Read HTTP/1.1 from connections: heads of bounded size, in bounded time, from bounded many.

The parser (llhttp) has no limits of its own, and joins what it has of a header's value with each
piece that comes. Here what is fed to it is counted first: whatever is no body counts as overhead.
"""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

import uvicorn
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from api.pace import FairQueue
from api.protocol_faults import (
    CROWD,
    FRAMING,
    HEAD_S,
    HEADERS,
    LATE,
    MALFORMED,
    MAX_CONNECTIONS,
    MAX_CREDIT_BYTES,
    MAX_HEADER_BYTES,
    MAX_HEADERS,
    MAX_OF_CLIENT,
    MAX_OVERHEAD_BYTES,
    MAX_PIPELINED,
    MAX_TARGET_BYTES,
    PIPELINE,
    TARGET,
    ProtocolFault,
    answer,
)
from core.log import get_logger

#: Bytes that are fed at a time.
SLICE_BYTES: Final = 64 * 2**10
#: Seconds for the rest of a body that nobody reads, after its answer.
LINGER_S: Final = 10.0
#: Seconds that a client may leave its answer unread once there is no more room for it on its way.
UNREAD_S: Final = 60.0

log = get_logger("api.access")

#: Of each server.
_paces: WeakKeyDictionary[ServerState, FairQueue] = WeakKeyDictionary()


class LimitExceeded(Exception):
    """Leaves the parser by its callbacks."""


class LimitedProtocol(HttpToolsProtocol):
    """One connection whose requests keep to the limits of this module."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._pace = _paces.setdefault(server_state, FairQueue(self.loop))
        self._fault: ProtocolFault | None = None  #: why nothing more is read
        self._is_over = False  #: nothing more is read: what was answered ends the connection
        self._closes = False  #: the client asked for that, with the request that is answered
        self._in_head = False
        self._in_message = False
        self._began = False  #: a request did, in the slice that was fed last
        self._header_bytes = 0  #: of this request
        self._overhead = 0  #: bytes of this request that are no body, less those of its body
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None  #: runs while nothing more can be written
        self.idle_since = 0.0  #: by the loop's clock

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock of the first head; refuse a connection too many."""
        super().connection_made(transport)
        self.idle_since = self.loop.time()
        if self._has_room():
            self._timer = self.loop.call_later(HEAD_S, self._refuse, LATE)
        else:
            self._refuse(CROWD)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks."""
        self._stop_timer()
        self.resume_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the clock of a client that does not read: its stream would be held for ever."""
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        """Stop the clock of a client that has read on."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def _wait_for_reader(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._unread = self.loop.call_later(UNREAD_S, self._leave_unless_read, left)

    def _leave_unless_read(self, before: int) -> None:
        if self.transport.get_write_buffer_size() < before:
            self._wait_for_reader()
            return
        log.info("connection_left", reason=f"nothing was read of an answer for {UNREAD_S:g} s")
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Parse bytes slice by slice, so that limits hold within one read."""
        self.idle_since = self.loop.time()
        for at in range(0, len(data), SLICE_BYTES):
            if self._fault is not None or self._is_over or self.transport.is_closing():
                return
            self._feed(data if len(data) <= SLICE_BYTES else data[at : at + SLICE_BYTES])
        if self._in_head and self._timer is None and self._fault is None:
            self._timer = self.loop.call_later(HEAD_S, self._refuse, LATE)

    def _feed(self, data: bytes) -> None:
        """Parse a slice. Where a request begins in it, the callbacks alone count what is its."""
        self._began = False
        super().data_received(data)
        if not self._began:
            self._overhead += len(data)
        if self._overhead > MAX_OVERHEAD_BYTES and self._fault is None:
            self._refuse(HEADERS if self._in_head else FRAMING)

    def on_message_begin(self) -> None:
        """Count a request; refuse one too many in the pipeline."""
        super().on_message_begin()
        self._in_head = self._in_message = self._began = True
        self._header_bytes = self._overhead = 0
        if len(self.pipeline) >= MAX_PIPELINED:
            self._exceed(PIPELINE)

    def on_url(self, url: bytes) -> None:
        """Bound the request target."""
        super().on_url(url)
        if len(self.url) > MAX_TARGET_BYTES:
            self._exceed(TARGET)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Bound the number and the bytes of headers."""
        super().on_header(name, value)
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > MAX_HEADER_BYTES or len(self.headers) > MAX_HEADERS:
            self._exceed(HEADERS)

    def on_headers_complete(self) -> None:
        """Stop the clock of the head."""
        self._in_head = False
        self._stop_timer()
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        # The cycle would close at once, and a client that still sends would be reset unanswered.
        self._closes, cycle.keep_alive = not cycle.keep_alive, True
        self._pace.call(self.address, partial(super()._start_asgi_task, cycle, app))

    def on_body(self, body: bytes) -> None:
        """Take the bytes of a body off what counts as framing."""
        self._overhead = max(self._overhead - 2 * len(body), -MAX_CREDIT_BYTES)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop the clock of the message."""
        self._in_message = False
        self._stop_timer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Give a client that was answered early a moment to stop sending."""
        closes, self._closes = self._closes, False
        super().on_response_complete()
        if closes and not self._in_message:
            self.transport.close()
        elif closes:
            self._let_read()
        elif self._in_message and self._timer is None:  # it was answered before it was read
            self._timer = self.loop.call_later(LINGER_S, self.transport.abort)

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser, or a limit, does not let through."""
        self._refuse(self._fault or MALFORMED)

    def _exceed(self, fault: ProtocolFault) -> None:
        self._fault = fault
        raise LimitExceeded

    def _refuse(self, fault: ProtocolFault) -> None:
        """Answer, unless something else is being answered; then nothing more is read."""
        self._fault = fault
        self._stop_timer()
        if self.transport.is_closing():
            return
        log.info("connection_refused", status=fault.status.value, reason=fault.detail)
        if self.cycle is not None and not self.cycle.response_complete:
            if self._in_head or self.pipeline or self.cycle.response_started:
                self.transport.abort()
                return
            self.cycle.disconnected = True  # it waits for the body of which nothing more is read
            self.cycle.message_event.set()
        self.transport.write(answer(fault))
        self._let_read()

    def _let_read(self) -> None:
        """Close once the client has read its answer; what still comes is dropped for a moment.

        A connection closed on unread bytes is reset, and its client may not see what was said.
        """
        self._is_over = True
        self._stop_timer()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._timer = self.loop.call_later(LINGER_S, self.transport.abort)

    def eof_received(self) -> None:
        """Let go of a client that has read its last answer."""
        if self._is_over:
            self.transport.close()

    def _has_room(self) -> bool:
        """Tell whether one connection more is held; the one that is idle longest makes room."""
        if len(self.connections) <= MAX_OF_CLIENT:
            return True
        crowd = [each for each in self._others() if each.address == self.address]
        if len(crowd) < MAX_OF_CLIENT:
            if len(self.connections) <= MAX_CONNECTIONS:
                return True
            crowd = list(self._others())
        idle = min((e for e in crowd if e.is_idle), key=lambda e: e.idle_since, default=None)
        if idle is not None:
            idle.transport.close()
        return idle is not None

    def _others(self) -> "Iterator[LimitedProtocol]":
        each: LimitedProtocol
        for each in cast("set[LimitedProtocol]", self.connections):
            if each is not self and not each.transport.is_closing():
                yield each

    @property
    def address(self) -> str | None:
        """Where the client is."""
        return self.client[0] if self.client else None

    @property
    def is_idle(self) -> bool:
        """Nothing is being answered, and no request has come in part."""
        is_answered = self.cycle is None or self.cycle.response_complete
        return is_answered and not self._in_message and not self.pipeline

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
