"""Makes record batches of format v2: sound ones by kafka-python, and damaged ones."""

from __future__ import annotations

import struct

from crc32c import crc32c
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder

from highwater_wire.kafka.record_batch import CRC_START

CRC_POSITION = 17
"""After base offset, length, leader epoch and magic."""

RECORDS_START = 61

optional_bytes = st.none() | st.binary(max_size=300)
records = st.lists(
    st.tuples(optional_bytes, optional_bytes, st.integers(0, 1 << 42)), min_size=1, max_size=20
)
"""Each a key, a value and a timestamp in ms."""


def oracle_batch(
    values: list[tuple[bytes | None, bytes | None, int]], compression: int = 0
) -> bytes:
    """Return the batch that kafka-python builds of these records."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for offset, (key, value, timestamp) in enumerate(values):
        builder.append(offset, timestamp, key, value, [])
    return bytes(builder.build())


def changed(batch: bytes, position: int, layout: str, value: int, *, crc: bool = True) -> bytes:
    """Return the batch with one header field replaced, its CRC made right again."""
    data = bytearray(batch)
    struct.pack_into(layout, data, position, value)
    if crc:
        struct.pack_into(">I", data, CRC_POSITION, crc32c(data[CRC_START:]))
    return bytes(data)


def with_wrong_crc(batch: bytes) -> bytes:
    """Return the batch with one bit of its CRC flipped."""
    damaged = bytearray(batch)
    damaged[CRC_POSITION] ^= 1
    return bytes(damaged)


def varint(value: int) -> bytes:
    """Return the value as a zigzag varint, as records have their numbers."""
    unsigned = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while unsigned > 0x7F:
        out.append(unsigned & 0x7F | 0x80)
        unsigned >>= 7
    return bytes((*out, unsigned))


def without_records(batch: bytes) -> bytes:
    """Return the batch with garbage in place of its records, and with a right CRC."""
    data = bytearray(batch)
    data[RECORDS_START:] = b"\xff" * (len(data) - RECORDS_START)
    struct.pack_into(">I", data, CRC_POSITION, crc32c(data[CRC_START:]))
    return bytes(data)
