"""Logs read for people: every field of a batch, up to the first damage."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from highwater_checker.segment_diff import DifferingRange, compare_logs
from highwater_checker.segment_dump import dump, records_of
from highwater_checker.segments import Batch, UnreadableRecords, batches_of
from highwater_wire.kafka.record_batch import build_batch
from tests.support.batches import without_records

FIRST, SECOND = "00000000000000000000.log", "00000000000000000003.log"


def batch(offset: int, *values: bytes, leader_epoch: int = 0) -> bytes:
    return build_batch([(None, value, 1_000) for value in values], offset, leader_epoch)


def log(*batches: bytes) -> list[Batch]:
    return list(batches_of("log", b"".join(batches)))


def by_kafka_python() -> bytes:
    """Return the batch of an idempotent producer at offset 3, of two records, in gzip."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=1,
        is_transactional=False,
        producer_id=7,
        producer_epoch=2,
        base_sequence=41,
        batch_size=1 << 20,
    )
    builder.append(0, 5_000, b"k", b"v" * 200, [("h", b"\xff")])
    builder.append(1, 6_000, None, None, [])
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, 3)
    return bytes(data)


def test_every_field_of_a_batch_is_told_segment_by_segment(tmp_path: Path) -> None:
    first = batch(0, b"a", b"b") + batch(2, b"c", leader_epoch=1)
    (tmp_path / FIRST).write_bytes(first)
    (tmp_path / SECOND).write_bytes(by_kafka_python())
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"not a segment")
    found = dump(tmp_path)
    assert found.damage == ""
    told = [facts for facts, _ in found.batches]
    assert [(each.segment, each.base_offset, each.last_offset) for each in told] == [
        (FIRST, 0, 1),
        (FIRST, 2, 2),
        (SECOND, 3, 4),
    ]
    assert [each.position_bytes for each in told] == [0, len(batch(0, b"a", b"b")), 0]
    assert [each.leader_epoch for each in told] == [0, 1, 0]
    last = told[-1]
    assert (last.records, last.codec, last.size_bytes) == (2, "gzip", len(by_kafka_python()))
    assert (last.first_timestamp_ms, last.max_timestamp_ms) == (5_000, 6_000)
    assert (last.producer_id, last.producer_epoch, last.base_sequence) == (7, 2, 41)
    records = list(records_of(found.batches[-1][1]))
    assert [(r.offset, r.timestamp_ms, r.key, r.value) for r in records] == [
        (3, 5_000, b"k", b"v" * 200),
        (4, 6_000, None, None),
    ]
    assert records[0].headers == (("h", b"\xff"),)


@pytest.mark.parametrize(
    ("data", "told", "damage"),
    [
        (
            batch(0, b"a") + b"\0\0\0",
            1,
            f"{FIRST}: torn batch header at byte {len(batch(0, b'a'))}",
        ),
        (batch(0, b"a")[:-1], 0, f"{FIRST}: torn batch at byte 0"),
        (batch(0, b"a") + batch(2, b"c"), 1, f"{FIRST}: batch at 2 after one that ends at 1"),
        (b"", 0, ""),
    ],
    ids=["torn header", "torn batch", "a gap", "empty"],
)
def test_batches_up_to_the_damage_are_told(
    tmp_path: Path, data: bytes, told: int, damage: str
) -> None:
    (tmp_path / FIRST).write_bytes(data)
    found = dump(tmp_path)
    assert (len(found.batches), found.damage) == (told, damage)


def test_a_segment_that_was_compacted_into_the_one_before_it_is_left_out(tmp_path: Path) -> None:
    """Found: its old records came back, and a replica without the file differed."""
    (tmp_path / FIRST).write_bytes(batch(0, b"a", b"b", b"new"))
    (tmp_path / "00000000000000000002.log").write_bytes(batch(2, b"old"))
    (tmp_path / SECOND).write_bytes(batch(3, b"d"))
    found = dump(tmp_path)
    assert found.damage == ""
    assert [facts.segment for facts, _ in found.batches] == [FIRST, SECOND]


def test_one_segment_may_be_read_alone(tmp_path: Path) -> None:
    (tmp_path / FIRST).write_bytes(batch(0, b"a"))
    (tmp_path / SECOND).write_bytes(batch(3, b"d"))
    assert [facts.base_offset for facts, _ in dump(tmp_path / SECOND).batches] == [3]


def test_records_that_cannot_be_decoded_are_refused() -> None:
    (garbled,) = log(without_records(batch(0, b"a" * 20)))
    with pytest.raises(UnreadableRecords):
        list(records_of(garbled))


A, B, C = batch(0, b"a"), batch(1, b"b"), batch(2, b"c")
OTHER_C = batch(2, b"x", leader_epoch=1)


def spans(ranges: tuple[DifferingRange, ...]) -> list[tuple[int, int, bool]]:
    return [(each.start_offset, each.end_offset, each.is_of_presence_alone) for each in ranges]


@pytest.mark.parametrize(
    ("logs", "ranges", "are_equal"),
    [
        ([(A, B, C), (A, B, C)], [], True),
        ([(), ()], [], True),
        ([(A, B, C), (A,)], [(1, 3, True)], False),
        ([(B, C), (A, B, C)], [(0, 1, True)], False),
        ([(A, B, C), (A, B, OTHER_C)], [(2, 3, False)], False),
        ([(A, B, C), (A, B, OTHER_C), (A,)], [(1, 2, True), (2, 3, False)], False),
        ([(A, C), (A, B, C)], [(1, 2, True)], False),
        ([(A, B), (batch(0, b"a", b"b"),)], [], False),
        ([(A, B), (A, batch(1, b"b", leader_epoch=1))], [(1, 2, False)], False),
    ],
    ids=[
        "equal",
        "empty",
        "a shorter end",
        "a later start",
        "another record",
        "three logs",
        "a hole",
        "other borders of batches",
        "another leader epoch alone",
    ],
)
def test_differing_offsets_are_told_in_ranges(
    logs: list[tuple[bytes, ...]], ranges: list[tuple[int, int, bool]], *, are_equal: bool
) -> None:
    compared = compare_logs([log(*each) for each in logs])
    assert (spans(compared.ranges), compared.are_equal) == (ranges, are_equal)


def test_a_range_has_each_logs_record_at_its_start() -> None:
    (found,) = compare_logs([log(A, B, C), log(A, B, OTHER_C), log(A, B)]).ranges
    values = [held and (held.leader_epoch, held.record.value) for held in found.held]
    assert values == [(0, b"c"), (1, b"x"), None]


def test_a_batch_that_cannot_be_decoded_differs_and_says_why() -> None:
    (found,) = compare_logs([log(A), log(without_records(batch(0, b"a" * 20)))]).ranges
    assert not found.is_of_presence_alone
    assert [held and held.unreadable != "" for held in found.held] == [False, True]
