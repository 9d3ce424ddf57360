"""Reads an offsets partition from its log start to the start offset of its leader's epoch.

It reads in steps of some milliseconds; other tasks run between them. It changes nothing.
Source: Kafka's GroupMetadataManager, loadGroupsAndOffsets. Deviation: Kafka reads up to the high
watermark of the moment. A new leader's high watermark may be below offsets that its predecessor
acknowledged, so the load waits until it reaches the epoch's start, as ListOffsets does (KIP-207).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from highwater_broker.coordinator.logic.loaded_records import LoadedRecords
from highwater_broker.coordinator.records import BadGroupRecord, decode
from highwater_broker.coordinator.stored import LoadedGroup
from highwater_broker.kafka_api.turns import Turns
from highwater_broker.partition import Partition
from highwater_broker.partition_context import ReadOutcome
from highwater_broker.purgatory import Purgatory
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import Offset
from highwater_wire.kafka.messages import Records
from highwater_wire.kafka.record_batch import BadBatch, decode_records, split_batches

STEP_BYTES = 32 * 1024
"""Some hundred records: what one step reads, or one batch if that is larger."""
WAIT_MS = 10_000
"""How long the high watermark may stand still before the trace says so."""


class LoadFailed(Exception):
    """The log could not be read. error: the read's error."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


class LoadUnwanted(Exception):
    """The load's term is over: this broker lost the partition's lead, perhaps to lead it anew."""


@dataclass(frozen=True, slots=True)
class Load:
    """A finished load.

    groups: by group id.
    end_offset: the offset after the last record that was read.
    skipped: the number of records that are not a group's.
    strays: the groups that belong to other partitions, in the order of their first records.
    """

    groups: dict[str, LoadedGroup]
    end_offset: Offset
    skipped: int = 0
    strays: Sequence[str] = ()


class PartitionLoad:
    """One load of one partition."""

    def __init__(
        self,
        partition: Partition,
        epoch_start_offset: Offset,
        is_wanted: Callable[[], bool],
        is_own: Callable[[str], bool],
        purgatory: Purgatory,
        turns: Turns,
    ) -> None:
        """epoch_start_offset: the start of the leader epoch in which this broker began to lead.

        Every record that a former leader acknowledged lies before it.
        is_own: returns whether a group belongs to the partition. It takes milliseconds for the
        longest ids, so it is asked as records are read, once for each group.
        """
        self._partition = partition
        self._target = epoch_start_offset
        self._is_wanted = is_wanted
        self._is_own = is_own
        self._purgatory = purgatory
        self._turns = turns
        self._position = partition.log_start_offset
        self._records = LoadedRecords()
        self._skipped = 0
        self._owned: dict[str, bool] = {}
        """Whether each group that was met belongs to the partition."""

    async def run(self) -> Load:
        """Return all groups with committed records below the target.

        Raises:
            LoadFailed: the disk cannot be read, or a batch on it is corrupt.
            LoadUnwanted: is_wanted says no.
        """
        while self._position < self._target:
            if self._partition.high_watermark <= self._position:
                await self._wait_for_commits()
            await self._turns.next(self._target - self._position)
            self._check_wanted()
            self._read_step()
        strays = [group_id for group_id, is_own in self._owned.items() if not is_own]
        return Load(self._records.groups(), self._position, self._skipped, strays)

    def _check_wanted(self) -> None:
        if not self._is_wanted():
            raise LoadUnwanted

    async def _wait_for_commits(self) -> None:
        partition = self._partition

        def may_go_on() -> bool:
            return partition.high_watermark > self._position or not self._is_wanted()

        while not await self._purgatory.wait((partition.topic_partition,), may_go_on, WAIT_MS):
            partition.trace(
                EventKind.GROUP_LOAD_WAITED,
                high_watermark=partition.high_watermark,
                epoch_start_offset=self._target,
                isr=partition.isr,
            )
            self._check_wanted()

    def _read_step(self) -> None:
        """Apply the records of one read, which ends at the high watermark at most."""
        # Retention, or the cleaner, may have moved the start meanwhile.
        start = max(self._position, self._partition.log_start_offset)
        if start >= self._target:
            self._position = start
            return
        outcome = self._read(start)
        if outcome.error is not ErrorCode.NONE:
            raise LoadFailed(outcome.error, f"reading at {start}")
        try:
            end_offset = self._apply_all(outcome.records, start)
        except OSError as error:
            raise LoadFailed(ErrorCode.KAFKA_STORAGE_ERROR, f"{start}: {error}") from error
        except BadBatch as bad:
            raise LoadFailed(bad.error, f"{start}: {bad}") from bad
        if end_offset <= start < self._partition.high_watermark:
            raise LoadFailed(ErrorCode.CORRUPT_MESSAGE, f"nothing to read at {start}")
        self._position = max(start, end_offset)

    def _read(self, start: Offset) -> ReadOutcome:
        return self._partition.read(start, STEP_BYTES, for_follower=False)

    def _apply_all(self, records: Records, start: Offset) -> Offset:
        """Apply the records from start on; return the offset after the last batch."""
        end_offset = start
        data = records if isinstance(records, bytes | memoryview) else records.read()
        for batch in split_batches(data):
            end_offset = Offset(batch.header.last_offset + 1)
            if batch.header.is_compressed:
                self._skip(batch.header.record_count, end_offset, "compressed records")
                continue
            for record in decode_records(batch.data):
                if record.offset >= start:
                    self._apply(record.key, record.value, Offset(record.offset))
        return end_offset

    def _apply(self, key: bytes | None, value: bytes | None, offset: Offset) -> None:
        try:
            record = decode(key, value)
        except BadGroupRecord as bad:
            self._skip(1, offset, str(bad))
            return
        if record.group_id not in self._owned:
            self._owned[record.group_id] = self._is_own(record.group_id)
        self._records.apply(record)

    def _skip(self, count: int, offset: Offset, what: str) -> None:
        """Count records that are not a group's; the first ones are traced."""
        if not self._skipped:
            self._partition.trace(
                EventKind.BAD_INPUT_MET, where=f"offsets record at {offset}", what=what
            )
        self._skipped += count
