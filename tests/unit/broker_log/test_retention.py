"""When a segment rolls, and which segments retention removes, as tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from highwater_broker.log.append_part import AppendPart
from highwater_broker.log.log_config import UNLIMITED, LogConfig
from highwater_broker.log.record_batch import LogRefused
from highwater_broker.log.retention import (
    FREE_SEGMENTS,
    MAX_RELATIVE_OFFSET,
    SMALL_SEGMENT_BYTES,
    count_deletable,
    must_roll,
)
from highwater_broker.logic.epoch_cache import EpochCache
from highwater_core.check import BugFound
from highwater_core.ids import LeaderEpoch, Offset


@dataclass
class Facts:
    base_offset: int
    size_bytes: int = 100
    max_timestamp: int = 1000
    rolling_timestamp: int = 1000
    begun_ms: int = -1

    @property
    def next_offset(self) -> int:
        return self.base_offset + 10


def part(size_bytes: int, last_offset: int, timestamp: int) -> AppendPart:
    """Return batches up to last_offset."""
    made = AppendPart(last_offset, EpochCache())
    made.add(size_bytes, last_offset, timestamp, EpochCache())
    return made


CONFIG = LogConfig(segment_bytes=1000, segment_ms=50, retention_ms=500, retention_bytes=UNLIMITED)


@pytest.mark.parametrize(
    ("facts", "size_bytes", "last_offset", "timestamp", "now_ms", "rolls"),
    [
        (Facts(0, size_bytes=0), 5000, 9, 9999, 9999, False),  # an empty one takes anything
        (Facts(0), 900, 9, 1000, 0, False),
        (Facts(0), 901, 9, 1000, 0, True),
        (Facts(0), 1, 9, 1050, 0, False),
        (Facts(0), 1, 9, 1051, 0, True),
        (Facts(0), 1, 9, -1, 1051, True),  # no timestamp: the clock
        (Facts(0, rolling_timestamp=-1), 1, 9, 9999, 9999, False),
        (Facts(0, begun_ms=2000), 1, 9, 9999, 2050, False),  # old by the records' word only
        (Facts(0, begun_ms=2000), 1, 9, 9999, 2051, True),
        (Facts(0, begun_ms=2000), 1, 9, 9999, 1000, False),  # the clock went back
        (Facts(0, begun_ms=2000), 901, 9, 9999, 2000, True),  # it is full all the same
        (Facts(7), 1, 7 + MAX_RELATIVE_OFFSET, 1000, 0, False),
        (Facts(7), 1, 8 + MAX_RELATIVE_OFFSET, 1000, 0, True),
    ],
)
def test_rolling(
    facts: Facts, size_bytes: int, last_offset: int, timestamp: int, now_ms: int, rolls: bool
) -> None:
    assert must_roll(CONFIG, facts, 1, part(size_bytes, last_offset, timestamp), now_ms) is rolls


@pytest.mark.parametrize(
    ("size_bytes", "more_bytes", "last_offset", "rolls"),
    [
        (900, 101, 9, False),  # full, but small
        (900, 100, 9, False),  # old, but small
        (SMALL_SEGMENT_BYTES, 0, 9, False),
        (SMALL_SEGMENT_BYTES, 1, 9, True),
        (900, 1, 1 + MAX_RELATIVE_OFFSET, True),
    ],
)
def test_a_log_of_many_segments_begins_no_small_ones(
    size_bytes: int, more_bytes: int, last_offset: int, rolls: bool
) -> None:
    facts = Facts(0, size_bytes)
    more = part(more_bytes, last_offset, 10**6)
    assert must_roll(CONFIG, facts, FREE_SEGMENTS, more, 10**6) is rolls
    assert must_roll(CONFIG, facts, FREE_SEGMENTS - 1, more, 10**6) is True


@pytest.mark.parametrize(
    ("config", "leap_ms"),
    [
        (LogConfig(segment_bytes=70), 0),
        (LogConfig(segment_ms=1), 2),
        (LogConfig(segment_ms=1, segment_bytes=14, max_message_bytes=14), 2),
    ],
)
def test_no_configuration_of_a_topic_makes_a_file_of_every_batch(
    new_machine: Any, tools: Any, config: LogConfig, leap_ms: int
) -> None:
    machine = new_machine(config)
    log, _ = machine.open()
    for offset in range(FREE_SEGMENTS + 20):
        now_ms = 1_000 + offset * leap_ms
        log.append_as_follower(tools.batch(b"", offset=offset, epoch=0, timestamp=now_ms), now_ms)
    assert len(machine.names(".log")) == FREE_SEGMENTS
    machine.crash()
    assert machine.open()[0].log_end_offset == FREE_SEGMENTS + 20


def test_timestamps_that_leap_make_no_segments(new_machine: Any, tools: Any) -> None:
    machine = new_machine(LogConfig(segment_ms=1_000))
    log, _ = machine.open()
    now_ms = 10**9
    for leap in range(0, 50_000, 1_100):
        records = tools.batch(b"x", timestamp=now_ms + leap)
        log.append_as_leader(records, LeaderEpoch(0), now_ms)
    assert len(machine.names(".log")) == 1
    machine.crash()
    log, _ = machine.open()  # when its segment began is not known any more: the client is believed
    for leap in range(50_000, 100_000, 1_100):
        records = tools.batch(b"x", timestamp=now_ms + leap)
        log.append_as_leader(records, LeaderEpoch(0), now_ms)
    assert len(machine.names(".log")) == 2


SEGMENTS = [Facts(0, 100, 1000), Facts(10, 200, 1100), Facts(20, 300, 900), Facts(30, 50, 2000)]


@pytest.mark.parametrize(
    ("retention_ms", "retention_bytes", "now_ms", "high_watermark", "count"),
    [
        (UNLIMITED, UNLIMITED, 10**9, 40, 0),
        (500, UNLIMITED, 1500, 40, 0),
        (500, UNLIMITED, 1501, 40, 1),
        (500, UNLIMITED, 1601, 40, 3),  # the third is older than the second
        (500, UNLIMITED, 2500, 40, 3),
        (500, UNLIMITED, 2501, 40, 4),  # the active one, too
        (500, UNLIMITED, 10**9, 39, 3),  # never beyond the high watermark
        (500, UNLIMITED, 10**9, 29, 2),
        (500, UNLIMITED, 10**9, 9, 0),
        (UNLIMITED, 551, 0, 40, 0),
        (UNLIMITED, 550, 0, 40, 1),
        (UNLIMITED, 351, 0, 40, 1),
        (UNLIMITED, 350, 0, 40, 2),
        (UNLIMITED, 50, 0, 40, 3),
        (UNLIMITED, 49, 0, 40, 3),
        (UNLIMITED, 0, 0, 40, 4),
        (UNLIMITED, 0, 0, 39, 3),
    ],
)
def test_deletion(
    retention_ms: int, retention_bytes: int, now_ms: int, high_watermark: int, count: int
) -> None:
    config = LogConfig(retention_ms=retention_ms, retention_bytes=retention_bytes)
    assert count_deletable(config, SEGMENTS, now_ms, high_watermark) == count


def test_an_empty_last_segment_stays() -> None:
    segments = [Facts(0), Facts(10, size_bytes=0, max_timestamp=-1)]
    assert count_deletable(CONFIG, segments, 10**9, 20) == 1
    assert count_deletable(LogConfig(retention_bytes=0), segments[1:], 0, 20) == 0


@pytest.mark.parametrize(
    ("timestamps", "count"),
    [
        ((-1, 1000, 1400), 2),
        ((-1, -1, 1000), 3),
        ((-1, 1400, 1000), 0),
        ((1000, -1, 1400), 1),
        ((1000, 1000, -1), 2),
        ((-1, -1, -1), 0),
    ],
)
def test_a_segment_without_a_timestamp_is_as_old_as_the_next_one_that_has_one(
    timestamps: tuple[int, ...], count: int
) -> None:
    segments = [Facts(10 * at, max_timestamp=each) for at, each in enumerate(timestamps)]
    assert count_deletable(CONFIG, segments, 1501, 30) == count


@pytest.mark.parametrize("bad", [{"segment_bytes": 0}, {"segment_bytes": 2**31}, {"segment_ms": 0}])
def test_a_config_out_of_range_is_a_bug(bad: dict[str, int]) -> None:
    with pytest.raises(BugFound):
        LogConfig(**bad)


def test_retention_moves_the_log_start(new_machine: Any, tools: Any) -> None:
    machine = new_machine(LogConfig(segment_bytes=100, retention_ms=500))
    log, _ = machine.open()
    for timestamp in (1000, 1100, 3000):
        tools.append(log, b"x", timestamp=timestamp)
    assert log.delete_old_segments(3000, Offset(3)) == 2
    assert log.log_start_offset == 2
    log.remove_retired(Offset(2))
    assert machine.names() == [
        f"{2:020d}.log",
        f"{2:020d}.snapshot",
        "leader-epoch-checkpoint",
    ]


# ---------------------------------------------------------------- the last segment


@pytest.fixture
def idle(new_machine: Any, tools: Any) -> Any:
    """A machine whose log of three records, of two epochs, all expire; they are in one segment."""
    machine = new_machine(LogConfig(retention_ms=500))
    machine.log, _ = machine.open()
    for epoch in (0, 0, 1):
        tools.append(machine.log, b"x", epoch=epoch, timestamp=1000)
    return machine


@pytest.mark.parametrize("high_watermark", [0, 2, 3])
def test_a_log_whose_records_all_expired_goes_on_at_its_end_once_all_are_committed(
    idle: Any, tools: Any, high_watermark: int
) -> None:
    idle.run(idle.log.flush())
    is_committed = high_watermark == 3
    assert idle.log.delete_old_segments(1500, Offset(3)) == 0
    assert idle.log.delete_old_segments(1501, Offset(high_watermark)) == is_committed
    assert idle.log.log_start_offset == (3 if is_committed else 0)
    assert idle.log.log_end_offset == 3
    assert idle.log.delete_old_segments(10**9, Offset(high_watermark)) == 0
    idle.log.remove_retired(idle.log.log_start_offset)
    assert idle.names(".log") == [segment(3 if is_committed else 0)]
    assert tools.append(idle.log, b"y") == 3


@pytest.mark.parametrize("end", ["a clean stop", "a kill", "a power loss", "an early power loss"])
def test_an_emptied_log_keeps_end_and_epochs_over_a_restart(
    idle: Any, tools: Any, end: str
) -> None:
    idle.run(idle.log.flush())
    idle.log.delete_old_segments(1501, Offset(3))
    assert idle.log.epoch_cache.entries == ((1, 3),)
    idle.log.remove_retired(Offset(3))
    if end != "an early power loss":
        idle.run(idle.log.flush())
    if end == "a clean stop":
        idle.log.close()
    (idle.lose_power if "power" in end else idle.crash)()
    log, report = idle.open(clean=end == "a clean stop", recovery_point=3, log_start=3)
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)
    assert (report.has_lost_batches, report.repairs) == (False, ())
    assert log.epoch_cache.entries == ((1, 3),)
    assert tools.append(log, b"y", epoch=2) == 3


@pytest.mark.parametrize("recovery_point", [0, 3])
def test_an_emptied_log_has_batches_and_epochs_back_if_its_start_did_not_come_to_the_disk(
    idle: Any, tools: Any, recovery_point: int
) -> None:
    """Else it has no epoch to ask its leader for, and cuts its log to its high watermark."""
    idle.run(idle.log.flush())
    batches = tools.all_bytes(idle.log)
    idle.log.delete_old_segments(1501, Offset(3))
    idle.crash()
    log, report = idle.open(recovery_point=recovery_point)
    assert (log.log_start_offset, log.log_end_offset, report.repairs) == (0, 3, ())
    assert tools.all_bytes(log) == batches
    assert log.epoch_cache.entries == ((0, 0), (1, 2))


def test_a_last_segment_stays_where_the_disk_refuses_another_one(
    new_machine: Any, tools: Any
) -> None:
    machine = new_machine(LogConfig(retention_ms=500, segment_bytes=100))
    log, _ = machine.open()
    for timestamp in (1000, 1000):
        tools.append(log, b"x", timestamp=timestamp)
    real = machine.files.open

    def refuse(path: str) -> Any:
        raise OSError(28, "no space left", path)

    machine.files.open = refuse
    with pytest.raises(LogRefused):
        log.delete_old_segments(1501, Offset(2))
    machine.files.open = real
    assert log.log_start_offset == log.log_end_offset == 2
    log.remove_retired(Offset(2))
    assert machine.names(".log") == [segment(1)]
    assert log.delete_old_segments(1501, Offset(2)) == 1
    log.remove_retired(Offset(2))
    assert machine.names(".log") == [segment(2)]


# ---------------------------------------------------------------- the order on the disk


def segment(base_offset: int) -> str:
    return f"{base_offset:020d}.log"


@pytest.fixture
def retired(new_machine: Any, tools: Any) -> Any:
    """A machine whose log of five one-record segments starts at the third."""
    machine = new_machine(LogConfig(segment_bytes=100, retention_ms=500))
    machine.log, _ = machine.open()
    for timestamp in (1000, 1100, 3000, 3001, 3002):
        tools.append(machine.log, b"x", timestamp=timestamp)
    machine.run(machine.log.flush())
    assert machine.log.delete_old_segments(3000, Offset(5)) == 2
    return machine


def test_retired_segments_stay_until_the_log_start_is_on_the_disk(retired: Any) -> None:
    assert retired.names(".log") == [segment(base) for base in range(5)]
    retired.log.remove_retired(Offset(1))
    assert retired.names(".log") == [segment(base) for base in range(1, 5)]
    retired.log.remove_retired(Offset(2))
    assert retired.names(".log") == [segment(base) for base in range(2, 5)]
    assert retired.log.size_bytes == sum(len(retired.content(segment(b))) for b in range(2, 5))


def test_a_removal_that_the_disk_refuses_is_done_the_next_time(retired: Any) -> None:
    real = retired.files.remove

    def refuse(path: str) -> None:
        raise OSError(5, "input/output error", path)

    retired.files.remove = refuse
    with pytest.raises(LogRefused):
        retired.log.remove_retired(Offset(2))
    retired.files.remove = real
    retired.log.remove_retired(Offset(2))
    assert retired.names(".log") == [segment(base) for base in range(2, 5)]


@pytest.mark.parametrize("log_start", [0, 2])
def test_a_start_before_the_removal_finishes_it_or_takes_it_back(
    retired: Any, log_start: int
) -> None:
    retired.crash()
    log, report = retired.open(log_start=log_start)
    assert (log.log_start_offset, log.log_end_offset) == (log_start, 5)
    assert (report.has_lost_batches, report.repairs) == (False, ())
    assert retired.names(".log") == [segment(base) for base in range(log_start, 5)]


@pytest.mark.parametrize("kept_bytes", [0, 30, None])
@pytest.mark.parametrize("back", [(0,), (1,), (0, 1)])
def test_segments_that_a_power_loss_brought_back_cost_nothing(
    retired: Any, back: tuple[int, ...], kept_bytes: int | None
) -> None:
    """Whole, torn or empty, and with others missing in between."""
    contents = {base: bytes(retired.content(segment(base)))[:kept_bytes] for base in back}
    retired.log.remove_retired(Offset(2))
    retired.crash()
    for base, content in contents.items():
        retired.files.open(f"t-0/{segment(base)}").append([content])
    log, report = retired.open(recovery_point=5, log_start=2)
    assert (log.log_start_offset, log.log_end_offset) == (2, 5)
    assert (report.has_lost_batches, report.repairs) == (False, ())
    assert retired.names(".log") == [segment(base) for base in range(2, 5)]


@pytest.mark.parametrize("offset", [0, 1, 2, 9])
def test_a_log_that_begins_anew_takes_its_retired_segments_along(
    retired: Any, tools: Any, offset: int
) -> None:
    retired.log.truncate_fully_and_start_at(Offset(offset))
    tools.append(retired.log, b"new")
    retired.log.remove_retired(Offset(5))
    assert retired.names(".log") == [segment(offset)]
    assert len(tools.all_bytes(retired.log)) == len(retired.content(segment(offset)))


def test_a_log_that_begins_after_its_checkpointed_start_has_lost_batches(retired: Any) -> None:
    retired.log.remove_retired(Offset(1))
    retired.crash()
    log, report = retired.open(recovery_point=5, log_start=0)
    assert (log.log_start_offset, report.has_lost_batches) == (1, True)
    assert report.repairs == ("log begins at 1, after its start 0",)
