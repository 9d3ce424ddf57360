"""I3: replicas hold byte-equal batches from the highest log start to the lowest high watermark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from highwater_checker.compaction import is_succeeded, newest_of_keys
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.segments import Batch, ReplicaLog
from highwater_checker.wording import Wording
from highwater_core.common_prefix import common_prefix_bytes
from highwater_core.internal_topics import INTERNAL_TOPICS

CHECK = "replicas are byte-equal (I3)"
CHECK_OF_HIGH_WATERMARKS = "log start <= HW <= LEO (I4)"
_BYTES_SHOWN = 8
_CRC_FROM, _CRC_TO = 17, 21
"""The bytes of a batch's CRC, which differs wherever anything behind it does."""


def check_replica_equality(replicas: Sequence[ReplicaLog]) -> CheckResult:
    """Compare the replicas of one partition; the first difference between each pair is reported.

    A batch counts when it is wholly in the compared range. In a compacted topic records are
    compared, not bytes: a record of both replicas must be equal, and one of them may lack a record
    with a newer one of its key, or without a value.
    Source: docs/reference/invariants.md, I3.
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
    """Find replicas whose log starts above, or ends below, their high watermark.

    seen_ns: the time of the look with the high watermarks.
    Source: docs/reference/invariants.md, I4.
    """
    findings = tuple(
        Finding(
            invariant="I4",
            message=wording.filled(offset=offset, high_watermark=replica.high_watermark),
            topic=replica.topic,
            partition=replica.partition,
            offset=offset,
            broker=replica.broker_id,
            looks=() if seen_ns is None else (seen_ns,),
        )
        for replica in replicas
        for wording, offset in _outside(replica)
    )
    return CheckResult(CHECK_OF_HIGH_WATERMARKS, len(replicas), findings)


def _outside(replica: ReplicaLog) -> Iterator[tuple[Wording, int]]:
    """Yield on which side of the log the high watermark lies outside, and that end's offset."""
    if replica.log_start_offset > replica.high_watermark:
        yield Wording.STARTS_ABOVE_HIGH_WATERMARK, replica.log_start_offset
    if replica.log_end_offset < replica.high_watermark:
        yield Wording.ENDS_BELOW_HIGH_WATERMARK, replica.log_end_offset


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
    """Return the number of compared records of two compacted logs, and the first difference."""
    newest = newest_of_keys([left, right])
    expected, found = (_records(log, start_offset, end_offset) for log in (left, right))
    either = expected | found
    for offset in sorted(either):
        one, other = expected.get(offset), found.get(offset)
        are_both_there = one is not None and other is not None
        key, value = either[offset].key, either[offset].value
        may_lack = value is None or is_succeeded(key, offset, newest)
        if one == other or (not are_both_there and may_lack):
            continue
        what = Wording.UNLIKE_RECORD.filled(
            reference=left.broker_id,
            value=one and one.text_of(left.topic),
            offset=offset,
            node=right.broker_id,
            held=other and other.text_of(left.topic),
        )
        unlike = _unlike_parts(one, other)
        return len(either), [
            Finding("I3", what, left.topic, left.partition, offset, right.broker_id, around=unlike)
        ]
    return len(either), []


class _Record(NamedTuple):
    leader_epoch: int
    key: bytes | None
    value: bytes | None

    def text_of(self, topic: str) -> str:
        """Return the value; of the brokers' own topics, which are binary, bytes as escapes."""
        errors = "backslashreplace" if topic in INTERNAL_TOPICS else "replace"
        return (self.value or b"").decode("utf-8", errors)


def _unlike_parts(one: _Record | None, other: _Record | None) -> tuple[str, ...]:
    """Return the keys and leader epochs of two records with equal values, which do not tell."""
    if one is None or other is None or one.value != other.value:
        return ()
    keys = f"keys {one.key!r} and {other.key!r}"
    return (f"{keys}, leader epochs {one.leader_epoch} and {other.leader_epoch}",)


def _records(replica: ReplicaLog, start_offset: int, end_offset: int) -> dict[int, _Record]:
    return {
        offset: _Record(batch.leader_epoch, key, value)
        for batch in replica.batches
        for offset, key, value in batch.records()
        if start_offset <= offset < end_offset
    }


def _finding(
    left_log: ReplicaLog, right_log: ReplicaLog, left: Batch | None, right: Batch | None
) -> Finding:
    offset = min(batch.base_offset for batch in (left, right) if batch is not None)
    return Finding(
        invariant="I3",
        message=Wording.UNLIKE.filled(
            reference=left_log.broker_id, expected=left, node=right_log.broker_id, found=right
        ),
        topic=left_log.topic,
        partition=left_log.partition,
        offset=offset,
        broker=right_log.broker_id,
        around=_first_byte(left, right),
    )


def _first_byte(left: Batch | None, right: Batch | None) -> tuple[str, ...]:
    """Return a line with the first byte at which two batches differ, but for their CRCs."""
    if left is None or right is None:
        return ()
    at = common_prefix_bytes(left.data, right.data)
    if _CRC_FROM <= at < _CRC_TO and left.data[_CRC_TO:] != right.data[_CRC_TO:]:
        at = _CRC_TO + common_prefix_bytes(left.data[_CRC_TO:], right.data[_CRC_TO:])
    mine, theirs = (data[at : at + _BYTES_SHOWN].hex(" ") for data in (left.data, right.data))
    return (f"from byte {at} on: {mine or 'nothing'} against {theirs or 'nothing'}",)
