"""What the checks need of an observer's looks at a running cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from highwater_core.ids import TopicPartition
from highwater_core.messages import NodeSnapshot, ReplicaSnapshot


class Look(Protocol):
    """One look at every node; None is a node that did not answer.

    Ordering: time_ns is when the look was complete, and the next one begins after it: every
    snapshot of a look is older than every snapshot of the next.
    """

    @property
    def time_ns(self) -> int: ...

    @property
    def nodes(self) -> Mapping[int, NodeSnapshot | None]: ...


def replica_at(look: Look, node: int, at: TopicPartition) -> ReplicaSnapshot | None:
    """Return the node's replica of the partition in the look, None where it told of none."""
    snapshot = look.nodes.get(node)
    replicas = () if snapshot is None else snapshot.replicas
    return next((each for each in replicas if each.topic_partition == at), None)


def incarnation_at(look: Look, node: int) -> int:
    """Return which incarnation of the node answered, -1 when it did not."""
    snapshot = look.nodes.get(node)
    return -1 if snapshot is None else snapshot.incarnation


def leaders_in(look: Look) -> list[tuple[int, ReplicaSnapshot]]:
    """Return every node with a partition of which it says that it leads it: (node, replica)."""
    return [
        (node, replica)
        for node, snapshot in look.nodes.items()
        if snapshot is not None
        for replica in snapshot.replicas
        if replica.role == "leader"
    ]
