"""Duplicates and aborted reads: a record is there once, unless it was sent more than once.

Source: docs/explanation/replication.md, "Histories", "duplicate" and "G1a".
"""

from __future__ import annotations

from collections.abc import Iterable

from highwater_checker.contents import one_of_each_partition, values_by_offset
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.history import Sends
from highwater_checker.segments import ReplicaLog
from highwater_checker.wording import Wording

SENT_ONCE = 1


def check_duplicates(sends: Sends, replicas: Iterable[ReplicaLog]) -> CheckResult:
    """Find records at several offsets that were sent once, and records whose send failed.

    A producer without sequence numbers may have a record there twice if its client retried it
    (tries above 1) or does not report its tries (0: librdkafka retries internally); that is noted.
    A record that was sent once may not be there twice, whatever its outcome. For a send without an
    outcome the invoke's tries count, where the client never retries. A record whose send failed for
    certain may not be there at all. Values are unique; values without a known send are noted: their
    client may have been killed before it wrote its history.
    """
    operations = {each.value: (each.operation, each.tries) for each in sends.acknowledged}
    for unknown in sends.unknown:
        operations[unknown.value] = unknown.operation, unknown.tries
    failed = {each.value: each.operation for each in sends.failed}
    findings: list[Finding] = []
    examined = retried = strange = 0
    for replica in one_of_each_partition(replicas):
        for value, offsets in _offsets_by_value(replica).items():
            examined += 1
            operation, tries = operations.get(value, ("", 0))
            if value in failed:
                what = Wording.ABORTED_READ.filled(value=value, offsets=offsets)
                findings.append(_finding("aborted-read", replica, offsets[0], failed[value], what))
            elif len(offsets) > 1 and tries == SENT_ONCE:
                what = Wording.DUPLICATE.filled(value=value, offsets=offsets)
                findings.append(_finding("duplicate", replica, offsets[1], operation, what))
            elif value in operations:
                retried += len(offsets) - 1
            else:
                strange += 1
    return CheckResult(
        "what was sent once is there once",
        examined,
        tuple(findings),
        (("retry duplicates", retried), ("of no known send", strange)),
    )


def _offsets_by_value(replica: ReplicaLog) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for offset, value in values_by_offset(replica).items():
        found.setdefault(value, []).append(offset)
    return found


def _finding(
    invariant: str, replica: ReplicaLog, offset: int, operation: str, message: str
) -> Finding:
    return Finding(
        invariant,
        message,
        replica.topic,
        replica.partition,
        offset,
        replica.broker_id,
        operation,
    )
