"""I4 and I11 by traces: each violation is found in its place, and no other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater_checker.invariants.committed_before import check_committed_before
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicId

AT_NS = 10


def traced(
    kind: EventKind, node: int, leader_epoch: int, offset: int, topic: str = "t", **detail: object
) -> TraceEvent:
    return TraceEvent(AT_NS, node, 1, 0, kind, topic, 0, leader_epoch, 0, offset, dict(detail))


def at(ts_ns: int, event: TraceEvent) -> TraceEvent:
    return replace(event, ts_ns=ts_ns)


def leads(node: int, leader_epoch: int, log_end_offset: int, isr: tuple[int, ...]) -> TraceEvent:
    return traced(EventKind.BECAME_LEADER, node, leader_epoch, log_end_offset, isr=isr)


def commits(
    node: int, leader_epoch: int, up_to: int, topic: str = "t", isr: tuple[int, ...] = (0, 1, 2)
) -> TraceEvent:
    return traced(EventKind.HIGH_WATERMARK_ADVANCED, node, leader_epoch, up_to, topic, isr=isr)


def cuts(node: int, leader_epoch: int, from_offset: int, to_offset: int) -> TraceEvent:
    return traced(EventKind.LOG_TRUNCATED, node, leader_epoch, to_offset, from_offset=from_offset)


TOPIC_GONE = TraceEvent(0, 9, 1, 0, EventKind.TOPICS_CHANGED, detail={"deleted": ["t"]})
BEFORE = (leads(0, 0, 0, (0, 1, 2)), commits(0, 0, 5))


@pytest.mark.parametrize(
    ("events", "found"),
    [
        pytest.param((leads(1, 1, 5, (1, 2)),), [], id="the next leader has it all"),
        pytest.param((leads(1, 1, 4, (1, 2)),), [("I4", 4)], id="it lacks one record"),
        pytest.param(
            (leads(1, 1, 9, (1, 2)), commits(1, 1, 9), leads(2, 2, 8, (2,))),
            [("I4", 8)],
            id="the one after it lacks what it committed",
        ),
        pytest.param(
            (leads(1, 1, 5, (1, 2)), commits(1, 1, 9), leads(0, 0, 5, (0, 1, 2))),
            [],
            id="what comes after an epoch is not asked of its leader",
        ),
        pytest.param(
            (leads(1, 1, 5, (1, 2)), cuts(2, 1, 8, 5)), [], id="a member cuts what is not committed"
        ),
        pytest.param(
            (leads(1, 1, 5, (1, 2)), cuts(2, 1, 5, 3)), [("I11", 3)], id="a member cuts below it"
        ),
        pytest.param(
            (cuts(2, 1, 5, 3), leads(1, 1, 5, (1, 2))),
            [("I11", 3)],
            id="whichever node's trace is read first",
        ),
        pytest.param(
            (leads(1, 1, 5, (1,)), cuts(2, 1, 5, 3)), [], id="who is not in the ISR may cut"
        ),
        pytest.param(
            (leads(1, 1, 5, (1, 2)), cuts(2, 1, 3, 3)), [], id="nothing is cut by a cut of nothing"
        ),
        pytest.param(
            (at(11, cuts(2, 0, 5, 3)),), [("I11", 3)], id="in the epoch that committed it"
        ),
        pytest.param((at(9, cuts(2, 0, 5, 3)),), [], id="before it was committed in the epoch"),
        pytest.param(
            (at(11, commits(0, 0, 6, isr=(0, 1))), at(12, cuts(2, 0, 5, 3))),
            [],
            id="who has left the ISR in the epoch may cut",
        ),
        pytest.param((TOPIC_GONE, leads(1, 1, 0, (1, 2))), [], id="the topic was deleted"),
    ],
)
def test_records_committed_before_an_epoch_are_required_of_its_leader_and_first_isr(
    events: tuple[TraceEvent, ...], found: list[tuple[str, int]]
) -> None:
    result = check_committed_before((*BEFORE, *events))
    assert [(each.invariant, each.offset) for each in result.findings] == found


def test_records_committed_in_one_life_of_a_topic_are_required_in_that_life_alone() -> None:
    first, second = TopicId("A"), TopicId("B")
    before = [replace(event, topic_id=first) for event in BEFORE]
    made_again = [
        replace(event, topic_id=second)
        for event in (leads(1, 0, 0, (1, 2)), leads(2, 1, 0, (1, 2)), cuts(2, 1, 3, 0))
    ]
    result = check_committed_before([*before, TOPIC_GONE, *made_again])
    assert (result.examined, result.findings) == (4, ())
    lacks = replace(leads(1, 1, 4, (1, 2)), topic_id=first)
    result = check_committed_before([*before, lacks, TOPIC_GONE, *made_again])
    assert [(each.invariant, each.offset) for each in result.findings] == [("I4", 4)]


def test_another_partitions_records_do_not_count_and_nothing_proves_nothing() -> None:
    result = check_committed_before((commits(0, 0, 5, "other"), leads(1, 1, 0, (1, 2))))
    assert (result.examined, result.findings) == (1, ())
    assert check_committed_before(()).examined == 0
