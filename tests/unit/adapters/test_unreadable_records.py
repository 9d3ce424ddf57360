"""Records that the disk cannot read: an error for their partition, and all others are sent."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from highwater_adapters import response_writer
from highwater_adapters.response_writer import SENDFILE_FROM_BYTES, FileRange
from highwater_adapters.tcp_server import ConnectionContext, KafkaListener
from highwater_adapters.tcp_transport import TcpTransport
from highwater_core.errors import ErrorCode
from highwater_core.ids import BrokerEpoch, Endpoint, NodeId, Offset, TopicId
from highwater_core.ports import CallFailed
from highwater_wire.kafka.codec import VERSION_PROFILE, decode_response, encode_request
from highwater_wire.kafka.messages import (
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    KafkaRequest,
    KafkaResponse,
)
from tests.unit.adapters.listening import Broker, FileView, open_descriptors, run

LARGE = SENDFILE_FROM_BYTES
BAD = "bad"
NAMES = ("first", BAD, "last")
IDS = {name: TopicId(f"{number:032x}") for number, name in enumerate(NAMES, 1)}
TWICE = 2 * SENDFILE_FROM_BYTES


class Unreadable(FileView):
    def read(self) -> bytes:
        raise OSError(errno.EIO, "Input/output error")


class Leader(Broker):
    """Leads three topics, whose records the test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.views: dict[str, Any] = {}

    async def handle(
        self, request: KafkaRequest, context: ConnectionContext
    ) -> KafkaResponse | None:
        if not isinstance(request, FetchRequest):
            return await super().handle(request, context)
        names = {topic_id: name for name, topic_id in IDS.items()}
        return FetchResponse(
            tuple(
                FetchPartitionResult(
                    name := item.topic or names[item.topic_id],
                    item.partition,
                    ErrorCode.NONE,
                    Offset(5),
                    Offset(0),
                    self.views[name],
                    item.topic_id,
                )
                for item in request.partitions
            )
        )


def fetch_of(*, by_id: bool = False) -> FetchRequest:
    items = tuple(
        FetchPartition("" if by_id else name, 0, Offset(0), TWICE, topic_id=IDS[name])
        if by_id
        else FetchPartition(name, 0, Offset(0), TWICE)
        for name in NAMES
    )
    return FetchRequest(NodeId(1), 0, 1, 1 << 20, items, BrokerEpoch(1 if by_id else -1))


def errors_and_lengths(response: FetchResponse) -> list[tuple[ErrorCode, int]]:
    return [(each.error, len(each.records)) for each in response.partitions]


def isolated(length: int) -> list[tuple[ErrorCode, int]]:
    sound = ErrorCode.NONE, length
    return [sound, (ErrorCode.KAFKA_STORAGE_ERROR, 0), sound]


@pytest.fixture
def segments(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """A file that is sound and another."""
    opened = []
    for name in ("sound", BAD):
        path = tmp_path / name
        path.write_bytes(name.encode() * TWICE)
        opened.append(os.open(path, os.O_RDWR))
    yield opened[0], opened[1]
    for descriptor in opened:
        os.close(descriptor)


Body = Callable[[Leader, TcpTransport, Endpoint], Awaitable[None]]


def lead(body: Body, **limits: Any) -> Leader:
    async def whole(
        broker: Broker, listener: KafkaListener, transport: TcpTransport, endpoint: Endpoint
    ) -> None:
        assert isinstance(broker, Leader)
        await body(broker, transport, endpoint)

    leader = run(whole, make_broker=Leader, **limits)
    assert isinstance(leader, Leader)
    return leader


@pytest.mark.parametrize("by_id", [False, True], ids=["by name", "by id"])
@pytest.mark.parametrize("length", [100, LARGE], ids=["small", "large"])
def test_records_that_the_disk_refuses_cost_their_partition_only(
    segments: tuple[int, int], length: int, by_id: bool
) -> None:
    sound, _ = segments

    async def body(leader: Leader, transport: TcpTransport, endpoint: Endpoint) -> None:
        view = FileView(sound, 0, length)
        leader.views = {"first": view, BAD: Unreadable(0, 0, 100), "last": view}
        before, ranges_before = open_descriptors(), FileRange.open_count
        for _ in range(2):
            answer = await transport.call(endpoint, "f", fetch_of(by_id=by_id), 5000)
            assert errors_and_lengths(answer) == isolated(length)
            assert answer.partitions[2].records == os.pread(sound, length, 0)
            assert answer.partitions[1].high_watermark == -1
        assert FileRange.open_count == ranges_before
        assert open_descriptors() <= before + 2  # of the connection's two ends

    assert lead(body).trace.events == []


def test_a_client_gets_the_error_in_every_version(segments: tuple[int, int]) -> None:
    sound, _ = segments

    async def body(leader: Leader, transport: TcpTransport, endpoint: Endpoint) -> None:
        view = FileView(sound, 0, 100)
        leader.views = {"first": view, BAD: Unreadable(0, 0, 100), "last": view}
        for version in (4, 7, 11):
            request = fetch_of()
            asked = b"".join(encode_request(request, version, 1, "c"))  # type: ignore[arg-type]
            frame = await exchange(endpoint, asked)
            _, answer = decode_response(frame, request, version)
            assert isinstance(answer, FetchResponse)
            assert errors_and_lengths(answer) == isolated(100)

    lead(body, profile=VERSION_PROFILE)


async def exchange(endpoint: Endpoint, frame: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
    writer.write(frame)
    size = int.from_bytes(await reader.readexactly(4))
    answer = await reader.readexactly(size)
    writer.close()
    return answer


def refusing_sendfile(bad: int, from_position: int) -> Callable[[int, int, int, int], int]:
    """Return a sendfile whose disk refuses the bad file's bytes from there on."""
    real, node = os.sendfile, os.fstat(bad).st_ino

    def sendfile(out: int, source: int, position: int, length: int) -> int:
        if os.fstat(source).st_ino == node:
            length = min(length, from_position - position)
            if length <= 0:
                raise OSError(errno.EIO, "Input/output error")
        return real(out, source, position, length)

    return sendfile


class UnreadableFrom(FileView):
    """Records that cannot be read from a position on."""

    def __init__(self, descriptor: int, position: int, length: int, bad_from: int) -> None:
        super().__init__(descriptor, position, length)
        self._bad_from = bad_from

    def read(self) -> bytes:
        _, position, length = self._range
        if position + length > self._bad_from:
            raise OSError(errno.EIO, "Input/output error")
        return super().read()


@pytest.mark.parametrize("bad_from", [0, LARGE, TWICE - 1])
def test_a_file_that_fails_under_sendfile_costs_one_connection_once(
    segments: tuple[int, int], bad_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, bad = segments
    monkeypatch.setattr(os, "sendfile", refusing_sendfile(bad, bad_from))

    async def body(leader: Leader, transport: TcpTransport, endpoint: Endpoint) -> None:
        view = FileView(sound, 0, TWICE)
        leader.views = {"first": view, BAD: UnreadableFrom(bad, 0, TWICE, bad_from), "last": view}
        ranges_before = FileRange.open_count
        with pytest.raises(CallFailed):
            await transport.call(endpoint, "f", fetch_of(), 5000)
        for connection in "fgf":
            answer = await transport.call(endpoint, connection, fetch_of(), 5000)
            assert errors_and_lengths(answer) == isolated(TWICE)
        assert FileRange.open_count == ranges_before

    lead(body)


def test_all_that_waits_behind_a_file_that_fails_is_read_the_next_time(
    segments: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many partitions a disk that fails has in one answer, one connection ends by it."""
    sound, bad = segments
    monkeypatch.setattr(os, "sendfile", refusing_sendfile(bad, LARGE))

    async def body(leader: Leader, transport: TcpTransport, endpoint: Endpoint) -> None:
        leader.views = {
            name: UnreadableFrom(bad, LARGE * (place + 1), LARGE, LARGE)
            for place, name in enumerate(NAMES)
        }
        with pytest.raises(CallFailed):
            await transport.call(endpoint, "f", fetch_of(), 5000)
        answer = await transport.call(endpoint, "f", fetch_of(), 5000)
        assert errors_and_lengths(answer) == [(ErrorCode.KAFKA_STORAGE_ERROR, 0)] * 3
        leader.views["last"] = FileView(sound, 0, LARGE)
        answer = await transport.call(endpoint, "f", fetch_of(), 5000)
        assert errors_and_lengths(answer)[2] == (ErrorCode.NONE, LARGE)

    lead(body)


def test_records_that_a_truncation_took_back_are_not_suspected(
    segments: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    suspects: dict[tuple[int, int, int], None] = {}
    monkeypatch.setattr(response_writer, "_suspects", suspects)

    class TakenBack(FileView):
        def borrow(self, take_back: Callable[[], None]) -> None:
            asyncio.get_running_loop().call_soon(take_back)

    real = os.sendfile

    def sendfile(out: int, source: int, position: int, length: int) -> int:
        if os.fstat(source).st_size == 0:
            return 0
        if position:
            raise BlockingIOError
        return real(out, source, position, 1)

    monkeypatch.setattr(os, "sendfile", sendfile)

    async def body(leader: Leader, transport: TcpTransport, endpoint: Endpoint) -> None:
        leader.views = dict.fromkeys(NAMES, TakenBack(segments[0], 0, LARGE))
        with pytest.raises(CallFailed):
            await transport.call(endpoint, "f", fetch_of(), 5000)

    lead(body)
    assert suspects == {}


def test_records_before_a_bad_place_in_a_file_are_still_sent_from_it(
    segments: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, bad = segments
    monkeypatch.setattr(os, "sendfile", refusing_sendfile(bad, LARGE))

    async def body(leader: Leader, transport: TcpTransport, endpoint: Endpoint) -> None:
        leader.views = dict.fromkeys(NAMES, FileView(sound, 0, LARGE))
        leader.views[BAD] = UnreadableFrom(bad, 0, TWICE, LARGE)
        with pytest.raises(CallFailed):
            await transport.call(endpoint, "f", fetch_of(), 5000)
        before = UnreadableFrom(bad, 0, LARGE, 0)  # whoever reads it fails
        leader.views = dict.fromkeys(NAMES, before)
        answer = await transport.call(endpoint, "f", fetch_of(), 5000)
        assert errors_and_lengths(answer) == [(ErrorCode.NONE, LARGE)] * 3

    lead(body)


def test_a_file_that_was_shortened_by_hand_costs_one_connection_once(
    segments: tuple[int, int],
) -> None:
    sound, bad = segments
    os.ftruncate(bad, LARGE)

    async def body(leader: Leader, transport: TcpTransport, endpoint: Endpoint) -> None:
        view = FileView(sound, 0, TWICE)
        leader.views = {"first": view, BAD: UnreadableFrom(bad, 0, TWICE, LARGE), "last": view}
        with pytest.raises(CallFailed):
            await transport.call(endpoint, "f", fetch_of(), 5000)
        assert errors_and_lengths(
            await transport.call(endpoint, "f", fetch_of(), 5000)
        ) == isolated(TWICE)

    lead(body)


def test_a_reader_that_goes_puts_no_file_under_suspicion(
    segments: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, _ = segments
    suspects: dict[tuple[int, int, int], None] = {}
    monkeypatch.setattr(response_writer, "_suspects", suspects)
    monkeypatch.setattr(os, "sendfile", broken_pipe)

    async def body(leader: Leader, transport: TcpTransport, endpoint: Endpoint) -> None:
        leader.views = dict.fromkeys(NAMES, FileView(sound, 0, LARGE))
        with pytest.raises(CallFailed):
            await transport.call(endpoint, "f", fetch_of(), 5000)

    lead(body)
    assert suspects == {}


def broken_pipe(*_: int) -> int:
    raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_so_many_suspects_are_kept_in_mind(
    segments: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    suspects: dict[tuple[int, int, int], None] = {}
    monkeypatch.setattr(response_writer, "_suspects", suspects)
    monkeypatch.setattr(response_writer, "MAX_SUSPECTS", 4)
    for position in range(7):
        response_writer.suspect(segments[1], position)
    assert [position for _, _, position in suspects] == [3, 4, 5, 6]
