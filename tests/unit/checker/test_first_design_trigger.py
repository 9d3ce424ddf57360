"""Row 38: a new leader takes its whole log for committed, before others have it."""

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
