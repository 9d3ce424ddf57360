"""Where the oracle lets logs start: each allowed way once, and a violation beside it."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from highwater_core import znodes
from highwater_core.ids import TopicPartition
from highwater_simulator.disk import Disk
from highwater_simulator.files import SimulatedFileSystem
from highwater_simulator.kernel import Kernel
from highwater_simulator.oracle.log_starts import LogStartChecks
from highwater_simulator.oracle.shadow import ReplicaShadow
from highwater_simulator.rng import SeededRng

AT = TopicPartition("t", 0)
ME, LEADER = 0, 1
NOW_MS = 1_000_000
BATCH_BYTES = 100
_HEADER = struct.Struct(">qiibIhiqq")


def batch(base_offset: int, count: int = 10, newest_ms: int = NOW_MS) -> bytes:
    header = _HEADER.pack(
        base_offset, BATCH_BYTES - 12, 0, 2, 0, 0, count - 1, newest_ms - 1, newest_ms
    )
    return header.ljust(BATCH_BYTES, b"x")


class Judged:
    """Two brokers' logs, of 10 records a segment by default, and the oracle's reports."""

    def __init__(self, **settings: int) -> None:
        self.kernel = Kernel()
        self.files: dict[int, SimulatedFileSystem] = {}
        self.replicas: dict[int, Any] = {}
        self.configs: dict[str, bytes] = {}
        brokers: dict[int, Any] = {}
        for broker in (ME, LEADER):
            disk = Disk(SeededRng(broker))
            self.files[broker] = SimulatedFileSystem(self.kernel.runtime(str(broker)), disk)
            self.files[broker].make_folder(str(AT))
            clock = SimpleNamespace(wall_clock_ms=lambda: NOW_MS)
            brokers[broker] = SimpleNamespace(disk=disk, runtime=clock)
        self.world: Any = SimpleNamespace(
            brokers=brokers,
            topology=SimpleNamespace(broker_settings=settings),
            zookeeper=SimpleNamespace(
                data=lambda path: (self.configs[path], None) if path in self.configs else None
            ),
        )
        self.reports: list[tuple[str, int]] = []
        shadows = {str(AT): {me: ReplicaShadow(brokers[me].disk, str(AT)) for me in brokers}}
        self.checks = LogStartChecks(self.world, shadows, self._report)
        for broker in (ME, LEADER):
            self.open(broker)

    def _report(self, at: Any, invariant: str, message: str, offset: int) -> None:
        assert at == AT
        assert message
        self.reports.append((invariant, offset))

    def write(self, broker: int, *segments: tuple[int, int]) -> None:
        """Have the log hold segments: base offset, and timestamp of their one batch."""
        for base_offset, newest_ms in segments:
            file = self.files[broker].open(f"{AT}/{base_offset:020}.log")
            if newest_ms:
                file.append([batch(base_offset, newest_ms=newest_ms)])

    def open(self, broker: int, start_offset: int = 0) -> None:
        self.replicas[broker] = SimpleNamespace(
            topic_partition=AT, log_start_offset=start_offset, is_leader=broker == LEADER
        )
        self.look(broker)

    def look(self, broker: int) -> None:
        self.checks.check(broker, self.replicas[broker])

    def start_at(self, broker: int, offset: int, *removed: int) -> None:
        """Have the log's start moved, and segments removed in the same event."""
        self.checks.start_moved(broker, AT, offset)
        self.replicas[broker].log_start_offset = offset
        for base_offset in removed:
            self.files[broker].remove(f"{AT}/{base_offset:020}.log")
        self.look(broker)

    def configure(self, **values: str) -> None:
        config = {name.replace("_", "."): value for name, value in values.items()}
        path = znodes.topic_config_path(AT.topic)
        self.configs[path] = znodes.encode(znodes.TopicConfigZnode(config))
        self.checks.config_written(AT.topic)


THREE = ((0, NOW_MS), (10, NOW_MS), (20, NOW_MS))


def test_a_follower_starts_where_a_leader_started_and_no_higher() -> None:
    judged = Judged(retention_bytes=200)
    judged.write(LEADER, *THREE)
    judged.start_at(LEADER, 10)
    judged.start_at(ME, 10)
    assert judged.reports == []
    judged.start_at(ME, 20)
    assert judged.reports == [("I11", 20)]


def test_a_follower_may_start_lower_again_and_where_a_leader_of_before_did() -> None:
    judged = Judged(retention_bytes=200)
    judged.write(LEADER, *THREE)
    judged.start_at(LEADER, 10)
    judged.open(LEADER, 0)
    for offset in (5, 0, 10):
        judged.start_at(ME, offset)
    assert judged.reports == []


@pytest.mark.parametrize("broker", [ME, LEADER])
@pytest.mark.parametrize(
    ("settings", "start_offset", "is_right"),
    [
        ({}, 10, False),
        ({"retention_bytes": 200}, 10, True),
        ({"retention_bytes": 201}, 10, False),
        ({"retention_bytes": 100}, 20, True),
        ({"retention_bytes": 101}, 20, False),
        ({"retention_bytes": 0}, 15, False),
        ({"retention_bytes": 0}, 30, True),
        ({"retention_bytes": 1}, 30, False),
        ({"retention_bytes": 10**9}, 20, False),
    ],
)
def test_retention_by_size_keeps_that_much_in_whole_segments(
    broker: int, settings: dict[str, int], start_offset: int, is_right: bool
) -> None:
    judged = Judged(**settings)
    judged.write(broker, *THREE)
    judged.start_at(broker, start_offset)
    assert judged.reports == ([] if is_right else [("I11", start_offset)])


@pytest.mark.parametrize(
    ("first_ms", "second_ms", "start_offset", "is_right"),
    [
        (NOW_MS - 51, NOW_MS, 10, True),
        (NOW_MS - 50, NOW_MS, 10, False),
        (NOW_MS - 51, NOW_MS, 20, False),
        (NOW_MS, NOW_MS - 51, 20, False),
        (NOW_MS - 51, NOW_MS - 99, 20, True),
        (-1, NOW_MS, 10, False),
        (-1, NOW_MS - 50, 20, False),
        (-1, NOW_MS - 51, 20, True),
        (NOW_MS - 51, -1, 20, False),
    ],
)
def test_retention_by_age_lets_the_oldest_go_once_all_of_a_segment_is_so_old(
    first_ms: int, second_ms: int, start_offset: int, is_right: bool
) -> None:
    judged = Judged(retention_ms=50)
    judged.write(LEADER, (0, first_ms), (10, second_ms), (20, 0))
    judged.start_at(LEADER, start_offset)
    assert judged.reports == ([] if is_right else [("I11", start_offset)])


@pytest.mark.parametrize("is_begun", [True, False])
@pytest.mark.parametrize(("start_offset", "is_right"), [(20, True), (15, False), (21, False)])
def test_retention_lets_the_last_segment_go_also_where_a_full_disk_refuses_the_next(
    is_begun: bool, start_offset: int, is_right: bool
) -> None:
    judged = Judged(retention_ms=50)
    judged.write(LEADER, (0, NOW_MS - 51), (10, NOW_MS - 51), *[(20, 0)] * is_begun)
    judged.start_at(LEADER, start_offset)
    assert judged.reports == ([] if is_right else [("I11", start_offset)])


def test_the_least_that_was_ever_configured_counts_and_no_limit_is_none() -> None:
    judged = Judged()
    judged.write(LEADER, *THREE)
    judged.configure(retention_bytes="200")
    judged.configure(retention_bytes="-1", retention_ms="x")
    judged.start_at(LEADER, 10)
    assert judged.reports == []
    judged.start_at(LEADER, 20)
    assert judged.reports == [("I11", 20)]


def test_a_file_beside_the_log_that_a_disk_did_not_remove_changes_nothing() -> None:
    judged = Judged(retention_ms=50)
    judged.write(LEADER, (0, NOW_MS - 51), (5, NOW_MS), (10, NOW_MS), (20, NOW_MS))
    judged.start_at(LEADER, 10)
    assert judged.reports == []


def test_a_segment_may_be_gone_from_the_disk_at_once_if_the_log_start_was_reported() -> None:
    judged = Judged(retention_bytes=100)
    judged.write(LEADER, *THREE)
    judged.start_at(LEADER, 10, 0)
    assert judged.reports == []
    judged.replicas[LEADER].log_start_offset = 20
    judged.look(LEADER)
    assert judged.reports == [("I11", 20)]


def test_a_restarted_log_starts_higher_only_where_its_disk_lost_something_meanwhile() -> None:
    judged = Judged()
    judged.write(ME, *THREE)
    judged.checks.disk_lost(ME)
    judged.open(ME, 10)
    judged.open(ME, 0)
    judged.open(ME, 10)
    assert judged.reports == []
    judged.open(ME, 20)
    assert judged.reports == [("I11", 20)]


def test_a_later_topic_of_the_name_begins_at_0() -> None:
    judged = Judged(retention_bytes=200)
    judged.write(LEADER, *THREE)
    judged.start_at(LEADER, 10)
    judged.checks.topic_forgotten("another")
    judged.start_at(ME, 10)
    judged.checks.topic_forgotten(AT.topic)
    assert judged.reports == []
    judged.open(ME, 10)
    assert judged.reports == [("I11", 10)]
