"""What a log takes and how it stamps it; on the hot path no record is ever decoded.

The format itself is highwater_wire.kafka.record_batch; what is bad there is refused here.
"""

from __future__ import annotations

from highwater_core.errors import ErrorCode
from highwater_core.ports import Buffer
from highwater_wire.kafka import record_batch as wire
from highwater_wire.kafka.record_batch import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    NO_PRODUCER_ID,
    STAMP,
    BadBatch,
    Batch,
    BatchHeader,
    Record,
)

STAMP_BYTES = STAMP.size
"""The bytes that a leader rewrites: base offset, (equal) batch length, leader epoch."""

LAST_COMPRESSION_CODE = 4
LOG_APPEND_TIME = 0x08
CREATE_TIME_ATTRIBUTES = COMPRESSION_MASK | LOG_APPEND_TIME
NO_TIMESTAMP = -1
MIN_RECORD_BYTES = 7
"""A record without key, value and headers: seven varints and flags of one byte."""


class LogRefused(Exception):
    """The log did not do what was asked and is as it was; `error` is what a client is told.

    CORRUPT_MESSAGE, UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_COMPRESSION_TYPE, INVALID_RECORD,
    INVALID_TIMESTAMP, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE: the records are at fault.
    OFFSET_OUT_OF_RANGE: the offset is. KAFKA_STORAGE_ERROR: the disk refused.
    """

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


class TornBatch(LogRefused):
    """The bytes end within a batch: without a power loss, one whose append never ended."""


def check_framing(header: BatchHeader) -> None:
    """Refuse a header that cannot be one of a v2 batch with at least one record.

    Raises:
        LogRefused: UNSUPPORTED_FOR_MESSAGE_FORMAT for magic 0 and 1, else CORRUPT_MESSAGE.
    """
    try:
        wire.check_framing(header)
    except BadBatch as bad:
        raise LogRefused(bad.error, str(bad)) from bad


def split_batches(buffer: Buffer) -> list[Batch]:
    """Return the batches that fill the buffer exactly, each with its CRC checked.

    Raises:
        LogRefused: CORRUPT_MESSAGE or UNSUPPORTED_FOR_MESSAGE_FORMAT.
    """
    try:
        return wire.split_batches(buffer)
    except BadBatch as bad:
        raise LogRefused(bad.error, str(bad)) from bad


def decode_records(batch: Buffer) -> list[Record]:
    """Return the records of one uncompressed batch.

    Raises:
        LogRefused: CORRUPT_MESSAGE, or UNSUPPORTED_COMPRESSION_TYPE when they are compressed.
    """
    try:
        return wire.decode_records(batch)
    except BadBatch as bad:
        raise LogRefused(bad.error, str(bad)) from bad


def check_produced(header: BatchHeader, max_message_bytes: int) -> None:
    """Refuse a batch that no client may write.

    Deviation: batches with a producer id are refused as long as sequences are not checked, and
    what a batch's records say of themselves is believed (Kafka decodes them).

    Raises:
        LogRefused: see LogRefused.
    """
    if header.size_bytes > max_message_bytes:
        raise LogRefused(
            ErrorCode.MESSAGE_TOO_LARGE, f"batch of {header.size_bytes} > {max_message_bytes} bytes"
        )
    if header.record_count != header.last_offset_delta + 1:
        raise LogRefused(
            ErrorCode.INVALID_RECORD,
            f"{header.record_count} records, last offset delta {header.last_offset_delta}",
        )
    attributes = header.attributes
    records_bytes = header.size_bytes - HEADER_BYTES
    if not header.is_compressed and header.record_count * MIN_RECORD_BYTES > records_bytes:
        raise LogRefused(
            ErrorCode.INVALID_RECORD, f"{header.record_count} records in {records_bytes} bytes"
        )
    if attributes & COMPRESSION_MASK > LAST_COMPRESSION_CODE:
        raise LogRefused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"attributes {attributes:#06x}")
    if attributes & ~CREATE_TIME_ATTRIBUTES:
        raise LogRefused(
            ErrorCode.INVALID_RECORD, f"transactional, control or unknown bits: {attributes:#06x}"
        )
    if attributes & LOG_APPEND_TIME:
        raise LogRefused(ErrorCode.INVALID_TIMESTAMP, "a client may not set log append time")
    if header.producer_id != NO_PRODUCER_ID:
        raise LogRefused(ErrorCode.INVALID_RECORD, f"unknown producer id {header.producer_id}")


def stamp(batch: Batch, base_offset: int, leader_epoch: int) -> tuple[bytes, memoryview]:
    """Return the batch's new first bytes and a view of the rest, to be written one after another.

    The records are not copied and the CRC stays valid.
    """
    first = STAMP.pack(base_offset, batch.header.batch_length, leader_epoch)
    return first, batch.data[STAMP_BYTES:]
