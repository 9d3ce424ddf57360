"""The Kafka listener and the transport against each other and against raw bytes, on loopback."""

from __future__ import annotations

import asyncio
import gc
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from highwater_adapters.tcp_server import KafkaListener
from highwater_adapters.tcp_transport import TcpTransport
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import Endpoint
from highwater_core.ports import CallFailed
from highwater_wire.kafka.codec import decode_response
from highwater_wire.kafka.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ProducePartition,
    ProduceRequest,
)
from tests.unit.adapters.listening import (
    Broker,
    FileView,
    ask,
    fetch,
    frame_of,
    open_descriptors,
    run,
    settle,
)


def test_a_call_comes_back_with_its_response() -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        response = await transport.call(endpoint, "fetcher", ask(7), 1000)
        assert response.partitions[0].end_offset == 14
        assert ("requests.OffsetForLeaderEpoch", 1) in listener.times.counters()
        assert broker.contexts[0].listener == "REPLICATION"
        assert broker.contexts[0].peer.startswith("127.0.0.1:")

    run(body)


def test_requests_start_in_order_and_are_answered_in_order_whichever_is_ready_first() -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        loop = asyncio.get_running_loop()
        broker.gates = {epoch: loop.create_future() for epoch in (0, 1)}
        answered: list[int] = []

        async def call(epoch: int) -> None:
            response = await transport.call(endpoint, "fetcher", ask(epoch), 5000)
            answered.append(response.partitions[0].leader_epoch)

        calls = [asyncio.ensure_future(call(epoch)) for epoch in range(4)]
        await settle(lambda: broker.started == [0, 1, 2, 3])
        broker.gates[1].set_result(None)
        await asyncio.sleep(0.01)
        assert answered == []
        broker.gates[0].set_result(None)
        await asyncio.gather(*calls)
        assert answered == [0, 1, 2, 3]

    run(body)


def test_a_connection_has_a_bounded_number_of_requests_in_flight() -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        gate = asyncio.get_running_loop().create_future()
        broker.gates = dict.fromkeys(range(200), gate)
        calls = [
            asyncio.ensure_future(transport.call(endpoint, "f", ask(epoch), 5000))
            for epoch in range(200)
        ]
        await settle(lambda: len(broker.started) >= 64)
        await asyncio.sleep(0.01)
        assert broker.started == list(range(64))
        gate.set_result(None)
        answers = await asyncio.gather(*calls)
        assert [answer.partitions[0].leader_epoch for answer in answers] == list(range(200))

    run(body)


def test_many_requests_in_one_packet_are_all_answered() -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        writer.write(b"".join(frame_of(ask(epoch), 3, epoch) for epoch in range(150)))
        for epoch in range(150):
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            answer = decode_response(await reader.readexactly(size), ask(epoch), 3)
            assert answer[0] == epoch
        writer.close()

    run(body)


def test_a_produce_with_acks_0_gets_no_response() -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        produce = ProduceRequest(0, 1000, (ProducePartition("t", 0, b"x"),))
        writer.write(frame_of(produce, 8, 1) + frame_of(ask(3), 3, 2))
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        correlation_id, _ = decode_response(await reader.readexactly(size), ask(3), 3)
        assert correlation_id == 2
        writer.close()

    run(body)


@pytest.mark.parametrize("length", [100, 200_000, 5_000_000])
def test_records_leave_their_file_unchanged_between_other_responses(
    tmp_path: Path, length: int
) -> None:
    content = os.urandom(4096) * (length // 4096 + 1)
    (tmp_path / "segment").write_bytes(b"head" + content)

    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        descriptor = os.open(tmp_path / "segment", os.O_RDONLY)
        broker.records = FileView(descriptor, 4, length)
        before = transport.call(endpoint, "f", ask(1), 5000)
        fetches = [transport.call(endpoint, "f", fetch(length), 5000) for _ in range(3)]
        after = transport.call(endpoint, "f", ask(2), 5000)
        answers = await asyncio.gather(before, *fetches, after)
        os.close(descriptor)
        for answer in answers[1:4]:
            assert bytes(answer.partitions[0].records) == content[:length]
        assert answers[4].partitions[0].leader_epoch == 2

    run(body)


def test_a_slow_reader_is_not_read_from_and_costs_no_memory(tmp_path: Path) -> None:
    length = 3_000_000
    (tmp_path / "segment").write_bytes(bytes(length))

    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        descriptor = os.open(tmp_path / "segment", os.O_RDONLY)
        descriptors_before = open_descriptors()
        broker.records = FileView(descriptor, 0, length)
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        for correlation_id in range(300):
            writer.write(frame_of(fetch(length), 11, correlation_id))
            await asyncio.sleep(0)
        await asyncio.sleep(0.02)
        handled = len(broker.contexts)
        assert handled <= 80
        assert open_descriptors() < descriptors_before + 90
        writer.transport.abort()
        await settle(lambda: len(listener._connections) == 0)
        os.close(descriptor)
        await settle(lambda: open_descriptors() < descriptors_before + 5)

    run(body)


def test_a_reader_that_goes_while_a_file_is_sent_to_it_is_no_bug(tmp_path: Path) -> None:
    """asyncio calls a connection that is lost before the first byte a file it cannot send."""
    length = 30_000_000
    (tmp_path / "segment").write_bytes(bytes(length))

    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        unhandled: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: unhandled.append(what))
        descriptor = os.open(tmp_path / "segment", os.O_RDONLY)
        broker.records = FileView(descriptor, 0, length)
        for _ in range(3):
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            handled = len(broker.contexts)
            writer.write(frame_of(fetch(length), 11, 1))
            await settle(lambda handled=handled: len(broker.contexts) > handled)  # type: ignore[misc]
            await asyncio.sleep(0)  # the file's task has begun to wait for the reader
            writer.transport.abort()
            await settle(lambda: len(listener._connections) == 0)
        os.close(descriptor)
        gc.collect()
        assert unhandled == []

    run(body)


BAD_STREAMS = {
    "oversized": (struct.pack(">i", (1 << 20) + 1) + b"x", "a frame of"),
    "negative": (struct.pack(">i", -5), "a frame of -5"),
    "http": (b"GET / HTTP/1.1\r\n\r\n", "a frame of"),
    "short header": (struct.pack(">i", 3) + b"abc", "3 bytes"),
    "garbage body": (struct.pack(">ihhih", 14, 23, 3, 1, -1) + b"\xff\xff\xff\x7f", ""),
    "unknown API": (struct.pack(">ihhih", 10, 999, 0, 1, -1), "API 999"),
    "unserved version": (struct.pack(">ihhih", 10, 23, 99, 1, -1), "version 99"),
}


@pytest.mark.parametrize("stream", BAD_STREAMS.values(), ids=BAD_STREAMS)
def test_bad_input_closes_its_connection_and_no_other(stream: tuple[bytes, str]) -> None:
    sent, what = stream

    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        await transport.call(endpoint, "f", ask(1), 1000)
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        writer.write(sent)
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()
        assert (await transport.call(endpoint, "f", ask(2), 1000)).partitions[0].end_offset == 4
        assert len(broker.contexts) == 2

    broker = run(body)
    assert [kind for kind, _ in broker.trace.events] == [EventKind.BAD_INPUT_MET]
    assert what in broker.trace.events[0][1]["what"]


def test_a_stream_that_ends_within_a_frame_is_bad_input() -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        _, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        writer.write(frame_of(ask(1), 3, 1)[:-1])
        writer.close()
        await settle(lambda: bool(broker.trace.events))
        assert broker.trace.events[0][1]["what"] == "the stream ends within a frame"
        assert broker.started == []

    run(body)


def test_an_unserved_api_versions_request_is_answered_with_the_served_versions() -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        writer.write(struct.pack(">ihhih", 10, 18, 4, 77, -1))
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        frame = await reader.readexactly(size)
        correlation_id, response = decode_response(frame, ApiVersionsRequest(), 0)
        assert isinstance(response, ApiVersionsResponse)
        assert (correlation_id, response.error) == (77, ErrorCode.UNSUPPORTED_VERSION)
        writer.close()

    assert run(body).trace.events == []


@pytest.mark.parametrize("waits", [False, True])
def test_a_handler_that_raises_is_a_bug(waits: bool) -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        if waits:
            broker.gates[666] = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(0.005, broker.gates[666].set_result, None)
        with pytest.raises(CallFailed):
            await transport.call(endpoint, "f", ask(666), 50)
        assert isinstance(broker.failures[0][1], ValueError)
        assert "OffsetForLeaderEpochRequest" in broker.failures[0][0]

    run(body, finds_bugs=True)


def test_a_handler_receives_the_error_of_its_awaited_call() -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        gate = asyncio.get_running_loop().create_future()
        broker.gates[5] = gate
        call = asyncio.ensure_future(transport.call(endpoint, "f", ask(5), 50))
        await settle(lambda: broker.started == [5])
        gate.set_exception(OSError("disk"))
        with pytest.raises(CallFailed):
            await call
        assert repr(broker.failures[0][1]) == "OSError('disk')"

    run(body, finds_bugs=True)


# ---------------------------------------------------------------- the client's failures


def test_stopping_the_listener_ends_the_handlers_that_wait() -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        gate = broker.gates[1] = asyncio.get_running_loop().create_future()
        call = asyncio.ensure_future(transport.call(endpoint, "f", ask(1), 5000))
        await settle(lambda: broker.started == [1])
        await listener.stop()
        assert broker.left == [1]
        gate.set_result(None)  # nobody goes on
        with pytest.raises(CallFailed):
            await call

    run(body)


@pytest.mark.parametrize("endpoint", [Endpoint("x" * 64, 1), Endpoint("127.0.0.1", 65_536)])
def test_an_endpoint_that_cannot_be_fails_calls_that_were_certainly_not_sent(
    endpoint: Endpoint,
) -> None:
    """ZooKeeper's registrations are read, not made, by who connects."""

    async def main() -> None:
        with pytest.raises(CallFailed) as failed:
            await TcpTransport("test").call(endpoint, "f", ask(1), 1000)
        assert not failed.value.sent
        assert "no answer within" not in str(failed.value)

    asyncio.run(main())


def test_a_refused_connection_fails_calls_that_were_certainly_not_sent() -> None:
    async def main() -> None:
        transport = TcpTransport("test")
        with pytest.raises(CallFailed, match=r"127\.0\.0\.1:1") as failed:
            await transport.call(Endpoint("127.0.0.1", 1), "f", ask(1), 1000)
        assert not failed.value.sent

    asyncio.run(main())


def test_a_call_without_an_answer_ends_its_connection_and_the_next_opens_another() -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        broker.gates[1] = asyncio.get_running_loop().create_future()
        patient = asyncio.ensure_future(transport.call(endpoint, "f", ask(1), 60_000))
        await settle(lambda: broker.started == [1])
        with pytest.raises(CallFailed, match="within 20 ms") as failed:
            await transport.call(endpoint, "f", ask(2), 20)
        assert failed.value.sent
        with pytest.raises(CallFailed):
            await patient
        answer = await transport.call(endpoint, "f", ask(3), 1000)
        assert answer.partitions[0].leader_epoch == 3

    run(body)


def test_disconnect_fails_the_calls_in_flight_on_that_connection_only() -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        gate = asyncio.get_running_loop().create_future()
        broker.gates = {1: gate, 2: gate}
        cut = asyncio.ensure_future(transport.call(endpoint, "a", ask(1), 5000))
        kept = asyncio.ensure_future(transport.call(endpoint, "b", ask(2), 5000))
        await settle(lambda: len(broker.started) == 2)
        transport.disconnect(endpoint, "a")
        with pytest.raises(CallFailed):
            await cut
        gate.set_result(None)
        assert (await kept).partitions[0].leader_epoch == 2

    run(body)


def test_a_cancelled_call_does_not_disturb_the_ones_after_it() -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        broker.gates[1] = asyncio.get_running_loop().create_future()
        cancelled = asyncio.ensure_future(transport.call(endpoint, "f", ask(1), 5000))
        await settle(lambda: broker.started == [1])
        cancelled.cancel()
        after = asyncio.ensure_future(transport.call(endpoint, "f", ask(2), 5000))
        await asyncio.sleep(0)
        broker.gates[1].set_result(None)
        assert (await after).partitions[0].leader_epoch == 2

    run(body)


@pytest.mark.parametrize(
    "answer",
    [b"\x00\x00\x00\x04\x00\x00\x00\x63", struct.pack(">i", -1), b"\x00\x00\x00\x01x", b""],
)
def test_a_peer_that_answers_garbage_fails_the_call(answer: bytes) -> None:
    async def main() -> None:
        async def answer_garbage(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            await reader.read(10)
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(answer_garbage, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        transport = TcpTransport("test")
        with pytest.raises(CallFailed) as failed:
            await transport.call(Endpoint("127.0.0.1", port), "f", ask(1), 5000)
        assert failed.value.sent
        transport.close()
        server.close()
        await server.wait_closed()

    asyncio.run(main())
