"""Decides the assignment of a topic that is to be created, or why it is refused. Pure.

A controller creates topics, or under preset v2 the broker that a client asks: both decide here.
Source: Kafka's ZkAdminManager and AdminZkClient; KIP-578 (a cluster's partitions).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from highwater_core.assignments import (
    MAX_PARTITION_COUNT,
    Assignment,
    assign_replicas,
    find_assignment_fault,
)
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId
from highwater_core.messages import NewTopic
from highwater_core.ports import Rng
from highwater_core.topic_configs import BadTopicConfig, parse_topic_config
from highwater_core.topic_names import find_name_fault

MAX_TOPIC_COUNT = 10_000
"""Of one request."""
MAX_PARTITIONS = 100_000
"""Of all topics together, where no setting says otherwise."""
DEFAULT_COUNT = -1
"""A topic's number of partitions, or of replicas, that is left to the brokers' defaults."""


class Refused(Exception):
    """A part of a client's request is not allowed."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


@dataclass(frozen=True, slots=True)
class Room:
    """The partitions that there are, in the request so far and in the cluster, and may be."""

    of_request: int
    of_cluster: int
    most_of_cluster: int = MAX_PARTITIONS


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    partition_count: int
    replication_factor: int


def plan_topic(
    topic: NewTopic,
    *,
    live: Collection[NodeId],
    may_host: Sequence[NodeId],
    defaults: TopicDefaults,
    room: Room,
    rng: Rng,
) -> Assignment:
    """Return the topic's assignment: the given one, or one that is drawn.

    live: the brokers that a given assignment may name. may_host: those that are drawn from.

    Raises:
        Refused: the topic is not allowed.
    """
    fault = find_name_fault(topic.name)
    if fault:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
    try:
        parse_topic_config(dict(topic.config))
    except BadTopicConfig as bad:
        raise Refused(ErrorCode.INVALID_CONFIG, str(bad)) from None
    if topic.assignment:
        refuse_partition_count(len(topic.assignment), room)
        fault = find_assignment_fault(topic.assignment, frozenset(live))
        if fault:
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, fault)
        return topic.assignment
    partition_count, factor = topic.partition_count, topic.replication_factor
    if partition_count == DEFAULT_COUNT:
        partition_count = defaults.partition_count
    if factor == DEFAULT_COUNT:
        factor = defaults.replication_factor
    refuse_partition_count(partition_count, room)
    if not 0 < factor <= len(may_host):
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{factor} replicas on {len(may_host)} live brokers",
        )
    start_index = rng.randrange(0, len(may_host))
    start_shift = rng.randrange(0, len(may_host))
    return assign_replicas(may_host, partition_count, factor, start_index, start_shift)


def refuse_partition_count(partition_count: int, room: Room) -> None:
    """Refuse too many partitions for a topic, a request or the cluster.

    Ordering: before any work is done for each of the partitions.

    Raises:
        Refused: they are too many, or none.
    """
    if not 0 < partition_count <= MAX_PARTITION_COUNT:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"{partition_count} partitions: there must be 1 to {MAX_PARTITION_COUNT}",
        )
    if room.of_request + partition_count > MAX_PARTITION_COUNT:
        raise Refused(
            ErrorCode.POLICY_VIOLATION,
            f"more than {MAX_PARTITION_COUNT} partitions in one request",
        )
    if room.of_cluster + partition_count > room.most_of_cluster:
        raise Refused(
            ErrorCode.POLICY_VIOLATION,
            f"the cluster would have more than {room.most_of_cluster} partitions",
        )


def find_too_many_topics(count: int) -> Refused | None:
    """Return why a request that names so many topics is refused, None where it is not."""
    if count <= MAX_TOPIC_COUNT:
        return None
    message = f"{count} topics in one request: at most {MAX_TOPIC_COUNT}"
    return Refused(ErrorCode.POLICY_VIOLATION, message)


def refuse_repeated(counts: Counter[str], name: str) -> None:
    """Refuse a topic that the request names twice: it is unknown which one is meant.

    Raises:
        Refused: counts has the name more than once.
    """
    if counts[name] > 1:
        raise Refused(ErrorCode.INVALID_REQUEST, "the request names the topic twice")
