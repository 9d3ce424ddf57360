"""ListOffsets: a partition's first, latest or time-stamped offset, from its leader.

Source: KIP-79 (timestamps), KIP-207 (no latest offset while the high watermark is too low).
"""

from __future__ import annotations

from collections import Counter

from highwater_broker.kafka_api.lookup import PartitionLookup
from highwater_broker.kafka_api.turns import CHUNK, Turns
from highwater_broker.partition import Partition
from highwater_core.errors import ErrorCode
from highwater_core.ids import Offset, TopicPartition
from highwater_wire.kafka.messages import (
    CONSUMER,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResult,
)

FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5


class ListOffsetsHandler:
    """Answers ListOffsets."""

    def __init__(self, lookup: PartitionLookup, turns: Turns) -> None:
        self._lookup = lookup
        self._turns = turns

    async def handle(self, request: ListOffsetsRequest, listener: str) -> ListOffsetsResponse:
        """Return each partition's offset; a repeated partition gets INVALID_REQUEST."""
        items = request.partitions
        named = Counter((item.topic, item.partition) for item in items)
        results: list[ListOffsetsResult] = []
        for number, item in enumerate(items):
            if number % CHUNK == 0 and len(items) > CHUNK:
                await self._turns.next(len(items) - number)
            is_once = named[item.topic, item.partition] == 1
            results.append(
                await self._one(item, request)
                if is_once
                else _error(item, ErrorCode.INVALID_REQUEST)
            )
        return ListOffsetsResponse(tuple(results))

    async def _one(
        self, item: ListOffsetsPartition, request: ListOffsetsRequest
    ) -> ListOffsetsResult:
        topic_partition = TopicPartition(item.topic, item.partition)
        partition = self._lookup.get(topic_partition)
        if partition is None:
            return _error(item, self._lookup.error_when_absent(topic_partition))
        error = partition.check_leadership(item.current_leader_epoch)
        if error is not ErrorCode.NONE:
            return _error(item, error)
        if item.timestamp == EARLIEST_TIMESTAMP:
            return _result(item, partition.log_start_offset)
        if item.timestamp < EARLIEST_TIMESTAMP:
            return _error(item, ErrorCode.UNSUPPORTED_VERSION)
        if item.timestamp != LATEST_TIMESTAMP:
            return await self._by_timestamp(item, partition, request.request_version)
        if request.replica_id != CONSUMER:
            return _latest(item, partition, partition.log_end_offset)
        error, latest = partition.latest_offset_for_clients()
        if error is not ErrorCode.NONE:
            return _error(item, _unavailable(error, request.request_version))
        return _latest(item, partition, latest)

    async def _by_timestamp(
        self, item: ListOffsetsPartition, partition: Partition, request_version: int
    ) -> ListOffsetsResult:
        """Answer with committed records alone: a client must not see offsets go back (I9).

        Source: a Kafka broker looks up in a thread; here look-ups take turns with all other
        requests.
        """
        leader_epoch = partition.leader_epoch
        lookup = partition.look_up_timestamp(item.timestamp)
        while True:
            await self._turns.next()
            if not partition.is_leader or partition.leader_epoch != leader_epoch:
                return _error(item, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            try:
                next(lookup)
            except StopIteration as stop:
                disk_error, found = stop.value
                break
        if disk_error is not ErrorCode.NONE:
            return _error(item, disk_error)
        if found is None:
            return _result(item, Offset(-1))
        timestamp, offset = found
        if offset < partition.high_watermark:
            return _result(item, offset, timestamp)
        error, _ = partition.latest_offset_for_clients()
        if error is not ErrorCode.NONE:
            return _error(item, _unavailable(error, request_version))
        return _result(item, Offset(-1))


def _unavailable(error: ErrorCode, request_version: int) -> ErrorCode:
    if (
        error is ErrorCode.OFFSET_NOT_AVAILABLE
        and request_version < FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE
    ):
        return ErrorCode.LEADER_NOT_AVAILABLE
    return error


def _latest(item: ListOffsetsPartition, partition: Partition, offset: Offset) -> ListOffsetsResult:
    return ListOffsetsResult(
        item.topic,
        item.partition,
        ErrorCode.NONE,
        offset=offset,
        leader_epoch=partition.leader_epoch,
    )


def _result(item: ListOffsetsPartition, offset: Offset, timestamp: int = -1) -> ListOffsetsResult:
    return ListOffsetsResult(item.topic, item.partition, ErrorCode.NONE, timestamp, offset)


def _error(item: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsResult:
    return ListOffsetsResult(item.topic, item.partition, error)
