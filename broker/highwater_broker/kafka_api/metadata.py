"""Metadata: brokers, topics and leaders from the metadata cache.

Endpoints are those of the request's listener. controller_id is the answering broker: clients send
admin requests to it, and it forwards them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from highwater_broker.kafka_api.listeners import CLIENT_LISTENERS, Listener
from highwater_broker.kafka_api.lookup import is_legal_topic_name
from highwater_broker.kafka_api.topics_on_first_use import TopicsOnFirstUse
from highwater_broker.kafka_api.turns import Turns
from highwater_broker.metadata_cache import MetadataCache
from highwater_core.errors import ErrorCode
from highwater_core.ids import NO_LEADER, Endpoint, NodeId
from highwater_core.internal_topics import INTERNAL_TOPICS
from highwater_core.messages import BrokerEndpoints, PartitionMetadata
from highwater_wire.kafka.messages import (
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
)


def endpoint_for(broker: BrokerEndpoints, listener: str) -> Endpoint:
    """Return the broker's endpoint for clients of the listener."""
    if listener == Listener.EXTERNAL:
        return broker.client_external
    if listener == Listener.REPLICATION:
        return broker.replication
    return broker.client


_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class MetadataHandler:
    """Answers Metadata; topics that it names may be created (TopicsOnFirstUse)."""

    def __init__(
        self,
        metadata: MetadataCache,
        node_id: NodeId,
        cluster_id: str,
        first_use: TopicsOnFirstUse,
        turns: Turns,
    ) -> None:
        self._turns = turns
        self._metadata = metadata
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._first_use = first_use

    async def handle(self, request: MetadataRequest, listener: str) -> MetadataResponse:
        async with self._turns.alone(self._size(request)):
            names = self._metadata.topics() if request.topics is None else request.topics
            topics = await self._describe(dict.fromkeys(names))
        if request.allow_auto_topic_creation and listener in CLIENT_LISTENERS:
            topics = self._with_created(topics)
        return self._response(topics, listener)

    def _with_created(self, topics: tuple[MetadataTopic, ...]) -> tuple[MetadataTopic, ...]:
        """Have unknown topics created, where brokers may; return the topics with their errors."""
        unknown = [each.name for each in topics if each.error is _UNKNOWN]
        errors = self._first_use.create(unknown) if unknown else {}
        if not errors:
            return topics
        return tuple(
            MetadataTopic(errors[each.name], each.name)
            if each.error is _UNKNOWN and each.name in errors
            else each
            for each in topics
        )

    def _size(self, request: MetadataRequest) -> int:
        """Return the answer's number of topics and partitions, about."""
        if request.topics is None:
            return self._metadata.partition_count
        return len(request.topics) + sum(map(self._metadata.partition_count_of, request.topics))

    def _response(self, topics: tuple[MetadataTopic, ...], listener: str) -> MetadataResponse:
        brokers: list[MetadataBroker] = []
        for broker in self._metadata.live_brokers():
            endpoint = endpoint_for(broker, listener)
            brokers.append(MetadataBroker(broker.broker_id, endpoint.host, endpoint.port))
        return MetadataResponse(
            brokers=tuple(brokers),
            cluster_id=self._cluster_id,
            # Clients look it up among the brokers: none while this broker is not yet among them.
            controller_id=self._node_id if self._metadata.is_alive(self._node_id) else NO_LEADER,
            topics=topics,
        )

    async def _describe(self, names: Iterable[str]) -> tuple[MetadataTopic, ...]:
        """Return the topics in order; items are partitions, since a topic may have thousands."""
        known = {name: self._metadata.partitions(name) for name in names}
        wanted = [partition for partitions in known.values() for partition in partitions]
        described = iter(await self._turns.each(self._partition, wanted))

        def describe(name: str) -> MetadataTopic:
            return self._topic(name, tuple(islice(described, len(known[name]))))

        return tuple(await self._turns.each(describe, tuple(known)))

    def _topic(self, name: str, partitions: tuple[MetadataPartition, ...]) -> MetadataTopic:
        if not is_legal_topic_name(name):
            return MetadataTopic(ErrorCode.INVALID_TOPIC_EXCEPTION, name)
        if not partitions:
            return MetadataTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
        return MetadataTopic(ErrorCode.NONE, name, partitions, is_internal=name in INTERNAL_TOPICS)

    def _partition(self, known: PartitionMetadata) -> MetadataPartition:
        is_led = self._metadata.is_alive(known.leader)
        offline = tuple(
            replica
            for replica in known.assigned_replicas
            if replica in known.failed_replicas or not self._metadata.is_alive(replica)
        )
        return MetadataPartition(
            error=ErrorCode.NONE if is_led else ErrorCode.LEADER_NOT_AVAILABLE,
            partition=known.topic_partition.partition,
            leader=known.leader if is_led else NO_LEADER,
            leader_epoch=known.leader_epoch,
            replicas=known.assigned_replicas,
            isr=known.isr,
            offline_replicas=offline,
        )
