"""A compacted batch reads alike here and by kafka-python, in every codec."""

from __future__ import annotations

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from highwater_core.errors import ErrorCode
from highwater_wire.kafka.compacted_batch import (
    CompactedBatch,
    StoredRecord,
    empty_batch,
    stored_records,
)
from highwater_wire.kafka.compression import UNPACKED_MAX_BYTES, packed, unpacked
from highwater_wire.kafka.record_batch import (
    HEADER_BYTES,
    BadBatch,
    BatchHeader,
    build_batch,
    encode_batch,
    parse_header,
    split_batches,
)
from tests.support.batches import oracle_batch, records

NONE, GZIP, SNAPPY, LZ4, ZSTD = CODECS = range(5)
VALUES = [(b"a", b"v0", 1_000), (b"b", None, 1_010), (None, b"v2", 1_005)]


def compacted(header: BatchHeader, kept: list[StoredRecord], horizon_ms: int | None) -> bytes:
    batch = CompactedBatch(header, horizon_ms)
    for record in kept:
        batch.add(record)
    return batch.encoded()


def read_by_kafka_python(batch: bytes) -> list[tuple[int, int, bytes | None, bytes | None]]:
    oracle = DefaultRecordBatch(bytearray(batch))
    assert oracle.validate_crc()
    return [(r.offset, r.timestamp, r.key, r.value) for r in oracle]


def in_codec(values: list[tuple[bytes | None, bytes | None, int]], codec: int) -> bytes:
    plain = build_batch(values, base_offset=7, leader_epoch=3)
    header = parse_header(plain)._replace(attributes=codec)
    return encode_batch(header, packed(codec, plain[HEADER_BYTES:]))


@pytest.mark.parametrize("codec", CODECS)
@given(values=records, seed=st.integers(0))
def test_remaining_records_are_unchanged_in_every_codec(
    codec: int, values: list[tuple[bytes | None, bytes | None, int]], seed: int
) -> None:
    batch = in_codec(values, codec)
    header = parse_header(batch)
    stored = list(stored_records(header, batch))
    assert [(r.offset, r.timestamp, r.key) for r in stored] == [
        (7 + n, timestamp, key) for n, (key, _, timestamp) in enumerate(values)
    ]
    assert [r.has_value for r in stored] == [value is not None for _, value, _ in values]
    kept = [record for record in stored if seed >> (record.offset % 16) & 1]
    (after,) = split_batches(compacted(header, kept, None))
    assert (after.header.base_offset, after.header.last_offset) == (7, header.last_offset)
    assert after.header.leader_epoch == 3
    assert after.header.record_count == len(kept)
    assert list(stored_records(after.header, bytes(after.data))) == kept
    if codec in (NONE, GZIP):
        read = read_by_kafka_python(bytes(after.data))
        assert read == [(r.offset, r.timestamp, *values[r.offset - 7][:2]) for r in kept]


@pytest.mark.parametrize("codec", [GZIP])
def test_batches_that_kafka_python_compressed_are_read(codec: int) -> None:
    batch = oracle_batch(VALUES, compression=codec)
    stored = list(stored_records(parse_header(batch), batch))
    assert [(r.key, r.timestamp) for r in stored] == [(key, at) for key, _, at in VALUES]


def test_a_delete_horizon_moves_no_timestamp() -> None:
    batch = in_codec(VALUES, NONE)
    header = parse_header(batch)
    kept = list(stored_records(header, batch))[1:]
    until = compacted(header, kept, 90_000)
    marked = parse_header(until)
    assert (header.delete_horizon_ms, marked.delete_horizon_ms) == (None, 90_000)
    assert (marked.newest_timestamp, marked.max_timestamp) == (1_010, 1_010)
    read = read_by_kafka_python(until)
    assert read == [(8, 1_010, b"b", None), (9, 1_005, None, b"v2")]
    of_marked = list(stored_records(marked, until))
    without = compacted(marked, of_marked[1:], None)
    assert parse_header(without).delete_horizon_ms is None
    assert read_by_kafka_python(without) == [(9, 1_005, None, b"v2")]


def test_a_producers_last_batch_keeps_its_sequence_without_records() -> None:
    batch = in_codec(VALUES, LZ4)
    header = parse_header(batch)._replace(producer_id=12, producer_epoch=1, base_sequence=40)
    empty = parse_header(compacted(header, (), None))
    assert (empty.producer_id, empty.producer_epoch, empty.base_sequence) == (12, 1, 40)
    assert (empty.record_count, empty.attributes, empty.last_offset_delta) == (0, 0, 2)


def test_an_empty_batch_stands_for_its_offsets() -> None:
    empty = empty_batch(5, 104, 3)
    (found,) = split_batches(empty)
    assert (found.header.base_offset, found.header.last_offset) == (5, 104)
    assert (found.header.leader_epoch, found.header.newest_timestamp) == (3, -1)
    assert list(stored_records(found.header, empty)) == []
    oracle = DefaultRecordBatch(bytearray(empty))
    assert (oracle.validate_crc(), oracle.next_offset, list(oracle)) == (True, 105, [])


def bad_records(data: bytes, attributes: int = 0, count: int = 1) -> BadBatch:
    header = parse_header(build_batch(VALUES))._replace(attributes=attributes, record_count=count)
    batch = encode_batch(header, data)
    with pytest.raises(BadBatch) as bad:
        list(stored_records(parse_header(batch), batch))
    return bad.value


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x0c",
        b"\x02\x00",
        b"\x0c\x00\x00\x00\x06a\x01\x00",
        b"\x0c\x00\x00\x00\x01\x06\x00",
        b"\x0c\x00\x00\x08\x01\x01\x00",
        b"\x0c\x00\x00\x00\x01\x01\x00\x00",
    ],
    ids=["none", "no body", "too short", "key", "value", "offset", "more than said"],
)
def test_bytes_that_are_no_records_are_an_error(data: bytes) -> None:
    assert bad_records(data).error is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_batch_that_does_not_unpack_is_an_error(codec: int) -> None:
    assert bad_records(b"no frame of any codec", codec).error is ErrorCode.CORRUPT_MESSAGE
    bomb = packed(codec, b"\0" * (UNPACKED_MAX_BYTES + 1))
    with pytest.raises(BadBatch) as bad:
        unpacked(codec, bomb)
    assert bad.value.error is ErrorCode.CORRUPT_MESSAGE


def test_an_unknown_codec_is_an_error() -> None:
    assert bad_records(b"", 5).error is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_snappy_is_read_framed_and_bare() -> None:
    data = b"some records " * 9_000
    assert unpacked(SNAPPY, packed(SNAPPY, data)) == data
    assert unpacked(SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data
    framed = packed(SNAPPY, data)
    for cut in (framed[:-1], framed[:18]):
        with pytest.raises(BadBatch):
            unpacked(SNAPPY, cut)
