"""I14, from histories: a fetched offset is the last one acknowledged, or one committed since.

A group may commit a lower offset than before: the last commit counts, not the highest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from highwater_checker.finding import CheckResult, Finding
from highwater_checker.history import COMMIT, FETCH_COMMITTED, HistoryEvent, OperationType
from highwater_checker.incomplete import ALL_WHOLE, Incomplete
from highwater_checker.wording import Wording

CHECK = "committed offsets (I14)"
NOTHING = -1
FOR_EVER = 2**63

Key = tuple[str, str, int]
"""Group, topic and partition."""


@dataclass(frozen=True, slots=True)
class _Operation:
    """A commit or a fetch. ended_ns: FOR_EVER if its outcome is unknown."""

    offset: int
    begun_ns: int
    ended_ns: int
    is_acknowledged: bool
    words: str


def has_commits(events: Iterable[HistoryEvent]) -> bool:
    return any(event.function == COMMIT for event in events)


def check_committed_offsets(
    events: Iterable[HistoryEvent], incomplete: Incomplete = ALL_WHOLE
) -> CheckResult:
    """Find fetched offsets that no commit explains: never committed, or certainly overwritten.

    A commit that was certainly refused explains nothing. A commit with an unknown outcome may take
    effect at any time after its begin. The histories must be without expired or deleted offsets.
    incomplete: any offset may have been committed for its groups.
    Source: docs/reference/invariants.md, I14.
    """
    commits, fetches = _operations(events)
    findings: list[Finding] = []
    examined = 0
    for key, fetched in fetches.items():
        if incomplete.is_of(key[0]):
            continue
        written = commits.get(key, [])
        for fetch in fetched:
            examined += 1
            may_be = _may_be(fetch, written)
            if fetch.offset not in may_be:
                findings.append(_finding(key, fetch, may_be))
    return CheckResult(CHECK, examined, tuple(findings))


def _may_be(fetch: _Operation, commits: list[_Operation]) -> set[int]:
    acknowledged = [c for c in commits if c.is_acknowledged and c.ended_ns < fetch.begun_ns]
    last_begun_ns = max((each.begun_ns for each in acknowledged), default=-1)
    found = {
        each.offset
        for each in commits
        if each.begun_ns <= fetch.ended_ns and each.ended_ns >= last_begun_ns
    }
    return found if acknowledged else found | {NOTHING}


def _operations(
    events: Iterable[HistoryEvent],
) -> tuple[dict[Key, list[_Operation]], dict[Key, list[_Operation]]]:
    """Return the commits that may have taken effect, and the fetches with an answer, by key."""
    begun: dict[tuple[str, int], HistoryEvent] = {}
    commits: dict[Key, list[_Operation]] = {}
    fetches: dict[Key, list[_Operation]] = {}
    for event in events:
        if event.function not in (COMMIT, FETCH_COMMITTED):
            continue
        if event.type is OperationType.INVOKE:
            begun[event.process, event.operation_id] = event
            continue
        invoked = begun.pop((event.process, event.operation_id), None)
        if invoked is None:
            continue
        if event.type is OperationType.OK:
            kept = commits if event.function == COMMIT else fetches
            _add(kept, event, invoked.time_ns, event.time_ns)
        elif event.type is OperationType.INFO and event.function == COMMIT:
            _add(commits, event, invoked.time_ns, FOR_EVER)
    for event in begun.values():
        if event.function == COMMIT:
            _add(commits, event, event.time_ns, FOR_EVER)
    return commits, fetches


def _add(
    kept: dict[Key, list[_Operation]], event: HistoryEvent, begun_ns: int, ended_ns: int
) -> None:
    key = event.value, event.topic, event.partition
    is_acknowledged = ended_ns != FOR_EVER
    operation = _Operation(event.offset, begun_ns, ended_ns, is_acknowledged, event.operation)
    kept.setdefault(key, []).append(operation)


def _finding(key: Key, fetch: _Operation, may_be: set[int]) -> Finding:
    group, topic, partition = key
    message = Wording.OFFSET_LOST.filled(group=group, fetched=fetch.offset, offsets=sorted(may_be))
    return Finding("I14", message, topic, partition, operation=fetch.words)
