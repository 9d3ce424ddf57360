"""Duplicates and aborted reads: a record is there once, unless it was sent more than once.

Source: docs/reference/invariants.md, duplicate and aborted-read (G1a).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from highwater_checker.contents import one_of_each_partition, show, values_by_offset
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.history import Acknowledged, HistoryEvent, Sends, nobody
from highwater_checker.segments import ReplicaLog
from highwater_checker.wording import Wording

SENT_ONCE = 1
UNSENT_SHOWN = 20
"""Of the records that nobody sent, how many are named; all of them are counted."""


def anything(value: str) -> bool:
    """Return True: a record with any value may be there without a known send."""
    return True


def of_processes(processes: Iterable[str]) -> Callable[[str], bool]:
    """Return the function that says whether one of the processes may have sent a value."""
    prefixes = tuple(f"{process}-" for process in processes)
    return lambda value: value.startswith(prefixes)


def check_duplicates(
    sends: Sends,
    replicas: Iterable[ReplicaLog],
    is_idempotent: Callable[[str], bool] = nobody,
    may_be_unsent: Callable[[str], bool] = anything,
) -> CheckResult:
    """Find records at several offsets that were sent once, and records whose send failed.

    is_idempotent: called with a process. Its records may not be there twice however often they were
    sent (KIP-98); one whose send failed for certain may not be there at all, as those of others.
    A producer without sequence numbers may have a record there twice if its client retried it
    (tries above 1) or does not report its tries (0: librdkafka retries internally); that is noted.
    A record that was sent once may not be there twice, whatever its outcome. For a send without an
    outcome the invoke's tries count, where the client never retries. A record whose send failed for
    certain may not be there at all. Values are unique; values without a known send are noted: their
    client may have been killed before it wrote its history.

    may_be_unsent: called with a value. Other values without a known send are unread: their records
    were changed on a disk, or are somebody else's, and nothing here tells which. If a changed
    record had been acknowledged, I1 finds it.
    """
    sent: tuple[Acknowledged | HistoryEvent, ...] = (*sends.acknowledged, *sends.unknown)
    operations = {each.value: each for each in sent}
    failed = {each.value: each.operation for each in sends.failed}
    findings: list[Finding] = []
    examined = retried = strange = 0
    unsent: list[str] = []
    for replica in one_of_each_partition(replicas):
        for value, offsets in _offsets_by_value(replica).items():
            examined += 1
            send = operations.get(value)
            if value in failed:
                what = Wording.ABORTED_READ.filled(value=value, offsets=offsets)
                findings.append(_finding("aborted-read", replica, offsets[0], failed[value], what))
            elif send is None:
                strange += 1
                if not may_be_unsent(value):
                    at = f"{replica.topic}-{replica.partition}"
                    unsent.append(f"{at}, offset {offsets[0]}: nobody sent {show(value)}")
            elif len(offsets) > 1 and is_idempotent(send.process):
                what = Wording.REPEATED.filled(value=value, offsets=offsets)
                findings.append(_finding("I20", replica, offsets[1], send.operation, what))
            elif len(offsets) > 1 and send.tries == SENT_ONCE:
                what = Wording.DUPLICATE.filled(value=value, offsets=offsets)
                findings.append(_finding("duplicate", replica, offsets[1], send.operation, what))
            else:
                retried += len(offsets) - 1
    return CheckResult(
        "a record sent once is stored once",
        examined,
        tuple(findings),
        (("retry duplicates", retried), ("of no known send", strange)),
        tuple(unsent[:UNSENT_SHOWN]),
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
