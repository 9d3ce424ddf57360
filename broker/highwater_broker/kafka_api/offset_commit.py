"""OffsetCommit: a group's offsets are kept, and told as kept once its log has committed them.

Source: docs/reference/invariants.md, I14.
"""

from __future__ import annotations

from collections.abc import Sequence

from highwater_broker.coordinator.coordinator import GroupCoordinator
from highwater_broker.kafka_api.listeners import CLIENT_LISTENERS
from highwater_broker.kafka_api.turns import Turns
from highwater_broker.metadata_cache import MetadataCache
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.committed_messages import (
    CommittedPartition,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetToCommit,
)


class OffsetCommitHandler:
    """Answers OffsetCommit."""

    def __init__(self, groups: GroupCoordinator, metadata: MetadataCache, turns: Turns) -> None:
        self._groups = groups
        self._metadata = metadata
        self._turns = turns

    async def handle(self, request: OffsetCommitRequest, listener: str) -> OffsetCommitResponse:
        """Return what became of each partition, in the order of the request.

        Deviation: Kafka takes offsets of any number of a topic's partitions, also of such as it
        does not have.
        """
        items = request.partitions
        if listener not in CLIENT_LISTENERS:
            return _all(items, ErrorCode.INVALID_REQUEST)
        refused = self._groups.unowned(request.group_id)
        if refused is not ErrorCode.NONE:
            # Before topics are looked at: a client looks for the coordinator upon this error alone.
            return _all(items, refused)
        is_known = await self._turns.each(self._is_known, items)
        known = [item for item, known in zip(items, is_known, strict=True) if known]
        committed = iter(await self._groups.commit(request, known))
        return OffsetCommitResponse(
            tuple(
                next(committed) if known else _result(item, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                for item, known in zip(items, is_known, strict=True)
            )
        )

    def _is_known(self, item: OffsetToCommit) -> bool:
        return self._metadata.partition(item.topic, item.partition) is not None


def _all(items: Sequence[OffsetToCommit], error: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(tuple(_result(item, error) for item in items))


def _result(item: OffsetToCommit, error: ErrorCode) -> CommittedPartition:
    return CommittedPartition(item.topic, item.partition, error)
