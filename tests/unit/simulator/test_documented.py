"""A run goes on past violations that a row explains, to the one that its plan expects."""

from __future__ import annotations

import pytest

from highwater_chaos.plan import Expected, Plan, PlanTopology
from highwater_checker.stories.entries import Entry
from highwater_core.config import Preset
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicPartition
from highwater_simulator.oracle.documented import OnTheWay, may_break
from highwater_simulator.oracle.violation import Violation

AT = TopicPartition("t", 0)
CUT = (
    TraceEvent(0, 1, 1, 0, EventKind.BECAME_LEADER, "t", 0, 0, offset=0),
    TraceEvent(0, 1, 1, 1, EventKind.LOG_APPENDED, "t", 0, 0, offset=0),
    TraceEvent(0, 2, 1, 0, EventKind.BECAME_LEADER, "t", 0, 1, offset=0),
)


def plan(preset: Preset, expected: Expected | None) -> Plan:
    return Plan(seed=1, topology=PlanTopology(preset=preset), expected=expected)


def no_epoch(message: str = "its last epoch is 0") -> Violation:
    """Return a violation that row 4 explains by CUT: broker 2 has written nothing."""
    return Violation("I10", message, 7, AT.topic, AT.partition)


def on_the_way(preset: Preset, expected: Expected | None, *, is_traced: bool = True) -> OnTheWay:
    entries = [Entry(0, f"broker-{event.node}", event) for event in CUT if is_traced]
    return OnTheWay(plan(preset, expected), entries)


LOSS = Expected("fail", "I1", (4,))


def test_a_run_goes_on_past_what_a_row_explains_to_what_its_plan_expects() -> None:
    way = on_the_way(Preset.FENCED, LOSS)
    assert way.goes_on_past(no_epoch())
    assert way.flags == [no_epoch()]
    assert way.first_passed() == no_epoch()


@pytest.mark.parametrize(
    ("expected", "is_traced"),
    [
        (None, True),
        (Expected(), True),
        (Expected("fail", "I1"), True),
        (Expected("fail", "I10", (4,)), True),
        (LOSS, False),
    ],
    ids=["no plan says", "a pass", "no row", "the expected one itself", "unexplained"],
)
def test_any_other_violation_ends_the_run(expected: Expected | None, is_traced: bool) -> None:
    way = on_the_way(Preset.FENCED, expected, is_traced=is_traced)
    assert not way.goes_on_past(no_epoch())
    assert way.flags == []
    assert way.first_passed() is None


def test_the_same_violation_is_passed_once() -> None:
    way = on_the_way(Preset.FENCED, LOSS)
    assert not way.was_passed(AT, "I10", no_epoch().message)
    assert way.goes_on_past(no_epoch())
    assert way.was_passed(AT, "I10", no_epoch().message)
    assert not way.was_passed(AT, "I10", "its last epoch is 1")
    assert not way.was_passed(None, "I10", no_epoch().message)


def test_a_flagged_violation_is_passed_whoever_explains_it_and_is_none_on_the_way() -> None:
    way = on_the_way(Preset.V3, None, is_traced=False)
    assert way.goes_on_past(no_epoch())
    assert way.flags == [no_epoch()]
    assert way.first_passed() is None
    assert not way.was_passed(AT, "I10", no_epoch().message)


def test_a_plan_may_break_what_its_preset_and_its_expected_rows_may() -> None:
    assert may_break(plan(Preset.FENCED, None))["I1"].rows == ()
    assert may_break(plan(Preset.FENCED, LOSS))["I1"].rows == (4,)
    assert may_break(plan(Preset.FENCED, LOSS))["I16"].rows == ()
    allowed = may_break(plan(Preset.KIP101, Expected("fail", "I9", (23,))))
    assert 23 in allowed["I9"].rows
    assert set(may_break(plan(Preset.KIP101, None))["I1"].rows) <= set(allowed["I1"].rows)
