"""Sessions of ZooKeeper: whose they are, and how one is ended at once, as by its expiry.

Another connection takes the session over and closes it, so its ephemeral znodes vanish and its
owner is told when it connects again. That needs the session's password, which ZooKeeper derives
from the session's id (ZooKeeperServer.generatePasswd).
Source: ZooKeeper's FAQ, "Is there an easy way to expire a session for testing?".
"""

from __future__ import annotations

import socket
import struct

from highwater.cluster.cluster import Cluster
from highwater.cluster.topology import NodeKind
from highwater.cluster.zookeeper_dump import four_letter_word
from highwater.faults.done import Done, NotDone
from highwater.waiting import eventually
from highwater_core import znodes
from highwater_core.ids import Endpoint, NodeId

PROVEN_WITHIN_S = 10.0
_SOCKET_TIMEOUT_S = 5.0
_SECRET = 0xB3415C00
_PASSWORD_BYTES = 16
_CLOSE_SESSION = -11
_ANY_TIMEOUT_MS = 10_000


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


class SessionFaults:
    """The sessions of one cluster's nodes; calls may come from different threads."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def expire(self, node: int) -> Done:
        """End the node's session.

        Raises:
            NotDone: the node has no session now.
            NeverHappened, OSError: the session is not seen to be over.
        """
        path = znode_of(self._cluster, node)
        session_id = self.owners().get(path)
        if session_id is None:
            raise NotDone(f"node {node} has no session now: there is no {path}")
        end_session(self._cluster.zookeeper_endpoint, session_id)
        eventually(
            lambda: self._is_over(session_id),
            within=PROVEN_WITHIN_S,
            what=f"session {_shown(session_id)} is over",
            state=self.owners,
        )
        proof = f"{path} of session {_shown(session_id)} is gone"
        return Done(node, proof, lambda: "over at once")

    def _is_over(self, session_id: int) -> bool:
        answer = self._word("dump")
        return bool(answer) and _shown(session_id) not in answer

    def owners(self) -> dict[str, int]:
        """Return each ephemeral znode's session by its path; none where ZooKeeper is silent."""
        return owners_in(self._word("dump"))

    def _word(self, word: str) -> str:
        return four_letter_word(self._cluster.zookeeper_endpoint, word, timeout_s=2.0)
