"""Row 38: a new leader takes its whole log for committed, before others have it."""

from __future__ import annotations

from typing import Any

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
