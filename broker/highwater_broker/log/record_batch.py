"""Checks and stamps produced batches; on the hot path no record is decoded.

The format itself is in highwater_wire.kafka.record_batch; its errors become refusals here.
"""

from __future__ import annotations

from collections.abc import Iterator

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
COMPRESSED_KEYS_MAX = 150_000
"""Records in a compressed batch for a compacted topic: about as many as an uncompressed batch of
the default max.message.bytes may hold. librdkafka stays below by default, since its limits of a
batch count uncompressed bytes. Java's producer goes by an estimate of how well records compress; it
splits a batch that is refused with MESSAGE_TOO_LARGE, and sends the parts (KIP-126)."""
KEYS_PER_STEP = 500
"""Records whose keys are looked at in about a millisecond."""


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


class KeyLook:
    """A look at the key of each record of a produced batch, in steps: a compacted topic needs it.

    Between two steps the caller may do other work.
    """

    def __init__(self, steps: Iterator[None]) -> None:
        self._steps = steps
        self._refusal: tuple[ErrorCode, str] | None = None

    def step(self) -> bool:
        """Look at KEYS_PER_STEP records; return whether there are more. The first step unpacks."""
        try:
            next(self._steps)
        except StopIteration:
            return False
        except LogRefused as refused:
            self._refusal = refused.error, str(refused)
            return False
        return True

    def finish(self) -> None:
        """Do the steps that are left.

        Raises:
            LogRefused: a record has no key, or the batch is refused for another reason.
        """
        while self.step():
            pass
        if self._refusal is not None:
            raise LogRefused(*self._refusal)


def keys_are_known() -> KeyLook:
    """Return a look that is done: for records that this broker made itself."""
    return KeyLook(iter(()))


def count_of_keys(records: Buffer, config: LogConfig) -> int:
    """Return how many records an append has to look at, by the batch's unchecked header.

    Unpacking counts as a step of records.
    """
    if not config.is_compacted or len(records) < HEADER_BYTES:
        return 0
    header = wire.parse_header(records)
    return max(0, header.record_count) + (KEYS_PER_STEP if header.is_compressed else 0)


def begin_key_look(records: Buffer, config: LogConfig, now_ms: int) -> KeyLook:
    """Return a look at the keys of a client's batch, which has to stay as it is meanwhile.

    It begins with the checks of take_produced.
    """

    def steps() -> Iterator[None]:
        yield from _look_at_keys(_with_checked_header(records, config, now_ms))

    return KeyLook(steps())


def take_produced(
    records: Buffer, config: LogConfig, now_ms: int, look: KeyLook | None = None
) -> Batch:
    """Return the one batch of a client's records, checked; now_ms is wall clock time.

    Source: Kafka's ProduceRequest.validateRecords and LogValidator. Records are not decoded; their
    claims are believed within the header's bounds (deviation: Kafka decodes them). Records of a
    compacted topic are decoded: each must have a key.
    look: the look at these records' keys; without one they are looked at in this call.

    Raises:
        LogRefused: see LogRefused.
    """
    batch = _with_checked_header(records, config, now_ms)
    if config.is_compacted:
        (look or KeyLook(_look_at_keys(batch))).finish()
    return batch


def _with_checked_header(records: Buffer, config: LogConfig, now_ms: int) -> Batch:
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
    _check_counts(header, config)
    _check_attributes(header)
    _check_timestamps(header, config, now_ms)
    return Batch(header, view)


def _check_counts(header: BatchHeader, config: LogConfig) -> None:
    """Refuse a header with offsets that its records cannot have, or with too many of them."""
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
    if header.is_compressed and config.is_compacted and count > COMPRESSED_KEYS_MAX:
        raise LogRefused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{count} compressed records for a compacted topic, which takes {COMPRESSED_KEYS_MAX}",
        )


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


def _look_at_keys(batch: Batch) -> Iterator[None]:
    """Refuse records without a key, and batches that compaction could not read, in steps.

    Raises:
        LogRefused: INVALID_RECORD, CORRUPT_MESSAGE, UNSUPPORTED_COMPRESSION_TYPE.
    """
    try:
        for number, record in enumerate(stored_records(*batch), 1):
            if record.key is None:
                what = f"record {record.offset} has no key, and the topic is compacted"
                raise LogRefused(ErrorCode.INVALID_RECORD, what)
            if number % KEYS_PER_STEP == 0:
                yield
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
