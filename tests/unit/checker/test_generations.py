"""I21: one owner of a partition in a generation, and no commits of an older generation."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from highwater_checker.history import ASSIGNED, COMMIT, HistoryEvent, OperationType
from highwater_checker.invariants.generations import check_generations, deleted_groups, has_members
from highwater_core.events import EventKind, TraceEvent

INVOKE, OK, FAIL, INFO = (OperationType(each) for each in ("invoke", "ok", "fail", "info"))


def assigned(
    process: str, generation: int, *partitions: int, instance: str = "", group: str = "g"
) -> list[HistoryEvent]:
    told = [("t", each) for each in partitions] or [("", -1)]
    return [
        HistoryEvent(
            0, OK, 0, process, ASSIGNED, *at, group, 7, key=instance, generation=generation
        )
        for at in told
    ]


def begun(process: str, partition: int = 0, operation: int = 9) -> list[HistoryEvent]:
    return [HistoryEvent(0, INVOKE, operation, process, COMMIT, "t", partition, "g", 5)]


def ended(
    process: str, partition: int = 0, operation: int = 9, kind: OperationType = OK
) -> list[HistoryEvent]:
    return [HistoryEvent(0, kind, operation, process, COMMIT, "t", partition, "g", 5)]


def commit(process: str, partition: int = 0, kind: OperationType = OK) -> list[HistoryEvent]:
    return begun(process, partition) + ended(process, partition, kind=kind)


def history(*parts: Sequence[HistoryEvent]) -> list[HistoryEvent]:
    """The events at one instant each, in their order."""
    events = [event for part in parts for event in part]
    return [
        HistoryEvent(
            at, each.type, each.operation_id, each.process, each.function, each.topic,
            each.partition, each.value, each.offset, key=each.key, generation=each.generation,
        )
        for at, each in enumerate(events)
    ]  # fmt: skip


STARTED_AGAIN = (assigned("m0", 1, 0, instance="a"), assigned("m1", 1, 0, instance="a"))
TAKEN_OVER = (assigned("m0", 1, 0), assigned("m1", 2, 0))


@pytest.mark.parametrize(
    "parts",
    [
        (assigned("m0", 1, 0, 1), assigned("m1", 1, 2)),
        (assigned("m0", 1, 0), assigned("m0", 1, 0)),  # it joined again, and nobody else did
        (*TAKEN_OVER, commit("m1")),
        (*TAKEN_OVER, commit("m0", kind=FAIL)),
        (*TAKEN_OVER, commit("m0", kind=INFO)),
        (*TAKEN_OVER, begun("m0")),
        (assigned("m0", 1, 0), begun("m0"), assigned("m1", 2, 0), ended("m0")),
        (assigned("m0", 1, 0), assigned("m1", 1, 1), assigned("m0", 2), commit("m0")),
        (assigned("m0", 1, 0), assigned("m1", 1, 0, group="h")),
        STARTED_AGAIN,
        (*STARTED_AGAIN, commit("m1")),
        (*STARTED_AGAIN, commit("m0", kind=FAIL)),
        (*TAKEN_OVER, commit("c0")),  # no member: it may commit any offset
    ],
)
def test_one_owner_at_a_time_is_sound(parts: Sequence[list[HistoryEvent]]) -> None:
    assert check_generations(history(*parts)).findings == ()


@pytest.mark.parametrize(
    ("parts", "says", "operation"),
    [
        (
            (assigned("m0", 1, 0), assigned("m1", 1, 1, 0)),
            "generation 1 of group g: m1 and m0 were assigned it",
            "m1's assigned 0",
        ),
        (
            (assigned("m0", 1, 0, instance="a"), assigned("m1", 1, 0, instance="b")),
            "m1 and m0",
            "m1's assigned 0",
        ),
        ((*TAKEN_OVER, commit("m0")), "after generation 2 had been assigned", "m0's commit 9"),
        (
            (assigned("m0", 1, 0), assigned("m1", 3), commit("m0")),
            "after generation 3 had been assigned",
            "m0's commit 9",
        ),
        ((*STARTED_AGAIN, commit("m0")), "after m1 had taken the place", "m0's commit 9"),
    ],
)
def test_a_second_owner_and_a_commit_of_an_older_generation_are_found(
    parts: Sequence[list[HistoryEvent]], says: str, operation: str
) -> None:
    (found,) = check_generations(history(*parts)).findings
    assert (found.invariant, found.topic, found.partition) == ("I21", "t", 0)
    assert found.operation == operation
    assert says in found.message


def test_generations_of_a_group_that_was_deleted_begin_anew() -> None:
    detail = {"group": "g", "to_state": "Dead", "reason": "GROUP_ID_NOT_FOUND"}
    trace = [TraceEvent(0, 0, 1, 0, EventKind.GROUP_STATE_CHANGED, detail=detail)]
    events = history(*TAKEN_OVER, assigned("m2", 1, 0), commit("m2"))
    assert len(check_generations(events).findings) == 2
    assert check_generations(events, deleted_groups(trace)).findings == ()
    moved = [TraceEvent(0, 0, 1, 0, EventKind.GROUP_STATE_CHANGED, detail={"reason": "moved"})]
    assert deleted_groups(moved) == frozenset()


def test_assignments_and_commits_of_members_are_examined() -> None:
    events = history(*TAKEN_OVER, commit("m1"), commit("m0", kind=FAIL), commit("c0"))
    assert check_generations(events).examined == 3
    assert has_members(events)
    assert not has_members(history(commit("c0")))
