"""Fetch: record batches for consumers up to the high watermark, for followers up to the log end.

A fetch first counts as the follower's progress, then waits until there is something to say, then
reads once. Followers fetch on the replication listener, consumers on the client listeners.
Source: replication.md section 4, "Purgatory"; KIP-74 (first batch), KIP-320 (leader
epochs), KIP-516 (a topic id, where it is given, counts instead of the name).
"""

from __future__ import annotations

from dataclasses import dataclass

from highwater_broker.kafka_api.lookup import PartitionLookup
from highwater_broker.kafka_api.seams import CLIENT_LISTENERS, Listener, Partition
from highwater_broker.purgatory import Purgatory
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import (
    NO_TOPIC_ID,
    BrokerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    TopicPartition,
)
from highwater_core.ports import Trace
from highwater_core.runtime import Runtime
from highwater_wire.kafka.messages import (
    CONSUMER,
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
)


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """The broker's own bounds of a fetch."""

    response_max_bytes: int
    high_watermark_linger_ms: int


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


class _Part:
    """One partition of a fetch: where it is, or why it cannot be read."""

    __slots__ = ("error", "item", "leader_epoch", "partition")

    def __init__(self, item: FetchPartition, partition: Partition | None, error: ErrorCode) -> None:
        self.item = item
        self.partition = partition
        self.error = error
        self.leader_epoch = partition.leader_epoch if partition else None

    def failed(self, error: ErrorCode) -> FetchPartitionResult:
        topic = self.partition.topic_partition.topic if self.partition else self.item.topic
        return FetchPartitionResult(topic, self.item.partition, error, topic_id=self.item.topic_id)


class _PendingFetch:
    """A fetch from its arrival to its answer."""

    __slots__ = ("_max_bytes", "_parts", "_request", "_sent")

    def __init__(
        self,
        request: FetchRequest,
        parts: list[_Part],
        max_bytes: int,
        sent: SentHighWatermarks | None,
    ) -> None:
        self._request = request
        self._parts = parts
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
            for part in self._parts
        )

    def is_complete_without_high_watermark(self) -> bool:
        wanted = min(self._request.min_bytes, self._max_bytes)
        if wanted <= 0:
            return True
        found = 0
        for part in self._parts:
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
            result = self._read_one(part, max(remaining, 0), is_first)
            size = len(result.records)
            remaining -= size
            is_first = is_first and size == 0
            results.append(result)
        return FetchResponse(tuple(results))

    def _read_one(self, part: _Part, remaining: int, is_first: bool) -> FetchPartitionResult:
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


class FetchHandler:
    """Answers Fetch."""

    def __init__(
        self,
        lookup: PartitionLookup,
        purgatory: Purgatory,
        runtime: Runtime,
        trace: Trace,
        limits: FetchLimits,
    ) -> None:
        self._lookup = lookup
        self._purgatory = purgatory
        self._runtime = runtime
        self._trace = trace
        self._limits = limits
        self.sent = SentHighWatermarks()

    async def handle(self, request: FetchRequest, listener: str) -> FetchResponse:
        """Return what can be read once there is enough, or once max_wait_ms has passed."""
        refused = self._refusal(request, listener)
        if refused is not None:
            return _refuse_all(request, refused)
        is_follower = request.replica_id != CONSUMER
        parts = [self._part(item) for item in request.partitions]
        if is_follower:
            self._record_progress(request, parts)
        pending = _PendingFetch(
            request,
            parts,
            min(request.max_bytes, self._limits.response_max_bytes),
            self.sent if is_follower else None,
        )
        await self._wait(pending, request.max_wait_ms)
        return pending.read()

    async def _wait(self, pending: _PendingFetch, max_wait_ms: int) -> None:
        """Wait for something to say.

        A new high watermark alone lingers for a moment: under load the next records carry it,
        which halves the fetches of a small write.
        """
        keys = pending.keys()
        deadline_ms = self._runtime.now_ms() + max_wait_ms
        await self._purgatory.wait(keys, pending.is_complete, max_wait_ms)
        if pending.has_newer_high_watermark():
            remaining_ms = deadline_ms - self._runtime.now_ms()
            await self._purgatory.wait(
                keys,
                pending.is_complete_without_high_watermark,
                min(self._limits.high_watermark_linger_ms, remaining_ms),
            )

    def _refusal(self, request: FetchRequest, listener: str) -> ErrorCode | None:
        is_follower = request.replica_id > CONSUMER
        serving = (Listener.REPLICATION,) if is_follower else CLIENT_LISTENERS
        if request.replica_id < CONSUMER or listener not in serving:
            error = ErrorCode.INVALID_REQUEST
        elif request.max_bytes < 0 or any(item.max_bytes < 0 for item in request.partitions):
            error = ErrorCode.INVALID_FETCH_SIZE
        else:
            return None
        self._trace.emit(
            EventKind.REQUEST_REFUSED,
            request="Fetch",
            error=error.name,
            listener=listener,
            replica_id=request.replica_id,
        )
        return error

    def _part(self, item: FetchPartition) -> _Part:
        topic: str | None = item.topic
        if item.topic_id != NO_TOPIC_ID:
            topic = self._lookup.topic_of(item.topic_id)
        if topic is None:
            return _Part(item, None, ErrorCode.UNKNOWN_TOPIC_ID)
        topic_partition = TopicPartition(topic, item.partition)
        partition = self._lookup.get(topic_partition)
        if partition is None:
            return _Part(item, None, self._lookup.error_when_absent(topic_partition))
        if item.topic_id not in (NO_TOPIC_ID, partition.topic_id):
            # The replica here is still of the topic's earlier incarnation (KIP-516).
            return _Part(item, partition, ErrorCode.INCONSISTENT_TOPIC_ID)
        error = partition.check_leadership(item.current_leader_epoch)
        if error is ErrorCode.NONE and not (
            partition.log_start_offset <= item.fetch_offset <= partition.log_end_offset
        ):
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        return _Part(item, partition, error)

    def _record_progress(self, request: FetchRequest, parts: list[_Part]) -> None:
        """Count the follower's position, only where its epoch and its offset are right (I16)."""
        now_ms = self._runtime.now_ms()
        for part in parts:
            if part.partition is not None and part.error is ErrorCode.NONE:
                part.error = part.partition.record_follower_fetch(
                    request.replica_id, request.replica_epoch, part.item.fetch_offset, now_ms
                )


def _refuse_all(request: FetchRequest, error: ErrorCode) -> FetchResponse:
    """Name the error in both places: versions below 7 have none for the whole."""
    results = tuple(
        FetchPartitionResult(item.topic, item.partition, error, topic_id=item.topic_id)
        for item in request.partitions
    )
    return FetchResponse(results, error)
