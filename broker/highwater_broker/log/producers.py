"""The idempotent producers of one log: their remembered batches, and the snapshot files.

Remembered batches follow from the log: from a snapshot, and the headers of the batches after it. A
snapshot is written where a segment begins, at a clean stop, and with a flush once the log has grown
by SNAPSHOT_BYTES: else a start after a crash, or a truncation, would read every header of the last
segment. A missing or torn one only costs a longer scan.

Ordering: no snapshot is beyond the log's end. A truncation removes later snapshots before batches,
and the log's next flush makes the removal durable before the recovery point passes that offset. So
after a power loss snapshots at or below the recovery point belong to this log.
Source: KIP-98; Kafka's ProducerStateManager.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from operator import attrgetter

from highwater_broker.log.append_part import AppendResult
from highwater_broker.log.checkpoints import TEMPORARY_SUFFIX, write_renamed
from highwater_broker.log.producer_table import CorruptSnapshot, ProducerTable
from highwater_broker.log.record_batch import LogRefused
from highwater_broker.log.refusing import refusing
from highwater_broker.log.segment import Segment, segment_path
from highwater_broker.log.syncing import synced
from highwater_broker.logic.producer_sequences import (
    Refused,
    Remembered,
    decide,
    sequence_after,
)
from highwater_core.ids import Offset
from highwater_core.ports import FileSystem
from highwater_wire.kafka.record_batch import BatchHeader

SNAPSHOT_SUFFIX = ".snapshot"
SNAPSHOT_BYTES = 4 * 1024 * 1024
"""Some 25,000 of the smallest batches, whose headers are read in a tenth of a second."""
_SNAPSHOT_NAME = re.compile(r"([0-9]{20})\.snapshot")
_BASE_OFFSET = attrgetter("base_offset")


def spread_out(begin: int, offsets: list[int]) -> list[int]:
    """Return which snapshots of a segment to keep, ascending.

    The newest two: until the next checkpoint of the recovery point only the older is trusted. Of
    the others so many that a truncation reads no more than about as many records again as it
    removed, and that their number grows with the logarithm of the segment's length alone.

    begin: the segment's base offset, which has a snapshot of its own. offsets: ascending.
    """
    end, kept = offsets[-1], offsets[-2:]
    for place in range(len(offsets) - 3, -1, -1):
        before = offsets[place - 1] if place else begin
        if end - before > 2 * (end - kept[0]):
            kept.insert(0, offsets[place])
    return kept


class LogProducers:
    """The producers of the log with these segments.

    After a truncation no batch is remembered until needed: then `make_current` reads them again.
    """

    def __init__(self, files: FileSystem, folder: str) -> None:
        self._files = files
        self._folder = folder
        self._table = ProducerTable()
        self._is_current = True
        self._snapshots: list[int] = []
        """The offsets of the snapshot files, ascending: each covers the batches below it."""
        self._unsynced: list[int] = []
        self._last_snapshot = (-1, 0)
        """The base offset and size of the last segment when the last snapshot was written."""
        self.problems: list[str] = []
        """Problems found while reading again."""

    def __len__(self) -> int:
        return len(self._table)

    def known(self, producer_id: int) -> Remembered:
        """Return a producer's remembered batches, the oldest first."""
        return self._table.known(producer_id)

    def remembers(self, producer_id: int) -> bool:
        """Return whether a producer has not been idle for too long; after `make_current`."""
        return producer_id in self._table

    def open(self, segments: Sequence[Segment], recovery_point: int) -> None:
        """Load the folder's snapshots up to the recovery point, and read the headers after them.

        Raises:
            LogRefused: KAFKA_STORAGE_ERROR.
        """
        with refusing(self._folder):
            names = map(_SNAPSHOT_NAME.fullmatch, self._files.list(self._folder))
            self._snapshots = [int(match[1]) for match in names if match]
            self._remove_above(min(recovery_point, segments[-1].next_offset))
        self._is_current = False
        self.make_current(segments)

    # ------------------------------------------------------------ appending

    def find_repeated(
        self, header: BatchHeader, segments: Sequence[Segment]
    ) -> AppendResult | None:
        """Return the offsets of a repeated batch of a client, None if it must be appended.

        Raises:
            LogRefused: OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, KAFKA_STORAGE_ERROR.
        """
        self.make_current(segments)
        known = self._table.known(header.producer_id)
        first = header.base_sequence
        last = sequence_after(first, header.last_offset_delta)
        decision = decide(known, header.producer_epoch, first, last)
        if isinstance(decision, Refused):
            raise LogRefused(
                decision.value,
                f"sequences {first} to {last} of epoch {header.producer_epoch}"
                f" from producer {header.producer_id}, whose last batch is {known[-1]}",
            )
        if decision is None:
            return None
        return AppendResult(
            Offset(decision.first_offset), Offset(decision.last_offset + 1), size_bytes=0
        )

    def note(self, headers: Iterable[BatchHeader]) -> None:
        """Note producers' appended batches, in their order."""
        for header in headers:
            self._table.note(header)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that have been idle for so long; now_ms is wall clock time."""
        self._table.expire(now_ms, expiration_ms)

    # ------------------------------------------------------------ snapshots

    def write_snapshot(self, offset: int, segments: Sequence[Segment]) -> None:
        """Write a snapshot at the log's end, after its last flush, in place of others of its last
        segment.

        Where the disk refuses there is none: the next start then reads more headers.
        """
        self._write_snapshot(offset, segments, lambda begin, offsets: offsets[-1:])

    def add_snapshot(self, offset: int, segments: Sequence[Segment]) -> None:
        """Likewise, beside those that `spread_out` keeps."""
        self._write_snapshot(offset, segments, spread_out)

    def add_snapshot_if_due(self, offset: int, segments: Sequence[Segment]) -> None:
        """Do so once the log has grown by SNAPSHOT_BYTES since the last snapshot."""
        last = segments[-1]
        base_offset, size_bytes = self._last_snapshot
        since_bytes = size_bytes if base_offset == last.base_offset else 0
        if last.size_bytes - since_bytes >= SNAPSHOT_BYTES:
            self.add_snapshot(offset, segments)

    def _write_snapshot(
        self,
        offset: int,
        segments: Sequence[Segment],
        kept_of: Callable[[int, list[int]], list[int]],
    ) -> None:
        path, last = segment_path(self._folder, offset, SNAPSHOT_SUFFIX), segments[-1]
        try:
            self.make_current(segments)
            write_renamed(self._files, path, self._table.encode())
            if self._snapshots[-1:] == [offset]:
                self._snapshots.pop()  # the new one has its name
            first = bisect_right(self._snapshots, last.base_offset)
            of_last = [*self._snapshots[first:], offset]
            kept = kept_of(last.base_offset, of_last)
            for old in of_last:
                if old not in kept:
                    self._remove(self._snapshots.index(old))
            self._snapshots.append(offset)
            self._unsynced.append(offset)
            self._last_snapshot = last.base_offset, last.size_bytes
        except (OSError, LogRefused):
            with suppress(OSError):  # frees space on a full disk
                self._files.remove(path + TEMPORARY_SUFFIX)

    async def sync(self) -> None:
        """Return once all snapshots' contents are on the disk; not yet their names.

        Raises:
            OSError: the disk refused.
        """
        while self._unsynced:
            offset = self._unsynced.pop()
            if offset in self._snapshots:
                file = self._files.open(segment_path(self._folder, offset, SNAPSHOT_SUFFIX))
                try:
                    await synced(file.sync())
                finally:
                    file.close()

    def let_go(self) -> None:
        """Do not touch the files from now on: the log is closed."""
        self._unsynced.clear()

    def cut(self, offset: int) -> None:
        """Forget all batches from the offset on, which are truncated next, if the disk allows.

        Raises:
            OSError: the disk refused; some snapshots are gone.
        """
        if len(self._table):
            self._is_current = False
        self._remove_above(offset)

    def remove_below(self, offset: int) -> None:
        """Remove the snapshots of segments that are gone.

        Raises:
            OSError: the disk refused.
        """
        while self._snapshots and self._snapshots[0] < offset:
            self._remove(0)

    def remove_within(self, begin: int, end: int) -> None:
        """Remove the snapshots between two offsets, where segments were compacted into one.

        None is removed without one at the end or later: a start would read more headers.

        Raises:
            OSError: the disk refused.
        """
        place = bisect_right(self._snapshots, begin)
        while self._snapshots[-1:] >= [end] and self._snapshots[place] < end:
            self._remove(place)

    def _remove_above(self, offset: int) -> None:
        while self._snapshots and self._snapshots[-1] > offset:
            self._remove(-1)

    def _remove(self, index: int) -> None:
        self._files.remove(segment_path(self._folder, self._snapshots[index], SNAPSHOT_SUFFIX))
        del self._snapshots[index]

    # ------------------------------------------------------------ reading again

    def make_current(self, segments: Sequence[Segment]) -> None:
        """Read the remembered batches from the newest good snapshot and the headers after it.

        Raises:
            LogRefused: KAFKA_STORAGE_ERROR; they are read again when needed next.
        """
        if self._is_current:
            return
        with refusing(self._folder):
            offset, self._table = self._newest_snapshot(segments[0].base_offset)
            first = max(0, bisect_right(segments, offset, key=_BASE_OFFSET) - 1)
            for segment in segments[first:]:
                if segment.next_offset > offset:
                    self._read_headers(segment, offset)
        self._is_current = True

    def _newest_snapshot(self, log_begin: int) -> tuple[int, ProducerTable]:
        """Return the offset and content of the newest good one, or the log's start and none.

        Of one below the log's start the batches that follow it are gone.
        """
        while self._snapshots and self._snapshots[-1] >= log_begin:
            offset = self._snapshots[-1]
            file = self._files.open(segment_path(self._folder, offset, SNAPSHOT_SUFFIX))
            try:
                return offset, ProducerTable.decode(file.pread(0, file.size_bytes))
            except CorruptSnapshot as corrupt:
                self.problems.append(f"snapshot of producers at {offset} removed: {corrupt}")
            finally:
                file.close()
            self._remove(-1)
        return log_begin, ProducerTable()

    def _read_headers(self, segment: Segment, offset: int) -> None:
        """Note a segment's batches from the offset on, up to the first bad one."""
        try:
            for _, header in segment.batches(offset):
                if header.has_producer_id and header.base_offset >= offset:
                    self._table.note(header)
        except LogRefused as bad:  # a reader of these batches gets the error
            self.problems.append(f"producers of segment {segment.base_offset}: {bad}")
