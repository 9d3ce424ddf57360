"""How connections end: clients that leave, answers that cannot be sent, stops."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from highwater_adapters.tcp_server import KafkaListener
from highwater_adapters.tcp_transport import TcpTransport
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import Endpoint
from highwater_wire.kafka.codec import VERSION_PROFILE
from highwater_wire.kafka.config_messages import (
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfig,
)
from highwater_wire.kafka.messages import (
    HangUp,
    KafkaAnswer,
    KafkaResponse,
)
from tests.unit.adapters.listening import (
    Broker,
    FileView,
    ask,
    connect,
    fetch,
    frame_of,
    open_descriptors,
    run,
    settle,
)

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def end(client: socket.socket, *, reset: bool) -> None:
    if reset:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    client.close()


@pytest.fixture
def segment(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "segment").write_bytes(bytes(3_000_000))
    descriptor = os.open(tmp_path / "segment", os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


# ---------------------------------------------------------------- clients that leave


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize(("length", "count"), [(40_000, 6), (40_000, 64), (3_000_000, 3)])
def test_clients_that_leave_amid_pipelined_fetches_end_their_connections_only(
    segment: int, reset: bool, length: int, count: int
) -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        unhandled: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: unhandled.append(what))
        await transport.call(endpoint, "f", ask(1), 1000)
        before = open_descriptors()
        broker.records = FileView(segment, 0, length)
        for turns_of_the_loop in range(5):
            client = await connect(endpoint)
            await asyncio.get_running_loop().sock_sendall(
                client, frame_of(fetch(length), 11, 1) * count
            )
            for _ in range(turns_of_the_loop):
                await asyncio.sleep(0)
            end(client, reset=reset)
            await settle(lambda: len(listener._connections) == 1)
        assert (await transport.call(endpoint, "f", ask(2), 1000)).partitions[0].end_offset == 4
        await settle(lambda: open_descriptors() <= before)
        assert unhandled == []

    run(body)


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("waits_twice", [False, True])
def test_handlers_that_wait_are_cancelled_when_their_client_has_left(
    reset: bool, waits_twice: bool
) -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        loop = asyncio.get_running_loop()
        broker.gates = {epoch: loop.create_future() for epoch in (1, 2, 3)}
        broker.waits_twice = waits_twice
        others = asyncio.ensure_future(transport.call(endpoint, "f", ask(3), 5000))
        client = await connect(endpoint)
        await loop.sock_sendall(client, frame_of(ask(1), 3, 1) + frame_of(ask(2), 3, 2))
        await settle(lambda: sorted(broker.started) == [1, 2, 3])
        end(client, reset=reset)
        await settle(lambda: broker.left == [1, 2])
        broker.gates[1].cancel()
        broker.gates[3].set_result(None)
        assert (await others).partitions[0].leader_epoch == 3

    run(body)


def test_a_client_that_leaves_while_it_is_not_read_from_is_noticed() -> None:
    """With as many requests in flight as may be, its end is not read."""

    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        loop = asyncio.get_running_loop()
        broker.gates = dict.fromkeys(range(200), loop.create_future())
        client = await connect(endpoint)
        await loop.sock_sendall(
            client, b"".join(frame_of(ask(epoch), 3, epoch) for epoch in range(200))
        )
        await settle(lambda: len(broker.started) == 64)
        listener.sweep()
        listener.sweep()
        assert len(listener._connections) == 1
        client.close()
        await asyncio.sleep(0)
        listener.sweep()
        await settle(lambda: len(listener._connections) == 0)
        assert sorted(broker.left) == list(range(64))

    run(body)


def test_a_client_that_closed_its_half_still_gets_its_answers(segment: int) -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        broker.records = FileView(segment, 0, 3_000_000)
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        writer.write(frame_of(fetch(3_000_000), 11, 1))
        writer.write_eof()
        assert len(await reader.read()) > 3_000_000
        writer.close()

    run(body)


# ---------------------------------------------------------------- answers that cannot be sent


class BrokerBeyondItsProtocol(Broker):
    """Describes configurations of a type that no byte holds."""

    async def handle(self, request: Any, context: Any) -> KafkaResponse | None:
        if getattr(request, "partitions", None):
            return await super().handle(request, context)
        await asyncio.sleep(0)
        described = DescribedConfig(ErrorCode.INVALID_REQUEST, None, 300, "t", ())
        return DescribeConfigsResponse((described,))


def test_an_answer_that_cannot_be_encoded_costs_its_connection_only() -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        request = DescribeConfigsRequest((ConfigResource(2, "t", None),))
        writer.write(frame_of(ask(1), 3, 1) + frame_of(request, 1, 2))
        assert len(await asyncio.wait_for(reader.read(), 60)) > 4  # the first one's answer
        writer.close()
        assert (await transport.call(endpoint, "f", ask(2), 1000)).partitions[0].end_offset == 4

    broker = run(body, profile=VERSION_PROFILE, make_broker=BrokerBeyondItsProtocol)
    ((kind, detail),) = broker.trace.events
    assert kind is EventKind.BAD_INPUT_MET
    assert "the answer to DescribeConfigsRequest cannot be encoded" in detail["what"]
    assert len(detail["what"]) < 400


class BrokerThatSendsAway(Broker):
    """It answers late, but for DescribeConfigs: who asks that is sent away at once."""

    async def handle(self, request: Any, context: Any) -> KafkaAnswer:
        if isinstance(request, DescribeConfigsRequest):
            return HangUp("ask another broker")
        await asyncio.sleep(0.1)
        return await super().handle(request, context)


def test_a_client_that_is_closed_gets_the_answers_to_earlier_requests_first() -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        away = frame_of(DescribeConfigsRequest((ConfigResource(2, "t", None),)), 1, 2)
        writer.write(frame_of(ask(1), 3, 1) + away + frame_of(ask(1), 3, 3))
        told = await asyncio.wait_for(reader.read(), 60)
        (size, correlation_id) = struct.unpack_from(">ii", told)
        assert (len(told), correlation_id) == (4 + size, 1)
        writer.close()
        assert (await transport.call(endpoint, "f", ask(2), 1000)).partitions[0].end_offset == 4

    broker = run(body, profile=VERSION_PROFILE, make_broker=BrokerThatSendsAway)
    assert broker.trace.events == []


# ---------------------------------------------------------------- stopping


def test_a_listener_stops_while_answers_wait_for_clients_that_do_not_read(segment: int) -> None:
    async def body(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        before = open_descriptors()
        clients = []
        for records in (FileView(segment, 0, 3_000_000), bytes(9_000_000)):
            broker.records = records
            clients.append(await connect(endpoint))
            started = len(broker.contexts)
            await asyncio.get_running_loop().sock_sendall(
                clients[-1], frame_of(fetch(9_000_000), 11, 1) * 10
            )
            await settle(lambda started=started: len(broker.contexts) > started)  # type: ignore[misc]
        await asyncio.wait_for(listener.stop(), 60)
        assert listener._connections == {}
        for client in clients:
            client.close()
        await settle(lambda: open_descriptors() < before)  # the listener's own is closed, too

    run(body)
