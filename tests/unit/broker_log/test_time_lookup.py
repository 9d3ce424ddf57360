"""A lookup by time costs one index interval and one batch, also with hostile batch headers."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.segment import MAX_INDEX_INTERVAL_BYTES
from highwater_broker.log.time_lookup import HEADERS_PER_STEP, RECORDS_PER_STEP
from highwater_core.ids import LeaderEpoch, Offset
from highwater_wire.kafka.record_batch import CRC_START, build_batch

NOW_MS = 1_700_000_000_000
SMALLEST_BATCH_BYTES = 69


def with_max_timestamp(batch: bytes, timestamp: int) -> bytes:
    data = bytearray(batch)
    struct.pack_into(">q", data, 35, timestamp)
    struct.pack_into(">I", data, 17, crc32c(data[CRC_START:]))
    return bytes(data)


def append_all(log: Any, batches: list[bytes]) -> None:
    for batch in batches:
        log.append_as_leader(batch, LeaderEpoch(0), NOW_MS)


def reopened(machine: Any, log: Any, how: str) -> Any:
    """Return the log as it is, after a clean stop or after a crash."""
    if how == "as it is":
        return log
    end = log.log_end_offset
    if how == "after a clean stop":
        machine.run(log.flush())
        log.close()
    machine.crash()
    is_clean = how == "after a clean stop"
    return machine.open(clean=is_clean, recovery_point=end if is_clean else 0)[0]


HOW = ["as it is", "after a clean stop", "after a crash"]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("index_interval_bytes", [4096, 2**31 - 1])
def test_batches_of_one_time_are_not_gone_through_to_find_a_later_one(
    new_machine: Any, tools: Any, index_interval_bytes: int, how: str
) -> None:
    machine = new_machine(LogConfig(index_interval_bytes=index_interval_bytes))
    log, _ = machine.open()
    same = tools.batch(b"", timestamp=NOW_MS - 5)
    count = 3 * MAX_INDEX_INTERVAL_BYTES // len(same)
    append_all(log, [same] * count + [tools.batch(b"", timestamp=NOW_MS)])
    found, steps = tools.stepped(reopened(machine, log, how), NOW_MS - 4)
    assert found[:2] == (NOW_MS, count)
    assert steps <= 2 + MAX_INDEX_INTERVAL_BYTES // SMALLEST_BATCH_BYTES // HEADERS_PER_STEP


@pytest.mark.parametrize("how", HOW)
def test_of_batches_whose_headers_lie_one_is_read_and_stands_for_the_rest(
    new_machine: Any, tools: Any, how: str
) -> None:
    machine = new_machine()
    log, _ = machine.open()
    per_batch = 3 * RECORDS_PER_STEP
    batch = build_batch([(None, None, NOW_MS - 1000)] * per_batch)
    append_all(log, [batch, *[with_max_timestamp(batch, NOW_MS)] * 20, batch])
    log = reopened(machine, log, how)
    found, steps = tools.stepped(log, NOW_MS)
    assert found == (NOW_MS - 1000, per_batch, 0)
    assert steps <= 1 + per_batch // RECORDS_PER_STEP + 1


def test_a_batch_whose_client_left_the_largest_time_unset_is_found_by_its_first(
    machine: Any, tools: Any
) -> None:
    log, _ = machine.open()
    batch = build_batch([(None, b"x", NOW_MS - 10), (None, b"y", NOW_MS - 9)])
    append_all(log, [with_max_timestamp(batch, unset) for unset in (-1, 0)])
    assert tools.look_up(log, NOW_MS - 10)[:2] == (NOW_MS - 10, 0)
    assert tools.look_up(log, NOW_MS - 9) is None


def test_a_large_batch_is_read_in_steps(machine: Any, tools: Any) -> None:
    log, _ = machine.open()
    values = [(None, b"v" * 100, NOW_MS - 9_000 + number) for number in range(9_000)]
    append_all(log, [build_batch(values)])
    found, steps = tools.stepped(log, NOW_MS - 1)
    assert found[:2] == (NOW_MS - 1, 8_999)
    assert 9_000 // RECORDS_PER_STEP <= steps <= 9_000 // RECORDS_PER_STEP + 2


def test_appends_and_retention_may_come_between_two_steps(new_machine: Any, tools: Any) -> None:
    machine = new_machine(LogConfig(segment_bytes=100_000, retention_bytes=1))
    log, _ = machine.open()
    batch = build_batch([(None, b"v", NOW_MS - 9_000 + number) for number in range(3_000)])
    append_all(log, [batch])
    lookup = log.look_up_timestamp(NOW_MS - 6_001)
    next(lookup)
    append_all(log, [batch, batch, batch])
    assert log.delete_old_segments(NOW_MS, log.log_end_offset) > 0
    found, _ = tools.finish(lookup)
    assert found[:2] == (NOW_MS - 6_001, 2_999)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=4), min_size=1, max_size=40),
    st.sampled_from([0, 100, 300, 2**31 - 1]),
    st.sampled_from([300, 1_000, 1 << 30]),
    st.sampled_from(HOW),
    st.integers(0, 40),
)
def test_it_finds_the_same_record_as_reading_all_in_order(
    new_machine: Any,
    tools: Any,
    batches: list[list[int]],
    index_interval_bytes: int,
    segment_bytes: int,
    how: str,
    cut: int,
) -> None:
    config = LogConfig(index_interval_bytes=index_interval_bytes, segment_bytes=segment_bytes)
    machine = new_machine(config)
    log, _ = machine.open()
    append_all(log, [build_batch([(None, None, at) for at in stamps]) for stamps in batches])
    log = reopened(machine, log, how)
    log.truncate_to(Offset(cut))
    kept = [at for stamps in batches for at in stamps][: log.log_end_offset]
    for timestamp in range(32):
        found = tools.look_up(log, timestamp)
        expected = next(((at, n) for n, at in enumerate(kept) if at >= timestamp), None)
        assert (found and found[:2]) == expected
