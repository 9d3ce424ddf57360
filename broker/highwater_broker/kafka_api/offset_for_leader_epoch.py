"""OffsetForLeaderEpoch: where an epoch ends in the leader's log, for followers and clients.

Source: KIP-101, KIP-279 (the epoch in the answer), KIP-320 (fenced by current_leader_epoch).
"""

from __future__ import annotations

from highwater_broker.kafka_api.lookup import PartitionLookup
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from highwater_wire.kafka.messages import (
    EpochEndOffset,
    EpochPartition,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)


class OffsetForLeaderEpochHandler:
    """Answers OffsetForLeaderEpoch."""

    def __init__(self, lookup: PartitionLookup) -> None:
        self._lookup = lookup

    async def handle(
        self, request: OffsetForLeaderEpochRequest, listener: str
    ) -> OffsetForLeaderEpochResponse:
        return OffsetForLeaderEpochResponse(tuple(self._one(item) for item in request.partitions))

    def _one(self, item: EpochPartition) -> EpochEndOffset:
        topic_partition = TopicPartition(item.topic, item.partition)
        partition = self._lookup.get(topic_partition)
        if partition is None:
            error = self._lookup.error_when_absent(topic_partition)
            return EpochEndOffset(item.topic, item.partition, error)
        error = partition.check_leadership(item.current_leader_epoch)
        if error is not ErrorCode.NONE:
            return EpochEndOffset(item.topic, item.partition, error)
        error, leader_epoch, end_offset = partition.offset_for_leader_epoch(item.leader_epoch)
        return EpochEndOffset(item.topic, item.partition, error, leader_epoch, end_offset)
