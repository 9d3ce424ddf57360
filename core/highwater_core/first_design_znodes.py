"""ZooKeeper's paths and JSON of the first design: queues of state changes, leader paths.

Others may have written a znode: malformed bytes raise MalformedZnode and no other error.
Source: the first design (V2), "State change communication"; docs/decisions/0010.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from msgspec import UNSET, UnsetType

from highwater_core.ids import LeaderEpoch, NodeId, TopicPartition
from highwater_core.topic_names import find_name_fault
from highwater_core.znodes import (
    Epoch,
    Id,
    MalformedZnode,
    RaisableEpoch,
    Replicas,
    decode,
    encode,
    partition_path,
)

STATE_CHANGES = "/brokers/state"
REASSIGNED_PARTITIONS = "/brokers/partitions_reassigned"
REQUEST_PREFIX = "request-"
_SEQUENCE_DIGITS = 10
LEADER_NAME = "leader"


class StateChange(StrEnum):
    """The requests that a queue carries."""

    START_REPLICA = "start-replica"
    CLOSE_REPLICA = "close-replica"


@dataclass(frozen=True, slots=True)
class StateChangeZnode:
    """/brokers/state/<broker id>/request-N: one request, N in the order of the queue."""

    change: StateChange
    topic: str
    partition: Id
    leader_epoch: Epoch
    version: int = 1


@dataclass(frozen=True, slots=True)
class LeaderZnode:
    """/brokers/topics/T/partitions/P/leader: an ephemeral znode of the leader's session.

    catching_up: CUR, the assigned replicas that were not in sync when the leader had taken over;
    reassigned: RAR. Both are absent until then.
    """

    broker: Id
    leader_epoch: RaisableEpoch
    catching_up: Replicas | UnsetType = UNSET
    reassigned: Replicas | UnsetType = UNSET
    version: int = 1


@dataclass(frozen=True, slots=True)
class ReassignedReplicasZnode:
    """/brokers/partitions_reassigned/T/P: RAR, the replicas that the partition is to have."""

    replicas: Replicas
    version: int = 1


@dataclass(frozen=True, slots=True)
class LeaderPath:
    """The content of a leader path."""

    broker: NodeId
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class StateChangeRequest:
    """One request of a queue. leader_epoch: the epoch of the leader that sent it."""

    change: StateChange
    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch


def queue_path(broker_id: NodeId) -> str:
    return f"{STATE_CHANGES}/{broker_id}"


def request_prefix(broker_id: NodeId) -> str:
    """Return the path of the broker's next request without its number: ZooKeeper appends that."""
    return f"{queue_path(broker_id)}/{REQUEST_PREFIX}"


def leader_path(topic_partition: TopicPartition) -> str:
    return f"{partition_path(topic_partition)}/{LEADER_NAME}"


def reassigned_topic_path(topic: str) -> str:
    return f"{REASSIGNED_PARTITIONS}/{topic}"


def reassigned_path(topic_partition: TopicPartition) -> str:
    return f"{reassigned_topic_path(topic_partition.topic)}/{topic_partition.partition}"


def is_request_name(name: str) -> bool:
    """Return whether a queue's znode has the name of a request."""
    number = name.removeprefix(REQUEST_PREFIX)
    return number != name and len(number) == _SEQUENCE_DIGITS and number.isdecimal()


def encode_request(request: StateChangeRequest) -> bytes:
    at = request.topic_partition
    return encode(StateChangeZnode(request.change, at.topic, at.partition, request.leader_epoch))


def decode_request(data: bytes, path: str) -> StateChangeRequest:
    """Return the request.

    Raises:
        MalformedZnode: not the documented JSON, or a name that no topic can have.
    """
    znode = decode(StateChangeZnode, data, path)
    fault = find_name_fault(znode.topic)
    if fault:
        raise MalformedZnode(f"{path}: {fault}")
    at = TopicPartition(znode.topic, znode.partition)
    return StateChangeRequest(znode.change, at, LeaderEpoch(znode.leader_epoch))


def encode_leader(
    leader: LeaderPath,
    catching_up: tuple[NodeId, ...] | None = None,
    reassigned: tuple[NodeId, ...] = (),
) -> bytes:
    """Return a leader path's data. catching_up: None until the leader has taken over."""
    return encode(
        LeaderZnode(
            leader.broker,
            leader.leader_epoch,
            UNSET if catching_up is None else list(catching_up),
            list(reassigned) or UNSET,
        )
    )


def decode_leader(data: bytes, path: str) -> LeaderPath:
    """Return the leader and its epoch.

    Raises:
        MalformedZnode: not the documented JSON.
    """
    znode = decode(LeaderZnode, data, path)
    return LeaderPath(NodeId(znode.broker), LeaderEpoch(znode.leader_epoch))


def encode_reassigned(replicas: tuple[NodeId, ...]) -> bytes:
    return encode(ReassignedReplicasZnode(list(replicas)))


def decode_reassigned(data: bytes, path: str) -> tuple[NodeId, ...]:
    """Return RAR.

    Raises:
        MalformedZnode: not the documented JSON.
    """
    return tuple(NodeId(each) for each in decode(ReassignedReplicasZnode, data, path).replicas)
