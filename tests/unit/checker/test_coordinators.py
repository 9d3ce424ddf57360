"""I14: groups with their leaders, by traces; the last acknowledged offset, by histories."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_checker.history import HistoryEvent, OperationType
from highwater_checker.invariants.committed_offsets import check_committed_offsets, has_commits
from highwater_checker.invariants.coordinators import check_coordinators, has_coordinators
from highwater_core.events import EventKind, TraceEvent
from highwater_core.internal_topics import OFFSETS_TOPIC

E = EventKind
LEADER = (E.BECAME_LEADER, {})
FOLLOWER = (E.BECAME_FOLLOWER, {})
STOPPED = (E.REPLICA_STOPPED, {})
RISEN = (E.HIGH_WATERMARK_ADVANCED, {})
BEGUN = (E.GROUP_LOAD_BEGUN, {"epoch_start_offset": 5})
ENDED = (E.GROUP_LOAD_ENDED, {"read_up_to": 5, "since_epoch": 1})
EARLY = (E.GROUP_LOAD_ENDED, {"read_up_to": 4, "since_epoch": 1})
UNLOADED = (E.GROUP_UNLOADED, {})


def trace(*kinds: tuple[EventKind, dict[str, Any]]) -> list[TraceEvent]:
    return [
        TraceEvent(seq, 0, 1, seq, kind, OFFSETS_TOPIC, partition=3, leader_epoch=1, detail=detail)
        for seq, (kind, detail) in enumerate(kinds)
    ]


@pytest.mark.parametrize(
    "kinds",
    [
        (FOLLOWER, LEADER, RISEN, BEGUN, ENDED, LEADER, FOLLOWER, UNLOADED),
        (LEADER, BEGUN, FOLLOWER, UNLOADED, LEADER, BEGUN, ENDED),
        (LEADER, BEGUN, ENDED, UNLOADED, STOPPED, LEADER, BEGUN),
        (FOLLOWER, STOPPED, FOLLOWER),
        (LEADER,),  # it was killed then
    ],
)
def test_groups_that_come_and_go_with_the_lead_are_sound(kinds: Any) -> None:
    events = trace(*kinds)
    assert check_coordinators(events).findings == ()


@pytest.mark.parametrize(
    ("kinds", "says", "seq"),
    [
        ((LEADER, BEGUN, FOLLOWER, UNLOADED, ENDED), "out of its turn", 4),
        ((LEADER, BEGUN, ENDED, ENDED), "out of its turn", 3),
        ((FOLLOWER, BEGUN), "out of its turn", 1),
        ((LEADER, BEGUN, EARLY), "up to 4 only", 2),
        ((LEADER, BEGUN, ENDED, UNLOADED, LEADER), "has not loaded its groups", 3),
        ((LEADER, LEADER), "has not loaded its groups", 0),
        ((LEADER, BEGUN, ENDED, FOLLOWER, FOLLOWER), "keeps its groups", 3),
        ((LEADER, BEGUN, ENDED, STOPPED), "keeps its groups", 3),
    ],
)
def test_groups_without_the_lead_are_found_and_the_other_way_round(
    kinds: Any, says: str, seq: int
) -> None:
    events = trace(*kinds)
    first = check_coordinators(events).findings[0]
    assert (first.invariant, first.partition, first.broker) == ("I14", 3, 0)
    assert says in first.message
    assert [each.seq for each in first.traced] == [seq]


def test_who_coordinates_nothing_is_not_asked() -> None:
    assert not has_coordinators(trace(FOLLOWER))
    assert has_coordinators(trace(LEADER, BEGUN))
    assert check_coordinators(trace(LEADER, BEGUN, ENDED)).examined == 1


# ---------------------------------------------------------------- histories


def history(*operations: tuple[str, int, int, int, str]) -> list[HistoryEvent]:
    """Function, offset, begin, end and outcome of each operation of group g on t-0."""
    events: list[HistoryEvent] = []
    for number, (function, offset, begun, ended, outcome) in enumerate(operations):
        invoke = OperationType.INVOKE
        asked = -1 if function == "fetch_committed" else offset
        events.append(HistoryEvent(begun, invoke, number, "c0", function, "t", 0, "g", asked))
        if outcome:
            kind = OperationType(outcome)
            events.append(HistoryEvent(ended, kind, number, "c0", function, "t", 0, "g", offset))
    return sorted(events, key=lambda event: event.time_ns)


def commit(offset: int, begun: int, ended: int, outcome: str = "ok") -> Any:
    return "commit", offset, begun, ended, outcome


def fetch(offset: int, begun: int, ended: int) -> Any:
    return "fetch_committed", offset, begun, ended, "ok"


@pytest.mark.parametrize(
    "operations",
    [
        (fetch(-1, 1, 2),),
        (commit(5, 1, 2), fetch(5, 3, 4)),
        (commit(5, 1, 2), commit(3, 3, 4), fetch(3, 5, 6)),  # a consumer may go back
        (commit(5, 1, 4), fetch(-1, 2, 3)),
        (commit(5, 1, 2), commit(7, 3, 6), fetch(5, 4, 5)),
        (commit(5, 1, 2), commit(7, 3, 6), fetch(7, 4, 5)),
        (commit(5, 1, 2, "info"), commit(7, 3, 4), fetch(5, 5, 6)),
        (commit(5, 1, 2, ""), fetch(-1, 3, 4)),
        (commit(5, 1, 2, "fail"), fetch(-1, 3, 4)),
    ],
)
def test_the_last_acknowledged_offset_or_a_later_one_is_sound(operations: Any) -> None:
    assert check_committed_offsets(history(*operations)).findings == ()


@pytest.mark.parametrize(
    ("operations", "says"),
    [
        ((commit(5, 1, 2), fetch(-1, 3, 4)), "was told -1; acknowledged, or committed since: [5]"),
        ((commit(5, 1, 2), commit(7, 3, 4), fetch(5, 5, 6)), "was told 5"),
        ((commit(5, 1, 2), commit(3, 3, 4), fetch(5, 5, 6)), "[3]"),
        ((commit(5, 1, 2), commit(7, 3, 4, "fail"), fetch(7, 5, 6)), "[5]"),
        ((fetch(9, 1, 2),), "[-1]"),
    ],
)
def test_an_offset_that_was_lost_is_found(operations: Any, says: str) -> None:
    result = check_committed_offsets(history(*operations))
    (found,) = result.findings
    assert (found.invariant, found.topic, found.partition) == ("I14", "t", 0)
    assert says in found.message
    assert result.examined == 1


def test_histories_without_commits_are_not_asked() -> None:
    assert not has_commits(history(fetch(-1, 1, 2)))
    assert has_commits(history(commit(1, 1, 2)))
