"""Creates and deletes topics by one request to one broker, with the error code that it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from highwater.cluster.cluster import Cluster
from highwater.cluster.settling import await_full_isr
from highwater.cluster.wire_client import WireClient
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId
from highwater_wire.kafka.messages import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    TopicToCreate,
)

TIMEOUT_MS = 20_000
_SOCKET_TIMEOUT_S = TIMEOUT_MS / 1000 + 5


class TopicRefused(Exception):
    """The broker refused to create or delete a topic."""

    def __init__(self, topic: str, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(f"{topic}: {error.name} {message or ''}".rstrip())
        self.error = error


def create_topic(
    cluster: Cluster,
    topic: str,
    *,
    partition_count: int = 1,
    replication_factor: int = 3,
    replicas: Sequence[Sequence[int]] = (),
    config: Mapping[str, str] | None = None,
    broker: int = 0,
) -> None:
    """Create the topic and return when all its replicas are in sync.

    replicas: the brokers of each partition, preferred leader first; it overrides the counts.

    Raises:
        TopicRefused: it was not created.
    """
    assignments = tuple(
        (number, tuple(NodeId(replica) for replica in brokers))
        for number, brokers in enumerate(replicas)
    )
    new = TopicToCreate(
        topic,
        -1 if assignments else partition_count,
        -1 if assignments else replication_factor,
        assignments,
        tuple((config or {}).items()),
    )
    with WireClient(cluster.external_endpoint(broker), timeout_s=_SOCKET_TIMEOUT_S) as client:
        (result,) = client.call(CreateTopicsRequest((new,), TIMEOUT_MS)).topics
    if result.error is not ErrorCode.NONE:
        raise TopicRefused(topic, result.error, result.message)
    await_full_isr(cluster, topic, len(assignments) or partition_count)


def delete_topic(
    cluster: Cluster, topic: str, *, timeout_ms: int = TIMEOUT_MS, broker: int = 0
) -> ErrorCode:
    """Ask for the topic's deletion and return the broker's answer."""
    with WireClient(cluster.external_endpoint(broker), timeout_s=_SOCKET_TIMEOUT_S) as client:
        (result,) = client.call(DeleteTopicsRequest((topic,), timeout_ms)).topics
    error: ErrorCode = result.error
    return error
