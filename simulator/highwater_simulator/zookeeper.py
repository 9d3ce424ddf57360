"""A ZooKeeper ensemble in virtual time, held to the real one's behaviour by tests/contract.

One server: sessions with timeouts, ephemeral and sequential znodes, versions, one-shot watches,
multi. Each session's requests, answers and watch events travel in order, so that a watch's event
arrives before any answer that shows its change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from highwater_core.ports import (
    ANY_VERSION,
    CoordinationEvent,
    CoordinationEventKind,
    SessionExpired,
    Stat,
)
from highwater_simulator.clocks import NS_PER_MS
from highwater_simulator.kernel import Kernel
from highwater_simulator.network import Connection, Network
from highwater_simulator.waits import Timer
from highwater_simulator.znode_tree import Change, ZnodeTree, parent_of

HOST = "zookeeper"
FIRST_SESSION_ID = 0x1000_0000_0000_0001
HEARTBEATS_PER_TIMEOUT = 12
"""Number of heartbeats within a session's timeout."""


class SessionClient(Protocol):
    """A session's client, as the server sees it."""

    @property
    def node_name(self) -> str: ...

    def opened(self, session: Session) -> None: ...

    def connected(self) -> None: ...

    def heard(self) -> None: ...

    def watch_fired(self, event: CoordinationEvent) -> None: ...

    def expired(self) -> None: ...

    def lose_connection(self) -> None: ...

    def beat(self) -> None: ...

    def holds(self, session: Session) -> bool: ...

    def awaits_session(self) -> bool: ...


@dataclass(slots=True, eq=False)
class Session:
    """A session on the server. unseen: watch events that the client has not received."""

    session_id: int
    timeout_ns: int
    client: SessionClient
    connection: Connection
    """The connection that the server serves; it closes any other."""
    last_heard_ns: int
    is_over: bool = False
    unseen: deque[CoordinationEvent] = field(default_factory=deque)


class ZooKeeper:
    """The server; its tree and sessions outlive every node."""

    def __init__(self, kernel: Kernel, network: Network) -> None:
        self.applied: Callable[[str, tuple[str, ...]], None] | None = None
        """Called for each operation with changes: its node ("": the server's own, an expiry) and
        the changed paths in order."""
        self.is_up = True
        self._kernel = kernel
        self.network = network
        self._tree = ZnodeTree()
        self._sessions: dict[int, Session] = {}
        self._next_session_id = FIRST_SESSION_ID
        self._data_watches: dict[str, dict[Session, None]] = {}
        self._child_watches: dict[str, dict[Session, None]] = {}
        self._replies_to_lose: dict[str, deque[Callable[[], None]]] = {}
        """By node: a callback for each reply to lose, called when the reply is lost."""
        self._delay_ns = 0
        self._last_turn_ns = 0
        self.requests = 0
        """Those that have arrived so far; heartbeats are none."""
        self._backlog: deque[tuple[Timer, Callable[[], None]]] = deque()

    # ------------------------------------------------------------ state

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
            for session in self._live_sessions()
            if session.client.node_name == node_name
        ]

    @property
    def is_prompt(self) -> bool:
        """Whether requests are carried out as they arrive."""
        return self.is_up and not self._delay_ns and not self._backlog

    # ------------------------------------------------------------ faults

    def expire(self, session_id: int) -> None:
        """End the session now, as if its timeout had passed; its client learns of it later."""
        self._end(self._sessions[session_id])

    def lose_data(self) -> None:
        """Be a new server at the same address: no session and no znode is left."""
        for session_id in list(self._sessions):
            self.expire(session_id)
        self._tree = ZnodeTree()

    def lose_connection(self, session_id: int) -> None:
        """Break the client's connection: calls in flight raise ConnectionLost; it reconnects."""
        self._sessions[session_id].client.lose_connection()

    def lose_replies(
        self, node_name: str, count: int, lost: Callable[[], None] = lambda: None
    ) -> None:
        """Break the node's connection after each of its next `count` changes, before the reply.

        lost: called each time. Earlier requests to lose replies come first.
        """
        self._replies_to_lose.setdefault(node_name, deque()).extend([lost] * count)

    def slow_down(self, delay_ms: int) -> None:
        """Carry out each request, a heartbeat's answer too, delay_ms after its arrival; 0 ends it.

        Requests keep their order, all sessions' together, as in ZooKeeper's pipeline behind a
        slow quorum; the server still notes at their arrival that a session is alive.
        """
        self._delay_ns = delay_ms * NS_PER_MS

    def stop(self) -> None:
        """Go down: all connections and all requests not carried out yet are lost."""
        self.is_up = False
        for timer, _ in self._backlog:
            timer.cancel()
        self._backlog.clear()
        for session in self._live_sessions():
            session.client.lose_connection()

    def go_on(self) -> None:
        """Come up again with tree and sessions, whose timeouts begin anew."""
        if self.is_up:
            return
        self.is_up = True
        for session in self._live_sessions():
            session.last_heard_ns = self._kernel.time_ns

    def heal(self) -> None:
        """Undo stop and slow_down; lose no more replies."""
        self.go_on()
        self.slow_down(0)
        self._replies_to_lose.clear()

    def describe(self) -> list[str]:
        """Return the server's faults in words; nothing once all are healed."""
        words = [] if self.is_up else ["zookeeper is down"]
        if self._delay_ns:
            words.append(f"zookeeper is slower by {self._delay_ns // NS_PER_MS} ms")
        for node_name, left in self._replies_to_lose.items():
            words.append(f"zookeeper loses {len(left)} replies to {node_name}")
        return words

    # ------------------------------------------------------------ sessions

    def receive(self, connection: Connection, work: Callable[[], None]) -> None:
        """Carry out a request that arrived, when its turn comes."""
        self.requests += 1
        if not self.is_up:
            connection.reset()
        elif not self._delay_ns and not self._backlog:
            work()
        else:
            self._last_turn_ns = max(self._last_turn_ns, self._kernel.time_ns + self._delay_ns)
            self._backlog.append((self._kernel.call_at(self._last_turn_ns, self._next_turn), work))

    def _next_turn(self) -> None:
        self._backlog.popleft()[1]()

    def open_session(self, client: SessionClient, connection: Connection, timeout_ms: int) -> None:
        timeout_ns, now_ns = timeout_ms * NS_PER_MS, self._kernel.time_ns
        session = Session(self._next_session_id, timeout_ns, client, connection, now_ns)
        self._next_session_id += 1
        self._sessions[session.session_id] = session
        connection.back.send(lambda: client.opened(session))
        self._beat_later(session)

    def reconnect(self, session: Session, connection: Connection) -> None:
        """Note that the session is alive; reconnect it when it is the request's turn."""
        if self.is_up and not session.is_over:
            session.last_heard_ns = self._kernel.time_ns
        self.receive(connection, lambda: self._take_up(session, connection))

    def _take_up(self, session: Session, connection: Connection) -> None:
        """Serve the session on this connection, and send its watch events since."""
        if session.is_over:
            connection.back.send(session.client.expired)
        elif not connection.is_over:
            session.connection = connection
            connection.back.send(session.client.connected)
            for _ in session.unseen:
                self._send_unseen(session)

    def serves(self, session: Session, connection: Connection) -> bool:
        """Return whether a request of the session on that connection is read, not refused."""
        return session.connection is connection and not session.is_over

    def detach(self, session: Session) -> None:
        """Make each of the session's watches fire once after the session's next connection.

        kazoo forgets its watches with the connection, and its port makes up for that likewise.
        """
        for kind, watches in (
            (CoordinationEventKind.CHILDREN_CHANGED, self._child_watches),
            (CoordinationEventKind.NODE_CHANGED, self._data_watches),
        ):
            for path, sessions in watches.items():
                if session in sessions:
                    del sessions[session]
                    session.unseen.append(CoordinationEvent(kind, path))

    def close_session(self, session: Session) -> tuple[None, list[Change]]:
        """End the session on its client's request; an operation that reports its changes itself."""
        if not session.is_over:
            self._end(session, author=session.client.node_name)
        return None, []

    def ping(self, session: Session, connection: Connection) -> None:
        """Note that the session is alive, and answer like any other request."""
        if self.serves(session, connection) and self.is_up:
            session.last_heard_ns = self._kernel.time_ns
            self.receive(connection, lambda: connection.back.send(session.client.heard))

    def _live_sessions(self) -> list[Session]:
        return [session for session in self._sessions.values() if not session.is_over]

    def _beat_later(self, session: Session) -> None:
        interval_ns = session.timeout_ns // HEARTBEATS_PER_TIMEOUT
        self._kernel.call_later(interval_ns, lambda: self._beat(session))

    def _beat(self, session: Session) -> None:
        """Exchange a heartbeat with the client; end the session after too long a silence."""
        client = session.client
        if client.holds(session):
            client.beat()
        elif session.is_over and not client.awaits_session():
            return
        silence_ns = self._kernel.time_ns - session.last_heard_ns
        if self.is_up and not session.is_over and silence_ns >= session.timeout_ns:
            self._end(session)
        self._beat_later(session)

    def _end(self, session: Session, author: str = "") -> None:
        """End the session and, unless its client requested it, close the connection."""
        session.is_over = True
        for watches in (*self._data_watches.values(), *self._child_watches.values()):
            watches.pop(session, None)
        if not author:
            session.connection.back.send(session.client.lose_connection)
        changes = [
            change
            for path in self._tree.owned_by(session.session_id)
            for change in self._tree.delete(path, ANY_VERSION)
        ]
        self._fire(changes)
        self._tell(author, changes)

    # ------------------------------------------------------------ operations

    def apply(
        self, session: Session, operation: Callable[[ZnodeTree], tuple[object, list[Change]]]
    ) -> object:
        """Carry out an operation, fire its watches and return its result.

        Raises:
            CoordinationError: refused; the tree is unchanged.
        """
        if session.is_over:
            raise SessionExpired(hex(session.session_id))
        result, changes = operation(self._tree)
        if changes:
            self._fire(changes)
            self._tell(session.client.node_name, changes)
            if self._replies_to_lose:
                self._maybe_lose_reply(session)
        return result

    def _tell(self, author: str, changes: list[Change]) -> None:
        if changes and self.applied is not None:
            self.applied(author, tuple(change.path for change in changes))

    def _maybe_lose_reply(self, session: Session) -> bool:
        name = session.client.node_name
        left = self._replies_to_lose.get(name)
        if not left:
            return False
        lost = left.popleft()
        if not left:
            del self._replies_to_lose[name]
        session.connection.reset()
        lost()
        return True

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
        if not session.connection.is_over:
            self._send_unseen(session)

    def _send_unseen(self, session: Session) -> None:
        """Send the next watch event that has not arrived."""
        client = session.client
        session.connection.back.send(lambda: client.watch_fired(session.unseen.popleft()))
