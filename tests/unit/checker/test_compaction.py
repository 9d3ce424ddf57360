"""Which records compaction may remove from a replica: the checks of I1, I3, I9, I19."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from highwater_checker.history import Acknowledged, HistoryEvent, OperationType
from highwater_checker.invariants.acknowledged_records import check_acknowledged_records
from highwater_checker.invariants.compactions import check_compactions
from highwater_checker.invariants.reads import check_reads
from highwater_checker.invariants.replica_equality import check_replica_equality
from highwater_checker.segments import DamagedLog, ReplicaLog, batches_in, read_batches
from highwater_core.events import EventKind, TraceEvent
from highwater_wire.kafka.compacted_batch import empty_batch
from highwater_wire.kafka.record_batch import build_batch

WRITTEN = ["a", "b", "a", "c", "a", "b"]
"""The keys of the records from offset 0 on; each one's value is its offset."""


def log_of(
    kept: Sequence[int], *, broker: int = 0, high_watermark: int = 6, is_compacted: bool = True
) -> ReplicaLog:
    """Return a log in which these offsets still have their records, in batches of their own."""
    data = b"".join(
        build_batch([(key.encode(), b"%d" % offset, 1)], offset, leader_epoch=1)
        if offset in kept
        else empty_batch(offset, offset, 1)
        for offset, key in enumerate(WRITTEN)
    )
    batches = batches_in([(f"{0:020d}.log", data)])
    return ReplicaLog(broker, "t", 0, batches, high_watermark, is_compacted=is_compacted)


def acknowledged() -> list[Acknowledged]:
    return [
        Acknowledged("t", 0, offset, str(offset), 0, 1, "p0", offset, 1, key=key)
        for offset, key in enumerate(WRITTEN)
    ]


def polled() -> list[HistoryEvent]:
    return [
        HistoryEvent(
            offset, OperationType.OK, offset, "c0", "poll", "t", 0, str(offset), offset, key=key
        )
        for offset, key in enumerate(WRITTEN)
    ]


CASES = [
    ([0, 1, 2, 3, 4, 5], 6, []),
    ([3, 4, 5], 6, []),
    ([1, 3, 4, 5], 6, []),
    ([3, 5], 6, [0, 2, 4]),  # the newest of a key is gone, and so nothing succeeds the others
    ([3, 4], 6, [1, 5]),
    ([3, 4, 5], 5, [1]),  # the newer record of the key is not committed
    ([4, 5], 6, [3]),
]


@pytest.mark.parametrize(("kept", "high_watermark", "missed"), CASES)
def test_an_acknowledged_record_may_be_gone_where_a_newer_one_of_its_key_is(
    kept: list[int], high_watermark: int, missed: list[int]
) -> None:
    log = log_of(kept, high_watermark=high_watermark)
    found = check_acknowledged_records(acknowledged(), [log]).findings
    assert [finding.offset for finding in found] == missed
    assert {finding.invariant for finding in found} <= {"I1"}


@pytest.mark.parametrize(("kept", "high_watermark", "missed"), CASES)
def test_so_may_one_that_was_read(kept: list[int], high_watermark: int, missed: list[int]) -> None:
    log = log_of(kept, high_watermark=high_watermark)
    found = check_reads(polled(), [log]).findings
    assert [finding.offset for finding in found] == missed


@pytest.mark.parametrize(
    ("read", "high_watermark", "unseen"),
    [((3, 4, 5), 6, []), ((3, 4), 6, [5]), ((2, 3, 4), 5, [1])],
)
def test_a_consumer_need_not_read_a_record_with_a_newer_one_of_its_key(
    read: tuple[int, ...], high_watermark: int, unseen: list[int]
) -> None:
    """Found: the leader had compacted it away when the consumer came, another replica had not."""
    log = log_of(range(6), high_watermark=high_watermark)
    found = check_reads([each for each in polled() if each.offset in read], [log]).findings
    assert [(finding.invariant, finding.offset) for finding in found] == [
        ("unseen", each) for each in unseen
    ]


def test_in_a_topic_that_is_not_compacted_nothing_may() -> None:
    log = log_of([3, 4, 5], is_compacted=False)
    assert len(check_acknowledged_records(acknowledged(), [log]).findings) == 3
    assert len(check_reads(polled(), [log]).findings) == 3
    assert len(check_reads(polled()[3:], [log_of(range(6), is_compacted=False)]).findings) == 3
    whole = log_of(range(6), broker=1, is_compacted=False)
    assert len(check_replica_equality([log, whole]).findings) == 1


@pytest.mark.parametrize(
    ("one", "other", "differs_at"),
    [
        ([3, 4, 5], [0, 1, 2, 3, 4, 5], None),
        ([1, 3, 4, 5], [0, 3, 4, 5], None),
        ([4, 5], [3, 4, 5], 3),
        ([1, 3, 4], [3, 4, 5], 5),
        ([0, 3, 5], [3, 4, 5], 4),
    ],
)
def test_replicas_compacted_apart_agree_but_for_superseded_records(
    one: list[int], other: list[int], differs_at: int | None
) -> None:
    result = check_replica_equality([log_of(one), log_of(other, broker=1)])
    assert [finding.offset for finding in result.findings] == [
        offset for offset in (differs_at,) if offset is not None
    ]
    assert result.examined > 0


def test_other_values_at_one_offset_are_a_difference() -> None:
    changed = build_batch([(b"c", b"x", 1)], 3, leader_epoch=1)
    log = log_of([3, 4, 5])
    (batch,) = batches_in([("0.log", changed)])
    batches = (*log.batches[:3], batch, *log.batches[4:])
    other = ReplicaLog(1, "t", 0, batches, 6, is_compacted=True)
    assert [each.offset for each in check_replica_equality([log, other]).findings] == [3]


def test_records_with_equal_values_are_told_apart_by_their_keys_and_epochs() -> None:
    log = log_of([3, 4, 5])
    ((_, _, value),) = log.batches[3].records()
    (batch,) = batches_in([("0.log", build_batch([(b"k", value, 1)], 3, leader_epoch=1))])
    other = ReplicaLog(1, "t", 0, (*log.batches[:3], batch, *log.batches[4:]), 6, is_compacted=True)
    (finding,) = check_replica_equality([log, other]).findings
    assert finding.around == ("keys b'c' and b'k', leader epochs 1 and 1",)


def segment(base_offset: int, count: int) -> tuple[str, bytes]:
    data = b"".join(
        build_batch([(b"k", b"v", 1)], offset) for offset in range(base_offset, base_offset + count)
    )
    return f"t-0/{base_offset:020d}.log", data


def test_a_segment_that_was_compacted_into_the_one_before_it_is_no_part_of_the_log() -> None:
    segments = [segment(0, 6), segment(2, 2), segment(4, 2), segment(6, 1)]
    assert [batch.base_offset for batch in batches_in(segments)] == list(range(7))
    with pytest.raises(DamagedLog):
        batches_in([segment(0, 6), segment(2, 2), segment(7, 1)])


def renamed(segment: tuple[str, bytes], base_offset: int) -> tuple[str, bytes]:
    return f"t-0/{base_offset:020d}.log", segment[1]


@pytest.mark.parametrize("is_compacted", [True, False])
@pytest.mark.parametrize(
    "segments",
    [
        [renamed(segment(0, 2), 1)],
        [segment(0, 2), renamed(segment(2, 2), 3)],
        [segment(0, 2), renamed(segment(2, 2), 1)],
        [segment(0, 2), segment(1, 0)],
    ],
    ids=["first above", "second above", "second within the first", "empty one within the first"],
)
def test_a_segment_that_is_named_by_another_offset_is_found(
    segments: list[tuple[str, bytes]], is_compacted: bool
) -> None:
    """Found: brokers look for offsets by the names of files, and the judge never read them."""
    with pytest.raises(DamagedLog, match="named"):
        batches_in(segments, is_compacted=is_compacted)


def test_compaction_alone_lets_a_segment_begin_above_its_name() -> None:
    segments = [renamed(segment(3, 2), 1), segment(5, 1), segment(6, 0)]
    assert [batch.base_offset for batch in batches_in(segments)] == [3, 4, 5]
    with pytest.raises(DamagedLog, match="named by its first offset, which is 3"):
        batches_in(segments, is_compacted=False)


def test_files_of_a_pass_that_did_not_end_are_not_read(tmp_path: Path) -> None:
    for name, data in (segment(0, 2), (f"t-0/{0:020d}.cleaned", b"half a ba")):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    assert len(read_batches(tmp_path / "t-0")) == 2


def event(kind: EventKind, ts_ns: int, offset: int, node: int = 1, **detail: int) -> TraceEvent:
    return TraceEvent(ts_ns, node, 1, ts_ns, kind, "t", 0, 1, 1, offset, detail)


COMPACTED, ADVANCED = EventKind.LOG_COMPACTED, EventKind.HIGH_WATERMARK_ADVANCED


@pytest.mark.parametrize(
    ("events", "examined", "found"),
    [
        ([event(ADVANCED, 1, 10), event(COMPACTED, 2, 9, 2, dirty_end=10)], 1, []),
        ([event(ADVANCED, 1, 10), event(COMPACTED, 2, 9, 2, dirty_end=11)], 1, [11]),
        ([event(ADVANCED, 3, 11), event(COMPACTED, 2, 9, 2, dirty_end=11)], 0, []),
        (
            [event(ADVANCED, 1, 3), event(ADVANCED, 3, 11), event(COMPACTED, 2, 9, dirty_end=11)],
            1,
            [11],
        ),
        ([event(COMPACTED, 1, 9, dirty_end=11), event(ADVANCED, 1, 11)], 1, []),
        (
            [
                event(EventKind.BECAME_LEADER, 1, 20, high_watermark=11),
                event(COMPACTED, 2, 9, dirty_end=11),
            ],
            1,
            [],
        ),
    ],
)
def test_an_uncommitted_record_removes_no_older_one(
    events: list[TraceEvent], examined: int, found: list[int]
) -> None:
    result = check_compactions(events)
    assert result.examined == examined
    assert [finding.offset for finding in result.findings] == found


def test_a_segment_that_compaction_left_behind_must_decode_all_the_same() -> None:
    left = (f"{2:020d}.log", b"garbage")
    with pytest.raises(DamagedLog, match="torn batch header"):
        batches_in([segment(0, 6), left, segment(6, 1)])
