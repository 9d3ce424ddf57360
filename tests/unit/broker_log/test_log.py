"""A log appends, reads, truncates and keeps its bounds; a refused call changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from highwater_broker.log.log import Log
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.record_batch import LogRefused
from highwater_core.errors import ErrorCode
from highwater_core.ids import LeaderEpoch, Offset
from highwater_wire.kafka.record_batch import decode_records, split_batches


@pytest.fixture
def log(machine: Any) -> Log:
    return machine.open()[0]  # type: ignore[no-any-return]


def read(log: Log, start: int, max_bytes: int, upper: int, **keywords: bool) -> list[int]:
    """Return the base offsets of the batches read."""
    records = log.read(Offset(start), max_bytes, Offset(upper), **keywords).records
    data = records if isinstance(records, bytes) else records.read()
    assert len(data) == len(records)
    return [batch.header.base_offset for batch in split_batches(data)]


# ---------------------------------------------------------------- appending


def test_a_leader_gives_the_next_offsets_and_its_epoch(log: Log, tools: Any) -> None:
    first = log.append_as_leader(tools.batch(b"a", b"b"), LeaderEpoch(3), 0)
    second = log.append_as_leader(tools.batch(b"c"), LeaderEpoch(4), 0)
    assert (first.base_offset, first.end_offset) == (0, 2)
    assert (second.base_offset, second.end_offset, log.log_end_offset) == (2, 3, 3)
    headers = [batch.header for batch in split_batches(tools.all_bytes(log))]
    assert [(h.base_offset, h.leader_epoch) for h in headers] == [(0, 3), (2, 4)]
    assert log.epoch_cache.entries == ((3, 0), (4, 2))


def test_a_leader_takes_one_batch_at_a_time(log: Log, tools: Any) -> None:
    tools.append(log, b"a")
    both = tools.batch(b"b", b"c") + tools.batch(b"d")
    with pytest.raises(LogRefused) as refused:
        log.append_as_leader(both, LeaderEpoch(1), 0)
    assert refused.value.error is ErrorCode.INVALID_RECORD
    assert (log.log_end_offset, log.epoch_cache.entries) == (1, ((0, 0),))


def test_a_follower_keeps_offsets_and_epochs_of_its_leader(log: Log, tools: Any) -> None:
    records = tools.batch(b"a", b"b", epoch=2) + tools.batch(b"c", offset=2, epoch=5)
    assert log.append_as_follower(records, 0) == (0, 3, len(records))
    assert tools.all_bytes(log) == records
    assert log.epoch_cache.entries == ((2, 0), (5, 2))


@pytest.mark.parametrize(
    ("offsets", "error"),
    [
        ((1,), ErrorCode.OFFSET_OUT_OF_RANGE),  # present already
        ((3,), ErrorCode.OFFSET_OUT_OF_RANGE),  # a gap
        ((2, 4), ErrorCode.CORRUPT_MESSAGE),
        ((2, 2), ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_a_follower_refuses_batches_that_do_not_continue_its_log(
    log: Log, tools: Any, offsets: tuple[int, ...], error: ErrorCode
) -> None:
    tools.append(log, b"a", b"b")
    records = b"".join(tools.batch(b"x", offset=offset, epoch=1) for offset in offsets)
    with pytest.raises(LogRefused) as refused:
        log.append_as_follower(records, 0)
    assert refused.value.error is error
    assert (log.log_end_offset, log.epoch_cache.entries) == (2, ((0, 0),))


def test_a_follower_checks_the_crc(log: Log, tools: Any) -> None:
    data = bytearray(tools.batch(b"abc", epoch=1))
    data[-1] ^= 1
    with pytest.raises(LogRefused) as refused:
        log.append_as_follower(data, 0)
    assert refused.value.error is ErrorCode.CORRUPT_MESSAGE
    assert (log.log_end_offset, log.size_bytes) == (0, 0)


def test_records_that_fit_no_segment_are_refused(new_machine: Any, tools: Any) -> None:
    log, _ = new_machine(LogConfig(segment_bytes=200)).open()
    with pytest.raises(LogRefused) as refused:
        log.append_as_leader(tools.batch(bytes(200)), LeaderEpoch(0), 0)
    assert refused.value.error is ErrorCode.RECORD_LIST_TOO_LARGE
    with pytest.raises(LogRefused) as refused:
        log.append_as_leader(b"", LeaderEpoch(0), 0)
    assert refused.value.error is ErrorCode.INVALID_RECORD


def test_a_full_disk_refuses_the_append_and_leaves_the_log_as_it_was(
    machine: Any, log: Log, tools: Any
) -> None:
    tools.append(log, b"a", epoch=1)
    before = tools.all_bytes(log)
    machine.disk_is_full = True
    for epoch in (1, 2):
        with pytest.raises(LogRefused) as refused:
            tools.append(log, b"b", epoch=epoch)
        assert refused.value.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert (log.log_end_offset, log.epoch_cache.entries) == (1, ((1, 0),))
    assert tools.all_bytes(log) == before
    machine.disk_is_full = False
    assert tools.append(log, b"b", epoch=2) == 1
    machine.crash()
    again, report = machine.open()
    assert (again.log_end_offset, again.epoch_cache.entries) == (2, ((1, 0), (2, 1)))
    assert report.repairs == ()


# ---------------------------------------------------------------- reading


@pytest.fixture
def ten(log: Log, tools: Any) -> Log:
    """Batches [0,2) [2,5) [5,6) [6,10)."""
    for values in ([b"a"] * 2, [b"b"] * 3, [b"c"], [b"d"] * 4):
        tools.append(log, *values)
    return log


@pytest.mark.parametrize(
    ("start", "upper", "found"),
    [
        (0, 10, [0, 2, 5, 6]),
        (1, 10, [0, 2, 5, 6]),
        (2, 6, [2, 5]),
        (2, 7, [2, 5]),  # a bound inside a batch leaves that batch out
        (5, 99, [5, 6]),
        (6, 6, []),
        (8, 9, []),
        (6, 3, []),
        (10, 10, []),
    ],
)
def test_a_read_returns_whole_batches_below_the_bound(
    ten: Log, start: int, upper: int, found: list[int]
) -> None:
    assert read(ten, start, 1 << 20, upper) == found


def test_a_read_returns_as_many_whole_batches_as_fit(ten: Log, tools: Any) -> None:
    sizes = [len(batch.data) for batch in split_batches(tools.all_bytes(ten))]
    assert read(ten, 0, sum(sizes[:3]), 10) == [0, 2, 5]
    assert read(ten, 0, sum(sizes[:3]) - 1, 10) == [0, 2]
    assert read(ten, 2, sizes[1] - 1, 10) == [2]
    assert read(ten, 2, 0, 10) == [2]
    assert read(ten, 2, sizes[1] - 1, 10, at_least_one_batch=False) == []
    assert read(ten, 2, sizes[1] - 1, 4) == []


@pytest.mark.parametrize("is_cold", [False, True])
def test_the_size_between_offsets_is_that_of_a_read_unless_its_segment_ends_first(
    new_machine: Any, tools: Any, is_cold: bool
) -> None:
    machine = new_machine(LogConfig(segment_bytes=1500, index_interval_bytes=150))
    log, _ = machine.open()
    for number in range(60):
        tools.append(log, *[bytes(number % 7)] * (number % 3 + 1))
    end = log.log_end_offset
    if is_cold:
        log.close()
        log, _ = machine.open(clean=True, recovery_point=end)
    assert len(log.segments) > 3
    for start in range(end):
        segment = log.segments.of(start)
        for upper in range(start + 1, end + 1, 5):
            size_bytes = log.segments.size_between(start, upper)
            if segment is not log.segments[-1] and upper >= segment.next_offset:
                assert size_bytes is None
            else:
                assert size_bytes == len(log.read(Offset(start), 1 << 20, Offset(upper)).records)


@pytest.mark.parametrize("offset", [-1, 11])
def test_a_read_outside_the_log_is_out_of_range(ten: Log, offset: int) -> None:
    with pytest.raises(LogRefused) as refused:
        ten.read(Offset(offset), 100, Offset(10))
    assert refused.value.error is ErrorCode.OFFSET_OUT_OF_RANGE


def test_reads_by_index_find_the_records_that_reads_of_the_tail_find(
    new_machine: Any, tools: Any
) -> None:
    """The same log, once with every batch in memory, once freshly opened."""
    machine = new_machine(LogConfig(segment_bytes=1500, index_interval_bytes=150))
    log, _ = machine.open()
    for number in range(60):
        tools.append(log, *[bytes(number % 7)] * (number % 3 + 1))
    end = log.log_end_offset
    bounds = [(start, start + 1 + start % 9) for start in range(end)]
    warm = [read(log, *(start, 300 + start * 7, upper)) for start, upper in bounds]
    log.close()
    cold_log, report = machine.open(clean=True, recovery_point=end)
    assert report.repairs == ()
    assert len(machine.names(".log")) > 3
    assert [read(cold_log, *(start, 300 + start * 7, upper)) for start, upper in bounds] == warm
    assert tools.all_bytes(cold_log).count(b"") == len(tools.all_bytes(cold_log)) + 1


def test_a_view_stays_readable_when_its_segment_is_removed(new_machine: Any, tools: Any) -> None:
    machine = new_machine(LogConfig(segment_bytes=100, retention_bytes=1))
    log, _ = machine.open()
    for value in (b"a", b"b", b"c"):
        tools.append(log, value)
    view = log.read(Offset(0), 1000, Offset(3)).records
    assert not isinstance(view, bytes)
    assert log.delete_old_segments(0, Offset(3)) == 2
    assert log.log_start_offset == 2
    assert [record.value for record in decode_records(view.read())] == [b"a"]
    assert view.file_range() is not None  # of the file itself, whatever became of its name


def test_bytes_that_a_truncation_cut_from_a_view_read_as_zeros(log: Log, tools: Any) -> None:
    tools.append(log, b"a")
    tools.append(log, b"b")
    view = log.read(Offset(0), 1000, Offset(2)).records
    assert not isinstance(view, bytes)
    whole = view.read()
    log.truncate_to(Offset(1))
    assert len(view.read()) == len(view) == len(whole)
    assert view.read() == whole[: len(whole) // 2].ljust(len(whole), b"\0")


# ---------------------------------------------------------------- truncating


@pytest.mark.parametrize(
    ("to", "end", "cut"),
    [(99, 10, False), (10, 10, False), (9, 6, True), (6, 6, True), (5, 5, True), (1, 0, True)],
)
def test_truncation_cuts_whole_batches(ten: Log, tools: Any, to: int, end: int, cut: bool) -> None:
    assert ten.truncate_to(Offset(to)) is cut
    assert ten.log_end_offset == end
    assert [b.header.base_offset for b in split_batches(tools.all_bytes(ten))] == [
        base for base in (0, 2, 5, 6) if base < end
    ]
    assert tools.append(ten, b"new") == end


def test_truncation_drops_the_epochs_of_its_cut_records(log: Log, tools: Any) -> None:
    for epoch in (1, 2, 4):
        tools.append(log, b"a", b"b", epoch=epoch)
    log.truncate_to(Offset(3))
    assert log.epoch_cache.entries == ((1, 0),)


def test_an_epoch_without_batches_goes_even_when_nothing_is_cut(log: Log, tools: Any) -> None:
    """A leader that wrote nothing in its epoch follows now: that epoch was never the log's."""
    tools.append(log, b"a", epoch=1)
    log.assign_epoch(LeaderEpoch(2))
    assert list(log.epoch_cache.entries) == [(1, 0), (2, 1)]
    assert log.truncate_to(Offset(1)) is False
    assert list(log.epoch_cache.entries) == [(1, 0)]


def test_truncation_lowers_the_recovery_point(machine: Any, ten: Log) -> None:
    assert machine.run(ten.flush()) == 10
    ten.truncate_to(Offset(5))
    assert ten.recovery_point == 5


def test_truncation_removes_whole_segments(new_machine: Any, tools: Any) -> None:
    machine = new_machine(LogConfig(segment_bytes=200))
    log, _ = machine.open()
    for _ in range(9):
        tools.append(log, b"x")
    assert len(machine.names(".log")) == 5
    log.truncate_to(Offset(4))
    assert (log.log_end_offset, len(machine.names(".log"))) == (4, 3)
    log.truncate_to(Offset(3))
    assert (log.log_end_offset, len(machine.names(".log"))) == (3, 2)
    assert tools.append(log, b"y") == 3


@pytest.mark.parametrize("start", [0, 3, 500])
def test_full_truncation_starts_an_empty_log_anywhere(ten: Log, tools: Any, start: int) -> None:
    ten.truncate_fully_and_start_at(Offset(start))
    assert (ten.log_start_offset, ten.log_end_offset, ten.recovery_point) == (start,) * 3
    assert (ten.size_bytes, ten.epoch_cache.entries) == (0, ())
    assert tools.append(ten, b"new") == start


# ---------------------------------------------------------------- rolling and the start


def test_a_segment_rolls_when_the_next_batch_does_not_fit(new_machine: Any, tools: Any) -> None:
    size = len(tools.batch(b"x"))
    machine = new_machine(LogConfig(segment_bytes=2 * size))
    log, _ = machine.open()
    for _ in range(5):
        tools.append(log, b"x")
    assert machine.names(".log") == [f"{base:020d}.log" for base in (0, 2, 4)]


def test_a_segment_rolls_by_the_age_of_its_first_batch(new_machine: Any, tools: Any) -> None:
    machine = new_machine(LogConfig(segment_ms=100))
    log, _ = machine.open()
    for timestamp in (1000, 1100, 1101, 1150):
        tools.append(log, b"x", timestamp=timestamp)
    assert machine.names(".log") == [f"{base:020d}.log" for base in (0, 2)]


def test_a_failed_roll_leaves_the_log_as_it_was(new_machine: Any, tools: Any) -> None:
    machine = new_machine(LogConfig(segment_bytes=100))
    log, _ = machine.open()
    tools.append(log, b"a")
    machine.disk_is_full = True
    for _ in range(2):
        with pytest.raises(LogRefused):
            tools.append(log, b"b")
    machine.disk_is_full = False
    assert tools.append(log, b"b") == 1
    assert len(split_batches(tools.all_bytes(log))) == 2


def test_advancing_the_start_retires_segments_below_and_moves_the_epochs(
    new_machine: Any, tools: Any
) -> None:
    machine = new_machine(LogConfig(segment_bytes=200))
    log, _ = machine.open()
    for number in range(6):
        tools.append(log, b"x", epoch=number // 3)
    assert log.advance_log_start(Offset(5)) is True
    assert log.advance_log_start(Offset(4)) is False
    log.remove_retired(Offset(5))
    assert machine.names(".log") == [f"{4:020d}.log"]
    assert (log.log_start_offset, log.recovery_point) == (5, 5)
    assert log.epoch_cache.entries == ((1, 5),)
    with pytest.raises(LogRefused):
        log.read(Offset(4), 100, Offset(6))
    log.close()
    again, _ = machine.open(clean=True, recovery_point=6, log_start=5)
    assert (again.log_start_offset, again.log_end_offset) == (5, 6)


@pytest.mark.parametrize("start", [3, 9])
def test_a_log_that_starts_over_at_its_end_or_beyond_keeps_nothing_and_goes_on_there(
    new_machine: Any, tools: Any, start: int
) -> None:
    machine = new_machine(LogConfig(segment_bytes=200))
    log, _ = machine.open()
    for _ in range(3):
        tools.append(log, b"x")
    log.start_over_at(Offset(start))
    with pytest.raises(LogRefused):
        log.read(Offset(2), 100, Offset(3))
    assert log.epoch_cache.entries == ()
    assert len(machine.names(".log")) == 3  # their start is not on the disk yet
    assert tools.append(log, b"y") == start
    log.close()
    again, _ = machine.open(recovery_point=start, log_start=start)
    assert (again.log_start_offset, again.log_end_offset) == (start, start + 1)
    assert machine.names(".log") == [f"{start:020d}.log"]


def test_old_segments_of_a_log_that_started_over_go_once_its_start_is_on_the_disk(
    new_machine: Any, tools: Any
) -> None:
    machine = new_machine(LogConfig(segment_bytes=200))
    log, _ = machine.open()
    for _ in range(3):
        tools.append(log, b"x")
    for _ in range(2):
        log.start_over_at(Offset(5))
    log.remove_retired(Offset(5))
    assert machine.names(".log") == [f"{5:020d}.log"]


def test_a_log_that_cannot_begin_anew_stays_as_it_is(new_machine: Any, tools: Any) -> None:
    machine = new_machine(LogConfig(segment_bytes=200))
    log, _ = machine.open()
    tools.append(log, b"x")
    machine.disk.fill()
    with pytest.raises(LogRefused):
        log.start_over_at(Offset(1))
    assert (log.log_start_offset, log.log_end_offset) == (0, 1)
    machine.disk.make_room()
    assert tools.append(log, b"y") == 1


# ---------------------------------------------------------------- timestamps


def test_the_first_record_not_older_than_a_timestamp_is_found(new_machine: Any, tools: Any) -> None:
    machine = new_machine(LogConfig(segment_bytes=400, index_interval_bytes=0))
    log, _ = machine.open()
    stamps = [10, 10, 30, 20, 50, 40, 70, 60, 90]
    for number, timestamp in enumerate(stamps):
        tools.append(log, b"x", timestamp=timestamp, epoch=number // 4)

    def expected(timestamp: int) -> tuple[int, int, int] | None:
        for offset, found in enumerate(stamps):
            if found >= timestamp:
                return found, offset, offset // 4
        return None

    asked = range(0, 100, 5)
    assert [tools.look_up(log, t) for t in asked] == [expected(t) for t in asked]
    log.close()
    again, _ = machine.open(clean=True, recovery_point=9)
    assert [tools.look_up(again, t) for t in asked] == [expected(t) for t in asked]
    again.truncate_to(Offset(6))
    assert tools.look_up(again, 51) is None
    assert tools.look_up(again, 45) == (50, 4, 1)


# ---------------------------------------------------------------- flushing and leaving


def test_flush_raises_the_recovery_point_to_the_log_end_at_its_begin(
    machine: Any, log: Log, tools: Any
) -> None:
    tools.append(log, b"a", epoch=1)
    task = machine.runtime.start("flush", _ignore(log.flush()))
    machine.kernel.run_for(0)
    tools.append(log, b"b", epoch=2)
    machine.kernel.run_until(task.is_done, 1000)
    assert log.recovery_point == 1
    machine.lose_power()
    again, report = machine.open(recovery_point=1)
    assert again.log_end_offset >= 1
    assert report.repairs == ()


def test_a_flush_waits_for_the_disk_though_another_is_under_way_or_was_cancelled(
    machine: Any, log: Log, tools: Any
) -> None:
    tools.append(log, b"a", epoch=1)
    cancelled = machine.runtime.start("flush", _ignore(log.flush()))
    machine.kernel.run_for(0)
    cancelled.cancel()
    machine.runtime.start("flush", _ignore(log.flush()))
    machine.kernel.run_for(0)
    assert log.recovery_point == 0
    assert machine.run(log.flush()) == 1
    machine.lose_power()
    again, report = machine.open(recovery_point=1)
    assert (again.log_end_offset, again.epoch_cache.latest_epoch, report.repairs) == (1, 1, ())


def test_a_truncation_during_a_flush_keeps_the_recovery_point_low(
    machine: Any, log: Log, tools: Any
) -> None:
    tools.append(log, b"a")
    tools.append(log, b"b")
    task = machine.runtime.start("flush", _ignore(log.flush()))
    machine.kernel.run_for(0)
    log.truncate_to(Offset(1))
    tools.append(log, b"other")
    machine.kernel.run_until(task.is_done, 1000)
    assert log.recovery_point == 0
    assert machine.run(log.flush()) == 2


@pytest.mark.parametrize("leave", [Log.delete, Log.set_aside, Log.close])
def test_a_flush_under_way_ends_quietly_when_the_log_goes(
    machine: Any, log: Log, tools: Any, leave: Callable[[Log], object]
) -> None:
    tools.append(log, b"a")
    task = machine.runtime.start("flush", _ignore(log.flush()))
    machine.kernel.run_for(0)
    leave(log)
    machine.kernel.run_until(task.is_done, 1000)
    assert log.recovery_point == 0
    assert machine.files.exists("t-0") is (leave is Log.close)


def test_after_a_failed_sync_no_flush_succeeds(machine: Any, log: Log, tools: Any) -> None:
    tools.append(log, b"a")
    machine.syncs_fail = True
    assert machine.run(_refusal(log.flush())) is ErrorCode.KAFKA_STORAGE_ERROR
    machine.syncs_fail = False
    assert machine.run(_refusal(log.flush())) is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.recovery_point == 0


def test_a_deleted_log_leaves_no_folder_and_a_stray_one_keeps_its_records(
    machine: Any, log: Log, tools: Any
) -> None:
    tools.append(log, b"a")
    assert log.set_aside() == "t-0.0-stray"
    again, _ = machine.open()
    assert again.log_end_offset == 0
    tools.append(again, b"b")
    assert again.set_aside() == "t-0.1-stray"
    third, _ = machine.open()
    third.delete()
    assert machine.files.list("") == ["t-0.0-stray", "t-0.1-stray"]
    assert len(machine.files.list("t-0.0-stray")) > 1


async def _ignore(work: Any) -> None:
    await work


async def _refusal(work: Any) -> ErrorCode | None:
    try:
        await work
    except LogRefused as refused:
        return refused.error
    return None
