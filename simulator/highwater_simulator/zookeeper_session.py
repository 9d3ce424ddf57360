"""The client's end of one ZooKeeper session: the Coordination port in virtual time.

While the connection is lost, new calls wait for the next one, as kazoo's do; calls that were in
flight raise ConnectionLost, whether or not the server carried them out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from highwater_core.check import BugFound, check
from highwater_core.ports import (
    ANY_VERSION,
    ConnectionLost,
    Coordination,
    CoordinationError,
    CoordinationEvent,
    CoordinationEventKind,
    MultiOp,
    SessionExpired,
    Stat,
    TooLarge,
)
from highwater_core.request_sizes import (
    MAX_REQUEST_BYTES,
    SERVER_LIMIT_BYTES,
    size_of_create,
    size_of_multi,
    size_of_path,
    size_of_set,
)
from highwater_simulator.network import Connection, Plane
from highwater_simulator.tasks import NodeRuntime, SimulatedFuture, SimulatedQueue
from highwater_simulator.znode_tree import NO_OWNER, Change, ZnodeTree, parent_of
from highwater_simulator.zookeeper import HOST, Session, ZooKeeper

CONNECT_RETRY_MS = 100

Operation = Callable[[ZnodeTree], tuple[Any, list[Change]]]


@dataclass(frozen=True, slots=True)
class _Answer:
    result: Any = None
    error: CoordinationError | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    operation: Operation
    set_watch: Callable[[Session], None] | None
    answer: SimulatedFuture[_Answer]
    size_bytes: int


class SimulatedCoordination:
    """The Coordination port."""

    def __init__(self, server: ZooKeeper, runtime: NodeRuntime, max_request_bytes: int) -> None:
        self._server = server
        self._max_request_bytes = max_request_bytes
        self._runtime = runtime
        self._network = server.network
        self._connection: Connection | None = None
        """The current one, or an attempt at it."""
        self._session: Session | None = None
        self._opened = runtime.event()
        self._events: SimulatedQueue[CoordinationEvent] = runtime.queue()
        self._in_flight: dict[_Call, None] = {}
        self._waiting: list[_Call] = []
        self._is_expired = False
        self._is_closed = False
        self._heard_ns = 0
        self.is_connected = False

    # ------------------------------------------------------------ the port

    @property
    def session_id(self) -> int:
        return 0 if self._session is None else self._session.session_id

    @property
    def events(self) -> SimulatedQueue[CoordinationEvent]:
        return self._events

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        owner = self.session_id if ephemeral else NO_OWNER
        return str(
            await self._call(
                lambda tree: tree.create(path, data, owner, sequential=sequential),
                size_of_create(path, data),
            )
        )

    async def ensure_path(self, path: str) -> None:
        def make(tree: ZnodeTree) -> tuple[None, list[Change]]:
            missing: list[str] = []
            at = path
            while tree.find(at) is None:
                missing.append(at)
                at = parent_of(at)
            changes: list[Change] = []
            for each in reversed(missing):
                changes += tree.create(each, b"", NO_OWNER, sequential=False)[1]
            return None, changes

        await self._call(make, size_of_path(path))

    async def get(self, path: str, *, watch: bool = False) -> tuple[bytes, Stat]:
        def read(tree: ZnodeTree) -> tuple[tuple[bytes, Stat], list[Change]]:
            znode = tree.get(path)
            return (znode.data, znode.stat), []

        found: tuple[bytes, Stat] = await self._call(
            read, size_of_path(path), self._data_watch(path, watch)
        )
        return found

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        def read(tree: ZnodeTree) -> tuple[Stat | None, list[Change]]:
            znode = tree.find(path)
            return None if znode is None else znode.stat, []

        stat: Stat | None = await self._call(
            read, size_of_path(path), self._data_watch(path, watch)
        )
        return stat

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        def set_watch(session: Session) -> None:
            self._server.watch_children(session, path)

        names: list[str] = await self._call(
            lambda tree: (sorted(tree.get(path).children), []),
            size_of_path(path),
            set_watch if watch else None,
        )
        return names

    async def set(self, path: str, data: bytes, expected_version: int = ANY_VERSION) -> Stat:
        stat: Stat = await self._call(
            lambda tree: tree.set(path, data, expected_version), size_of_set(path, data)
        )
        return stat

    async def delete(self, path: str, expected_version: int = ANY_VERSION) -> None:
        await self._call(
            lambda tree: (None, tree.delete(path, expected_version)), size_of_path(path)
        )

    async def multi(self, operations: Sequence[MultiOp]) -> list[Stat | None]:
        fixed = tuple(operations)
        stats: list[Stat | None] = await self._call(
            lambda tree: tree.multi(fixed, self.session_id), size_of_multi(fixed)
        )
        return stats

    async def close(self) -> None:
        """End the session; without a connection leave it to expire."""
        session = self._session if self.is_connected else None
        self._is_closed = True
        if session is not None:
            with contextlib.suppress(ConnectionLost, SessionExpired):
                await self._ask(self._new_call(lambda _: self._server.close_session(session)))
        self._end()

    # ------------------------------------------------------------ the connection

    @property
    def node_name(self) -> str:
        return self._runtime.node_name

    def holds(self, session: Session) -> bool:
        """Return whether this client has the session, as far as it knows."""
        return self._runtime.is_alive and not self._is_expired and self._session is session

    def awaits_session(self) -> bool:
        """Return whether this client has requested a session and has none yet."""
        return self._runtime.is_alive and self._session is None and not self._is_closed

    async def open(self, session_timeout_ms: int) -> None:
        """Request a session from the server again and again until there is one."""
        while not self._can_reach_server() or not await self._try_to_open(session_timeout_ms):
            await self._runtime.sleep(CONNECT_RETRY_MS)

    async def _try_to_open(self, session_timeout_ms: int) -> bool:
        """Return whether the server gave a session; one that comes too late expires unused."""
        self._opened.clear()
        connection = self._connect()
        connection.there.send(
            lambda: self._server.receive(
                connection,
                lambda: self._server.open_session(self, connection, session_timeout_ms),
            )
        )
        await self._opened.wait(_silence_limit(session_timeout_ms))
        if self._session is None:
            self._drop_connection()
        return self._session is not None

    def beat(self) -> None:
        """Exchange a heartbeat, or reconnect; a paused process does neither."""
        session, connection, now_ns = self._session, self._connection, self._now_ns()
        if session is None:
            return
        if self._runtime.is_paused:
            self._heard_ns = now_ns
        elif connection is None:
            if self._can_reach_server():
                self._reconnect(session)
        elif now_ns - self._heard_ns >= _silence_limit(session.timeout_ns):
            connection.give_up()
            self._suspend()
        elif self.is_connected:
            self._ping(session, connection)

    def _ping(self, session: Session, connection: Connection) -> None:
        """Exchange a heartbeat: at once where there is no fault, else by messages."""
        server = self._server
        if connection.is_whole and server.is_prompt and server.serves(session, connection):
            session.last_heard_ns = self._heard_ns = self._now_ns()
        else:
            connection.there.send(lambda: server.ping(session, connection))

    def _reconnect(self, session: Session) -> None:
        """Connect again within the session; the server answers whether it still exists."""
        connection = self._connect()
        connection.there.send(lambda: self._server.reconnect(session, connection))

    def _connect(self) -> Connection:
        self._heard_ns = self._now_ns()
        self._connection = self._network.connect(
            self._runtime, HOST, Plane.ZOOKEEPER, self._suspend
        )
        return self._connection

    def _can_reach_server(self) -> bool:
        return self._server.is_up and self._network.is_connected(
            self.node_name, HOST, Plane.ZOOKEEPER
        )

    def _now_ns(self) -> int:
        return self._network.kernel.time_ns

    def lose_connection(self) -> None:
        """Lose the connection and the messages on it."""
        if self._connection is not None:
            self._connection.reset()

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.give_up()
        self.is_connected = False

    def _end(self) -> None:
        """End the session for this client."""
        self._is_expired = True
        self._drop_connection()
        calls, self._in_flight, self._waiting = [*self._in_flight, *self._waiting], {}, []
        for call in calls:
            call.answer.set(_Answer(error=SessionExpired(hex(self.session_id))))

    def _suspend(self) -> None:
        """Go on without a connection: calls in flight may or may not have been carried out."""
        self._connection = None
        if self._session is None:
            self._opened.set()
            return
        self._server.detach(self._session)
        if not self.is_connected:
            return
        self.is_connected = False
        if not self._is_closed:
            self._events.put(CoordinationEvent(CoordinationEventKind.SESSION_SUSPENDED))
        in_flight, self._in_flight = self._in_flight, {}
        for call in in_flight:
            call.answer.set(_Answer(error=ConnectionLost("no answer: the connection was lost")))

    # ------------------------------------------------------------ messages of the server

    def opened(self, session: Session) -> None:
        if self._runtime.is_alive and self._session is None:
            self._session = session
            self._opened.set()
            self.connected()

    def connected(self) -> None:
        if not self._runtime.is_alive:
            return
        self.is_connected = True
        self._heard_ns = self._now_ns()
        self._events.put(CoordinationEvent(CoordinationEventKind.SESSION_ESTABLISHED))
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            self._send(call)

    def heard(self) -> None:
        self._heard_ns = self._now_ns()

    def watch_fired(self, event: CoordinationEvent) -> None:
        if self._runtime.is_alive:
            self._events.put(event)

    def expired(self) -> None:
        if self._is_expired or not self._runtime.is_alive:
            return
        self._events.put(CoordinationEvent(CoordinationEventKind.SESSION_EXPIRED))
        self._end()

    # ------------------------------------------------------------ calls

    def _data_watch(self, path: str, watch: bool) -> Callable[[Session], None] | None:
        if not watch:
            return None
        return lambda session: self._server.watch_data(session, path)

    async def _call(
        self,
        operation: Operation,
        size_bytes: int,
        set_watch: Callable[[Session], None] | None = None,
    ) -> Any:
        """Carry out the operation at the server, and set the watch when it was not refused."""
        if self._is_expired or self._is_closed:
            raise SessionExpired(hex(self.session_id))
        if size_bytes > self._max_request_bytes:
            raise TooLarge(f"{size_bytes} bytes, at most {self._max_request_bytes}")
        return await self._ask(self._new_call(operation, set_watch, size_bytes))

    def _new_call(
        self,
        operation: Operation,
        set_watch: Callable[[Session], None] | None = None,
        size_bytes: int = 0,
    ) -> _Call:
        return _Call(operation, set_watch, self._runtime.future(), size_bytes)

    async def _ask(self, call: _Call) -> Any:
        if self.is_connected:
            self._send(call)
        else:
            self._waiting.append(call)
        answer = await call.answer.wait()
        if answer.error is not None:
            raise answer.error
        return answer.result

    def _send(self, call: _Call) -> None:
        session, connection = self._session, self._connection
        if session is None or connection is None:
            raise BugFound("a call was sent without a connection")
        self._in_flight[call] = None
        connection.there.send(lambda: self._arrived(call, session, connection))

    def _arrived(self, call: _Call, session: Session, connection: Connection) -> None:
        """Run at the server, which does not read from a connection that it closed."""
        if call.size_bytes > SERVER_LIMIT_BYTES:
            connection.reset()
        elif self._server.serves(session, connection):
            session.last_heard_ns = self._now_ns()
            self._server.receive(connection, lambda: self._carry_out(call, session, connection))

    def _carry_out(self, call: _Call, session: Session, connection: Connection) -> None:
        """Run at the server when it is the request's turn."""
        try:
            answer = _Answer(result=self._server.apply(session, call.operation))
        except CoordinationError as error:
            answer = _Answer(error=error)
        else:
            if call.set_watch is not None and not connection.is_over:
                call.set_watch(session)
        connection.back.send(lambda: self._answered(call, answer))

    def _answered(self, call: _Call, answer: _Answer) -> None:
        self._heard_ns = self._now_ns()
        if call in self._in_flight and self._runtime.is_alive:
            del self._in_flight[call]
            call.answer.set(answer)


def _silence_limit(session_timeout: int) -> int:
    """Return for how long a client keeps a silent connection, in the timeout's unit."""
    return 2 * session_timeout // 3


class SimulatedCoordinationFactory:
    """The CoordinationFactory port of one incarnation; requests have at most max_request_bytes."""

    def __init__(
        self,
        server: ZooKeeper,
        runtime: NodeRuntime,
        max_request_bytes: int = MAX_REQUEST_BYTES,
    ) -> None:
        self._server = server
        self._runtime = runtime
        self._max_request_bytes = max_request_bytes

    async def open(self, session_timeout_ms: int) -> Coordination:
        client = SimulatedCoordination(self._server, self._runtime, self._max_request_bytes)
        await client.open(session_timeout_ms)
        check(client.session_id, "a session has an id")
        return client
