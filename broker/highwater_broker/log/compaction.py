"""Compacts segments, in steps: notes the newest offset of each key, then writes the kept records.

A compacted log has no gaps. Removed batches are replaced by one without records for their offsets,
so that a real gap still shows; followers get it like any other. The kept records of a batch keep
its offsets, epoch and producer. Each step reads or writes little and yields its number of bytes:
between two steps the caller may do other work, and the log may get appends. Once the log is
truncated or loses these segments, the caller must stop.
Source: Kafka's Cleaner.buildOffsetMap and cleanInto. Deviation: Kafka leaves gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import compress
from typing import TypeVar

from highwater_broker.log.cleaned_segment import CleanedSegment
from highwater_broker.log.record_batch import LogRefused
from highwater_broker.log.segment import Segment
from highwater_broker.logic.compaction import DirtyPart, NewestOffsets, stays
from highwater_core.errors import ErrorCode
from highwater_core.ids import Offset
from highwater_wire.kafka.compacted_batch import (
    CompactedBatch,
    StoredRecord,
    empty_batch,
    stored_records,
)
from highwater_wire.kafka.record_batch import (
    MAX_INT64,
    NO_PRODUCER_ID,
    BadBatch,
    BatchHeader,
    check_crc,
)

RECORDS_PER_STEP = 500
HEADERS_PER_STEP = 250

T = TypeVar("T")
Work = Generator[int, None, T]
"""Work in steps, each of which ends with a yield of the bytes it took; the last one returns."""

NewSegment = Callable[[int], CleanedSegment]
"""Begins a new segment at the offset."""


@dataclass(slots=True)
class Notes:
    """A pass's notes of the log below end_offset, the first offset that stays dirty."""

    newest: NewestOffsets
    end_offset: Offset
    last_of_producers: dict[int, int] = field(default_factory=dict)
    """The base offset of each producer's last batch, which has its latest sequence."""


@dataclass(slots=True)
class Rewriting:
    """The rules by which a pass keeps records; now_ms is wall clock time."""

    notes: Notes
    now_ms: int
    delete_retention_ms: int
    on_unreadable: Callable[[int, str], None]
    """Called with the base offset of each unreadable batch, which stays as it is."""
    remembers: Callable[[int], bool]
    """Returns whether a producer is active: then its last batch stays, perhaps without records."""
    keeps_tombstones: bool = False
    """Whether records without a value stay in spite of their horizon: an unreadable batch may have
    older records of their keys, which would become the newest."""
    removed_records: int = 0

    def horizon_of(self, header: BatchHeader, *, has_tombstones: bool) -> int | None:
        """Return the time until which the batch's records without a value stay.

        None without such records, or while older ones of their keys may stay longer: the notes end
        within the batch.
        """
        if not has_tombstones:
            return None
        if header.delete_horizon_ms is not None:
            return header.delete_horizon_ms
        if header.last_offset >= self.notes.end_offset:
            return None
        return min(MAX_INT64, self.now_ms + self.delete_retention_ms)


def take_notes(segments: Sequence[Segment], part: DirtyPart, keys_max: int) -> Work[Notes]:
    """Return the notes of the dirty part, as far as the keys fit; at least of one key.

    Raises:
        OSError, LogRefused: the disk refused, or its bytes are not the written ones.
    """
    notes = Notes(NewestOffsets(keys_max), part.first_dirty_offset)
    for segment in segments:
        if segment.base_offset >= part.end_offset:
            break
        for number, (position, header) in enumerate(segment.batches()):
            if number % HEADERS_PER_STEP == HEADERS_PER_STEP - 1:
                yield 0
            is_dirty = header.last_offset >= part.first_dirty_offset
            if is_dirty and notes.newest.is_full:
                return notes
            if header.producer_id != NO_PRODUCER_ID:
                notes.last_of_producers[header.producer_id] = header.base_offset
            if is_dirty:
                end_offset = yield from _note_batch(notes, segment, position, header)
                notes.end_offset = Offset(end_offset)
    return notes


def _note_batch(notes: Notes, segment: Segment, position: int, header: BatchHeader) -> Work[int]:
    """Note the batch's dirty records; return the offset after those that were noted."""
    data = _whole_batch(segment, position, header)
    first_offset, end_offset = notes.end_offset, header.last_offset + 1
    records = _Records(header, data)
    with suppress(BadBatch):  # it is reported when it is written
        for number, _ in enumerate(records, 1):  # before one is noted, all were read
            if number % RECORDS_PER_STEP == 0:
                yield 0
        for number, record in enumerate(records, 1):
            if record.key is not None and record.offset >= first_offset:
                if notes.newest.is_full:
                    end_offset = max(record.offset, first_offset + 1)  # offsets may be forged
                    break
                notes.newest.note(record.key, record.offset)
            if number % RECORDS_PER_STEP == 0:
                yield 0
    yield len(data)
    return end_offset


def rewrite(
    segments: Sequence[Segment], new_segment: NewSegment, rewriting: Rewriting
) -> Work[CleanedSegment | None]:
    """Return the kept records as one segment, None where a single segment stays unchanged.

    Raises:
        OSError, LogRefused: as above; the new segment is removed.
    """
    cleaned = new_segment(segments[0].base_offset)
    is_wanted = False
    try:
        writer = _Writer(cleaned)
        for segment in segments:
            for position, header in segment.batches():
                yield from _rewrite_batch(writer, segment, position, header, rewriting)
        writer.write_gone()
        is_wanted = len(segments) > 1 or writer.has_changed
    finally:
        if not is_wanted:
            with suppress(OSError):  # the next start removes it
                cleaned.discard()
    return cleaned if is_wanted else None


class _Writer:
    """Writes batches one after another, and one in place of each run of removed ones."""

    def __init__(self, cleaned: CleanedSegment) -> None:
        self._cleaned = cleaned
        self._gone: list[BatchHeader] = []
        """Consecutive removed batches of one leader epoch."""
        self.has_changed = False

    def add(self, batch: bytes, *, is_changed: bool) -> None:
        self.write_gone()
        self._cleaned.add(batch)
        self.has_changed |= is_changed

    def leave_out(self, header: BatchHeader) -> None:
        if self._gone and self._gone[-1].leader_epoch != header.leader_epoch:
            self.write_gone()
        self._gone.append(header)

    def write_gone(self) -> None:
        """Write the batch for the ones that were left out since the last added one."""
        if not self._gone:
            return
        first, last = self._gone[0], self._gone[-1]
        self.has_changed |= len(self._gone) > 1 or first.record_count > 0
        self._cleaned.add(empty_batch(first.base_offset, last.last_offset, first.leader_epoch))
        self._gone = []


def _rewrite_batch(
    writer: _Writer, segment: Segment, position: int, header: BatchHeader, rewriting: Rewriting
) -> Work[None]:
    notes = rewriting.notes
    data = _whole_batch(segment, position, header)
    yield len(data)
    if header.base_offset >= notes.end_offset:
        writer.add(data, is_changed=False)
        return
    records = _Records(header, data)
    try:
        staying = yield from _staying(header, records, rewriting)
    except BadBatch as bad:
        rewriting.on_unreadable(header.base_offset, str(bad))
        rewriting.keeps_tombstones = True
        writer.add(data, is_changed=False)
        return
    kept_count = sum(staying.each)
    horizon_ms = rewriting.horizon_of(header, has_tombstones=staying.has_tombstones)
    is_whole = kept_count == len(staying.each) and horizon_ms == header.delete_horizon_ms
    is_last = notes.last_of_producers.get(header.producer_id) == header.base_offset
    is_needed = is_last and rewriting.remembers(header.producer_id)
    rewriting.removed_records += len(staying.each) - kept_count
    if not (kept_count or is_needed):
        writer.leave_out(header)
        return
    if not is_whole:
        batch = CompactedBatch(header, horizon_ms)
        for number, record in enumerate(compress(records, staying.each), 1):
            batch.add(record)
            if number % RECORDS_PER_STEP == 0:
                yield 0
        data = batch.encoded()
    writer.add(data, is_changed=not is_whole)
    yield len(data)


@dataclass(slots=True)
class _Staying:
    """Of each record of a batch 1 if it stays, else 0."""

    each: bytearray = field(default_factory=bytearray)
    has_tombstones: bool = False
    """Whether one that stays has a key and no value."""


def _staying(header: BatchHeader, records: _Records, rewriting: Rewriting) -> Work[_Staying]:
    """Raises BadBatch: a record cannot be read."""
    horizon_ms = None if rewriting.keeps_tombstones else header.delete_horizon_ms
    staying = _Staying()
    for number, record in enumerate(records, 1):
        # Older records of a key that was not noted stay: so does what deletes the key.
        is_staying = record.offset >= rewriting.notes.end_offset or stays(
            record.key,
            record.offset,
            rewriting.notes.newest,
            has_value=record.has_value,
            delete_horizon_ms=horizon_ms,
            now_ms=rewriting.now_ms,
        )
        staying.each.append(is_staying)
        if is_staying and record.key is not None and not record.has_value:
            staying.has_tombstones = True
        if number % RECORDS_PER_STEP == 0:
            yield 0
    return staying


class _Records:
    """The records of a batch, read anew by each loop where they are more than a step's.

    Millions of records fit a batch: only the bytes of all stay in memory.
    """

    def __init__(self, header: BatchHeader, data: bytes) -> None:
        self._header = header
        self._data = data
        self._few: list[StoredRecord] | None = None

    def __iter__(self) -> Iterator[StoredRecord]:
        """Raises BadBatch: a record cannot be read."""
        records = stored_records(self._header, self._data)
        if self._header.record_count > RECORDS_PER_STEP:
            return records
        if self._few is None:
            self._few = list(records)
        return iter(self._few)


def _whole_batch(segment: Segment, position: int, header: BatchHeader) -> bytes:
    """Return the batch's bytes.

    Raises:
        OSError, LogRefused: CORRUPT_MESSAGE: the disk did not keep them.
    """
    data = segment.bytes_at(position, header.size_bytes)
    try:
        check_crc(header, data)
    except BadBatch as bad:
        what = f"batch at {header.base_offset}: {bad}"
        raise LogRefused(ErrorCode.CORRUPT_MESSAGE, what) from bad
    return data
