"""Which batches of producers a log takes, how it stamps them, and which it refuses."""

from __future__ import annotations

import pytest
from hypothesis import given

from highwater_broker.log import record_batch
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.record_batch import (
    MAX_RECORDS_PER_COMPRESSED_BYTE,
    NO_TIMESTAMP,
    LogRefused,
    check_framing,
    decode_records,
    split_batches,
    stamp,
    take_produced,
)
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.record_batch import (
    HEADER_BYTES,
    build_batch,
    parse_header,
)
from tests.support.batches import changed, oracle_batch, records

NOW_MS = 1 << 42
CONFIG = LogConfig()


BATCH = build_batch([(b"k", b"v1", 1000), (None, b"v2", 1005)])


@given(records)
def test_batches_of_kafka_python_are_accepted(
    values: list[tuple[bytes | None, bytes | None, int]],
) -> None:
    batch = oracle_batch(values)
    assert take_produced(batch, CONFIG, NOW_MS).data == batch
    assert [(r.key, r.value, r.timestamp) for r in decode_records(batch)] == values


def test_a_compressed_batch_is_accepted_and_not_decoded() -> None:
    batch = oracle_batch([(None, b"x" * 1000, 5)] * 20, compression=1)
    take_produced(batch, CONFIG, NOW_MS)
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
def test_the_log_refuses_malformed_batches(data: bytes) -> None:
    with pytest.raises(LogRefused) as refused:
        split_batches(data)
    assert refused.value.error is ErrorCode.CORRUPT_MESSAGE


def test_a_header_of_an_old_format_is_refused() -> None:
    with pytest.raises(LogRefused) as refused:
        check_framing(parse_header(changed(BATCH, 16, ">b", 1)))
    assert refused.value.error is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


def refusal(data: bytes, config: LogConfig = CONFIG, now_ms: int = NOW_MS) -> ErrorCode:
    with pytest.raises(LogRefused) as refused:
        take_produced(data, config, now_ms)
    return refused.value.error


@pytest.mark.parametrize(
    ("position", "layout", "value", "error"),
    [
        (57, ">i", 3, ErrorCode.INVALID_RECORD),  # record count
        (57, ">i", 0, ErrorCode.INVALID_RECORD),
        (23, ">i", 5, ErrorCode.INVALID_RECORD),  # last offset delta
        (0, ">q", 1, ErrorCode.INVALID_RECORD),  # base offset
        (21, ">h", 5, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (21, ">h", 0x08, ErrorCode.INVALID_TIMESTAMP),  # log append time
        (21, ">h", 0x10, ErrorCode.INVALID_RECORD),  # transactional
        (21, ">h", 0x20, ErrorCode.INVALID_RECORD),  # control
        (21, ">h", 0x40, ErrorCode.INVALID_RECORD),  # delete horizon
        (43, ">q", 9, ErrorCode.INVALID_RECORD),  # producer id
    ],
)
def test_batches_that_clients_may_not_write(
    position: int, layout: str, value: int, error: ErrorCode
) -> None:
    assert refusal(changed(BATCH, position, layout, value)) is error


@pytest.mark.parametrize(
    ("more", "error"),
    [
        (BATCH, ErrorCode.INVALID_RECORD),
        (b"\0", ErrorCode.INVALID_RECORD),
        (bytes(100), ErrorCode.INVALID_RECORD),
    ],
    ids=["another batch", "a byte", "zeros"],
)
def test_a_partition_is_sent_one_batch(more: bytes, error: ErrorCode) -> None:
    assert refusal(BATCH + more) is error


def test_no_batch_at_all_is_invalid() -> None:
    assert refusal(b"") is ErrorCode.INVALID_RECORD


def with_count(batch: bytes, count: int) -> bytes:
    """Return the batch as if it had so many records, with header and CRC in order."""
    return changed(changed(batch, 57, ">i", count), 23, ">i", count - 1)


@pytest.mark.parametrize("count", [3, 1_000_000, 2**31 - 1])
def test_a_batch_cannot_claim_more_records_than_its_bytes_hold(count: int) -> None:
    assert refusal(with_count(BATCH, count)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("compression", [1, 2, 3, 4])
def test_nor_more_than_its_bytes_may_hold_when_they_are_decompressed(compression: int) -> None:
    compressed = changed(BATCH, 21, ">h", compression)
    most = (len(BATCH) - HEADER_BYTES) * MAX_RECORDS_PER_COMPRESSED_BYTE
    take_produced(with_count(compressed, most), CONFIG, NOW_MS)
    assert refusal(with_count(compressed, most + 1)) is ErrorCode.INVALID_RECORD
    assert refusal(with_count(compressed, 2**31 - 1)) is ErrorCode.INVALID_RECORD


def test_the_emptiest_records_compressed_best_are_not_too_many() -> None:
    values: list[tuple[bytes | None, bytes | None, int]] = [(None, None, 0)] * 20_000
    take_produced(oracle_batch(values, compression=1), CONFIG, NOW_MS)


def test_a_batch_larger_than_allowed_is_too_large() -> None:
    take_produced(BATCH, LogConfig(max_message_bytes=len(BATCH)), NOW_MS)
    too_small = LogConfig(max_message_bytes=len(BATCH) - 1)
    assert refusal(BATCH, too_small) is ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(BATCH, LogConfig(max_message_bytes=0)) is ErrorCode.MESSAGE_TOO_LARGE


def test_so_is_one_that_no_follower_could_fetch_whatever_the_settings_allow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_batch, "MAX_BATCH_BYTES", len(BATCH))
    allows_all = LogConfig(max_message_bytes=2**31 - 1)
    take_produced(BATCH, allows_all, NOW_MS)
    monkeypatch.setattr(record_batch, "MAX_BATCH_BYTES", len(BATCH) - 1)
    assert refusal(BATCH, allows_all) is ErrorCode.MESSAGE_TOO_LARGE


TIMES = LogConfig(message_timestamp_before_max_ms=100, message_timestamp_after_max_ms=10)


@pytest.mark.parametrize(
    ("base", "newest", "is_taken"),
    [
        (1000, 1000, True),
        (900, 1010, True),
        (899, 1000, False),
        (1000, 1011, False),
        (1011, 1000, False),  # the first record's own
        (1000, 950, True),  # not set by the client: the first record's counts
        (1000, NO_TIMESTAMP, True),
        (NO_TIMESTAMP, NO_TIMESTAMP, True),
        (-2, 1000, False),
        (1000, -2, False),
        (2**63 - 1, 2**63 - 1, False),
        (-(2**63), 1000, False),
    ],
)
def test_timestamps_lie_around_the_brokers_clock(base: int, newest: int, is_taken: bool) -> None:
    data = changed(changed(BATCH, 27, ">q", base), 35, ">q", newest)
    if is_taken:
        assert take_produced(data, TIMES, 1000).header.newest_timestamp == max(base, newest)
    else:
        assert refusal(data, TIMES, 1000) is ErrorCode.INVALID_TIMESTAMP


def test_by_default_records_may_be_old_and_an_hour_ahead() -> None:
    hour_ms = 3_600_000
    data = build_batch([(None, b"old", 0), (None, b"new", NOW_MS + hour_ms)])
    take_produced(data, CONFIG, NOW_MS)
    assert refusal(data, CONFIG, NOW_MS - 1) is ErrorCode.INVALID_TIMESTAMP
