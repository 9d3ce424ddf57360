"""How an idempotent producer numbers one partition's batches, so that each is in the log once.

A batch keeps its sequence in every try. Once a batch is given up, a broker would refuse all later
batches. So when no request is in flight any more, the partition's producer epoch is raised, and
sequences begin anew. A batch that may be in the log is not sent again under another sequence: its
outcome stays unknown. After the last epoch the partition takes another producer id.

A broker takes any first sequence of a producer that it knows nothing of. If the first batch were
refused and the second one in flight beside it were not, their order would be lost. So until one of
its batches is acknowledged a partition has one batch in flight.
Source: KIP-98, KIP-360. Deviations: Kafka's clients raise the epoch of all partitions together,
send batches again that may be in the log, and do not wait for the first acknowledgement.
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

    Invariant: at most MAX_IN_FLIGHT batches have a sequence and no outcome: brokers remember that
    many batches of a producer.
    """

    def __init__(self) -> None:
        self.used_up_id: int | None = None
        """The producer id whose epochs this partition has used up; None while it needs no other."""
        self._producer_id: int | None = None
        """The partition's id; None before its first batch, and after the id's last epoch."""
        self._is_known = False
        """Whether a batch was acknowledged under this id, so that brokers have its sequences."""
        self._producer_epoch = 0
        self._next_sequence = 0
        self._unsettled: dict[int, None] = {}
        """The numbers of batches with a sequence and without an outcome, the oldest first."""
        self._in_flight = 0
        self._is_broken = False
        """Whether a sequence is missing for good, so that no later one can be sent."""

    def may_send(self, queue: PartitionQueue) -> bool:
        """Return whether the queue's next batch may be sent."""
        if self._is_broken or (self._in_flight and not self._is_known):
            return False
        return bool(queue.retries) or len(self._unsettled) < MAX_IN_FLIGHT

    def number(self, batch: PendingBatch, producer_id: int) -> None:
        """Give the batch, which is sent now, its sequence if it has none yet.

        producer_id: the partition's id from now on, if it has none.
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
        """Return the try's result; a batch that arrived before an older one may be retried."""
        self._in_flight -= 1
        is_early = batch.number != next(iter(self._unsettled))
        if is_early and result.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER.name:
            return replace(result, may_retry=True)
        return result

    def acknowledged(self, batch: PendingBatch) -> None:
        self._is_known = True
        del self._unsettled[batch.number]

    def given_up(self, batch: PendingBatch) -> None:
        if batch.number in self._unsettled:
            del self._unsettled[batch.number]
            self._is_broken = True

    def begin_anew(self, queue: PartitionQueue) -> list[PendingBatch]:
        """Raise the epoch if that is due and possible; return batches not to be sent again."""
        if not self._is_broken or self._in_flight:
            return []
        self._is_broken = False
        self._producer_epoch += 1
        if self._producer_epoch > MAX_PRODUCER_EPOCH:
            self.used_up_id, self._producer_id = self._producer_id, None
            self._is_known = False
            self._producer_epoch = 0
        self._next_sequence = 0
        self._unsettled.clear()
        return queue.take_uncertain()
