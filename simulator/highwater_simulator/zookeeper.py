"""A ZooKeeper ensemble in virtual time, held to the real one's behaviour by tests/contract.

One server: sessions with timeouts, ephemeral and sequential znodes, versions, one-shot watches,
multi. Each session's requests, answers and watch events travel in order, so that a watch's event
arrives before any answer that shows its change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from highwater_core.check import check
from highwater_core.ports import (
    Coordination,
    CoordinationEvent,
    CoordinationEventKind,
    SessionExpired,
    Stat,
)
from highwater_simulator.kernel import NS_PER_MS, Kernel
from highwater_simulator.network import Network, Plane
from highwater_simulator.tasks import NodeRuntime
from highwater_simulator.znode_tree import Change, ZnodeTree, parent_of
from highwater_simulator.zookeeper_session import SimulatedCoordination

HOST = "zookeeper"
FIRST_SESSION_ID = 0x1000_0000_0000_0001
HEARTBEATS_PER_TIMEOUT = 30
"""How often within a session's timeout its client and the server hear of each other."""
CONNECT_RETRY_MS = 100


@dataclass(slots=True, eq=False)
class Session:
    """A session as the server has it; `unseen` are watch events that the client has not got."""

    session_id: int
    timeout_ns: int
    client: SimulatedCoordination
    last_heard_ns: int
    is_over: bool = False
    is_attached: bool = True
    """Whether the client's connection is the one that the server knows."""
    unseen: deque[CoordinationEvent] = field(default_factory=deque)


class ZooKeeper:
    """The server; its tree and sessions outlive every node."""

    def __init__(self, kernel: Kernel, network: Network) -> None:
        self._kernel = kernel
        self._network = network
        self._tree = ZnodeTree()
        self._sessions: dict[int, Session] = {}
        self._next_session_id = FIRST_SESSION_ID
        self._data_watches: dict[str, dict[Session, None]] = {}
        self._child_watches: dict[str, dict[Session, None]] = {}

    # ------------------------------------------------------------ for tests and faults

    def data(self, path: str) -> tuple[bytes, Stat] | None:
        """Return a znode's data and metadata, None when it does not exist."""
        znode = self._tree.find(path)
        return None if znode is None else (znode.data, znode.stat)

    def dump(self) -> dict[str, tuple[bytes, Stat]]:
        """Return every znode's data and metadata by path, in ascending order."""
        return self._tree.dump()

    def session_ids(self, node_name: str) -> list[int]:
        """Return the live sessions of the node, oldest first."""
        return [
            session.session_id
            for session in self._sessions.values()
            if session.client.node_name == node_name and not session.is_over
        ]

    def expire(self, session_id: int) -> None:
        """End the session now, as if its timeout had passed; its client is told."""
        session = self._sessions[session_id]
        self._end(session)
        session.client.notify_expired()

    def lose_connection(self, session_id: int) -> None:
        """Break the client's connection: calls in flight raise ConnectionLost; it reconnects."""
        self._sessions[session_id].client.suspend()

    # ------------------------------------------------------------ sessions

    def factory(self, runtime: NodeRuntime) -> SimulatedCoordinationFactory:
        return SimulatedCoordinationFactory(self, runtime, self._network)

    def open_session(self, client: SimulatedCoordination, timeout_ms: int) -> Session:
        session = Session(
            self._next_session_id, timeout_ms * NS_PER_MS, client, self._kernel.now_ns()
        )
        self._next_session_id += 1
        self._sessions[session.session_id] = session
        self._beat_later(session)
        return session

    def reconnect(self, session: Session) -> None:
        """Take the session up again and send what its watches saw meanwhile."""
        if session.is_over:
            session.client.notify_expired()
            return
        session.last_heard_ns = self._kernel.now_ns()
        session.is_attached = True
        session.client.welcome()
        for _ in session.unseen:
            session.client.send_unseen(session)

    def detach(self, session: Session) -> None:
        """Lose the client's connection; each of its watches fires once after it is back.

        kazoo forgets its watches with the connection, and its port makes up for that likewise.
        """
        session.is_attached = False
        for kind, watches in (
            (CoordinationEventKind.NODE_CHANGED, self._data_watches),
            (CoordinationEventKind.CHILDREN_CHANGED, self._child_watches),
        ):
            for path, sessions in watches.items():
                if session in sessions:
                    del sessions[session]
                    session.unseen.append(CoordinationEvent(kind, path))

    def close_session(self, session: Session) -> None:
        if not session.is_over:
            self._end(session)

    def _beat_later(self, session: Session) -> None:
        interval_ns = session.timeout_ns // HEARTBEATS_PER_TIMEOUT
        self._kernel.call_later(interval_ns, lambda: self._beat(session))

    def _beat(self, session: Session) -> None:
        """Exchange a heartbeat if both ends and the links between are up; expire if none came."""
        if session.is_over and not session.client.awaits_verdict:
            return
        now_ns = self._kernel.now_ns()
        client = session.client
        if client.can_talk():
            if client.is_connected and session.is_over:
                client.suspend()  # the server closed the connection when the session ended
            if client.is_connected:
                session.last_heard_ns = client.last_heard_ns = now_ns
            else:
                client.reconnect()
        elif client.is_connected and 3 * (now_ns - client.last_heard_ns) >= 2 * session.timeout_ns:
            client.suspend()
        if not session.is_over and now_ns - session.last_heard_ns >= session.timeout_ns:
            self._end(session)
        self._beat_later(session)

    def _end(self, session: Session) -> None:
        session.is_over = True
        for watches in (*self._data_watches.values(), *self._child_watches.values()):
            watches.pop(session, None)
        for path in self._tree.owned_by(session.session_id):
            self._fire(self._tree.delete(path, -1))

    # ------------------------------------------------------------ operations

    def apply(
        self, session: Session, operation: Callable[[ZnodeTree], tuple[object, list[Change]]]
    ) -> object:
        """Carry out an operation, fire its watches and return its result.

        Raises:
            CoordinationError: refused; nothing changed.
        """
        if session.is_over:
            raise SessionExpired(hex(session.session_id))
        result, changes = operation(self._tree)
        self._fire(changes)
        return result

    def watch_data(self, session: Session, path: str) -> None:
        self._data_watches.setdefault(path, {})[session] = None

    def watch_children(self, session: Session, path: str) -> None:
        self._child_watches.setdefault(path, {})[session] = None

    def _fire(self, changes: list[Change]) -> None:
        for change in changes:
            self._fire_data(change.path)
            if change.is_existence:
                self._fire_children(change.path)
                self._fire_children(parent_of(change.path))

    def _fire_data(self, path: str) -> None:
        for session in self._data_watches.pop(path, {}):
            self._send(session, CoordinationEvent(CoordinationEventKind.NODE_CHANGED, path))

    def _fire_children(self, path: str) -> None:
        for session in self._child_watches.pop(path, {}):
            self._send(session, CoordinationEvent(CoordinationEventKind.CHILDREN_CHANGED, path))

    def _send(self, session: Session, event: CoordinationEvent) -> None:
        session.unseen.append(event)
        if session.is_attached:
            session.client.send_unseen(session)


class SimulatedCoordinationFactory:
    """The CoordinationFactory port of one incarnation."""

    def __init__(self, server: ZooKeeper, runtime: NodeRuntime, network: Network) -> None:
        self._server = server
        self._runtime = runtime
        self._network = network

    async def open(self, session_timeout_ms: int) -> Coordination:
        client = SimulatedCoordination(self._server, self._runtime, self._network, HOST)
        while not self._network.is_connected(self._runtime.node_name, HOST, Plane.ZOOKEEPER):
            await self._runtime.sleep(CONNECT_RETRY_MS)
        await client.open(session_timeout_ms)
        check(client.session_id, "a session has an id")
        return client
