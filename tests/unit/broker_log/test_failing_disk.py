"""A log on a full or failing disk refuses work, keeps its records, and recovers."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from highwater_broker.log.checkpoints import HIGH_WATERMARK_CHECKPOINT, OffsetCheckpoint
from highwater_broker.log.log import Log
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.record_batch import LogRefused
from highwater_broker.log.segment import Segment
from highwater_chaos.faults import DiskOperation
from highwater_core.errors import ErrorCode
from highwater_core.ids import LeaderEpoch, Offset, TopicPartition
from highwater_simulator.disk_faults import DiskFaults
from highwater_simulator.rng import SeededRng

SMALL = LogConfig(segment_bytes=300, index_interval_bytes=0)
ONE_SEGMENT = LogConfig(index_interval_bytes=100)


def filled(machine: Any, tools: Any, count: int = 10) -> Log:
    """Return a log of `count` batches of one record, in two epochs."""
    log: Log = machine.open()[0]
    for number in range(count):
        tools.append(log, b"%d" % number, epoch=number // (count // 2))
    return log


def refusal(act: Callable[[], object]) -> ErrorCode | None:
    try:
        act()
    except LogRefused as refused:
        return refused.error
    return None


def flush_refusal(machine: Any, log: Log) -> ErrorCode | None:
    found: list[ErrorCode | None] = []

    async def flush() -> None:
        try:
            await log.flush()
        except LogRefused as refused:
            found.append(refused.error)
        else:
            found.append(None)

    machine.run(flush())
    return found[0]


def is_true(machine: Any, tools: Any, log: Log) -> bool:
    """Return whether the log agrees with its files, before and after a crash."""
    held = tools.all_bytes(log)
    tools.append(log, b"next", epoch=9)
    longer = tools.all_bytes(log)
    machine.crash()
    again: Log = machine.open()[0]
    return bool(longer.startswith(held) and tools.all_bytes(again) == longer)


# ---------------------------------------------------------------- a full disk


def test_flush_that_a_full_disk_refused_succeeds_once_there_is_room(
    new_machine: Any, tools: Any
) -> None:
    machine = new_machine(ONE_SEGMENT)
    log = filled(machine, tools)
    machine.disk.fill()
    assert flush_refusal(machine, log) is ErrorCode.KAFKA_STORAGE_ERROR
    machine.disk.make_room()
    assert flush_refusal(machine, log) is None
    assert log.recovery_point == 10


def test_leader_on_a_full_disk_takes_its_epoch_and_refuses_records_until_it_is_stored(
    machine: Any, tools: Any
) -> None:
    log = filled(machine, tools)
    machine.disk.fill(free_bytes=10)
    log.assign_epoch(LeaderEpoch(7))
    assert log.epoch_cache.latest_epoch == 7
    assert refusal(lambda: tools.append(log, b"x", epoch=7)) is ErrorCode.KAFKA_STORAGE_ERROR
    machine.disk.make_room()
    tools.append(log, b"x", epoch=7)
    machine.crash()
    assert machine.open()[0].epoch_cache == log.epoch_cache


@pytest.mark.parametrize("start", [0, 4, 100])
def test_full_truncation_on_a_full_disk_happens_or_changes_nothing(
    new_machine: Any, tools: Any, start: int
) -> None:
    machine = new_machine(SMALL)
    log = filled(machine, tools)
    held = tools.all_bytes(log)
    machine.disk.fill()
    if refusal(lambda: log.truncate_fully_and_start_at(Offset(start))) is None:
        assert (log.log_start_offset, log.log_end_offset) == (start, start)
    else:
        assert tools.all_bytes(log) == held
    machine.disk.make_room()
    log.truncate_fully_and_start_at(Offset(start))
    assert (log.log_start_offset, log.log_end_offset, log.epoch_cache.entries) == (start, start, ())
    assert is_true(machine, tools, log)


def test_log_is_deleted_on_a_full_disk(new_machine: Any, tools: Any) -> None:
    machine = new_machine(ONE_SEGMENT)
    log = filled(machine, tools)
    machine.disk.fill()
    log.delete()
    assert machine.files.list("") == []


def test_refused_index_write_leaves_no_file_open(
    new_machine: Any, tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = new_machine(ONE_SEGMENT)
    log = filled(machine, tools)
    machine.disk.fail(DiskOperation.APPEND)
    opened: list[Any] = []
    really_open = machine.files.open

    def remember(path: str) -> Any:
        opened.append(really_open(path))
        return opened[-1]

    monkeypatch.setattr(machine.files, "open", remember)
    assert flush_refusal(machine, log) is ErrorCode.KAFKA_STORAGE_ERROR
    assert opened
    assert all(file._is_closed for file in opened)


def test_refused_checkpoint_leaves_no_temporary_file(machine: Any) -> None:
    checkpoint = OffsetCheckpoint(machine.files, HIGH_WATERMARK_CHECKPOINT)
    entries = {TopicPartition("t", 0): Offset(5)}
    for operation in (DiskOperation.APPEND, DiskOperation.SYNC, DiskOperation.RENAME):
        machine.disk.fail(operation)

        async def write() -> None:
            with pytest.raises(LogRefused):
                await checkpoint.write(entries)

        machine.run(write())
        machine.disk.heal()
        assert machine.files.list("") == []
    machine.run(checkpoint.write(entries))
    assert checkpoint.read().entries == entries


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("config", [SMALL, ONE_SEGMENT])
@pytest.mark.parametrize("count", range(1, 12))
@pytest.mark.parametrize("operation", list(DiskOperation))
def test_a_truncation_with_an_error_is_done_or_undone_and_the_log_stays_true(
    new_machine: Any, tools: Any, operation: DiskOperation, count: int, config: LogConfig
) -> None:
    """The count-th operation fails, whichever that is."""
    machine = new_machine(config)
    filled(machine, tools)
    machine.crash()  # the tail is found by the index now
    log: Log = machine.open()[0]
    held = tools.all_bytes(log)
    machine.disk.faults = FailsOnce(operation, count)
    refused = refusal(lambda: log.truncate_to(Offset(6)))
    machine.disk.heal()
    assert refused in (None, ErrorCode.KAFKA_STORAGE_ERROR)
    assert log.log_end_offset in ((6,) if refused is None else (6, 10, *segment_ends(config)))
    assert held.startswith(tools.all_bytes(log))
    log.truncate_to(Offset(6))
    assert log.log_end_offset == 6
    assert [entry.start_offset for entry in log.epoch_cache.entries] == [0, 5]
    assert is_true(machine, tools, log)


def test_a_segment_that_the_disk_keeps_stays_the_logs(new_machine: Any, tools: Any) -> None:
    """Else a log that grows to where the segment begins would go on with it after a crash."""
    machine = new_machine(SMALL)
    log = filled(machine, tools)
    held = tools.all_bytes(log)
    machine.disk.fail(DiskOperation.REMOVE)
    assert refusal(lambda: log.truncate_to(Offset(1))) is ErrorCode.KAFKA_STORAGE_ERROR
    assert tools.all_bytes(log) == held
    machine.disk.heal()
    machine.crash()
    log = machine.open()[0]
    assert tools.all_bytes(log) == held
    log.truncate_to(Offset(1))
    assert log.log_end_offset == 1
    assert is_true(machine, tools, log)


def segment_ends(config: LogConfig) -> tuple[int, ...]:
    """A truncation over several segments may stop between two of them."""
    return (8,) if config is SMALL else ()


class FailsOnce(DiskFaults):
    """The count-th operation of the kind fails, no other."""

    def __init__(self, operation: DiskOperation, count: int) -> None:
        super().__init__(SeededRng(1))
        self.fail(operation, 100, None)
        self.operation = operation
        self.before = count - 1

    def meet(self, operation: DiskOperation, path: str) -> None:
        if operation is self.operation:
            if self.before == 0:
                super().meet(operation, path)
            self.before -= 1


@pytest.mark.parametrize("operation", [DiskOperation.READ, DiskOperation.APPEND])
def test_log_that_could_not_be_opened_opens_once_the_disk_is_well(
    new_machine: Any, tools: Any, operation: DiskOperation
) -> None:
    machine = new_machine(SMALL)
    log = filled(machine, tools)
    held = tools.all_bytes(log)
    machine.crash()
    machine.files.remove(f"t-0/{8:020d}.index")
    machine.disk.fail(operation)
    refused = refusal(machine.open)
    assert refused in (None, ErrorCode.KAFKA_STORAGE_ERROR)
    machine.disk.heal()
    machine.crash()
    assert tools.all_bytes(machine.open()[0]) == held


def test_failed_sync_is_not_forgotten(machine: Any, tools: Any) -> None:
    """After a failed sync the disk's content is unknown; a later sync may succeed without it."""
    log = filled(machine, tools)
    machine.disk.fail(DiskOperation.SYNC, count=1)
    assert flush_refusal(machine, log) is ErrorCode.KAFKA_STORAGE_ERROR
    assert flush_refusal(machine, log) is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.recovery_point == 0
    tools.append(log, b"more", epoch=1)
    assert log.log_end_offset == 11


def test_timestamp_is_not_looked_up_in_a_batch_that_went_bad(machine: Any, tools: Any) -> None:
    log = filled(machine, tools)
    machine.content(f"{0:020d}.log")[65] ^= 1
    assert refusal(lambda: tools.look_up(log, 1_000)) is ErrorCode.CORRUPT_MESSAGE
    machine.disk.fail(DiskOperation.READ)
    assert refusal(lambda: tools.look_up(log, 1_000)) is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
def test_a_segment_whose_removal_is_refused_midway_keeps_its_batches(
    new_machine: Any, tools: Any, monkeypatch: Any, suffix: str
) -> None:
    """Else the log goes on in a file that has no name any more. Seed 2024995, disks, found it."""
    machine = new_machine(SMALL)
    log = filled(machine, tools)
    remove = machine.files.remove

    def refuse(path: str) -> None:
        if path.endswith(suffix):
            raise OSError(errno.EIO, path)
        remove(path)

    monkeypatch.setattr(machine.files, "remove", refuse)
    assert refusal(lambda: log.truncate_to(Offset(2))) is ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.undo()
    assert log.log_end_offset == 10
    tools.append(log, b"next", epoch=9)
    assert flush_refusal(machine, log) is None
    held = tools.all_bytes(log)
    machine.lose_power()
    assert tools.all_bytes(machine.open()[0]) == held


def test_a_segment_whose_removal_is_refused_at_its_log_goes_on_without_its_indexes(
    new_machine: Any, tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found: its index files were gone, and the next flush of them ended the broker."""
    machine = new_machine(SMALL)
    log = filled(machine, tools)
    assert flush_refusal(machine, log) is None
    files, newest = machine.files, log.segments[-1]
    remove = files.remove

    def refuse(path: str) -> None:
        if path.endswith(".log"):
            raise OSError(errno.EIO, "input/output error", path)
        remove(path)

    with monkeypatch.context() as patched:
        patched.setattr(files, "remove", refuse)
        assert refusal(lambda: log.truncate_to(Offset(1))) is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.segments[-1] is newest
    tools.append(log, b"x", epoch=1)
    assert flush_refusal(machine, log) is None
    assert is_true(machine, tools, log)


@pytest.mark.parametrize("what", [errno.EMFILE, errno.ENFILE])
def test_want_of_a_descriptor_for_a_sync_is_no_sync_that_failed(
    new_machine: Any, tools: Any, monkeypatch: pytest.MonkeyPatch, what: int
) -> None:
    """Found: no flush succeeded any more after one that came when no descriptor was left."""
    machine = new_machine(ONE_SEGMENT)
    log = filled(machine, tools)

    async def refuse(folder: str) -> None:
        raise OSError(what, "too many open files", folder)

    with monkeypatch.context() as patched:
        patched.setattr(machine.files, "sync_folder", refuse)
        assert flush_refusal(machine, log) is ErrorCode.KAFKA_STORAGE_ERROR
    assert flush_refusal(machine, log) is None
    assert log.recovery_point == 10


def test_a_failed_sync_stays_failed_though_a_flush_beside_it_has_another_error(
    new_machine: Any, tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = new_machine(ONE_SEGMENT)
    log = filled(machine, tools)

    async def meet(segment: Segment) -> None:
        log._sync_failed = True  # the other flush
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(Segment, "sync", meet)
        assert flush_refusal(machine, log) is ErrorCode.KAFKA_STORAGE_ERROR
    assert flush_refusal(machine, log) is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.recovery_point == 0
