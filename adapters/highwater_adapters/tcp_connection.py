"""One connection of a Kafka listener: frames in, exchanges in order, responses out.

Ordering: handlers start in the order of the requests, each running up to its first await before
the next starts, but for groups' requests behind an OffsetCommit, which wait for its answer;
responses leave in that order too. Bounds: a connection is not read from while
MAX_IN_FLIGHT requests (or MAX_IN_FLIGHT_BYTES of them) are unanswered, while its client does not
read its answers, and while it needs more memory than the listener's quota has left. No connection
keeps the event loop longer than its turn and one request; for many connections together see
fair_line. Handlers that still wait when the connection ends are cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from typing import Any, Protocol

from highwater_adapters.answers import own_answer
from highwater_adapters.fair_line import FairLine
from highwater_adapters.frames import BadFrame, FrameBuffer, Scratch
from highwater_adapters.listener_spec import ConnectionContext, ListenerSpec
from highwater_adapters.memory_quota import FREE_BYTES
from highwater_adapters.request_times import RequestTimes
from highwater_adapters.response_writer import (
    OwnedPiece,
    ResponseWriter,
    memory_of,
    own,
    release,
)
from highwater_adapters.running_handlers import RunningHandlers
from highwater_wire.kafka.codec import (
    MalformedRequest,
    RequestFrame,
    UnencodableResponse,
    decode_request,
    encode_unsupported,
    release_records,
)
from highwater_wire.kafka.group_order import is_commit, waits_for_commits
from highwater_wire.kafka.messages import (
    PRODUCE_PARTITION_BYTES,
    HangUp,
    KafkaAnswer,
    KafkaRequest,
    ProduceRequest,
    UnsupportedRequest,
)

MAX_IN_FLIGHT = 64
MAX_IN_FLIGHT_BYTES = 32 * 1024 * 1024
DECODED_WEIGHT = 16
"""Memory of a byte that is decoded into objects: of all requests but a produce's records."""
HANDLER_BYTES = 4096
"""Memory of a waiting handler, however small its request."""
UNSENT_BYTES = 1024 * 1024
"""With so many bytes of unsent answers, no further request is started."""
MAX_UNSENT_BYTES = 128 * 1024 * 1024
"""With more, which only many waiting handlers can cause, the connection is closed."""
KEPT_SWEEPS = 5
"""Sweeps without a byte after which a connection frees the buffer of its last large frame."""

_LOGGER = logging.getLogger("highwater.listener")


class Host(Protocol):
    """A connection's interface to its listener."""

    @property
    def spec(self) -> ListenerSpec: ...
    @property
    def scratch(self) -> Scratch: ...
    @property
    def line(self) -> FairLine: ...
    @property
    def times(self) -> RequestTimes: ...
    def turn_s(self) -> float: ...
    def opened(self, connection: Connection) -> None: ...
    def closed(self, connection: Connection) -> None: ...
    def report_bad_input(self, context: ConnectionContext, what: str) -> None: ...
    def report_bug(self, request_name: str, error: BaseException) -> None: ...


class _Exchange:
    """One request and, once it is known, its response: None unknown, [] nothing to send."""

    __slots__ = (
        "api_version",
        "began_at",
        "correlation_id",
        "hang_up",
        "in_flight_bytes",
        "kept_bytes",
        "memory_bytes",
        "pieces",
        "request_type",
    )

    def __init__(self, frame: RequestFrame, request_bytes: int, began_at: float) -> None:
        request = frame.request
        self.began_at = began_at
        self.api_version = frame.api_version
        self.correlation_id = frame.correlation_id
        self.request_type = type(request)
        if isinstance(request, ProduceRequest):
            # Its records stay bytes, and are freed once they are appended.
            self.kept_bytes = HANDLER_BYTES + len(request.partitions) * PRODUCE_PARTITION_BYTES
            self.in_flight_bytes = request_bytes + self.kept_bytes
        else:
            self.kept_bytes = HANDLER_BYTES + request_bytes * DECODED_WEIGHT
            self.in_flight_bytes = self.kept_bytes
        self.pieces: list[OwnedPiece] | None = None
        self.hang_up: HangUp | None = None
        self.memory_bytes = 0  # of the pieces


class Connection(asyncio.BufferedProtocol):
    """One client."""

    def __init__(self, host: Host, address: str) -> None:
        self.address = address
        self.served_s = 0.0
        self._host = host
        self._quota = host.spec.quota
        self._loop = asyncio.get_running_loop()
        self._frames = FrameBuffer(host.spec.max_frame_bytes, host.scratch)
        self._exchanges: deque[_Exchange] = deque()
        self._handlers = RunningHandlers(self._settle, self._report_bug)
        self._last_commit: asyncio.Future[None] | None = None
        """Done once the last OffsetCommit so far, and so all, have been handled."""
        self._in_flight_bytes = 0
        self._held_bytes = 0  # kept requests, and answers whose turn has not come
        self._unsent_bytes = 0  # the answers among these
        self._received_bytes = 0
        self._progress = 0
        self._quiet_sweeps = 0
        self._is_handling = False
        self._is_behind = False  # whole frames may wait in the buffer
        self._is_counted = False  # by the quota
        self._step_is_due = False
        self._flush_is_due = False
        self._is_dropped = False
        self._is_lost = False

    # ------------------------------------------------------------ called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername") or ("?", 0)
        self._context = ConnectionContext(self._host.spec.name, f"{peer[0]}:{peer[1]}")
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._writer = ResponseWriter(self._transport, self._update)
        self._host.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.space()

    def buffer_updated(self, nbytes: int) -> None:
        self._frames.received(nbytes)
        self._received_bytes += nbytes
        self._handle_frames()

    def eof_received(self) -> bool:
        """The client sends no more: finished answers are sent, other requests are dropped."""
        if self._is_dropped:
            return False
        if not self._frames.is_empty:
            self._refuse("the stream ends within a frame")
        else:
            self._end()
        return True  # it is closed when all is sent

    def pause_writing(self) -> None:
        self._writer.pause()

    def resume_writing(self) -> None:
        self._writer.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._let_go()
        self._host.closed(self)

    # ------------------------------------------------------------ called by the listener

    def drop(self, why: str = "") -> None:
        """Close the connection at once. why: to log, if any."""
        if self._is_lost:
            return
        if why:
            _LOGGER.info("%s %s: %s; closed", self._context.listener, self._context.peer, why)
        self._let_go()
        self._transport.abort()

    def sweep(self, idle_sweeps: int) -> bool:
        """Note that time has passed; return whether no byte moves and reading is paused.

        After so many sweeps in a row without a byte in either direction the connection is closed.
        """
        progress = self._received_bytes + self._writer.taken_bytes
        is_quiet = progress == self._progress
        self._progress = progress
        if not is_quiet or self._quota.is_waiting(self):
            self._quiet_sweeps = 0
        else:
            self._quiet_sweeps += 1
        if self._quiet_sweeps == KEPT_SWEEPS:
            self.give_back()
        if self._quiet_sweeps >= idle_sweeps:
            self.drop("no byte came or went for connections.max.idle.ms")
        return is_quiet and not self._transport.is_reading() and not self._is_dropped

    def fileno(self) -> int:
        descriptor: int = self._transport.get_extra_info("socket").fileno()
        return descriptor

    # ------------------------------------------------------------ called by the quota

    @property
    def is_amid_frame(self) -> bool:
        return not (self._frames.is_empty or self._is_behind)

    def have_room(self) -> None:
        self._update()

    def give_back(self) -> None:
        self._frames.give_back()
        self._account()

    def shed(self, why: str) -> None:
        _LOGGER.warning("%s %s: %s; closed", self._context.listener, self._context.peer, why)
        self.drop()

    # ------------------------------------------------------------ requests

    def _is_full(self) -> bool:
        return (
            len(self._exchanges) >= MAX_IN_FLIGHT
            or self._in_flight_bytes >= MAX_IN_FLIGHT_BYTES
            or self._unsent_bytes >= UNSENT_BYTES
            or self._writer.is_blocked
        )

    def _handle_frames(self) -> None:
        """Handle the received frames, now or when it is the connection's turn."""
        left_s = self._host.turn_s()
        if left_s > 0 and not self._step_is_due:
            self.go_on(self._loop.time() + left_s)
            return
        size_bytes = 0
        try:
            self._is_behind = not self._is_dropped and self._frames.has_frame()
            size_bytes = self._frames.frame_bytes
        except BadFrame:
            self._is_behind = True  # its turn is soon enough to say so
        self._frames.settle()
        if self._is_behind and not self._step_is_due:
            self._step_is_due = True
            self._host.line.begin(self, size_bytes)
        self._update()

    def go_on(self, ends_at: float) -> None:
        """Start the complete requests, and send the finished answers."""
        self._step_is_due = False
        begun_at = self._loop.time()
        goes_on = not self._is_dropped
        while goes_on:
            self._take_frames(ends_at)
            self._send_answers()
            goes_on = (
                self._is_behind
                and not self._is_dropped
                and not self._is_full()
                and self._loop.time() < ends_at
            )
        self._frames.settle()
        self._host.line.spend(self, self._loop.time() - begun_at)
        self._update()

    def _take_frames(self, ends_at: float) -> None:
        """Start the complete requests: at least one, and more while the turn lasts.

        Afterwards _is_behind says whether one is left.
        """
        frames = self._frames
        self._is_behind = False
        self._is_handling = True
        is_over = False
        try:
            while not self._is_dropped and frames.has_frame():
                if is_over or self._is_full():
                    self._is_behind = True
                    break
                view = frames.take_frame()
                frame = decode_request(view, profile=self._host.spec.profile)
                self._start(frame, len(view))
                is_over = self._loop.time() >= ends_at
        except (BadFrame, MalformedRequest) as error:
            self._refuse(str(error))
        finally:
            self._is_handling = False

    def _start(self, frame: RequestFrame, request_bytes: int) -> None:
        exchange = _Exchange(frame, request_bytes, self._loop.time())
        self._exchanges.append(exchange)
        self._in_flight_bytes += exchange.in_flight_bytes
        self._held_bytes += exchange.kept_bytes
        if isinstance(frame.request, UnsupportedRequest):
            self._answer_unsupported(frame, exchange)
            return
        self._handlers.start(exchange, self._work(frame.request))
        release_records(frame.request)

    def _work(self, request: KafkaRequest) -> Coroutine[Any, Any, KafkaAnswer]:
        if waits_for_commits(request):
            return self._after_commits(request)
        return self._host.spec.handler(request, self._context)

    async def _after_commits(self, request: KafkaRequest) -> KafkaAnswer:
        """Handle the request once all OffsetCommits before it have been handled."""
        earlier = self._last_commit
        own = self._last_commit = self._loop.create_future() if is_commit(request) else earlier
        try:
            if earlier is not None:
                await earlier
            return await self._host.spec.handler(request, self._context)
        finally:
            if own is not None and own is not earlier and not own.done():
                own.set_result(None)

    def _answer_unsupported(self, frame: RequestFrame, exchange: _Exchange) -> None:
        pieces = encode_unsupported(frame, self._host.spec.profile)
        if pieces is None:
            self._refuse(f"API {frame.api_key} version {frame.api_version} is not served")
        else:
            exchange.pieces = own(pieces)

    def _refuse(self, what: str) -> None:
        """Close the connection: the frame cannot be answered, nor the next ones be read."""
        self._send_answers()
        self._host.report_bad_input(self._context, what)
        self._end()

    def _end(self) -> None:
        """Start and answer no more requests, and close when the answers so far have been read."""
        self._is_dropped = True
        self._transport.pause_reading()
        self._handlers.cancel()
        self._drop_requests()
        # Answers are memory until they are read, or the connection is closed.
        self._quota.hold(self, self._writer.waiting_bytes)
        self._writer.close_when_sent()

    def _let_go(self) -> None:
        """Free all memory."""
        self._is_dropped = True
        self._writer.close()
        self._handlers.cancel()
        self._drop_requests()
        self._quota.forget(self)

    def _drop_requests(self) -> None:
        """Drop received requests, and answers whose turn will not come."""
        for exchange in self._exchanges:
            release(exchange.pieces or ())
        self._exchanges.clear()
        self._frames = FrameBuffer(scratch=self._host.scratch)

    def _report_bug(self, exchange: _Exchange, error: BaseException) -> None:
        self._host.report_bug(exchange.request_type.__name__, error)

    # ------------------------------------------------------------ responses

    def _settle(self, exchange: _Exchange, response: KafkaAnswer) -> None:
        if self._is_dropped:
            return
        if not self._encode(exchange, response):
            return
        self._held_bytes += exchange.memory_bytes
        self._unsent_bytes += exchange.memory_bytes
        if self._unsent_bytes + self._writer.waiting_bytes > MAX_UNSENT_BYTES:
            self.shed(f"more than {MAX_UNSENT_BYTES} bytes of answers wait to be read")
            return
        if exchange is self._exchanges[0] and not self._is_handling and not self._flush_is_due:
            if len(self._exchanges) == 1:
                self._flush()
                return
            self._flush_is_due = True  # several may settle in one pass of the loop: one write
            self._loop.call_soon(self._flush)

    def _encode(self, exchange: _Exchange, response: KafkaAnswer) -> bool:
        """Give the exchange its answer, or close the connection if it cannot be encoded."""
        if response is None:
            exchange.pieces = []
            return True
        if isinstance(response, HangUp):
            exchange.pieces, exchange.hang_up = [], response
            return True
        name = exchange.request_type.__name__
        try:
            pieces = own_answer(response, exchange.api_version, exchange.correlation_id)
        except UnencodableResponse as error:
            self._refuse(f"the answer to {name} cannot be encoded: {error}")
            return False
        except OSError as error:
            self.shed(f"what was to answer {name} cannot be read: {error}")
            return False
        exchange.pieces = pieces
        exchange.memory_bytes = memory_of(pieces)
        return True

    def _flush(self) -> None:
        """Send the responses whose turn it is."""
        self._flush_is_due = False
        if not self._is_dropped:
            self._send_answers()
            self._update()

    def _send_answers(self) -> None:
        if self._is_dropped:
            return
        exchanges, times = self._exchanges, self._host.times
        while exchanges and (pieces := exchanges[0].pieces) is not None:
            exchange = exchanges.popleft()
            took_s = self._loop.time() - exchange.began_at
            times.add(exchange.request_type, self._context.listener, took_s)
            self._in_flight_bytes -= exchange.in_flight_bytes
            self._held_bytes -= exchange.kept_bytes + exchange.memory_bytes
            self._unsent_bytes -= exchange.memory_bytes
            self._writer.send(pieces, exchange.memory_bytes)
            if exchange.hang_up is not None:
                self._writer.flush()
                self._hang_up(exchange.hang_up.why)
                return
        self._writer.flush()

    def _hang_up(self, why: str) -> None:
        """Close the connection once the answers to earlier requests have been read."""
        _LOGGER.info("%s %s: %s; closed", self._context.listener, self._context.peer, why)
        self._end()

    def _account(self) -> None:
        if self._is_dropped:
            return
        if self._quota.is_short:
            self._frames.give_back()
        held_bytes = self._held_bytes + self._frames.held_bytes + self._writer.waiting_bytes
        is_counted = held_bytes > FREE_BYTES
        if is_counted or self._is_counted:
            self._is_counted = is_counted
            self._quota.hold(self, held_bytes)

    def _update(self) -> None:
        """Account for the memory, and pause or resume reading; called whenever these may change."""
        if self._is_dropped:
            return
        if self._exchanges or self._is_counted or self._writer.is_blocked or self._frames.is_kept:
            self._account()
            if not self._may_read():
                self._transport.pause_reading()
                return
        if not self._transport.is_reading():
            self._transport.resume_reading()

    def _may_read(self) -> bool:
        if self._is_full():
            return False
        if self._is_behind:
            if not (self._is_handling or self._step_is_due):
                self._step_is_due = True
                self._host.line.join(self)
            return False
        return self._has_room_to_receive()

    def _has_room_to_receive(self) -> bool:
        """Make room for the rest of a large frame, if the quota allows it."""
        growth = self._frames.growth()
        if growth:
            if not self._quota.may_grow(self, growth):
                return False
            try:
                self._frames.grow(growth)
            except OSError as error:  # out of memory
                self.shed(str(error))
                return False
            self._account()
        return True
