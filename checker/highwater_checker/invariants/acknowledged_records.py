"""I1: every acknowledged record is at its acknowledged offset on every given replica."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from highwater_checker.compaction import is_succeeded, newest_of_keys
from highwater_checker.contents import values_by_offset
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.history import Acknowledged
from highwater_checker.segments import ReplicaLog
from highwater_checker.wording import Wording

CHECK = "acknowledged records are on every replica (I1)"


def check_acknowledged_records(
    acknowledged: Sequence[Acknowledged], replicas: Iterable[ReplicaLog]
) -> CheckResult:
    """Find acknowledged records that a replica lacks or has at another offset.

    duplicates.py checks for records that are there twice. Records below a replica's
    log_start_offset were removed by retention and are not required. A replica out of the ISR need
    not have the records from its log end on: it had not fetched them. In a compacted topic a record
    may be gone if the replica has a newer one of its key below the high watermark.
    Source: docs/reference/invariants.md, I1.
    """
    findings: list[Finding] = []
    examined = 0
    of_partition: dict[tuple[str, int], list[Acknowledged]] = {}
    replica_list = list(replicas)
    held = {(replica.topic, replica.partition) for replica in replica_list}
    for ack in acknowledged:
        of_partition.setdefault((ack.topic, ack.partition), []).append(ack)
        if (ack.topic, ack.partition) not in held:
            findings.append(_finding(ack, Wording.UNREAD.filled(value=ack.value)))
    for replica in replica_list:
        values, newest = values_by_offset(replica), newest_of_keys([replica])
        for ack in of_partition.get((replica.topic, replica.partition), ()):
            if not replica.must_hold(ack.offset):
                continue
            examined += 1
            found = values.get(ack.offset)
            if found is None and is_succeeded(ack.key.encode(), ack.offset, newest):
                continue
            if found != ack.value:
                what = Wording.LOST.filled(value=ack.value, held=found)
                findings.append(_finding(ack, what, replica.broker_id))
    return CheckResult(
        check=CHECK,
        examined=examined,
        findings=tuple(findings),
    )


def _finding(ack: Acknowledged, message: str, broker: int = -1) -> Finding:
    return Finding(
        invariant="I1",
        message=message,
        topic=ack.topic,
        partition=ack.partition,
        offset=ack.offset,
        broker=broker,
        operation=ack.operation,
    )
