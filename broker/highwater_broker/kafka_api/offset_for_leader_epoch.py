"""OffsetForLeaderEpoch: an epoch's end in the leader's log, for followers and clients.

Source: KIP-101, KIP-279 (the epoch in the answer), KIP-320 (fenced by current_leader_epoch).
"""

from __future__ import annotations

from highwater_broker.kafka_api.listeners import Listener
from highwater_broker.kafka_api.lookup import PartitionLookup
from highwater_broker.kafka_api.turns import Turns
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

    def __init__(self, lookup: PartitionLookup, turns: Turns) -> None:
        self._lookup = lookup
        self._turns = turns

    async def handle(
        self, request: OffsetForLeaderEpochRequest, listener: str
    ) -> OffsetForLeaderEpochResponse:
        """Return each partition's answer; a repeated partition's last entry counts."""
        if listener == Listener.REPLICATION:
            # A follower names each partition once, and must not wait for clients.
            return OffsetForLeaderEpochResponse(tuple(map(self._one, request.partitions)))
        asked = {(item.topic, item.partition): item for item in request.partitions}
        answers = await self._turns.each(self._one, tuple(asked.values()))
        return OffsetForLeaderEpochResponse(tuple(answers))

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
