"""One segment file of a log: appends, finds and truncates whole record batches.

It knows nothing of other segments, epochs or roles. The next offset, sizes and indexes follow from
the noted batches (`note`), which were appended or found in the file.
"""

from __future__ import annotations

import errno
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from weakref import ref

from highwater_broker.log.batch_reader import HOP_CHUNK_BYTES, read_batches
from highwater_broker.log.open_file import OpenFile, SegmentRecords
from highwater_broker.log.record_batch import (
    NO_TIMESTAMP,
)
from highwater_broker.log.segment_index import (
    CorruptIndex,
    IndexFile,
    OffsetIndex,
    TimeIndex,
)
from highwater_broker.log.syncing import synced
from highwater_core.ports import Buffer, FileSystem
from highwater_wire.kafka.record_batch import (
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    parse_header,
)

TAIL_BATCHES = 2048
"""The least number of newest batches that are found without reading the file."""

MAX_INDEX_INTERVAL_BYTES = 64 * 1024
"""The largest index interval, for any topic setting: finding a batch reads the headers of at most
so many bytes."""

UNSYNCED_OPEN = 3
"""Number of segments before the newest that stay open until they are synced."""

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
DETACHED_SUFFIX = ".detached"


def segment_path(folder: str, base_offset: int, suffix: str) -> str:
    return f"{folder}/{base_offset:020d}{suffix}"


class SegmentGone(OSError):
    """The segment was removed, or its log closed, before it was read."""


class Segment:
    """The batches [base_offset, next_offset) of a log, in `size_bytes` bytes.

    Its file is open from its creation until `rest`; then during reads, and between two reads after
    `keep_open`.
    Invariant: batches are contiguous in offsets and bytes.
    """

    def __init__(
        self,
        files: FileSystem,
        folder: str,
        base_offset: int,
        index_interval_bytes: int,
        suffix: str = LOG_SUFFIX,
    ) -> None:
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size_bytes = 0
        self.max_timestamp = NO_TIMESTAMP
        """The largest of all batches, NO_TIMESTAMP when none has one."""
        self.rolling_timestamp = NO_TIMESTAMP
        """The first batch's timestamp, from which the segment's age counts."""
        self.begun_ms = NO_TIMESTAMP
        """When the first batch came by the broker's clock, if it came in this process."""
        self._files = files
        self._folder = folder
        self._index_interval_bytes = min(index_interval_bytes, MAX_INDEX_INTERVAL_BYTES)
        self._path = segment_path(folder, base_offset, suffix)
        self._kept_open: OpenFile | None = OpenFile(files.open(self._path))
        self._last_opened = ref(self._kept_open)
        self._max_timestamp_offset = base_offset
        self._bytes_since_index = 0
        self._changes = 0
        self._synced_changes = -1
        self._is_gone = False
        self._tail_offsets = array("q")
        self._tail_positions = array("q")
        self._offset_index = OffsetIndex(base_offset)
        self._time_index = TimeIndex(base_offset)
        self._index_files = (
            IndexFile(files, segment_path(folder, base_offset, INDEX_SUFFIX), self._offset_index),
            IndexFile(
                files, segment_path(folder, base_offset, TIME_INDEX_SUFFIX), self._time_index
            ),
        )

    # ------------------------------------------------------------ its file

    def keep_open(self) -> OpenFile:
        """Keep the file open from now on, until `rest`, and return it.

        Raises:
            OSError: it cannot be opened.
        """
        self._kept_open = self._opened()
        return self._kept_open

    def rest(self) -> None:
        """Allow to close the file while it is not read; topics may have thousands of segments.

        Before a sync only where too many would be open: a sync on a newly opened file reports a
        failed write only if the kernel still has the inode in memory, and has not reported it
        before (errseq_t(7) in the kernel's documentation).
        """
        self._kept_open = None

    def _opened(self) -> OpenFile:
        """Return the file, which stays open while the caller keeps the returned object.

        Raises:
            SegmentGone: the file is removed; opening would create a new one.
            OSError: it cannot be opened.
        """
        opened = self._last_opened()
        if opened is None:
            if self._is_gone or not self._files.exists(self._path):
                raise SegmentGone(errno.ENOENT, "the segment is gone", self._path)
            opened = OpenFile(self._files.open(self._path))
            self._last_opened = ref(opened)
        return opened

    # ------------------------------------------------------------ appending

    @property
    def file_size_bytes(self) -> int:
        """The file's size; above size_bytes before the file was scanned or repaired."""
        return self._opened().size_bytes

    def write(self, buffers: Sequence[Buffer]) -> int:
        """Append the bytes of whole batches and return their position; `note` each afterwards.

        Raises:
            OSError: no byte was written.
        """
        return (self._kept_open or self.keep_open()).file.append(buffers)

    def note(
        self, position: int, size_bytes: int, base_offset: int, last_offset: int, max_timestamp: int
    ) -> None:
        """Note a batch in the file at position as the segment's newest.

        max_timestamp is its header's newest_timestamp.
        """
        tail_offsets = self._tail_offsets
        tail_offsets.append(base_offset)
        self._tail_positions.append(position)
        if len(tail_offsets) == 2 * TAIL_BATCHES:
            del tail_offsets[:TAIL_BATCHES]
            del self._tail_positions[:TAIL_BATCHES]
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if position == 0:
            self.rolling_timestamp = max_timestamp
        if self._bytes_since_index > self._index_interval_bytes:
            self._offset_index.add(last_offset, position)
            self._time_index.maybe_add(self.max_timestamp, self._max_timestamp_offset)
            self._bytes_since_index = 0
        self._bytes_since_index += size_bytes
        self.size_bytes = position + size_bytes
        self.next_offset = last_offset + 1
        self._changes += 1

    def _note(self, position: int, header: BatchHeader) -> None:
        last_offset, timestamp = header.last_offset, header.newest_timestamp
        self.note(position, header.size_bytes, header.base_offset, last_offset, timestamp)

    # ------------------------------------------------------------ finding

    def locate(self, offset: int) -> tuple[int, int]:
        """Return position and base offset of the batch with the offset, or of the end."""
        if offset >= self.next_offset:
            return self.size_bytes, self.next_offset
        index = bisect_right(self._tail_offsets, offset)
        if index:
            return self._tail_positions[index - 1], self._tail_offsets[index - 1]
        for position, header in self._hop(self._trusted(self._offset_index.before_offset(offset))):
            if header.last_offset >= offset:
                return position, header.base_offset
        return self.size_bytes, self.next_offset

    def position_of(self, offset: int) -> int:
        """Return the position of the batch with the offset; size_bytes at the end."""
        return self.size_bytes if offset >= self.next_offset else self.locate(offset)[0]

    def boundary_within(self, start: int, limit: int) -> int:
        """Return the largest batch boundary in [start, limit], start being one."""
        if limit >= self.size_bytes:
            return self.size_bytes
        index = bisect_right(self._tail_positions, limit)
        if index:
            return max(start, self._tail_positions[index - 1])
        boundary = max(start, self._trusted(self._offset_index.before_position(limit)))
        for position, header in self._hop(boundary):
            if position + header.size_bytes > limit:
                return position
        return self.size_bytes

    def header_at(self, position: int) -> BatchHeader:
        return next(self._hop(position))[1]

    def records(self, position: int, end: int) -> SegmentRecords:
        return SegmentRecords(self._opened(), position, end - position)

    def batches_from_timestamp(self, timestamp: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yield the batches, beginning at or before the first one that reaches the timestamp.

        For any timestamps, at most an index interval is between them: every entry of the offset
        index before was made while the largest timestamp was still older.
        """
        reaching = self._time_index.first_reaching(timestamp)
        before = self.next_offset if reaching is None else reaching
        return self._hop(self._trusted(self._offset_index.before_offset(before - 1)))

    def bytes_at(self, position: int, length: int) -> bytes:
        """Return the file's bytes there, fewer at its end."""
        return self._opened().pread(position, length)

    def batches(self, from_offset: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Yield position and header of each batch, from an indexed one before the offset on."""
        return self._hop(self._trusted(self._offset_index.before_offset(from_offset - 1)))

    def batches_from(self, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yield position and header of the batch that holds the offset, and of each after it."""
        return self._hop(self.locate(offset)[0])

    def _hop(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        opened = self._opened()  # until the last batch was taken
        yield from read_batches(opened.file, position, self.size_bytes, check_crc=False)

    def _trusted(self, entry: tuple[int, int] | None) -> int:
        """Return the position of an index entry if its batch is there, else the segment's start."""
        if entry is None:
            return 0
        last_offset, position = entry
        data = self._opened().pread(position, HEADER_BYTES)
        if len(data) < HEADER_BYTES:
            return 0
        header = parse_header(data)
        return position if header.magic == MAGIC and header.last_offset == last_offset else 0

    # ------------------------------------------------------------ loading and cutting

    def load_indexes(self) -> None:
        """Read the index files; `scan` must follow.

        Raises:
            CorruptIndex: one is missing or cannot be true; both are empty now, to be rebuilt.
        """
        try:
            for index_file in self._index_files:
                index_file.load(self.file_size_bytes)
            self._check_last_entry()
        except CorruptIndex:
            self._offset_index.cut(0)
            self._time_index.cut(0)
            raise

    def _check_last_entry(self) -> None:
        last = self._offset_index.last()
        if last is not None and self._trusted(last) == 0:
            raise CorruptIndex("the last entry names no batch")

    def scan(
        self,
        from_offset: int,
        *,
        check_crc: bool,
        chunk_bytes: int = HOP_CHUNK_BYTES,
        check_header: Callable[[BatchHeader], None] | None = None,
    ) -> Iterator[BatchHeader]:
        """Note the file's batches again, from the last indexed one before from_offset on.

        Each is noted before it is yielded; earlier ones are known from the indexes. Missing index
        entries are added. check_header may refuse more. Once this has raised, the file's bytes
        beyond size_bytes are garbage.

        Raises:
            LogRefused: CORRUPT_MESSAGE or UNSUPPORTED_FOR_MESSAGE_FORMAT at the first batch that
                is torn, corrupt or out of place.
        """
        opened = self._opened()
        start = self._trusted(self._offset_index.before_offset(from_offset - 1))
        self._forget_from(start)
        if start:
            self.next_offset = self._header_in_file(start).base_offset
            self.rolling_timestamp = self._header_in_file(0).newest_timestamp
        for position, header in read_batches(
            opened.file,
            start,
            opened.size_bytes,
            check_crc=check_crc,
            chunk_bytes=chunk_bytes,
            next_offset=self.next_offset,
        ):
            if check_header is not None:
                check_header(header)
            self._note(position, header)
            yield header

    def truncate_to(self, offset: int) -> None:
        """Remove the batch with the offset, and all after it.

        The index files are truncated at once: a process that dies next must not leave entries that
        point into later batches at this place.

        Ordering: all reading comes before the truncation, so that it happens whole or not at all.

        Raises:
            OSError, LogRefused: the segment is unchanged.
        """
        opened = self._opened()
        end = self.position_of(offset)
        start = self._trusted(self._offset_index.before_offset(offset - 1))
        first = self._header_in_file(start).base_offset if start else self.base_offset
        kept = list(read_batches(opened.file, start, end, check_crc=False, next_offset=first))
        opened.truncate(end)
        self._changes += 1
        rolling_timestamp = self.rolling_timestamp
        self._forget_from(start)
        for position, header in kept:
            self._note(position, header)
        if start:
            self.rolling_timestamp = rolling_timestamp

    def cut_garbage(self) -> int:
        """Remove the bytes beyond the last noted batch; return their number."""
        opened = self._opened()
        garbage_bytes = opened.size_bytes - self.size_bytes
        if garbage_bytes:
            opened.truncate(self.size_bytes)
        return garbage_bytes

    def read_garbage(self, limit_bytes: int) -> bytes:
        """Return the bytes beyond the last noted batch, at most so many."""
        return self._opened().pread(self.size_bytes, limit_bytes)

    def seal(self) -> None:
        """Complete the time index: no batch will be added, or none for a while.

        The memory for the newest batches beside the indexes, which serves readers at the log's end,
        is freed. The file may close once the disk has all of it.
        """
        if self.is_synced():
            self.rest()
        self._time_index.maybe_add(self.max_timestamp, self._max_timestamp_offset)
        del self._tail_offsets[:]
        del self._tail_positions[:]

    def _forget_from(self, position: int) -> None:
        """Forget all batches from an indexed one on (or all), which is noted next."""
        entry = self._offset_index.before_position(position) if position else None
        self._offset_index.cut(position)
        self._time_index.cut(self.base_offset if entry is None else entry[0] + 1)
        last_time = self._time_index.last() or (NO_TIMESTAMP, self.base_offset)
        self.max_timestamp, self._max_timestamp_offset = last_time
        del self._tail_offsets[:]
        del self._tail_positions[:]
        for index_file in self._index_files:
            index_file.after_cut()
        self.size_bytes = position
        self.next_offset = self.base_offset
        self.rolling_timestamp = NO_TIMESTAMP
        self._bytes_since_index = self._index_interval_bytes + 1 if position else 0

    def _header_in_file(self, position: int) -> BatchHeader:
        return parse_header(self._opened().pread(position, HEADER_BYTES))

    # ------------------------------------------------------------ durability and the end

    def store_indexes(self) -> None:
        """Write the indexes' new entries into their files' page cache."""
        for index_file in self._index_files:
            index_file.store()

    async def sync(self) -> None:
        """Return once every batch noted by now, and its index entries, are on the disk.

        A segment that is removed meanwhile is left alone.
        """
        if self._is_gone:
            return
        opened, changes = self._opened(), self._changes
        await synced(opened.file.sync())
        for index_file in self._index_files:
            if self._is_gone:
                return
            await index_file.sync()
        self._synced_changes = max(self._synced_changes, changes)

    def is_synced(self) -> bool:
        """Return whether the disk is known to have all of the segment."""
        return self._synced_changes == self._changes

    def take_as_synced(self) -> None:
        """Consider all on the disk: the segment is below the recovery point."""
        self._synced_changes = self._changes

    def close(self) -> None:
        """Store the indexes; the file closes with its last view."""
        self.seal()
        self.store_indexes()
        self.let_go()

    def let_go(self) -> None:
        """Close without storing the indexes: the segment is about to be deleted."""
        self._is_gone = True
        self.rest()

    def remove(self) -> None:
        """Remove the segment's files; views of it stay readable.

        The log file is removed last: where the disk refuses, all batches are still there and may
        get appends. Indexes are rebuilt at the next start.

        Raises:
            OSError: the disk refused.
        """
        self._is_gone = True
        try:
            for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):
                self._files.remove(segment_path(self._folder, self.base_offset, suffix))
        except OSError:
            self._is_gone = False
            for index_file in self._index_files:
                index_file.forget_file()
            self._changes += 1  # the synced indexes are gone
            raise
        self.rest()

    def detach(self) -> None:
        """Set the segment aside under a name that is never read again."""
        path = self._path
        self._files.rename(path, path + DETACHED_SUFFIX)
        self.remove()
