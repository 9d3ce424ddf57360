"""Fetches in [high watermark, log end) are empty and without an error."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_checker.finding import CheckResult
from highwater_checker.invariants.empty_fetches import (
    STOOD_ABOVE,
    STOOD_BETWEEN,
    check_empty_fetches,
)
from highwater_checker.probes import NO_ANSWER, Probe, decode_probes, encode_probe
from highwater_core.events import EventKind, TraceEvent
from tests.support.evidence_makers import event, look, replica

LEADER = replica("leader", 5, 8)
LOOKS = [look(10, LEADER), look(20, LEADER), look(30, LEADER), look(40, LEADER)]


def probe(offset: int, **fields: Any) -> Probe:
    """Return an answer of broker 0 between the looks, with the high watermark 5."""
    defaults: dict[str, Any] = {"high_watermark": 5, "broker": 0, "asked_ns": 12, "answered_ns": 14}
    return Probe(topic="t", partition=0, offset=offset, **{**defaults, **fields})


def checked(*probes: Probe, looks: Any = LOOKS, events: tuple[TraceEvent, ...] = ()) -> CheckResult:
    return check_empty_fetches(probes, looks, events)


def stood(result: CheckResult) -> tuple[int, int]:
    noted = dict(result.noted)
    return noted[STOOD_BETWEEN], noted[STOOD_ABOVE]


@pytest.mark.parametrize(
    ("found", "between"),
    [
        (probe(5), 1),
        (probe(7), 1),
        (probe(8), 0),
        (probe(4), 0),
        (probe(6, answered_ns=41), 0),
        (probe(6, asked_ns=9), 0),
        (probe(3, first_record=3, last_record=4), 0),
        (probe(6, error=NO_ANSWER, high_watermark=-1), 0),
    ],
    ids=[
        "at the high watermark",
        "below the log end",
        "at the log end",
        "below the high watermark",
        "no look after it",
        "no look before it",
        "what is committed",
        "no answer",
    ],
)
def test_sound_answers_pass_and_count_where_something_was_hidden(
    found: Probe, between: int
) -> None:
    result = checked(found)
    assert result.findings == ()
    assert stood(result) == (between, 0)
    assert result.examined == between


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (probe(5, first_record=5, last_record=5), "got records up to 5"),
        (probe(3, first_record=3, last_record=6), "got records up to 6"),
        (probe(6, error="OFFSET_OUT_OF_RANGE", high_watermark=-1), "got OFFSET_OUT_OF_RANGE"),
        (probe(8, error="OFFSET_OUT_OF_RANGE", high_watermark=-1), "got OFFSET_OUT_OF_RANGE"),
        (probe(6, error="NOT_LEADER_OR_FOLLOWER", high_watermark=-1), "NOT_LEADER"),
        (probe(6, high_watermark=6), "was told the high watermark 6"),
        (probe(6, high_watermark=4), "was told the high watermark 4"),
    ],
    ids=[
        "an uncommitted record",
        "more than is committed",
        "out of range in the log",
        "out of range at its end",
        "an error of a leader",
        "more than its high watermark",
        "less than its high watermark",
    ],
)
def test_a_wrong_answer_is_found(found: Probe, says: str) -> None:
    (finding,) = checked(found).findings
    assert (finding.invariant, finding.broker, finding.offset) == ("I9", 0, found.offset)
    assert says in finding.message


@pytest.mark.parametrize(
    "looks",
    [
        [LOOKS[0], LOOKS[1], look(30, replica("follower", 5, 8))],
        [LOOKS[0], LOOKS[1], look(30, replica("leader", 5, 8, leader_epoch=2))],
        [LOOKS[0], LOOKS[1], look(30, LEADER, incarnation=2)],
        [LOOKS[0], LOOKS[1], look(30, None)],
    ],
    ids=["deposed", "in another epoch", "another incarnation", "silent"],
)
def test_nothing_is_reported_of_a_broker_that_did_not_lead_throughout(looks: Any) -> None:
    errs = probe(6, error="OFFSET_OUT_OF_RANGE", high_watermark=-1)
    result = checked(probe(6), errs, looks=looks)
    assert (result.findings, result.examined) == ((), 0)


# ---------------------------------------------------------------- above the new leader's

NEW = (None, replica("leader", 5, 8, leader_epoch=2))
TAKEN_OVER = [
    look(10, LEADER, replica("follower", 3, 6)),
    look(20, *NEW),
    look(30, *NEW),
]
BEGAN = event(EventKind.BECAME_LEADER, 1, 2, 6, high_watermark=3, isr=[1, 2])
TOLD = probe(5, asked_ns=2, answered_ns=4)
STANDING = probe(5, broker=1, high_watermark=3)


def test_a_consumer_stood_at_the_old_leaders_high_watermark_above_the_new_ones() -> None:
    result = checked(TOLD, STANDING, looks=TAKEN_OVER, events=(BEGAN,))
    assert result.findings == ()
    assert stood(result) == (1, 1)
    assert result.examined == 1


@pytest.mark.parametrize(
    ("probes", "began"),
    [
        ((STANDING,), BEGAN),
        ((TOLD, STANDING), None),
        ((TOLD, STANDING), event(EventKind.BECAME_LEADER, 1, 2, 6, high_watermark=5)),
        ((TOLD, STANDING), event(EventKind.BECAME_LEADER, 1, 2, 4, high_watermark=3)),
        ((STANDING, probe(5, asked_ns=15, answered_ns=16)), BEGAN),
    ],
    ids=["nobody told it", "no trace", "began with it", "its log was shorter", "told later"],
)
def test_without_its_proof_nobody_stood_there(
    probes: tuple[Probe, ...], began: TraceEvent | None
) -> None:
    events = () if began is None else (began,)
    assert stood(checked(*probes, looks=TAKEN_OVER, events=events))[1] == 0


def test_an_error_there_is_found() -> None:
    errs = probe(5, broker=1, error="OFFSET_OUT_OF_RANGE", high_watermark=-1)
    (finding,) = checked(TOLD, errs, looks=TAKEN_OVER, events=(BEGAN,)).findings
    assert finding.broker == 1
    before_it_led = probe(5, broker=1, error="NOT_LEADER_OR_FOLLOWER", high_watermark=-1)
    assert checked(TOLD, before_it_led, looks=TAKEN_OVER, events=(BEGAN,)).findings == ()


def test_probes_are_read_back_and_a_torn_last_line_is_left_out() -> None:
    lines = [encode_probe(TOLD), encode_probe(STANDING)]
    assert decode_probes([*lines, lines[0][:-3]]) == [TOLD, STANDING]
