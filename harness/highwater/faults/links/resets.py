"""Breaks connections between nodes: the kernel destroys them at one end.

The other end of a broken connection gets a reset; that of a half-open one gets none. The kernels'
lists of connections prove both. A broken connection is gone at both ends. A half-open one is gone
at one end and established at the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from highwater.faults.done import prove
from highwater.faults.links.namespaces import Namespaces

PROGRAM = "tcp_in_namespace.py"
GONE_WITHIN_S = 5.0
UNTOLD_MS = 30_000
"""How long the other end of a half-open connection gets no reset, even if it sends data."""

Connection = tuple[str, int, str, int]
"""This side's address and port, then the peer's."""


class Report(msgspec.Struct, frozen=True):
    """What tcp_in_namespace.main reports."""

    found: tuple[Connection, ...]
    left: tuple[Connection, ...]
    error: str = ""
    established: tuple[Connection, ...] = ()


@dataclass(frozen=True, slots=True)
class Broken:
    """Connections that are broken, as listed by the nodes at which they were destroyed."""

    connections: tuple[Connection, ...]
    seen_at_both_ends: int
    """How many of them; the other ends of the rest are nodes that do not run, or clients."""

    def __str__(self) -> str:
        said = ", ".join(f"{a}:{p} - {b}:{q}" for a, p, b, q in self.connections)
        count = len(self.connections)
        return f"{count} broken, {self.seen_at_both_ends} seen to be gone at both ends: {said}"


@dataclass(frozen=True, slots=True)
class HalfOpened:
    """Connections that one end has forgotten, as they were listed there."""

    connections: tuple[Connection, ...]

    def __str__(self) -> str:
        said = ", ".join(f"{a}:{p} - {b}:{q}" for a, p, b, q in self.connections)
        count = len(self.connections)
        return f"{count} gone here and established there: {said}"


def break_connections(
    namespaces: Namespaces,
    peers: Mapping[int, Sequence[str]],
    ports: Collection[int],
    node_at: Mapping[str, int],
) -> Broken:
    """Break each node's connections with its peers that use one of the ports at either end.

    peers: by node, the addresses of its peers.
    node_at: the nodes that run, by address.

    Raises:
        NotInNamespace: a node could not be reached.
        NotDone: there was no such connection, the kernel does not break any, or one is still there.
    """
    broken = _destroy(namespaces, peers, ports, untold_ms=0)
    at_other_end: dict[int, list[Connection]] = {}
    for connection in broken:
        other = _other_end(connection)
        if other[0] in node_at:
            at_other_end.setdefault(node_at[other[0]], []).append(other)
    checks = {node: _task([], gone=gone) for node, gone in at_other_end.items()}
    seen = namespaces.ask(checks, PROGRAM, Report)
    left = [each for report in seen.values() for each in report.left]
    prove(not left, f"still there: {left}")
    return Broken(broken, sum(len(each) for each in at_other_end.values()))


def half_open(
    namespaces: Namespaces,
    peers: Mapping[int, Sequence[str]],
    ports: Collection[int],
    node_at: Mapping[str, int],
) -> HalfOpened:
    """Have each node forget its connections with its peers that use one of the ports at either end.

    Data that peers send on these connections is lost for UNTOLD_MS; after that, a reset answers.
    peers, node_at: as in break_connections.

    Raises:
        NotInNamespace: a node could not be reached.
        NotDone: there was no such connection, or one is not gone at the node, or is not established
            at the peer.
    """
    gone = _destroy(namespaces, peers, ports, untold_ms=UNTOLD_MS)
    others = {node_at[peer] for _, _, peer, _ in gone if peer in node_at}
    here = sorted({address for address, _, _, _ in gone})
    at_peers = _task([{"peer": address, "ports": sorted(ports)} for address in here])
    seen = namespaces.ask(dict.fromkeys(sorted(others), at_peers), PROGRAM, Report)
    established = {each for report in seen.values() for each in report.established}
    told = [each for each in map(_other_end, gone) if each not in established]
    prove(not told, f"gone at the other end too, or not to be seen there: {told}")
    return HalfOpened(gone)


def _destroy(
    namespaces: Namespaces,
    peers: Mapping[int, Sequence[str]],
    ports: Collection[int],
    *,
    untold_ms: int,
) -> tuple[Connection, ...]:
    """Destroy the connections at the nodes, and return them as the nodes listed them.

    Raises:
        NotInNamespace: a node could not be reached.
        NotDone: there was no such connection, the kernel does not break any, or one is still there.
    """
    tasks = {
        node: _task(
            [{"peer": peer, "ports": sorted(ports)} for peer in addresses],
            is_break=True,
            untold_ms=untold_ms,
        )
        for node, addresses in peers.items()
    }
    reports = namespaces.ask(tasks, PROGRAM, Report)
    errors = sorted({report.error for report in reports.values() if report.error})
    prove(not errors, f"the kernel does not break connections: {', '.join(errors)}")
    found = tuple(each for report in reports.values() for each in report.found)
    prove(bool(found), "there is no connection between them now")
    left = [each for report in reports.values() for each in report.left]
    prove(not left, f"still there: {left}")
    return found


def _other_end(connection: Connection) -> Connection:
    address, port, peer, peer_port = connection
    return peer, peer_port, address, port


def _task(
    of: Sequence[object],
    *,
    is_break: bool = False,
    untold_ms: int = 0,
    gone: Sequence[Connection] = (),
) -> dict[str, Any]:
    return {
        "of": of, "break": is_break, "untold_ms": untold_ms, "gone": gone,
        "within_s": GONE_WITHIN_S,
    }  # fmt: skip
