"""Rows 38 and 39: a leader takes its whole log for committed; a deleted topic's leader leads."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_checker.catalogue.explain import explain
from highwater_core.config import PROMISES, Preset
from highwater_core.events import EventKind, TraceEvent


def event(kind: EventKind, node: int, epoch: int, offset: int, **detail: Any) -> TraceEvent:
    return TraceEvent(0, node, 1, 0, kind, "t", 0, epoch, None, offset, detail)


LEADS = event(EventKind.BECAME_LEADER, 1, 2, 9, isr=(1, 2), high_watermark=6)
TAKES = event(EventKind.HIGH_WATERMARK_ADVANCED, 1, 2, 9, isr=(1,), is_taken=True)
TAKEN_OVER = event(EventKind.ISR_CHANGED, 1, 2, 9, isr=(1, 2), partition_epoch=3)


def rows(*trace: TraceEvent, offset: int = 7, preset: Preset = Preset.V2) -> list[int]:
    return [each.row for each in explain("I2", "t", 0, offset, trace, PROMISES[preset])]


def test_records_above_the_high_watermark_that_the_leader_began_with_are_named() -> None:
    assert rows(LEADS, TAKES) == [38]
    assert rows(LEADS, TAKES, offset=5) == []


def test_a_leader_that_has_taken_over_has_committed_them() -> None:
    assert rows(LEADS, TAKES, TAKEN_OVER) == []


def test_a_high_watermark_that_followers_raised_is_not_taken() -> None:
    raised = event(EventKind.HIGH_WATERMARK_ADVANCED, 1, 2, 9, isr=(1, 2))
    assert rows(LEADS, raised) == []


def test_no_other_preset_has_the_flaw() -> None:
    assert rows(LEADS, TAKES, preset=Preset.V3) == []


# ---------------------------------------------------------------- committed by others

COMMITTED = event(EventKind.HIGH_WATERMARK_ADVANCED, 0, 1, 8, isr=(0, 1, 2))


def test_what_an_earlier_leader_has_committed_is_of_another_row() -> None:
    assert rows(COMMITTED, LEADS, TAKES) == []
    assert rows(COMMITTED, LEADS, TAKES, offset=8) == [38]


def test_an_earlier_leader_that_only_took_its_log_has_committed_nothing() -> None:
    led = event(EventKind.BECAME_LEADER, 0, 1, 8, isr=(0, 1), high_watermark=6)
    took = event(EventKind.HIGH_WATERMARK_ADVANCED, 0, 1, 8, isr=(0,), is_taken=True)
    assert rows(led, took, LEADS, TAKES) == [38]
    written = event(EventKind.ISR_CHANGED, 0, 1, 8, isr=(0, 1), partition_epoch=3)
    assert rows(led, took, written, LEADS, TAKES) == []


def test_records_behind_the_end_of_that_log_are_of_another_row() -> None:
    assert rows(LEADS, TAKES, offset=9) == []


@pytest.mark.parametrize(("log_end", "named"), [(9, []), (8, [38])])
def test_the_next_leader_has_committed_them_if_it_had_them_all(
    log_end: int, named: list[int]
) -> None:
    following = event(EventKind.BECAME_LEADER, 2, 3, log_end, isr=(1, 2), high_watermark=6)
    written = event(EventKind.ISR_CHANGED, 2, 3, log_end, isr=(2,), partition_epoch=4)
    assert rows(LEADS, TAKES, following) == [38]
    assert rows(LEADS, TAKES, following, written) == named


# ---------------------------------------------------------------- row 39


def of_topic(kind: EventKind, **detail: Any) -> TraceEvent:
    return TraceEvent(0, 0, 1, 0, kind, "t", None, None, None, None, detail)


DELETED = of_topic(EventKind.TOPIC_DELETED)
OLD_LEADS = event(EventKind.BECAME_LEADER, 1, 0, 0, isr=(1,), high_watermark=0)
NEW_LEADS = event(EventKind.BECAME_LEADER, 0, 0, 0, isr=(0,), high_watermark=0)
FOLLOWS = event(EventKind.BECAME_FOLLOWER, 1, 0, 0, leader=0)
STOPPED = event(EventKind.REPLICA_STOPPED, 1, 0, 0, deleted=True)
STARTED = TraceEvent(0, 1, 2, 0, EventKind.NODE_STARTED, None, None, None, None, None, {})


def rows_of_two_leaders(*trace: TraceEvent, preset: Preset = Preset.V2) -> list[int]:
    return [each.row for each in explain("I7", "t", 0, -1, trace, PROMISES[preset])]


def test_a_leader_from_before_a_deletion_leads_beside_the_new_topics() -> None:
    assert rows_of_two_leaders(OLD_LEADS, DELETED, NEW_LEADS) == [39]
    by_znode = of_topic(EventKind.TOPICS_CHANGED, deleted=("t",))
    assert rows_of_two_leaders(OLD_LEADS, by_znode, NEW_LEADS) == [39]


def test_no_other_preset_lets_a_deleted_topic_lead() -> None:
    for preset in (Preset.V3, Preset.CLASSIC, Preset.KIP101, Preset.FENCED):
        assert rows_of_two_leaders(OLD_LEADS, DELETED, NEW_LEADS, preset=preset) == []


def test_two_leaders_of_one_life_are_no_known_flaw() -> None:
    third = event(EventKind.BECAME_LEADER, 2, 0, 0, isr=(2,), high_watermark=0)
    assert rows_of_two_leaders(OLD_LEADS, DELETED, NEW_LEADS, third) == []
    assert rows_of_two_leaders(OLD_LEADS, NEW_LEADS) == []
    assert rows_of_two_leaders(DELETED, OLD_LEADS, NEW_LEADS) == []


@pytest.mark.parametrize("ends", [FOLLOWS, STOPPED, STARTED], ids=lambda each: each.kind)
def test_a_leader_that_has_heard_of_it_leads_no_longer(ends: TraceEvent) -> None:
    assert rows_of_two_leaders(OLD_LEADS, DELETED, ends, NEW_LEADS) == []


def test_another_leader_epoch_is_another_leaders() -> None:
    later = event(EventKind.BECAME_LEADER, 0, 1, 0, isr=(0,), high_watermark=0)
    assert rows_of_two_leaders(OLD_LEADS, DELETED, later) == []
    assert rows_of_two_leaders(OLD_LEADS, DELETED, OLD_LEADS) == []
