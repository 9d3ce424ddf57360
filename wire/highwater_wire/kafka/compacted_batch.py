"""Batches with fewer records than they were written with: the results of compaction.

A record stays as its producer encoded it, with its headers; a batch keeps its base and last offset,
also without its records. Does no I/O.
Source: Kafka protocol guide, "Record Batch"; KIP-534 (delete horizon); Kafka's
MemoryRecords.filterTo.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from highwater_core.errors import ErrorCode
from highwater_core.ports import Buffer
from highwater_wire.kafka.compression import packed, unpacked
from highwater_wire.kafka.record_batch import (
    COMPRESSION_MASK,
    HAS_DELETE_HORIZON,
    HEADER_BYTES,
    MAGIC,
    NO_PRODUCER_ID,
    BadBatch,
    BatchHeader,
    encode_batch,
    put_varint,
    read_place,
    read_varint,
)

_LOG_APPEND_TIME = 0x08
_NO_TIMESTAMP = -1
_LEAST_BODY_BYTES = 6


class StoredRecord(NamedTuple):
    """A record as encoded in its batch: data is all of it, without its length."""

    offset: int
    timestamp: int
    key: bytes | None
    has_value: bool
    data: bytes


def stored_records(header: BatchHeader, batch: Buffer) -> Iterator[StoredRecord]:
    """Yield the records of a batch, in any codec.

    Raises:
        BadBatch: CORRUPT_MESSAGE, or UNSUPPORTED_COMPRESSION_TYPE.
    """
    data = unpacked(header.attributes, bytes(batch[HEADER_BYTES : header.size_bytes]))
    position = 0
    try:
        for _ in range(header.record_count):
            length, start = read_varint(data, position)
            position = start + length
            if length < _LEAST_BODY_BYTES or position > len(data):
                raise BadBatch(ErrorCode.CORRUPT_MESSAGE, f"a record of {length} bytes")
            yield _stored_record(header, data[start:position])
    except IndexError:
        raise BadBatch(ErrorCode.CORRUPT_MESSAGE, "a record ends too early") from None
    if position != len(data):
        raise BadBatch(ErrorCode.CORRUPT_MESSAGE, f"{len(data) - position} bytes after the records")


def _stored_record(header: BatchHeader, data: bytes) -> StoredRecord:
    offset, timestamp, at = read_place(header, data, 1)
    key_length, at = read_varint(data, at)
    key = None if key_length < 0 else data[at : at + key_length]
    at += max(0, key_length)
    value_length, at = read_varint(data, at)
    if at + max(0, value_length) >= len(data):  # the number of headers, at least, follows
        raise BadBatch(ErrorCode.CORRUPT_MESSAGE, f"a value of {value_length} bytes")
    return StoredRecord(offset, timestamp, key, value_length >= 0, data)


class CompactedBatch:
    """A batch with fewer of its records, written as they are added; in its own codec."""

    def __init__(self, header: BatchHeader, delete_horizon_ms: int | None) -> None:
        """delete_horizon_ms: how long records without a value are kept, None where there are none.

        header: the batch's own.
        """
        self._header = header
        self._delete_horizon_ms = delete_horizon_ms
        self._base_timestamp = header.base_timestamp
        if delete_horizon_ms is not None:
            self._base_timestamp = delete_horizon_ms
        elif header.delete_horizon_ms is not None:
            self._base_timestamp = header.max_timestamp
        self._max_timestamp: int | None = None
        self._count = 0
        self._body = bytearray()

    def add(self, record: StoredRecord) -> None:
        """Keep the batch's next record."""
        data = record.data
        if self._base_timestamp != self._header.base_timestamp:
            data = _moved(record, self._base_timestamp)
        put_varint(self._body, len(data))
        self._body += data
        self._count += 1
        if self._max_timestamp is None or record.timestamp > self._max_timestamp:
            self._max_timestamp = record.timestamp

    def encoded(self) -> bytes:
        """Return the batch with the added records alone, none or more."""
        header, newest = self._header, self._max_timestamp
        attributes = header.attributes & ~HAS_DELETE_HORIZON
        if newest is None:
            attributes &= ~COMPRESSION_MASK
        if self._delete_horizon_ms is not None:
            attributes |= HAS_DELETE_HORIZON
        if newest is None or header.attributes & _LOG_APPEND_TIME:
            newest = header.max_timestamp
        after = header._replace(
            attributes=attributes,
            base_timestamp=self._base_timestamp,
            max_timestamp=newest,
            record_count=self._count,
        )
        return encode_batch(after, packed(attributes, bytes(self._body)))


def _moved(record: StoredRecord, base_timestamp: int) -> bytes:
    """Return the record's data with its timestamp relative to another base."""
    _, end = read_varint(record.data, 1)
    moved = bytearray(record.data[:1])
    put_varint(moved, record.timestamp - base_timestamp)
    return bytes(moved + record.data[end:])


def empty_batch(base_offset: int, last_offset: int, leader_epoch: int) -> bytes:
    """Return a batch without records for those offsets."""
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=last_offset - base_offset,
        base_timestamp=_NO_TIMESTAMP,
        max_timestamp=_NO_TIMESTAMP,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=0,
    )
    return encode_batch(header, b"")
