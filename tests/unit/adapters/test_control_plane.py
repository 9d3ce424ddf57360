"""The control plane over gRPC on loopback, with its own client and with garbage."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from highwater_adapters import control_plane
from highwater_adapters.control_plane import GrpcControlPlane
from highwater_adapters.peers import AllowedPeers
from highwater_adapters.process_usage import ProcessUsage, own_usage
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import (
    NO_CONTROLLER_EPOCH,
    BrokerEpoch,
    ControllerEpoch,
    Endpoint,
    NodeId,
)
from highwater_core.messages import (
    BrokerEndpoints,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ControlRequest,
    ControlResponse,
    DeleteTopicsRequest,
    InspectRequest,
    NodeSnapshot,
    UpdateMetadataRequest,
)
from highwater_core.networks import parse_networks
from highwater_core.ports import CallEnd, CallFailed, CallRefused
from highwater_wire.control import METHODS, WATCH_TRACE, decode_trace_line, encode_watch_trace

UnaryMethod = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
StreamMethod = grpc.aio.UnaryStreamMultiCallable[bytes, bytes]


class NodeOfTest:
    def __init__(self) -> None:
        self.events: list[tuple[EventKind, dict[str, Any]]] = []
        self.failures: list[tuple[str, BaseException]] = []
        self.handled: list[ControlRequest] = []
        self.finished: list[ControlRequest] = []
        self.gate: asyncio.Future[None] | None = None

    def emit(self, kind: EventKind, **detail: Any) -> None:
        self.events.append((kind, detail))

    async def handle(self, request: ControlRequest) -> ControlResponse:
        self.handled.append(request)
        if self.gate is not None:
            await self.gate
        self.finished.append(request)
        if isinstance(request, InspectRequest):
            return NodeSnapshot(NodeId(3), "broker", 1, "fenced", NO_CONTROLLER_EPOCH)
        assert isinstance(request, ControlledShutdownRequest)
        if request.broker_id == 666:
            raise ValueError("a bug")
        return ControlledShutdownResponse(ErrorCode.NOT_CONTROLLER)

    async def watch(self, from_seq: int) -> AsyncIterator[TraceEvent]:
        for seq in range(from_seq, from_seq + 3):
            yield TraceEvent(0, 3, 1, seq, EventKind.NODE_STARTED)


def shutdown(broker_id: int) -> ControlledShutdownRequest:
    return ControlledShutdownRequest(NodeId(broker_id), BrokerEpoch(5))


Body = Callable[[NodeOfTest, GrpcControlPlane, Endpoint], Awaitable[None]]


def run(body: Body, *, finds_bugs: bool = False) -> NodeOfTest:
    async def main() -> NodeOfTest:
        node = NodeOfTest()
        plane = GrpcControlPlane(
            node, lambda name, error: node.failures.append((name, error)), node.watch
        )
        plane.serve(node.handle)
        await plane.start("127.0.0.1", 0)
        try:
            await body(node, plane, Endpoint("127.0.0.1", plane.port))
        finally:
            await plane.stop()
        assert finds_bugs or node.failures == []
        return node

    return asyncio.run(main())


async def settle(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 (a poll with a bound)
            await asyncio.sleep(0.001)


def test_a_call_comes_back_with_its_response() -> None:
    async def body(node: NodeOfTest, plane: GrpcControlPlane, endpoint: Endpoint) -> None:
        answer = await plane.call(endpoint, shutdown(1), 5000)
        assert answer == ControlledShutdownResponse(ErrorCode.NOT_CONTROLLER)
        assert node.handled == [shutdown(1)]

    run(body)


def test_a_snapshot_tells_the_processs_memory_descriptors_and_threads() -> None:
    async def body(node: NodeOfTest, plane: GrpcControlPlane, endpoint: Endpoint) -> None:
        snapshot = await plane.call(endpoint, InspectRequest(), 5000)
        assert isinstance(snapshot, NodeSnapshot)
        assert snapshot.resident_bytes > 1_000_000
        before = dict(snapshot.counters)
        assert before["threads"] >= 1
        one, other = socket.socketpair()
        with one, other:
            snapshot = await plane.call(endpoint, InspectRequest(), 5000)
        assert isinstance(snapshot, NodeSnapshot)
        assert dict(snapshot.counters)["open_files"] >= before["open_files"] + 2

    run(body)


def test_a_node_without_free_descriptors_still_answers_snapshots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Found: reading its memory raised EMFILE, which ended the node."""

    def refuse(path: Path, **_: object) -> str:
        raise OSError(errno.EMFILE, "Too many open files", str(path))

    monkeypatch.setattr(Path, "read_text", refuse)
    assert own_usage() == ProcessUsage()


def test_a_call_that_timed_out_is_still_carried_out() -> None:
    async def body(node: NodeOfTest, plane: GrpcControlPlane, endpoint: Endpoint) -> None:
        await plane.call(endpoint, shutdown(1), 5000)
        node.gate = asyncio.get_running_loop().create_future()
        with pytest.raises(CallFailed, match="DEADLINE_EXCEEDED") as failed:
            await plane.call(endpoint, shutdown(2), 30)
        assert failed.value.sent
        node.gate.set_result(None)
        await settle(lambda: node.finished == [shutdown(1), shutdown(2)])

    run(body)


def test_a_call_to_nobody_was_certainly_not_sent() -> None:
    async def body(node: NodeOfTest, plane: GrpcControlPlane, endpoint: Endpoint) -> None:
        with pytest.raises(CallFailed, match="UNAVAILABLE") as failed:
            await plane.call(Endpoint("127.0.0.1", 1), shutdown(1), 5000)
        assert not failed.value.sent

    run(body)


def test_malformed_bytes_are_refused_and_the_server_lives_on() -> None:
    async def body(node: NodeOfTest, plane: GrpcControlPlane, endpoint: Endpoint) -> None:
        async with grpc.aio.insecure_channel(str(endpoint)) as channel:
            for path in (*METHODS, WATCH_TRACE):
                method: UnaryMethod = channel.unary_unary(path)
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await method(b"\xff\xff\xff")
                assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            method = channel.unary_unary("/highwater.v1.Nothing/Here")
            with pytest.raises(grpc.aio.AioRpcError) as unknown:
                await method(b"")
            assert unknown.value.code() is grpc.StatusCode.UNIMPLEMENTED
        await plane.call(endpoint, shutdown(1), 5000)

    node = run(body)
    assert [kind for kind, _ in node.events] == [EventKind.BAD_INPUT_MET] * (len(METHODS) + 1)
    assert len(node.handled) == 1


@pytest.mark.parametrize("garbage", [b"\x00" * 100, b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2"])
def test_bytes_that_are_not_grpc_cost_their_connection_only(garbage: bytes) -> None:
    async def body(node: NodeOfTest, plane: GrpcControlPlane, endpoint: Endpoint) -> None:
        _, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        writer.write(garbage)
        await writer.drain()
        await plane.call(endpoint, shutdown(1), 5000)
        writer.close()

    run(body)


def test_watchers_receive_trace_events_from_the_seq_they_name() -> None:
    async def body(node: NodeOfTest, plane: GrpcControlPlane, endpoint: Endpoint) -> None:
        async with grpc.aio.insecure_channel(str(endpoint)) as channel:
            method: StreamMethod = channel.unary_stream(WATCH_TRACE)
            lines = [decode_trace_line(line) async for line in method(encode_watch_trace(7))]
        assert [event.seq for event in lines] == [7, 8, 9]

    run(body)


def test_a_handler_that_raises_is_a_bug() -> None:
    async def body(node: NodeOfTest, plane: GrpcControlPlane, endpoint: Endpoint) -> None:
        with pytest.raises(CallFailed):
            await plane.call(endpoint, shutdown(666), 60_000)

    node = run(body, finds_bugs=True)
    assert [type(error) for _, error in node.failures] == [ValueError]


def test_a_message_that_the_peer_cannot_decode_was_refused_for_good() -> None:
    at = Endpoint("h", 0)
    broker = BrokerEndpoints(NodeId(1), BrokerEpoch(7), at, at, at, at)
    metadata = UpdateMetadataRequest(
        NodeId(1000), ControllerEpoch(1), BrokerEpoch(5), (broker,), ()
    )

    async def body(node: NodeOfTest, plane: GrpcControlPlane, endpoint: Endpoint) -> None:
        with pytest.raises(CallRefused, match=r"INVALID_ARGUMENT .*port 0"):
            await plane.call(endpoint, metadata, 5000)
        assert node.handled == []

    run(body)


def test_a_value_that_no_field_can_hold_is_refused_and_not_sent() -> None:
    async def body(node: NodeOfTest, plane: GrpcControlPlane, endpoint: Endpoint) -> None:
        with pytest.raises(CallRefused) as refused:
            await plane.call(endpoint, shutdown(2**31), 5000)
        assert not refused.value.sent
        assert await plane.call(endpoint, shutdown(1), 5000)

    run(body)


def test_a_message_above_the_size_limit_is_refused_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit = ("grpc.max_send_message_length", 1_000)
    monkeypatch.setattr(control_plane, "_CHANNEL_OPTIONS", (limit,))
    large = DeleteTopicsRequest(("x" * 1_000,))

    async def body(node: NodeOfTest, plane: GrpcControlPlane, endpoint: Endpoint) -> None:
        with pytest.raises(CallRefused, match="larger than max"):
            await plane.call(endpoint, large, 5000)

    run(body)


def test_a_peer_outside_the_network_is_refused_and_traced_once() -> None:
    async def main() -> None:
        node = NodeOfTest()
        plane = GrpcControlPlane(
            node, lambda *_: None, node.watch, AllowedPeers(parse_networks("10.1.0.0/16"))
        )
        plane.serve(node.handle)
        await plane.start("127.0.0.1", 0)
        endpoint = Endpoint("127.0.0.1", plane.port)
        try:
            for _ in range(3):
                with pytest.raises(CallFailed, match="PERMISSION_DENIED"):
                    await plane.call(endpoint, shutdown(1), 5000)
            async with grpc.aio.insecure_channel(str(endpoint)) as channel:
                watch: StreamMethod = channel.unary_stream(WATCH_TRACE)
                with pytest.raises(grpc.aio.AioRpcError, match="PERMISSION_DENIED"):
                    [line async for line in watch(encode_watch_trace(0))]
        finally:
            await plane.stop()
        assert node.handled == []
        (told,) = node.events
        assert told[1]["what"] == "not of the network"

    asyncio.run(main())


def test_while_too_many_calls_run_more_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_plane, "MAX_CALLS", 1)

    async def body(node: NodeOfTest, plane: GrpcControlPlane, endpoint: Endpoint) -> None:
        node.gate = asyncio.get_running_loop().create_future()
        first = asyncio.ensure_future(plane.call(endpoint, shutdown(1), 5000))
        await settle(lambda: len(node.handled) == 1)
        with pytest.raises(CallFailed, match="RESOURCE_EXHAUSTED") as failed:
            await plane.call(endpoint, shutdown(2), 5000)
        assert not isinstance(failed.value, CallRefused), "it may be tried again"
        node.gate.set_result(None)
        assert await first
        assert await plane.call(endpoint, shutdown(3), 5000)

    run(body)


def test_a_restarted_peer_is_reached_again_soon() -> None:
    async def body(node: NodeOfTest, plane: GrpcControlPlane, endpoint: Endpoint) -> None:
        peer = GrpcControlPlane(node, lambda name, error: None)
        peer.serve(node.handle)
        await peer.start("127.0.0.1", 0)
        address = Endpoint("127.0.0.1", peer.port)
        await plane.call(address, shutdown(1), 5000)
        await peer.stop()
        with pytest.raises(CallFailed):
            await plane.call(address, shutdown(2), 1000)
        again = GrpcControlPlane(node, lambda name, error: None)
        again.serve(node.handle)
        await again.start("127.0.0.1", address.port)
        attempts = 0
        async with asyncio.timeout(60):
            while node.handled[-1] != shutdown(3):
                attempts += 1
                try:
                    await plane.call(address, shutdown(3), 1000)
                except CallFailed:
                    await asyncio.sleep(0.02)
        await again.stop()
        assert attempts < 50

    run(body)


def test_a_taken_port_is_an_operating_error() -> None:
    async def body(node: NodeOfTest, plane: GrpcControlPlane, endpoint: Endpoint) -> None:
        other = GrpcControlPlane(node, lambda name, error: None)
        with pytest.raises(OSError, match="cannot listen"):
            await other.start("127.0.0.1", endpoint.port)

    run(body)


def test_who_greets_nobody_keeps_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found: such connections took a node's descriptors, for two minutes each."""
    options = dict(control_plane._SERVER_OPTIONS)
    assert options["grpc.server_handshake_timeout_ms"] == control_plane.HANDSHAKE_TIMEOUT_MS
    options["grpc.server_handshake_timeout_ms"] = 100
    monkeypatch.setattr(control_plane, "_SERVER_OPTIONS", tuple(options.items()))

    async def body(node: NodeOfTest, plane: GrpcControlPlane, endpoint: Endpoint) -> None:
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        async with asyncio.timeout(60):
            while await reader.read(1024):  # its own greeting comes first
                pass
        writer.close()

    run(body)


@pytest.mark.parametrize(
    ("code", "details", "end"),
    [
        (grpc.StatusCode.UNAVAILABLE, "Socket closed", CallEnd.BROKEN),
        (grpc.StatusCode.UNAVAILABLE, "recvmsg:Connection reset by peer", CallEnd.BROKEN),
        (grpc.StatusCode.UNAVAILABLE, "failed to connect: Connection refused", CallEnd.BROKEN),
        (grpc.StatusCode.UNAVAILABLE, "recvmsg:Connection timed out (110)", CallEnd.SILENT),
        (grpc.StatusCode.UNAVAILABLE, "keepalive watchdog timeout", CallEnd.SILENT),
        (grpc.StatusCode.UNAVAILABLE, "ping timeout", CallEnd.SILENT),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", CallEnd.SILENT),
        (grpc.StatusCode.INTERNAL, "RST_STREAM", CallEnd.SILENT),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "1000 calls run", CallEnd.ANSWERED),
    ],
)
def test_a_failed_call_tells_of_its_peer(code: grpc.StatusCode, details: str, end: CallEnd) -> None:
    assert control_plane._end_of(code, details) is end
