"""/brokers/topics/T: a topic's id, its partitions' replicas, and their reassignments.

Source: KIP-455 (adding and removing replicas), KIP-516 (the topic id); Kafka's own JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from highwater_core.ids import NO_TOPIC_ID, NodeId, TopicId, TopicPartition
from highwater_core.znodes import (
    MalformedZnode,
    Replicas,
    TopicIdText,
    decode,
    encode,
    is_id,
    topic_path,
)


@dataclass(frozen=True, slots=True)
class TopicZnode:
    """/brokers/topics/T: partition number (as text) to its replicas, preferred first.

    The second and third map have only partitions whose replicas are being moved (KIP-455).
    """

    partitions: dict[str, Replicas]
    version: int = 1
    adding_replicas: dict[str, Replicas] = field(default_factory=dict)
    removing_replicas: dict[str, Replicas] = field(default_factory=dict)
    topic_id: TopicIdText = NO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class Reassignment:
    """The added ones of a partition's replicas, and those to remove once the others are in sync.

    Source: KIP-455. Invariant: both are among the assigned, and neither is all of them. A replica
    that an earlier target had added, and that goes again, is in both.
    """

    adding: tuple[NodeId, ...] = ()
    removing: tuple[NodeId, ...] = ()


class TopicContent(NamedTuple):
    """/brokers/topics/T with the field's types; both maps by partition in ascending order."""

    assignment: dict[TopicPartition, tuple[NodeId, ...]]
    topic_id: TopicId
    reassignments: dict[TopicPartition, Reassignment]
    """The reassignments of partitions whose replicas are being moved."""


def encode_topic(
    assignment: Mapping[int, tuple[NodeId, ...]],
    topic_id: TopicId,
    reassignments: Mapping[int, Reassignment] = MappingProxyType({}),
) -> bytes:
    """Return /brokers/topics/T in the oldest version that has all fields in use.

    That is 3 with a topic id, 2 where replicas are being moved, else 1 (V3 has neither).
    """
    partitions = {
        str(number): [int(r) for r in assignment[number]] for number in sorted(assignment)
    }
    moved = [(str(number), reassignments[number]) for number in sorted(reassignments)]
    adding = {name: [int(r) for r in each.adding] for name, each in moved if each.adding}
    removing = {name: [int(r) for r in each.removing] for name, each in moved if each.removing}
    if topic_id != NO_TOPIC_ID:
        return encode(TopicZnode(partitions, 3, adding, removing, topic_id))
    if not moved:
        return msgspec.json.encode({"version": 1, "partitions": partitions})
    content = {"partitions": partitions, "adding_replicas": adding, "removing_replicas": removing}
    return msgspec.json.encode({"version": 2, **content})


def encode_content(content: TopicContent) -> bytes:
    """Return /brokers/topics/T with that content."""
    return encode_topic(
        {at.partition: replicas for at, replicas in content.assignment.items()},
        content.topic_id,
        {at.partition: each for at, each in content.reassignments.items()},
    )


def with_replicas(
    content: TopicContent,
    at: TopicPartition,
    replicas: tuple[NodeId, ...],
    reassignment: Reassignment,
) -> TopicContent:
    """Return the content in which the partition has these replicas, and is moved so."""
    reassignments = {key: each for key, each in content.reassignments.items() if key != at}
    if reassignment != Reassignment():
        reassignments[at] = reassignment
    return content._replace(
        assignment={**content.assignment, at: replicas}, reassignments=reassignments
    )


def decode_topic(data: bytes, topic: str) -> TopicContent:
    """Return the topic's assignment, id and reassignments.

    Raises:
        MalformedZnode: not the documented JSON, or added or removed replicas that are not assigned.
    """
    path = topic_path(topic)
    znode = decode(TopicZnode, data, path)
    odd = [name for name in znode.partitions if not is_id(name)]
    if odd:
        raise MalformedZnode(f"{path}: partition {odd[0][:40]!r} is not a number in its range")
    numbers = sorted(int(name) for name in znode.partitions)
    assignment = {
        TopicPartition(topic, number): tuple(NodeId(r) for r in znode.partitions[str(number)])
        for number in numbers
    }
    return TopicContent(assignment, TopicId(znode.topic_id), _reassignments(znode, topic))


def _reassignments(znode: TopicZnode, topic: str) -> dict[TopicPartition, Reassignment]:
    moved = {name for each in (znode.adding_replicas, znode.removing_replicas) for name in each}
    strange = sorted(moved - set(znode.partitions))
    if strange:
        name = strange[0][:40]
        raise MalformedZnode(f"{topic_path(topic)}: {name!r} is moved, and is no partition")
    found: dict[TopicPartition, Reassignment] = {}
    for name in sorted(moved, key=int):
        adding = tuple(NodeId(r) for r in znode.adding_replicas.get(name, []))
        removing = tuple(NodeId(r) for r in znode.removing_replicas.get(name, []))
        listed = (*adding, *removing)
        assigned = set(znode.partitions[name])
        is_sound = all(
            len(set(some)) == len(some) and set(some) < assigned for some in (adding, removing)
        )
        if not is_sound:
            raise MalformedZnode(
                f"{topic_path(topic)}: partition {name} has replicas {znode.partitions[name]},"
                f" adding {adding} and removing {removing}"
            )
        if listed:
            found[TopicPartition(topic, int(name))] = Reassignment(adding, removing)
    return found
