"""Triggers of the later rows: each names its row by all of its ingredients, and by no fewer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from highwater_checker.catalogue.explain import explain
from highwater_checker.catalogue.later_rows import LATER_ROWS, NO_ROWS
from highwater_checker.catalogue.rows import CATALOGUE
from highwater_core.config import INVARIANTS, PROMISES, MayBreak, Preset
from highwater_core.events import EventKind as Kind
from highwater_core.events import TraceEvent

ALL_ROWS = {
    name: MayBreak(tuple(row.number for row in LATER_ROWS if name in row.breaks))
    for name in INVARIANTS
}


def event(
    kind: Kind, node: int, epoch: int = 0, offset: int = 0, incarnation: int = 1, **detail: Any
) -> TraceEvent:
    return TraceEvent(
        ts_ns=0,
        seq=0,
        kind=kind,
        node=node,
        incarnation=incarnation,
        topic="t",
        partition=0,
        leader_epoch=epoch,
        offset=offset,
        detail=detail,
    )


def of_node(kind: Kind, node: int, incarnation: int = 1, **detail: Any) -> TraceEvent:
    return TraceEvent(0, node, incarnation, 0, kind, detail=detail)


def follows(node: int, leader: int, epoch: int) -> TraceEvent:
    return event(Kind.BECAME_FOLLOWER, node, epoch, leader=leader)


def cuts(node: int, epoch: int, offset: int, reason: str = "to the end of epoch 0") -> TraceEvent:
    return event(Kind.LOG_TRUNCATED, node, epoch, offset, reason=reason)


def refuses(node: int, error: str = "KAFKA_STORAGE_ERROR", request: str = "produce") -> TraceEvent:
    return event(Kind.REQUEST_REFUSED, node, request=request, error=error)


def appends(node: int, epoch: int, offset: int) -> TraceEvent:
    return event(Kind.LOG_APPENDED, node, epoch, offset, end_offset=offset + 1)


def recovers(node: int, offset: int, incarnation: int = 2, *, clean: bool = False) -> TraceEvent:
    return event(Kind.LOG_RECOVERED, node, -1, offset, incarnation, clean=clean)


def cannot_open(node: int, where: str = "t-0", incarnation: int = 1) -> TraceEvent:
    return of_node(Kind.BAD_INPUT_MET, node, incarnation, where=where, what="input/output error")


@dataclass(frozen=True)
class Story:
    """A row's steps; each of them is needed. unless: steps that undo it, put in after another."""

    row: int
    invariant: str
    offset: int
    steps: Mapping[str, TraceEvent]
    unless: Mapping[str, tuple[str, TraceEvent]] = field(default_factory=dict)
    not_at: int | None = None
    """An offset that the row does not explain."""


TO_HIGH_WATERMARK = "to the high watermark"

STORIES = (
    Story(
        25,
        "I3",
        9,
        {"followed": follows(1, 0, 0), "cut": cuts(0, 1, 7), "replaced": appends(2, 1, 7)},
        {"it heard of the epoch": ("followed", follows(1, 2, 1))},
        not_at=6,
    ),
    Story(
        26,
        "I4",
        23,
        {"refused": refuses(2), "went on": appends(2, 0, 21)},
        {"it was started again": ("refused", of_node(Kind.NODE_STARTED, 2, 2))},
        not_at=20,
    ),
    Story(
        27,
        "I11",
        3,
        {"recovered": recovers(0, 19), "cut": cuts(0, 0, 0, TO_HIGH_WATERMARK)},
    ),
    Story(
        28,
        "L1",
        -1,
        {
            "elected": of_node(Kind.CONTROLLER_ELECTED, 1001),
            "resigned": of_node(Kind.CONTROLLER_RESIGNED, 1001, reason="the session is lost"),
        },
        {"another was elected": ("resigned", of_node(Kind.CONTROLLER_ELECTED, 1000))},
    ),
    Story(
        28,
        "L1",
        -1,
        {
            "elected": of_node(Kind.CONTROLLER_ELECTED, 1001),
            "started again": of_node(Kind.NODE_STARTED, 1001, 2),
        },
    ),
    Story(
        29,
        "I4",
        12,
        {"refused": cannot_open(1), "recovered": recovers(1, 0, clean=True)},
        {"it was opened": ("refused", recovers(1, 40, incarnation=1))},
    ),
    Story(
        30,
        "I4",
        19,
        {
            "led": event(Kind.BECAME_LEADER, 2, high_watermark=19),
            "removed": event(Kind.LOG_START_MOVED, 2, 0, 21, reason="retention"),
        },
        {"it committed more": ("led", event(Kind.HIGH_WATERMARK_ADVANCED, 2, 0, 21, isr=[2]))},
    ),
)
OTHERS = (
    (25, "I3", 9, [follows(1, 3, 0), cuts(0, 1, 7), appends(2, 1, 7)]),  # of another leader
    (26, "I4", 23, [refuses(2, "CORRUPT_MESSAGE"), appends(2, 0, 21)]),
    (26, "I4", 23, [refuses(2, request="fetch"), appends(2, 0, 21)]),
    (26, "I4", 23, [refuses(2), appends(1, 0, 21)]),
    (27, "I11", 3, [appends(0, 1, 4), recovers(0, 19), cuts(0, 1, 0, TO_HIGH_WATERMARK)]),
    (27, "I11", 3, [recovers(0, 19), cuts(0, 0, 0)]),
    (27, "I11", 3, [recovers(0, 0), cuts(0, 0, 0, TO_HIGH_WATERMARK)]),
    (29, "I4", 12, [cannot_open(1), recovers(1, 0)]),  # the stop did not count as clean
    (29, "I4", 12, [cannot_open(1, "t-1"), recovers(1, 0, clean=True)]),
)


def rows_of(trace: list[TraceEvent], invariant: str, offset: int) -> set[int]:
    at = ("", -1) if invariant.startswith("L1") else ("t", 0)
    return {each.row for each in explain(invariant, *at, offset, trace, ALL_ROWS)}


@pytest.mark.parametrize("story", STORIES, ids=lambda story: f"row {story.row}")
def test_the_whole_story_names_the_row_and_no_part_of_it_does(story: Story) -> None:
    trace = list(story.steps.values())
    assert story.row in rows_of(trace, story.invariant, story.offset)
    for name in story.steps:
        part = [each for step, each in story.steps.items() if step != name]
        assert story.row not in rows_of(part, story.invariant, story.offset), name
    for name, (after, undoes) in story.unless.items():
        place = list(story.steps).index(after) + 1
        undone = [*trace[:place], undoes, *trace[place:]]
        assert story.row not in rows_of(undone, story.invariant, story.offset), name
    if story.not_at is not None:
        assert story.row not in rows_of(trace, story.invariant, story.not_at)


@pytest.mark.parametrize(("row", "invariant", "offset", "trace"), OTHERS)
def test_other_traces_do_not_name_the_row(
    row: int, invariant: str, offset: int, trace: list[TraceEvent]
) -> None:
    assert row not in rows_of(trace, invariant, offset)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: f"row {story.row}")
def test_events_of_another_partition_name_no_row(story: Story) -> None:
    if story.row == 28:
        return  # no controller acts for any partition
    others = [replace(each, partition=1) if each.topic else each for each in story.steps.values()]
    assert story.row not in rows_of(others, story.invariant, story.offset)


def test_repairs_at_the_next_start_hide_no_log_that_the_start_before_could_not_open() -> None:
    repaired = cannot_open(1, incarnation=2)
    trace = [cannot_open(1), repaired, recovers(1, 0, clean=True)]
    assert 29 in rows_of(trace, "I4", 12)
    assert 29 not in rows_of([repaired, recovers(1, 0, clean=True)], "I4", 12)


def test_every_row_with_a_trigger_has_its_stories_and_excuses_nothing() -> None:
    assert {row.number for row in LATER_ROWS if row.trigger} == {each.row for each in STORIES}
    excuses = {row for preset in Preset for each in PROMISES[preset].values() for row in each.rows}
    assert not excuses & {row.number for row in LATER_ROWS}


def test_a_bug_that_is_no_row_is_none() -> None:
    of_no_row = {each for ids in NO_ROWS for each in ids.split(", ")}
    first_ids = {row.ids[0] for row in CATALOGUE}
    assert not of_no_row & first_ids
