"""A listener on loopback, and a broker behind it whose answers a test can hold back."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from highwater_adapters.tcp_server import ConnectionContext, KafkaListener, ListenerSpec
from highwater_adapters.tcp_transport import TcpTransport
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import Endpoint, LeaderEpoch, NodeId, Offset
from highwater_wire.kafka.codec import REPLICATION_PROFILE, encode_request
from highwater_wire.kafka.messages import (
    EpochEndOffset,
    EpochPartition,
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    KafkaRequest,
    KafkaResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
)


class TraceOfTest:
    def __init__(self) -> None:
        self.events: list[tuple[EventKind, dict[str, Any]]] = []

    def emit(self, kind: EventKind, **detail: Any) -> None:
        self.events.append((kind, detail))


class FileView:
    """Records in a file; it returns its descriptor, as a segment's view does."""

    def __init__(self, descriptor: int, position: int, length: int) -> None:
        self._range = descriptor, position, length

    def __len__(self) -> int:
        return self._range[2]

    def read(self) -> bytes:
        descriptor, position, length = self._range
        return os.pread(descriptor, length, position)

    def file_range(self) -> tuple[int, int, int]:
        return self._range

    def borrow(self, take_back: Callable[[], None]) -> None:
        pass

    def give_back(self, take_back: Callable[[], None]) -> None:
        pass


class Broker:
    """Answers with the leader epoch that was asked for, when the test lets it."""

    def __init__(self) -> None:
        self.trace = TraceOfTest()
        self.failures: list[tuple[str, BaseException]] = []
        self.started: list[int] = []
        self.left: list[int] = []
        """The gates that a handler passed or was stopped at."""
        self.gates: dict[int, asyncio.Future[None]] = {}
        self.contexts: list[ConnectionContext] = []
        self.records: Any = b""
        self.waits_twice = False

    async def handle(
        self, request: KafkaRequest, context: ConnectionContext
    ) -> KafkaResponse | None:
        self.contexts.append(context)
        if isinstance(request, FetchRequest):
            result = FetchPartitionResult(
                "t", 0, ErrorCode.NONE, Offset(1), Offset(0), self.records
            )
            return FetchResponse((result,))
        if isinstance(request, ProduceRequest):
            produced = ProducePartitionResult("t", 0, ErrorCode.NONE, Offset(0))
            return ProduceResponse((produced,)) if request.acks else None
        assert isinstance(request, OffsetForLeaderEpochRequest)
        epoch = request.partitions[0].leader_epoch
        self.started.append(epoch)
        if epoch in self.gates:
            if self.waits_twice:
                await asyncio.sleep(0)
            try:
                await self.gates[epoch]
            finally:
                self.left.append(epoch)
        if epoch == 666:
            raise ValueError("a bug")
        answer = EpochEndOffset("t", 0, ErrorCode.NONE, epoch, Offset(epoch * 2))
        return OffsetForLeaderEpochResponse((answer,))


def open_descriptors() -> int:
    """Return how many this process has open; those of earlier tests' threads may still go."""
    gc.collect()  # sockets and loops that earlier tests left
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def ask(epoch: int) -> OffsetForLeaderEpochRequest:
    return OffsetForLeaderEpochRequest(NodeId(1), (EpochPartition("t", 0, LeaderEpoch(epoch)),))


def fetch(max_bytes: int) -> FetchRequest:
    return FetchRequest(NodeId(1), 0, 1, max_bytes, (FetchPartition("t", 0, Offset(0), max_bytes),))


def frame_of(request: KafkaRequest, version: int, correlation_id: int) -> bytes:
    return b"".join(encode_request(request, version, correlation_id, "test"))  # type: ignore[arg-type]


Body = Callable[[Broker, KafkaListener, TcpTransport, Endpoint], Awaitable[None]]


def run(
    body: Body,
    *,
    finds_bugs: bool = False,
    make_broker: Callable[[], Broker] = Broker,
    **limits: Any,
) -> Broker:
    """Run the body beside a listener with those limits; no bug may be found meanwhile."""

    async def main() -> Broker:
        broker = make_broker()
        spec = ListenerSpec(
            "REPLICATION",
            0,
            broker.handle,
            host="127.0.0.1",
            **{"profile": REPLICATION_PROFILE, "max_frame_bytes": 1 << 20, **limits},
        )
        listener = KafkaListener(
            spec, broker.trace, lambda name, error: broker.failures.append((name, error))
        )
        await listener.start()
        transport = TcpTransport("test")
        try:
            await body(broker, listener, transport, Endpoint("127.0.0.1", listener.port))
        finally:
            transport.close()
            await listener.stop()
        assert finds_bugs or broker.failures == []
        return broker

    return asyncio.run(main())


async def connect(endpoint: Endpoint) -> socket.socket:
    """Return a raw connection, without blocking."""
    client = socket.socket()
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, (endpoint.host, endpoint.port))
    return client


async def settle(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 (a poll with a bound)
            await asyncio.sleep(0.001)
