"""Produce: appends each partition's records and, with acks=all, waits until they are committed.

Served on the client listeners only: the replication plane carries no client's records.
Source: docs/explanation/replication.md, "The broker"; KIP-98 is not served (no transactions).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence

from highwater_broker.kafka_api.append_order import AppendOrder
from highwater_broker.kafka_api.key_looks import APPENDS_PER_TURN, KeyLooks
from highwater_broker.kafka_api.listeners import CLIENT_LISTENERS
from highwater_broker.kafka_api.lookup import PartitionLookup
from highwater_broker.kafka_api.turns import Turns
from highwater_broker.log.record_batch import KeyLook
from highwater_broker.partition import Partition
from highwater_broker.purgatory import Parts, Purgatory
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import LeaderEpoch, Offset, TopicPartition
from highwater_core.internal_topics import INTERNAL_TOPICS
from highwater_core.ports import Trace
from highwater_core.runtime import Runtime
from highwater_wire.kafka.messages import (
    ACKS_ALL,
    PRODUCE_PARTITION_BYTES,
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
)

_ACKS = (0, 1, ACKS_ALL)
WAITING_BYTES_MAX = 64 * 1024 * 1024
"""Most bytes of all produces that wait for their turn; beyond, one is appended at once. A
connection's quota does not count them: it counts a frame until its handler first waits.
"""


class _Appended:
    """A partition's appended records, until it is known whether they are committed.

    The first known status stays, even if the partition changes while others wait.
    """

    __slots__ = ("end_offset", "index", "leader_epoch", "partition", "status")

    def __init__(self, index: int, partition: Partition, end_offset: Offset) -> None:
        self.index = index
        self.partition = partition
        self.end_offset = end_offset
        self.leader_epoch: LeaderEpoch = partition.leader_epoch
        self.status: ErrorCode | None = None

    def is_decided(self) -> bool:
        """The predicate of a waiting produce, of this partition at least."""
        if self.status is None:
            self.status = self.partition.acks_all_status(self.end_offset, self.leader_epoch)
        return self.status is not None


class _Appends:
    """The results of a request's appends so far, in its partitions' order."""

    __slots__ = ("acks", "named_twice", "parts", "results", "uncommitted")

    def __init__(self, acks: int, named_twice: Container[TopicPartition], parts: Parts) -> None:
        self.acks = acks
        self.named_twice = named_twice
        self.parts = parts
        """Waits for the uncommitted parts, in the order of appends on each partition."""
        self.results: list[ProducePartitionResult] = []
        self.uncommitted: list[_Appended] = []


class ProduceHandler:
    """Answers Produce."""

    def __init__(
        self,
        lookup: PartitionLookup,
        purgatory: Purgatory,
        runtime: Runtime,
        trace: Trace,
        turns: Turns,
    ) -> None:
        self._lookup = lookup
        self._purgatory = purgatory
        self._runtime = runtime
        self._trace = trace
        self._turns = turns
        self._order = AppendOrder(runtime)
        self._key_looks = KeyLooks(lookup, runtime, turns)
        self._waiting_bytes = 0
        """Bytes of the records in produces that are not appended yet."""

    async def handle(self, request: ProduceRequest, listener: str) -> ProduceResponse | None:
        """Return each partition's outcome, or None with acks=0.

        Ordering: all appends happen before the wait for followers, in the request's order; a failed
        one does not stop the others. A request of up to APPENDS_PER_TURN partitions appends at
        once, a larger one in turns, and so does one with many records for compacted topics; a
        partition's requests stay in order. A request without records neither waits nor delays
        others. Where too many bytes wait for their turn, a request of many partitions appends at
        once as well; the others that must wait are refused with REQUEST_TIMED_OUT.
        Deviation: Kafka closes the connection when an append with acks=0 fails, so that the
        producer looks for the leader; here the records are lost silently, as acks=0 allows. For a
        repeated partition Kafka appends the last records; here none.
        """
        refused = self._refusal(request, listener)
        if refused is not None:
            return None if request.acks == 0 else _refuse_all(request, refused)
        appends = _Appends(request.acks, _named_twice(request.partitions), self._purgatory.parts())
        try:
            return await self._append_and_wait(request, appends, listener)
        finally:
            appends.parts.close()

    async def _append_and_wait(
        self, request: ProduceRequest, appends: _Appends, listener: str
    ) -> ProduceResponse | None:
        keys = [TopicPartition(item.topic, item.partition) for item in request.partitions]
        is_free = self._order.is_free(keys)
        is_small = len(keys) <= APPENDS_PER_TURN
        if is_free and is_small and self._key_looks.are_short(request.partitions):
            self._append_all(request.partitions, appends)
        elif not any(item.records for item in request.partitions):
            appends.results += await self._turns.each(
                lambda key: self._refuse_empty(key, appends.named_twice), keys
            )
        elif (
            self._waiting_bytes + _size_of(request) <= WAITING_BYTES_MAX or not self._waiting_bytes
        ):
            await self._append_later(request, keys, appends)
        elif is_free and self._key_looks.are_short(request.partitions):
            self._append_all(request.partitions, appends)
        else:
            refused = self._refuse(ErrorCode.REQUEST_TIMED_OUT, listener)
            return None if request.acks == 0 else _refuse_all(request, refused)
        if request.acks == 0:
            return None
        results = appends.results
        await appends.parts.wait(request.timeout_ms)
        for one in appends.uncommitted:
            one.is_decided()  # nobody may have asked since the last check of its partition
            results[one.index] = _committed(results[one.index], one.status)
        return ProduceResponse(tuple(results))

    def _refusal(self, request: ProduceRequest, listener: str) -> ErrorCode | None:
        if request.acks not in _ACKS:
            error = ErrorCode.INVALID_REQUIRED_ACKS
        elif listener not in CLIENT_LISTENERS or request.transactional_id is not None:
            error = ErrorCode.INVALID_REQUEST
        else:
            return None
        return self._refuse(error, listener)

    def _refuse(self, error: ErrorCode, listener: str) -> ErrorCode:
        self._trace.emit(
            EventKind.REQUEST_REFUSED, request="Produce", error=error.name, listener=listener
        )
        return error

    async def _append_later(
        self, request: ProduceRequest, keys: Sequence[TopicPartition], appends: _Appends
    ) -> None:
        """Append in turns, once earlier requests have appended to these partitions."""
        items = tuple(map(_with_own_records, request.partitions))
        size_bytes = _size_of(request)
        self._waiting_bytes += size_bytes
        try:
            await self._order.append(keys, lambda: self._append_in_turns(items, appends))
        finally:
            self._waiting_bytes -= size_bytes

    async def _append_in_turns(self, items: Sequence[ProducePartition], appends: _Appends) -> None:
        for number, item in enumerate(items):
            left = len(items) - number
            if number % APPENDS_PER_TURN == 0:
                await self._turns.next(left)
            look = await self._key_looks.look(item, left)
            now_ms = self._runtime.wall_clock_ms()
            appends.results.append(self._append(item, now_ms, appends, look))

    def _append_all(self, items: Sequence[ProducePartition], appends: _Appends) -> None:
        now_ms = self._runtime.wall_clock_ms()
        for item in items:
            appends.results.append(self._append(item, now_ms, appends))

    def _append(
        self,
        item: ProducePartition,
        now_ms: int,
        appends: _Appends,
        look: KeyLook | None = None,
    ) -> ProducePartitionResult:
        key = TopicPartition(item.topic, item.partition)
        partition = self._lookup.get(key)
        is_internal = key.topic in INTERNAL_TOPICS
        if is_internal or not item.records or partition is None or key in appends.named_twice:
            return self._refuse_empty(key, appends.named_twice)
        outcome = partition.append(item.records, appends.acks, now_ms, look)
        if outcome.error is not ErrorCode.NONE:
            return ProducePartitionResult(item.topic, item.partition, outcome.error)
        if appends.acks == ACKS_ALL:
            index = len(appends.results)
            appended = _Appended(index, partition, outcome.end_offset)
            appends.uncommitted.append(appended)
            # A repeat may end below records that wait already, and is then committed before them.
            is_last = outcome.end_offset == partition.log_end_offset
            appends.parts.add(key, appended.is_decided, in_turn=is_last)
        return ProducePartitionResult(
            item.topic,
            item.partition,
            ErrorCode.NONE,
            outcome.base_offset,
            outcome.log_start_offset,
        )

    def _refuse_empty(
        self, key: TopicPartition, named_twice: Container[TopicPartition]
    ) -> ProducePartitionResult:
        """Return the answer for a partition without an append."""
        if key in named_twice:
            error = ErrorCode.INVALID_REQUEST
        elif key.topic in INTERNAL_TOPICS:
            error = ErrorCode.INVALID_TOPIC_EXCEPTION
        elif self._lookup.get(key) is None:
            error = self._lookup.error_when_absent(key)
        else:
            error = ErrorCode.INVALID_RECORD
        return ProducePartitionResult(key.topic, key.partition, error)


def _named_twice(items: Sequence[ProducePartition]) -> frozenset[TopicPartition]:
    if len(items) == 1:
        return frozenset()
    counts = Counter(TopicPartition(item.topic, item.partition) for item in items)
    return frozenset(key for key, count in counts.items() if count > 1)


def _size_of(request: ProduceRequest) -> int:
    """Return the bytes that the request keeps while it waits for its turn."""
    return sum(len(item.records or b"") + PRODUCE_PARTITION_BYTES for item in request.partitions)


def _with_own_records(item: ProducePartition) -> ProducePartition:
    """Return the item with records that stay valid after the first wait.

    A view of the frame, which becomes invalid then, is copied; bytes are not.
    """
    records = item.records
    return ProducePartition(item.topic, item.partition, None if records is None else bytes(records))


def _committed(result: ProducePartitionResult, status: ErrorCode | None) -> ProducePartitionResult:
    if status is ErrorCode.NONE:
        return result
    error = ErrorCode.REQUEST_TIMED_OUT if status is None else status
    return ProducePartitionResult(result.topic, result.partition, error)


def _refuse_all(request: ProduceRequest, error: ErrorCode) -> ProduceResponse:
    return ProduceResponse(
        tuple(
            ProducePartitionResult(item.topic, item.partition, error) for item in request.partitions
        )
    )
