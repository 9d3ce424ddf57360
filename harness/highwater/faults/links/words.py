"""The directions between containers that a plan's words for links mean. Pure.

They mean the same as in the simulator. "any" is every node, and on the client plane the clients
too. A node has no link with itself.
All clients are on the harness's machine and so have one address. The harness's own requests, on the
control plane, come from that address too, and are never dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from highwater.cluster.topology import ZOOKEEPER
from highwater.faults.done import NOBODY, Find, NotDone, found
from highwater.faults.links.rules import ALL_PORTS, PLANE_PORTS, Direction
from highwater_chaos import faults as f

CLIENTS = -1
"""Stands for the harness's machine, where a plan's clients run, among the ids of nodes."""


def directions_of(
    fault: f.Cut | f.LossyLink | f.SlowLink | f.LimitBandwidth,
    find: Find,
    addresses: Mapping[int, str],
) -> tuple[Direction, ...]:
    """Return the directions that the fault acts on, each once.

    addresses: the addresses of the nodes and of CLIENTS.

    Raises:
        NotDone: there is no such link now.
    """
    pairs = [
        (source, target)
        for source in _hosts(fault.source, fault.plane, find, addresses)
        for target in _hosts(fault.target, fault.plane, find, addresses)
        if source != target
    ]
    if isinstance(fault, f.Cut) and fault.both_ways:
        pairs += [(target, source) for source, target in pairs]
    return _directions(pairs, fault.plane, addresses)


def silenced_to_zookeeper(
    directions: Iterable[Direction], addresses: Mapping[int, str]
) -> int | None:
    """Return the node whose packets to ZooKeeper go in these directions; None if not just one's."""
    silenced = {each.source for each in directions if each.target == ZOOKEEPER}
    nodes = [node for node, address in addresses.items() if address in silenced]
    return nodes[0] if len(nodes) == 1 else None


def from_zookeeper(addresses: Mapping[int, str]) -> tuple[Direction, ...]:
    """Return the directions of ZooKeeper's replies to every node."""
    others = [node for node in addresses if node not in (CLIENTS, ZOOKEEPER)]
    return _directions([(ZOOKEEPER, node) for node in others], "zookeeper", addresses)


def around(fault: f.Isolate, find: Find, addresses: Mapping[int, str]) -> tuple[Direction, ...]:
    """Return the directions between the node and all others, both ways.

    Between nodes they have all ports; between the node and clients, the clients' plane alone.

    Raises:
        NotDone: the words mean no node now.
    """
    node = found(find, fault.node)
    others = [each for each in addresses if each not in (node, CLIENTS)]
    with_nodes = [
        direction
        for each in others
        for direction in (
            Direction(addresses[each], node, ALL_PORTS),
            Direction(addresses[node], each, ALL_PORTS),
        )
    ]
    return (*with_nodes, *with_clients(node, addresses))


def with_clients(node: int, addresses: Mapping[int, str]) -> tuple[Direction, ...]:
    """Return the directions of the clients' plane between the node and the clients, both ways."""
    return tuple(
        Direction(addresses[CLIENTS], node, port, leaves)
        for port in PLANE_PORTS["client"]
        for leaves in (False, True)
    )


def apart_from_clients(
    directions: Iterable[Direction], addresses: Mapping[int, str]
) -> tuple[int, ...]:
    """Return the targets of the directions that come from the clients."""
    found = (each.target for each in directions if each.source == addresses[CLIENTS])
    return tuple(dict.fromkeys(found))


def nodes_and_peers(
    fault: f.ResetConnections | f.HalfOpen, find: Find, addresses: Mapping[int, str]
) -> dict[int, list[str]]:
    """Return the nodes at which connections break, each with the addresses of its peers.

    The node is the link's target, or the end that is a node where the other end is the clients.
    Each pair of nodes is returned once.

    Raises:
        NotDone: there is no such link now.
    """
    sources = _hosts(fault.source, fault.plane, find, addresses)
    targets = _hosts(fault.target, fault.plane, find, addresses)
    pairs = {
        frozenset((source, target)): (source, target)
        for target in targets
        for source in sources
        if source != target
    }
    by_node: dict[int, list[str]] = {}
    for source, target in pairs.values():
        at, peer = (source, target) if target == CLIENTS else (target, source)
        by_node.setdefault(at, []).append(addresses[peer])
    if not by_node:
        raise NotDone(NOBODY)
    return by_node


def _hosts(words: str, plane: str, find: Find, addresses: Mapping[int, str]) -> list[int]:
    if words == f.ANY:
        nodes = [node for node in addresses if node not in (CLIENTS, ZOOKEEPER)]
        return [CLIENTS, *nodes] if plane == "client" else nodes
    if words == "zookeeper":
        return [ZOOKEEPER]
    node = find(words)
    return [] if node is None else [node]


def _directions(
    pairs: Iterable[tuple[int, int]], plane: str, addresses: Mapping[int, str]
) -> tuple[Direction, ...]:
    directions = {
        (
            Direction(addresses[CLIENTS], source, port, leaves=True)
            if target == CLIENTS
            else Direction(addresses[source], target, port)
        ): None
        for source, target in pairs
        for port in PLANE_PORTS[plane]
    }
    if not directions:
        raise NotDone(NOBODY)
    return tuple(directions)
