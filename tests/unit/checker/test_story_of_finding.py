"""Which entries of a finished run tell a finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from highwater_checker.finding import Traced
from highwater_checker.stories.entries import JUDGE, PLAN, Entry, Note
from highwater_checker.stories.finding_story import Subject, story_of_finding
from highwater_checker.stories.story import CLIENTS, LAST, MOST_ENTRIES, Story
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicPartition
from highwater_core.internal_topics import OFFSETS_TOPIC

AT = TopicPartition("t", 0)
FAULT, FOUND = (PLAN, "acts: kill broker-0"), (JUDGE, "I1: t-0: lost")


def noted(at_ns: int, who: str, what: str) -> Entry:
    return Entry(at_ns, who, Note(who, what, {"offset": 7}))


def traced(
    at_ns: int, kind: EventKind, topic: str | None = "t", partition: int | None = 0, node: int = 1
) -> Entry:
    event = TraceEvent(at_ns, node, 1, at_ns, kind, topic, partition=partition)
    return Entry(at_ns, f"broker-{node}", event)


def told(entries: Sequence[Entry], *shown: int) -> list[str]:
    """Return the times of the told entries and their kinds; shown: events, by their times."""
    about = Subject(AT, {Traced(1, 1, at_ns) for at_ns in shown})
    story = story_of_finding(entries, about)
    return [
        f"{each.at_ns} {each.event.what if isinstance(each.event, Note) else each.event.kind}"
        for each in story.entries
    ]


def test_it_begins_with_who_led_before_the_faults_and_ends_with_the_finding() -> None:
    entries = [
        traced(1, EventKind.BECAME_LEADER),
        traced(2, EventKind.ISR_CHANGED),
        traced(3, EventKind.BECAME_LEADER, node=2),
        traced(4, EventKind.LOG_TRUNCATED),
        noted(5, *FAULT),
        traced(6, EventKind.LEADER_ELECTED),
        noted(7, *FOUND),
    ]
    assert told(entries) == [
        "2 isr_changed",
        "3 became_leader",
        "5 acts: kill broker-0",
        "6 leader_elected",
        "7 I1: t-0: lost",
    ]


@pytest.mark.parametrize(
    ("topic", "partition", "is_told"),
    [("t", 0, True), ("t", None, True), (None, None, True), ("t", 1, False), ("u", 0, False)],
)
def test_it_has_events_of_its_partition_its_topic_and_of_no_topic(
    topic: str | None, partition: int | None, is_told: bool
) -> None:
    event = traced(2, EventKind.LOG_TRUNCATED, topic, partition)
    entries = [noted(1, *FAULT), event, noted(3, *FOUND)]
    assert ("2 log_truncated" in told(entries)) is is_told


def test_what_shows_the_finding_is_told_whatever_and_whenever_it_was() -> None:
    """The lost record's append and its send may be of a time before the first fault."""
    entries = [
        noted(1, CLIENTS, "p0's send 1: ok"),
        noted(2, CLIENTS, "send ok"),
        traced(3, EventKind.LOG_APPENDED),
        traced(4, EventKind.LOG_APPENDED),
        noted(5, *FAULT),
        traced(6, EventKind.LOG_APPENDED),
        traced(7, EventKind.LOG_APPENDED),
        noted(8, *FOUND),
    ]
    assert told(entries, 3, 7) == [
        "1 p0's send 1: ok",
        "3 log_appended",
        "5 acts: kill broker-0",
        "7 log_appended",
        "8 I1: t-0: lost",
    ]


def test_a_run_without_faults_is_told_from_its_beginning() -> None:
    entries = [traced(1, EventKind.BECAME_LEADER), noted(2, CLIENTS, "send ok"), noted(3, *FOUND)]
    assert told(entries) == ["1 became_leader", "2 send ok", "3 I1: t-0: lost"]


def test_a_long_story_leaves_out_its_least_events_and_then_its_middle() -> None:
    refused = [traced(2, EventKind.REQUEST_REFUSED) for _ in range(MOST_ENTRIES)]
    turning = [traced(3, EventKind.ISR_CHANGED) for _ in range(MOST_ENTRIES)]
    few = [noted(1, *FAULT), *refused, *turning[:10], noted(4, *FOUND)]
    assert told(few) == ["1 acts: kill broker-0", *["3 isr_changed"] * 10, "4 I1: t-0: lost"]

    story = story_of_finding([noted(1, *FAULT), *turning, noted(4, *FOUND)], Subject(AT, ()))
    assert (len(story.entries), story.gaps) == (MOST_ENTRIES, ((MOST_ENTRIES - LAST, 2),))
    lines = list(story.lines())
    assert lines[-LAST - 1].endswith("... 2 lines are left out")
    assert lines[-1].endswith("I1: t-0: lost  offset=7")


def test_a_long_story_keeps_what_shows_the_finding_in_its_middle() -> None:
    def turning(first: int) -> list[Entry]:
        return [traced(first + each, EventKind.ISR_CHANGED) for each in range(MOST_ENTRIES)]

    named = noted(400, CLIENTS, "p0's send 12: ok")
    shown = traced(500, EventKind.LOG_APPENDED)
    entries = [noted(1, *FAULT), *turning(100), named, *turning(401), shown, *turning(600)]
    story = story_of_finding([*entries, noted(900, *FOUND)], Subject(AT, {Traced(1, 1, 500)}))
    assert [each for each in story.entries if each.at_ns in (400, 500)] == [named, shown]
    missing = len(entries) + 1 - len(story.entries)
    assert sum(count for _, count in story.gaps) == missing
    lines = list(story.lines())
    assert len(lines) == len(story.entries) + len(story.gaps)
    assert lines[story.gaps[0][0]].endswith(f"... {story.gaps[0][1]} lines are left out")


@pytest.mark.parametrize(("of_groups", "told_times"), [(False, [1, 5]), (True, [1, 2, 3, 4, 5])])
def test_groups_and_their_offsets_are_told_where_the_finding_is_of_a_group(
    of_groups: bool, told_times: list[int]
) -> None:
    entries = [
        noted(1, *FAULT),
        traced(2, EventKind.BECAME_LEADER, OFFSETS_TOPIC, 7),
        traced(3, EventKind.GROUP_LOAD_ENDED, OFFSETS_TOPIC, 7),
        traced(4, EventKind.GROUP_GENERATION_BEGUN, None, None),
        noted(5, *FOUND),
    ]
    story = story_of_finding(entries, Subject(AT, (), of_groups))
    assert [each.at_ns for each in story.entries] == told_times


def test_a_judges_words_are_no_send_whatever_they_begin_with() -> None:
    entries = [noted(1, *FAULT), noted(2, JUDGE, "send x: t-0: lost")]
    assert told(entries) == ["1 acts: kill broker-0", "2 send x: t-0: lost"]


def test_a_long_topics_name_costs_no_partition_epoch_or_offset() -> None:
    event = TraceEvent(1, 1, 1, 1, EventKind.BECAME_LEADER, "n" * 249, partition=3, leader_epoch=7)
    event = replace(event, offset=9, detail={"isr": [*range(99)]})
    (line,) = Story((Entry(1, "broker-1", event),)).lines()
    assert "n-3 " in line
    assert " e7 " in line
    assert " @9 ..." in line
