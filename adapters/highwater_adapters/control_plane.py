"""The ControlPlane port over grpc.aio: bytes in and out, coded by highwater_wire.control.

A server passes each call to the handler as it arrives and lets it finish even when the caller has
given up: a call that timed out may still be carried out. A malformed request is answered with
INVALID_ARGUMENT, a peer from outside the cluster's network with PERMISSION_DENIED, and a call
beyond MAX_CALLS with RESOURCE_EXHAUSTED. Bytes that are not gRPC end their connection, inside the
library.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn

import grpc

from highwater_adapters.peers import AllowedPeers
from highwater_adapters.process_usage import with_usage
from highwater_core.check import BugFound, check
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import Endpoint
from highwater_core.messages import ControlRequest, ControlResponse, NodeSnapshot
from highwater_core.ports import CallEnd, CallFailed, CallRefused, ControlHandler, Trace
from highwater_wire.control import (
    METHODS,
    WATCH_TRACE,
    MalformedControlMessage,
    decode_control_request,
    decode_control_response,
    decode_watch_trace,
    encode_control_request,
    encode_control_response,
    encode_trace_line,
)

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
MAX_CALLS = 1_000
"""Most calls that a node carries out at once; calls that their callers gave up count too."""
HANDSHAKE_TIMEOUT_MS = 5_000
"""For how long a connection may be open without HTTP/2's preface."""
_CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    # A restarted peer is reached again soon; an attempt whose SYN is lost ends soon, too.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 150),
    # Finds connections that a cut left half-open.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
)
_SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.so_reuseport", 0),  # a taken port is an error
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    # An idle connection keeps no descriptor; peers connect again.
    ("grpc.server_handshake_timeout_ms", HANDSHAKE_TIMEOUT_MS),
    ("grpc.max_connection_idle_ms", 5 * 60 * 1000),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
)
_NEVER_SENT = "failed to connect to all addresses"
"""The beginning of gRPC's status when no connection could be made for a call."""

_MAX_STRANGERS_TOLD = 100
_CANNOT_READ = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED)
"""The peer could not read the request, or does not know its method, and never will."""
_TIMED_OUT = ("timed out", "timeout")
"""In gRPC's status where the kernel or a keepalive gave a connection up: the peer was silent."""
_TOO_LARGE = "message larger than max"
"""gRPC's status for a message that either side refuses for its size."""

_LOGGER = logging.getLogger("highwater.control")

_Context = grpc.aio.ServicerContext[bytes, bytes]
WatchTrace = Callable[[int], AsyncIterator[TraceEvent]]


class GrpcControlPlane:
    """See highwater_core.ports.ControlPlane. Made inside the running loop.

    watch_trace: yields trace events from a seq on; without it WatchTrace is not implemented.
    """

    def __init__(
        self,
        trace: Trace,
        fail: Callable[[str, BaseException], None],
        watch_trace: WatchTrace | None = None,
        peers: AllowedPeers | None = None,
        complete: Callable[[NodeSnapshot], NodeSnapshot] = with_usage,
    ) -> None:
        """complete: adds to a node's snapshot what its process knows."""
        self._complete = complete
        self._peers = peers or AllowedPeers()
        self._trace = trace
        self._fail = fail
        self._watch_trace = watch_trace
        self._handler: ControlHandler | None = None
        self._channels: dict[Endpoint, grpc.aio.Channel] = {}
        self._server: grpc.aio.Server | None = None
        self._calls: dict[asyncio.Task[Any], None] = {}
        self._strangers: dict[str, None] = {}
        self.port = 0
        """The port that is served, once started."""

    # ------------------------------------------------------------ calling

    async def call(
        self, endpoint: Endpoint, request: ControlRequest, timeout_ms: int
    ) -> ControlResponse:
        try:
            path, message = encode_control_request(request)
        except (ValueError, TypeError) as error:  # protobuf: no field can have such a value
            raise CallRefused(
                f"{endpoint}: {type(request).__name__}: {error}", sent=False
            ) from error
        channel = self._channels.get(endpoint)
        if channel is None:
            channel = grpc.aio.insecure_channel(str(endpoint), options=_CHANNEL_OPTIONS)
            self._channels[endpoint] = channel
        try:
            method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
            answer = await method(message, timeout=timeout_ms / 1000)
        except grpc.aio.AioRpcError as error:
            details = error.details() or ""
            message_text = f"{endpoint} {path}: {error.code().name} {details[:300]}"
            if error.code() in _CANNOT_READ or _TOO_LARGE in details:
                raise CallRefused(message_text) from error
            sent = not details.startswith(_NEVER_SENT)
            raise CallFailed(message_text, sent=sent, end=_end_of(error.code(), details)) from error
        try:
            return decode_control_response(path, answer)
        except MalformedControlMessage as error:
            raise CallFailed(f"{endpoint} {path}: {error}", end=CallEnd.ANSWERED) from error

    # ------------------------------------------------------------ serving

    def serve(self, handler: ControlHandler) -> None:
        self._handler = handler

    async def start(self, host: str, port: int) -> None:
        """Answer calls on the port (0: any).

        Raises:
            OSError: the port cannot be had.
        """
        self._server = grpc.aio.server(options=_SERVER_OPTIONS)
        self._server.add_generic_rpc_handlers((_Methods(self),))
        try:
            self.port = self._server.add_insecure_port(f"{host}:{port}")
        except RuntimeError as error:
            raise OSError(f"gRPC cannot listen on {host}:{port}: {error}") from error
        await self._server.start()

    async def stop(self) -> None:
        """Refuse new calls, drop running ones, close all channels."""
        if self._server is not None:
            await self._server.stop(grace=None)
        for call in tuple(self._calls):
            call.cancel()
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()

    def method_handler(self, path: str) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        """Return the handler of the method's calls; None: gRPC answers UNIMPLEMENTED."""
        if path == WATCH_TRACE and self._watch_trace is not None:
            return grpc.unary_stream_rpc_method_handler(self._answer_watch)
        if path not in METHODS:
            return None

        async def answer(message: bytes, context: _Context) -> bytes:
            return await self._answer(path, message, context)

        return grpc.unary_unary_rpc_method_handler(answer)

    async def _answer(self, path: str, message: bytes, context: _Context) -> bytes:
        await self._check_peer(path, context)
        if len(self._calls) >= MAX_CALLS:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{MAX_CALLS} calls run")
        try:
            request = decode_control_request(path, message)
        except MalformedControlMessage as error:
            await self._refuse(path, error, context)
        if self._handler is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the node is starting")
        call = asyncio.get_running_loop().create_task(self._handle(path, request))
        self._calls[call] = None
        call.add_done_callback(self._calls.pop)
        return await asyncio.shield(call)

    async def _handle(self, path: str, request: ControlRequest) -> bytes:
        check(self._handler is not None, "a call without a handler")
        try:
            response = await self._handler(request)  # type: ignore[misc]
            if isinstance(response, NodeSnapshot) and response.resident_bytes == 0:
                response = self._complete(response)
            return encode_control_response(path, response)
        except (Exception, BugFound) as error:
            self._fail(f"control request {path}", error)
            raise

    async def _answer_watch(self, message: bytes, context: _Context) -> AsyncIterator[bytes]:
        await self._check_peer(WATCH_TRACE, context)
        try:
            from_seq = decode_watch_trace(message)
        except MalformedControlMessage as error:
            await self._refuse(WATCH_TRACE, error, context)
        check(self._watch_trace is not None, "a watch without a trace")
        async for event in self._watch_trace(from_seq):  # type: ignore[misc]
            yield encode_trace_line(event)

    async def _check_peer(self, path: str, context: _Context) -> None:
        """Refuse peers from outside the network; each of their addresses is logged once."""
        peer = context.peer()
        if self._peers.allows(peer):
            return
        address = peer.rpartition(":")[0]
        if address not in self._strangers and len(self._strangers) < _MAX_STRANGERS_TOLD:
            self._strangers[address] = None
            _LOGGER.warning("%s from %s: not of the cluster's network", path, peer)
            self._trace.emit(
                EventKind.BAD_INPUT_MET, where=f"{path} from {peer}", what="not of the network"
            )
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, "not of the cluster's network")

    async def _refuse(
        self, path: str, error: MalformedControlMessage, context: _Context
    ) -> NoReturn:
        _LOGGER.warning("%s from %s: %s", path, context.peer(), error)
        self._trace.emit(
            EventKind.BAD_INPUT_MET, where=f"{path} from {context.peer()}", what=str(error)
        )
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))


def _end_of(code: grpc.StatusCode, details: str) -> CallEnd:
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return CallEnd.ANSWERED
    was_silent = any(told in details.lower() for told in _TIMED_OUT)
    is_broken = code is grpc.StatusCode.UNAVAILABLE and not was_silent
    return CallEnd.BROKEN if is_broken else CallEnd.SILENT


class _Methods(grpc.GenericRpcHandler):
    """Looks a call's method up by its path."""

    def __init__(self, control_plane: GrpcControlPlane) -> None:
        self._control_plane = control_plane

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        return self._control_plane.method_handler(handler_call_details.method)
