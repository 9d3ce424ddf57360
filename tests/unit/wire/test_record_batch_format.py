"""The record batch format: our codec and kafka-python's agree, and bad bytes are refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from highwater_core.errors import ErrorCode
from highwater_core.ids import LeaderEpoch
from highwater_wire.kafka.record_batch import (
    HEADER_BYTES,
    BadBatch,
    build_batch,
    decode_records,
    split_batches,
)
from tests.support.batches import changed, oracle_batch, records, varint

BATCH = build_batch([(b"k", b"v1", 1000), (None, b"v2", 1005)])


@given(records)
def test_a_batch_decodes_to_its_records_here_and_in_kafka_python(
    values: list[tuple[bytes | None, bytes | None, int]],
) -> None:
    batch = build_batch(values, base_offset=7)
    assert [(r.key, r.value, r.timestamp) for r in decode_records(batch)] == values
    assert [r.offset for r in decode_records(batch)] == list(range(7, 7 + len(values)))
    oracle = DefaultRecordBatch(bytearray(batch))
    assert oracle.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value) for r in oracle] == [
        (7 + n, timestamp, key, value) for n, (key, value, timestamp) in enumerate(values)
    ]


@given(records)
def test_batches_of_kafka_python_are_read(
    values: list[tuple[bytes | None, bytes | None, int]],
) -> None:
    batch = oracle_batch(values)
    (found,) = split_batches(batch)
    assert found.header.record_count == len(values)
    assert [(r.key, r.value, r.timestamp) for r in decode_records(batch)] == values


def test_a_compressed_batch_is_split_and_not_decoded() -> None:
    batch = oracle_batch([(None, b"x" * 1000, 5)] * 20, compression=1)
    (found,) = split_batches(batch)
    assert found.header.is_compressed
    with pytest.raises(BadBatch) as bad:
        decode_records(batch)
    assert bad.value.error is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_batches_are_split_where_they_end() -> None:
    other = build_batch([(None, b"x", 1)], base_offset=2)
    found = split_batches(memoryview(BATCH + other))
    assert [bytes(batch.data) for batch in found] == [BATCH, other]
    assert split_batches(b"") == []


@pytest.mark.parametrize("cut", range(1, len(BATCH)))
def test_a_torn_batch_is_corrupt(cut: int) -> None:
    with pytest.raises(BadBatch) as bad:
        split_batches(BATCH + BATCH[:cut])
    assert bad.value.error is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("position", range(17, len(BATCH)))
def test_any_flipped_bit_under_the_crc_is_corrupt(position: int) -> None:
    for bit in range(8):
        data = bytearray(BATCH)
        data[position] ^= 1 << bit
        with pytest.raises(BadBatch) as bad:
            split_batches(data)
        assert bad.value.error is ErrorCode.CORRUPT_MESSAGE


@given(st.binary(max_size=200))
def test_garbage_is_refused_and_nothing_else_happens(garbage: bytes) -> None:
    if garbage:
        with pytest.raises(BadBatch):
            split_batches(garbage)


@given(st.binary(max_size=60), st.integers(1, 30))
def test_garbage_records_under_a_right_crc_are_refused_when_decoded(
    garbage: bytes, count: int
) -> None:
    data = bytearray(BATCH[:HEADER_BYTES] + garbage)
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">i", data, 57, count)
    try:
        decoded = len(decode_records(data))
    except BadBatch:
        decoded = count
    assert decoded == count


@pytest.mark.parametrize(
    ("position", "layout", "value", "error"),
    [
        (16, ">b", 0, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (16, ">b", 1, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (16, ">b", 3, ErrorCode.CORRUPT_MESSAGE),
        (8, ">i", 48, ErrorCode.CORRUPT_MESSAGE),
        (8, ">i", -1, ErrorCode.CORRUPT_MESSAGE),
        (8, ">i", 2**31 - 1, ErrorCode.CORRUPT_MESSAGE),
        (0, ">q", -1, ErrorCode.CORRUPT_MESSAGE),
        (23, ">i", -1, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_framing_errors(position: int, layout: str, value: int, error: ErrorCode) -> None:
    with pytest.raises(BadBatch) as bad:
        split_batches(changed(BATCH, position, layout, value))
    assert bad.value.error is error


@pytest.mark.parametrize(
    ("timestamp_delta", "offset_delta", "is_sound"),
    [
        (0, 0, True),
        (-5, 1, True),
        (0, 2, False),  # the header's last one is 1
        (0, -1, False),
        (2**63 - 1000, 0, False),  # with the base of 1000 beyond 64 bits
        (2**63 - 1001, 0, True),
        (-(2**63), 0, True),
    ],
)
def test_a_records_offset_lies_in_its_batch_and_its_timestamp_in_64_bits(
    timestamp_delta: int, offset_delta: int, is_sound: bool
) -> None:
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta) + b"\1\1\0"
    data = bytearray(BATCH[:HEADER_BYTES] + varint(len(body)) + body)
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">i", data, 57, 1)
    if is_sound:
        assert decode_records(data) == [(offset_delta, 1000 + timestamp_delta, None, None)]
    else:
        with pytest.raises(BadBatch) as bad:
            decode_records(data)
        assert bad.value.error is ErrorCode.CORRUPT_MESSAGE


def test_a_header_ends_before_the_last_offset_that_there_is() -> None:
    largest = build_batch([(None, b"", 0)], 2**63 - 2)
    assert split_batches(largest)[0].header.last_offset == 2**63 - 2
    with pytest.raises(BadBatch) as bad:
        split_batches(build_batch([(None, b"", 0)], 2**63 - 1))
    assert bad.value.error is ErrorCode.CORRUPT_MESSAGE


def test_the_epoch_is_outside_the_crc() -> None:
    assert split_batches(build_batch([(None, b"", 0)], 5, LeaderEpoch(9)))[0].header[2] == 9
