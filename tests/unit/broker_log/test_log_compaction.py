"""A log's segments are compacted: the newest record of each key stays, despite any crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from highwater_broker.log.cleaned_segment import CLEANED_SUFFIX
from highwater_broker.log.compaction import Rewriting, rewrite, take_notes
from highwater_broker.log.log import Log
from highwater_broker.log.log_config import LogConfig
from highwater_broker.log.record_batch import LogRefused
from highwater_broker.log.segment_index import MAX_RELATIVE_OFFSET
from highwater_broker.logic.compaction import dirty_part, groups
from highwater_core.errors import ErrorCode
from highwater_core.ids import LeaderEpoch, Offset
from highwater_core.ports import Buffer
from highwater_simulator.files import SimulatedFile, SimulatedFileSystem
from highwater_wire.kafka.compacted_batch import stored_records
from highwater_wire.kafka.compression import packed
from highwater_wire.kafka.record_batch import (
    HEADER_BYTES,
    build_batch,
    decode_records,
    encode_batch,
    parse_header,
    split_batches,
)

Found = dict[int, tuple[bytes | None, bytes | None]]
"""Key and value by offset."""
COMPACTED = LogConfig(cleanup_policy="compact", segment_bytes=300, index_interval_bytes=0)
LARGER = replace(COMPACTED, segment_bytes=900)
TEN_SECONDS = 10_000


def produce(log: Log, *records: tuple[bytes, bytes | None], epoch: int = 0, codec: int = 0) -> None:
    plain = build_batch([(key, value, 1_000) for key, value in records])
    header = parse_header(plain)._replace(attributes=codec)
    batch = encode_batch(header, packed(codec, plain[HEADER_BYTES:]))
    log.append_as_leader(batch, LeaderEpoch(epoch), 1_000)


def batches_of(log: Log) -> Iterator[Any]:
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20, log.log_end_offset).records
        for batch in split_batches(data if isinstance(data, bytes) else data.read()):
            yield batch
            offset = Offset(batch.header.last_offset + 1)


def records_of(log: Log) -> Found:
    return {
        record.offset: (record.key, record.value)
        for batch in batches_of(log)
        if not batch.header.is_compressed
        for record in decode_records(batch.data)
    }


def newest_of(found: Found) -> dict[bytes | None, tuple[int, bytes | None]]:
    """Return the newest offset and value of each key that has a value."""
    newest = {key: (offset, value) for offset, (key, value) in sorted(found.items())}
    return {key: each for key, each in newest.items() if each[1] is not None}


async def compact(
    log: Log,
    *,
    first_dirty: int = 0,
    safe_end: int | None = None,
    now_ms: int = 0,
    keys_max: int = 100,
    unreadable: list[int] | None = None,
    remembers: Callable[[int], bool] = lambda producer_id: True,
) -> int:
    """Clean the log without pauses; return the first dirty offset."""
    end = log.log_end_offset if safe_end is None else safe_end
    part = dirty_part(log.segments, first_dirty, safe_end_offset=end, newest_timestamp_ms=None)
    notes = finish(take_notes(log.segments[:], part, keys_max))
    told = unreadable if unreadable is not None else []
    rewriting = Rewriting(
        notes, now_ms, TEN_SECONDS, lambda offset, what: told.append(offset), remembers
    )
    known = [each for each in log.segments if each.base_offset < notes.end_offset]
    for group in groups(known, max_bytes=log.config.segment_bytes, max_offsets=MAX_RELATIVE_OFFSET):
        work = rewrite(group, lambda offset: log.segments.begin_cleaned(offset, 0), rewriting)
        cleaned = finish(work)
        if cleaned is not None:
            await cleaned.sync_batches()
            log.segments.take_in(cleaned, group)
            await log.segments.settle()
    return notes.end_offset


def finish(work: Any) -> Any:
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


@pytest.fixture
def machine(new_machine: Any) -> Any:
    return new_machine(COMPACTED)


def filled(machine: Any, count: int = 24) -> Log:
    """Return a log of some segments in which three keys are written again and again."""
    log: Log = machine.open()[0]
    for number in range(count):
        produce(log, *[(b"k%d" % (each % 3), b"v%d.%d" % (number, each)) for each in range(2)])
        produce(log, (b"own-%d" % number, b"value"), epoch=number // 10)
    machine.run(log.flush())
    return log


def test_the_newest_record_of_each_key_stays_at_its_offset(machine: Any) -> None:
    log = filled(machine)
    before, segments = records_of(log), len(log.segments)
    end, epochs, size_bytes = log.log_end_offset, log.epoch_cache, log.size_bytes
    first_dirty = machine.run(compact(log))
    after = records_of(log)
    active = log.segments[-1].base_offset
    assert first_dirty == active
    assert newest_of(after) == newest_of(before)
    assert after.items() <= before.items()
    kept = [key for offset, (key, _) in after.items() if offset < active]
    assert len(kept) == len(set(kept)) > 20
    assert (log.log_end_offset, log.epoch_cache) == (end, epochs)
    assert log.size_bytes < size_bytes
    log.config = LARGER
    machine.run(compact(log, first_dirty=first_dirty))
    assert len(log.segments) < segments
    assert records_of(log) == after


def test_a_compacted_log_has_no_gaps_and_is_read_from_any_offset(machine: Any) -> None:
    log = filled(machine)
    machine.run(compact(log))
    headers = [batch.header for batch in batches_of(log)]
    next_offset = 0
    for header in headers:
        assert header.base_offset == next_offset
        next_offset = header.last_offset + 1
    assert next_offset == log.log_end_offset
    after = records_of(log)
    for offset in range(log.log_end_offset):
        data = log.read(Offset(offset), 1, log.log_end_offset).records.read()
        header = split_batches(data)[0].header
        assert header.base_offset <= offset <= header.last_offset
    assert [s.next_offset for s in log.segments[:-1]] == [s.base_offset for s in log.segments[1:]]
    assert max(after) == log.log_end_offset - 1


def test_a_reader_of_records_goes_on_behind_batches_without_any(machine: Any) -> None:
    log = filled(machine)
    machine.run(compact(log))
    log.config = LARGER
    machine.run(compact(log))
    end = log.log_end_offset
    batches = [batch.header for batch in batches_of(log)]
    for offset in range(end):
        ahead = [each for each in batches if each.last_offset >= offset and each.record_count]
        assert log.next_with_records(Offset(offset), end) == max(offset, ahead[0].base_offset)
        bound = Offset(max(offset, ahead[0].base_offset))
        assert log.next_with_records(Offset(offset), bound) == offset


def test_a_follower_takes_a_compacted_log_over(machine: Any, new_machine: Any) -> None:
    log = filled(machine)
    machine.run(compact(log))
    for config in (COMPACTED, LogConfig(segment_bytes=1_000)):
        follower: Log = new_machine(config).open()[0]
        copy_to(follower, log)
        assert records_of(follower) == records_of(log)
        assert follower.epoch_cache == log.epoch_cache


@pytest.mark.parametrize("held", range(1, 70, 7))
def test_a_follower_goes_on_within_its_leaders_compacted_batch(
    held: int, machine: Any, new_machine: Any
) -> None:
    log = filled(machine)
    follower_machine = new_machine(COMPACTED)
    follower: Log = follower_machine.open()[0]
    for batch in batches_of(log):
        if batch.header.last_offset < held:
            follower.append_as_follower(batch.data, 0)
    held_end, before = follower.log_end_offset, records_of(follower)
    machine.run(compact(log))
    copy_to(follower, log)
    assert follower.log_end_offset == log.log_end_offset
    theirs = {at: record for at, record in records_of(log).items() if at >= held_end}
    assert records_of(follower) == before | theirs
    assert newest_of(records_of(follower)) == newest_of(records_of(log))
    follower_machine.run(follower.flush())
    follower_machine.crash()
    again, report = follower_machine.open()
    assert (report.repairs, again.log_end_offset) == ((), log.log_end_offset)


def copy_to(follower: Log, leader: Log) -> None:
    """Fetch as a follower does, from its log's end on."""
    while follower.log_end_offset < leader.log_end_offset:
        at = follower.log_end_offset
        records = leader.read(at, 200, leader.log_end_offset).records.read()
        follower.append_as_follower(records, 0, LeaderEpoch(9))
        assert follower.log_end_offset > at


def test_batches_with_records_that_overlap_are_refused_still(machine: Any) -> None:
    log = machine.open()[0]
    produce(log, (b"a", b"1"), (b"b", b"2"))
    overlapping = build_batch([(b"a", b"x", 1), (b"b", b"y", 1)], base_offset=1)
    with pytest.raises(LogRefused) as refused:
        log.append_as_follower(overlapping, 0)
    assert refused.value.error is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("codec", range(5))
def test_a_compacted_batch_keeps_its_codec(codec: int, machine: Any) -> None:
    log = machine.open()[0]
    for number in range(20):
        produce(log, (b"k", b"v%d" % number), (b"own-%d" % number, b"x" * 40), codec=codec)
    machine.run(log.flush())
    machine.run(compact(log))
    found = {
        record.offset: record.key
        for batch in batches_of(log)
        for record in stored_records(batch.header, bytes(batch.data))
    }
    active = log.segments[-1].base_offset
    assert [at for at, key in found.items() if key == b"k" and at < active] in ([], [active - 2])
    assert sum(key.startswith(b"own") for key in found.values()) == 20
    assert {batch.header.attributes & 7 for batch in batches_of(log)} == {codec}


def test_a_batch_that_cannot_be_read_stays_and_so_do_tombstones_after_it(machine: Any) -> None:
    log = machine.open()[0]
    log.config = LogConfig(segment_bytes=300)  # bytes that are no records come in before compaction
    header = parse_header(build_batch([(b"k", b"old", 1)]))._replace(attributes=4)
    log.append_as_leader(encode_batch(header, b"no zstd frame"), LeaderEpoch(0), 0)
    produce(log, (b"k", None))
    produce(log, (b"k1", b"v"))
    for number in range(10):
        produce(log, (b"k1", b"v%d" % number))
    machine.run(log.flush())
    told: list[int] = []
    first_dirty = machine.run(compact(log, now_ms=0, unreadable=told))
    assert told == [0]
    machine.run(compact(log, first_dirty=0, now_ms=9 * TEN_SECONDS))
    assert first_dirty > 2
    found = list(batches_of(log))
    assert bytes(found[0].data[HEADER_BYTES:]) == b"no zstd frame"
    assert records_of(log)[1] == (b"k", None)


def test_a_tombstone_stays_for_a_while_from_the_first_pass_on(machine: Any) -> None:
    log = machine.open()[0]
    produce(log, (b"k", b"v"))
    produce(log, (b"k", None), (b"other", b"stays"))
    for number in range(6):
        produce(log, (b"f", b"filler%d" % number + b"." * 60))
    machine.run(log.flush())
    first_dirty = machine.run(compact(log, now_ms=1_000))
    assert 0 not in records_of(log)
    assert records_of(log)[1] == (b"k", None)
    machine.run(compact(log, first_dirty=first_dirty, now_ms=1_000 + TEN_SECONDS))
    assert records_of(log)[1] == (b"k", None)
    machine.run(compact(log, first_dirty=first_dirty, now_ms=1_001 + TEN_SECONDS))
    assert 1 not in records_of(log)
    assert records_of(log)[2] == (b"other", b"stays")
    assert log.log_end_offset == 9


def test_nothing_beyond_the_safe_end_counts(machine: Any) -> None:
    log = filled(machine)
    before = records_of(log)
    for safe_end in range(0, log.log_end_offset, 5):
        first_dirty = machine.run(compact(log, safe_end=safe_end))
        assert first_dirty <= safe_end
        committed = {at: record for at, record in before.items() if at < safe_end}
        after = {at: record for at, record in records_of(log).items() if at < safe_end}
        assert newest_of(after) == newest_of(committed)


@pytest.mark.parametrize("keys_max", [1, 2, 5])
def test_keys_without_room_in_the_map_are_cleaned_by_later_passes(
    keys_max: int, machine: Any
) -> None:
    log = filled(machine)
    before = records_of(log)
    first_dirty, ends = 0, []
    while first_dirty < log.segments[-1].base_offset:
        first_dirty = machine.run(compact(log, first_dirty=first_dirty, keys_max=keys_max))
        ends.append(first_dirty)
        assert newest_of(records_of(log)) == newest_of(before)
    assert len(ends) > 1
    assert sorted(set(ends)) == ends
    keys = [key for at, (key, _) in records_of(log).items() if at < first_dirty]
    assert len(keys) - len(set(keys)) == 0


@pytest.mark.parametrize("is_active", [True, False])
def test_an_active_producers_last_batch_is_kept_without_records(
    machine: Any, is_active: bool
) -> None:
    log = machine.open()[0]
    for sequence in range(8):
        header = parse_header(build_batch([(b"k", b"v", 1)]))
        body = build_batch([(b"k", b"v", 1)])[HEADER_BYTES:]
        own = header._replace(
            base_offset=sequence,
            leader_epoch=0,
            producer_id=7,
            producer_epoch=0,
            base_sequence=sequence,
        )
        log.append_as_follower(encode_batch(own, body), 0)
    for number in range(4):
        produce(log, (b"k", b"new" + b"." * 60))
        del number
    machine.run(log.flush())
    machine.run(compact(log, remembers=lambda producer_id: is_active and producer_id == 7))
    headers = [batch.header for batch in batches_of(log) if batch.header.producer_id == 7]
    kept = [(7, 7, 0)] if is_active else []
    assert [(h.base_offset, h.base_sequence, h.record_count) for h in headers] == kept


def test_a_record_without_a_key_is_refused_and_an_old_one_stays(machine: Any) -> None:
    log = machine.open()[0]
    log.config = LogConfig(segment_bytes=300)
    for _ in range(5):
        log.append_as_leader(build_batch([(None, b"v" * 60, 1)]), LeaderEpoch(0), 0)
    machine.run(log.flush())
    log.config = COMPACTED
    for codec in (0, 1):
        header = parse_header(build_batch([(b"k", b"v", 1)]))._replace(attributes=codec)
        body = build_batch([(None, b"v", 1)])[HEADER_BYTES:]
        with pytest.raises(LogRefused) as refused:
            log.append_as_leader(encode_batch(header, packed(codec, body)), LeaderEpoch(0), 0)
        assert refused.value.error is ErrorCode.INVALID_RECORD
    with pytest.raises(LogRefused) as refused:
        log.append_as_leader(encode_batch(header, b"no gzip"), LeaderEpoch(0), 0)
    assert refused.value.error is ErrorCode.CORRUPT_MESSAGE
    before = records_of(log)
    machine.run(compact(log))
    assert records_of(log) == before


def test_a_reader_of_a_segment_that_is_replaced_reads_on(machine: Any) -> None:
    log = filled(machine)
    view = log.read(Offset(0), 1 << 20, log.log_end_offset).records
    data = view.read()
    lookup = log.look_up_timestamp(1_000)
    machine.run(compact(log))
    assert view.read() == data
    found = finish(lookup)
    assert found is not None
    assert (found.timestamp, found.offset) == (1_000, min(records_of(log)))


def test_a_record_is_found_by_its_time_where_it_lies(machine: Any) -> None:
    log = machine.open()[0]
    for base in range(0, 60, 2):
        records = [
            (b"again", b"v", base),
            (b"own-%d" % base, None if base == 8 else b"v", base + 1),
        ]
        log.append_as_leader(build_batch(records), LeaderEpoch(0), 0)
    machine.run(log.flush())
    machine.run(compact(log, now_ms=1_000))
    for timestamp in range(40):
        offset = timestamp | 1  # the first record of its batch is gone
        assert finish(log.look_up_timestamp(timestamp)) == (offset, offset, 0)


def test_a_log_that_is_cut_within_a_compacted_segment_grows_again(machine: Any) -> None:
    log = filled(machine)
    machine.run(compact(log))
    segment = log.segments[0]
    middle = next(h.base_offset for _, h in list(segment.batches())[1:])
    log.truncate_to(Offset(middle))
    assert log.log_end_offset == middle
    produce(log, (b"new", b"v"), epoch=5)
    machine.run(log.flush())
    machine.crash()
    again, report = machine.open()
    assert (again.log_end_offset, report.repairs) == (middle + 1, ())
    assert records_of(again)[middle] == (b"new", b"v")


class Died(Exception):
    """The machine went down before this effect."""


class CountedFiles(SimulatedFileSystem):
    """A file system that counts its operations, and dies before the n-th."""

    left = 10**9
    done: tuple[str, ...] = ()

    def effect(self, what: str = "") -> None:
        if self.left == 0:
            raise Died
        self.left -= 1
        self.done += (what,)

    def open(self, path: str) -> CountedFile:
        self.effect()
        file = super().open(path)
        counted = CountedFile(file._runtime, file._disk, path, file._node)
        counted.files = self
        return counted

    def rename(self, source: str, target: str) -> None:
        self.effect(f"rename to {target[-4:]}")
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self.effect(f"remove {path[-4:]}")
        super().remove(path)

    async def sync_folder(self, path: str) -> None:
        self.effect("sync folder")
        await super().sync_folder(path)


class CountedFile(SimulatedFile):
    files: CountedFiles

    def append(self, buffers: Sequence[Buffer]) -> int:
        self.files.effect()
        return super().append(buffers)

    def truncate(self, size_bytes: int) -> None:
        self.files.effect()
        super().truncate(size_bytes)

    async def sync(self) -> None:
        self.files.effect("sync file")
        await super().sync()


@pytest.mark.parametrize("way", ["crash", "lose_power", "lose_some"])
def test_wherever_a_pass_ends_nothing_of_the_newest_is_lost(way: str, new_machine: Any) -> None:
    died = 0
    for effects in range(200):
        machine = new_machine(COMPACTED)
        filled(machine, 9)
        machine.crash()
        files = CountedFiles(machine.runtime, machine.disk)
        machine.files = files
        log: Log = machine.open()[0]
        before, end = records_of(log), log.log_end_offset
        machine.run(log.flush())
        log.config, segments = LARGER, len(log.segments)
        files.left = effects
        has_died = machine.run(dies(log))
        down(machine, way)
        again, report = machine.open(recovery_point=end)
        assert (report.log_end_offset, report.has_lost_batches) == (end, False), report
        after = records_of(again)
        assert newest_of(after) == newest_of(before)
        assert after.items() <= before.items()
        assert machine.names(CLEANED_SUFFIX) == []
        assert len(machine.names(".log")) == len(again.segments)
        again.config = LARGER
        first_dirty = machine.run(compact(again))
        assert len(again.segments) < segments
        assert first_dirty == again.segments[-1].base_offset
        assert newest_of(records_of(again)) == newest_of(before)
        died += has_died
        if not has_died:
            break
    else:
        pytest.fail("a pass has no end")
    assert died > 12


def test_names_go_once_the_one_that_took_their_place_is_on_the_disk(machine: Any) -> None:
    """The simulated disk keeps the order of changed names; not every file system does."""
    filled(machine, 9)
    machine.crash()
    files = CountedFiles(machine.runtime, machine.disk)
    machine.files = files
    log: Log = machine.open()[0]
    machine.run(log.flush())
    log.config, files.done = LARGER, ()
    machine.run(compact(log))
    told = [each for each in files.done if each.endswith((".log", "sync file", "sync folder"))]
    first = ["sync file", "rename to .log", "sync folder", "remove .log", "remove .log"]
    assert told[: len(first)] == first


async def dies(log: Log) -> bool:
    try:
        await compact(log)
    except Died:
        return True
    return False


def down(machine: Any, way: str) -> None:
    if way == "lose_some":
        machine.runtime.kill()
        machine.disk.lose_power()
        machine._boot()
    else:
        getattr(machine, way)()


keys = st.sampled_from([b"a", b"b", b"c", b""])
appends = st.lists(
    st.lists(st.tuples(keys, st.none() | st.binary(max_size=60)), min_size=1, max_size=4),
    min_size=1,
    max_size=25,
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(appends=appends, seed=st.integers(0, 2**32))
def test_the_newest_record_of_each_key_stays(
    appends: list[list[tuple[bytes, bytes | None]]], seed: int, new_machine: Any
) -> None:
    machine = new_machine(COMPACTED)
    log: Log = machine.open()[0]
    everything: Found = {}
    first_dirty = 0
    for number, records in enumerate(appends):
        everything |= dict(enumerate(records, log.log_end_offset))
        produce(log, *records, epoch=number // 8)
        if seed >> number & 1:
            machine.run(log.flush())
            first_dirty = machine.run(
                compact(log, first_dirty=first_dirty, now_ms=number * 4_000, keys_max=2)
            )
            found = records_of(log)
            assert found.items() <= everything.items()
            assert newest_of(found) == newest_of(everything)
    machine.run(log.flush())
    machine.crash()
    again, report = machine.open()
    assert (report.repairs, again.log_end_offset) == ((), log.log_end_offset)
    assert records_of(again) == records_of(log)
