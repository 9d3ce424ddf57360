"""I22, from histories: a group's members get every record before they commit it, and none again.

Only members whose histories have assignments are judged; stock clients' histories have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from highwater_checker.contents import values_by_offset
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.history import (
    ASSIGNED,
    COMMIT,
    POLL,
    RESET,
    Acknowledged,
    HistoryEvent,
    OperationType,
)
from highwater_checker.incomplete import ALL_WHOLE, Incomplete
from highwater_checker.lives_of_records import ONLY
from highwater_checker.segments import ReplicaLog
from highwater_checker.wording import Wording

CHECK = "deliveries to groups (I22)"

Place = tuple[str, int]
"""A topic's partition."""


@dataclass(slots=True)
class _Member:
    """The latest assignment of one process.

    operation_id: of the assignment.
    next_offsets: by partition, the lowest offset that may be delivered next.
    """

    group: str
    operation_id: int
    next_offsets: dict[Place, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Progress:
    """One group's progress in one partition.

    delivered: offsets.
    judged: the number of promised records that are judged.
    """

    delivered: set[int] = field(default_factory=set)
    judged: int = 0


class _Deliveries:
    """Follows the members of all groups through their histories."""

    def __init__(
        self,
        promised: dict[Place, list[tuple[int, str]]],
        not_judged: set[tuple[str, Place]],
        incomplete: Incomplete,
    ) -> None:
        """promised: by partition, offsets and values of records that must be delivered, ascending.

        not_judged: groups' partitions for which clients that are no members commit offsets, too.
        """
        self._promised = promised
        self._not_judged = not_judged
        self._incomplete = incomplete
        self._members: dict[str, _Member] = {}
        self._progress: dict[tuple[str, Place], _Progress] = {}
        self.examined = 0

    def take(self, event: HistoryEvent) -> Iterator[Finding]:
        """Yield the findings of the next event."""
        place = event.topic, event.partition
        if event.function == ASSIGNED:
            self._assign(event, place)
            return
        member = self._members.get(event.process)
        if member is None:
            return
        if event.function == POLL and event.type is OperationType.OK:
            yield from self._deliver(member, event, place)
        elif event.function == RESET:
            member.next_offsets[place] = event.offset
        elif event.function == COMMIT and event.type is OperationType.INVOKE:
            yield from self._commit(member, event, place)

    def _assign(self, event: HistoryEvent, place: Place) -> None:
        """Note one partition of an assignment; a new operation replaces the former assignment."""
        member = self._members.get(event.process)
        if member is None or member.operation_id != event.operation_id:
            member = self._members[event.process] = _Member(event.value, event.operation_id)
        member.next_offsets[place] = event.offset

    def _deliver(self, member: _Member, event: HistoryEvent, place: Place) -> Iterator[Finding]:
        self.examined += 1
        next_offset = member.next_offsets.get(place, -1)
        if event.offset < next_offset and event.process not in self._incomplete.processes:
            message = Wording.DELIVERED_AGAIN.filled(
                value=event.value, process=event.process, next_offset=next_offset
            )
            yield Finding("I22", message, *place, event.offset, operation=event.operation)
        member.next_offsets[place] = event.offset + 1
        self._progress_of(member, place).delivered.add(event.offset)

    def _commit(self, member: _Member, event: HistoryEvent, place: Place) -> Iterator[Finding]:
        """Yield promised records below the offset that were not delivered before this commit."""
        if (member.group, place) in self._not_judged or self._incomplete.is_of(member.group):
            return
        progress, promised = self._progress_of(member, place), self._promised.get(place, [])
        while progress.judged < len(promised) and promised[progress.judged][0] < event.offset:
            offset, value = promised[progress.judged]
            progress.judged += 1
            self.examined += 1
            if offset not in progress.delivered:
                message = Wording.NOT_DELIVERED.filled(
                    value=value, group=member.group, committed=event.offset
                )
                yield Finding("I22", message, *place, offset, operation=event.operation)

    def _progress_of(self, member: _Member, place: Place) -> _Progress:
        return self._progress.setdefault((member.group, place), _Progress())


def check_deliveries(
    events: Iterable[HistoryEvent],
    acknowledged: Sequence[Acknowledged],
    replicas: Iterable[ReplicaLog],
    incomplete: Incomplete = ALL_WHOLE,
) -> CheckResult:
    """Find records that a group commits and no member got, and records that a member got again.

    A group begins at a topic's start. A member may get records again that another member did not
    commit, and records from the offset to which its consumer was reset.
    Records must be delivered if they were acknowledged, are in a log at the end, and belong to a
    topic that was never deleted. A partition is left out if clients that are no members commit
    offsets of the group there.
    incomplete: its processes may have been reset, or assigned an offset, by a line that is missing;
    its groups may have got any record.
    Source: docs/reference/invariants.md, I22.
    """
    in_order = sorted(events, key=lambda event: event.time_ns)
    members = {event.process for event in in_order if event.function == ASSIGNED}
    by_others = {
        (event.value, (event.topic, event.partition))
        for event in in_order
        if event.function == COMMIT and event.process not in members
    }
    deliveries = _Deliveries(_promised(acknowledged, replicas), by_others, incomplete)
    findings = [finding for event in in_order for finding in deliveries.take(event)]
    return CheckResult(CHECK, deliveries.examined, tuple(findings))


def _promised(
    acknowledged: Sequence[Acknowledged], replicas: Iterable[ReplicaLog]
) -> dict[Place, list[tuple[int, str]]]:
    """Return offsets and values of the acknowledged records that a log has, by partition."""
    held: dict[Place, dict[int, str]] = {}
    for replica in replicas:
        held.setdefault((replica.topic, replica.partition), {}).update(values_by_offset(replica))
    promised: dict[Place, dict[int, str]] = {}
    for each in acknowledged:
        place = each.topic, each.partition
        if each.life == ONLY and held.get(place, {}).get(each.offset) == each.value:
            promised.setdefault(place, {})[each.offset] = each.value
    return {place: sorted(values.items()) for place, values in promised.items()}
