"""The cleaner of a broker's logs: which logs it cleans, when it stops, which files stay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from highwater_broker.become_leader import become_leader
from highwater_broker.log.checkpoints import CLEANER_CHECKPOINT, OffsetCheckpoint
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log_cleaner import LogCleaner
from highwater_broker.log_folders import LogFolders
from highwater_broker.partition import Partition
from highwater_broker.replica_logs import ReplicaLogs
from highwater_broker.settings import BrokerSettings
from highwater_chaos.faults import DiskOperation
from highwater_core.events import EventKind
from highwater_core.ids import BrokerEpoch, Offset, TopicPartition
from highwater_wire.kafka.record_batch import (
    NO_PRODUCER,
    build_batch,
    decode_records,
    split_batches,
)

from .conftest import CONTROLLER, ME, T0, TWO, Bench, command

COMPACTED = LogConfig(cleanup_policy="compact", segment_bytes=250)
EACH_MS = 1_000


class Broker:
    """A partition that this broker leads, with a compacted log, and the cleaner."""

    def __init__(self, bench: Bench, **settings: Any) -> None:
        self.bench = bench
        self.partition: Partition = bench.partition()
        self.partition.log.config = COMPACTED
        files, trace = bench.ports.files, bench.ports.trace
        self.logs = ReplicaLogs(
            files, trace, ME, "cluster", lambda topic: COMPACTED, bench.fail_points()
        )
        self.hosted: dict[TopicPartition, Partition] = {T0: self.partition}
        self.are_settings_known = True
        replicas: Any = SimpleNamespace(
            partitions=lambda: tuple(self.hosted.values()),
            get=self.hosted.get,
            knows_settings=lambda topic: self.are_settings_known,
        )
        self.cleaner = LogCleaner(
            BrokerSettings(node_id=ME, log_cleaner_backoff_ms=EACH_MS, **settings),
            bench.runtime,
            trace,
            LogFolders([self.logs], None),
            replicas,
        )
        told = command(ME, 1, isr=(ME, TWO), assigned=(ME, TWO))
        fetchers = bench.fetchers()
        become_leader(
            self.partition,
            told,
            CONTROLLER,
            fetchers=fetchers,
            toggles=bench.toggles,
            now_ms=bench.runtime.now_ms(),
        )

    def produce(self, count: int, *, by_producers: bool = False) -> None:
        """Append records of two keys in turn, a batch each, and flush.

        by_producers: each of a producer of its own, with the offset as its id.
        """
        for _ in range(count):
            offset = self.partition.log_end_offset
            key, value = b"k%d" % (offset % 2), b"value %d" % offset
            now_ms = self.bench.runtime.wall_clock_ms()
            producer = (int(offset), 0, 0) if by_producers else NO_PRODUCER
            batch = build_batch([(key, value, now_ms)], producer=producer)
            self.partition.append(batch, 1, now_ms)
        self.bench.runtime.start("flush", _flush(self.partition))
        self.bench.kernel.run_for(500)

    def commit(self, offset: int | None = None) -> None:
        """Have the follower fetch, so that the high watermark is there."""
        at = self.partition.log_end_offset if offset is None else Offset(offset)
        now_ms = self.bench.runtime.now_ms()
        self.partition.record_follower_fetch(TWO, BrokerEpoch(1), at, now_ms)

    def run(self, duration_ms: int = 2 * EACH_MS) -> None:
        self.bench.kernel.run_for(duration_ms)

    def producers(self) -> list[int]:
        """Return the producers' ids in the closed segments' batches."""
        closed = self.partition.log.segments[:-1]
        headers = [header for segment in closed for _, header in segment.batches()]
        return [header.producer_id for header in headers if header.has_producer_id]

    def snapshots(self) -> list[int]:
        """Return the offsets of the log's snapshots of producers."""
        names = self.bench.ports.files.list(self.partition.log.folder)
        return sorted(int(name[:20]) for name in names if name.endswith(".snapshot"))

    def offsets(self) -> list[int]:
        """Return where there are records."""
        log = self.partition.log
        found: list[int] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            records: Any = log.read(offset, 1 << 20, log.log_end_offset).records
            for batch in split_batches(records.read()):
                found += [record.offset for record in decode_records(batch.data)]
                offset = Offset(batch.header.last_offset + 1)
        return found

    def checkpoint(self) -> int | None:
        written = OffsetCheckpoint(self.bench.ports.files, CLEANER_CHECKPOINT)
        return written.read().entries.get(T0)


async def _flush(partition: Partition) -> None:
    await partition.log.flush()


@pytest.fixture
def make_broker(make_bench: Callable[..., Bench]) -> Callable[..., Broker]:
    def make(**settings: Any) -> Broker:
        broker = Broker(make_bench(), **settings)
        broker.bench.runtime.start("LogCleaner", broker.cleaner.run())
        return broker

    return make


@pytest.fixture
def broker(make_broker: Callable[..., Broker]) -> Broker:
    return make_broker()


def test_a_log_that_is_dirty_enough_is_cleaned_and_that_is_written_down(broker: Broker) -> None:
    broker.produce(30)
    broker.commit()
    broker.run()
    active = broker.partition.log.segments[-1].base_offset
    assert broker.offsets() == [active - 2, active - 1, *range(active, 30)]
    assert broker.checkpoint() == active
    told = broker.bench.traced(EventKind.LOG_COMPACTED)
    assert told[-1].offset == active
    assert {event.detail["dirty_end"] for event in told} == {active}
    assert sum(event.detail["removed_records"] for event in told) == active - 2
    assert all(event.detail["high_watermark"] == 30 for event in told)


def test_only_producers_that_are_active_keep_a_batch_in_a_clean_log(broker: Broker) -> None:
    broker.produce(20, by_producers=True)
    broker.commit()
    broker.run()
    held = broker.producers()
    assert len(held) > 15
    assert held == sorted(held)
    now_ms = broker.bench.runtime.wall_clock_ms()
    for number in range(3):
        broker.partition.expire_producers(now_ms + number * 10_000, 10_000)
    broker.produce(20, by_producers=True)
    broker.commit()
    broker.run()
    assert min(broker.producers()) >= 20


def test_segments_that_became_one_leave_no_snapshots_of_producers(broker: Broker) -> None:
    for _ in range(4):
        broker.produce(20, by_producers=True)
        now_ms = broker.bench.runtime.wall_clock_ms()
        for number in range(3):
            broker.partition.expire_producers(now_ms + number * 10_000, 10_000)
        broker.commit()
        broker.run()
    begins = [segment.base_offset for segment in broker.partition.log.segments]
    assert set(broker.snapshots()[:-1]) <= set(begins)
    assert len(begins) < 20


def test_it_is_cleaned_again_once_enough_was_written(broker: Broker) -> None:
    broker.produce(30)
    broker.commit()
    broker.run()
    passes = len(broker.bench.traced(EventKind.CHECKPOINT_WRITTEN))
    broker.run(5 * EACH_MS)
    assert len(broker.bench.traced(EventKind.CHECKPOINT_WRITTEN)) == passes == 1
    broker.produce(30)
    broker.commit()
    broker.run()
    active = broker.partition.log.segments[-1].base_offset
    assert broker.offsets() == [active - 2, active - 1, *range(active, 60)]
    assert broker.checkpoint() == active


def test_records_not_committed_or_not_on_the_disk_are_not_cleaned(broker: Broker) -> None:
    broker.produce(30)
    broker.commit(9)
    broker.run()
    assert broker.checkpoint() is not None
    assert broker.checkpoint() <= 9
    assert broker.offsets()[2:] == list(range(broker.checkpoint(), 30))
    broker.commit()
    broker.partition.log.recovery_point = Offset(9)
    before = broker.offsets()
    broker.run()
    assert broker.offsets() == before


def test_the_policy_is_asked_each_time(broker: Broker) -> None:
    broker.partition.log.config = LogConfig(segment_bytes=250)
    broker.produce(30)
    broker.commit()
    broker.run()
    assert broker.offsets() == list(range(30))
    broker.partition.log.config = replace(COMPACTED, min_compaction_lag_ms=3_600_000)
    broker.run()
    assert broker.offsets() == list(range(30))
    broker.partition.log.config = replace(COMPACTED, cleanup_policy="compact,delete")
    broker.are_settings_known = False
    broker.run()
    assert broker.offsets() == list(range(30))
    broker.are_settings_known = True
    broker.run()
    assert len(broker.offsets()) < 10


def slow(make_broker: Callable[..., Broker]) -> Broker:
    """Return a broker whose cleaner takes some seconds for a pass, in the midst of one."""
    broker = make_broker(log_cleaner_io_max_bytes_per_s=1_000)
    broker.produce(60)
    broker.commit()
    broker.run(EACH_MS + 200)
    cleaned = [name for name in broker.bench.ports.files.list(str(T0)) if ".cleaned" in name]
    limit = 60
    while not cleaned and limit:
        limit -= 1
        broker.run(100)
        cleaned = [name for name in broker.bench.ports.files.list(str(T0)) if ".cleaned" in name]
    assert cleaned
    return broker


def test_it_reads_and_writes_no_faster_than_its_rate(make_broker: Callable[..., Broker]) -> None:
    broker = make_broker(log_cleaner_io_max_bytes_per_s=1_000)
    broker.produce(60)
    broker.commit()
    size_bytes = sum(each.size_bytes for each in broker.partition.log.segments[:-1])
    begun_ms = broker.bench.runtime.now_ms()
    while broker.checkpoint() is None:
        broker.run(100)
        assert broker.bench.runtime.now_ms() - begun_ms < 60_000
    took_ms = broker.bench.runtime.now_ms() - begun_ms
    assert took_ms > 2 * size_bytes * 1_000 // 1_000 - EACH_MS  # each is read twice


@pytest.mark.parametrize("what", ["truncated", "deleted", "policy", "retention"])
def test_a_log_that_is_another_meanwhile_is_left(
    what: str, make_broker: Callable[..., Broker]
) -> None:
    broker = slow(make_broker)
    log = broker.partition.log
    if what == "truncated":
        broker.partition.truncate_to(Offset(10), "a test's")
    elif what == "deleted":
        broker.hosted.clear()
        log.delete()
    elif what == "policy":
        log.config = LogConfig(segment_bytes=250)
    else:
        log.advance_log_start(Offset(log.segments[5].base_offset))
        log.remove_retired(log.log_start_offset)
    broker.run(500)
    files = broker.bench.ports.files
    assert [name for name in files.list(str(T0)) if ".cleaned" in name] == []
    assert broker.checkpoint() is None
    if what != "deleted":
        start, end = log.log_start_offset, log.log_end_offset
        assert broker.offsets() == sorted(set(broker.offsets()) & set(range(start, end)))
        broker.produce(30)
        broker.commit()
        log.config = COMPACTED
        broker.run(30 * EACH_MS)
        active = log.segments[-1].base_offset
        assert broker.offsets() == [active - 2, active - 1, *range(active, log.log_end_offset)]


def test_a_log_that_was_cut_is_dirty_from_its_start(broker: Broker) -> None:
    broker.produce(30)
    broker.commit()
    broker.run()
    active = broker.partition.log.segments[-1].base_offset
    assert broker.cleaner._dirty_part(broker.partition).first_dirty_offset == active
    broker.partition.truncate_to(Offset(active), "a test's")
    assert broker.cleaner._dirty_part(broker.partition).first_dirty_offset == 0
    broker.run()
    assert broker.cleaner._dirty_part(broker.partition).first_dirty_offset == active


def test_where_the_disk_did_not_keep_the_bytes_nothing_is_made_of_them(broker: Broker) -> None:
    broker.produce(30)
    broker.commit()
    disk = broker.bench.ports.files._disk  # type: ignore[attr-defined]
    name = min(each for each in disk.paths(str(T0)) if each.endswith(".log"))
    disk.content(name)[70] ^= 1
    broker.run(5 * EACH_MS)
    assert broker.checkpoint() is None
    assert broker.bench.traced(EventKind.LOG_COMPACTED) == []
    met = broker.bench.traced(EventKind.BAD_INPUT_MET)
    assert [event.detail["what"] for event in met] == ["batch at 0: CRC-32C does not match"]


def test_a_pass_that_a_full_disk_refuses_is_tried_again(broker: Broker) -> None:
    broker.produce(30)
    broker.commit()
    disk = broker.bench.ports.files._disk  # type: ignore[attr-defined]
    disk.fail(DiskOperation.APPEND)
    broker.run(3 * EACH_MS)
    assert broker.offsets() == list(range(30))
    assert [name for name in disk.paths(str(T0)) if ".cleaned" in name] == []
    disk.heal()
    broker.run()
    assert len(broker.offsets()) < 10


def test_a_restart_goes_on_from_the_written_checkpoint(broker: Broker) -> None:
    broker.produce(30)
    broker.commit()
    broker.run()
    again = OffsetCheckpoint(broker.bench.ports.files, CLEANER_CHECKPOINT)
    written = again.read().entries
    broker.logs.cleaned_to = again
    broker.cleaner._passes.clear()
    assert broker.cleaner._dirty_part(broker.partition).first_dirty_offset == written[T0]
    broker.run(3 * EACH_MS)
    assert len(broker.bench.traced(EventKind.CHECKPOINT_WRITTEN)) == 1


def test_a_malformed_checkpoint_makes_the_whole_log_count_as_dirty(broker: Broker) -> None:
    broker.produce(30)
    broker.commit()
    broker.run()
    disk = broker.bench.ports.files._disk  # type: ignore[attr-defined]
    disk.content(CLEANER_CHECKPOINT)[-2] ^= 1
    broker.logs.cleaned_to = OffsetCheckpoint(broker.bench.ports.files, CLEANER_CHECKPOINT)
    assert broker.logs.cleaned_to.read().problem is not None
    broker.cleaner._passes.clear()
    assert broker.cleaner._dirty_part(broker.partition).first_dirty_offset == 0
