"""Which lines of a trace are events: they have every detail that judges read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater_core.events import EventKind, TraceEvent
from highwater_core.json_lines import DamagedLines
from highwater_core.numbers import Int32, Int64
from highwater_core.traces import READ_DETAILS, READ_FIELDS, decode_events, encode_event

STARTED = TraceEvent(1, 3, 2, 0, EventKind.NODE_STARTED)
SOUND = {Int32: 7, Int64: 2**40, str: "x", list[Int32]: [1, 2], list[str]: ["t"]}
WRONG = {
    Int32: (True, 1.0, 2**31),
    Int64: (True, 1.0, 2**63),
    str: (None,),
    list[Int32]: ([1, "2"], [2**31]),
    list[str]: ([1],),
}


PLACE = {"topic": "t", "partition": 0, "leader_epoch": 1, "offset": 2}


def event_of(kind: EventKind, detail: dict[str, object]) -> TraceEvent:
    fields = {name: PLACE[name] for name in READ_FIELDS.get(kind, ())}
    return TraceEvent(1, 3, 2, 1, kind, detail=detail, **fields)  # type: ignore[arg-type]


def detail_of(kind: EventKind) -> dict[str, object]:
    return {name: SOUND[of] for name, of in READ_DETAILS[kind].items()}


@pytest.mark.parametrize("kind", READ_DETAILS)
def test_an_event_comes_with_the_details_that_judges_read(kind: EventKind) -> None:
    event = event_of(kind, detail={**detail_of(kind), "more": None})
    assert decode_events([encode_event(each) for each in (event, STARTED)]) == [event, STARTED]
    for name, of in READ_DETAILS[kind].items():
        without = {key: value for key, value in event.detail.items() if key != name}
        wrong = ({**event.detail, name: value} for value in WRONG[of])
        for detail in (without, *wrong):
            damaged = replace(event, detail=detail)
            with pytest.raises(DamagedLines, match="line 1: ") as told:
                decode_events([encode_event(each) for each in (damaged, STARTED)])
            assert told.value.found == [STARTED]


@pytest.mark.parametrize("kind", READ_FIELDS)
def test_an_event_comes_with_the_fields_that_judges_read(kind: EventKind) -> None:
    event = event_of(kind, detail_of(kind) if kind in READ_DETAILS else {})
    for name in READ_FIELDS[kind]:
        damaged = replace(event, **{name: None})
        with pytest.raises(DamagedLines, match=f"{kind} without its {name}") as told:
            decode_events([encode_event(each) for each in (damaged, STARTED)])
        assert told.value.found == [STARTED]
