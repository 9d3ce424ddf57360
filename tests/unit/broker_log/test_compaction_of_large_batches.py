"""Compaction of batches with many records: they are read one after another, and noted in parts."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from highwater_broker.log.compaction import RECORDS_PER_STEP, Rewriting, rewrite, take_notes
from highwater_broker.log.log import Log
from highwater_broker.log.log_config import LogConfig
from highwater_broker.logic.compaction import dirty_part
from highwater_core.ids import LeaderEpoch
from highwater_wire.kafka.compacted_batch import CompactedBatch, stored_records
from highwater_wire.kafka.record_batch import HEADER_BYTES, build_batch, encode_batch, parse_header
from tests.unit.broker_log.test_log_compaction import (
    TEN_SECONDS,
    batches_of,
    compact,
    newest_of,
    produce,
    records_of,
)

CONFIG = LogConfig(cleanup_policy="compact", segment_bytes=1 << 20, index_interval_bytes=0)


@pytest.fixture
def machine(new_machine: Any) -> Any:
    return new_machine(CONFIG)


def one_record(key: bytes) -> bytes:
    return build_batch([(key, b"v", 1_000)])


def marked_batch() -> bytes:
    """Return a batch of two tombstones at 2 and 3 whose horizon is over after ten seconds."""
    plain = build_batch([(b"a", None, 1_000), (b"b", None, 1_000)], base_offset=2, leader_epoch=0)
    header = parse_header(plain)
    batch = CompactedBatch(header, TEN_SECONDS)
    for record in stored_records(header, plain):
        batch.add(record)
    return batch.encoded()


def with_batches(machine: Any, *batches: list[tuple[bytes, bytes | None]]) -> Log:
    """Return a log of these batches, in segments that may be compacted."""
    log: Log = machine.open()[0]
    for batch in batches:
        produce(log, *batch)
    log.config = LogConfig(cleanup_policy="compact", segment_bytes=100, index_interval_bytes=0)
    produce(log, (b"next segment", b"v"))
    machine.run(log.flush())
    log.config = CONFIG
    return log


def test_a_batch_of_many_records_is_noted_and_rewritten_without_a_list_of_them(
    machine: Any,
) -> None:
    """Each record alone takes some hundred bytes in memory."""
    count = 2 * RECORDS_PER_STEP
    log = with_batches(machine, [(b"k%d" % (number % 7), b"v") for number in range(count)])
    part = dirty_part(log.segments, 0, safe_end_offset=count, newest_timestamp_ms=None)
    steps = 0
    tracemalloc.start()
    try:
        notes = None
        work: Any = take_notes(log.segments[:], part, 100)
        while notes is None:
            try:
                next(work)
                steps += 1
            except StopIteration as end:
                notes = end.value
        rewriting = Rewriting(notes, 0, TEN_SECONDS, lambda *_: None, lambda _: True)
        work = rewrite(log.segments[:1], lambda at: log.segments.begin_cleaned(at, 0), rewriting)
        steps += sum(1 for _ in work)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rewriting.removed_records == count - 7
    assert steps > 3 * count // RECORDS_PER_STEP
    assert peak_bytes < 100 * count


@pytest.mark.parametrize(
    ("keys_max", "size"), [(1, 10), (3, 60), (40, 60), (100, 60), (30, RECORDS_PER_STEP + 100)]
)
def test_keys_of_one_batch_without_room_are_cleaned_by_later_passes(
    machine: Any, keys_max: int, size: int
) -> None:
    first = [(b"k%d" % number, b"old") for number in range(50)]
    second = [(b"k%d" % (number * 7 % 55), b"v%d" % number) for number in range(size)]
    log = with_batches(machine, first, second)
    before = records_of(log)
    first_dirty, ends = 0, []
    while first_dirty < log.segments[-1].base_offset:
        first_dirty = machine.run(compact(log, first_dirty=first_dirty, keys_max=keys_max))
        ends.append(first_dirty)
        assert newest_of(records_of(log)) == newest_of(before)
    assert sorted(set(ends)) == ends
    assert 50 // keys_max <= len(ends) <= (50 + size) // keys_max + 1
    keys = [key for at, (key, _) in records_of(log).items() if at < first_dirty]
    assert len(keys) == len(set(keys))


def test_a_tombstone_beyond_the_notes_stays_while_older_records_of_its_key_do(
    machine: Any,
) -> None:
    """Its time begins with the pass that removes them."""
    log = with_batches(
        machine,
        [(b"a", b"v"), (b"b", b"v"), (b"c", b"v")],
        [(b"a", None), (b"c", b"w"), (b"b", None)],
    )

    def horizons() -> list[int | None]:
        return [batch.header.delete_horizon_ms for batch in batches_of(log)]

    first_dirty = machine.run(compact(log, first_dirty=3, keys_max=2, now_ms=1_000))
    assert first_dirty == 5
    assert horizons() == [None] * 3
    assert [key for key, _ in records_of(log).values()][:4] == [b"b", b"a", b"c", b"b"]
    first_dirty = machine.run(compact(log, first_dirty=5, keys_max=2, now_ms=9 * TEN_SECONDS))
    assert horizons()[1:] == [10 * TEN_SECONDS, None]
    assert [key for key, _ in records_of(log).values()][:3] == [b"a", b"c", b"b"]
    machine.run(compact(log, first_dirty=first_dirty, now_ms=10 * TEN_SECONDS + 1))
    assert [key for key, _ in records_of(log).values()][:1] == [b"c"]


def test_a_tombstone_beyond_the_notes_stays_beyond_its_batchs_horizon(machine: Any) -> None:
    """A leader's compacted batch, copied by a follower with older records of the key."""
    log: Log = machine.open()[0]
    produce(log, (b"a", b"v"), (b"b", b"v"))
    log.append_as_follower(marked_batch(), 0)
    produce(log, (b"filler", b"." * 60))
    log.config = LogConfig(cleanup_policy="compact", segment_bytes=100, index_interval_bytes=0)
    produce(log, (b"next segment", b"v"))
    machine.run(log.flush())
    machine.run(compact(log, first_dirty=2, keys_max=1, now_ms=9 * TEN_SECONDS))
    assert [key for key, _ in records_of(log).values()][:2] == [b"b", b"b"]
    machine.run(compact(log, first_dirty=3, now_ms=9 * TEN_SECONDS))
    assert b"b" not in [key for key, _ in records_of(log).values()]


def test_forged_offsets_do_not_keep_the_cleaner_at_one_place(machine: Any) -> None:
    """All records of a batch claim its first offset."""
    log: Log = machine.open()[0]
    one = one_record(b"k")
    body = b"".join(one_record(b"k%d" % number)[HEADER_BYTES:] for number in range(9))
    header = parse_header(one)._replace(record_count=9, last_offset_delta=8)
    log.append_as_leader(encode_batch(header, body), LeaderEpoch(0), 0)
    log.config = LogConfig(cleanup_policy="compact", segment_bytes=100, index_interval_bytes=0)
    produce(log, (b"next segment", b"v"))
    machine.run(log.flush())
    first_dirty, ends = 0, []
    for _ in range(2):
        first_dirty = machine.run(compact(log, first_dirty=first_dirty, keys_max=2))
        ends.append(first_dirty)
    assert ends == [1, 9]
