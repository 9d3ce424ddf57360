"""Produce: appends each partition's records and, with acks=all, waits until they are committed.

Served on the client listeners only: the replication plane carries no client's records.
Source: replication.md section 4; KIP-98 is not served (no transactions).
"""

from __future__ import annotations

from highwater_broker.kafka_api.lookup import PartitionLookup
from highwater_broker.kafka_api.seams import CLIENT_LISTENERS, Partition
from highwater_broker.purgatory import Purgatory
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import LeaderEpoch, Offset, TopicPartition
from highwater_core.ports import Trace
from highwater_core.runtime import Runtime
from highwater_wire.kafka.messages import (
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
)

ACKS_ALL = -1
_ACKS = (0, 1, ACKS_ALL)


class _Appended:
    """A partition's appended records, until it is known whether they are committed.

    The first status that is known stays, whatever becomes of the partition while others wait.
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


class ProduceHandler:
    """Answers Produce."""

    def __init__(
        self, lookup: PartitionLookup, purgatory: Purgatory, runtime: Runtime, trace: Trace
    ) -> None:
        self._lookup = lookup
        self._purgatory = purgatory
        self._runtime = runtime
        self._trace = trace

    async def handle(self, request: ProduceRequest, listener: str) -> ProduceResponse | None:
        """Return each partition's outcome, or None with acks=0.

        Ordering: all appends happen before the first wait, in the request's order; one that fails
        does not keep the others back.
        Deviation: Kafka closes the connection when an append with acks=0 fails, so that the
        producer looks for the leader; here the records are lost silently, as acks=0 allows.
        """
        refused = self._refusal(request, listener)
        if refused is not None:
            return None if request.acks == 0 else _refuse_all(request, refused)
        now_ms = self._runtime.wall_clock_ms()
        results: list[ProducePartitionResult] = []
        appended: list[_Appended] = []
        for item in request.partitions:
            results.append(self._append(item, request.acks, now_ms, len(results), appended))
        if request.acks == 0:
            return None
        if appended:
            await self._wait_for_all(appended, request.timeout_ms)
            for one in appended:
                results[one.index] = _committed(results[one.index], one.status)
        return ProduceResponse(tuple(results))

    def _refusal(self, request: ProduceRequest, listener: str) -> ErrorCode | None:
        if request.acks not in _ACKS:
            error = ErrorCode.INVALID_REQUIRED_ACKS
        elif listener not in CLIENT_LISTENERS or request.transactional_id is not None:
            error = ErrorCode.INVALID_REQUEST
        else:
            return None
        self._trace.emit(
            EventKind.REQUEST_REFUSED, request="Produce", error=error.name, listener=listener
        )
        return error

    def _append(
        self,
        item: ProducePartition,
        acks: int,
        now_ms: int,
        index: int,
        appended: list[_Appended],
    ) -> ProducePartitionResult:
        topic_partition = TopicPartition(item.topic, item.partition)
        partition = self._lookup.get(topic_partition)
        if partition is None:
            error = self._lookup.error_when_absent(topic_partition)
            return ProducePartitionResult(item.topic, item.partition, error)
        if not item.records:
            return ProducePartitionResult(item.topic, item.partition, ErrorCode.INVALID_RECORD)
        outcome = partition.append(item.records, acks, now_ms)
        if outcome.error is not ErrorCode.NONE:
            return ProducePartitionResult(item.topic, item.partition, outcome.error)
        if acks == ACKS_ALL:
            appended.append(_Appended(index, partition, outcome.end_offset))
        return ProducePartitionResult(
            item.topic,
            item.partition,
            ErrorCode.NONE,
            outcome.base_offset,
            outcome.log_start_offset,
        )

    async def _wait_for_all(self, appended: list[_Appended], timeout_ms: int) -> None:
        if len(appended) == 1:
            # In turn: what was appended earlier is committed, or lost, no later.
            (one,) = appended
            await self._purgatory.wait(
                (one.partition.topic_partition,), one.is_decided, timeout_ms, in_turn=True
            )
            return
        keys = [one.partition.topic_partition for one in appended]

        def are_decided() -> bool:
            # Each is asked: a status may be known only now.
            return sum([one.is_decided() for one in appended]) == len(appended)

        await self._purgatory.wait(keys, are_decided, timeout_ms)


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
