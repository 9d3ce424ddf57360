"""One replica's log: segments, epoch cache and recovery point of one partition.

Appends, reads and truncations are synchronous, in the page cache; only `flush` waits for the
disk. Roles and the high watermark are its callers'.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress

from highwater_broker.log.append_part import AppendPart, AppendResult, parts_of, without_held
from highwater_broker.log.epoch_file import EpochFile
from highwater_broker.log.folders import DELETE_SUFFIX, STRAY_SUFFIX, rename_aside
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.open_file import LogRead
from highwater_broker.log.producers import LogProducers
from highwater_broker.log.record_batch import (
    KeyLook,
    LogRefused,
    split_batches,
    stamp,
    take_produced,
)
from highwater_broker.log.recovery import Recovery, RecoveryReport
from highwater_broker.log.refusing import refused_by_disk, refusing
from highwater_broker.log.retention import count_deletable, must_roll
from highwater_broker.log.retired_segments import RetiredSegments, remove_newest
from highwater_broker.log.segment import UNSYNCED_OPEN, Segment, SegmentGone
from highwater_broker.log.segment_list import SegmentList
from highwater_broker.log.syncing import SyncFailed, synced
from highwater_broker.log.time_lookup import FoundOffset, Steps, look_up_timestamp
from highwater_broker.logic.epoch_cache import EpochCache
from highwater_core.check import check
from highwater_core.errors import ErrorCode
from highwater_core.ids import LeaderEpoch, Offset
from highwater_core.ports import Buffer, FileSystem
from highwater_wire.kafka.record_batch import MAX_INT64


class Log:
    """The batches [log_start_offset, log_end_offset) of one replica.

    Invariant: log_start_offset <= recovery_point <= log_end_offset; the segments are contiguous
    and the last one takes the appends.
    """

    @classmethod
    def recovered(cls, recovery: Recovery) -> tuple[Log, RecoveryReport]:
        """Carry the recovery out and return the recovered log.

        Raises:
            LogRefused: KAFKA_STORAGE_ERROR.
        """
        log = cls(recovery.files, recovery.folder, recovery.config)
        log.epoch_cache = recovery.carry_out(log._epoch_file)
        log.segments += recovery.segments
        log.producers.open(recovery.segments, recovery.recovery_point)
        recovery.repairs += log.producers.problems
        report = recovery.report()
        log.log_end_offset = report.log_end_offset
        log.log_start_offset = Offset(max(recovery.log_start_offset, log.segments[0].base_offset))
        log.recovery_point = Offset(
            max(log.log_start_offset, min(recovery.recovery_point, log.log_end_offset))
        )
        return log, report

    def __init__(self, files: FileSystem, folder: str, config: LogConfig) -> None:
        """Only for `recovered`."""
        self.config = config
        self.folder = folder
        self.log_start_offset = Offset(0)
        self.log_end_offset = Offset(0)
        """The next offset to assign."""
        self.recovery_point = Offset(0)
        """All records below it are on the disk, and the epoch file."""
        self.epoch_cache = EpochCache()
        self.producers = LogProducers(files, folder)
        self.segments = SegmentList(files, folder)
        self._files = files
        self._epoch_file = EpochFile(files, folder)
        self._retired = RetiredSegments()
        self.truncation_count = 0
        """The number of its truncations and new beginnings."""
        self._name_changes = 1
        self._synced_name_changes = 0
        self._sync_failed = False
        self._is_closed = False

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    # ------------------------------------------------------------ appending

    def append_as_leader(
        self, records: Buffer, leader_epoch: LeaderEpoch, now_ms: int, look: KeyLook | None = None
    ) -> AppendResult:
        """Append a producer's batch with the next offsets and the leader's epoch.

        An idempotent producer's batch that is in the log already is not appended again: the result
        has its offsets. now_ms is wall clock time. look: see take_produced.

        Raises:
            LogRefused: the batch was not appended; see there.
        """
        batch = take_produced(records, self.config, now_ms, look)
        header, size_bytes = batch.header, len(records)
        if size_bytes > self.config.segment_bytes:
            raise LogRefused(
                ErrorCode.RECORD_LIST_TOO_LARGE, f"{size_bytes} bytes do not fit a segment"
            )
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        if last_offset >= MAX_INT64:
            raise LogRefused(ErrorCode.RECORD_LIST_TOO_LARGE, "there are no such offsets")
        part = AppendPart(base_offset, self.epoch_cache.assign(leader_epoch, base_offset))
        if header.has_producer_id:
            there = self.producers.find_repeated(header, self.segments)
            if there is not None:
                return there
            part.sequenced.append(header._replace(base_offset=base_offset))
        part.add(size_bytes, last_offset, header.newest_timestamp, part.epochs)
        self._append(part, stamp(batch, base_offset, leader_epoch), now_ms)
        return AppendResult(base_offset, self.log_end_offset, size_bytes)

    def append_as_follower(
        self, records: Buffer, now_ms: int, highest_epoch: LeaderEpoch | None = None
    ) -> AppendResult:
        """Append a leader's batches as they are; they must continue the log without a gap.

        A compacted log has no gaps: a batch without records covers removed ones. Of the first batch
        only offsets beyond the log's end are appended. Their epochs go into the epoch cache. They
        are not validated like a producer's: the leader accepted them. The first batch above
        highest_epoch and all after it are left out (KAFKA-18723); the result has the size of the
        appended ones. now_ms is wall clock time.

        Raises:
            LogRefused: no batch was appended. OFFSET_OUT_OF_RANGE: the batches do not begin at
                the log's end; CORRUPT_MESSAGE: they do not follow one another, or are corrupt.
                KAFKA_STORAGE_ERROR: the first ones may have been.
        """
        base_offset, epochs = self.log_end_offset, self.epoch_cache
        batches = split_batches(records)
        if batches and batches[0].header.base_offset < base_offset:
            first = without_held(batches[0], base_offset)
            records = bytes(first) + bytes(memoryview(records)[len(batches[0].data) :])
            batches = split_batches(records)
        rest = memoryview(records)
        for part in parts_of(batches, base_offset, epochs, highest_epoch):
            self._append(part, [rest[: part.size_bytes]], now_ms)
            rest = rest[part.size_bytes :]
        size_bytes = len(records) - len(rest)
        return AppendResult(base_offset, self.log_end_offset, size_bytes)

    def assign_epoch(self, leader_epoch: LeaderEpoch) -> None:
        """Note that the epoch begins at the log's end: a new leader's first step (KAFKA-7415).

        It is stored with the epoch's first batch, or by the next flush, whichever comes first.
        """
        cache = self.epoch_cache.assign(leader_epoch, self.log_end_offset)
        if cache is not self.epoch_cache:
            self.epoch_cache = cache
            self._epoch_file.mark_stale()

    def _append(self, part: AppendPart, buffers: Sequence[Buffer], now_ms: int) -> None:
        """Write and note the batches, all or none."""
        segment = self.segments[-1]
        cache = part.epochs
        try:
            if part.sequenced:
                self.producers.make_current(self.segments)
            if must_roll(self.config, segment, len(self.segments), part, now_ms):
                self.producers.add_snapshot(self.log_end_offset, self.segments)
                segment = self._roll(self.log_end_offset)
            if cache is not self.epoch_cache or self._epoch_file.is_stale:
                self._epoch_file.store(cache)
                self._name_changes += 1
            position = segment.write(buffers)
        except OSError as error:
            self._epoch_file.mark_stale()
            raise refused_by_disk(self.folder, error) from error
        self.epoch_cache = cache
        if part.sequenced:
            self.producers.note(part.sequenced)
        if position == 0:
            segment.begun_ms = now_ms
        for batch_bytes, first_offset, last_offset, max_timestamp in part.batches:
            segment.note(position, batch_bytes, first_offset, last_offset, max_timestamp)
            position += batch_bytes
        self.log_end_offset = Offset(segment.next_offset)

    def _roll(self, base_offset: Offset) -> Segment:
        segment = self._new_segment(base_offset)
        self.segments[-1].seal()
        self.segments.append(segment)
        if len(self.segments) > UNSYNCED_OPEN + 1:
            self.segments[-UNSYNCED_OPEN - 2].rest()
        return segment

    def _new_segment(self, base_offset: int) -> Segment:
        self._name_changes += 1
        return Segment(self._files, self.folder, base_offset, self.config.index_interval_bytes)

    def _set_epochs(self, cache: EpochCache) -> None:
        """Set and store the cache; where the disk refuses, appends fail until it is stored."""
        if cache is self.epoch_cache:
            return
        self.epoch_cache = cache
        self._name_changes += 1
        with suppress(OSError):  # the file is stale then: the next append or flush raises
            self._epoch_file.store(cache)

    # ------------------------------------------------------------ reading

    def read(
        self,
        start_offset: Offset,
        max_bytes: int,
        upper_bound_offset: Offset,
        *,
        at_least_one_batch: bool = True,
    ) -> LogRead:
        """Return whole batches from the one with start_offset on, of one segment.

        None of them has a record at upper_bound_offset or beyond. at_least_one_batch lets the
        first one exceed max_bytes (KIP-74).

        Raises:
            LogRefused: OFFSET_OUT_OF_RANGE outside [log_start_offset, log_end_offset];
                KAFKA_STORAGE_ERROR; CORRUPT_MESSAGE where bytes on the disk went bad.
        """
        if not self.log_start_offset <= start_offset <= self.log_end_offset:
            what = f"{start_offset} not in [{self.log_start_offset}, {self.log_end_offset}]"
            raise LogRefused(ErrorCode.OFFSET_OUT_OF_RANGE, what)
        segment = self.segments[-1]
        try:
            if start_offset < segment.base_offset:
                segment = self.segments.of(start_offset)
                self.segments.keep_open(segment)
            start, base_offset = segment.locate(start_offset)
            end = segment.position_of(upper_bound_offset)
            if end - start > max_bytes:
                within = segment.boundary_within(start, start + max_bytes)
                if within == start and at_least_one_batch:
                    within = start + segment.header_at(start).size_bytes
                end = within
            if end <= start:
                return LogRead(b"", start_offset)
            return LogRead(segment.records(start, end), Offset(base_offset))
        except (OSError, StopIteration) as error:
            raise refused_by_disk(self.folder, error) from error

    def next_with_records(self, offset: Offset, upper_bound_offset: Offset) -> Offset:
        """Return where a reader of records goes on: behind batches without any, if others follow.

        Raises:
            LogRefused: as `read`.
        """
        with refusing(self.folder):
            return Offset(self.segments.next_with_records(offset, upper_bound_offset))

    def look_up_timestamp(self, timestamp: int) -> Steps[FoundOffset | None]:
        """Return the first record that is not older than the timestamp (ms), or None.

        Between two steps the log may get appends and lose old segments, but not be truncated.

        Raises:
            LogRefused: KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE.
        """
        while True:
            segments, start_offset = tuple(self.segments), self.log_start_offset
            try:
                return (yield from look_up_timestamp(segments, timestamp, start_offset))
            except SegmentGone as gone:  # retention or compaction was quicker: look again
                if self._is_closed or set(segments) <= set(self.segments):
                    raise refused_by_disk(self.folder, gone) from gone
            except OSError as error:
                raise refused_by_disk(self.folder, error) from error

    # ------------------------------------------------------------ cutting

    def truncate_to(self, offset: Offset) -> bool:
        """Remove the batch with the offset and all after it.

        Epoch entries that begin at the offset or later are removed too, even without such a batch.
        Returns whether batches were removed.

        Ordering: when the recovery point fell, its checkpoint must be written before the next
        append; otherwise a power loss could leave unchecked bytes below the checkpointed one.

        Raises:
            LogRefused: KAFKA_STORAGE_ERROR; the log ends with the files that could not be removed.
        """
        if offset >= self.log_end_offset:
            self._set_epochs(self.epoch_cache.truncate_from_end(self.log_end_offset))
            return False
        if offset < self.log_start_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        self.truncation_count += 1
        self._name_changes += 1
        try:
            self.producers.cut(offset)
            self.segments.remove_replaced()
            remove_newest(self.segments, down_to=self.segments.count_from(offset))
            self.segments[-1].truncate_to(offset)
        except OSError as error:
            raise refused_by_disk(self.folder, error) from error
        finally:
            self.log_end_offset = Offset(self.segments[-1].next_offset)
            self.recovery_point = min(self.recovery_point, self.log_end_offset)
            self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
        self._set_epochs(self.epoch_cache.truncate_from_end(self.log_end_offset))
        return True

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Remove all batches and epochs; the log is empty and begins at the offset.

        Raises:
            LogRefused: KAFKA_STORAGE_ERROR; the log is as it was, or empty with old files left.
        """
        with refusing(self.folder):
            self.segments.remove_replaced()
            held = [*self._retired.take_all(), *self.segments]
            start = next((each for each in held if each.base_offset == offset), None)
            if start is None:
                start = self._new_segment(offset)
            self.producers.cut(-1)
            start.truncate_to(offset)
        self.truncation_count += 1
        self._name_changes += 1
        removed = [segment for segment in held if segment is not start]
        self.segments[:] = [start]
        self.log_start_offset = self.log_end_offset = self.recovery_point = offset
        self._set_epochs(EpochCache())
        with refusing(self.folder):
            remove_newest(removed, down_to=0)

    def start_over_at(self, offset: Offset) -> None:
        """Retire all segments; the log is empty and begins at the offset, not below its end.

        As after advance_log_start, `remove_retired` must follow.

        Raises:
            LogRefused: KAFKA_STORAGE_ERROR; the log is as it was.
        """
        check(offset >= self.log_end_offset, "a log does not start over below its end")
        with refusing(self.folder):
            self.producers.cut(-1)
            if self.segments[-1].base_offset != offset:
                self._roll(offset)
        self._retired.take_below(offset, self.segments)
        self.truncation_count += 1
        self._name_changes += 1
        self.log_start_offset = self.log_end_offset = self.recovery_point = offset
        self._set_epochs(EpochCache())

    def delete_old_segments(self, now_ms: int, high_watermark: Offset) -> int:
        """Retire the oldest segments that retention no longer keeps; return their number.

        now_ms is wall clock time, as records' timestamps are. It raises as advance_log_start does.
        """
        count = count_deletable(self.config, self.segments, now_ms, high_watermark)
        if count:
            self._begin_at(Offset(self.segments[count - 1].next_offset))
        return count

    def advance_log_start(self, offset: Offset) -> bool:
        """Raise the log's start and retire the segments wholly below; return whether it moved.

        As a leader's did. `remove_retired` must follow once the start is on the disk.

        Raises:
            LogRefused: KAFKA_STORAGE_ERROR; the start moved, and the last segment stays.
        """
        if offset <= self.log_start_offset:
            return False
        check(offset <= self.log_end_offset, "a log does not start after its end")
        self._begin_at(offset)
        return True

    def _begin_at(self, offset: Offset) -> None:
        """Let the log begin there; at its end it goes on in a new segment."""
        try:
            if offset == self.log_end_offset and self.segments[-1].size_bytes:
                self.producers.add_snapshot(offset, self.segments)
                with refusing(self.folder):
                    self._roll(offset)
        finally:
            self.log_start_offset = offset
            self.recovery_point = max(self.recovery_point, offset)
            self._retired.take_below(offset, self.segments)
            self._set_epochs(self.epoch_cache.truncate_from_start(offset))

    def remove_retired(self, durable_start: Offset, max_segments: int = sys.maxsize) -> int:
        """Remove the files of segments below a log start that is on the disk; return their number.

        Raises:
            LogRefused: KAFKA_STORAGE_ERROR.
        """
        with refusing(self.folder):
            removed = self._retired.remove_below(durable_start, max_segments)
            if removed:
                self.producers.remove_below(self.segments[0].base_offset)
        self._name_changes += removed
        return removed

    # ------------------------------------------------------------ durability and the end

    async def flush(self) -> Offset:
        """Return the recovery point once all changes before the call are on the disk.

        After a truncation meanwhile the recovery point stays where that put it.

        Raises:
            LogRefused: KAFKA_STORAGE_ERROR; after a failed sync always, since the disk's contents
                are unknown from then on.
        """
        end_offset, truncations = self.log_end_offset, self.truncation_count
        if self._sync_failed:
            raise LogRefused(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.folder}: a sync had failed")
        if not self._is_closed:
            self.producers.add_snapshot_if_due(end_offset, self.segments)
        try:
            await self._sync()
        except OSError as error:
            if not self._is_closed:
                self._sync_failed |= isinstance(error, SyncFailed)
                raise refused_by_disk(self.folder, error) from error
        if not (self._is_closed or self._sync_failed) and truncations == self.truncation_count:
            self.recovery_point = max(self.recovery_point, end_offset)
        return self.recovery_point

    async def _sync(self) -> None:
        for segment in self.segments[:]:
            if not segment.is_synced() and not self._is_closed:
                await segment.sync()
                if self.segments[-1:] != [segment]:
                    segment.rest()
        await self.producers.sync()
        if not self._is_closed and await self._epoch_file.sync(self.epoch_cache):
            self._name_changes += 1
        name_changes = self._name_changes
        if self._synced_name_changes == name_changes or self._is_closed:
            return
        await synced(self._files.sync_folder(self.folder))
        if not self._synced_name_changes:
            await synced(self._files.sync_folder(self.folder.rpartition("/")[0]))
        self._synced_name_changes = max(self._synced_name_changes, name_changes)

    def close(self) -> None:
        """Store the indexes and close the files; flush first for a clean shutdown.

        Raises:
            LogRefused: KAFKA_STORAGE_ERROR; the log is closed.
        """
        if not self._is_closed and self.log_end_offset > self.log_start_offset:
            self.producers.write_snapshot(self.log_end_offset, self.segments)
        with refusing(self.folder):
            for segment in self._end():
                segment.close()

    def let_go(self) -> None:
        """Close the log without writing: its disk has failed, or its files are being deleted."""
        for segment in self._end():
            segment.let_go()

    def _end(self) -> list[Segment]:
        self._is_closed = True
        self._retired.take_all()
        self.producers.let_go()
        return self.segments.take_all()

    def delete(self) -> None:
        """Close the log and remove its folder.

        The folder is renamed first, so that an interrupted removal never leaves half a log.

        Raises:
            LogRefused: KAFKA_STORAGE_ERROR; the log is closed.
        """
        self.let_go()
        with refusing(self.folder):
            self._files.remove(rename_aside(self._files, self.folder, DELETE_SUFFIX))

    def set_aside(self) -> str:
        """Close the log, rename its folder to a stray's, and return its new name.

        Raises:
            LogRefused: KAFKA_STORAGE_ERROR; the log is closed.
        """
        self.close()
        with refusing(self.folder):
            return rename_aside(self._files, self.folder, STRAY_SUFFIX)
