"""The catalogue as a table, and which violations its rows may explain."""

from __future__ import annotations

import pytest

from highwater_checker.catalogue.explain import SHOWN_BY, explain
from highwater_checker.catalogue.rows import CATALOGUE
from highwater_core.config import FLAWS, INVARIANTS, PROMISES, MayBreak, Preset
from highwater_core.events import EventKind, TraceEvent

UNCLEAN = TraceEvent(
    ts_ns=0,
    node=1000,
    incarnation=1,
    seq=0,
    kind=EventKind.LEADERSHIP_DECIDED,
    topic="t",
    partition=0,
    leader_epoch=1,
    detail={"leader": 2, "isr": [2], "unclean": True},
)


def test_the_rows_are_numbered_from_1_on() -> None:
    assert [row.number for row in CATALOGUE] == list(range(1, 40))


def test_every_row_breaks_invariants_that_exist_and_gives_a_reason_for_each() -> None:
    for row in CATALOGUE:
        assert set(row.invariants) <= set(INVARIANTS)
        assert row.breaks
        assert all(row.breaks.values())
        assert row.ids
        assert row.in_a_trace


@pytest.mark.parametrize("preset", list(Preset))
def test_a_preset_may_break_just_the_invariants_of_its_flaws(preset: Preset) -> None:
    flaws = [row for row in CATALOGUE if row.number in FLAWS[preset]]
    assert len(flaws) == len(FLAWS[preset])
    assert all(row.trigger and not row.planted for row in flaws)
    for name in INVARIANTS:
        rows = tuple(row.number for row in flaws if name in row.breaks)
        assert PROMISES[preset][name].rows == rows, name


def test_a_row_without_a_trigger_says_why() -> None:
    for row in CATALOGUE:
        assert row.in_a_trace.startswith("none: ") is (row.trigger is None)


def test_an_explanation_names_the_row_its_ids_and_the_evidence() -> None:
    (found,) = explain("I12", "t", 0, -1, [UNCLEAN])
    assert (found.row, found.ids[:3]) == (10, ("KIP-106", "KAFKA-4623", "KAFKA-3410"))
    assert found.evidence == (
        "broker 2 was elected for epoch 1 from outside the ISR; of the committed records it surely "
        "held no more than up to 0"
    )


def test_a_trigger_explains_no_invariant_that_its_row_does_not_break() -> None:
    assert explain("I17", "t", 0, -1, [UNCLEAN]) == ()
    assert explain("crash", "t", 0, -1, [UNCLEAN]) == ()
    assert explain("aborted-read", "t", 0, -1, [UNCLEAN]) == ()


def test_nothing_is_explained_where_nothing_may_break() -> None:
    fenced = PROMISES[Preset.FENCED]
    assert explain("I12", "t", 0, -1, [UNCLEAN], fenced) == ()
    only_row_1 = {"I12": MayBreak((1,))}
    assert explain("I12", "t", 0, -1, [UNCLEAN], only_row_1) == ()


def test_anomalies_are_explained_as_the_invariants_that_they_show() -> None:
    for anomaly, invariant in SHOWN_BY.items():
        assert invariant in INVARIANTS
        assert [each.row for each in explain(anomaly, "t", 0, 0, [UNCLEAN])] == [10]


def test_an_empty_trace_explains_nothing() -> None:
    for name in INVARIANTS:
        assert explain(name, "t", 0, 0, []) == ()
