"""Reads a replica's segment files with a codec of its own, never with broker code.

The batches' bytes are kept, since replicas must agree on every byte; the records inside are
decoded by kafka-python.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from highwater_checker.compression import CannotUnpack, codec_of, unpacked
from highwater_checker.kafka_python import (
    CorruptRecordError,
    DefaultRecord,
    DefaultRecordBatch,
    MemoryRecords,
)
from highwater_checker.run_folder.files import read_whole, text_of
from highwater_core.numbers import INT64_MAX

UNPACKED_OF_A_LOG_MAX_BYTES = 2 * 1024 * 1024 * 1024
"""Most bytes that the records of a log's compressed batches may take together in memory."""
_RECORD_BYTES = 100
"""What a record takes in memory beside its key and value."""
_LENGTH = struct.Struct(">qi")


class DamagedLog(Exception):
    """A segment has bytes that are no whole, valid batch; the message says where.

    offset: where the log ends before them, -1 where that is not known.
    """

    def __init__(self, message: str, offset: int = -1) -> None:
        super().__init__(message)
        self.offset = offset if offset <= INT64_MAX else -1  # a file may have any name


class UnreadableRecords(Exception):
    """A valid batch's records cannot be decoded: brokers do not decode them."""


Record = tuple[int, bytes | None, bytes | None]
"""Its offset, key and value."""
_UNDECODABLE = (CorruptRecordError, ValueError, TypeError, struct.error)
"""kafka-python's exceptions, the last two of a control record's key, and CannotUnpack."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One record batch as it is on disk; offsets in [base_offset, next_offset).

    decoded: its records, where they were read before and found to be whole.
    """

    base_offset: int
    next_offset: int
    leader_epoch: int
    data: bytes
    decoded: tuple[Record, ...] | None = field(default=None, compare=False, repr=False)

    def records(self, *, at_every_offset: bool = False) -> Iterator[Record]:
        """Yield (offset, key, value) of each record; otherwise like whole_records."""
        if self.decoded is not None:
            yield from self.decoded
            return
        for record in self.whole_records(at_every_offset=at_every_offset):
            yield record.offset, record.key, record.value

    def whole_records(self, *, at_every_offset: bool = False) -> Iterator[DefaultRecord]:
        """Yield each record with its timestamp and headers, ascending by offset.

        at_every_offset: whether each offset must have a record, as in a log that is not compacted.

        Raises:
            UnreadableRecords: the bytes are no records, cannot be unpacked, or have other offsets
            than the batch's.
        """
        due = self.base_offset
        try:
            for batch in MemoryRecords(unpacked(self.data)):
                for record in batch:
                    is_due = record.offset == due or (record.offset > due and not at_every_offset)
                    if not is_due or record.offset >= self.next_offset:
                        raise UnreadableRecords(f"{self}: a record at {record.offset}")
                    due = record.offset + 1
                    yield record
        except _UNDECODABLE as error:
            what = f"batch at {self.base_offset}: {_in_words(error)}"
            raise UnreadableRecords(what) from error
        if at_every_offset and due != self.next_offset:
            raise UnreadableRecords(f"{self}: its records end at {due}")

    @property
    def is_compressed(self) -> bool:
        return codec_of(self.data) != 0

    def __str__(self) -> str:
        return f"batch at {self.base_offset}, which ends at {self.next_offset}"


def _in_words(error: Exception) -> str:
    """Return why records cannot be decoded; kafka-python's texts may hold Python's exceptions."""
    if isinstance(error, CannotUnpack):
        return str(error)
    found = str(error).rpartition(f"{CorruptRecordError.__name__}: ")[2]
    if isinstance(error, CorruptRecordError) and found and "structure" not in found:
        return f"{found[0].lower()}{found[1:]}"
    return "its bytes are no whole records"


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """One replica's log with its broker's last report of it; batches ascend by offset."""

    broker_id: int
    topic: str
    partition: int
    batches: tuple[Batch, ...]
    high_watermark: int
    log_start_offset: int = 0
    is_compacted: bool = False
    """Whether its topic is: records may be gone that newer ones of their keys succeed."""
    is_in_sync: bool = True
    """Whether it was in the ISR at the end: one that was not may lack the newest records."""

    @property
    def log_end_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.log_start_offset

    def must_hold(self, offset: int) -> bool:
        """Return whether a committed record of the offset must be in the log.

        Retention removed what is below its start. Out of the ISR it need not have fetched all.
        """
        is_due = self.is_in_sync or offset < self.log_end_offset
        return is_due and offset >= self.log_start_offset


def read_batches(folder: Path, *, is_compacted: bool = True) -> tuple[Batch, ...]:
    """Return all batches in a partition's folder, in the order of its segments.

    Names that begin with a dot are no segments', but a Mac's beside them.

    is_compacted: whether its topic is, see batches_in.

    Raises:
        DamagedLog: a torn or corrupt batch, offsets that overlap or leave a gap, or a segment that
            begins elsewhere than its name says.
        OSError: the folder, or a segment, cannot be read.
    """
    found = (
        (text_of(path.name), read_whole(path))
        for path in sorted(folder.iterdir())
        if path.name.endswith(".log") and not path.name.startswith(".")
    )
    return batches_in(found, is_compacted=is_compacted)


def records_in(
    batches: Iterable[Batch], *, is_compacted: bool
) -> Iterator[tuple[Batch, int, bytes | None, bytes | None]]:
    """Yield (batch, offset, key, value) of each record of a log.

    A log of some kilobytes may unpack to more than there is memory: it is not read to its end.

    Raises:
        UnreadableRecords: see Batch.whole_records; or its compressed batches take more than
            UNPACKED_OF_A_LOG_MAX_BYTES.
    """
    for batch, records in records_by_batch(batches, is_compacted=is_compacted):
        for offset, key, value in records:
            yield batch, offset, key, value


def records_by_batch(
    batches: Iterable[Batch], *, is_compacted: bool
) -> Iterator[tuple[Batch, Iterator[Record]]]:
    """Yield each batch of a log with its records, which are to be read before the next batch.

    The records raise what records_in raises.
    """
    unpacked_bytes = 0

    def counted(batch: Batch) -> Iterator[Record]:
        nonlocal unpacked_bytes
        for record in batch.records(at_every_offset=not is_compacted):
            _, key, value = record
            unpacked_bytes += _RECORD_BYTES + len(key or b"") + len(value or b"")
            if unpacked_bytes > UNPACKED_OF_A_LOG_MAX_BYTES:
                most = UNPACKED_OF_A_LOG_MAX_BYTES
                raise UnreadableRecords(f"{batch}: the log's records take over {most} bytes")
            yield record

    for batch in batches:
        is_plain = not batch.is_compressed
        yield batch, batch.records(at_every_offset=not is_compacted) if is_plain else counted(batch)


def batches_in(
    segments: Iterable[tuple[str, bytes]], *, is_compacted: bool = True
) -> tuple[Batch, ...]:
    """Return all batches of a log's segments (name, content), which ascend.

    is_compacted: a segment that lies within the one before it, and where that ends the next one
    begins, was compacted with others into that one: a stop may leave its file. The first batches of
    a segment may be gone, so that it begins above its name's offset.

    Raises:
        DamagedLog: see read_batches.
    """
    return tuple(each.batch for each in placed_batches(segments, is_compacted=is_compacted))


@dataclass(frozen=True, slots=True)
class PlacedBatch:
    """A batch, and where it begins: its segment's name, and the byte in it."""

    segment: str
    position_bytes: int
    batch: Batch


def placed_batches(
    segments: Iterable[tuple[str, bytes]], *, is_compacted: bool = True
) -> Iterator[PlacedBatch]:
    """Yield what batches_in returns, with their places, up to the first damage.

    Raises:
        DamagedLog: see read_batches.
    """
    end: int | None = None
    found = list(segments)
    for number, (name, data) in enumerate(found):
        later = [_base_offset(each) for each, _ in found[number + 1 :]]
        own, damage = _up_to_damage(name, data)
        is_left_over = end is not None and _base_offset(name) < end and end in later
        if not (is_compacted and is_left_over):
            _check_name(name, own, end or 0, is_compacted=is_compacted)
            position_bytes = 0
            for batch in own:
                if end not in (None, batch.base_offset):
                    raise DamagedLog(
                        f"{name}: batch at {batch.base_offset} after one that ends at {end}"
                    )
                yield PlacedBatch(name, position_bytes, batch)
                position_bytes += len(batch.data)
                end = batch.next_offset
        if damage is not None:
            raise DamagedLog(str(damage), _base_offset(name) if end is None else end)


def _up_to_damage(name: str, data: bytes) -> tuple[list[Batch], DamagedLog | None]:
    own: list[Batch] = []
    try:
        for batch in batches_of(name, data):
            own.append(batch)
    except DamagedLog as damage:
        return own, damage
    return own, None


def _check_name(name: str, own: list[Batch], end: int, *, is_compacted: bool) -> None:
    """Refuse a segment that its name puts within the one before it, or at another first offset.

    own: its batches. end: of the segment before it, 0 without one. Brokers look for offsets by the
    names, and an empty last segment says where the log ends.

    Raises:
        DamagedLog: see there.
    """
    named = _base_offset(name)
    if named < 0:
        return
    if named < end:
        raise DamagedLog(
            f"{name}: it is named as if it began below {end}, where the log had come to"
        )
    begins = own[0].base_offset if own else named
    if begins < named or (begins > named and not is_compacted):
        raise DamagedLog(f"{name}: it is not named by its first offset, which is {begins}")


def _base_offset(name: str) -> int:
    """Return the offset that a segment's name says it begins at, -1 of any other name."""
    text = name.rpartition("/")[2].partition(".")[0]
    return int(text) if text.isdecimal() else -1


def batches_of(name: str, data: bytes) -> Iterator[Batch]:
    """Yield the batches of one segment's content, in their order, up to the first damage.

    Raises:
        DamagedLog: the bytes from there on are no whole, valid batch.
    """
    position = 0
    while position < len(data):
        if len(data) - position < _LENGTH.size:
            raise DamagedLog(f"{name}: torn batch header at byte {position}")
        _, length = _LENGTH.unpack_from(data, position)
        end = position + _LENGTH.size + length
        if length < 49 or end > len(data):
            raise DamagedLog(f"{name}: torn batch at byte {position}")
        raw = data[position:end]
        header = DefaultRecordBatch(raw)
        if header.magic != 2 or not header.validate_crc():
            raise DamagedLog(f"{name}: bad magic or CRC at byte {position}")
        if header.base_offset < 0 or header.next_offset > INT64_MAX:  # the CRC leaves out the base
            raise DamagedLog(f"{name}: no log has a batch at {header.base_offset}")
        yield Batch(header.base_offset, header.next_offset, header.leader_epoch, raw)
        position = end
