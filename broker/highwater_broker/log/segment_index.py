"""The two sparse indexes of a segment, held in memory and kept in Kafka's binary forms.

Neither is needed for correctness: both can be rebuilt from the segment. An entry of the offset
index is compared with the batch that it names; the entries of the time index are not, and a missing
one would hide records, so that its file has a checksum. Entries are written to the file when the
segment is flushed or closed, not at each append. A batch whose position or
relative offset does not fit 31 bits gets no entry: no log writes such a batch, but a disk may have
one.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from contextlib import suppress

from crc32c import crc32c

from highwater_broker.log.syncing import synced
from highwater_core.ports import File, FileSystem

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_CHECKSUM_ENTRY = struct.Struct(">qI")
_NO_TIME = -1

MAX_RELATIVE_OFFSET = 2**31 - 1
"""Entries have offsets relative to their segment's base in 31 bits, and positions."""


class CorruptIndex(Exception):
    """The index file's content is impossible; the index is rebuilt from the segment.

    is_expected: whether an unclean stop may leave it so.
    """

    def __init__(self, what: str, *, is_expected: bool = False) -> None:
        super().__init__(what)
        self.is_expected = is_expected


class OffsetIndex:
    """Maps the last offset of a batch to that batch's position.

    On disk: (offset relative to the segment's base int32, position int32) each, big-endian.
    Invariant: both columns strictly increase.
    """

    ENTRY_BYTES = _OFFSET_ENTRY.size

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._relative_offsets = array("I")
        self._positions = array("I")

    def __len__(self) -> int:
        return len(self._positions)

    def add(self, last_offset: int, position: int) -> None:
        """Add an entry, if it fits into one."""
        relative_offset = last_offset - self._base_offset
        if relative_offset <= MAX_RELATIVE_OFFSET and position <= MAX_RELATIVE_OFFSET:
            self._relative_offsets.append(relative_offset)
            self._positions.append(position)

    def last(self) -> tuple[int, int] | None:
        """Return (last offset, position) of the newest entry."""
        return self._entry(len(self._positions))

    def before_offset(self, offset: int) -> tuple[int, int] | None:
        """Return (last offset, position) of the last listed batch that ends at or before offset."""
        return self._entry(bisect_right(self._relative_offsets, offset - self._base_offset))

    def before_position(self, position: int) -> tuple[int, int] | None:
        """Return (last offset, position) of the last listed batch that begins at or before it."""
        return self._entry(bisect_right(self._positions, position))

    def _entry(self, count: int) -> tuple[int, int] | None:
        if not count:
            return None
        return self._base_offset + self._relative_offsets[count - 1], self._positions[count - 1]

    def cut(self, position: int) -> None:
        """Drop the entries of batches at position or beyond."""
        kept = bisect_left(self._positions, position)
        del self._relative_offsets[kept:]
        del self._positions[kept:]

    def encode(self, first: int) -> bytes:
        """Return the entries from the first-th on, which end the file."""
        return b"".join(
            map(_OFFSET_ENTRY.pack, self._relative_offsets[first:], self._positions[first:])
        )

    def load(self, data: bytes, segment_bytes: int) -> None:
        """Replace the entries by a file's.

        Raises:
        CorruptIndex: they do not strictly increase or point outside the segment.
        """
        if len(data) % self.ENTRY_BYTES:
            raise CorruptIndex(f"{len(data)} bytes are no whole entries")
        offsets, positions = array("I"), array("I")
        previous_offset = previous_position = -1
        for offset, position in _OFFSET_ENTRY.iter_unpack(data):
            if offset <= previous_offset or position <= previous_position:
                raise CorruptIndex("entries do not increase")
            offsets.append(offset)
            positions.append(position)
            previous_offset, previous_position = offset, position
        if previous_position >= segment_bytes:
            raise CorruptIndex("an entry points beyond the segment")
        self._relative_offsets, self._positions = offsets, positions


class TimeIndex:
    """Maps the largest timestamp so far to the last offset of the batch that had it.

    On disk: (timestamp int64 in ms, relative offset int32) each, big-endian; then (-1, CRC-32C of
    all entries uint32), which ends the file.
    Invariant: both columns strictly increase.
    Deviation: Kafka's file has the entries alone.
    """

    ENTRY_BYTES = _TIME_ENTRY.size

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._timestamps = array("q")
        self._relative_offsets = array("I")
        self._summed = 0
        self._sum = 0
        """The checksum of the first so many entries."""

    def __len__(self) -> int:
        return len(self._timestamps)

    def maybe_add(self, timestamp: int, offset: int) -> bool:
        """Add an entry, if it fits into one, unless the last one's timestamp is as large."""
        relative_offset = offset - self._base_offset
        if timestamp < 0 or relative_offset > MAX_RELATIVE_OFFSET:
            return False
        if self._timestamps and self._timestamps[-1] >= timestamp:
            return False
        self._timestamps.append(timestamp)
        self._relative_offsets.append(relative_offset)
        return True

    def last(self) -> tuple[int, int] | None:
        """Return (timestamp, offset) of the newest entry."""
        if not self._timestamps:
            return None
        return self._timestamps[-1], self._base_offset + self._relative_offsets[-1]

    def first_reaching(self, timestamp: int) -> int | None:
        """Return the offset of the first entry that is not older, None when all are."""
        index = bisect_left(self._timestamps, timestamp)
        if index == len(self._timestamps):
            return None
        return self._base_offset + self._relative_offsets[index]

    def cut(self, offset: int) -> None:
        """Drop the entries at offset or beyond."""
        kept = bisect_left(self._relative_offsets, offset - self._base_offset)
        del self._timestamps[kept:]
        del self._relative_offsets[kept:]
        if kept < self._summed:
            self._summed = self._sum = 0

    def encode(self, first: int) -> bytes:
        """Return the entries from the first-th on, and the checksum of all."""
        self._sum = crc32c(self._entries(self._summed), self._sum)
        self._summed = len(self)
        return self._entries(first) + _CHECKSUM_ENTRY.pack(_NO_TIME, self._sum)

    def _entries(self, first: int) -> bytes:
        return b"".join(
            map(_TIME_ENTRY.pack, self._timestamps[first:], self._relative_offsets[first:])
        )

    def load(self, data: bytes, segment_bytes: int) -> None:
        """Replace the entries by a file's.

        Raises:
            CorruptIndex: the checksum is missing or another, or they do not strictly increase.
        """
        if len(data) % self.ENTRY_BYTES:
            raise CorruptIndex(f"{len(data)} bytes are no whole entries", is_expected=True)
        data, end = data[: -self.ENTRY_BYTES], data[-self.ENTRY_BYTES :]
        summed = crc32c(data)
        if end != _CHECKSUM_ENTRY.pack(_NO_TIME, summed):
            raise CorruptIndex("no checksum of these entries", is_expected=True)
        if len(data) > self.ENTRY_BYTES * segment_bytes:
            raise CorruptIndex("more entries than the segment has bytes")
        timestamps, offsets = array("q"), array("I")
        previous_timestamp = previous_offset = -1
        for timestamp, offset in _TIME_ENTRY.iter_unpack(data):
            if timestamp <= previous_timestamp or offset <= previous_offset:
                raise CorruptIndex("entries do not increase")
            timestamps.append(timestamp)
            offsets.append(offset)
            previous_timestamp, previous_offset = timestamp, offset
        self._timestamps, self._relative_offsets = timestamps, offsets
        self._summed, self._sum = len(self), summed


class IndexFile:
    """Keeps one index in its file.

    Ordering: additions reach the file at `store`; `cut` reaches it at once, so that a process
    that dies next leaves no entry that points into batches to come.
    """

    def __init__(self, files: FileSystem, path: str, index: OffsetIndex | TimeIndex) -> None:
        self._files = files
        self._path = path
        self._index = index
        self._written_entries = 0
        self._is_stored = False
        self._writes = 0
        self._synced_writes = 0

    def load(self, segment_bytes: int) -> None:
        """Fill the index from its file.

        Raises:
            CorruptIndex: the file is missing or impossible; the index is unchanged.
        """
        if not self._files.exists(self._path):
            raise CorruptIndex("missing", is_expected=True)
        file = self._files.open(self._path)
        try:
            self._index.load(file.pread(0, file.size_bytes), segment_bytes)
        finally:
            file.close()
        self._written_entries = len(self._index)
        self._is_stored = True

    def after_cut(self) -> None:
        """Truncate the file to the entries that the index still has; call it after each `cut`.

        Where the disk refuses, the next `store` does it. A process that dies before leaves entries
        that the recovery drops: they are beyond the recovery point, which the truncation lowered.
        """
        if self._written_entries > len(self._index):
            self._written_entries = len(self._index)
            self._is_stored = False
            with suppress(OSError):
                self._open_and_write(self._index.encode(self._written_entries)).close()

    def forget_file(self) -> None:
        """Consider the file gone: the next `store` writes the whole index."""
        self._written_entries = 0
        self._is_stored = False

    def store(self) -> None:
        """Write the entries that the file lacks, into the page cache."""
        if self._is_stored and self._written_entries == len(self._index):
            return
        self._open_and_write(self._index.encode(self._written_entries)).close()
        self._written_entries = len(self._index)

    async def sync(self) -> None:
        """Return once all stored entries are on the disk."""
        self.store()
        writes = self._writes
        if self._synced_writes == writes:
            return
        file = self._files.open(self._path)
        try:
            await synced(file.sync())
        finally:
            file.close()
        self._synced_writes = max(self._synced_writes, writes)

    def _open_and_write(self, entries: bytes) -> File:
        file = self._files.open(self._path)
        kept_bytes = self._written_entries * self._index.ENTRY_BYTES
        try:
            if file.size_bytes != kept_bytes:
                file.truncate(kept_bytes)
            if entries:
                file.append([entries])
        except OSError:
            file.close()
            raise
        self._is_stored = True
        self._writes += 1
        return file
