"""I6: the ISR is a non-empty part of the assignment, and the leader is in it or nobody."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from highwater_checker.finding import CheckResult, Finding


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """One partition's leadership, as ZooKeeper or a trace event holds it."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    assigned_replicas: tuple[int, ...]


def check_isr(records: Iterable[PartitionRecord]) -> CheckResult:
    """Find partition states whose ISR or leader breaks I6.

    Source: docs/explanation/replication.md, "Invariants", I6.
    """
    findings: list[Finding] = []
    examined = 0
    for record in records:
        examined += 1
        findings.extend(
            Finding("I6", f"{problem}: {record}", record.topic, record.partition)
            for problem in _problems(record)
        )
    return CheckResult("the ISR is within the assignment (I6)", examined, tuple(findings))


def _problems(record: PartitionRecord) -> list[str]:
    problems = []
    if not record.isr:
        problems.append("the ISR is empty")
    if not set(record.isr) <= set(record.assigned_replicas):
        problems.append("the ISR holds a broker that is not assigned")
    if record.leader != -1 and record.leader not in record.isr:
        problems.append("the leader is not in the ISR")
    if len(set(record.isr)) != len(record.isr):
        problems.append("the ISR names a broker twice")
    return problems
