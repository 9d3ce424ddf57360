"""Idempotent producers in a log: repeats, refusals, snapshots, restarts, memory."""

from __future__ import annotations

import struct
import sys
from typing import Any

import pytest
from crc32c import crc32c

from highwater_broker.log import producer_table, producers
from highwater_broker.log.log import Log
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.producer_table import CorruptSnapshot, ProducerTable
from highwater_broker.log.record_batch import LogRefused
from highwater_broker.log.segment import Segment
from highwater_broker.logic.producer_sequences import MAX_SEQUENCE
from highwater_core.ids import LeaderEpoch, Offset
from highwater_wire.kafka.record_batch import build_batch, parse_header

PRODUCER = 7
Value = list[tuple[bytes | None, bytes | None, int]]


def send(
    log: Log, sequence: int, count: int = 1, *, producer: int = PRODUCER, epoch: int = 0
) -> Any:
    """Append a producer's batch as leader; (base offset, end offset, bytes appended)."""
    values: Value = [(None, b"v", 1_000)] * count
    batch = build_batch(values, producer=(producer, epoch, sequence))
    return log.append_as_leader(batch, LeaderEpoch(0), 1_000)


def error_of(log: Log, sequence: int, count: int = 1, **producer: int) -> str:
    with pytest.raises(LogRefused) as refused:
        send(log, sequence, count, **producer)
    return refused.value.error.name


def sequences(log: Log, producer: int = PRODUCER) -> list[tuple[int, int]]:
    return [(each.first_sequence, each.last_sequence) for each in log.producers.known(producer)]


@pytest.fixture
def small(new_machine: Any) -> Any:
    """A machine whose log has a segment for each two batches."""
    return new_machine(LogConfig(segment_bytes=160))


# ---------------------------------------------------------------- appending


def test_a_repeat_is_not_appended_and_answered_with_where_it_is(machine: Any) -> None:
    log, _ = machine.open()
    assert send(log, 0, 3)[:2] == (0, 3)
    assert send(log, 3, 2)[:2] == (3, 5)
    size_bytes = log.size_bytes
    assert send(log, 0, 3) == (0, 3, 0)
    assert send(log, 3, 2) == (3, 5, 0)
    assert (log.log_end_offset, log.size_bytes) == (5, size_bytes)


def test_a_gap_and_an_old_epoch_are_refused_and_leave_the_log_as_it_was(machine: Any) -> None:
    log, _ = machine.open()
    send(log, 0, epoch=1)
    assert error_of(log, 2, epoch=1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert error_of(log, 1, epoch=0) == "INVALID_PRODUCER_EPOCH"
    assert (log.log_end_offset, sequences(log)) == (1, [(0, 0)])


def test_producers_do_not_touch_one_another(machine: Any, tools: Any) -> None:
    log, _ = machine.open()
    send(log, 0, producer=1)
    tools.append(log, b"without an id")
    send(log, 40, producer=2)
    assert send(log, 1, producer=1)[:2] == (3, 4)
    assert send(log, 40, producer=2) == (2, 3, 0)


@pytest.mark.parametrize("producer", [(-2, 0, 0), (7, -1, 0), (7, 0, -1), (7, -1, -1)])
def test_a_batch_with_half_a_producer_is_refused(
    machine: Any, producer: tuple[int, int, int]
) -> None:
    log, _ = machine.open()
    batch = build_batch([(None, b"v", 1_000)], producer=producer)
    with pytest.raises(LogRefused) as refused:
        log.append_as_leader(batch, LeaderEpoch(0), 1_000)
    assert refused.value.error.name == "INVALID_RECORD"


def test_after_the_last_sequence_comes_0(machine: Any) -> None:
    log, _ = machine.open()
    send(log, MAX_SEQUENCE - 1, 4)
    assert error_of(log, 1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert send(log, 2)[:2] == (4, 5)
    assert send(log, MAX_SEQUENCE - 1, 4) == (0, 4, 0)


def test_a_follower_knows_the_same_producers_as_its_leader(
    machine: Any, new_machine: Any, tools: Any
) -> None:
    leader, _ = machine.open()
    for sequence in range(0, 12, 2):
        send(leader, sequence, 2)
        tools.append(leader, b"without an id")
    follower, _ = new_machine().open()
    follower.append_as_follower(tools.all_bytes(leader), 1_000)
    assert sequences(follower) == sequences(leader) == [(n, n + 1) for n in range(2, 12, 2)]
    assert send(follower, 10, 2) == (15, 17, 0)


def test_a_batch_that_the_disk_refused_may_be_sent_again(machine: Any) -> None:
    log, _ = machine.open()
    send(log, 0)
    machine.disk_is_full = True
    assert error_of(log, 1) == "KAFKA_STORAGE_ERROR"
    machine.disk_is_full = False
    assert send(log, 1)[:2] == (1, 2)


def test_batches_without_a_producer_cost_no_look_at_producers(
    machine: Any, tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, _ = machine.open()
    for name in ("known", "note", "encode"):
        monkeypatch.delattr(ProducerTable, name)
    tools.append(log, b"x")
    log.append_as_follower(tools.batch(b"y", offset=1, epoch=0), 1_000)
    assert log.log_end_offset == 2


# ---------------------------------------------------------------- cuts


def test_truncated_batches_are_forgotten_and_may_be_sent_again(small: Any) -> None:
    log, _ = small.open()
    for sequence in range(6):
        send(log, sequence)
    log.truncate_to(Offset(3))
    assert error_of(log, 4) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert send(log, 2) == (2, 3, 0)
    assert send(log, 3)[:2] == (3, 4)


def test_snapshots_beyond_a_cut_are_gone_before_the_log_grows_again(small: Any) -> None:
    log, _ = small.open()
    for sequence in range(6):
        send(log, sequence)
    assert small.names(".snapshot") == [f"{2:020d}.snapshot", f"{4:020d}.snapshot"]
    log.truncate_to(Offset(3))
    assert small.names(".snapshot") == [f"{2:020d}.snapshot"]


@pytest.mark.parametrize("how", ["truncate_fully_and_start_at", "start_over_at"])
def test_a_log_that_starts_over_knows_nobody(small: Any, how: str) -> None:
    log, _ = small.open()
    for sequence in range(6):
        send(log, sequence)
    getattr(log, how)(Offset(20))
    assert small.names(".snapshot") == []
    assert send(log, 33)[:2] == (20, 21)
    assert sequences(log) == [(33, 33)]


def test_retention_leaves_producers_known_and_takes_their_snapshots(small: Any) -> None:
    log, _ = small.open()
    for sequence in range(6):
        send(log, sequence)
    log.advance_log_start(Offset(4))
    log.remove_retired(Offset(4))
    assert small.names(".snapshot") == [f"{4:020d}.snapshot"]
    assert send(log, 3) == (3, 4, 0)
    assert error_of(log, 7) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


@pytest.mark.parametrize("how", ["as it is", "after a clean stop", "after a kill"])
def test_a_log_that_retention_empties_knows_its_producers(small: Any, how: str) -> None:
    log, _ = small.open()
    for sequence in range(3):
        send(log, sequence)
    assert log.advance_log_start(Offset(3))
    log.remove_retired(Offset(3))
    assert small.names(".snapshot") == [f"{3:020d}.snapshot"]
    if how != "as it is":
        small.run(log.flush())
        if how == "after a clean stop":
            log.close()
        small.crash()
        is_clean = how == "after a clean stop"
        log, _ = small.open(clean=is_clean, recovery_point=3, log_start=3)
    assert send(log, 2) == (2, 3, 0)
    assert error_of(log, 4) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert send(log, 3)[:2] == (3, 4)


def test_a_snapshot_from_before_a_gap_is_not_gone_on_with(small: Any) -> None:
    """Else a producer's next batch would be refused: the log's start has passed the others."""
    log, _ = small.open()
    for sequence in range(6):
        send(log, sequence)
    log.advance_log_start(Offset(6))
    old = bytes(small.content(f"{4:020d}.snapshot"))
    log.remove_retired(Offset(6))
    small.run(log.flush())
    small.content(f"{6:020d}.snapshot")[:] = b""
    small.files.open(f"t-0/{4:020d}.snapshot").append([old])
    small.crash()
    log, _ = small.open(recovery_point=6, log_start=6)
    assert send(log, 6)[:2] == (6, 7)


def test_segments_that_became_one_keep_the_snapshots_at_its_ends(small: Any) -> None:
    log, _ = small.open()
    for sequence in range(12):
        send(log, sequence)
    log.producers.remove_within(2, 8)
    offsets = [2, 8, 10]
    assert small.names(".snapshot") == [f"{offset:020d}.snapshot" for offset in offsets]
    log.producers.remove_within(2, 12)  # there is none at 12 yet
    assert small.names(".snapshot") == [f"{offset:020d}.snapshot" for offset in offsets]
    log.truncate_to(Offset(9))
    assert send(log, 9)[:2] == (9, 10)


# ---------------------------------------------------------------- snapshots and starts


def stopped_cleanly(machine: Any, log: Log) -> int:
    machine.run(log.flush())
    log.close()
    machine.crash()
    return int(log.log_end_offset)


def headers_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the base offsets of the batches whose headers are read for producers from now on."""
    read: list[int] = []
    batches = Segment.batches

    def counted(self: Segment, from_offset: int = 0) -> Any:
        for position, header in batches(self, from_offset):
            read.append(header.base_offset)
            yield position, header

    monkeypatch.setattr(Segment, "batches", counted)
    return read


def test_after_a_clean_stop_no_header_is_read(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    log, _ = small.open()
    for sequence in range(7):
        send(log, sequence)
    end = stopped_cleanly(small, log)
    read = headers_read(monkeypatch)
    log, report = small.open(clean=True, recovery_point=end)
    assert (read, report.repairs) == ([], ())
    assert sequences(log) == [(n, n) for n in range(2, 7)]
    assert [send(log, n) for n in range(2, 7)] == [(n, n + 1, 0) for n in range(2, 7)]


def test_after_a_crash_only_headers_behind_the_last_good_snapshot_are_read(
    small: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, _ = small.open()
    for sequence in range(7):
        send(log, sequence)
    small.run(log.flush())
    small.crash()
    read = headers_read(monkeypatch)
    log, _ = small.open(recovery_point=7)
    assert read == [6]
    assert sequences(log) == [(n, n) for n in range(2, 7)]


@pytest.mark.parametrize(
    ("checkpointed", "first_read"), [(12, 11), (8, 5)], ids=["checkpointed", "not checkpointed yet"]
)
def test_after_a_crash_within_a_long_segment_few_headers_are_read(
    new_machine: Any, monkeypatch: pytest.MonkeyPatch, checkpointed: int, first_read: int
) -> None:
    """Flushes leave snapshots on the way; of the last two one is below the recovery point."""
    monkeypatch.setattr(producers, "SNAPSHOT_BYTES", 300)
    machine = new_machine(LogConfig(index_interval_bytes=1))
    log, _ = machine.open()
    for sequence in range(14):
        send(log, sequence)
        if sequence % 2:
            machine.run(log.flush())
    assert machine.names(".snapshot") == [f"{6:020d}.snapshot", f"{12:020d}.snapshot"]
    machine.crash()
    read = headers_read(monkeypatch)
    log, _ = machine.open(recovery_point=checkpointed)
    assert read == list(range(first_read, 14))
    assert [send(log, n) for n in range(9, 14)] == [(n, n + 1, 0) for n in range(9, 14)]


@pytest.mark.parametrize("content", [b"", b"\0\1", b"\0\1\0\0\0\0\0\0\0\0", b"x" * 500])
def test_a_bad_snapshot_costs_a_longer_scan_and_nothing_else(
    small: Any, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    log, _ = small.open()
    for sequence in range(7):
        send(log, sequence)
    end = stopped_cleanly(small, log)
    small.content(f"{7:020d}.snapshot")[:] = content
    small.content(f"{6:020d}.snapshot")[40] ^= 1
    read = headers_read(monkeypatch)
    log, report = small.open(clean=True, recovery_point=end)
    assert read == [4, 5, 6]
    assert [each.split(":")[0] for each in report.repairs] == [
        "snapshot of producers at 7 removed", "snapshot of producers at 6 removed"
    ]  # fmt: skip
    assert sequences(log) == [(n, n) for n in range(2, 7)]


def test_without_any_snapshot_all_headers_are_read(
    small: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, _ = small.open()
    for sequence in range(7):
        send(log, sequence)
    end = stopped_cleanly(small, log)
    for name in small.names(".snapshot"):
        small.files.remove(f"t-0/{name}")
    read = headers_read(monkeypatch)
    log, report = small.open(clean=True, recovery_point=end)
    assert (read, report.repairs) == (list(range(7)), ())
    assert sequences(log) == [(n, n) for n in range(2, 7)]


def test_a_snapshot_above_the_recovery_point_is_not_trusted(small: Any) -> None:
    """After a power loss it may be of batches that were cut, and whose place others have."""
    log, _ = small.open()
    for sequence in range(7):
        send(log, sequence)
    stopped_cleanly(small, log)
    log, _ = small.open(recovery_point=5)
    assert small.names(".snapshot") == [f"{2:020d}.snapshot", f"{4:020d}.snapshot"]
    assert sequences(log) == [(n, n) for n in range(2, 7)]


def test_a_full_disk_costs_a_snapshot_and_gets_its_room_back(small: Any) -> None:
    log, _ = small.open()
    send(log, 0)
    send(log, 1)
    small.disk_is_full = True
    assert error_of(log, 2) == "KAFKA_STORAGE_ERROR"
    small.disk_is_full = False
    assert (small.names(".snapshot"), small.names(".tmp")) == ([], [])
    send(log, 2)
    assert sequences(log) == [(n, n) for n in range(3)]


def test_clean_stops_leave_one_snapshot_of_the_last_segment(machine: Any) -> None:
    log, _ = machine.open()
    for sequence in range(4):
        send(log, sequence)
        end = stopped_cleanly(machine, log)
        assert machine.names(".snapshot") == [f"{end:020d}.snapshot"]
        log, _ = machine.open(clean=True, recovery_point=end)
    assert sequences(log) == [(n, n) for n in range(4)]


def test_the_file_is_kafkas(machine: Any) -> None:
    """Version, CRC-32C, count, and rows of 46 bytes; the newest batch of a producer is last."""
    log, _ = machine.open()
    send(log, 0, 3, epoch=4)
    send(log, 3, 2, epoch=4)
    stopped_cleanly(machine, log)
    data = bytes(machine.content(f"{5:020d}.snapshot"))
    assert struct.unpack_from(">hIi", data) == (1, crc32c(data[6:]), 2)
    rows = list(struct.iter_unpack(">qhiqiqiq", data[10:]))
    assert rows == [(7, 4, 2, 2, 2, 1000, -1, -1), (7, 4, 4, 4, 1, 1000, -1, -1)]


def test_a_snapshot_of_kafkas_own_with_one_row_a_producer_is_read() -> None:
    row = struct.pack(">qhiqiqiq", 7, 4, 4, 9, 1, 1000, -1, -1)
    entries = struct.pack(">i", 1) + row
    table = ProducerTable.decode(struct.pack(">hI", 1, crc32c(entries)) + entries)
    (known,) = table.known(7)
    assert (known.first_sequence, known.last_sequence, known.first_offset) == (3, 4, 8)


def test_a_snapshot_of_another_version_is_not_read() -> None:
    data = bytearray(ProducerTable().encode())
    data[1] = 2
    with pytest.raises(CorruptSnapshot, match="version 2"):
        ProducerTable.decode(data)


# ---------------------------------------------------------------- time and memory


def filled(ids: range) -> ProducerTable:
    table = ProducerTable()
    values: Value = [(None, None, 1_000)]
    for producer_id in ids:
        table.note(parse_header(build_batch(values, producer=(producer_id, 0, 0))))
    return table


def test_the_idle_are_forgotten_not_before_their_time_and_not_twice_as_late() -> None:
    table = filled(range(2))
    table.expire(1_000, 100)
    table.expire(1_099, 100)
    assert len(table) == 2
    table.expire(1_100, 100)
    assert table.known(0)
    table.note(parse_header(build_batch([(None, None, 1_000)], producer=(1, 0, 1))))
    table.expire(1_199, 100)
    assert table.known(0)
    table.expire(1_200, 100)
    assert (len(table), table.known(0), len(table.known(1))) == (1, (), 2)
    table.expire(1_300, 100)
    assert len(table) == 0


def test_a_clock_that_goes_back_forgets_nobody() -> None:
    table = filled(range(1))
    for now_ms in (1_000, 5, 104):
        table.expire(now_ms, 100)
    table.expire(105, 100)
    assert table.known(0)


def test_of_too_many_producers_the_idlest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_table, "MAX_RECENT", 100)
    table = filled(range(1_000))
    assert len(table) < 200
    assert all(table.known(each) for each in range(900, 1_000))
    assert not table.known(0)


def test_a_producer_takes_few_bytes_and_outlives_a_snapshot() -> None:
    rows = b"".join(
        struct.pack(">qhiqiqiq", number, 0, 4 - back, 10**6 + number - back, 0, 1_000, -1, -1)
        for number in range(10_000)
        for back in range(4, -1, -1)
    )
    entries = struct.pack(">i", 50_000) + rows
    table = ProducerTable.decode(struct.pack(">hI", 1, crc32c(entries)) + entries)
    assert len(table) == 10_000
    kept = table._recent.values()
    assert max(map(sys.getsizeof, kept)) < 300
    assert table.encode()[10:] == rows


@pytest.mark.parametrize("begin", [0, 1000])
def test_a_truncation_reads_again_about_as_many_records_as_it_removes(begin: int) -> None:
    """Whatever it removes; and a long segment has few snapshots."""
    kept: list[int] = []
    for end in range(begin + 4, begin + 1024, 4):
        kept = producers.spread_out(begin, [*kept, end])
        assert kept[-2:] == [end - 4, end][-min(2, len(kept)) :]
        for cut in range(begin, end):
            used = max(offset for offset in (begin, *kept) if offset <= cut)
            assert cut - used <= (end - cut) + 8, (kept, cut)
        assert len(kept) <= 16


def test_after_a_deep_truncation_few_headers_are_read(
    new_machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producers, "SNAPSHOT_BYTES", 300)
    machine = new_machine(LogConfig(index_interval_bytes=1))
    log, _ = machine.open()
    for sequence in range(80):
        send(log, sequence)
        machine.run(log.flush())
    log.truncate_to(60)
    read = headers_read(monkeypatch)
    send(log, 60)
    assert len(read) < 25
    assert sequences(log)[-1] == (60, 60)
