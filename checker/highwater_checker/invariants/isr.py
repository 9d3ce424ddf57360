"""I6: the ISR is a non-empty part of the assignment, and the leader is in it or nobody."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from highwater_checker.finding import CheckResult, Finding
from highwater_checker.wording import Wording


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """One partition's leadership, from ZooKeeper, a trace event or a look.

    seen_ns: the time of a look that has it; it does not count for equality.
    """

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    assigned_replicas: tuple[int, ...]
    seen_ns: int | None = field(default=None, compare=False)


def check_isr(records: Iterable[PartitionRecord]) -> CheckResult:
    """Find partition states whose ISR or leader violates I6.

    Source: docs/reference/invariants.md, I6.
    """
    findings: list[Finding] = []
    examined = 0
    for record in records:
        examined += 1
        findings.extend(
            Finding(
                "I6",
                wording.filled(**asdict(record)),
                record.topic,
                record.partition,
                broker=record.leader,
                looks=() if record.seen_ns is None else (record.seen_ns,),
            )
            for wording in _problems(record)
        )
    return CheckResult("the ISR is within the assignment (I6)", examined, tuple(findings))


def _problems(record: PartitionRecord) -> list[Wording]:
    problems = []
    if not record.isr:
        problems.append(Wording.EMPTY_ISR)
    if not set(record.isr) <= set(record.assigned_replicas):
        problems.append(Wording.STRANGER_IN_ISR)
    if record.leader != -1 and record.leader not in record.isr:
        problems.append(Wording.LEADER_NOT_IN_ISR)
    if len(set(record.isr)) != len(record.isr):
        problems.append(Wording.TWICE_IN_ISR)
    return problems
