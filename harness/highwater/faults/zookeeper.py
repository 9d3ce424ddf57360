"""Faults of ZooKeeper: sessions that expire at once, and a server that is away for a time.

A session is ended as by its expiry: another connection takes it over and closes it, so its
ephemeral znodes vanish and its owner is told when it connects again. That needs the session's
password, which ZooKeeper derives from the session's id (ZooKeeperServer.generatePasswd).
Source: ZooKeeper's FAQ, "Is there an easy way to expire a session for testing?".
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable

from highwater.cluster.cluster import Cluster
from highwater.cluster.topology import ZOOKEEPER, NodeKind
from highwater.cluster.zookeeper_dump import four_letter_word
from highwater.faults.done import Done, NotDone, prove
from highwater.waiting import eventually
from highwater_core import znodes
from highwater_core.ids import Endpoint, NodeId

PROVEN_WITHIN_S = 10.0
ANSWERS_WITHIN_S = 30.0
SILENT_FOR_S = 0.3
"""How long a stopped server must not answer. A running server answers much sooner."""
_SOCKET_TIMEOUT_S = 5.0
_SECRET = 0xB3415C00
_PASSWORD_BYTES = 16
_CLOSE_SESSION = -11
_ANY_TIMEOUT_MS = 10_000


# ---------------------------------------------------------------- sessions


def session_password(session_id: int) -> bytes:
    """Return the password that ZooKeeper gave the session: java.util.Random's bytes by its id."""
    mask = (1 << 48) - 1
    seed = ((session_id ^ _SECRET) ^ 0x5DEECE66D) & mask
    found = b""
    while len(found) < _PASSWORD_BYTES:
        seed = (seed * 0x5DEECE66D + 0xB) & mask
        found += (seed >> 16 & 0xFFFFFFFF).to_bytes(4, "little")
    return found


def owners_in(dump: str) -> dict[str, int]:
    """Return each ephemeral znode's session by its path, from ZooKeeper's answer to "dump"."""
    owners: dict[str, int] = {}
    session_id = 0
    _, _, of_sessions = dump.partition("Sessions with Ephemerals")
    for line in of_sessions.splitlines()[1:]:
        words = line.strip()
        if words.startswith("0x"):
            session_id = int(words.rstrip(":"), 16)
            session_id -= (session_id >> 63) << 64  # a Java long, shown without its sign
        elif words.startswith("/"):
            owners[words] = session_id
    return owners


def _shown(session_id: int) -> str:
    """Return the session as ZooKeeper writes it."""
    return f"0x{session_id % (1 << 64):x}"


def znode_of(cluster: Cluster, node: int) -> str:
    """Return the path of the ephemeral znode that the node keeps as long as its session lasts."""
    if cluster.topology.node(node).kind is NodeKind.CONTROLLER:
        return znodes.controller_endpoint_path(NodeId(node))
    return znodes.broker_path(NodeId(node))


def end_session(endpoint: Endpoint, session_id: int) -> None:
    """Take the session over and close it, in one packet, before its owner takes it back.

    Raises:
        OSError: ZooKeeper does not answer.
    """
    # protocol, last zxid seen, timeout, session, password, read-only
    connect = struct.pack(">iqiq", 0, 0, _ANY_TIMEOUT_MS, session_id)
    connect += struct.pack(">i", _PASSWORD_BYTES) + session_password(session_id) + b"\0"
    close = struct.pack(">ii", 1, _CLOSE_SESSION)
    frames = b"".join(struct.pack(">i", len(each)) + each for each in (connect, close))
    with socket.create_connection((endpoint.host, endpoint.port), _SOCKET_TIMEOUT_S) as connection:
        connection.sendall(frames)
        while connection.recv(4096):
            pass  # its answers, until it closes the connection


class ZooKeeperFaults:
    """The faults of one cluster's ZooKeeper; calls may come from different threads."""

    def __init__(self, cluster: Cluster, start: Callable[[int], None]) -> None:
        """start: starts a stopped node, and loads its links' rules and fail-points."""
        self._cluster = cluster
        self._start = start
        self._lock = threading.Lock()
        self._stops = 0
        self._pauses = 0

    def expire_session(self, node: int) -> Done:
        """End the node's session.

        Raises:
            NotDone: the node has no session now.
            NeverHappened, OSError: the session is not seen to be over.
        """
        path = znode_of(self._cluster, node)
        session_id = self._owners().get(path)
        if session_id is None:
            raise NotDone(f"node {node} has no session now: there is no {path}")
        end_session(self._cluster.zookeeper_endpoint, session_id)
        eventually(
            lambda: self._is_over(session_id),
            within=PROVEN_WITHIN_S,
            what=f"session {_shown(session_id)} is over",
            state=self._owners,
        )
        proof = f"{path} of session {_shown(session_id)} is gone"
        return Done(node, proof, lambda: "over at once")

    def _is_over(self, session_id: int) -> bool:
        answer = self._word("dump")
        return bool(answer) and _shown(session_id) not in answer

    def _owners(self) -> dict[str, int]:
        return owners_in(self._word("dump"))

    def _word(self, word: str) -> str:
        return four_letter_word(self._cluster.zookeeper_endpoint, word, timeout_s=2.0)

    # ------------------------------------------------------------ the server

    def stop(self) -> Done:
        """Stop the server; it starts again when the last fault that stopped it is reverted.

        Raises:
            NotDone: the server still answers, or is frozen: a kill would come when it wakes.
        """
        with self._lock:
            if self._pauses:
                raise NotDone("ZooKeeper is frozen by another fault")
            before = self._owners()
            self._stops += 1
            try:
                if self._cluster.exit_code(ZOOKEEPER) is None:
                    # Not by SIGTERM: the server would take seconds to end.
                    self._cluster.kill(ZOOKEEPER)
                code = self._cluster.exit_code(ZOOKEEPER)
                prove(code is not None and self._word("ruok") == "", "ZooKeeper answers still")
            except BaseException:
                self._stops -= 1
                raise
        proof = f"exit code {code}, no answer to ruok"
        return Done(int(ZOOKEEPER), proof, lambda: self._go_on(before))

    def _go_on(self, before: dict[str, int]) -> str:
        """Start the server, and see that the sessions from before are there."""
        with self._lock:
            self._stops -= 1
            if self._stops:
                return "stopped by another fault still"
            if self._cluster.status(ZOOKEEPER) != "running":
                self._start(ZOOKEEPER)
            return self._serves(before)

    def pause(self) -> Done:
        """Freeze the server; it wakes when the last fault that froze it is reverted.

        Raises:
            NotDone: the server does not run, or still answers.
            NeverHappened: the freezer does not get all of its processes.
        """
        with self._lock:
            status = self._cluster.status(ZOOKEEPER)
            if status != "running" and not self._pauses:
                raise NotDone(f"ZooKeeper is {status}")
            before = self._owners() if status == "running" else {}
            self._pauses += 1
            try:
                if status == "running":
                    self._cluster.pause(ZOOKEEPER)
                is_frozen = self._cluster.status(ZOOKEEPER) == "paused"
                prove(is_frozen and self._is_silent(), "ZooKeeper answers still")
            except BaseException:
                self._pauses -= 1
                raise
        proof = "the engine says paused, no answer to ruok"
        return Done(int(ZOOKEEPER), proof, lambda: self._wake(before))

    def _is_silent(self) -> bool:
        endpoint = self._cluster.zookeeper_endpoint
        return four_letter_word(endpoint, "ruok", timeout_s=SILENT_FOR_S) == ""

    def _wake(self, before: dict[str, int]) -> str:
        """Let the server go on, and see that it serves."""
        with self._lock:
            self._pauses -= 1
            if self._pauses:
                return "frozen by another fault still"
            if self._cluster.status(ZOOKEEPER) == "paused":
                self._cluster.unpause(ZOOKEEPER)
            return self._serves(before)

    def _serves(self, before: dict[str, int]) -> str:
        """Wait until the server serves, and return how many earlier sessions it still has."""
        eventually(
            lambda: "Mode: " in self._word("srvr"),
            within=ANSWERS_WITHIN_S,
            what="ZooKeeper serves",
            state=lambda: self._cluster.logs(ZOOKEEPER, tail=5),
        )
        # A node may have left meanwhile, so the count is reported, not required.
        sessions = set(before.values())
        kept = sessions & set(self._owners().values())
        return f"serves, and has {len(kept)} of {len(sessions)} sessions from before"
