"""Looks at a running cluster: every node's snapshot at one moment, and the partitions' leaders.

On disk: one JSON object a line, in the order in which the observer looked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from highwater_core.ids import NodeId, TopicPartition
from highwater_core.json_lines import decode_lines
from highwater_core.messages import NodeSnapshot, ReplicaSnapshot
from highwater_core.numbers import Int64


@dataclass(frozen=True, slots=True)
class Look:
    """One look at every node; None is a node that did not answer.

    Ordering: time_ns is the end of the look by the recorder's clock, and the next one begins after
    it. So every snapshot of a look is older than every snapshot of the next.
    """

    time_ns: Int64
    nodes: Mapping[int, NodeSnapshot | None]

    def __post_init__(self) -> None:
        """Refuse a snapshot of another node, and a replica that a node has twice.

        Raises:
            ValueError: there is one.
        """
        for node, snapshot in self.nodes.items():
            if snapshot is None:
                continue
            places = {replica.topic_partition for replica in snapshot.replicas}
            if snapshot.node_id != node or len(places) < len(snapshot.replicas):
                raise ValueError(f"node {node} reported {snapshot.node_id}, or a replica twice")


@dataclass(frozen=True, slots=True)
class Leadership:
    """A partition's leader by its own snapshot, at the highest leader epoch in a look."""

    topic_partition: TopicPartition
    leader: NodeId
    leader_epoch: int
    isr: tuple[NodeId, ...]
    high_watermark: int
    log_end_offset: int


_DECODER = msgspec.json.Decoder(Look)


def encode_look(look: Look) -> bytes:
    """Return one line of JSON, without its newline; nodes ascend."""
    nodes = {str(node): look.nodes[node] for node in sorted(look.nodes)}
    return msgspec.json.encode({"time_ns": look.time_ns, "nodes": nodes})


def decode_looks(lines: Iterable[bytes]) -> list[Look]:
    """Return the looks of complete lines; a torn last line of a killed observer is left out.

    Raises:
        DamagedLines: a line before the last is malformed.
    """
    return decode_lines(_DECODER.decode, lines)


def replica_at(look: Look, node: int, at: TopicPartition) -> ReplicaSnapshot | None:
    """Return the node's replica of the partition in the look, None where it has none."""
    snapshot = look.nodes.get(node)
    replicas = () if snapshot is None else snapshot.replicas
    return next((each for each in replicas if each.topic_partition == at), None)


def replicas_of(look: Look, topic_partition: TopicPartition) -> dict[int, ReplicaSnapshot]:
    """Return each answering broker's replica of the partition, by broker id, ascending."""
    return {
        node_id: replica
        for node_id in sorted(look.nodes)
        if (snapshot := look.nodes[node_id]) is not None
        for replica in snapshot.replicas
        if replica.topic_partition == topic_partition
    }


def incarnation_at(look: Look, node: int) -> int:
    """Return the incarnation of the node that answered, -1 when it did not."""
    snapshot = look.nodes.get(node)
    return -1 if snapshot is None else snapshot.incarnation


def leaders_in(look: Look) -> list[tuple[int, ReplicaSnapshot]]:
    """Return (node, replica) for every replica that is a leader by its own snapshot."""
    return [
        (node, replica)
        for node, snapshot in look.nodes.items()
        if snapshot is not None
        for replica in snapshot.replicas
        if replica.role == "leader"
    ]


def leaderships(look: Look) -> dict[TopicPartition, Leadership]:
    """Return the answering leader of each partition that has one, by partition, ascending."""
    found: dict[TopicPartition, Leadership] = {}
    for node_id in sorted(look.nodes):
        snapshot = look.nodes[node_id]
        for replica in snapshot.replicas if snapshot is not None else ():
            known = found.get(replica.topic_partition)
            if replica.role != "leader" or (known and known.leader_epoch >= replica.leader_epoch):
                continue
            found[replica.topic_partition] = Leadership(
                topic_partition=replica.topic_partition,
                leader=NodeId(node_id),
                leader_epoch=replica.leader_epoch,
                isr=tuple(sorted(replica.isr)),
                high_watermark=replica.high_watermark,
                log_end_offset=replica.log_end_offset,
            )
    return dict(sorted(found.items()))


def assigned_replicas(look: Look, topic_partition: TopicPartition) -> tuple[int, ...]:
    """Return the assignment as the partition's leader knows it."""
    leader = leaderships(look)[topic_partition].leader
    return replicas_of(look, topic_partition)[leader].assigned_replicas
