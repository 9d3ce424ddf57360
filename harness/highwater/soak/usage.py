"""What the nodes of one cluster take, round by round: memory, descriptors, threads, znodes, files.

A sample is taken when a round is over: no client is there, its topics are gone, all is at rest.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from highwater.cluster.cluster import Cluster
from highwater.cluster.disks import DATA_FOLDER
from highwater.cluster.in_node import ProgramFailed, run_in_node
from highwater.cluster.topology import ZOOKEEPER
from highwater_core.messages import NodeSnapshot

LOOKS, PAUSE_S = 3, 0.5
"""Of several looks the least counts: a thread or a connection may be about to end."""


class Sample(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one node took after one round.

    cluster, round: as in the ledger. kind: broker, controller, or zookeeper of znodes alone.
    resident_bytes: anonymous memory. disk_bytes: of its volume. None: not known.
    """

    cluster: int
    round: int
    plan: int
    node: int
    kind: str
    incarnation: int = 0
    resident_bytes: int | None = None
    open_files: int | None = None
    threads: int | None = None
    disk_bytes: int | None = None
    znodes: int | None = None


def take_samples(cluster: Cluster, number: int, round_: int, plan: int) -> tuple[Sample, ...]:
    """Return a sample of each node that answers, and of ZooKeeper's tree.

    Raises:
        NodeUnreachable: ZooKeeper does not answer.
    """
    looks: list[dict[int, NodeSnapshot]] = []
    for look in range(LOOKS):
        if look:
            time.sleep(PAUSE_S)
        asked = {int(node): cluster.try_snapshot(node, timeout_s=5.0) for node in cluster.node_ids}
        looks.append({node: told for node, told in asked.items() if told is not None})
    sizes = {node: _disk_bytes(cluster, node) for node in looks[-1]}
    znodes = len(cluster.zookeeper_dump())
    of_nodes = samples_of(looks, sizes, number, round_, plan)
    tree = Sample(number, round_, plan, ZOOKEEPER, "zookeeper", znodes=znodes)
    return (*of_nodes, tree)


def samples_of(
    looks: Sequence[dict[int, NodeSnapshot]],
    disk_bytes: Mapping[int, int | None],
    number: int,
    round_: int,
    plan: int,
) -> Iterator[Sample]:
    """Yield each node's least values over the looks, which are of one start of it."""
    for node, last in looks[-1].items():
        own = [look[node] for look in looks if node in look]
        own = [each for each in own if each.incarnation == last.incarnation]
        yield Sample(
            number,
            round_,
            plan,
            node,
            last.kind,
            last.incarnation,
            min(each.resident_bytes for each in own) or None,
            _least(own, "open_files"),
            _least(own, "threads"),
            disk_bytes.get(node),
        )


def _least(looks: Sequence[NodeSnapshot], name: str) -> int | None:
    """Return the counter's least value, None where a node did not know it, which is 0."""
    return min(dict(each.counters).get(name, 0) for each in looks) or None


def _disk_bytes(cluster: Cluster, node: int) -> int | None:
    """Return the size of the node's volume, None where a file went while it was measured."""
    try:
        said = run_in_node(cluster, node, ["du", "-sb", DATA_FOLDER])
    except ProgramFailed:
        return None
    return int(said.split()[0])


def append_samples(path: Path, samples: Sequence[Sample]) -> None:
    """Append a line a sample; all are on the disk when the call returns."""
    torn = path.exists() and path.read_bytes()[-1:] not in (b"", b"\n")
    with path.open("ab") as file:
        file.write(b"\n" * torn)
        file.write(b"".join(msgspec.json.encode(each) + b"\n" for each in samples))
        file.flush()
        os.fsync(file.fileno())


def read_samples(path: Path) -> list[Sample]:
    """Return the samples in their order; lines that a kill left torn are left out."""
    found = []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            found.append(msgspec.json.decode(line, type=Sample))
        except (msgspec.DecodeError, ValueError):
            continue
    return found
