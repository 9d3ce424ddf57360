"""Records that wait to be written, by partition, and batches to retry."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable
from operator import attrgetter

from highwater_client.outcomes import Outcome, TryResult
from highwater_wire.kafka.record_batch import NO_PRODUCER, build_batch, parse_header

_NUMBER = attrgetter("number")


class PendingRecord:
    """A record until its outcome is known; on_done gets the outcome."""

    __slots__ = (
        "deadline_ms",
        "key",
        "on_done",
        "operation_id",
        "queued_ms",
        "timestamp_ms",
        "value",
    )

    def __init__(
        self,
        operation_id: int,
        value: str,
        *,
        queued_ms: int,
        deadline_ms: int,
        timestamp_ms: int,
        on_done: Callable[[Outcome], None] | None,
        key: str = "",
    ) -> None:
        self.operation_id = operation_id
        self.key = key
        self.value = value
        self.queued_ms = queued_ms
        self.deadline_ms = deadline_ms
        self.timestamp_ms = timestamp_ms
        self.on_done = on_done


class PendingBatch:
    """Records that are written together, with the same bytes in every try.

    may_be_there: a try may have appended it.
    """

    __slots__ = ("data", "error", "may_be_there", "not_before_ms", "number", "records", "tries")

    def __init__(self, number: int, records: list[PendingRecord]) -> None:
        self.number = number
        self.records = records
        self.data = self._built(NO_PRODUCER)
        self.tries = 0
        self.may_be_there = False
        self.error = ""
        self.not_before_ms = 0

    def give_sequence(self, producer_id: int, producer_epoch: int, sequence: int) -> None:
        """Make it an idempotent producer's, with its first record's sequence."""
        self.data = self._built((producer_id, producer_epoch, sequence))

    def _built(self, producer: tuple[int, int, int]) -> bytes:
        records = [(_key_of(each), each.value.encode(), each.timestamp_ms) for each in self.records]
        return build_batch(records, producer=producer)

    @property
    def crc(self) -> int:
        return parse_header(self.data).crc

    @property
    def deadline_ms(self) -> int:
        return self.records[0].deadline_ms

    def tried(self, result: TryResult) -> None:
        self.tries += 1
        self.may_be_there |= result.may_be_there
        self.error = result.error


def _key_of(record: PendingRecord) -> bytes | None:
    return record.key.encode() if record.key else None


class PartitionQueue:
    """One partition's batches to retry, oldest first, then its records without a batch."""

    __slots__ = ("_next_number", "partition", "records", "retries", "topic", "wakes_at_ms")

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.retries: list[PendingBatch] = []
        self.records: deque[PendingRecord] = deque()
        self.wakes_at_ms: int | None = None
        self._next_number = 0

    def put_back(self, batch: PendingBatch) -> None:
        """Queue a batch for a retry, in the order of age (librdkafka sorts by message id)."""
        insort(self.retries, batch, key=_NUMBER)

    def take_expired(self, now_ms: int) -> list[PendingBatch]:
        """Remove and return the records past their deadlines, as batches."""
        expired: list[PendingBatch] = []
        while self.retries and self.retries[0].deadline_ms <= now_ms:
            expired.append(self.retries.pop(0))
        while self.records and self.records[0].deadline_ms <= now_ms:
            expired.append(self._new_batch(1))
        return expired

    def take_uncertain(self) -> list[PendingBatch]:
        """Remove and return the batches to try again that an earlier try may have appended."""
        uncertain = [batch for batch in self.retries if batch.may_be_there]
        self.retries = [batch for batch in self.retries if not batch.may_be_there]
        return uncertain

    def wait_ms(self, now_ms: int, linger_ms: int, max_records: int) -> int | None:
        """Return how long the next batch must still wait, None when there is none."""
        if self.retries:
            return max(0, self.retries[0].not_before_ms - now_ms)
        if not self.records:
            return None
        if len(self.records) >= max_records:
            return 0
        return max(0, self.records[0].queued_ms + linger_ms - now_ms)

    def take(self, max_records: int) -> PendingBatch:
        """Remove and return the next batch; there must be one."""
        return self.retries.pop(0) if self.retries else self._new_batch(max_records)

    def _new_batch(self, max_records: int) -> PendingBatch:
        count = min(len(self.records), max_records)
        batch = PendingBatch(self._next_number, [self.records.popleft() for _ in range(count)])
        self._next_number += 1
        return batch
