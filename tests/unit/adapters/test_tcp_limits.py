"""Limits of one client: connections, time without a byte, memory, turns of the event loop."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import socket
import struct
import tracemalloc
from typing import Any

import pytest

from highwater_adapters import fair_line, memory_quota, tcp_connection, tcp_server
from highwater_adapters.frames import FrameBuffer
from highwater_adapters.memory_quota import MemoryQuota
from highwater_adapters.tcp_server import ConnectionContext, KafkaListener
from highwater_adapters.tcp_transport import TcpTransport
from highwater_core.ids import Endpoint, Offset
from highwater_wire.kafka.codec import VERSION_PROFILE, api_key_of, decode_request
from highwater_wire.kafka.messages import (
    CONSUMER,
    PRODUCE_PARTITION_BYTES,
    FetchPartition,
    FetchRequest,
    KafkaRequest,
    KafkaResponse,
    MetadataRequest,
    ProducePartition,
    ProduceRequest,
)
from tests.unit.adapters.listening import Broker, ask, connect, fetch, frame_of, run, settle

MEBIBYTE = 1024 * 1024


async def is_closed(client: socket.socket) -> bool:
    """Return whether the other side has closed the connection; nothing else may come."""
    try:
        return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 1), 60) == b""
    except ConnectionResetError:
        return True


async def send(client: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(client, data)


# ---------------------------------------------------------------- how many connections


@pytest.mark.parametrize(
    "limit", ["max_connections", "max_connections_per_ip"], ids=["in all", "per address"]
)
def test_connections_beyond_the_limit_are_closed_until_another_ends(
    limit: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        kept = [await connect(endpoint) for _ in range(2)]
        await settle(lambda: len(listener._connections) == 2)
        refused = await connect(endpoint)
        assert await is_closed(refused)
        refused.close()
        kept.pop().close()
        await settle(lambda: len(listener._connections) == 1)
        answer = await transport.call(endpoint, "f", ask(3), 1000)
        assert answer.partitions[0].leader_epoch == 3
        kept.pop().close()

    run(body, **{limit: 2})
    (line,) = caplog.messages
    assert limit.replace("_", ".") in line


def test_one_address_does_not_use_up_another_ones_connections() -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        client = await connect(endpoint)
        await settle(lambda: len(listener._connections) == 1)
        other = socket.socket()
        other.bind(("127.0.0.2", 0))
        other.setblocking(False)
        await asyncio.get_running_loop().sock_connect(other, ("127.0.0.1", listener.port))
        await settle(lambda: len(listener._connections) == 2)
        client.close()
        other.close()

    run(body, max_connections_per_ip=1)


def test_a_listener_without_descriptors_waits_and_accepts_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tcp_server, "_ACCEPT_AGAIN_S", 0.01)
    tried = []

    class SocketWithoutDescriptors(socket.socket):
        def accept(self) -> Any:
            tried.append(1)
            if len(tried) <= 3:
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    monkeypatch.setattr(socket, "socket", SocketWithoutDescriptors)

    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        assert (await transport.call(endpoint, "f", ask(2), 5000)).partitions[0].end_offset == 4

    run(body)
    assert len(tried) <= 6
    assert (
        caplog.messages
        == ["REPLICATION accepts nobody for 0.01 s: [Errno 24] Too many open files"] * 3
    )


def test_answers_do_not_wait_for_more_to_send() -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        client = await connect(endpoint)
        await settle(lambda: len(listener._connections) == 1)
        (connection,) = listener._connections
        accepted = connection._transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        client.close()

    run(body)


# ---------------------------------------------------------------- connections without a byte


def sweep_until_closed(listener: KafkaListener) -> int:
    """Return how many sweeps it took until no connection is left; they end in a later step."""
    for sweeps in range(1, 100):
        listener.sweep()
        if all(each._is_dropped for each in listener._connections):
            return sweeps
    raise AssertionError("a connection is kept for ever")


@pytest.mark.parametrize(
    ("sent", "waits"),
    [(b"", False), (frame_of(ask(1), 3, 1)[:-1], False), (frame_of(ask(1), 3, 1), True)],
    ids=["nothing was said", "half a frame was sent", "an answer is awaited"],
)
def test_a_connection_without_a_byte_is_closed_after_its_time(
    sent: bytes, waits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        if waits:
            broker.gates[1] = asyncio.get_running_loop().create_future()
        client = await connect(endpoint)
        await send(client, sent)
        await settle(lambda: len(listener._connections) == 1)
        (connection,) = listener._connections
        await settle(lambda: connection._received_bytes == len(sent))
        listener.sweep()
        assert sweep_until_closed(listener) == 20 - (not sent)
        assert await is_closed(client)
        client.close()

    run(body, max_idle_ms=20_000)
    (line,) = caplog.messages
    assert "connections.max.idle.ms" in line


def test_a_client_that_does_not_read_is_closed_after_its_time() -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        broker.records = bytes(9_000_000)
        client = await connect(endpoint)
        await send(client, frame_of(fetch(9_000_000), 11, 1))
        await settle(lambda: len(broker.contexts) == 1)
        listener.sweep()
        assert sweep_until_closed(listener) == 20
        client.close()

    run(body, max_idle_ms=20_000)


def test_a_byte_now_and_then_keeps_a_connection() -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        client = await connect(endpoint)
        frame = frame_of(ask(1), 3, 1)
        for position in range(len(frame)):
            await send(client, frame[position : position + 1])
            await settle(
                lambda: any(  # type: ignore[misc]
                    each._received_bytes == position + 1  # noqa: B023 (called at once)
                    for each in listener._connections
                )
            )
            for _ in range(9):
                listener.sweep()
        assert len(await asyncio.get_running_loop().sock_recv(client, 1000)) > 4
        client.close()

    run(body, max_idle_ms=10_000)


def test_the_listener_looks_for_idle_connections_by_itself() -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        client = await connect(endpoint)
        assert await is_closed(client)
        client.close()

    run(body, max_idle_ms=20)


# ---------------------------------------------------------------- memory


def test_the_buffer_of_a_large_frame_is_given_back_after_a_while() -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        client = await connect(endpoint)
        large = struct.pack(">i", 900_000) + frame_of(ask(1), 3, 1)[4:] + bytes(900_000)
        await send(client, large[:500_004])
        await settle(lambda: any(each._received_bytes == 500_004 for each in listener._connections))
        (connection,) = listener._connections
        for _ in range(10):
            listener.sweep()
        assert connection._frames.held_bytes >= 500_000  # half a frame is not forgotten
        client.close()

    run(body)


def test_no_more_is_answered_than_is_read_by_much() -> None:
    """64 pipelined fetches whose answers lie in memory: only some are carried out at once."""

    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        broker.records = bytes(700_000)
        client = await connect(endpoint)
        await send(client, frame_of(fetch(700_000), 11, 1) * 64)
        await settle(lambda: len(broker.contexts) > 0)
        for _ in range(20):
            await asyncio.sleep(0)
        (connection,) = listener._connections
        assert connection._writer.waiting_bytes + connection._unsent_bytes <= 2 * MEBIBYTE
        assert len(broker.contexts) < 20
        received = 0
        while received < 64 * 700_000:
            received += len(await asyncio.get_running_loop().sock_recv(client, MEBIBYTE))
        assert len(broker.contexts) == 64
        client.close()

    run(body)


def test_a_connection_whose_waiting_handlers_all_answer_at_once_has_a_limit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tcp_connection, "MAX_UNSENT_BYTES", 5 * MEBIBYTE)

    class BrokerThatWaits(Broker):
        async def handle(self, request: Any, context: Any) -> Any:
            if request.replica_id == 1:
                await self.gates[0]
            return await super().handle(request, context)

    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        broker.gates[0] = asyncio.get_running_loop().create_future()
        broker.records = bytes(MEBIBYTE)
        client = await connect(endpoint)
        await send(client, frame_of(fetch(MEBIBYTE), 11, 1) * 30)
        await settle(lambda: any(len(each._exchanges) == 30 for each in listener._connections))
        broker.gates[0].set_result(None)
        await settle(lambda: not listener._connections)
        client.close()

    run(body, make_broker=BrokerThatWaits)
    assert "bytes of answers wait to be read" in caplog.messages[0]


def test_answers_before_a_frame_that_makes_no_sense_are_accounted_for() -> None:
    """The connection closes when they are read: until then they are memory like any other."""
    quota = MemoryQuota(64 * MEBIBYTE)

    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        broker.records = bytes(16 * MEBIBYTE)
        client = await connect(endpoint)
        nonsense = struct.pack(">i", -1)
        await send(client, frame_of(fetch(16 * MEBIBYTE), 11, 1) + nonsense)
        await settle(lambda: bool(broker.trace.events))
        (connection,) = listener._connections
        assert connection._writer.waiting_bytes > MEBIBYTE
        assert quota.used_bytes >= connection._writer.waiting_bytes
        client.close()
        await settle(lambda: quota.used_bytes == 0)

    run(body, quota=quota)


def test_a_connection_that_has_ended_keeps_none_of_its_received_bytes() -> None:
    """Found: three hundred of them kept 2 MiB each, which nobody counted."""
    quota = MemoryQuota(64 * MEBIBYTE)

    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        broker.records = bytes(16 * MEBIBYTE)
        client = await connect(endpoint)
        nonsense = struct.pack(">i", -1) + b"j" * 50
        large = frame_of(ProduceRequest(0, 1, (ProducePartition("x", 0, bytes(900_000)),)), 8, 1)
        await send(client, large)
        await settle(lambda: bool(broker.contexts))
        (connection,) = listener._connections
        assert connection._frames.held_bytes >= 900_000
        await send(client, frame_of(fetch(16 * MEBIBYTE), 11, 2) + nonsense)
        await settle(lambda: bool(broker.trace.events))
        assert connection._writer.waiting_bytes > MEBIBYTE
        assert connection._frames.held_bytes == 0
        assert quota.used_bytes == connection._writer.waiting_bytes
        client.close()
        await settle(lambda: quota.used_bytes == 0)

    run(body, quota=quota)


def test_a_connection_for_whose_request_there_is_no_memory_is_closed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Found: it was neither read nor answered any more, nor closed."""

    def refuse(self: FrameBuffer, growth: int) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        client = await connect(endpoint)
        with monkeypatch.context() as patch:
            patch.setattr(FrameBuffer, "grow", refuse)
            await send(client, half_a_large_frame())
            await settle(lambda: bool(caplog.messages))
        await settle(lambda: not listener._connections)
        client.close()
        answer = await transport.call(endpoint, "f", ask(3), 1000)
        assert answer.partitions[0].leader_epoch == 3

    run(body)
    assert "Cannot allocate memory" in caplog.text


def half_a_large_frame() -> bytes:
    return struct.pack(">i", 900_000) + bytes(500_000)


class BrokerThatWaits(Broker):
    """Keeps every request until the test lets go."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.get_running_loop().create_future()
        self.kept = 0

    async def handle(
        self, request: KafkaRequest, context: ConnectionContext
    ) -> KafkaResponse | None:
        self.kept += 1
        await self.gate
        return None


PARTITIONS = 4_000
MANY = {
    "a produce without records": ProduceRequest(
        1, 0, tuple(ProducePartition("t", number, None) for number in range(PARTITIONS))
    ),
    "a produce of single bytes": ProduceRequest(
        1, 0, tuple(ProducePartition("t", number, b"x") for number in range(PARTITIONS))
    ),
    "a fetch": FetchRequest(
        CONSUMER,
        0,
        1,
        1,
        tuple(FetchPartition("t", number, Offset(0), 1) for number in range(PARTITIONS)),
    ),
    "names": MetadataRequest(tuple(f"{number:04}" for number in range(PARTITIONS))),
}


@pytest.mark.parametrize("request_of_many", MANY.values(), ids=MANY)
def test_requests_weigh_as_much_as_their_decoded_values(request_of_many: KafkaRequest) -> None:
    """A partition of seven bytes is an object of hundreds: little on the wire may hold much."""
    version = max(VERSION_PROFILE.served_versions(api_key_of(request_of_many)))
    version = min(version, 11)  # the last one with names
    frame = frame_of(request_of_many, version, 1)
    quota = MemoryQuota(1 << 40)
    gc.collect()
    tracemalloc.start()
    decoded = decode_request(frame[4:], profile=VERSION_PROFILE)
    objects_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert decoded.request == request_of_many
    assert objects_bytes > 3 * len(frame)

    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        assert isinstance(broker, BrokerThatWaits)
        client = await connect(endpoint)
        sender = asyncio.ensure_future(send(client, frame * 64))
        await settle(lambda: broker.kept > 0)
        first = quota.used_bytes
        assert first >= objects_bytes
        (connection,) = listener._connections
        await settle(connection._is_full)
        await asyncio.sleep(0.01)
        assert broker.kept * objects_bytes <= tcp_connection.MAX_IN_FLIGHT_BYTES + first
        assert quota.used_bytes >= broker.kept * objects_bytes
        sender.cancel()
        client.close()
        broker.gate.set_result(None)
        await settle(lambda: not listener._connections)
        assert quota.used_bytes == 0

    run(body, quota=quota, profile=VERSION_PROFILE, make_broker=BrokerThatWaits)


def test_a_produce_of_one_partition_weighs_little_more_than_its_bytes() -> None:
    records = bytes(100_000)
    beside = tcp_connection.HANDLER_BYTES + PRODUCE_PARTITION_BYTES
    request = ProduceRequest(1, 0, (ProducePartition("t", 0, records),))
    quota = MemoryQuota(1 << 40)

    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        assert isinstance(broker, BrokerThatWaits)
        client = await connect(endpoint)
        await send(client, frame_of(request, 8, 1) * 63)
        await settle(lambda: broker.kept == 63)
        (connection,) = listener._connections
        assert 63 * len(records) < connection._in_flight_bytes < 64 * (len(records) + beside)
        assert connection._held_bytes <= 63 * beside  # its records were appended
        client.close()

    run(body, quota=quota, profile=VERSION_PROFILE, make_broker=BrokerThatWaits)


def test_small_requests_go_on_while_others_hold_all_the_memory() -> None:
    quota = MemoryQuota(MEBIBYTE)

    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        hogs = [await connect(endpoint) for _ in range(8)]
        senders = [asyncio.ensure_future(send(hog, half_a_large_frame())) for hog in hogs]
        await settle(lambda: len(quota._waiting) > 0)
        for epoch in range(20):
            answer = await transport.call(endpoint, "f", ask(epoch), 5000)
            assert answer.partitions[0].leader_epoch == epoch
        assert quota.used_bytes <= 2 * MEBIBYTE
        for sender, hog in zip(senders, hogs, strict=True):
            sender.cancel()
            hog.close()

    run(body, quota=quota)


def test_large_requests_that_together_need_more_than_there_is_arrive_one_after_another() -> None:
    """None may wait for the others in the middle of its own for ever."""
    quota = MemoryQuota(MEBIBYTE)
    frame = struct.pack(">i", 700_000) + bytes(700_000)
    """No request: when it has arrived whole, its connection is closed."""

    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        clients = [await connect(endpoint) for _ in range(12)]
        await asyncio.gather(*[send(client, frame) for client in clients])
        for client in clients:
            assert await is_closed(client)
            client.close()
        await settle(lambda: not listener._connections)
        assert quota.used_bytes == 0

    broker = run(body, quota=quota)
    assert len(broker.trace.events) == 12


def test_who_holds_the_most_is_closed_when_nobody_has_a_turn(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(memory_quota, "PATIENCE_S", 0.02)
    quota = MemoryQuota(MEBIBYTE)

    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        hogs = []
        for _ in range(2):
            hogs.append(await connect(endpoint))
            await send(hogs[-1], half_a_large_frame())
        late = await connect(endpoint)
        sender = asyncio.ensure_future(send(late, struct.pack(">i", 600_000) + bytes(600_000)))
        await settle(lambda: len(broker.trace.events) > 0)  # the late one's frame was read whole
        await sender
        for client in (*hogs, late):
            client.close()

    run(body, quota=quota)
    assert any("bytes of the 1048576 that all may hold" in line for line in caplog.messages)


# ---------------------------------------------------------------- the event loop


def test_one_connection_does_not_keep_the_loop_from_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fair_line, "TURN_S", 1e-9)
    monkeypatch.setattr(fair_line, "PASS_S", 1e-9)

    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        greedy, other = await connect(endpoint), await connect(endpoint)
        await send(greedy, b"".join(frame_of(ask(epoch), 3, epoch) for epoch in range(60)))
        await send(other, frame_of(ask(99), 3, 1))
        await settle(lambda: len(broker.started) == 61)
        assert broker.started.index(99) < 10
        assert [epoch for epoch in broker.started if epoch != 99] == list(range(60))
        greedy.close()
        other.close()

    run(body)
