"""Every field of a batch's header at its extremes: refused with its code, or harmless.

A leader takes the batch from a client, a follower takes it from a leader of another build, and a
broker finds it on its disk.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from crc32c import crc32c

from highwater_broker.log.log import Log
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.record_batch import LogRefused
from highwater_core.errors import ErrorCode
from highwater_core.ids import LeaderEpoch, Offset
from highwater_wire.kafka.codec import encode_response
from highwater_wire.kafka.messages import ListOffsetsResponse, ListOffsetsResult
from highwater_wire.kafka.record_batch import CRC_START, HEADER_BYTES, split_batches
from tests.support.batches import varint

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000

LENGTH = 65
"""The batch_length of batch_with's header."""

INT8 = (-128, -1, 0, 1, 2, 3, 127)
INT16 = (-(2**15), -1, 0, 1, 4, 5, 7, 8, 16, 32, 64, 2**15 - 1)
INT32 = (-(2**31), -2, -1, 0, 1, 2, 3, 1000, 2**31 - 2, 2**31 - 1)
INT64 = (-(2**63), -2, -1, 0, 1, 1000, NOW_MS, 2**31, 2**32, 2**62, 2**63 - 2, 2**63 - 1)
FIELDS: dict[str, tuple[int, str, Sequence[int]]] = {
    "base_offset": (0, ">q", INT64),
    "batch_length": (8, ">i", (*INT32, 48, 49, LENGTH - 1, LENGTH, LENGTH + 1)),
    "leader_epoch": (12, ">i", INT32),
    "magic": (16, ">b", INT8),
    "crc": (17, ">I", (0, 2**32 - 1)),
    "attributes": (21, ">h", INT16),
    "last_offset_delta": (23, ">i", INT32),
    "base_timestamp": (27, ">q", INT64),
    "max_timestamp": (35, ">q", INT64),
    "producer_id": (43, ">q", INT64),
    "producer_epoch": (51, ">h", INT16),
    "base_sequence": (53, ">i", INT32),
    "record_count": (57, ">i", INT32),
}
CASES = [(field, value) for field, (_, _, values) in FIELDS.items() for value in values]

TAKEN = "taken"
CORRUPT, INVALID, TIMESTAMP = "CORRUPT_MESSAGE", "INVALID_RECORD", "INVALID_TIMESTAMP"


def expected_of_leader(field: str, value: int) -> str:
    """Return a leader's answer to a client's batch of two records with that field's value."""
    match field:
        case "base_offset":
            return TAKEN if value == 0 else CORRUPT if not 0 <= value < 2**63 - 2 else INVALID
        case "magic":
            is_old = value in (0, 1)
            return TAKEN if value == 2 else "UNSUPPORTED_FOR_MESSAGE_FORMAT" if is_old else CORRUPT
        case "attributes":
            if value & 7 > 4:
                return "UNSUPPORTED_COMPRESSION_TYPE"
            return TIMESTAMP if value == 8 else TAKEN if 0 <= value <= 4 else INVALID
        case "last_offset_delta":
            return TAKEN if value == 1 else CORRUPT if value < 0 else INVALID
        case "record_count":
            return TAKEN if value == 2 else INVALID
        case "base_timestamp" | "max_timestamp":
            return TAKEN if -1 <= value <= NOW_MS + HOUR_MS else TIMESTAMP
        case "producer_id":
            return TAKEN if value == -1 else INVALID
        case "batch_length":
            return TAKEN if value == LENGTH else INVALID if 49 <= value < LENGTH else CORRUPT
        case "crc":
            return CORRUPT
        case _:  # leader_epoch, and what counts with a producer id only
            return TAKEN


def expected_of_follower(field: str, value: int) -> str:
    """Return a follower's reaction to such a batch of its leader: it takes valid ones."""
    match field:
        case "base_offset":
            if value < 0 or value >= 2**63 - 2:
                return CORRUPT
            return TAKEN if value == 0 else "OFFSET_OUT_OF_RANGE"
        case "batch_length":
            return TAKEN if value == LENGTH else CORRUPT
        case "magic" | "crc":
            return expected_of_leader(field, value)
        case "last_offset_delta":
            return TAKEN if value >= 0 else CORRUPT
        case _:
            return TAKEN


def batch_with(tools: Any, changes: dict[str, int], offset: int = 0) -> bytes:
    """Return a batch of two records with some fields replaced, its CRC right unless it is one."""
    return changed(tools.batch(b"k", b"l", offset=offset, epoch=0, timestamp=NOW_MS), changes)


def changed(batch: bytes, changes: dict[str, int]) -> bytes:
    data = bytearray(batch)
    for field, value in changes.items():
        position, layout, _ = FIELDS[field]
        struct.pack_into(layout, data, position, value)
    if "crc" not in changes:
        struct.pack_into(">I", data, 17, crc32c(data[CRC_START:]))
    return bytes(data)


def look_up_everything(log: Log, tools: Any) -> Iterator[tuple[int, int]]:
    """Yield the answers to lookups by time, each of which fits its response."""
    for timestamp in (0, 1, NOW_MS, NOW_MS + 1, 2**62, 2**63 - 1):
        found = tools.look_up(log, timestamp)
        if found is None:
            continue
        assert log.log_start_offset <= found.offset < log.log_end_offset
        result = ListOffsetsResult("t", 0, ErrorCode.NONE, found.timestamp, found.offset)
        for version in (1, 5):
            encode_response(ListOffsetsResponse((result,)), version, 1)
        yield timestamp, found.offset


def all_goes_on(machine: Any, log: Log, tools: Any) -> None:
    """Append again, read, look up, apply retention, close and open again, in both ways."""
    for value in (b"a", b"b"):
        records = tools.batch(value, timestamp=NOW_MS)
        log.append_as_leader(records, LeaderEpoch(2**31 - 1), NOW_MS)
    start, end = log.log_start_offset, log.log_end_offset
    written = tools.all_bytes(log)
    headers = [batch.header for batch in split_batches(written)]
    assert [header.base_offset for header in headers] == [
        start,
        *(header.last_offset + 1 for header in headers[:-1]),
    ]
    found = list(look_up_everything(log, tools))
    machine.run(log.flush())
    log.close()
    for clean in (True, False):
        machine.crash()
        log, report = machine.open(clean=clean, recovery_point=end if clean else 0)
        assert (log.log_end_offset, report.truncated_bytes) == (end, 0)
        assert tools.all_bytes(log) == written
        assert list(look_up_everything(log, tools)) == found
    follower = type(machine)(machine.config)
    copy, _ = follower.open()
    copy.append_as_follower(written, NOW_MS)
    assert tools.all_bytes(copy) == written
    assert copy.epoch_cache.latest_epoch == log.epoch_cache.latest_epoch
    log.truncate_to(Offset(end - 1))
    assert tools.append(log, b"again", timestamp=NOW_MS, epoch=2**31 - 1) == end - 1
    log.delete_old_segments(2**62, log.log_end_offset)


@pytest.fixture
def machine(new_machine: Any) -> Any:
    """Its segments hold two batches, so that a batch after a hostile one rolls soon."""
    return new_machine(LogConfig(segment_bytes=160, index_interval_bytes=0))


@pytest.mark.parametrize(("field", "value"), CASES)
def test_a_leader_refuses_a_field_or_lives_with_it(
    machine: Any, tools: Any, field: str, value: int
) -> None:
    log, _ = machine.open()
    records = batch_with(tools, {field: value})
    expected = expected_of_leader(field, value)
    if expected == TAKEN:
        assert log.append_as_leader(records, LeaderEpoch(1), NOW_MS)[:2] == (0, 2)
    else:
        with pytest.raises(LogRefused) as refused:
            log.append_as_leader(records, LeaderEpoch(1), NOW_MS)
        assert refused.value.error.name == expected
        assert log.log_end_offset == 0
    all_goes_on(machine, log, tools)


@pytest.mark.parametrize(("field", "value"), CASES)
def test_a_follower_refuses_a_field_or_lives_with_it(
    machine: Any, tools: Any, field: str, value: int
) -> None:
    log, _ = machine.open()
    records = batch_with(tools, {field: value})
    expected = expected_of_follower(field, value)
    if expected == TAKEN:
        log.append_as_follower(records, NOW_MS)
        assert tools.all_bytes(log) == records
    else:
        with pytest.raises(LogRefused) as refused:
            log.append_as_follower(records, NOW_MS)
        assert refused.value.error.name == expected
    all_goes_on(machine, log, tools)


# ---------------------------------------------------------------- more offsets than an index has


def giants(tools: Any, count: int, first_offset: int = 0) -> bytes:
    """Return small batches that take 2^31 - 1 offsets each, as an earlier build accepted them.

    Each is newer than the one before.
    """
    each = 2**31 - 1
    counts = {"record_count": each, "last_offset_delta": each - 1}
    return b"".join(
        batch_with(tools, {**counts, "max_timestamp": NOW_MS + n}, first_offset + n * each)
        for n in range(count)
    )


@pytest.mark.parametrize("before", [0, 1])
def test_a_follower_spreads_its_leaders_offsets_over_segments(
    new_machine: Any, tools: Any, before: int
) -> None:
    machine = new_machine()
    log, _ = machine.open()
    for _ in range(before):
        tools.append(log, b"x", timestamp=NOW_MS)
    records = giants(tools, 5, first_offset=before)
    result = log.append_as_follower(records, NOW_MS)
    assert result == (before, before + 5 * (2**31 - 1), len(records))
    assert len(machine.names(".log")) == 5
    all_goes_on(machine, log, tools)


@pytest.mark.parametrize("clean", [True, False])
def test_a_segment_with_too_many_offsets_for_its_index_is_opened_and_left_behind(
    new_machine: Any, tools: Any, clean: bool
) -> None:
    """As an earlier build left it: it died while it made the index, at each start."""
    machine = new_machine(LogConfig(index_interval_bytes=0))
    records = giants(tools, 4)
    machine.files.make_folder("t-0")
    file = machine.files.open(f"t-0/{0:020d}.log")
    file.append([records])
    file.close()
    log, report = machine.open(clean=clean, recovery_point=4 if clean else 0)
    assert (log.log_end_offset, report.truncated_bytes) == (4 * (2**31 - 1), 0)
    assert tools.all_bytes(log) == records
    all_goes_on(machine, log, tools)
    assert f"{4 * (2**31 - 1):020d}.log" in machine.names(".log")


def test_a_log_without_further_offsets_refuses_records_and_lives(machine: Any, tools: Any) -> None:
    end = 2**63 - 1
    log, _ = machine.open(log_start=end - 1)
    tools.append(log, b"last")
    with pytest.raises(LogRefused) as refused:
        tools.append(log, b"x")
    assert refused.value.error is ErrorCode.RECORD_LIST_TOO_LARGE
    with pytest.raises(LogRefused) as refused:
        log.append_as_follower(tools.batch(b"x", offset=end), 0)
    assert refused.value.error is ErrorCode.CORRUPT_MESSAGE
    machine.crash()
    assert machine.open(log_start=end - 1)[0].log_end_offset == end


# ---------------------------------------------------------------- records that lie


def record(timestamp_delta: int = 0, offset_delta: int = 0, length: int | None = None) -> bytes:
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta) + b"\1\1\0"
    return varint(len(body) if length is None else length) + body


def batch_of(tools: Any, records: bytes, **changes: int) -> bytes:
    """Return a batch with these bytes for its records, all else in order."""
    data = batch_with(tools, {})[:HEADER_BYTES] + records
    return changed(data, {"batch_length": len(data) - 12, **changes})


FORGED = {
    "no bytes": b"",
    "zeros": bytes(40),
    "ones": b"\xff" * 40,
    "a timestamp beyond 64 bits": record(2**63 - 1) + record(2**63 - 1, 1),
    "a timestamp before all": record(-(2**63)) + record(-(2**63), 1),
    "offsets elsewhere": record(0, 2**62) + record(0, -(2**62)),
    "a length beyond the batch": record(0, 0, 2**31 - 1) + record(0, 1),
    "a negative length": record(0, 0, -5) + record(0, 1),
    "a varint without end": b"\x80" * 30,
    "fewer records than said": record(),
    "older records than said": record(-NOW_MS) + record(-NOW_MS, 1),
}


@pytest.mark.parametrize("newest", [NOW_MS, NOW_MS + HOUR_MS, 0, -1])
@pytest.mark.parametrize("compression", [0, 4])
@pytest.mark.parametrize("name", FORGED)
def test_records_that_lie_cost_nobody_else_anything(
    machine: Any, tools: Any, name: str, compression: int, newest: int
) -> None:
    log, _ = machine.open()
    records = batch_of(tools, FORGED[name], attributes=compression, max_timestamp=newest)
    try:
        log.append_as_leader(records, LeaderEpoch(0), NOW_MS)
    except LogRefused as refused:
        assert refused.error is ErrorCode.INVALID_RECORD  # noqa: PT017
        log.append_as_follower(records, NOW_MS)
    assert tools.look_up(log, NOW_MS)[1] in (0, 1)
    all_goes_on(machine, log, tools)


@pytest.mark.parametrize("base", [-(2**63), 2**63 - 1, NOW_MS])
@pytest.mark.parametrize("delta", [-(2**63), -1000, 0, 1000, 2**63 - 1])
def test_no_sum_of_timestamps_outgrows_an_answer(
    machine: Any, tools: Any, base: int, delta: int
) -> None:
    """As an earlier build's leader passes it on: a leader refuses such a header today."""
    log, _ = machine.open()
    records = batch_of(
        tools, record(delta) + record(delta, 1), base_timestamp=base, max_timestamp=2**63 - 1
    )
    log.append_as_follower(records, NOW_MS)
    found = dict(look_up_everything(log, tools))
    assert found[2**63 - 1] in (0, 1)
    all_goes_on(machine, log, tools)


def test_records_beyond_a_batchs_offsets_are_not_believed(machine: Any, tools: Any) -> None:
    log, _ = machine.open()
    records = record(-5) + record(-5, 1) + record(0, 2)
    log.append_as_follower(batch_of(tools, records, record_count=3), NOW_MS)
    assert tools.look_up(log, NOW_MS)[:2] == (NOW_MS, 0)
    all_goes_on(machine, log, tools)


@pytest.mark.parametrize("records", [b"\0", b"\1", b"\3", b"\1\0\0"])
def test_a_lookup_does_not_run_in_circles(machine: Any, tools: Any, records: bytes) -> None:
    """Records of no or negative length, in a batch whose header counts 2^31 - 1."""
    log, _ = machine.open()
    counts = {"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 2}
    log.append_as_follower(batch_of(tools, records * 40, **counts), NOW_MS)
    found, steps = tools.stepped(log, NOW_MS)
    assert (found[:2], steps) == ((NOW_MS, 0), 1)
