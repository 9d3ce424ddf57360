"""I1: every acknowledged record lies at its acknowledged offset, on every replica given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from highwater_checker.finding import CheckResult, Finding
from highwater_checker.history import Acknowledged
from highwater_checker.segments import ReplicaLog


def check_acknowledged_records(
    acknowledged: Sequence[Acknowledged], replicas: Iterable[ReplicaLog]
) -> CheckResult:
    """Find acknowledged records that a replica lacks or holds elsewhere.

    Retry duplicates (an acknowledged value at further offsets) are counted, not failed: without
    producer sequences a retried batch may be appended twice. Records below a replica's
    log_start_offset were removed by retention and are not looked for.
    Source: replication.md section 2, I1.
    """
    findings: list[Finding] = []
    duplicates = 0
    examined = 0
    replica_list = list(replicas)
    held = {(replica.topic, replica.partition) for replica in replica_list}
    for ack in acknowledged:
        if (ack.topic, ack.partition) not in held:
            findings.append(_finding(ack, "no replica of its partition was read"))
    for replica in replica_list:
        values = _values_by_offset(replica)
        copies = Counter(values.values())
        for ack in acknowledged:
            if (ack.topic, ack.partition) != (replica.topic, replica.partition):
                continue
            if ack.offset < replica.log_start_offset:
                continue
            examined += 1
            found = values.get(ack.offset)
            if found != ack.value:
                where = f"broker {replica.broker_id} holds {_show(found)} there"
                findings.append(_finding(ack, where))
            duplicates += max(0, copies[ack.value] - 1)
    per_replica = duplicates // max(1, len(replica_list))
    return CheckResult(
        check="acknowledged records are on every replica (I1)",
        examined=examined,
        findings=tuple(findings),
        noted=(("retry duplicates", per_replica),),
    )


def _values_by_offset(replica: ReplicaLog) -> dict[int, str]:
    return {
        offset: (value or b"").decode("utf-8", "replace")
        for batch in replica.batches
        for offset, _, value in batch.records()
    }


def _finding(ack: Acknowledged, why: str) -> Finding:
    return Finding(
        invariant="I1",
        message=f"acknowledged {_show(ack.value)} at {ack.offset}: {why}",
        topic=ack.topic,
        partition=ack.partition,
        offset=ack.offset,
    )


def _show(value: str | None) -> str:
    if value is None:
        return "nothing"
    return repr(value if len(value) <= 40 else value[:37] + "...")
