"""The ZooKeeper adapter without a ZooKeeper; tests/contract has the tests with one."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO

import pytest
from kazoo import exceptions as zk

from highwater_adapters import coordination
from highwater_adapters.coordination import (
    KazooCoordinationFactory,
    _LoopHandler,
    _to_error,
    _Watch,
)
from highwater_core.ports import (
    BadVersion,
    ConnectionLost,
    CoordinationEvent,
    CoordinationEventKind,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (zk.NoNodeError, NoNode),
        (zk.NodeExistsError, NodeExists),
        (zk.BadVersionError, BadVersion),
        (zk.NotEmptyError, NotEmpty),
        (zk.ConnectionLoss, ConnectionLost),
        (zk.OperationTimeoutError, ConnectionLost),
        (zk.NoAuthError, ConnectionLost),
        (zk.APIError, ConnectionLost),
        (zk.InvalidACLError, ConnectionLost),
        (zk.SessionExpiredError, SessionExpired),
        (zk.ConnectionClosedError, SessionExpired),
    ],
)
def test_operating_errors_have_a_type_of_the_port(
    theirs: type[Exception], ours: type[Exception]
) -> None:
    assert type(_to_error(theirs(), "/path")) is ours


def test_an_error_that_the_port_does_not_name_stays_a_bug() -> None:
    error = TypeError("ours")
    assert _to_error(error, "/path") is error


def test_a_session_that_is_over_is_never_followed_by_another() -> None:
    handler = _LoopHandler(1_000)
    handler.is_fenced = True
    with pytest.raises(ConnectionAbortedError):
        handler.create_connection(("127.0.0.1", 1), timeout=1.0)


def test_equal_watches_on_one_path_count_as_one() -> None:
    event = CoordinationEvent(CoordinationEventKind.NODE_CHANGED, "/a")
    assert len({_Watch(event, lambda *_: None), _Watch(event, print)}) == 1


def test_open_tries_until_cancelled_and_leaves_no_thread() -> None:
    silent = logging.getLogger("test.zookeeper")
    silent.setLevel(logging.CRITICAL)

    async def main() -> None:
        opening = asyncio.ensure_future(KazooCoordinationFactory("127.0.0.1:1", silent).open(1000))
        await asyncio.sleep(0.01)
        assert not opening.done()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    before = set(threading.enumerate())  # one of an earlier test may end meanwhile
    asyncio.run(main())
    assert set(threading.enumerate()) <= before


class HalfClosingServer:
    """Grants a session, then closes its half of the first connection and reads nothing of it."""

    SESSION_TIMEOUT_MS = 60_000

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.may_close = threading.Event()
        self._connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        self._grant()
        assert self.may_close.wait(20)
        self._connections[0].shutdown(socket.SHUT_WR)
        self._grant()

    def _grant(self) -> None:
        connection, _ = self._listener.accept()
        self._connections.append(connection)
        connection.recv(4_096)
        granted = struct.pack(">iiqi16s?", 0, self.SESSION_TIMEOUT_MS, 7, 16, bytes(16), False)
        connection.sendall(struct.pack(">i", len(granted)) + granted)

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        self._thread.join(20)
        self._listener.close()


def test_a_server_that_closes_while_it_is_written_to_is_left_at_once() -> None:
    """A proxy turns a server's reset into such an end; the session must not wait it out."""
    server = HalfClosingServer()

    async def main() -> None:
        factory = KazooCoordinationFactory(server.address, max_request_bytes=1 << 26)
        session = await factory.open(server.SESSION_TIMEOUT_MS)
        kinds = [(await session.events.get(20_000)).kind]
        writing = asyncio.ensure_future(session.set("/a", bytes(1 << 25)))
        await asyncio.sleep(0.05)
        server.may_close.set()
        with pytest.raises(ConnectionLost):
            await asyncio.wait_for(writing, 60)
        kinds += [(await session.events.get(20_000)).kind for _ in range(2)]
        kind = CoordinationEventKind
        assert kinds == [
            kind.SESSION_ESTABLISHED,
            kind.SESSION_SUSPENDED,
            kind.SESSION_ESTABLISHED,
        ]
        server.close()
        await session.close()

    try:
        asyncio.run(main())
    finally:
        server.close()


class StubbornServer:
    """Grants sessions and answers pings; requests with one error code, or never."""

    def __init__(self, code: int | None) -> None:
        self._code = code
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rwb") as stream, suppress(OSError, struct.error):
            connect = stream.read(*struct.unpack(">i", stream.read(4)))
            (timeout_ms,) = struct.unpack_from(">i", connect, 12)
            self._send(stream, struct.pack(">iiqi16s?", 0, timeout_ms, 7, 16, bytes(16), False))
            while True:
                request = stream.read(*struct.unpack(">i", stream.read(4)))
                xid, operation = struct.unpack_from(">ii", request)
                if operation != _PING and self._code is None:
                    continue
                code = 0 if operation in (_PING, _CLOSE) else self._code
                self._send(stream, struct.pack(">iqi", xid, 1, code))
                if operation == _CLOSE:
                    return

    def _send(self, stream: IO[bytes], answer: bytes) -> None:
        stream.write(struct.pack(">i", len(answer)) + answer)
        stream.flush()

    def close(self) -> None:
        self._listener.close()


_PING, _CLOSE = 11, -11


@pytest.fixture
def serve() -> Iterator[Callable[[int | None], StubbornServer]]:
    servers: list[StubbornServer] = []

    def make(code: int | None) -> StubbornServer:
        servers.append(StubbornServer(code))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (-102, ConnectionLost),  # no authority
        (-118, ConnectionLost),  # the session has moved
        (-127, ConnectionLost),  # throttled
        (-130, SessionExpired),  # a code that kazoo does not know ends its thread
    ],
)
def test_every_error_of_zookeeper_is_an_error_of_the_port(
    serve: Callable[[int | None], StubbornServer], code: int, expected: type[Exception]
) -> None:
    silent = logging.getLogger("test.zookeeper")

    async def main() -> None:
        session = await KazooCoordinationFactory(serve(code).address, silent).open(60_000)
        with pytest.raises(expected):
            await asyncio.wait_for(session.create("/a", b""), 60)
        await asyncio.wait_for(session.close(), 60)

    asyncio.run(main())


def test_a_server_that_never_answers_the_end_of_a_session_is_left(
    serve: Callable[[int | None], StubbornServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordination, "_CLOSE_TIMEOUT_S", 0.1)

    async def main() -> None:
        session = await KazooCoordinationFactory(serve(None).address).open(4_000)
        waiting = asyncio.ensure_future(session.create("/a", b""))
        await asyncio.sleep(0.05)
        await asyncio.wait_for(session.close(), 60)
        with pytest.raises(SessionExpired):
            await asyncio.wait_for(waiting, 60)

    asyncio.run(main())
