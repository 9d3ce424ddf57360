"""OffsetDelete: a group's offsets of partitions that none of its members reads are forgotten.

Source: KIP-496.
"""

from __future__ import annotations

from highwater_broker.coordinator.coordinator import GroupCoordinator
from highwater_broker.kafka_api.listeners import CLIENT_LISTENERS
from highwater_broker.kafka_api.turns import Turns
from highwater_broker.metadata_cache import MetadataCache
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from highwater_wire.kafka.committed_messages import (
    CommittedPartition,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
)


class OffsetDeleteHandler:
    """Answers OffsetDelete."""

    def __init__(self, groups: GroupCoordinator, metadata: MetadataCache, turns: Turns) -> None:
        self._groups = groups
        self._metadata = metadata
        self._turns = turns

    async def handle(self, request: OffsetDeleteRequest, listener: str) -> OffsetDeleteResponse:
        """Return what became of each partition, in the order of the request."""
        if listener not in CLIENT_LISTENERS:
            return OffsetDeleteResponse(ErrorCode.INVALID_REQUEST)
        items = request.partitions
        is_known = await self._turns.each(self._is_known, items)
        known = [item for item, known in zip(items, is_known, strict=True) if known]
        deleted = await self._groups.delete_offsets(request.group_id, known)
        if deleted.error is not ErrorCode.NONE:
            return deleted
        results = iter(deleted.partitions)
        return OffsetDeleteResponse(
            ErrorCode.NONE,
            tuple(
                next(results) if known else _unknown(item)
                for item, known in zip(items, is_known, strict=True)
            ),
        )

    def _is_known(self, item: TopicPartition) -> bool:
        return self._metadata.has_topic(item.topic)


def _unknown(item: TopicPartition) -> CommittedPartition:
    return CommittedPartition(*item, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
