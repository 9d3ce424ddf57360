"""Which packets faults on links drop or hold back, and nft's script for it. Pure.

Packets are dropped at the node where they arrive, so their source needs no rules. Only packets to
clients are dropped where they leave, since the clients' machine has no rules.
A plane is recognised by the server's port, and either end may be the server. So the packets of
source -> target on `replication` are the source's requests to the target's port 9093, and the
answers that the source sends from its own port 9093.
The elements of nft's sets end by themselves, so a rule that is not renewed ends.
Packets that are held back are marked with the number of their pipe. The mark sends them to the
node's packet queue (packet_queue.py), if one runs.
Source: docs/reference/faults.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Address

from highwater.cluster.topology import (
    CLIENT_PORT,
    CONTROL_PORT,
    EXTERNAL_PORT,
    REPLICATION_PORT,
    ZOOKEEPER_PORT,
)
from highwater.faults.links.in_namespace import CANARY_PORT

TABLE = "highwater"
ARRIVING, LEAVING = "arriving", "leaving"
"""The table's chains that drop. Before each of them a chain marks the packets to hold back."""
_MARKING_PRIORITY = -200
"""Chains that mark come before the queue's (nfqueue.PRIORITY); chains that drop come last."""
PLANE_PORTS: Mapping[str, tuple[int, ...]] = {
    "client": (CLIENT_PORT, EXTERNAL_PORT),
    "replication": (REPLICATION_PORT,),
    "control": (CONTROL_PORT,),
    "zookeeper": (ZOOKEEPER_PORT,),
}
ALWAYS = 100
ALL_PORTS = 0
"""As a direction's port: all packets of all protocols."""


@dataclass(frozen=True, slots=True, order=True)
class Direction:
    """The packets that go from an address to a node, from or to a server's port.

    source: the address.
    target: the node.
    port: the server's port; ALL_PORTS for all packets.
    leaves: whether the packets go the other way, from the node to the address.
    """

    source: str
    target: int
    port: int
    leaves: bool = False

    def covers(self, other: Direction) -> bool:
        """Return whether all packets of the other direction belong to this one as well."""
        return self == other or (self.port == ALL_PORTS and self == replace(other, port=ALL_PORTS))


@dataclass(frozen=True, slots=True)
class Drop:
    """A share of a direction's packets, in percent, that is dropped until a time.

    Times are CLOCK_MONOTONIC.
    until_ns: the time until which packets are certainly dropped.
    gone_ns: the time from which on certainly none is dropped. Between the two it is uncertain: the
        kernel counts from when it took the rules, which lies between the start and the end of nft.
    """

    direction: Direction
    percent: int
    until_ns: int
    gone_ns: int = 0


@dataclass(frozen=True, slots=True)
class Lose:
    """A share of all packets is lost."""

    percent: int


@dataclass(frozen=True, slots=True)
class Slow:
    """Packets arrive later, by latency_ms and up to jitter_ms more, in their order.

    seed: the jitter's seed.
    """

    latency_ms: int
    jitter_ms: int = 0
    seed: str = ""


@dataclass(frozen=True, slots=True)
class Narrow:
    """IP packets pass one after the other, at a bandwidth."""

    kbit_per_s: int


@dataclass(frozen=True, slots=True)
class Hold:
    """A direction's packets are held back until a time, CLOCK_MONOTONIC.

    Of two latencies of a direction, or two bandwidths, the later one counts, as in the simulator.
    """

    direction: Direction
    by: Slow | Narrow
    until_ns: int


def pipe_of(direction: Direction) -> int:
    """Return the number of the direction's pipe: one for all ports of a plane, never 0."""
    plane = next(n for n, ports in enumerate(PLANE_PORTS.values(), 1) if direction.port in ports)
    host = int(IPv4Address(direction.source)) & 0xFF_FFFF
    return host << 4 | plane << 1 | direction.leaves


def script(drops: Iterable[Drop], now_ns: int, holds: Iterable[Hold] = ()) -> str:
    """Return nft's script that replaces all our rules at a target by these, in one transaction.

    Drops of different shares act one after the other. Of two with the same share the longer counts.
    Where no drop and no hold lasts beyond now_ns, the script removes our table. Else the chains
    stay: the kernel drops packets that are held back when their chain is removed. A set without
    rules stays until the table is removed, and its elements end by themselves.
    """
    by_set: dict[_Set, dict[Direction, int]] = {}
    for drop in drops:
        at = drop.direction
        until_ns = by_set.setdefault(_Set(drop.percent, at.leaves, at.port == ALL_PORTS), {})
        if drop.until_ns > now_ns:
            until_ns[at] = max(drop.until_ns, until_ns.get(at, 0))
    held: dict[Direction, int] = {}
    for hold in holds:
        if hold.until_ns > now_ns:
            held[hold.direction] = max(hold.until_ns, held.get(hold.direction, 0))
    lines = [
        *(line for leaves in (False, True) for line in _marks(held, now_ns, leaves=leaves)),
        *(
            line
            for key, until_ns in sorted(by_set.items())
            if until_ns
            for line in key.lines(until_ns, now_ns)
        ),
    ]
    return "\n".join([*_CHAINS, *lines, ""]) if lines else NO_RULES


_CHAINS = (
    f"add table inet {TABLE}",
    *(
        f"add chain inet {TABLE} {name} {{ type filter hook {hook} priority {priority}; }}"
        for chain, hook in ((ARRIVING, "input"), (LEAVING, "output"))
        for name, priority in ((f"marking_{chain}", _MARKING_PRIORITY), (chain, 0))
    ),
    f"flush table inet {TABLE}",
)


def _marks(until_ns: Mapping[Direction, int], now_ns: int, *, leaves: bool) -> Iterator[str]:
    """Yield the lines that mark packets with the number of their pipe."""
    chain, address = (LEAVING, "daddr") if leaves else (ARRIVING, "saddr")
    elements = ", ".join(
        f"{at.source} . {at.port} {_timeout(end_ns, now_ns)} : {pipe_of(at):#x}"
        for at, end_ns in sorted(until_ns.items())
        if at.leaves is leaves
    )
    if elements:
        name = f"pipes_{chain}"
        yield from _filled("map", name, "ipv4_addr . inet_service : mark", elements)
        for end in ("dport", "sport"):
            lookup = f"ip {address} . th {end} map @{name}"
            yield f"add rule inet {TABLE} marking_{chain} meta mark set {lookup}"


def _filled(kind: str, name: str, of: str, elements: str) -> Iterator[str]:
    """Yield the lines that make a set or map, if it is not there, and replace its elements."""
    yield f"add {kind} inet {TABLE} {name} {{ type {of}; flags timeout; }}"
    yield f"flush {kind} inet {TABLE} {name}"
    yield f"add element inet {TABLE} {name} {{ {elements} }}"


def _timeout(end_ns: int, now_ns: int) -> str:
    return f"timeout {max(1, (end_ns - now_ns) // 1_000_000)}ms"


@dataclass(frozen=True, slots=True, order=True)
class _Set:
    """One of nft's sets, with its rules: drops of equal share, chain and kind of element."""

    percent: int
    leaves: bool
    of_all_ports: bool

    @property
    def name(self) -> str:
        return f"lose_{self.percent}" + "_leaving" * self.leaves + "_all" * self.of_all_ports

    def lines(self, until_ns: Mapping[Direction, int], now_ns: int) -> Iterator[str]:
        elements = ", ".join(
            f"{self._element(at)} {_timeout(end_ns, now_ns)}"
            for at, end_ns in sorted(until_ns.items())
        )
        of = "ipv4_addr" if self.of_all_ports else "ipv4_addr . inet_service"
        yield from _filled("set", self.name, of, elements)
        chance = "" if self.percent >= ALWAYS else f"numgen random mod 100 < {self.percent} "
        chain, address = (LEAVING, "daddr") if self.leaves else (ARRIVING, "saddr")
        ends = [""] if self.of_all_ports else [" . th dport", " . th sport"]
        for end in ends:
            yield f"add rule inet {TABLE} {chain} ip {address}{end} @{self.name} {chance}drop"

    def _element(self, at: Direction) -> str:
        return at.source if self.of_all_ports else f"{at.source} . {at.port}"


NO_RULES = f"add table inet {TABLE}\ndelete table inet {TABLE}\n"
"""Nft's script that removes our table, whether it is there or not."""


# ---------------------------------------------------------------- canaries


@dataclass(frozen=True, slots=True)
class Canary:
    """One stream of datagrams along a direction, to the server's port or from it.

    A direction of all ports has one stream, from and to a port that is no server's.
    """

    direction: Direction
    is_answer: bool

    @property
    def name(self) -> str:
        way = "from" if self.is_answer else "to"
        at = self.direction
        return f"{at.source}>{at.target}:{way}:{at.port}"

    def ports(self) -> tuple[int, int]:
        """Return the source port and the destination port of its datagrams."""
        port = self.direction.port
        if port == ALL_PORTS:
            return CANARY_PORT, CANARY_PORT
        return (port, CANARY_PORT) if self.is_answer else (CANARY_PORT, port)


def canaries_of(directions: Iterable[Direction]) -> list[Canary]:
    return [
        Canary(each, is_answer)
        for each in directions
        for is_answer in ((False,) if each.port == ALL_PORTS else (False, True))
    ]
