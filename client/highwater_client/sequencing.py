"""How an idempotent producer numbers one partition's batches, so that each is in the log once.

A batch keeps its sequence in every try. Once one is given up, a broker would refuse all after it:
the partition's epoch is raised, and sequences begin anew, when nothing is in flight any more. What
may be in the log by then is not sent again under another number: its outcome stays unknown. After
the last epoch the partition goes on under another producer id.
Source: KIP-98, KIP-360. Deviation: Kafka's clients raise the epoch of all partitions together, and
send again what may be there.
"""

from __future__ import annotations

from dataclasses import replace

from highwater_client.batches import PartitionQueue, PendingBatch
from highwater_client.outcomes import TryResult
from highwater_client.settings import MAX_IN_FLIGHT
from highwater_core.errors import ErrorCode

MAX_SEQUENCE = 2**31 - 1
MAX_PRODUCER_EPOCH = 2**15 - 1


class Sequencer:
    """One partition's producer epoch and sequences.

    Invariant: at most MAX_IN_FLIGHT batches have a sequence and no outcome: as many as brokers
    remember of a producer.
    """

    def __init__(self) -> None:
        self.used_up_id: int | None = None
        """The producer id whose epochs are used up here: another one must be had then."""
        self._producer_id: int | None = None
        """The id since the first batch, or since the first one after the last epoch."""
        self._producer_epoch = 0
        self._next_sequence = 0
        self._unsettled: dict[int, None] = {}
        """The numbers of batches with a sequence and without an outcome, the oldest first."""
        self._in_flight = 0
        self._is_broken = False
        """Whether a sequence is missing for good: those after it cannot be sent."""

    def may_send(self, queue: PartitionQueue) -> bool:
        """Return whether the queue's next batch may leave."""
        if self._is_broken:
            return False
        return bool(queue.retries) or len(self._unsettled) < MAX_IN_FLIGHT

    def number(self, batch: PendingBatch, producer_id: int) -> None:
        """Give the batch, which leaves now, its sequence if it has none yet.

        producer_id: taken for the partition if it has none yet.
        """
        self._in_flight += 1
        if batch.number in self._unsettled:
            return
        self._unsettled[batch.number] = None
        if self._producer_id is None:
            self._producer_id = producer_id
        batch.give_sequence(self._producer_id, self._producer_epoch, self._next_sequence)
        self._next_sequence = (self._next_sequence + len(batch.records)) & MAX_SEQUENCE

    def judged(self, batch: PendingBatch, result: TryResult) -> TryResult:
        """Return how the batch's try ended: it may only have come before an older one."""
        self._in_flight -= 1
        is_early = batch.number != next(iter(self._unsettled))
        if is_early and result.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER.name:
            return replace(result, may_retry=True)
        return result

    def acknowledged(self, batch: PendingBatch) -> None:
        del self._unsettled[batch.number]

    def given_up(self, batch: PendingBatch) -> None:
        if batch.number in self._unsettled:
            del self._unsettled[batch.number]
            self._is_broken = True

    def begin_anew(self, queue: PartitionQueue) -> list[PendingBatch]:
        """Raise the epoch if that is due and possible; return what is not to be sent again."""
        if not self._is_broken or self._in_flight:
            return []
        self._is_broken = False
        self._producer_epoch += 1
        if self._producer_epoch > MAX_PRODUCER_EPOCH:
            self.used_up_id, self._producer_id = self._producer_id, None
            self._producer_epoch = 0
        self._next_sequence = 0
        self._unsettled.clear()
        return queue.take_uncertain()
