"""A fetch from its arrival to its answer: whether there are records or news, and the answer.

Source: docs/explanation/replication.md, "Waiting requests"; KIP-74 (first batch).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from highwater_broker.partition import Partition
from highwater_core.errors import ErrorCode
from highwater_core.ids import BrokerEpoch, LeaderEpoch, NodeId, Offset, TopicPartition
from highwater_wire.kafka.messages import (
    CONSUMER,
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
)


class SentHighWatermarks:
    """The high watermark that was last sent to each follower, by partition and follower.

    A follower is answered at once when the leader's is newer, so that a commit reaches it without
    waiting for the next record. A new leader epoch or follower incarnation begins without one.
    """

    def __init__(self) -> None:
        self._sent: dict[TopicPartition, dict[NodeId, tuple[LeaderEpoch, BrokerEpoch, Offset]]] = {}

    def is_newer(self, partition: Partition, request: FetchRequest) -> bool:
        """Return whether the partition's high watermark was not sent to the follower yet."""
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
        """Drop the entries of a topic that is gone."""
        gone = [key for key in self._sent if key.topic == topic]
        for key in gone:
            del self._sent[key]

    def __len__(self) -> int:
        return len(self._sent)


class Part:
    """One partition of a fetch, or why it cannot be read."""

    __slots__ = ("answer", "error", "item", "leader_epoch", "partition")

    def __init__(self, item: FetchPartition, partition: Partition | None, error: ErrorCode) -> None:
        self.item = item
        self.partition = partition
        self.error = error
        self.leader_epoch = partition.leader_epoch if partition else None
        self.answer: FetchPartitionResult | None = None
        """The last answer, if it was without news and is still right."""

    def is_all_said_by(self, result: FetchPartitionResult) -> bool:
        """Return whether there is no news for a follower after this result."""
        return (
            self.partition is not None
            and self.error is ErrorCode.NONE
            and result.error is ErrorCode.NONE
            and self.item.fetch_offset == self.partition.log_end_offset
        )

    def failed(self, error: ErrorCode) -> FetchPartitionResult:
        topic = self.partition.topic_partition.topic if self.partition else self.item.topic
        return FetchPartitionResult(topic, self.item.partition, error, topic_id=self.item.topic_id)


class _Reading:
    """Reads a fetch's parts, in the request's order, within max_bytes.

    A first batch that is larger than the limits is returned whole, so that the fetch makes
    progress; after it, only batches that fit.
    """

    __slots__ = ("_is_first", "_remaining", "_request", "_sent")

    def __init__(
        self, request: FetchRequest, max_bytes: int, sent: SentHighWatermarks | None
    ) -> None:
        self._request = request
        self._sent = sent
        self._remaining = max_bytes
        self._is_first = True

    def read(self, part: Part) -> FetchPartitionResult:
        result = self._read_one(part, max(self._remaining, 0))
        size = len(result.records)
        if size and self._sent is not None and part.partition is not None:
            part.partition.count_sent(size)
        self._remaining -= size
        self._is_first = self._is_first and size == 0
        return result

    def _read_one(self, part: Part, remaining: int) -> FetchPartitionResult:
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
        fits = self._is_first or len(outcome.records) <= limit
        if self._sent is not None:
            self._sent.record(partition, self._request, outcome.high_watermark)
            fits = fits and not partition.holds_back(self._request.replica_id)
        records = outcome.records if fits else b""
        return FetchPartitionResult(
            partition.topic_partition.topic,
            item.partition,
            ErrorCode.NONE,
            outcome.high_watermark,
            outcome.log_start_offset,
            records,
            item.topic_id,
        )


def _readable_bytes(part: Part, wanted: int, reader: NodeId) -> int | None:
    """Return how many bytes of the part can be read; None where there is other news.

    That is: an error, a role or log that changed during the fetch, or an offset in an older segment
    than the last readable one: a read ends with its segment, so that waiting brings no more. A
    fetch for a single byte gets 1, without a look at the log. For a follower that is held back it
    is 0.
    Source: Kafka's DelayedFetch counts positions, up to the partition's max_bytes. Whole batches
    within max_bytes may come to less, and would never reach a min_bytes of that size.
    """
    for_follower = reader != CONSUMER
    partition = part.partition
    if partition is None or part.error is not ErrorCode.NONE:
        return None
    if not partition.is_leader or partition.leader_epoch != part.leader_epoch:
        return None
    offset = part.item.fetch_offset
    log_end_offset = partition.log_end_offset
    if not partition.log_start_offset <= offset <= log_end_offset:
        return None
    visible_end = log_end_offset if for_follower else partition.high_watermark
    if offset >= visible_end:
        return 0
    if for_follower and partition.holds_back(reader):
        return 0
    if wanted == 1:
        return 1
    try:
        size_bytes = partition.log.segments.size_between(offset, visible_end)
    except OSError:
        return None  # the read has the error
    return None if size_bytes is None else min(size_bytes, part.item.max_bytes)


class FollowerFetch:
    """A follower's fetch. open_parts: those that may have news."""

    __slots__ = ("_max_bytes", "_open_parts", "_parts", "_request", "_sent")

    def __init__(
        self,
        request: FetchRequest,
        parts: Sequence[Part],
        open_parts: Collection[Part],
        max_bytes: int,
        sent: SentHighWatermarks,
    ) -> None:
        self._request = request
        self._parts = parts
        self._open_parts = open_parts
        self._max_bytes = max_bytes
        self._sent = sent

    def is_complete(self) -> bool:
        """Return whether the fetch can be answered before max_wait has passed.

        By an error, min_bytes of records, a role or log that changed during the fetch, or a high
        watermark that was not sent to the follower yet.
        """
        return self.has_newer_high_watermark() or self.is_complete_without_high_watermark()

    def has_newer_high_watermark(self) -> bool:
        """Return whether a partition's high watermark was not sent to the follower yet.

        A follower that is held back gets it with the next records, or when max_wait has passed:
        otherwise it would fetch again at each record that is written.
        """
        return any(
            part.partition is not None
            and self._sent.is_newer(part.partition, self._request)
            and not part.partition.holds_back(self._request.replica_id)
            for part in self._open_parts
        )

    def is_complete_without_high_watermark(self) -> bool:
        wanted = min(self._request.min_bytes, self._max_bytes)
        if wanted <= 0:
            return True
        found = 0
        for part in self._open_parts:
            readable = _readable_bytes(part, wanted, self._request.replica_id)
            if readable is None:
                return True
            found += readable
            if found >= wanted:
                return True
        return not self._parts

    def read(self) -> FetchResponse:
        """Read all partitions; those without news have their answer ready."""
        reading = _Reading(self._request, self._max_bytes, self._sent)
        results: list[FetchPartitionResult] = []
        for part in self._parts:
            result = part.answer
            if result is None:
                result = reading.read(part)
                if part.is_all_said_by(result):
                    part.answer = result
            results.append(result)
        return FetchResponse(tuple(results))


class ConsumerFetch:
    """A consumer's fetch; each partition is checked once, and again only after a change.

    There may be thousands, and many such fetches wait for the same partition.
    """

    __slots__ = ("_by_key", "_changed", "_found", "_found_in", "_is_complete", "_wanted", "read")

    def __init__(self, request: FetchRequest, parts: Sequence[Part], max_bytes: int) -> None:
        self.read = _Reading(request, max_bytes, None).read
        """Reads one part after the other, once the wait is over."""
        self._wanted = min(request.min_bytes, max_bytes)
        self._by_key = {part.partition.topic_partition: part for part in parts if part.partition}
        self._changed = dict.fromkeys(parts)
        """Parts not checked since their last change."""
        self._found_in: dict[Part, int] = {}
        self._found = 0
        self._is_complete = self._wanted <= 0 or not parts

    def keys(self) -> list[TopicPartition]:
        return list(self._by_key)

    def note_change(self, key: TopicPartition) -> None:
        """Note that the partition must be checked again."""
        self._changed[self._by_key[key]] = None

    def look(self, part: Part) -> None:
        """Check the part for records and news, unless there are enough already."""
        if self._is_complete:
            return
        self._changed.pop(part, None)
        readable = _readable_bytes(part, self._wanted, CONSUMER)
        if readable is None:
            self._is_complete = True
            return
        self._found += readable - self._found_in.get(part, 0)
        self._found_in[part] = readable
        self._is_complete = self._found >= self._wanted

    def is_complete(self) -> bool:
        """Return whether the fetch can be answered before max_wait has passed.

        By an error, min_bytes of records, or a role or log that changed during the fetch.
        """
        while self._changed and not self._is_complete:
            self.look(next(iter(self._changed)))
        return self._is_complete
