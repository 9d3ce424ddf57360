"""Writes records as librdkafka does: batches, retries, requests in flight.

Each partition's batches are sent in order. At most max_in_flight requests wait on one broker's
connection. A failed batch is retried before younger ones. With more than one in flight a younger
batch may be appended first, and a batch whose answer was lost may be appended twice: unless
the producer is idempotent (sequencing.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from highwater_checker.history import SEND, OperationType
from highwater_client.batches import PartitionQueue, PendingBatch, PendingRecord
from highwater_client.metadata import Brokers, Leaders
from highwater_client.outcomes import (
    UNACKNOWLEDGED,
    Outcome,
    TryResult,
    judge_answer,
    judge_failure,
    outcome_of_failure,
)
from highwater_client.producer_identity import ProducerIdentity
from highwater_client.recorder import HistoryRecorder
from highwater_client.sequencing import Sequencer
from highwater_client.settings import ACKS_NONE, ProducerSettings, backoff_after
from highwater_core.errors import ErrorCode
from highwater_core.ids import Endpoint
from highwater_core.ports import CallFailed, Transport
from highwater_core.runtime import Runtime
from highwater_wire.kafka.messages import ProducePartition, ProducePartitionResult, ProduceRequest

ANSWER_MARGIN_MS = 500
"""Time to wait for an answer beyond the broker's own wait for its followers."""
SWEEP_MS = 1_000
"""How often deadlines of records without a leader are checked, as in librdkafka."""

OnAcknowledged = Callable[[str, int, int, int, Sequence[str], int], None]
"""Called with topic, partition, base offset, the batch's CRC, its values and acks."""


class RecordSender:
    """Sends records; every record gets its outcome in the history."""

    def __init__(
        self,
        runtime: Runtime,
        transport: Transport,
        bootstrap: Sequence[Endpoint],
        settings: ProducerSettings,
        recorder: HistoryRecorder,
        on_acknowledged: OnAcknowledged | None = None,
    ) -> None:
        self._runtime = runtime
        self._transport = transport
        self._settings = settings
        self._recorder = recorder
        self._on_acknowledged = on_acknowledged
        self._scope = runtime.scope("RecordSender")
        brokers = Brokers(transport, bootstrap)
        self._identity = ProducerIdentity(
            runtime, brokers, self._pump_leaderless, settings.retry_backoff_ms
        )
        self._leaders = Leaders(
            runtime,
            brokers,
            self._pump_leaderless,
            backoff_ms=settings.retry_backoff_ms,
            max_age_ms=settings.metadata_max_age_ms,
        )
        self._queues: dict[tuple[str, int], PartitionQueue] = {}
        self._sequencers: dict[PartitionQueue, Sequencer] = {}
        """Of an idempotent producer's partitions."""
        self._in_flight: dict[Endpoint, int] = {}
        self._leaderless: dict[PartitionQueue, None] = {}
        self._blocked: dict[Endpoint, dict[PartitionQueue, None]] = {}
        self._is_sweeping = False
        self._open_records = 0
        self._is_idle = runtime.event()
        self._is_idle.set()

    def send(
        self,
        topic: str,
        partition: int,
        value: str,
        *,
        key: str = "",
        delivery_timeout_ms: int | None = None,
        on_done: Callable[[Outcome], None] | None = None,
    ) -> None:
        """Queue one record, without a key if it is ""; its outcome follows."""
        queue = self._queues.get((topic, partition))
        if queue is None:
            queue = self._queues[topic, partition] = PartitionQueue(topic, partition)
            if self._settings.is_idempotent:
                self._sequencers[queue] = Sequencer()
        now_ms = self._runtime.now_ms()
        timeout_ms = delivery_timeout_ms or self._settings.delivery_timeout_ms
        operation_id = self._recorder.new_operation()
        self._recorder.record(
            OperationType.INVOKE,
            operation_id,
            SEND,
            topic,
            partition,
            value,
            tries=self._settings.most_tries,
            key=key,
        )
        self._open_records += 1
        queue.records.append(
            PendingRecord(
                operation_id,
                value,
                queued_ms=now_ms,
                deadline_ms=now_ms + timeout_ms,
                timestamp_ms=self._runtime.wall_clock_ms(),
                on_done=on_done,
                key=key,
            )
        )
        self._pump(queue)

    async def flush(self) -> None:
        """Return once every record so far, and every one sent meanwhile, has its outcome."""
        while self._open_records:
            self._is_idle.clear()
            await self._is_idle.wait()

    def close(self) -> None:
        """Stop at once; records without an outcome stay so, and count as unknown."""
        self._scope.cancel()
        self._leaders.close()
        self._identity.close()
        for leader in self._in_flight:
            self._transport.disconnect(leader, "produce")

    # ------------------------------------------------------------ order of sending

    def _pump(self, queue: PartitionQueue) -> None:
        """Start every request of the partition that may be sent now."""
        settings = self._settings
        while True:
            now_ms = self._runtime.now_ms()
            for batch in queue.take_expired(now_ms):
                self._give_up(queue, batch)
            if not self._may_send(queue):
                return
            wait_ms = queue.wait_ms(now_ms, settings.linger_ms, settings.batch_max_records)
            if wait_ms is None:
                return
            if wait_ms > 0:
                self._wake(queue, wait_ms)
                return
            leader = self._leaders.find(queue.topic, queue.partition)
            if leader is None:
                self._await_leader(queue)
                return
            in_flight = self._in_flight.get(leader, 0)
            if in_flight >= settings.max_in_flight:
                self._blocked.setdefault(leader, {})[queue] = None
                return
            self._in_flight[leader] = in_flight + 1
            batch = queue.take(settings.batch_max_records)
            if queue in self._sequencers and self._identity.producer_id is not None:
                self._sequencers[queue].number(batch, self._identity.producer_id)
            self._scope.spawn("Produce", self._deliver(queue, batch, leader))

    def _may_send(self, queue: PartitionQueue) -> bool:
        """Return whether the sequences of an idempotent producer let the next batch leave."""
        sequencer = self._sequencers.get(queue)
        if sequencer is None:
            return True
        for batch in sequencer.begin_anew(queue):
            self._give_up(queue, batch)
        if self._identity.producer_id == sequencer.used_up_id:
            self._identity.need(sequencer.used_up_id)
            self._await_leader(queue)
            return False
        return sequencer.may_send(queue)

    def _wake(self, queue: PartitionQueue, wait_ms: int) -> None:
        """Schedule _pump of the partition after wait_ms, unless an earlier one is scheduled."""
        at_ms = self._runtime.now_ms() + wait_ms
        if queue.wakes_at_ms is None or at_ms < queue.wakes_at_ms:
            queue.wakes_at_ms = at_ms
            self._scope.spawn("Linger", self._pump_later(queue, wait_ms, at_ms))

    async def _pump_later(self, queue: PartitionQueue, wait_ms: int, at_ms: int) -> None:
        await self._runtime.sleep(wait_ms)
        if queue.wakes_at_ms == at_ms:
            queue.wakes_at_ms = None
        self._pump(queue)

    def _await_leader(self, queue: PartitionQueue) -> None:
        self._leaderless[queue] = None
        self._leaders.need(queue.topic)
        if not self._is_sweeping:
            self._is_sweeping = True
            self._scope.spawn("Sweep", self._sweep())

    async def _sweep(self) -> None:
        """Check records' deadlines even while no broker answers."""
        while self._leaderless:
            await self._runtime.sleep(SWEEP_MS)
            self._pump_leaderless()
        self._is_sweeping = False

    def _pump_leaderless(self) -> None:
        queues, self._leaderless = self._leaderless, {}
        for queue in queues:
            self._pump(queue)

    # ------------------------------------------------------------ one request

    async def _deliver(self, queue: PartitionQueue, batch: PendingBatch, leader: Endpoint) -> None:
        base_offset, result = await self._try(queue, batch, leader)
        if result.may_retry:
            self._leaders.forget(queue.topic, queue.partition, leader)
        if queue in self._sequencers:
            result = self._sequencers[queue].judged(batch, result)
        batch.tried(result)
        rest_ms = backoff_after(batch.tries, self._settings.retry_backoff_ms)
        again_ms = self._runtime.now_ms() + rest_ms
        if not result.error:
            self._acknowledge(queue, batch, base_offset)
        elif result.may_retry and self._settings.retries and again_ms < batch.deadline_ms:
            batch.not_before_ms = again_ms
            queue.put_back(batch)
        else:
            self._give_up(queue, batch)
        self._release(leader)
        self._pump(queue)

    async def _try(
        self, queue: PartitionQueue, batch: PendingBatch, leader: Endpoint
    ) -> tuple[int, TryResult]:
        """Return the base offset, -1 when it is not known, and the try's result."""
        settings = self._settings
        left_ms = batch.deadline_ms - self._runtime.now_ms()
        request = ProduceRequest(
            settings.acks,
            max(1, min(settings.request_timeout_ms, left_ms)),
            (ProducePartition(queue.topic, queue.partition, batch.data),),
        )
        timeout_ms = settings.request_timeout_ms + ANSWER_MARGIN_MS
        try:
            response = await self._transport.call(leader, "produce", request, timeout_ms)
        except CallFailed as failure:
            return -1, judge_failure(failure)
        if settings.acks == ACKS_NONE:
            return -1, TryResult(UNACKNOWLEDGED, may_be_there=True, may_retry=False)
        found = _result_of(response.partitions, queue)
        return found.base_offset, judge_answer(found.error)

    def _release(self, leader: Endpoint) -> None:
        self._in_flight[leader] -= 1
        blocked = self._blocked.get(leader)
        while blocked and self._in_flight[leader] < self._settings.max_in_flight:
            queue = next(iter(blocked))
            del blocked[queue]
            self._pump(queue)

    # ------------------------------------------------------------ outcomes

    def _acknowledge(self, queue: PartitionQueue, batch: PendingBatch, base_offset: int) -> None:
        if queue in self._sequencers:
            self._sequencers[queue].acknowledged(batch)
        if self._on_acknowledged is not None:
            values = [record.value for record in batch.records]
            self._on_acknowledged(
                queue.topic, queue.partition, base_offset, batch.crc, values, self._settings.acks
            )
        for delta, record in enumerate(batch.records):
            outcome = Outcome(OperationType.OK, base_offset + delta, tries=batch.tries)
            self._complete(queue, record, outcome)

    def _give_up(self, queue: PartitionQueue, batch: PendingBatch) -> None:
        if queue in self._sequencers:
            self._sequencers[queue].given_up(batch)
        outcome = outcome_of_failure(batch.error, batch.tries, may_be_there=batch.may_be_there)
        for record in batch.records:
            self._complete(queue, record, outcome)

    def _complete(self, queue: PartitionQueue, record: PendingRecord, outcome: Outcome) -> None:
        self._recorder.record(
            outcome.type,
            record.operation_id,
            SEND,
            queue.topic,
            queue.partition,
            record.value,
            outcome.offset,
            outcome.error,
            tries=outcome.tries,
            key=record.key,
        )
        self._open_records -= 1
        if not self._open_records:
            self._is_idle.set()
        if record.on_done is not None:
            record.on_done(outcome)


def _result_of(results: Sequence[Any], queue: PartitionQueue) -> ProducePartitionResult:
    """Return the partition's result; unknown where the answer lacks it."""
    for result in results:
        if (result.topic, result.partition) == (queue.topic, queue.partition):
            found: ProducePartitionResult = result
            return found
    return ProducePartitionResult(queue.topic, queue.partition, ErrorCode.UNKNOWN_SERVER_ERROR)
