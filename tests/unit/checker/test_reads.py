"""I9: consumers read the logs' records, and all of them."""

from __future__ import annotations

from dataclasses import replace

from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from highwater_checker.history import HistoryEvent, OperationType
from highwater_checker.invariants.reads import check_reads
from highwater_checker.segments import Batch, ReplicaLog


def log_of(*values: str, high_watermark: int | None = None) -> ReplicaLog:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1_000_000)
    for index, value in enumerate(values):
        builder.append(index, timestamp=1, key=None, value=value.encode(), headers=[])
    data = bytes(builder.build())
    batch = Batch(0, DefaultRecordBatch(data).next_offset, 0, data)
    return ReplicaLog(
        4, "t", 0, (batch,), len(values) if high_watermark is None else high_watermark
    )


def read(
    offset: int, value: str, kind: OperationType = OperationType.OK, function: str = "poll"
) -> HistoryEvent:
    return HistoryEvent(0, kind, 0, "c0", function, "t", 0, value, offset)


ALL_READ = [read(0, "a"), read(1, "b")]


def test_a_read_record_that_replicas_hold_passes() -> None:
    result = check_reads(ALL_READ, [log_of("a", "b")])
    assert (result.examined, result.findings) == (2, ())


def test_a_record_that_was_read_and_is_gone_or_another_is_found() -> None:
    findings = check_reads(ALL_READ, [log_of("a", "x")]).findings
    assert [(each.invariant, each.offset, each.operation) for each in findings] == [
        ("I9", 1, "c0's poll 0")
    ]
    assert check_reads(ALL_READ, [log_of("a")]).findings[0].message.endswith("holds nothing")


def test_an_offset_that_was_read_twice_with_different_values_is_found() -> None:
    findings = check_reads([*ALL_READ, read(1, "c")], [log_of("a", "b")]).findings
    assert [each.message for each in findings] == ["read 'b', then 'c'"]


def test_a_record_that_was_never_read_is_found() -> None:
    findings = check_reads([read(0, "a")], [log_of("a", "b")]).findings
    assert [(each.invariant, each.offset) for each in findings] == [("unseen", 1)]


def test_an_uncommitted_record_need_not_be_read() -> None:
    log = log_of("a", "b", "c", high_watermark=2)
    findings = check_reads([read(0, "a")], [log]).findings
    assert [(each.invariant, each.offset) for each in findings] == [("unseen", 1)]


def test_a_killed_consumer_need_not_read_all_but_its_reads_are_checked() -> None:
    log = [log_of("a", "b")]
    assert check_reads([read(0, "a")], log, to_the_end=False).findings == ()
    (finding,) = check_reads([read(0, "x")], log, to_the_end=False).findings
    assert (finding.invariant, finding.offset) == ("I9", 0)


def test_records_below_the_log_start_are_not_looked_for() -> None:
    emptied = ReplicaLog(4, "t", 0, (), 2, log_start_offset=2)
    assert check_reads(ALL_READ, [emptied]).findings == ()


def test_other_partitions_and_other_events_count_for_nothing() -> None:
    events = [*ALL_READ, read(9, "", OperationType.FAIL), read(7, "z", function="send")]
    assert check_reads(events, [log_of("a", "b")]).findings == ()
    assert check_reads(ALL_READ, [log_of("a", "b"), ReplicaLog(4, "t", 1, (), 0)]).findings == ()


def test_a_read_of_another_topic_is_compared_and_need_not_be_whole() -> None:
    other = replace(log_of("x", "y"), topic="u")
    logs = [log_of("a", "b"), other]
    reads = [*ALL_READ, replace(read(0, "z"), topic="u")]
    (finding,) = check_reads(reads, logs, of_topic="t").findings
    assert (finding.invariant, finding.topic, finding.offset) == ("I9", "u", 0)
    assert len(check_reads(reads, logs).findings) == 2
