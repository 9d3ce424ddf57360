"""I7: at most one broker leads a partition in one leader epoch, and no epoch is given twice."""

from __future__ import annotations

from collections.abc import Sequence

from highwater_checker.finding import CheckResult, Finding
from highwater_checker.lives import Life, Lives
from highwater_checker.wording import Wording
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicPartition


def check_leader_uniqueness(events: Sequence[TraceEvent]) -> CheckResult:
    """Find leader epochs in which two brokers led, or were elected, or that were written twice.

    Looks at BECAME_LEADER of brokers and LEADER_ELECTED of controllers, in each life of a topic.
    Deleted topics without ids, whose lives cannot be told apart, are left out.
    Source: docs/explanation/replication.md, "Invariants", I7.
    """
    lives = Lives(events)
    leaders: dict[tuple[Life, int], int] = {}
    elected: dict[Life, list[int]] = {}
    findings: list[Finding] = []
    examined = 0
    for event in events:
        if event.kind is EventKind.BECAME_LEADER:
            leader = event.node
        elif event.kind is EventKind.LEADER_ELECTED:
            leader = int(event.detail["leader"])
        else:
            continue
        life = lives.of_event(event)
        if life is None or event.leader_epoch is None:
            continue
        examined += 1
        if event.kind is EventKind.LEADER_ELECTED:
            elected.setdefault(life, []).append(event.leader_epoch)
        first = leaders.setdefault((life, event.leader_epoch), leader)
        if first != leader:
            findings.append(_two_leaders(event, first, leader))
    for (at, _), epochs in elected.items():
        findings.extend(_repeats(at, epochs))
    return CheckResult("one leader per leader epoch (I7)", examined, tuple(findings))


def _two_leaders(event: TraceEvent, first: int, second: int) -> Finding:
    return Finding(
        invariant="I7",
        message=Wording.TWO_LEADERS.filled(
            first=first, leader=second, leader_epoch=event.leader_epoch
        ),
        topic=event.topic or "",
        partition=event.partition if event.partition is not None else -1,
    )


def _repeats(at: TopicPartition, epochs: list[int]) -> list[Finding]:
    repeated = sorted({epoch for epoch in epochs if epochs.count(epoch) > 1})
    return [
        Finding("I7", Wording.WRITTEN_TWICE.filled(leader_epoch=epoch), at.topic, at.partition)
        for epoch in repeated
    ]
