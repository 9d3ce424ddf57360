"""I22: members get each record that their group commits, and none again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from highwater_checker.history import (
    ASSIGNED,
    COMMIT,
    POLL,
    RESET,
    Acknowledged,
    HistoryEvent,
    OperationType,
)
from highwater_checker.invariants.deliveries import check_deliveries
from highwater_checker.lives_of_records import LifeOfRecord
from highwater_checker.segments import ReplicaLog
from highwater_core.ids import TopicId
from tests.support.evidence_makers import batch_at

INVOKE, OK, FAIL = OperationType.INVOKE, OperationType.OK, OperationType.FAIL
VALUES = ("a", "b", "c", "d")


def event_of(
    process: str, function: str, offset: int, kind: OperationType = OK, partition: int = 0
) -> HistoryEvent:
    value = "g" if function in (ASSIGNED, COMMIT) else "v"
    return HistoryEvent(0, kind, 9, process, function, "t", partition, value, offset)


def assigned(process: str, offset: int = -1, generation: int = 1) -> HistoryEvent:
    event = event_of(process, ASSIGNED, offset)
    return replace(event, generation=generation, operation_id=generation)


def read(process: str, *offsets: int) -> list[HistoryEvent]:
    return [event_of(process, POLL, each) for each in offsets]


def commit(process: str, offset: int) -> HistoryEvent:
    return event_of(process, COMMIT, offset, INVOKE)


def reset(process: str, offset: int) -> HistoryEvent:
    return event_of(process, RESET, offset)


def history(*parts: HistoryEvent | Sequence[HistoryEvent]) -> list[HistoryEvent]:
    """The events at one instant each, in their order."""
    events = [
        event for part in parts for event in ([part] if isinstance(part, HistoryEvent) else part)
    ]
    return [replace(event, time_ns=at) for at, event in enumerate(events)]


ACKNOWLEDGED = [Acknowledged("t", 0, at, value, 0, 0) for at, value in enumerate(VALUES)]
LOG = ReplicaLog(0, "t", 0, (batch_at(0, *VALUES),), 4)
ALL = (assigned("m0"), read("m0", 0, 1, 2, 3))


@pytest.mark.parametrize(
    "parts",
    [
        (*ALL, commit("m0", 4)),
        (*ALL, commit("m0", 2), assigned("m1", 2, 2), read("m1", 2, 3), commit("m1", 4)),
        # records without a committed offset are read again by the partition's next member
        (*ALL, assigned("m0", 0, 2), read("m0", 0, 1, 2, 3), commit("m0", 4)),
        (assigned("m0"), read("m0", 0, 1), assigned("m1", 2, 2), read("m1", 2, 3), commit("m1", 4)),
        (*ALL, reset("m0", 1), read("m0", 1, 2)),
        (assigned("m0"), read("m0", 0), commit("m0", 1)),
        (commit("c0", 4), commit("c0", 1)),  # by no member
        (
            assigned("m0"),
            commit("c0", 2),
            read("m0", 3),
            commit("m0", 4),
        ),  # another client's commits do not count
    ],
)
def test_records_below_committed_offsets_were_delivered_once(parts: Sequence[HistoryEvent]) -> None:
    assert check_deliveries(history(*parts), ACKNOWLEDGED, [LOG]).findings == ()


@pytest.mark.parametrize(
    ("parts", "offset", "says"),
    [
        ((assigned("m0"), read("m0", 0, 2, 3), commit("m0", 4)), 1, "lies below 4"),
        ((assigned("m0"), commit("m0", 1), read("m0", 0)), 0, "lies below 1"),
        (
            (*ALL[:1], read("m0", 0), assigned("m1", 2, 2), read("m1", 2, 3), commit("m1", 3)),
            1,
            "no member had it",
        ),
        ((*ALL, read("m0", 3)), 3, "m0 was to go on at 4"),
        ((assigned("m0", 2), read("m0", 1)), 1, "m0 was to go on at 2"),
        ((*ALL, assigned("m0", 2, 2), read("m0", 1)), 1, "m0 was to go on at 2"),
        ((*ALL, reset("m0", 1), read("m0", 0)), 0, "m0 was to go on at 1"),
    ],
)
def test_records_that_no_member_got_or_one_got_again_are_found(
    parts: Sequence[HistoryEvent], offset: int, says: str
) -> None:
    (found,) = check_deliveries(history(*parts), ACKNOWLEDGED, [LOG]).findings
    assert (found.invariant, found.topic, found.partition, found.offset) == ("I22", "t", 0, offset)
    assert says in found.message


def test_only_acknowledged_records_in_a_log_of_the_only_life_are_required() -> None:
    events = history(assigned("m0"), commit("m0", 4))

    def missed(acknowledged: Sequence[Acknowledged], *logs: ReplicaLog) -> list[int]:
        return [each.offset for each in check_deliveries(events, acknowledged, logs).findings]

    assert missed(ACKNOWLEDGED, LOG) == [0, 1, 2, 3]
    assert missed(ACKNOWLEDGED[2:], LOG) == [2, 3]
    assert missed(ACKNOWLEDGED) == []
    later = ReplicaLog(0, "t", 0, (batch_at(3, "d"),), 4, log_start_offset=3)
    assert missed(ACKNOWLEDGED, later) == [3]
    made_again = [replace(each, life=LifeOfRecord(TopicId("2"))) for each in ACKNOWLEDGED]
    assert missed(made_again, LOG) == []


def test_deliveries_and_required_records_are_examined() -> None:
    assert check_deliveries(history(*ALL, commit("m0", 3)), ACKNOWLEDGED, [LOG]).examined == 7
