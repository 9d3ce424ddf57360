"""I9, nonmonotonic-poll: consumers leave their offsets only where a leader's log lacked them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from highwater_checker.history import ASSIGNED, POLL, RESET, HistoryEvent, OperationType
from highwater_checker.invariants.going_on import HANDED_OVER_NS, check_going_on
from highwater_checker.leaders_logs import LeadersLogs
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicPartition

OK, FAIL = OperationType.OK, OperationType.FAIL
SECOND_NS = 1_000_000_000
START_NS = 1_000 * SECOND_NS
AT = TopicPartition("t", 0)
LED, APPENDED = EventKind.BECAME_LEADER, EventKind.LOG_APPENDED
MOVED, FOLLOWED = EventKind.LOG_START_MOVED, EventKind.BECAME_FOLLOWER


def told(at_s: float, function: str, offset: int, kind: OperationType = OK) -> HistoryEvent:
    error = "OFFSET_OUT_OF_RANGE" if kind is FAIL else ""
    return HistoryEvent(
        int(at_s * SECOND_NS), kind, int(at_s), "c0", function, "t", 0, f"v{offset}", offset, error
    )


def read(*offsets: int, since_s: int = 10) -> list[HistoryEvent]:
    """The consumer reads one record a second."""
    return [told(since_s + number, POLL, offset) for number, offset in enumerate(offsets)]


def refused(at_s: float, offset: int) -> list[HistoryEvent]:
    """The consumer is refused its offset, and goes to the log's start."""
    return [told(at_s, POLL, offset, FAIL), told(at_s + 0.1, RESET, 0)]


def traced(at_s: float, kind: EventKind, offset: int, node: int = 0, start: int = 1) -> TraceEvent:
    detail = {"end_offset": offset + 1} if kind is APPENDED else {}
    ts_ns = START_NS + int(at_s * SECOND_NS)
    return TraceEvent(ts_ns, node, start, 0, kind, "t", 0, 0, offset=offset, detail=detail)


def growing(*offsets: int, node: int = 0, since_s: float = 9.9) -> list[TraceEvent]:
    """The leader appends one record a second, just before the consumer reads it."""
    return [traced(since_s + number, APPENDED, each, node) for number, each in enumerate(offsets)]


ONE_LEADER = [traced(1, LED, 0), *growing(0, 1, 2, 3)]
THREE = read(0, 1, 2)
BACK = [*THREE, *read(0, 1, since_s=14)]
REFUSED = [*THREE, *refused(13, 3), *read(0, 1, since_s=14)]


def found(
    history: Sequence[HistoryEvent],
    traces: Sequence[TraceEvent],
    start_ns: int | None = START_NS,
    log_start: int = 0,
) -> list[tuple[str, int]]:
    result = check_going_on([history], lambda: LeadersLogs(traces, start_ns, {AT: log_start}))
    return [(each.invariant, each.offset) for each in result.findings]


def test_who_goes_on_is_no_finding_and_asks_for_no_trace() -> None:
    def nothing() -> LeadersLogs:
        raise AssertionError

    result = check_going_on([read(0, 1, 5, 6)], nothing)
    assert (result.examined, result.findings) == (4, ())


@pytest.mark.parametrize("start_ns", [START_NS, None])
def test_a_step_back_without_cause_is_found_once(start_ns: int | None) -> None:
    """Found: a hundred records were read twice in the middle of a run, and it passed."""
    assert found(BACK, ONE_LEADER, start_ns) == [("nonmonotonic-poll", 3)]


@pytest.mark.parametrize("start_ns", [START_NS, None])
def test_a_refusal_without_cause_is_found_once(start_ns: int | None) -> None:
    """Found: brokers that called offsets of their logs out of range made consumers begin anew."""
    assert found(REFUSED, ONE_LEADER, start_ns) == [("I9", 3)]
    assert found(REFUSED[:4], ONE_LEADER, start_ns) == [("I9", 3)]  # it reads no further
    reset_alone = [each for each in REFUSED if each.type is OK]
    assert found(reset_alone, ONE_LEADER, start_ns) == [("I9", 3)]


def test_a_log_start_above_the_offset_is_a_cause_from_when_it_moved_on() -> None:
    for move_s, is_cause in ((5, True), (13, True), (20, False)):
        traces = [*ONE_LEADER, traced(move_s, MOVED, 4)]
        assert found(REFUSED, traces) == ([] if is_cause else [("I9", 3)])
        assert found(BACK, traces) == ([] if is_cause else [("nonmonotonic-poll", 3)])
    assert found(REFUSED, [*ONE_LEADER, traced(5, MOVED, 3)]) == [("I9", 3)]


def test_a_log_start_that_no_trace_tells_of_may_have_moved_at_any_time() -> None:
    assert found(REFUSED, ONE_LEADER, log_start=4) == []
    assert found(REFUSED, [*ONE_LEADER, traced(20, MOVED, 4)], log_start=4) == [("I9", 3)]


NEXT_LEADS = [traced(12.9, LED, 3, node=1)]


def test_a_next_leader_with_a_shorter_log_is_a_cause_and_one_with_all_is_none() -> None:
    shorter = [traced(12.9, LED, 2, node=1), *growing(2, 3, 4, node=1, since_s=12.95)]
    assert found(REFUSED, [*ONE_LEADER, *shorter]) == []
    assert found(BACK, [*ONE_LEADER, *shorter]) == []
    assert found(REFUSED, [*ONE_LEADER, *NEXT_LEADS]) == [("I9", 3)]


def test_a_deposed_leader_with_a_shorter_log_is_a_cause_until_it_follows() -> None:
    deposed = [traced(1, LED, 0), *growing(0), traced(20, FOLLOWED, 1)]
    leads = [traced(5, LED, 1, node=1), *growing(1, 2, 3, node=1, since_s=10.9)]
    assert found(REFUSED, [*deposed, *leads]) == []
    follows = [traced(1, LED, 0), *growing(0, since_s=2), traced(4, FOLLOWED, 1)]
    assert found(REFUSED, [*follows, *leads]) == [("I9", 3)]


def test_a_leader_that_was_started_again_leads_no_more() -> None:
    killed = [traced(1, LED, 0), *growing(0, since_s=2)]
    again = traced(4, EventKind.NODE_STARTED, 0, start=2)
    leads = [traced(5, LED, 1, node=1), *growing(1, 2, 3, node=1, since_s=10.9)]
    assert found(REFUSED, [*killed, *leads]) == []
    assert found(REFUSED, [*killed, again, *leads]) == [("I9", 3)]


def test_nothing_is_found_where_nobody_can_tell() -> None:
    deleted = replace(traced(5, EventKind.TOPIC_DELETED, 0), node=1000)
    assert found(REFUSED, []) == []
    assert found(REFUSED, [*ONE_LEADER, deleted]) == []
    assert found(REFUSED, [*ONE_LEADER, *NEXT_LEADS], None) == []
    assert found(REFUSED, ONE_LEADER[:3], None) == []  # its log never came so far
    assert found([told(13, POLL, -1, FAIL), *BACK[:1]], ONE_LEADER) == []


def test_records_that_a_stock_client_kept_may_be_older() -> None:
    kept_s = HANDED_OVER_NS / SECOND_NS - 1
    late = [replace(each, time_ns=each.time_ns + int(kept_s * SECOND_NS)) for each in BACK]
    shorter = [traced(13, LED, 2, node=1), *growing(2, 3, 4, node=1, since_s=13.5)]
    assert found(late, [*ONE_LEADER, *shorter]) == []


def test_a_member_goes_on_where_it_is_assigned_and_what_it_reads_again_is_not_judged_here() -> None:
    first, second = (replace(told(at_s, ASSIGNED, 0), operation_id=at_s) for at_s in (9, 14))
    assert found([first, *THREE, second, *read(0, since_s=15)], ONE_LEADER) == []
    assert found([first, *BACK], ONE_LEADER) == []  # I22's
    assert found([first, *REFUSED], ONE_LEADER) == [("I9", 3)]
