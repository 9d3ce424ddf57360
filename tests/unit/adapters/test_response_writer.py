"""Responses on their way to a reader that reads, waits, or goes away: real sockets, no listener."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from highwater_adapters import response_writer
from highwater_adapters.response_writer import (
    FileRange,
    OwnedPiece,
    ResponseWriter,
    memory_of,
    own,
)
from tests.unit.adapters.listening import FileView, open_descriptors, settle

CALLS_MAX = 2_000
"""More system calls than any of these tests needs: a writer that makes more never ends."""
LARGE = 40_000
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@pytest.fixture(autouse=True)
def sendfile_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Count the calls of sendfile, and let none go on for ever."""
    calls: list[int] = []
    sendfile = os.sendfile

    def counted(*arguments: Any) -> int:
        calls.append(1)
        if len(calls) > CALLS_MAX:
            raise RuntimeError("sendfile is called again and again")
        return sendfile(*arguments)

    monkeypatch.setattr(os, "sendfile", counted)
    yield calls
    assert len(calls) <= CALLS_MAX


@pytest.fixture
def segment(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "segment").write_bytes(os.urandom(1 << 20))
    descriptor = os.open(tmp_path / "segment", os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def part_of(descriptor: int, position: int, length: int) -> FileRange:
    view = FileView(descriptor, position, length)
    return FileRange(view, view.file_range())


class Reader(asyncio.Protocol):
    """The server's side of the connection; it hands the transport's signals to the writer."""

    writer: ResponseWriter

    def __init__(self) -> None:
        self.is_lost = asyncio.Event()
        self.progress = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.writer = ResponseWriter(self.transport, self.has_progressed)

    def has_progressed(self) -> None:
        self.progress += 1

    def send(self, pieces: list[OwnedPiece]) -> None:
        self.writer.send(pieces, memory_of(pieces))

    def pause_writing(self) -> None:
        self.writer.pause()

    def resume_writing(self) -> None:
        self.writer.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self.writer.close()
        self.is_lost.set()


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Reader, socket.socket]]:
    """A connection over loopback with small buffers; at the end no descriptor may be left."""
    gc.collect()  # connections that earlier tests left open
    before, ranges_before = open_descriptors(), FileRange.open_count
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(server.getsockname())
        accepted, _ = server.accept()
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    _, side = await loop.connect_accepted_socket(Reader, accepted)
    unhandled: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, what: unhandled.append(what))
    try:
        yield side, client
    finally:
        client.close()
        if not side.is_lost.is_set():
            side.transport.abort()
        await side.is_lost.wait()
    await settle(lambda: open_descriptors() <= before)
    assert FileRange.open_count == ranges_before
    assert unhandled == []


def run(body: Callable[[Reader, socket.socket], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), connected() as (side, client):
            await body(side, client)

    asyncio.run(main())


async def receive(client: socket.socket, count: int) -> bytes:
    loop = asyncio.get_running_loop()
    received = b""
    while len(received) < count and (more := await loop.sock_recv(client, count - len(received))):
        received += more
    return received


# ---------------------------------------------------------------- readers that read


def test_pieces_of_either_kind_arrive_in_order_however_slowly_they_are_read(segment: int) -> None:
    whole = os.pread(segment, 1 << 20, 0)

    async def body(side: Reader, client: socket.socket) -> None:
        side.send([b"head", part_of(segment, 100, 500_000), b"a" * 300_000])
        side.send([memoryview(b"middle"), part_of(segment, 0, LARGE), b"tail"])
        side.writer.flush()
        assert side.writer.is_blocked
        wanted = b"head" + whole[100:500_100] + b"a" * 300_000 + b"middle" + whole[:LARGE] + b"tail"
        assert await receive(client, len(wanted)) == wanted
        assert not side.writer.is_blocked
        assert side.progress > 0

    run(body)


def test_unread_answers_are_counted_in_bytes_of_memory(segment: int) -> None:
    async def body(side: Reader, client: socket.socket) -> None:
        side.send([b"x" * 1_000_000, part_of(segment, 0, LARGE)])
        side.writer.flush()
        taken = side.writer.taken_bytes
        assert 0 < taken < 1_000_000
        assert side.writer.waiting_bytes == 1_000_000 - taken
        await receive(client, 1_000_000 + LARGE)
        assert side.writer.waiting_bytes == 0
        assert side.writer.taken_bytes == 1_000_000 + LARGE

    run(body)


def test_a_response_is_given_to_the_transport_in_parts_not_whole() -> None:
    async def body(side: Reader, client: socket.socket) -> None:
        side.send([b"x" * 5_000_000])
        side.writer.flush()
        assert side.transport.get_write_buffer_size() <= 256 * 1024

    run(body)


def test_a_connection_ends_when_its_answers_are_read(segment: int) -> None:
    whole = os.pread(segment, 1 << 20, 0)

    async def body(side: Reader, client: socket.socket) -> None:
        side.send([part_of(segment, 0, 1 << 20), b"end"])
        side.writer.flush()
        side.writer.close_when_sent()
        assert await receive(client, (1 << 20) + 4) == whole + b"end"
        await side.is_lost.wait()

    run(body)


# ---------------------------------------------------------------- readers that go away


def goes_at_once(client: socket.socket) -> None:
    client.close()


def resets(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    client.close()


@pytest.mark.parametrize("goes", [goes_at_once, resets])
@pytest.mark.parametrize("count", [1, 6])
def test_a_reader_that_has_gone_ends_its_connection_and_nothing_else(
    segment: int, sendfile_calls: list[int], goes: Callable[[socket.socket], None], count: int
) -> None:
    async def body(side: Reader, client: socket.socket) -> None:
        goes(client)
        for _ in range(count):
            side.send([b"head", part_of(segment, 0, LARGE)])
            side.writer.flush()
        await side.is_lost.wait()
        assert not side.writer.is_blocked
        assert len(sendfile_calls) <= 2 * count + 2

    run(body)


@pytest.mark.parametrize("goes", [goes_at_once, resets])
def test_a_reader_that_goes_while_a_file_waits_for_it_ends_its_connection(
    segment: int, goes: Callable[[socket.socket], None]
) -> None:
    async def body(side: Reader, client: socket.socket) -> None:
        side.send([part_of(segment, 0, 1 << 20), b"x", part_of(segment, 0, LARGE)])
        side.writer.flush()
        assert side.writer.is_blocked
        await receive(client, 10_000)
        goes(client)
        await side.is_lost.wait()

    run(body)


def test_a_pair_of_sockets_whose_other_end_is_closed_is_written_to_once(
    segment: int, sendfile_calls: list[int]
) -> None:
    async def main() -> None:
        here, there = socket.socketpair()
        _, side = await asyncio.get_running_loop().connect_accepted_socket(Reader, here)
        there.close()
        side.send([part_of(segment, 0, LARGE), part_of(segment, 0, LARGE)])
        side.writer.flush()
        assert len(sendfile_calls) == 1
        await side.is_lost.wait()

    asyncio.run(main())


def test_nothing_is_sent_or_reported_after_a_connection_was_given_up(
    segment: int, sendfile_calls: list[int]
) -> None:
    async def body(side: Reader, client: socket.socket) -> None:
        client.close()
        side.send([part_of(segment, 0, LARGE), part_of(segment, 0, LARGE)])
        while not side.transport.is_closing():
            side.writer.flush()
            await asyncio.sleep(0)
        calls, progress = len(sendfile_calls), side.progress
        side.writer.flush()
        side.writer.pause()
        side.writer.resume()
        side.send([part_of(segment, 0, LARGE)])
        side.writer.flush()
        side.writer.close()
        assert (len(sendfile_calls), side.progress) == (calls, progress)

    run(body)


# ---------------------------------------------------------------- files that fail


@pytest.mark.parametrize("promised", [(1 << 20) + LARGE, 3 << 20])
def test_a_file_shorter_than_promised_ends_the_connection(segment: int, promised: int) -> None:
    async def body(side: Reader, client: socket.socket) -> None:
        side.send([part_of(segment, 0, promised), b"never sent"])
        side.writer.flush()
        received = await receive_to_the_end(client)
        assert received == os.pread(segment, 1 << 20, 0)[: len(received)]
        await side.is_lost.wait()

    run(body)


async def receive_to_the_end(client: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    received = b""
    try:
        while more := await loop.sock_recv(client, 1 << 20):
            received += more
    except ConnectionResetError:
        pass
    return received


def test_a_file_that_fails_after_a_pause_ends_the_connection_once(segment: int) -> None:
    """asyncio would end a connection twice that is given up within resume_writing."""

    async def body(side: Reader, client: socket.socket) -> None:
        side.send([bytes(300_000), part_of(segment, 1 << 20, LARGE)])
        side.writer.flush()
        assert side.writer.is_blocked
        assert len(await receive_to_the_end(client)) <= 300_000
        await side.is_lost.wait()

    run(body)


@pytest.mark.parametrize("position", [1 << 20, (1 << 20) + 1])
def test_a_file_without_the_first_byte_that_was_promised_ends_the_connection(
    segment: int, sendfile_calls: list[int], position: int
) -> None:
    async def body(side: Reader, client: socket.socket) -> None:
        side.send([part_of(segment, position, LARGE)])
        side.writer.flush()
        assert len(sendfile_calls) == 1
        await side.is_lost.wait()

    run(body)


def test_a_reader_for_whom_no_descriptor_is_left_to_wait_by_is_given_up(
    segment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(side: Reader, client: socket.socket) -> None:
        side.send([part_of(segment, 0, 1 << 20)])
        monkeypatch.setattr(os, "dup", none_left)
        side.writer.flush()
        await side.is_lost.wait()

    run(body)


def none_left(descriptor: int) -> int:
    raise OSError(24, "Too many open files")


# ---------------------------------------------------------------- owning pieces


def test_records_are_read_at_once_where_no_descriptor_can_be_had(
    segment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "dup", none_left)
    assert own([FileView(segment, 0, LARGE)]) == [os.pread(segment, LARGE, 0)]


def test_a_limited_number_of_ranges_keeps_its_descriptors(
    segment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_writer, "MAX_OPEN_RANGES", FileRange.open_count + 2)
    owned = own([FileView(segment, 0, LARGE)] * 3)
    assert [type(piece) for piece in owned] == [FileRange, FileRange, bytes]
    response_writer.release(owned)
    owned = own([FileView(segment, 0, LARGE)])
    assert isinstance(owned[0], FileRange)
    response_writer.release(owned)


def test_a_read_that_fails_leaves_no_descriptor_open(segment: int) -> None:
    class Unreadable(FileView):
        def read(self) -> bytes:
            raise OSError(5, "Input/output error")

    before = open_descriptors()
    with pytest.raises(OSError, match="Input/output"):
        own([FileView(segment, 0, LARGE), Unreadable(segment, 0, 10)])
    assert open_descriptors() <= before
