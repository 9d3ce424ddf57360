"""Compacts the logs of topics with that policy, the dirtiest first, one at a time.

It runs beside all else: in steps of some hundred records, and no faster than its rate. A log that
is truncated, deleted or not to be compacted any more meanwhile is left as far as it got.
Source: Kafka's LogCleaner and LogCleanerManager; docs/explanation/replication.md, "Compaction".
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from highwater_broker.log.cleaned_segment import CleanedSegment
from highwater_broker.log.compaction import Rewriting, T, Work, rewrite, take_notes
from highwater_broker.log.log import Log
from highwater_broker.log.record_batch import LogRefused
from highwater_broker.log.segment import Segment
from highwater_broker.log.segment_index import MAX_RELATIVE_OFFSET
from highwater_broker.log_folders import LogFolders
from highwater_broker.logic.compaction import DirtyPart, dirtiest, dirty_part, groups
from highwater_broker.partition import Partition
from highwater_broker.replica_logs import ReplicaLogs
from highwater_broker.replica_manager import ReplicaManager
from highwater_broker.settings import BrokerSettings
from highwater_broker.turns import take_turn
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import Offset, TopicPartition
from highwater_core.ports import Trace
from highwater_core.runtime import Runtime


class _Stopped(Exception):
    """The log was changed since the pass began."""


@dataclass(frozen=True, slots=True)
class _Pass:
    """The offset up to which a log was cleaned, and its number of truncations then."""

    log: Log
    truncation_count: int
    first_dirty_offset: Offset


class LogCleaner:
    """Cleans all dirty logs, then rests for a while."""

    def __init__(
        self,
        settings: BrokerSettings,
        runtime: Runtime,
        trace: Trace,
        logs: LogFolders,
        replicas: ReplicaManager,
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._trace = trace
        self._logs = logs
        self._replicas = replicas
        self._passes: dict[TopicPartition, _Pass] = {}
        self._damaged: dict[TopicPartition, Log] = {}
        """Logs with bytes that went bad on the disk: they are not cleaned any more."""
        self._due_bytes = 0
        """Bytes read or written for which it has not paused yet."""

    async def run(self) -> None:
        while True:
            await self._runtime.sleep(self._settings.log_cleaner_backoff_ms)
            await self.clean_all()

    async def clean_all(self) -> None:
        """Clean every log that is dirty enough, once more if it has become that meanwhile.

        A log whose cleaning was stopped, or that the disk refused, waits for the next time.
        """
        put_off: dict[TopicPartition, None] = {}
        while (chosen := await self._choose(put_off)) is not None:
            partition, part = chosen
            key = partition.topic_partition
            try:
                await self._clean(partition, part)
            except _Stopped:
                put_off[key] = None
            except (LogRefused, OSError) as error:
                put_off[key] = None
                if isinstance(error, LogRefused) and error.error is ErrorCode.CORRUPT_MESSAGE:
                    self._damaged[key] = partition.log
                if self._replicas.get(key) is partition:
                    self._logs.refused(key, error)

    # ------------------------------------------------------------ which

    async def _choose(
        self, put_off: Collection[TopicPartition]
    ) -> tuple[Partition, DirtyPart] | None:
        compacted = [each for each in self._replicas.partitions() if each.log.config.is_compacted]
        found: list[tuple[Partition, DirtyPart, float]] = []
        for number, partition in enumerate(compacted):
            await take_turn(self._runtime, number)
            key = partition.topic_partition
            if key not in put_off and self._may_clean(partition):
                least = partition.log.config.min_cleanable_dirty_ratio
                found.append((partition, self._dirty_part(partition), least))
        return dirtiest(found)

    def _may_clean(self, partition: Partition) -> bool:
        key, log = partition.topic_partition, partition.log
        return (
            self._replicas.get(key) is partition
            and log.config.is_compacted
            and self._replicas.knows_settings(key.topic)
            and self._damaged.get(key) is not log
        )

    def _dirty_part(self, partition: Partition) -> DirtyPart:
        """Return the part to clean: committed, on the disk, and old enough."""
        log = partition.log
        lag_ms = log.config.min_compaction_lag_ms
        return dirty_part(
            log.segments,
            self._first_dirty_offset(partition),
            safe_end_offset=min(partition.high_watermark, log.recovery_point),
            newest_timestamp_ms=self._runtime.wall_clock_ms() - lag_ms if lag_ms else None,
        )

    def _first_dirty_offset(self, partition: Partition) -> Offset:
        """Return the offset up to which the log is clean; after a truncation its start."""
        key, log = partition.topic_partition, partition.log
        known = self._passes.get(key)
        if known is None or known.log is not log:
            home = self._logs.home_of(key)
            written = home.cleaned_to.offset_of(key) if home is not None else None
            known = _Pass(log, 0, written or log.log_start_offset)
        is_whole = known.truncation_count == log.truncation_count
        return known.first_dirty_offset if is_whole else log.log_start_offset

    # ------------------------------------------------------------ how

    async def _clean(self, partition: Partition, part: DirtyPart) -> None:
        """Clean the log's dirty part, and its clean part by the keys of the dirty one.

        Raises:
            _Stopped, OSError, LogRefused: the log is partly cleaned, and stays dirty.
        """
        log, config = partition.log, partition.log.config
        truncation_count = log.truncation_count

        def goes_on() -> bool:
            is_same = log.truncation_count == truncation_count
            return is_same and self._may_clean(partition)

        log.producers.make_current(log.segments)
        notes = await self._do(
            take_notes(log.segments[:], part, self._settings.log_cleaner_keys_max), goes_on
        )
        rewriting = Rewriting(
            notes,
            self._runtime.wall_clock_ms(),
            config.delete_retention_ms,
            lambda offset, what: self._unreadable(partition, offset, what),
            log.producers.remembers,
        )
        known = [each for each in log.segments if each.base_offset < notes.end_offset]
        max_bytes = config.segment_bytes
        for group in groups(known, max_bytes=max_bytes, max_offsets=MAX_RELATIVE_OFFSET):
            work = rewrite(
                group,
                lambda offset: log.segments.begin_cleaned(offset, config.index_interval_bytes),
                rewriting,
            )
            begin, end = group[0].base_offset, group[-1].next_offset
            cleaned = await self._do(work, goes_on)
            if cleaned is not None:
                await self._swap(partition, cleaned, group, rewriting, goes_on)
            if goes_on():
                log.producers.remove_within(begin, end)
        self._passes[partition.topic_partition] = _Pass(log, truncation_count, notes.end_offset)
        home = self._logs.home_of(partition.topic_partition)
        if home is not None:
            await self._write_checkpoint(home)

    async def _do(self, work: Work[T], goes_on: Callable[[], bool]) -> T:
        """Return the work's result; pause between its steps, as the rate requires.

        Raises:
            _Stopped, OSError, LogRefused: the work was given up, without leftovers.
        """
        rate = self._settings.log_cleaner_io_max_bytes_per_s
        try:
            while True:
                try:
                    self._due_bytes += next(work)
                except StopIteration as end:
                    result: T = end.value
                    return result
                rest_ms = self._due_bytes * 1000 // rate
                self._due_bytes -= rest_ms * rate // 1000
                await self._runtime.sleep(rest_ms)
                if not goes_on():
                    raise _Stopped
        finally:
            work.close()

    async def _swap(
        self,
        partition: Partition,
        cleaned: CleanedSegment,
        group: list[Segment],
        rewriting: Rewriting,
        goes_on: Callable[[], bool],
    ) -> None:
        """Replace the group by the segment once that is on the disk.

        Raises:
            _Stopped, OSError: as above, or the files of some of the group are still there.
        """
        log = partition.log
        try:
            await cleaned.sync_batches()
            is_there = goes_on() and group[0] in log.segments  # retention may have taken it
            if is_there:
                log.segments.take_in(cleaned, group)
        except OSError:
            cleaned.discard()
            raise
        if not is_there:
            cleaned.discard()
            raise _Stopped
        self._trace.emit(
            EventKind.LOG_COMPACTED,
            topic=partition.topic_partition.topic,
            topic_id=partition.topic_id,
            partition=partition.topic_partition.partition,
            leader_epoch=partition.leader_epoch,
            offset=cleaned.next_offset,
            base_offset=cleaned.base_offset,
            dirty_end=rewriting.notes.end_offset,
            high_watermark=partition.high_watermark,
            removed_records=rewriting.removed_records,
            size_bytes_before=sum(each.size_bytes for each in group),
            size_bytes=cleaned.size_bytes,
        )
        rewriting.removed_records = 0
        await log.segments.settle()

    def _unreadable(self, partition: Partition, offset: int, what: str) -> None:
        """Trace an unreadable batch, which stays as it is."""
        key = partition.topic_partition
        self._trace.emit(EventKind.BAD_INPUT_MET, where=f"{key} at {offset}", what=what[:300])

    async def _write_checkpoint(self, home: ReplicaLogs) -> None:
        """Write the offsets up to which the folder's logs were cleaned.

        Raises:
            LogRefused: the disk refused.
        """
        entries = home.entries_of_unopened(home.cleaned_to)
        for partition in self._replicas.partitions():
            key = partition.topic_partition
            if partition.log.config.is_compacted and self._logs.home_of(key) is home:
                entries[key] = self._first_dirty_offset(partition)
        if await home.cleaned_to.write(entries):
            home.tell_written(home.cleaned_to, len(entries))
