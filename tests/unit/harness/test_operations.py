"""The single operations of a run's page: which are kept, in which rows, and in which words."""

from __future__ import annotations

import pytest

from highwater.report.operations import MOST_ROWS, Operations, operations_of
from highwater_checker.history import COMMIT, POLL, SEND, HistoryEvent, OperationType

END_NS = 1_000


def event(kind: OperationType, number: int, at_ns: int, **more: object) -> HistoryEvent:
    told = {"process": "p0", "function": SEND, "topic": "t", "partition": 0, "value": "v"} | more
    return HistoryEvent(time_ns=at_ns, type=kind, operation_id=number, **told)  # type: ignore[arg-type]


def operation(
    number: int, begin_ns: int, end_ns: int | None, kind: str = "ok", **more: object
) -> list[HistoryEvent]:
    begun = event(OperationType.INVOKE, number, begin_ns)
    if end_ns is None:
        return [begun]
    return [begun, event(OperationType(kind), number, end_ns, **more)]


def kept(found: Operations) -> list[int]:
    return [round(each.begin_s * 1e9) for each in found.shown]


STORY = [*operation(0, 0, 10), *operation(1, 100, 400), *operation(2, 500, 510)]


@pytest.mark.parametrize(
    ("moments", "most", "begun"),
    [
        ((), 3, [0, 100, 500]),
        ((), 1, [100]),  # the longest
        ((505,), 1, [500]),
        ((300,), 1, [100]),  # it is within it
        ((12, 505), 2, [0, 500]),
        ((450,), 2, [100, 500]),
    ],
)
def test_those_nearest_to_a_moment_are_kept_in_their_order(
    moments: tuple[int, ...], most: int, begun: list[int]
) -> None:
    found = operations_of({"p0": STORY}, moments, END_NS, most)
    assert (kept(found), found.total) == (begun, 3)


def test_operations_at_the_same_time_have_rows_of_their_own_and_a_free_one_is_used_again() -> None:
    story = [*operation(0, 0, 50), *operation(1, 10, 20), *operation(2, 20, 60)]
    found = operations_of({"p0": story}, (), END_NS)
    assert [each.row for each in found.shown] == [0, 1, 1]
    assert found.rows_by_process == {"p0": 2}


def test_a_process_has_few_rows_whatever_it_has_in_flight() -> None:
    story = [each for number in range(50) for each in operation(number, number, None)]
    found = operations_of({"p0": story}, (), END_NS)
    assert found.rows_by_process == {"p0": MOST_ROWS}
    assert len(found.shown) == 50


@pytest.mark.parametrize(
    ("story", "outcome", "text"),
    [
        (
            operation(7, 0, 5, offset=3),
            "acknowledged",
            "p0's send 7 of t-0: acknowledged at offset 3",
        ),
        (
            operation(7, 0, 5, offset=3, tries=2),
            "acknowledged",
            "p0's send 7 of t-0: acknowledged at offset 3, sent 2 times",
        ),
        (operation(7, 0, 5, "ok"), "acknowledged", "p0's send 7 of t-0: acknowledged"),
        (
            operation(7, 0, 5, "fail", error="NOT_ENOUGH_REPLICAS"),
            "failed",
            "p0's send 7 of t-0: failed, NOT_ENOUGH_REPLICAS",
        ),
        (operation(7, 0, 5, "info"), "unknown", "p0's send 7 of t-0: unknown"),
        (operation(7, 0, None), "unknown", "p0's send 7 of t-0: no outcome was recorded"),
    ],
)
def test_an_operation_is_told_with_its_outcome(
    story: list[HistoryEvent], outcome: str, text: str
) -> None:
    (found,) = operations_of({"p0": story}, (), END_NS).shown
    assert (found.outcome, found.text) == (outcome, text)


def test_reads_have_no_begin_and_commits_have_no_partition_to_need() -> None:
    read = event(OperationType.OK, 0, 5, process="c0", function=POLL)
    commit = [
        event(kind, 1, at, process="g0", function=COMMIT, topic="", partition=-1)
        for kind, at in ((OperationType.INVOKE, 3), (OperationType.OK, 9))
    ]
    found = operations_of({"c0": [read], "g0": commit}, (), END_NS)
    assert [each.text for each in found.shown] == ["g0's commit 1: acknowledged"]


def test_damaged_histories_are_shown_as_far_as_they_go() -> None:
    orphan = event(OperationType.OK, 9, 4)
    backwards = operation(1, 100, 50)
    found = operations_of({"p0": [orphan, *backwards]}, (70,), END_NS)
    assert [(each.begin_s, each.end_s) for each in found.shown] == [(1e-7, 1e-7)]
