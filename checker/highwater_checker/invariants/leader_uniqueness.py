"""I7: at most one broker leads a partition in one leader epoch, and no epoch is given twice."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from highwater_checker.finding import CheckResult, Finding, Traced
from highwater_checker.lives import Life, Lives
from highwater_checker.looks import Look, leaders_in
from highwater_checker.wording import Wording
from highwater_core.events import EventKind, TraceEvent


def check_leader_uniqueness(
    events: Sequence[TraceEvent], looks: Sequence[Look] = ()
) -> CheckResult:
    """Find leader epochs in which two brokers led, or were elected, or that were written twice.

    Examines BECAME_LEADER of brokers and LEADER_ELECTED of controllers, in each life of a topic.
    Brokers that a look saw lead, and whose traces do not say so, count too.
    Deleted topics without ids, whose lives cannot be told apart, are left out.
    Source: docs/reference/invariants.md, I7.
    """
    lives = Lives(events)
    leaders: dict[tuple[Life, int], tuple[int, TraceEvent]] = {}
    elected: dict[tuple[Life, int], list[TraceEvent]] = {}
    seconds: set[tuple[Life, int, int]] = set()
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
            elected.setdefault((life, event.leader_epoch), []).append(event)
        first, told = leaders.setdefault((life, event.leader_epoch), (leader, event))
        if first != leader:
            seconds.add((life, event.leader_epoch, leader))
            findings.append(_two_leaders(told, first, event, leader))
    first_leaders = {key: leader for key, (leader, _) in leaders.items()}
    findings += _seen_to_lead(lives, first_leaders, seconds, looks)
    findings += [_repeated(events) for _, events in sorted(elected.items()) if len(events) > 1]
    return CheckResult("one leader per leader epoch (I7)", examined, tuple(findings))


def _two_leaders(told: TraceEvent, first: int, event: TraceEvent, second: int) -> Finding:
    what = Wording.TWO_LEADERS.filled(first=first, leader=second, leader_epoch=event.leader_epoch)
    return _finding(what, (told, event), broker=second)


def _seen_to_lead(
    lives: Lives,
    leaders: Mapping[tuple[Life, int], int],
    told: Collection[tuple[Life, int, int]],
    looks: Sequence[Look],
) -> Iterator[Finding]:
    """Yield each broker that led, in a look, in an epoch that another leads.

    leaders: by life and leader epoch, as the traces have them. told: with another leader, of whom
    the traces tell as well.
    """
    seen: dict[tuple[Life, int], dict[int, Look]] = {}
    for look in looks:
        for node, replica in leaders_in(look):
            life = lives.of(replica.topic_partition, replica.topic_id)
            if life is not None:
                seen.setdefault((life, int(replica.leader_epoch)), {}).setdefault(node, look)
    for key, by_node in sorted(seen.items()):
        (at, _), leader_epoch = key
        first = leaders[key] if key in leaders else min(by_node)
        for node in sorted(by_node.keys() - {first}):
            if (*key, node) in told:
                continue
            what = Wording.TWO_LEADERS.filled(first=first, leader=node, leader_epoch=leader_epoch)
            seen_ns = by_node[node].time_ns
            yield Finding("I7", what, at.topic, at.partition, broker=node, looks=(seen_ns,))


def _repeated(events: Sequence[TraceEvent]) -> Finding:
    what = Wording.WRITTEN_TWICE.filled(leader_epoch=events[0].leader_epoch)
    return _finding(what, events)


def _finding(message: str, events: Sequence[TraceEvent], broker: int = -1) -> Finding:
    topic, partition = events[0].topic or "", events[0].partition
    at = -1 if partition is None else partition
    traced = tuple(map(Traced.of, events))
    return Finding("I7", message, topic, at, broker=broker, traced=traced)
