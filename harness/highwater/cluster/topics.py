"""Lists, creates, expands and deletes topics by requests to brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from highwater.cluster.asking import Asked, ask_in_turn
from highwater.cluster.cluster import Cluster
from highwater.cluster.settling import await_full_isr
from highwater.errors import HarnessError
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId
from highwater_wire.kafka.admin_messages import CreatePartitionsRequest, PartitionsToCreate
from highwater_wire.kafka.messages import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    KafkaRequest,
    MetadataRequest,
    MetadataTopic,
    TopicToCreate,
)

TIMEOUT_MS = 20_000
Assignments = Sequence[Sequence[int]]
"""The brokers of each partition, preferred leader first."""


class TopicRefused(HarnessError):
    """A topic was not described, created, expanded or deleted; the message says why."""

    def __init__(self, topic: str, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(f"{topic}: {error.name} {message or ''}".rstrip())
        self.error = error


def list_topics(cluster: Cluster) -> tuple[MetadataTopic, ...]:
    """Return all topics as the first broker that answers knows them, by name."""
    found = _ask(cluster, MetadataRequest(None)).topics
    return tuple(sorted(found, key=lambda topic: topic.name))


def describe_topic(cluster: Cluster, topic: str) -> MetadataTopic:
    """Return the topic as the first broker that answers knows it.

    Raises:
        TopicRefused: the broker does not know the topic.
    """
    found: MetadataTopic
    (found,) = _ask(cluster, MetadataRequest((topic,))).topics
    if found.error not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
        raise TopicRefused(topic, found.error)
    return found


def create_topic(
    cluster: Cluster,
    topic: str,
    *,
    partition_count: int = 1,
    replication_factor: int = 3,
    replicas: Assignments = (),
    config: Mapping[str, str] | None = None,
    broker: int | None = None,
) -> None:
    """Create the topic, and return when all its replicas are in sync.

    broker: the one that is asked; None: the first that answers.
    replicas: the brokers of each partition; they override the counts.

    Raises:
        TopicRefused: it was not created.
    """
    new = new_topic(topic, partition_count, replication_factor, replicas, config or {})
    request_topic(cluster, new, None if broker is None else [NodeId(broker)])
    await_full_isr(cluster, topic, len(replicas) or partition_count)


def new_topic(
    topic: str,
    partition_count: int,
    replication_factor: int,
    replicas: Assignments,
    config: Mapping[str, str],
) -> TopicToCreate:
    """Return the topic of a CreateTopics request; replicas override the counts."""
    return TopicToCreate(
        topic,
        -1 if replicas else partition_count,
        -1 if replicas else replication_factor,
        tuple(enumerate(_node_ids(replicas))),
        tuple(config.items()),
    )


def request_topic(
    cluster: Cluster, new: TopicToCreate, brokers: Sequence[NodeId] | None = None
) -> None:
    """Create the topic, and return when each partition has a leader.

    Raises:
        TopicRefused: it was not created, or the outcome is unknown.
    """
    _refuse(new.name, _ask_in_turn(cluster, CreateTopicsRequest((new,), TIMEOUT_MS), brokers))


def expand_topic(
    cluster: Cluster, topic: str, total_count: int, replicas: Assignments | None = None
) -> None:
    """Raise the topic's number of partitions to this count.

    replicas: the brokers of each added partition.

    Raises:
        TopicRefused: it was not expanded, or the outcome is unknown.
    """
    assignments = None if replicas is None else _node_ids(replicas)
    wanted = PartitionsToCreate(topic, total_count, assignments)
    _refuse(topic, _ask_in_turn(cluster, CreatePartitionsRequest((wanted,), TIMEOUT_MS)))


def delete_topic(
    cluster: Cluster, topic: str, *, timeout_ms: int = TIMEOUT_MS, broker: int | None = None
) -> ErrorCode:
    """Send a DeleteTopics request to the broker, or to the first that answers; return its error."""
    brokers = None if broker is None else [NodeId(broker)]
    (result,) = _ask(cluster, DeleteTopicsRequest((topic,), timeout_ms), brokers).topics
    error: ErrorCode = result.error
    return error


def _ask(cluster: Cluster, request: KafkaRequest, brokers: Sequence[NodeId] | None = None) -> Any:
    return _ask_in_turn(cluster, request, brokers).response


def _ask_in_turn(
    cluster: Cluster, request: KafkaRequest, brokers: Sequence[NodeId] | None = None
) -> Asked:
    return ask_in_turn(cluster, request, TIMEOUT_MS / 1000 + 5, brokers)


def _refuse(topic: str, asked: Asked) -> None:
    (result,) = asked.response.topics
    if result.error is not ErrorCode.NONE:
        message = f"{result.message or ''} {asked.doubt}".strip()
        raise TopicRefused(topic, result.error, message)


def _node_ids(replicas: Assignments) -> tuple[tuple[NodeId, ...], ...]:
    return tuple(tuple(map(NodeId, brokers)) for brokers in replicas)
