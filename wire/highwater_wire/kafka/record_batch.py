"""Kafka's v2 record batches: headers, framing, whole batches built and decoded. Does no I/O.

A batch is a 61-byte header and its records. The first 16 bytes (base offset, length, partition
leader epoch) are outside the CRC, so a leader stamps a batch without changing the rest.
Source: Kafka protocol guide, "Record Batch"; KIP-98.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c

from highwater_core.errors import ErrorCode
from highwater_core.ids import NO_EPOCH, ProducerId
from highwater_core.ports import Buffer

HEADER_BYTES = 61
LENGTH_END = 12
"""The position from which batch_length counts."""
CRC_START = 21
"""The CRC covers all bytes from the attributes on."""

MAGIC = 2
COMPRESSION_MASK = 0x07
HAS_DELETE_HORIZON = 0x40
"""The base timestamp says until when records without a value are kept (KIP-534)."""
NO_PRODUCER_ID = ProducerId(-1)
NO_PRODUCER = (NO_PRODUCER_ID, -1, -1)
MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1
"""Epochs have 32 bits in messages and on disks, offsets and timestamps 64, with a sign."""

STAMP = struct.Struct(">qii")
"""The first 16 bytes: base offset, batch length, leader epoch."""
_HEADER = struct.Struct(">qiibIhiqqqhii")
_CHECKED = struct.Struct(">hiqqqhii")
_HEADER_FIELDS_BEFORE_CHECKED = 5


class BadBatch(Exception):
    """Bytes that are no record batches, or unreadable ones; `error` says which.

    CORRUPT_MESSAGE, UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_COMPRESSION_TYPE.
    """

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


class BatchHeader(NamedTuple):
    """A batch's header; a named tuple, since one is made for every batch."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return LENGTH_END + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def newest_timestamp(self) -> int:
        """The largest timestamp of the records, by the header.

        Some clients leave max_timestamp unset (Sarama until 2025); for their batches the first
        record's counts. A Kafka broker sets it from the records.
        """
        if self.attributes & HAS_DELETE_HORIZON:
            return self.max_timestamp
        return max(self.base_timestamp, self.max_timestamp)

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent producer sent it: then it has an epoch and a sequence, too."""
        return self.producer_id >= 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """Until when records without a value are kept, None while nobody has decided that."""
        return self.base_timestamp if self.attributes & HAS_DELETE_HORIZON else None

    @property
    def is_compressed(self) -> bool:
        return bool(self.attributes & COMPRESSION_MASK)


class Batch(NamedTuple):
    """One whole batch, CRC checked; data is a view of its buffer."""

    header: BatchHeader
    data: memoryview


class Record(NamedTuple):
    """A decoded record; timestamp in ms since 1970."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header at position, unchecked; the buffer must have HEADER_BYTES there."""
    return BatchHeader._make(_HEADER.unpack_from(buffer, position))


def check_framing(header: BatchHeader) -> None:
    """Refuse a header that is not one of a v2 batch with at least one record.

    Raises:
        BadBatch: UNSUPPORTED_FOR_MESSAGE_FORMAT for magic 0 and 1, else CORRUPT_MESSAGE.
    """
    if header.magic != MAGIC:
        old = 0 <= header.magic < MAGIC
        error = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT if old else ErrorCode.CORRUPT_MESSAGE
        raise BadBatch(error, f"record batch of magic {header.magic}, not {MAGIC}")
    if header.batch_length < HEADER_BYTES - LENGTH_END:
        raise BadBatch(ErrorCode.CORRUPT_MESSAGE, f"batch length {header.batch_length}")
    if (
        header.last_offset_delta < 0
        or header.base_offset < 0
        or header.last_offset >= MAX_INT64  # the next offset must be one too
    ):
        raise BadBatch(
            ErrorCode.CORRUPT_MESSAGE,
            f"base offset {header.base_offset}, last offset delta {header.last_offset_delta}",
        )


def first_batch_header(buffer: Buffer) -> BatchHeader:
    """Return the header of the buffer's first batch, which must be whole.

    Raises:
        BadBatch: CORRUPT_MESSAGE or UNSUPPORTED_FOR_MESSAGE_FORMAT.
    """
    if len(buffer) < HEADER_BYTES:
        raise BadBatch(ErrorCode.CORRUPT_MESSAGE, f"{len(buffer)} bytes are no record batch")
    header = parse_header(buffer)
    check_framing(header)
    if header.size_bytes > len(buffer):
        missing_bytes = header.size_bytes - len(buffer)
        raise BadBatch(ErrorCode.CORRUPT_MESSAGE, f"batch cut short by {missing_bytes} bytes")
    return header


def check_crc(header: BatchHeader, batch: Buffer) -> None:
    """Refuse a whole batch whose CRC-32C differs from its header's.

    Raises:
        BadBatch: CORRUPT_MESSAGE.
    """
    if crc32c(batch[CRC_START:]) != header.crc:
        raise BadBatch(ErrorCode.CORRUPT_MESSAGE, "CRC-32C does not match")


def split_batches(buffer: Buffer) -> list[Batch]:
    """Return the batches that fill the buffer exactly, each with its CRC checked.

    Raises:
        BadBatch: CORRUPT_MESSAGE or UNSUPPORTED_FOR_MESSAGE_FORMAT.
    """
    view = memoryview(buffer)
    end = len(view)
    batches: list[Batch] = []
    position = 0
    while position < end:
        rest = view[position:]
        header = first_batch_header(rest)
        batch = Batch(header, rest[: header.size_bytes])
        check_crc(*batch)
        batches.append(batch)
        position += header.size_bytes
    return batches


def build_batch(
    records: Sequence[tuple[bytes | None, bytes | None, int]],
    base_offset: int = 0,
    leader_epoch: int = NO_EPOCH,
    producer: tuple[int, int, int] = NO_PRODUCER,
) -> bytes:
    """Return one uncompressed batch of (key, value, timestamp in ms) records, at least one.

    producer: of an idempotent one its id, its epoch and the first record's sequence.
    """
    base_timestamp = records[0][2]
    body = b"".join(
        _encode_record(delta, timestamp - base_timestamp, key, value)
        for delta, (key, value, timestamp) in enumerate(records)
    )
    max_timestamp = max(timestamp for _, _, timestamp in records)
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=len(records) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        record_count=len(records),
    )
    return encode_batch(header, body)


def encode_batch(header: BatchHeader, records: bytes) -> bytes:
    """Return the batch of the header and these records, as they are; length and CRC are theirs."""
    checked = _CHECKED.pack(*header[_HEADER_FIELDS_BEFORE_CHECKED:]) + records
    length = CRC_START - LENGTH_END + len(checked)
    stamped = STAMP.pack(header.base_offset, length, header.leader_epoch)
    return stamped + struct.pack(">bI", MAGIC, crc32c(checked)) + checked


def decode_records(batch: Buffer) -> list[Record]:
    """Return the records of one uncompressed batch.

    Their offsets are within the batch, their timestamps within 64 bits.

    Raises:
        BadBatch: CORRUPT_MESSAGE, or UNSUPPORTED_COMPRESSION_TYPE when they are compressed.
    """
    header = parse_header(batch)
    if header.is_compressed:
        raise BadBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "records are compressed")
    data = bytes(batch[HEADER_BYTES : header.size_bytes])
    records: list[Record] = []
    position = 0
    try:
        for _ in range(header.record_count):
            length, start = read_varint(data, position)
            position = start + length
            if length < 0 or position > len(data):
                raise BadBatch(ErrorCode.CORRUPT_MESSAGE, f"record of {length} bytes")
            records.append(_decode_record(header, data, start + 1))
    except IndexError:
        raise BadBatch(ErrorCode.CORRUPT_MESSAGE, "a record ends too early") from None
    return records


def _encode_record(
    offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None
) -> bytes:
    body = bytearray(1)
    put_varint(body, timestamp_delta)
    put_varint(body, offset_delta)
    for part in (key, value):
        put_varint(body, -1 if part is None else len(part))
        body += part or b""
    put_varint(body, 0)
    record = bytearray()
    put_varint(record, len(body))
    return bytes(record + body)


def _decode_record(header: BatchHeader, data: bytes, position: int) -> Record:
    offset, timestamp, position = read_place(header, data, position)
    key, position = _nullable_bytes(data, position)
    value, position = _nullable_bytes(data, position)
    return Record(offset, timestamp, key, value)


def read_place(header: BatchHeader, data: bytes, position: int) -> tuple[int, int, int]:
    """Return a record's offset and timestamp, whose deltas begin at position, and what follows.

    Raises:
        BadBatch: CORRUPT_MESSAGE; it is none of the batch's offsets, or no time.
        IndexError: the data ends too early.
    """
    timestamp_delta, position = read_varint(data, position)
    offset_delta, position = read_varint(data, position)
    timestamp = header.base_timestamp + timestamp_delta
    if not 0 <= offset_delta <= header.last_offset_delta or not is_int64(timestamp):
        raise BadBatch(
            ErrorCode.CORRUPT_MESSAGE,
            f"a record of offset delta {offset_delta}, timestamp delta {timestamp_delta}",
        )
    return header.base_offset + offset_delta, timestamp, position


def _nullable_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = read_varint(data, position)
    if length < 0:
        return None, position
    if position + length > len(data):
        raise BadBatch(ErrorCode.CORRUPT_MESSAGE, f"a key or value of {length} bytes")
    return data[position : position + length], position + length


def put_varint(out: bytearray, value: int) -> None:
    """Add a zigzag varint, as records have them."""
    unsigned = value << 1 if value >= 0 else (-value << 1) - 1
    while unsigned > 0x7F:
        out.append(unsigned & 0x7F | 0x80)
        unsigned >>= 7
    out.append(unsigned)


def is_int64(number: int) -> bool:
    return -MAX_INT64 - 1 <= number <= MAX_INT64


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a record's zigzag varint of at most ten bytes, and its end.

    Raises:
        BadBatch: CORRUPT_MESSAGE: it is longer.
        IndexError: the data end within it.
    """
    unsigned = shift = 0
    while True:
        byte = data[position]
        position += 1
        unsigned |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (unsigned >> 1) ^ -(unsigned & 1), position
        shift += 7
        if shift > 63:
            raise BadBatch(ErrorCode.CORRUPT_MESSAGE, "a varint of more than 10 bytes")
