"""A partition's story is that of its topic's last life, by topic ids if there are any."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater_checker.catalogue.story import PartitionStory
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import NO_TOPIC_ID, TopicId

FIRST, SECOND = TopicId("first"), TopicId("second")


def leads(topic_id: TopicId, leader_epoch: int) -> TraceEvent:
    return TraceEvent(
        0, 0, 1, 0, EventKind.BECAME_LEADER, "t", topic_id=topic_id, partition=0,
        leader_epoch=leader_epoch, offset=0, detail={"isr": [0], "high_watermark": 0},
    )  # fmt: skip


def deleted(topic_id: TopicId) -> TraceEvent:
    return TraceEvent(0, 1000, 1, 0, EventKind.TOPIC_DELETED, "t", topic_id=topic_id)


VANISHED = replace(
    deleted(NO_TOPIC_ID), kind=EventKind.TOPICS_CHANGED, topic=None, detail={"deleted": ["t"]}
)
NEW = leads(SECOND, 1)
LATE = leads(FIRST, 7)


@pytest.mark.parametrize(
    "trace",
    [
        [LATE, deleted(FIRST), NEW],
        [LATE, VANISHED, NEW],
        [LATE, NEW],
        [LATE, NEW, deleted(FIRST)],
        [deleted(FIRST), NEW, replace(LATE, kind=EventKind.HIGH_WATERMARK_ADVANCED)],
    ],
    ids=["deleted", "vanished", "nobody told", "told late", "a leader that has not heard of it"],
)
def test_events_of_another_id_than_the_last_leaders_are_of_another_life(
    trace: list[TraceEvent],
) -> None:
    assert [seen.event for seen in PartitionStory(trace, "t", 0).seen] == [NEW]


def test_without_ids_a_deletion_ends_the_story() -> None:
    old, new = leads(NO_TOPIC_ID, 3), leads(NO_TOPIC_ID, 1)
    trace = [old, deleted(NO_TOPIC_ID), new]
    assert [seen.event for seen in PartitionStory(trace, "t", 0).seen] == [new]
