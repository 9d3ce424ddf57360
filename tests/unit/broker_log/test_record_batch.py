"""What a log takes of a producer, how it stamps it, and that bad batches are refused."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder

from highwater_broker.log.record_batch import (
    LogRefused,
    check_framing,
    check_produced,
    decode_records,
    split_batches,
    stamp,
)
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.record_batch import CRC_START, build_batch, parse_header

optional_bytes = st.none() | st.binary(max_size=300)
records = st.lists(
    st.tuples(optional_bytes, optional_bytes, st.integers(0, 1 << 42)), min_size=1, max_size=20
)
MAX_BYTES = 1 << 20


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
        struct.pack_into(">I", data, 17, crc32c(data[CRC_START:]))
    return bytes(data)


BATCH = build_batch([(b"k", b"v1", 1000), (None, b"v2", 1005)])


@given(records)
def test_batches_of_kafka_python_are_accepted(
    values: list[tuple[bytes | None, bytes | None, int]],
) -> None:
    batch = oracle_batch(values)
    (found,) = split_batches(batch)
    check_produced(found.header, MAX_BYTES)
    assert [(r.key, r.value, r.timestamp) for r in decode_records(batch)] == values


def test_a_compressed_batch_is_accepted_and_not_decoded() -> None:
    batch = oracle_batch([(None, b"x" * 1000, 5)] * 20, compression=1)
    (found,) = split_batches(batch)
    check_produced(found.header, MAX_BYTES)
    with pytest.raises(LogRefused) as refused:
        decode_records(batch)
    assert refused.value.error is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_stamping_sets_offset_and_epoch_and_keeps_the_crc() -> None:
    (found,) = split_batches(BATCH)
    stamped = b"".join(stamp(found, 41, 3))
    (again,) = split_batches(stamped)
    assert (again.header.base_offset, again.header.leader_epoch) == (41, 3)
    assert again.header.last_offset == 42
    assert stamped[16:] == BATCH[16:]


@pytest.mark.parametrize("data", [BATCH[:40], BATCH[:-1], BATCH[:-1] + b"\xff"])
def test_what_the_format_calls_bad_the_log_refuses(data: bytes) -> None:
    with pytest.raises(LogRefused) as refused:
        split_batches(data)
    assert refused.value.error is ErrorCode.CORRUPT_MESSAGE


def test_a_header_of_an_old_format_is_refused() -> None:
    with pytest.raises(LogRefused) as refused:
        check_framing(parse_header(changed(BATCH, 16, ">b", 1)))
    assert refused.value.error is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


@pytest.mark.parametrize(
    ("position", "layout", "value", "error"),
    [
        (57, ">i", 3, ErrorCode.INVALID_RECORD),  # record count
        (57, ">i", 0, ErrorCode.INVALID_RECORD),
        (23, ">i", 5, ErrorCode.INVALID_RECORD),  # last offset delta
        (21, ">h", 5, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (21, ">h", 0x08, ErrorCode.INVALID_TIMESTAMP),  # log append time
        (21, ">h", 0x10, ErrorCode.INVALID_RECORD),  # transactional
        (21, ">h", 0x20, ErrorCode.INVALID_RECORD),  # control
        (21, ">h", 0x40, ErrorCode.INVALID_RECORD),  # delete horizon
        (43, ">q", 9, ErrorCode.INVALID_RECORD),  # producer id
    ],
)
def test_what_no_client_may_write(position: int, layout: str, value: int, error: ErrorCode) -> None:
    (found,) = split_batches(changed(BATCH, position, layout, value))
    with pytest.raises(LogRefused) as refused:
        check_produced(found.header, MAX_BYTES)
    assert refused.value.error is error


def test_a_batch_cannot_claim_more_records_than_its_bytes_hold() -> None:
    data = changed(changed(BATCH, 57, ">i", 1_000_000), 23, ">i", 999_999)
    with pytest.raises(LogRefused) as refused:
        check_produced(parse_header(data), MAX_BYTES)
    assert refused.value.error is ErrorCode.INVALID_RECORD


def test_a_batch_larger_than_allowed_is_too_large() -> None:
    header = parse_header(BATCH)
    check_produced(header, len(BATCH))
    with pytest.raises(LogRefused) as refused:
        check_produced(header, len(BATCH) - 1)
    assert refused.value.error is ErrorCode.MESSAGE_TOO_LARGE
