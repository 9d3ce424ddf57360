"""I3: replicas hold byte-equal batches from the highest log start to the lowest high watermark."""

from __future__ import annotations

from collections.abc import Sequence

from highwater_checker.compaction import is_succeeded, newest_of_keys
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.segments import Batch, ReplicaLog
from highwater_checker.wording import Wording

CHECK = "replicas are byte-equal (I3)"
_BYTES_SHOWN = 8

_Record = tuple[int, bytes | None, bytes | None]
"""The epoch that it was written in, its key and its value."""


def check_replica_equality(replicas: Sequence[ReplicaLog]) -> CheckResult:
    """Compare the replicas of one partition; the first difference between each pair is reported.

    A batch counts when it lies wholly in the compared range. Of a compacted topic records are
    compared, not bytes: each that both have is the same, and one of them alone may have a record
    that a newer one of its key succeeds.
    Source: docs/explanation/replication.md, "Invariants", I3.
    """
    findings: list[Finding] = []
    examined = 0
    if len(replicas) > 1:
        start_offset = max(replica.log_start_offset for replica in replicas)
        end_offset = min(replica.high_watermark for replica in replicas)
        reference = replicas[0]
        expected = _in_range(reference, start_offset, end_offset)
        for replica in replicas[1:]:
            if replica.is_compacted:
                counted, different = _compacted(reference, replica, start_offset, end_offset)
                examined += counted
                findings += different
                continue
            found = _in_range(replica, start_offset, end_offset)
            examined += max(len(expected), len(found))
            difference = _first_difference(expected, found)
            if difference is not None:
                findings.append(_finding(reference, replica, *difference))
    return CheckResult(CHECK, examined, tuple(findings))


def check_high_watermarks_are_held(
    replicas: Sequence[ReplicaLog], seen_ns: int | None = None
) -> CheckResult:
    """Find replicas whose log ends below their high watermark (I4: HW <= LEO).

    seen_ns: the time of the look that told the high watermarks.
    """
    findings = tuple(
        Finding(
            invariant="I4",
            message=Wording.ENDS_BELOW_HIGH_WATERMARK.filled(
                node=r.broker_id, offset=r.log_end_offset, high_watermark=r.high_watermark
            ),
            topic=r.topic,
            partition=r.partition,
            offset=r.log_end_offset,
            looks=() if seen_ns is None else (seen_ns,),
        )
        for r in replicas
        if r.log_end_offset < r.high_watermark
    )
    return CheckResult("log start <= HW <= LEO (I4)", len(replicas), findings)


def _in_range(replica: ReplicaLog, start_offset: int, end_offset: int) -> list[Batch]:
    return [
        batch
        for batch in replica.batches
        if batch.base_offset >= start_offset and batch.next_offset <= end_offset
    ]


def _first_difference(
    expected: Sequence[Batch], found: Sequence[Batch]
) -> tuple[Batch | None, Batch | None] | None:
    for index in range(max(len(expected), len(found))):
        left = expected[index] if index < len(expected) else None
        right = found[index] if index < len(found) else None
        if left is None or right is None or left.data != right.data:
            return left, right
    return None


def _compacted(
    left: ReplicaLog, right: ReplicaLog, start_offset: int, end_offset: int
) -> tuple[int, list[Finding]]:
    """Return how many records were compared of two compacted logs, and the first difference."""
    newest = newest_of_keys([left, right])
    expected, found = (_records(log, start_offset, end_offset) for log in (left, right))
    either = expected | found
    for offset in sorted(either):
        key = either[offset][1]
        are_both_there = offset in expected and offset in found
        if expected.get(offset) == found.get(offset):
            continue
        if are_both_there or not is_succeeded(key, offset, newest):
            one, other = _batch_at(left, offset), _batch_at(right, offset)
            return len(either), [_finding(left, right, one, other, offset)]
    return len(either), []


def _records(replica: ReplicaLog, start_offset: int, end_offset: int) -> dict[int, _Record]:
    return {
        offset: (batch.leader_epoch, key, value)
        for batch in replica.batches
        for offset, key, value in batch.records()
        if start_offset <= offset < end_offset
    }


def _batch_at(replica: ReplicaLog, offset: int) -> Batch | None:
    holding = (each for each in replica.batches if each.base_offset <= offset < each.next_offset)
    return next(holding, None)


def _finding(
    left_log: ReplicaLog,
    right_log: ReplicaLog,
    left: Batch | None,
    right: Batch | None,
    offset: int | None = None,
) -> Finding:
    if offset is None:
        offset = min(batch.base_offset for batch in (left, right) if batch is not None)
    return Finding(
        invariant="I3",
        message=Wording.UNLIKE.filled(
            reference=left_log.broker_id, expected=left, node=right_log.broker_id, found=right
        ),
        topic=left_log.topic,
        partition=left_log.partition,
        offset=offset,
        around=_first_byte(left, right),
    )


def _first_byte(left: Batch | None, right: Batch | None) -> tuple[str, ...]:
    """Return a line with the first byte at which two batches differ."""
    if left is None or right is None:
        return ()
    both = zip(left.data, right.data, strict=False)
    shorter = min(len(left.data), len(right.data))
    at = next((place for place, (mine, theirs) in enumerate(both) if mine != theirs), shorter)
    mine, theirs = (data[at : at + _BYTES_SHOWN].hex(" ") for data in (left.data, right.data))
    return (f"from byte {at} on: {mine or 'nothing'} against {theirs or 'nothing'}",)
