"""Records sent from a file whose log is truncated meanwhile: a reader gets them or nothing."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from highwater_adapters.files import RealFileSystem
from highwater_adapters.response_writer import own_piece
from highwater_adapters.tcp_server import ConnectionContext, KafkaListener, ListenerSpec
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.record_batch import stamp
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId, Offset
from highwater_wire.kafka.codec import REPLICATION_PROFILE, encode_request, encode_response
from highwater_wire.kafka.messages import (
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    KafkaRequest,
)
from highwater_wire.kafka.record_batch import build_batch, split_batches
from tests.support.open_logs import open_log

BATCHES = 12
BATCH_BYTES = 1 << 20
"""Together more than the kernel takes from a sender whose receiver does not read."""
VERSION = 11
BY_NAME = FetchRequest(NodeId(1), 0, 1, 1 << 30, (FetchPartition("t", 0, Offset(0), 1 << 30),))


def batch(offset: int, epoch: int) -> bytes:
    value = bytes([65 + epoch]) * BATCH_BYTES
    (one,) = split_batches(build_batch([(None, value, 1_000)]))
    return b"".join(bytes(part) for part in stamp(one, offset, epoch))


class Scene:
    """A log, a listener that sends its records, and a client that has not read yet."""

    def __init__(self, folder: Path, config: LogConfig) -> None:
        self.files = RealFileSystem(folder)
        self.log, _ = open_log(
            self.files, "t-0", config, clean_shutdown=False, recovery_point=Offset(0)
        )
        self.append(0, BATCHES, epoch=0)
        self.failures: list[BaseException] = []
        self.client = socket.socket()
        self.client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        self.client.setblocking(False)

    def append(self, start: int, end: int, epoch: int) -> None:
        for offset in range(start, end):
            self.log.append_as_follower(batch(offset, epoch), 0)

    def response(self, request: FetchRequest) -> FetchResponse:
        results = []
        for item in request.partitions:
            found = self.log.read(item.fetch_offset, item.max_bytes, self.log.log_end_offset)
            results.append(
                FetchPartitionResult("t", 0, ErrorCode.NONE, Offset(0), Offset(0), found.records)
            )
        return FetchResponse(tuple(results))

    def frame(self, request: FetchRequest) -> bytes:
        """Return the answer as it is promised now."""
        pieces = encode_response(self.response(request), VERSION, 0)
        return b"".join(
            bytes(each) if isinstance(each, bytes | bytearray | memoryview) else each.read()
            for each in pieces
        )

    async def handle(self, request: KafkaRequest, context: ConnectionContext) -> FetchResponse:
        assert isinstance(request, FetchRequest)
        return self.response(request)

    async def ask(self, request: FetchRequest = BY_NAME, times: int = 1) -> None:
        loop = asyncio.get_running_loop()
        asked = b"".join(encode_request(request, VERSION, 0, "test"))  # type: ignore[arg-type]
        await loop.sock_sendall(self.client, asked * times)

    async def receive(self, count: int = 1 << 60) -> bytes:
        """Return the next count bytes, or fewer if the connection ends before."""
        loop = asyncio.get_running_loop()
        data = bytearray()
        try:
            while len(data) < count:
                chunk = await loop.sock_recv(self.client, min(1 << 20, count - len(data)))
                if not chunk:
                    break
                data += chunk
        except ConnectionResetError:
            pass
        return bytes(data)


def run(
    folder: Path, body: Callable[[Scene], Awaitable[None]], config: LogConfig | None = None
) -> None:
    async def main() -> None:
        scene = Scene(folder, config or LogConfig())
        spec = ListenerSpec("REPLICATION", 0, scene.handle, REPLICATION_PROFILE, host="127.0.0.1")
        listener = KafkaListener(
            spec, TraceOfTest(), lambda name, error: scene.failures.append(error)
        )
        await listener.start()
        loop = asyncio.get_running_loop()
        await loop.sock_connect(scene.client, ("127.0.0.1", listener.port))
        try:
            await asyncio.wait_for(body(scene), 60)
        finally:
            scene.client.close()
            await listener.stop()
            scene.log.close()
            scene.files.close()
        assert scene.failures == []

    asyncio.run(main())


class TraceOfTest:
    def emit(self, *args: Any, **detail: Any) -> None:
        pass


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("cut_at", [0, BATCHES - 1])
def test_a_reader_is_never_sent_records_that_replaced_its_promised_ones(
    tmp_path: Path, cut_at: int, times: int
) -> None:
    async def body(scene: Scene) -> None:
        promised = scene.frame(BY_NAME)
        await scene.ask(times=times)
        head = await scene.receive(4)  # the rest is under way, or waits behind it
        scene.log.truncate_to(Offset(cut_at))
        scene.append(cut_at, BATCHES, epoch=1)
        received = head + await scene.receive()
        assert struct.unpack(">i", head) == (len(promised) - 4,)
        assert len(received) < len(promised), "the connection ends"
        assert received == promised[: len(received)]

    run(tmp_path, body)


def test_records_below_the_truncation_are_sent_whole(tmp_path: Path) -> None:
    below = FetchRequest(
        NodeId(1), 0, 1, 1 << 30, (FetchPartition("t", 0, Offset(0), (BATCHES - 1) * BATCH_BYTES),)
    )

    async def body(scene: Scene) -> None:
        promised = scene.frame(below)
        await scene.ask(below)
        head = await scene.receive(4)
        scene.log.truncate_to(Offset(BATCHES - 1))
        scene.append(BATCHES - 1, BATCHES, epoch=1)
        assert head + await scene.receive(len(promised) - 4) == promised

    run(tmp_path, body)


def test_records_lent_from_a_segment_that_was_closed_meanwhile_are_taken_back(
    tmp_path: Path,
) -> None:
    """Its file is opened anew for the truncation: answers that are sent from it must end."""

    first_end, second_end = 10, 20
    of_second = FetchRequest(
        NodeId(1), 0, 1, 1 << 30, (FetchPartition("t", 0, Offset(first_end), 1 << 30),)
    )

    async def body(scene: Scene) -> None:
        scene.append(BATCHES, second_end + 1, epoch=0)
        await scene.log.flush()
        promised = scene.frame(of_second)
        await scene.ask(of_second)
        head = await scene.receive(4)
        scene.log.read(Offset(0), 1, scene.log.log_end_offset)  # another segment's file is kept now
        scene.log.truncate_to(Offset(second_end - 1))
        scene.append(second_end - 1, second_end, epoch=1)
        received = head + await scene.receive()
        assert len(received) < len(promised), "the connection ends"
        assert received == promised[: len(received)]

    run(tmp_path, body, LogConfig(segment_bytes=first_end * (BATCH_BYTES + 200)))


def test_a_view_does_not_show_records_that_replaced_its_own_before_it_was_sent(
    tmp_path: Path,
) -> None:
    """Found: a fetch of many partitions has views, and others run, before it is answered."""

    async def body(scene: Scene) -> None:
        view = scene.log.read(Offset(0), 1 << 30, scene.log.log_end_offset).records
        assert not isinstance(view, bytes)
        before = view.read()
        kept = (BATCHES - 1) * len(before) // BATCHES
        scene.log.truncate_to(Offset(BATCHES - 1))
        scene.append(BATCHES - 1, BATCHES, epoch=1)
        assert view.file_range() is None
        assert view.read() == before[:kept] + bytes(len(before) - kept)
        assert isinstance(own_piece(view), bytes)
        again = scene.log.read(Offset(0), 1 << 30, scene.log.log_end_offset).records
        assert not isinstance(again, bytes)
        assert again.file_range() is not None

    run(tmp_path, body)
