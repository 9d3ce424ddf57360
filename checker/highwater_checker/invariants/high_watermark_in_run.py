"""I4: at no moment of a run is a leader's high watermark above an ISR member's log end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from highwater_checker.finding import CheckResult, Finding
from highwater_checker.lives import Life, Lives
from highwater_checker.looks import Look, incarnation_at, leaders_in, replica_at
from highwater_checker.wording import Wording
from highwater_core.events import EventKind, TraceEvent
from highwater_core.messages import ReplicaSnapshot

CHECK = "every ISR member has what its leader called committed (I4)"

Stay = tuple[int, Life | None, int]
"""Node, life of a partition, leader epoch."""


def check_high_watermark_in_run(looks: Sequence[Look], events: Sequence[TraceEvent]) -> CheckResult:
    """Find ISR members whose log ended below an earlier high watermark of their leader.

    A leader's high watermark in one look is compared with a member's log end in the next look,
    which is later. That is sound only if the member's log can only grow in between: it follows in
    the leader's epoch, in the only incarnation that does, and did not truncate its log below that
    high watermark in this epoch (which is I11). A high watermark from before its epoch, which the
    leader did not advance, is not checked: it counted the ISR of another leader. Deleted topics
    without ids are left out.
    Source: docs/reference/invariants.md, I4; docs/explanation/replication.md, "High watermark".
    """
    told = _Told(events)
    findings: list[Finding] = []
    examined = 0
    for before, after in pairwise(looks):
        for node, leader in leaders_in(before):
            if not told.advanced(node, leader):
                continue
            for member, replica in _members(leader, node, before, after):
                if not told.may_have_shrunk(member, replica, int(leader.high_watermark)):
                    examined += 1
                    if replica.log_end_offset < leader.high_watermark:
                        times = before.time_ns, after.time_ns
                        findings.append(_finding(node, leader, member, replica, times))
    return CheckResult(
        CHECK,
        examined,
        tuple(_first_of_each(findings)),
    )


class _Told:
    """Per epoch from the traces: the leader's first high watermark, and followers' truncations."""

    def __init__(self, events: Sequence[TraceEvent]) -> None:
        self._lives = Lives(events)
        self._brought: dict[Stay, int] = {}
        self._cut_to: dict[Stay, int] = {}
        self._incarnations: dict[Stay, set[int]] = {}
        for event in events:
            life = self._lives.of_event(event)
            if life is None or event.leader_epoch is None:
                continue
            stay = event.node, life, event.leader_epoch
            if event.kind is EventKind.BECAME_LEADER:
                known = self._brought.get(stay, 0)
                self._brought[stay] = max(known, int(event.detail["high_watermark"]))
            elif event.kind is EventKind.BECAME_FOLLOWER:
                self._incarnations.setdefault(stay, set()).add(event.incarnation)
            elif event.kind is EventKind.LOG_TRUNCATED and event.offset is not None:
                self._cut_to[stay] = min(self._cut_to.get(stay, event.offset), event.offset)

    def advanced(self, node: int, leader: ReplicaSnapshot) -> bool:
        """Return whether the leader raised its high watermark in its epoch, by the traces."""
        brought = self._brought.get(self._stay(node, leader))
        return brought is not None and leader.high_watermark > brought

    def may_have_shrunk(self, node: int, replica: ReplicaSnapshot, high_watermark: int) -> bool:
        """Return whether the follower's log may have become shorter in this epoch."""
        stay = self._stay(node, replica)
        cut_to = self._cut_to.get(stay, high_watermark)
        return len(self._incarnations.get(stay, ())) != 1 or cut_to < high_watermark

    def _stay(self, node: int, replica: ReplicaSnapshot) -> Stay:
        life = self._lives.of(replica.topic_partition, replica.topic_id)
        return node, life, int(replica.leader_epoch)


def _members(
    leader: ReplicaSnapshot, node: int, before: Look, after: Look
) -> Iterator[tuple[int, ReplicaSnapshot]]:
    """Yield the ISR's other members that followed in the leader's epoch in both looks."""
    for member in leader.isr:
        if int(member) == node:
            continue
        was = replica_at(before, int(member), leader.topic_partition)
        now = replica_at(after, int(member), leader.topic_partition)
        if was is None or now is None:
            continue
        if incarnation_at(before, int(member)) != incarnation_at(after, int(member)):
            continue
        if _follows(was, leader) and _follows(now, leader):
            yield int(member), now


def _follows(replica: ReplicaSnapshot, leader: ReplicaSnapshot) -> bool:
    return (
        replica.role == "follower"
        and replica.leader_epoch == leader.leader_epoch
        and replica.topic_id == leader.topic_id
    )


def _finding(
    node: int,
    leader: ReplicaSnapshot,
    member: int,
    replica: ReplicaSnapshot,
    looks: tuple[int, int],
) -> Finding:
    at = leader.topic_partition
    message = Wording.MEMBER_LACKS.filled(
        node=node,
        leader_epoch=leader.leader_epoch,
        high_watermark=leader.high_watermark,
        isr=leader.isr,
        before_s=looks[0] / 1e9,
        broker=member,
        offset=replica.log_end_offset,
    )
    offset = int(replica.log_end_offset)
    return Finding("I4", message, at.topic, at.partition, offset, member, looks=looks)


def _first_of_each(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the first finding of each member and partition: later looks repeat it."""
    seen: set[tuple[str, int, int]] = set()
    for finding in findings:
        key = finding.topic, finding.partition, finding.broker
        if key not in seen:
            seen.add(key)
            yield finding
