"""Opening a log after any stop: torn tails, flipped bits, missing and corrupt files."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater_broker.log.checkpoints import encode_rows
from highwater_broker.log.epoch_file import EPOCH_CHECKPOINT
from highwater_broker.log.log import Log
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.record_batch import LogRefused
from highwater_broker.log.recovery import Recovery
from highwater_core.ids import LeaderEpoch, Offset
from highwater_wire.kafka.record_batch import build_batch, split_batches

FOLDER = "t-0"
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)


def filled(new_machine: Any, tools: Any, config: LogConfig = SMALL, batches: int = 20) -> Any:
    """Return a machine whose log has so many batches of two records, an epoch for each five."""
    machine = new_machine(config)
    log, _ = machine.open()
    for number in range(batches):
        tools.append(log, b"a", bytes(number), epoch=number // 5, timestamp=1000 + number)
    machine.before = tools.all_bytes(log)
    machine.epochs = log.epoch_cache
    machine.log = log
    return machine


def bases(data: bytes) -> list[int]:
    return [batch.header.base_offset for batch in split_batches(data)]


def test_a_killed_process_loses_nothing(new_machine: Any, tools: Any) -> None:
    machine = filled(new_machine, tools)
    machine.crash()
    log, report = machine.open()
    assert tools.all_bytes(log) == machine.before
    assert (log.epoch_cache, log.log_end_offset) == (machine.epochs, 40)
    assert (report.clean, report.truncated_bytes, report.repairs) == (False, 0, ())
    assert report.scanned_bytes == len(machine.before)


@pytest.mark.parametrize("case", ["begins later", "reverted", "missing"])
def test_a_full_disk_that_cannot_store_the_epochs_keeps_no_log_closed(
    new_machine: Any, tools: Any, case: str
) -> None:
    """A log that stayed closed would keep its old segments, and the disk full."""
    machine = filled(new_machine, tools)
    machine.run(machine.log.flush())
    old = bytes(machine.content(EPOCH_CHECKPOINT))
    tools.append(machine.log, b"later", epoch=9)
    before = tools.all_bytes(machine.log)
    machine.crash()
    log_start = 2 if case == "begins later" else 0
    if case == "reverted":
        machine.content(EPOCH_CHECKPOINT)[:] = old
    elif case == "missing":
        machine.files.remove(f"{FOLDER}/{EPOCH_CHECKPOINT}")
    machine.disk.fill()
    log, _ = machine.open(log_start=log_start)
    assert (log.log_start_offset, log.log_end_offset) == (log_start, 41)
    assert log.epoch_cache.latest_epoch == 9
    assert log.epoch_cache.epoch_of_offset(Offset(40)) == 9
    machine.disk.fill()  # removed files gave room
    with pytest.raises(LogRefused):
        tools.append(log, b"no room", epoch=9)
    machine.crash()
    known = Recovery.inspect(
        machine.files, FOLDER, SMALL, clean_shutdown=False, recovery_point=Offset(0),
        log_start_offset=Offset(log_start), high_watermark=Offset(0), epochs_are_known=True,
    )  # fmt: skip
    assert not known.has_lost_batches
    machine.disk.make_room()
    log, _ = Log.recovered(known)
    assert log.log_end_offset == 41
    if not log_start:
        assert tools.all_bytes(log) == before
    tools.append(log, b"room", epoch=9)


def test_a_clean_stop_scans_nothing(new_machine: Any, tools: Any) -> None:
    machine = filled(new_machine, tools)
    machine.run(machine.log.flush())
    machine.log.close()
    machine.lose_power()
    log, report = machine.open(clean=True, recovery_point=40)
    assert tools.all_bytes(log) == machine.before
    assert (log.epoch_cache, log.recovery_point) == (machine.epochs, 40)
    assert (report.clean, report.scanned_bytes, report.repairs) == (True, 0, ())


def test_only_records_after_the_recovery_point_are_scanned(new_machine: Any, tools: Any) -> None:
    machine = filled(new_machine, tools)
    machine.run(machine.log.flush())
    tools.append(machine.log, b"later", epoch=9)
    before = tools.all_bytes(machine.log)
    machine.crash()
    log, report = machine.open(recovery_point=40)
    assert tools.all_bytes(log) == before
    assert log.epoch_cache.entries == (*machine.epochs.entries, (9, 40))
    assert 0 < report.scanned_bytes < 600
    assert report.repairs == ()


def test_a_power_loss_keeps_flushed_records(new_machine: Any, tools: Any) -> None:
    machine = filled(new_machine, tools)
    machine.run(machine.log.flush())
    flushed = tools.all_bytes(machine.log)
    for number in range(10):
        tools.append(machine.log, b"unflushed", epoch=10 + number)
    machine.lose_power()
    log, _ = machine.open(recovery_point=40)
    assert tools.all_bytes(log) == flushed
    assert (log.log_end_offset, log.epoch_cache) == (40, machine.epochs)


def _last_batch_bytes() -> int:
    return len(build_batch([(None, b"a", 0), (None, bytes(3), 0)]))


@pytest.mark.parametrize("cut", range(1, _last_batch_bytes() + 1))
@pytest.mark.parametrize("clean", [False, True])
def test_a_tail_torn_at_any_byte_is_cut_to_the_last_whole_batch(
    new_machine: Any, tools: Any, cut: int, clean: bool
) -> None:
    machine = filled(new_machine, tools, LogConfig(), batches=4)
    machine.log.close()
    content = machine.content(f"{0:020d}.log")
    torn_bytes = _last_batch_bytes() - cut
    del content[len(content) - cut :]
    log, report = machine.open(clean=clean)
    assert (log.log_end_offset, bases(tools.all_bytes(log))) == (6, [0, 2, 4])
    assert report.truncated_bytes == torn_bytes
    assert len(report.repairs) == (1 if torn_bytes else 0)
    assert tools.append(log, b"next") == 6
    log.close()
    again, report = machine.open()
    assert (again.log_end_offset, report.repairs) == (7, ())


@given(st.data())
def test_a_flipped_bit_after_the_recovery_point_never_survives(
    new_machine: Any, tools: Any, data: st.DataObject
) -> None:
    machine = filled(new_machine, tools)
    machine.crash()
    name = data.draw(st.sampled_from(machine.names(".log")))
    content = machine.content(name)
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= 1 << data.draw(st.integers(0, 7))
    log, report = machine.open()
    kept = tools.all_bytes(log)
    assert len(kept) == log.size_bytes
    batches = split_batches(kept)
    expected = split_batches(machine.before)[: len(batches)]
    for mine, original in zip(batches, expected, strict=True):
        assert mine.data[16:] == original.data[16:]  # the leader epoch is outside the CRC
        assert mine.header.base_offset == original.header.base_offset
    if len(kept) < len(machine.before):
        assert report.truncated_bytes > 0
        assert report.repairs
    assert tools.append(log, b"next", epoch=200) == log.log_end_offset - 1


def test_segments_behind_a_cut_are_set_aside(new_machine: Any, tools: Any) -> None:
    machine = filled(new_machine, tools)
    names = machine.names(".log")
    machine.crash()
    machine.content(names[1])[70] ^= 1
    log, report = machine.open()
    assert machine.names(".log") == names[:2]
    assert machine.names(".detached") == [name + ".detached" for name in names[2:]]
    assert len(report.repairs) == len(names) - 1
    tools.append(log, b"x", epoch=50)
    assert bases(tools.all_bytes(log))[-1] == log.log_end_offset - 1


@pytest.mark.parametrize("clean", [False, True])
def test_segments_behind_a_missing_one_are_set_aside(
    new_machine: Any, tools: Any, clean: bool
) -> None:
    machine = filled(new_machine, tools)
    names = machine.names(".log")
    machine.log.close()
    machine.files.remove(f"t-0/{names[2]}")
    log, report = machine.open(clean=clean, recovery_point=40)
    assert machine.names(".log") == names[:2]
    assert log.log_end_offset == int(names[2][:20])
    assert log.recovery_point == log.log_end_offset
    assert report.truncated_bytes > 0
    assert "is the next offset" in report.repairs[0]


def test_a_missing_first_segment_moves_the_log_start(new_machine: Any, tools: Any) -> None:
    machine = filled(new_machine, tools)
    names = machine.names(".log")
    machine.log.close()
    machine.files.remove(f"t-0/{names[0]}")
    log, _ = machine.open(clean=True, recovery_point=40)
    assert (log.log_start_offset, log.log_end_offset) == (int(names[1][:20]), 40)
    assert log.epoch_cache.entries[0] == (log.log_start_offset // 10, log.log_start_offset)


def test_an_empty_folder_starts_at_the_checkpointed_log_start(machine: Any) -> None:
    log, report = machine.open(log_start=7)
    assert (log.log_start_offset, log.log_end_offset, report.repairs) == (7, 7, ())


def test_a_log_that_ends_before_its_start_begins_anew_there(new_machine: Any, tools: Any) -> None:
    machine = filled(new_machine, tools)
    machine.crash()
    log, report = machine.open(log_start=41)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (41, 41, 0)
    assert report.repairs == ("log ends at 40, before its start 41",)


# ---------------------------------------------------------------- indexes


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["remove", "odd", "zeros", "garbage", "beyond"])
def test_a_damaged_index_is_rebuilt(new_machine: Any, tools: Any, suffix: str, damage: str) -> None:
    machine = filled(new_machine, tools)
    machine.run(machine.log.flush())
    machine.log.close()
    name = machine.names(suffix)[1]
    good = bytes(machine.content(name))
    assert good
    if damage == "remove":
        machine.files.remove(f"t-0/{name}")
    else:
        machine.content(name)[:] = {
            "odd": good[:-1],
            "zeros": bytes(24 * 2),
            "garbage": b"\xff" * 24 * 2,
            "beyond": good + good,
        }[damage]
    log, report = machine.open(clean=True, recovery_point=40)
    assert tools.all_bytes(log) == machine.before
    assert [r for r in report.repairs if "rebuilt" in r] == list(report.repairs)
    assert len(report.repairs) == 1
    assert tools.look_up(log, 1007) == (1007, 14, 1)
    machine.run(log.flush())
    log.close()
    assert bytes(machine.content(name)) == good


@pytest.mark.parametrize("damage", ["empty", "shorter", "first entry lost", "no checksum", "flip"])
def test_a_time_index_with_other_entries_than_were_written_is_rebuilt(
    new_machine: Any, tools: Any, damage: str
) -> None:
    """Found: a look-up by time missed a record, and retention removed its segment too early."""
    config = LogConfig(index_interval_bytes=0, segment_bytes=1_000, retention_ms=1_000)
    machine = new_machine(config)
    log, _ = machine.open()
    times = (5_000, 1_000, 9_000, 1_001, 1_002)
    for timestamp in times:
        tools.append(log, b"x" * 150, timestamp=timestamp)
    tools.append(log, b"x" * 900, timestamp=1_003)
    machine.run(log.flush())
    log.close()
    name = machine.names(".timeindex")[0]
    good = bytes(machine.content(name))
    assert len(good) == 3 * 12
    machine.content(name)[:] = {
        "empty": b"",
        "shorter": good[:12] + good[24:],
        "first entry lost": good[12:],
        "no checksum": good[:24],
        "flip": good[:7] + b"\xff" + good[8:],
    }[damage]
    log, report = machine.open(clean=True, recovery_point=6)
    assert len(report.repairs) == 1
    assert "rebuilt" in report.repairs[0]
    assert tools.look_up(log, 4_000)[:2] == (5_000, 0)
    assert tools.look_up(log, 5_001)[:2] == (9_000, 2)
    assert log.delete_old_segments(9_999, Offset(6)) == 0
    log.close()
    assert bytes(machine.content(name)) == good


@pytest.mark.parametrize("cut", [1, 3, 5])
def test_a_time_index_is_whole_after_a_truncation_and_a_kill(
    new_machine: Any, tools: Any, cut: int
) -> None:
    machine = new_machine(LogConfig(index_interval_bytes=0))
    log, _ = machine.open()
    for timestamp in (5_000, 1_000, 9_000, 1_001, 1_002):
        tools.append(log, b"x" * 150, timestamp=timestamp)
    machine.run(log.flush())
    log.truncate_to(Offset(cut))
    machine.crash()
    log, report = machine.open(clean=True, recovery_point=cut)
    assert report.repairs == ()
    found = tools.look_up(log, 5_001)
    assert (found and found[:2]) == ((9_000, 2) if cut > 2 else None)


@given(st.data())
def test_no_index_content_makes_a_read_wrong(
    new_machine: Any, tools: Any, data: st.DataObject
) -> None:
    machine = filled(new_machine, tools)
    found = {at: tools.look_up(machine.log, at) for at in range(1_000, 1_021)}
    machine.log.close()
    for suffix in (".index", ".timeindex"):
        name = data.draw(st.sampled_from(machine.names(suffix)))
        content = machine.content(name)
        if data.draw(st.booleans()):
            del content[data.draw(st.integers(0, len(content))) :]
        if content:
            position = data.draw(st.integers(0, len(content) - 1))
            content[position] ^= 1 << data.draw(st.integers(0, 7))
    log, _ = machine.open(clean=data.draw(st.booleans()), recovery_point=40)
    assert tools.all_bytes(log) == machine.before
    for start in range(0, 40, 3):
        view = log.read(Offset(start), 150, Offset(40)).records
        assert not isinstance(view, bytes)
        assert split_batches(view.read())[0].header.base_offset == start // 2 * 2
    assert {at: tools.look_up(log, at) for at in found} == found


# ---------------------------------------------------------------- epochs


def epochs(*rows: tuple[str, str]) -> bytes:
    """Return an epoch file with these rows and the right checksum."""
    return encode_rows(rows, columns=2).encode()


@pytest.mark.parametrize(
    "text", [None, b"", b"0\n", b"0\n1\n", b"0\n2\n0 0\n", b"junk", b"\xff\x00",
             epochs(("0", "x")), epochs(("3", "0"), ("1", "10")), epochs(("-1", "0")),
             b"0\n1\n0 0\n", epochs((str(2**31), "0")), epochs(("1", str(2**63)))],
)  # fmt: skip
@pytest.mark.parametrize("clean", [False, True])
def test_a_missing_or_corrupt_epoch_file_is_rebuilt_from_the_batches(
    new_machine: Any, tools: Any, text: bytes | None, clean: bool
) -> None:
    machine = filled(new_machine, tools)
    machine.log.close()
    if text is None:
        machine.files.remove("t-0/leader-epoch-checkpoint")
    else:
        machine.content("leader-epoch-checkpoint")[:] = text
    log, report = machine.open(clean=clean, recovery_point=40)
    assert log.epoch_cache == machine.epochs
    assert len(report.repairs) == 1
    log.close()
    assert machine.open(clean=True, recovery_point=40)[1].repairs == ()


@pytest.mark.parametrize("stored_by", ["nothing", "a flush", "a batch"])
def test_an_epoch_entered_on_election_is_stored_with_its_first_batch_or_by_a_flush(
    new_machine: Any, tools: Any, stored_by: str
) -> None:
    machine = filled(new_machine, tools)
    machine.log.assign_epoch(LeaderEpoch(7))
    if stored_by == "a flush":
        machine.run(machine.log.flush())
    elif stored_by == "a batch":
        tools.append(machine.log, b"x", epoch=7)
    machine.crash()
    log, _ = machine.open(recovery_point=10)
    entered = () if stored_by == "nothing" else ((7, 40),)
    assert log.epoch_cache.entries == (*machine.epochs.entries, *entered)


def test_the_epochs_of_a_cut_tail_go_with_it(new_machine: Any, tools: Any) -> None:
    machine = filled(new_machine, tools, LogConfig())
    machine.crash()
    content = machine.content(f"{0:020d}.log")
    del content[len(content) // 2 :]
    log, _ = machine.open()
    assert log.log_end_offset < 30
    assert log.epoch_cache.latest_epoch == split_batches(tools.all_bytes(log))[-1].header[2]
    assert all(entry.start_offset < log.log_end_offset for entry in log.epoch_cache.entries)


def test_leftovers_and_strange_names_are_no_segments(new_machine: Any, tools: Any) -> None:
    machine = filled(new_machine, tools)
    machine.log.close()
    too_large = f"{2**63:020d}.log"
    for name in ("x.log", too_large, "leader-epoch-checkpoint.tmp", "notes.txt"):
        machine.files.open(f"t-0/{name}").append([b"junk"])
    log, report = machine.open(clean=True, recovery_point=40)
    assert tools.all_bytes(log) == machine.before
    assert report.repairs == tuple(
        f"{name} is no segment's name: ignored" for name in (too_large, "x.log")
    )
    assert not machine.files.exists("t-0/leader-epoch-checkpoint.tmp")
