"""The Transport port: this node as a client of other brokers, in Kafka's protocol.

One connection per endpoint and name, opened by its first call. Calls are pipelined; responses come
in the order of the requests. A call that is not answered in time, or a response that cannot be
read, ends the connection and every call on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any

from highwater_adapters.frames import BadFrame, FrameBuffer
from highwater_core.ids import Endpoint
from highwater_core.ports import CallFailed
from highwater_wire.kafka.codec import (
    MAX_RESPONSE_BYTES,
    MalformedRequest,
    decode_response,
    encode_request,
    replication_version,
)
from highwater_wire.kafka.messages import RecordsView, expects_response

_MAX_CORRELATION_ID = 2**31 - 1

_LOGGER = logging.getLogger("highwater.transport")


class _Call:
    """A request on its way; `answer` holds its response or CallFailed."""

    __slots__ = ("answer", "api_version", "correlation_id", "request")

    def __init__(self, request: Any, correlation_id: int, answer: asyncio.Future[Any]) -> None:
        self.request = request
        self.api_version = replication_version(request)
        self.correlation_id = correlation_id
        self.answer = answer

    def end(self, response: Any) -> None:
        if not self.answer.done():  # the waiting caller may have been cancelled
            self.answer.set_result(response)

    def fail(self, message: str, *, sent: bool) -> None:
        if not self.answer.done():
            self.answer.set_exception(CallFailed(message, sent=sent))


class _Connection(asyncio.BufferedProtocol):
    """One connection: calls that wait for it to open, calls that wait for their response."""

    def __init__(self, endpoint: Endpoint, client_id: str, max_frame_bytes: int) -> None:
        self._endpoint = endpoint
        self._client_id = client_id
        self._loop = asyncio.get_running_loop()
        self._frames = FrameBuffer(max_frame_bytes)
        self._transport: asyncio.Transport | None = None
        self._unsent: deque[_Call] = deque()
        self._unanswered: deque[_Call] = deque()
        self._next_correlation_id = 0
        self.is_closed = False
        self._opening = self._loop.create_task(self._open(), name=f"connect {endpoint}")

    async def call(self, request: Any, timeout_ms: int) -> Any:
        call = _Call(request, self._next_correlation_id, self._loop.create_future())
        self._next_correlation_id = (self._next_correlation_id + 1) & _MAX_CORRELATION_ID
        timer = self._loop.call_later(timeout_ms / 1000, self._expire, timeout_ms)
        if self._transport is None:
            self._unsent.append(call)
        else:
            self._send(self._transport, call)
        try:
            return await call.answer
        finally:
            timer.cancel()

    def close(self, why: str) -> None:
        """Close the connection and fail its calls."""
        if self.is_closed:
            return
        self.is_closed = True
        self._opening.cancel()
        if self._transport is not None:
            self._transport.abort()
        for call in self._unsent:
            call.fail(why, sent=False)
        for call in self._unanswered:
            call.fail(why, sent=True)
        self._unsent.clear()
        self._unanswered.clear()

    async def _open(self) -> None:
        try:
            await self._loop.create_connection(
                lambda: self, self._endpoint.host, self._endpoint.port
            )
        except (OSError, UnicodeError, OverflowError) as error:
            # The last two: a registered host that is no name, a port that is none.
            self.close(f"{self._endpoint}: {error}")

    def _expire(self, timeout_ms: int) -> None:
        self.close(f"{self._endpoint}: no answer within {timeout_ms} ms")

    def _send(self, transport: asyncio.Transport, call: _Call) -> None:
        pieces = encode_request(
            call.request, call.api_version, call.correlation_id, self._client_id
        )
        transport.write(
            b"".join(
                piece if isinstance(piece, bytes | bytearray | memoryview) else _read(piece)
                for piece in pieces
            )
        )
        if expects_response(call.request):
            self._unanswered.append(call)
        else:
            call.end(None)

    # ------------------------------------------------------------ called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        if self.is_closed:
            self._transport.abort()  # type: ignore[union-attr]
            return
        while self._unsent:
            self._send(self._transport, self._unsent.popleft())  # type: ignore[arg-type]

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.space()

    def buffer_updated(self, nbytes: int) -> None:
        self._frames.received(nbytes)
        try:
            while not self.is_closed and (frame := self._frames.next_frame()) is not None:
                self._take_response(frame)
        except (BadFrame, MalformedRequest) as error:
            _LOGGER.warning("a response of %s: %s; closed", self._endpoint, error)
            self.close(f"{self._endpoint}: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self.close(f"{self._endpoint}: the connection was closed ({exc or 'by the peer'})")

    def _take_response(self, frame: memoryview) -> None:
        if not self._unanswered:
            raise MalformedRequest("nothing was asked")
        call = self._unanswered[0]
        correlation_id, response = decode_response(frame, call.request, call.api_version)
        if correlation_id != call.correlation_id:
            raise MalformedRequest(f"answers {correlation_id}, not {call.correlation_id}")
        self._unanswered.popleft()
        call.end(response)


def _read(piece: RecordsView) -> bytes:
    return piece.read()


class TcpTransport:
    """See highwater_core.ports.Transport."""

    def __init__(self, client_id: str, max_frame_bytes: int = MAX_RESPONSE_BYTES) -> None:
        """max_frame_bytes: of an answer; no broker sends a longer one than by default."""
        self._client_id = client_id
        self._max_frame_bytes = max_frame_bytes
        self._connections: dict[tuple[Endpoint, str], _Connection] = {}

    async def call(self, endpoint: Endpoint, connection: str, request: Any, timeout_ms: int) -> Any:
        key = endpoint, connection
        open_connection = self._connections.get(key)
        if open_connection is None or open_connection.is_closed:
            open_connection = _Connection(endpoint, self._client_id, self._max_frame_bytes)
            self._connections[key] = open_connection
        return await open_connection.call(request, timeout_ms)

    def disconnect(self, endpoint: Endpoint, connection: str) -> None:
        open_connection = self._connections.pop((endpoint, connection), None)
        if open_connection is not None:
            open_connection.close(f"{endpoint}: disconnected")

    def close(self) -> None:
        """Close every connection."""
        for endpoint, connection in tuple(self._connections):
            self.disconnect(endpoint, connection)
