"""Finds a request's partition, or the error that says why it is not here."""

from __future__ import annotations

import re

from highwater_broker.kafka_api.rest_of_broker import Partitions
from highwater_broker.metadata_cache import MetadataCache
from highwater_broker.partition import Partition
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicId, TopicPartition

MAX_TOPIC_NAME_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def is_legal_topic_name(name: str) -> bool:
    """Return whether Kafka allows the name: it becomes the name of a folder."""
    if not 0 < len(name) <= MAX_TOPIC_NAME_LENGTH or name in (".", ".."):
        return False
    return _LEGAL.fullmatch(name) is not None


class PartitionLookup:
    """Hosted partitions, and the errors for others."""

    def __init__(self, partitions: Partitions, metadata: MetadataCache) -> None:
        self._partitions = partitions
        self._metadata = metadata

    def get(self, topic_partition: TopicPartition) -> Partition | None:
        return self._partitions.get(topic_partition)

    def topic_of(self, topic_id: TopicId) -> str | None:
        return self._metadata.topic_of(topic_id)

    def error_when_absent(self, topic_partition: TopicPartition) -> ErrorCode:
        """Return NOT_LEADER_OR_FOLLOWER for a partition that other brokers host.

        KAFKA_STORAGE_ERROR for one in a failed log folder of this broker (KIP-112).
        """
        if self._partitions.has_failed(topic_partition):
            return ErrorCode.KAFKA_STORAGE_ERROR
        topic, number = topic_partition.topic, topic_partition.partition
        if self._metadata.partition(topic, number) is not None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
