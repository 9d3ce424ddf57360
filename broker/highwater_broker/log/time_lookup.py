"""Finds the first record that is not older than a timestamp, in steps; reads one batch's records.

Its cost does not depend on fields that a client may have forged: of the batches before the returned
one only headers are read, within one index interval, and of that batch at most its bytes. Between
two steps, of about a millisecond each, the caller may do other work.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple, TypeVar

from crc32c import crc32c

from highwater_broker.log.record_batch import MIN_RECORD_BYTES, LogRefused
from highwater_broker.log.segment import Segment
from highwater_core.errors import ErrorCode
from highwater_core.ids import LeaderEpoch, Offset
from highwater_wire.kafka.record_batch import (
    CRC_START,
    HEADER_BYTES,
    BadBatch,
    BatchHeader,
    is_int64,
    read_varint,
)

HEADERS_PER_STEP = 250
RECORDS_PER_STEP = 500
CRC_BYTES_PER_STEP = 1024 * 1024

CHUNK_BYTES = 16 * 1024
RECORD_HEAD_BYTES = 31
"""A record's length, attributes, timestamp and offset, at most: three varints and a byte."""

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work in steps, each of which ends with a yield; the last one returns the result."""


class FoundOffset(NamedTuple):
    """A record's timestamp in ms, offset and leader epoch."""

    timestamp: int
    offset: Offset
    leader_epoch: LeaderEpoch


def look_up_timestamp(
    segments: Sequence[Segment], timestamp: int, log_start_offset: Offset
) -> Steps[FoundOffset | None]:
    """Return the first record at or after log_start_offset that is not older, or None.

    Deviation: where a batch's records cannot be read (they are compressed, or contradict the
    header), the first record is returned. So none is skipped, and a false header has no worse
    effect than a false record.

    Raises:
        OSError, LogRefused: the disk refused, or its bytes are not the written ones.
    """
    headers = 0
    for segment in segments:
        if segment.max_timestamp < timestamp:
            continue
        for position, header in segment.batches_from_timestamp(timestamp):
            headers += 1
            if headers % HEADERS_PER_STEP == 0:
                yield
            if header.newest_timestamp >= timestamp and header.last_offset >= log_start_offset:
                return (
                    yield from _in_batch(segment, position, header, timestamp, log_start_offset)
                )
    return None


def _in_batch(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, log_start_offset: Offset
) -> Steps[FoundOffset]:
    epoch = LeaderEpoch(header.leader_epoch)
    first = max(log_start_offset, Offset(header.base_offset))
    if not header.is_compressed:
        yield from _check_crc(segment, position, header)
        try:
            records = _timestamps(segment, position, header)
            for number, (offset, found) in enumerate(records, 1):
                if found >= timestamp and offset >= first:
                    return FoundOffset(found, Offset(offset), epoch)
                if number % RECORDS_PER_STEP == 0:
                    yield
        except (BadBatch, IndexError):
            pass  # a reader of the batch will find the error: here only its place matters
    return FoundOffset(min(header.base_timestamp, header.newest_timestamp), first, epoch)


def _check_crc(segment: Segment, position: int, header: BatchHeader) -> Steps[None]:
    """Refuse a batch whose bytes on the disk went bad.

    Raises:
        LogRefused: CORRUPT_MESSAGE.
    """
    crc = 0
    for at in range(CRC_START, header.size_bytes, CRC_BYTES_PER_STEP):
        if at > CRC_START:
            yield
        length = min(CRC_BYTES_PER_STEP, header.size_bytes - at)
        crc = crc32c(segment.bytes_at(position + at, length), crc)
    if crc != header.crc:
        raise LogRefused(ErrorCode.CORRUPT_MESSAGE, f"CRC-32C does not match at {position}")


def _timestamps(segment: Segment, position: int, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Yield each record's offset and timestamp, reading no more bytes than needed.

    Raises:
        BadBatch, IndexError: the records contradict the header.
    """
    end = header.size_bytes
    record = HEADER_BYTES
    chunk, chunk_start = b"", record
    for _ in range(header.record_count):
        chunk_end = chunk_start + len(chunk)
        if chunk_end < record + RECORD_HEAD_BYTES and chunk_end < end:
            chunk_start = record
            chunk = segment.bytes_at(position + record, min(CHUNK_BYTES, end - record))
        length, body = read_varint(chunk, record - chunk_start)
        timestamp_delta, at = read_varint(chunk, body + 1)
        offset_delta, _ = read_varint(chunk, at)
        timestamp = header.base_timestamp + timestamp_delta
        record = chunk_start + body + length
        if length < MIN_RECORD_BYTES - 1 or record > end or not is_int64(timestamp):
            raise BadBatch(ErrorCode.CORRUPT_MESSAGE, f"a record of {length} bytes at {timestamp}")
        if not 0 <= offset_delta <= header.last_offset_delta:
            raise BadBatch(ErrorCode.CORRUPT_MESSAGE, f"a record of offset delta {offset_delta}")
        yield header.base_offset + offset_delta, timestamp
