"""One ZooKeeper session as its client has it: the Coordination port in virtual time.

While the connection is lost, new calls wait for the next one, as kazoo's do; calls that were in
flight raise ConnectionLost, whether or not the server carried them out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from highwater_core.ports import (
    ANY_VERSION,
    ConnectionLost,
    CoordinationError,
    CoordinationEvent,
    CoordinationEventKind,
    MultiOp,
    NoNode,
    SessionExpired,
    Stat,
)
from highwater_simulator.network import Network, Pipe, Plane
from highwater_simulator.tasks import NodeRuntime, SimulatedFuture, SimulatedQueue
from highwater_simulator.znode_tree import NO_OWNER, Change, ZnodeTree, parent_of

if TYPE_CHECKING:
    from highwater_simulator.zookeeper import Session, ZooKeeper

Operation = Callable[[ZnodeTree], tuple[Any, list[Change]]]


@dataclass(frozen=True, slots=True)
class _Answer:
    result: Any = None
    error: CoordinationError | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    operation: Operation
    after: Callable[[Session], None] | None
    answer: SimulatedFuture[_Answer]


class SimulatedCoordination:
    """The Coordination port."""

    def __init__(
        self, server: ZooKeeper, runtime: NodeRuntime, network: Network, host: str
    ) -> None:
        self._server = server
        self._runtime = runtime
        self._network = network
        self._host = host
        self._to_server, self._to_client = self._pipes()
        self._session: Session | None = None
        self._events: SimulatedQueue[CoordinationEvent] = runtime.queue()
        self._in_flight: dict[_Call, None] = {}
        self._waiting: list[_Call] = []
        self._is_expired = False
        self._is_reconnecting = False
        self.is_connected = False
        self.last_heard_ns = 0

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
            await self._call(lambda tree: tree.create(path, data, owner, sequential=sequential))
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

        await self._call(make)

    async def get(self, path: str, *, watch: bool = False) -> tuple[bytes, Stat]:
        def read(tree: ZnodeTree) -> tuple[tuple[bytes, Stat], list[Change]]:
            znode = tree.get(path)
            return (znode.data, znode.stat), []

        found: tuple[bytes, Stat] = await self._call(read, self._data_watch(path, watch))
        return found

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        def read(tree: ZnodeTree) -> tuple[Stat | None, list[Change]]:
            znode = tree.find(path)
            return None if znode is None else znode.stat, []

        stat: Stat | None = await self._call(read, self._data_watch(path, watch))
        return stat

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        def set_watch(session: Session) -> None:
            self._server.watch_children(session, path)

        names: list[str] = await self._call(
            lambda tree: (sorted(tree.get(path).children), []), set_watch if watch else None
        )
        return names

    async def set(self, path: str, data: bytes, expected_version: int = ANY_VERSION) -> Stat:
        stat: Stat = await self._call(lambda tree: tree.set(path, data, expected_version))
        return stat

    async def delete(self, path: str, expected_version: int = ANY_VERSION) -> None:
        await self._call(lambda tree: (None, tree.delete(path, expected_version)))

    async def multi(self, operations: Sequence[MultiOp]) -> list[Stat | None]:
        fixed = tuple(operations)
        stats: list[Stat | None] = await self._call(lambda tree: tree.multi(fixed, self.session_id))
        return stats

    async def close(self) -> None:
        if self._is_expired:
            return
        session = self._session
        if session is not None:
            await self._call(lambda _: (None, []), self._server.close_session)
        self._is_expired = True

    # ------------------------------------------------------------ the connection

    @property
    def node_name(self) -> str:
        return self._runtime.node_name

    @property
    def awaits_verdict(self) -> bool:
        """Whether this client does not know yet that its session is over, and may learn it."""
        return self._runtime.is_alive and not self._is_expired

    def can_talk(self) -> bool:
        if not self._runtime.is_alive or self._runtime.is_paused:
            return False
        return self._network.is_connected(self.node_name, self._host, Plane.ZOOKEEPER)

    async def open(self, session_timeout_ms: int) -> None:
        """Ask the server for a session and wait until there is one."""
        opened: SimulatedFuture[Session] = self._runtime.future()

        def accept() -> None:
            session = self._server.open_session(self, session_timeout_ms)
            self._to_client.send(lambda: opened.set(session))

        self._to_server.send(accept)
        self._session = await opened.wait()
        self._connected()

    def reconnect(self) -> None:
        """Connect anew within the session; the server says whether it still exists."""
        session = self._session
        if session is None or self._is_reconnecting or self._is_expired:
            return
        self._is_reconnecting = True
        self._to_server, self._to_client = self._pipes()
        self._to_server.send(lambda: self._server.reconnect(session))

    def suspend(self) -> None:
        """Lose the connection and what is under way on it."""
        self._to_server.reset()
        self._to_client.reset()
        self._is_reconnecting = False
        if self._session is not None:
            self._server.detach(self._session)
        if not self.is_connected:
            return
        self.is_connected = False
        self._events.put(CoordinationEvent(CoordinationEventKind.SESSION_SUSPENDED))
        in_flight, self._in_flight = self._in_flight, {}
        for call in in_flight:
            call.answer.set(_Answer(error=ConnectionLost("no answer: the connection was lost")))

    def welcome(self) -> None:
        """Tell this client that it is connected again, from the server."""
        self._to_client.send(self._connected)

    def send_unseen(self, session: Session) -> None:
        """Send the next watch event that has not arrived, from the server."""
        self._to_client.send(lambda: self._watch_fired(session.unseen.popleft()))

    def notify_expired(self) -> None:
        self._to_client.send(self._expire)

    def _watch_fired(self, event: CoordinationEvent) -> None:
        if self._runtime.is_alive:
            self._events.put(event)

    def _connected(self) -> None:
        if not self._runtime.is_alive:
            return
        self.is_connected = True
        self._is_reconnecting = False
        self.last_heard_ns = self._runtime.now_ns()
        self._events.put(CoordinationEvent(CoordinationEventKind.SESSION_ESTABLISHED))
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            self._send(call)

    def _expire(self) -> None:
        if self._is_expired or not self._runtime.is_alive:
            return
        self._is_expired = True
        self.is_connected = False
        self._events.put(CoordinationEvent(CoordinationEventKind.SESSION_EXPIRED))
        calls, self._in_flight = [*self._in_flight, *self._waiting], {}
        self._waiting = []
        for call in calls:
            call.answer.set(_Answer(error=SessionExpired(hex(self.session_id))))

    def _pipes(self) -> tuple[Pipe, Pipe]:
        there = self._network.pipe(self.node_name, self._host, Plane.ZOOKEEPER, self._runtime)
        back = self._network.pipe(self._host, self.node_name, Plane.ZOOKEEPER)
        return there, back

    # ------------------------------------------------------------ calls

    def _data_watch(self, path: str, watch: bool) -> Callable[[Session], None] | None:
        if not watch:
            return None
        return lambda session: self._server.watch_data(session, path)

    async def _call(
        self, operation: Operation, after: Callable[[Session], None] | None = None
    ) -> Any:
        """Carry out the operation at the server, then `after` when it was not refused."""
        if self._is_expired:
            raise SessionExpired(hex(self.session_id))
        call = _Call(operation, after, self._runtime.future())
        if self.is_connected:
            self._send(call)
        else:
            self._waiting.append(call)
        answer = await call.answer.wait()
        if answer.error is not None:
            raise answer.error
        return answer.result

    def _send(self, call: _Call) -> None:
        self._in_flight[call] = None
        self._to_server.send(lambda: self._carry_out(call))

    def _carry_out(self, call: _Call) -> None:
        """Run at the server when the request arrives."""
        session = self._session
        if session is None:
            raise NoNode("a call before its session")
        try:
            answer = _Answer(result=self._server.apply(session, call.operation))
        except CoordinationError as error:
            answer = _Answer(error=error)
        else:
            if call.after is not None:
                call.after(session)
        self._to_client.send(lambda: self._answered(call, answer))

    def _answered(self, call: _Call, answer: _Answer) -> None:
        if call in self._in_flight and self._runtime.is_alive:
            del self._in_flight[call]
            call.answer.set(answer)
