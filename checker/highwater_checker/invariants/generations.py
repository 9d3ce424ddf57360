"""I21, from histories: one owner of a partition in a generation, and no commit of an older one.

A process is one member at a time. Its commits belong to the generation of its latest assignment.
Commits of a process without an assignment are not judged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from highwater_checker.finding import CheckResult, Finding
from highwater_checker.history import ASSIGNED, COMMIT, HistoryEvent, OperationType
from highwater_checker.wording import Wording
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind, TraceEvent

CHECK = "generations of groups (I21)"


def is_group_deleted(event: TraceEvent) -> bool:
    """Return whether a coordinator deletes a group here: its generations begin anew."""
    return (
        event.kind is EventKind.GROUP_STATE_CHANGED
        and event.detail.get("reason") == ErrorCode.GROUP_ID_NOT_FOUND.name
    )


def deleted_groups(traces: Iterable[TraceEvent]) -> frozenset[str]:
    """Return the groups that were deleted: by an administrator, or without members and offsets."""
    return frozenset(str(each.detail.get("group")) for each in traces if is_group_deleted(each))


def has_members(events: Iterable[HistoryEvent]) -> bool:
    return any(event.function == ASSIGNED for event in events)


@dataclass(slots=True)
class _Group:
    """One group's assignments so far."""

    newest: int = -1
    """The latest generation in which any member was assigned something."""
    owners: dict[tuple[int, str, int], HistoryEvent] = field(default_factory=dict)
    """The latest assignment by generation, topic and partition."""
    members: dict[str, HistoryEvent] = field(default_factory=dict)
    """The latest assignment by process."""


def check_generations(
    events: Iterable[HistoryEvent],
    deleted: Collection[str] = (),
    incomplete: Collection[str] = (),
) -> CheckResult:
    """Find partitions with two owners in one generation, and acknowledged commits of older ones.

    A commit is of an older generation if a member had a newer one when the commit began: then the
    coordinator knew the newer one. Deleted groups are left out. A restarted static member owns its
    former partitions, and its former process none.
    incomplete: processes that may have been assigned a newer generation by a line that is missing.
    Source: docs/reference/invariants.md, I21; KIP-345.
    """
    groups: dict[str, _Group] = {}
    begun: dict[tuple[str, int], Finding | None] = {}
    findings: list[Finding] = []
    examined = 0
    for event in sorted(events, key=lambda event: event.time_ns):
        if event.function not in (ASSIGNED, COMMIT) or event.value in deleted:
            continue
        group = groups.setdefault(event.value, _Group())
        operation = event.process, event.operation_id
        if event.function == ASSIGNED:
            examined += 1
            findings.extend(_assign(group, event))
        elif event.type is OperationType.INVOKE:
            begun[operation] = _outdated(group, event)
        else:
            finding = begun.pop(operation, None)
            examined += event.type is OperationType.OK and event.process in group.members
            is_known = event.process not in incomplete
            if finding is not None and event.type is OperationType.OK and is_known:
                findings.append(finding)
    return CheckResult(CHECK, examined, tuple(findings))


def _assign(group: _Group, event: HistoryEvent) -> Iterator[Finding]:
    """Note the partition's new owner; yield a finding if its generation has another owner."""
    group.newest = max(group.newest, event.generation)
    group.members[event.process] = event
    if not event.topic:
        return
    at = event.generation, event.topic, event.partition
    before = group.owners.get(at)
    if before is not None and before.process != event.process and not _is_same(before, event):
        yield _finding(Wording.TWO_OWNERS, event, event.generation, first=before.process)
    group.owners[at] = event


def _outdated(group: _Group, commit: HistoryEvent) -> Finding | None:
    """Return the finding if this commit, which begins now, is acknowledged later."""
    member = group.members.get(commit.process)
    if member is None:
        return None
    if member.generation < group.newest:
        return _finding(Wording.OUTDATED_COMMIT, commit, member.generation, newest=group.newest)
    owner = group.owners.get((member.generation, commit.topic, commit.partition))
    if owner is not None and owner.process != commit.process and _is_same(owner, member):
        return _finding(Wording.REPLACED_COMMIT, commit, member.generation, successor=owner.process)
    return None


def _is_same(first: HistoryEvent, second: HistoryEvent) -> bool:
    """Return whether both assignments are of one static member."""
    return bool(first.key) and first.key == second.key


def _finding(wording: Wording, event: HistoryEvent, generation: int, **facts: object) -> Finding:
    message = wording.filled(
        group=event.value, generation=generation, process=event.process, **facts
    )
    return Finding("I21", message, event.topic, event.partition, operation=event.operation)
