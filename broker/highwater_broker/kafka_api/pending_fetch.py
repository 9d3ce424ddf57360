"""A fetch from its arrival to its answer: whether there is something to say yet, and what.

Source: replication.md section 4, "Purgatory"; KIP-74 (first batch).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from highwater_broker.kafka_api.seams import Partition
from highwater_core.errors import ErrorCode
from highwater_core.ids import BrokerEpoch, LeaderEpoch, NodeId, Offset, TopicPartition
from highwater_wire.kafka.messages import (
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
)


class SentHighWatermarks:
    """The high watermark that each follower was last sent, by partition and follower.

    A follower is answered at once when the leader's is newer, so that a commit reaches it without
    waiting for the next record. A new leader epoch or follower incarnation starts afresh.
    """

    def __init__(self) -> None:
        self._sent: dict[TopicPartition, dict[NodeId, tuple[LeaderEpoch, BrokerEpoch, Offset]]] = {}

    def is_newer(self, partition: Partition, request: FetchRequest) -> bool:
        """Return whether the follower has not been sent the partition's high watermark."""
        followers = self._sent.get(partition.topic_partition)
        sent = followers.get(request.replica_id) if followers else None
        if sent is None:
            return True
        leader_epoch, replica_epoch, high_watermark = sent
        return (
            partition.high_watermark > high_watermark
            or leader_epoch != partition.leader_epoch
            or replica_epoch != request.replica_epoch
        )

    def record(self, partition: Partition, request: FetchRequest, sent: Offset) -> None:
        followers = self._sent.setdefault(partition.topic_partition, {})
        followers[request.replica_id] = (partition.leader_epoch, request.replica_epoch, sent)

    def forget_topic(self, topic: str) -> None:
        """Drop what was sent of a topic that is gone."""
        gone = [key for key in self._sent if key.topic == topic]
        for key in gone:
            del self._sent[key]

    def __len__(self) -> int:
        return len(self._sent)


class Part:
    """One partition of a fetch: where it is, or why it cannot be read."""

    __slots__ = ("answer", "error", "item", "leader_epoch", "partition")

    def __init__(self, item: FetchPartition, partition: Partition | None, error: ErrorCode) -> None:
        self.item = item
        self.partition = partition
        self.error = error
        self.leader_epoch = partition.leader_epoch if partition else None
        self.answer: FetchPartitionResult | None = None
        """The last answer, where it said that there is nothing new and that still holds."""

    def is_all_said_by(self, result: FetchPartitionResult) -> bool:
        """Return whether nothing is left to say to a follower that was just given this result."""
        return (
            self.partition is not None
            and self.error is ErrorCode.NONE
            and result.error is ErrorCode.NONE
            and self.item.fetch_offset == self.partition.log_end_offset
        )

    def failed(self, error: ErrorCode) -> FetchPartitionResult:
        topic = self.partition.topic_partition.topic if self.partition else self.item.topic
        return FetchPartitionResult(topic, self.item.partition, error, topic_id=self.item.topic_id)


class PendingFetch:
    """A fetch from its arrival to its answer; `open_parts` are those that may have news."""

    __slots__ = ("_max_bytes", "_open_parts", "_parts", "_request", "_sent")

    def __init__(
        self,
        request: FetchRequest,
        parts: Sequence[Part],
        open_parts: Collection[Part],
        max_bytes: int,
        sent: SentHighWatermarks | None,
    ) -> None:
        self._request = request
        self._parts = parts
        self._open_parts = open_parts
        self._max_bytes = max_bytes
        self._sent = sent

    def keys(self) -> list[TopicPartition]:
        return [part.partition.topic_partition for part in self._parts if part.partition]

    def is_complete(self) -> bool:
        """Return whether there is something to say before max_wait has passed.

        That is: an error, min_bytes of records, a role or log that changed under the fetch, and
        for a follower a high watermark that it has not been sent.
        """
        return self.has_newer_high_watermark() or self.is_complete_without_high_watermark()

    def has_newer_high_watermark(self) -> bool:
        """Return whether the follower has not been sent some partition's high watermark."""
        sent = self._sent
        return sent is not None and any(
            part.partition is not None and sent.is_newer(part.partition, self._request)
            for part in self._open_parts
        )

    def is_complete_without_high_watermark(self) -> bool:
        wanted = min(self._request.min_bytes, self._max_bytes)
        if wanted <= 0:
            return True
        found = 0
        for part in self._open_parts:
            partition = part.partition
            if partition is None or part.error is not ErrorCode.NONE:
                return True
            if not partition.is_leader or partition.leader_epoch != part.leader_epoch:
                return True
            offset = part.item.fetch_offset
            log_end_offset = partition.log_end_offset
            if not partition.log_start_offset <= offset <= log_end_offset:
                return True
            end = log_end_offset if self._sent is not None else partition.high_watermark
            if end > offset:
                found += 1 if wanted == 1 else self._readable_bytes(part.item, partition)
                if found >= wanted:
                    return True
        return not self._parts

    def _readable_bytes(self, item: FetchPartition, partition: Partition) -> int:
        outcome = partition.read(item.fetch_offset, item.max_bytes, self._sent is not None)
        return len(outcome.records)

    def read(self) -> FetchResponse:
        """Read all partitions, in the request's order, within max_bytes.

        A first batch that is larger than the limits is returned whole, so that the fetch moves
        on; after it, only what fits.
        """
        remaining = self._max_bytes
        is_first = True
        results: list[FetchPartitionResult] = []
        for part in self._parts:
            result = part.answer
            if result is None:
                result = self._read_one(part, max(remaining, 0), is_first)
                size = len(result.records)
                remaining -= size
                is_first = is_first and size == 0
                if self._sent is not None and part.is_all_said_by(result):
                    part.answer = result
            results.append(result)
        return FetchResponse(tuple(results))

    def _read_one(self, part: Part, remaining: int, is_first: bool) -> FetchPartitionResult:
        item, partition = part.item, part.partition
        if partition is None or part.error is not ErrorCode.NONE:
            return part.failed(part.error)
        error = partition.check_leadership(item.current_leader_epoch)
        if error is not ErrorCode.NONE:
            return part.failed(error)
        limit = min(item.max_bytes, remaining)
        outcome = partition.read(item.fetch_offset, limit, self._sent is not None)
        if outcome.error is not ErrorCode.NONE:
            return part.failed(outcome.error)
        if self._sent is not None:
            self._sent.record(partition, self._request, outcome.high_watermark)
        records = outcome.records if is_first or len(outcome.records) <= limit else b""
        return FetchPartitionResult(
            partition.topic_partition.topic,
            item.partition,
            ErrorCode.NONE,
            outcome.high_watermark,
            outcome.log_start_offset,
            records,
            item.topic_id,
        )
