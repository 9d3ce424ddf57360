"""High watermarks during a run, and successors' logs: by looks and traces, not by clocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from highwater_checker.invariants.high_watermark_in_run import check_high_watermark_in_run
from highwater_checker.invariants.successors import check_successors
from highwater_checker.looks import Look
from highwater_checker.segments import ReplicaLog
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicId
from tests.support.evidence_makers import (
    batch_at,
    event,
    look,
    replica,
    sent,
)

LED = event(EventKind.BECAME_LEADER, 0, 1, 5, high_watermark=5, isr=[0, 1])
FOLLOWED = event(EventKind.BECAME_FOLLOWER, 1, 1, 5, leader=0, high_watermark=4)
LEADER = replica("leader", 8, 9, isr=(0, 1))


def follower(log_end_offset: int, **fields: Any) -> Any:
    return replica("follower", 4, log_end_offset, **fields)


def two_looks(then: Any, leader: Any = LEADER, incarnation: int = 1) -> list[Look]:
    return [look(1, leader, follower(6)), look(2, leader, then, incarnation=incarnation)]


# ---------------------------------------------------------------- high watermark in a run


def test_a_member_whose_log_ends_below_its_leaders_high_watermark_is_found_once() -> None:
    looks = [*two_looks(follower(7)), look(3, LEADER, follower(7))]
    result = check_high_watermark_in_run(looks, [LED, FOLLOWED])
    assert [(f.invariant, f.offset, f.broker) for f in result.findings] == [("I4", 7, 1)]
    assert result.examined == 2


@pytest.mark.parametrize(
    ("then", "more", "examined"),
    [
        (follower(8), [], 1),
        (follower(7, leader_epoch=2), [], 0),
        (None, [], 0),
        (replica("leader", 7, 7), [], 0),
        (follower(7), [event(EventKind.LOG_TRUNCATED, 1, 1, 7)], 0),
        (follower(8), [event(EventKind.LOG_TRUNCATED, 1, 1, 8)], 1),
        (follower(7), [event(EventKind.BECAME_FOLLOWER, 1, 1, 5, incarnation=2)], 0),
        (follower(7), [event(EventKind.TOPIC_DELETED, 1000, 1)], 0),
    ],
    ids=[
        "has all",
        "is in another epoch",
        "is silent",
        "leads",
        "cut its log in this epoch",
        "cut its log above it",
        "began anew in this epoch",
        "the topic was deleted",
    ],
)
def test_a_member_is_judged_only_where_its_log_can_but_have_grown(
    then: Any, more: list[TraceEvent], examined: int
) -> None:
    result = check_high_watermark_in_run(two_looks(then), [LED, FOLLOWED, *more])
    assert (result.findings, result.examined) == ((), examined)


@pytest.mark.parametrize(
    ("own", "others", "examined"), [("A", "B", 1), ("A", "", 1), ("B", "A", 0)],
    ids=["is told", "is told, another's is not", "is not told"],
)  # fmt: skip
def test_a_life_of_a_deleted_topic_is_judged_by_its_own_events(
    own: str, others: str, examined: int
) -> None:
    first = TopicId("A")
    leader, member = (replace(each, topic_id=TopicId(own)) for each in (LEADER, follower(7)))
    looks = [look(1, leader, replace(member, log_end_offset=6)), look(2, leader, member)]
    told = [replace(each, topic_id=first) for each in (LED, FOLLOWED)]
    cut = replace(event(EventKind.LOG_TRUNCATED, 1, 1, 0), topic_id=TopicId(others))
    deleted = event(EventKind.TOPIC_DELETED, 1000, 1)
    result = check_high_watermark_in_run(looks, [*told, cut, deleted])
    assert (len(result.findings), result.examined) == (examined, examined)


def test_a_high_watermark_that_was_brought_along_is_not_judged() -> None:
    brought = event(EventKind.BECAME_LEADER, 0, 1, 9, high_watermark=8, isr=[0, 1])
    looks = two_looks(follower(7))
    assert check_high_watermark_in_run(looks, [brought, FOLLOWED]).examined == 0
    assert check_high_watermark_in_run(looks, [FOLLOWED]).examined == 0


def test_who_is_no_member_may_lack_anything() -> None:
    alone = replica("leader", 8, 9, isr=(0, 2))
    result = check_high_watermark_in_run(two_looks(follower(1), alone), [LED, FOLLOWED])
    assert (result.findings, result.examined) == ((), 0)


def test_another_incarnation_in_the_next_look_is_not_judged() -> None:
    looks = two_looks(follower(7), incarnation=2)
    assert check_high_watermark_in_run(looks, [LED, FOLLOWED]).examined == 0


# ---------------------------------------------------------------- successors


def log(*batches: Any) -> ReplicaLog:
    return ReplicaLog(2, "t", 0, batches, 4)


BEGAN = [
    event(EventKind.BECAME_LEADER, 0, 1, 0, high_watermark=0),
    event(EventKind.LOG_APPENDED, 0, 1, 0, end_offset=3),
]


def test_a_successor_that_begins_with_all_that_was_acknowledged_passes() -> None:
    began = [*BEGAN, event(EventKind.BECAME_LEADER, 1, 2, 3, high_watermark=2)]
    logs = [log(batch_at(0, "a", "b", "c", leader_epoch=1), batch_at(3, "d", leader_epoch=2))]
    acks = [sent(2, "c"), sent(3, "d")]
    result = check_successors(acks, logs, began)
    assert (result.findings, result.examined) == ((), 2)


@pytest.mark.parametrize(
    ("logs", "why"),
    [
        ([log(batch_at(0, "a", "b", "c", leader_epoch=1))], "a leader after it had it again"),
        ([log(batch_at(0, "a", "b", leader_epoch=1))], "it is lost"),
        (
            [log(batch_at(0, "a", "b", leader_epoch=1), batch_at(2, "x", leader_epoch=2))],
            "another record has its place",
        ),
    ],
)
def test_records_of_a_deposed_leader_that_its_successor_lacks_are_found(
    logs: list[ReplicaLog], why: str
) -> None:
    began = [*BEGAN, event(EventKind.BECAME_LEADER, 1, 2, 2, high_watermark=2)]
    (finding,) = check_successors([sent(1, "b"), sent(2, "c")], logs, began).findings
    assert (finding.invariant, finding.offset, finding.broker) == ("I1", 2, 1), why
    assert "'c' of leader_epoch 1 was acknowledged" in finding.message
    assert "broker 0 in leader_epoch 1" in finding.message
    assert "broker 1 began leader_epoch 2 with a log that ended at 2" in finding.message
    assert finding.operation == "p0's send 0"


def test_where_several_leaders_appended_no_one_is_accused() -> None:
    began = [
        *BEGAN,
        event(EventKind.BECAME_LEADER, 1, 2, 2, high_watermark=2),
        event(EventKind.LOG_APPENDED, 1, 2, 2, end_offset=3),
    ]
    logs = [log(batch_at(0, "a", "b", leader_epoch=1))]
    assert check_successors([sent(2, "c")], logs, began).findings == ()


def test_epochs_of_a_deleted_topic_are_left_out() -> None:
    began = [*BEGAN, event(EventKind.BECAME_LEADER, 1, 2, 2), event(EventKind.TOPIC_DELETED, 9, 0)]
    logs = [log(batch_at(0, "a", "b", "c", leader_epoch=1))]
    assert check_successors([sent(2, "c")], logs, began).examined == 0
