"""A Kafka listener: one asyncio BufferedProtocol per connection.

Ordering: the handlers of one connection start in the order of its requests, each running up to
its first await before the next starts; responses leave in that order too. Bounds: a connection
with MAX_IN_FLIGHT requests (or MAX_IN_FLIGHT_BYTES of them) unanswered, or whose client does not
read, is not read from. Bad input closes its connection, with a log line and BAD_INPUT_MET.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from types import coroutine as generator_coroutine
from typing import Any

from highwater_adapters.frames import MAX_FRAME_BYTES, BadFrame, FrameBuffer
from highwater_adapters.response_writer import OwnedPiece, ResponseWriter, own, release
from highwater_core.check import BugFound, check
from highwater_core.events import EventKind
from highwater_core.ports import Trace
from highwater_wire.kafka.codec import (
    VERSION_PROFILE,
    MalformedRequest,
    RequestFrame,
    VersionProfile,
    decode_request,
    encode_response,
    encode_unsupported,
    release_records,
)
from highwater_wire.kafka.messages import KafkaRequest, KafkaResponse, UnsupportedRequest

MAX_IN_FLIGHT = 64
MAX_IN_FLIGHT_BYTES = 32 * 1024 * 1024
_BACKLOG = 512
_ENDED = object()
"""What a step returns whose handler has ended."""

_LOGGER = logging.getLogger("highwater.listener")


@dataclass(frozen=True, slots=True)
class ConnectionContext:
    """Where a request came from: the listener's name and the peer's address, "host:port"."""

    listener: str
    peer: str


KafkaHandler = Callable[
    [KafkaRequest, ConnectionContext], Coroutine[Any, Any, KafkaResponse | None]
]
"""Answers a request; None sends nothing (a produce with acks 0). Never given an
UnsupportedRequest: the listener answers those itself. A produce's records are views of the
connection's buffer: they can be read before the handler's first wait, and not afterwards."""


@dataclass(frozen=True, slots=True)
class ListenerSpec:
    """A listener to open: its name, port (0: any), handler and the API versions that it serves."""

    name: str
    port: int
    handler: KafkaHandler
    profile: VersionProfile = VERSION_PROFILE
    host: str = "0.0.0.0"
    max_frame_bytes: int = MAX_FRAME_BYTES


class KafkaListener:
    """Accepts connections on one port and answers their requests."""

    def __init__(
        self, spec: ListenerSpec, trace: Trace, fail: Callable[[str, BaseException], None]
    ) -> None:
        self.spec = spec
        self._trace = trace
        self._fail = fail
        self._server: asyncio.Server | None = None
        self._connections: dict[_Connection, None] = {}

    @property
    def port(self) -> int:
        """The port that is listened on."""
        check(self._server is not None, "the listener has not started")
        port: int = self._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        return port

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address is taken or not ours.
        """
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Connection(self), self.spec.host, self.spec.port, backlog=_BACKLOG
        )

    async def stop(self) -> None:
        """Stop listening and drop every connection; handlers that still wait are cancelled."""
        if self._server is None:
            return
        self._server.close()
        for connection in tuple(self._connections):
            connection.drop()
        await self._server.wait_closed()

    def opened(self, connection: _Connection) -> None:
        self._connections[connection] = None

    def closed(self, connection: _Connection) -> None:
        self._connections.pop(connection, None)

    def report_bad_input(self, context: ConnectionContext, what: str) -> None:
        _LOGGER.warning("%s %s: %s; closed", context.listener, context.peer, what)
        self._trace.emit(
            EventKind.BAD_INPUT_MET, where=f"{context.listener} {context.peer}", what=what
        )

    def report_bug(self, request: KafkaRequest, error: BaseException) -> None:
        self._fail(f"{self.spec.name} {type(request).__name__}", error)


_Work = Coroutine[Any, Any, KafkaResponse | None]


class _Exchange:
    """One request and, once it is known, its response: None unknown, [] nothing to send."""

    __slots__ = ("frame", "pieces", "request_bytes")

    def __init__(self, frame: RequestFrame, request_bytes: int) -> None:
        self.frame = frame
        self.request_bytes = request_bytes
        self.pieces: list[OwnedPiece] | None = None


class _Connection(asyncio.BufferedProtocol):
    """One client: frames in, exchanges in order, responses out."""

    def __init__(self, listener: KafkaListener) -> None:
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._frames = FrameBuffer(listener.spec.max_frame_bytes)
        self._exchanges: deque[_Exchange] = deque()
        self._bytes_in_flight = 0
        self._first_waits: dict[_Exchange, _Work] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._is_handling = False
        self._is_behind = False  # whole frames may wait in the buffer
        self._flush_is_due = False
        self._is_dropped = False

    # ------------------------------------------------------------ what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername") or ("?", 0)
        self._context = ConnectionContext(self._listener.spec.name, f"{peer[0]}:{peer[1]}")
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._writer = ResponseWriter(self._transport, self._update)
        self._listener.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.space()

    def buffer_updated(self, nbytes: int) -> None:
        self._frames.received(nbytes)
        self._handle_frames()

    def eof_received(self) -> None:
        if not self._is_dropped and not self._frames.is_empty and not self._is_behind:
            self._refuse("the stream ends within a frame")

    def pause_writing(self) -> None:
        self._writer.pause()

    def resume_writing(self) -> None:
        self._writer.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        """What is being handled goes on; its response is dropped."""
        self._is_dropped = True
        self._writer.close()
        for exchange in self._exchanges:
            release(exchange.pieces or ())
        self._exchanges.clear()
        self._listener.closed(self)

    def drop(self) -> None:
        self._is_dropped = True
        works, self._first_waits = self._first_waits, {}
        for work in works.values():
            work.close()
        for task in tuple(self._tasks):
            task.cancel()
        self._transport.abort()

    # ------------------------------------------------------------ requests

    def _is_full(self) -> bool:
        return (
            len(self._exchanges) >= MAX_IN_FLIGHT
            or self._bytes_in_flight >= MAX_IN_FLIGHT_BYTES
            or self._writer.is_blocked
        )

    def _handle_frames(self) -> None:
        """Start the requests that have arrived whole, and send the answers that are ready."""
        self._take_frames()
        self._flush()
        while self._is_behind and not self._is_full() and not self._is_dropped:
            self._take_frames()
            self._flush()

    def _take_frames(self) -> None:
        self._is_behind = False
        self._is_handling = True
        try:
            while not self._is_dropped:
                if self._is_full():
                    self._is_behind = True
                    break
                view = self._frames.next_frame()
                if view is None:
                    break
                self._start(decode_request(view, profile=self._listener.spec.profile), len(view))
        except (BadFrame, MalformedRequest) as error:
            self._refuse(str(error))
        finally:
            self._is_handling = False

    def _start(self, frame: RequestFrame, request_bytes: int) -> None:
        exchange = _Exchange(frame, request_bytes)
        self._exchanges.append(exchange)
        self._bytes_in_flight += request_bytes
        if isinstance(frame.request, UnsupportedRequest):
            self._answer_unsupported(exchange)
            return
        work = self._listener.spec.handler(frame.request, self._context)
        awaited = self._step(exchange, work)
        release_records(frame.request)
        if isinstance(awaited, asyncio.Future):
            # Most requests wait once, for one future: no task is made for them.
            awaited._asyncio_future_blocking = False  # as a task does with what it waits for
            self._first_waits[exchange] = work
            awaited.add_done_callback(functools.partial(self._resume, exchange))
        elif awaited is not _ENDED:
            self._make_task(exchange, work, awaited)

    def _resume(self, exchange: _Exchange, _awaited: asyncio.Future[Any]) -> None:
        """Go on with a handler whose first wait is over; a second one makes it a task."""
        work = self._first_waits.pop(exchange, None)
        if work is None:
            return  # dropped meanwhile
        awaited = self._step(exchange, work)
        if awaited is not _ENDED:
            self._make_task(exchange, work, awaited)

    def _step(self, exchange: _Exchange, work: _Work) -> Any:
        """Run the handler up to its next wait; return what it waits for, or _ENDED."""
        try:
            return work.send(None)
        except StopIteration as stop:
            self._settle(exchange, stop.value)
        except (Exception, BugFound) as error:  # noqa: BLE001 (reported whole, the node stops)
            self._listener.report_bug(exchange.frame.request, error)
        return _ENDED

    def _make_task(self, exchange: _Exchange, work: _Work, awaited: Any) -> None:
        if awaited is not None:
            awaited._asyncio_future_blocking = False  # others may await it before the task does
        task = self._loop.create_task(self._finish(exchange, _go_on(work, awaited)))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _finish(self, exchange: _Exchange, work: _Work) -> None:
        try:
            response = await work
        except (Exception, BugFound) as error:  # noqa: BLE001 (reported whole, the node stops)
            self._listener.report_bug(exchange.frame.request, error)
        else:
            self._settle(exchange, response)

    def _answer_unsupported(self, exchange: _Exchange) -> None:
        frame = exchange.frame
        pieces = encode_unsupported(frame, self._listener.spec.profile)
        if pieces is None:
            self._refuse(f"API {frame.api_key} version {frame.api_version} is not served")
        else:
            exchange.pieces = own(pieces)

    def _refuse(self, what: str) -> None:
        """Close the connection: what came cannot be answered, nor what follows be understood."""
        self._flush()
        self._is_dropped = True
        self._listener.report_bad_input(self._context, what)
        self._transport.close()

    # ------------------------------------------------------------ responses

    def _settle(self, exchange: _Exchange, response: KafkaResponse | None) -> None:
        if self._is_dropped:
            return
        frame = exchange.frame
        exchange.pieces = (
            []
            if response is None
            else own(encode_response(response, frame.api_version, frame.correlation_id))
        )
        if exchange is self._exchanges[0] and not self._is_handling and not self._flush_is_due:
            if len(self._exchanges) == 1:
                self._flush()
                return
            self._flush_is_due = True  # several may settle in one pass of the loop: one write
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Send the responses whose turn it is."""
        self._flush_is_due = False
        if self._is_dropped:
            return
        while self._exchanges and (pieces := self._exchanges[0].pieces) is not None:
            self._bytes_in_flight -= self._exchanges.popleft().request_bytes
            self._writer.send(pieces)
        self._writer.flush()
        self._update()

    def _update(self) -> None:
        """Read on, or not; called whenever something was sent."""
        if self._is_dropped or self._writer.is_sending_file:
            return  # a transport that sends a file does not read, and reads on afterwards
        if self._is_full():
            self._transport.pause_reading()
            return
        if not self._transport.is_reading():
            self._transport.resume_reading()
        if self._is_behind and not self._is_handling:
            self._loop.call_soon(self._handle_frames)


@generator_coroutine
def _go_on(
    work: Coroutine[Any, Any, KafkaResponse | None], awaited: Any
) -> Generator[Any, Any, KafkaResponse | None]:
    """Go on, within a task, with a coroutine that was started outside one and awaits a future."""
    if awaited is not None:
        awaited._asyncio_future_blocking = True  # as what a task's step yields has it
    while True:
        thrown: BaseException | None = None
        try:
            yield awaited
        except BaseException as error:  # noqa: BLE001 (the future's, or a cancellation: passed on)
            thrown = error
        if thrown is None:
            answer: KafkaResponse | None = yield from work
            return answer
        try:
            awaited = work.throw(thrown)
        except StopIteration as stop:
            response: KafkaResponse | None = stop.value
            return response
