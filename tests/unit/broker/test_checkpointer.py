"""When a checkpoint that a caller waits for counts as written."""

from __future__ import annotations

import errno
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from highwater_broker.checkpointer import Checkpointer
from highwater_broker.log.checkpoints import (
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    OffsetCheckpoint,
)
from highwater_broker.log.log import Log
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.segment import Segment
from highwater_broker.log_folders import LogFolders
from highwater_broker.partition import Partition
from highwater_broker.replica_logs import ReplicaLogs
from highwater_broker.settings import BrokerSettings
from highwater_broker.turns import PARTITIONS_PER_TURN
from highwater_chaos.faults import DiskOperation
from highwater_core.events import BY_RETENTION, EventKind
from highwater_core.ids import LeaderEpoch, Offset, TopicPartition
from highwater_simulator.files import SimulatedFile

from .conftest import ME, T0, Bench, batch


class Broker:
    """A partition whose log was flushed at offset 3, and the writer of its recovery point."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.disk = bench.ports.files._disk  # type: ignore[attr-defined]
        self.partition: Partition = bench.partition()
        files, trace, points = bench.ports.files, bench.ports.trace, bench.fail_points()
        config = self.partition.log.config
        logs = ReplicaLogs(files, trace, ME, "cluster", lambda topic: config, points)
        self.logs = logs
        folders = LogFolders([logs], None)
        self.hosted = {T0: self.partition}
        hosted: Any = SimpleNamespace(
            partitions=lambda: tuple(self.hosted.values()),
            get=self.hosted.get,
            commanded=bench.runtime.event(),
            maybe_shrink_isrs=lambda: None,
            knows_settings=lambda topic: True,
        )
        self.checkpointer = Checkpointer(
            BrokerSettings(node_id=ME),
            bench.toggles,
            bench.runtime,
            trace,
            folders,
            hosted,
            points,
        )
        for value in "abc":
            self.partition.log.append_as_leader(batch(value), LeaderEpoch(1), 0)
        self.do(self.partition.log.flush())
        self.do(self.checkpointer.write_recovery_points())
        assert self.written() == 3

    def begin_to_write(self, file: str) -> None:
        """Write recovery points up to where the file is being written."""
        self.bench.runtime.start("test", self.checkpointer.write_recovery_points())
        self.bench.kernel.run_until(lambda: self.is_being_written(file), 500)

    def is_being_written(self, file: str) -> bool:
        names = self.bench.ports.files.list("")
        return any(name.startswith(file) and name != file for name in names)

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        self.bench.runtime.start("test", work)
        self.bench.kernel.run_for(500)

    def written(self) -> int | None:
        checkpoint = OffsetCheckpoint(self.bench.ports.files, RECOVERY_POINT_CHECKPOINT)
        return checkpoint.read().entries.get(T0)


@pytest.fixture
def broker(make_bench: Callable[..., Bench]) -> Broker:
    return Broker(make_bench())


def test_a_recovery_point_that_fell_is_due_until_it_is_written(broker: Broker) -> None:
    assert not broker.partition.must_checkpoint
    broker.partition.truncate_to(Offset(1), "a test's")
    assert broker.partition.must_checkpoint
    broker.do(broker.checkpointer.write_recovery_points())
    assert (broker.written(), broker.partition.must_checkpoint) == (1, False)


def test_a_write_that_is_cancelled_leaves_it_due(broker: Broker) -> None:
    """A fetcher that waits for it is cancelled by the next command. Seed 1003032 found it."""
    broker.partition.truncate_to(Offset(1), "a test's")
    scope = broker.bench.runtime.scope("fetcher")
    scope.spawn("fetcher", broker.checkpointer.write_recovery_points())
    being_written = lambda: broker.is_being_written(RECOVERY_POINT_CHECKPOINT)  # noqa: E731
    broker.bench.kernel.run_until(being_written, 500)
    scope.cancel()
    broker.bench.kernel.run_for(500)
    assert broker.written() == 3
    assert broker.partition.must_checkpoint


def test_one_that_falls_while_it_is_written_is_due_again(broker: Broker) -> None:
    broker.partition.truncate_to(Offset(2), "a test's")
    broker.begin_to_write(RECOVERY_POINT_CHECKPOINT)
    assert broker.partition.must_checkpoint
    broker.partition.truncate_to(Offset(1), "a test's")
    broker.bench.kernel.run_for(500)
    assert broker.partition.must_checkpoint
    broker.do(broker.checkpointer.write_recovery_points())
    assert (broker.written(), broker.partition.must_checkpoint) == (1, False)


def test_a_recovery_point_that_falls_while_log_starts_are_written_is_written_as_it_is_then(
    broker: Broker,
) -> None:
    broker.partition.log.advance_log_start(Offset(1))
    broker.begin_to_write(LOG_START_CHECKPOINT)
    broker.partition.truncate_to(Offset(2), "a test's")
    broker.bench.kernel.run_for(500)
    assert (broker.written(), broker.partition.must_checkpoint) == (2, True)


def test_the_recovery_point_of_a_topic_that_goes_meanwhile_is_not_the_next_ones(
    broker: Broker,
) -> None:
    broker.partition.log.advance_log_start(Offset(1))
    broker.begin_to_write(LOG_START_CHECKPOINT)
    broker.hosted.clear()
    broker.partition.log.delete()
    broker.hosted[T0] = broker.bench.partition()
    broker.bench.kernel.run_for(500)
    assert broker.written() in (None, 0)


def test_a_checkpoint_that_the_disk_refused_once_is_written_soon(broker: Broker) -> None:
    """Until then a leader appends nothing."""
    broker.checkpointer.start(broker.bench.runtime.scope("tasks"))
    broker.partition.truncate_to(Offset(1), "a test's")
    broker.disk.fail(DiskOperation.RENAME, count=1)
    broker.do(broker.checkpointer.write_recovery_points())
    assert broker.partition.must_checkpoint
    broker.bench.kernel.run_for(BrokerSettings(node_id=ME).replica_fetch_backoff_max_ms)
    assert (broker.written(), broker.partition.must_checkpoint) == (1, False)


def test_a_full_disk_does_not_have_older_log_starts_written_over_newer_ones(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENOSPC may come with a sync: where space is allocated late, or another has a quota."""
    is_first, sync = [True], SimulatedFile.sync

    async def refuse_the_first_late(self: SimulatedFile) -> None:
        await sync(self)
        if is_first:
            is_first.clear()
            await broker.bench.runtime.sleep(50)
            raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(SimulatedFile, "sync", refuse_the_first_late)
    write = broker.checkpointer.write_log_starts
    broker.partition.log.advance_log_start(Offset(1))
    broker.bench.runtime.start("first", write())
    broker.bench.kernel.run_for(20)
    broker.partition.log.advance_log_start(Offset(2))
    broker.bench.runtime.start("second", write())
    broker.bench.kernel.run_for(500)
    assert OffsetCheckpoint(broker.bench.ports.files, LOG_START_CHECKPOINT).read().entries[T0] == 2


class Turns:
    """A runtime that counts the operations between two of its sleeps."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self.done = self.longest = self.total = 0

    def note(self) -> None:
        self.done += 1
        self.total += 1
        self.longest = max(self.longest, self.done)

    async def sleep(self, duration_ms: int) -> None:
        self.done = 0
        await self._runtime.sleep(duration_ms)

    def wall_clock_ms(self) -> int:
        return int(self._runtime.wall_clock_ms())


class LookedAt:
    """A partition that notes when retention comes by, and keeps everything."""

    log_start_offset = Offset(0)

    def __init__(self, topic_partition: TopicPartition, turns: Turns) -> None:
        self.topic_partition = topic_partition
        self.log = self
        self._turns = turns

    def expire_producers(self, now_ms: int, expiration_ms: int) -> None:
        pass

    def delete_old_segments(self, now_ms: int) -> int:
        self._turns.note()
        return 0

    def remove_retired(self, durable_start: Offset, max_segments: int) -> int:
        return 0


@pytest.fixture
def turns(broker: Broker) -> Turns:
    made = Turns(broker.bench.runtime)
    broker.checkpointer._runtime = made  # type: ignore[assignment]
    return made


def test_old_segments_are_removed_some_in_a_turn(
    broker: Broker, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found: retention of 18,000 segments kept all clients waiting for 3.4 s."""
    log = broker.partition.log
    log.config = LogConfig(segment_bytes=100)
    for _ in range(50):
        log.append_as_leader(batch("x"), LeaderEpoch(1), 0)
    assert log.advance_log_start(Offset(50))
    remove = Segment.remove

    def counted(segment: Segment) -> None:
        turns.note()
        remove(segment)

    monkeypatch.setattr(Segment, "remove", counted)
    broker.do(broker.checkpointer.write_recovery_points())
    assert turns.total > 40
    assert turns.longest <= 8
    logs = [name for name in broker.bench.ports.files.list(log.folder) if name.endswith(".log")]
    assert logs[0] == f"{50:020d}.log"


def test_a_log_that_was_begun_anew_keeps_records_below_an_earlier_start(broker: Broker) -> None:
    log = broker.partition.log
    log.config = LogConfig(segment_bytes=100)
    log.truncate_fully_and_start_at(Offset(1))
    for _ in range(3):
        log.append_as_leader(batch("x"), LeaderEpoch(1), 0)
    assert log.advance_log_start(Offset(2))
    broker.do(broker.checkpointer._remove_retired({broker.partition: Offset(3)}))
    assert broker.bench.ports.files.exists(f"{log.folder}/{1:020d}.log")
    broker.do(broker.checkpointer.write_recovery_points())
    assert not broker.bench.ports.files.exists(f"{log.folder}/{1:020d}.log")


def test_retention_reports_a_disk_that_refuses_another_segment_and_moves_the_start(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(log: Log, base_offset: Offset) -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(Log, "_roll", refuse)
    broker.partition.log.config = LogConfig(retention_ms=1)
    broker.partition._high_watermark = Offset(3)
    broker.checkpointer._delete_old_segments(broker.partition, 1_002)
    (moved,) = broker.bench.traced(EventKind.LOG_START_MOVED)
    (refused,) = broker.bench.traced(EventKind.BAD_INPUT_MET)
    assert (moved.offset, moved.detail["reason"]) == (3, BY_RETENTION)
    assert "input/output error" in refused.detail["what"]


def test_retention_looks_at_some_partitions_in_a_turn(broker: Broker, turns: Turns) -> None:
    for number in range(1, 41):
        key = TopicPartition("many", number)
        broker.hosted[key] = LookedAt(key, turns)  # type: ignore[assignment]
    (folder,) = broker.checkpointer._logs.sound()
    broker.bench.runtime.start("LogRetention", broker.checkpointer._apply_retention(folder))
    interval_ms = BrokerSettings(node_id=ME).log_retention_check_interval_ms
    broker.bench.kernel.run_for(interval_ms + 1_000)
    assert turns.total == 40
    assert turns.longest <= PARTITIONS_PER_TURN
