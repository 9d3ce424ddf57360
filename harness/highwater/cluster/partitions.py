"""Moves replicas and elects leaders in a running cluster, by requests to its brokers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from highwater.cluster.asking import ask_any
from highwater.cluster.cluster import Cluster
from highwater.cluster.settling import look_at
from highwater.errors import HarnessError
from highwater_checker.looks import leaderships, replicas_of
from highwater_core.admin_messages import (
    ElectionType,
    OngoingReassignment,
    PartitionResult,
    ReassignmentItem,
)
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId, TopicPartition
from highwater_wire.kafka.admin_messages import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from highwater_wire.kafka.messages import KafkaRequest, MetadataRequest

TIMEOUT_MS = 30_000
_POLL_S = 0.2
_MOST_DIGITS = 30
"""Of a partition's number; Python reads no more than 4,300."""


class PartitionRefused(HarnessError):
    """A partition could not be changed; the message says why."""


def parse_partition(words: str) -> TopicPartition:
    """Return the partition that is written demo-0.

    Raises:
        HarnessError: the text has another form.
    """
    topic, _, number = words.rpartition("-")
    if not topic or not (number.isascii() and number.isdecimal()) or len(number) > _MOST_DIGITS:
        raise HarnessError(f"{words}: TOPIC-PARTITION is meant, such as demo-0")
    return TopicPartition(topic, int(number))


def reassign(cluster: Cluster, at: TopicPartition, replicas: Sequence[int] | None) -> None:
    """Start to move the partition's replicas to these brokers; None: cancel its move.

    await_reassigned waits for the end.

    Raises:
        PartitionRefused: the move did not begin, or the outcome is unknown.
    """
    target = None if replicas is None else tuple(NodeId(broker) for broker in replicas)
    item = ReassignmentItem(at, target)
    response = _ask(cluster, AlterPartitionReassignmentsRequest((item,), TIMEOUT_MS))
    _refuse(response, response.partitions)


def assigned_replicas(cluster: Cluster, at: TopicPartition) -> tuple[NodeId, ...]:
    """Return the brokers that the partition is assigned to.

    Raises:
        PartitionRefused: no broker knows the partition.
    """
    for topic in _ask(cluster, MetadataRequest((at.topic,))).topics:
        for partition in topic.partitions:
            if (topic.name, partition.partition) == (at.topic, at.partition):
                replicas: tuple[NodeId, ...] = partition.replicas
                return replicas
    raise PartitionRefused(f"{at}: there is no such partition")


def list_reassignments(
    cluster: Cluster, partitions: Sequence[TopicPartition] | None = None
) -> tuple[OngoingReassignment, ...]:
    """Return the partitions whose replicas are being moved, among the given ones or all.

    Raises:
        PartitionRefused: no broker answered.
    """
    named = None if partitions is None else tuple(partitions)
    response = _ask(cluster, ListPartitionReassignmentsRequest(named, TIMEOUT_MS))
    _refuse(response, ())
    ongoing: tuple[OngoingReassignment, ...] = response.partitions
    return ongoing


def await_reassigned(
    cluster: Cluster,
    at: TopicPartition,
    within_s: float,
    on_look: Callable[[OngoingReassignment | None], None] = lambda ongoing: None,
) -> None:
    """Return once no replica of the partition is being moved; on_look gets each look.

    Raises:
        PartitionRefused: the move took too long.
    """
    deadline = time.monotonic() + within_s
    while True:
        ongoing = next(iter(list_reassignments(cluster, [at])), None)
        on_look(ongoing)
        if ongoing is None:
            return
        if time.monotonic() > deadline:
            raise PartitionRefused(
                f"{at} is still being moved after {within_s:g} s: adding {list(ongoing.adding)},"
                f" removing {list(ongoing.removing)}"
            )
        time.sleep(_POLL_S)


def copied_records(cluster: Cluster, at: TopicPartition, adding: Sequence[int]) -> tuple[int, int]:
    """Return how many of the partition's records the added replicas have, and how many they need.

    Both are 0 where the leader does not answer.
    """
    look = look_at(cluster)
    leader = leaderships(look).get(at)
    if leader is None:
        return (0, 0)
    held = replicas_of(look, at)
    first = held[leader.leader].log_start_offset
    ends = [held[broker].log_end_offset for broker in adding if broker in held]
    done = sum(max(0, min(end, leader.log_end_offset) - first) for end in ends)
    return (done, (leader.log_end_offset - first) * len(adding))


def elect_leaders(
    cluster: Cluster, partitions: Sequence[TopicPartition] | None, election_type: ElectionType
) -> tuple[PartitionResult, ...]:
    """Elect leaders for these partitions, or for all; return each one's result.

    Raises:
        PartitionRefused: no election was held.
    """
    named = None if partitions is None else tuple(partitions)
    response = _ask(cluster, ElectLeadersRequest(int(election_type), named, TIMEOUT_MS))
    _refuse(response, ())
    results: tuple[PartitionResult, ...] = response.partitions
    return results


def _ask(cluster: Cluster, request: KafkaRequest) -> Any:
    return ask_any(cluster, request, TIMEOUT_MS / 1000 + 5)


def _refuse(response: Any, results: Sequence[PartitionResult]) -> None:
    if response.error is not ErrorCode.NONE:
        raise PartitionRefused(response.error.name)
    for result in results:
        if result.error is not ErrorCode.NONE:
            words = f"{result.error.name} {result.message or ''}".rstrip()
            raise PartitionRefused(f"{result.topic_partition}: {words}")
