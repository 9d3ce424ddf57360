"""Checks and stamps produced batches; on the hot path no record is decoded.

The format itself is in highwater_wire.kafka.record_batch; its errors become refusals here.
"""

from __future__ import annotations

from highwater_broker.log.log_config import LogConfig
from highwater_core.errors import ErrorCode
from highwater_core.ports import Buffer
from highwater_wire.kafka import record_batch as wire
from highwater_wire.kafka.compacted_batch import stored_records
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

MAX_BATCH_BYTES = 100 * 1024 * 1024
"""Of a batch that a leader appends, whatever the settings allow: a fetch returns it whole, and
followers read no answer without end."""
LAST_COMPRESSION_CODE = 4
LOG_APPEND_TIME = 0x08
CREATE_TIME_ATTRIBUTES = COMPRESSION_MASK | LOG_APPEND_TIME
NO_TIMESTAMP = -1
MIN_RECORD_BYTES = 7
"""A record without key, value and headers: seven varints and flags of one byte."""
MAX_RECORDS_PER_COMPRESSED_BYTE = 16
"""Far above any codec: zstd packs two records without key and value into a byte, gzip one."""


class LogRefused(Exception):
    """The log refused an operation and is unchanged; `error` is the client's error.

    CORRUPT_MESSAGE, UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_COMPRESSION_TYPE, INVALID_RECORD,
    INVALID_TIMESTAMP, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE: the records are at fault.
    OFFSET_OUT_OF_RANGE: the offset is. KAFKA_STORAGE_ERROR: the disk refused.
    """

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


class NoSpaceLeft(LogRefused):
    """The disk is full until files are removed."""


class TornBatch(LogRefused):
    """The bytes end within a batch: without a power loss, one whose append was interrupted."""


def check_framing(header: BatchHeader) -> None:
    """Refuse a header that is not one of a v2 batch with at least one record.

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


def take_produced(records: Buffer, config: LogConfig, now_ms: int) -> Batch:
    """Return the one batch of a client's records, checked; now_ms is wall clock time.

    Source: Kafka's ProduceRequest.validateRecords and LogValidator. Records are not decoded; their
    claims are believed within the header's bounds (deviation: Kafka decodes them). Records of a
    compacted topic are decoded: each must have a key.

    Raises:
        LogRefused: see LogRefused.
    """
    view = memoryview(records)
    if not view:
        raise LogRefused(ErrorCode.INVALID_RECORD, "no record batch")
    try:
        header = wire.first_batch_header(view)
        most_bytes = min(config.max_message_bytes, MAX_BATCH_BYTES)
        if header.size_bytes > most_bytes:
            raise LogRefused(
                ErrorCode.MESSAGE_TOO_LARGE, f"batch of {header.size_bytes} > {most_bytes} bytes"
            )
        if header.size_bytes != len(view):
            raise LogRefused(
                ErrorCode.INVALID_RECORD,
                f"{len(view) - header.size_bytes} bytes after a partition's one batch",
            )
        wire.check_crc(header, view)
    except BadBatch as bad:
        raise LogRefused(bad.error, str(bad)) from bad
    _check_counts(header)
    _check_attributes(header)
    _check_timestamps(header, config, now_ms)
    if config.is_compacted:
        _check_keys(header, records)
    return Batch(header, view)


def _check_counts(header: BatchHeader) -> None:
    """Refuse a header with offsets that its records cannot have."""
    count = header.record_count
    if count != header.last_offset_delta + 1 or header.base_offset != 0:
        raise LogRefused(
            ErrorCode.INVALID_RECORD,
            f"{count} records from {header.base_offset}, last delta {header.last_offset_delta}",
        )
    records_bytes = header.size_bytes - HEADER_BYTES
    most = records_bytes // MIN_RECORD_BYTES
    if header.is_compressed:
        most = records_bytes * MAX_RECORDS_PER_COMPRESSED_BYTE
    if count > most:
        raise LogRefused(ErrorCode.INVALID_RECORD, f"{count} records in {records_bytes} bytes")


def _check_attributes(header: BatchHeader) -> None:
    attributes = header.attributes
    if attributes & COMPRESSION_MASK > LAST_COMPRESSION_CODE:
        raise LogRefused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"attributes {attributes:#06x}")
    if attributes & ~CREATE_TIME_ATTRIBUTES:
        raise LogRefused(
            ErrorCode.INVALID_RECORD, f"transactional, control or unknown bits: {attributes:#06x}"
        )
    if attributes & LOG_APPEND_TIME:
        raise LogRefused(ErrorCode.INVALID_TIMESTAMP, "a client may not set log append time")
    numbers = header.producer_id, header.producer_epoch, header.base_sequence
    if header.producer_id != NO_PRODUCER_ID and min(numbers) < 0:
        raise LogRefused(
            ErrorCode.INVALID_RECORD,
            "producer id {}, producer epoch {}, base sequence {}".format(*numbers),
        )


def _check_keys(header: BatchHeader, batch: Buffer) -> None:
    """Refuse records without a key, and batches that compaction could not read."""
    try:
        for record in stored_records(header, bytes(batch)):
            if record.key is None:
                what = f"record {record.offset} has no key, and the topic is compacted"
                raise LogRefused(ErrorCode.INVALID_RECORD, what)
    except BadBatch as bad:
        raise LogRefused(bad.error, str(bad)) from bad


def _check_timestamps(header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    """Refuse times before 1970, and those too far from the broker's clock.

    Source: Kafka's message.timestamp.before.max.ms and message.timestamp.after.max.ms.
    """
    for timestamp in (header.base_timestamp, header.max_timestamp):
        if timestamp == NO_TIMESTAMP:
            continue
        is_late = timestamp - now_ms > config.message_timestamp_after_max_ms
        is_early = now_ms - timestamp > config.message_timestamp_before_max_ms
        if timestamp < 0 or is_late or is_early:
            raise LogRefused(
                ErrorCode.INVALID_TIMESTAMP, f"timestamp {timestamp} while the clock says {now_ms}"
            )


def stamp(batch: Batch, base_offset: int, leader_epoch: int) -> tuple[bytes, memoryview]:
    """Return the batch's new first bytes and a view of the rest, to write one after the other.

    The records are not copied and the CRC stays valid.
    """
    first = STAMP.pack(base_offset, batch.header.batch_length, leader_epoch)
    return first, batch.data[STAMP_BYTES:]
